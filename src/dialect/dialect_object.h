/* dialect_object.h - tables that describe the JSON objects of requests and responses.
 *
 * The table of a request gives its reader and, in the server, the refusal of unknown members
 * (api_known.c) and the schema in /openapi.json (api_openapi.c), so these cannot differ. The table
 * of a response gives its schema. If the response is written by a table of dialect_member.h, its
 * schema is derived from that table too. The server and the bindings read a turn's settings by the
 * same table (native_turn.c).
 *
 * Pure functions that use only the caller's memory: any thread. */
#ifndef PAL_DIALECT_OBJECT_H
#define PAL_DIALECT_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/json/json.h"
#include "dialect/dialect_member.h"
#include "palaver/arena.h"
#include "palaver/error.h"

typedef struct pal_api_object pal_api_object;

/* Each type names the field that the reader sets. null counts as absent. */
typedef enum pal_api_type {
    PAL_API_END = 0, /* ends a table */
    PAL_API_TEXT,    /* pal_str: a string of at most `max` bytes */
    PAL_API_COUNT,   /* uint64_t from `min` to `max` */
    PAL_API_COUNT32, /* uint32_t from `min` to `max` */
    PAL_API_NUMBER,  /* any integer; only in responses */
    PAL_API_FLAG,    /* bool */
    PAL_API_WORD,    /* an enum: one of `words`; the first word has the value `min` */
    PAL_API_TIME,    /* int64_t in milliseconds: RFC 3339; integers are accepted too */
    PAL_API_JSON_OBJECT, /* pal_str: the JSON text of an object */
    PAL_API_NESTED,  /* a struct at `offset`: an object with the members of `of` */
    PAL_API_LIST,    /* an array of `of`, or of strings if `of` is NULL; the handler reads it */
    PAL_API_VALUE,   /* a value that `schema` or `of` describes; the handler reads it */
    PAL_API_INCLUDE, /* without a name: the members of `of` are members of this object */
} pal_api_type;

typedef struct pal_api_member {
    const char *name;
    pal_api_type type;
    const char *help; /* a noun phrase for the schema and for errors: "send HELP"; may be NULL */
    size_t offset;    /* offset of the field in the record of the request */
    uint64_t min;     /* a required text of `min` 1 must not be empty */
    uint64_t max;     /* 0: the maximum of the type */
    const char *words; /* "reject queue steer": the words, separated by spaces */
    const pal_api_object *of;
    const char *schema; /* JSON */
    bool is_required;
    bool is_nullable; /* in a response: null is possible */
} pal_api_member;

struct pal_api_object {
    /* The name in /openapi.json; NULL: the schema is written in place. A media type, as in
     * "text/plain", describes a body that is not JSON. */
    const char *name;
    const pal_api_member *members; /* NULL: any object */
    bool is_open;                /* accepts members that are not in the table */
    const pal_api_object *items; /* the body is an array of these */
    /* In a response: the members that pal_members_write() writes in form 1. Those that `members`
     * has too are described there. */
    const pal_member_table *written;
};

/* The members of an object, in place. */
#define PAL_API_MEMBERS(...) ((const pal_api_member[]){__VA_ARGS__, {0}})

/* Sets the fields of `record` from the members of `json`. Fields of absent members are unchanged,
 * so set their defaults before. Texts point into the parsed text or the arena. PAL_INVALID or
 * PAL_LIMIT if a member is wrong or missing; the error begins with its quoted name. */
PAL_CHECKED pal_status pal_object_read(pal_json json, const pal_api_object *object,
        pal_arena *arena, void *record, pal_error *err);

/* Returns the member with this name, also of included objects. NULL if there is none. */
const pal_api_member *pal_object_find(const pal_api_object *object, pal_str name);

/* ---- Single members ---- */

/* Each sets *out from a member. If the member is absent or null, *out is unchanged. */
PAL_CHECKED pal_status pal_object_text(pal_json json, const char *name, size_t len_max,
        pal_arena *arena, pal_str *out, pal_error *err);
PAL_CHECKED pal_status pal_object_flag(
        pal_json json, const char *name, bool *out, pal_error *err);
PAL_CHECKED pal_status pal_object_count(pal_json json, const char *name, uint64_t min, uint64_t max,
        uint64_t *out, pal_error *err);
/* *out is the JSON text of an object. */
PAL_CHECKED pal_status pal_object_json(
        pal_json json, const char *name, pal_str *out, pal_error *err);

/* ---- Values that were read elsewhere, for example in a query ---- */

/* Returns the maximum of the member, or of its type. */
uint64_t pal_object_max(const pal_api_member *member);
/* Returns PAL_INVALID with "'NAME' is missing". */
pal_status pal_object_missing(const pal_api_member *member, pal_error *err);
PAL_CHECKED pal_status pal_object_word(
        const pal_api_member *member, pal_str text, int *out, pal_error *err);
PAL_CHECKED pal_status pal_object_range(const char *name, uint64_t min, uint64_t max,
        uint64_t number, uint64_t *out, pal_error *err);

#endif
