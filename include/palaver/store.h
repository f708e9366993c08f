/* store.h - stores conversations durably. The interface is the same for every backend.
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
 * thread. Writes block until they are committed; pal_store_apply_async() does not.
 *
 * Ownership: a function copies its arguments unless its comment says otherwise. Results are
 * allocated in the arena that the caller passes. An id is empty if pal_id_is_none() says so.
 *
 * Errors: every function that can fail returns a pal_status and fills `err`, which may be NULL.
 * Outputs are meaningful only after PAL_OK. Any function can return PAL_NO_MEMORY, PAL_IO,
 * PAL_CORRUPT or PAL_INVALID, and a writing call also PAL_BUSY, PAL_FULL, or PAL_DENIED if the
 * store is read-only. A call for a session that does not exist returns PAL_NOT_FOUND. A writing
 * call for a session in the trash, or for one that has expired, returns PAL_CONFLICT, except for
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

/* Options of a store. A member that is zero means the default in its comment. */
typedef struct pal_store_options {
    uint64_t message_bytes_max; /* maximum size of a message in its stored form; 16 MiB */
    uint64_t blob_bytes_max;    /* maximum size of a blob; 64 MiB */
    uint32_t busy_timeout_ms;   /* how long to wait while another process writes; 30000 */
    uint32_t readers_max;       /* reads that run at the same time, others wait; 8 */
    bool read_only;             /* writing calls return PAL_DENIED; nothing is created */
    bool network_fs;            /* open the store even on a network file system, at your own risk */
    pal_store_on_call trace;      /* may be NULL */
    void *trace_user;
    const pal_encoding *encoding; /* used to count the tokens of messages; NULL: o200k_base if the
                                     build contains it, otherwise tokens are estimated */
    bool estimate;                /* estimate tokens even if an encoding is available, which makes
                                     appends cheaper */
    uint32_t sessions_max; /* maximum number of active sessions of one tenant, expired ones not
                              counted; creating one more fails with PAL_BUDGET. 0: no limit. With a
                              limit, every creation reads the tenant's sessions */
    PAL_RESERVED(8);
} pal_store_options;

/* Turns off SQLite's memory statistics for the whole process. SQLite otherwise takes a process-wide
 * lock at every allocation. No store does this by itself, because the setting also affects other
 * users of SQLite in the program. Call this function before the first store is opened, and only if
 * no other thread uses SQLite. If SQLite is already in use, it does nothing. */
PAL_API void pal_store_claim_sqlite(void);

/* Opens the store with the given URL: "sqlite:PATH" (or just a path), "jsonl:DIR" or "memory:".
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
    PAL_RESERVED(8);
} pal_session_query;

typedef struct pal_session_page {
    pal_session *sessions; /* the session that was updated last comes first */
    size_t sessions_len;
    pal_str cursor; /* for the next page; empty on the last page */
    PAL_RESERVED(4);
} pal_session_page;

/* Lists a tenant's sessions, one page per call. PAL_INVALID: the cursor is not valid. PAL_LIMIT:
 * `limit` is too large. */
PAL_API PAL_CHECKED pal_status pal_store_list(pal_store *store, const pal_session_query *query,
        pal_arena *arena, pal_session_page *out_page, pal_error *err);

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
    PAL_RESERVED(4);
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

/* ---- Forks, rewinds, marks ---- */

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

typedef enum pal_mark_kind {
    PAL_MARK_NONE = 0,
    PAL_MARK_REWIND = 1,     /* hides the messages after `seq`, up to the newest message at that
                                time, or up to `target` if it is not 0 */
    PAL_MARK_RESET = 2,      /* hides the messages after `seq`, up to the newest message at that
                                time; 0: hides all */
    PAL_MARK_CHECKPOINT = 3, /* the result of a compaction: `body` replaces all messages up to
                                `seq` */
    PAL_MARK_PRUNE = 4, /* `body` lists content up to `seq` that is no longer sent to the model */
    PAL_MARK_PIN = 5,   /* keeps the message `seq` in every context */
    PAL_MARK_UNPIN = 6, /* ends the pin of the message `seq` */
    PAL_MARK_UNDO = 7,  /* cancels the mark with the number `target` */
    PAL_MARK_EPOCH = 8, /* `body` is the system text and the tools that every request begins with */
    PAL_MARK_HIDE = 9,  /* hides the message `seq`; if `target` is not 0, only the part with that
                           number, counted from 1 */
} pal_mark_kind;

