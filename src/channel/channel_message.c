/* channel_message.c - makes the request of a message: its session, what the model is shown, who may
 * use which tools, and where the answer must be delivered. On a worker. */
#include "channel/channel_take.h"

#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/channel_judge.h"
#include "palaver/limits.h"

/* ---- Names ---- */

pal_str pal_channel_message_client_id(
        const pal_channel_account *account, pal_str event, pal_arena *arena)
{
    uint8_t digest[PAL_SHA256_SIZE];
    pal_buf buf;
    pal_str id = {0};

    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_buf_format(&buf, "%s:", account->kind->name);
    if (buf.len + event.len <= PAL_CLIENT_ID_LEN_MAX) {
        pal_buf_append_str(&buf, event);
    } else if (pal_sha256(event, digest) == PAL_OK) {
        char hex[2 * PAL_SHA256_SIZE + 1];
        pal_hex(digest, sizeof digest, hex);
        pal_buf_append_text(&buf, hex);
    }
    if (buf.failure == PAL_OK)
        id = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return id;
}

/* ---- The session ---- */

/* A Matrix room has one session, whatever its kind. If it was a direct chat once, the group that it
 * has become gets another one: others must not see what the two have said. */
static pal_status set_group(pal_take *take, pal_str *room, pal_error *err)
{
    const pal_channel_chat_state *chat = pal_take_chat(take, *room, err);
    pal_buf name;

    if (!chat)
        return err->status;
    if (!chat->had_direct)
        return PAL_OK;
    pal_buf_init(&name, PAL_ROUTE_ID_LEN_MAX);
    pal_buf_append_str(&name, *room);
    pal_buf_append_text(&name, "/group");
    *room = name.failure ? *room : pal_arena_copy(take->arena, pal_buf_str(&name));
    pal_buf_done(&name);
    return pal_arena_checked(take->arena, err);
}

pal_status pal_channel_message_session(
        pal_take *take, const pal_incoming *event, pal_id *out_session, pal_error *err)
{
    const pal_channel_account *account = take->account;
    const pal_channel_chat *given = pal_channel_chat_settings(account, event->chat);
    bool is_room = pal_str_is(account->settings.kind, "matrix");
    pal_str room = event->chat;
    pal_status status = is_room && !event->direct ? set_group(take, &room, err) : PAL_OK;
    if (status != PAL_OK)
        return status;
    pal_route_context context = {
            .kind = is_room ? PAL_ROUTE_MATRIX_ROOM : PAL_ROUTE_CHAT,
            .agent_id = given && given->agent.len > 0 ? given->agent : account->settings.agent,
            .channel = account->settings.kind,
            .account = account->settings.account,
            .space_id = event->space,
            .space_type = event->space_type,
            .chat_id = room,
            .chat_type = pal_str_of(event->direct ? "direct" : "group"),
            .topic_id = event->topic,
            .sender_id = event->sender,
            .mentioned = event->mentions_me,
            .matrix_room = is_room ? room : (pal_str){0},
    };
    pal_route route;
    pal_resolve_result result;
    status = pal_route_decide(
            account->host->route_settings, &context, take->arena, &route, err);
    if (status != PAL_OK)
        return status;
    pal_session session = {.tenant = account->settings.tenant,
            .key = route.key,
            .agent = route.agent,
            .scope = route.scope,
            .aliases = (pal_str *)route.aliases,
            .aliases_len = route.aliases_len};
    pal_resolve_request resolve = {.session = &session,
            .main_alias = route.main_alias,
            .earlier_keys = route.earlier_keys,
            .earlier_keys_len = route.earlier_keys_len};
    status = pal_store_resolve(account->host->store, &resolve, &result, err);
    if (status == PAL_OK)
        *out_session = result.session;
    return status;
}

/* ---- The message ---- */

/* Names are chosen by strangers: they get no control characters and cannot change the direction of
 * the text. */
