/* server_import.h - writes imported sessions into the store, many in one commit, and each only
 * once: sessions that are here already are found again by their key or id, messages by their id or
 * client id, so that an import can be repeated, also over a file that has grown. For the command
 * and for the server; one thread at a time. */
#ifndef PAL_SERVER_IMPORT_H
#define PAL_SERVER_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/store.h"

typedef struct pal_import pal_import;

typedef struct pal_import_counts {
    uint64_t sessions;       /* made */
    uint64_t sessions_known; /* were here already */
    uint64_t messages;
    uint64_t messages_known;
    uint64_t marks;
    uint64_t failed; /* messages that the store refused */
} pal_import_counts;

/* Something that was left out or changed; `line` is where, 0 for the whole session. */
typedef void (*pal_import_problem)(uint64_t line, const char *text, void *user);

/* NULL when there is no memory. `tenant` and `err` must outlive it: whatever fails below says why
 * in *err. */
pal_import *pal_import_new(
        pal_store *store, pal_str tenant, pal_import_problem problem, void *user, pal_error *err);
/* Accepts NULL. Drops what was not flushed. */
void pal_import_free(pal_import *import);

/* For all that is handed in below. pal_import_settle() empties it when nothing of it waits. */
pal_arena *pal_import_arena(pal_import *import);

/* Messages from here on belong to this session. `is_native`: its id and its messages' ids are ours
 * and are kept where they are free; otherwise it is known by its key. */
PAL_CHECKED pal_status pal_import_begin(
        pal_import *import, const pal_session *session, bool is_native);
bool pal_import_has_session(const pal_import *import);

PAL_CHECKED pal_status pal_import_message(
        pal_import *import, const pal_message *message, uint64_t line);
/* `mark->seq` counts the messages that were handed in since pal_import_begin(). */
PAL_CHECKED pal_status pal_import_mark(pal_import *import, const pal_mark *mark, uint64_t line);
/* Likewise, whatever marks the session has already. */
PAL_CHECKED pal_status pal_import_mark_anew(
        pal_import *import, const pal_mark *mark, uint64_t line);
/* The session that is being imported; nothing of it may be stored before a flush. None when the
 * store would not take it. */
pal_id pal_import_session(const pal_import *import);
/* Gives the session its title, if it has none. */
PAL_CHECKED pal_status pal_import_title(pal_import *import, pal_str title);

/* A record of the session, written with it. `is_new`: only where the session is made now. */
PAL_CHECKED pal_status pal_import_record(
        pal_import *import, pal_str kind, pal_str name, pal_str body, bool is_new);
/* The session has all that the import brings. Its last change is then its newest message's, so that
 * lists have it at its place, and an expiry that has passed counts from now on. The next session
 * and the end of a transcript end it too. */
PAL_CHECKED pal_status pal_import_end(pal_import *import);

/* Call it between lines: writes what waits once that is enough for a commit. */
PAL_CHECKED pal_status pal_import_settle(pal_import *import, size_t line_len);
/* Writes all that waits. */
PAL_CHECKED pal_status pal_import_flush(pal_import *import);

pal_import_counts pal_import_count(const pal_import *import);

#endif
