/* dialect_mistral_chat.h - the messages of Mistral's chat completions. They are like OpenAI's, with
 * the chunks of Mistral's entries as their content. Pure functions over the caller's memory: any
 * thread may call them. */
#ifndef PAL_DIALECT_MISTRAL_CHAT_H
#define PAL_DIALECT_MISTRAL_CHAT_H

#include <stddef.h>
#include "base/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"

#define PAL_MISTRAL_CHAT_MESSAGES_MAX 10000 /* in one request */

/* Reads "messages", an array. Errors name the place: "messages[2]". Everything lies in the arena.
 */
PAL_CHECKED pal_status pal_mistral_chat_read(pal_json value, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

#endif
