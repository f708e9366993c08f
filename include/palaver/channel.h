/* channel.h - channels: ways in and out for people, for example Telegram, Matrix or a webhook. An
 * account is one login on a channel. docs/channels.md explains how messages are judged and
 * answered. */
#ifndef PALAVER_CHANNEL_H
#define PALAVER_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which messages of a chat get an answer. */
typedef enum pal_channel_mode {
    PAL_CHANNEL_MODE_NONE = 0,    /* not set: a direct chat ALL, a group MENTION */
    PAL_CHANNEL_MODE_ALL = 1,     /* all */
    PAL_CHANNEL_MODE_MENTION = 2, /* those that mention the bot, reply to it or begin with its
                                     name; the others are recorded */
    PAL_CHANNEL_MODE_MAYBE = 3,   /* as MENTION, and a model decides about the others */
    PAL_CHANNEL_MODE_OFF = 4,     /* none, and nothing is recorded */
} pal_channel_mode;

/* Who can talk to the bot in addition to the owners and users. */
typedef enum pal_channel_guests {
    PAL_CHANNEL_GUESTS_NONE = 0,
    PAL_CHANNEL_GUESTS_INVITED = 1, /* the members of groups to which an owner or a user has
                                       invited the bot; the default */
    PAL_CHANNEL_GUESTS_ALL = 2,     /* everybody */
    PAL_CHANNEL_GUESTS_OFF = 3,
} pal_channel_guests;

/* What is done when a user changes a message. */
typedef enum pal_channel_edits {
    PAL_CHANNEL_EDITS_NONE = 0,
    PAL_CHANNEL_EDITS_NOTE = 1,   /* the new text is recorded as a note; the default */
    PAL_CHANNEL_EDITS_IGNORE = 2,
} pal_channel_edits;

/* What is done when a message is deleted on the channel. */
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
    int64_t cooldown_ms;     /* between two answers that nobody asked for; 0: 10 minutes */
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

#ifdef __cplusplus
}
#endif
#endif
