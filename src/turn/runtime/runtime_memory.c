/* runtime_memory.c - runs extractions. See runtime_memory.h.
 *
 * A session is due if a record says so. The record is written in the commit that ends a turn, and
 * removed when everything that was said has been read. So a crash loses no extraction: the next
 * runtime finds the record. A crash while one runs repeats it, because its notes and the mark up to
 * where it has read are one commit (memory_extract.c). If two processes extract from one session,
 * the second one finds another mark and keeps nothing.
 *
 * The records are in a tenant of their own, because a runtime does not know all tenants. They have
 * no text of a message.
 *
 * The loop owns the list of jobs. While a worker has a job, the loop does not touch what the
 * worker uses: the arena, `extract`, `status` and `err`. */
#include "turn/runtime/runtime_memory.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/text.h"
#include "memory/memory_extract.h"
#include "memory/memory_shown.h"
#include "palaver/limits.h"
#include "palaver/store_admin.h"
#include "tokens/tokens_estimate.h"

#define DUE_TENANT "\001memory"
#define DUE_KIND "memory_due"
#define LEDGER_NAME "memory" /* purpose and agent of the rows in the ledger */
#define ANSWER_BYTES_MAX ((size_t)256 << 10)
#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define TOKENS_PER_DAY 300000

enum {
    RUNS_MAX = 2,            /* extractions at the same time */
    JOBS_MAX = 10000,        /* sessions that are known to be due; others wait for the next scan */
    OUTPUT_TOKENS = 2000,    /* maximum of an answer */
    QUIET_MS = 2 * 60 * 1000,
    RETRY_FIRST_MS = 10 * 1000,
    RETRY_MAX_MS = 3600 * 1000,
    BUDGET_WAIT_MS = 3600 * 1000,
    SCAN_MS = 10 * 60 * 1000, /* between searches for sessions that other processes have left */
    TRIES_MAX = 5, /* then the session waits for its next turn */
};

typedef struct memory_job memory_job;
typedef struct pal_memory_runner pal_memory_runner;
struct memory_job {
    memory_job *next;
    pal_runtime *runtime;
    pal_str tenant; /* stored after the struct */
    pal_id session;
    int64_t due_ms;   /* by the store's clock; when it is looked at next */
    bool is_running;
    bool is_forced;   /* the run reads everything now, because a turn waits for it */
    bool is_again;    /* a turn has ended in the session since the job was begun */
    bool is_over;     /* nothing is left to read */
    uint32_t tries;
    pal_turn *waiter; /* a turn that waits to compact */
    pal_arena *arena;
    pal_work_item item;
    pal_extract_job extract;
    pal_extract_result result;
    pal_model_call *call;
    pal_provider *provider;
    pal_buf text;
    pal_usage usage;
    uint64_t due_version; /* of the record */
    pal_status status;
    pal_error err;
};

struct pal_memory_runner {
    pal_runtime *runtime;
    memory_job *jobs;
    size_t jobs_len;
    size_t running;
    pal_timer timer; /* the next job */
    pal_timer scan_timer;
    bool is_closing;
};

static void begin_due(pal_runtime *runtime);

static const pal_memory_settings *settings_of(const pal_runtime *runtime)
{
    const pal_memory_settings *settings = runtime->options.memory;

    return settings && settings->model.len > 0 ? settings : NULL;
}

/* ---- Records ---- */

static pal_str due_name(pal_str tenant, pal_id session, pal_arena *arena)
{
    char id[PAL_ID_TEXT_SIZE];
    char *name = pal_arena_alloc(arena, tenant.len + PAL_ID_TEXT_SIZE + 1);

    if (!name)
        return (pal_str){0};
    pal_id_to_text(session, id);
    memcpy(name, id, PAL_ID_TEXT_LEN);
    name[PAL_ID_TEXT_LEN] = '/';
    if (tenant.len > 0)
        memcpy(name + PAL_ID_TEXT_LEN + 1, tenant.data, tenant.len);
    return pal_str_make(name, PAL_ID_TEXT_LEN + 1 + tenant.len);
}

