/* channel_take.c - stores a batch of events in one commit: the messages, what they change in chats,
 * and the cursor after them.
 *
 * A crash before the commit has changed nothing but sessions that were created, and blobs that the
 * sweep removes; the service delivers the same events again. After the commit they are waiting
 * requests, which this or the next process runs. Events that are delivered again are recognized by
 * their client ids. */
#include "channel/channel_take.h"

#include "channel/channel_evaluator.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"

enum { SKIP_KNOWN = 1, SKIP_DEAD = 2 };

/* ---- Collecting operations, on a worker ---- */

pal_status pal_take_op(pal_take *take, pal_op op, pal_error *err)
{
    if (!pal_arena_reserve(take->arena, &take->ops, &take->ops_cap, take->ops_len + 1,
                sizeof *take->ops) ||
            !pal_arena_reserve(take->arena, &take->ops_event, &take->events_cap, take->ops_len + 1,
                    sizeof *take->ops_event))
        return pal_no_memory(err);
    take->ops[take->ops_len] = op;
    take->ops_event[take->ops_len++] = take->event;
    return PAL_OK;
}

pal_channel_chat_state *pal_take_chat(pal_take *take, pal_str chat, pal_error *err)
{
    pal_channel_chat_state *state = pal_map_find(&take->chats, chat);

    if (state)
        return state;
    state = pal_arena_array(take->arena, 1, sizeof *state);
    if (!state) {
        (void)pal_no_memory(err);
        return NULL;
    }
    if (pal_channel_chat_find(take->account, chat, take->arena, state, err) != PAL_OK)
        return NULL;
    if (pal_map_set(&take->chats, pal_str_make(state->id, state->id_len), state) != PAL_OK) {
        (void)pal_no_memory(err);
        return NULL;
    }
    return state;
}

pal_status pal_take_chat_changed(
        pal_take *take, const pal_channel_chat_state *chat, pal_error *err)
{
    pal_op op;
    pal_status status = pal_channel_chat_op(take->account, chat, take->arena, &op, err);
    return status == PAL_OK ? pal_take_op(take, op, err) : status;
}

pal_status pal_take_wake(pal_take *take, pal_id session, pal_error *err)
{
    for (size_t i = take->sessions_len; i > 0 && i + 8 > take->sessions_len; i--)
        if (pal_id_equal(take->sessions[i - 1], session))
            return PAL_OK;
    if (!pal_arena_reserve(take->arena, &take->sessions, &take->sessions_cap,
                take->sessions_len + 1, sizeof *take->sessions))
        return pal_no_memory(err);
    take->sessions[take->sessions_len++] = session;
    return PAL_OK;
}

static pal_status call_later(
        pal_take *take, int what, const pal_incoming *event, pal_error *err)
{
    if (!pal_arena_reserve(take->arena, &take->calls, &take->calls_cap, take->calls_len + 1,
                sizeof *take->calls))
        return pal_no_memory(err);
    take->calls[take->calls_len].what = what;
    take->calls[take->calls_len++].event = event;
    return PAL_OK;
}

pal_status pal_take_reply(
        pal_take *take, const pal_incoming *event, pal_str text, pal_error *err)
{
    pal_channel_account *account = take->account;
    pal_record *record = pal_arena_array(take->arena, 1, sizeof *record);
    char id[PAL_ID_TEXT_SIZE];
    pal_buf buf;

    if (!record)
        return pal_no_memory(err);
    pal_id_to_text(pal_id_new(), id);
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_buf_format(&buf, "%.*s/%s", PAL_STR_ARG(account->name), id);
    record->name = pal_arena_copy(take->arena, pal_buf_str(&buf));
    pal_buf_clear(&buf);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_count(&writer, "v", 1);
    pal_json_name(&writer, "deliver");
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "chat", event->chat);
    pal_put_str_if(&writer, "topic", event->topic);
    pal_put_str_if(&writer, "event", event->id);
    pal_put_str_if(&writer, "sender", event->sender);
    if (event->direct)
        pal_put_flag(&writer, "direct", true);
    pal_json_end_object(&writer);
    pal_put_text(&writer, "state", "done");
    pal_put_str(&writer, "text", text);
    pal_json_end_object(&writer);
    record->kind = pal_str_of(PAL_OUTBOX_KIND);
    record->body = pal_arena_copy(take->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    if (!pal_arena_reserve(take->arena, &take->answers, &take->answers_cap, take->answers_len + 1,
                sizeof *take->answers))
        return pal_no_memory(err);
    take->answers[take->answers_len++] = record->name;
    return pal_take_op(take, pal_op_record_put(account->settings.tenant, record, 0), err);
}

