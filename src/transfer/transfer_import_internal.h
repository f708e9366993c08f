/* transfer_import_internal.h - what the transfer_import*.c files share: the session that is being
 * imported, and the batch of waiting operations. Only for these files. */
#ifndef PAL_TRANSFER_IMPORT_INTERNAL_H
#define PAL_TRANSFER_IMPORT_INTERNAL_H

#include "base/buf.h"
#include "base/map.h"
#include "palaver/store_batch.h"
#include "transfer/transfer_import.h"

/* An operation, with the origin of its messages. */
typedef struct pal_import_origin {
    uint64_t *lines;   /* line of each message */
    uint64_t *indexes; /* index of each message in the current session, from 0 */
    size_t cap;
    uint64_t generation; /* generation of the session */
} pal_import_origin;

struct pal_import {
    pal_store *store;
    pal_str tenant;
    pal_error *err;
    pal_import_problem problem;
    void *user;
    pal_import_counts counts;
    pal_arena *arena;
    pal_op *ops;
    pal_import_origin *waits; /* one for each operation */
    size_t ops_len;
    size_t messages_waiting;
    size_t bytes_waiting;

    /* The session that is being imported. */
    uint64_t generation; /* number of the session; 0: none yet */
    pal_id id;
    pal_buf name;  /* key of the session, or its id as text */
    pal_buf title; /* title in the store */
    bool is_native;
    bool is_fork;   /* it is a fork in this store too: its first `shared` messages are the
                       parent's */
    bool is_broken; /* nothing can be appended to it */
    bool drop_ids;  /* another session in the store has messages with these ids */
    bool ids_checked;
    uint64_t shared;
    size_t append_at; /* 1 + index of the operation that takes its next message; 0: none yet */
    pal_buf seqs;     /* a uint64_t for each message: its seq in this store; 0 if it was refused */
    pal_buf marks;    /* an array of mark_pair (transfer_import_mark.c) */
    uint64_t marks_known;
    uint64_t marks_seen;
    bool is_expired;    /* it was imported and expired before, so nothing is added */
    bool is_made;       /* this import created it */
    bool is_changed;    /* it has changed since pal_import_end() */
    int64_t updated_at; /* time of the last change, from the import or the store; 0 if there is
                           none */
    int64_t expires_at; /* an expiry in the past; set after all messages are appended */
    int64_t newest_at;  /* time of its newest message */
    pal_session given;  /* the session as the import describes it; in known_arena */
    uint64_t compared;  /* number of its messages that were compared and are equal */
    bool is_unsure;     /* the existing session has messages, and nothing was written to it yet */
    bool is_branch;     /* of a tree: it grows only at the end of the existing session */
    uint64_t stored;    /* messages of the existing session */
    pal_id parent;      /* the parent that pal_import_find_parent() has found for the next
                           session */
    pal_arena *renamed_arena;
    pal_map renamed; /* pal_id by original id: sessions that got another id in this store */
    pal_arena *known_arena;
    pal_map known; /* id or client id -> facts about the message (transfer_import_known.c) */
};

pal_status pal_import_no_memory(pal_import *import);
void pal_import_tell(pal_import *import, uint64_t line, const char *text);
/* Whether a refusal concerns only the refused item, so that the import can continue. */
bool pal_import_is_about_input(pal_status status);

/* Adds an operation to the batch; the caller fills it in. Can empty the arena, so allocate what the
 * operation needs afterwards. */
PAL_CHECKED pal_status pal_import_add_op(pal_import *import, pal_op **out_op);

/* ---- Existing messages (transfer_import_known.c) ---- */

/* Loads the messages before `before_seq`; 0: all. */
PAL_CHECKED pal_status pal_import_known_load(
        pal_import *import, pal_id session, uint64_t before_seq);
/* Whether a message exists already, with the same content. */
typedef enum pal_import_match {
    PAL_IMPORT_UNKNOWN,
    PAL_IMPORT_SAME,
    PAL_IMPORT_OTHER, /* another message has its id or client id */
} pal_import_match;
pal_import_match pal_import_known_match(const pal_import *import, const pal_message *message);
/* Derives the n-th candidate of an id, for a conversation whose name is in use. The same import
 * gets the same id again. */
PAL_CHECKED pal_status pal_import_other_id(
        const pal_import *import, const pal_message *first, unsigned n, pal_id *out_id);

/* ---- transfer_import_apart.c ---- */

/* Keeps the description of the session, in case it turns out to be a different conversation than
 * the existing one. */
PAL_CHECKED pal_status pal_import_keep_given(pal_import *import, const pal_session *session);
/* Compares a message before it is imported. If it shows that the existing conversation is a
 * different one, the import continues in a separate session. */
PAL_CHECKED pal_status pal_import_tell_apart(pal_import *import, const pal_message *message);
/* Returns the id in this store of the session with that original id. */
pal_id pal_import_renamed(const pal_import *import, pal_id id);

/* ---- transfer_import_session.c ---- */

PAL_CHECKED pal_status pal_import_find_id(
        pal_import *import, pal_id id, pal_session *out_session);
PAL_CHECKED pal_status pal_import_resume(pal_import *import, const pal_session *found);
PAL_CHECKED pal_status pal_import_make(pal_import *import, pal_session *session);
PAL_CHECKED pal_status pal_import_marks_count(pal_import *import);

/* Returns the seq of a message that exists already; 0 if there is something to append. A transcript
 * may have been read while its last answer was still being written. The later parts of that answer
 * are then a separate message with the client id "<client id>#<parts before>", and so on. */
uint64_t pal_import_known_seq(pal_import *import, pal_message *message);

#endif
