/* mistral_entries.h - the entries of Mistral's Conversations.
 *
 * A message becomes any number of entries. Its content (reasoning, text, images, files) is a
 * message.input or message.output, each tool call a function.call, and each result a
 * function.result. A call that the server ran is a tool.execution, together with its result. A call
 * that handed the conversation to another agent is an agent.handoff.
 *
 * The id of an entry is made of its message's id and the number of its first part. So an entry has
 * the same id in a stream, before its message is recorded, as in all later responses. Members of an
 * entry that have no counterpart are kept in `extra`, in the member "mistral". Pure functions that
 * use only the caller's memory: any thread. */
#ifndef PAL_MISTRAL_ENTRIES_H
#define PAL_MISTRAL_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include "base/json/json.h"
#include "palaver/arena.h"
#include "palaver/context.h"
#include "palaver/error.h"
#include "palaver/message.h"

#define PAL_MISTRAL_ENTRIES_MAX 10000 /* entries in one request */
#define PAL_MISTRAL_ENTRY_ID_SIZE 72

/* Writes a model's reasoning as a chunk of a content. */
void pal_mistral_put_thinking(pal_json_writer *writer, pal_str text);

/* ---- Requests to Mistral ---- */

/* Writes the entries of one message into the array that is being written: content as message.input
 * or message.output, calls as function.call, results as function.result. Reasoning and system
 * messages give no entries; system messages are the instructions of a conversation. */
void pal_mistral_entries_put(pal_json_writer *writer, const pal_message *message);

/* Writes the texts of the system messages at the beginning, separated by blank lines. */
void pal_mistral_instructions(pal_buf *out, const pal_message *messages, size_t messages_len);

/* ---- Requests from clients of Mistral's API (mistral_entries_read.c) ---- */

/* Reads "inputs", a string (one user message) or an array of entries, into the arena. Consecutive
 * calls, and the assistant's text before them, become one message; results are messages of role
 * tool. Ids from the sender are not kept. Errors name the place: "inputs[2]". */
PAL_CHECKED pal_status pal_mistral_inputs_read(pal_json value, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* ---- Responses to these clients (mistral_entries_show.c) ---- */

typedef enum pal_entry_kind {
    PAL_ENTRY_MESSAGE = 0,
    PAL_ENTRY_CALL = 1,
    PAL_ENTRY_RESULT = 2,
    PAL_ENTRY_EXECUTION = 3,
    PAL_ENTRY_HANDOFF = 4,
} pal_entry_kind;

typedef struct pal_mistral_entry {
    pal_entry_kind kind;
    const pal_message *message;
    size_t first, len;      /* the parts of the entry */
    size_t number;          /* number of the part that the entry's id names, from 0 */
    const pal_part *result; /* result of a call that the server ran; NULL: there is none yet */
    pal_str agent_id;       /* the agent that the entry belongs to; empty: none */
    pal_json kept;          /* handoff: the agents */
    bool is_pending;        /* a call that waits for approval; it is shown as a function.call */
} pal_mistral_entry;

/* The agents of a handoff, for the result that represents it. */
typedef struct pal_mistral_handoff {
    pal_str previous_id;
    pal_str previous_name;
    pal_str next_id;
    pal_str next_name;
} pal_mistral_handoff;

/* Facts that are not in the messages. */
typedef struct pal_mistral_view {
    pal_str agent_id;      /* the agent at the beginning; empty: none */
    const pal_tool *tools; /* tools that the server runs; calls of other tools are for the client */
    size_t tools_len;
} pal_mistral_view;

/* Returns all entries of the messages, in order, in the arena. */
PAL_CHECKED pal_status pal_mistral_entries_of(const pal_message *messages, size_t messages_len,
        const pal_mistral_view *view, pal_arena *arena, pal_mistral_entry **out_entries,
        size_t *out_len, pal_error *err);

/* Writes an entry as an object. The arena is used for parsing. */
void pal_mistral_entry_put(
        pal_json_writer *writer, const pal_mistral_entry *entry, pal_arena *arena);

/* Writes the id of an entry: "msg_...", "fc_...", "fr_...", "tool_exec_..." or "handoff_...". */
void pal_mistral_entry_id(
        pal_entry_kind kind, pal_id message, size_t number, char out_id[PAL_MISTRAL_ENTRY_ID_SIZE]);
/* Sets *out_message to the message that an entry's id names. Returns false if it is not one of our
 * ids. */
bool pal_mistral_entry_parse(pal_str id, pal_id *out_message);

/* Returns the `extra` of a result that represents a handoff, in the arena. */
PAL_CHECKED pal_status pal_mistral_handoff_keep(
        const pal_mistral_handoff *handoff, pal_arena *arena, pal_str *out_extra, pal_error *err);

#endif
