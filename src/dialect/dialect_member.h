/* dialect_member.h - reads and writes JSON objects by tables that map members to fields. One table
 * is used in both directions, so they cannot differ. Members that are not in the table are kept.
 *
 * Pure functions that use only the caller's memory: any thread. */
#ifndef PAL_DIALECT_MEMBER_H
#define PAL_DIALECT_MEMBER_H

#include <stddef.h>
#include <stdint.h>
#include "base/json/json.h"
#include "base/memory.h"
#include "palaver/error.h"

/* Maximum nesting in an `extra`. Together with the levels that our formats add around it, it stays
 * below PAL_MESSAGE_DEPTH_MAX. */
#define PAL_EXTRA_DEPTH_MAX 240

typedef enum pal_member_type {
    PAL_MEMBER_OTHER = 0, /* read and written by functions of the table */
    PAL_MEMBER_STRING,    /* pal_str */
    PAL_MEMBER_TEXT,      /* pal_str; written even if it is empty */
    PAL_MEMBER_VERBATIM, /* pal_str: a string; when reading, also the bytes of an object or array */
    PAL_MEMBER_BASE64,   /* pal_str with the decoded bytes */
    PAL_MEMBER_OBJECT,   /* pal_str with JSON: an object */
    PAL_MEMBER_JSON,     /* pal_str with JSON: any value but null */
    PAL_MEMBER_U64,      /* uint64_t */
    PAL_MEMBER_U32,      /* uint32_t */
    PAL_MEMBER_BOOL,     /* bool */
    PAL_MEMBER_FLAG,     /* bool: the number 1; when reading, any integer except 0 is true */
    PAL_MEMBER_I64,      /* int64_t */
    PAL_MEMBER_TIME,     /* int64_t in milliseconds: RFC 3339; integers are accepted too */
    PAL_MEMBER_ID,       /* pal_id */
    PAL_MEMBER_VALUE,    /* pal_json, unchanged */
    PAL_MEMBER_NAME,     /* an enum: its name; `of` is a pal_member_names */
    PAL_MEMBER_RECORD,   /* a struct in the record: an object; `of` is a pal_member_record */
    PAL_MEMBER_LIST,     /* a pointer to structs: an array of objects; `of` is a pal_member_list.
                            Only for records that Palaver has written */
} pal_member_type;

typedef struct pal_member {
    const char *name;
    pal_member_type type;
    uint32_t forms; /* the formats that have this member, one bit each */
    size_t offset;  /* offset of the field in the record */
    const void *of; /* describes the field of some types; otherwise NULL */
} pal_member;

/* The names of an enum. Its value is the index of its name. The first one is the name of 0, which
 * is never read or written. */
typedef struct pal_member_names {
    const char *const *names;
    size_t names_len;
    const char *expected; /* for errors, such as "one of read, write" */
} pal_member_names;

struct pal_member_table;

typedef struct pal_member_record {
    const struct pal_member_table *table;
    uint32_t form;
    size_t has;   /* offset of a bool: there is such an object; 0: it is always written */
    size_t extra; /* offset of a pal_str for its unknown members; 0: they are ignored */
} pal_member_record;

typedef struct pal_member_list {
    const struct pal_member_table *table;
    size_t size; /* size of one struct */
    size_t len;  /* offset of their number, a size_t */
} pal_member_list;

typedef struct pal_member_table {
    const pal_member *members;
    size_t members_len;
    /* For members of type OTHER; may be NULL if there are none. */
    pal_status (*read)(const pal_member *member, pal_json value, pal_arena *arena, void *record,
            pal_error *err);
    void (*write)(const pal_member *member, pal_json_writer *writer, const void *record);
} pal_member_table;

/* Sets the fields of `record` from the members of `object`. null counts as absent. Members that
 * `form` does not have are collected in *out_extra as they were written, {"a":1}; if there are
 * none, it is empty. */
PAL_CHECKED pal_status pal_members_read(const pal_member_table *table, uint32_t form,
        pal_json object, pal_arena *arena, void *record, pal_str *out_extra, pal_error *err);

/* Reads a record that Palaver has written. All fields of the table are set: a field becomes zero if
 * its member is absent or has the wrong type. For members of type OTHER the table's function is
 * called in any case; the value is PAL_JSON_NONE if the member is absent. Other members are
 * ignored. */
PAL_CHECKED pal_status pal_members_read_stored(const pal_member_table *table, uint32_t form,
        pal_json object, pal_arena *arena, void *record, pal_error *err);

/* Writes the members into an object that has been begun. Fields that are zero are left out. */
void pal_members_write(
        const pal_member_table *table, uint32_t form, pal_json_writer *writer, const void *record);

/* Returns PAL_OK if `extra` is empty or a JSON object without members that `form` has; otherwise
 * `err` names the member. `table` NULL: any JSON object is accepted. `name` names the extra in
 * errors. */
PAL_CHECKED pal_status pal_members_check(const pal_member_table *table, uint32_t form,
        const char *name, pal_str extra, pal_error *err);

/* Returns PAL_INVALID with "member 'NAME' is VALUE; expected EXPECTED". */
pal_status pal_member_wrong(pal_error *err, const char *name, pal_json value, const char *expected);

/* Puts "WHERE[INDEX]: " before the message of a failed call. Returns `status`. */
pal_status pal_member_within(pal_error *err, pal_status status, const char *where, size_t index);

/* Copies the text into the arena and parses it. */
PAL_CHECKED pal_status pal_member_parse(pal_str json, const pal_json_limits *limits,
        pal_arena *arena, pal_json *out_value, pal_error *err);

/* Copies the written text into the arena, unless writing failed. */
PAL_CHECKED pal_status pal_member_keep(
        const pal_buf *buf, pal_arena *arena, pal_str *out_json, pal_error *err);

/* Returns the text of a member if it is a string, otherwise an empty text. */
pal_str pal_member_string(pal_json object, const char *name, pal_arena *arena);

/* Returns true if the string value is one of the names. The list ends with NULL. */
bool pal_member_is_one_of(pal_json value, const char *const *names);

/* Returns the object that `extra` keeps for a dialect, {"FAMILY":{...}}, or PAL_JSON_NONE. */
pal_json pal_member_kept(pal_str extra, const char *family, pal_arena *arena);

/* Makes such an extra from the text of an object. Empty if the text is empty. */
pal_str pal_member_wrap(pal_arena *arena, const char *family, pal_str object);

/* Writes the members of a kept object, except those in the two lists. Either list may be NULL. */
void pal_member_put_others(pal_json_writer *writer, pal_json object, const char *const *own,
        const char *const *never, pal_arena *arena);

#endif