/* A mark says how messages are to be read. It is stored next to them and is never changed or
 * removed: an undo is another mark. */
typedef struct pal_mark {
    uint64_t number; /* counted from 1 in each session; set by the store */
    pal_mark_kind kind;
    uint64_t seq;
    uint64_t through_seq; /* the session's last_seq when the mark was added, or the target of a
                             rewind; set by the store */
    uint64_t target;      /* undo: the number of a mark, or 0 for the newest mark that is neither
                             undone nor an undo. hide: the number of a part, or 0 for the whole
                             message. rewind: the last seq to hide, or 0 for the newest */
    bool undone;          /* a later undo cancels this mark */
    bool inherited;       /* the mark belongs to a parent session and can be undone only there */
    pal_str body;         /* JSON; may be empty */
    int64_t created_at;
    PAL_RESERVED(4);
} pal_mark;

/* Adds a mark. `mark` gives kind, seq, target and body. On success the store sets number,
 * through_seq, target and created_at.
 *
 *   PAL_INVALID    the session has no message `seq`, or the kind requires a seq or a body
 *   PAL_NOT_FOUND  undo: there is no such mark, or none that can be undone
 *   PAL_CONFLICT   undo: the mark is already undone */
PAL_API PAL_CHECKED pal_status pal_store_mark(
        pal_store *store, pal_str tenant, pal_id session, pal_mark *mark, pal_error *err);

/* Adds a reset mark that hides all messages. With `keep_system`, a system message that is the first
 * visible message stays visible. `out_mark` may be NULL. */
PAL_API PAL_CHECKED pal_status pal_store_reset(pal_store *store, pal_str tenant, pal_id session,
        bool keep_system, pal_mark *out_mark, pal_error *err);

/* Adds a rewind mark that hides all visible messages except the newest `keep`. If there are no more
 * than that, it does nothing and sets out_mark->number to 0. With `keep` 0 it adds a reset mark,
 * like pal_store_reset(). */
PAL_API PAL_CHECKED pal_status pal_store_truncate(pal_store *store, pal_str tenant, pal_id session,
        uint32_t keep, pal_mark *out_mark, pal_error *err);

/* Appends the messages and hides all earlier ones with a rewind mark, in one commit. The mark can
 * be undone. The client ids of the messages are cleared. out_mark->number is 0 if there were no
 * earlier messages. Without messages this is pal_store_reset(). PAL_CONFLICT: other writers
 * appended to the session during each of 8 attempts. */
PAL_API PAL_CHECKED pal_status pal_store_replace(pal_store *store, pal_str tenant, pal_id session,
        pal_message *messages, size_t messages_len, pal_mark *out_mark, pal_error *err);

/* Lists all marks that affect the session, the oldest first. Marks of parents come before the
 * session's own. */
PAL_API PAL_CHECKED pal_status pal_store_marks(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_mark **out_marks, size_t *out_len, pal_error *err);

/* The marks that are in effect now, for building a context.
 *
 * A checkpoint, a prune or an epoch is in effect until it is undone, or until a rewind or a reset
 * hides a message that it covers. A checkpoint is also not in effect if it covers messages that
 * were hidden when it was made and are visible now, because its summary does not contain them. A
 * checkpoint ends all earlier prunes and epochs. */
typedef struct pal_standing {
    pal_mark checkpoint; /* the newest one; number 0: none */
    pal_mark epoch;      /* the newest one after the checkpoint; number 0: none */
    pal_mark *prunes;    /* those after the checkpoint, the oldest first */
    size_t prunes_len;
    uint64_t *pins; /* the seqs of pinned, visible messages, ascending */
    size_t pins_len;
    PAL_RESERVED(4);
} pal_standing;

