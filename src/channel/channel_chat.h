/* channel_chat.h - what is remembered about a chat. Settings that people have made there are stored
 * in a record; the rest is lost with the process, and is only about manners. */
#ifndef PAL_CHANNEL_CHAT_H
#define PAL_CHANNEL_CHAT_H

#include "channel/channel_host.h"
#include "channel/channel_judge.h"

struct pal_channel_chat_state {
    char *id; /* its key in pal_channel_account.chats */
    size_t id_len;
    /* In the record: */
    pal_channel_mode mode; /* NONE: that of the settings */
    bool is_open;          /* an owner or a user has invited the bot */
    bool has_left;
    bool is_direct;
    bool had_direct; /* it was a direct chat once, so a group in it has another session */
    int64_t muted_until;
    char name[128];
    uint64_t version; /* version of the record; 0: there is no record */
    /* Not in the record: */
    int64_t unasked_at;
    uint32_t messages_since;
    int64_t bots_answered_at[PAL_CHANNEL_BOT_ANSWERS_MAX];
    int64_t bots_tired_until;
    uint64_t topics[PAL_CHANNEL_TOPICS_MAX]; /* hashes of topics in which the bot was asked */
    size_t topics_next;
};

/* Finds a chat, in the record if it was not seen yet. Runs on the worker of the account's job, the
 * only thread that changes chats. A copy is in *out_chat. */
PAL_CHECKED pal_status pal_channel_chat_find(pal_channel_account *account, pal_str chat,
        pal_arena *arena, pal_channel_chat_state *out_chat, pal_error *err);
/* Remembers the chat as it is now, after its commit. */
void pal_channel_chat_keep(pal_channel_account *account, const pal_channel_chat_state *chat);
/* The operation that stores the chat's settings. */
PAL_CHECKED pal_status pal_channel_chat_op(const pal_channel_account *account,
        const pal_channel_chat_state *chat, pal_arena *arena, pal_op *out_op, pal_error *err);

/* The bot has begun to answer without being asked. */
void pal_channel_chat_unasked(pal_channel_account *account, pal_str chat, int64_t now);

/* The bot has spoken in the chat. Can be called from any thread. */
void pal_channel_chat_spoken(pal_channel_account *account, pal_str chat);

/* Returns the state that the judge needs. */
pal_judge_chat pal_channel_chat_for_judge(const pal_channel_account *account,
        const pal_channel_chat_state *chat, pal_str topic, int64_t now);
/* Notes the verdict about a message. */
void pal_channel_chat_judged(pal_channel_chat_state *chat, const pal_incoming *message,
        pal_verdict verdict, int64_t now);

/* Returns the settings of the chat in the configuration; NULL if there are none. */
const pal_channel_chat *pal_channel_chat_settings(const pal_channel_account *account, pal_str chat);

void pal_channel_chat_forget_all(pal_channel_account *account);

#endif
