/* store.h - stores conversations durably: sessions, their messages and forks. The interface is the
 * same for every backend. More functions of a store are in these headers, and the rules below apply
 * to them too:
 *
 *   store_marks.h     hides, pins and summarizes messages
 *   store_search.h    finds messages by their words
 *   store_turns.h     the inbox, leases and the ledger, for programs that run turns
 *   store_records.h   JSON documents and blobs
 *   store_batch.h     makes many writes in one commit, and writes without blocking
 *   store_watch.h     reports changes
 *   store_admin.h     sweeps, statistics, readiness and checks
 *
 * Tenants: every call names a tenant and sees only that tenant's data, except the calls that say
 * they cover all tenants. An empty tenant means "default". Ids of sessions and messages are unique
 * within a tenant; two tenants can have the same id.
 *
 * Durability: when a writing call returns PAL_OK, its data survives a crash of the process and of
 * the machine. "memory:" is the exception: it keeps nothing when it is closed. A call that fails
 * has changed nothing.
 *
 * Threads: any number of threads can use one store at the same time. Reads run on the caller's
 * thread. Writes block until they are committed, except pal_store_apply_async() in store_batch.h.
 *
 * Ownership: a function copies its arguments unless its comment says otherwise. Results are
 * allocated in the arena that the caller passes. An id is empty if pal_id_is_none() says so.
 *
 * Errors: every function that can fail returns a pal_status and fills `err`, which may be NULL.
 * Outputs are meaningful only after PAL_OK. Any function can return PAL_NO_MEMORY, PAL_IO,
 * PAL_CORRUPT or PAL_INVALID, and a writing call also PAL_BUSY, PAL_FULL, or PAL_DENIED if the
 * store is read-only. A call for a session that does not exist returns PAL_NOT_FOUND. A writing
 * call for an expired session or a session in the trash returns PAL_CONFLICT. The exceptions are
 * pal_store_restore(), pal_store_erase() and operations with a fence. A writing call for a
 * quarantined session returns PAL_CORRUPT. */
#ifndef PALAVER_STORE_H
#define PALAVER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/limits.h"
#include "palaver/message.h"
#include "palaver/session.h"
#include "palaver/str.h"
#include "palaver/tokens.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pal_store pal_store;

/* Called after each call of the backend, on the thread that made it. `call` is the name of the
 * backend function, `ops` the number of operations if that is "apply", otherwise 0. For "apply",
 * `status` is that of the first operation that failed. Must not block. */
typedef void (*pal_store_on_call)(
        const char *call, size_t ops, int64_t duration_us, pal_status status, void *user);

#define PAL_CACHE_BYTES_NONE UINT64_MAX /* pal_store_options.cache_bytes: no memory */

/* Options of a store. A member that is zero means the default in its comment. */
typedef struct pal_store_options {
    uint64_t message_bytes_max; /* maximum size of a message in its stored form; 16 MiB */
    uint64_t blob_bytes_max;    /* maximum size of a blob; 64 MiB */
    uint32_t busy_timeout_ms;   /* how long to wait while another process writes; 30000 */
    uint32_t readers_max;       /* reads that run at the same time, others wait; 8 */
    bool read_only;             /* writing calls return PAL_DENIED; nothing is created */
    bool network_fs;            /* open the store even on a network file system, at your own risk */
    pal_store_on_call trace;    /* may be NULL */
    void *trace_user;
    const pal_encoding *encoding; /* used to count the tokens of messages; NULL: o200k_base if the
                                     build contains it, otherwise tokens are estimated */
    bool estimate;                /* estimate tokens even if an encoding is available, which makes
                                     appends cheaper */
    uint32_t sessions_max; /* maximum number of active sessions of one tenant, expired ones not
                              counted; creating one more fails with PAL_BUDGET. 0: no limit. With a
                              limit, every creation reads the tenant's sessions */
    uint64_t upgrade; /* not 0: upgrade the schema of a PostgreSQL store, while other programs use
                         it; otherwise an older schema is refused. Other stores are upgraded
                         whenever they are opened for writing */
    uint64_t cache_bytes; /* memory for recently used sessions of an SQLite store; 64 MiB.
                             PAL_CACHE_BYTES_NONE: nothing is kept */
    PAL_RESERVED(6);
} pal_store_options;

/* Turns off SQLite's memory statistics for the whole process. SQLite otherwise takes a process-wide
 * lock at every allocation. No store does this by itself, because the setting also affects other
 * users of SQLite in the program. Call this function before the first store is opened, and only if
 * no other thread uses SQLite. If SQLite is already in use, it does nothing. */
PAL_API void pal_store_claim_sqlite(void);

/* Opens the store with the given URL: "sqlite:PATH" (or just a path),
 * "postgres://USER@HOST/DATABASE", "jsonl:DIR" or "memory:".
 * Creates the store if it does not exist. The caller owns *out_store and must release it with
 * pal_store_close(). If the call fails, *out_store is unchanged. `options` may be NULL. */
