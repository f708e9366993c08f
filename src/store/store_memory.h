/* store_memory.h - the structures behind "memory:", shared by the store_memory*.c files only.
 *
 * A tenant owns sessions, blobs, ledger entries and records; a session owns its rows, marks and
 * inbox, and the records that belong to it go with it. Every object is one allocation with its
 * texts behind it, and hangs on lists that run through the objects themselves, so that removing
 * never needs memory.
 *
 * Invariants: a session's rows are contiguous and end at its last_seq. `parent` is never dangling:
 * a session that has children stays as a shell in the state PAL_SESSION_ERASED. A name is in
 * `keys` or `aliases` exactly while its session is in the state PAL_SESSION_ACTIVE.
 *
 * Threads: whoever changes anything holds the engine's lock for writing (apply), whoever looks
 * holds it for reading. The functions declared here expect it to be held. */
#ifndef PAL_STORE_MEMORY_H
#define PAL_STORE_MEMORY_H

#include <pthread.h>
#include "base/map.h"
#include "store/store_backend.h"

typedef struct mem_session mem_session;
typedef struct mem_tenant mem_tenant;
typedef struct mem_word mem_word;

enum { MEM_WORD_LEVELS = 12 };

/* A tenant's words. */
typedef struct mem_words {
    mem_word *first[MEM_WORD_LEVELS]; /* of each level */
    uint64_t random;                  /* decides about the levels of the next word */
} mem_words;

typedef struct mem_row {
    pal_row row;
    mem_session *session;
    uint64_t pos; /* the order of arrival over all sessions */
    struct mem_row *older, *newer;
} mem_row;

typedef struct mem_blob {
    uint8_t hash[32];
    uint64_t refs; /* entries in sessions' `refs` */
    int64_t put_at;
    pal_str media_type;
    pal_str data;
    struct mem_blob *next, *prev;
} mem_blob;

/* The rows of one append and a blob that one of them refers to. */
typedef struct mem_ref {
    mem_blob *blob;
    uint64_t first_seq;
    uint64_t last_seq;
} mem_ref;

typedef struct mem_item {
    pal_inbox_item item;
    struct mem_item *next;
} mem_item;

typedef struct mem_entry mem_entry;

/* Where the entries of one hour are: with those of all the tenant, and of the agent alone. */
enum { MEM_BOOK_ALL, MEM_BOOK_AGENT, MEM_BOOKS };

typedef struct mem_hour {
    int64_t hour; /* since 1970 */
    pal_ledger_sum sum;
    mem_entry *entries; /* joined by next_hour */
} mem_hour;

/* The hours of the tenant, or of one of its agents. */
typedef struct mem_book {
    pal_str agent;
    pal_map hours; /* of mem_hour, by hour */
} mem_book;

typedef struct mem_turn {
    pal_str id;
    mem_entry *entries; /* joined by next_turn */
} mem_turn;

struct mem_entry {
    pal_ledger_row row;
    mem_session *session;       /* NULL: of the tenant alone, or its session was erased */
    mem_turn *turn;             /* NULL: of none, or its session was erased */
    mem_hour *hours[MEM_BOOKS]; /* the agent's may be NULL */
    mem_entry *next;            /* in the tenant */
    mem_entry *next_session;    /* in the session */
    mem_entry *next_turn;
    mem_entry *next_hour[MEM_BOOKS];
};

typedef struct mem_kind mem_kind;

typedef struct mem_record {
    pal_record record;
    mem_kind *kind;
    mem_session *owner;             /* NULL: none */
    struct mem_record *next, *prev; /* of the same owner */
} mem_record;

/* A tenant's records of one kind. */
struct mem_kind {
    pal_str name;
    mem_record **items; /* by their names' bytes */
    size_t len, cap;
    mem_kind *next;
};

/* A key or an alias that leads to a session. */
typedef struct mem_name {
    mem_session *session;
    pal_str text;
} mem_name;

/* A session's record with its texts behind it; replaced as a whole when one changes. */
typedef struct mem_info {
    pal_session record;
    size_t text_len;
    char *text;
} mem_info;

