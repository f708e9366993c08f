/* turn_answer.c - records what the model said, before anything else is done with it: the answer,
 * its row in the ledger and, where the service keeps the conversation itself, which one that is, in
 * one commit. What is said into a turn is taken up between two calls of the model. On the loop. */
#include "turn/turn_machine.h"

#include "base/json.h"
#include "base/memory.h"
#include "turn/turn_conversation.h"
#include "turn/turn_event.h"
#include "turn/turn_sender.h"
#include "turn/turn_speech.h"

void pal_answer_keep_text(pal_turn *turn)
{
    pal_buf text;

    pal_buf_init(&text, PAL_MESSAGE_BYTES_MAX);
    pal_speech_put_text(&turn->answer, &text);
    if (text.len > 0 && !turn->text_arena)
        turn->text_arena = pal_arena_new(0);
    if (text.len > 0 && turn->text_arena) {
        pal_arena_reset(turn->text_arena);
        turn->text = pal_arena_copy(turn->text_arena, pal_buf_str(&text));
    }
    pal_buf_done(&text);
}

static bool has_calls(const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_CALL)
            return true;
    return false;
}

static void after_answer(pal_turn *turn);

static void steered(pal_write *write)
{
    pal_turn *turn = pal_turn_of_write(write);
    pal_steer *steer = turn->steer;
    pal_error err = {0};

    turn->holds--;
    turn->steer = NULL;
    if (pal_turn_write_status(turn, &err) != PAL_OK) {
        pal_steer_free(steer);
        pal_turn_fail(turn, err.status, "%s", err.message);
        return;
    }
    for (size_t i = 0; i < steer->messages_len; i++)
        pal_event_tell(turn,
                (pal_event){.kind = PAL_EVENT_STEERED,
                        .message = steer->messages[i].id,
                        .seq = steer->messages[i].seq});
    pal_steer_free(steer);
    turn->attempt = 0;
    pal_turn_next_step(turn);
}

bool pal_turn_take_steer(pal_turn *turn)
{
    pal_steer *steer = turn->compact ? NULL : pal_lane_steer(turn->lane);

    if (!steer)
        return false;
    pal_sender_show(steer->messages, steer->messages_len, steer->arena);
    turn->phase = PAL_PHASE_STEER;
    turn->steer = steer;
    turn->write.ops_len = 0;
    turn->rounds = 0; /* who speaks to it allows it more */
    turn->last_call = false;
    pal_turn_write_append(turn,
            &(pal_turn_append){.messages = steer->messages,
                    .messages_len = steer->messages_len,
                    .inbox_ids = &steer->inbox_id,
                    .inbox_len = 1,
                    .done = steered});
    return true;
}

static void recorded(pal_write *write)
{
    pal_turn *turn = pal_turn_of_write(write);
    pal_message *message = turn->messages;
    pal_error err = {0};

    turn->holds--;
    if (pal_turn_write_status(turn, &err) != PAL_OK) {
        pal_turn_fail(turn, err.status, "the answer could not be recorded: %.180s", err.message);
        return;
    }
    pal_event_tell(turn,
            (pal_event){.kind = PAL_EVENT_MESSAGE,
                    .message = message->id,
                    .seq = message->seq,
                    .usage = message->usage,
                    .finish_length = turn->work_status == PAL_LIMIT});
    turn->attempt = 0;
    turn->after_overflow = turn->after_compaction = false;
    pal_conversation_answered(turn, message);
    if (turn->is_cancelled && !has_calls(message))
        pal_turn_finish(turn, PAL_TURN_CANCELED);
    else if (has_calls(message))
        pal_tools_begin(turn, message);
    else
        after_answer(turn);
}

static void after_answer(pal_turn *turn)
{
    if (!pal_turn_take_steer(turn))
        pal_turn_finish(turn, PAL_TURN_DONE);
}

/* Which calls the caller is to run: so that a restart does not settle them. */
static pal_str waits_of(const pal_turn *turn, const pal_message *message, pal_arena *arena)
{
    pal_buf buf;
    pal_json_writer writer;
    pal_str extra = {0};
    size_t len = 0;

    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "waits");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < message->parts_len; i++)
        for (size_t j = 0; j < turn->request.tools_len; j++)
            if (message->parts[i].kind == PAL_PART_TOOL_CALL &&
                    pal_str_equal(message->parts[i].name, turn->request.tools[j].name)) {
                pal_json_put_str(&writer, message->parts[i].call_id);
                len++;
                break;
            }
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    if (len > 0 && buf.failure == PAL_OK)
        extra = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return extra;
}

