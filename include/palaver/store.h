/* store.h - keeps conversations durably, whatever the backend.
 *
 * A store may be used by many threads at once. Every call names the tenant, and no call sees
 * another tenant's data. What a call acknowledges with PAL_OK survives a crash of the process and
 * of the machine (memory: excepted); what it refuses has changed nothing. */
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

/* One call of the backend, told after it ended. `ops` counts operations for "apply". */
typedef void (*pal_store_trace)(
        const char *call, size_t ops, int64_t duration_us, pal_status status, void *user);

/* Every field may stay zero; zero means the default named beside it. */
typedef struct pal_store_options {
    uint64_t message_bytes_max; /* 16 MiB, of a message's stored form */
    uint64_t blob_bytes_max;    /* 64 MiB */
    uint32_t busy_timeout_ms;   /* 30000: how long to wait for another process's writes */
    uint32_t readers_max;       /* 8: read calls that run at once; more of them wait */
    bool read_only;             /* writing calls answer PAL_DENIED; nothing is created */
    bool network_fs;            /* open the file even on a network file system, at your risk */
    pal_store_trace trace;      /* NULL */
    void *trace_user;
    const pal_encoding *encoding; /* by which messages are counted: o200k_base, where this build
                                     has it, else estimates */
    bool estimate;                /* estimates in any case: appends cost less */
    uint32_t sessions_max; /* active sessions of one tenant; another one is PAL_BUDGET. 0: no
                              bound. Expired ones don't count. A new one costs a walk over them */
} pal_store_options;

/* For a program that uses SQLite through stores only: SQLite keeps no account of its memory from
 * now on, for which it takes a lock of the whole process at every allocation. Such a setting is the
 * program's to make, so no store makes it. Call it before the first store is opened and no other
 * thread uses SQLite; once it is in use, this does nothing. */
PAL_API void pal_store_claim_sqlite(void);

/* Opens the store named by `url`: "sqlite:PATH" (or just a path), "jsonl:DIR" or "memory:". Creates
 * it if it is missing. On success *out_store belongs to the caller; release it with
 * pal_store_close(). On failure *out_store is untouched. `options` and `err` may be NULL. */
PAL_API PAL_CHECKED pal_status pal_store_open(
        const char *url, const pal_store_options *options, pal_store **out_store, pal_error *err);

/* By which messages are counted; NULL: they are estimated. */
PAL_API const pal_encoding *pal_store_encoding(const pal_store *store);

/* Accepts NULL. No call may be running. What was acknowledged is durable without this call. */
PAL_API void pal_store_close(pal_store *store);

/* ---- Sessions ---- */

/* Creates a session from `session`: its key, aliases, title, project, agent, scope, metadata,
 * expires_at and, if set, id and created_at are taken; the rest is the store's. An empty tenant is
 * "default" here and everywhere. A key that an active session has already gives PAL_CONFLICT, and
 * so does an id that a session of the tenant has. Ids of sessions and messages are a tenant's own:
 * other tenants may have the same. */
PAL_API PAL_CHECKED pal_status pal_store_create(
        pal_store *store, const pal_session *session, pal_id *out_id, pal_error *err);

typedef enum pal_find_by {
    PAL_FIND_ANY = 0, /* id, then key, then alias */
    PAL_FIND_ID = 1,
    PAL_FIND_KEY = 2,
    PAL_FIND_ALIAS = 3,
} pal_find_by;

/* Finds a session; it lies in the arena. By id, sessions in the trash are found too; by key and
 * alias only active ones. An expired session is found in the state PAL_SESSION_TRASH.
 * PAL_NOT_FOUND where there is none. */
PAL_API PAL_CHECKED pal_status pal_store_find(pal_store *store, pal_str tenant, pal_find_by by,
        pal_str name, pal_arena *arena, pal_session *out_session, pal_error *err);

typedef struct pal_session_query {
    pal_str tenant;
    pal_session_state state; /* NONE: active. Expired ones are in no list until they are swept */
    pal_str project;         /* empty: any */
    pal_str agent;           /* empty: any */
    int64_t updated_from;    /* milliseconds since 1970, inclusive; 0: any */
    int64_t updated_to;      /* exclusive; 0: any */
    uint32_t limit;          /* 0: 50; at most PAL_SESSION_PAGE_MAX */
    pal_str cursor;          /* empty: the first page; else the `cursor` of the page before */
} pal_session_query;

