/* json_node.h - the tape that a pal_json points to. For the json_*.c files only.
 *
 * A value is one node, followed by the nodes of its content: the elements of an array, or name,
 * value, name, value and so on of an object, in the order of the text. The next value is `skip`
 * nodes further. */
#ifndef PAL_BASE_JSON_NODE_H
#define PAL_BASE_JSON_NODE_H

#include "base/json/json.h"

struct pal_json_node {
    uint32_t start; /* start of the raw bytes in the text */
    uint32_t len;
    uint32_t skip;       /* 1 plus the number of nodes inside the value */
    uint32_t type : 3;   /* pal_json_type */
    uint32_t count : 29; /* number of elements or members; for a string: 1 if it has escapes,
                            otherwise 0 */
};

_Static_assert(sizeof(struct pal_json_node) == 16, "four nodes a cache line");
/* Every element needs a byte and a comma, so a count cannot overflow. */
_Static_assert(PAL_JSON_BYTES_MAX / 2 < 1u << 29, "counts fit");

/* Returns true if two numbers are equal as pal_json_equal() defines it. */
bool pal_json_number_equal(pal_json a, pal_json b);

/* Writes the shortest decimal text that reads back as the same finite number. Returns its
 * length. */
#define PAL_JSON_F64_SIZE 32
size_t pal_json_f64_text(double number, char out_text[PAL_JSON_F64_SIZE]);

#endif
