/* tool_schema_inside.h - what the tool_schema*.c files share. Only for them.
 *
 * A check answers one of three ways. "Differs" is certain; "fits" may rest on a rule that could not
 * be checked, and then `unsure` is set, so that `not` and its like don't turn a guess around. */
#ifndef PAL_TOOL_SCHEMA_INSIDE_H
#define PAL_TOOL_SCHEMA_INSIDE_H

#include "base/json.h"
#include "tool/tool_schema.h"

typedef enum pal_schema_verdict {
    PAL_SCHEMA_FITS = 0,
    PAL_SCHEMA_DIFFERS = 1,
    PAL_SCHEMA_UNSURE = 2,
} pal_schema_verdict;

typedef struct pal_schema_check {
    pal_json root; /* of the schema: what $ref begins at */
    pal_arena *arena;
    pal_error *err; /* NULL: nobody wants to know why */
    uint32_t steps;
    uint32_t depth;
    bool unsure;
    bool stopped; /* it took too long: everything fits */
} pal_schema_check;

/* A value and where it is. */
typedef struct pal_schema_place pal_schema_place;
struct pal_schema_place {
    pal_json value;
    const pal_schema_place *parent; /* NULL: the arguments themselves */
    pal_str name;                   /* of a member */
    size_t index;                   /* of an element, where there is no name */
    bool is_element;
};

/* One keyword: `rule` is its value in `schema`. False: the value differs, and the error says how.
 */
typedef bool (*pal_schema_rule)(
        pal_schema_check *check, pal_json schema, pal_json rule, const pal_schema_place *at);

typedef struct pal_schema_keyword {
    const char *name;
    pal_schema_rule fits;
    pal_json_type type; /* of the values that it is about; NONE: any */
} pal_schema_keyword;

extern const pal_schema_keyword pal_schema_value_keywords[]; /* ended by an empty one */
extern const pal_schema_keyword pal_schema_group_keywords[];

bool pal_schema_fits(pal_schema_check *check, pal_json schema, const pal_schema_place *at);
/* Likewise without a word. */
pal_schema_verdict pal_schema_try(
        pal_schema_check *check, pal_json schema, const pal_schema_place *at);
/* Says what is wrong, and where; false. */
bool pal_schema_fail(pal_schema_check *check, const pal_schema_place *at, const char *format, ...)
        PAL_PRINTF(3, 4);
/* Counts work. False when there was too much of it. */
bool pal_schema_spend(pal_schema_check *check, size_t steps);

/* Counted. */
bool pal_schema_equal(pal_schema_check *check, pal_json a, pal_json b);
pal_json pal_schema_find(pal_schema_check *check, pal_json object, pal_str name);

/* Whether the text matches a pattern of ECMA 262. Unsure if the pattern has something that is not
 * known here, or costs too much. Counted. */
pal_schema_verdict pal_schema_pattern(pal_schema_check *check, pal_str pattern, pal_str text);
#define PAL_SCHEMA_PATTERN_STEPS 500 /* reading one costs so much; matching is counted as it goes */

#endif
