/* turn_tools.c - runs the calls of an answer, up to PARALLEL_MAX at the same time. Built-in tools
 * run on a worker, and MCP calls on the loop. A call of the caller's tools pauses the turn. Calls
 * that need an answer of a person wait until the others have ended; then the turn asks about all of
 * them (permission_question.c).
 *
 * States: each call goes from WAITING to RUNNING, ENDED and RECORDED. Results are recorded in the
 * order of the calls, as soon as all calls before them have ended. A failed tool is recorded as the
 * call's result and does not fail the turn. On the loop, except for run_builtin().
 *
 * After a crash, calls without a recorded result are open. recovery_resume.c adds a result for
 * them, or waits for the caller again. */
#include "turn/turn.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/native/native.h"
#include "tool/tool_schema.h"
#include "turn/input/input.h"
#include "turn/lane/lane_park.h"
#include "turn/permission/permission.h"
#include "turn/permission/permission_question.h"
#include "turn/recovery/recovery_owed.h"
#include "turn/runtime/runtime_servers.h"
#include "turn/turn_event.h"
#include "turn/turn_last_commit.h"

enum { PARALLEL_MAX = 16 };

static const char skipped_text[] = "Skipped due to queued user message.";
static const char exhausted_text[] = "No more tools can be called in this turn.";

static void go_on(pal_turn *turn);

/* ---- Results ---- */

/* A single text part becomes a plain output; everything else is kept as parts. */
static void set_result(pal_tool_run *run, const pal_part *parts, size_t len, bool is_error)
{
    const pal_tool *tool = pal_tools_find(run->turn, run->name);
    pal_part *part = pal_arena_alloc(run->arena, sizeof(*part));
    pal_error ignored;
    uint32_t spilled;

    if (!part)
        return;
    *part = (pal_part){.kind = PAL_PART_TOOL_RESULT,
            .call_id = run->id,
            .name = run->name,
            .is_error = is_error};
    if (run->extra.len)
        part->extra = run->extra;
    else if (tool && !run->is_callers)
        part->extra = tool->call_extra;
    if (len == 1 && parts[0].kind == PAL_PART_TEXT) {
        part->text = pal_arena_copy(run->arena, parts[0].text);
    } else if (len > 0) {
        part->parts = pal_arena_array(run->arena, len, sizeof(*part->parts));
        for (size_t i = 0; part->parts && i < len; i++) {
            part->parts[i] = parts[i];
            part->parts[i].text = pal_arena_copy(run->arena, parts[i].text);
            part->parts[i].data = pal_arena_copy(run->arena, parts[i].data);
            part->parts[i].name = pal_arena_copy(run->arena, parts[i].name);
            part->parts[i].url = pal_arena_copy(run->arena, parts[i].url);
            part->parts[i].media_type = pal_arena_copy(run->arena, parts[i].media_type);
        }
        part->parts_len = part->parts ? len : 0;
    }
    run->result = (pal_message){
            .id = run->result_id, .role = PAL_ROLE_TOOL, .parts = part, .parts_len = 1};
    run->is_error = is_error;
    if (pal_context_spill(&run->result, run->arena, &spilled, &ignored) != PAL_OK)
        run->result.parts_len = 0;
}

static void set_text(pal_tool_run *run, pal_str text, bool is_error)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = text};

    set_result(run, &part, 1, is_error);
}

static void tell_ended(const pal_tool_run *run)
{
    pal_str text = run->result.parts_len ? run->result.parts[0].text : (pal_str){0};

    pal_event_publish(run->turn,
            (pal_event){.kind = PAL_EVENT_TOOL_ENDED,
                    .call_id = run->id,
                    .name = run->name,
                    .text = text,
                    .status = run->is_error ? PAL_INVALID : PAL_OK});
}

static void end_run(pal_tool_run *run)
{
    run->state = PAL_TOOL_ENDED;
    run->question.kind = PAL_QUESTION_NONE;
    tell_ended(run);
}

static void end_with(pal_tool_run *run, const char *text, bool is_error)
{
    set_text(run, pal_str_of(text), is_error);
    end_run(run);
}