typedef struct pal_session_page {
    pal_session *sessions; /* newest update first; in the arena */
    size_t sessions_len;
    pal_str cursor; /* empty on the last page; in the arena */
} pal_session_page;

/* The tenant's sessions, a page a call. */
PAL_API PAL_CHECKED pal_status pal_store_list(pal_store *store, const pal_session_query *query,
        pal_arena *arena, pal_session_page *out_page, pal_error *err);

/* What pal_store_update() sets; a bit each. */
typedef enum pal_session_field {
    PAL_FIELD_TITLE = 1 << 0,
    PAL_FIELD_PROJECT = 1 << 1,
    PAL_FIELD_AGENT = 1 << 2,
    PAL_FIELD_METADATA = 1 << 3,
    PAL_FIELD_SCOPE = 1 << 4,
    PAL_FIELD_EXPIRES_AT = 1 << 5,
    PAL_FIELD_KEY = 1 << 6,
    PAL_FIELD_ALIASES = 1 << 7, /* replaces the list, with is_routed and alias_apart */
    /* For imports: the session is listed as if it was last changed at this time. Without it the
     * update itself is the last change. */
    PAL_FIELD_UPDATED_AT = 1 << 8,
} pal_session_field;

/* Sets the named fields of the session `session->id` of `session->tenant`. */
PAL_API PAL_CHECKED pal_status pal_store_update(
        pal_store *store, const pal_session *session, uint32_t fields, pal_error *err);

/* ---- Resolution ---- */

/* Which session a routed message belongs to. */
typedef struct pal_resolve {
    const pal_session *session; /* tenant, key, aliases, scope, agent, ... as routing gave them */
    pal_str main_alias;         /* leads to the agent's main session only */
    bool is_main;               /* this is that session */
    bool is_explicit;           /* the sender named the key: it may be an alias too */
    /* Keys that the same chat may have been stored under. A session with one of them is used, in
     * this order, if no session has the key itself. */
    const pal_str *earlier_keys;
    size_t earlier_keys_len;
    /* Explicit, and the key is an alias of the message's own chat: that chat's key. The alias is
     * not looked up then: another chat may have it. With is_main: the main session's key. */
    pal_str routed_key;
} pal_resolve;

typedef struct pal_resolution {
    pal_id session;
    bool created;
    bool adopted; /* what was said under one of its aliases became its own, without copying */
} pal_resolution;

/* Finds the session, or creates it. An empty session adopts the history of the first session whose
 * key is one of its aliases; that other session stays unchanged. Never adopted from: the main
 * alias, a session with a routed key ("sk_v1_..."), a session that only lists the alias, and a
 * session whose key is an alias that leads to another session. So a history is adopted once. */
PAL_API PAL_CHECKED pal_status pal_store_resolve(pal_store *store, const pal_resolve *resolve,
        pal_resolution *out_resolution, pal_error *err);

/* ---- Messages ---- */

#define PAL_SEQ_ANY UINT64_MAX

/* Appends messages, all or none; returns only after they will survive a crash. Each message's id,
 * seq, created_at and tokens are set. `expected_seq` is the session's last_seq as the caller knows
 * it, or PAL_SEQ_ANY; another one gives PAL_CONFLICT. Messages whose client_id the session has
 * already are not appended again: their first id and seq are set and PAL_OK is returned, unless
 * their content differs or only some of the batch are known (PAL_CONFLICT). */
PAL_API PAL_CHECKED pal_status pal_store_append(pal_store *store, pal_str tenant, pal_id session,
        pal_message *messages, size_t messages_len, uint64_t expected_seq, pal_error *err);

typedef struct pal_load {
    uint64_t after_seq;  /* only messages with a larger seq */
    uint64_t before_seq; /* only messages with a smaller seq; 0: up to the newest */
    uint32_t limit;      /* at most so many; 0: no bound */
    uint64_t tokens_max; /* stop before the sum of tokens passes this; 0: no bound */
    uint64_t bytes_max;  /* likewise, of stored bytes */
    bool from_end;       /* the newest ones that fit, rather than the oldest */
    bool hidden;         /* also those that a rewind or a reset took out of sight */
} pal_load;

