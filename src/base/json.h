/* json.h - a strict and lossless reader, and a writer.
 *
 * The reader checks a whole text against RFC 8259 and keeps a tape of spans in an arena: values
 * point into the text, which must outlive them. Nothing is converted until it is asked for, so
 * numbers and members that nobody knows keep their bytes.
 *
 * Rules where the RFC leaves a choice: the text is valid UTF-8 and has no byte order mark; of two
 * members with one name the last is found, and both stay in the raw bytes; \u0000 is a character
 * like any other (lengths travel); a lone surrogate escape is valid text and reads as U+FFFD;
 * numbers have no bound until they are asked for as a type. */
#ifndef PAL_BASE_JSON_H
#define PAL_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/str.h"

typedef enum pal_json_type {
    PAL_JSON_NONE = 0, /* absent */
    PAL_JSON_NULL = 1,
    PAL_JSON_FALSE = 2,
    PAL_JSON_TRUE = 3,
    PAL_JSON_NUMBER = 4,
    PAL_JSON_STRING = 5,
    PAL_JSON_ARRAY = 6,
    PAL_JSON_OBJECT = 7,
} pal_json_type;

#define PAL_JSON_DEPTH_MAX 512
#define PAL_JSON_BYTES_MAX 0x3fffffff /* 1 GiB less one: offsets on the tape are 32 bits */

typedef struct pal_json_node pal_json_node;

/* One value of a parsed text; passed by value. A zeroed one is PAL_JSON_NONE, and every function
 * takes it. */
typedef struct pal_json {
    const char *text;
    const pal_json_node *node;
} pal_json;

/* Zero means the default, which is also the most there can be. */
typedef struct pal_json_limits {
    size_t bytes_max;   /* PAL_JSON_BYTES_MAX */
    uint32_t depth_max; /* PAL_JSON_DEPTH_MAX */
} pal_json_limits;

/* Parses exactly one value with white space around it. The error says what is wrong and at which
 * byte. PAL_INVALID, PAL_LIMIT or PAL_NO_MEMORY. */
PAL_CHECKED pal_status pal_json_parse(pal_arena *arena, pal_str text, const pal_json_limits *limits,
        pal_json *out_value, pal_error *err);

pal_json_type pal_json_type_of(pal_json value);
const char *pal_json_type_name(pal_json_type type); /* "object", "string", "boolean", ... */

/* The bytes as they were written, quotes and all. */
pal_str pal_json_raw(pal_json value);

/* The text of a string: borrowed from the parsed text where it has no escapes, else in the arena.
 * The empty view for other types. Failure of the arena shows in the arena. */
pal_str pal_json_string(pal_json value, pal_arena *arena);

/* False, and the output untouched, when it is not of that type or does not fit. Integers may be
 * written as 1.0 or 1e3 where that is exact. */
bool pal_json_i64(pal_json value, int64_t *out_number);
bool pal_json_u64(pal_json value, uint64_t *out_number);
bool pal_json_f64(pal_json value, double *out_number);
bool pal_json_bool(pal_json value, bool *out_bool);

/* The member `name` (unescaped), or PAL_JSON_NONE. */
pal_json pal_json_find(pal_json object, const char *name);

/* Elements of an array, members of an object. */
size_t pal_json_count(pal_json value);

typedef struct pal_json_iter {
    pal_json next;
    uint32_t left;
    bool is_object;
} pal_json_iter;

/* Walks the elements of an array or the members of an object, in their order; nothing for others.
 * For members *out_name is the name's own value (a string); NULL where it isn't wanted. */
pal_json_iter pal_json_each(pal_json value);
bool pal_json_next(pal_json_iter *iter, pal_json *out_name, pal_json *out_value);

/* Whether a string value's text (unescaped) equals `text`. Needs no arena. */
bool pal_json_string_is(pal_json value, const char *text);

/* Parsed values that are equal as JSON: objects whatever their order (the last of duplicates),
 * numbers by value where both are integers or doubles, else by their bytes. */
bool pal_json_equal(pal_json a, pal_json b);

/* ---- Writer: into a buf, whose sticky failure is the only one ---- */

/* Tracks where commas go. Names and values must alternate in objects (asserted). */
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
void pal_json_name(pal_json_writer *writer, const char *name); /* with nothing to escape */
void pal_json_name_str(pal_json_writer *writer, pal_str name);
void pal_json_put_str(pal_json_writer *writer, pal_str text);
void pal_json_put_text(pal_json_writer *writer, const char *text); /* terminated */
void pal_json_put_i64(pal_json_writer *writer, int64_t number);
void pal_json_put_u64(pal_json_writer *writer, uint64_t number);
void pal_json_put_f64(pal_json_writer *writer, double number); /* shortest that reads back */
void pal_json_put_bool(pal_json_writer *writer, bool value);
void pal_json_put_null(pal_json_writer *writer);
void pal_json_put_plain(pal_json_writer *writer, pal_str text); /* with nothing to escape */
void pal_json_put_raw(pal_json_writer *writer, pal_str json);   /* valid JSON, as it is */
/* Likewise without the white space between its parts: one line, however it was written. */
void pal_json_put_compact(pal_json_writer *writer, pal_str json);

/* The members of the JSON object `json` ({"a":1} or empty) into the object being written. */
void pal_json_put_members(pal_json_writer *writer, pal_str json);

/* A quoted string. Invalid UTF-8 becomes U+FFFD; only what must be escaped is. */
void pal_json_quote(pal_buf *buf, pal_str text);

#endif