void pal_tools_end(pal_tool_run *run, const char *text)
{
    end_with(run, text, true);
}

static void end_denied(pal_tool_run *run)
{
    char text[160];

    snprintf(text, sizeof(text), "Not run: '%.*s' is denied by 'permissions'.",
            PAL_EXCERPT(run->name, 80));
    end_with(run, text, true);
}

/* ---- Running one call ---- */

static bool start_mcp(pal_tool_run *run);

static bool has_question(const pal_turn *turn)
{
    for (size_t i = 0; i < turn->step.runs_len; i++)
        if (turn->step.runs[i].question.kind != PAL_QUESTION_NONE)
            return true;
    return false;
}

/* A running call has ended, or its questions have changed. */
static void on_call_changed(pal_turn *turn)
{
    if (turn->phase != PAL_TURN_PHASE_ASKING) {
        go_on(turn);
    } else if (has_question(turn)) {
        pal_question_tell(turn);
    } else {
        turn->info.reason[0] = '\0';
        pal_turn_set_state(turn, PAL_TURN_RUNNING);
        pal_tools_go_on(turn);
    }
}

static void on_mcp_result(void *user, const pal_tool_outcome *outcome)
{
    pal_tool_run *run = user;
    pal_turn *turn = run->turn;

    run->call = NULL;
    run->asked_len = 0;
    run->question.kind = PAL_QUESTION_NONE;
    turn->holds--;
    if (outcome->handle.len == 0) {
        set_result(run, outcome->parts, outcome->parts_len, outcome->is_error);
        end_run(run);
    } else if (!pal_input_keep(run, outcome)) {
        end_with(run, "out of memory", true);
    } else if (!outcome->has_questions) {
        turn->step.has_new_handle |= start_mcp(run);
    }
    on_call_changed(turn);
}

static void on_mcp_question(void *user, const pal_tool_question *question)
{
    pal_tool_run *run = user;

    pal_input_add(run, question);
    on_call_changed(run->turn);
}

static void on_mcp_withdrawn(void *user, pal_str id)
{
    pal_tool_run *run = user;

    pal_input_remove(run, id);
    on_call_changed(run->turn);
}

/* Runs on a worker. */
static void run_builtin(pal_work_item *item)
{
    pal_tool_run *run = (pal_tool_run *)((char *)item - offsetof(pal_tool_run, item));
    const pal_turn *turn = run->turn;
    pal_error err = {0};
    pal_str text = {0};
    pal_status status = pal_builtin_run(turn->runtime->store, turn->request.tenant,
            turn->request.session, run->name, run->arguments, run->arena, &text, &err);

    set_text(run, status == PAL_OK ? text : pal_str_of(err.message), status != PAL_OK);
}

static void on_builtin_done(pal_work_item *item)
{
    pal_tool_run *run = (pal_tool_run *)((char *)item - offsetof(pal_tool_run, item));
    pal_turn *turn = run->turn;

    turn->holds--;
    end_run(run);
    go_on(turn);
}

/* The server of a call that was restored need not be ready yet: it is found by its name. */
static pal_tool_mcp *server_of(const pal_runtime *runtime, pal_str name, pal_str server)
{
    for (size_t i = 0; server.len && i < runtime->servers_len; i++)
        if (pal_str_equal(pal_tool_mcp_name(runtime->servers[i]), server))
            return runtime->servers[i];
    for (size_t i = 0; i < runtime->servers_len; i++) {
        size_t len;
        const pal_tool *tools = pal_tool_mcp_tools(runtime->servers[i], &len);

        for (size_t j = 0; j < len; j++)
            if (pal_str_equal(tools[j].name, name))
                return runtime->servers[i];
    }
    return NULL;
}

const pal_tool *pal_tools_find(const pal_turn *turn, pal_str name)
{
    for (size_t i = 0; i < turn->step.tools_len; i++)
        if (pal_str_equal(turn->step.tools[i].name, name))
            return &turn->step.tools[i];
    return NULL;
}