/* Reports the marks that are in effect. The cost depends on the number of marks and on the size of
 * the result, not on the number of messages. Bodies are read only for the marks that are
 * returned. */
PAL_API PAL_CHECKED pal_status pal_store_standing(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_standing *out_standing, pal_error *err);

/* ---- Search ---- */

typedef struct pal_search_query {
    pal_str tenant;
    pal_id session;      /* the session to search; empty: all active sessions of the tenant */
    pal_str text;        /* words that must all occur; "a phrase" in quotes; word* matches longer
                            words too */
    pal_role role;       /* PAL_ROLE_NONE: any */
    uint64_t after_seq;  /* only messages with a larger seq; requires a session */
    uint64_t before_seq; /* only messages with a smaller seq; requires a session; 0: up to the
                            newest */
    int64_t from;        /* earliest created_at, in milliseconds since 1970; 0: any */
    int64_t to;          /* messages created at this time or later are left out; 0: none */
    uint32_t limit;      /* hits on a page, up to PAL_SEARCH_HITS_MAX; 0: 20 */
    pal_str cursor;      /* the `cursor` of the previous page; empty: the first page */
    uint32_t wait_ms;    /* how long the search adds to an incomplete index, and then again walks
                            through messages that are not in it; 0: as long as it takes */
    PAL_RESERVED(8);
} pal_search_query;

typedef struct pal_search_hit {
    pal_id session; /* the searched session, even if the message was appended to one of its
                       parents */
    uint64_t seq;
    pal_id message;
    pal_role role;
    int64_t created_at;
    pal_str snippet; /* some words around the first match */
    PAL_RESERVED(4);
} pal_search_hit;

typedef struct pal_search_page {
    pal_search_hit *items; /* the newest first */
    size_t len;
    pal_str cursor; /* for the next page; empty on the last page */
    bool partial;   /* `wait_ms` ended the page: older messages were not searched. The next page
                       continues there. */
    PAL_RESERVED(4);
} pal_search_page;

/* Finds messages by their texts, tool outputs and tool arguments, in any script. Only messages that
 * the session shows are found: its own and those that it shares with its parents, but no hidden
 * messages, and no message with a hidden part. The search covers everything that was acknowledged
 * before the call, although the index is built after the appends. Only `wait_ms` ends it early.
 *
 *   PAL_INVALID  the text contains no word, the cursor is not valid, or a seq is given without a
 *                session
 *   PAL_LIMIT    the text has too many words, or `limit` is too large */
PAL_API PAL_CHECKED pal_status pal_store_search(pal_store *store, const pal_search_query *search,
        pal_arena *arena, pal_search_page *out_hits, pal_error *err);

/* Adds messages to the search index that are not in it yet, so that the next search does not have
 * to. Call it in idle moments. It adds at most `parts_max` parts of about a thousand messages, each
 * in a separate commit. *out_more (may be NULL) is set to true if there may be more to add. */
PAL_API PAL_CHECKED pal_status pal_store_index(
        pal_store *store, uint32_t parts_max, bool *out_more, pal_error *err);

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
    PAL_RESERVED(4);
} pal_erase_result;

/* Erases a session and everything derived from it. The session can be in any state. Cannot be
 * undone. `out_erasure` may be NULL. */
PAL_API PAL_CHECKED pal_status pal_store_erase(pal_store *store, pal_str tenant, pal_id session,
        pal_erase_result *out_erasure, pal_error *err);

typedef struct pal_sweep_result {
    uint64_t trashed; /* expired sessions that were moved to the trash */
    uint64_t erased;  /* sessions that were erased because they had been in the trash for longer
                         than trash_ms */
    bool has_more;    /* the limit was reached; call again */
    PAL_RESERVED(4);
} pal_sweep_result;

/* Moves expired sessions to the trash, erases sessions that have been in the trash for more than
 * `trash_ms` (negative: none), and removes expired records. Blobs that no message refers to are
 * removed after a day. One call handles at most `limit` sessions and `limit` records. Covers all
 * tenants. `out_sweep` may be NULL. */
