/* store_records.h - JSON documents and blobs that a program stores next to its sessions. The rules
 * at the top of store.h apply. */
#ifndef PALAVER_STORE_RECORDS_H
#define PALAVER_STORE_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/store.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Records ---- */

/* A small JSON document that a program stores under a kind and a name, for example an API key, an
 * agent or a stored response. */
typedef struct pal_record {
    pal_str kind;       /* for example "key" */
    pal_str name;       /* unique in its tenant and kind */
    pal_id session;     /* the session that it belongs to and is erased with; may be empty */
    pal_str body;       /* JSON */
    uint64_t version;   /* counted from 1 and increased by every write; set by the store */
    int64_t created_at; /* set by the store */
    int64_t updated_at; /* set by the store */
    int64_t expires_at; /* from this time on the record is not found, and the sweep removes it;
                           0: never */
    PAL_RESERVED(4);
} pal_record;

/* Instead of an expected version: do not check it. */
#define PAL_RECORD_VERSION_ANY UINT64_MAX

/* Writes a record and sets its version, created_at and updated_at. PAL_CONFLICT unless the stored
 * version is `expected_version`: 0 if there must be no such record, or PAL_RECORD_VERSION_ANY. */
PAL_API PAL_CHECKED pal_status pal_store_record_put(pal_store *store, pal_str tenant,
        pal_record *record, uint64_t expected_version, pal_error *err);
/* Removes a record. PAL_NOT_FOUND if there is no such record. */
PAL_API PAL_CHECKED pal_status pal_store_record_drop(
        pal_store *store, pal_str tenant, pal_str kind, pal_str name, pal_error *err);
/* Finds a record. PAL_NOT_FOUND if there is no such record or it has expired. */
PAL_API PAL_CHECKED pal_status pal_store_record_find(pal_store *store, pal_str tenant, pal_str kind,
        pal_str name, pal_arena *arena, pal_record *out_record, pal_error *err);

typedef struct pal_record_query {
    pal_str tenant;
    pal_str kind;
    pal_id session;  /* empty: any */
    pal_str after;   /* the list begins after this name, in the order of the list; empty: at the
                        first */
    bool descending; /* order by name, descending; otherwise ascending. Names are compared byte by
                        byte */
    uint32_t limit;  /* records on a page, up to PAL_RECORD_PAGE_MAX; 0: 50 */
    PAL_RESERVED(4);
} pal_record_query;

typedef struct pal_record_page {
    pal_record *items;
    size_t len;
    bool has_more;
    PAL_RESERVED(4);
} pal_record_page;

/* Lists the records of one kind, ordered by name. */
PAL_API PAL_CHECKED pal_status pal_store_record_list(pal_store *store,
        const pal_record_query *query, pal_arena *arena, pal_record_page *out_records,
        pal_error *err);

/* ---- Blobs ---- */

#define PAL_BLOB_NAME_SIZE 72 /* "sha256:", 64 hex digits and a NUL */

/* Stores bytes under the hash of their content. Storing the same bytes again takes no space. A blob
 * that no message refers to is removed by the sweep after a day. PAL_LIMIT: the blob is larger than
 * blob_bytes_max. */
PAL_API PAL_CHECKED pal_status pal_store_blob_put(pal_store *store, pal_str tenant,
        pal_str media_type, pal_str data, char out_name[PAL_BLOB_NAME_SIZE], pal_error *err);
/* Reads a blob by the name in pal_part.blob. PAL_NOT_FOUND if the tenant has no such blob. */
PAL_API PAL_CHECKED pal_status pal_store_blob_get(pal_store *store, pal_str tenant, pal_str name,
        pal_arena *arena, pal_str *out_media_type, pal_str *out_data, pal_error *err);
/* Reports the size of a blob without reading it. PAL_NOT_FOUND if the tenant has no such blob. */
PAL_API PAL_CHECKED pal_status pal_store_blob_size(
        pal_store *store, pal_str tenant, pal_str name, uint64_t *out_bytes, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
