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

typedef struct memory_session memory_session;
typedef struct memory_tenant memory_tenant;
typedef struct memory_word memory_word;

enum { MEMORY_WORD_LEVELS = 12 };

/* The words of a tenant: a skip list. */
typedef struct memory_words {
    memory_word *first[MEMORY_WORD_LEVELS]; /* the first word of each level */
    uint64_t random;                  /* decides how many levels the next word gets */
} memory_words;

typedef struct memory_row {
    pal_row row;
    memory_session *session;
    uint64_t pos; /* the position in the order of arrival, over all sessions */
    struct memory_row *older, *newer;
} memory_row;

typedef struct memory_blob {
    uint8_t hash[32];
    uint64_t refs; /* number of entries in the `refs` of sessions */
    int64_t put_at;
    pal_str media_type;
    pal_str data;
    struct memory_blob *next, *prev;
} memory_blob;

/* The rows of one append, and a blob that one of them refers to. */
typedef struct memory_ref {
    memory_blob *blob;
    uint64_t first_seq;
    uint64_t last_seq;
} memory_ref;

typedef struct memory_item {
    pal_inbox_item item;
    struct memory_item *next;
} memory_item;

typedef struct memory_entry memory_entry;

/* The books that count an hour's entries: one for the whole tenant and one for the agent. */
enum { MEMORY_BOOK_ALL, MEMORY_BOOK_AGENT, MEMORY_BOOKS };

typedef struct memory_hour {
    int64_t hour; /* hours since 1970 */
    pal_ledger_sum sum;
    memory_entry *entries; /* linked by next_hour */
} memory_hour;

/* The hours of the tenant or of one agent. */
typedef struct memory_book {
    pal_str agent;
    pal_map hours; /* memory_hour by hour */
} memory_book;

typedef struct memory_turn {
    pal_str id;
    memory_entry *entries; /* linked by next_turn */
} memory_turn;

struct memory_entry {
    pal_ledger_row row;
    memory_session *session; /* NULL: the entry has no session, or its session was erased */
    memory_turn *turn;       /* NULL: the entry has no turn, or its session was erased */
    uint64_t number;         /* grows with every entry of the tenant */
    memory_hour *hours[MEMORY_BOOKS]; /* the hour in each book; NULL in the agent's book if there is
                                   no agent */
    memory_entry *next;            /* the next entry of the tenant */
    memory_entry *next_session;    /* the next entry of the session */
    memory_entry *next_turn;
    memory_entry *next_hour[MEMORY_BOOKS];
};

typedef struct memory_kind memory_kind;

typedef struct memory_record {
    pal_record record;
    memory_kind *kind;
    memory_session *owner;             /* NULL: the record belongs to no session */
    struct memory_record *next, *prev; /* records of the same owner */
} memory_record;

/* The records of one kind in a tenant. */
struct memory_kind {
    pal_str name;
    memory_record **items; /* sorted by the bytes of their names */
    size_t len, cap;
    memory_kind *next;
};

/* A key or an alias, and its session. */
typedef struct memory_name {
    memory_session *session;
    pal_str text;
} memory_name;

/* A session's record and its texts in one allocation. A change replaces the complete object. */
typedef struct memory_info {
    pal_session record;
    size_t text_len;
    char *text;
} memory_info;

struct memory_session {
    pal_id id;
    uint64_t handle;
    memory_tenant *tenant;
    memory_session *prev, *next; /* neighbors in the tenant's list, in the order in which sessions
                                 were added */
    memory_info *info;
    uint64_t mark_number;
    uint64_t fork_mark;

    memory_session *parent;
    memory_session *children; /* linked by next_child */
    memory_session *next_child;

    memory_row **rows; /* rows[rows_skip] is the first one; the cap removed those before it */
    size_t rows_skip, rows_len, rows_cap;
    pal_map client_ids; /* memory_row by client id */
    memory_ref *refs;
    size_t refs_len, refs_cap;
    pal_mark *marks; /* sorted by number; each body is a separate allocation */
    size_t marks_len, marks_cap;
    memory_item *inbox; /* oldest first */
    memory_entry *ledger;
    memory_record *records;

    char *lease_owner; /* allocated */
    size_t lease_owner_len;
    uint64_t lease_fence; /* 0: the lease was never taken */
    int64_t lease_expires_at;
    int64_t lease_ttl_ms;
};

