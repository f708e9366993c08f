/* memory_extract.h - one extraction: reads what was said in a session since the last one, makes the
 * request to a model that proposes notes, and keeps those that the rules accept. The caller calls
 * the model in between. All functions block on the store; any thread.
 *
 * A crash before pal_extract_end() has committed leaves everything unchanged, and the extraction
 * is repeated. Its commit has the notes and the mark up to where the session was read, so no
 * message is read twice and none is left out. */
#ifndef PAL_MEMORY_EXTRACT_H
#define PAL_MEMORY_EXTRACT_H

#include "palaver/note.h"
#include "palaver/store.h"

/* What is to be done in a session. */
typedef enum pal_extract_state {
    PAL_EXTRACT_NOTHING = 0, /* nothing was said since the last extraction, or memory is off */
    PAL_EXTRACT_LATER,       /* too little was said, or the session is not quiet yet */
    PAL_EXTRACT_READY,       /* the request can be made */
} pal_extract_state;

/* A user message that notes can rest on, by its number in the request. */
typedef struct pal_extract_said {
    uint32_t number;
    uint64_t seq;
    pal_str text;
} pal_extract_said;

typedef struct pal_extract_job {
    pal_extract_state state;
    int64_t due_ms; /* LATER: when to look again */
    pal_message request[2]; /* READY: the messages for the model */
    bool has_more;          /* another extraction is needed after this one */
    /* For pal_extract_end(). */
    pal_str tenant;
    pal_id session;
    pal_memory_mode mode;
    pal_str system; /* instructions of the session's model */
    uint64_t first_seq, until_seq;
    uint64_t mark_version; /* 0: there is no mark yet */
    const pal_extract_said *said;
    size_t said_len;
    const pal_str *known; /* ids of the numbered notes */
    size_t known_len;
} pal_extract_job;

typedef struct pal_extract_result {
    uint32_t proposed, kept, supported, pending, retracted, rejected;
} pal_extract_result;

/* Looks at the session. With `is_forced`, everything that was said is read now. `job` points
 * into the arena. If nothing can ever become a note, the mark is moved. PAL_NOT_FOUND: the
 * session is gone. */
PAL_CHECKED pal_status pal_extract_begin(pal_store *store, const pal_memory_settings *settings,
        pal_str tenant, pal_id session, pal_str system, bool is_forced, pal_arena *arena,
        pal_extract_job *out_job, pal_error *err);

/* Keeps what the rules accept of the model's answer, and moves the mark. PAL_CONFLICT: another
 * process has done that. */
PAL_CHECKED pal_status pal_extract_end(pal_store *store, const pal_extract_job *job, pal_str answer,
        pal_arena *arena, pal_extract_result *out_result, pal_error *err);

#endif