PAL_API PAL_CHECKED pal_status pal_store_sweep(pal_store *store, int64_t trash_ms, uint32_t limit,
        pal_sweep_result *out_sweep, pal_error *err);

/* ---- Inbox, leases, ledger, blobs ---- */

/* A request that waits in a session's inbox, for example because a turn is running. */
typedef struct pal_inbox_item {
    pal_id id;         /* set by the store */
    pal_str client_id; /* an item with the same client id is added only once; may be empty */
    pal_str delivery;  /* how the turn layer delivers it, for example "queue" or "steer"; the store
                          does not interpret it */
    pal_str body;      /* JSON */
    int64_t created_at;
    PAL_RESERVED(2);
} pal_inbox_item;

/* Adds an item and sets its id and created_at. If an item with the same client_id is waiting,
 * nothing is added, and the id and created_at of that item are set.
 *
 *   PAL_CONFLICT  the waiting item with this client id has a different body or delivery
 *   PAL_LIMIT     PAL_INBOX_ITEMS_MAX items are waiting */
PAL_API PAL_CHECKED pal_status pal_store_inbox_add(
        pal_store *store, pal_str tenant, pal_id session, pal_inbox_item *item, pal_error *err);
/* Lists the waiting items, the oldest first. */
PAL_API PAL_CHECKED pal_status pal_store_inbox_list(pal_store *store, pal_str tenant,
        pal_id session, pal_arena *arena, pal_inbox_item **out_items, size_t *out_len,
        pal_error *err);
/* Removes an item. PAL_NOT_FOUND if it is no longer waiting. */
PAL_API PAL_CHECKED pal_status pal_store_inbox_drop(
        pal_store *store, pal_str tenant, pal_id session, pal_id item, pal_error *err);

/* A session with a non-empty inbox. */
typedef struct pal_inbox_owner {
    pal_str tenant;
    pal_id session;
    PAL_RESERVED(2);
} pal_inbox_owner;

/* Lists the active sessions that have items in their inbox, ordered by id and then by tenant, for a
 * runtime that starts. The list begins after `after` (NULL: at the first) and has at most `limit`
 * entries (0: PAL_INBOX_OWNERS_MAX, which is also the maximum). Covers all tenants. */
PAL_API PAL_CHECKED pal_status pal_store_inbox_owners(pal_store *store,
        const pal_inbox_owner *after, uint32_t limit, pal_arena *arena,
        pal_inbox_owner **out_owners, size_t *out_len, pal_error *err);

/* A lease is the right to run a turn in a session. Its fence number grows with every new owner. A
 * write that carries an older number fails with PAL_DENIED, so a process that was considered dead
 * cannot write late. */
typedef struct pal_lease {
    pal_str owner;
    uint64_t fence;
    int64_t expires_at; /* milliseconds since 1970, by the clock of the process that took it */
    int64_t ttl_ms;     /* the duration that it was last taken or renewed for */
    PAL_RESERVED(4);
} pal_lease;

/* Takes the lease for `ttl_ms`, or renews it if `owner` already holds it. PAL_BUSY: another owner
 * holds it. A lease that ends later than twice its duration from now does not count: the clock was
 * set back.
 *
 * An operation PAL_OP_LEASE_TAKE with a `fence` also renews a lease that has expired, if no other
 * owner has taken it since. It fails with PAL_DENIED if another owner has. */
PAL_API PAL_CHECKED pal_status pal_store_lease_take(pal_store *store, pal_str tenant,
        pal_id session, pal_str owner, int64_t ttl_ms, uint64_t *out_fence, pal_error *err);
/* Releases the lease. Releasing a lease that is no longer held under that number is not an error:
 * it was lost before. */
PAL_API PAL_CHECKED pal_status pal_store_lease_release(
        pal_store *store, pal_str tenant, pal_id session, uint64_t fence, pal_error *err);
