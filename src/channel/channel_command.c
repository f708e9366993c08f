/* channel_command.c - commands of people in a chat: "!new". A command is executed in the commit of
 * its batch, together with a record of its event, so that it is executed once. Its reply is no part
 * of the conversation. */
#include "channel/channel_take.h"

#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "palaver/limits.h"

typedef struct context {
    pal_take *take;
    const pal_incoming *event;
    pal_str rest;
    pal_buf *reply;
} context;

typedef struct command {
    const char *word;
    pal_channel_role role; /* in a direct chat and in a group */
    const char *help;
    pal_status (*run)(context *c, pal_error *err);
} command;

static pal_status help(context *c, pal_error *err);

/* ---- The commands ---- */

static pal_status begin_again(context *c, pal_error *err)
{
    pal_mark *mark = pal_arena_array(c->take->arena, 1, sizeof *mark);
    pal_id session;
    pal_status status = pal_channel_message_session(c->take, c->event, &session, err);

    if (status != PAL_OK)
        return status;
    if (!mark)
        return pal_no_memory(err);
    *mark = (pal_mark){.kind = PAL_MARK_RESET};
    pal_buf_append_text(c->reply,
            "We begin a new conversation. The old one is kept, and undo brings it back.");
    return pal_take_op(
            c->take, pal_op_mark(c->take->account->settings.tenant, session, mark), err);
}

/* Finds the newest mark that hides messages and is in effect. */
static uint64_t mark_to_undo(const pal_mark *marks, size_t len)
{
    for (size_t i = len; i > 0; i--) {
        const pal_mark *mark = &marks[i - 1];
        if (!mark->undone && !mark->inherited &&
                (mark->kind == PAL_MARK_RESET || mark->kind == PAL_MARK_REWIND))
            return mark->number;
    }
    return 0;
}

static pal_status undo(context *c, pal_error *err)
{
    pal_str tenant = c->take->account->settings.tenant;
    pal_mark *mark = pal_arena_array(c->take->arena, 1, sizeof *mark), *marks = NULL;
    size_t len = 0;
    pal_id session;
    pal_status status = pal_channel_message_session(c->take, c->event, &session, err);

    if (status == PAL_OK)
        status = pal_store_marks(c->take->account->host->store, tenant, session, c->take->arena,
                &marks, &len, err);
    if (status != PAL_OK)
        return status;
    if (!mark)
        return pal_no_memory(err);
    uint64_t target = mark_to_undo(marks, len);
    if (target == 0) {
        pal_buf_append_text(c->reply, "There is nothing to undo.");
        return PAL_OK;
    }
    *mark = (pal_mark){.kind = PAL_MARK_UNDO, .target = target};
    pal_buf_append_text(c->reply, "Done. The earlier messages are back.");
    return pal_take_op(c->take, pal_op_mark(tenant, session, mark), err);
}

/* Canceling is not part of the commit, and can be repeated. */
static pal_status stop(context *c, pal_error *err)
{
    pal_runtime *runtime = c->take->account->host->runtime;
    pal_turn_query query = {.tenant = c->take->account->settings.tenant,
            .states = 1u << PAL_TURN_RUNNING | 1u << PAL_TURN_RETRYING | 1u << PAL_TURN_QUEUED |
                    1u << PAL_TURN_ASKING | 1u << PAL_TURN_PAUSED};
    pal_turn_entry *turns = NULL;
    size_t len = 0, count = 0;
    bool more;
    pal_id session;
    pal_status status = pal_channel_message_session(c->take, c->event, &session, err);

    if (status == PAL_OK)
        status = pal_turn_list(runtime, &query, c->take->arena, &turns, &len, &more, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        if (pal_id_equal(turns[i].info.session, session)) {
            pal_turn_cancel_async(runtime, query.tenant, turns[i].info.turn);
            count++;
        }
    pal_buf_append_text(c->reply, count > 0 ? "Stopped." : "I am not working on anything here.");
    return status;
}

static pal_status mode(context *c, pal_error *err)
{
    static const char *const words[] = {"", "all", "mention", "", "maybe"};
    static const char *const replies[] = {"", "I answer everything here now.",
            "I answer here now when I am addressed.", "",
            "I answer here now when I am addressed, and speak up when it helps."};
    pal_channel_chat_state *chat = pal_take_chat(c->take, c->event->chat, err);

    if (!chat)
        return err->status;
    for (size_t i = 1; i < sizeof words / sizeof *words; i++) {
        if (words[i][0] && pal_text_is_nocase(c->rest, words[i])) {
            chat->mode = (pal_channel_mode)i;
            chat->muted_until = 0;
            pal_buf_append_text(c->reply, replies[i]);
            return pal_take_chat_changed(c->take, chat, err);
        }
    }
    pal_buf_append_text(c->reply, "Say `mode all`, `mode mention` or `mode maybe`.");
    return PAL_OK;
}

static pal_status quiet(context *c, pal_error *err)
{
    pal_channel_chat_state *chat = pal_take_chat(c->take, c->event->chat, err);
    uint64_t minutes = PAL_CHANNEL_MUTE_MS / 60000;

    if (!chat)
        return err->status;
    for (size_t i = 0, read = 0; i < c->rest.len && i < 5; i++) {
        if (c->rest.data[i] < '0' || c->rest.data[i] > '9')
            break;
        read = read * 10 + (size_t)(c->rest.data[i] - '0');
        minutes = read;
    }
    chat->muted_until = c->take->now + (int64_t)minutes * 60000;
    pal_buf_format(c->reply, "I am quiet for %llu minutes, except to mentions.",
            (unsigned long long)minutes);
    return pal_take_chat_changed(c->take, chat, err);
}

static pal_status status_of(context *c, pal_error *err)
{
    const pal_channel_account *account = c->take->account;
    pal_channel_chat_state *chat = pal_take_chat(c->take, c->event->chat, err);
    pal_session session;
    char id[PAL_ID_TEXT_SIZE];
    pal_id found;
    pal_status status =
            chat ? pal_channel_message_session(c->take, c->event, &found, err) : err->status;

    if (status != PAL_OK)
        return status;
    pal_id_to_text(found, id);
    status = pal_store_find(account->host->store, account->settings.tenant, PAL_SESSION_BY_ID,
            pal_str_of(id), c->take->arena, &session, err);
    if (status != PAL_OK)
        return status;
    pal_buf_format(c->reply, "Session %s: %llu messages, %llu tokens.", id,
            (unsigned long long)session.last_seq, (unsigned long long)session.tokens);
    if (chat->muted_until > c->take->now)
        pal_buf_format(c->reply, " I am quiet for %lld more minutes.",
                (long long)((chat->muted_until - c->take->now + 59999) / 60000));
    return PAL_OK;
}

static const command commands[] = {
        {"help", PAL_CHANNEL_ROLE_GUEST, "shows this", help},
        {"status", PAL_CHANNEL_ROLE_USER, "shows the session of this chat", status_of},
        {"new", PAL_CHANNEL_ROLE_USER, "begins a new conversation", begin_again},
        {"undo", PAL_CHANNEL_ROLE_USER, "takes the last `new` back", undo},
        {"stop", PAL_CHANNEL_ROLE_USER, "cancels what I am working on", stop},
        {"mode", PAL_CHANNEL_ROLE_USER,
                "`mode all`, `mode mention` or `mode maybe`: what I answer here", mode},
        {"quiet", PAL_CHANNEL_ROLE_USER, "`quiet 30`: I say nothing for 30 minutes", quiet},
};

static pal_status help(context *c, pal_error *err)
{
    char sign = c->take->account->kind->command_sign;
    bool is_group = !c->event->direct;

    pal_buf_append_text(c->reply, "Commands:\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        pal_buf_format(c->reply, "- `%c%s%s`: %s\n", sign, is_group ? "palaver " : "",
                commands[i].word, commands[i].help);
    return PAL_OK;
}

/* ---- Reading and executing ---- */

static const command *command_find(pal_str word)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (pal_text_is_nocase(word, commands[i].word))
            return &commands[i];
    return NULL;
}

