/* channel.h - channels: ways in and out for people, for example Telegram, Matrix or a webhook. An
 * account is one login on a channel. docs/channels.md explains how messages are judged and
 * answered. */
#ifndef PALAVER_CHANNEL_H
#define PALAVER_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/header.h"
#include "palaver/id.h"
#include "palaver/route.h"
#include "palaver/store.h"
#include "palaver/str.h"
#include "palaver/turn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which messages of a chat get an answer. */
typedef enum pal_channel_mode {
    PAL_CHANNEL_MODE_NONE = 0,    /* not set: a direct chat ALL, a group MENTION */
    PAL_CHANNEL_MODE_ALL = 1,     /* all */
    PAL_CHANNEL_MODE_MENTION = 2, /* those that mention the bot, reply to it or begin with its
                                     name; the others are recorded */
    PAL_CHANNEL_MODE_OFF = 3,     /* none, and nothing is recorded */
    PAL_CHANNEL_MODE_MAYBE = 4,   /* like MENTION, and a model decides about the others */
} pal_channel_mode;

/* The people who can talk to the bot in addition to owners and users. */
typedef enum pal_channel_guests {
    PAL_CHANNEL_GUESTS_NONE = 0,
    PAL_CHANNEL_GUESTS_INVITED = 1, /* the members of groups to which an owner or a user has
                                       invited the bot; the default */
    PAL_CHANNEL_GUESTS_ALL = 2,     /* everybody */
    PAL_CHANNEL_GUESTS_OFF = 3,
} pal_channel_guests;

/* The effect of a change of a message. */
typedef enum pal_channel_edits {
    PAL_CHANNEL_EDITS_NONE = 0,
    PAL_CHANNEL_EDITS_NOTE = 1,   /* the new text is recorded as a note; the default */
    PAL_CHANNEL_EDITS_IGNORE = 2,
} pal_channel_edits;

/* The effect of a deletion of a message on the channel. */
typedef enum pal_channel_redactions {
    PAL_CHANNEL_REDACTIONS_NONE = 0,
    PAL_CHANNEL_REDACTIONS_ERASE = 1, /* its text is erased; the default */
    PAL_CHANNEL_REDACTIONS_HIDE = 2,
    PAL_CHANNEL_REDACTIONS_IGNORE = 3,
} pal_channel_redactions;

/* Settings of one chat, which replace those of the account. */
typedef struct pal_channel_chat {
    pal_str chat; /* its id on the channel */
    pal_channel_mode mode;
    pal_str agent;
    PAL_RESERVED(4);
} pal_channel_chat;

/* The small model that decides about messages in the mode MAYBE. */
typedef struct pal_channel_evaluator {
    pal_str model;           /* empty: the model of the chat's agent */
    uint64_t tokens_per_day; /* 0: 200000; the evaluator is silent when they are used up */
    int64_t cooldown_ms;     /* time between two unasked answers; 0: 10 minutes */
    PAL_RESERVED(4);
} pal_channel_evaluator;

/* One account. Zero it, then set the members that are needed. */
typedef struct pal_channel_settings {
    pal_str kind;    /* "webhook", "telegram" and so on */
    pal_str account; /* part of the keys of sessions; empty: "default" */
    pal_str tenant;  /* empty: "default" */
    pal_str agent;   /* the agent of sessions that no routing rule matches; may be empty */
    pal_str url;     /* the address of the service; docs/channels.md explains it for each kind */
    pal_str user;    /* the id of the bot on the channel */
    pal_str token;   /* the secret that the bot logs in with */
    pal_str password; /* logs in if there is no token */
    pal_str secret;  /* signs requests from and to the channel */
    const pal_str *names; /* names that the bot is called by */
    size_t names_len;
    /* Patterns of ids of people; '*' matches any text. */
    const pal_str *owners;
    size_t owners_len;
    const pal_str *users;
    size_t users_len;
    const pal_str *blocked; /* they are ignored, whatever the other lists say */
    size_t blocked_len;
    const pal_str *join; /* whose invitations are accepted; none: those of owners and users */
    size_t join_len;
    const pal_str *bots; /* other bots: they are answered only if they mention the bot, and
                            not often */
    size_t bots_len;
    const pal_str *guest_tools; /* tools that a turn with messages of guests can use; none: no
                                   tool */
    size_t guest_tools_len;
    pal_channel_guests guests;
    pal_channel_mode direct; /* direct chats */
    pal_channel_mode groups;
    pal_channel_edits edits;
    pal_channel_redactions redactions;
    bool errors_off;          /* failed turns are not reported in the chat */
    bool typing_off;          /* do not show that the bot is writing */
    int64_t answer_within_ms; /* older messages are recorded without an answer; 0: 6 hours */
    pal_channel_evaluator evaluator;
    const pal_channel_chat *chats;
    size_t chats_len;
    PAL_RESERVED(24);
} pal_channel_settings;

