/* dialect_member.h - JSON objects read and written by tables: which member is which field. One
 * table serves both directions, so they can't drift apart, and what no table names is kept.
 *
 * Pure functions over the caller's memory: any thread may call them. */
#ifndef PAL_DIALECT_MEMBER_H
#define PAL_DIALECT_MEMBER_H

#include <stddef.h>
#include <stdint.h>
#include "base/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"

/* What may be nested in an `extra`. With the levels that our forms put around it, it stays below
 * PAL_MESSAGE_DEPTH_MAX. */
#define PAL_EXTRA_DEPTH_MAX 240

typedef enum pal_member_type {
    PAL_MEMBER_OTHER = 0, /* the table's own functions read and write it */
    PAL_MEMBER_STRING,    /* pal_str */
    PAL_MEMBER_TEXT,      /* pal_str; written even when it is empty */
    PAL_MEMBER_VERBATIM,  /* pal_str: a string, or on reading the bytes of an object or array */
    PAL_MEMBER_BASE64,    /* pal_str of bytes */
    PAL_MEMBER_OBJECT,    /* pal_str of JSON: an object */
    PAL_MEMBER_JSON,      /* pal_str of JSON: anything but null */
    PAL_MEMBER_U64,       /* uint64_t */
    PAL_MEMBER_U32,       /* uint32_t */
    PAL_MEMBER_BOOL,      /* bool */
    PAL_MEMBER_TIME,      /* int64_t, milliseconds: RFC 3339; integers are taken too */
    PAL_MEMBER_ID,        /* pal_id */
    PAL_MEMBER_VALUE,     /* pal_json, as it is */
} pal_member_type;

typedef struct pal_member {
    const char *name;
    pal_member_type type;
    uint32_t forms; /* the forms that have this member, a bit each */
    size_t offset;  /* of the field in the record */
} pal_member;

typedef struct pal_member_table {
    const pal_member *members;
    size_t members_len;
    /* For members of type OTHER; may be NULL where there are none. */
    pal_status (*read)(const pal_member *member, pal_json value, pal_arena *arena, void *record,
            pal_error *err);
    void (*write)(const pal_member *member, pal_json_writer *writer, const void *record);
} pal_member_table;

/* Fills the fields of `record` that `object` has; null counts as absent. Members that `form` does
 * not have are gathered in *out_extra as they were written, {"a":1}, or it is set empty. */
PAL_CHECKED pal_status pal_members_read(const pal_member_table *table, uint32_t form,
        pal_json object, pal_arena *arena, void *record, pal_str *out_extra, pal_error *err);

/* Writes the members of an object that has been begun; zero fields are left out. */
void pal_members_write(
        const pal_member_table *table, uint32_t form, pal_json_writer *writer, const void *record);

/* PAL_OK when `extra` is empty or a JSON object of which `form` has no member; else it says which.
 * NULL `table`: any JSON will do. `name` is what the error calls it. */
PAL_CHECKED pal_status pal_members_check(const pal_member_table *table, uint32_t form,
        const char *name, pal_str extra, pal_error *err);

/* PAL_INVALID: "member 'NAME' is VALUE; expected EXPECTED". */
pal_status pal_member_wrong(pal_error *err, const char *name, pal_json value, const char *expected);

/* Puts "WHERE[INDEX]: " before the message that a failed call left; returns `status`. */
pal_status pal_member_within(pal_error *err, pal_status status, const char *where, size_t index);

/* PAL_OK, or the arena's failure with a message. */
PAL_CHECKED pal_status pal_arena_checked(const pal_arena *arena, pal_error *err);

/* Copies the text into the arena and parses it there. */
PAL_CHECKED pal_status pal_member_parse(pal_str json, const pal_json_limits *limits,
        pal_arena *arena, pal_json *out_value, pal_error *err);

/* Copies what was written into the arena, unless writing failed. */
PAL_CHECKED pal_status pal_member_keep(
        const pal_buf *buf, pal_arena *arena, pal_str *out_json, pal_error *err);

/* A member's text where it is a string, else the empty view. */
pal_str pal_member_string(pal_json object, const char *name, pal_arena *arena);

/* Whether the string value is one of the names; the list ends with NULL. */
bool pal_member_is_one_of(pal_json value, const char *const *names);

/* The object that `extra` keeps for a dialect, {"FAMILY":{...}}; PAL_JSON_NONE where there is none.
 */
pal_json pal_member_kept(pal_str extra, const char *family, pal_arena *arena);

/* Makes such an extra of the object's text; empty where that is. */
pal_str pal_member_wrap(pal_arena *arena, const char *family, pal_str object);

/* Writes the members of a kept object but those of the two lists, either of which may be NULL. */
void pal_member_put_others(pal_json_writer *writer, pal_json object, const char *const *own,
        const char *const *never, pal_arena *arena);

/* A quoted base64 string, as a value, behind `prefix`. */
void pal_json_put_base64(pal_json_writer *writer, pal_str prefix, pal_str data);

#endif
