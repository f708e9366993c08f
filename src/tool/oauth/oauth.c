/* oauth.c - the access token of one MCP server: requests that wait for it, the flows that get it
 * (oauth_flow.c), and the file that keeps it (oauth_file.c).
 *
 * Any callback of the owner can close this object: `busy` keeps its memory until it is off the
 * stack, and the worker has ended. On the loop. */
#include "tool/oauth/oauth.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "tool/oauth/oauth_internal.h"

#define EARLY_MS 30000 /* a token is renewed this long before it expires */
#define POLL_MS 5000 /* how often the file is read if there is no usable login */
#define PREFIX_LEN_MAX 96 /* the words before the cause of an error */

/* ---- Life ---- */

static void free_oauth(pal_oauth *o)
{
    pal_buf_done(&o->body);
    pal_buf_done(&o->header);
    pal_buf_done(&o->server_nonce);
    pal_buf_done(&o->issuer_nonce);
    pal_arena_free(o->flow.arena);
    pal_arena_free(o->work.arena);
    pal_arena_free(o->login_arena);
    pal_arena_free(o->arena);
    pal_free(o);
}

void pal_oauth_enter(pal_oauth *o)
{
    o->busy++;
}

void pal_oauth_release(pal_oauth *o)
{
    if (--o->busy == 0 && o->closed)
        free_oauth(o);
}

static void clear_flow(pal_oauth *o)
{
    pal_arena_free(o->flow.arena);
    explicit_bzero(&o->flow, sizeof o->flow);
}

/* ---- Waits ---- */

static void add_wait(pal_oauth *o, pal_oauth_wait *wait)
{
    wait->oauth = o;
    wait->previous = NULL;
    wait->next = o->waits;
    if (o->waits)
        o->waits->previous = wait;
    o->waits = wait;
}

void pal_oauth_leave(pal_oauth_wait *wait)
{
    if (!wait->oauth)
        return;
    if (wait->previous)
        wait->previous->next = wait->next;
    else
        wait->oauth->waits = wait->next;
    if (wait->next)
        wait->next->previous = wait->previous;
    wait->oauth = NULL;
}

static void poll_later(pal_oauth *o);

/* Ends the flow and all waits. */
void pal_oauth_finish(pal_oauth *o, pal_status status, pal_str error)
{
    size_t len = 0;
    clear_flow(o);
    o->needs_login &= status != PAL_OK;
    for (const pal_oauth_wait *each = o->waits; each; each = each->next)
        len++;
    for (; len && o->waits && !o->closed; len--) {
        pal_oauth_wait *last = o->waits;
        while (last->next)
            last = last->next; /* the first one that waited */
        pal_oauth_leave(last);
        last->on_done(last, status, error);
    }
    if (!o->closed && o->needs_login && o->flow.step == PAL_OAUTH_STEP_NONE)
        poll_later(o);
}

