/* cache.c - the cache of an engine: when an answer from memory is allowed.
 *
 * An answer from memory must be the one that the backend would give now. Four numbers ensure this.
 * A read notes them before anything else; together they describe the state that it may show.
 *
 *   outside   from the backend: changes whenever anybody else has changed the data. An entry is
 *             valid only with the number that it was made with
 *   slot      odd from the beginning of a commit that changes the session to the end of it, when
 *             the entry was changed as well. Meanwhile reads go to the backend. If the number
 *             differs at the end of such a read, its result is not kept
 *   all       the same for commits that can change any session, such as an erasure. They empty the
 *             cache, and entries are valid only with their number
 *   names     the same for commits that give a name to a session. The name may be taken from an
 *             expired session, which changes its record. Therefore the record of a session that can
 *             expire is valid only with its number
 *
 * So an entry does not show a commit before it is durable, and shows it as soon as any caller can
 * know of it. Ids are found only with their tenant, which is a part of the key of an entry.
 *
 * A session that is read for the first time in a while is not kept: a walk over all sessions costs
 * almost nothing and does not push out the ones in use (pal_cache_shard_touch()).
 *
 * Crash argument: nothing here is stored. */
#include "store/cache/cache_internal.h"

#include "base/memory.h"

/* Nothing of this table is called: a backend with a clock of its own has no outside(). */
static const pal_store_backend memory_table = {.scheme = "none"};

pal_status pal_cache_open(pal_engine *engine, uint64_t bytes_max, pal_error *err)
{
    pal_cache *cache;

    if (bytes_max == 0 || !engine->backend->outside || engine->backend->now_ms)
        return PAL_OK;
    cache = pal_calloc(1, sizeof(*cache));
    if (!cache)
        return pal_no_memory(err);
    cache->engine = engine;
    cache->memory = (pal_engine){.backend = &memory_table, .cache = cache, .is_only_memory = true};
    cache->shard_bytes_max = bytes_max / PAL_CACHE_SHARDS;
    for (size_t i = 0; i < PAL_CACHE_SHARDS; i++)
        pthread_mutex_init(&cache->shards[i].lock, NULL);
    engine->cache = cache;
    return PAL_OK;
}

void pal_cache_close(pal_engine *engine)
{
    pal_cache *cache = engine->cache;

    if (!cache)
        return;
    for (size_t i = 0; i < PAL_CACHE_SHARDS; i++) {
        pal_cache_shard_clear(&cache->shards[i]);
        pal_map_done(&cache->shards[i].entries);
        pthread_mutex_destroy(&cache->shards[i].lock);
    }
    pal_free(cache);
    engine->cache = NULL;
}

pal_cache_counts pal_cache_count(const pal_engine *engine)
{
    pal_cache *cache = engine->cache;
    pal_cache_counts counts = {0};

    if (!cache)
        return counts;
    counts.hits = atomic_load_explicit(&cache->hits, memory_order_relaxed);
    counts.misses = atomic_load_explicit(&cache->misses, memory_order_relaxed);
    for (size_t i = 0; i < PAL_CACHE_SHARDS; i++) {
        pthread_mutex_lock(&cache->shards[i].lock);
        counts.bytes += cache->shards[i].bytes;
        pthread_mutex_unlock(&cache->shards[i].lock);
    }
    return counts;
}

pal_engine *pal_cache_memory(const pal_engine *engine)
{
    return engine->cache ? &engine->cache->memory : NULL;
}

pal_status pal_cache_missing(pal_error *err)
{
    return pal_error_set(err, PAL_BUSY, "the session is not in memory");
}

/* The last bytes of an id are random. */
pal_cache_shard *pal_cache_shard_of(pal_cache *cache, pal_id id)
{
    return &cache->shards[id.bytes[15] % PAL_CACHE_SHARDS];
}

atomic_uint *pal_cache_slot_of(pal_cache *cache, pal_id id)
{
    size_t bits = (size_t)id.bytes[14] << 8 | id.bytes[15];

    return &cache->slots[bits % PAL_CACHE_SLOTS];
}

/* One session must not push out all others. */
size_t pal_cache_tail_bytes_max(const pal_cache *cache)
{
    return cache->shard_bytes_max / 2;
}

/* ---- What may be answered ---- */

bool pal_cache_note_take(pal_cache *cache, pal_id id, pal_cache_note *out_note)
{
    out_note->slot = atomic_load(pal_cache_slot_of(cache, id));
    out_note->all = atomic_load(&cache->all);
    out_note->names = atomic_load(&cache->names);
    out_note->outside = cache->engine->backend->outside(cache->engine);
    return out_note->outside != 0 && out_note->slot % 2 == 0 && out_note->all % 2 == 0;
}

bool pal_cache_note_holds(pal_cache *cache, pal_id id, const pal_cache_note *note)
{
    return atomic_load(pal_cache_slot_of(cache, id)) == note->slot;
}

bool pal_cache_entry_is_valid(const pal_cache_entry *entry, const pal_cache_note *note)
{
    return entry->outside == note->outside && entry->all == note->all;
}

bool pal_cache_session_is_valid(const pal_cache_entry *entry, const pal_cache_note *note)
{
    if (!entry->has_session)
        return false;
    return entry->session.session.expires_at == 0 ||
            (note->names % 2 == 0 && entry->names == note->names);
}
