/* api_object.h - tables that describe the JSON objects and query parameters of routes.
 *
 * One table of a request gives its reader (pal_api_object_read()), the refusal of unknown members
 * (api_known.c) and its schema in /openapi.json (api_openapi.c), so these cannot differ. The table
 * of a response gives its schema. A route refers to its tables; no list contains all of them. */
#ifndef PAL_API_OBJECT_H
#define PAL_API_OBJECT_H

#include <stddef.h>
#include "server/server.h"

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
};

/* The members of an object, in place. */
#define PAL_API_MEMBERS(...) ((const pal_api_member[]){__VA_ARGS__, {0}})

extern const pal_api_object pal_api_any_object;
extern const pal_api_object pal_api_error_object;   /* the native envelope of errors */
extern const pal_api_object pal_api_events_body;    /* text/event-stream */
extern const pal_api_object pal_api_json_lines_body; /* application/x-ndjson */

/* Sets the fields of `record` from the members of `json`. Fields of absent members are unchanged,
 * so set their defaults before. PAL_INVALID or PAL_LIMIT if a member is wrong or missing; the error
 * names it. */
PAL_CHECKED pal_status pal_api_object_read(pal_call *call, pal_json json,
        const pal_api_object *object, void *record, pal_error *err);

/* Sets the fields of `record` from the query parameters of the call. */
PAL_CHECKED pal_status pal_api_query_read(
        pal_call *call, const pal_api_object *query, void *record, pal_error *err);

/* Responds with the OpenAPI description of all routes (api_openapi.c). */
PAL_CHECKED pal_status pal_openapi_handle(pal_call *call, pal_error *err);

#endif