/* `request_id` has room for an id. */
static pal_ledger_row ledger_row(pal_turn *turn, const pal_usage *usage, char *request_id)
{
    pal_id_to_text(pal_id_new(), request_id);
    return (pal_ledger_row){
            .request_id = pal_str_of(request_id),
            .turn_id = pal_str_of(turn->id_text),
            .agent = turn->settings.agent,
            .purpose = pal_str_of("turn"),
            .provider = pal_provider_name(turn->provider),
            .model = turn->settings.model,
            .price_version = turn->runtime->options.price_version,
            .usage = *usage,
            .cost_micros = pal_price_of(turn->runtime, turn->settings.model, usage),
    };
}

static void add_usage(pal_usage *sum, const pal_usage *usage)
{
    sum->input += usage->input;
    sum->cache_read += usage->cache_read;
    sum->cache_write += usage->cache_write;
    sum->output += usage->output;
    sum->reasoning += usage->reasoning;
}

void pal_answer_add_usage(pal_turn *turn, const pal_usage *usage, int64_t cost_micros)
{
    pal_runtime *runtime = turn->runtime;

    add_usage(&turn->usage, usage);
    turn->cost_micros += cost_micros;
    pthread_mutex_lock(&runtime->lock);
    add_usage(&runtime->stats.usage, usage);
    runtime->stats.cost_micros += cost_micros;
    pthread_mutex_unlock(&runtime->lock);
}

/* A row by itself, beside whatever the turn does next. */
typedef struct spent {
    pal_write write;
    pal_turn *turn;
    pal_op op;
    pal_ledger_row row;
    char request_id[PAL_ID_TEXT_SIZE];
} spent;

static void spent_kept(pal_write *write)
{
    spent *s = (spent *)((char *)write - offsetof(spent, write));

    s->turn->holds--;
    pal_free(s);
}

void pal_answer_spent(pal_turn *turn, const pal_model_end *end)
{
    spent *s = end->has_usage ? pal_calloc(1, sizeof(*s)) : NULL;

    if (!s)
        return;
    s->turn = turn;
    s->row = ledger_row(turn, &end->usage, s->request_id);
    s->op = (pal_op){.kind = PAL_OP_LEDGER_ADD,
            .tenant = turn->request.tenant,
            .session = turn->request.session,
            .u.ledger_row = &s->row};
    s->write = (pal_write){.ops = &s->op, .ops_len = 1, .done = spent_kept};
    pal_answer_add_usage(turn, &end->usage, s->row.cost_micros);
    turn->holds++;
    pal_journal_write(&turn->runtime->journal, &s->write);
}

void pal_answer_record(pal_turn *turn, const pal_model_end *end)
{
    pal_op also = {.kind = PAL_OP_RECORD_PUT,
            .tenant = turn->request.tenant,
            .session = turn->request.session,
            .fence = turn->lane->fence,
            .u.record.expected_version = PAL_VERSION_ANY};
    pal_arena *arena = pal_turn_step_arena(turn);
    pal_message *message = arena ? pal_arena_alloc(arena, sizeof(*message)) : NULL;
    pal_error err = {0};
    pal_status status = PAL_NO_MEMORY;

    if (message)
        status = pal_speech_message(&turn->answer, arena, message, &err);
    if (status != PAL_OK) {
        pal_turn_fail(turn, status, "%s", message ? err.message : "out of memory");
        return;
    }
    if (message->parts_len == 0) {
        pal_answer_spent(turn, end);
        pal_turn_fail(turn, PAL_PROVIDER, "the model answered nothing");
        return;
    }
    pal_answer_keep_text(turn);
    message->id = turn->answer_id;
    message->model = pal_arena_copy(arena, end->model.len ? end->model : turn->settings.model);
    message->has_usage = end->has_usage;
    message->usage = end->usage;
    message->extra = waits_of(turn, message, arena);
    turn->messages = message;
    turn->messages_len = 1;
    turn->phase = PAL_PHASE_RECORD;
    turn->work_status = end->finish == PAL_FINISH_LENGTH ? PAL_LIMIT : PAL_OK;
    turn->write.ops_len = 0;
    if (end->has_usage) {
        turn->ledger = ledger_row(turn, &end->usage, turn->ledger_id);
        pal_answer_add_usage(turn, &end->usage, turn->ledger.cost_micros);
    }
    also.u.record.record = pal_conversation_record(turn, end, message);
    pal_turn_write_append(turn,
            &(pal_turn_append){.messages = message,
                    .messages_len = 1,
                    .ledger = end->has_usage ? &turn->ledger : NULL,
                    .also = also.u.record.record ? &also : NULL,
                    .done = recorded});
}
