/* mcp_client.h - lets a test use an MCP server from its own thread, one call after the other.
 * Results are texts: {"parts":[{"kind":"text","text":"..."}],"is_error":false}. A call that ends with
 * a handle is continued, and its questions get the reply of the call. */
#ifndef PAL_TESTS_MCP_CLIENT_H
#define PAL_TESTS_MCP_CLIENT_H

#include <stdlib.h>
#include "base/json/json.h"
#include "support/on_loop.h"
#include "tool/mcp/tool_mcp.h"

typedef struct mcp_client {
    pal_loop *loop;
    pal_http *http;
    pal_tool_mcp *mcp;
    const pal_tool_mcp_config *config;
    pal_status status;
    pal_error err;
    bell changed;
    int changes; /* used on the loop */
} mcp_client;

/* One call. All members except for the first three begin as zero. */
typedef struct mcp_client_call {
    mcp_client *client;
    const char *name;
    const char *arguments;
    pal_tool_mcp_call *call;
    pal_status status; /* the status of the start */
    pal_error err;
    const char *action;  /* the reply to all questions; NULL: they cannot be asked */
    const char *content; /* the content of accepted forms */
    bool stops;          /* do not continue with a handle: the result is {"handle":"..."} */
    const char *handle;  /* continues another call */
    const void *person;
    char asked[256];     /* the messages of all questions, with a newline after each */
    int handles;         /* handles so far */
    pal_buf outcome;
    int told;
    bell ended;
} mcp_client_call;

static inline void mcp_client_on_changed(pal_tool_mcp *mcp, void *user)
{
    mcp_client *client = user;
    client->changes++;
    bell_ring(&client->changed);
}

static inline void mcp_client_open_run(void *user)
{
    mcp_client *client = user;
    if (!client->http)
        client->status = pal_http_open(client->loop, NULL, &client->http, &client->err);
    if (client->status == PAL_OK)
        client->status = pal_tool_mcp_open(client->loop, client->http, client->config,
                mcp_client_on_changed, client, &client->mcp, &client->err);
}

static inline bool mcp_client_open(mcp_client *client, const pal_tool_mcp_config *config)
{
    *client = (mcp_client){.config = config, .changed = BELL_INIT};
    client->status = pal_loop_open(1, &client->loop, &client->err);
    if (client->status == PAL_OK)
        on_loop(client->loop, mcp_client_open_run, client);
    return client->status == PAL_OK;
}

static inline void mcp_client_close_mcp_run(void *user)
{
    mcp_client *client = user;
    pal_tool_mcp_close(client->mcp);
    client->mcp = NULL;
}

static inline void mcp_client_close_run(void *user)
{
    mcp_client *client = user;
    pal_tool_mcp_close(client->mcp);
    pal_http_close(client->http);
}

static inline void mcp_client_close(mcp_client *client)
{
    on_loop(client->loop, mcp_client_close_run, client);
    pal_loop_close(client->loop);
}

typedef struct mcp_client_look {
    mcp_client *client;
    pal_tool_mcp_state state;
    size_t tools;
    int changes;
    char failure[256];
    const char *name; /* the name of a tool */
    bool has_name;
} mcp_client_look;

static inline void mcp_client_look_run(void *user)
{
    mcp_client_look *look = user;
    const pal_tool_mcp *mcp = look->client->mcp;
    const pal_tool *tools = pal_tool_mcp_tools(mcp, &look->tools);
    look->state = pal_tool_mcp_state_of(mcp);
    look->changes = look->client->changes;
    snprintf(look->failure, sizeof(look->failure), "%.*s", PAL_STR_ARG(pal_tool_mcp_failure(mcp)));
    for (size_t i = 0; look->name && i < look->tools; i++)
        look->has_name |= pal_str_is(tools[i].name, look->name);
}

static inline mcp_client_look mcp_client_see(mcp_client *client, const char *tool)
{
    mcp_client_look look = {.client = client, .name = tool};
    on_loop(client->loop, mcp_client_look_run, &look);
    return look;
}

/* Waits until the server is in that state and, if a tool is named, has the tool. */
static inline bool mcp_client_wait(mcp_client *client, pal_tool_mcp_state state, const char *tool)
{
    for (;;) {
        mcp_client_look look = mcp_client_see(client, tool);
        if (look.state == state && (!tool || look.has_name))
            return true;
        if ((look.state == PAL_TOOL_MCP_FAILED && state != PAL_TOOL_MCP_FAILED) ||
                !bell_wait(&client->changed, 1))
            return false;
    }
}

static inline void mcp_client_write_part(pal_json_writer *json, const pal_part *part)
{
    pal_json_begin_object(json);
    pal_json_name(json, "kind");
    pal_json_put_text(json, pal_part_kind_name(part->kind));
    if (part->kind == PAL_PART_TEXT) {
        pal_json_name(json, "text");
        pal_json_put_str(json, part->text);
    } else {
        pal_json_name(json, "media_type");
        pal_json_put_str(json, part->media_type);
        pal_json_name(json, "bytes");
        pal_json_put_u64(json, part->data.len);
        if (part->name.len) {
            pal_json_name(json, "name");
            pal_json_put_str(json, part->name);
        }
    }
    pal_json_end_object(json);
}

static inline void mcp_client_begin(mcp_client_call *call, pal_str handle, pal_str replies);

