/* server_export.h - one session as lines of JSON, a page at a time, so that none of it has to be in
 * memory at once. For the command and for the server; one thread at a time.
 *
 * The native form is complete: the session, all messages, hidden ones too, and the marks, each
 * behind the messages that were there when it was made, so that an import can make them again. The
 * openai form has the messages in sight, whatever a checkpoint or a prune leaves of them for the
 * model: {"messages":[...]} in one line. The skillian form has them as a row of its table, {"id",
 * "created_at","last_accessed","conversation_data","message_count"} in one line; texts and tools
 * only. */
#ifndef PAL_SERVER_EXPORT_H
#define PAL_SERVER_EXPORT_H

#include "base/buf.h"
#include "base/json.h"
#include "palaver/store.h"

typedef enum pal_export_form {
    PAL_EXPORT_NATIVE = 0,
    PAL_EXPORT_OPENAI = 1,
    PAL_EXPORT_SKILLIAN = 2,
} pal_export_form;

#define PAL_EXPORT_FORMS "native, openai or skillian" /* for messages */
/* By its name; false leaves *out_form untouched. */
bool pal_export_form_from_name(pal_str name, pal_export_form *out_form);

typedef struct pal_export {
    /* Filled by the caller; the rest is zero. */
    pal_store *store;
    pal_str tenant;
    pal_export_form form;
    bool with_blobs; /* the bytes of images and files come along, as base64 */
    /* What has been written, over all sessions. */
    uint64_t messages;
    uint64_t blobs_left; /* images and files that were left out */
    /* The export's own. */
    pal_arena *arena;      /* of the session */
    pal_arena *page_arena; /* of one page */
    pal_id session;
    uint64_t fork_seq;
    uint64_t after_seq; /* of the last message that was written */
    uint64_t questions; /* messages of the user that were written */
    bool is_alone;      /* the next message is over a page's bytes: it is a page by itself */
    pal_json_writer writer;
    const pal_mark *marks;
    size_t marks_len;
    size_t marks_at; /* the next one to write */
} pal_export;

/* Writes what comes before the messages. End it in any case. */
PAL_CHECKED pal_status pal_export_begin(
        pal_export *export, const pal_session *session, pal_buf *out, pal_error *err);
/* Writes some messages; *out_more is false after the last, when all else is written too. */
PAL_CHECKED pal_status pal_export_page(
        pal_export *export, pal_buf *out, bool *out_more, pal_error *err);
/* Keeps the counts; another session may begin. */
void pal_export_end(pal_export *export);

#endif
