/* dialect_openai_chat.h - the messages of OpenAI's chat completions and of the many services that
 * speak like it.
 *
 * What a message says beyond our own fields (a "developer" role, a sender's name, an image's
 * detail, members that nobody knows) is kept in `extra` under the one member "openai", and written
 * back from there. Other members of `extra` are never written: services refuse what they don't
 * know. Pure functions over the caller's memory: any thread may call them. */
#ifndef PAL_DIALECT_OPENAI_CHAT_H
#define PAL_DIALECT_OPENAI_CHAT_H

#include <stddef.h>
#include "base/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"

#define PAL_OPENAI_CHAT_MESSAGES_MAX 1000000 /* in one text */

/* What a sender may nest: our own form adds a few levels to it (PAL_MESSAGE_DEPTH_MAX). */
#define PAL_OPENAI_CHAT_DEPTH_MAX 128

/* Reads one message object, an array of them, or {"messages":[...]}, whose other members are
 * ignored. Everything lies in the arena. The bytes of data: URLs come back in part.data. */
PAL_CHECKED pal_status pal_openai_chat_read(pal_str json, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* The same from a parsed value; views borrow from the parsed text or lie in the arena. */
PAL_CHECKED pal_status pal_openai_chat_read_value(pal_json value, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* Writes a JSON array into the arena. Tool results become a tool message each, before what else
 * their message says. Left out, because the form has no place for them: signatures, flags, ids,
 * times, usage. An image or file that is only a blob becomes a line of text that names it, so give
 * part.data its bytes first (pal_store_blob_get) where they are wanted. */
PAL_CHECKED pal_status pal_openai_chat_write(const pal_message *messages, size_t messages_len,
        pal_arena *arena, pal_str *out_json, pal_error *err);

/* Writes the objects of one message, none to many, into the array being written. */
PAL_CHECKED pal_status pal_openai_chat_put(
        pal_json_writer *writer, const pal_message *message, pal_error *err);

#endif
