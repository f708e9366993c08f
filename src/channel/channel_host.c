/* channel_host.c - opens, starts and stops the accounts of channels. One thread, the loop, runs all
 * of them; two more do what waits for the store. */
#include "channel/channel_host.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/channel_chat.h"
#include "channel/channel_evaluator.h"
#include "channel/matrix/matrix_channel.h"
#include "channel/telegram/telegram.h"
#include "channel/webhook/webhook.h"

const pal_channel_kind *const pal_channel_kinds[] = {
        &pal_channel_matrix, &pal_channel_telegram, &pal_channel_webhook, NULL};

#define WORKERS 4 /* two of them may wait for a model */

/* ---- Small things ---- */

const char *pal_channel_state_name(pal_channel_state state)
{
    static const char *const names[] = {
            "none", "waiting", "connecting", "ready", "failing", "stopped"};
    return (size_t)state < sizeof names / sizeof *names ? names[state] : "none";
}

void pal_channel_log(const pal_channel_account *account, bool is_problem, const char *format, ...)
{
    char text[600];
    int len = snprintf(text, sizeof text, "channel %.*s: ", PAL_STR_ARG(account->name));
    va_list args;

    if (!account->host->on_log || len < 0 || (size_t)len >= sizeof text)
        return;
    va_start(args, format);
    vsnprintf(text + len, sizeof text - (size_t)len, format, args);
    va_end(args);
    account->host->on_log(is_problem, pal_str_of(text), account->host->log_user);
}

#ifndef NDEBUG
void pal_channel_point(const char *point)
{
    static atomic_long calls;
    const char *wanted = getenv("PALAVER_STOP_AT");
    size_t len = strlen(point);

    if (wanted && strncmp(wanted, point, len) == 0 && wanted[len] == ':' &&
            atomic_fetch_add(&calls, 1) + 1 == strtol(wanted + len + 1, NULL, 10))
        raise(SIGKILL);
}
#else
void pal_channel_point(const char *point)
{
    (void)point;
}
#endif

pal_loop *pal_channel_loop(const pal_channel_account *account)
{
    return account->host->loop;
}

pal_http *pal_channel_http(const pal_channel_account *account)
{
    return account->host->http;
}

static void set_state(pal_channel_account *account, pal_channel_state state, const char *reason)
{
    pthread_mutex_lock(&account->host->lock);
    account->state = state;
    snprintf(account->reason, sizeof account->reason, "%s", reason);
    pthread_mutex_unlock(&account->host->lock);
}

/* ---- Work ---- */

static void finish_stop(pal_channels *host)
{
    if (!host->is_drained || host->jobs > 0 || !host->http)
        return;
    pal_http_close(host->http);
    host->http = NULL;
    pthread_mutex_lock(&host->lock);
    host->has_stopped = true;
    pthread_cond_broadcast(&host->changed);
    pthread_mutex_unlock(&host->lock);
}

/* The work has come back, and its `done` still runs: the end comes after it. */
static void stop_after_work(pal_task *task)
{
    pal_channels *host = (pal_channels *)((char *)task - offsetof(pal_channels, stop_task));

    host->is_stop_posted = false;
    finish_stop(host);
}

void pal_channel_timer(
        pal_channels *host, pal_timer *timer, int64_t delay_ms, pal_timer_fire fire)
{
    if (!pal_loop_timer_start(host->loop, timer, delay_ms, fire) && host->on_log)
        host->on_log(true, pal_str_of("channels: out of memory for a timer"), host->log_user);
}

void pal_channel_work(pal_channels *host, pal_work_item *item)
{
    host->jobs++;
    pal_loop_work(host->loop, item);
}

void pal_channel_work_done(pal_channels *host)
{
    host->jobs--;
    if (!host->is_drained || host->jobs > 0 || host->is_stop_posted)
        return;
    host->is_stop_posted = true;
    host->stop_task.run = stop_after_work;
    pal_loop_post(host->loop, &host->stop_task);
}

/* ---- Receiving ---- */

static void close_channel(pal_channel_account *account)
{
    if (account->waiting) {
        pal_take_drop(account->waiting);
        account->waiting = NULL;
    }
    account->is_closing = account->has_job;
    if (account->is_closing)
        return;
    if (account->channel)
        account->kind->close(account->channel);
    account->channel = NULL;
    pal_loop_timer_stop(account->host->loop, &account->start_timer);
    pal_loop_timer_stop(account->host->loop, &account->send_timer);
    pal_channel_outbox_forget(account);
    pal_channel_evaluator_forget(account);
}

