/* api_mistral_handoff.c - handoffs from one agent to the next: decides whether the calls that ended
 * a turn hand the conversation over, and creates their results. Runs on the loop, with the run's
 * lock held. */
#include "dialect/dialect_member.h"
#include "server/api/mistral/api_mistral_run_internal.h"

static const pal_mistral_target *target_of(const pal_mistral_runner *run, pal_str tool)
{
    const pal_mistral_speaker *speaker = pal_mistral_speaker_of(run);
    for (size_t i = 0; i < speaker->targets_len; i++) {
        if (pal_str_equal(speaker->targets[i].tool, tool))
            return &speaker->targets[i];
    }
    return NULL;
}

/* Returns the agent that continues; NULL if the request ends here. If the answer also calls tools
 * of the client, there is no handoff: the client must run those first. */
static const pal_mistral_target *next_target(pal_mistral_runner *run, pal_json calls)
{
    const pal_mistral_target *first = NULL;
    pal_json call;
    if (run->state != PAL_TURN_DONE || pal_run_is_gone(&run->run) || run->options.is_clients ||
            run->turns_run > PAL_MISTRAL_RUN_TURNS_MAX)
        return NULL;
    for (pal_json_iter iter = pal_json_each(calls); pal_json_next(&iter, NULL, &call);) {
        const pal_mistral_target *target =
                target_of(run, pal_member_string(call, "name", run->run.arena));
        if (!target)
            return NULL;
        first = first ? first : target;
    }
    return first;
}

/* Creates the results of the handoff calls. Only the first call hands over; the others get an
 * error. */
static pal_message *make_results(
        pal_mistral_runner *run, pal_json calls, const pal_mistral_speaker *to, size_t *out_len)
{
    const pal_mistral_speaker *from = pal_mistral_speaker_of(run);
    const pal_mistral_handoff handoff = {.previous_id = from->agent_id,
            .previous_name = from->agent_name,
            .next_id = to->agent_id,
            .next_name = to->agent_name};
    size_t len = 0, count = pal_json_count(calls);
    pal_message *messages = pal_arena_array(run->run.arena, count, sizeof *messages);
    pal_part *parts = pal_arena_array(run->run.arena, count, sizeof *parts);
    pal_json call;
    pal_json_iter iter = pal_json_each(calls);
    for (; messages && parts && pal_json_next(&iter, NULL, &call); len++) {
        parts[len] = (pal_part){.kind = PAL_PART_TOOL_RESULT,
                .call_id = pal_member_string(call, "call_id", run->run.arena),
                .name = pal_member_string(call, "name", run->run.arena),
                .text = pal_str_of(len ? "Another handoff came first." : "done"),
                .is_error = len > 0};
        messages[len] = (pal_message){
                .id = pal_id_new(), .role = PAL_ROLE_TOOL, .parts = &parts[len], .parts_len = 1};
    }
    *out_len = len;
    if (!len || pal_mistral_handoff_keep(&handoff, run->run.arena, &parts[0].extra, NULL) != PAL_OK)
        return NULL;
    return messages;
}

static void report(pal_mistral_runner *run, pal_id message, const pal_mistral_speaker *to)
{
    pal_buf buf;
    if (!run->options.format->handoff)
        return;
    pal_mistral_run_begin_frames(run, &buf);
    run->options.format->handoff(&run->frames, message, pal_mistral_speaker_of(run), to);
    pal_mistral_run_write_frames(run, &buf);
}

bool pal_mistral_run_hand_over(pal_mistral_runner *run, pal_message **out_messages, size_t *out_len)
{
    pal_json calls = {0};
    if (run->calls.len && pal_json_parse(run->run.arena, run->calls, NULL, &calls, NULL) != PAL_OK)
        return false;
    const pal_mistral_target *target = next_target(run, calls);
    if (!target)
        return false;
    const pal_mistral_speaker *to = &run->options.speakers.items[target->speaker];
    *out_messages = make_results(run, calls, to, out_len);
    if (!*out_messages)
        return false;
    report(run, (*out_messages)[0].id, to);
    run->speaker = target->speaker;
    run->kept_seq = run->last_seq;
    run->calls = (pal_str){0};
    return true;
}
