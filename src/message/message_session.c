/* message_session.c - the names of a session's states. */
#include "message/message_check.h"

const char *const pal_session_state_names[PAL_SESSION_STATES] = {
        "none", "active", "trash", "quarantined", "erased"};

const char *pal_session_state_name(pal_session_state state)
{
    return pal_session_state_names[(unsigned)state < PAL_SESSION_STATES ? state : PAL_SESSION_NONE];
}

pal_session_state pal_session_state_from_name(pal_str name)
{
    for (unsigned i = 1; i < PAL_SESSION_STATES; i++) {
        if (pal_str_is(name, pal_session_state_names[i]))
            return (pal_session_state)i;
    }
    return PAL_SESSION_NONE;
}