static void start_again(pal_timer *timer)
{
    pal_channel_account *account =
            (pal_channel_account *)((char *)timer - offsetof(pal_channel_account, start_timer));

    if (!account->channel || account->is_closing || account->host->is_stopping)
        return;
    if (account->has_job) /* it may be changing the cursor */
        pal_channel_begin_later(account, PAL_CHANNEL_LOOK_MS);
    else
        account->kind->start(account->channel,
                pal_str_make(account->record.cursor, account->record.cursor_len));
}

void pal_channel_begin_later(pal_channel_account *account, int64_t delay_ms)
{
    if (account->host->is_stopping || account->is_closing ||
            account->state == PAL_CHANNEL_STOPPED)
        return;
    if (delay_ms <= 0) {
        delay_ms = account->delay_ms > 0 ? 2 * account->delay_ms : 1000;
        if (delay_ms > PAL_CHANNEL_DELAY_MS_MAX)
            delay_ms = PAL_CHANNEL_DELAY_MS_MAX;
        account->delay_ms = delay_ms;
    }
    pal_channel_timer(account->host, &account->start_timer, delay_ms, start_again);
}

void pal_channel_begin(pal_channel_account *account)
{
    pal_error err = {PAL_OK, ""};

    if (account->kind->open(&account->settings, account, &account->channel, &err) != PAL_OK) {
        account->channel = NULL;
        set_state(account, PAL_CHANNEL_STOPPED, err.message);
        pal_channel_log(account, true, "could not be opened: %s", err.message);
        return;
    }
    account->channel->kind = account->kind;
    account->channel->account = account;
    set_state(account, PAL_CHANNEL_CONNECTING, "");
    account->kind->start(account->channel,
            pal_str_make(account->record.cursor, account->record.cursor_len));
}

void pal_channel_ready(pal_channel_account *account)
{
    if (account->state != PAL_CHANNEL_READY)
        pal_channel_log(account, false, "ready");
    account->delay_ms = 0;
    set_state(account, PAL_CHANNEL_READY, "");
    pal_channel_outbox_send(account);
}

void pal_channel_failed(
        pal_channel_account *account, pal_status status, int64_t retry_ms, const char *reason)
{
    bool is_over = status == PAL_DENIED;

    if (account->state != PAL_CHANNEL_FAILING || is_over)
        pal_channel_log(account, true, "%s%s", reason,
                is_over ? "; the account is stopped" : "; it is tried again");
    set_state(account, is_over ? PAL_CHANNEL_STOPPED : PAL_CHANNEL_FAILING, reason);
    pal_channel_begin_later(account, retry_ms);
}

void pal_channel_lost(pal_channel_account *account)
{
    pal_channel_log(account, true, "another process has taken the account");
    close_channel(account);
    set_state(account, PAL_CHANNEL_WAITING, "another process has the account");
}

void pal_channel_job_done(pal_channel_account *account)
{
    pal_take *take = account->waiting;

    if (account->has_job)
        return;
    if (account->is_closing)
        close_channel(account);
    if (!take || !account->channel)
        return;
    account->waiting = NULL;
    pal_take_run(take);
}

/* ---- Opening ---- */

static const pal_channel_kind *kind_find(pal_str name)
{
    for (size_t i = 0; pal_channel_kinds[i]; i++)
        if (pal_str_is(name, pal_channel_kinds[i]->name))
            return pal_channel_kinds[i];
    return NULL;
}

static pal_str *copy_list(pal_arena *arena, const pal_str *list, size_t len)
{
    pal_str *copy = pal_arena_array(arena, len + 1, sizeof *copy);

    for (size_t i = 0; copy && i < len; i++)
        copy[i] = pal_arena_copy(arena, list[i]);
    return copy;
}

