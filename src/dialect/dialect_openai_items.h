/* dialect_openai_items.h - the items of OpenAI's Responses and Conversations.
 *
 * One of our messages is one item or several: what it says (text, images, files) is a message item,
 * each block of reasoning a reasoning item, each tool call a function_call, each result a
 * function_call_output. An item is named by its message's id and the number of its first part, so
 * that the same one has the same id in every answer, whatever else of its message goes out of
 * sight. What an item says beyond our own fields is kept in `extra`: under "openai" where chat
 * completions say it too, else under "openai_items", which goes to no model. Pure functions over
 * the caller's memory: any thread may call them. */
#ifndef PAL_DIALECT_OPENAI_ITEMS_H
#define PAL_DIALECT_OPENAI_ITEMS_H

#include <stdbool.h>
#include <stddef.h>
#include "base/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"

#define PAL_OPENAI_ITEMS_MAX 10000 /* in one text */
#define PAL_OPENAI_ITEM_ID_SIZE 64

/* Marks a call of a custom tool, which takes free text. For models it is a call of a function with
 * the arguments {"input":TEXT}; services know no other, and so it is stored. */
#define PAL_OPENAI_CUSTOM_CALL_EXTRA "{\"openai_items\":{\"type\":\"custom_tool_call\"}}"
/* Marks a refusal, as chat completions do. */
#define PAL_OPENAI_REFUSAL_EXTRA "{\"openai\":{\"type\":\"refusal\"}}"

/* Finds what an item_reference names: the message, and which of its items. A message without a role
 * stands for nothing: what it would say is known where it is said. PAL_NOT_FOUND. */
typedef pal_status (*pal_openai_item_find)(pal_str id, pal_arena *arena, pal_message *out_message,
        size_t *out_index, void *user, pal_error *err);

/* Reads "input" or "items": a string (one user message), or an array. Function calls that follow
 * each other are one assistant message, with the reasoning before them; outputs are messages of
 * role tool. Ids that a sender gives are not kept. Errors name the place: "input[2].content".
 * Everything lies in the arena. `find` may be NULL: references are then refused. */
PAL_CHECKED pal_status pal_openai_items_read(pal_json value, const char *name,
        pal_openai_item_find find, void *user, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err);

/* How many items the message is. */
size_t pal_openai_items_count(const pal_message *message);
/* Writes one, as an object; `status` is "completed", "in_progress" or "incomplete". */
PAL_CHECKED pal_status pal_openai_item_put(pal_json_writer *writer, const pal_message *message,
        size_t index, const char *status, pal_error *err);
/* "msg_...", "fc_...", "fco_...", "rs_...", ... */
void pal_openai_item_id(
        const pal_message *message, size_t index, char out_id[PAL_OPENAI_ITEM_ID_SIZE]);
/* The message that an item's id names; false where it is no id of ours. */
bool pal_openai_item_parse(pal_str id, pal_id *out_message);
/* Which item of its message it is; false: none of them. */
bool pal_openai_item_index(const pal_message *message, pal_str id, size_t *out_index);
/* Whether a text says that the model won't. */
bool pal_openai_part_is_refusal(const pal_part *part);
/* The text that the arguments of a custom tool's call are; what is no {"input":TEXT} is it as it
 * is. In the arena, or a view of `arguments`. */
pal_str pal_openai_custom_input(pal_str arguments, pal_arena *arena);
/* The parts of the message that are this item: a range. */
void pal_openai_item_parts(
        const pal_message *message, size_t index, size_t *out_first, size_t *out_len);

#endif
