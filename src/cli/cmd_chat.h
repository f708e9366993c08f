/* cmd_chat.h - what the parts of `palaver chat` share: the conversation that is open, and how a
 * turn of it is run and shown. The main thread does everything but gather events. */
#ifndef PAL_CMD_CHAT_H
#define PAL_CMD_CHAT_H

#include "cli/cli_markdown.h"
#include "cli/cli_terminal.h"

#define PAL_CHAT_AGENT "chat" /* whose sessions these are, unless --agent says otherwise */
#define PAL_CHAT_LISTED_MAX 20

typedef struct pal_chat {
    pal_cli *cli;
    pal_cli_runtime runtime;
    pal_terminal *terminal; /* NULL: one message, one answer */
    const char *agent;
    bool has_styles;
    pal_arena *arena; /* lives as long as one input */
    pal_id session;   /* none: the next message begins one */
    pal_buf endpoint; /* chosen by /model; empty: the default */
    pal_buf model;
    pal_id listed[PAL_CHAT_LISTED_MAX]; /* what the last /sessions showed */
    size_t listed_len;
    bool is_over; /* the user wants to leave */
} pal_chat;

/* ---- Events (cmd_chat_events.c): from the loop's thread to ours ---- */

typedef struct pal_chat_events pal_chat_events;

/* Watches the turn. NULL, and cli->err says why. */
pal_chat_events *pal_chat_events_open(pal_chat *chat, pal_id turn);
void pal_chat_events_close(pal_chat_events *events); /* accepts NULL */

/* Tells those that have come, in their order; at once if there are none. False: `tell` said so, or
 * no more will come. */
bool pal_chat_events_take(
        pal_chat_events *events, bool (*tell)(const pal_event *event, void *user), void *user);

/* ---- Turns (cmd_chat_turn.c) ---- */

/* What came of a turn, for those who print it. */
typedef struct pal_chat_answer {
    pal_id turn;
    pal_turn_state state;
    pal_usage usage;
    pal_str text; /* of the last step, as the model wrote it; in chat->arena */
} pal_chat_answer;

/* Says `text` (empty: nothing new) in the session, which is begun if there is none, and shows the
 * answer as it comes; Ctrl-C stops the turn. A turn that was stopped is PAL_OK; one that failed
 * left the reason in cli->err and the hint. `is_shown` false: nothing is written. */
PAL_CHECKED pal_status pal_chat_say(
        pal_chat *chat, pal_str text, bool is_shown, pal_chat_answer *out_answer);

/* Who answers, and in which session, as a request. */
pal_turn_request pal_chat_request(const pal_chat *chat);

/* ---- Commands (cmd_chat_command.c) ---- */

extern const char *const pal_chat_words[]; /* "/help" and so on, NULL at the end */

/* Runs what begins with a slash. Failures are the command's: they are shown and the chat goes on.
 */
PAL_CHECKED pal_status pal_chat_command(pal_chat *chat, pal_str line);

/* Shows which conversation this is: into cli->out. */
void pal_chat_introduce(pal_chat *chat, const pal_session *session);

/* The text's first line, harmless and cut to `columns` (0: not cut); in chat->arena. */
pal_str pal_chat_first_line(pal_chat *chat, pal_str text, size_t columns);

#endif
