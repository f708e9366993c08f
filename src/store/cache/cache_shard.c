/* cache_shard.c - finds entries, and drops the least recently used ones. The caller holds the lock
 * of the shard. */
#include <string.h>

#include "base/memory.h"
#include "store/cache/cache_internal.h"

pal_str pal_cache_key(char out[PAL_CACHE_KEY_MAX], pal_str tenant, pal_id id)
{
    memcpy(out, id.bytes, sizeof(id.bytes));
    if (tenant.len > 0)
        memcpy(out + sizeof(id.bytes), tenant.data, tenant.len);
    return pal_str_make(out, sizeof(id.bytes) + tenant.len);
}

pal_cache_entry *pal_cache_shard_find(pal_cache_shard *shard, pal_str key)
{
    return pal_map_find(&shard->entries, key);
}

/* ---- The order of use ---- */

static void take_out(pal_cache_shard *shard, pal_cache_entry *entry)
{
    *(entry->newer ? &entry->newer->older : &shard->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &shard->oldest) = entry->newer;
    entry->newer = entry->older = NULL;
}

static void put_first(pal_cache_shard *shard, pal_cache_entry *entry)
{
    entry->older = shard->newest;
    *(shard->newest ? &shard->newest->newer : &shard->oldest) = entry;
    shard->newest = entry;
}

void pal_cache_shard_use(pal_cache_shard *shard, pal_cache_entry *entry)
{
    if (shard->newest == entry)
        return;
    take_out(shard, entry);
    put_first(shard, entry);
}

/* ---- Adding and dropping ---- */

pal_cache_entry *pal_cache_shard_add(pal_cache_shard *shard, pal_str key)
{
    pal_cache_entry *entry = pal_calloc(1, sizeof(*entry) + key.len);

    if (!entry)
        return NULL;
    memcpy(entry->key, key.data, key.len);
    entry->key_len = key.len;
    if (pal_map_set(&shard->entries, pal_str_make(entry->key, key.len), entry) != PAL_OK) {
        pal_free(entry);
        return NULL;
    }
    put_first(shard, entry);
    return entry;
}

void pal_cache_shard_drop(pal_cache_shard *shard, pal_cache_entry *entry)
{
    pal_map_remove(&shard->entries, pal_str_make(entry->key, entry->key_len));
    take_out(shard, entry);
    shard->bytes -= entry->bytes;
    pal_cache_entry_free(entry);
}

void pal_cache_shard_fit(pal_cache_shard *shard, pal_cache_entry *entry, size_t bytes_max)
{
    shard->bytes -= entry->bytes;
    entry->bytes = pal_cache_entry_size(entry);
    shard->bytes += entry->bytes;
    while (shard->bytes > bytes_max && shard->oldest)
        pal_cache_shard_drop(shard, shard->oldest);
}

void pal_cache_shard_clear(pal_cache_shard *shard)
{
    while (shard->oldest)
        pal_cache_shard_drop(shard, shard->oldest);
}

/* A session that was used before gets an entry while there is room. If there is none, it must have
 * been used so recently that it would still have its entry. Otherwise a walk over more sessions
 * than there is room for would replace entries all the time, and find none. */
bool pal_cache_shard_touch(pal_cache_shard *shard, pal_id id, size_t bytes_max)
{
    pal_cache_touch *touch;
    uint32_t bits, distance;
    bool is_known;

    /* The last bytes of an id are random. */
    memcpy(&bits, id.bytes + sizeof(id.bytes) - sizeof(bits), sizeof(bits));
    touch = &shard->touched[bits / PAL_CACHE_SHARDS % PAL_CACHE_TOUCHED];
    is_known = touch->bits == bits;
    distance = shard->touches - touch->at;
    *touch = (pal_cache_touch){.bits = bits, .at = shard->touches++};
    return is_known && (shard->bytes < bytes_max / 4 * 3 || distance <= shard->entries.len);
}