static pal_str take_word(pal_str *text)
{
    size_t len = 0;
    while (len < text->len && !pal_text_is_space(text->data[len]))
        len++;
    pal_str word = pal_str_make(text->data, len);
    *text = pal_text_trim(pal_text_after(*text, len));
    return word;
}

bool pal_channel_command_parse(const pal_channel_account *account, const pal_incoming *event,
        pal_command *out_command)
{
    pal_str text = pal_text_trim(event->text);
    bool has_sign = text.len > 1 && text.data[0] == account->kind->command_sign;

    if (has_sign)
        text = pal_text_after(text, 1);
    pal_str word = take_word(&text);
    /* Other bots live in a group: there a command must say that it is for us. */
    bool is_ours = event->direct || event->mentions_me;
    if (has_sign && pal_text_is_nocase(word, "palaver")) {
        word = take_word(&text);
        is_ours = true;
    }
    if (!is_ours || !command_find(word) || (!has_sign && (event->direct || text.len > 0)))
        return false;
    *out_command = (pal_command){.word = word, .rest = text};
    return true;
}

/* The record by which a second delivery of the event is recognized. */
static pal_status put_event(pal_take *take, const pal_incoming *event, pal_error *err)
{
    const pal_channel_account *account = take->account;
    pal_record *record = pal_arena_array(take->arena, 1, sizeof *record);
    pal_str id = pal_channel_message_client_id(account, event->id, take->arena);
    pal_buf name;

    if (!record)
        return pal_no_memory(err);
    pal_buf_init(&name, PAL_RECORD_NAME_LEN_MAX);
    pal_buf_append_str(&name, account->name);
    pal_buf_append_text(&name, "/");
    pal_buf_append_str(&name, id);
    *record = (pal_record){.kind = pal_str_of(PAL_CHANNEL_EVENT_RECORD),
            .name = pal_arena_copy(take->arena, pal_buf_str(&name)),
            .body = pal_str_of("{\"command\":true}"),
            .expires_at = take->now + PAL_CHANNEL_KEPT_MS};
    pal_buf_done(&name);
    return pal_take_op(take, pal_op_record_put(account->settings.tenant, record, 0), err);
}

pal_status pal_channel_command_put(pal_take *take, const pal_incoming *event,
        const pal_command *given, pal_channel_role role, pal_error *err)
{
    const command *found = command_find(given->word);
    pal_buf reply;
    context c = {.take = take, .event = event, .rest = given->rest, .reply = &reply};
    pal_status status = put_event(take, event, err);

    pal_buf_init(&reply, PAL_CHANNEL_TEXT_BYTES_MAX);
    if (status == PAL_OK && role < found->role)
        pal_buf_append_text(&reply, "You are a guest here, and this command is for users.");
    else if (status == PAL_OK)
        status = found->run(&c, err);
    if (status == PAL_OK)
        status = reply.failure ? pal_error_set(err, reply.failure, "the reply is too long")
                               : pal_take_reply(take, event, pal_buf_str(&reply), err);
    pal_buf_done(&reply);
    return status;
}
