/* api_mistral.h - what the routes of Mistral's API share. A conversation is a session, an entry a
 * part of a message (dialect_mistral_entries.h), an agent a record with versions. */
#ifndef PAL_API_MISTRAL_H
#define PAL_API_MISTRAL_H

#include "dialect/dialect_mistral_entries.h"
#include "server/api_openai.h"
#include "server/server.h"

#define PAL_MISTRAL_PAGE_MAX 1000         /* conversations or agents in one page */
#define PAL_MISTRAL_PAGES_MAX 1000000000u /* what "page" may say */
#define PAL_MISTRAL_VERSIONS_MAX 1000     /* of one agent */
#define PAL_MISTRAL_ALIASES_MAX 100       /* likewise */
#define PAL_MISTRAL_HANDOFFS_MAX 32       /* agents that one may hand over to, and all in reach */
#define PAL_MISTRAL_LEGS_MAX 16           /* handoffs in one request */

/* Kinds of records. An agent is named by its id's hex digits, the others by their session's id. */
#define PAL_MISTRAL_AGENT "agent"
#define PAL_MISTRAL_CONVERSATION "conversation" /* says that it is one, for lists */
#define PAL_MISTRAL_SPEAKER "mistral_speaker"   /* the agent that it was handed to */

extern const pal_api_route pal_mistral_conversation_routes[]; /* api_mistral_conversations.c */
extern const pal_api_route pal_mistral_start_routes[];        /* api_mistral_start.c */
extern const pal_api_route pal_mistral_restart_routes[];      /* api_mistral_restart.c */
extern const pal_api_route pal_mistral_chat_routes[];         /* api_mistral_chat.c */
extern const pal_api_route pal_mistral_model_routes[];        /* api_mistral_models.c */
extern const pal_api_route pal_mistral_agent_routes[];        /* api_mistral_agents.c */
extern const pal_api_route pal_mistral_agent_list_routes[];   /* api_mistral_agent_list.c */
extern const pal_api_route pal_mistral_alias_routes[];        /* api_mistral_aliases.c */

/* What every handler returns: wrong input is 422 here. */
pal_status pal_mistral_checked(pal_call *call, pal_status status);
#define PAL_MISTRAL_HANDLER(name)                                                                  \
    static pal_status handle_##name(pal_call *call, pal_error *err)                                \
    {                                                                                              \
        return pal_mistral_checked(call, name(call, err));                                         \
    }
/* Wrong input: sets the field and the error. */
pal_status pal_mistral_wrong(pal_call *call, const char *param, pal_error *err, const char *format,
        ...) PAL_PRINTF(4, 5);

/* ---- Members ---- */

/* "page" and "page_size" of the query: how many to leave out, how many to show. */
PAL_CHECKED pal_status pal_mistral_page_read(pal_call *call, uint64_t size_default,
        uint64_t *out_skip, uint64_t *out_size, pal_error *err);
/* "metadata" of the query, as JSON; none where it is absent. */
PAL_CHECKED pal_status pal_mistral_filter_read(
        pal_call *call, pal_json *out_filter, pal_error *err);
/* Whether `object` has all members of the filter. */
bool pal_mistral_filter_fits(pal_json filter, pal_json object, pal_arena *arena);

/* The member of `object` as it is written, under the same name; nothing where it is absent. */
void pal_mistral_put_raw(pal_json_writer *writer, pal_json object, const char *name);
/* Likewise, null where it is absent. */
void pal_mistral_put_raw_or_null(pal_json_writer *writer, pal_json object, const char *name);

/* Entries of stored messages, in the call's arena; `agent_id` is that of who speaks at the
 * beginning. Asks the runtime: not on its loop. */
PAL_CHECKED pal_status pal_mistral_entries(pal_call *call, const pal_messages *messages,
        pal_str agent_id, pal_mistral_entry **out_entries, size_t *out_len, pal_error *err);

/* ---- Agents (api_mistral_agents.c) ---- */

typedef struct pal_mistral_agent {
    pal_id id;
    pal_str id_text;  /* "ag_..." */
    uint64_t version; /* that `fields` are of */
    uint64_t current; /* version; what it is without being named */
    uint64_t count;   /* of versions */
    pal_json fields;  /* "name", "model", "instructions", ... as they were given */
    pal_json aliases; /* an array, or none */
    uint64_t record_version;
    int64_t created_at;
    int64_t updated_at;
} pal_mistral_agent;

/* `version` is a number or an alias; empty: the current one. In the call's arena. */
PAL_CHECKED pal_status pal_mistral_agent_find(
        pal_call *call, pal_str id, pal_str version, pal_mistral_agent *out_agent, pal_error *err);
