/* access_secret.c - random bytes that are stored in the store, for ids that clients cannot predict.
 *
 * The record is written on the condition that it does not exist. If several processes create it at
 * the same time, one succeeds, and the others read its record. The record is durable before it is
 * used and never changes, so a crash leaves either no secret or a complete one. */
#include "palaver/store_records.h"
#include "server/access/access_key.h"

#include <string.h>
#include "base/digest.h"
#include "base/memory.h"
#include "base/random.h"

#define KIND "secret"
#define NAME "ids"
#define TEXT_LEN (2 * PAL_SECRET_SIZE)

static pal_status read_secret(
        pal_store *store, pal_arena *arena, uint8_t out_secret[PAL_SECRET_SIZE], pal_error *err)
{
    pal_record record;
    pal_status status = pal_store_record_find(store, pal_str_of(PAL_ACCESS_TENANT),
            pal_str_of(KIND), pal_str_of(NAME), arena, &record, err);
    if (status != PAL_OK)
        return status;
    /* The body is a JSON string of hex digits. */
    pal_str text = record.body.len == TEXT_LEN + 2 ? pal_str_make(record.body.data + 1, TEXT_LEN)
                                                   : (pal_str){0};
    if (!pal_unhex(text, out_secret, PAL_SECRET_SIZE))
        return pal_error_set(err, PAL_CORRUPT, "the store's secret is damaged");
    return PAL_OK;
}

static pal_status make_secret(pal_store *store, pal_error *err)
{
    uint8_t bytes[PAL_SECRET_SIZE];
    char body[TEXT_LEN + 3] = "\"";
    pal_record record = {.kind = pal_str_of(KIND), .name = pal_str_of(NAME)};
    pal_status status = pal_random_secret(bytes, sizeof bytes, err);
    if (status != PAL_OK)
        return status;
    pal_hex(bytes, sizeof bytes, body + 1);
    memcpy(body + 1 + TEXT_LEN, "\"", 2);
    record.body = pal_str_of(body);
    status = pal_store_record_put(store, pal_str_of(PAL_ACCESS_TENANT), &record, 0, err);
    return status == PAL_CONFLICT ? PAL_OK : status;
}

pal_status pal_secret_get(pal_store *store, uint8_t out_secret[PAL_SECRET_SIZE], pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    pal_status status = read_secret(store, arena, out_secret, err);
    if (status == PAL_NOT_FOUND) {
        status = make_secret(store, err);
        if (status == PAL_OK)
            status = read_secret(store, arena, out_secret, err);
    }
    pal_arena_free(arena);
    return status;
}
