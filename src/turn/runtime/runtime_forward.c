/* runtime_forward.c - passes a request to an endpoint and its response back, both unchanged:
 * without a session, a context or retries.
 *
 * The cost is counted as for a turn; if the service reports no usage, we count it ourselves. A
 * tenant's budget can refuse the call before it is made. The call holds a reservation until the
 * ledger has its usage.
 *
 * A forwarding has up to three owners: the loop, until the end is reported; the caller, until it
 * releases the forwarding; and a worker, while it checks the budget or counts, which can take
 * longer than both. Ownership changes only on the loop, so no lock is needed. The caller's release
 * is a task inside the forwarding, and cannot fail. The worker reads only members that never
 * change, and writes only its results.
 *
 * The ledger row is written after the end and owns its memory, because the forwarding may be freed
 * by then. If its session is not known yet, it waits for the caller's release. The body of an error
 * is gathered completely first, so that our API key can be removed from it. A crash loses the call
 * and its row. */
#include "turn/runtime/runtime_forward.h"
#include "base/clock.h"

#include "base/memory.h"
#include "base/text.h"
#include "message/message_check.h"
#include "turn/runtime/runtime_budget.h"
#include "turn/runtime/runtime_owner.h"
#include "turn/turn.h"
#include "turn/turn_affinity.h"

struct pal_forward_call {
    pal_runtime *runtime;
    pal_forward_call *previous, *next; /* links of the list of running forwards */
    size_t endpoint;                 /* its index in the runtime's list */
    pal_str tenant;                  /* this and the next three texts are in the same allocation */
    pal_str model;                   /* the requested model; empty: the endpoint's default model */
    pal_str path;
    pal_str body;
    char conversation[2 * PAL_AFFINITY_ID_BYTES + 1]; /* the id for the router; may be empty */
    pal_header *headers; /* with their texts in the same allocation */
    size_t headers_len;
    pal_forward_api api;
    bool is_free; /* see pal_forward */
    bool has_late_session; /* see pal_forward */
    pal_id session;        /* the session of the ledger row; may be empty */
    struct bill *bill;     /* waits for the caller's release; NULL: none */
    pal_budget budget;
    pal_forward_sink sink;
    void *user;
    pal_http_call *call; /* NULL: not begun, or ended */
    pal_meter *meter;
    pal_task begin;
    pal_task leave;
    pal_work_item lookup; /* checks the budget */
    pal_status lookup_status;
    pal_error lookup_error;
    pal_reservation *held; /* reservation of the budget; NULL: none */
    pal_work_item finish;  /* finishes the meter on a worker, if the response is long */
    pal_http_end ended;    /* input of `on_done`: how the call ended */
    bool was_stopped;      /* input of `on_done`: we have stopped the call */
    const pal_model_end *measured; /* result of the meter, which owns it */
    pal_work_item tally;   /* counts usage that the service did not report */
    uint64_t input;        /* tokens of the request by our count; 0: not counted */
    uint64_t output;
    pal_str told_model;    /* the model that the response names; owned by the meter */
    pal_buf failure; /* the body of an error */
    bool is_error;
    bool is_looking; /* a worker is using the forwarding */
    bool has_head;   /* a response has begun */
    bool is_over;    /* the end was reported */
    bool is_left;    /* the caller has released it */
    int64_t called_us; /* when the call began, by the monotonic clock */
    int64_t first_us;  /* when the first bytes of the answer came; 0: none yet */
};

static pal_provider *provider_of(const pal_forward_call *f)
{
    return f->runtime->providers[f->endpoint];
}

/* Called after an owner has released the forwarding. */
static void free_unowned(pal_forward_call *f)
{
    if (!f->is_over || !f->is_left || f->is_looking)
        return;
    pal_budget_release(f->held);
    pal_meter_free(f->meter);
    pal_buf_done(&f->failure);
    pal_free(f);
}

/* Copies a text to *at, and moves *at to its end. */
static pal_str put_text(char **at, pal_str text)
{
    pal_str copy = pal_str_make(*at, text.len);

    if (text.len > 0)
        memcpy(*at, text.data, text.len);
    *at += text.len;
    return copy;
}