/* Writes the reply of the call to a question. */
static inline void mcp_client_put_reply(
        mcp_client_call *call, const pal_tool_question *question, pal_arena *arena, pal_str *out)
{
    pal_error err = {0};
    size_t len = strlen(call->asked);
    snprintf(call->asked + len, sizeof(call->asked) - len, "%.*s%.*s\n",
            PAL_STR_ARG(question->message), PAL_STR_ARG(question->url));
    if (pal_tool_question_reply(question, pal_str_of(call->action ? call->action : "decline"),
                pal_str_of(call->content ? call->content : ""), arena, out, &err) != PAL_OK) {
        printf("# %s\n", err.message);
        *out = pal_str_of(PAL_TOOL_REPLY_CANCEL);
    }
}

static inline void mcp_client_on_handle(mcp_client_call *call, pal_str handle)
{
    pal_arena *arena = pal_arena_new(0);
    pal_tool_question *questions = NULL;
    size_t len = 0;
    pal_buf replies;
    pal_buf_init(&replies, SIZE_MAX / 2);
    pal_json_writer json = pal_json_writer_make(&replies);
    pal_json_begin_object(&json);
    if (pal_tool_mcp_questions(handle, arena, &questions, &len, NULL) == PAL_OK)
        for (size_t i = 0; i < len; i++) {
            pal_str reply;
            mcp_client_put_reply(call, &questions[i], arena, &reply);
            pal_json_name_str(&json, questions[i].id);
            pal_json_put_raw(&json, reply);
        }
    pal_json_end_object(&json);
    call->handles++;
    mcp_client_begin(call, handle, len ? pal_buf_str(&replies) : (pal_str){0});
    pal_buf_done(&replies);
    pal_arena_free(arena);
}

static inline void mcp_client_on_question(void *user, const pal_tool_question *question)
{
    mcp_client_call *call = user;
    pal_arena *arena = pal_arena_new(0);
    pal_str reply;
    mcp_client_put_reply(call, question, arena, &reply);
    pal_tool_mcp_call_reply(call->call, question->id, reply);
    pal_arena_free(arena);
}

static inline void mcp_client_on_withdrawn(void *user, pal_str id)
{
    (void)user;
    (void)id;
}

static inline void mcp_client_on_told(void *user, const pal_tool_outcome *outcome)
{
    mcp_client_call *call = user;
    call->call = NULL;
    if (outcome->handle.len && !call->stops) {
        mcp_client_on_handle(call, outcome->handle);
        return;
    }
    call->told++;
    pal_buf_clear(&call->outcome);
    pal_json_writer json = pal_json_writer_make(&call->outcome);
    pal_json_begin_object(&json);
    if (outcome->handle.len) {
        pal_json_name(&json, "handle");
        pal_json_put_str(&json, outcome->handle);
    }
    pal_json_name(&json, "parts");
    pal_json_begin_array(&json);
    for (size_t i = 0; i < outcome->parts_len; i++)
        mcp_client_write_part(&json, &outcome->parts[i]);
    pal_json_end_array(&json);
    pal_json_name(&json, "is_error");
    pal_json_put_bool(&json, outcome->is_error);
    pal_json_end_object(&json);
    pal_buf_append_char(&call->outcome, '\0');
    bell_ring(&call->ended);
}

static inline void mcp_client_begin(mcp_client_call *call, pal_str handle, pal_str replies)
{
    const pal_tool_mcp_order order = {.name = pal_str_of(call->name),
            .arguments = pal_str_of(call->arguments),
            .handle = handle,
            .replies = replies,
            .can_ask = call->action != NULL,
            .person = call->person,
            .on_outcome = mcp_client_on_told,
            .on_question = mcp_client_on_question,
            .on_withdrawn = mcp_client_on_withdrawn,
            .user = call};
    call->status = pal_tool_mcp_call_start(call->client->mcp, &order, &call->call, &call->err);
    if (call->status && handle.len)
        bell_ring(&call->ended);
}

static inline void mcp_client_start_run(void *user)
{
    mcp_client_call *call = user;
    mcp_client_begin(call, pal_str_of(call->handle ? call->handle : ""), (pal_str){0});
}

/* Starts a call whose members are set, except for `client`. */
static inline bool mcp_client_start_call(mcp_client_call *call, mcp_client *client)
{
    call->client = client;
    call->ended = (bell)BELL_INIT;
    pal_buf_init(&call->outcome, SIZE_MAX / 2);
    on_loop(client->loop, mcp_client_start_run, call);
    return call->status == PAL_OK;
}

static inline bool mcp_client_start(
        mcp_client_call *call, mcp_client *client, const char *name, const char *arguments)
{
    *call = (mcp_client_call){.name = name, .arguments = arguments};
    return mcp_client_start_call(call, client);
}

static inline void mcp_client_cancel_run(void *user)
{
    mcp_client_call *call = user;
    if (call->call)
        pal_tool_mcp_call_cancel(call->call);
    call->call = NULL;
}

/* The result of the call, or the error of its start. The caller frees it. */
static inline char *mcp_client_finish(mcp_client_call *call)
{
    if (call->status == PAL_OK && !bell_wait(&call->ended, 1))
        pal_buf_format(&call->outcome, "no word%c", 0);
    if (call->status)
        pal_buf_format(
                &call->outcome, "%s: %s%c", pal_status_name(call->status), call->err.message, 0);
    char *copy = malloc(call->outcome.len + 1);
    memcpy(copy, call->outcome.data ? call->outcome.data : "", call->outcome.len);
    copy[call->outcome.len] = '\0';
    pal_buf_done(&call->outcome);
    return copy;
}

static inline char *mcp_client_call_tool(
        mcp_client *client, const char *name, const char *arguments)
{
    mcp_client_call call;
    (void)mcp_client_start(&call, client, name, arguments);
    return mcp_client_finish(&call);
}

#endif