/* ---- Events ---- */

static pal_status ask_model_later(pal_take *take, const pal_incoming *event, pal_error *err)
{
    pal_id session;
    pal_status status = pal_channel_message_session(take, event, &session, err);

    if (status != PAL_OK)
        return status;
    if (!pal_arena_reserve(take->arena, &take->maybes, &take->maybes_cap, take->maybes_len + 1,
                sizeof *take->maybes))
        return pal_no_memory(err);
    take->maybes[take->maybes_len++] = (pal_take_maybe){event, session};
    return PAL_OK;
}

static pal_status put_message(pal_take *take, const pal_incoming *event, pal_error *err)
{
    pal_channel_account *account = take->account;
    pal_command command = {0};
    pal_channel_chat_state *chat = pal_take_chat(take, event->chat, err);

    if (!chat)
        return err->status;
    chat->is_direct = event->direct;
    bool is_new_direct = event->direct && !chat->had_direct;
    chat->had_direct = chat->had_direct || event->direct;
    bool is_command = event->kind == PAL_INCOMING_MESSAGE &&
            pal_channel_command_parse(account, event, &command);
    pal_judge_chat view = pal_channel_chat_for_judge(account, chat, event->topic, take->now);
    pal_verdict verdict =
            pal_judge(&account->settings, event, &view, is_command, take->now);
    pal_channel_role role = pal_judge_role(
            &account->settings, event->sender, !event->direct, chat->is_open);
    take->judged++;
    if (event->kind == PAL_INCOMING_EDIT && verdict.act != PAL_VERDICT_NOTHING &&
            !event->mentions_me)
        verdict = (pal_verdict){PAL_VERDICT_NOTE, "edit"};
    pal_channel_chat_judged(chat, event, verdict, take->now);
    if (verdict.act == PAL_VERDICT_NOTHING)
        return PAL_OK;
    if (verdict.act == PAL_VERDICT_COMMAND)
        return pal_channel_command_put(take, event, &command, role, err);
    if (verdict.act == PAL_VERDICT_MUTE || is_new_direct) {
        pal_status status = pal_take_chat_changed(take, chat, err);
        if (status != PAL_OK)
            return status;
    }
    take->asked += verdict.act == PAL_VERDICT_ANSWER;
    if (verdict.act == PAL_VERDICT_MAYBE) {
        pal_status status = ask_model_later(take, event, err);
        if (status != PAL_OK)
            return status;
    }
    if (verdict.act == PAL_VERDICT_ANSWER && account->kind->typing &&
            !account->settings.typing_off) {
        pal_status status = call_later(take, PAL_TAKE_TYPE, event, err);
        if (status != PAL_OK)
            return status;
    }
    return pal_channel_message_put(take, event, verdict, role, err);
}

/* Finds the session of a message that was deleted. A chat that is a group now may have been direct
 * when the message was written, and the other way round. */
static pal_status redacted_session(pal_take *take, const pal_incoming *event, pal_str client_id,
        pal_id *out_session, pal_error *err)
{
    const pal_channel_account *account = take->account;
    pal_incoming other = *event;
    pal_message message;
    pal_id session;
    pal_status status = pal_channel_message_session(take, event, out_session, err);

    if (status != PAL_OK)
        return status;
    other.direct = !event->direct;
    status = pal_channel_message_session(take, &other, &session, err);
    if (status == PAL_OK &&
            pal_store_find_client_id(account->host->store, account->settings.tenant, session,
                    client_id, take->arena, &message, NULL) == PAL_OK)
        *out_session = session;
    return status;
}

/* Takes a message back that was deleted on the channel. Its erasure cannot be part of the batch; it
 * comes before the commit, and can be repeated. */
