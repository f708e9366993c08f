/* provider_play.c - replays the steps of a known answer, one per iteration of the loop, so that the
 * reader sees the same as with a stream.
 *
 * The sink can cancel the call from any of its callbacks. Then nothing more is reported, and the
 * call is freed when it is off the stack (`is_busy`). It is removed from its provider before `end`,
 * which can close the provider. On the loop. */
#include "base/clock.h"
#include "base/memory.h"
#include "provider/provider_play.h"

typedef struct play_call {
    pal_model_call base;
    pal_play play;
    size_t next;
    pal_answer answer;
    pal_timer timer;
    int64_t deadline_ms; /* time on the loop's clock; 0: no deadline */
    bool is_busy;        /* a function of this call is on the stack */
} play_call;

static void detach(play_call *call)
{
    pal_loop_timer_stop(call->base.provider->loop, &call->timer);
    pal_provider_call_remove(&call->base);
}

static void free_detached(play_call *call)
{
    pal_answer_done(&call->answer);
    pal_arena_free(call->play.owned);
    pal_free(call);
}

static void cancel_play(pal_model_call *base)
{
    play_call *call = (play_call *)base;
    call->answer.is_silent = true;
    if (call->is_busy)
        return;
    detach(call);
    free_detached(call);
}

static void finish(play_call *call)
{
    pal_answer_learn(&call->answer.model, call->play.model);
    pal_answer_settle(&call->answer);
    detach(call);
    if (!call->answer.is_silent)
        call->answer.sink.end(call->answer.user, &call->answer.end);
    free_detached(call);
}

/* ---- Steps ---- */

static void fail(pal_answer *answer, const pal_play_step *step)
{
    pal_answer_fail(answer, step->status, "%.*s", PAL_STR_ARG(step->text));
    pal_answer_learn(&answer->error_code, step->name);
    answer->end.code = step->code;
    answer->end.retry_after_ms = step->ms;
}

static void tell(play_call *call, const pal_play_step *step)
{
    pal_answer *answer = &call->answer;
    switch (step->kind) {
    case PAL_PLAY_TEXT:
        pal_answer_text(answer, step->text);
        break;
    case PAL_PLAY_REASONING:
        pal_answer_reasoning(answer, step->text);
        break;
    case PAL_PLAY_SIGNATURE:
        pal_answer_signature(answer, step->text, step->name);
        break;
    case PAL_PLAY_CALL:
        pal_answer_arguments(answer,
                pal_answer_call_of(answer, (int64_t)answer->calls_len, step->id, step->name),
                step->text);
        break;
    case PAL_PLAY_USAGE:
        answer->end.has_usage = true;
        answer->end.usage = step->usage;
        break;
    case PAL_PLAY_FINISH:
        pal_answer_finish(answer, step->text);
        break;
    case PAL_PLAY_ERROR:
        fail(answer, step);
        break;
    case PAL_PLAY_DELAY:
        break;
    }
}

/* Returns the delay before the next step. It ends at the deadline at the latest. */
static int64_t delay_of(play_call *call, const pal_play_step *step)
{
    int64_t delay = step->kind == PAL_PLAY_DELAY && step->ms > 0 ? step->ms : 0;
    int64_t now = pal_clock_monotonic_ms();
    if (call->deadline_ms && now + delay > call->deadline_ms)
        delay = call->deadline_ms > now ? call->deadline_ms - now : 0;
    return delay;
}

static void on_timer(pal_timer *timer)
{
    play_call *call = (play_call *)((char *)timer - offsetof(play_call, timer));
    pal_loop *loop = call->base.provider->loop;
    call->is_busy = true;
    if (call->deadline_ms && pal_clock_monotonic_ms() >= call->deadline_ms)
        pal_answer_fail(&call->answer, PAL_TIMEOUT, "the model exceeded the time limit");
    const pal_play_step *step =
            call->next < call->play.steps_len ? &call->play.steps[call->next++] : NULL;
    if (step)
        tell(call, step);
    if (step && !call->answer.end.status && !call->answer.is_silent) {
        if (pal_loop_timer_start(loop, timer, delay_of(call, step), on_timer)) {
            call->is_busy = false;
            return;
        }
        pal_answer_fail(&call->answer, PAL_NO_MEMORY, "out of memory");
    }
    finish(call);
}

pal_status pal_play_start(pal_provider *provider, const pal_play *play, int64_t timeout_ms,
        const pal_model_sink *sink, void *user, pal_model_call **out_call, pal_error *err)
{
    play_call *call = pal_calloc(1, sizeof(*call));
    if (!call) {
        pal_arena_free(play->owned);
        return pal_no_memory(err);
    }
    call->base = (pal_model_call){.provider = provider, .cancel = cancel_play};
    call->play = *play;
    if (timeout_ms > 0)
        call->deadline_ms = pal_clock_monotonic_ms() + timeout_ms;
    pal_answer_init(&call->answer, NULL, sink, user);
    pal_provider_call_add(provider, &call->base);
    if (!pal_loop_timer_start(provider->loop, &call->timer, 0, on_timer)) {
        detach(call);
        free_detached(call);
        return pal_no_memory(err);
    }
    *out_call = &call->base;
    return PAL_OK;
}
