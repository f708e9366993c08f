/* api_mistral.h - functions that the routes of Mistral's API share. A conversation is a session, an
 * entry is a part of a message (mistral_entries.h), and an agent is a record with
 * versions. */
#ifndef PAL_API_MISTRAL_H
#define PAL_API_MISTRAL_H

#include "dialect/mistral/mistral_entries.h"
#include "server/api/openai/api_openai.h"
#include "server/server.h"

#define PAL_MISTRAL_PAGE_MAX 1000         /* conversations or agents in one page */
#define PAL_MISTRAL_PAGES_MAX 1000000000u /* maximum of "page" */
#define PAL_MISTRAL_VERSIONS_MAX 1000     /* versions of one agent */
#define PAL_MISTRAL_ALIASES_MAX 100       /* aliases of one agent */
#define PAL_MISTRAL_HANDOFFS_MAX 32       /* agents that one agent can hand over to, and agents that
                                             one request can reach */
#define PAL_MISTRAL_RUN_TURNS_MAX 16           /* handoffs in one request */

/* Kinds of records. An agent's record is named by the hex digits of its id, the others by the id of
 * their session. */
#define PAL_MISTRAL_AGENT "agent"
#define PAL_MISTRAL_CONVERSATION "conversation" /* marks the session as a conversation, for lists */
#define PAL_MISTRAL_SPEAKER "mistral_speaker"   /* the agent that the conversation was handed to */

extern const pal_api_route pal_mistral_conversation_routes[]; /* api_mistral_conversations.c */
extern const pal_api_route pal_mistral_start_routes[];        /* api_mistral_start.c */
extern const pal_api_route pal_mistral_restart_routes[];      /* api_mistral_restart.c */
extern const pal_api_route pal_mistral_chat_routes[];         /* api_mistral_chat.c */
extern const pal_api_route pal_mistral_agent_routes[];        /* api_mistral_agents.c */
extern const pal_api_route pal_mistral_agent_list_routes[];   /* api_mistral_agent_list.c */
extern const pal_api_route pal_mistral_alias_routes[];        /* api_mistral_aliases.c */

/* Converts the status of a handler: in this API, invalid input gets 422. */
pal_status pal_mistral_checked(pal_call *call, pal_status status);
#define PAL_MISTRAL_HANDLER(name)                                                                  \
    static pal_status handle_##name(pal_call *call, pal_error *err)                                \
    {                                                                                              \
        return pal_mistral_checked(call, name(call, err));                                         \
    }
/* Reports invalid input: sets the field and the error. */
pal_status pal_mistral_wrong(pal_call *call, const char *param, pal_error *err, const char *format,
        ...) PAL_PRINTF(4, 5);

/* ---- Members ---- */

typedef struct pal_mistral_page {
    uint64_t number; /* from 0 */
    uint64_t size;
} pal_mistral_page;

/* The parameters "page" and "page_size". */
extern const pal_api_object pal_mistral_page_query;
/* Reads "metadata" of the query as JSON. If it is absent, *out_filter is empty. */
PAL_CHECKED pal_status pal_mistral_filter_read(
        pal_call *call, pal_json *out_filter, pal_error *err);
/* Whether `object` has all members of the filter, with the same values. */
bool pal_mistral_filter_fits(pal_json filter, pal_json object, pal_arena *arena);

/* Copies a member of `object` unchanged. Writes nothing if it is absent. */
void pal_mistral_put_raw(pal_json_writer *writer, pal_json object, const char *name);
/* Copies a member of `object` unchanged. Writes null if it is absent. */
void pal_mistral_put_raw_or_null(pal_json_writer *writer, pal_json object, const char *name);

/* Converts stored messages to entries, in the call's arena. `agent_id` is the agent that speaks
 * first. Calls the runtime, so it must not run on the runtime's loop. */
PAL_CHECKED pal_status pal_mistral_entries(pal_call *call, const pal_message_page *messages,
        pal_str agent_id, pal_mistral_entry **out_entries, size_t *out_len, pal_error *err);

/* ---- Agents (api_mistral_agents.c) ---- */

typedef struct pal_mistral_agent {
    pal_id id;
    pal_str id_text;  /* "ag_..." */
    uint64_t version; /* the version of `fields` */
    uint64_t current; /* the version that is used if a request names none */
    uint64_t count;   /* number of versions */
    pal_json fields;  /* "name", "model", "instructions" and so on, as the client sent them */
    pal_json aliases; /* an array, or empty */
    uint64_t record_version;
    int64_t created_at;
    int64_t updated_at;
} pal_mistral_agent;

/* Finds an agent. `version` is a number or an alias; if it is empty, the current version is used.
 * The result is in the call's arena. */