/* Reports the lease of a session. PAL_NOT_FOUND if no process holds it. */
PAL_API PAL_CHECKED pal_status pal_store_lease_find(pal_store *store, pal_str tenant,
        pal_id session, pal_arena *arena, pal_lease *out_lease, pal_error *err);

/* The tokens and the cost of one model call. */
typedef struct pal_ledger_row {
    pal_str request_id; /* unique in the tenant; a row with the same id is written only once */
    pal_str turn_id;
    pal_str agent;   /* the agent that the turn was run for; may be empty */
    pal_str purpose; /* for example "turn", "compaction" or "forward" */
    pal_str provider;
    pal_str model;
    pal_str price_version;
    pal_usage usage;
    int64_t cost_micros; /* in millionths of the currency of the price list */
    int64_t created_at;  /* milliseconds since 1970; 0: now */
    PAL_RESERVED(4);
} pal_ledger_row;

/* Writes a row to the ledger, once per request_id. If `session` is empty, the row belongs to the
 * tenant alone. */
PAL_API PAL_CHECKED pal_status pal_store_ledger_add(pal_store *store, pal_str tenant,
        pal_id session, const pal_ledger_row *row, pal_error *err);

/* The sum of ledger rows. */
typedef struct pal_ledger_sum {
    uint64_t calls;
    pal_usage usage;
    int64_t cost_micros;
    PAL_RESERVED(4);
} pal_ledger_sum;

typedef struct pal_ledger_query {
    pal_str tenant;
    pal_id session;  /* empty: all rows of the tenant */
    pal_str turn_id; /* empty: any */
    pal_str agent;   /* empty: any */
    int64_t from;    /* earliest created_at, in milliseconds since 1970; 0: any */
    int64_t to;      /* rows created at this time or later are left out; 0: none */
    PAL_RESERVED(4);
} pal_ledger_query;

/* Adds up ledger rows. If the query names no session, rows of erased sessions are included. */
PAL_API PAL_CHECKED pal_status pal_store_ledger_sum(
        pal_store *store, const pal_ledger_query *query, pal_ledger_sum *out_sum, pal_error *err);

#define PAL_BLOB_NAME_SIZE 72 /* "sha256:", 64 hex digits and a NUL */

/* Stores bytes under the hash of their content. Storing the same bytes again takes no space. A blob
 * that no message refers to is removed by the sweep after a day. PAL_LIMIT: the blob is larger than
 * blob_bytes_max. */
PAL_API PAL_CHECKED pal_status pal_store_blob_put(pal_store *store, pal_str tenant,
        pal_str media_type, pal_str data, char out_name[PAL_BLOB_NAME_SIZE], pal_error *err);
/* Reads a blob by the name in pal_part.blob. PAL_NOT_FOUND if the tenant has no such blob. */
PAL_API PAL_CHECKED pal_status pal_store_blob_get(pal_store *store, pal_str tenant, pal_str name,
        pal_arena *arena, pal_str *out_media_type, pal_str *out_data, pal_error *err);
/* Reports the size of a blob without reading it. PAL_NOT_FOUND if the tenant has no such blob. */
PAL_API PAL_CHECKED pal_status pal_store_blob_size(
        pal_store *store, pal_str tenant, pal_str name, uint64_t *out_bytes, pal_error *err);

/* ---- Records ---- */

/* A small JSON document that a program stores under a kind and a name, for example an API key, an
 * agent or a stored response. */
typedef struct pal_record {
    pal_str kind;       /* for example "key" */
    pal_str name;       /* unique in its tenant and kind */
    pal_id session;     /* the session that it belongs to and is erased with; may be empty */
    pal_str body;       /* JSON */
    uint64_t version;   /* counted from 1 and increased by every write; set by the store */
    int64_t created_at; /* set by the store */
    int64_t updated_at; /* set by the store */
    int64_t expires_at; /* from this time on the record is not found, and the sweep removes it;
                           0: never */
    PAL_RESERVED(4);
} pal_record;

/* Instead of an expected version: do not check it. */
#define PAL_RECORD_VERSION_ANY UINT64_MAX