PAL_API PAL_CHECKED pal_status pal_store_open(
        const char *url, const pal_store_options *options, pal_store **out_store, pal_error *err);

/* Returns the encoding that counts the tokens of messages. NULL: they are estimated. */
PAL_API const pal_encoding *pal_store_encoding(const pal_store *store);

/* Commits all queued writes, then closes the store and frees it. No other call may be running.
 * Acknowledged data is durable even if this function is never called. Blocks. Accepts NULL. */
PAL_API void pal_store_close(pal_store *store);

/* ---- Sessions ---- */

/* Creates a session. These members of `session` are used: tenant, key, aliases with is_routed and
 * alias_apart, title, project, agent, scope, metadata, extra, expires_at, and id and created_at if
 * they are set. The store sets all others. `out_id` may be NULL.
 *
 *   PAL_CONFLICT  a session has the id, an active session has the key, or is_routed is false and an
 *                 active session has one of the aliases
 *   PAL_BUDGET    the tenant has sessions_max active sessions */
PAL_API PAL_CHECKED pal_status pal_store_create(
        pal_store *store, const pal_session *session, pal_id *out_id, pal_error *err);

typedef enum pal_session_by {
    PAL_SESSION_BY_ANY = 0, /* the id, then the key, then an alias */
    PAL_SESSION_BY_ID = 1,
    PAL_SESSION_BY_KEY = 2,
    PAL_SESSION_BY_ALIAS = 3,
} pal_session_by;

/* Finds a session. By id, sessions in the trash are found too, and an expired session is returned
 * in the state PAL_SESSION_TRASH. By key or alias, only active sessions that have not expired are
 * found. PAL_NOT_FOUND if there is no such session. */
PAL_API PAL_CHECKED pal_status pal_store_find(pal_store *store, pal_str tenant, pal_session_by by,
        pal_str name, pal_arena *arena, pal_session *out_session, pal_error *err);

typedef struct pal_session_query {
    pal_str tenant;
    pal_session_state state; /* PAL_SESSION_NONE: active. Expired sessions are in no list until they
                                are swept */
    pal_str project;         /* only sessions of this project; empty: any */
    pal_str agent;           /* only sessions of this agent; empty: any */
    int64_t updated_from;    /* earliest updated_at, in milliseconds since 1970; 0: any */
    int64_t updated_to;      /* sessions updated at this time or later are left out; 0: none */
    uint32_t limit;          /* sessions on a page, up to PAL_SESSION_PAGE_MAX; 0: 50 */
    pal_str cursor;          /* the `cursor` of the previous page; empty: the first page */
    pal_str text;   /* only sessions whose title or key contains these words; case does not matter;
                       empty: any */
    pal_id parent;  /* only forks of this session; empty: any */
    bool root_only; /* no forks */
    bool titled;    /* sessions without a title get the beginning of their first user message */
    PAL_RESERVED(3);
} pal_session_query;

typedef struct pal_session_page {
    pal_session *sessions; /* the session that was updated last comes first */
    size_t sessions_len;
    pal_str cursor; /* where the next page begins; empty on the last page */
    PAL_RESERVED(4);
} pal_session_page;

/* Lists a tenant's sessions, one page per call. With `text` or `root_only`, one call looks at
 * PAL_SESSION_LOOKS_MAX sessions at most. So a page can be shorter than `limit`, or empty, although
 * it has a cursor. PAL_INVALID: the cursor is not valid, or `text` has no word. PAL_LIMIT: `limit`
 * is too large, or `parent` has too many forks. */
PAL_API PAL_CHECKED pal_status pal_store_list(pal_store *store, const pal_session_query *query,
        pal_arena *arena, pal_session_page *out_page, pal_error *err);

/* Returns the title of a session. If it has none: the beginning of its first visible user message,
 * in one line of at most PAL_TITLE_CHARACTERS characters; empty if there is no such message. */
PAL_API PAL_CHECKED pal_status pal_store_title(pal_store *store, const pal_session *session,
        pal_arena *arena, pal_str *out_title, pal_error *err);

/* Lists the session, its oldest ancestor, and all sessions that were forked from them, directly or
 * not: each parent before its forks, in any state but erased. At most PAL_FAMILY_MAX sessions;
 * *out_more is set if there are more. */
PAL_API PAL_CHECKED pal_status pal_store_family(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_session **out_sessions, size_t *out_len, bool *out_more,
        pal_error *err);

