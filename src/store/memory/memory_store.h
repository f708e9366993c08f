/* memory_store.h - the structures of the backend "memory:", for the memory*.c files only.
 *
 * A tenant owns sessions, blobs, ledger entries and records. A session owns its rows, marks and
 * inbox; the records that belong to it are removed with it. Every object is one allocation that
 * also contains its texts. Objects are linked by lists through the objects themselves, so that
 * removing an object never needs memory.
 *
 * Invariants:
 * - A session's rows are contiguous and end at its last_seq.
 * - `parent` is never dangling: a session with children stays as a shell in the state
 *   PAL_SESSION_ERASED.
 * - A name is in `keys` or `aliases` exactly while its session is in the state PAL_SESSION_ACTIVE.
 *
 * Threads: apply() holds the engine's lock for writing, and every reader holds it for reading. The
 * functions declared here require that the lock is held. */
#ifndef PAL_MEMORY_STORE_H
#define PAL_MEMORY_STORE_H

#include <pthread.h>
#include "base/map.h"
#include "store/store_backend.h"

typedef struct mem_session mem_session;
typedef struct mem_tenant mem_tenant;
typedef struct mem_word mem_word;

enum { MEM_WORD_LEVELS = 12 };

/* The words of a tenant: a skip list. */
typedef struct mem_words {
    mem_word *first[MEM_WORD_LEVELS]; /* the first word of each level */
    uint64_t random;                  /* decides how many levels the next word gets */
} mem_words;

typedef struct mem_row {
    pal_row row;
    mem_session *session;
    uint64_t pos; /* the position in the order of arrival, over all sessions */
    struct mem_row *older, *newer;
} mem_row;

typedef struct mem_blob {
    uint8_t hash[32];
    uint64_t refs; /* number of entries in the `refs` of sessions */
    int64_t put_at;
    pal_str media_type;
    pal_str data;
    struct mem_blob *next, *prev;
} mem_blob;

/* The rows of one append, and a blob that one of them refers to. */
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

/* The books that count an hour's entries: one for the whole tenant and one for the agent. */
enum { MEM_BOOK_ALL, MEM_BOOK_AGENT, MEM_BOOKS };

typedef struct mem_hour {
    int64_t hour; /* hours since 1970 */
    pal_ledger_sum sum;
    mem_entry *entries; /* linked by next_hour */
} mem_hour;

/* The hours of the tenant or of one agent. */
typedef struct mem_book {
    pal_str agent;
    pal_map hours; /* mem_hour by hour */
} mem_book;

typedef struct mem_turn {
    pal_str id;
    mem_entry *entries; /* linked by next_turn */
} mem_turn;

struct mem_entry {
    pal_ledger_row row;
    mem_session *session;       /* NULL: the entry has no session, or its session was erased */
    mem_turn *turn;             /* NULL: the entry has no turn, or its session was erased */
    mem_hour *hours[MEM_BOOKS]; /* the hour in each book; NULL in the agent's book if there is no
                                   agent */
    mem_entry *next;            /* the next entry of the tenant */
    mem_entry *next_session;    /* the next entry of the session */
    mem_entry *next_turn;
    mem_entry *next_hour[MEM_BOOKS];
};

typedef struct mem_kind mem_kind;

typedef struct mem_record {
    pal_record record;
    mem_kind *kind;
    mem_session *owner;             /* NULL: the record belongs to no session */
    struct mem_record *next, *prev; /* records of the same owner */
} mem_record;

/* The records of one kind in a tenant. */
struct mem_kind {
    pal_str name;
    mem_record **items; /* sorted by the bytes of their names */
    size_t len, cap;
    mem_kind *next;
};

/* A key or an alias, and its session. */
typedef struct mem_name {
    mem_session *session;
    pal_str text;
} mem_name;

/* A session's record and its texts in one allocation. A change replaces the complete object. */
typedef struct mem_info {
    pal_session record;
    size_t text_len;
    char *text;
} mem_info;

struct mem_session {
    pal_id id;
    uint64_t handle;
    mem_tenant *tenant;
    mem_session *prev, *next; /* neighbors in the tenant's list, in the order in which sessions were
                                 added */
    mem_info *info;
    uint64_t mark_number;
    uint64_t fork_mark;

