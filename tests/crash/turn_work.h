/* turn_work.h - constants that turn_worker and the test that kills it share. */
#ifndef PAL_TESTS_TURN_WORK_H
#define PAL_TESTS_TURN_WORK_H

#include "crash_pattern.h"

#define TURN_SESSIONS 4
#define TURN_TEXT "@call %d"
#define TURN_TEXT_MAX 32

static inline pal_id turn_session(int index)
{
    return pattern_id(4000, (uint64_t)index);
}

#endif
