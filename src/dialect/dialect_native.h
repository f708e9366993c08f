/* dialect_native.h - the native JSON form of messages, sessions and marks: docs/messages.md and
 * docs/sessions.md. It can express all that the structs can; what it does not know it keeps.
 *
 * Pure functions over the caller's memory: any thread may call them. */
#ifndef PAL_DIALECT_NATIVE_H
#define PAL_DIALECT_NATIVE_H

#include "base/buf.h"
#include "base/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/session.h"
#include "palaver/store.h"
#include "palaver/str.h"

#define PAL_MESSAGE_PARTS_MAX 4096 /* in one message, and in one tool result */

/* What a sender may nest. Far below PAL_JSON_DEPTH_MAX, so that a text that was wrapped on its way
 * in can always be read again. */
#define PAL_MESSAGE_DEPTH_MAX 256

/* Whether the native form can express the message: known role and kinds, `extra` a JSON object
 * without members of our own, no more parts than allowed, no tool_result inside a tool_result.
 * Call it on what a program hands in, before pal_native_body_write(): an `extra` that is not JSON
 * would spoil the whole body. Costs next to nothing where nothing is extra. */
PAL_CHECKED pal_status pal_native_message_check(const pal_message *message, pal_error *err);

/* Whether the message is one part of plain text and nothing else that a body would say: then the
 * store keeps the text itself. */
bool pal_native_is_plain(const pal_message *message);

/* The stored form: the JSON object without id, seq, role, flags, tokens, created_at, client_id and
 * the bytes of images and files. */
void pal_native_body_write(pal_buf *buf, const pal_message *message);

/* Fills parts, parent_id, model, usage and extra, and leaves the rest of *message as it is. What
 * it fills in lies in the arena, none of it in `body`. PAL_INVALID for a damaged body. */
PAL_CHECKED pal_status pal_native_body_read(
        pal_str body, pal_arena *arena, pal_message *message, pal_error *err);

/* One object each, as a value of what is being written. The message's form carries the bytes of
 * images and files too, where the part has them. */
PAL_CHECKED pal_status pal_native_message_put(
        pal_json_writer *writer, const pal_message *message, pal_error *err);
PAL_CHECKED pal_status pal_native_session_put(
        pal_json_writer *writer, const pal_session *session, pal_error *err);
PAL_CHECKED pal_status pal_native_mark_put(
        pal_json_writer *writer, const pal_mark *mark, pal_error *err);

/* From a parsed value; views borrow from the parsed text or lie in the arena. */
PAL_CHECKED pal_status pal_native_message_read(
        pal_json value, pal_arena *arena, pal_message *out_message, pal_error *err);
PAL_CHECKED pal_status pal_native_session_read(
        pal_json value, pal_arena *arena, pal_session *out_session, pal_error *err);
PAL_CHECKED pal_status pal_native_mark_read(
        pal_json value, pal_arena *arena, pal_mark *out_mark, pal_error *err);

const char *pal_mark_kind_name(pal_mark_kind kind); /* "rewind"; "none" for anything unknown */
pal_mark_kind pal_mark_kind_from_name(pal_str name);

#endif
