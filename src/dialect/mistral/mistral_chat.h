/* mistral_chat.h - the messages of Mistral's chat completions. They are like OpenAI's, but
 * their content has the chunks of Mistral's entries. Pure functions that use only the caller's
 * memory: any thread. */
#ifndef PAL_MISTRAL_CHAT_H
#define PAL_MISTRAL_CHAT_H

#include <stddef.h>
#include "base/json/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"

#define PAL_MISTRAL_CHAT_MESSAGES_MAX 10000 /* messages in one request */

/* Reads "messages", an array, into the arena. Errors name the place: "messages[2]". */
PAL_CHECKED pal_status pal_mistral_chat_read(pal_json value, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

#endif
