/* permission.h - decides whether a turn may run a tool. */
#ifndef PAL_PERMISSION_H
#define PAL_PERMISSION_H

#include "base/json/json.h"
#include "palaver/context.h"
#include "palaver/permission.h"

#define PAL_PERMISSIONS (PAL_PERMISSION_DENY + 1)

extern const char *const pal_permission_names[PAL_PERMISSIONS]; /* by their values */

typedef struct pal_permission_rules {
    const pal_permission_rule *items;
    size_t len;
} pal_permission_rules;

/* All rules that apply to a turn. */
typedef struct pal_permission_set {
    pal_permission_rules agent;   /* the configuration of the agent */
    pal_permission_rules runtime; /* the configuration; after the agent's rules */
    pal_permission_rules session; /* the session's metadata; can only restrict */
    pal_permission_rules request; /* the request; can only restrict */
} pal_permission_set;

/* Returns the permission of a tool that the caller does not run. `memory` is the answer that the
 * session remembers for the tool, or NONE. A pure function. */
pal_permission pal_permission_decide(
        const pal_permission_set *set, const pal_tool *tool, pal_permission memory);

/* Removes the tools that are denied. Returns the number of those that are left. */
size_t pal_permission_drop_denied(const pal_permission_set *set, pal_tool *tools, size_t len);

/* Returns true if a call whose permission is ASK ends a turn with `asks_end_turn`: the
 * configuration does not allow it unasked, or the request itself requires approval. */
bool pal_permission_ends_turn(
        const pal_permission_set *set, pal_str tool, bool is_unasked_allowed);

/* Reads the rules in a session's metadata: [{"tool": "files__*", "do": "deny"}, ...]. A client
 * wrote them, so a rule that cannot be read denies. A rule without a tool applies to all tools. */
pal_permission_rules pal_permission_read_rules(pal_json list, pal_arena *arena);

#endif
