/* transfer_export.c - implements transfer_export.h. */
#include "palaver/store_records.h"
#include "transfer/transfer_export.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_skillian.h"
#include "dialect/openai/openai_chat.h"
#include "dialect/transcript/transcript.h"
#include "transfer/transfer_export_agent.h"

#define PAGE 500

static bool is_for_agent(const pal_export *export)
{
    return export->form >= PAL_EXPORT_CLAUDE_CODE;
}

bool pal_export_form_from_name(pal_str name, pal_export_form *out_form)
{
    static const char *const names[] = {
            "native", "openai", "skillian", "claude-code", "codex", "markdown", "html"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!pal_str_is(name, names[i]))
            continue;
        *out_form = (pal_export_form)i;
        return true;
    }
    return false;
}

/* ---- Before the messages ---- */

static pal_status begin_native(
        pal_export *export, const pal_session *session, pal_buf *out, pal_error *err)
{
    pal_mark *marks;
    pal_status status = pal_store_marks(export->store, export->tenant, session->id, export->arena,
            &marks, &export->marks_len, err);
    if (status != PAL_OK)
        return status;
    export->marks = marks;
    export->marks_at = 0;
    export->fork_seq = session->fork_seq;
    return pal_transcript_write_session(out, session, err);
}

pal_status pal_export_begin(
        pal_export *export, const pal_session *session, pal_buf *out, pal_error *err)
{
    export->arena = pal_arena_new(0);
    export->session = session->id;
    export->after_seq = 0;
    export->is_alone = false;
    export->questions = 0;
    if (!export->arena)
        return pal_no_memory(err);
    if (export->form == PAL_EXPORT_NATIVE)
        return begin_native(export, session, out, err);
    if (is_for_agent(export)) {
        pal_export_agent_begin(export, session, out);
        return pal_arena_checked(export->arena, err);
    }
    if (export->form == PAL_EXPORT_SKILLIAN) {
        export->writer = pal_json_writer_make(out);
        pal_skillian_row_begin(&export->writer, session);
    } else {
        export->writer = pal_json_writer_make(out);
        pal_json_begin_object(&export->writer);
        pal_json_name(&export->writer, "messages");
        pal_json_begin_array(&export->writer);
    }
    return PAL_OK;
}

void pal_export_end(pal_export *export)
{
    pal_arena_free(export->arena);
    pal_arena_free(export->page_arena);
    export->arena = export->page_arena = NULL;
}

/* ---- Messages and marks ---- */

static pal_status fill_blobs(pal_export *export, pal_part *parts, size_t parts_len, pal_error *err)
{
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < parts_len; i++) {
        pal_str media_type;
        if (parts[i].blob.len && !export->with_blobs)
            export->blobs_left++;
        else if (parts[i].blob.len)
            status = pal_store_blob_get(export->store, export->tenant, parts[i].blob,
                    export->page_arena, &media_type, &parts[i].data, err);
        if (status == PAL_OK && parts[i].parts_len)
            status = fill_blobs(export, parts[i].parts, parts[i].parts_len, err);
    }
    return status;
}

/* Writes the marks that were made before the message `seq`. Marks that a fork inherits come before
 * the fork's first own message, whatever messages its parent had by then. */
static pal_status put_marks_before(pal_export *export, uint64_t seq, pal_buf *out, pal_error *err)
{
    pal_status status = PAL_OK;
    for (; status == PAL_OK && export->marks_at < export->marks_len; export->marks_at++) {
        pal_mark mark = export->marks[export->marks_at];
        if (mark.inherited && mark.through_seq > export->fork_seq)
            mark.through_seq = export->fork_seq;
        if (mark.through_seq >= seq)
            break;
        status = pal_transcript_write_mark(out, &mark, err);
    }
    return status;
}

static pal_status put_message(
        pal_export *export, pal_message *message, pal_buf *out, pal_error *err)
{
    pal_status status = fill_blobs(export, message->parts, message->parts_len, err);
    export->after_seq = message->seq;
    export->messages++;
    export->questions += message->role == PAL_ROLE_USER;
    if (status == PAL_OK && is_for_agent(export))
        return pal_export_agent_message(export, message, out, err);
    if (status == PAL_OK && export->form == PAL_EXPORT_OPENAI)
        return pal_openai_chat_put(&export->writer, message, err);
    if (status == PAL_OK && export->form == PAL_EXPORT_SKILLIAN) {
        pal_skillian_message_put(&export->writer, message, export->page_arena);
        return PAL_OK;
    }
    if (status != PAL_OK)
        return status;
    status = put_marks_before(export, message->seq, out, err);
    return status == PAL_OK ? pal_transcript_write_message(out, message, err) : status;
}

static pal_status load_page(pal_export *export, pal_message_page *out_page, pal_error *err)
{
    pal_message_query load = {.after_seq = export->after_seq,
            .limit = export->is_alone || export->with_blobs ? 1 : PAGE,
            .bytes_max = export->is_alone ? 0 : PAL_TRANSFER_PAGE_BYTES,
            .hidden = export->form == PAL_EXPORT_NATIVE};
    return pal_store_load(export->store, export->tenant, export->session, &load, export->page_arena,
            out_page, err);
}

static pal_status finish(pal_export *export, pal_buf *out, pal_error *err)
{
    if (export->form == PAL_EXPORT_NATIVE)
        return put_marks_before(export, UINT64_MAX, out, err);
    if (export->form == PAL_EXPORT_HTML)
        pal_export_html_end(out);
    if (is_for_agent(export))
        return PAL_OK;
    pal_json_end_array(&export->writer);
    if (export->form == PAL_EXPORT_SKILLIAN) {
        pal_json_end_object(&export->writer);
        pal_put_count(&export->writer, "message_count", export->questions);
    }
    pal_json_end_object(&export->writer);
    pal_buf_append_char(out, '\n');
    return PAL_OK;
}

pal_status pal_export_page(pal_export *export, pal_buf *out, bool *out_more, pal_error *err)
{
    pal_message_page page;
    export->page_arena = pal_arena_new(0);
    export->writer.buf = out;
    pal_status status = export->page_arena ? load_page(export, &page, err) : pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && i < page.len; i++)
        status = put_message(export, &page.items[i], out, err);
    if (status == PAL_OK) {
        export->is_alone = page.has_more && page.len == 0;
        *out_more = page.has_more;
        status = page.has_more ? PAL_OK : finish(export, out, err);
    }
    pal_arena_free(export->page_arena);
    export->page_arena = NULL;
    return status == PAL_OK && out->failure ? pal_error_set(err, out->failure, "out of memory")
                                            : status;
}