PAL_CHECKED pal_status pal_mistral_agent_find(
        pal_call *call, pal_str id, pal_str version, pal_mistral_agent *out_agent, pal_error *err);
/* Reads an agent from its record. */
PAL_CHECKED pal_status pal_mistral_agent_take(
        pal_call *call, const pal_record *record, pal_mistral_agent *out_agent, pal_error *err);
/* The name of the agent's record: the hex digits of its id. */
static inline pal_str pal_mistral_agent_name(const pal_mistral_agent *agent)
{
    return pal_str_make(agent->id_text.data + 3, agent->id_text.len - 3);
}
/* Writes the agent as an object. */
void pal_mistral_agent_put(pal_json_writer *writer, const pal_mistral_agent *agent);
/* Builds the record of *agent in the call's arena. */
PAL_CHECKED pal_status pal_mistral_agent_record(
        pal_call *call, const pal_mistral_agent *agent, pal_record **out_record, pal_error *err);

/* ---- Settings (api_mistral_settings.c) ---- */

/* The settings of a conversation. They are stored in the metadata of its session. */
typedef struct pal_mistral_settings {
    pal_str model;
    pal_str instructions;
    pal_json tools;           /* an array, or empty */
    pal_json completion_args; /* an object, or empty */
    pal_str agent_id;         /* "ag_..."; empty if the conversation uses a model directly */
    pal_str agent_version;    /* a number or an alias; empty: the current one */
    pal_str speaker_id;       /* the agent that the conversation was handed to; may be empty */
    pal_str name;
    pal_str description;
    pal_json metadata;   /* the client's metadata: an object, or empty */
    pal_json guardrails; /* unchanged from the request; may be empty */
    pal_json base;       /* all metadata of the session that has these settings; empty for a new
                            session */
} pal_mistral_settings;

/* The members of a request that starts a conversation: fields of a pal_mistral_settings. */
extern const pal_api_object pal_mistral_settings_members;
/* Reads the other members of such a request, and checks all of them. */
PAL_CHECKED pal_status pal_mistral_settings_read(
        pal_call *call, pal_mistral_settings *settings, pal_error *err);
/* Reads the settings of a session. */
PAL_CHECKED pal_status pal_mistral_settings_of(pal_call *call, const pal_session *session,
        pal_mistral_settings *out_settings, pal_error *err);
/* Builds the metadata of a session with these settings, in the call's arena. */
PAL_CHECKED pal_status pal_mistral_settings_keep(pal_call *call,
        const pal_mistral_settings *settings, pal_str *out_metadata, pal_error *err);
/* Reads and checks "metadata" of the body. */
PAL_CHECKED pal_status pal_mistral_metadata_read(
        pal_call *call, pal_json *out_metadata, pal_error *err);
/* Reads "agent_version" of the body: a number or an alias. Leaves *out_version unchanged if it is
 * absent. */
PAL_CHECKED pal_status pal_mistral_version_read(
        pal_call *call, pal_str *out_version, pal_error *err);
/* Checks the members of completion_args, which may be absent. `within` is the name of the object in
 * the request; NULL if its members are members of the request itself. */
PAL_CHECKED pal_status pal_mistral_args_check(
        pal_call *call, pal_json args, const char *within, pal_error *err);

/* ---- Speakers (api_mistral_speakers.c) ----
 *
 * A speaker answers in one turn of a request: the model or agent that starts, or an agent that the
 * conversation is handed to. */

typedef struct pal_mistral_target {
    pal_str tool;   /* the tool that the model calls to hand over */
    size_t speaker; /* index of the speaker that gets the conversation */
} pal_mistral_target;

typedef struct pal_mistral_speaker {
    pal_str agent_id; /* empty if the speaker is a model without an agent */
    pal_str agent_name;
    pal_turn_request request; /* model, instructions, tools, parameters */
    pal_mistral_target *targets;
    size_t targets_len;
} pal_mistral_speaker;

typedef struct pal_mistral_speakers {
    pal_mistral_speaker *items; /* the first one starts; in the call's arena */
    size_t len;
} pal_mistral_speakers;

/* Reads everything that turns with these settings can need. `args` are those of the request. They
 * override the stored ones and may be empty. */
PAL_CHECKED pal_status pal_mistral_speakers_make(pal_call *call,
        const pal_mistral_settings *settings, pal_json args, pal_mistral_speakers *out_speakers,
        pal_error *err);
/* Copies the speakers completely into the arena. The caller must check the arena for failure. */
pal_mistral_speakers pal_mistral_speakers_copy(
        const pal_mistral_speakers *speakers, pal_arena *arena);

#endif
