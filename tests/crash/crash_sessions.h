/* crash_sessions.h - the sessions that the script uses, with fixed ids. */
#ifndef PAL_TESTS_CRASH_SESSIONS_H
#define PAL_TESTS_CRASH_SESSIONS_H

#include "crash_pattern.h"

typedef enum script_session {
    SCRIPT_A = 0,
    SCRIPT_B,
    SCRIPT_B_AGAIN,
    SCRIPT_C,
    SCRIPT_FORK,
    SCRIPT_LAST,
    SCRIPT_SESSIONS,
} script_session;

#define SCRIPT_RECORD_KIND "script"
#define SCRIPT_BLOB_TEXT "a blob that no message refers to"

static inline pal_id script_session_id(script_session session)
{
    return pattern_id(1000, session);
}

#endif