static void copy_settings(
        pal_arena *arena, const pal_channel_settings *given, pal_channel_settings *out)
{
    pal_str *const texts[] = {&out->kind, &out->account, &out->tenant, &out->agent, &out->url,
            &out->user, &out->token, &out->password, &out->secret, &out->evaluator.model};
    pal_channel_chat *chats = pal_arena_array(arena, given->chats_len + 1, sizeof *chats);

    *out = *given;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = pal_arena_copy(arena, *texts[i]);
    out->names = copy_list(arena, given->names, given->names_len);
    out->owners = copy_list(arena, given->owners, given->owners_len);
    out->users = copy_list(arena, given->users, given->users_len);
    out->blocked = copy_list(arena, given->blocked, given->blocked_len);
    out->join = copy_list(arena, given->join, given->join_len);
    out->bots = copy_list(arena, given->bots, given->bots_len);
    out->guest_tools = copy_list(arena, given->guest_tools, given->guest_tools_len);
    for (size_t i = 0; chats && i < given->chats_len; i++) {
        chats[i] = given->chats[i];
        chats[i].chat = pal_arena_copy(arena, given->chats[i].chat);
        chats[i].agent = pal_arena_copy(arena, given->chats[i].agent);
    }
    out->chats = chats;
    if (out->account.len == 0)
        out->account = pal_str_of("default");
    if (out->tenant.len == 0)
        out->tenant = pal_str_of("default");
}

static bool is_name(pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i], lower = (char)(c | 0x20);
        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_')
            return false;
    }
    return text.len > 0 && text.len <= PAL_CHANNEL_NAME_LEN_MAX;
}

static pal_status open_account(pal_channels *host, const pal_channel_settings *given,
        pal_channel_account *account, pal_error *err)
{
    char name[2 * PAL_CHANNEL_NAME_LEN_MAX + 2];
    pal_channel *channel = NULL;
    pal_error cause = {PAL_OK, ""};

    account->host = host;
    account->queue_end = &account->queue;
    account->state = PAL_CHANNEL_WAITING;
    if (pthread_mutex_init(&account->chats_lock, NULL) != 0)
        return pal_no_memory(err);
    host->accounts_len++;
    copy_settings(host->arena, given, &account->settings);
    pal_status status = pal_arena_checked(host->arena, err);
    if (status != PAL_OK)
        return status;
    account->kind = kind_find(account->settings.kind);
    if (!account->kind)
        return pal_error_set(err, PAL_INVALID, "there is no channel of the kind '%.*s'",
                PAL_EXCERPT(account->settings.kind, 80));
    if (!is_name(account->settings.account))
        return pal_error_set(err, PAL_INVALID,
                "account '%.*s' must be 1 to %d letters, digits, '-' and '_'",
                PAL_EXCERPT(account->settings.account, 80), PAL_CHANNEL_NAME_LEN_MAX);
    snprintf(name, sizeof name, "%s:%.*s", account->kind->name,
            PAL_STR_ARG(account->settings.account));
    account->name = pal_arena_copy(host->arena, pal_str_of(name));
    for (pal_channel_account *other = host->accounts; other != account; other++)
        if (pal_str_equal(other->name, account->name))
            return pal_error_set(err, PAL_CONFLICT, "there are two accounts '%s'", name);
    status = account->kind->open(&account->settings, account, &channel, &cause);
    if (status != PAL_OK)
        return pal_error_set(err, status, "channel '%s': %.180s", name, cause.message);
    account->kind->close(channel); /* it was only to check the settings */
    return pal_arena_checked(host->arena, err);
}

static void open_http(pal_task *task)
{
    pal_channels *host = (pal_channels *)((char *)task - offsetof(pal_channels, task));

    if (pal_http_open(host->loop, NULL, &host->http, NULL) != PAL_OK)
        host->http = NULL;
    pthread_mutex_lock(&host->lock);
    host->is_open = true;
    pthread_cond_broadcast(&host->changed);
    pthread_mutex_unlock(&host->lock);
}

static pal_status open_loop(pal_channels *host, pal_error *err)
{
    pal_status status = pal_loop_open(WORKERS, &host->loop, err);

    if (status != PAL_OK)
        return status;
    host->task.run = open_http;
    pal_loop_post(host->loop, &host->task);
    pthread_mutex_lock(&host->lock);
    while (!host->is_open)
        pthread_cond_wait(&host->changed, &host->lock);
    pthread_mutex_unlock(&host->lock);
    return host->http ? PAL_OK : pal_error_set(err, PAL_NO_MEMORY, "could not make HTTP calls");
}

