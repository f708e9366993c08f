/* api_object.h - reads the bodies and the query parameters of routes by their tables
 * (dialect_object.h). A route refers to its tables; no list contains all of them. */
#ifndef PAL_API_OBJECT_H
#define PAL_API_OBJECT_H

#include <stddef.h>
#include "dialect/dialect_object.h"
#include "server/server.h"

extern const pal_api_object pal_api_any_object;
extern const pal_api_object pal_api_error_object;   /* the native envelope of errors */
extern const pal_api_object pal_api_events_body;    /* text/event-stream */
extern const pal_api_object pal_api_json_lines_body; /* application/x-ndjson */

/* As pal_object_read(). The error names the wrong member, also as `param` of the response. */
PAL_CHECKED pal_status pal_api_object_read(pal_call *call, pal_json json,
        const pal_api_object *object, void *record, pal_error *err);

/* Sets the fields of `record` from the query parameters of the call. */
PAL_CHECKED pal_status pal_api_query_read(
        pal_call *call, const pal_api_object *query, void *record, pal_error *err);

/* Responds with the OpenAPI description of all routes (api_openapi.c). */
PAL_CHECKED pal_status pal_openapi_handle(pal_call *call, pal_error *err);

#endif