static pal_record due_record(pal_str tenant, pal_id session, pal_arena *arena)
{
    return (pal_record){.kind = pal_str_of(DUE_KIND),
            .name = due_name(tenant, session, arena),
            .body = pal_str_of("{}")};
}

static memory_job *find_job(const pal_runtime *runtime, pal_str tenant, pal_id session)
{
    memory_job *job = runtime->memory ? runtime->memory->jobs : NULL;

    while (job && !(pal_id_equal(job->session, session) && pal_str_equal(job->tenant, tenant)))
        job = job->next;
    return job;
}

static bool has_memory(const pal_turn *turn)
{
    return settings_of(turn->runtime) && turn->runtime->memory && turn->settings.has_memory;
}

const pal_record *pal_memory_expect(pal_turn *turn)
{
    pal_record *record;

    if (!has_memory(turn) || turn->summary.wait ||
            find_job(turn->runtime, turn->request.tenant, turn->request.session))
        return NULL;
    record = pal_arena_alloc(turn->arena, sizeof(*record));
    if (!record)
        return NULL;
    *record = due_record(turn->request.tenant, turn->request.session, turn->arena);
    return record->name.len > 0 ? record : NULL;
}

void pal_memory_add_due(pal_turn *turn, const pal_record *record)
{
    pal_op *op;

    pal_turn_add_op(turn,
            pal_op_record_put(turn->request.tenant, (pal_record *)record, PAL_RECORD_VERSION_ANY));
    if (!turn->commit.ops)
        return;
    op = &turn->commit.ops[turn->commit.write.ops_len - 1];
    op->tenant = pal_str_of(DUE_TENANT);
    op->session = (pal_id){{0}};
    op->fence = 0;
    op->with_previous = false;
}

/* ---- The list of jobs ---- */

static memory_job *add_job(pal_runtime *runtime, pal_str tenant, pal_id session, int64_t due_ms)
{
    pal_memory_runner *runner = runtime->memory;
    memory_job *job;

    if (runner->jobs_len == JOBS_MAX)
        return NULL;
    job = pal_calloc(1, sizeof(*job) + tenant.len + 1);
    if (!job)
        return NULL;
    if (tenant.len > 0)
        memcpy(job + 1, tenant.data, tenant.len);
    job->runtime = runtime;
    job->tenant = pal_str_make((char *)(job + 1), tenant.len);
    job->session = session;
    job->due_ms = due_ms;
    job->next = runner->jobs;
    runner->jobs = job;
    runner->jobs_len++;
    return job;
}

static void free_job(memory_job *job)
{
    pal_arena_free(job->arena);
    pal_buf_done(&job->text);
    pal_free(job);
}

static void remove_job(memory_job *job)
{
    pal_memory_runner *runner = job->runtime->memory;
    memory_job **at = &runner->jobs;

    while (*at && *at != job)
        at = &(*at)->next;
    if (*at) {
        *at = job->next;
        runner->jobs_len--;
    }
    free_job(job);
}

static void on_due(pal_timer *timer)
{
    pal_memory_runner *runner =
            (pal_memory_runner *)((char *)timer - offsetof(pal_memory_runner, timer));

    begin_due(runner->runtime);
}

/* Starts the timer for the job that is due next. */
static void wait_for_next(pal_runtime *runtime)
{
    pal_memory_runner *runner = runtime->memory;
    const memory_job *next = NULL;
    int64_t delay;

    if (runner->is_closing || runner->running >= RUNS_MAX)
        return;
    for (const memory_job *job = runner->jobs; job; job = job->next)
        if (!job->is_running && (!next || job->due_ms < next->due_ms))
            next = job;
    if (!next)
        return;
    delay = next->due_ms - pal_store_clock_ms(runtime->store);
    (void)!pal_loop_timer_start(runtime->loop, &runner->timer,
            delay < 0 ? 0 : delay > RETRY_MAX_MS ? RETRY_MAX_MS : delay, on_due);
}

