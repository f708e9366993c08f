/* binding_turn.c - turns of a binding, and the queue of their events.
 *
 * The runtime keeps the queue. pal_binding_next() dispatches until a callback has written an event
 * into binding->event. A watch lives until the runtime calls on_gone(). */
#include "binding/binding_call.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/native/native.h"

typedef struct binding_watch {
    pal_binding *binding;
    pal_id turn;
    pal_id session;
    uint64_t last; /* number of the last event that was returned */
    bool is_ended; /* it was ENDED */
} binding_watch;

/* ---- Events ---- */

/* `event` NULL: "closed". Returns false if there is no memory. */
static bool put_event(const binding_watch *watch, const pal_event *event)
{
    pal_binding_call call;
    pal_json_writer *writer = &call.writer;
    pal_binding_begin(&call, watch->binding);
    pal_json_begin_object(writer);
    pal_put_count(writer, "id", event ? event->number : watch->last);
    pal_put_text(writer, "event", event ? pal_event_kind_name(event->kind) : "closed");
    pal_put_id(writer, "turn_id", watch->turn);
    pal_put_id(writer, "session_id", watch->session);
    pal_json_name(writer, "data");
    if (event)
        pal_native_event_put(writer, event, watch->session);
    else
        pal_json_put_raw(writer, pal_str_of("{}"));
    pal_json_end_object(writer);
    bool is_whole = pal_binding_end(&call, PAL_OK, &watch->binding->event) == PAL_OK;
    if (!is_whole) {
        pal_binding_free(watch->binding->event);
        watch->binding->event = NULL;
    }
    return is_whole;
}

static bool on_event(const pal_event *event, void *user)
{
    binding_watch *watch = user;
    if (!put_event(watch, event))
        return false;
    watch->last = event->number;
    watch->is_ended = event->kind == PAL_EVENT_ENDED;
    return true;
}

static void on_gone(void *user)
{
    binding_watch *watch = user;
    if (!watch->is_ended && !watch->binding->is_closing)
        (void)put_event(watch, NULL);
    pal_free(watch);
}

int pal_binding_fd(pal_binding *binding)
{
    return pal_runtime_fd(binding->runtime);
}

int pal_binding_next(pal_binding *binding, char **out_json)
{
    while (!binding->event && pal_runtime_dispatch(binding->runtime, 1) > 0)
        continue;
    *out_json = binding->event;
    binding->event = NULL;
    return PAL_OK;
}

/* ---- Turns ---- */

static pal_status watch_turn(pal_binding_call *call, const pal_turn_info *info, uint64_t after)
{
    pal_binding *binding = call->binding;
    binding_watch *watch = pal_calloc(1, sizeof *watch);
    if (!watch)
        return pal_no_memory(&call->err);
    *watch = (binding_watch){
            .binding = binding, .turn = info->turn, .session = info->session, .last = after};
    pal_status status = pal_turn_watch_queued(binding->runtime, binding->tenant, info->turn, after,
            on_event, on_gone, watch, &call->err);
    if (status != PAL_OK)
        pal_free(watch);
    return status;
}

static pal_status find_turn(pal_binding_call *call, const char *turn, pal_turn_info *out_info)
{
    pal_id id;
    if (!pal_id_from_text(pal_str_of(turn), &id))
        return pal_error_set(
                &call->err, PAL_NOT_FOUND, "turn '%.60s' does not exist", turn ? turn : "");
    return pal_turn_find(call->binding->runtime, call->binding->tenant, id, out_info, &call->err);
}

static void put_info(pal_binding_call *call, const pal_turn_info *info, const bool *is_watched)
{
    pal_json_begin_object(&call->writer);
    pal_native_turn_put(&call->writer, info);
    if (is_watched)
        pal_put_flag(&call->writer, "watched", *is_watched);
    pal_json_end_object(&call->writer);
}

