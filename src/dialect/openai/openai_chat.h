/* openai_chat.h - the messages of OpenAI's chat completions, and of the many services that
 * use the same format.
 *
 * Values of a message that have no counterpart (a "developer" role, a sender's name, an image's
 * detail, unknown members) are kept in `extra`, in the member "openai", and are written back from
 * there. Other members of `extra` are never written, because services reject unknown members. Pure
 * functions that use only the caller's memory: any thread. */
#ifndef PAL_OPENAI_CHAT_H
#define PAL_OPENAI_CHAT_H

#include <stddef.h>
#include "base/json/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/str.h"

#define PAL_OPENAI_CHAT_MESSAGES_MAX 1000000 /* messages in one text */

/* Reads one message object, an array of them, or {"messages":[...]}, into the arena. Other members
 * of that object are ignored. The content of data: URLs is returned in part.data. Texts point into
 * the parsed text or the arena. */
PAL_CHECKED pal_status pal_openai_chat_read(pal_json value, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* Writes a JSON array into the arena. Each tool result becomes a tool message, before the other
 * content of its message. Signatures, flags, ids, times and usage are left out, because the format
 * cannot express them. An image or a file that is only a blob becomes a line of text that names it.
 * To send its content, set part.data first (pal_store_blob_get()). */
PAL_CHECKED pal_status pal_openai_chat_write(const pal_message *messages, size_t messages_len,
        pal_arena *arena, pal_str *out_json, pal_error *err);

/* Writes the objects of one message, none to many, into the array that is being written. */
PAL_CHECKED pal_status pal_openai_chat_put(
        pal_json_writer *writer, const pal_message *message, pal_error *err);

/* ---- Answers, as an object or as the chunks of a stream (openai_chat_answer.c) ---- */

/* Reads the first choice of a completion, {"choices":[{"message":{...}}],"model":...}, into the
 * arena. PAL_INVALID: it is not such an object. */
PAL_CHECKED pal_status pal_openai_chat_answer_read(
        pal_str json, pal_arena *arena, pal_message *out_message, pal_error *err);

/* Joins the chunks of a complete stream to the completion that the same request would have returned
 * without a stream, with its first choice only. PAL_INVALID: the stream has no end, or a chunk is
 * not JSON. */
PAL_CHECKED pal_status pal_openai_chat_answer_join(
        pal_str stream, pal_arena *arena, pal_str *out_json, pal_error *err);

#endif
