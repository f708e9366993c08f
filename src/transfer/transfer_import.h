/* transfer_import.h - writes imported sessions into the store, many in one commit, and each only
 * once. Existing sessions are found by key or id, and existing messages by id or client id. So an
 * import can be repeated, also with a file that has grown. Used by the command and by the server.
 * One thread at a time. */
#ifndef PAL_TRANSFER_IMPORT_H
#define PAL_TRANSFER_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/store_marks.h"

typedef struct pal_import pal_import;

typedef struct pal_import_counts {
    uint64_t sessions;       /* sessions that were created */
    uint64_t sessions_known; /* sessions that existed already */
    uint64_t messages;
    uint64_t messages_known;
    uint64_t marks;
    uint64_t failed; /* messages that the store refused */
} pal_import_counts;

/* Reports something that was left out or changed. `line` is its line; 0 means the whole session. */
typedef void (*pal_import_problem)(uint64_t line, const char *text, void *user);

/* Returns NULL if out of memory. `tenant` and `err` must outlive the import. All functions below
 * report the cause of a failure in *err. */
pal_import *pal_import_new(
        pal_store *store, pal_str tenant, pal_import_problem problem, void *user, pal_error *err);
/* Accepts NULL. Drops operations that were not flushed. */
void pal_import_free(pal_import *import);

/* The arena for everything that is passed to the functions below. pal_import_settle() empties it
 * when no operation that uses it waits. */
pal_arena *pal_import_arena(pal_import *import);

/* Begins a session; the following messages belong to it. If `is_native`, its id and the ids of its
 * messages are Palaver's and are kept if they are free. Otherwise the session is identified by its
 * key. */
PAL_CHECKED pal_status pal_import_begin(
        pal_import *import, const pal_session *session, bool is_native);
/* Call it before pal_import_begin(). If the store has the session `key` and in it a message with
 * the client id, the session becomes a fork that shares the messages up to that one. All messages
 * are imported all the same. Otherwise the session is not changed. */
PAL_CHECKED pal_status pal_import_find_parent(
        pal_import *import, pal_str key, pal_str client_id, pal_session *session);
/* Call it after pal_import_begin(): the session is a branch of a tree. If the session in the store
 * is longer and continues differently, it is a different branch, which is left unchanged. */
void pal_import_expect_branch(pal_import *import);
bool pal_import_has_session(const pal_import *import);

PAL_CHECKED pal_status pal_import_message(
        pal_import *import, const pal_message *message, uint64_t line);
/* Adds a mark. `mark->seq` counts the messages since pal_import_begin(). */
PAL_CHECKED pal_status pal_import_mark(pal_import *import, const pal_mark *mark, uint64_t line);
/* Adds a mark, whatever marks the session has already. */
PAL_CHECKED pal_status pal_import_mark_anew(
        pal_import *import, const pal_mark *mark, uint64_t line);
/* Returns the id of the current session, which may not be stored before a flush. Empty if the store
 * cannot accept the session. */
pal_id pal_import_session(const pal_import *import);
/* Sets the title of the session if it has none. */
PAL_CHECKED pal_status pal_import_title(pal_import *import, pal_str title);

/* Adds a record of the session, in the same commit. If `is_new`, only for a session that this
 * import creates. */
PAL_CHECKED pal_status pal_import_record(
        pal_import *import, pal_str kind, pal_str name, pal_str body, bool is_new);
/* Ends the session: the import has all its data. The time of its last change becomes that of its
 * newest message, so that lists show it in the right place. An expiry in the past takes effect now.
 * The next session and the end of a transcript also end it. */
PAL_CHECKED pal_status pal_import_end(pal_import *import);

/* Call it between lines. Commits the waiting operations if there are enough of them. */
PAL_CHECKED pal_status pal_import_settle(pal_import *import, size_t line_len);
/* Commits all waiting operations. */
PAL_CHECKED pal_status pal_import_flush(pal_import *import);

pal_import_counts pal_import_count(const pal_import *import);

#endif
