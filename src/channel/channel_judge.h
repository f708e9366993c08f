/* channel_judge.h - decides what a message deserves. One table, in which the first match decides.
 * Pure functions. */
#ifndef PAL_CHANNEL_JUDGE_H
#define PAL_CHANNEL_JUDGE_H

#include "channel/channel_kind.h"

/* The role of a person. A larger one has more rights. */
typedef enum pal_channel_role {
    PAL_CHANNEL_ROLE_NOBODY = 0, /* their messages are not even recorded */
    PAL_CHANNEL_ROLE_GUEST = 1,
    PAL_CHANNEL_ROLE_USER = 2,
    PAL_CHANNEL_ROLE_OWNER = 3,
} pal_channel_role;

const char *pal_channel_role_name(pal_channel_role role);

typedef enum pal_verdict_act {
    PAL_VERDICT_NOTHING = 0, /* not recorded */
    PAL_VERDICT_NOTE = 1,    /* recorded without an answer */
    PAL_VERDICT_MAYBE = 2,   /* recorded, and a model decides */
    PAL_VERDICT_ANSWER = 3,
    PAL_VERDICT_COMMAND = 4, /* executed and not recorded */
    PAL_VERDICT_MUTE = 5,    /* like NOTE, and the bot is quiet for PAL_CHANNEL_MUTE_MS */
} pal_verdict_act;

const char *pal_channel_act_name(pal_verdict_act act);

typedef struct pal_verdict {
    pal_verdict_act act;
    const char *why; /* a word, for example "mention" */
} pal_verdict;

/* The state of the chat. */
typedef struct pal_judge_chat {
    pal_channel_mode mode; /* NONE: that of the settings */
    bool is_open;          /* an owner or a user has invited the bot */
    bool asked_in_topic;   /* the bot was asked in this topic before */
    bool bots_tired;       /* bots have got as many answers as they may get */
    int64_t muted_until;   /* 0: not muted */
    int64_t unasked_at;    /* when the bot last spoke without being asked; 0: never */
    uint32_t messages_since; /* messages of people since the bot has spoken */
} pal_judge_chat;

/* Returns the role of a person. `is_group` is about the chat where they write. */
pal_channel_role pal_judge_role(const pal_channel_settings *settings, pal_str sender,
        bool is_group, bool is_open);

/* Decides about a message. `is_command` is true if the text is a command that the host knows. */
pal_verdict pal_judge(const pal_channel_settings *settings, const pal_incoming *message,
        const pal_judge_chat *chat, bool is_command, int64_t now);

#endif
