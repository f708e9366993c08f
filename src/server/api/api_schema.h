/* api_schema.h - schemas of bodies and query parameters, for /openapi.json. */
#ifndef PAL_API_SCHEMA_H
#define PAL_API_SCHEMA_H

/* One named schema; its JSON refers to others as {"$ref":"#/components/schemas/NAME"}. */
typedef struct pal_schema {
    const char *name;
    const char *json;
} pal_schema;

/* One query parameter. A name has the same meaning in all routes. */
typedef struct pal_query_doc {
    const char *name;
    const char *schema; /* JSON */
    const char *help;
} pal_query_doc;

/* Each array ends with a zeroed element. */
extern const pal_schema pal_schemas[];
extern const pal_query_doc pal_query_docs[];

#endif
