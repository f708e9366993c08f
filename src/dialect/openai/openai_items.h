/* openai_items.h - the items of OpenAI's Responses and Conversations.
 *
 * A message becomes one or more items. Its content (text, images, files) is a message item, each
 * block of reasoning a reasoning item, each tool call a function_call, and each result a
 * function_call_output. A call that a tool server has run is one mcp_call, with its result. An item
 * that was kept unchanged is an item again.
 *
 * The id of an item is made of its message's id and the number of its first part. So an item has
 * the same id in every response, even if other parts of its message are hidden. Members of an item
 * that have no counterpart are kept in `extra`: in the member "openai" if chat completions have
 * them too, otherwise in "openai_items", which is never sent to a model.
 *
 * A call of a custom tool, which takes free text, has the type "custom_tool_call" there. Models and
 * the store treat it as a call of a function with the arguments {"input":TEXT}, because services
 * have no other kind of call.
 *
 * A call of a tool server's tool that needs approval is an mcp_approval_request. Its extra is
 * {"mcp":{...,"asks":true}}. The client's mcp_approval_response is a separate message, which is
 * never sent to a model. The result of the approved call is an mcp_call. Its extra names the
 * request and repeats the arguments: {"mcp":{"request":"mcpr_...",...}}. The result of a denied
 * call is not an item: {"mcp":{"denied":"mcpr_...",...}}.
 *
 * Pure functions that use only the caller's memory: any thread. */
#ifndef PAL_OPENAI_ITEMS_H
#define PAL_OPENAI_ITEMS_H

#include <stdbool.h>
#include <stddef.h>
#include "base/json/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/str.h"

#define PAL_OPENAI_ITEMS_MAX 10000 /* items in one text */
#define PAL_OPENAI_ITEM_ID_SIZE 64

/* Marks a refusal, as chat completions do. */
#define PAL_OPENAI_REFUSAL_EXTRA "{\"openai\":{\"type\":\"refusal\"}}"

/* Finds the item that an item_reference names: the message, and the index of the item. A message
 * without a role means that the reference adds nothing, because the content is already known.
 * PAL_NOT_FOUND: there is no such item. */
typedef pal_status (*pal_openai_item_find)(pal_str id, pal_arena *arena, pal_message *out_message,
        size_t *out_index, void *user, pal_error *err);

/* Reads "input" or "items", a string (one user message) or an array, into the arena. Consecutive
 * function calls, and the reasoning before them, become one assistant message; outputs are messages
 * of role tool. Ids from the sender are not kept. Errors name the place: "input[2].content". `find`
 * may be NULL: then references are rejected. */
PAL_CHECKED pal_status pal_openai_items_read(pal_json value, const char *name,
        pal_openai_item_find find, void *user, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err);

/* Reads every item, for a record of what a client and a service exchanged. An item that has no
 * counterpart here becomes a part of kind PAL_PART_FILE without content, whose `extra` is the item
 * without its id and status. Additional tools are left out, like other settings of a request. The
 * number of items is not limited. */
PAL_CHECKED pal_status pal_openai_items_read_all(pal_json value, const char *name,
        pal_arena *arena, pal_message **out_messages, size_t *out_len, pal_error *err);

/* The same for the input of a request to a service that has the Responses API. References are
 * found by `find`, and the number of items is limited. */
PAL_CHECKED pal_status pal_openai_items_read_input(pal_json value, const char *name,
        pal_openai_item_find find, void *user, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err);

/* Reads the items of a service's answer, a JSON array, into one message of the assistant. Items
 * without a counterpart are kept with their id and status. */
PAL_CHECKED pal_status pal_openai_items_read_answer(
        pal_str items, pal_arena *arena, pal_message *out_message, pal_error *err);

/* Writes a compaction item. The summary is in base64, after a mark: opaque to clients, but not
 * secret, because the client has the conversation that it replaces. */
void pal_openai_compaction_put(pal_json_writer *writer, const char *id, pal_str summary);

/* Returns the number of items of the message. */
size_t pal_openai_items_count(const pal_message *message);
/* Writes an item as an object. `status` is "completed", "in_progress" or "incomplete". `result` is
 * the result of an mcp_call; NULL if it has none yet, and for other items. */
