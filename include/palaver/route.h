/* route.h - decides which session an inbound message belongs to. All functions here are pure: they
 * use no store, no clock and no network, and can be called from any thread. docs/routing.md has the
 * rules with examples. */
#ifndef PALAVER_ROUTE_H
#define PALAVER_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Settings ---- */

/* The ids that one person has on different channels. `name` is the canonical name. An id is plain
 * ("123") or includes the channel ("telegram:123"). If two names claim the same id, the name that
 * is smaller in byte order gets it. */
typedef struct pal_route_link {
    pal_str name;
    const pal_str *ids;
    size_t ids_len;
    PAL_RESERVED(2);
} pal_route_link;

typedef enum pal_route_mention {
    PAL_ROUTE_MENTION_ANY = 0,
    PAL_ROUTE_MENTION_YES = 1, /* only messages that mention the agent */
    PAL_ROUTE_MENTION_NO = 2,  /* only messages that do not mention the agent */
} pal_route_mention;

/* The conditions of a rule. An empty member matches everything, except that an empty account
 * matches only the account "default". */
typedef struct pal_route_when {
    pal_str channel;
    pal_str account;
    pal_str space;  /* for example "guild:g1" */
    pal_str chat;   /* for example "group:-100123" */
    pal_str topic;  /* for example "topic:42" */
    pal_str sender; /* the canonical name if the sender is linked, otherwise the sender's id */
    pal_route_mention mentioned;
    PAL_RESERVED(4);
} pal_route_when;

/* Selects an agent for matching messages. The first rule that matches is used. A rule without any
 * condition never matches. */
typedef struct pal_route_rule {
    pal_str name; /* may be empty */
    pal_str agent;
    pal_route_when when;
    const pal_str *dimensions; /* replace the dimensions of the settings; none: use those of the
                                  settings */
    size_t dimensions_len;
    PAL_RESERVED(4);
} pal_route_rule;

typedef struct pal_route_agent {
    pal_str id;
    bool is_default; /* the default agent. If several agents are marked, the first of them; if none
                        is, the first agent; without any agents, "main" */
    PAL_RESERVED(4);
} pal_route_agent;

typedef struct pal_route_config {
    const pal_str *dimensions; /* some of "space", "chat", "topic" and "sender", in the order in
                                  which they appear in the key */
    size_t dimensions_len;
    pal_str dm_scope; /* used if there are no dimensions: "per-channel-peer", "per-channel",
                         "per-peer" or "global" */
    const pal_route_link *links;
    size_t links_len;
    const pal_route_rule *rules;
    size_t rules_len;
    const pal_route_agent *agents; /* if there are any, messages are routed only to these agents */
    size_t agents_len;
    bool link_across_channels; /* a linked person has one session for all channels */
    PAL_RESERVED(8);
} pal_route_config;

/* A configuration that was checked and compiled. It never changes, so threads can share it. */
typedef struct pal_route_settings pal_route_settings;

/* Checks and compiles a configuration. Everything is copied. `config` may be NULL: all defaults.
 * The caller must release the settings with pal_route_settings_free().
 *
 *   PAL_INVALID  an unknown dimension or dm_scope, control characters or invalid UTF-8
 *   PAL_LIMIT    too many agents, rules or linked ids, or a text that is too long */
PAL_API PAL_CHECKED pal_status pal_route_settings_new(
        const pal_route_config *config, pal_route_settings **out_settings, pal_error *err);
/* Frees the settings. Accepts NULL. */
PAL_API void pal_route_settings_free(pal_route_settings *settings);

/* ---- Input ---- */

/* The subject of a session. It decides which members of pal_route_context are used. */
typedef enum pal_route_kind {
    PAL_ROUTE_CHAT = 0, /* a chat on a channel: all members except those of the following kinds */
    PAL_ROUTE_MATRIX_ROOM = 1, /* a Matrix room: `matrix_room`, "!id:server" or "!id"; case
                                  matters */
    PAL_ROUTE_WORK_ITEM = 2,   /* a work item of Loom (which sends agents to work items, called
                                  beads): `project_id` and `bead_id` */
    PAL_ROUTE_CODE = 3, /* a code repository: `project_path` and `branch`, which may be empty */
} pal_route_kind;