/* Members that pal_store_update() can set, one bit each. */
typedef enum pal_session_field {
    PAL_SESSION_FIELD_TITLE = 1 << 0,
    PAL_SESSION_FIELD_PROJECT = 1 << 1,
    PAL_SESSION_FIELD_AGENT = 1 << 2,
    PAL_SESSION_FIELD_METADATA = 1 << 3,
    PAL_SESSION_FIELD_SCOPE = 1 << 4,
    PAL_SESSION_FIELD_EXPIRES_AT = 1 << 5,
    PAL_SESSION_FIELD_KEY = 1 << 6,
    PAL_SESSION_FIELD_ALIASES = 1 << 7, /* replaces the aliases, is_routed and alias_apart */
    /* Sets updated_at, for imports: the session is listed as if it was last changed at that time.
     * Without this bit, the update sets it to the current time. */
    PAL_SESSION_FIELD_UPDATED_AT = 1 << 8,
} pal_session_field;

/* Sets the members `fields` (bits of pal_session_field) of the session `session->id` of the tenant
 * `session->tenant`. PAL_CONFLICT: another active session has the key or an alias. */
PAL_API PAL_CHECKED pal_status pal_store_update(
        pal_store *store, const pal_session *session, uint32_t fields, pal_error *err);

/* ---- Resolution ---- */

/* A routed message, whose session is to be found. */
typedef struct pal_resolve_request {
    const pal_session *session; /* the record as routing made it: tenant, key, aliases, scope, agent
                                   and so on */
    pal_str main_alias;         /* the alias of the agent's main session; it never leads to another
                                   session */
    bool is_main;               /* the message belongs to the agent's main session */
    bool is_explicit;           /* the sender named the key, which can be an alias as well */
    /* Other keys that the same chat may have been stored under. If no session has the key itself,
     * the first session with one of these keys is used. */
    const pal_str *earlier_keys;
    size_t earlier_keys_len;
    /* If is_explicit is set and the key is an alias of the message's own chat: the key of that
     * chat. The alias is not looked up then, because it may lead to another chat. If is_main is
     * set: the key of the main session. Otherwise empty. */
    pal_str routed_key;
    PAL_RESERVED(4);
} pal_resolve_request;

typedef struct pal_resolve_result {
    pal_id session;
    bool created; /* the session did not exist before */
    bool adopted; /* the session took the history of another session, without copying it */
    PAL_RESERVED(4);
} pal_resolve_result;

/* Finds the session that a message belongs to, or creates it. Several processes that resolve the
 * same message at the same time get the same session. The call makes several commits; if it fails,
 * call it again.
 *
 * If the session is empty, it adopts the history of the first session whose key is one of its
 * aliases. The other session is unchanged. A session does not adopt
 *
 *   - under the main alias;
 *   - from a session with a routed key ("sk_v1_...");
 *   - from a session that only lists the alias;
 *   - under an alias that leads to another session.
 *
 * A history is therefore adopted only once. */
PAL_API PAL_CHECKED pal_status pal_store_resolve(pal_store *store,
        const pal_resolve_request *resolve, pal_resolve_result *out_resolution, pal_error *err);

/* ---- Messages ---- */

/* Instead of an expected seq: do not check it. Instead of a fork's seq: the newest visible
 * message. */
#define PAL_SEQ_ANY UINT64_MAX

/* Appends messages, all or none. Returns when they are durable, and sets the id, seq, created_at
 * and tokens of each message. `expected_seq` is the last_seq that the session must have, or
 * PAL_SEQ_ANY.
 *
 * A message with a client_id that the session already has is not appended again. The call returns
 * PAL_OK and sets the id and seq of the first append.
 *
 *   PAL_CONFLICT  last_seq is not `expected_seq`; a client id was used before for other content;
 *                 only some of the messages were appended before; or a message with the id exists
 *   PAL_LIMIT     a message is too large, or there are more than PAL_APPEND_MESSAGES_MAX */
PAL_API PAL_CHECKED pal_status pal_store_append(pal_store *store, pal_str tenant, pal_id session,
        pal_message *messages, size_t messages_len, uint64_t expected_seq, pal_error *err);

/* Selects messages. Members that are 0 do not limit the selection. */
typedef struct pal_message_query {
    uint64_t after_seq;  /* only messages with a larger seq */
    uint64_t before_seq; /* only messages with a smaller seq */
    uint32_t limit;      /* maximum number of messages */
    uint64_t tokens_max; /* maximum sum of their tokens */
    uint64_t bytes_max;  /* maximum sum of their stored bytes */
    bool from_end;       /* select from the newest backward; otherwise from the oldest forward */
    bool hidden;         /* include messages and parts that a mark hides */
    uint64_t only_memory; /* 1: return PAL_BUSY instead of blocking, unless all of it is in memory
                             (pal_store_options.cache_bytes) */
    PAL_RESERVED(3);
} pal_message_query;

typedef struct pal_message_page {
    pal_message *items; /* in ascending order of seq, even with from_end */
    size_t len;
    bool has_more; /* a limit was reached and more messages match */
    PAL_RESERVED(4);
} pal_message_page;