/* ---- Running channels ---- */

typedef struct pal_channels pal_channels;

/* Called with one line about what happened to an account. The text is valid during the call. Must
 * not block. */
typedef void (*pal_channels_on_log)(bool is_problem, pal_str text, void *user);

/* Everything is copied except `store` and `route_settings`, which must outlive the channels. */
typedef struct pal_channels_options {
    pal_store *store;
    const pal_route_settings *route_settings;
    const pal_channel_settings *accounts;
    size_t accounts_len;
    pal_channels_on_log on_log; /* may be NULL */
    void *log_user;             /* passed to on_log */
    PAL_RESERVED(8);
} pal_channels_options;

/* Checks the settings and makes the channels, which do nothing yet. The caller must release them
 * with pal_channels_close(). PAL_INVALID: `err` names the account and the setting that is wrong.
 * PAL_CONFLICT: two accounts have the same kind and name. */
PAL_API PAL_CHECKED pal_status pal_channels_open(
        const pal_channels_options *options, pal_channels **out_channels, pal_error *err);

/* The on_outbox of the runtime that answers the messages; `user` is the pal_channels. */
PAL_API void pal_channels_on_outbox(pal_str tenant, pal_str name, pal_id session, void *user);

/* Begins to receive messages and to deliver answers. The runtime must stay open until
 * pal_channels_stop() has returned. Returns at once: if a service cannot be reached, it is tried
 * again. */
PAL_API PAL_CHECKED pal_status pal_channels_start(
        pal_channels *channels, pal_runtime *runtime, pal_error *err);

/* Stops to receive. Waits up to `drain_ms` until the answers that are ready are delivered; the
 * others are delivered after the next start. Blocks. */
PAL_API void pal_channels_stop(pal_channels *channels, int64_t drain_ms);

/* Stops the channels and frees them. Accepts NULL. */
PAL_API void pal_channels_close(pal_channels *channels);

/* ---- Requests from services ---- */

/* An HTTP request to /api/v1/channels/KIND/ACCOUNT/PATH. */
typedef struct pal_channels_request {
    pal_str kind;
    pal_str account;
    pal_str method;
    pal_str path;
    pal_str query; /* without '?' */
    const pal_header *headers; /* names are in lower case */
    size_t headers_len;
    pal_str body;
    PAL_RESERVED(4);
} pal_channels_request;

/* Called once, on a thread of the channels, with the HTTP status and a JSON body. Must not
 * block. */
typedef void (*pal_channels_on_answer)(unsigned code, pal_str json, void *user);

/* Passes a request on to an account, which checks its signature. Everything is copied.
 * PAL_NOT_FOUND: there is no such account, or its service sends no requests; `on_answer` is not
 * called then. */
PAL_API PAL_CHECKED pal_status pal_channels_serve(pal_channels *channels,
        const pal_channels_request *request, pal_channels_on_answer on_answer, void *user,
        pal_error *err);

/* ---- Inspecting channels ---- */

typedef enum pal_channel_state {
    PAL_CHANNEL_STATE_NONE = 0,
    PAL_CHANNEL_WAITING = 1,    /* another process has the account */
    PAL_CHANNEL_CONNECTING = 2, /* the service has not answered yet */
    PAL_CHANNEL_READY = 3,
    PAL_CHANNEL_FAILING = 4, /* the service cannot be reached; it is tried again */
    PAL_CHANNEL_STOPPED = 5, /* the service refuses the login */
} pal_channel_state;

/* Returns the name, for example "ready". "none" for an unknown value. */
PAL_API const char *pal_channel_state_name(pal_channel_state state);

typedef struct pal_channel_info {
    pal_str kind;
    pal_str account;
    pal_str tenant;
    pal_channel_state state;
    pal_str reason;      /* why it is not ready; may be empty */
    uint64_t events;     /* messages and other events since the start */
    uint64_t answers;    /* messages that deserved an answer */
    uint64_t sent;       /* messages that were sent */
    uint64_t undelivered; /* answers that were given up */
    uint64_t dead;       /* events that could not be stored */
    uint64_t pending;    /* answers that wait to be sent */
    int64_t taken_at;    /* when the last batch was stored; 0: never */
    PAL_RESERVED(8);
} pal_channel_info;

/* Reports all accounts, in the order of the options. Can be called from any thread. */
PAL_API PAL_CHECKED pal_status pal_channels_list(pal_channels *channels, pal_arena *arena,
        pal_channel_info **out_accounts, size_t *out_len, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
