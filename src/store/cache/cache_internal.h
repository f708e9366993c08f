/* cache_internal.h - declarations that the files of the cache share.
 *
 * cache.c        the cache of an engine: when an answer from memory is allowed
 * cache_read.c   answers reads, and keeps what the backend returned
 * cache_apply.c  changes entries after a commit
 * cache_entry.c  one session: its record and its marks
 * cache_tail.c   the newest rows of a session
 * cache_shard.c  finds entries, and drops the least recently used ones */
#ifndef PAL_CACHE_INTERNAL_H
#define PAL_CACHE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"
#include "palaver/limits.h"
#include "store/cache/cache.h"

#define PAL_CACHE_SHARDS 16   /* a power of two */
#define PAL_CACHE_SLOTS 4096  /* a power of two */
#define PAL_CACHE_TOUCHED 512 /* sessions per shard whose last use is remembered; a power of two */
#define PAL_CACHE_BODIES 4    /* marks per session that are kept with their bodies */

/* ---- cache_tail.c: consecutive rows of one session ---- */

/* A row that never changes. Its texts follow it in memory. */
typedef struct pal_cache_row {
    atomic_uint refs;
    size_t bytes;
    pal_row row;
} pal_cache_row;

/* Rows in the order of their seqs. Several tails can share rows. A tail that readers use grows only
 * behind the rows that they know. */
typedef struct pal_cache_tail {
    atomic_uint refs;
    size_t len;
    size_t cap;
    size_t bytes;
    pal_cache_row *rows[];
} pal_cache_tail;

/* NULL if there is no memory. */
pal_cache_row *pal_cache_row_new(const pal_row *row);
void pal_cache_row_release(pal_cache_row *row); /* accepts NULL */
/* Makes a tail of these rows, with room for more. Takes over the references to the rows, unless
 * there is no memory; then it returns NULL. */
pal_cache_tail *pal_cache_tail_new(pal_cache_row *const *rows, size_t len);
pal_cache_tail *pal_cache_tail_keep(pal_cache_tail *tail); /* adds a reference */
void pal_cache_tail_release(pal_cache_tail *tail);         /* accepts NULL */
/* Adds a row and takes over the reference to it. If the tail gets longer than `bytes_max`, its
 * older half is dropped. Returns false if there is no memory; nothing has changed then. The caller
 * holds the lock of the entry that has the tail, and *tail can be replaced. */
bool pal_cache_tail_add(pal_cache_tail **tail, pal_cache_row *row, size_t bytes_max);
uint64_t pal_cache_tail_first(const pal_cache_tail *tail);
uint64_t pal_cache_tail_last(const pal_cache_tail *tail);

/* ---- cache_entry.c: one session ---- */

/* What was true when a read began. */
typedef struct pal_cache_note {
    uint64_t outside;
    uint32_t all;
    uint32_t names;
    uint32_t slot;
} pal_cache_note;

typedef struct pal_cache_marks {
    bool is_known; /* all marks that the session has are here */
    pal_mark *items;
    size_t len;
    size_t cap;
} pal_cache_marks;

typedef struct pal_cache_entry {
    struct pal_cache_entry *newer, *older; /* by their last use */
    size_t bytes;     /* everything of the entry, as the shard has counted it */
    uint64_t outside; /* the entry is valid only with these numbers */
    uint32_t all;
    uint32_t names; /* the record of a session that can expire is valid only with this number */
    bool has_session;
    pal_session_row session; /* its texts are in `texts` */
    char *texts;
    size_t texts_size;
    pal_cache_tail *tail; /* NULL: no rows */
    pal_cache_marks hiding; /* without bodies */
    pal_cache_marks brief;
    pal_mark bodies[PAL_CACHE_BODIES]; /* each with a body of its own */
    size_t bodies_len;
    size_t bodies_next; /* the next one to be replaced */
    size_t key_len;
    char key[];
} pal_cache_entry;

void pal_cache_entry_free(pal_cache_entry *entry);
/* Counts the memory of the entry. */
size_t pal_cache_entry_size(const pal_cache_entry *entry);
/* Keeps a copy of the session. Returns false if there is no memory. */
bool pal_cache_entry_set_session(pal_cache_entry *entry, const pal_session_row *row);
/* Copies the session into the arena. Returns false if the arena has failed. */
bool pal_cache_entry_get_session(
        const pal_cache_entry *entry, pal_arena *arena, pal_session_row *out_row);