/* Returns false if the call has ended with an error as its result. */
static bool check(pal_tool_run *run, const pal_tool *tool)
{
    char text[PAL_ERROR_MESSAGE_MAX + 80];
    pal_error err = {0};

    if (!tool) {
        snprintf(text, sizeof(text), "The tool '%.120s' does not exist.",
                pal_arena_copy(run->arena, run->name).data);
        end_with(run, text, true);
        return false;
    }
    if (pal_tool_check(tool->schema, run->arguments, run->arena, &err) == PAL_OK)
        return true;
    snprintf(text, sizeof(text), "The arguments do not match the tool's schema: %s", err.message);
    end_with(run, text, true);
    return false;
}

/* Starts the call at its server, or continues it. Returns false if the call has ended with an error
 * as its result. */
static bool start_mcp(pal_tool_run *run)
{
    pal_turn *turn = run->turn;
    pal_tool_mcp *server = server_of(turn->runtime, run->name, run->server);
    pal_error err = {0};

    run->state = PAL_TOOL_RUNNING;

    if (!server) {
        end_with(run, "The server of the tool is not available.", true);
        return false;
    }
    run->server = pal_arena_copy(run->arena, pal_tool_mcp_name(server));
    if (pal_tool_mcp_call_start(server,
                &(pal_tool_mcp_order){.name = run->name,
                        .arguments = run->arguments,
                        .handle = run->handle,
                        .replies = run->replies,
                        .can_ask = !turn->request.cannot_ask && !turn->request.cannot_input,
                        .person = turn,
                        .on_outcome = on_mcp_result,
                        .on_question = on_mcp_question,
                        .on_withdrawn = on_mcp_withdrawn,
                        .user = run},
                &run->call, &err) != PAL_OK) {
        end_with(run, err.message, true);
        return false;
    }
    turn->holds++;
    return true;
}

static void start_run(pal_tool_run *run)
{
    pal_turn *turn = run->turn;

    run->state = PAL_TOOL_RUNNING;
    pal_event_publish(turn,
            (pal_event){.kind = PAL_EVENT_TOOL_STARTED,
                    .call_id = run->id,
                    .name = run->name,
                    .text = run->arguments});
    pthread_mutex_lock(&turn->runtime->lock);
    turn->runtime->stats.tool_calls++;
    pthread_mutex_unlock(&turn->runtime->lock);
    if (pal_builtin_has(run->name)) {
        run->item.work = run_builtin;
        run->item.done = on_builtin_done;
        turn->holds++;
        pal_loop_work(turn->runtime->loop, &run->item);
        return;
    }
    (void)start_mcp(run);
}

/* ---- Running all calls ---- */

bool pal_tools_is_callers(const pal_turn *turn, pal_str name)
{
    for (size_t i = 0; i < turn->request.tools_len; i++)
        if (pal_str_equal(turn->request.tools[i].name, name))
            return true;
    return (turn->request.items_request.len > 0 || pal_turn_passes_calls(&turn->request)) &&
            !pal_tools_find(turn, name);
}

static size_t count_state(const pal_turn *turn, pal_tool_state state)
{
    size_t count = 0;

    for (size_t i = 0; i < turn->step.runs_len; i++)
        count += turn->step.runs[i].state == state;
    return count;
}

static void on_results_recorded(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_error err = {0};

    turn->holds--;
    if (turn->commit.messages_len > 0 && pal_turn_write_status(turn, &err) == PAL_OK) {
        turn->owed.told_seq = turn->commit.messages[turn->commit.messages_len - 1].seq;
        if (turn->owed.first_seq == 0) /* a request without messages begins with results */
            turn->owed.first_seq = turn->commit.messages[0].seq;
    }
    turn->commit.messages = NULL;
    turn->commit.messages_len = 0;
    if (pal_turn_write_status(turn, &err) != PAL_OK) {
        pal_owed_added(turn);
        pal_turn_fail(turn, err.status, "could not store the results: %.180s", err.message);
        return;
    }
    if (turn->commit.stage == PAL_COMMIT_LAST)
        turn->owed.state = PAL_OWED_NONE;
    go_on(turn);
}

static bool is_open(const pal_tool_run *run)
{
    return run->is_callers && run->state == PAL_TOOL_WAITING;
}

