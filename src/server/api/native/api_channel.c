/* api_channel.c - channels: passes requests of chat services and bridges on to their accounts, and
 * shows the accounts. */
#include "base/json/json_put.h"
#include "palaver/channel.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/server_call.h"

/* ---- Requests of services ---- */

/* The headers that the kinds of channels read. */
static const char *const header_names[] = {"authorization", "content-type", "webhook-id",
        "webhook-timestamp", "webhook-signature"};

#define HEADERS_LEN (sizeof header_names / sizeof *header_names)

static void on_answer(unsigned code, pal_str json, void *user)
{
    pal_call *call = user;

    pal_json_put_raw(pal_call_writer(call), json);
    pal_call_send(call, code);
}

/* The account checks the signature of the request. */
static pal_status pass(pal_call *call, pal_str path, pal_error *err)
{
    pal_channels *channels = call->server->channels;
    pal_header *headers = pal_arena_array(call->arena, HEADERS_LEN, sizeof *headers);
    pal_channels_request request = {.kind = call->params[0],
            .account = call->params[1],
            .method = call->method,
            .path = path,
            .query = call->exchange->query,
            .headers = headers,
            .body = pal_buf_str(&call->exchange->body)};

    if (!channels)
        return pal_error_set(err, PAL_NOT_FOUND, "this server has no channels");
    if (!headers)
        return pal_arena_checked(call->arena, err);
    for (size_t i = 0; i < HEADERS_LEN; i++) {
        pal_str value = pal_exchange_header(call->exchange, header_names[i]);
        if (value.len > 0)
            headers[request.headers_len++] =
                    (pal_header){.name = pal_str_of(header_names[i]), .value = value};
    }
    return pal_channels_serve(channels, &request, on_answer, call, err);
}

static pal_status take_events(pal_call *call, pal_error *err)
{
    return pass(call, pal_str_of("events"), err);
}

static pal_status get_messages(pal_call *call, pal_error *err)
{
    return pass(call, pal_str_of("outbox"), err);
}

static pal_status confirm_message(pal_call *call, pal_error *err)
{
    pal_buf path;

    pal_buf_init(&path, 1024);
    pal_buf_append_text(&path, "outbox/");
    pal_buf_append_str(&path, call->params[2]);
    pal_buf_append_text(&path, "/ack");
    pal_str copy = path.failure ? (pal_str){0} : pal_arena_copy(call->arena, pal_buf_str(&path));
    pal_buf_done(&path);
    return pass(call, copy, err);
}

/* ---- Accounts ---- */

static pal_status list_channels(pal_call *call, pal_error *err)
{
    pal_channel_info *list = NULL;
    size_t len = 0;

    if (call->server->channels) {
        pal_status status =
                pal_channels_list(call->server->channels, call->arena, &list, &len, err);
        if (status != PAL_OK)
            return status;
    }
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "channels");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++) {
        if (!pal_str_equal(list[i].tenant, call->caller.tenant))
            continue;
        pal_json_begin_object(writer);
        pal_put_str(writer, "kind", list[i].kind);
        pal_put_str(writer, "account", list[i].account);
        pal_put_text(writer, "state", pal_channel_state_name(list[i].state));
        pal_put_str_if(writer, "reason", list[i].reason);
        pal_put_count(writer, "events", list[i].events);
        pal_put_count(writer, "answers", list[i].answers);
        pal_put_count(writer, "sent", list[i].sent);
        pal_put_count(writer, "pending", list[i].pending);
        pal_put_count(writer, "undelivered", list[i].undelivered);
        pal_put_count(writer, "dead", list[i].dead);
        if (list[i].taken_at > 0)
            pal_put_time(writer, "taken_at", list[i].taken_at);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Routes ---- */

static const pal_api_object channel_body = {"Channel",
        .members = PAL_API_MEMBERS(
                {"kind", PAL_API_TEXT, .is_required = true},
                {"account", PAL_API_TEXT, .is_required = true},
                {"state", PAL_API_WORD, .words = "none waiting connecting ready failing stopped",
                        .is_required = true},
                {"reason", PAL_API_TEXT, "why it is not ready", .is_required = false},
                {"events", PAL_API_COUNT, "events since the start", .is_required = true},
                {"answers", PAL_API_COUNT, "messages that deserved an answer",
                        .is_required = true},
                {"sent", PAL_API_COUNT, "messages that were sent", .is_required = true},
                {"pending", PAL_API_COUNT, "answers that wait to be sent", .is_required = true},
                {"undelivered", PAL_API_COUNT, "answers that were given up", .is_required = true},
                {"dead", PAL_API_COUNT, "events that could not be stored", .is_required = true},
                {"taken_at", PAL_API_TIME, "when the last events were stored",
                        .is_required = false})};
static const pal_api_object channels_body = {"Channels",
        .members = PAL_API_MEMBERS(
                {"channels", PAL_API_LIST, .of = &channel_body, .is_required = true})};
static const pal_api_object stored_body = {"ChannelStored",
        .members = PAL_API_MEMBERS({"status", PAL_API_TEXT, .is_required = true})};
static const pal_api_object message_body = {"ChannelMessage",
        .members = PAL_API_MEMBERS(
                {"id", PAL_API_TEXT, "the same, however often it is sent", .is_required = true},
                {"kind", PAL_API_WORD, .words = "text notice", .is_required = true},
                {"chat", PAL_API_TEXT, .is_required = true},
                {"topic", PAL_API_TEXT, .is_required = false},
                {"reply_to", PAL_API_TEXT, "the event that is answered", .is_required = false},
                {"sender", PAL_API_TEXT, "the person who is answered", .is_required = false},
                {"direct", PAL_API_FLAG, .is_required = false},
                {"text", PAL_API_TEXT, "Markdown", .is_required = true})};
static const pal_api_object messages_body = {"ChannelMessages",
        .members = PAL_API_MEMBERS(
                {"messages", PAL_API_LIST, .of = &message_body, .is_required = true})};
static const pal_api_object wait_query = {
        .members = PAL_API_MEMBERS(
                {"wait", PAL_API_COUNT, "seconds to wait for a message, up to 60",
                        .is_required = false})};

const pal_api_route pal_channel_routes[] = {
        {"GET", "/api/v1/channels", PAL_KEY_READ, 0, list_channels,
                {"listChannels", "list the accounts on channels", NULL, NULL, &channels_body, 200}},
        {"POST", "/api/v1/channels/{kind}/{account}/events", PAL_KEY_NONE, 0, take_events,
                {"takeChannelEvents", "store events of a channel; the request is signed", NULL,
                        &pal_api_any_object, &stored_body, 200}},
        {"GET", "/api/v1/channels/{kind}/{account}/outbox", PAL_KEY_NONE, 0, get_messages,
                {"getChannelMessages", "get the messages for a channel; the request is signed",
                        &wait_query, NULL, &messages_body, 200}},
        {"POST", "/api/v1/channels/{kind}/{account}/outbox/{id}/ack", PAL_KEY_NONE, 0,
                confirm_message,
                {"confirmChannelMessage", "confirm that a message was sent; the request is signed",
                        NULL, &pal_api_any_object, &stored_body, 200}},
        {0},
};
