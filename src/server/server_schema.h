/* server_schema.h - what the bodies and the parameters of requests are, for /openapi.json. */
#ifndef PAL_SERVER_SCHEMA_H
#define PAL_SERVER_SCHEMA_H

/* One named schema; its JSON refers to others as {"$ref":"#/components/schemas/NAME"}. */
typedef struct pal_schema {
    const char *name;
    const char *json;
} pal_schema;

/* One parameter of a query: what it is wherever that name is used. */
typedef struct pal_query_doc {
    const char *name;
    const char *schema; /* JSON */
    const char *help;
} pal_query_doc;

/* A zeroed one at the end of each. */
extern const pal_schema pal_schemas[];
extern const pal_query_doc pal_query_docs[];

#endif