    mem_session *parent;
    mem_session *children; /* linked by next_child */
    mem_session *next_child;

    mem_row **rows; /* rows[rows_skip] is the first one; the cap removed those before it */
    size_t rows_skip, rows_len, rows_cap;
    pal_map client_ids; /* mem_row by client id */
    mem_ref *refs;
    size_t refs_len, refs_cap;
    pal_mark *marks; /* sorted by number; each body is a separate allocation */
    size_t marks_len, marks_cap;
    mem_item *inbox; /* oldest first */
    mem_entry *ledger;
    mem_record *records;

    char *lease_owner; /* allocated */
    size_t lease_owner_len;
    uint64_t lease_fence; /* 0: the lease was never taken */
    int64_t lease_expires_at;
    int64_t lease_ttl_ms;
};

/* The counts of a tenant, so that statistics do not have to visit every object. */
typedef struct mem_counts {
    uint64_t states[PAL_SESSION_ERASED + 1]; /* number of sessions in each state */
    uint64_t messages;
    uint64_t content_bytes;
    uint64_t blobs;
    uint64_t blob_bytes;
} mem_counts;

struct mem_tenant {
    mem_tenant *next;
    pal_str name;
    mem_session *sessions, *sessions_last;
    pal_map ids;     /* mem_session by id; another tenant may use the same id */
    pal_map rows;    /* mem_row by message id; another tenant may use the same id */
    pal_map keys;    /* mem_name by text */
    pal_map aliases; /* mem_name by text */
    pal_map blobs;   /* mem_blob by hash */
    mem_blob *blob_list;
    pal_map requests; /* mem_entry by request_id */
    mem_entry *ledger;
    mem_book book;  /* all entries of the tenant */
    pal_map agents; /* mem_book by agent */
    pal_map turns;  /* mem_turn by id */
    pal_map kinds;  /* mem_kind by name */
    mem_kind *kind_list;
    mem_words words; /* index of the tenant's rows that are older than `unindexed` */
    mem_counts counts;
};

typedef struct mem_engine {
    pal_engine base;
    pthread_rwlock_t lock;
    size_t cap; /* number of messages kept in each session; 0: all */
    uint64_t handle_last;
    mem_tenant *tenant_list;
    pal_map tenants;  /* mem_tenant by name */
    pal_map handles;  /* mem_session by handle */
    mem_row *newest;  /* the newest of all rows; linked by `older` */
    uint64_t pos_last;
    mem_row *unindexed; /* the oldest row that is not in the search index; newer rows are not in it
                           either */
    pal_map places;     /* mem_row by pos, for rows in the search index */
} mem_engine;

/* Initializes a lock that a continuous stream of readers cannot keep from the writer. Returns a
 * value other than 0 on failure. */
int pal_mem_lock_init(pthread_rwlock_t *lock);

/* ---- memory_session.c ---- */

static inline pal_str mem_id_key(const pal_id *id)
{
    return pal_str_make((const char *)id->bytes, sizeof id->bytes);
}

/* Updates the counts: the session leaves its state, or has entered it. */
static inline void mem_state_leave(mem_session *session)
{
    session->tenant->counts.states[session->info->record.state]--;
}

static inline void mem_state_enter(mem_session *session)
{
    session->tenant->counts.states[session->info->record.state]++;
}

/* Returns NULL if the tenant does not exist. */
mem_tenant *pal_mem_tenant_find(mem_engine *engine, pal_str name);
/* Creates the tenant if it does not exist. Returns NULL if memory runs out. */
mem_tenant *pal_mem_tenant_get(mem_engine *engine, pal_str name);
mem_session *pal_mem_session_find(mem_engine *engine, pal_str tenant, pal_id id);
mem_session *pal_mem_session_by_handle(mem_engine *engine, uint64_t handle);
bool pal_mem_session_expired(const mem_session *session, int64_t now_ms);
/* Copies the record and its texts into one allocation. Returns NULL if memory runs out. */
mem_info *pal_mem_info_new(const pal_session *record, const mem_tenant *tenant);
/* Adds the session to the end of the tenant's list and, if `parent` is not NULL, to its
 * children. */
void pal_mem_session_link(mem_tenant *tenant, mem_session *session, mem_session *parent);

