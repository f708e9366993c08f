/* permission.h - whether tools may run: rules, and the answers that a session remembers. The notes
 * at the top of store.h apply. docs/permissions.md explains which rule decides. */
#ifndef PALAVER_PERMISSION_H
#define PALAVER_PERMISSION_H

#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/store.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a tool may run. A stricter value is larger. */
typedef enum pal_permission {
    PAL_PERMISSION_NONE = 0, /* not decided */
    PAL_PERMISSION_ALLOW = 1,
    PAL_PERMISSION_ASK = 2,  /* the turn asks for approval first; see pal_question in turn.h */
    PAL_PERMISSION_DENY = 3, /* the tool is not offered, and a call of it gets an error */
} pal_permission;

/* Returns the lower-case name, for example "ask". "none" for an unknown value. */
PAL_API const char *pal_permission_name(pal_permission permission);
/* Returns PAL_PERMISSION_NONE if no permission has this name. */
PAL_API pal_permission pal_permission_from_name(pal_str name);

/* A rule for tools of tool servers and built-in tools. In a list, the first rule that matches a
 * tool decides. */
typedef struct pal_permission_rule {
    pal_str tool; /* the name that the model sees, such as "files__read"; '*' matches any text */
    pal_permission permission;
    PAL_RESERVED(4);
} pal_permission_rule;

/* ---- Remembered answers ---- */

/* An answer that a session uses for all later calls of a tool, instead of asking again. */
typedef struct pal_permission_memory {
    pal_str tool;              /* the name that the model sees */
    pal_permission permission; /* ALLOW or DENY */
    int64_t created_at;        /* milliseconds since 1970; set by the store */
    PAL_RESERVED(4);
} pal_permission_memory;

/* Remembers an answer, in place of an earlier one for the same tool. It is durable when this
 * function returns, and erased with its session. A fork of the session does not have it.
 * PAL_INVALID: the permission is neither ALLOW nor DENY, or `tool` is empty or too long. */
PAL_API PAL_CHECKED pal_status pal_permission_remember(pal_store *store, pal_str tenant,
        pal_id session, pal_str tool, pal_permission permission, pal_error *err);
/* Forgets an answer: the next call of the tool asks again. PAL_NOT_FOUND if there is none. */
PAL_API PAL_CHECKED pal_status pal_permission_forget(
        pal_store *store, pal_str tenant, pal_id session, pal_str tool, pal_error *err);
/* Lists the answers of a session, ordered by tool; up to PAL_PERMISSION_MEMORIES_MAX. */
PAL_API PAL_CHECKED pal_status pal_permission_list(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_permission_memory **out_memories, size_t *out_len, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