/* The counts of a tenant, so that statistics do not have to visit every object. */
typedef struct memory_counts {
    uint64_t states[PAL_SESSION_ERASED + 1]; /* number of sessions in each state */
    uint64_t messages;
    uint64_t content_bytes;
    uint64_t blobs;
    uint64_t blob_bytes;
} memory_counts;

struct memory_tenant {
    memory_tenant *next;
    pal_str name;
    memory_session *sessions, *sessions_last;
    pal_map ids;     /* memory_session by id; another tenant may use the same id */
    pal_map rows;    /* memory_row by message id; another tenant may use the same id */
    pal_map keys;    /* memory_name by text */
    pal_map aliases; /* memory_name by text */
    pal_map blobs;   /* memory_blob by hash */
    memory_blob *blob_list;
    pal_map requests; /* memory_entry by request_id */
    memory_entry *ledger;
    uint64_t entry_last; /* the number of the newest entry */
    memory_book book;  /* all entries of the tenant */
    pal_map agents; /* memory_book by agent */
    pal_map turns;  /* memory_turn by id */
    pal_map kinds;  /* memory_kind by name */
    memory_kind *kind_list;
    memory_words words; /* index of the tenant's rows that are older than `unindexed` */
    memory_counts counts;
    uint64_t active_elsewhere; /* active sessions that are not in this engine: it is a copy of the
                                  part of a store that a batch needs */
};

typedef struct memory_engine {
    pal_engine base;
    pal_engine *clock; /* has the time that leases go by; NULL: this process */
    pthread_rwlock_t lock;
    size_t cap; /* number of messages kept in each session; 0: all */
    uint64_t handle_last;
    memory_tenant *tenant_list;
    pal_map tenants;  /* memory_tenant by name */
    pal_map handles;  /* memory_session by handle */
    memory_row *newest;  /* the newest of all rows; linked by `older` */
    uint64_t pos_last;
    memory_row *unindexed; /* the oldest row that is not in the search index; newer rows are not in
                           it either */
    pal_map places;     /* memory_row by pos, for rows in the search index */
} memory_engine;

/* Initializes a lock that a continuous stream of readers cannot keep from the writer. Returns a
 * value other than 0 on failure. */
int pal_memory_lock_init(pthread_rwlock_t *lock);

/* ---- memory_session.c ---- */

static inline pal_str mem_id_key(const pal_id *id)
{
    return pal_str_make((const char *)id->bytes, sizeof id->bytes);
}

/* Updates the counts: the session leaves its state, or has entered it. */
static inline void mem_state_leave(memory_session *session)
{
    session->tenant->counts.states[session->info->record.state]--;
}

static inline void mem_state_enter(memory_session *session)
{
    session->tenant->counts.states[session->info->record.state]++;
}

/* Returns NULL if the tenant does not exist. */
memory_tenant *pal_memory_tenant_find(memory_engine *engine, pal_str name);
/* Creates the tenant if it does not exist. Returns NULL if memory runs out. */
memory_tenant *pal_memory_tenant_get(memory_engine *engine, pal_str name);
memory_session *pal_memory_session_find(memory_engine *engine, pal_str tenant, pal_id id);
memory_session *pal_memory_session_by_handle(memory_engine *engine, uint64_t handle);
bool pal_memory_session_expired(const memory_session *session, int64_t now_ms);
/* Copies the record and its texts into one allocation. Returns NULL if memory runs out. */
memory_info *pal_memory_info_new(const pal_session *record, const memory_tenant *tenant);
/* Adds the session to the end of the tenant's list and, if `parent` is not NULL, to its
 * children. */
void pal_memory_session_link(
        memory_tenant *tenant, memory_session *session, memory_session *parent);

/* States that pal_memory_session_for() accepts in addition to active sessions. */
enum {
    MEMORY_ALLOW_EXPIRED = 1,
    MEMORY_ALLOW_TRASH = 2,
};

/* Finds the session of the work. If its state or the fence forbids writing, sets the op's error and
 * returns its status. */
pal_status pal_memory_session_for(
        memory_engine *engine, pal_work *work, unsigned allow, memory_session **out_session);
/* Finds another session than that of the op, and checks its state but not the fence. */
pal_status pal_memory_session_check(memory_engine *engine, pal_work *work, pal_id id,
        unsigned allow, memory_session **out_session);