/* States that pal_mem_session_for() accepts in addition to active sessions. */
enum {
    MEM_ALLOW_EXPIRED = 1,
    MEM_ALLOW_TRASH = 2,
};

/* Finds the session of the work. If its state or the fence forbids writing, sets the op's error and
 * returns its status. */
pal_status pal_mem_session_for(
        mem_engine *engine, pal_work *work, unsigned allow, mem_session **out_session);
/* Finds another session than that of the op, and checks its state but not the fence. */
pal_status pal_mem_session_check(
        mem_engine *engine, pal_work *work, pal_id id, unsigned allow, mem_session **out_session);

pal_status pal_mem_create(mem_engine *engine, pal_work *work);
pal_status pal_mem_fork(mem_engine *engine, pal_work *work);
pal_status pal_mem_adopt(mem_engine *engine, pal_work *work);
pal_status pal_mem_update(mem_engine *engine, pal_work *work);
pal_status pal_mem_delete(mem_engine *engine, pal_work *work);
pal_status pal_mem_restore(mem_engine *engine, pal_work *work);

/* ---- memory_name.c ---- */

/* Returns the session that a key or an alias leads to, even if it has expired. Returns NULL if the
 * name is free. */
mem_session *pal_mem_name_find(const pal_map *names, pal_str text);
/* Fails if another session than `self` (may be NULL) has one of the names and has not expired. */
pal_status pal_mem_names_check(
        mem_tenant *tenant, pal_work *work, const pal_session *record, const mem_session *self);
/* Assigns the names of `record` to `self`. Expired sessions that have such a name are moved to the
 * trash, as the sweep would do. Names that `self` already has are kept. On PAL_NO_MEMORY `self` has
 * only the names of `before` (may be NULL). */
pal_status pal_mem_names_take(
        mem_session *self, const pal_session *record, const pal_session *before, int64_t now_ms);
/* Releases all names of `record` that `keep` (may be NULL) does not contain. */
void pal_mem_names_drop(mem_session *self, const pal_session *record, const pal_session *keep);
void pal_mem_session_trash(mem_session *session, int64_t now_ms);

/* ---- memory_append.c ---- */

pal_status pal_mem_append(mem_engine *engine, pal_work *work);
pal_status pal_mem_ledger_add(mem_engine *engine, pal_work *work);
pal_status pal_mem_blob_put(mem_engine *engine, pal_work *work);

/* ---- memory_ledger.c ---- */

/* Copies the row and prepares its places in the books. Returns NULL if memory runs out. */
mem_entry *pal_mem_entry_new(mem_tenant *tenant, const pal_ledger_row *row, int64_t now_ms);
/* Frees an entry that was never linked. */
void pal_mem_entry_free(mem_tenant *tenant, mem_entry *entry);
/* Adds the entry to all lists and sums. It cannot fail. */
void pal_mem_entry_link(mem_tenant *tenant, mem_entry *entry);
/* Removes everything from the entry that identifies its erased session. The numbers and the agent
 * are kept. */
void pal_mem_entry_forget(mem_tenant *tenant, mem_entry *entry);
void pal_mem_ledger_clear(mem_tenant *tenant);
/* A callback of the backend's table. */
pal_status pal_mem_ledger_sum(pal_engine *base, const pal_ledger_query *query, uint64_t handle,
        pal_ledger_sum *out_sum, pal_error *err);

/* ---- memory_record.c ---- */

pal_status pal_mem_record_put(mem_engine *engine, pal_work *work);
pal_status pal_mem_record_drop(mem_engine *engine, pal_work *work);
/* Returns NULL if the record does not exist. An expired record is found until it is swept. */
mem_record *pal_mem_record_get(const mem_tenant *tenant, pal_str kind, pal_str name);
/* Stores the record unchanged. It replaces a record with the same name. */
PAL_CHECKED pal_status pal_mem_record_keep(
        mem_tenant *tenant, mem_session *owner, const pal_record *record);
void pal_mem_record_remove(mem_record *record);
/* Removes all records of the session and returns their number. */
uint64_t pal_mem_records_erase(mem_session *session);
/* Removes up to *left expired records of the tenant and subtracts their number from *left. Returns
 * true if some remain. */