void pal_oauth_fail(pal_oauth *o, pal_status status, const char *format, ...)
{
    char why[PAL_ERROR_MESSAGE_MAX], text[PAL_ERROR_MESSAGE_MAX + PREFIX_LEN_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    snprintf(text, sizeof text, "no access to '%.*s': %s", PAL_EXCERPT(o->config.name, 60), why);
    pal_oauth_finish(o, status, pal_str_of(text));
}

void pal_oauth_fail_with(pal_oauth *o, const pal_error *err)
{
    pal_oauth_fail(o, err->status, "%s", err->message);
}

void pal_oauth_fail_no_login(pal_oauth *o)
{
    o->needs_login = true;
    pal_oauth_fail(o, PAL_DENIED, "the server requires a login; run 'palaver mcp login %.*s'",
            PAL_EXCERPT(o->config.name, 60));
}

static void warn(pal_oauth *o, const char *message)
{
    char text[PAL_ERROR_MESSAGE_MAX + PREFIX_LEN_MAX];
    snprintf(text, sizeof text, "login of MCP server '%.*s': %s", PAL_EXCERPT(o->config.name, 40),
            message);
    if (o->config.on_warning)
        o->config.on_warning(o->config.user, pal_str_of(text));
}

/* ---- Logins ---- */

/* Uses a login from now on. Returns false if there is no memory. */
bool pal_oauth_adopt(pal_oauth *o, const pal_oauth_login *login)
{
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return false;
    pal_oauth_login copy = pal_oauth_login_copy(login, arena);
    if (pal_arena_failure(arena)) {
        pal_arena_free(arena);
        return false;
    }
    pal_buf_clear(&o->header);
    if (copy.access_token.len)
        pal_buf_append_text(&o->header, copy.proof_key.len ? "DPoP " : "Bearer ");
    pal_buf_append_str(&o->header, copy.access_token);
    pal_arena_free(o->login_arena);
    o->login_arena = arena;
    o->login = copy;
    o->serial++;
    return !o->header.failure;
}

bool pal_oauth_is_expired(const pal_oauth *o)
{
    return o->login.expires_ms && pal_clock_now_ms() > o->login.expires_ms - EARLY_MS;
}

pal_str pal_oauth_header(const pal_oauth *oauth)
{
    return pal_buf_str(&oauth->header);
}

uint32_t pal_oauth_serial(const pal_oauth *oauth)
{
    return oauth->serial;
}

bool pal_oauth_is_ready(const pal_oauth *oauth)
{
    bool can_renew = !oauth->config.is_login &&
            (oauth->login.refresh_token.len || pal_oauth_is_unattended(oauth));
    return oauth->is_loaded && oauth->flow.step == PAL_OAUTH_STEP_NONE &&
            !(oauth->login.access_token.len && can_renew && pal_oauth_is_expired(oauth));
}

/* ---- The file ---- */

static void run_work(pal_work_item *item)
{
    pal_oauth_work *w = (pal_oauth_work *)((char *)item - offsetof(pal_oauth_work, item));
    pal_oauth *o = w->oauth;
    if (w->is_write) {
        w->status = pal_oauth_file_write(o->auth.file.data, &w->login, &w->err);
        return;
    }
    if (w->is_subject) {
        w->status = pal_oauth_file_load(o->auth.token_file.data, w->arena, &w->subject, &w->err);
        return;
    }
    w->status = PAL_NOT_FOUND;
    if (o->auth.file.len)
        w->status = pal_oauth_file_read(o->auth.file.data, w->arena, &w->login, &w->err);
    if (o->auth.client_key.len && !o->key.len) {
        pal_error err;
        if (pal_oauth_file_load(o->auth.client_key.data, w->arena, &w->key, &err) != PAL_OK) {
            w->status = PAL_IO;
            w->err = err;
        }
    }
}

static void on_work_done(pal_work_item *item);

void pal_oauth_use_file(pal_oauth *o, pal_oauth_step step, bool is_write)
{
    o->flow.step = step;
    o->work.oauth = o;
    o->work.is_write = is_write;
    o->work.is_subject = step == PAL_OAUTH_STEP_SUBJECT;
    pal_arena_free(o->work.arena);
    o->work.arena = pal_arena_new(0);
    if (!o->work.arena) {
        pal_oauth_fail(o, PAL_NO_MEMORY, "out of memory");
        return;
    }
    if (is_write)
        o->work.login = pal_oauth_login_copy(&o->login, o->work.arena);
    o->work.item = (pal_work_item){.work = run_work, .done = on_work_done};
    pal_oauth_enter(o); /* until the worker has ended */
    pal_loop_work(o->loop, &o->work.item);
}

static bool is_ours(const pal_oauth *o, const pal_oauth_login *login)
{
    pal_error err;
    return pal_str_equal(login->url, o->config.url) &&
            (!o->auth.client_id.len || pal_str_equal(o->auth.client_id, login->client_id)) &&
            pal_oauth_check_url("token_endpoint", login->token_endpoint, o->allow_local, &err) ==
            PAL_OK;
}

/* Returns whether the file has another token than this process. */
static bool take_file(pal_oauth *o)
{
    const pal_oauth_work *w = &o->work;
    if (w->status == PAL_OK && is_ours(o, &w->login) &&
            !pal_str_equal(w->login.access_token, o->login.access_token))
        return pal_oauth_adopt(o, &w->login);
    if (w->status != PAL_OK && w->status != PAL_NOT_FOUND)
        warn(o, w->err.message);
    return false;
}

static void on_loaded(pal_oauth *o, pal_oauth_step step)
{
    bool was_missing = o->needs_login;
    if (o->work.key.len)
        o->key = pal_arena_copy(o->arena, o->work.key);
    bool is_new = take_file(o);
    o->is_loaded = true;
    if (step == PAL_OAUTH_STEP_RELOAD && !is_new) {
        pal_oauth_flow_discover(o);
        return;
    }
    pal_oauth_finish(o, PAL_OK, (pal_str){0});
    if (o->closed || !was_missing)
        return;
    o->needs_login = !is_new;
    if (is_new)
        o->config.on_login(o->config.user);
    else
        poll_later(o);
}

static void on_work_done(pal_work_item *item)
{
    pal_oauth_work *w = (pal_oauth_work *)((char *)item - offsetof(pal_oauth_work, item));
    pal_oauth *o = w->oauth;
    pal_oauth_step step = o->flow.step;
    if (!o->closed && step == PAL_OAUTH_STEP_SAVE) {
        if (w->status != PAL_OK && o->config.is_login)
            pal_oauth_fail_with(o, &w->err);
        else if (w->status != PAL_OK)
            warn(o, w->err.message);
        if (o->flow.step == PAL_OAUTH_STEP_SAVE)
            pal_oauth_finish(o, PAL_OK, (pal_str){0});
    } else if (!o->closed && step == PAL_OAUTH_STEP_SUBJECT) {
        if (w->status != PAL_OK)
            pal_oauth_fail_with(o, &w->err);
        else
            pal_oauth_on_subject(o, w->subject);
    } else if (!o->closed) {
        on_loaded(o, step);
    }
    w->key = (pal_str){0};
    pal_oauth_release(o);
}

static void on_poll(pal_timer *timer)
{
    pal_oauth *o = (pal_oauth *)((char *)timer - offsetof(pal_oauth, timer));
    pal_oauth_use_file(o, PAL_OAUTH_STEP_LOAD, false);
}

static void poll_later(pal_oauth *o)
{
    if (o->auth.file.len && o->config.on_login)
        (void)!pal_loop_timer_start(o->loop, &o->timer, POLL_MS, on_poll);
}

static void on_start(pal_timer *timer)
{
    pal_oauth *o = (pal_oauth *)((char *)timer - offsetof(pal_oauth, timer));
    pal_oauth_enter(o);
    if (!o->flow.arena) /* the token has changed since the request was sent */
        pal_oauth_finish(o, PAL_OK, (pal_str){0});
    else
        pal_oauth_flow_start(o);
    pal_oauth_release(o);
}

/* Begins a flow soon, because the owner does not expect a callback before this returns. */
static bool begin(pal_oauth *o, bool has_flow)
{
    o->flow.arena = has_flow ? pal_arena_new(0) : NULL;
    return (o->flow.arena || !has_flow) && pal_loop_timer_start(o->loop, &o->timer, 0, on_start);
}

bool pal_oauth_prepare(pal_oauth *oauth, pal_oauth_wait *wait)
{
    if (oauth->flow.step == PAL_OAUTH_STEP_NONE && !oauth->flow.arena && !begin(oauth, true)) {
        clear_flow(oauth);
        return false;
    }
    add_wait(oauth, wait);
    return true;
}

/* The token is right, but its proof must have the server's nonce, which the response contained. */
static bool wants_nonce(const pal_oauth *o, pal_str header)
{
    pal_oauth_challenge_values values = {0};
    pal_arena *arena = o->login.proof_key.len && o->server_nonce.len ? pal_arena_new(0) : NULL;
    if (arena)
        pal_oauth_challenge_read(header, arena, &values);
    bool wants = values.is_bound && pal_str_is(values.error, "use_dpop_nonce");
    pal_arena_free(arena);
    return wants;
}

bool pal_oauth_challenge(
        pal_oauth *oauth, long code, pal_str header, uint32_t serial, pal_oauth_wait *wait)
{
    pal_oauth_flow *f = &oauth->flow;
    bool is_new = serial == oauth->serial && !wants_nonce(oauth, header);
    if (f->step == PAL_OAUTH_STEP_NONE && !f->arena) {
        if (!begin(oauth, is_new)) {
            clear_flow(oauth);
            return false;
        }
        if (is_new) {
            pal_oauth_challenge_read(header, f->arena, &f->challenge);
            f->challenge.resource_metadata =
                    pal_arena_copy(f->arena, f->challenge.resource_metadata);
            f->challenge.scope = pal_arena_copy(f->arena, f->challenge.scope);
            f->is_step_up = code == 403;
        }
    }
    add_wait(oauth, wait);
    return true;
}

/* ---- Opening and closing ---- */

static void copy_config(pal_oauth *o, const pal_oauth_config *from)
{
    pal_str *texts[] = {&o->config.name, &o->config.url, &o->config.redirect_uri,
            &o->auth.client_id, &o->auth.client_secret, &o->auth.client_key,
            &o->auth.client_metadata_url, &o->auth.scope, &o->auth.issuer, &o->auth.file,
            &o->auth.token_file, &o->idp.token_url, &o->idp.client_id, &o->idp.client_secret};
    o->config = *from;
    if (from->auth)
        o->auth = *from->auth;
    if (o->auth.idp)
        o->idp = *o->auth.idp;
    o->auth.idp = NULL;
    o->config.auth = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = pal_arena_copy(o->arena, *texts[i]);
}

bool pal_oauth_is_possible(pal_str url)
{
    pal_error err;
    return pal_oauth_check_url("the server's URL", url, true, &err) == PAL_OK;
}

pal_status pal_oauth_open(pal_loop *loop, pal_http *http, const pal_oauth_config *config,
        pal_oauth **out_oauth, pal_error *err)
{
    pal_oauth_url url;
    if (pal_oauth_check_url("the server's URL", config->url, true, err) ||
            !pal_oauth_url_read(config->url, &url))
        return PAL_INVALID;
    pal_oauth *o = pal_calloc(1, sizeof *o);
    if (!o)
        return pal_no_memory(err);
    o->loop = loop;
    o->client = http;
    o->serial = 1;
    o->allow_local = pal_oauth_url_is_local(&url);
    pal_buf_init(&o->body, PAL_OAUTH_RESPONSE_BYTES_MAX);
    pal_buf_init(&o->header, PAL_OAUTH_RESPONSE_BYTES_MAX);
    pal_buf_init(&o->server_nonce, PAL_OAUTH_NONCE_LEN_MAX);
    pal_buf_init(&o->issuer_nonce, PAL_OAUTH_NONCE_LEN_MAX);
    o->arena = pal_arena_new(0);
    if (o->arena)
        copy_config(o, config);
    if (!o->arena || pal_arena_failure(o->arena)) {
        free_oauth(o);
        return pal_no_memory(err);
    }
    o->is_loaded = !o->auth.file.len && !o->auth.client_key.len;
    if (!o->is_loaded)
        pal_oauth_use_file(o, PAL_OAUTH_STEP_LOAD, false);
    *out_oauth = o;
    return PAL_OK;
}

void pal_oauth_close(pal_oauth *oauth)
{
    if (!oauth)
        return;
    pal_oauth_enter(oauth);
    oauth->closed = true;
    if (oauth->http)
        pal_http_cancel(oauth->http);
    oauth->http = NULL;
    pal_loop_timer_stop(oauth->loop, &oauth->timer);
    while (oauth->waits)
        pal_oauth_leave(oauth->waits);
    pal_oauth_release(oauth);
}
