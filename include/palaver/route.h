/* route.h - decides which session an inbound message belongs to. Data in, answer out: no store, no
 * clock, no network. docs/routing.md has the rules with examples. */
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

/* ---- What is configured ---- */

/* One person: a canonical name, and the ids that are this person's on the channels, plain ("123")
 * or with their channel ("telegram:123"). Where two names claim one id, the smaller name in byte
 * order has it. */
typedef struct pal_route_link {
    pal_str name;
    const pal_str *ids;
    size_t ids_len;
} pal_route_link;

typedef enum pal_route_mention {
    PAL_ROUTE_MENTION_ANY = 0,
    PAL_ROUTE_MENTION_YES = 1, /* only messages that mention the agent */
    PAL_ROUTE_MENTION_NO = 2,
} pal_route_mention;

/* What a message must be like; an empty text asks for nothing. As the exception an empty account
 * asks for the account "default". */
typedef struct pal_route_when {
    pal_str channel;
    pal_str account;
    pal_str space;  /* "guild:g1" */
    pal_str chat;   /* "group:-100123" */
    pal_str topic;  /* "topic:42" */
    pal_str sender; /* the canonical name where the sender is linked */
    pal_route_mention mentioned;
} pal_route_when;

/* The first rule that matches decides; one that asks for nothing never matches. */
typedef struct pal_route_rule {
    pal_str name; /* may be empty */
    pal_str agent;
    pal_route_when when;
    const pal_str *dimensions; /* instead of the settings'; none: the settings' */
    size_t dimensions_len;
} pal_route_rule;

typedef struct pal_route_agent {
    pal_str id;
    bool is_default; /* the first such one; without any the first agent; without agents "main" */
} pal_route_agent;

typedef struct pal_route_config {
    const pal_str *dimensions; /* of "space", "chat", "topic", "sender", in the order of the key */
    size_t dimensions_len;
    pal_str dm_scope; /* where there are no dimensions: "per-channel-peer" and so on, or "global" */
    const pal_route_link *links;
    size_t links_len;
    const pal_route_rule *rules;
    size_t rules_len;
    const pal_route_agent *agents; /* where there are any, no other agent is routed to */
    size_t agents_len;
    bool link_across_channels; /* a linked person has one session on all channels */
} pal_route_config;

/* A checked and compiled configuration. It never changes: many threads may use one at once. */
typedef struct pal_route_settings pal_route_settings;

/* Everything is copied. Release with pal_route_settings_free(). PAL_INVALID names what is wrong:
 * an unknown dimension or dm_scope, control characters, invalid UTF-8. `config` may be NULL. */
PAL_API PAL_CHECKED pal_status pal_route_settings_new(
        const pal_route_config *config, pal_route_settings **out_settings, pal_error *err);
/* Accepts NULL. */
PAL_API void pal_route_settings_free(pal_route_settings *settings);

/* ---- What comes in ---- */

/* What the session is about. */
typedef enum pal_route_kind {
    PAL_ROUTE_CHAT = 0,        /* a chat of some channel: all fields but those of the next kinds */
    PAL_ROUTE_MATRIX_ROOM = 1, /* `matrix_room` "!id:server" or "!id", whose case counts */
    PAL_ROUTE_WORK_ITEM = 2,   /* `project_id` and `bead_id` */
    PAL_ROUTE_CODE = 3,        /* `project_path`, and `branch`, which may be empty */
} pal_route_kind;

/* Every field may stay empty. */
typedef struct pal_route_context {
    pal_route_kind kind;
    pal_str agent_id; /* who is meant where no rule matches; empty: the default agent */
    pal_str channel;
    pal_str account;
    pal_str space_id;
    pal_str space_type;
    pal_str chat_id;
    pal_str chat_type; /* "direct", "group", ... */
    pal_str topic_id;
    pal_str sender_id;
    bool mentioned;
    pal_str session_key; /* the message's own; decides when it is explicit */
    pal_str matrix_room;
    pal_str project_id;
    pal_str bead_id;
    pal_str project_path;
    pal_str branch;
} pal_route_context;

/* ---- The answer ---- */

typedef struct pal_route_value {
    pal_str dimension;
    pal_str value;
} pal_route_value;

#define PAL_ROUTE_VALUES_MAX 4
#define PAL_ROUTE_EARLIER_MAX 2

/* In the arena, some of it the settings': valid as long as both of them are. */
typedef struct pal_route {
    pal_str key; /* the session's: an explicit key as it came, else the scope's */
    bool is_explicit;
    pal_str scope_key; /* made from the signature */
    pal_str signature;
    pal_str scope; /* as a JSON object */
    pal_str agent;
    pal_str channel; /* empty, as `account` is, where the scope is of no one channel */
    pal_str account;
    pal_route_value values[PAL_ROUTE_VALUES_MAX];
    size_t values_len;
    bool is_linked;         /* the sender has a canonical name */
    const pal_str *aliases; /* the main alias first; without `key` */
    size_t aliases_len;
    pal_str main_alias; /* "agent:main:main" */
    pal_str main_key;
    pal_str matched_by; /* "dispatch.rule:NAME", "dispatch.rule" or "default" */
    /* Keys that the same Matrix room has if another chat type is given. If there is no session with
     * `key`, one with such a key is the room's. */
    pal_str earlier_keys[PAL_ROUTE_EARLIER_MAX];
    size_t earlier_keys_len;
    bool is_own_alias; /* explicit, and the key is an alias of the message's own chat */
} pal_route;

/* Decides. The same input has the same answer, always and everywhere. PAL_INVALID and PAL_LIMIT
 * name the field. From any thread, with an arena of its own. */
PAL_API PAL_CHECKED pal_status pal_route_decide(const pal_route_settings *settings,
        const pal_route_context *context, pal_arena *arena, pal_route *out_route, pal_error *err);

/* ---- Keys by themselves ---- */

/* Whether a message's key is used as it is, instead of being routed: with white space and case put
 * aside it begins with "sk_v1_" or "agent:". */
PAL_API bool pal_route_key_is_explicit(pal_str key);

/* The opaque key of a signature or a legacy alias, "sk_v1_" and 64 digits; in the arena. Empty for
 * an empty text. */
PAL_API PAL_CHECKED pal_status pal_route_key_from_alias(
        pal_str alias, pal_arena *arena, pal_str *out_key, pal_error *err);

/* Takes "agent:AGENT:REST" apart; false where it is none. The parts are views of `key`. */
PAL_API bool pal_route_key_split(pal_str key, pal_str *out_agent, pal_str *out_rest);

#ifdef __cplusplus
}
#endif
#endif
