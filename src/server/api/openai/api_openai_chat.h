/* api_openai_chat.h - a chat completion that runs as a turn of a session. */
#ifndef PAL_API_OPENAI_CHAT_H
#define PAL_API_OPENAI_CHAT_H

#include "server/server.h"

typedef struct pal_openai_chat {
    pal_call *call;
    pal_turn_request request; /* in the call's arena */
    bool is_stream;
    bool has_usage_chunk;
    uint64_t n; /* number of answers; only 1 is possible */
    bool is_passing; /* the session is temporary and exists for this turn only */
} pal_openai_chat;

/* Runs the turn and answers the call with a complete object or with chunks. If the client leaves,
 * the turn is stopped and its messages are removed. Can be called from any thread. */
PAL_CHECKED pal_status pal_openai_chat_run(const pal_openai_chat *chat, pal_error *err);

#endif