/* pal_runtime_drain() waits until this is 0. */
static void count_forwards(pal_runtime *runtime, int change)
{
    pthread_mutex_lock(&runtime->lock);
    runtime->forwards_len += (size_t)change;
    pthread_cond_broadcast(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
}

static void unlist(pal_forward_call *f)
{
    pal_runtime *runtime = f->runtime;

    if (f->previous)
        f->previous->next = f->next;
    else
        runtime->forwards = f->next;
    if (f->next)
        f->next->previous = f->previous;
    pal_owner_leave(runtime, &f->budget);
    count_forwards(runtime, -1);
}

/* The sink can release the forwarding from its callback: that only posts a task. */
static void tell_end(pal_forward_call *f, pal_status status, const char *why)
{
    pal_error err = {0};

    pal_error_set(&err, status, "%s", why);
    f->is_over = true;
    unlist(f);
    f->sink.end(status, status == PAL_OK ? NULL : &err, f->user);
    free_unowned(f);
}

/* ---- What it cost ---- */

static const pal_encoding *encoding_of(const pal_forward_call *f)
{
    return pal_models_find(f->runtime->options.models, f->model).encoding;
}

typedef struct bill {
    pal_write write;
    pal_op op;
    pal_ledger_row row;
    char request_id[PAL_ID_TEXT_SIZE];
    pal_reservation *held; /* the reservation that this row replaces */
} bill; /* its texts follow in the same allocation */

static void on_bill_stored(pal_write *write)
{
    bill *b = (bill *)((char *)write - offsetof(bill, write));

    pal_budget_release(b->held);
    pal_free(b);
}

static void write_bill(pal_forward_call *f, bill *b)
{
    b->op.session = f->session;
    pal_runtime_write(f->runtime, &b->write);
}

/* If there is no memory there is no row, as for a turn. */
static void keep_bill(
        pal_forward_call *f, pal_str model, const pal_usage *usage, int64_t cost_micros)
{
    pal_str provider = pal_provider_name(provider_of(f));
    bill *b = pal_calloc(1, sizeof(*b) + f->tenant.len + provider.len + model.len);
    char *texts;

    if (!b)
        return;
    texts = (char *)(b + 1);
    pal_id_to_text(pal_id_new(), b->request_id);
    b->op = pal_op_ledger_add(put_text(&texts, f->tenant), (pal_id){{0}}, &b->row);
    b->row = (pal_ledger_row){
            .request_id = pal_str_of(b->request_id),
            .purpose = pal_str_of("forward"),
            .provider = put_text(&texts, provider),
            .model = put_text(&texts, model),
            .price_version = f->runtime->options.price_version,
            .usage = *usage,
            .cost_micros = cost_micros,
    };
    b->held = f->held;
    f->held = NULL;
    pal_budget_hold_only(b->held,
            usage->input + usage->output + usage->cache_read + usage->cache_write, cost_micros);
    b->write = (pal_write){.ops = &b->op, .ops_len = 1, .done = on_bill_stored};
    if (!f->has_late_session || f->is_left) {
        write_bill(f, b);
        return;
    }
    f->bill = b;
    count_forwards(f->runtime, 1);
}

/* The caller has released the forwarding, so the session is known. */
static void write_late_bill(pal_forward_call *f)
{
    if (!f->bill)
        return;
    write_bill(f, f->bill);
    f->bill = NULL;
    count_forwards(f->runtime, -1);
}

static bool is_label(pal_str name)
{
    return name.len > 0 && pal_text_check(name, "model", PAL_LABEL_LEN_MAX, true, NULL) == PAL_OK;
}

/* Model names come from outside: a name that the ledger does not accept must not make a call free.
 * Prices are listed by the requested names; services often answer with longer ones. If the request
 * names "auto", only the response shows which model it was. */
static void charge(pal_forward_call *f, pal_str reported, const pal_usage *usage)
{
    pal_runtime *runtime = f->runtime;
    pal_str requested = f->model;
    pal_str model = is_label(reported) ? reported : is_label(requested) ? requested : (pal_str){0};
    int64_t cost_micros = pal_budget_cost(runtime, requested, usage);

    if (cost_micros == 0)
        cost_micros = pal_budget_cost(runtime, reported, usage);
    pal_runtime_add_usage(runtime, usage, cost_micros);
    keep_bill(f, model, usage, cost_micros);
}

static pal_forward_call *of_tally(pal_work_item *item)
{
    return (pal_forward_call *)((char *)item - offsetof(pal_forward_call, tally));
}

/* Runs on a worker. The meter gets no more input. */
static void tally(pal_work_item *item)
{
    pal_forward_call *f = of_tally(item);
    const pal_encoding *encoding = encoding_of(f);
    pal_str text;
    uint64_t len = pal_meter_said(f->meter, &text);

    if (f->input == 0)
        f->input = pal_forward_count_input(encoding, f->api, f->body);
    f->output = pal_forward_count_output(encoding, text, len);
}

static void on_tallied(pal_work_item *item)
{
    pal_forward_call *f = of_tally(item);
    pal_usage usage = {.input = f->input, .output = f->output};

    f->is_looking = false;
    charge(f, f->told_model, &usage);
    count_forwards(f->runtime, -1);
    free_unowned(f);
}

static void report(const pal_forward_call *f)
{
    const pal_model_end *end = f->measured;
    pal_str model = is_label(f->model) ? f->model : end->model;
    pal_usage none = {0};
    const pal_usage *usage = end->has_usage ? &end->usage : &none;
    pal_runtime_report_call(f->runtime,
            &(pal_model_report){.endpoint = pal_provider_name(provider_of(f)),
                    .model = model,
                    .purpose = "forward",
                    .status = f->is_error ? PAL_PROVIDER : end->status,
                    .usage = *usage,
                    .cost_micros = pal_budget_cost(f->runtime, model, usage),
                    .duration_us = pal_clock_monotonic_us() - f->called_us,
                    .first_us = f->first_us ? f->first_us - f->called_us : 0});
}

/* A response that failed without output is free, unless we ended the call: a client that leaves
 * early still pays for its request. */
static void settle(pal_forward_call *f)
{
    const pal_model_end *end = f->measured;
    pal_str text;
    bool has_failed = f->is_error ||
            (!f->was_stopped && end->status != PAL_OK && pal_meter_said(f->meter, &text) == 0);

    report(f);
    if (end->has_usage) {
        charge(f, end->model, &end->usage);
    } else if (f->has_head && !has_failed) {
        pal_usage about = {.input = f->input, .output = pal_meter_said(f->meter, &text) / 3};

        pal_budget_hold_only(f->held, about.input + about.output,
                pal_budget_cost(f->runtime, f->model, &about));
        f->told_model = end->model;
        f->is_looking = true;
        count_forwards(f->runtime, 1);
        pal_loop_work(f->runtime->loop, &f->tally);
    }
}

static pal_forward_call *of_finish(pal_work_item *item)
{
    return (pal_forward_call *)((char *)item - offsetof(pal_forward_call, finish));
}

/* Runs on a worker. The meter gets no more input. */
static void measure(pal_work_item *item)
{
    pal_forward_call *f = of_finish(item);

    f->measured = pal_meter_finish_apart(f->meter, f->was_stopped ? NULL : &f->ended);
}

static void on_measured(pal_work_item *item)
{
    pal_forward_call *f = of_finish(item);

    f->is_looking = false;
    settle(f);
    count_forwards(f->runtime, -1);
    free_unowned(f);
}

/* `http` is the same as in pal_meter_finish(). */
static void count(pal_forward_call *f, const pal_http_end *http)
{
    if (f->is_free)
        return;
    f->was_stopped = !http;
    if (!pal_meter_is_long(f->meter)) {
        f->measured = pal_meter_finish(f->meter, http);
        settle(f);
        return;
    }
    if (http)
        f->ended = *http;
    f->is_looking = true;
    count_forwards(f->runtime, 1);
    pal_loop_work(f->runtime->loop, &f->finish);
}

/* ---- The response ---- */

static void on_head(void *user, const pal_http_head *head)
{
    pal_forward_call *f = user;

    f->has_head = true;
    f->is_error = head->code >= 400;
    pal_meter_head(f->meter, head);
    for (size_t i = 0; i < head->headers_len && f->sink.header; i++)
        f->sink.header(head->headers[i].name, head->headers[i].value, f->user);
    f->sink.head((unsigned)head->code, f->user);
}

static void on_body(void *user, pal_str bytes)
{
    pal_forward_call *f = user;

    if (f->is_error) {
        pal_buf_append_str(&f->failure, bytes);
        return;
    }
    if (!f->first_us)
        f->first_us = pal_clock_monotonic_us();
    pal_meter_feed(f->meter, bytes);
    f->sink.bytes(bytes, f->user);
}

static void on_end(void *user, const pal_http_end *end)
{
    pal_forward_call *f = user;

    f->call = NULL;
    if (f->is_error && !f->failure.failure) {
        pal_provider_redact(provider_of(f), &f->failure);
        if (f->failure.len > 0)
            f->sink.bytes(pal_buf_str(&f->failure), f->user);
    }
    count(f, end);
    tell_end(f, end->status, end->error);
}

/* ---- Beginning and ending ---- */

static void call(pal_forward_call *f)
{
    static const pal_http_events events = {on_head, on_body, on_end};
    pal_runtime *runtime = f->runtime;
    pal_error err = {0};
    f->called_us = pal_clock_monotonic_us();
    const pal_provider_forwarded forwarded = {.path = f->path,
            .body = f->body,
            .headers = f->headers,
            .headers_len = f->headers_len,
            .conversation = pal_str_of(f->conversation)};
    pal_status status =
            pal_provider_forward(provider_of(f), &forwarded, &events, f, &f->call, &err);

    if (status != PAL_OK) {
        tell_end(f, status, err.message);
        return;
    }
    pthread_mutex_lock(&runtime->lock);
    runtime->stats.model_calls++;
    pthread_mutex_unlock(&runtime->lock);
}

static pal_forward_call *of_lookup(pal_work_item *item)
{
    return (pal_forward_call *)((char *)item - offsetof(pal_forward_call, lookup));
}

/* Runs on a worker. */
static void look_up(pal_work_item *item)
{
    pal_forward_call *f = of_lookup(item);

    pal_runtime *runtime = f->runtime;
    pal_budget_holder holder = {.budget = &f->budget, .tenant = f->tenant};
    pal_usage usage = {.input = pal_forward_count_input(encoding_of(f), f->api, f->body),
            .output = pal_forward_count_limit(f->body, PAL_BUDGET_OUTPUT_TOKENS)};

    f->input = usage.input;
    f->lookup_status = pal_budget_hold(&runtime->budgets, runtime->store, &holder,
            usage.input + usage.output, pal_budget_cost(runtime, f->model, &usage), &f->held,
            &f->lookup_error);
}

static void on_looked_up(pal_work_item *item)
{
    pal_forward_call *f = of_lookup(item);

    f->is_looking = false;
    if (f->is_over)
        free_unowned(f);
    else if (f->lookup_status != PAL_OK)
        tell_end(f, f->lookup_status, f->lookup_error.message);
    else
        call(f);
}

static void begin(pal_task *task)
{
    pal_forward_call *f = (pal_forward_call *)((char *)task - offsetof(pal_forward_call, begin));
    pal_runtime *runtime = f->runtime;

    f->next = runtime->forwards;
    if (f->next)
        f->next->previous = f;
    runtime->forwards = f;
    if (f->model.len == 0) /* only the loop may read the default models; workers read this copy */
        f->model = runtime->provider_models[f->endpoint];
    if (runtime->is_closing) {
        tell_end(f, PAL_CANCELED, "the server is stopping");
    } else if (!f->is_free && pal_budget_binds_tenant(&f->budget)) {
        f->is_looking = true;
        pal_loop_work(runtime->loop, &f->lookup);
    } else {
        call(f);
    }
}

static void stop(pal_forward_call *f, const char *why)
{
    if (f->call) {
        pal_http_cancel(f->call);
        f->call = NULL;
        count(f, NULL);
    }
    tell_end(f, PAL_CANCELED, why);
}

static void leave(pal_task *task)
{
    pal_forward_call *f = (pal_forward_call *)((char *)task - offsetof(pal_forward_call, leave));

    f->is_left = true;
    write_late_bill(f);
    if (f->is_over)
        free_unowned(f);
    else
        stop(f, "the caller no longer waits for the response");
}

void pal_forwards_stop(pal_runtime *runtime)
{
    while (runtime->forwards)
        stop(runtime->forwards, "the server is stopping");
}

static bool speaks(const pal_provider *provider, pal_forward_api api)
{
    switch (api) {
    case PAL_FORWARD_MESSAGES:
        return pal_provider_speaks_messages(provider);
    case PAL_FORWARD_RESPONSES:
        return pal_provider_speaks_responses(provider);
    default:
        return pal_provider_speaks_chat(provider);
    }
}

/* Finds the endpoint and the model to request. An empty model means the endpoint's default
 * model. */
static pal_status find_endpoint(const pal_runtime *runtime, const pal_forward *request,
        size_t *out_endpoint, pal_str *out_model, pal_error *err)
{
    const pal_runtime_options *options = &runtime->options;
    bool is_named = request->endpoint.len > 0;
    pal_str model = request->model.len ? request->model : options->model;
    size_t at = pal_turn_settings_endpoint_of_model(options, model, 0);

    if (is_named && !pal_turn_settings_endpoint(options, request->endpoint, &at))
        return pal_error_set(err, PAL_NOT_FOUND, "unknown endpoint '%.*s'",
                PAL_EXCERPT(request->endpoint, 80));
    if (!speaks(runtime->providers[at], request->api))
        return pal_error_set(err, PAL_CONFLICT,
                "endpoint '%.*s' is of kind '%.*s', which does not support this request",
                PAL_STR_ARG(options->endpoints[at].name), PAL_STR_ARG(options->endpoints[at].kind));
    *out_endpoint = at;
    *out_model = is_named ? request->model : model;
    return PAL_OK;
}

bool pal_runtime_speaks(
        const pal_runtime *runtime, pal_str endpoint, pal_str model, pal_forward_api api)
{
    const pal_forward request = {.endpoint = endpoint, .model = model, .api = api};
    pal_str found;
    size_t at;

    return find_endpoint(runtime, &request, &at, &found, NULL) == PAL_OK;
}

static size_t headers_size(const pal_forward *request)
{
    size_t size = request->headers_len * sizeof(pal_header);

    for (size_t i = 0; i < request->headers_len; i++)
        size += request->headers[i].name.len + request->headers[i].value.len;
    return size;
}

/* Returns NULL if there is no memory. */
static pal_forward_call *make(
        pal_runtime *runtime, const pal_forward *request, size_t endpoint, pal_str model)
{
    pal_forward_call *f = pal_calloc(1,
            sizeof(*f) + headers_size(request) + request->tenant.len + model.len +
                    request->path.len + request->body.len);
    pal_affinity_ids ids;
    char *texts;

    if (!f)
        return NULL;
    f->headers = (pal_header *)(f + 1);
    f->headers_len = request->headers_len;
    texts = (char *)(f->headers + f->headers_len);
    for (size_t i = 0; i < request->headers_len; i++) {
        f->headers[i].name = put_text(&texts, request->headers[i].name);
        f->headers[i].value = put_text(&texts, request->headers[i].value);
    }
    f->api = request->api;
    f->is_free = request->is_free;
    f->has_late_session = request->has_late_session;
    f->meter = pal_meter_new(runtime->providers[endpoint], request->api);
    if (!f->meter) {
        pal_free(f);
        return NULL;
    }
    f->runtime = runtime;
    f->endpoint = endpoint;
    f->tenant = put_text(&texts, request->tenant);
    f->model = put_text(&texts, model);
    f->path = put_text(&texts, request->path);
    f->body = put_text(&texts, request->body);
    f->budget = request->budget;
    if (request->conversation.len > 0 &&
            pal_affinity_ids_make(runtime, request->tenant, request->conversation, &ids))
        memcpy(f->conversation, ids.conversation, sizeof(f->conversation));
    f->begin.run = begin;
    f->leave.run = leave;
    f->lookup = (pal_work_item){.work = look_up, .done = on_looked_up};
    f->finish = (pal_work_item){.work = measure, .done = on_measured};
    f->tally = (pal_work_item){.work = tally, .done = on_tallied};
    pal_buf_init(&f->failure, PAL_PROVIDER_ERROR_BYTES_MAX);
    return f;
}

/* Returns NULL on failure. */
static pal_forward_call *make_request(pal_runtime *runtime, const pal_forward *request,
        size_t endpoint, pal_str model, pal_error *err)
{
    pal_forward asked = *request;
    pal_arena *arena = NULL;
    pal_forward_call *f = NULL;
    pal_status status = PAL_OK;

    if (request->asks_usage && pal_provider_hides_usage(runtime->providers[endpoint])) {
        arena = pal_arena_new(0);
        status = arena ? pal_forward_ask_usage(request->body, arena, &asked.body, err)
                       : pal_no_memory(err);
    }
    if (status == PAL_OK)
        f = make(runtime, &asked, endpoint, model);
    if (status == PAL_OK && !f)
        pal_no_memory(err);
    pal_arena_free(arena);
    return f;
}

pal_status pal_runtime_forward(pal_runtime *runtime, const pal_forward *request,
        const pal_forward_sink *sink, void *user, pal_forward_call **out_call, pal_error *err)
{
    pal_error problem = {0};
    pal_forward_call *f;
    pal_str model = {0};
    size_t endpoint = 0;
    pal_status status = pal_text_check(request->tenant, "tenant", PAL_TENANT_LEN_MAX, true, err);

    if (status == PAL_OK)
        status = find_endpoint(runtime, request, &endpoint, &model, err);
    if (status != PAL_OK)
        return status;
    f = make_request(runtime, request, endpoint, model, &problem);
    if (!f)
        return pal_error_set(err, problem.status, "%s", problem.message);
    f->sink = *sink;
    f->user = user;
    pal_owner_enter(runtime, &f->budget);
    count_forwards(runtime, 1);
    *out_call = f;
    pal_loop_post(runtime->loop, &f->begin);
    return PAL_OK;
}

void pal_forward_call_release(pal_forward_call *forwarding)
{
    if (forwarding)
        pal_loop_post(forwarding->runtime->loop, &forwarding->leave);
}

void pal_forward_call_set_session(pal_forward_call *forwarding, pal_id session)
{
    forwarding->session = session;
}
