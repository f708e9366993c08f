/* api_toy.c - the smallest streaming API, as docs/add-an-api.md describes it. It uses only run.h
 * and the tables of server.h.
 *
 *   POST /toy/{session}   {"say":"hello","stream":true}
 *
 * The response is {"answer":"..."}, or a stream of {"piece":"..."} that ends with {"is_done":true}
 * or {"problem":"..."}. The stream begins with the first text, so earlier failures have an HTTP
 * code. */
#include "base/memory.h"
#include "server/api/api_object.h"
#include "server/run/run.h"
#include "server/server_call.h"

#define SAY_BYTES_MAX 65536

extern const pal_api pal_api_toy;

typedef struct toy_run {
    pal_run run; /* must be first */
    bool wants_stream;
    pal_buf answer; /* the text so far, if the client did not request a stream */
} toy_run;

/* ---- The dialect: {"NAME":"TEXT"} ---- */

static void put_member(pal_json_writer *writer, const char *name, pal_str text)
{
    pal_json_begin_object(writer);
    pal_json_name(writer, name);
    pal_json_put_str(writer, text);
    pal_json_end_object(writer);
}

static void put_failure(pal_call *call, const pal_failure *failure, pal_json_writer *writer)
{
    (void)call;
    put_member(writer, "problem", failure->message);
}

static void write_frame(pal_run *run, const char *name, pal_str text)
{
    pal_buf frame;
    pal_buf_init(&frame, PAL_RUN_FRAME_BYTES_MAX);
    pal_buf_append_text(&frame, "data: ");
    pal_json_writer writer = pal_json_writer_make(&frame);
    put_member(&writer, name, text);
    pal_buf_append_text(&frame, "\n\n");
    (void)pal_run_write(run, &frame);
    pal_buf_done(&frame);
}

/* ---- The table of the run ---- */

static void event(pal_run *run, const pal_event *event)
{
    toy_run *toy = (toy_run *)run;
    if (event->kind != PAL_EVENT_TEXT)
        return;
    if (!toy->wants_stream)
        pal_buf_append_str(&toy->answer, event->text);
    else if (pal_run_open(run))
        write_frame(run, "piece", event->text);
}

static void done(pal_run *run, const pal_event *end)
{
    toy_run *toy = (toy_run *)run;
    (void)end;
    if (toy->wants_stream) {
        if (pal_run_open(run))
            write_frame(run, "is_done", pal_str_of("yes"));
        return;
    }
    pal_call *call = pal_run_take_call(run);
    put_member(pal_call_writer(call), "answer", pal_buf_str(&toy->answer));
    pal_call_send(call, 200);
}

static void failed(pal_run *run, const pal_event *end)
{
    if (run->is_streaming)
        write_frame(run, "problem", end->text);
    else
        pal_run_fail(run, end);
}

static void free_toy(pal_run *run)
{
    pal_buf_done(&((toy_run *)run)->answer);
}

static const pal_run_handlers handlers = {
        .event = event, .done = done, .failed = failed, .free = free_toy};

/* ---- The route ---- */

typedef struct say_request {
    pal_str text;
    bool wants_stream;
} say_request;

static const pal_api_object say_body = {"ToySay",
        .members = PAL_API_MEMBERS(
                {"say", PAL_API_TEXT, "the text", .offset = offsetof(say_request, text),
                        .max = SAY_BYTES_MAX},
                {"stream", PAL_API_FLAG, "whether the response is a stream",
                        .offset = offsetof(say_request, wants_stream)})};

static pal_status say(pal_call *call, pal_error *err)
{
    pal_session session;
    say_request said = {0};
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_object_read(call, call->body, &say_body, &said, err);
    if (status != PAL_OK)
        return status;

    pal_message message = pal_message_text(call->arena, PAL_ROLE_USER, said.text);
    pal_turn_request request = {.tenant = call->caller.tenant,
            .session = session.id,
            .messages = &message,
            .messages_len = 1,
            .lane = PAL_TURN_LANE_QUEUE,
            .all_or_nothing = true,
            .no_retries = true,
            .budget = call->caller.budget};
    toy_run *toy = pal_run_new(call, &handlers, sizeof *toy);
    if (!toy)
        return pal_no_memory(err);
    toy->wants_stream = said.wants_stream;
    pal_buf_init(&toy->answer, PAL_RUN_FRAME_BYTES_MAX);
    pal_run_start(&toy->run, &request);
    return PAL_OK;
}

static const pal_api_route toy_routes[] = {
        {"POST", "/toy/{session}", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_TURN, say,
                {"toySay", "say something", NULL, &say_body, &pal_api_any_object, 200}},
        {0},
};

static const pal_api_route *const routes[] = {toy_routes, NULL};

const pal_api pal_api_toy = {
        .name = "toy", .prefix = "/toy/", .routes = routes, .put_failure = put_failure};