static bool is_asked(const pal_tool_run *run)
{
    return run->question.kind != PAL_QUESTION_NONE;
}

/* Takes the ended calls up to the first that has not ended. Calls that wait for the caller or for
 * an answer are skipped: another process may continue with them, and they must not delay the
 * others. */
static size_t take_ended(pal_turn *turn, pal_message *out_messages)
{
    size_t len = 0;

    for (size_t i = 0; i < turn->step.runs_len; i++) {
        pal_tool_run *run = &turn->step.runs[i];

        if (run->state == PAL_TOOL_RECORDED || is_open(run) || is_asked(run))
            continue;
        if (run->state != PAL_TOOL_ENDED)
            break;
        out_messages[len++] = run->result;
        run->state = PAL_TOOL_RECORDED;
    }
    return len;
}

/* Returns true if these results are the last commit of the turn. */
static bool is_last(const pal_turn *turn)
{
    size_t open = 0;

    if (turn->stop || turn->lane->steers)
        return false;
    for (size_t i = 0; i < turn->step.runs_len; i++)
        open += is_open(&turn->step.runs[i]);
    if (open + count_state(turn, PAL_TOOL_RECORDED) < turn->step.runs_len)
        return false;
    return open > 0 ? turn->request.calls_end_turn : pal_tools_are_over(turn);
}

static bool has_open(const pal_turn *turn)
{
    for (size_t i = 0; i < turn->step.runs_len; i++)
        if (is_open(&turn->step.runs[i]))
            return true;
    return false;
}

static bool record_ended(pal_turn *turn)
{
    pal_turn_append append = {.done = on_results_recorded};
    pal_error err = {0};
    pal_status status = PAL_OK;

    if (count_state(turn, PAL_TOOL_ENDED) == 0)
        return false;
    append.messages =
            pal_arena_array(turn->step.arena, turn->step.runs_len, sizeof(*append.messages));
    if (!append.messages) {
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
        return true;
    }
    append.messages_len = take_ended(turn, append.messages);
    if (append.messages_len == 0)
        return false;
    if (pal_last_commit_is_wanted(turn) && is_last(turn))
        status = pal_last_commit_prepare(turn, &append, has_open(turn), &err);
    if (status != PAL_OK) {
        pal_turn_fail(turn, status, "could not finish the turn: %.180s", err.message);
        return true;
    }
    turn->commit.messages = append.messages;
    turn->commit.messages_len = append.messages_len;
    turn->commit.write.ops_len = 0;
    pal_turn_write_append(turn, &append);
    return true;
}

void pal_tools_put_waiting(const pal_turn *turn, pal_buf *buf)
{
    pal_json_writer writer = pal_json_writer_make(buf);

    pal_json_begin_array(&writer);
    for (size_t i = 0; i < turn->step.runs_len; i++) {
        const pal_tool_run *run = &turn->step.runs[i];

        if (run->is_callers && run->state == PAL_TOOL_WAITING)
            pal_native_call_put(&writer, run->id, run->name, run->arguments);
    }
    pal_json_end_array(&writer);
}

void pal_tools_tell_paused(pal_turn *turn)
{
    pal_buf buf;

    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_tools_put_waiting(turn, &buf);
    pal_event_publish(turn, (pal_event){.kind = PAL_EVENT_PAUSED, .text = pal_buf_str(&buf)});
    pal_buf_done(&buf);
}

bool pal_tools_are_over(const pal_turn *turn)
{
    return turn->step.rounds > 0 && turn->step.rounds >= turn->settings.rounds_max;
}

static void all_recorded(pal_turn *turn)
{
    bool was_last = pal_tools_are_over(turn) && !turn->lane->steers;

    pal_tools_done(turn);
    pal_answer_clear(&turn->step.answer); /* the answer is recorded */
    turn->step.rounds++;
    if (!turn->stop) /* a canceled turn that was paused does not run again */
        pal_turn_set_state(turn, PAL_TURN_RUNNING);
    if (was_last && !turn->stop)
        pal_turn_finish(turn, PAL_TURN_DONE);
    else
        pal_turn_next_step(turn);
}

/* Notes whether this is the third identical call in a row. Calls of the caller's tools count too,
 * because a different call in between breaks the run. */