PAL_CHECKED pal_status pal_openai_item_put(pal_json_writer *writer, const pal_message *message,
        size_t index, const pal_part *result, const char *status, pal_error *err);
/* Writes the items of a message as elements of the "input" of a service. They have no ids and no
 * status, except for items that were kept. A call of a tool server is a function_call. */
PAL_CHECKED pal_status pal_openai_items_put_input(
        pal_json_writer *writer, const pal_message *message, pal_error *err);
/* Returns true for a call of a tool server's tool, and for its result. The call is shown as an
 * mcp_call that includes the result. `extra` is the part's. */
bool pal_openai_is_mcp(pal_str extra);
/* Returns true for a call that may need approval. */
bool pal_openai_is_asked(pal_str extra);
/* Returns true for the result of an approved call, which is shown as an mcp_call. */
bool pal_openai_is_approved(pal_str extra);
/* Returns the extra of the result of an answered call, in the arena. `request` is the id of the
 * mcp_approval_request. */
PAL_CHECKED pal_status pal_openai_approval_extra(pal_str request, const pal_part *call,
        bool is_approved, pal_arena *arena, pal_str *out_extra, pal_error *err);
/* Returns true if the part is an mcp_approval_response to a request of this server. */
bool pal_openai_is_approval(const pal_part *part);
/* The client's answer to an mcp_approval_request; in the arena. */
typedef struct pal_openai_approval {
    pal_str request; /* id of the mcp_approval_request */
    bool approve;
    pal_str reason; /* may be empty */
} pal_openai_approval;
/* Returns false if the part is not an mcp_approval_response. */
bool pal_openai_approval_of(
        const pal_part *part, pal_arena *arena, pal_openai_approval *out_approval);
/* Writes the id of the item that begins with a part of the message. */
void pal_openai_part_id(
        const pal_message *message, size_t part, char out_id[PAL_OPENAI_ITEM_ID_SIZE]);
/* Writes the id of an item: "msg_...", "fc_...", "fco_...", "rs_..." and so on. */
void pal_openai_item_id(
        const pal_message *message, size_t index, char out_id[PAL_OPENAI_ITEM_ID_SIZE]);
/* Sets *out_message to the message that an item's id names. Returns false if it is not one of our
 * ids. */
bool pal_openai_item_parse(pal_str id, pal_id *out_message);
/* Sets *out_index to the index of the item in its message. Returns false if the message has no such
 * item. */
bool pal_openai_item_index(const pal_message *message, pal_str id, size_t *out_index);
/* Returns the extra of a part of kind PAL_PART_FILE that is this item, without its id and status.
 * `json` begins with the type. */
PAL_CHECKED pal_status pal_openai_item_keep(
        pal_str json, pal_arena *arena, pal_str *out_extra, pal_error *err);
/* Returns true if the part is an item that was kept, because it has no counterpart here. */
bool pal_openai_part_is_item(const pal_part *part);
/* Returns true if the reasoning is shown as a summary. */
bool pal_openai_part_is_summary(const pal_part *part);
/* Returns true if the text is a refusal of the model. */
bool pal_openai_part_is_refusal(const pal_part *part);
/* Returns the text in the arguments of a custom tool's call. Arguments that are not {"input":TEXT}
 * are returned unchanged. The result is in the arena or points into `arguments`. */
pal_str pal_openai_custom_input(pal_str arguments, pal_arena *arena);
/* Returns the range of the message's parts that belong to this item. */
void pal_openai_item_parts(
        const pal_message *message, size_t index, size_t *out_first, size_t *out_len);

/* ---- Answers, as an object or as the events of a stream (openai_items_answer.c) ---- */

/* Reads the output of a response, {"output":[...],"model":...,"usage":...}, into the arena. Items
 * without a counterpart are kept. The last message has the usage. PAL_INVALID: it is not such an
 * object. */
PAL_CHECKED pal_status pal_openai_items_answer_read(pal_str json, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* Returns the response that a complete stream ends with. PAL_INVALID: the stream has no end, the
 * response has failed, or an event is not JSON. */
PAL_CHECKED pal_status pal_openai_items_answer_join(
        pal_str stream, pal_arena *arena, pal_str *out_json, pal_error *err);

#endif
