/* observe_trace_turn.c - converts a turn's events to spans, by the semantic conventions for
 * generative AI: one "invoke_agent" for the turn, one "chat" for every model call, and one
 * "execute_tool" for every tool. The spans contain no texts of messages, arguments or results.
 *
 * Events come on the runtime's loop. Following begins on the trace's own loop, because a turn may
 * be started on the runtime's loop, where the runtime must not be called. */
#include "server/observe/observe_trace.h"

#include "base/memory.h"
#include "server/observe/observe_trace_internal.h"

#define TOOLS_MAX 32 /* tools that run at the same time; further ones get no spans */
#define TEXT_MAX 256

typedef struct tool_span {
    char call_id[TEXT_MAX]; /* empty if the entry is free */
    int64_t start_ns;
} tool_span;

typedef struct pal_trace_turn {
    pal_task task;
    pal_trace *trace;
    struct pal_trace_turn *next, **at; /* guarded by the trace's lock */
    pal_trace_span_id id;
    pal_id turn;
    char tenant[PAL_TENANT_LEN_MAX + 1];
    char session[PAL_ID_TEXT_SIZE];
    char model[TEXT_MAX];
    int64_t start_ns;
    int64_t step_ns; /* start time of the running model call; 0 if there is none */
    tool_span tools[TOOLS_MAX];
} pal_trace_turn_state;

static void copy_text(pal_str text, char *out, size_t size)
{
    size_t len = text.len < size - 1 ? text.len : size - 1;
    if (len)
        memcpy(out, text.data, len);
    out[len] = 0;
}

/* ---- Spans ---- */

static pal_trace_span begin_span(const pal_trace_turn_state *t, const char *name, int64_t start_ns)
{
    pal_trace_span span = {.id = pal_trace_span_id_new(&t->id),
            .kind = PAL_SPAN_INTERNAL,
            .name = name,
            .start_ns = start_ns,
            .end_ns = pal_trace_now_ns()};
    pal_trace_span_put(&span, "gen_ai.operation.name", pal_str_of(name));
    pal_trace_span_put(&span, "gen_ai.conversation.id", pal_str_of(t->session));
    return span;
}

static void put_usage(pal_trace_span *span, const pal_usage *usage)
{
    uint64_t input = usage->input + usage->cache_read + usage->cache_write;
    pal_trace_span_put_number(span, "gen_ai.usage.input_tokens", (int64_t)input);
    pal_trace_span_put_number(span, "gen_ai.usage.output_tokens", (int64_t)usage->output);
}

static void end_step(pal_trace_turn_state *t, const pal_event *event)
{
    if (!t->step_ns)
        return;
    pal_trace_span span = begin_span(t, "chat", t->step_ns);
    span.kind = PAL_SPAN_CLIENT;
    span.what = pal_str_of(t->model);
    pal_trace_span_put(&span, "gen_ai.request.model", pal_str_of(t->model));
    if (event->kind == PAL_EVENT_MESSAGE) {
        put_usage(&span, &event->usage);
        pal_trace_span_put(&span, "gen_ai.response.finish_reasons",
                pal_str_of(event->finish == PAL_FINISH_LENGTH ? "length" : "stop"));
    } else {
        span.is_error = true;
        span.message = event->text;
    }
    pal_trace_add(t->trace, &span);
    t->step_ns = 0;
}

static tool_span *find_tool(pal_trace_turn_state *t, pal_str call_id)
{
    char text[TEXT_MAX];
    copy_text(call_id, text, sizeof text);
    for (size_t i = 0; i < TOOLS_MAX; i++) {
        if (strcmp(t->tools[i].call_id, text) == 0)
            return &t->tools[i];
    }
    return NULL;
}

static void begin_tool(pal_trace_turn_state *t, const pal_event *event)
{
    tool_span *tool = find_tool(t, (pal_str){0});
    if (!tool)
        return;
    copy_text(event->call_id, tool->call_id, sizeof tool->call_id);
    tool->start_ns = pal_trace_now_ns();
}

static void end_tool(pal_trace_turn_state *t, const pal_event *event)
{
    tool_span *tool = event->call_id.len ? find_tool(t, event->call_id) : NULL;
    if (!tool)
        return;
    pal_trace_span span = begin_span(t, "execute_tool", tool->start_ns);
    span.what = event->name;
    pal_trace_span_put(&span, "gen_ai.tool.name", event->name);
    pal_trace_span_put(&span, "gen_ai.tool.call.id", event->call_id);
    span.is_error = event->status != PAL_OK;
    if (span.is_error)
        span.message = pal_str_of(pal_status_name(event->status));
    pal_trace_add(t->trace, &span);
    tool->call_id[0] = 0;
}

