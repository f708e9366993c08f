/* channel_take.h - a batch of events that is being stored. */
#ifndef PAL_CHANNEL_TAKE_H
#define PAL_CHANNEL_TAKE_H

#include "channel/channel_chat.h"
#include "channel/channel_host.h"

/* A session that has work after the commit. */
typedef struct pal_take_session {
    pal_id session;
} pal_take_session;

/* A message about which a model decides after the commit. */
typedef struct pal_take_maybe {
    const pal_incoming *event;
    pal_id session;
} pal_take_maybe;

/* A request to the kind after the commit. */
typedef struct pal_take_call {
    enum { PAL_TAKE_JOIN, PAL_TAKE_LEAVE, PAL_TAKE_TYPE } what;
    const pal_incoming *event;
} pal_take_call;

struct pal_take {
    pal_work_item item;
    pal_channel_account *account;
    const pal_incoming *events;
    size_t len;
    pal_str cursor;
    uint8_t *skipped; /* events that are stored already (1), or cannot be stored (2) */
    char (*reasons)[PAL_ERROR_MESSAGE_MAX]; /* why not */
    pal_arena *arena; /* memory of one attempt */
    pal_op *ops;
    size_t *ops_event; /* the event of each operation */
    size_t ops_len, ops_cap, events_cap;
    size_t event; /* whose operations are being made */
    pal_map chats; /* those of this batch, as they are after it */
    pal_str *answers; /* records of replies to commands */
    size_t answers_len, answers_cap;
    pal_id *sessions;
    size_t sessions_len, sessions_cap;
    pal_take_maybe *maybes;
    size_t maybes_len, maybes_cap;
    pal_take_call *calls;
    size_t calls_len, calls_cap;
    uint64_t judged, asked, dead;
    bool is_lost; /* another process has the account */
    pal_status status;
    pal_error err;
    int64_t now;
};

/* Adds an operation of the current event. */
PAL_CHECKED pal_status pal_take_op(pal_take *take, pal_op op, pal_error *err);
/* Returns the chat of an event, which can be changed; NULL if it fails. */
pal_channel_chat_state *pal_take_chat(pal_take *take, pal_str chat, pal_error *err);
/* Stores the chat's settings with the batch. */
PAL_CHECKED pal_status pal_take_chat_changed(
        pal_take *take, const pal_channel_chat_state *chat, pal_error *err);
/* Wakes the session after the commit. */
PAL_CHECKED pal_status pal_take_wake(pal_take *take, pal_id session, pal_error *err);
/* Adds a text that is sent to the chat of the event as a notice. It is part of no conversation. */
PAL_CHECKED pal_status pal_take_reply(
        pal_take *take, const pal_incoming *event, pal_str text, pal_error *err);

/* ---- The request of a message (channel_message.c) ---- */

/* Finds the session of the chat of an event, or creates it. */
PAL_CHECKED pal_status pal_channel_message_session(
        pal_take *take, const pal_incoming *event, pal_id *out_session, pal_error *err);
/* Adds the operations of a message that is answered or noted. */
PAL_CHECKED pal_status pal_channel_message_put(pal_take *take, const pal_incoming *event,
        pal_verdict verdict, pal_channel_role role, pal_error *err);
/* Returns the `deliver` of a request: where the answer to an event belongs. In the arena. */
pal_str pal_channel_message_deliver(pal_take *take, const pal_incoming *event);
/* A turn with a message of a guest can use the tools for guests only. */
void pal_channel_message_restrict(
        pal_take *take, pal_channel_role role, pal_turn_request *request);
/* The client id of the message of an event. */
pal_str pal_channel_message_client_id(
        const pal_channel_account *account, pal_str event, pal_arena *arena);

/* ---- Commands (channel_command.c) ---- */

/* A command and its arguments. */
typedef struct pal_command {
    pal_str word;
    pal_str rest;
} pal_command;

/* Returns true if the message is a command that exists. */
bool pal_channel_command_parse(const pal_channel_account *account, const pal_incoming *event,
        pal_command *out_command);
/* Adds the operations of a command. It is executed once, even if its event is delivered again. */
PAL_CHECKED pal_status pal_channel_command_put(pal_take *take, const pal_incoming *event,
        const pal_command *command, pal_channel_role role, pal_error *err);

#endif