typedef struct pal_messages {
    pal_message *items; /* ascending by seq, whichever end they were taken from; in the arena */
    size_t len;
    bool has_more; /* something was left out for a bound */
} pal_messages;

/* Loads messages of the session, a fork's parents included. NULL `load` means all of them. */
PAL_API PAL_CHECKED pal_status pal_store_load(pal_store *store, pal_str tenant, pal_id session,
        const pal_load *load, pal_arena *arena, pal_messages *out_messages, pal_error *err);

/* How many messages the session shows between the two, both exclusive (before_seq 0: up to the
 * newest). Costs the number of marks and parents, never the number of messages. */
PAL_API PAL_CHECKED pal_status pal_store_count(pal_store *store, pal_str tenant, pal_id session,
        uint64_t after_seq, uint64_t before_seq, uint64_t *out_count, pal_error *err);

/* Finds one message by its id, in sight or not, and the session that it was appended to
 * (`out_session` may be NULL). */
PAL_API PAL_CHECKED pal_status pal_store_message(pal_store *store, pal_str tenant, pal_id id,
        pal_arena *arena, pal_message *out_message, pal_id *out_session, pal_error *err);

/* ---- Forks, rewinds, marks ---- */

/* Makes a session that begins with the messages of `parent` up to `at_seq` (PAL_SEQ_ANY: all),
 * without copying them. `session` names the new one's fields as in pal_store_create(), and the
 * parent's tenant. A message that is out of sight in the parent may be the fork's last. */
PAL_API PAL_CHECKED pal_status pal_store_fork(pal_store *store, const pal_session *session,
        pal_id parent, uint64_t at_seq, pal_id *out_id, pal_error *err);

typedef enum pal_mark_kind {
    PAL_MARK_NONE = 0,
    PAL_MARK_REWIND = 1,     /* messages after `seq` are out of sight, up to the newest then, or
                                with a `target` up to that seq */
    PAL_MARK_RESET = 2,      /* likewise; `seq` is the last one kept, 0 for none */
    PAL_MARK_CHECKPOINT = 3, /* the result of a compaction: `body` stands for all up to `seq` */
    PAL_MARK_PRUNE = 4,      /* `body` lists what is not sent any more, up to `seq` */
    PAL_MARK_PIN = 5,        /* the message `seq` is kept in every context */
    PAL_MARK_UNPIN = 6,
    PAL_MARK_UNDO = 7,  /* the mark number `target` counts no longer */
    PAL_MARK_EPOCH = 8, /* `body` is the system text and tools that every request begins with */
    PAL_MARK_HIDE = 9,  /* the message `seq` is out of sight; with a `target`, only its part of that
                           number, from 1 */
} pal_mark_kind;

/* A mark is a row beside the messages. None is ever changed or removed: undoing adds one. */
typedef struct pal_mark {
    uint64_t number; /* from 1 in each session; the store gives it */
    pal_mark_kind kind;
    uint64_t seq;
    uint64_t through_seq; /* the session's last_seq when it was made, or a rewind's target; the
                             store gives it */
    uint64_t target;      /* undo: the mark's number; 0: the newest mark that counts and is not an
                             undo. hide: the part's number; 0: all of the message. rewind: the
                             last seq that goes; 0: the newest */
    bool undone;
    bool inherited; /* from a parent: it can't be undone here, only there */
    pal_str body;   /* JSON, or empty */
    int64_t created_at;
} pal_mark;

/* Adds a mark. `mark` gives kind, seq, target and body; number, through_seq, target and created_at
 * are set on success. */
PAL_API PAL_CHECKED pal_status pal_store_mark(
        pal_store *store, pal_str tenant, pal_id session, pal_mark *mark, pal_error *err);

/* Everything goes out of sight, but with `keep_system` a leading system message. */
PAL_API PAL_CHECKED pal_status pal_store_reset(pal_store *store, pal_str tenant, pal_id session,
        bool keep_system, pal_mark *out_mark, pal_error *err);