/* Writes a record and sets its version, created_at and updated_at. PAL_CONFLICT unless the stored
 * version is `expected_version`: 0 if there must be no such record, or PAL_RECORD_VERSION_ANY. */
PAL_API PAL_CHECKED pal_status pal_store_record_put(pal_store *store, pal_str tenant,
        pal_record *record, uint64_t expected_version, pal_error *err);
/* Removes a record. PAL_NOT_FOUND if there is no such record. */
PAL_API PAL_CHECKED pal_status pal_store_record_drop(
        pal_store *store, pal_str tenant, pal_str kind, pal_str name, pal_error *err);
/* Finds a record. PAL_NOT_FOUND if there is no such record or it has expired. */
PAL_API PAL_CHECKED pal_status pal_store_record_find(pal_store *store, pal_str tenant, pal_str kind,
        pal_str name, pal_arena *arena, pal_record *out_record, pal_error *err);

typedef struct pal_record_query {
    pal_str tenant;
    pal_str kind;
    pal_id session;  /* empty: any */
    pal_str after;   /* the list begins after this name, in the order of the list; empty: at the
                        first */
    bool descending; /* order by name, descending; otherwise ascending. Names are compared byte by
                        byte */
    uint32_t limit;  /* records on a page, up to PAL_RECORD_PAGE_MAX; 0: 50 */
    PAL_RESERVED(4);
} pal_record_query;

typedef struct pal_record_page {
    pal_record *items;
    size_t len;
    bool has_more;
    PAL_RESERVED(4);
} pal_record_page;

/* Lists the records of one kind, ordered by name. */
PAL_API PAL_CHECKED pal_status pal_store_record_list(pal_store *store,
        const pal_record_query *query, pal_arena *arena, pal_record_page *out_records,
        pal_error *err);

/* ---- Batches ---- */

typedef enum pal_op_kind {
    PAL_OP_NONE = 0,
    PAL_OP_CREATE = 1,
    PAL_OP_UPDATE = 2,
    PAL_OP_APPEND = 3,
    PAL_OP_FORK = 4,
    PAL_OP_MARK = 5,
    PAL_OP_DELETE = 6,
    PAL_OP_RESTORE = 7,
    PAL_OP_ERASE = 8,
    PAL_OP_INBOX_ADD = 9,
    PAL_OP_INBOX_DROP = 10,
    PAL_OP_LEASE_TAKE = 11,
    PAL_OP_LEASE_RELEASE = 12,
    PAL_OP_LEDGER_ADD = 13,
    PAL_OP_BLOB_PUT = 14,
    PAL_OP_SWEEP = 15,
    PAL_OP_ADOPT = 16,
    PAL_OP_RECORD_PUT = 17,
    PAL_OP_RECORD_DROP = 18,
} pal_op_kind;

/* One write operation. All writing functions above are made of these. Zero an operation, then set
 * kind, tenant, session and the member of `u` for the kind. The tenant here also replaces that of a
 * pal_session in the operation. The store sets `status`, `error` and the members whose comment
 * begins with "out:". */
