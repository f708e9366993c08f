/* server_import_known.c - the messages that a session had before it is imported again: a map from
 * id and client id to what is remembered of a message, its seq and its number of parts, in one
 * word. */
#include "server/server_import_inside.h"

#include <stdio.h>

#define KNOWN_PAGE 1000
#define KNOWN_PARTS_BITS 13 /* more than a message may have */

static void *known_make(const pal_message *message)
{
    return (void *)(uintptr_t)(message->seq << KNOWN_PARTS_BITS | message->parts_len);
}

static uint64_t known_seq_of(const void *known)
{
    return (uint64_t)(uintptr_t)known >> KNOWN_PARTS_BITS;
}

static size_t known_parts_of(const void *known)
{
    return (uintptr_t)known & (((uintptr_t)1 << KNOWN_PARTS_BITS) - 1);
}

static pal_status add_known(pal_import *import, const pal_message *message)
{
    void *seq = known_make(message);
    pal_str id = pal_arena_copy(import->known_arena,
            pal_str_make((const char *)message->id.bytes, sizeof message->id.bytes));
    pal_str client_id = pal_arena_copy(import->known_arena, message->client_id);
    if (pal_arena_failure(import->known_arena) != PAL_OK ||
            pal_map_set(&import->known, id, seq) != PAL_OK ||
            (client_id.len && pal_map_set(&import->known, client_id, seq) != PAL_OK))
        return pal_import_no_memory(import);
    return PAL_OK;
}

pal_status pal_import_known_load(pal_import *import)
{
    pal_load load = {.limit = KNOWN_PAGE, .hidden = true};
    pal_messages page;
    pal_status status;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_import_no_memory(import);
    do {
        pal_arena_reset(arena);
        status = pal_store_load(
                import->store, import->tenant, import->id, &load, arena, &page, import->err);
        for (size_t i = 0; status == PAL_OK && i < page.len; i++) {
            load.after_seq = page.items[i].seq;
            status = add_known(import, &page.items[i]);
        }
    } while (status == PAL_OK && page.has_more);
    pal_arena_free(arena);
    return status;
}

static const void *known_find(const pal_import *import, const pal_message *message)
{
    const void *known = NULL;
    if (!pal_id_is_none(message->id))
        known = pal_map_find(&import->known,
                pal_str_make((const char *)message->id.bytes, sizeof message->id.bytes));
    if (!known && message->client_id.len)
        known = pal_map_find(&import->known, message->client_id);
    return known;
}

uint64_t pal_import_known_seq(pal_import *import, pal_message *message)
{
    const void *known = known_find(import, message);
    char text[PAL_CLIENT_ID_LEN_MAX];

    while (known && message->client_id.len && known_parts_of(known) < message->parts_len) {
        size_t before = known_parts_of(known);
        int len = snprintf(text, sizeof text, "%.*s#%zu", PAL_STR_ARG(message->client_id), before);
        if (before == 0 || len < 0 || (size_t)len >= sizeof text)
            break;
        message->id = (pal_id){{0}};
        message->client_id = pal_arena_copy(import->arena, pal_str_make(text, (size_t)len));
        message->parts += before;
        message->parts_len -= before;
        known = known_find(import, message);
    }
    return known_seq_of(known);
}