/* From its record. */
PAL_CHECKED pal_status pal_mistral_agent_take(
        pal_call *call, const pal_record *record, pal_mistral_agent *out_agent, pal_error *err);
/* Its record's name: the hex digits of its id. */
static inline pal_str pal_mistral_agent_name(const pal_mistral_agent *agent)
{
    return pal_str_make(agent->id_text.data + 3, agent->id_text.len - 3);
}
/* Writes it, as an object. */
void pal_mistral_agent_put(pal_json_writer *writer, const pal_mistral_agent *agent);
/* Writes the record of an agent as it is in *agent, into the arena. */
PAL_CHECKED pal_status pal_mistral_agent_record(
        pal_call *call, const pal_mistral_agent *agent, pal_record **out_record, pal_error *err);

/* ---- Settings (api_mistral_settings.c) ---- */

/* What a conversation is held with; kept in its session's metadata. */
typedef struct pal_mistral_settings {
    pal_str model;
    pal_str instructions;
    pal_json tools;           /* an array, or none */
    pal_json completion_args; /* an object, or none */
    pal_str agent_id;         /* "ag_..."; empty: a model's conversation */
    pal_str agent_version;    /* a number or an alias; empty: the current one */
    pal_str speaker_id;       /* the agent that it was handed to; empty: none */
    pal_str name;
    pal_str description;
    pal_json metadata;   /* the user's: an object, or none */
    pal_json guardrails; /* as given, or none */
    pal_json base;       /* all metadata of the session that they are of; none: a new one */
} pal_mistral_settings;

/* Reads them from a request that begins a conversation. */
PAL_CHECKED pal_status pal_mistral_settings_read(
        pal_call *call, pal_mistral_settings *out_settings, pal_error *err);
/* Those of a session. */
PAL_CHECKED pal_status pal_mistral_settings_of(pal_call *call, const pal_session *session,
        pal_mistral_settings *out_settings, pal_error *err);
/* The metadata of a session that keeps them, in the arena. */
PAL_CHECKED pal_status pal_mistral_settings_keep(pal_call *call,
        const pal_mistral_settings *settings, pal_str *out_metadata, pal_error *err);
/* "metadata" of the body, where it is one that can be kept. */
PAL_CHECKED pal_status pal_mistral_metadata_read(
        pal_call *call, pal_json *out_metadata, pal_error *err);
/* "agent_version" of the body: a number or an alias; untouched where it is absent. */
PAL_CHECKED pal_status pal_mistral_version_read(
        pal_call *call, pal_str *out_version, pal_error *err);
/* Checks an object of completion_args; absent is fine. `within` is the member that it is; NULL:
 * they are members of the request itself. */
PAL_CHECKED pal_status pal_mistral_args_check(
        pal_call *call, pal_json args, const char *within, pal_error *err);

/* ---- Confirmations (api_mistral_confirm.c) ---- */

/* Which call the turn of the session asks about; *out_id stays as it is where none does. Asks the
 * runtime: not on its loop. */
PAL_CHECKED pal_status pal_mistral_asked(
        pal_call *call, pal_id session, pal_turn_info *out_info, pal_str *out_id, pal_error *err);
/* What "tool_confirmations" says of that call; it must say nothing of others. */
PAL_CHECKED pal_status pal_mistral_confirmation(
        pal_call *call, pal_str asked, bool *out_allow, pal_error *err);

/* ---- Legs: a turn for each agent that the conversation is handed to (api_mistral_legs.c) ---- */

typedef struct pal_mistral_target {
    pal_str tool; /* by which the model hands over */
    size_t leg;
} pal_mistral_target;

typedef struct pal_mistral_leg {
    pal_str agent_id; /* empty: a model's */
    pal_str agent_name;
    pal_turn_request request; /* model, instructions, tools, parameters */
    pal_mistral_target *targets;
    size_t targets_len;
} pal_mistral_leg;

typedef struct pal_mistral_legs {
    pal_mistral_leg *items; /* the first is the one to begin with; in the call's arena */
    size_t len;
} pal_mistral_legs;

/* Everything that a turn by these settings may need. `args` are the request's own, over the
 * others; may be none. */
PAL_CHECKED pal_status pal_mistral_legs_make(pal_call *call, const pal_mistral_settings *settings,
        pal_json args, pal_mistral_legs *out_legs, pal_error *err);
/* All of it, in the arena, whose failure it shows. */
pal_mistral_legs pal_mistral_legs_copy(const pal_mistral_legs *legs, pal_arena *arena);

#endif
