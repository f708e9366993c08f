/* turn_work.h - constants that turn_worker and the test that kills it share. */
#ifndef PAL_TESTS_TURN_WORK_H
#define PAL_TESTS_TURN_WORK_H

#include "crash_pattern.h"

#define TURN_SESSIONS 4
#define TURN_TEXT "@call %d"
#define TURN_TEXT_MAX 32

#define TURN_OUTBOX "crash:a"
#define TURN_DELIVER "{\"n\":%d}"

/* Some requests are notes, which get no answer. */
static inline bool turn_is_note(int number)
{
    return number % 7 == 3 || number % 7 == 5;
}

/* Some requests are stored by the program itself, together with a record. */
static inline bool turn_is_stored(int number)
{
    return number % 3 == 0 || number % 7 == 5;
}

static inline pal_id turn_session(int index)
{
    return pattern_id(4000, (uint64_t)index);
}

#endif