/* Only the newest `keep` of the messages in sight stay there, by a rewind with a target; 0: none.
 * If there are no more than that, nothing is done, and out_mark->number is 0. */
PAL_API PAL_CHECKED pal_status pal_store_truncate(pal_store *store, pal_str tenant, pal_id session,
        uint32_t keep, pal_mark *out_mark, pal_error *err);

/* The messages are appended, and everything else goes out of sight, in one commit: by a rewind
 * with a target, which can be undone. Their client ids are not used. out_mark->number is 0 if there
 * was nothing before. PAL_CONFLICT if others keep appending meanwhile. */
PAL_API PAL_CHECKED pal_status pal_store_replace(pal_store *store, pal_str tenant, pal_id session,
        pal_message *messages, size_t messages_len, pal_mark *out_mark, pal_error *err);

/* All marks that bear on the session, oldest first, inherited ones before its own. */
PAL_API PAL_CHECKED pal_status pal_store_marks(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_mark **out_marks, size_t *out_len, pal_error *err);

/* What of the marks counts now, for a context. A checkpoint, a prune or an epoch counts until it is
 * undone, or until a rewind or a reset takes messages out of sight that it is about. A checkpoint
 * does not count either while messages up to it are back in sight that were not when it was made:
 * it would hide what it does not know. It ends the prunes and epochs before it. */
typedef struct pal_standing {
    pal_mark checkpoint; /* the newest; number 0: none */
    pal_mark epoch;      /* the newest after it; number 0: none */
    pal_mark *prunes;    /* after the checkpoint, oldest first */
    size_t prunes_len;
    uint64_t *pins; /* seqs of messages that are pinned and in sight, ascending */
    size_t pins_len;
} pal_standing;

/* Costs what it returns and the number of marks, never the number of messages; bodies are read only
 * of the marks that are returned. */
PAL_API PAL_CHECKED pal_status pal_store_standing(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_standing *out_standing, pal_error *err);

/* ---- Search ---- */

typedef struct pal_search {
    pal_str tenant;
    pal_id session;      /* none: all of the tenant's active sessions */
    pal_str text;        /* words that must all occur; "a phrase" in quotes; a word* may go on */
    pal_role role;       /* NONE: any */
    uint64_t after_seq;  /* with a session: only messages with a larger seq */
    uint64_t before_seq; /* likewise, smaller; 0: up to the newest */
    int64_t from;        /* created in this time, milliseconds since 1970; 0: any */
    int64_t to;          /* exclusive */
    uint32_t limit;      /* 0: 20; at most PAL_SEARCH_HITS_MAX */
    pal_str cursor;      /* empty: the first page; else the `cursor` of the page before */
} pal_search;

typedef struct pal_hit {
    pal_id session; /* the one that was searched, where the message is an ancestor's */
    uint64_t seq;
    pal_id message;
    pal_role role;
    int64_t created_at;
    pal_str snippet; /* some words around the first match, in the arena */
} pal_hit;

typedef struct pal_hits {
    pal_hit *items; /* newest first; in the arena */
    size_t len;
    pal_str cursor; /* empty on the last page */
} pal_hits;

/* Finds messages by their texts, tool outputs and arguments, in any script. Only what the session
 * shows is found: its own branch, with what it shares with its parents, and nothing that a rewind
 * or a reset took out of sight; nor a message of which a part is hidden. Everything that was
 * acknowledged before the call is searched, though the index is built behind the appends. */
PAL_API PAL_CHECKED pal_status pal_store_search(pal_store *store, const pal_search *search,
        pal_arena *arena, pal_hits *out_hits, pal_error *err);

/* Adds what the search index lacks, at most `parts_max` parts of about a thousand messages, each in
 * a commit of its own: for idle moments, so that the next search need not. *out_more (may be NULL)
 * says that there may be more to add. */
PAL_API PAL_CHECKED pal_status pal_store_index(
        pal_store *store, uint32_t parts_max, bool *out_more, pal_error *err);

/* ---- Trash and erasure ---- */

/* Moves the session to the trash: its key and aliases are free again, its messages stay. */
PAL_API PAL_CHECKED pal_status pal_store_delete(
        pal_store *store, pal_str tenant, pal_id session, pal_error *err);

