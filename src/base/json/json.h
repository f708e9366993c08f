/* json.h - a strict and lossless JSON reader, and a writer.
 *
 * The reader checks the whole text against RFC 8259 and stores a tape of positions in an arena.
 * Values point into the text, which must outlive them. Nothing is converted before it is requested,
 * so numbers and unknown members keep their bytes.
 *
 * Choices that the RFC leaves open: the text must be valid UTF-8 without a byte order mark. If two
 * members have the same name, the last one is found, and both stay in the raw bytes. \u0000 is an
 * ordinary character. An unpaired surrogate escape is valid and read as U+FFFD. Numbers have no
 * limit until they are requested as a C type. */
#ifndef PAL_BASE_JSON_H
#define PAL_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/str.h"

typedef enum pal_json_type {
    PAL_JSON_NONE = 0, /* the value does not exist */
    PAL_JSON_NULL = 1,
    PAL_JSON_FALSE = 2,
    PAL_JSON_TRUE = 3,
    PAL_JSON_NUMBER = 4,
    PAL_JSON_STRING = 5,
    PAL_JSON_ARRAY = 6,
    PAL_JSON_OBJECT = 7,
} pal_json_type;

#define PAL_JSON_DEPTH_MAX 512
#define PAL_JSON_BYTES_MAX 0x3fffffff /* 1 GiB minus one: offsets have 32 bits */

typedef struct pal_json_node pal_json_node;

/* A value of a parsed text, passed by value. A zeroed pal_json is PAL_JSON_NONE; every function
 * accepts it. */
typedef struct pal_json {
    const char *text;
    const pal_json_node *node;
} pal_json;

/* Limits of the parser. 0 means the default in the comment, which is also the maximum. */
typedef struct pal_json_limits {
    size_t bytes_max;   /* PAL_JSON_BYTES_MAX */
    uint32_t depth_max; /* PAL_JSON_DEPTH_MAX */
    uint32_t values_max; /* values and names of members; no bound */
} pal_json_limits;

/* Parses exactly one value with white space around it. `err` says what is wrong and at which byte.
 * Returns PAL_INVALID, PAL_LIMIT or PAL_NO_MEMORY if it fails. `limits` may be NULL. */
PAL_CHECKED pal_status pal_json_parse(pal_arena *arena, pal_str text, const pal_json_limits *limits,
        pal_json *out_value, pal_error *err);

pal_json_type pal_json_type_of(pal_json value);

/* Returns true for a member that is missing or null: many clients send null for members that they
 * do not set. */
static inline bool pal_json_is_absent(pal_json value)
{
    pal_json_type type = pal_json_type_of(value);
    return type == PAL_JSON_NONE || type == PAL_JSON_NULL;
}
const char *pal_json_type_name(pal_json_type type); /* for example "object" */

/* Returns the bytes of the value as they were written, including quotes. */
pal_str pal_json_raw(pal_json value);

/* Returns the text of a string. It points into the parsed text if there are no escapes, otherwise
 * into the arena. Empty for other types. If there is no memory, the arena has failed. */
pal_str pal_json_string(pal_json value, pal_arena *arena);

/* Return false and leave the output unchanged if the value has another type or does not fit. An
 * integer can be written as 1.0 or 1e3 if that is exact. */
bool pal_json_i64(pal_json value, int64_t *out_number);
bool pal_json_u64(pal_json value, uint64_t *out_number);
bool pal_json_f64(pal_json value, double *out_number);
bool pal_json_bool(pal_json value, bool *out_bool);

/* Returns the member with this unescaped name, or PAL_JSON_NONE. */
pal_json pal_json_find(pal_json object, const char *name);

/* Returns the number of elements of an array or of members of an object. */
size_t pal_json_count(pal_json value);

typedef struct pal_json_iter {
    pal_json next;
    uint32_t left;
    bool is_object;
} pal_json_iter;

/* Iterates over the elements of an array or the members of an object, in order. Other types have
 * none. For members, *out_name is the name, a string value. `out_name` may be NULL. */
pal_json_iter pal_json_each(pal_json value);
bool pal_json_next(pal_json_iter *iter, pal_json *out_name, pal_json *out_value);

/* Returns true if a string value is equal to `text` after unescaping. Needs no arena. */
bool pal_json_string_is(pal_json value, const char *text);

/* Returns true if two parsed values are equal as JSON. The order of members does not matter, and
 * the last of duplicates counts. Numbers are compared by value if both are integers or doubles,
 * otherwise by their bytes. */
bool pal_json_equal(pal_json a, pal_json b);

/* ---- Writer: writes into a buf and keeps no failure except the buf's ---- */

/* Puts commas where they belong. In objects, names and values must alternate, which is asserted. */
typedef struct pal_json_writer {
    pal_buf *buf;
    uint32_t depth;
    bool need_comma;
    bool after_name;
} pal_json_writer;

pal_json_writer pal_json_writer_make(pal_buf *buf);
void pal_json_begin_object(pal_json_writer *writer);
void pal_json_end_object(pal_json_writer *writer);
void pal_json_begin_array(pal_json_writer *writer);
void pal_json_end_array(pal_json_writer *writer);
void pal_json_name(pal_json_writer *writer, const char *name); /* must not need escapes */
void pal_json_name_str(pal_json_writer *writer, pal_str name);
void pal_json_put_str(pal_json_writer *writer, pal_str text);
void pal_json_put_text(pal_json_writer *writer, const char *text); /* a terminated string */
void pal_json_put_i64(pal_json_writer *writer, int64_t number);
void pal_json_put_u64(pal_json_writer *writer, uint64_t number);
void pal_json_put_f64(pal_json_writer *writer, double number); /* the shortest exact text */
void pal_json_put_bool(pal_json_writer *writer, bool value);
void pal_json_put_null(pal_json_writer *writer);
void pal_json_put_plain(pal_json_writer *writer, pal_str text); /* must not need escapes */
void pal_json_put_raw(pal_json_writer *writer, pal_str json); /* valid JSON, written unchanged */
/* Like pal_json_put_raw(), but leaves out white space between values, so the result is one line. */
void pal_json_put_compact(pal_json_writer *writer, pal_str json);

/* Adds the members of the JSON object `json` ({"a":1}, or empty) to the object that is being
 * written. */
void pal_json_put_members(pal_json_writer *writer, pal_str json);

/* Writes a quoted string. Invalid UTF-8 becomes U+FFFD. Escapes only characters that must be
 * escaped. */
void pal_json_quote(pal_buf *buf, pal_str text);

/* Returns how many bytes pal_json_quote() writes for valid UTF-8, without the quotes. */
uint64_t pal_json_text_len(pal_str text);

#endif