/* Loads messages of a session. The messages that a fork shares with its parents are included.
 * `load` may be NULL: all visible messages. */
PAL_API PAL_CHECKED pal_status pal_store_load(pal_store *store, pal_str tenant, pal_id session,
        const pal_message_query *load, pal_arena *arena, pal_message_page *out_messages,
        pal_error *err);

/* Counts the visible messages with a seq larger than `after_seq` and smaller than `before_seq`
 * (0: up to the newest). The cost depends on the number of marks and parents, not of messages. */
PAL_API PAL_CHECKED pal_status pal_store_count(pal_store *store, pal_str tenant, pal_id session,
        uint64_t after_seq, uint64_t before_seq, uint64_t *out_count, pal_error *err);

/* Finds a message by its id, whether it is visible or hidden. `out_session` (may be NULL) is the
 * session that it was appended to. PAL_NOT_FOUND if the tenant has no such message. */
PAL_API PAL_CHECKED pal_status pal_store_message(pal_store *store, pal_str tenant, pal_id id,
        pal_arena *arena, pal_message *out_message, pal_id *out_session, pal_error *err);

/* Finds the message that was appended to the session with this client id, whether it is visible or
 * hidden. Client ids belong to one session: messages that a fork shares with its parents are not
 * found. PAL_NOT_FOUND if the session has no such message. */
PAL_API PAL_CHECKED pal_status pal_store_find_client_id(pal_store *store, pal_str tenant,
        pal_id session, pal_str client_id, pal_arena *arena, pal_message *out_message,
        pal_error *err);

/* ---- Forks ---- */

/* Creates a session that begins with the messages of `parent` up to `at_seq`, without copying them.
 * PAL_SEQ_ANY: up to the newest visible message. `session` gives the new session's members as in
 * pal_store_create(), and the tenant, which is also the parent's. A message that is hidden in the
 * parent can be the last message of the fork. `out_id` may be NULL.
 *
 *   PAL_CONFLICT  the parent is in the trash, or as in pal_store_create()
 *   PAL_CORRUPT   the parent is quarantined
 *   PAL_INVALID   the parent has no message `at_seq` */
PAL_API PAL_CHECKED pal_status pal_store_fork(pal_store *store, const pal_session *session,
        pal_id parent, uint64_t at_seq, pal_id *out_id, pal_error *err);

/* ---- Trash and erasure ---- */

/* Moves a session to the trash. Its messages stay, and its key and aliases can be used by other
 * sessions. */
PAL_API PAL_CHECKED pal_status pal_store_delete(
        pal_store *store, pal_str tenant, pal_id session, pal_error *err);

/* Takes a session out of the trash. Aliases that another session uses now are removed from it. If
 * its expires_at has passed, it is cleared.
 *
 *   PAL_CONFLICT  another session uses its key now, or the session is not in the trash
 *   PAL_BUDGET    the tenant has sessions_max active sessions */
PAL_API PAL_CHECKED pal_status pal_store_restore(
        pal_store *store, pal_str tenant, pal_id session, pal_error *err);

/* How many items an erasure removed. */
typedef struct pal_erase_result {
    uint64_t messages; /* messages that were erased */
    uint64_t shared;   /* messages that were kept because forks still show them; they are erased
                          with the last fork */
    uint64_t marks;
    uint64_t blobs;
    uint64_t aliases;
    uint64_t inbox;
    uint64_t ledger; /* ledger rows that were kept without their session and texts, so that sums
                        stay correct */
    uint64_t records;
    uint64_t checkpoints; /* pal_store_erase_message(): checkpoints that lost their text */
    PAL_RESERVED(3);
} pal_erase_result;

/* Erases a session and everything derived from it. The session can be in any state. Cannot be
 * undone. `out_erasure` may be NULL. */
PAL_API PAL_CHECKED pal_status pal_store_erase(pal_store *store, pal_str tenant, pal_id session,
        pal_erase_result *out_erasure, pal_error *err);

/* Erases the contents of the message `seq` of a session, and everything derived from it: blobs that
 * no other message refers to, its words in the search index, the text of all
 * checkpoints that cover it, and the conversation that a model service keeps of the session. The
 * message itself stays without parts, so that the seqs have no gap: its seq, id, role, times and
 * client id, and the flag PAL_MESSAGE_FLAG_ERASED. No plan contains it. A message that forks share
 * is erased in all sessions that show it. The checkpoints are not in effect any more.
 *
 * Cannot be undone. If the message is erased already, nothing happens. `out_erasure` may be NULL.
 * PAL_NOT_FOUND: the session has no message `seq`. */
PAL_API PAL_CHECKED pal_status pal_store_erase_message(pal_store *store, pal_str tenant,
        pal_id session, uint64_t seq, pal_erase_result *out_erasure, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