pal_status pal_channels_open(
        const pal_channels_options *options, pal_channels **out_channels, pal_error *err)
{
    pal_channels *host;
    pal_status status = PAL_OK;

    if (options->accounts_len > PAL_CHANNEL_ACCOUNTS_MAX)
        return pal_error_set(err, PAL_LIMIT, "there are more than %d accounts on channels",
                PAL_CHANNEL_ACCOUNTS_MAX);
    host = pal_calloc(1, sizeof *host);
    if (!host)
        return pal_no_memory(err);
    host->store = options->store;
    host->route_settings = options->route_settings;
    host->on_log = options->on_log;
    host->log_user = options->log_user;
    pal_process_name(host->owner);
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->changed, NULL);
    host->arena = pal_arena_new(0);
    host->accounts = pal_calloc(options->accounts_len + 1, sizeof *host->accounts);
    if (!host->arena || !host->accounts)
        status = pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && i < options->accounts_len; i++)
        status = open_account(host, &options->accounts[i], &host->accounts[i], err);
    if (status == PAL_OK)
        status = open_loop(host, err);
    if (status == PAL_OK)
        *out_channels = host;
    else
        pal_channels_close(host);
    return status;
}

/* ---- Starting and stopping ---- */

static void start(pal_task *task)
{
    pal_channels *host = (pal_channels *)((char *)task - offsetof(pal_channels, task));

    for (size_t i = 0; i < host->accounts_len; i++)
        pal_channel_own(&host->accounts[i]);
}

pal_status pal_channels_start(pal_channels *channels, pal_runtime *runtime, pal_error *err)
{
    if (channels->runtime)
        return pal_error_set(err, PAL_CONFLICT, "the channels were started before");
    channels->runtime = runtime;
    channels->task.run = start;
    pal_loop_post(channels->loop, &channels->task);
    return PAL_OK;
}

static void drained(pal_timer *timer)
{
    pal_channels *host = (pal_channels *)((char *)timer - offsetof(pal_channels, drain_timer));

    if (host->is_drained)
        return;
    host->is_drained = true;
    pal_loop_timer_stop(host->loop, timer);
    for (size_t i = 0; i < host->accounts_len; i++) {
        pal_loop_timer_stop(host->loop, &host->accounts[i].owner_timer);
        close_channel(&host->accounts[i]);
    }
    finish_stop(host);
}

static void stop(pal_task *task)
{
    pal_channels *host = (pal_channels *)((char *)task - offsetof(pal_channels, task));
    bool has_answers = false;

    host->is_stopping = true;
    for (size_t i = 0; i < host->accounts_len; i++)
        has_answers = has_answers || host->accounts[i].deliveries.len > 0;
    if (!pal_loop_timer_start(
                host->loop, &host->drain_timer, has_answers ? host->drain_ms : 0, drained))
        drained(&host->drain_timer);
}

void pal_channels_stop(pal_channels *channels, int64_t drain_ms)
{
    if (!channels || !channels->loop || !channels->http || channels->is_stopping)
        return;
    channels->drain_ms = drain_ms;
    channels->task.run = stop;
    pal_loop_post(channels->loop, &channels->task);
    pthread_mutex_lock(&channels->lock);
    while (!channels->has_stopped)
        pthread_cond_wait(&channels->changed, &channels->lock);
    pthread_mutex_unlock(&channels->lock);
    for (size_t i = 0; i < channels->accounts_len; i++)
        pal_channel_disown(&channels->accounts[i]);
}

void pal_channels_close(pal_channels *channels)
{
    if (!channels)
        return;
    pal_channels_stop(channels, 0);
    pal_loop_close(channels->loop);
    for (size_t i = 0; i < channels->accounts_len; i++) {
        pal_channel_chat_forget_all(&channels->accounts[i]);
        pal_map_done(&channels->accounts[i].chats);
        pal_map_done(&channels->accounts[i].deliveries);
        pthread_mutex_destroy(&channels->accounts[i].chats_lock);
        pal_free(channels->accounts[i].record.cursor);
    }
    pthread_cond_destroy(&channels->changed);
    pthread_mutex_destroy(&channels->lock);
    pal_free(channels->accounts);
    pal_arena_free(channels->arena);
    pal_free(channels);
}

/* ---- From other threads ---- */

typedef struct outbox_news {
    pal_task task;
    pal_channels *host;
    size_t len;
    char name[];
} outbox_news;

static void hear(pal_task *task)
{
    outbox_news *t = (outbox_news *)task;
    pal_str name = pal_str_make(t->name, t->len);

    for (size_t i = 0; i < t->host->accounts_len; i++) {
        pal_channel_account *account = &t->host->accounts[i];
        if (account->channel && pal_text_begins_str(name, account->name) &&
                name.len > account->name.len && name.data[account->name.len] == '/')
            pal_channel_outbox_add(account, name, false);
    }
    pal_free(t);
}

