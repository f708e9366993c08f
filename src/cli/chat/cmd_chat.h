/* cmd_chat.h - shared by the parts of `palaver chat`: the open conversation, and how its turns
 * are run and shown. The main thread does everything except gathering events. */
#ifndef PAL_CMD_CHAT_H
#define PAL_CMD_CHAT_H

#include "cli/terminal/terminal.h"
#include "cli/terminal/terminal_markdown.h"

#define PAL_CHAT_AGENT "chat" /* the agent of the sessions, unless --agent names another */
#define PAL_CHAT_LISTED_MAX 20
#define PAL_CHAT_ATTACHED_MAX 16         /* files of one message */
#define PAL_CHAT_SYSTEM_MAX (64u << 10) /* bytes of the instructions of /system */

typedef struct pal_chat {
    pal_cli *cli;
    pal_cli_runtime runtime;
    pal_terminal *terminal; /* NULL: one message and one answer */
    const char *agent;
    bool has_styles;
    pal_arena *arena; /* freed after each input */
    pal_id session;   /* empty: the next message creates one */
    pal_buf endpoint; /* selected with /model; empty: the default */
    pal_buf model;
    pal_id listed[PAL_CHAT_LISTED_MAX]; /* the sessions that the last /sessions showed */
    size_t listed_len;
    pal_buf system; /* the instructions of /system; empty: those of the configuration */
    pal_part attached[PAL_CHAT_ATTACHED_MAX]; /* files for the next message */
    size_t attached_len;
    pal_arena *attached_arena; /* NULL: nothing was attached yet */
    bool is_over; /* the user wants to quit */
} pal_chat;

/* ---- Events (cmd_chat_events.c): from the thread of the loop to the main thread ---- */

typedef struct pal_chat_events pal_chat_events;

/* Starts to watch the turn. Returns NULL on failure; cli->err has the reason. */
pal_chat_events *pal_chat_events_open(pal_chat *chat, pal_id turn);
void pal_chat_events_close(pal_chat_events *events); /* accepts NULL */

/* Calls `on_event` for each event that has arrived, in order; returns immediately if there are
 * none. Returns false if `on_event` returned false, or if no more events will arrive. */
bool pal_chat_events_take(
        pal_chat_events *events, bool (*on_event)(const pal_event *event, void *user), void *user);

/* ---- Turns (cmd_chat_turn.c) ---- */

/* The result of a turn, for the caller to print. */
typedef struct pal_chat_answer {
    pal_id turn;
    pal_turn_state state;
    pal_usage usage;
    pal_str text; /* text of the last step, as the model wrote it; in chat->arena */
} pal_chat_answer;

/* Sends `text` (empty: no new message) to the session and shows the answer as it arrives.
 * Creates the session if there is none. Ctrl-C stops the turn. Returns PAL_OK for a stopped
 * turn. For a failed turn, cli->err has the reason and cli->hint the remedy. If `is_shown` is
 * false, nothing is printed. */
PAL_CHECKED pal_status pal_chat_say(
        pal_chat *chat, pal_str text, bool is_shown, pal_chat_answer *out_answer);

/* Returns a request with the session, endpoint and model of the chat. */
pal_turn_request pal_chat_request(const pal_chat *chat);

/* ---- Questions (cmd_chat_question.c) ---- */

/* Asks the user the questions of a turn, and sends the answers. *out_is_stopped: the user wants to
 * stop the turn instead. Requires a terminal. */
PAL_CHECKED pal_status pal_chat_ask(pal_chat *chat, pal_id turn, bool *out_is_stopped);

/* ---- Input for tool servers (cmd_chat_input.c) ---- */

/* Asks the user for the input of a question of the kind INPUT. */
PAL_CHECKED pal_status pal_chat_ask_input(pal_chat *chat, const pal_question *question,
        pal_question_answer *out_answer, bool *out_is_stopped);

/* ---- Files of messages (cmd_chat_attach.c) ---- */

/* Reads a file for the next message. */
PAL_CHECKED pal_status pal_chat_attach(pal_chat *chat, const char *path);
/* Attaches each file that the text names as @FILE. Other words with '@' are only text. */
PAL_CHECKED pal_status pal_chat_attach_mentioned(pal_chat *chat, pal_str text);
/* Makes the user's message with the text and the files, in chat->arena. The files stay attached
 * until pal_chat_drop_attached() is called. */
PAL_CHECKED pal_status pal_chat_take_attached(
        pal_chat *chat, pal_str text, pal_message *out_message);
void pal_chat_drop_attached(pal_chat *chat);

/* ---- Notes (cmd_chat_memory.c) ---- */

/* Returns the scope of a new session, in chat->arena. It says that the session is a direct chat of
 * the user. */
pal_str pal_chat_scope(pal_chat *chat);
/* Lists the notes of the user with numbers, or answers or forgets one: "yes 2", "no 2",
 * "forget 2". */
PAL_CHECKED pal_status pal_chat_memory(pal_chat *chat, pal_str argument);
PAL_CHECKED pal_status pal_chat_remember(pal_chat *chat, pal_str text);

/* ---- What was said before (cmd_chat_history.c) ---- */

/* Prints the last message of the user, and the beginning of the answer. */
PAL_CHECKED pal_status pal_chat_show_last(pal_chat *chat);
/* Prints the output of a tool; the newest one has the number 1. */
PAL_CHECKED pal_status pal_chat_show_output(pal_chat *chat, uint64_t number);
/* Searches all conversations and lists the hits with numbers for /open. */
PAL_CHECKED pal_status pal_chat_search(pal_chat *chat, pal_str text);
/* Writes the conversation to a new file, in the format that its name ends with. */
PAL_CHECKED pal_status pal_chat_export(
        pal_chat *chat, const pal_session *session, pal_str path);

/* ---- Commands (cmd_chat_command.c) ---- */

extern const char *const pal_chat_words[]; /* "/help" and so on, NULL at the end */

/* Runs a line that begins with a slash. If the command fails, the caller shows the error and the
 * chat continues. */
PAL_CHECKED pal_status pal_chat_command(pal_chat *chat, pal_str line);

/* Prints to cli->out which conversation this is, and its last exchange. */
PAL_CHECKED pal_status pal_chat_introduce(pal_chat *chat, const pal_session *session);

/* Returns the first line of the text with control characters made visible, cut to `columns` (0:
 * not cut); in chat->arena. */
pal_str pal_chat_first_line(pal_chat *chat, pal_str text, size_t columns);

#endif
