/* api_skillian.h - a message and its answer in one request, as Skillian's clients ask for it. */
#ifndef PAL_API_SKILLIAN_H
#define PAL_API_SKILLIAN_H

#include "server/server.h"

/* Whether a request that makes a session has a message for it. */
bool pal_api_session_has_message(const pal_call *call);

/* Makes the session and answers the message. `session` lies in the call's arena. */
PAL_CHECKED pal_status pal_api_session_chat(
        pal_call *call, const pal_session *session, pal_error *err);

#endif