pal_status pal_memory_create(memory_engine *engine, pal_work *work);
pal_status pal_memory_fork(memory_engine *engine, pal_work *work);
pal_status pal_memory_adopt(memory_engine *engine, pal_work *work);
pal_status pal_memory_update(memory_engine *engine, pal_work *work);
pal_status pal_memory_delete(memory_engine *engine, pal_work *work);
pal_status pal_memory_restore(memory_engine *engine, pal_work *work);

/* ---- memory_name.c ---- */

/* Returns the session that a key or an alias leads to, even if it has expired. Returns NULL if the
 * name is free. */
memory_session *pal_memory_name_find(const pal_map *names, pal_str text);
/* Fails if another session than `self` (may be NULL) has one of the names and has not expired. */
pal_status pal_memory_names_check(memory_tenant *tenant, pal_work *work, const pal_session *record,
        const memory_session *self);
/* Assigns the names of `record` to `self`. Expired sessions that have such a name are moved to the
 * trash, as the sweep would do. Names that `self` already has are kept. On PAL_NO_MEMORY `self` has
 * only the names of `before` (may be NULL). */
pal_status pal_memory_names_take(
        memory_session *self, const pal_session *record, const pal_session *before, int64_t now_ms);
/* Assigns the names of a copied session: the key, and the aliases that lead to it. PAL_NO_MEMORY:
 * it has none. */
pal_status pal_memory_names_copy(
        memory_session *self, const pal_session *record, const bool *alias_leads);
/* Releases all names of `record` that `keep` (may be NULL) does not contain. */
void pal_memory_names_drop(
        memory_session *self, const pal_session *record, const pal_session *keep);
void pal_memory_session_trash(memory_session *session, int64_t now_ms);

/* ---- memory_append.c ---- */

pal_status pal_memory_append(memory_engine *engine, pal_work *work);
pal_status pal_memory_ledger_add(memory_engine *engine, pal_work *work);
pal_status pal_memory_blob_put(memory_engine *engine, pal_work *work);

/* ---- memory_ledger.c ---- */

/* Copies the row and prepares its places in the books. Returns NULL if memory runs out. */
memory_entry *pal_memory_entry_new(
        memory_tenant *tenant, const pal_ledger_row *row, int64_t now_ms);
/* Frees an entry that was never linked. */
void pal_memory_entry_free(memory_tenant *tenant, memory_entry *entry);
/* Adds the entry to all lists and sums. It cannot fail. */
void pal_memory_entry_link(memory_tenant *tenant, memory_entry *entry);
/* Removes everything from the entry that identifies its erased session. The numbers and the agent
 * are kept. */
void pal_memory_entry_forget(memory_tenant *tenant, memory_entry *entry);
void pal_memory_ledger_clear(memory_tenant *tenant);
/* A callback of the backend's table. */
pal_ledger_sum_fn pal_memory_ledger_sum;
pal_ledger_list_fn pal_memory_ledger_list;

/* ---- memory_record.c ---- */

pal_status pal_memory_record_put(memory_engine *engine, pal_work *work);
pal_status pal_memory_record_drop(memory_engine *engine, pal_work *work);
/* Returns NULL if the record does not exist. An expired record is found until it is swept. */
memory_record *pal_memory_record_get(const memory_tenant *tenant, pal_str kind, pal_str name);
/* Stores the record unchanged. It replaces a record with the same name. */
PAL_CHECKED pal_status pal_memory_record_keep(
        memory_tenant *tenant, memory_session *owner, const pal_record *record);
void pal_memory_record_remove(memory_record *record);
/* Returns a copy of the record that is not linked; release it with pal_free(). NULL if there is no
 * memory. */
memory_record *pal_memory_record_copy(const memory_record *record);
/* Makes the record that the work has written what it was before: `before`, which is a copy from
 * pal_memory_record_copy() and is linked then, or missing. Cannot fail. */
void pal_memory_record_restore(
        memory_engine *engine, const pal_work *work, memory_record *before);
/* Removes all records of the session and returns their number. */
uint64_t pal_memory_records_erase(memory_session *session);
/* Removes up to *left expired records of the tenant and subtracts their number from *left. Returns
 * true if some remain. */
