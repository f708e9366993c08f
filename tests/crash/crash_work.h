/* crash_work.h - the work of crash_writer, as a function of the writer and of the number of
 * operations that it has done, so that the verifier can compute it again; and the format of
 * acknowledgements. */
#ifndef PAL_TESTS_CRASH_WORK_H
#define PAL_TESTS_CRASH_WORK_H

#include <stdio.h>
#include "crash_pattern.h"

#define WORK_SESSIONS 6 /* sessions that all writers append to */
#define WORK_TENANT "crash"

typedef enum work_kind {
    WORK_APPEND_ONE = 1,
    WORK_APPEND_THREE = 3,
    WORK_LIFE = 4, /* a session of this writer goes through its stages */
} work_kind;

/* The stages of such a session. Each is acknowledged alone. */
typedef enum work_stage {
    STAGE_NONE = 0,
    STAGE_CREATED,
    STAGE_FILLED,  /* three messages in one append */
    STAGE_ADOPTED, /* by the session that a message was routed to, with this session as its alias */
    STAGE_FORKED,  /* at the second one */
    STAGE_REWOUND,
    STAGE_FORK_DELETED,
    STAGE_HEIR_ERASED,
    STAGE_ERASED, /* messages that the fork shares stay */
    STAGE_FORK_ERASED,
} work_stage;

/* The sessions of a life. */
typedef enum work_part {
    PART_OWN = 0,
    PART_FORK = 1,
    PART_HEIR = 2, /* has adopted the own session's messages; only its key is known in advance */
} work_part;

static inline work_kind work_kind_of(uint32_t writer, uint64_t counter)
{
    uint64_t hash = pattern_hash(writer, counter) % 24;

    if (hash == 0)
        return WORK_LIFE;
    return hash < 5 ? WORK_APPEND_THREE : WORK_APPEND_ONE;
}

static inline uint32_t work_session_of(uint32_t writer, uint64_t counter)
{
    return (uint32_t)((pattern_hash(writer, counter) >> 8) % WORK_SESSIONS);
}

static inline pal_id work_session_id(uint32_t session)
{
    return pattern_id(2000, session);
}

static inline pal_id work_life_id(uint32_t writer, uint64_t counter, work_part part)
{
    return pattern_id(3000 + writer, counter * 3 + part);
}

#define WORK_KEY_MAX 64

static inline pal_str work_life_key(
        uint32_t writer, uint64_t counter, work_part part, char out_key[WORK_KEY_MAX])
{
    snprintf(out_key, WORK_KEY_MAX, "life:%d:%lu:%llu", (int)part, (unsigned long)writer,
            (unsigned long long)counter);
    return pal_str_of(out_key);
}

typedef enum ack_kind {
    ACK_APPENDED = 1,
    ACK_STAGE = 2,   /* `seq` is the stage */
    ACK_SKIPPED = 3, /* a life that an earlier process did not finish */
    ACK_FAILED = 4,  /* `seq` is the status: no operation here may ever fail */
} ack_kind;

/* One write(2) to a file opened with O_APPEND: it is complete or absent, whatever happens to the
 * writer. */
typedef struct ack {
    uint32_t kind;
    uint32_t writer;
    uint64_t counter;
    uint64_t seq;  /* the seq of the last message */
    uint64_t hash; /* a checksum: a torn record would be an error of the test, not of the store */
} ack;

static inline uint64_t ack_hash(const ack *a)
{
    return pattern_hash(a->kind + a->writer * 16ull, a->counter * 1048576 + a->seq);
}

#endif