void pal_channels_on_outbox(pal_str tenant, pal_str name, pal_id session, void *user)
{
    pal_channels *host = user;
    outbox_news *t = pal_malloc(sizeof *t + name.len + 1);

    (void)tenant;
    (void)session;
    if (!t)
        return; /* the next look at the outbox finds it */
    *t = (outbox_news){.task.run = hear, .host = host, .len = name.len};
    memcpy(t->name, name.data, name.len);
    pal_loop_post(host->loop, &t->task);
}

typedef struct served {
    pal_task task;
    pal_channel_hook hook;
    pal_channel_account *account;
    pal_arena *arena;
    pal_channels_on_answer on_answer;
    void *user;
} served;

static void answer(pal_channel_hook *hook, unsigned code, pal_str json)
{
    served *s = (served *)((char *)hook - offsetof(served, hook));

    s->on_answer(code, json, s->user);
    pal_arena_free(s->arena);
}

static void serve(pal_task *task)
{
    served *s = (served *)task;
    pal_channel_account *account = s->account;

    if (!account->channel || account->is_closing || account->host->is_stopping)
        answer(&s->hook, 503, pal_str_of("{\"error\":\"the account is not active here\"}"));
    else
        account->kind->hook(account->channel, &s->hook);
}

static pal_channel_account *account_find(pal_channels *host, pal_str kind, pal_str account)
{
    for (size_t i = 0; i < host->accounts_len; i++)
        if (pal_str_equal(host->accounts[i].settings.kind, kind) &&
                pal_str_equal(host->accounts[i].settings.account, account))
            return &host->accounts[i];
    return NULL;
}

pal_status pal_channels_serve(pal_channels *channels, const pal_channels_request *request,
        pal_channels_on_answer on_answer, void *user, pal_error *err)
{
    pal_channel_account *account = account_find(channels, request->kind, request->account);
    pal_arena *arena;
    served *s;

    if (!account || !account->kind->hook)
        return pal_error_set(err, PAL_NOT_FOUND, "there is no channel '%.*s:%.*s' with requests",
                PAL_EXCERPT(request->kind, 80), PAL_EXCERPT(request->account, 80));
    arena = pal_arena_new(0);
    s = arena ? pal_arena_array(arena, 1, sizeof *s) : NULL;
    pal_header *headers =
            s ? pal_arena_array(arena, request->headers_len + 1, sizeof *headers) : NULL;
    if (headers) {
        for (size_t i = 0; i < request->headers_len; i++) {
            headers[i] = request->headers[i];
            headers[i].name = pal_arena_copy(arena, request->headers[i].name);
            headers[i].value = pal_arena_copy(arena, request->headers[i].value);
        }
        *s = (served){.task.run = serve, .account = account, .arena = arena,
                .on_answer = on_answer, .user = user,
                .hook = {.method = pal_arena_copy(arena, request->method),
                        .path = pal_arena_copy(arena, request->path),
                        .query = pal_arena_copy(arena, request->query),
                        .headers = headers,
                        .headers_len = request->headers_len,
                        .body = pal_arena_copy(arena, request->body),
                        .answer = answer}};
    }
    if (!headers || pal_arena_failure(arena) != PAL_OK) {
        pal_arena_free(arena);
        return pal_no_memory(err);
    }
    pal_loop_post(channels->loop, &s->task);
    return PAL_OK;
}

pal_status pal_channels_list(pal_channels *channels, pal_arena *arena,
        pal_channel_info **out_accounts, size_t *out_len, pal_error *err)
{
    pal_channel_info *list = pal_arena_array(arena, channels->accounts_len + 1, sizeof *list);

    if (!list)
        return pal_no_memory(err);
    for (size_t i = 0; i < channels->accounts_len; i++) {
        pal_channel_account *a = &channels->accounts[i];
        list[i] = (pal_channel_info){.kind = a->settings.kind,
                .account = a->settings.account,
                .tenant = a->settings.tenant,
                .events = atomic_load(&a->events),
                .answers = atomic_load(&a->answers),
                .sent = atomic_load(&a->sent),
                .undelivered = atomic_load(&a->undelivered),
                .dead = atomic_load(&a->dead),
                .pending = atomic_load(&a->pending),
                .taken_at = atomic_load(&a->taken_at)};
        pthread_mutex_lock(&channels->lock);
        list[i].state = a->state;
        list[i].reason = pal_arena_copy(arena, pal_str_of(a->reason));
        pthread_mutex_unlock(&channels->lock);
    }
    *out_accounts = list;
    *out_len = channels->accounts_len;
    return pal_arena_checked(arena, err);
}
