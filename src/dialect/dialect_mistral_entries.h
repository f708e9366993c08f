/* dialect_mistral_entries.h - the entries of Mistral's Conversations.
 *
 * One of our messages is no entry or several: what it says (reasoning, text, images, files) is a
 * message.input or message.output, each tool call a function.call, each result a function.result.
 * A call that the server ran is a tool.execution together with its result, and one that handed the
 * conversation to another agent an agent.handoff. An entry is named by its message's id and the
 * number of its first part, so that it has the same id in a stream, before its message is recorded,
 * as in every answer after. What an entry says beyond our own fields is kept in `extra`,
 * under "mistral". Pure functions over the caller's memory: any thread may call them. */
#ifndef PAL_DIALECT_MISTRAL_ENTRIES_H
#define PAL_DIALECT_MISTRAL_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include "base/json.h"
#include "palaver/arena.h"
#include "palaver/context.h"
#include "palaver/error.h"
#include "palaver/message.h"

#define PAL_MISTRAL_ENTRIES_MAX 10000 /* in one request */
#define PAL_MISTRAL_ENTRY_ID_SIZE 72

/* SDKs send null for what is not given. */
static inline bool pal_mistral_is_absent(pal_json value)
{
    pal_json_type type = pal_json_type_of(value);
    return type == PAL_JSON_NONE || type == PAL_JSON_NULL;
}

/* What a model thinks, as a chunk of a content. */
void pal_mistral_put_thinking(pal_json_writer *writer, pal_str text);

/* ---- For a service of Mistral's ---- */

/* Writes the entries of one message, none to many, into the array being written: what is said as
 * message.input or message.output, calls as function.call, results as function.result. Reasoning
 * and system messages give none: the latter are a conversation's instructions. */
void pal_mistral_entries_put(pal_json_writer *writer, const pal_message *message);

/* The texts of the system messages at the start, a blank line between them. */
void pal_mistral_instructions(pal_buf *out, const pal_message *messages, size_t messages_len);

/* ---- From a client of Mistral's (dialect_mistral_entries_read.c) ---- */

/* Reads "inputs": a string (one message of the user's), or an array of entries. Calls join the
 * words of the assistant before them and each other; results are messages of role tool. Ids that a
 * sender gives are not kept. Errors name the place: "inputs[2]". Everything lies in the arena. */
PAL_CHECKED pal_status pal_mistral_inputs_read(pal_json value, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* ---- For it (dialect_mistral_entries_show.c) ---- */

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
    size_t first, len;      /* its parts */
    size_t number;          /* of the part that it is named by, from 0 */
    const pal_part *result; /* of a call that the server ran; NULL: none yet */
    pal_str agent_id;       /* of whoever says it; empty: nobody's */
    pal_json kept;          /* of a handoff: who to whom */
    bool is_pending;        /* a call that waits for permission: it is shown as a function.call */
} pal_mistral_entry;

/* The agents of a handoff, for the result that stands for it. */
typedef struct pal_mistral_handoff {
    pal_str previous_id;
    pal_str previous_name;
    pal_str next_id;
    pal_str next_name;
} pal_mistral_handoff;

/* What messages alone don't say. */
typedef struct pal_mistral_view {
    pal_str agent_id;      /* of the agent that speaks at the beginning; empty: none */
    const pal_tool *tools; /* that the server runs: calls of others are the client's */
    size_t tools_len;
} pal_mistral_view;

/* All entries of the messages, in their order, in the arena. */
PAL_CHECKED pal_status pal_mistral_entries_of(const pal_message *messages, size_t messages_len,
        const pal_mistral_view *view, pal_arena *arena, pal_mistral_entry **out_entries,
        size_t *out_len, pal_error *err);

/* Writes one, as an object; the arena is for what has to be parsed meanwhile. */
void pal_mistral_entry_put(
        pal_json_writer *writer, const pal_mistral_entry *entry, pal_arena *arena);

/* "msg_...", "fc_...", "fr_...", "tool_exec_...", "handoff_...". */
void pal_mistral_entry_id(
        pal_entry_kind kind, pal_id message, size_t number, char out_id[PAL_MISTRAL_ENTRY_ID_SIZE]);
/* The message that an entry's id names; false where it is no id of ours. */
bool pal_mistral_entry_parse(pal_str id, pal_id *out_message);

/* The `extra` of a result that stands for a handoff, in the arena. */
PAL_CHECKED pal_status pal_mistral_handoff_keep(
        const pal_mistral_handoff *handoff, pal_arena *arena, pal_str *out_extra, pal_error *err);

#endif
