/* tool_schema.h - checks the arguments of a tool against its JSON Schema before the tool is run.
 * Pure. It supports the vocabulary that tool schemas use (2020-12: types, enum, const, properties,
 * required, additionalProperties, items, prefixItems, bounds, pattern, format as a remark, allOf,
 * anyOf, oneOf, not, if/then/else, $ref and $defs within the schema). Unknown keywords are
 * ignored. */
#ifndef PAL_TOOL_SCHEMA_H
#define PAL_TOOL_SCHEMA_H

#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/str.h"

/* Returns PAL_OK, or PAL_INVALID with the place and the problem: "at '/path/0': expected string,
 * got number". An invalid schema gives PAL_OK, because that is the tool's fault. Depth and steps
 * are limited. */
PAL_CHECKED pal_status pal_tool_check(
        pal_str schema, pal_str arguments, pal_arena *arena, pal_error *err);

#endif
