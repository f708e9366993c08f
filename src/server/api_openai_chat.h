/* api_openai_chat.h - a chat completion that is a turn of a session: what was asked, and its answer
 * as it becomes. */
#ifndef PAL_API_OPENAI_CHAT_H
#define PAL_API_OPENAI_CHAT_H

#include "server/server.h"

typedef struct pal_openai_chat {
    pal_call *call;
    pal_turn_request request; /* in the call's arena */
    bool is_stream;
    bool has_usage_chunk;
    bool is_passing; /* the session is there for this turn only */
} pal_openai_chat;

/* Runs the turn and answers the call, with a whole completion or with chunks. Where the client
 * leaves, the turn is stopped, and nothing of it is kept. From any thread. */
PAL_CHECKED pal_status pal_openai_chat_run(const pal_openai_chat *chat, pal_error *err);

#endif
