/* channel_chat.c - remembers chats. */
#include "channel/channel_chat.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"

static const char *const mode_names[] = {"", "all", "mention", "off", "maybe"};

static pal_str chat_record_name(
        const pal_channel_account *account, pal_str chat, pal_arena *arena)
{
    size_t len = account->name.len + 1 + chat.len;
    char *name = pal_arena_alloc(arena, len);

    if (!name)
        return (pal_str){0};
    memcpy(name, account->name.data, account->name.len);
    name[account->name.len] = '/';
    memcpy(name + account->name.len + 1, chat.data, chat.len);
    return pal_str_make(name, len);
}

/* ---- Records ---- */

static void read_body(pal_json body, pal_arena *arena, pal_channel_chat_state *chat)
{
    pal_str mode = pal_json_string(pal_json_find(body, "mode"), arena);
    pal_str name = pal_json_string(pal_json_find(body, "name"), arena);

    for (size_t i = 1; i < sizeof mode_names / sizeof *mode_names; i++)
        if (pal_str_is(mode, mode_names[i]))
            chat->mode = (pal_channel_mode)i;
    pal_json_bool(pal_json_find(body, "open"), &chat->is_open);
    pal_json_bool(pal_json_find(body, "left"), &chat->has_left);
    pal_json_bool(pal_json_find(body, "direct"), &chat->is_direct);
    pal_json_bool(pal_json_find(body, "had_direct"), &chat->had_direct);
    pal_json_i64(pal_json_find(body, "muted_until"), &chat->muted_until);
    memcpy(chat->name, name.data ? name.data : "", pal_utf8_cut(name, sizeof chat->name - 1));
}

pal_status pal_channel_chat_op(const pal_channel_account *account,
        const pal_channel_chat_state *chat, pal_arena *arena, pal_op *out_op, pal_error *err)
{
    pal_record *record = pal_arena_array(arena, 1, sizeof *record);
    pal_buf buf;

    if (!record)
        return pal_no_memory(err);
    pal_buf_init(&buf, 4096);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str_if(&writer, "name", pal_str_of(chat->name));
    if (chat->mode != PAL_CHANNEL_MODE_NONE)
        pal_put_text(&writer, "mode", mode_names[chat->mode]);
    if (chat->is_open)
        pal_put_flag(&writer, "open", true);
    if (chat->has_left)
        pal_put_flag(&writer, "left", true);
    if (chat->is_direct)
        pal_put_flag(&writer, "direct", true);
    if (chat->had_direct)
        pal_put_flag(&writer, "had_direct", true);
    if (chat->muted_until > 0)
        pal_put_number(&writer, "muted_until", chat->muted_until);
    pal_json_end_object(&writer);
    *record = (pal_record){.kind = pal_str_of(PAL_CHANNEL_CHAT_RECORD),
            .name = chat_record_name(account, pal_str_make(chat->id, chat->id_len), arena),
            .body = pal_arena_copy(arena, pal_buf_str(&buf))};
    pal_buf_done(&buf);
    *out_op = pal_op_record_put(account->settings.tenant, record, PAL_RECORD_VERSION_ANY);
    return pal_arena_checked(arena, err);
}

/* ---- Memory ---- */

pal_status pal_channel_chat_find(pal_channel_account *account, pal_str chat, pal_arena *arena,
        pal_channel_chat_state *out_chat, pal_error *err)
{
    pal_record record;
    pal_json body;
    pal_channel_chat_state *known;
    pal_str id = pal_arena_copy(arena, chat);

    pthread_mutex_lock(&account->chats_lock);
    known = pal_map_find(&account->chats, chat);
    if (known)
        *out_chat = *known;
    pthread_mutex_unlock(&account->chats_lock);
    if (!known) {
        *out_chat = (pal_channel_chat_state){0};
        pal_status status = pal_store_record_find(account->host->store, account->settings.tenant,
                pal_str_of(PAL_CHANNEL_CHAT_RECORD), chat_record_name(account, chat, arena), arena,
                &record, err);
        if (status == PAL_OK)
            status = pal_json_parse(arena, record.body, NULL, &body, err);
        if (status != PAL_OK && status != PAL_NOT_FOUND)
            return status;
        if (status == PAL_OK) {
            read_body(body, arena, out_chat);
            out_chat->version = record.version;
        }
    }
    out_chat->id = (char *)id.data;
    out_chat->id_len = id.len;
    return pal_arena_checked(arena, err);
}

void pal_channel_chat_forget_all(pal_channel_account *account)
{
    size_t position = 0;
    pal_str key;
    void *value;

    pthread_mutex_lock(&account->chats_lock);
    while (pal_map_next(&account->chats, &position, &key, &value))
        pal_free(value);
    pal_map_done(&account->chats);
    pal_map_init(&account->chats);
    pthread_mutex_unlock(&account->chats_lock);
}