/* Back from the trash. PAL_CONFLICT when its key was taken meanwhile; aliases that were taken are
 * dropped from it. An expiry that has passed is cleared. */
PAL_API PAL_CHECKED pal_status pal_store_restore(
        pal_store *store, pal_str tenant, pal_id session, pal_error *err);

typedef struct pal_erasure {
    uint64_t messages; /* erased for good */
    uint64_t shared;   /* kept, because forks still show them; erased with the last fork */
    uint64_t marks;
    uint64_t blobs;
    uint64_t aliases;
    uint64_t inbox;
    uint64_t ledger; /* rows that lost their session and texts, and kept their numbers */
    uint64_t records;
} pal_erasure;

/* Erases the session, in whatever state, with all that was derived from it. Can't be undone. */
PAL_API PAL_CHECKED pal_status pal_store_erase(
        pal_store *store, pal_str tenant, pal_id session, pal_erasure *out_erasure, pal_error *err);

typedef struct pal_sweep {
    uint64_t trashed; /* had expired */
    uint64_t erased;  /* had been in the trash for longer than asked */
    bool has_more;    /* the limit was reached */
} pal_sweep;

/* Moves expired sessions of all tenants to the trash, and erases those that have been in it for
 * more than `trash_ms` (negative: none); removes expired records. At most `limit` sessions a call,
 * and as many records. */
PAL_API PAL_CHECKED pal_status pal_store_sweep(
        pal_store *store, int64_t trash_ms, uint32_t limit, pal_sweep *out_sweep, pal_error *err);

/* ---- Inbox, leases, ledger, blobs ---- */

/* What was said while a turn runs. */
typedef struct pal_inbox_item {
    pal_id id;         /* the store gives it */
    pal_str client_id; /* idempotent, as for messages; may be empty */
    pal_str delivery;  /* "queue", "steer": the turn's word, kept as it is */
    pal_str body;      /* JSON */
    int64_t created_at;
} pal_inbox_item;

/* Adds an item; id and created_at are set, to the first one's where client_id is known already. */
PAL_API PAL_CHECKED pal_status pal_store_inbox_add(
        pal_store *store, pal_str tenant, pal_id session, pal_inbox_item *item, pal_error *err);
/* The items that wait, oldest first; in the arena. */
PAL_API PAL_CHECKED pal_status pal_store_inbox_list(pal_store *store, pal_str tenant,
        pal_id session, pal_arena *arena, pal_inbox_item **out_items, size_t *out_len,
        pal_error *err);
/* Takes one out. PAL_NOT_FOUND where it waits no more. */
PAL_API PAL_CHECKED pal_status pal_store_inbox_drop(
        pal_store *store, pal_str tenant, pal_id session, pal_id item, pal_error *err);

typedef struct pal_inbox_owner {
    pal_str tenant; /* in the arena */
    pal_id session;
} pal_inbox_owner;

/* The active sessions of all tenants whose inbox has something in it, in the order of their ids and
 * tenants, from behind `after` (NULL: from the first) on; at most `limit`. For whoever runs turns,
 * after a restart. */
PAL_API PAL_CHECKED pal_status pal_store_inbox_owners(pal_store *store,
        const pal_inbox_owner *after, uint32_t limit, pal_arena *arena,
        pal_inbox_owner **out_owners, size_t *out_len, pal_error *err);

/* The right to run a turn. `fence` grows with every new owner, and a write that carries an older
 * one is refused with PAL_DENIED: a node that was thought dead can't write late. */
typedef struct pal_lease {
    pal_str owner;
    uint64_t fence;
    int64_t expires_at; /* by the store's clock */
    int64_t ttl_ms;     /* what it was taken for, the last time */
} pal_lease;

/* Takes the lease, or renews it when `owner` has it already; PAL_BUSY while another has it. A lease
 * that would end later than twice its ttl from now does not hold: the clock has gone back. As an
 * operation that carries the number, it also renews one that has run out, if nobody took it since;
 * PAL_DENIED if somebody did. */
PAL_API PAL_CHECKED pal_status pal_store_lease_take(pal_store *store, pal_str tenant,
        pal_id session, pal_str owner, int64_t ttl_ms, uint64_t *out_fence, pal_error *err);
