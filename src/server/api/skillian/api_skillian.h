/* api_skillian.h - a message and its answer in one request, for clients of Skillian. */
#ifndef PAL_API_SKILLIAN_H
#define PAL_API_SKILLIAN_H

#include "server/server.h"

/* Whether a request that creates a session contains a message. */
bool pal_api_session_has_message(const pal_call *call);

/* Creates the session and answers the message. `session` is in the call's arena. */
PAL_CHECKED pal_status pal_api_session_chat(
        pal_call *call, const pal_session *session, pal_error *err);

#endif