void pal_channel_chat_keep(pal_channel_account *account, const pal_channel_chat_state *chat)
{
    if (account->chats.len >= PAL_CHANNEL_CHATS_MAX)
        pal_channel_chat_forget_all(account);
    pthread_mutex_lock(&account->chats_lock);
    pal_channel_chat_state *known =
            pal_map_find(&account->chats, pal_str_make(chat->id, chat->id_len));
    if (known) {
        char *id = known->id;
        *known = *chat;
        known->id = id;
    } else if ((known = pal_malloc(sizeof *known + chat->id_len + 1))) {
        *known = *chat;
        known->id = (char *)(known + 1);
        memcpy(known->id, chat->id, chat->id_len);
        if (pal_map_set(&account->chats, pal_str_make(known->id, known->id_len), known) != PAL_OK)
            pal_free(known);
    }
    pthread_mutex_unlock(&account->chats_lock);
}

void pal_channel_chat_unasked(pal_channel_account *account, pal_str chat, int64_t now)
{
    pthread_mutex_lock(&account->chats_lock);
    pal_channel_chat_state *known = pal_map_find(&account->chats, chat);
    if (known)
        known->unasked_at = now;
    pthread_mutex_unlock(&account->chats_lock);
}

void pal_channel_chat_spoken(pal_channel_account *account, pal_str chat)
{
    pthread_mutex_lock(&account->chats_lock);
    pal_channel_chat_state *known = pal_map_find(&account->chats, chat);
    if (known)
        known->messages_since = 0;
    pthread_mutex_unlock(&account->chats_lock);
}

const pal_channel_chat *pal_channel_chat_settings(const pal_channel_account *account, pal_str chat)
{
    for (size_t i = 0; i < account->settings.chats_len; i++)
        if (pal_str_equal(account->settings.chats[i].chat, chat))
            return &account->settings.chats[i];
    return NULL;
}

/* ---- The judge ---- */

static uint64_t topic_hash(pal_str topic)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a: a collision is only a follow-up question */
    for (size_t i = 0; i < topic.len; i++)
        hash = (hash ^ (unsigned char)topic.data[i]) * 1099511628211u;
    return hash | 1;
}

pal_judge_chat pal_channel_chat_for_judge(const pal_channel_account *account,
        const pal_channel_chat_state *chat, pal_str topic, int64_t now)
{
    const pal_channel_chat *given =
            pal_channel_chat_settings(account, pal_str_make(chat->id, chat->id_len));
    pal_judge_chat view = {.mode = chat->mode,
            .is_open = chat->is_open,
            .bots_tired = now < chat->bots_tired_until,
            .muted_until = chat->muted_until,
            .unasked_at = chat->unasked_at,
            .messages_since = chat->messages_since};

    if (view.mode == PAL_CHANNEL_MODE_NONE && given)
        view.mode = given->mode;
    for (size_t i = 0; topic.len > 0 && i < PAL_CHANNEL_TOPICS_MAX; i++)
        view.asked_in_topic = view.asked_in_topic || chat->topics[i] == topic_hash(topic);
    return view;
}

static void answer_bot(pal_channel_chat_state *chat, int64_t now)
{
    size_t last = PAL_CHANNEL_BOT_ANSWERS_MAX - 1;

    memmove(chat->bots_answered_at, chat->bots_answered_at + 1,
            last * sizeof *chat->bots_answered_at);
    chat->bots_answered_at[last] = now;
    if (chat->bots_answered_at[0] > 0 && now - chat->bots_answered_at[0] < 60000)
        chat->bots_tired_until = now + PAL_CHANNEL_BOT_TIRED_MS;
}

void pal_channel_chat_judged(pal_channel_chat_state *chat, const pal_incoming *message,
        pal_verdict verdict, int64_t now)
{
    bool is_bot = message->is_bot || message->is_notice;

    if (verdict.act == PAL_VERDICT_NOTHING)
        return;
    if (!is_bot && verdict.act != PAL_VERDICT_COMMAND)
        chat->messages_since++;
    if (verdict.act == PAL_VERDICT_MUTE)
        chat->muted_until = now + PAL_CHANNEL_MUTE_MS;
    else if (verdict.act == PAL_VERDICT_ANSWER && message->mentions_me && !is_bot)
        chat->muted_until = 0;
    if (verdict.act == PAL_VERDICT_ANSWER && is_bot)
        answer_bot(chat, now);
    if (verdict.act == PAL_VERDICT_ANSWER && message->topic.len > 0) {
        chat->topics[chat->topics_next++ % PAL_CHANNEL_TOPICS_MAX] = topic_hash(message->topic);
    }
}
