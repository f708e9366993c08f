/* json_node.h - the tape behind pal_json. Only for the json_*.c files.
 *
 * A value is one node; the nodes of what it contains follow it. An array's are its elements, an
 * object's are name, value, name, value... in the order of the text. The node behind a whole value
 * is `skip` nodes on. */
#ifndef PAL_BASE_JSON_NODE_H
#define PAL_BASE_JSON_NODE_H

#include "base/json.h"

struct pal_json_node {
    uint32_t start; /* of the raw bytes, from the start of the text */
    uint32_t len;
    uint32_t skip;       /* 1 and the number of nodes within */
    uint32_t type : 3;   /* pal_json_type */
    uint32_t count : 29; /* elements or members; for a string 1 when it has escapes, else 0 */
};

_Static_assert(sizeof(struct pal_json_node) == 16, "four nodes a cache line");
/* Every element needs a byte and a comma, so a count cannot overflow. */
_Static_assert(PAL_JSON_BYTES_MAX / 2 < 1u << 29, "counts fit");

/* The unescaped bytes at *p, which is before the closing quote of a valid string: one to four of
 * them go to `out`. Advances *p and returns how many there are. */
size_t pal_json_unescape(const char **p, char out[4]);

/* Whether two numbers are the same, as pal_json_equal() says. */
bool pal_json_number_equal(pal_json a, pal_json b);

/* Shortest decimal text of a finite number that reads back as the same; returns its length. */
#define PAL_JSON_F64_SIZE 32
size_t pal_json_f64_text(double number, char out_text[PAL_JSON_F64_SIZE]);

#endif