struct mem_session {
    pal_id id;
    uint64_t handle;
    mem_tenant *tenant;
    mem_session *prev, *next; /* in the tenant, by handle */
    mem_info *info;
    uint64_t mark_number;
    uint64_t fork_mark;

    mem_session *parent;
    mem_session *children; /* joined by next_child */
    mem_session *next_child;

    mem_row **rows; /* rows[rows_skip] is the first; those before it fell to the cap */
    size_t rows_skip, rows_len, rows_cap;
    pal_map client_ids; /* of mem_row */
    mem_ref *refs;
    size_t refs_len, refs_cap;
    pal_mark *marks; /* by number; bodies are allocations of their own */
    size_t marks_len, marks_cap;
    mem_item *inbox; /* oldest first */
    mem_entry *ledger;
    mem_record *records;

    char *lease_owner; /* allocated */
    size_t lease_owner_len;
    uint64_t lease_fence; /* 0: nobody ever held it */
    int64_t lease_expires_at;
    int64_t lease_ttl_ms;
};

/* How much a tenant has, so that the statistics need not walk over it. */
typedef struct mem_counts {
    uint64_t states[PAL_SESSION_ERASED + 1]; /* sessions, by their state */
    uint64_t messages;
    uint64_t content_bytes;
    uint64_t blobs;
    uint64_t blob_bytes;
} mem_counts;

struct mem_tenant {
    mem_tenant *next;
    pal_str name;
    mem_session *sessions, *sessions_last;
    pal_map ids;     /* of mem_session, by id: another tenant may have the same */
    pal_map rows;    /* of mem_row, by message id, likewise */
    pal_map keys;    /* of mem_name */
    pal_map aliases; /* of mem_name */
    pal_map blobs;   /* of mem_blob, by hash */
    mem_blob *blob_list;
    pal_map requests; /* of mem_entry, by request_id */
    mem_entry *ledger;
    mem_book book;  /* of all its entries */
    pal_map agents; /* of mem_book, by agent */
    pal_map turns;  /* of mem_turn, by id */
    pal_map kinds;  /* of mem_kind, by name */
    mem_kind *kind_list;
    mem_words words; /* of its rows before `unindexed` */
    mem_counts counts;
};

typedef struct mem_engine {
    pal_engine base;
    pthread_rwlock_t lock;
    size_t cap; /* messages kept in each session; 0: all */
    uint64_t handle_last;
    mem_tenant *tenant_list;
    pal_map tenants;  /* of mem_tenant, by name */
    pal_map handles;  /* of mem_session, by handle */
    mem_row *newest;  /* of all rows, joined by `older` */
    uint64_t pos_last;
    mem_row *unindexed; /* the oldest row that is not in the search index, nor are the newer ones */
    pal_map places;     /* of mem_row, by pos: those in the search index */
} mem_engine;

/* A lock under which a stream of readers can't keep the writer out for ever; not 0 on failure. */
int pal_mem_lock_init(pthread_rwlock_t *lock);

/* ---- store_memory_session.c ---- */

static inline pal_str mem_id_key(const pal_id *id)
{
    return pal_str_make((const char *)id->bytes, sizeof id->bytes);
}

/* The session is about to leave its state, or has entered it. */
static inline void mem_state_leave(mem_session *session)
{
    session->tenant->counts.states[session->info->record.state]--;
}

static inline void mem_state_enter(mem_session *session)
{
    session->tenant->counts.states[session->info->record.state]++;
}

/* NULL where there is none. */
mem_tenant *pal_mem_tenant_find(mem_engine *engine, pal_str name);
/* Makes it where there is none; NULL when there is no memory. */
mem_tenant *pal_mem_tenant_get(mem_engine *engine, pal_str name);
mem_session *pal_mem_session_find(mem_engine *engine, pal_str tenant, pal_id id);
mem_session *pal_mem_session_by_handle(mem_engine *engine, uint64_t handle);
bool pal_mem_session_expired(const mem_session *session, int64_t now_ms);
/* A copy of the record and its texts in one allocation; NULL when there is no memory. */
mem_info *pal_mem_info_new(const pal_session *record, const mem_tenant *tenant);
/* Puts the session at the end of the tenant's list and, where there is one, under its parent. */
void pal_mem_session_link(mem_tenant *tenant, mem_session *session, mem_session *parent);