/* Gives it back. A lease that is not held under that number is no error: it was lost before. */
PAL_API PAL_CHECKED pal_status pal_store_lease_release(
        pal_store *store, pal_str tenant, pal_id session, uint64_t fence, pal_error *err);
/* PAL_NOT_FOUND while nobody holds it. */
PAL_API PAL_CHECKED pal_status pal_store_lease_find(pal_store *store, pal_str tenant,
        pal_id session, pal_arena *arena, pal_lease *out_lease, pal_error *err);

/* One model call. */
typedef struct pal_ledger_row {
    pal_str request_id; /* unique in the tenant: the same one again is the same call */
    pal_str turn_id;
    pal_str agent;   /* that the turn was run for; may be empty */
    pal_str purpose; /* "turn", "compaction", ... */
    pal_str provider;
    pal_str model;
    pal_str price_version;
    pal_usage usage;
    int64_t cost_micros; /* millionths of the price list's currency */
    int64_t created_at;  /* 0: the store's clock */
} pal_ledger_row;

/* Writes a row, once. `session` may be none: then it is the tenant's alone. */
PAL_API PAL_CHECKED pal_status pal_store_ledger_add(pal_store *store, pal_str tenant,
        pal_id session, const pal_ledger_row *row, pal_error *err);

typedef struct pal_ledger_sum {
    uint64_t calls;
    pal_usage usage;
    int64_t cost_micros;
} pal_ledger_sum;

typedef struct pal_ledger_query {
    pal_str tenant;
    pal_id session;  /* none: all of the tenant's */
    pal_str turn_id; /* empty: any */
    pal_str agent;   /* empty: any */
    int64_t from;    /* created in this time, milliseconds since 1970; 0: any */
    int64_t to;      /* exclusive; 0: any */
} pal_ledger_query;

/* Adds up what was written, also of sessions that are erased by now, where none is named. */
PAL_API PAL_CHECKED pal_status pal_store_ledger_sum(
        pal_store *store, const pal_ledger_query *query, pal_ledger_sum *out_sum, pal_error *err);

#define PAL_BLOB_NAME_SIZE 72 /* "sha256:", 64 hex digits, NUL */

/* Keeps bytes under the hash of their content; the same ones again cost nothing. A blob that no
 * message refers to is erased by the sweep after a day. */
PAL_API PAL_CHECKED pal_status pal_store_blob_put(pal_store *store, pal_str tenant,
        pal_str media_type, pal_str data, char out_name[PAL_BLOB_NAME_SIZE], pal_error *err);
/* The bytes of a pal_part.blob, in the arena. PAL_NOT_FOUND where the tenant has no such blob. */
PAL_API PAL_CHECKED pal_status pal_store_blob_get(pal_store *store, pal_str tenant, pal_str name,
        pal_arena *arena, pal_str *out_media_type, pal_str *out_data, pal_error *err);
/* How many bytes it has; they are not read. */
PAL_API PAL_CHECKED pal_status pal_store_blob_size(
        pal_store *store, pal_str tenant, pal_str name, uint64_t *out_bytes, pal_error *err);

/* ---- Records: small named things beside the conversations ---- */

/* Keys, agents, answered requests: JSON that whoever uses the store keeps under a kind and a name.
 */
typedef struct pal_record {
    pal_str kind;       /* "key" */
    pal_str name;       /* unique in its tenant and kind */
    pal_id session;     /* that it belongs to, and is erased with; may be none */
    pal_str body;       /* JSON */
    uint64_t version;   /* from 1, one more with every write; the store gives it */
    int64_t created_at; /* the store gives it, and updated_at */
    int64_t updated_at;
    int64_t expires_at; /* 0: never. It is not found any more from then on, and swept */
} pal_record;

#define PAL_VERSION_ANY UINT64_MAX

/* Writes a record; version and times are set. `expected_version` is the one that it has, 0 where
 * there must be none yet, or PAL_VERSION_ANY; else PAL_CONFLICT. */
PAL_API PAL_CHECKED pal_status pal_store_record_put(pal_store *store, pal_str tenant,
        pal_record *record, uint64_t expected_version, pal_error *err);
