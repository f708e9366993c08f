/* message_session.c - the names of a session's states. */
#include "palaver/session.h"

static const char *const state_names[] = {"none", "active", "trash", "quarantined", "erased"};

#define STATE_COUNT (sizeof(state_names) / sizeof(state_names[0]))

const char *pal_session_state_name(pal_session_state state)
{
    return state_names[(unsigned)state < STATE_COUNT ? state : PAL_SESSION_NONE];
}

pal_session_state pal_session_state_from_name(pal_str name)
{
    for (unsigned i = 1; i < STATE_COUNT; i++) {
        if (pal_str_is(name, state_names[i]))
            return (pal_session_state)i;
    }
    return PAL_SESSION_NONE;
}