static void count_call(pal_turn *turn, pal_tool_run *run)
{
    if (run->is_counted)
        return;
    run->is_counted = true;
    run->is_repeat = pal_tool_loop_add(&turn->step.doom, run->name, run->arguments);
}

/* Cancels the task of a call that waits for an answer. */
static void cancel_task(pal_tool_run *run)
{
    pal_tool_mcp *server =
            run->kept.len ? server_of(run->turn->runtime, run->name, run->server) : NULL;

    if (server)
        pal_tool_mcp_handle_cancel(server, run->kept);
    run->kept = (pal_str){0};
}

/* Starts a call, or ends it if it cannot run, or gives it a question for a person. */
static void start_or_ask(pal_turn *turn, pal_tool_run *run)
{
    const pal_tool *tool = pal_tools_find(turn, run->name);
    const pal_tool unknown = {.name = run->name}; /* a denied tool is not offered */
    pal_permission permission = pal_permission_decide(
            &turn->settings.permissions, tool ? tool : &unknown, PAL_PERMISSION_NONE);

    count_call(turn, run);
    if (permission == PAL_PERMISSION_DENY)
        end_denied(run);
    else if (run->is_repeat && !run->is_allowed) /* also if it is invalid: a loop must stop */
        pal_question_set(
                run, PAL_QUESTION_REPEAT, tool ? tool->server : (pal_str){0}, (pal_str){0});
    else if (!check(run, tool))
        return;
    else if (permission == PAL_PERMISSION_ASK && !run->is_permitted && !run->is_allowed)
        pal_question_set(run, PAL_QUESTION_APPROVAL, tool->server, (pal_str){0});
    else
        start_run(run);
}

static void start_waiting(pal_turn *turn)
{
    bool is_skipped = turn->stop || turn->lane->steers;

    for (size_t i = 0; i < turn->step.runs_len; i++) {
        pal_tool_run *run = &turn->step.runs[i];

        if (run->state != PAL_TOOL_WAITING)
            continue;
        if (pal_tools_are_over(turn)) {
            end_with(run, exhausted_text, true); /* no tool was offered in this call */
        } else if (run->is_callers && !(is_skipped && turn->request.calls_end_turn)) {
            count_call(turn, run);
        } else if (is_skipped) {
            cancel_task(run);
            end_with(run, skipped_text, true);
        } else if (run->question.kind == PAL_QUESTION_NONE) {
            if (count_state(turn, PAL_TOOL_RUNNING) >= PARALLEL_MAX)
                break;
            if (run->handle.len) /* it was allowed before, and is continued */
                (void)start_mcp(run);
            else
                start_or_ask(turn, run);
        }
    }
}

/* Ends the turn. Its open calls are left to the caller. */
static void end_with_calls(pal_turn *turn)
{
    if (has_open(turn)) {
        turn->info.has_calls = true;
        pal_tools_tell_paused(turn);
    }
    if (has_question(turn)) {
        turn->info.has_calls = true;
        pal_question_tell(turn);
    }
    pal_turn_finish(turn, PAL_TURN_DONE);
}

/* A message that is steered into the turn comes before the approval of its calls. */
static void skip_asked(pal_turn *turn)
{
    for (size_t i = 0; i < turn->step.runs_len; i++)
        if (is_asked(&turn->step.runs[i]))
            end_with(&turn->step.runs[i], skipped_text, true);
}

static void on_end_stored(pal_write *write)
{
    PAL_TURN_OF(write, commit.write)->step.asking = PAL_ASK_IDLE;
    on_results_recorded(write);
}