static void put_off(memory_job *job, int64_t delay_ms)
{
    job->due_ms = pal_store_clock_ms(job->runtime->store) + delay_ms;
}

/* ---- One job ---- */

static void tell_waiter(memory_job *job)
{
    pal_turn *turn = job->waiter;

    if (!turn)
        return;
    job->waiter = NULL;
    turn->summary.extraction = NULL;
    turn->holds--;
    pal_summary_ask(turn);
}

/* The run has ended: the job waits for its next time, or is removed. */
static void end_run(memory_job *job)
{
    pal_runtime *runtime = job->runtime;
    bool goes_on = job->waiter && job->status == PAL_OK && !job->is_over;

    job->is_running = false;
    runtime->memory->running--;
    pal_arena_free(job->arena);
    job->arena = NULL;
    pal_buf_done(&job->text);
    if (!goes_on || runtime->memory->is_closing)
        tell_waiter(job);
    if (runtime->memory->is_closing)
        return; /* pal_memory_done() frees it */
    if (job->is_over && !job->is_again)
        remove_job(job);
    wait_for_next(runtime);
}

/* Runs on a worker. */
static bool is_over_budget(memory_job *job)
{
    const pal_memory_settings *settings = settings_of(job->runtime);
    uint64_t max = settings->tokens_per_day ? settings->tokens_per_day : TOKENS_PER_DAY;
    pal_ledger_query query = {.tenant = job->tenant,
            .agent = pal_str_of(LEDGER_NAME),
            .from = pal_store_clock_ms(job->runtime->store) - DAY_MS};
    pal_ledger_sum sum = {.calls = 0};

    job->status = pal_store_ledger_sum(job->runtime->store, &query, &sum, &job->err);
    return job->status == PAL_OK && sum.usage.input + sum.usage.output >= max;
}

/* Removes the record unless a turn has written it since. */
static void drop_due(memory_job *job)
{
    pal_record record = due_record(job->tenant, job->session, job->arena);
    pal_error ignored;

    if (record.name.len == 0 || job->due_version == 0)
        return;
    record.expires_at = pal_store_clock_ms(job->runtime->store) + 1;
    (void)!pal_store_record_put(job->runtime->store, pal_str_of(DUE_TENANT), &record,
            job->due_version, &ignored);
}

static memory_job *job_of(pal_work_item *item)
{
    return (memory_job *)((char *)item - offsetof(memory_job, item));
}

/* Runs on a worker. */
static void look(pal_work_item *item)
{
    memory_job *job = job_of(item);
    pal_store *store = job->runtime->store;
    pal_record due;

    job->status = pal_store_record_find(store, pal_str_of(DUE_TENANT), pal_str_of(DUE_KIND),
            due_name(job->tenant, job->session, job->arena), job->arena, &due, &job->err);
    job->due_version = job->status == PAL_OK ? due.version : 0;
    if (job->status == PAL_OK || job->status == PAL_NOT_FOUND)
        job->status = pal_extract_begin(store, settings_of(job->runtime), job->tenant, job->session,
                job->runtime->options.system, job->is_forced, job->arena, &job->extract,
                &job->err);
    if (job->status == PAL_NOT_FOUND ||
            (job->status == PAL_OK && job->extract.state == PAL_EXTRACT_NOTHING)) {
        drop_due(job);
        job->status = PAL_OK;
        job->extract.state = PAL_EXTRACT_NOTHING;
    }
    if (job->status == PAL_OK && job->extract.state == PAL_EXTRACT_READY && is_over_budget(job)) {
        job->extract.state = PAL_EXTRACT_LATER;
        job->extract.due_ms = pal_store_clock_ms(store) + BUDGET_WAIT_MS;
    }
}