static pal_status redact(pal_take *take, const pal_incoming *event, pal_error *err)
{
    pal_channel_account *account = take->account;
    pal_store *store = account->host->store;
    pal_str tenant = account->settings.tenant;
    pal_str client_id = pal_channel_message_client_id(account, event->target, take->arena);
    pal_channel_redactions what = account->settings.redactions;
    pal_inbox_item *items;
    size_t len = 0;
    pal_message message;
    pal_id session;
    pal_status status = redacted_session(take, event, client_id, &session, err);

    if (status != PAL_OK || what == PAL_CHANNEL_REDACTIONS_IGNORE)
        return status;
    status = pal_store_inbox_list(store, tenant, session, take->arena, &items, &len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        if (pal_str_equal(items[i].client_id, client_id) &&
                pal_turn_inbox_drop(account->host->runtime, tenant, session, items[i].id, NULL) ==
                        PAL_OK)
            return PAL_OK;
    if (status == PAL_OK)
        status = pal_store_find_client_id(
                store, tenant, session, client_id, take->arena, &message, err);
    if (status == PAL_OK && what == PAL_CHANNEL_REDACTIONS_HIDE) {
        pal_mark *mark = pal_arena_array(take->arena, 1, sizeof *mark);
        if (!mark)
            return pal_no_memory(err);
        *mark = (pal_mark){.kind = PAL_MARK_HIDE, .seq = message.seq};
        return pal_take_op(take, pal_op_mark(tenant, session, mark), err);
    }
    if (status == PAL_OK)
        status = pal_store_erase_message(store, tenant, session, message.seq, NULL, err);
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

static bool may_invite(const pal_channel_account *account, pal_str sender)
{
    const pal_channel_settings *s = &account->settings;

    for (size_t i = 0; i < s->join_len; i++)
        if (pal_text_matches(sender, s->join[i]))
            return true;
    return s->join_len == 0 &&
            pal_judge_role(s, sender, false, false) >= PAL_CHANNEL_ROLE_USER;
}

static pal_status put_chat(pal_take *take, const pal_incoming *event, pal_error *err)
{
    pal_channel_account *account = take->account;
    pal_channel_chat_state *chat = pal_take_chat(take, event->chat, err);

    if (!chat)
        return err->status;
    if (event->kind == PAL_INCOMING_INVITE) {
        bool accepted = may_invite(account, event->sender) && !event->encrypted;
        pal_status status =
                call_later(take, accepted ? PAL_TAKE_JOIN : PAL_TAKE_LEAVE, event, err);
        if (status != PAL_OK || !accepted)
            return status;
        chat->is_open = true;
        chat->has_left = false;
    } else if (event->kind == PAL_INCOMING_JOINED) {
        chat->has_left = false;
        chat->is_open = chat->is_open || may_invite(account, event->sender);
    } else if (event->kind == PAL_INCOMING_LEFT) {
        chat->has_left = true;
        chat->is_open = false;
    }
    chat->is_direct = event->direct;
    if (event->chat_name.len > 0) {
        memset(chat->name, 0, sizeof chat->name);
        memcpy(chat->name, event->chat_name.data,
                pal_utf8_cut(event->chat_name, sizeof chat->name - 1));
    }
    return pal_take_chat_changed(take, chat, err);
}

static pal_status put_event(pal_take *take, const pal_incoming *event, pal_error *err)
{
    switch (event->kind) {
    case PAL_INCOMING_EDIT:
        if (take->account->settings.edits == PAL_CHANNEL_EDITS_IGNORE)
            return PAL_OK;
        return put_message(take, event, err);
    case PAL_INCOMING_MESSAGE:
        return put_message(take, event, err);
    case PAL_INCOMING_REDACTION:
        return redact(take, event, err);
    case PAL_INCOMING_INVITE:
    case PAL_INCOMING_JOINED:
    case PAL_INCOMING_LEFT:
    case PAL_INCOMING_CHAT:
        return put_chat(take, event, err);
    default:
        return PAL_OK;
    }
}

/* An event that cannot be stored is kept with the reason, and does not stop the others. */
static pal_status put_dead(pal_take *take, const pal_incoming *event, const char *reason,
        pal_error *err)
{
    pal_channel_account *account = take->account;
    pal_record *record = pal_arena_array(take->arena, 1, sizeof *record);
    pal_buf buf;

    if (!record)
        return pal_no_memory(err);
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_buf_format(&buf, "%.*s/", PAL_STR_ARG(account->name));
    pal_buf_append_str(&buf, pal_str_make(event->id.data, pal_utf8_cut(event->id, 200)));
    record->name = pal_arena_copy(take->arena, pal_buf_str(&buf));
    pal_buf_clear(&buf);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "chat", event->chat);
    pal_put_str(&writer, "event", event->id);
    pal_put_str(&writer, "sender", event->sender);
    pal_put_str(&writer, "text", pal_str_make(event->text.data, pal_utf8_cut(event->text, 4096)));
    pal_put_text(&writer, "reason", reason);
    pal_json_end_object(&writer);
    record->kind = pal_str_of(PAL_CHANNEL_DEAD_RECORD);
    record->body = pal_arena_copy(take->arena, pal_buf_str(&buf));
    record->expires_at = take->now + PAL_CHANNEL_KEPT_MS;
    pal_buf_done(&buf);
    take->dead++;
    return pal_take_op(take,
            pal_op_record_put(account->settings.tenant, record, PAL_RECORD_VERSION_ANY), err);
}

/* ---- The commit ---- */

static bool is_about_event(pal_status status)
{
    return status == PAL_INVALID || status == PAL_LIMIT || status == PAL_CONFLICT ||
            status == PAL_NOT_FOUND || status == PAL_BUDGET || status == PAL_CORRUPT;
}

/* The event was delivered before: it waits, perhaps with another verdict, or was executed. */
static bool is_stored_already(const pal_op *op, const pal_error *err)
{
    if (err->status != PAL_CONFLICT)
        return false;
    if (op->kind == PAL_OP_RECORD_PUT)
        return pal_str_is(op->u.record.record->kind, PAL_CHANNEL_EVENT_RECORD);
    return op->kind == PAL_OP_INBOX_ADD && strstr(err->message, "client id") != NULL;
}

static void kill_event(pal_take *take, size_t event, const pal_error *err)
{
    take->skipped[event] = SKIP_DEAD;
    snprintf(take->reasons[event], sizeof *take->reasons, "%s", err->message);
}

static pal_status put_record(pal_take *take, pal_error *err)
{
    pal_channel_account *account = take->account;
    pal_channel_record *known = &account->record;
    pal_record *record = pal_arena_array(take->arena, 1, sizeof *record);
    pal_str cursor = take->cursor.len > 0 ? take->cursor
                                          : pal_str_make(known->cursor, known->cursor_len);

    if (!record)
        return pal_no_memory(err);
    *record = (pal_record){.kind = pal_str_of(PAL_CHANNEL_RECORD), .name = account->name,
            .body = pal_channel_record_body(account, cursor, take->arena)};
    if (!record->body.data)
        return pal_error_set(err, PAL_LIMIT, "the cursor is too long");
    take->event = take->len;
    return pal_take_op(
            take, pal_op_record_put(account->settings.tenant, record, known->version), err);
}

/* Begins an attempt: everything that an earlier one has collected is gone. */
static pal_status collect(pal_take *take)
{
    pal_arena_reset(take->arena);
    pal_map_done(&take->chats);
    pal_map_init(&take->chats);
    take->ops = NULL;
    take->ops_event = NULL;
    take->answers = NULL;
    take->sessions = NULL;
    take->calls = NULL;
    take->ops_len = take->ops_cap = take->events_cap = 0;
    take->answers_len = take->answers_cap = take->sessions_len = take->sessions_cap = 0;
    take->calls_len = take->calls_cap = 0;
    take->maybes = NULL;
    take->maybes_len = take->maybes_cap = 0;
    take->judged = take->asked = take->dead = 0;
    for (size_t i = 0; i < take->len; i++) {
        pal_status status = PAL_OK;
        size_t before = take->ops_len;
        take->event = i;
        if (take->skipped[i] == 0)
            status = put_event(take, &take->events[i], &take->err);
        if (is_about_event(status)) {
            take->ops_len = before;
            kill_event(take, i, &take->err);
            status = PAL_OK;
        }
        if (status == PAL_OK && take->skipped[i] == SKIP_DEAD)
            status = put_dead(take, &take->events[i], take->reasons[i], &take->err);
        if (status != PAL_OK)
            return status;
    }
    return put_record(take, &take->err);
}

static pal_status commit(pal_take *take)
{
    size_t failed = 0;
    pal_status status;

    for (size_t tries = 0; tries <= 2 * take->len + 1; tries++) {
        status = collect(take);
        if (status != PAL_OK)
            return status;
        pal_channel_point("take.before_commit");
        status = pal_store_apply_all(
                take->account->host->store, take->ops, take->ops_len, &failed, &take->err);
        if (status == PAL_OK || failed >= take->ops_len || !is_about_event(status))
            return status;
        size_t event = take->ops_event[failed];
        if (event == take->len) {
            take->is_lost = status == PAL_CONFLICT;
            return status;
        }
        if (is_stored_already(&take->ops[failed], &take->err))
            take->skipped[event] = SKIP_KNOWN;
        else
            kill_event(take, event, &take->err);
    }
    return status;
}

static void keep_results(pal_take *take)
{
    pal_channel_account *account = take->account;
    pal_channel_record *known = &account->record;
    size_t position = 0;
    pal_str key;
    void *chat;

    known->version = take->ops[take->ops_len - 1].u.record.record->version;
    if (take->cursor.len > 0) {
        char *copy = pal_malloc(take->cursor.len);
        if (copy) {
            memcpy(copy, take->cursor.data, take->cursor.len);
            pal_free(known->cursor);
            known->cursor = copy;
            known->cursor_len = take->cursor.len;
        }
    }
    while (pal_map_next(&take->chats, &position, &key, &chat))
        pal_channel_chat_keep(account, chat);
    atomic_fetch_add(&account->events, take->len);
    atomic_fetch_add(&account->answers, take->asked);
    atomic_fetch_add(&account->dead, take->dead);
}

static void work(pal_work_item *item)
{
    pal_take *take = (pal_take *)item;
    pal_channel_account *account = take->account;

    take->now = pal_clock_now_ms();
    take->status = account->record.version == 0 ? PAL_BUSY : commit(take);
    if (take->status != PAL_OK)
        return;
    keep_results(take);
    pal_channel_point("take.after_commit");
    for (size_t i = 0; i < take->sessions_len; i++)
        if (pal_runtime_wake(account->host->runtime, account->settings.tenant, take->sessions[i],
                    NULL) != PAL_OK)
            break; /* the runtime finds the others by itself */
}

/* ---- On the loop ---- */

static void take_free(pal_take *take)
{
    pal_map_done(&take->chats);
    pal_arena_free(take->arena);
    pal_free(take->skipped);
    pal_free(take->reasons);
    pal_free(take);
}

static void call_after(pal_take *take)
{
    pal_channel_account *account = take->account;
    const pal_channel_kind *kind = account->kind;

    for (size_t i = 0; i < take->calls_len; i++) {
        const pal_incoming *event = take->calls[i].event;
        if (take->calls[i].what == PAL_TAKE_TYPE)
            kind->typing(account->channel, event->chat, event->topic, true);
        else if (take->calls[i].what == PAL_TAKE_JOIN && kind->join)
            kind->join(account->channel, event->chat, event->sender);
        else if (take->calls[i].what == PAL_TAKE_LEAVE && kind->leave)
            kind->leave(account->channel, event->chat,
                    event->encrypted
                            ? pal_str_of("I can't read encrypted rooms. Invite me to a room "
                                         "without encryption.")
                            : pal_str_of("I only join rooms that my people invite me to."));
    }
    for (size_t i = 0; i < take->maybes_len; i++)
        pal_channel_evaluator_add(account, take->maybes[i].event, take->maybes[i].session);
}

static void taken(pal_work_item *item)
{
    pal_take *take = (pal_take *)item;
    pal_channel_account *account = take->account;
    pal_status status = take->status;

    pal_channel_work_done(account->host);
    account->has_job = false;
    if (status == PAL_OK) {
        account->delay_ms = 0;
        atomic_store(&account->taken_at, take->now);
        for (size_t i = 0; i < take->answers_len; i++)
            pal_channel_outbox_add(account, take->answers[i], false);
        if (account->channel && !account->is_closing)
            call_after(take);
    }
    if (take->is_lost) {
        account->record.version = 0;
        pal_channel_lost(account);
    } else if (account->channel && !account->is_closing) {
        account->kind->taken(account->channel, status);
        if (status != PAL_OK)
            pal_channel_failed(account, PAL_IO, 0, take->err.message);
    }
    take_free(take);
    pal_channel_job_done(account);
}

void pal_take_run(pal_take *take)
{
    take->item.work = work;
    take->item.done = taken;
    take->account->has_job = true;
    pal_channel_work(take->account->host, &take->item);
}

void pal_take_drop(pal_take *take)
{
    take_free(take);
}

void pal_channel_take(
        pal_channel_account *account, const pal_incoming *events, size_t len, pal_str cursor)
{
    bool is_ending = account->host->is_stopping || account->is_closing;
    pal_take *take = is_ending ? NULL : pal_calloc(1, sizeof *take);

    /* A batch that is refused here is given again by the service, after the back-off. */
    if (!take || len > PAL_CHANNEL_BATCH_MAX || account->waiting ||
            !(take->arena = pal_arena_new(0)) ||
            !(take->skipped = pal_calloc(len + 1, 1)) ||
            !(take->reasons = pal_calloc(len + 1, sizeof *take->reasons))) {
        if (take)
            take_free(take);
        account->kind->taken(account->channel, PAL_BUSY);
        pal_channel_begin_later(account, 0);
        return;
    }
    take->account = account;
    take->events = events;
    take->len = len;
    take->cursor = cursor;
    if (account->has_job)
        account->waiting = take;
    else
        pal_take_run(take);
}