/* PAL_NOT_FOUND where there is none, here and below. */
PAL_API PAL_CHECKED pal_status pal_store_record_drop(
        pal_store *store, pal_str tenant, pal_str kind, pal_str name, pal_error *err);
PAL_API PAL_CHECKED pal_status pal_store_record_find(pal_store *store, pal_str tenant, pal_str kind,
        pal_str name, pal_arena *arena, pal_record *out_record, pal_error *err);

typedef struct pal_record_query {
    pal_str tenant;
    pal_str kind;
    pal_id session;  /* none: any */
    pal_str after;   /* names behind this one, in the order asked for; empty: from the first */
    bool descending; /* by name, bytewise */
    uint32_t limit;  /* 0: 50; at most PAL_RECORD_PAGE_MAX */
} pal_record_query;

typedef struct pal_records {
    pal_record *items; /* in the arena */
    size_t len;
    bool has_more;
} pal_records;

/* The records of one kind, by name. */
PAL_API PAL_CHECKED pal_status pal_store_record_list(pal_store *store,
        const pal_record_query *query, pal_arena *arena, pal_records *out_records, pal_error *err);

/* ---- Batches: what all writing calls above are made of ---- */

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

/* One operation. Start from zeros and fill in kind, tenant, session and the members of its own
 * kind; `status`, `error` and what is marked "set" come back. The tenant is this one, also of
 * sessions that are handed in. */
typedef struct pal_op {
    pal_op_kind kind;
    pal_str tenant;
    pal_id session;     /* create, fork: the new session's id, or none; set to the one it got */
    uint64_t fence;     /* not 0: PAL_DENIED unless the session's lease has this number */
    bool with_previous; /* PAL_CANCELED unless the one before it in the list succeeded */
    union {
        struct {
            const pal_session *session;
            bool or_find;  /* an active session with that key is found instead */
            bool existing; /* set: it was */
        } create;
        struct {
            const pal_session *session;
            uint32_t fields; /* pal_session_field */
        } update;
        struct {
            pal_message *messages; /* id, seq, created_at, tokens: set */
            size_t messages_len;
            uint64_t expected_seq;
            const pal_id *inbox_ids; /* items that leave the inbox with this append */
            size_t inbox_ids_len;
            const pal_ledger_row *ledger; /* rows that are written with it */
            size_t ledger_len;
            bool replayed; /* set: these client ids were known */
        } append;
        struct {
            const pal_session *session;
            pal_id parent;
            uint64_t at_seq;
        } fork;
        struct {
            pal_id from;  /* whose messages become this session's, while it is still empty */
            bool adopted; /* set: they did */
        } adopt;
        pal_mark *mark;             /* as in pal_store_mark() */
        pal_erasure *erasure;       /* erase: set */
        pal_inbox_item *inbox_item; /* inbox add: id and created_at are set */
        pal_id inbox_id;            /* inbox drop */
        struct {
            pal_str owner;
            int64_t ttl_ms;
            uint64_t fence; /* take: set; release: the number to give back */
            uint64_t stale_fence;     /* take: a lease of this number and this end is known to be */
            int64_t stale_expires_at; /* that of a dead process, and does not hold; 0: none is */
        } lease;
        const pal_ledger_row *ledger_row;
        struct {
            pal_str media_type;
            pal_str data;
            char name[PAL_BLOB_NAME_SIZE]; /* set */
        } blob;
        struct {
            int64_t trash_ms;
            uint32_t limit;
            pal_sweep result; /* set */
        } sweep;
        struct {
            pal_record *record; /* put: version and times are set; drop: kind and name are used */
            uint64_t expected_version;
        } record;
    } u;
    pal_status status;
    pal_error error;
} pal_op;

/* Applies operations of any number of sessions in one durable commit, in their order; only a fork
 * is taken from what was stored before the batch. Each fails alone and says so in its `status`; the
 * call itself fails only when nothing was applied. Calls from several threads share commits. */
PAL_API PAL_CHECKED pal_status pal_store_apply(
        pal_store *store, pal_op *ops, size_t ops_len, pal_error *err);

/* Told once. `status` is what pal_store_apply() would have returned. It must neither block nor
 * write to the store. */
typedef void (*pal_applied)(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *err, void *user);

