/* tool_schema.h - checks a tool's arguments against its JSON Schema before it is run. Pure. Knows
 * the vocabulary that tool schemas use (2020-12: types, enum, const, properties, required,
 * additionalProperties, items, prefixItems, bounds, pattern, format as a remark, allOf, anyOf,
 * oneOf, not, if/then/else, $ref and $defs within the schema); what it does not know it lets pass.
 */
#ifndef PAL_TOOL_SCHEMA_H
#define PAL_TOOL_SCHEMA_H

#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/str.h"

/* PAL_OK, or PAL_INVALID with where and what: "at '/path/0': expected string, got number". A schema
 * that is none gives PAL_OK: it is the tool's own matter. Bounded in depth and steps. */
PAL_CHECKED pal_status pal_tool_check(
        pal_str schema, pal_str arguments, pal_arena *arena, pal_error *err);

#endif