bool pal_mem_records_sweep(mem_tenant *tenant, int64_t now_ms, uint32_t *left);
void pal_mem_records_clear(mem_tenant *tenant);
/* Two callbacks of the backend's table. */
pal_status pal_mem_record_find(pal_engine *base, pal_str tenant, pal_str kind, pal_str name,
        pal_arena *arena, pal_record *out_record, pal_error *err);
pal_status pal_mem_record_list(pal_engine *base, const pal_record_query *query, uint64_t handle,
        int64_t now_ms, pal_arena *arena, pal_record *out_records, size_t records_max,
        size_t *out_len, pal_error *err);

/* ---- memory_turn.c ---- */

pal_status pal_mem_mark(mem_engine *engine, pal_work *work);
pal_status pal_mem_inbox_add(mem_engine *engine, pal_work *work);
pal_status pal_mem_inbox_drop(mem_engine *engine, pal_work *work);
/* Returns false if the session has no such item. */
bool pal_mem_inbox_remove(mem_session *session, pal_id id);
pal_status pal_mem_lease_take(mem_engine *engine, pal_work *work);
pal_status pal_mem_lease_release(mem_engine *engine, pal_work *work);

/* ---- memory_erase.c ---- */

pal_status pal_mem_erase(mem_engine *engine, pal_work *work);
/* Removes the contents of an erased session that its forks do not share. */
void pal_mem_shell_trim(mem_engine *engine, mem_session *session);
pal_status pal_mem_sweep(mem_engine *engine, pal_work *work);
/* Removes the oldest rows until `rows_len` rows are left. */
void pal_mem_rows_cut(mem_engine *engine, mem_session *session, size_t rows_len);
/* Frees everything except the engine itself. */
void pal_mem_engine_clear(mem_engine *engine);

/* ---- memory_list.c ---- */

/* Returns the session's state; an expired session counts as in the trash even before the sweep
 * moves it there. */
pal_session_state pal_mem_state(const mem_session *session, int64_t now_ms);
/* Three callbacks of the backend's table. They take the lock themselves. */
pal_status pal_mem_inbox_owners(pal_engine *base, const pal_inbox_owner *after, int64_t now_ms,
        pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max, size_t *out_len,
        pal_error *err);
pal_status pal_mem_find(pal_engine *base, pal_str tenant, pal_find_by by, pal_str name,
        pal_arena *arena, pal_session_row *out_row, pal_error *err);
pal_status pal_mem_list(pal_engine *base, const pal_session_query *query, int64_t after_ms,
        uint64_t after_handle, pal_arena *arena, pal_session_row *out_rows, size_t rows_max,
        size_t *out_len, pal_error *err);

/* ---- memory_search.c ---- */

/* Add the row to the newest end of the list of all rows, and remove it. */
void pal_mem_arrival_link(mem_engine *engine, mem_row *row);
void pal_mem_arrival_unlink(mem_engine *engine, mem_row *row);
/* Three callbacks of the backend's table. */
pal_status pal_mem_index_build(pal_engine *base, pal_arena *arena, const pal_index_part **out_part,
        bool *out_more, pal_error *err);
pal_status pal_mem_row_search(pal_engine *base, const pal_row_search *search, pal_found_sink sink,
        void *user, pal_error *err);
pal_status pal_mem_fork_list(pal_engine *base, uint64_t handle, uint64_t min_seq, pal_arena *arena,
        pal_id **out_ids, size_t *out_len, pal_error *err);

/* ---- memory_store.c ---- */

/* Allocates `size` bytes for a struct and `text_len` bytes after it, all zero. *out_text points to
 * the latter. */
void *pal_mem_alloc(size_t size, size_t text_len, char **out_text);
/* Copies `text` to *cursor, advances *cursor, and returns the copy. */
pal_str pal_mem_put(char **cursor, pal_str text);
/* Makes room for `more` elements of `element_size` bytes. Returns false if memory runs out. */
bool pal_mem_reserve(void **array, size_t *cap, size_t len, size_t more, size_t element_size);
/* Returns PAL_OK, or the reason why the arena could not hold the result. */
pal_status pal_mem_arena_status(pal_arena *arena, pal_error *err);

#endif