/* What the state of a session must not stand in the way of. */
enum {
    MEM_ALLOW_EXPIRED = 1,
    MEM_ALLOW_TRASH = 2,
};

/* The session of the work, if its state and the fence let it be written; else sets the op's
 * error and returns its status. */
pal_status pal_mem_session_for(
        mem_engine *engine, pal_work *work, unsigned allow, mem_session **out_session);
/* The state's half of it, for another session than the op's own. */
pal_status pal_mem_session_check(
        mem_engine *engine, pal_work *work, pal_id id, unsigned allow, mem_session **out_session);

pal_status pal_mem_create(mem_engine *engine, pal_work *work);
pal_status pal_mem_fork(mem_engine *engine, pal_work *work);
pal_status pal_mem_adopt(mem_engine *engine, pal_work *work);
pal_status pal_mem_update(mem_engine *engine, pal_work *work);
pal_status pal_mem_delete(mem_engine *engine, pal_work *work);
pal_status pal_mem_restore(mem_engine *engine, pal_work *work);

/* ---- store_memory_name.c ---- */

/* The session that a key or an alias leads to, expired or not; NULL where it is free. */
mem_session *pal_mem_name_find(const pal_map *names, pal_str text);
/* Refuses names that a session other than `self` (may be NULL) holds and has not expired. */
pal_status pal_mem_names_check(
        mem_tenant *tenant, pal_work *work, const pal_session *record, const mem_session *self);
/* Takes the names of `record` for `self`, from expired holders too, which go to the trash: the
 * sweep would have put them there. Names that `self` has already stay; PAL_NO_MEMORY leaves it
 * with those of `before` (may be NULL) only. */
pal_status pal_mem_names_take(
        mem_session *self, const pal_session *record, const pal_session *before, int64_t now_ms);
/* Gives up all names of `record` that `keep` (may be NULL) has not. */
void pal_mem_names_drop(mem_session *self, const pal_session *record, const pal_session *keep);
void pal_mem_session_trash(mem_session *session, int64_t now_ms);

/* ---- store_memory_append.c ---- */

pal_status pal_mem_append(mem_engine *engine, pal_work *work);
pal_status pal_mem_ledger_add(mem_engine *engine, pal_work *work);
pal_status pal_mem_blob_put(mem_engine *engine, pal_work *work);

/* ---- store_memory_ledger.c ---- */

/* A copy of the row with its places in the books made ready; NULL when there is no memory. */
mem_entry *pal_mem_entry_new(mem_tenant *tenant, const pal_ledger_row *row, int64_t now_ms);
/* For one that was never linked. */
void pal_mem_entry_free(mem_tenant *tenant, mem_entry *entry);
/* Enters it everywhere; can't fail. */
void pal_mem_entry_link(mem_tenant *tenant, mem_entry *entry);
/* Its session is erased: whatever could tell of that goes, the numbers and the agent stay. */
void pal_mem_entry_forget(mem_tenant *tenant, mem_entry *entry);
void pal_mem_ledger_clear(mem_tenant *tenant);
/* A callback of the table. */
pal_status pal_mem_ledger_sum(pal_engine *base, const pal_ledger_query *query, uint64_t handle,
        pal_ledger_sum *out_sum, pal_error *err);

/* ---- store_memory_record.c ---- */

pal_status pal_mem_record_put(mem_engine *engine, pal_work *work);
pal_status pal_mem_record_drop(mem_engine *engine, pal_work *work);
/* NULL where there is none. One that has expired is there until it is swept. */
mem_record *pal_mem_record_get(const mem_tenant *tenant, pal_str kind, pal_str name);
/* Keeps the record as it is, in the place of one that has its name. */
PAL_CHECKED pal_status pal_mem_record_keep(
        mem_tenant *tenant, mem_session *owner, const pal_record *record);
void pal_mem_record_remove(mem_record *record);
/* All that belong to the session; returns how many. */
uint64_t pal_mem_records_erase(mem_session *session);
/* Removes up to *left of the tenant's records that have expired, and counts *left down. True where
 * some stay. */