/* The results of all other calls are recorded before the last commit, which has none. */
void pal_tools_end_asking(pal_turn *turn)
{
    pal_turn_append append = {0};
    pal_error err = {0};

    if (turn->stop || turn->lane->steers)
        skip_asked(turn);
    if (count_state(turn, PAL_TOOL_ENDED) > 0) {
        go_on(turn);
        return;
    }
    if (pal_last_commit_prepare(turn, &append, true, &err) != PAL_OK) {
        pal_turn_fail(turn, err.status, "could not finish the turn: %.180s", err.message);
        return;
    }
    turn->step.asking = PAL_ASK_STORES;
    turn->commit.messages_len = 0;
    turn->commit.write.ops_len = 0;
    if (append.outbox)
        pal_turn_add_outbox(turn, append.outbox);
    if (append.inbox_len > 0)
        pal_turn_add_op(turn,
                pal_op_inbox_drop(
                        turn->request.tenant, turn->request.session, append.inbox_ids[0]));
    if (append.record)
        pal_turn_add_op(turn,
                pal_op_record_put(turn->request.tenant, append.record, PAL_RECORD_VERSION_ANY));
    pal_turn_write(turn, on_end_stored);
}

static void pause_turn(pal_turn *turn)
{
    pal_turn_enter(turn, PAL_TURN_PHASE_PAUSED);
    pal_turn_set_state(turn, PAL_TURN_PAUSED);
    pal_lane_park(turn);
    pal_tools_tell_paused(turn);
}

static void on_handles_stored(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_error err = {0};
    pal_status status = pal_turn_write_status(turn, &err);

    turn->holds--;
    turn->step.asking = PAL_ASK_IDLE;
    pal_owed_renewed(turn, status);
    if (turn->phase != PAL_TURN_PHASE_TOOLS)
        return;
    if (status == PAL_OK)
        go_on(turn);
    else
        pal_turn_fail(turn, status, "could not store the handle of a call: %.180s", err.message);
}

/* Stores the handles of tasks, so that another process can continue to poll them. */
static bool store_handles(pal_turn *turn)
{
    if (!turn->step.has_new_handle || turn->owed.state != PAL_OWED_STORED)
        return false;
    turn->step.has_new_handle = false;
    turn->step.asking = PAL_ASK_STORES;
    turn->commit.write.ops_len = 0;
    pal_owed_renew(turn);
    pal_turn_write(turn, on_handles_stored);
    return true;
}

/* Returns true if a call runs without waiting for an answer. */
static bool has_busy(const pal_turn *turn)
{
    for (size_t i = 0; i < turn->step.runs_len; i++)
        if (turn->step.runs[i].state == PAL_TOOL_RUNNING && !is_asked(&turn->step.runs[i]))
            return true;
    return false;
}

static void go_on(pal_turn *turn)
{
    if (turn->phase != PAL_TURN_PHASE_TOOLS && turn->phase != PAL_TURN_PHASE_PAUSED)
        return;
    if (turn->commit.stage != PAL_COMMIT_LAST)
        start_waiting(turn);
    if (turn->commit.messages || turn->step.asking) /* its end calls this function again */
        return;
    if (turn->commit.stage == PAL_COMMIT_LAST) {
        end_with_calls(turn);
        return;
    }
    if (store_handles(turn) || record_ended(turn))
        return;
    if (count_state(turn, PAL_TOOL_RECORDED) == turn->step.runs_len)
        all_recorded(turn);
    else if (has_busy(turn))
        return;
    else if (has_question(turn))
        pal_question_ask(turn);
    else if (!has_open(turn))
        return;
    else if (turn->request.calls_end_turn)
        end_with_calls(turn);
    else if (turn->phase != PAL_TURN_PHASE_PAUSED)
        pause_turn(turn);
}

/* If the commit with these calls was the last one, the turn has ended despite the failure. */
static void begin_failed(pal_turn *turn)
{
    turn->info.has_calls = turn->commit.stage == PAL_COMMIT_LAST;
    if (turn->commit.stage == PAL_COMMIT_LAST)
        pal_turn_finish(turn, PAL_TURN_DONE);
    else
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
}

