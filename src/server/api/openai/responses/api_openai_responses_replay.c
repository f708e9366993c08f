/* api_openai_responses_replay.c - sends the events of an ended response again. The stored output is
 * cut into the deltas of the first stream. Events are created on a worker, no faster than the
 * client reads them. */
#include "server/api/openai/responses/api_openai_responses.h"

#include "dialect/dialect_member.h"
#include "server/run/run.h"
#include "server/server_call.h"

#define PIECE_BYTES ((size_t)100 << 10) /* size of the pieces that are created at a time */

typedef struct replay { /* in the call's arena */
    const pal_response *response;
    pal_response begun; /* the response as it was when the stream began */
    pal_response_events events;
    pal_openai_item *items;
    pal_str *texts; /* for each item: what its deltas contain, all parts of a message together */
    size_t *taken;  /* for each item: bytes that were sent */
    size_t len;
    pal_json_iter runs;
    pal_json_iter run;
    size_t item; /* item of the current run */
    size_t told; /* items whose results were sent */
    size_t ended; /* items of the service that were sent completely */
    bool is_begun;
    bool run_begun; /* `item` is valid */
    pal_buf *out;
} replay;

static bool write_frame(pal_str frame, void *user)
{
    const replay *r = user;
    pal_buf_append_str(r->out, frame);
    return true;
}

static const pal_part *part_of(const pal_openai_item *item)
{
    size_t first, len;
    pal_openai_item_parts(item->message, item->index, &first, &len);
    return len ? &item->message->parts[first] : NULL;
}

