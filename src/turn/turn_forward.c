/* turn_forward.c - passes a request on to an endpoint, and its answer back, both as they are: no
 * session, no context, no retry.
 *
 * A forwarding has two owners: the loop, until its end is told, and the caller, until it lets go.
 * Both are counted on the loop only, so that nothing needs a lock; letting go is a task that lies
 * in the forwarding itself and can't fail. What an error says is gathered first, so that no key of
 * ours can be in it. */
#include "turn/turn_forward.h"

#include "base/memory.h"

struct pal_forwarding {
    pal_runtime *runtime;
    pal_forwarding *previous, *next; /* of those that run */
    pal_provider *provider;
    pal_str path; /* these two in one piece of memory with it */
    pal_str body;
    pal_forward_sink sink;
    void *user;
    pal_http_call *call; /* NULL: not begun, or ended */
    pal_task begin;
    pal_task leave;
    pal_buf failure; /* the body of an error */
    bool is_error;
    bool is_over; /* the end was told */
    bool is_left; /* the caller has let go */
};

static void free_forwarding(pal_forwarding *f)
{
    pal_buf_done(&f->failure);
    pal_free(f);
}

static void unlist(pal_forwarding *f)
{
    pal_runtime *runtime = f->runtime;

    if (f->previous)
        f->previous->next = f->next;
    else
        runtime->forwards = f->next;
    if (f->next)
        f->next->previous = f->previous;
    pthread_mutex_lock(&runtime->lock);
    runtime->forwards_len--;
    pthread_cond_broadcast(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
}

/* The sink may let go from here: that is a task for later. */
static void tell_end(pal_forwarding *f, pal_status status, const char *why)
{
    pal_error err = {0};

    pal_error_set(&err, status, "%s", why);
    f->is_over = true;
    unlist(f);
    f->sink.end(status, status == PAL_OK ? NULL : &err, f->user);
    if (f->is_left)
        free_forwarding(f);
}

/* ---- What comes ---- */

static void on_header(void *user, pal_str name, pal_str value)
{
    pal_forwarding *f = user;

    if (f->sink.header)
        f->sink.header(name, value, f->user);
}

static void on_head(void *user, long code)
{
    pal_forwarding *f = user;

    f->is_error = code >= 400;
    f->sink.head((unsigned)code, f->user);
}

static void on_body(void *user, pal_str bytes)
{
    pal_forwarding *f = user;

    if (f->is_error)
        pal_buf_append_str(&f->failure, bytes);
    else
        f->sink.bytes(bytes, f->user);
}

static void on_end(void *user, const pal_http_end *end)
{
    pal_forwarding *f = user;

    f->call = NULL;
    if (f->is_error && !f->failure.failure) {
        pal_provider_redact(f->provider, &f->failure);
        if (f->failure.len > 0)
            f->sink.bytes(pal_buf_str(&f->failure), f->user);
    }
    tell_end(f, end->status, end->error);
}

/* ---- Its life ---- */

static void begin(pal_task *task)
{
    static const pal_http_events events = {on_head, on_header, on_body, on_end};
    pal_forwarding *f = (pal_forwarding *)((char *)task - offsetof(pal_forwarding, begin));
    pal_runtime *runtime = f->runtime;
    pal_error err = {0};
    pal_status status;

    f->next = runtime->forwards;
    if (f->next)
        f->next->previous = f;
    runtime->forwards = f;
    if (runtime->is_closing)
        status = pal_error_set(&err, PAL_CANCELED, "the server stops");
    else
        status = pal_provider_forward(f->provider, f->path, f->body, &events, f, &f->call, &err);
    if (status != PAL_OK)
        tell_end(f, status, err.message);
}

static void stop(pal_forwarding *f, const char *why)
{
    if (f->call)
        pal_http_cancel(f->call);
    f->call = NULL;
    tell_end(f, PAL_CANCELED, why);
}

static void leave(pal_task *task)
{
    pal_forwarding *f = (pal_forwarding *)((char *)task - offsetof(pal_forwarding, leave));

    f->is_left = true;
    if (f->is_over)
        free_forwarding(f);
    else
        stop(f, "nobody waits for it");
}

void pal_forwards_stop(pal_runtime *runtime)
{
    while (runtime->forwards)
        stop(runtime->forwards, "the server stops");
}

static pal_status find_provider(
        pal_runtime *runtime, const pal_forward *request, pal_provider **out, pal_error *err)
{
    const pal_runtime_options *options = &runtime->options;
    pal_str model = request->model.len ? request->model : options->model;
    size_t at = pal_settings_endpoint_of_model(options, model, 0);

    if (request->endpoint.len > 0 && !pal_settings_endpoint(options, request->endpoint, &at))
        return pal_error_set(err, PAL_NOT_FOUND, "there is no endpoint '%.*s'",
                (int)(request->endpoint.len < 80 ? request->endpoint.len : 80),
                request->endpoint.data);
    if (!pal_provider_speaks_chat(runtime->providers[at]))
        return pal_error_set(err, PAL_CONFLICT,
                "endpoint '%.*s' is of kind '%.*s', which takes no such requests",
                PAL_STR_ARG(options->endpoints[at].name), PAL_STR_ARG(options->endpoints[at].kind));
    *out = runtime->providers[at];
    return PAL_OK;
}

pal_status pal_runtime_forward(pal_runtime *runtime, const pal_forward *request,
        const pal_forward_sink *sink, void *user, pal_forwarding **out_forwarding, pal_error *err)
{
    pal_provider *provider = NULL;
    pal_forwarding *f;
    char *texts;
    pal_status status = find_provider(runtime, request, &provider, err);

    if (status != PAL_OK)
        return status;
    f = pal_calloc(1, sizeof(*f) + request->path.len + request->body.len);
    if (!f)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    texts = (char *)(f + 1);
    memcpy(texts, request->path.data, request->path.len);
    memcpy(texts + request->path.len, request->body.data, request->body.len);
    f->runtime = runtime;
    f->provider = provider;
    f->path = pal_str_make(texts, request->path.len);
    f->body = pal_str_make(texts + request->path.len, request->body.len);
    f->sink = *sink;
    f->user = user;
    f->begin.run = begin;
    f->leave.run = leave;
    pal_buf_init(&f->failure, PAL_PROVIDER_BODY_BYTES_MAX);
    pthread_mutex_lock(&runtime->lock);
    runtime->forwards_len++;
    pthread_mutex_unlock(&runtime->lock);
    *out_forwarding = f;
    pal_loop_post(runtime->loop, &f->begin);
    return PAL_OK;
}

void pal_forwarding_leave(pal_forwarding *forwarding)
{
    if (forwarding)
        pal_loop_post(forwarding->runtime->loop, &forwarding->leave);
}