static void put_name(pal_json_writer *writer, pal_str name)
{
    char clean[256];
    size_t len = 0;

    for (size_t at = 0; at < name.len && len + 4 < sizeof clean;) {
        uint32_t c;
        size_t step = pal_utf8_decode(pal_text_after(name, at), &c);
        bool is_bad = c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
                (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
        if (!is_bad)
            len += pal_utf8_encode(c, clean + len);
        at += step;
    }
    pal_put_str_if(writer, "name", pal_text_trim(pal_str_make(clean, len)));
}

static pal_str extra_of(pal_take *take, const pal_incoming *event, pal_verdict verdict,
        pal_channel_role role)
{
    const pal_channel_account *account = take->account;
    pal_buf buf;
    pal_str extra = {0};

    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "sender", event->sender);
    if (event->direct)
        pal_put_flag(&writer, "direct", true);
    pal_json_name(&writer, "channel");
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "kind", account->settings.kind);
    pal_put_str(&writer, "account", account->settings.account);
    pal_put_str(&writer, "chat", event->chat);
    pal_put_str(&writer, "event", event->id);
    pal_put_str_if(&writer, "topic", event->topic);
    put_name(&writer, event->sender_name);
    if (event->sent_at > 0)
        pal_put_time(&writer, "sent_at", event->sent_at);
    pal_json_end_object(&writer);
    pal_put_text(&writer, "role_in_chat", pal_channel_role_name(role));
    pal_json_name(&writer, "verdict");
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "act", pal_channel_act_name(verdict.act));
    pal_put_text(&writer, "why", verdict.why);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    if (buf.failure == PAL_OK)
        extra = pal_arena_copy(take->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return extra;
}

/* Adds a picture or a file. Its bytes become a blob at once; the sweep removes a blob that no
 * message refers to. */
static pal_status put_media(
        pal_take *take, const pal_incoming_media *media, pal_part *part, pal_error *err)
{
    bool is_image = pal_text_begins(media->media_type, "image/");
    char name[PAL_BLOB_NAME_SIZE];

    *part = (pal_part){.kind = is_image ? PAL_PART_IMAGE : PAL_PART_FILE,
            .name = is_image ? (pal_str){0} : media->name,
            .media_type = media->media_type.len > 0 ? media->media_type
                                                    : pal_str_of("application/octet-stream")};
    if (media->data.len == 0) {
        pal_buf buf;
        pal_buf_init(&buf, 4096);
        pal_buf_append_text(&buf, is_image ? "[image" : "[file");
        if (media->name.len > 0)
            pal_buf_format(&buf, ": %.*s", PAL_EXCERPT(media->name, 200));
        pal_buf_append_text(&buf, ", could not be read]");
        *part = (pal_part){.kind = PAL_PART_TEXT,
                .text = pal_arena_copy(take->arena, pal_buf_str(&buf))};
        pal_buf_done(&buf);
        return PAL_OK;
    }
    pal_status status = pal_store_blob_put(take->account->host->store,
            take->account->settings.tenant, part->media_type, media->data, name, err);
    if (status == PAL_OK)
        part->blob = pal_arena_copy(take->arena, pal_str_of(name));
    return status;
}

static pal_status message_of(pal_take *take, const pal_incoming *event, pal_verdict verdict,
        pal_channel_role role, pal_message *out_message, pal_error *err)
{
    pal_part *parts = pal_arena_array(take->arena, event->media_len + 1, sizeof *parts);
    size_t len = 0;
    pal_str text = event->text;

    if (!parts)
        return pal_no_memory(err);
    if (text.len > PAL_CHANNEL_TEXT_BYTES_MAX)
        return pal_error_set(err, PAL_LIMIT, "the text has more than %u bytes",
                PAL_CHANNEL_TEXT_BYTES_MAX);
    if (event->kind == PAL_INCOMING_EDIT) {
        pal_buf buf;
        pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
        pal_buf_append_text(&buf, "(changed an earlier message to:) ");
        pal_buf_append_str(&buf, text);
        text = pal_arena_copy(take->arena, pal_buf_str(&buf));
        pal_buf_done(&buf);
    }
    if (text.len > 0 || event->media_len == 0)
        parts[len++] = (pal_part){.kind = PAL_PART_TEXT, .text = text};
    for (size_t i = 0; i < event->media_len; i++) {
        pal_status status = put_media(take, &event->media[i], &parts[len++], err);
        if (status != PAL_OK)
            return status;
    }
    *out_message = (pal_message){.role = PAL_ROLE_USER,
            .parts = parts,
            .parts_len = len,
            .client_id = pal_channel_message_client_id(take->account, event->id, take->arena),
            .extra = extra_of(take, event, verdict, role)};
    return pal_arena_checked(take->arena, err);
}