bool pal_memory_records_sweep(memory_tenant *tenant, int64_t now_ms, uint32_t *left);
void pal_memory_records_clear(memory_tenant *tenant);
/* Two callbacks of the backend's table. */
pal_record_list_fn pal_memory_record_list;

/* ---- memory_turn.c ---- */

pal_status pal_memory_mark(memory_engine *engine, pal_work *work);
pal_status pal_memory_inbox_add(memory_engine *engine, pal_work *work);
pal_status pal_memory_inbox_drop(memory_engine *engine, pal_work *work);
/* Returns false if the session has no such item. */
bool pal_memory_inbox_remove(memory_session *session, pal_id id);
/* Copies the session's inbox. Returns false if there is no memory. */
bool pal_memory_inbox_copy(const memory_session *session, memory_item **out_items);
void pal_memory_items_free(memory_item *items);
pal_status pal_memory_lease_take(memory_engine *engine, pal_work *work);
pal_status pal_memory_lease_release(memory_engine *engine, pal_work *work);

/* ---- memory_erase.c ---- */

pal_status pal_memory_erase(memory_engine *engine, pal_work *work);
/* Drops one reference to a blob. Returns 1 if it was the last one, and the blob was removed. */
uint64_t pal_memory_blob_unref(memory_tenant *tenant, memory_blob *blob);
/* Removes the contents of an erased session that its forks do not share. */
void pal_memory_shell_trim(memory_engine *engine, memory_session *session);
pal_status pal_memory_sweep(memory_engine *engine, pal_work *work);
/* Removes the oldest rows until `rows_len` rows are left. */
void pal_memory_rows_cut(memory_engine *engine, memory_session *session, size_t rows_len);
/* Removes the rows after `last_seq`. Returns their number. */
uint64_t pal_memory_rows_truncate(
        memory_engine *engine, memory_session *session, uint64_t last_seq);
/* Removes a session that has nothing but its record and its names. */
void pal_memory_session_discard(memory_engine *engine, memory_session *session);
/* Frees everything except the engine itself. */
void pal_memory_engine_clear(memory_engine *engine);

/* ---- memory_erase_message.c ---- */

pal_status pal_memory_erase_message(memory_engine *engine, pal_work *work);
/* Erases one row of its owner. Does nothing if there is no such row, or if it is erased. */
void pal_memory_message_erase(memory_engine *engine, memory_session *owner, uint64_t seq,
        pal_erase_result *erasure);

/* ---- memory_undo.c ---- */

typedef struct memory_undo memory_undo;

/* Applies works all or none: if one fails, the others are taken back and canceled. With `is_trial`
 * they are taken back in any case, and their statuses say whether they can be applied. */
void pal_memory_apply_all(
        memory_engine *engine, pal_work *works, size_t works_len, bool is_trial);

/* ---- memory_list.c ---- */

/* Copies the session's record into the arena. */
void pal_memory_session_copy(
        const memory_session *session, pal_arena *arena, pal_session_row *out_row);
/* Callbacks of the table. They take the lock themselves. */
pal_export_scan_fn pal_memory_export_scan;
pal_inbox_owners_fn pal_memory_inbox_owners;
pal_session_find_fn pal_memory_find;
pal_session_list_fn pal_memory_list;

/* ---- memory_search.c ---- */

/* Add the row to the newest end of the list of all rows, and remove it. */
void pal_memory_arrival_link(memory_engine *engine, memory_row *row);
void pal_memory_arrival_unlink(memory_engine *engine, memory_row *row);
/* Callbacks of the table. */
pal_index_build_fn pal_memory_index_build;
pal_row_search_fn pal_memory_row_search;
pal_row_rank_fn pal_memory_row_rank;
pal_fork_list_fn pal_memory_fork_list;

/* ---- memory_store.c ---- */

/* Applies one operation, without its dependence on others. Returns its status. */
pal_status pal_memory_apply_one(memory_engine *engine, pal_work *work);

/* Allocates `size` bytes for a struct and `text_len` bytes after it, all zero. *out_text points to
 * the latter. */
void *pal_memory_alloc(size_t size, size_t text_len, char **out_text);
/* Copies `text` to *cursor, advances *cursor, and returns the copy. */
pal_str pal_memory_put(char **cursor, pal_str text);
/* Returns PAL_OK, or the reason why the arena could not hold the result. */
pal_status pal_memory_arena_status(pal_arena *arena, pal_error *err);

#endif