/* In the arena, or a text of the item. */
static pal_str text_of(const pal_openai_item *item, pal_arena *arena)
{
    size_t first, len;
    pal_buf buf;
    pal_openai_item_parts(item->message, item->index, &first, &len);
    const pal_part *parts = &item->message->parts[first];
    if (len <= 1)
        return len == 0                              ? (pal_str){0}
                : parts->kind == PAL_PART_TOOL_CALL ? parts->arguments
                                                    : parts->text;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    for (size_t i = 0; i < len; i++)
        pal_buf_append_str(&buf, parts[i].text);
    pal_str text = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

static uint32_t number_of(const pal_openai_item *item, const pal_part *part)
{
    return part->number ? part->number : (uint32_t)(part - item->message->parts) + 1;
}

static pal_response_form form_of(const pal_part *part)
{
    return part->kind == PAL_PART_REASONING
            ? pal_openai_part_is_summary(part) ? PAL_RESPONSE_SUMMARY : PAL_RESPONSE_REASONING
            : pal_openai_part_is_refusal(part) ? PAL_RESPONSE_REFUSAL
                                               : PAL_RESPONSE_TEXT;
}

/* The event of a call is sent when it begins, other items begin with their first delta. */
static void begin_item(replay *r, const pal_openai_item *item)
{
    const pal_part *part = part_of(item);
    pal_response_events_message(&r->events, item->message->id);
    if (part && part->kind == PAL_PART_TOOL_CALL && r->item >= r->events.len)
        pal_response_events_call(
                &r->events, number_of(item, part), part->call_id, part->name, part->extra);
}

/* An item of the service was complete before the next one began. */
static void end_item(replay *r)
{
    const pal_openai_item *item = &r->items[r->item];
    const pal_part *part = part_of(item);
    pal_buf json;
    if (!r->response->has_items || !part || pal_openai_is_mcp(part->extra) || r->item < r->ended)
        return;
    bool is_cut = pal_response_is_cut(r->response) && r->item == r->len - 1;
    r->ended = r->item + 1;
    pal_buf_init(&json, PAL_MESSAGE_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&json);
    if (pal_openai_item_put(&writer, item->message, item->index, item->result,
                is_cut ? "incomplete" : "completed", NULL) != PAL_OK ||
            json.failure)
        r->events.failure = PAL_NO_MEMORY;
    else
        pal_response_events_item(&r->events, number_of(item, part), pal_buf_str(&json));
    pal_buf_done(&json);
}

/* Sends the results of the items before `end` that have one. */
static void tell_results(replay *r, size_t end)
{
    for (; r->told < end && r->told < r->len; r->told++) {
        const pal_openai_item *item = &r->items[r->told];
        if (item->result)
            pal_response_events_result(&r->events, item->result->call_id, item->result->text,
                    item->result->is_error);
    }
}

/* The results of an answer come before the items of the next one. */
static void tell_results_before(replay *r, size_t at)
{
    while (at > 0 && pal_id_equal(r->items[at - 1].message->id, r->items[at].message->id))
        at--;
    tell_results(r, at);
}

static void tell_delta(replay *r, uint64_t len)
{
    const pal_openai_item *item = &r->items[r->item];
    const pal_part *part = part_of(item);
    if (!part)
        return;
    pal_str text = r->texts[r->item];
    size_t at = r->taken[r->item], left = text.len - at;
    pal_str delta = pal_str_make(text.data + at, len < left ? (size_t)len : left);
    r->taken[r->item] += delta.len;
    if (part->kind == PAL_PART_TOOL_CALL)
        pal_response_events_arguments(&r->events, part->call_id, delta);
    else
        pal_response_events_text(&r->events, form_of(part), number_of(item, part), delta);
}

static void tell_progress(replay *r, pal_str json)
{
    const pal_openai_item *item = &r->items[r->item];
    const pal_part *part = part_of(item);
    if (part)
        pal_response_events_progress(&r->events, number_of(item, part), json);
}

/* Returns false if only the last events remain. */
static bool step(replay *r)
{
    pal_json value;
    uint64_t number;
    if (pal_json_next(&r->run, NULL, &value)) {
        if (pal_json_type_of(value) == PAL_JSON_OBJECT)
            tell_progress(r, pal_json_raw(value));
        else if (pal_json_u64(value, &number))
            tell_delta(r, number);
        return true;
    }
    if (r->run_begun)
        end_item(r);
    if (!pal_json_next(&r->runs, NULL, &value))
        return false;
    r->run = pal_json_each(value);
    if (!pal_json_next(&r->run, NULL, &value) || !pal_json_u64(value, &number) || number >= r->len)
        return false;
    r->item = (size_t)number;
    r->run_begun = true;
    tell_results_before(r, r->item);
    begin_item(r, &r->items[r->item]);
    return true;
}

static void tell_end(replay *r)
{
    bool is_answered = pal_response_is_answered(r->response);
    /* The output of a failed response is not stored. Its last event gets a number after all events
     * that a reader can have. */
    if (!is_answered && r->events.number < r->events.told_from)
        r->events.number = r->events.told_from;
    tell_results(r, r->len);
    r->events.response = r->response;
    pal_response_events_end(&r->events);
}

/* Called on a worker. */
static pal_pulled more(pal_buf *out, void *user)
{
    replay *r = user;
    bool is_left = true;
    r->out = out;
    if (!r->is_begun) {
        pal_response_events_begin(&r->events);
        pal_response_events_lists(&r->events);
        pal_response_events_approved(&r->events);
    }
    r->is_begun = true;
    while (is_left && out->len < PIECE_BYTES && !r->events.is_cut)
        is_left = step(r);
    if (!is_left)
        tell_end(r);
    if (r->events.is_cut || r->events.failure)
        return PAL_PULLED_FAILED;
    return is_left ? PAL_PULLED_MORE : PAL_PULLED_END;
}

static void done(void *user)
{
    replay *r = user;
    pal_response_events_done(&r->events);
}

static pal_status prepare(pal_call *call, replay *r, int64_t after, pal_error *err)
{
    pal_json deltas = {0};
    pal_status status = pal_response_output(call, r->response, &r->items, &r->len, err);
    if (status == PAL_OK && r->response->deltas.len)
        status = pal_json_parse(call->arena, r->response->deltas, NULL, &deltas, err);
    if (status != PAL_OK)
        return status;
    if (r->len && !r->response->deltas.len)
        return pal_call_refuse(call, 400, "stream_not_kept", PAL_INVALID, err,
                "the response has too many events to replay; request it without 'stream'");
    r->runs = pal_json_each(deltas);
    r->taken = pal_arena_array(call->arena, r->len + 1, sizeof *r->taken);
    r->texts = pal_arena_array(call->arena, r->len + 1, sizeof *r->texts);
    for (size_t i = 0; r->texts && i < r->len; i++)
        r->texts[i] = text_of(&r->items[i], call->arena);
    r->begun = *r->response;
    r->begun.status = PAL_RESPONSE_IN_PROGRESS;
    r->begun.completed_at = 0;
    pal_response_events_init(&r->events, &r->begun);
    r->events.told_from = (uint64_t)(after + 1);
    r->events.write = write_frame;
    r->events.user = r;
    return pal_arena_checked(call->arena, err);
}

pal_status pal_response_replay(
        pal_call *call, const pal_response *response, int64_t after, pal_error *err)
{
    replay *r = pal_arena_alloc(call->arena, sizeof *r);
    pal_response *copy = pal_arena_alloc(call->arena, sizeof *copy);
    if (!r || !copy)
        return pal_arena_checked(call->arena, err);
    *copy = *response;
    r->response = copy;
    pal_status status = prepare(call, r, after, err);
    if (status != PAL_OK)
        return status;
    pal_call_streaming(call);
    pal_exchange_add_header(call->exchange, "cache-control", pal_str_of("no-store"));
    if (pal_exchange_pull(call->exchange, 200, PAL_RUN_EVENT_STREAM, more, done, r))
        return PAL_OK;
    pal_response_events_done(&r->events);
    return pal_run_refuse_stream(call, err);
}
