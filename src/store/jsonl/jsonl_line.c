/* jsonl_line.c - converts a stored row to a line of PicoClaw's format and back.
 *
 * A line contains everything of its row except the seq, which is the line's position. Lines that
 * PicoClaw wrote have no id. Their id is derived from the session's id, the position and the line
 * itself, so that every process that reads the file derives the same id. */
#include "base/digest.h"
#include "base/memory.h"
#include "dialect/native/native.h"
#include "dialect/picoclaw/picoclaw.h"
#include "store/jsonl/jsonl.h"
#include "store/store_prepare.h"
#include "store/view/view.h"

pal_status pal_jsonl_line_write(pal_buf *buf, const pal_row *row, pal_arena *arena, pal_error *err)
{
    size_t before = buf->len;
    pal_message message;
    pal_status status = pal_view_decode(row, arena, &message, err);

    if (status != PAL_OK)
        return status;
    message.seq = 0;
    pal_picoclaw_line_write(buf, &message);
    pal_buf_append_char(buf, '\n');
    if (buf->failure)
        return pal_error_set(
                err, buf->failure, "the messages are too large, or there is no memory");
    if (buf->len - before <= PAL_PICOCLAW_LINE_MAX)
        return PAL_OK;
    status = pal_error_set(err, PAL_LIMIT,
            "a message whose line has %zu bytes exceeds the limit of %u", buf->len - before,
            PAL_PICOCLAW_LINE_MAX);
    buf->len = before;
    return status;
}

pal_status pal_jsonl_row_of(const pal_store_options *options, const pal_message *message,
        pal_arena *arena, pal_row *out_row, pal_error *err)
{
    pal_row row = {.id = message->id,
            .role = message->role,
            .flags = message->flags,
            .created_at = message->created_at,
            .client_id = message->client_id,
            .turn_id = message->turn_id,
            .is_text = pal_native_is_plain(message)};
    pal_status status = pal_store_count_tokens(options, message, &row.tokens, err);
    pal_buf body;

    if (status != PAL_OK)
        return status;
    if (row.flags & PAL_MESSAGE_FLAG_ERASED)
        row.tokens = 0;
    pal_buf_init(&body, PAL_BATCH_BYTES_MAX);
    if (row.is_text && message->parts) {
        row.body = message->parts[0].text;
    } else {
        pal_native_body_write(&body, message);
        row.body = pal_arena_copy(arena, pal_buf_str(&body));
        status = body.failure ? body.failure : pal_arena_failure(arena);
    }
    pal_buf_done(&body);
    if (status != PAL_OK)
        return pal_error_set(err, status, "out of memory");
    *out_row = row;
    return PAL_OK;
}

pal_status pal_jsonl_id_of(const char *kind, pal_str text, pal_id *out_id, pal_error *err)
{
    uint8_t digest[PAL_SHA256_SIZE];
    pal_buf buf;
    pal_status status;

    pal_buf_init(&buf, SIZE_MAX / 2);
    pal_buf_append_text(&buf, kind);
    pal_buf_append_char(&buf, '\n');
    pal_buf_append_str(&buf, text);
    status = buf.failure ? buf.failure : pal_sha256(pal_buf_str(&buf), digest);
    pal_buf_done(&buf);
    if (status != PAL_OK)
        return pal_no_memory(err);
    memcpy(out_id->bytes, digest, sizeof out_id->bytes);
    out_id->bytes[6] = (uint8_t)((out_id->bytes[6] & 0x0f) | 0x80);
    out_id->bytes[8] = (uint8_t)((out_id->bytes[8] & 0x3f) | 0x80);
    return PAL_OK;
}

static pal_status foreign_id(pal_str line, pal_id session, uint64_t seq, pal_arena *arena,
        pal_id *out_id, pal_error *err)
{
    size_t len = sizeof session.bytes + sizeof seq + line.len;
    char *text = pal_arena_alloc(arena, len);

    if (!text)
        return pal_no_memory(err);
    memcpy(text, session.bytes, sizeof session.bytes);
    for (size_t i = 0; i < sizeof seq; i++)
        text[sizeof session.bytes + i] = (char)(seq >> (8 * i));
    if (line.len > 0)
        memcpy(text + sizeof session.bytes + sizeof seq, line.data, line.len);
    return pal_jsonl_id_of("line", pal_str_make(text, len), out_id, err);
}

pal_status pal_jsonl_line_read(const pal_store_options *options, pal_str line, pal_id session,
        uint64_t seq, int64_t otherwise_ms, pal_arena *arena, pal_row *out_row, pal_error *err)
{
    pal_message message = {0};
    pal_status status = line.len > PAL_PICOCLAW_LINE_MAX
            ? pal_error_set(err, PAL_INVALID, "a line of %zu bytes exceeds the limit", line.len)
            : pal_picoclaw_line_read(line, arena, &message, err);

    if (status != PAL_OK)
        return status;
    if (message.created_at == 0)
        message.created_at = otherwise_ms;
    if (pal_id_is_none(message.id))
        status = foreign_id(line, session, seq, arena, &message.id, err);
    if (status == PAL_OK)
        status = pal_jsonl_row_of(options, &message, arena, out_row, err);
    return status;
}