/* Runs on a worker. The usage counts also if nothing is kept. */
static void keep(pal_work_item *item)
{
    memory_job *job = job_of(item);
    pal_store *store = job->runtime->store;
    char id[PAL_ID_TEXT_SIZE];
    pal_str model = settings_of(job->runtime)->model;
    pal_ledger_row row = {.request_id = pal_str_make(id, PAL_ID_TEXT_LEN),
            .agent = pal_str_of(LEDGER_NAME),
            .purpose = pal_str_of(LEDGER_NAME),
            .provider = pal_provider_name(job->provider),
            .model = model,
            .price_version = job->runtime->options.price_version,
            .usage = job->usage,
            .cost_micros = pal_budget_cost(job->runtime, model, &job->usage)};
    pal_error ignored;

    pal_id_to_text(pal_id_new(), id);
    (void)!pal_store_ledger_add(store, job->tenant, job->session, &row, &ignored);
    pal_runtime_add_usage(job->runtime, &row.usage, row.cost_micros);
    if (job->status == PAL_OK)
        job->status = pal_extract_end(store, &job->extract, pal_buf_str(&job->text), job->arena,
                &job->result, &job->err);
}

/* After some failures in a row the session waits until a turn ends in it. */
static void try_later(memory_job *job)
{
    int64_t delay = (int64_t)RETRY_FIRST_MS << job->tries;

    job->tries++;
    job->is_over = job->tries >= TRIES_MAX;
    put_off(job, delay < RETRY_MAX_MS ? delay : RETRY_MAX_MS);
}

static void on_kept(pal_work_item *item)
{
    memory_job *job = job_of(item);

    if (job->status == PAL_OK || job->status == PAL_CONFLICT) {
        job->status = PAL_OK;
        job->tries = 0;
        put_off(job, 0); /* the next look finds more, or removes the record */
    } else {
        try_later(job);
    }
    end_run(job);
}

static void take_text(void *user, pal_str delta)
{
    memory_job *job = user;

    pal_buf_append_str(&job->text, delta);
}

static void ignore_text(void *user, pal_str delta)
{
}

static void ignore_signature(void *user, pal_str signature, pal_str family)
{
}

static void ignore_call(void *user, uint32_t index, pal_str id, pal_str name)
{
}

static void ignore_arguments(void *user, uint32_t index, pal_str delta)
{
}

static pal_usage guess_usage(const memory_job *job)
{
    pal_usage usage = {.output = pal_estimate_quickly(pal_buf_str(&job->text))};

    for (size_t i = 0; i < 2; i++)
        usage.input += pal_estimate_quickly(job->extract.request[i].parts[0].text);
    return usage;
}

static void on_answered(void *user, const pal_model_end *end)
{
    memory_job *job = user;

    job->call = NULL;
    job->status = end->status;
    job->usage = end->has_usage ? end->usage : guess_usage(job);
    if (end->status != PAL_OK && !end->has_usage) {
        try_later(job);
        end_run(job);
        return;
    }
    if (job->text.failure)
        job->status = PAL_LIMIT;
    job->item = (pal_work_item){.work = keep, .done = on_kept};
    pal_loop_work(job->runtime->loop, &job->item);
}

static void call_model(memory_job *job)
{
    static const pal_model_sink sink = {take_text, ignore_text, ignore_signature, ignore_call,
            ignore_arguments, on_answered, NULL, NULL, NULL, NULL};
    const pal_runtime *runtime = job->runtime;
    pal_str model = settings_of(runtime)->model;
    pal_model_request request = {.model = model,
            .messages = job->extract.request,
            .messages_len = 2,
            .stable_len = 1,
            .output_max = OUTPUT_TOKENS,
            .stream = true,
            .is_aside = true};

    pal_buf_init(&job->text, ANSWER_BYTES_MAX);
    job->provider = runtime->providers[pal_turn_settings_endpoint_of_model(
            &runtime->options, model, 0)];
    job->status = pal_provider_start(job->provider, &request, &sink, job, &job->call, &job->err);
    if (job->status == PAL_OK)
        return;
    try_later(job);
    end_run(job);
}

