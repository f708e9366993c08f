/* store_watch.h - reports changes of sessions. The rules at the top of store.h apply. */
#ifndef PALAVER_STORE_WATCH_H
#define PALAVER_STORE_WATCH_H

#include <stdint.h>
#include "palaver/api.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/store.h"
#include "palaver/store_marks.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pal_store_change_kind {
    PAL_STORE_CHANGE_NONE = 0,
    PAL_STORE_CHANGE_CREATED = 1, /* a session was created, also by a fork */
    PAL_STORE_CHANGE_UPDATED = 2, /* members of the session were changed, or it adopted a history */
    PAL_STORE_CHANGE_MESSAGES = 3, /* messages were appended. seq: that of the newest message */
    PAL_STORE_CHANGE_MARK = 4,     /* a mark was added. mark, number */
    PAL_STORE_CHANGE_DELETED = 5,  /* the session was moved to the trash */
    PAL_STORE_CHANGE_RESTORED = 6, /* the session was taken out of the trash */
    PAL_STORE_CHANGE_ERASED = 7,
    PAL_STORE_CHANGE_INBOX = 8, /* items were added to the inbox or removed from it */
} pal_store_change_kind;

/* Describes a change of a session. Valid during the callback only. */
typedef struct pal_store_change {
    pal_store_change_kind kind;
    pal_str tenant;
    pal_id session;
    uint64_t seq;
    pal_mark_kind mark;
    uint64_t number;
    PAL_RESERVED(4);
} pal_store_change;

/* Called after a change is durable and before the call that made it returns or reports its
 * completion. Runs on the thread of that call, or on the writer's thread. Must neither block nor
 * write to the store. */
typedef void (*pal_store_on_change)(const pal_store_change *change, void *user);

/* Calls `sink` for every change that is made through this pal_store from now on. Changes that
 * happen at the same time can be reported in any order. Changes by other processes, and sessions
 * that a sweep moves or erases, are not reported. PAL_LIMIT: there are PAL_STORE_WATCHERS_MAX
 * watches. */
PAL_API PAL_CHECKED pal_status pal_store_watch(
        pal_store *store, pal_store_on_change sink, void *user, pal_error *err);
/* Ends the watches that were added with `user`. No callback is made after this function returns. */
PAL_API void pal_store_unwatch(pal_store *store, void *user);

#ifdef __cplusplus
}
#endif
#endif
