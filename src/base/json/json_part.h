/* json_part.h - strings that are parts of one text. */
#ifndef PAL_JSON_PART_H
#define PAL_JSON_PART_H

#include <stdint.h>
#include "base/json/json.h"

/* Returns the string, in the arena or the source, like pal_json_string(). A sender that divides a
 * text by UTF-16 units can divide a surrogate pair. `half` is 0 before the first part. It keeps the
 * first half of a pair, which is left out, until a string begins with the second half. Other
 * strings can be read meanwhile. */
pal_str pal_json_string_part(pal_json string, uint32_t *half, pal_arena *arena);

#endif