static pal_status read_request(
        pal_binding_call *call, const char *name, const char *json, pal_turn_request *out_request)
{
    pal_json value;
    pal_session session;
    pal_status status = pal_binding_session(call, name, &session);
    if (status != PAL_OK)
        return status;
    status = pal_binding_parse(call, json, &value);
    if (status != PAL_OK)
        return status;
    status = pal_native_turn_read(value, call->arena, out_request, &call->err);
    if (status != PAL_OK)
        return status;
    out_request->tenant = call->binding->tenant;
    out_request->session = session.id;
    return PAL_OK;
}

static pal_status plan(pal_binding_call *call, const char *name, const char *json)
{
    pal_turn_request request = {0};
    pal_plan plan;
    pal_str text;
    pal_status status = read_request(call, name, json, &request);
    if (status != PAL_OK)
        return status;
    status = pal_turn_plan(call->binding->runtime, &request, call->arena, &plan, &call->err);
    if (status != PAL_OK)
        return status;
    status = pal_plan_to_json(&plan, call->arena, &text, &call->err);
    if (status != PAL_OK)
        return status;
    pal_json_put_raw(&call->writer, text);
    return PAL_OK;
}

int pal_binding_plan(
        pal_binding *binding, const char *session, const char *request, char **out_json)
{
    pal_binding_call call;
    pal_binding_begin(&call, binding);
    return pal_binding_end(&call, plan(&call, session, request), out_json);
}

static pal_status start(pal_binding_call *call, const char *name, const char *json)
{
    pal_turn_request request = {0};
    pal_turn_info info;
    pal_status status = read_request(call, name, json, &request);
    request.cannot_ask = true; /* a binding has no function for answers */
    if (status == PAL_OK)
        status = pal_turn_start(call->binding->runtime, &request, &info, &call->err);
    if (status != PAL_OK)
        return status;
    /* The turn runs now, so the call must not fail any more. */
    bool is_watched = watch_turn(call, &info, 0) == PAL_OK;
    put_info(call, &info, &is_watched);
    return PAL_OK;
}

int pal_binding_start(
        pal_binding *binding, const char *session, const char *request, char **out_json)
{
    pal_binding_call call;
    pal_binding_begin(&call, binding);
    return pal_binding_end(&call, start(&call, session, request), out_json);
}

int pal_binding_watch(pal_binding *binding, const char *turn, uint64_t after, char **out_json)
{
    pal_binding_call call;
    pal_turn_info info;
    pal_binding_begin(&call, binding);
    pal_status status = find_turn(&call, turn, &info);
    if (status == PAL_OK)
        status = watch_turn(&call, &info, after);
    if (status == PAL_OK)
        put_info(&call, &info, NULL);
    return pal_binding_end(&call, status, out_json);
}

static pal_status add_results(pal_binding_call *call, const char *turn, const char *messages)
{
    pal_turn_info info;
    pal_message *results;
    size_t len;
    pal_status status = find_turn(call, turn, &info);
    if (status != PAL_OK)
        return status;
    status = pal_binding_messages(call, messages, &results, &len);
    if (status != PAL_OK)
        return status;
    status = pal_turn_results(call->binding->runtime, call->binding->tenant, info.session,
            info.turn, results, len, &info, &call->err);
    if (status != PAL_OK)
        return status;
    put_info(call, &info, NULL);
    return PAL_OK;
}

int pal_binding_results(
        pal_binding *binding, const char *turn, const char *messages, char **out_json)
{
    pal_binding_call call;
    pal_binding_begin(&call, binding);
    return pal_binding_end(&call, add_results(&call, turn, messages), out_json);
}

static pal_status cancel(pal_binding_call *call, const char *turn)
{
    pal_turn_info info;
    pal_status status = find_turn(call, turn, &info);
    if (status != PAL_OK)
        return status;
    status = pal_turn_cancel(call->binding->runtime, call->binding->tenant, info.turn, &call->err);
    if (status != PAL_OK)
        return status;
    status = find_turn(call, turn, &info);
    if (status != PAL_OK)
        return status;
    put_info(call, &info, NULL);
    return PAL_OK;
}

int pal_binding_cancel(pal_binding *binding, const char *turn, char **out_json)
{
    pal_binding_call call;
    pal_binding_begin(&call, binding);
    return pal_binding_end(&call, cancel(&call, turn), out_json);
}
