/* recorder.h - records the conversations of clients that keep their history themselves and send
 * all of it with every request, as coding agents do. Each conversation becomes one session, to
 * which only new messages are appended.
 *
 * A message is compared by a hash of the history up to and including the message. The hash covers
 * only content that the model reads: role, texts, calls, results, images and files. It ignores
 * values that clients change from request to request, such as cache marks, reasoning, the spelling
 * of JSON, and whether a text is a string or a list with one text block. The hash is the client id
 * of the stored message, so the store finds it by index and never stores it twice.
 *
 * If a request continues a stored history at its end, the rest is appended there. If it continues
 * from an earlier message, because the client edited, retried or compacted its history, the rest
 * becomes a branch: a fork that shares the messages before. The sessions of one conversation are
 * its family. A record of kind "recorder" lists them.
 *
 * A crash at any point is harmless. Every write is one batch of the store, and the client sends its
 * whole history again with the next request, which appends what is missing.
 *
 * Threads: any thread can call every function. pal_recorder_request() blocks until the store has
 * committed. */
#ifndef PAL_RECORDER_H
#define PAL_RECORDER_H

#include <stdint.h>
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/message.h"
#include "palaver/store.h"
#include "palaver/str.h"

#define PAL_RECORDER_KIND "recorder"   /* kind of the record that lists a family */
#define PAL_RECORDER_BRANCHES_MAX 256u /* sessions of a family that are searched, newest first */

/* ---- Hashes (recorder_hash.c) ---- */

#define PAL_RECORDER_HASH_SIZE 32

/* The hash of a history. Zeroed: no messages. */
typedef struct pal_recorder_hash {
    uint8_t bytes[PAL_RECORDER_HASH_SIZE];
} pal_recorder_hash;

/* Adds a message to the history. *out_counts is false if the message has no content that counts,
 * for example only reasoning; the hash is then unchanged. `arena` is used for temporary values. */
PAL_CHECKED pal_status pal_recorder_hash_add(pal_recorder_hash *hash, const pal_message *message,
        pal_arena *arena, bool *out_counts, pal_error *err);

/* ---- Recording (recorder.c) ---- */

/* A request of a client. */
typedef struct pal_recorder_history {
    pal_str tenant;
    pal_str key;      /* names the conversation: the key of its first session */
    pal_str metadata; /* a JSON object for new sessions of the family; may be empty */
    /* All messages of the request in order. The recorder sets their client ids and, if it appends
     * them, their ids and seqs. */
    pal_message *messages;
    size_t messages_len;
    bool is_log; /* the requests of the key do not continue each other, so there are no branches:
                    what is new is appended to one session */
} pal_recorder_history;

/* Where the messages of a request end. The answer follows there. */
typedef struct pal_recorder_place {
    pal_str tenant;    /* in the arena, like all texts here */
    pal_str key;
    pal_str metadata;
    pal_id session;
    uint64_t seq;
    pal_recorder_hash hash;
    uint64_t appended; /* messages of the request that were new */
    bool is_branch;    /* the request has made a new branch */
} pal_recorder_place;

/* Records the new messages of a request. The place is allocated in the arena, and borrows nothing
 * from the history. */
PAL_CHECKED pal_status pal_recorder_request(pal_store *store, pal_recorder_history *history,
        pal_arena *arena, pal_recorder_place *out_place, pal_error *err);

#endif