static void end_turn(pal_trace_turn_state *t, const pal_event *event)
{
    char turn[PAL_ID_TEXT_SIZE];
    pal_trace_span span = begin_span(t, "invoke_agent", t->start_ns);
    span.id = t->id;
    pal_id_to_text(t->turn, turn);
    pal_trace_span_put(&span, "gen_ai.request.model", pal_str_of(t->model));
    pal_trace_span_put(&span, "palaver.turn.id", pal_str_of(turn));
    pal_trace_span_put(&span, "palaver.tenant", pal_str_of(t->tenant));
    pal_trace_span_put(&span, "palaver.turn.state", pal_str_of(pal_turn_state_name(event->state)));
    put_usage(&span, &event->usage);
    span.is_error = event->state == PAL_TURN_FAILED;
    if (span.is_error) {
        pal_trace_span_put(&span, "error.type", pal_str_of(pal_status_name(event->status)));
        span.message = event->text;
    }
    pal_trace_add(t->trace, &span);
}

/* ---- Following ---- */

static bool see(const pal_event *event, void *user)
{
    pal_trace_turn_state *t = user;
    switch (event->kind) {
    case PAL_EVENT_STEP:
        t->step_ns = pal_trace_now_ns();
        break;
    case PAL_EVENT_MESSAGE:
    case PAL_EVENT_RETRYING:
        end_step(t, event);
        break;
    case PAL_EVENT_TOOL_STARTED:
        begin_tool(t, event);
        break;
    case PAL_EVENT_TOOL_ENDED:
        end_tool(t, event);
        break;
    case PAL_EVENT_ENDED:
        end_step(t, event);
        end_turn(t, event);
        break;
    default:
        break;
    }
    return true;
}

static void gone(void *user)
{
    pal_trace_turn_state *t = user;
    pal_trace *trace = t->trace;
    pthread_mutex_lock(&trace->lock);
    *t->at = t->next;
    if (t->next)
        t->next->at = t->at;
    trace->turns_len--;
    pthread_cond_broadcast(&trace->changed);
    pthread_mutex_unlock(&trace->lock);
    pal_free(t);
}

static void follow(pal_task *task)
{
    pal_error err;
    pal_trace_turn_state *t = (pal_trace_turn_state *)task;
    if (pal_turn_watch(t->trace->runtime, pal_str_of(t->tenant), t->turn, 0, see, gone, t, &err) !=
            PAL_OK)
        gone(t);
}

/* The lock must be held. Returns false if there are too many turns, or if the trace is closing. */
static bool enter(pal_trace *trace, pal_trace_turn_state *t)
{
    if (trace->is_closing || trace->turns_len >= PAL_SERVER_TRACE_TURNS_MAX)
        return false;
    t->next = trace->turns;
    t->at = &trace->turns;
    if (t->next)
        t->next->at = &t->next;
    trace->turns = t;
    trace->turns_len++;
    return true;
}

void pal_trace_turn(pal_trace *trace, const pal_trace_span_id *parent, pal_str tenant,
        pal_id session, pal_id turn, pal_str model)
{
    pal_trace_turn_state *t = pal_calloc(1, sizeof *t);
    if (!t)
        return;
    t->task.run = follow;
    t->trace = trace;
    t->id = pal_trace_span_id_new(parent);
    t->turn = turn;
    t->start_ns = pal_trace_now_ns();
    copy_text(tenant, t->tenant, sizeof t->tenant);
    copy_text(model, t->model, sizeof t->model);
    pal_id_to_text(session, t->session);
    pthread_mutex_lock(&trace->lock);
    bool entered = enter(trace, t);
    if (entered)
        pal_loop_post(trace->loop, &t->task);
    pthread_mutex_unlock(&trace->lock);
    if (!entered)
        pal_free(t);
}

void pal_trace_leave_turns(pal_trace *trace)
{
    pthread_mutex_lock(&trace->lock);
    while (trace->turns) {
        pal_trace_turn_state *t = trace->turns;
        pal_id turn = t->turn;
        pthread_mutex_unlock(&trace->lock);
        /* `t` is only an identity here: it may already be freed. */
        pal_turn_unwatch(trace->runtime, turn, t);
        pthread_mutex_lock(&trace->lock);
        while (trace->turns == t)
            pthread_cond_wait(&trace->changed, &trace->lock);
    }
    pthread_mutex_unlock(&trace->lock);
}