typedef struct pal_op {
    pal_op_kind kind;
    pal_str tenant;
    pal_id session;     /* create, fork: the id of the new session, or empty to get one; out: the
                           session's id */
    uint64_t fence;     /* if not 0, the operation fails with PAL_DENIED unless the session's lease
                           has this fence number. A turn can end even if its session has expired or
                           was moved to the trash meanwhile */
    bool with_previous; /* fail with PAL_CANCELED unless the operation before this one succeeded */
    union {
        struct {
            const pal_session *session;
            bool or_find;  /* if an active session has the key, use that one instead */
            bool existing; /* out: or_find found a session */
        } create;
        struct {
            const pal_session *session;
            uint32_t fields; /* bits of pal_session_field */
        } update;
        struct {
            pal_message *messages; /* out: id, seq, created_at and tokens of each */
            size_t messages_len;
            uint64_t expected_seq;
            const pal_id *inbox_ids; /* items that are removed from the inbox in the same commit */
            size_t inbox_ids_len;
            const pal_ledger_row *ledger; /* ledger rows that are written in the same commit */
            size_t ledger_len;
            bool replayed; /* out: all client ids were used before, and nothing was appended;
                              with PAL_CONFLICT: some of them were */
        } append;
        struct {
            const pal_session *session;
            pal_id parent;
            uint64_t at_seq;
            bool keep_mark; /* only the parent's marks up to session->fork_mark apply to the fork,
                               as when a store is copied; otherwise all that exist now */
        } fork;
        struct {
            pal_id from;  /* the session whose history this session adopts, if this session is
                             empty */
            bool adopted; /* out: the history was adopted */
        } adopt;
        pal_mark *mark;             /* as in pal_store_mark() */
        pal_erase_result *erasure;       /* erase. out: everything */
        pal_inbox_item *inbox_item; /* inbox add. out: id and created_at */
        pal_id inbox_id;            /* inbox drop */
        struct {
            pal_str owner;
            int64_t ttl_ms;
            uint64_t fence; /* take: out: the new fence number. release: the number to release */
            uint64_t stale_fence;     /* take: the fence of a lease that the caller knows to be held
                                         by a dead process. If this and stale_expires_at match the
                                         current lease, it is treated as free */
            int64_t stale_expires_at; /* take: the expires_at of that lease; 0: none */
            bool is_watched; /* take: the caller watches the lease itself. The clock does not count:
                                only a released or stale lease is free */
        } lease;
        const pal_ledger_row *ledger_row;
        struct {
            pal_str media_type;
            pal_str data;
            char name[PAL_BLOB_NAME_SIZE]; /* out */
        } blob;
        struct {
            int64_t trash_ms;
            uint32_t limit;
            pal_sweep_result result; /* out */
        } sweep;
        struct {
            pal_record *record; /* put: out: version, created_at and updated_at. drop: kind and name
                                   are used */
            uint64_t expected_version;
        } record;
        PAL_RESERVED(20); /* the size of `u`, whatever its members become */
    } u;
    pal_status status;
    pal_error error;
    PAL_RESERVED(4);
} pal_op;

/* Applies operations in one durable commit, in their order. They can concern any number of
 * sessions. Each operation succeeds or fails alone and reports that in its `status`. The call
 * itself fails only if none was applied. A fork sees only what was stored before the batch. Calls
 * from several threads share commits. PAL_LIMIT: there are more than PAL_BATCH_OPS_MAX operations,
 * or their messages exceed PAL_BATCH_BYTES_MAX. */
PAL_API PAL_CHECKED pal_status pal_store_apply(
        pal_store *store, pal_op *ops, size_t ops_len, pal_error *err);

/* Called exactly once, with the status that pal_store_apply() would have returned. `err` is NULL
 * after PAL_OK. Must neither block nor write to the store. */
typedef void (*pal_store_on_applied)(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user);

/* Like pal_store_apply(), but does not wait for the commit. The store uses `ops` and everything
 * that they point to until `applied` is called. `applied` runs on the writer's thread. If the
 * backend has no writer, it runs on the caller's thread, before this function returns.
 *
 * If this function does not return PAL_OK, `applied` is not called. PAL_LIMIT: PAL_COMMIT_QUEUE_MAX
 * calls are already waiting; the function does not wait for room. */
PAL_API PAL_CHECKED pal_status pal_store_apply_async(pal_store *store, pal_op *ops, size_t ops_len,
        pal_store_on_applied applied, void *user, pal_error *err);

/* ---- Changes ---- */

typedef enum pal_store_change_kind {
    PAL_STORE_CHANGE_NONE = 0,
    PAL_STORE_CHANGE_CREATED = 1, /* a session was created, also by a fork */
    PAL_STORE_CHANGE_UPDATED = 2, /* members of the session were changed, or it adopted a history */
    PAL_STORE_CHANGE_MESSAGES = 3, /* messages were appended. seq: that of the newest message */
    PAL_STORE_CHANGE_MARK = 4,     /* a mark was added. mark, number */
    PAL_STORE_CHANGE_DELETED = 5,  /* the session was moved to the trash */
    PAL_STORE_CHANGE_RESTORED = 6, /* the session was taken out of the trash */
    PAL_STORE_CHANGE_ERASED = 7,
} pal_store_change_kind;

