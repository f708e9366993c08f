/* dialect.h - reads and writes messages in the formats of other APIs. Pure functions that use only
 * the caller's memory: they can be called from any thread. docs/messages.md describes the native
 * format. */
#ifndef PALAVER_DIALECT_H
#define PALAVER_DIALECT_H

#include <stddef.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pal_dialect {
    PAL_DIALECT_NATIVE = 0,       /* an array of messages in the native format */
    PAL_DIALECT_OPENAI_CHAT = 1,  /* "messages" of OpenAI's chat completions */
    PAL_DIALECT_ANTHROPIC = 2,    /* {"system":[...],"messages":[...]} of Anthropic's API */
    PAL_DIALECT_MISTRAL_CHAT = 3, /* "messages" of Mistral's chat completions */
} pal_dialect;

/* Reads one message object, an array of them, or an object with the member "messages", into the
 * arena. One message of a format can become several messages here, for example if it contains both
 * text and tool results. Members that have no counterpart are kept in `extra`. PAL_INVALID: `err`
 * names the place. */
PAL_API PAL_CHECKED pal_status pal_dialect_read(pal_dialect dialect, pal_str json, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* Writes messages as JSON into the arena. The formats of other APIs cannot express ids, times,
 * flags and usage. An image or a file that is only a blob becomes a line of text that names it. To
 * send its content, set part.data first (pal_store_blob_get()). */
PAL_API PAL_CHECKED pal_status pal_dialect_write(pal_dialect dialect, const pal_message *messages,
        size_t messages_len, pal_arena *arena, pal_str *out_json, pal_error *err);

/* Returns the name: "native", "openai", "anthropic" or "mistral". */
PAL_API const char *pal_dialect_name(pal_dialect dialect);
/* Sets *out_dialect. Returns false if there is no dialect of that name. */
PAL_API bool pal_dialect_from_name(pal_str name, pal_dialect *out_dialect);

#ifdef __cplusplus
}
#endif
#endif