void pal_tools_begin(pal_turn *turn, const pal_message *answer)
{
    pal_turn_enter(turn, PAL_TURN_PHASE_TOOLS);
    turn->commit.messages = NULL;
    turn->step.runs = pal_calloc(answer->parts_len, sizeof(*turn->step.runs));
    turn->step.runs_len = 0;
    for (size_t i = 0; turn->step.runs && i < answer->parts_len; i++) {
        const pal_part *part = &answer->parts[i];
        pal_tool_run *run = &turn->step.runs[turn->step.runs_len];

        if (part->kind != PAL_PART_TOOL_CALL)
            continue;
        run->turn = turn;
        run->id = part->call_id;
        run->name = part->name;
        run->arguments = part->arguments;
        run->is_callers = pal_tools_is_callers(turn, part->name);
        run->arena = pal_arena_new(0);
        turn->step.runs_len++;
        if (!run->arena) {
            begin_failed(turn);
            return;
        }
    }
    if (!turn->step.runs) {
        begin_failed(turn);
        return;
    }
    go_on(turn);
}

void pal_tools_stop(pal_turn *turn, const char *text)
{
    pal_turn_enter(turn, PAL_TURN_PHASE_TOOLS);
    for (size_t i = 0; i < turn->step.runs_len; i++) {
        pal_tool_run *run = &turn->step.runs[i];

        if (run->call) {
            pal_tool_mcp_call_cancel(run->call);
            run->call = NULL;
            turn->holds--;
            end_with(run, text, true);
        } else if (run->state == PAL_TOOL_WAITING) {
            cancel_task(run);
            end_with(run, text, true);
        }
    }
    go_on(turn);
}

static pal_tool_run *waiting_run(const pal_turn *turn, pal_str call_id)
{
    for (size_t i = 0; i < turn->step.runs_len; i++)
        if (turn->step.runs[i].is_callers && turn->step.runs[i].state == PAL_TOOL_WAITING &&
                pal_str_equal(turn->step.runs[i].id, call_id))
            return &turn->step.runs[i];
    return NULL;
}

pal_status pal_tools_results(
        pal_turn *turn, const pal_message *messages, size_t len, pal_error *err)
{
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j < messages[i].parts_len; j++)
            if (messages[i].parts[j].kind != PAL_PART_TOOL_RESULT ||
                    !waiting_run(turn, messages[i].parts[j].call_id))
                return pal_error_set(err, PAL_INVALID,
                        "message %zu: the call '%.*s' is not waiting for a result", i,
                        (int)(messages[i].parts[j].call_id.len < 80
                                        ? messages[i].parts[j].call_id.len
                                        : 80),
                        messages[i].parts[j].call_id.data ? messages[i].parts[j].call_id.data : "");
    for (size_t i = 0; i < len; i++) {
        for (size_t j = 0; j < messages[i].parts_len; j++) {
            const pal_part *part = &messages[i].parts[j];
            pal_tool_run *run = waiting_run(turn, part->call_id);

            if (!run)
                continue; /* a call id that appears twice: the first result counts */
            if (part->parts_len > 0)
                set_result(run, part->parts, part->parts_len, part->is_error);
            else
                set_text(run, part->text, part->is_error);
            end_run(run);
        }
    }
    pal_turn_set_state(turn, PAL_TURN_RUNNING);
    pal_lane_unpark(turn, pal_tools_go_on);
    return PAL_OK;
}

/* A turn that another process began has no tools yet. */
void pal_tools_go_on(pal_turn *turn)
{
    if (!turn->step.tools) {
        pal_servers_await(turn);
        return;
    }
    pal_turn_enter(turn, PAL_TURN_PHASE_TOOLS);
    go_on(turn);
}

void pal_tools_cancel(pal_turn *turn)
{
    for (size_t i = 0; i < turn->step.runs_len; i++) {
        if (!turn->step.runs[i].call)
            continue;
        pal_tool_mcp_call_leave(turn->step.runs[i].call);
        turn->step.runs[i].call = NULL;
        turn->holds--;
    }
}

void pal_tools_cancel_tasks(pal_turn *turn)
{
    for (size_t i = 0; i < turn->step.runs_len; i++)
        cancel_task(&turn->step.runs[i]);
}

void pal_tools_done(pal_turn *turn)
{
    for (size_t i = 0; i < turn->step.runs_len; i++)
        pal_arena_free(turn->step.runs[i].arena);
    pal_free(turn->step.runs);
    turn->step.runs = NULL;
    turn->step.runs_len = 0;
    turn->step.has_new_handle = false;
    turn->owed.handles = (pal_str){0};
}
