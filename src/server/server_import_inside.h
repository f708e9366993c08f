/* server_import_inside.h - what the server_import*.c files share: the session that is being
 * imported, and the batch of operations that waits. Only for them. */
#ifndef PAL_SERVER_IMPORT_INSIDE_H
#define PAL_SERVER_IMPORT_INSIDE_H

#include "base/buf.h"
#include "base/map.h"
#include "server/server_import.h"

/* An operation with where its messages came from. */
typedef struct pal_import_waiting {
    uint64_t *lines;   /* of each message */
    uint64_t *indexes; /* of each message in the session that is being imported, from 0 */
    size_t cap;
    uint64_t generation; /* of the session */
} pal_import_waiting;

struct pal_import {
    pal_store *store;
    pal_str tenant;
    pal_error *err;
    pal_import_problem problem;
    void *user;
    pal_import_counts counts;
    pal_arena *arena;
    pal_op *ops;
    pal_import_waiting *waits; /* one for each op */
    size_t ops_len;
    size_t messages_waiting;
    size_t bytes_waiting;

    /* The session that is being imported. */
    uint64_t generation; /* counts sessions; 0: none yet */
    pal_id id;
    pal_buf name;  /* its key, or its id as text */
    pal_buf title; /* as the store has it */
    bool is_native;
    bool is_fork;   /* here too: its first `shared` messages are the parent's */
    bool is_broken; /* nothing can be appended to it */
    bool drop_ids;  /* another session here has messages with these ids */
    bool ids_checked;
    uint64_t shared;
    size_t append_at; /* 1 + the op that takes its next message; 0: none yet */
    pal_buf seqs;     /* a uint64_t each: the seq here of each message; 0 where it was refused */
    pal_buf marks;    /* of pairs, see server_import_mark.c */
    uint64_t marks_known;
    uint64_t marks_seen;
    bool is_expired;    /* imported before, and expired then: nothing is to be added */
    bool is_made;       /* by this import */
    bool is_changed;    /* since pal_import_end() */
    int64_t updated_at; /* what the session says of itself, or had here; 0: nothing */
    int64_t expires_at; /* an expiry that has passed: set when all messages are there */
    int64_t newest_at;  /* the time of its newest message */
    pal_session given;  /* in known_arena: the session as the import names it */
    uint64_t compared;  /* of its messages; all were the same as here */
    bool is_unsure;     /* the one here has messages, and nothing of this one was written yet */
    pal_arena *renamed_arena;
    pal_map renamed; /* of pal_id, by the id there: sessions that got another one here */
    pal_arena *known_arena;
    pal_map known; /* id or client id -> what server_import_known.c remembers of it */
};

pal_status pal_import_no_memory(pal_import *import);
void pal_import_tell(pal_import *import, uint64_t line, const char *text);
/* Whether a refusal concerns what was refused alone, and the import can go on. */
bool pal_import_is_about_input(pal_status status);

/* A new operation for the current session at the end of the batch. */
PAL_CHECKED pal_status pal_import_add_op(pal_import *import, pal_op_kind kind, pal_op **out_op);

/* ---- What the session had before ---- */

/* Of its messages before `before_seq`; 0: of all. */
PAL_CHECKED pal_status pal_import_known_load(
        pal_import *import, pal_id session, uint64_t before_seq);
/* Whether a message is here already, and says the same. */
typedef enum pal_import_match {
    PAL_IMPORT_UNKNOWN,
    PAL_IMPORT_SAME,
    PAL_IMPORT_OTHER, /* another message has its id or client id */
} pal_import_match;
pal_import_match pal_import_known_match(const pal_import *import, const pal_message *message);
/* The id, the n-th of several, for a conversation whose name is taken here: the same import gives
 * the same again. */
PAL_CHECKED pal_status pal_import_other_id(
        const pal_import *import, const pal_message *first, unsigned n, pal_id *out_id);

/* ---- server_import_apart.c ---- */

/* Notes what the session is made of, should it turn out to be another one than the one here. */
PAL_CHECKED pal_status pal_import_keep_given(pal_import *import, const pal_session *session);
/* Looks at a message before it is taken. Where it shows that the conversation is not the one here,
 * the import goes on in a session of its own. */
PAL_CHECKED pal_status pal_import_tell_apart(pal_import *import, const pal_message *message);
/* Which session here stands for the one with that id there. */
pal_id pal_import_renamed(const pal_import *import, pal_id id);

/* ---- server_import_session.c ---- */

PAL_CHECKED pal_status pal_import_find_id(
        pal_import *import, pal_id id, pal_session *out_session);
PAL_CHECKED pal_status pal_import_resume(pal_import *import, const pal_session *found);
PAL_CHECKED pal_status pal_import_make(pal_import *import, pal_session *session);
/* Adds a message of the session to the batch. */
PAL_CHECKED pal_status pal_import_wait_message(
        pal_import *import, const pal_message *message, uint64_t index, uint64_t line);
PAL_CHECKED pal_status pal_import_marks_count(pal_import *import);

/* The seq of a message that is here already; 0 where there is something to append. A transcript may
 * have been read while its last answer was still being written: the parts that came later are then
 * a message of their own, "<client id>#<parts before>", and so on. */
uint64_t pal_import_known_seq(pal_import *import, pal_message *message);

#endif