bool pal_mem_records_sweep(mem_tenant *tenant, int64_t now_ms, uint32_t *left);
void pal_mem_records_clear(mem_tenant *tenant);
/* Two callbacks of the table. */
pal_status pal_mem_record_find(pal_engine *base, pal_str tenant, pal_str kind, pal_str name,
        pal_arena *arena, pal_record *out_record, pal_error *err);
pal_status pal_mem_record_list(pal_engine *base, const pal_record_query *query, uint64_t handle,
        int64_t now_ms, pal_arena *arena, pal_record *out_records, size_t records_max,
        size_t *out_len, pal_error *err);

/* ---- store_memory_turn.c ---- */

pal_status pal_mem_mark(mem_engine *engine, pal_work *work);
pal_status pal_mem_inbox_add(mem_engine *engine, pal_work *work);
pal_status pal_mem_inbox_drop(mem_engine *engine, pal_work *work);
/* False where the session has no such item. */
bool pal_mem_inbox_remove(mem_session *session, pal_id id);
pal_status pal_mem_lease_take(mem_engine *engine, pal_work *work);
pal_status pal_mem_lease_release(mem_engine *engine, pal_work *work);

/* ---- store_memory_erase.c ---- */

pal_status pal_mem_erase(mem_engine *engine, pal_work *work);
/* Removes what an erased session has kept beyond what its forks share. */
void pal_mem_shell_trim(mem_engine *engine, mem_session *session);
pal_status pal_mem_sweep(mem_engine *engine, pal_work *work);
/* Removes rows from the front until `rows_len` are left. */
void pal_mem_rows_cut(mem_engine *engine, mem_session *session, size_t rows_len);
/* Frees everything, but for the engine itself. */
void pal_mem_engine_clear(mem_engine *engine);

/* ---- store_memory_list.c ---- */

/* An expired session counts as in the trash until the sweep puts it there. */
pal_session_state pal_mem_state(const mem_session *session, int64_t now_ms);
/* Three callbacks of the table; they take the lock themselves. */
pal_status pal_mem_inbox_owners(pal_engine *base, const pal_inbox_owner *after, int64_t now_ms,
        pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max, size_t *out_len,
        pal_error *err);
pal_status pal_mem_find(pal_engine *base, pal_str tenant, pal_find_by by, pal_str name,
        pal_arena *arena, pal_session_row *out_row, pal_error *err);
pal_status pal_mem_list(pal_engine *base, const pal_session_query *query, int64_t after_ms,
        uint64_t after_handle, pal_arena *arena, pal_session_row *out_rows, size_t rows_max,
        size_t *out_len, pal_error *err);

/* ---- store_memory_search.c ---- */

/* Puts the row at the newest end of the list of all rows, and takes it out again. */
void pal_mem_arrival_link(mem_engine *engine, mem_row *row);
void pal_mem_arrival_unlink(mem_engine *engine, mem_row *row);
/* Three more callbacks of the table. */
pal_status pal_mem_index_build(pal_engine *base, pal_arena *arena, const pal_index_part **out_part,
        bool *out_more, pal_error *err);
pal_status pal_mem_row_search(pal_engine *base, const pal_row_search *search, pal_found_sink sink,
        void *user, pal_error *err);
pal_status pal_mem_fork_list(pal_engine *base, uint64_t handle, uint64_t min_seq, pal_arena *arena,
        pal_id **out_ids, size_t *out_len, pal_error *err);

/* ---- store_memory.c ---- */

/* `size` bytes for a struct and `text_len` more behind it, which *out_text points to; zeroed. */
void *pal_mem_alloc(size_t size, size_t text_len, char **out_text);
/* Copies `text` to *cursor, moves that on, and returns the copy. */
pal_str pal_mem_put(char **cursor, pal_str text);
/* Room for `more` elements in an array of `element_size`; false when there is no memory. */
bool pal_mem_reserve(void **array, size_t *cap, size_t len, size_t more, size_t element_size);
/* PAL_OK, or why the arena could not hold the result. */
pal_status pal_mem_arena_status(pal_arena *arena, pal_error *err);

#endif