/* ---- The request ---- */

pal_str pal_channel_message_deliver(pal_take *take, const pal_incoming *event)
{
    pal_buf buf;
    pal_str deliver = {0};

    pal_buf_init(&buf, PAL_DELIVER_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "chat", event->chat);
    pal_put_str_if(&writer, "topic", event->topic);
    pal_put_str(&writer, "event", event->id);
    pal_put_str(&writer, "sender", event->sender);
    if (event->direct)
        pal_put_flag(&writer, "direct", true);
    pal_json_end_object(&writer);
    if (buf.failure == PAL_OK)
        deliver = pal_arena_copy(take->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return deliver;
}

/* Requests with different permissions are not merged, so a guest's words never get into a turn with
 * more. */
void pal_channel_message_restrict(
        pal_take *take, pal_channel_role role, pal_turn_request *request)
{
    const pal_channel_settings *s = &take->account->settings;
    size_t len = 0;

    if (role >= PAL_CHANNEL_ROLE_USER)
        return;
    pal_permission_rule *rules =
            pal_arena_array(take->arena, s->guest_tools_len + 1, sizeof *rules);
    if (!rules)
        return;
    for (size_t i = 0; i < s->guest_tools_len; i++)
        rules[len++] = (pal_permission_rule){
                .tool = s->guest_tools[i], .permission = PAL_PERMISSION_ALLOW};
    rules[len++] = (pal_permission_rule){
            .tool = pal_str_of("*"), .permission = PAL_PERMISSION_DENY};
    request->permissions = rules;
    request->permissions_len = len;
}

/* Returns true for a message that was delivered before, for example because the service does not
 * know the cursor any more. A message that still waits is recognized by the batch. */
static bool is_recorded(pal_take *take, pal_id session, pal_str client_id)
{
    const pal_channel_account *account = take->account;
    pal_message message;

    return pal_store_find_client_id(account->host->store, account->settings.tenant, session,
                   client_id, take->arena, &message, NULL) == PAL_OK;
}

pal_status pal_channel_message_put(pal_take *take, const pal_incoming *event, pal_verdict verdict,
        pal_channel_role role, pal_error *err)
{
    const pal_channel_account *account = take->account;
    bool is_answered = verdict.act == PAL_VERDICT_ANSWER;
    pal_message *message = pal_arena_array(take->arena, 1, sizeof *message);
    pal_inbox_item *item = pal_arena_array(take->arena, 1, sizeof *item);
    pal_turn_channel channel = {0};
    pal_turn_request request = {.tenant = account->settings.tenant,
            .messages = message,
            .messages_len = 1,
            .lane = PAL_TURN_LANE_QUEUE,
            .channel = &channel,
            .cannot_ask = true};

    if (!message || !item)
        return pal_no_memory(err);
    pal_status status = message_of(take, event, verdict, role, message, err);
    if (status == PAL_OK)
        status = pal_channel_message_session(take, event, &request.session, err);
    if (status != PAL_OK)
        return status;
    if (is_recorded(take, request.session, message->client_id))
        return PAL_OK;
    if (is_answered) {
        channel.outbox = account->name;
        channel.deliver = pal_channel_message_deliver(take, event);
        pal_channel_message_restrict(take, role, &request);
    } else {
        channel.is_note = 1;
    }
    status = pal_arena_checked(take->arena, err);
    if (status == PAL_OK)
        status = pal_turn_to_item(&request, take->arena, item, NULL, err);
    if (status == PAL_OK)
        status = pal_take_op(take,
                pal_op_inbox_add(account->settings.tenant, request.session, item), err);
    return status == PAL_OK ? pal_take_wake(take, request.session, err) : status;
}