/* Describes a change of a session. Valid during the callback only. */
typedef struct pal_store_change {
    pal_store_change_kind kind;
    pal_str tenant;
    pal_id session;
    uint64_t seq;
    pal_mark_kind mark;
    uint64_t number;
    PAL_RESERVED(4);
} pal_store_change;

/* Called after a change is durable and before the call that made it returns or reports its
 * completion. Runs on the thread of that call, or on the writer's thread. Must neither block nor
 * write to the store. */
typedef void (*pal_store_on_change)(const pal_store_change *change, void *user);

/* Calls `sink` for every change that is made through this pal_store from now on. Changes that
 * happen at the same time can be reported in any order. Changes by other processes, and sessions
 * that a sweep moves or erases, are not reported. PAL_LIMIT: there are PAL_STORE_WATCHERS_MAX
 * watches. */
PAL_API PAL_CHECKED pal_status pal_store_watch(
        pal_store *store, pal_store_on_change sink, void *user, pal_error *err);
/* Ends the watches that were added with `user`. No callback is made after this function returns. */
PAL_API void pal_store_unwatch(pal_store *store, void *user);

/* ---- Maintenance ---- */

typedef struct pal_store_stats {
    pal_str backend; /* for example "sqlite" */
    uint64_t sessions_active;
    uint64_t sessions_trash;
    uint64_t sessions_quarantined;
    uint64_t messages;
    uint64_t content_bytes; /* total size of all messages in their stored form */
    uint64_t blobs;
    uint64_t blob_bytes;
    uint64_t disk_bytes;
    uint64_t tenants;
    uint64_t commits; /* commits through this pal_store */
    uint64_t ops;     /* operations in those commits */
    PAL_RESERVED(8);
} pal_store_stats;

/* Counts what is stored, over all tenants. The counts are kept, so this is cheap for a store of any
 * size. An expired session counts as active until the sweep moves it to the trash. */
PAL_API PAL_CHECKED pal_status pal_store_stat(
        pal_store *store, pal_arena *arena, pal_store_stats *out_stats, pal_error *err);

/* Checks whether the store can be read and written now, for readiness probes. PAL_IO: the files of
 * the store were removed or replaced while it was open. After the disk refused a commit (PAL_IO,
 * PAL_FULL), this function tries a small write, at most once a second. The store is ready again
 * when one succeeds. Can block on the disk. */
PAL_API PAL_CHECKED pal_status pal_store_ready(pal_store *store, pal_error *err);

/* A problem that a check found. `session` is empty if the problem concerns the whole store. */
typedef struct pal_store_finding {
    pal_id session;
    bool repaired;
    char text[PAL_ERROR_MESSAGE_MAX];
    bool advice; /* nothing is damaged, but the user should know: other users can read the files */
    PAL_RESERVED(4);
} pal_store_finding;

/* Called for each problem, on the thread that runs the check. */
typedef void (*pal_store_on_finding)(const pal_store_finding *finding, void *user);

/* Called from time to time while a check runs, on the same thread. `total` is 0 while it is
 * unknown. */
typedef void (*pal_store_on_progress)(uint64_t done, uint64_t total, void *user);

/* Checks everything that is stored. With `repair`, it rebuilds derived data and quarantines damaged
 * sessions, one by one; other sessions are not affected. Calls `sink` for each problem and sets
 * *out_findings to their number; advice is not counted. `sink`, `progress` and `out_findings` may
 * be NULL. PAL_OK means that the check was completed, not that there were no problems. PAL_DENIED:
 * `repair` is set and the store is read-only. Blocks. */
PAL_API PAL_CHECKED pal_status pal_store_check(pal_store *store, bool repair,
        pal_store_on_finding sink, pal_store_on_progress progress, void *user,
        uint64_t *out_findings, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