/* Likewise without waiting for the commit: `ops` and all that they point to are the store's until
 * `applied` is told, on the writer's thread, or on the caller's before this returns where the
 * backend has no writer. PAL_LIMIT where PAL_COMMIT_QUEUE_MAX calls wait already: it never blocks
 * for room. Nothing will be told where it returns anything but PAL_OK. */
PAL_API PAL_CHECKED pal_status pal_store_apply_async(pal_store *store, pal_op *ops, size_t ops_len,
        pal_applied applied, void *user, pal_error *err);

/* ---- Being told of changes ---- */

typedef enum pal_change_kind {
    PAL_CHANGE_NONE = 0,
    PAL_CHANGE_CREATED = 1,  /* a session, by a create or a fork */
    PAL_CHANGE_UPDATED = 2,  /* its fields */
    PAL_CHANGE_MESSAGES = 3, /* messages were appended; `seq`: of the newest */
    PAL_CHANGE_MARK = 4,     /* `mark`, `number` */
    PAL_CHANGE_DELETED = 5,
    PAL_CHANGE_RESTORED = 6,
    PAL_CHANGE_ERASED = 7,
} pal_change_kind;

/* Valid during the callback only. */
typedef struct pal_change {
    pal_change_kind kind;
    pal_str tenant;
    pal_id session;
    uint64_t seq;
    pal_mark_kind mark;
    uint64_t number;
} pal_change;

/* On any thread, after the change is durable and before its caller is told. It must neither block
 * nor write to the store. */
typedef void (*pal_change_sink)(const pal_change *change, void *user);

/* Tells every change of a session that this handle makes from now on. Two changes at the same time
 * may be told in either order. Changes by other processes, and sessions that a sweep moves or
 * erases, are not told. PAL_LIMIT with PAL_STORE_WATCHERS_MAX watchers. */
PAL_API PAL_CHECKED pal_status pal_store_watch(
        pal_store *store, pal_change_sink sink, void *user, pal_error *err);
/* Ends the watches of `user`. No callback is made after this function returns. */
PAL_API void pal_store_unwatch(pal_store *store, void *user);

/* ---- Looking after it ---- */

typedef struct pal_store_stats {
    pal_str backend; /* "sqlite"; in the arena */
    uint64_t sessions_active;
    uint64_t sessions_trash;
    uint64_t sessions_quarantined;
    uint64_t messages;
    uint64_t content_bytes; /* of the stored form of all messages */
    uint64_t blobs;
    uint64_t blob_bytes;
    uint64_t disk_bytes;
    uint64_t tenants;
    uint64_t commits; /* by this handle */
    uint64_t ops;     /* in them */
} pal_store_stats;

/* Counts over all tenants. For sqlite: it costs little, however much there is; memory: and jsonl:
 * walk over their sessions. */
PAL_API PAL_CHECKED pal_status pal_store_stat(
        pal_store *store, pal_arena *arena, pal_store_stats *out_stats, pal_error *err);

/* Whether the store can be read and written now, for readiness probes. PAL_IO if its files were
 * removed or replaced while it is open. If the disk refused the last commit (PAL_IO, PAL_FULL), a
 * small write is tried, at most once a second, and the store is ready again when one succeeds. May
 * wait for the disk. */
PAL_API PAL_CHECKED pal_status pal_store_ready(pal_store *store, pal_error *err);

/* One thing that fsck found. `session` is none where it concerns the whole store. */
typedef struct pal_finding {
    pal_id session;
    bool repaired;
    char text[PAL_ERROR_MESSAGE_MAX];
} pal_finding;

typedef void (*pal_finding_sink)(const pal_finding *finding, void *user);

/* Told now and then while a check runs; `total` may be 0 while it isn't known. */
typedef void (*pal_progress)(uint64_t done, uint64_t total, void *user);

/* Checks everything that is stored. With `repair`, rebuilds what can be derived, and quarantines
 * the sessions with damage, each alone. Tells each finding; PAL_OK means that the check ran. */
PAL_API PAL_CHECKED pal_status pal_store_check(pal_store *store, bool repair, pal_finding_sink sink,
        pal_progress progress, void *user, uint64_t *out_findings, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