static void on_looked(pal_work_item *item)
{
    memory_job *job = job_of(item);

    if (job->status != PAL_OK) {
        try_later(job);
    } else if (job->extract.state == PAL_EXTRACT_NOTHING) {
        job->is_over = true;
        put_off(job, QUIET_MS);
    } else if (job->extract.state == PAL_EXTRACT_LATER) {
        job->due_ms = job->extract.due_ms;
        job->is_over = false;
        if (job->waiter && !job->is_forced)
            job->due_ms = 0; /* the turn came after the run had begun */
        else if (job->waiter && job->extract.due_ms > 0)
            job->status = PAL_BUDGET; /* the waiting turn goes on without it */
    } else if (!job->runtime->memory->is_closing) {
        call_model(job);
        return;
    }
    end_run(job);
}

static void begin_run(memory_job *job)
{
    job->arena = pal_arena_new(0);
    if (!job->arena) {
        put_off(job, RETRY_FIRST_MS);
        return;
    }
    job->is_running = true;
    job->is_forced = job->waiter != NULL;
    job->is_again = false;
    job->is_over = false;
    job->runtime->memory->running++;
    job->item = (pal_work_item){.work = look, .done = on_looked};
    pal_loop_work(job->runtime->loop, &job->item);
}

static void begin_due(pal_runtime *runtime)
{
    pal_memory_runner *runner = runtime->memory;
    int64_t now_ms = pal_store_clock_ms(runtime->store);

    if (runner->is_closing)
        return;
    for (memory_job *job = runner->jobs; job && runner->running < RUNS_MAX; job = job->next)
        if (!job->is_running && job->due_ms <= now_ms)
            begin_run(job);
    wait_for_next(runtime);
}

/* ---- Turns ---- */

static int64_t quiet_ms(const pal_runtime *runtime)
{
    const pal_memory_settings *settings = settings_of(runtime);

    return settings->quiet_ms ? settings->quiet_ms : QUIET_MS;
}

void pal_memory_note_end(const pal_turn *turn)
{
    pal_runtime *runtime = turn->runtime;
    memory_job *job;
    int64_t due_ms;

    if (!has_memory(turn) || runtime->memory->is_closing || turn->summary.wait)
        return;
    due_ms = pal_store_clock_ms(runtime->store) + quiet_ms(runtime);
    job = find_job(runtime, turn->request.tenant, turn->request.session);
    if (!job)
        job = add_job(runtime, turn->request.tenant, turn->request.session, INT64_MAX);
    if (!job)
        return; /* the record stays for the next scan */
    job->is_again = true;
    job->tries = 0;
    if (due_ms < job->due_ms)
        job->due_ms = due_ms;
    wait_for_next(runtime);
}

bool pal_memory_before_summary(pal_turn *turn)
{
    pal_runtime *runtime = turn->runtime;
    memory_job *job;

    if (!has_memory(turn) || runtime->memory->is_closing || turn->summary.is_extracted)
        return false;
    turn->summary.is_extracted = true;
    job = find_job(runtime, turn->request.tenant, turn->request.session);
    if (!job)
        job = add_job(runtime, turn->request.tenant, turn->request.session, 0);
    if (!job || job->waiter)
        return false;
    job->waiter = turn;
    job->due_ms = 0;
    turn->summary.extraction = job;
    turn->holds++;
    if (!job->is_running)
        begin_run(job); /* it does not wait for others */
    return true;
}

void pal_memory_leave(pal_turn *turn)
{
    memory_job *job = turn->summary.extraction;

    if (!job)
        return;
    job->waiter = NULL;
    turn->summary.extraction = NULL;
    turn->holds--;
}