/* Keeps copies of all marks of the session, without bodies. */
void pal_cache_entry_set_marks(pal_cache_marks *marks, const pal_mark *items, size_t len);
/* Keeps a copy of one mark, with its body. */
void pal_cache_entry_set_body(pal_cache_entry *entry, const pal_mark *mark);
/* Adds a mark that was committed. */
void pal_cache_entry_add_mark(pal_cache_entry *entry, const pal_mark *mark);
/* Copies the wanted marks into the arena. Returns false if the entry does not have all of them, or
 * the arena has failed. */
bool pal_cache_entry_get_marks(const pal_cache_entry *entry, const pal_mark_scan *scan,
        pal_arena *arena, pal_mark **out_marks, size_t *out_len);

/* ---- cache_shard.c ---- */

/* The last use of a session that was not in memory. */
typedef struct pal_cache_touch {
    uint32_t bits; /* of the session's id */
    uint32_t at;
} pal_cache_touch;

typedef struct pal_cache_shard {
    pthread_mutex_t lock; /* protects everything here, and the entries */
    pal_map entries;
    pal_cache_entry *newest, *oldest;
    size_t bytes;
    uint32_t touches; /* how many uses were remembered so far */
    pal_cache_touch touched[PAL_CACHE_TOUCHED];
} pal_cache_shard;

#define PAL_CACHE_KEY_MAX (sizeof(pal_id) + PAL_TENANT_LEN_MAX)

/* Builds the key of a session's entry. The tenant must not be longer than PAL_TENANT_LEN_MAX. */
pal_str pal_cache_key(char out[PAL_CACHE_KEY_MAX], pal_str tenant, pal_id id);
/* Finds an entry. NULL if there is none. */
pal_cache_entry *pal_cache_shard_find(pal_cache_shard *shard, pal_str key);
/* Adds an empty entry. NULL if there is no memory. */
pal_cache_entry *pal_cache_shard_add(pal_cache_shard *shard, pal_str key);
void pal_cache_shard_drop(pal_cache_shard *shard, pal_cache_entry *entry);
/* Makes the entry the one that was used last. */
void pal_cache_shard_use(pal_cache_shard *shard, pal_cache_entry *entry);
/* Counts the entry again after a change, and drops old entries until all fit. */
void pal_cache_shard_fit(pal_cache_shard *shard, pal_cache_entry *entry, size_t bytes_max);
void pal_cache_shard_clear(pal_cache_shard *shard);
/* Remembers that a session is used that has no entry. Returns whether it should get one. */
bool pal_cache_shard_touch(pal_cache_shard *shard, pal_id id, size_t bytes_max);

/* ---- cache.c ---- */

struct pal_cache {
    pal_engine *engine; /* the one that has a backend */
    pal_engine memory;  /* the one that has none */
    size_t shard_bytes_max;
    atomic_uint all;   /* odd while anything in the store may change */
    atomic_uint names; /* odd while expired sessions may be moved to the trash */
    atomic_uint slots[PAL_CACHE_SLOTS]; /* odd while a session of the slot may change */
    _Atomic uint64_t hits;
    _Atomic uint64_t misses;
    pal_cache_shard shards[PAL_CACHE_SHARDS];
};

pal_cache_shard *pal_cache_shard_of(pal_cache *cache, pal_id id);
atomic_uint *pal_cache_slot_of(pal_cache *cache, pal_id id);
/* Returns false if nothing about the session may be answered from memory or kept now. */
bool pal_cache_note_take(pal_cache *cache, pal_id id, pal_cache_note *out_note);
/* Returns whether no commit of this engine has changed the session since the note was taken. */
bool pal_cache_note_holds(pal_cache *cache, pal_id id, const pal_cache_note *note);
/* Returns whether the entry shows the state that the note describes. */
bool pal_cache_entry_is_valid(const pal_cache_entry *entry, const pal_cache_note *note);
bool pal_cache_session_is_valid(const pal_cache_entry *entry, const pal_cache_note *note);
/* Fails because the answer is not in memory. */
pal_status pal_cache_missing(pal_error *err);
/* Returns how many bytes of rows one session can have. */
size_t pal_cache_tail_bytes_max(const pal_cache *cache);

#endif