/* The properties of an inbound message. Any member can be empty. */
typedef struct pal_route_context {
    pal_route_kind kind;
    pal_str agent_id; /* the agent to use if no rule matches; empty: the default agent */
    pal_str channel;
    pal_str account;
    pal_str space_id;
    pal_str space_type;
    pal_str chat_id;
    pal_str chat_type; /* for example "direct" or "group" */
    pal_str topic_id;
    pal_str sender_id;
    bool mentioned;
    pal_str session_key; /* the key that the message itself names; used if it is explicit
                            (pal_route_key_is_explicit()) */
    pal_str matrix_room;
    pal_str project_id;
    pal_str bead_id;
    pal_str project_path;
    pal_str branch;
    PAL_RESERVED(8);
} pal_route_context;

/* ---- Result ---- */

/* A dimension and its value for this message. */
typedef struct pal_route_value {
    pal_str dimension;
    pal_str value;
} pal_route_value;

#define PAL_ROUTE_VALUES_MAX 4
#define PAL_ROUTE_EARLIER_MAX 2

/* The result points into the arena and the settings, and must not outlive either. */
typedef struct pal_route {
    pal_str key;       /* the session's key: the explicit key unchanged, otherwise scope_key */
    bool is_explicit;  /* `key` is the key that the message names */
    pal_str scope_key; /* the key that is made from the signature */
    pal_str signature; /* the scope as one text; equal scopes have equal signatures */
    pal_str scope;     /* a JSON object */
    pal_str agent;
    pal_str channel; /* empty, like `account`, if the scope is not limited to one channel */
    pal_str account;
    pal_route_value values[PAL_ROUTE_VALUES_MAX];
    size_t values_len;
    bool is_linked;         /* the sender has a canonical name */
    const pal_str *aliases; /* other names of the session, the main alias first, without `key` */
    size_t aliases_len;
    pal_str main_alias; /* alias of the agent's main session, for example "agent:main:main" */
    pal_str main_key;   /* key of the agent's main session */
    pal_str matched_by; /* "dispatch.rule:NAME", "dispatch.rule" or "default" */
    /* Keys that the same Matrix room has with other chat types. If no session has `key`, a session
     * with one of these keys is the room's. */
    pal_str earlier_keys[PAL_ROUTE_EARLIER_MAX];
    size_t earlier_keys_len;
    bool is_own_alias; /* the key is explicit and is an alias of the message's own chat */
    PAL_RESERVED(8);
} pal_route;

/* Routes a message. The same input always gives the same result. Use a separate arena in each
 * thread. PAL_INVALID and PAL_LIMIT: `err` names the member that is wrong. */
PAL_API PAL_CHECKED pal_status pal_route_decide(const pal_route_settings *settings,
        const pal_route_context *context, pal_arena *arena, pal_route *out_route, pal_error *err);

/* ---- Keys ---- */

/* Returns true if a message's key is used directly instead of being routed: it begins with "sk_v1_"
 * or "agent:". White space around the key and case do not matter. */
PAL_API bool pal_route_key_is_explicit(pal_str key);

/* Returns the opaque key of a signature or of a legacy alias: "sk_v1_" and 64 hex digits, in the
 * arena. An empty alias gives an empty key. */
PAL_API PAL_CHECKED pal_status pal_route_key_from_alias(
        pal_str alias, pal_arena *arena, pal_str *out_key, pal_error *err);

/* Splits a key "agent:AGENT:REST". Returns false if the key does not have this form. The parts
 * point into `key`. */
PAL_API bool pal_route_key_split(pal_str key, pal_str *out_agent, pal_str *out_rest);

#ifdef __cplusplus
}
#endif
#endif