/* ---- Sessions that are due in the store ---- */

typedef struct scan {
    pal_runtime *runtime;
    pal_work_item item;
    pal_arena *arena;
    pal_record_page page;
    pal_status status;
} scan;

static scan *scan_of(pal_work_item *item)
{
    return (scan *)((char *)item - offsetof(scan, item));
}

/* Runs on a worker. One page is enough: what it lists is removed when it is read. */
static void list_due(pal_work_item *item)
{
    scan *s = scan_of(item);
    pal_record_query query = {.tenant = pal_str_of(DUE_TENANT),
            .kind = pal_str_of(DUE_KIND),
            .limit = PAL_RECORD_PAGE_MAX};
    pal_error ignored;

    s->status = pal_store_record_list(s->runtime->store, &query, s->arena, &s->page, &ignored);
}

static void on_scan_time(pal_timer *timer);

static void on_listed(pal_work_item *item)
{
    scan *s = scan_of(item);
    pal_runtime *runtime = s->runtime;
    pal_memory_runner *runner = runtime->memory;

    for (size_t i = 0; s->status == PAL_OK && !runner->is_closing && i < s->page.len; i++) {
        const pal_record *record = &s->page.items[i];
        pal_str tenant = pal_text_after(record->name, PAL_ID_TEXT_LEN + 1);
        pal_id session;

        if (record->name.len > PAL_ID_TEXT_LEN &&
                pal_id_from_text(pal_str_make(record->name.data, PAL_ID_TEXT_LEN), &session) &&
                !find_job(runtime, tenant, session))
            (void)add_job(runtime, tenant, session, record->updated_at + quiet_ms(runtime));
    }
    if (!runner->is_closing) {
        (void)!pal_loop_timer_start(
                runtime->loop, &runner->scan_timer, SCAN_MS, on_scan_time);
        wait_for_next(runtime);
    }
    pal_arena_free(s->arena);
    pal_free(s);
}

static void begin_scan(pal_runtime *runtime)
{
    scan *s = pal_calloc(1, sizeof(*s));

    if (!s)
        return;
    s->runtime = runtime;
    s->arena = pal_arena_new(0);
    s->item = (pal_work_item){.work = list_due, .done = on_listed};
    if (!s->arena) {
        pal_free(s);
        return;
    }
    pal_loop_work(runtime->loop, &s->item);
}

static void on_scan_time(pal_timer *timer)
{
    pal_memory_runner *runner =
            (pal_memory_runner *)((char *)timer - offsetof(pal_memory_runner, scan_timer));

    begin_scan(runner->runtime);
}

/* ---- Opening and closing ---- */

void pal_memory_start(pal_runtime *runtime)
{
    if (!settings_of(runtime))
        return;
    runtime->memory = pal_calloc(1, sizeof(*runtime->memory));
    if (!runtime->memory)
        return; /* sessions stay due in the store */
    runtime->memory->runtime = runtime;
    if (!runtime->options.leave_inbox)
        begin_scan(runtime);
}

void pal_memory_stop(pal_runtime *runtime)
{
    pal_memory_runner *runner = runtime->memory;

    if (!runner || runner->is_closing)
        return;
    runner->is_closing = true;
    pal_loop_timer_stop(runtime->loop, &runner->timer);
    pal_loop_timer_stop(runtime->loop, &runner->scan_timer);
    for (memory_job *job = runner->jobs; job; job = job->next) {
        if (!job->call)
            continue;
        pal_provider_cancel(job->call);
        job->call = NULL;
        tell_waiter(job);
    }
}

void pal_memory_done(pal_runtime *runtime)
{
    pal_memory_runner *runner = runtime->memory;

    while (runner && runner->jobs) {
        memory_job *job = runner->jobs;

        runner->jobs = job->next;
        free_job(job);
    }
    pal_free(runner);
    runtime->memory = NULL;
}
