/* api_openai.h - functions that the routes of OpenAI's API share: metadata, lists of items. A
 * conversation is a session, and an item is a part of a message (openai_items.h). */
#ifndef PAL_API_OPENAI_H
#define PAL_API_OPENAI_H

#include "dialect/openai/openai_id.h"
#include "dialect/openai/openai_items.h"
#include "server/server.h"

#define PAL_OPENAI_PAGE_MAX 100 /* items in one page */
#define PAL_OPENAI_PAGE_DEFAULT 20
#define PAL_OPENAI_METADATA_PAIRS_MAX 16
#define PAL_OPENAI_METADATA_KEY_MAX 64    /* maximum length in characters */
#define PAL_OPENAI_METADATA_VALUE_MAX 512 /* maximum length in characters */

extern const pal_api_route pal_openai_conversation_routes[]; /* api_openai_conversations.c */
extern const pal_api_route pal_openai_response_routes[];     /* api_openai_responses.c */
extern const pal_api_route pal_openai_chat_routes[];         /* api_openai_chat.c */

/* Finds the active session that "conv_..." names. 404 if there is none. `param` is the member that
 * contains the id; NULL if the id is in the path. */
PAL_CHECKED pal_status pal_openai_conversation(
        pal_call *call, pal_str id, const char *param, pal_session *out_session, pal_error *err);

/* Lists the models of all endpoints, each name once, in the call's arena. The default model is
 * listed even if no endpoint answers. Blocks, so it must run on a worker. */
PAL_CHECKED pal_status pal_openai_models(
        pal_call *call, pal_served_model **out_models, size_t *out_len, pal_error *err);
/* Responds with these models, written by `put`. */
typedef void (*pal_model_put)(pal_call *call, const pal_served_model *model);
PAL_CHECKED pal_status pal_openai_send_models(pal_call *call, pal_model_put put, pal_error *err);
/* Responds with the model that the path names. PAL_NOT_FOUND names the route that lists the models.
 * Blocks, so it must run on a worker. */
PAL_CHECKED pal_status pal_openai_send_model(
        pal_call *call, pal_model_put put, const char *list_path, pal_error *err);

/* ---- Members ---- */

/* Reads "metadata" of `object`, up to 16 pairs of strings. *out_json becomes an object; it is
 * unchanged if "metadata" is absent or null. */
PAL_CHECKED pal_status pal_openai_metadata_read(
        pal_call *call, pal_json object, pal_str *out_json, pal_error *err);
/* Writes the value of "metadata": the members of the session's metadata that are strings. */
void pal_openai_metadata_put(pal_call *call, pal_json_writer *writer, pal_str metadata);

/* Returns the body for a model service: unchanged, or with the default model if it names none. */
PAL_CHECKED pal_status pal_openai_body_to_forward(
        pal_call *call, pal_str *out_body, pal_error *err);

/* ---- Items ---- */

typedef struct pal_openai_item {
    pal_message *message;
    size_t index;
    const pal_part *result; /* the result of an mcp_call; NULL for other items */
} pal_openai_item;

/* Converts messages to items, in their order, in the call's arena. The result of an mcp_call is
 * taken from the messages, and is not an item. Returns NULL if out of memory. */
pal_openai_item *pal_openai_items_of(
        pal_call *call, pal_message *messages, size_t messages_len, size_t *out_len);

/* Loads the result of an mcp_call that was not among those messages. Does nothing for other items,
 * and if the call has no result yet. */
PAL_CHECKED pal_status pal_openai_item_complete(
        pal_call *call, pal_id session, pal_openai_item *item, pal_error *err);

typedef enum pal_openai_order { PAL_OPENAI_ASC = 0, PAL_OPENAI_DESC = 1 } pal_openai_order;

typedef struct pal_openai_page {
    uint64_t limit;
    pal_openai_order order;
    pal_str after; /* an item's id; may be empty */
} pal_openai_page;

/* The parameters "limit", "order" and "after", and the function that reads them. */
extern const pal_api_object pal_openai_page_query;
PAL_CHECKED pal_status pal_openai_page_read(
        pal_call *call, pal_openai_page *out_page, pal_error *err);

/* Writes {"object":"list",...}. If `is_stored`, the bytes of images and files are loaded. */
PAL_CHECKED pal_status pal_openai_list_put(pal_call *call, const pal_openai_item *items, size_t len,
        bool has_more, bool is_stored, pal_error *err);
/* Writes one item with the status "completed". */
PAL_CHECKED pal_status pal_openai_item_show(
        pal_call *call, const pal_openai_item *item, bool is_stored, pal_error *err);

/* For pal_openai_items_read(), with the call as `user`: finds a visible item in any active session
 * of the tenant. */
pal_status pal_openai_item_lookup(pal_str id, pal_arena *arena, pal_message *out_message,
        size_t *out_index, void *user, pal_error *err);
/* Finds the item `id` of the session. With `hidden`, finds hidden items too. */
PAL_CHECKED pal_status pal_openai_item_in(pal_call *call, pal_id session, pal_str id, bool hidden,
        pal_openai_item *out_item, pal_error *err);

/* ---- Chat completions that run as a turn of a session (api_openai_chat_turn.c) ---- */

typedef struct pal_openai_chat {
    pal_call *call;
    pal_turn_request request; /* in the call's arena */
    bool is_stream;
    bool has_usage_chunk;
    uint64_t n; /* number of answers; only 1 is possible */
    bool is_passing; /* the session is temporary and exists for this turn only */
    struct pal_api_record *record; /* NULL: the request is not recorded; the run takes it */
} pal_openai_chat;

/* Runs the turn and answers the call with a complete object or with chunks. If the client leaves,
 * the turn is stopped and its messages are removed. Can be called from any thread. */
PAL_CHECKED pal_status pal_openai_chat_run(const pal_openai_chat *chat, pal_error *err);

#endif
