/* tool_schema_internal.h - definitions that the tool_schema*.c files share. For them only.
 *
 * A check has one of three results. "Differs" is certain. "Fits" may depend on a rule that could
 * not be checked; then `unsure` is set, so that `not` and similar keywords do not invert a
 * guess. */
#ifndef PAL_TOOL_SCHEMA_INTERNAL_H
#define PAL_TOOL_SCHEMA_INTERNAL_H

#include "base/json/json.h"
#include "tool/tool_schema.h"

typedef enum pal_schema_verdict {
    PAL_SCHEMA_FITS = 0,
    PAL_SCHEMA_DIFFERS = 1,
    PAL_SCHEMA_UNSURE = 2,
} pal_schema_verdict;

typedef struct pal_schema_check {
    pal_json root; /* the schema's root, where every $ref begins */
    pal_arena *arena;
    pal_error *err; /* NULL: no message is needed */
    uint32_t steps;
    uint32_t depth;
    bool unsure;
    bool stopped; /* too many steps: everything fits */
} pal_schema_check;

/* A value and its position. */
typedef struct pal_schema_place pal_schema_place;
struct pal_schema_place {
    pal_json value;
    const pal_schema_place *parent; /* NULL: the arguments themselves */
    pal_str name;                   /* name of a member */
    size_t index;                   /* index of an element, if there is no name */
    bool is_element;
};

/* Checks one keyword. `rule` is its value in `schema`. Returns false if the value differs; then the
 * error says how. */
typedef bool (*pal_schema_rule)(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at);

typedef struct pal_schema_keyword {
    const char *name;
    pal_schema_rule fits;
    pal_json_type type; /* type of the values that it applies to; NONE: any */
} pal_schema_keyword;

extern const pal_schema_keyword pal_schema_value_keywords[]; /* ends with an empty one */
extern const pal_schema_keyword pal_schema_group_keywords[];

bool pal_schema_fits(pal_schema_check *check, pal_json schema, const pal_schema_place *at);
/* Like pal_schema_fits(), but sets no error. */
pal_schema_verdict pal_schema_try(
        pal_schema_check *check, pal_json schema, const pal_schema_place *at);
/* Sets the error with the problem and its place. Returns false. */
bool pal_schema_fail(pal_schema_check *check, const pal_schema_place *at, const char *format, ...)
        PAL_PRINTF(3, 4);
/* Counts steps. Returns false if there were too many. */
bool pal_schema_spend(pal_schema_check *check, size_t steps);

/* Steps are counted. */
bool pal_schema_equal(pal_schema_check *check, pal_json a, pal_json b);
pal_json pal_schema_find(pal_schema_check *check, pal_json object, pal_str name);

/* Checks whether the text matches an ECMA 262 pattern. Unsure if the pattern has an unsupported
 * element or costs too much. Steps are counted. */
pal_schema_verdict pal_schema_pattern(pal_schema_check *check, pal_str pattern, pal_str text);
#define PAL_SCHEMA_PATTERN_STEPS                                                                   \
    500 /* steps for reading a pattern; matching is counted                                        \
           separately */

#endif
