/* map.c - open addressing with linear probing.
 *
 * A free slot has a NULL value. At most three quarters of the slots are used, so every probe ends.
 * Removing an entry moves later entries of the same run back, so there are no tombstones and
 * lookups do not become slower over time. Keys are hashed by SipHash-1-3 with a random key of this
 * process. A map is used by one thread at a time. */
#include "base/map.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include "base/memory.h"
#include "base/random.h"

#define FIRST_CAP 16

struct pal_map_entry {
    pal_str key;
    void *value;
    uint64_t hash;
};

static uint64_t hash_key[2];
static pthread_once_t hash_key_once = PTHREAD_ONCE_INIT;

static void make_hash_key(void)
{
    pal_random_bytes(hash_key, sizeof hash_key);
}

static inline uint64_t rotate_left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate_left(v[1], 13) ^ v[0];
    v[3] = rotate_left(v[3], 16) ^ v[2];
    v[0] = rotate_left(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = rotate_left(v[3], 21) ^ v[0];
    v[1] = rotate_left(v[1], 17) ^ v[2];
    v[2] = rotate_left(v[2], 32);
}

static uint64_t hash_of(pal_str key)
{
    pthread_once(&hash_key_once, make_hash_key);
    uint64_t v[4] = {hash_key[0] ^ 0x736f6d6570736575u, hash_key[1] ^ 0x646f72616e646f6du,
            hash_key[0] ^ 0x6c7967656e657261u, hash_key[1] ^ 0x7465646279746573u};
    uint64_t word = 0;
    size_t at = 0;
    for (; key.len - at >= sizeof word; at += sizeof word) {
        memcpy(&word, key.data + at, sizeof word);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t)key.len << 56;
    for (size_t i = 0; at + i < key.len; i++)
        word |= (uint64_t)(unsigned char)key.data[at + i] << (8 * i);
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void pal_map_init(pal_map *map)
{
    *map = (pal_map){0};
}

void pal_map_done(pal_map *map)
{
    pal_free(map->entries);
    *map = (pal_map){0};
}

/* Returns the key's entry, or the free slot for it. The map must have slots. */
static pal_map_entry *entry_of(const pal_map *map, pal_str key, uint64_t hash)
{
    size_t mask = map->cap - 1;
    size_t i = hash & mask;
    while (map->entries[i].value) {
        if (map->entries[i].hash == hash && pal_str_equal(map->entries[i].key, key))
            break;
        i = (i + 1) & mask;
    }
    return &map->entries[i];
}

void *pal_map_find(const pal_map *map, pal_str key)
{
    return map->len ? entry_of(map, key, hash_of(key))->value : NULL;
}

static pal_status grow(pal_map *map)
{
    size_t cap = map->cap ? map->cap * 2 : FIRST_CAP;
    pal_map bigger = {pal_calloc(cap, sizeof(pal_map_entry)), cap, map->len};
    if (!bigger.entries)
        return PAL_NO_MEMORY;
    for (size_t i = 0; i < map->cap; i++) {
        if (map->entries[i].value)
            *entry_of(&bigger, map->entries[i].key, map->entries[i].hash) = map->entries[i];
    }
    pal_free(map->entries);
    *map = bigger;
    return PAL_OK;
}

pal_status pal_map_set(pal_map *map, pal_str key, void *value)
{
    assert(value);
    if (map->len >= map->cap / 4 * 3) {
        pal_status status = grow(map);
        if (status)
            return status;
    }
    uint64_t hash = hash_of(key);
    pal_map_entry *entry = entry_of(map, key, hash);
    map->len += entry->value == NULL;
    *entry = (pal_map_entry){key, value, hash};
    return PAL_OK;
}

/* Moves later entries of the run into the hole at `hole` if they are allowed to be there. */
static void close_hole(pal_map *map, size_t hole)
{
    size_t mask = map->cap - 1;
    for (size_t i = (hole + 1) & mask; map->entries[i].value; i = (i + 1) & mask) {
        size_t home = map->entries[i].hash & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        map->entries[hole] = map->entries[i];
        hole = i;
    }
    map->entries[hole] = (pal_map_entry){0};
}

void *pal_map_remove(pal_map *map, pal_str key)
{
    if (map->len == 0)
        return NULL;
    pal_map_entry *entry = entry_of(map, key, hash_of(key));
    void *value = entry->value;
    if (value) {
        close_hole(map, (size_t)(entry - map->entries));
        map->len--;
    }
    return value;
}

bool pal_map_next(const pal_map *map, size_t *position, pal_str *out_key, void **out_value)
{
    while (*position < map->cap) {
        const pal_map_entry *entry = &map->entries[(*position)++];
        if (!entry->value)
            continue;
        if (out_key)
            *out_key = entry->key;
        if (out_value)
            *out_value = entry->value;
        return true;
    }
    return false;
}
