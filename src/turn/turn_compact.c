/* turn_compact.c - makes a checkpoint: what stands for the older part of a conversation.
 *
 * Nothing is deleted: a checkpoint is one more mark, written together with the ledger row of the
 * model call that made it. A crash before that commit leaves the conversation as it was, and the
 * next turn compacts again; a crash after it leaves the checkpoint. */
#include "turn/turn_compact.h"

#include "base/buf.h"
#include "base/clock.h"
#include "context/context_checkpoint.h"
#include "turn/turn_prompt.h"

enum { HINT_MESSAGES = 6, HINT_TEXT_LEN_MAX = 1000, LOW_WATER_PERCENT = 50 };

#define AGAIN_BYTES_MAX ((uint64_t)256 << 20)

static pal_status no_memory(pal_arena *arena, pal_error *err)
{
    return pal_error_set(err, pal_arena_failure(arena), "out of memory");
}

static pal_str arena_text(pal_arena *arena, pal_buf *buf)
{
    pal_str text = buf->failure == PAL_OK ? pal_arena_copy(arena, pal_buf_str(buf)) : (pal_str){0};

    pal_buf_done(buf);
    return text;
}

/* ---- Where to cut ---- */

/* A compaction that was asked for is one even where the window is not full. */
static void set_forced(pal_context_input *input)
{
    input->after_overflow = true;
    input->after_compaction = false;
    input->settings.auto_off = false;
    input->settings.prune_off = true;
    if (input->settings.strategy == PAL_STRATEGY_SLIDING_WINDOW ||
            input->settings.strategy == PAL_STRATEGY_NONE)
        input->settings.strategy = PAL_STRATEGY_COMPACT;
}

static pal_status plan_cut(pal_compact_job *job, pal_arena *arena, pal_error *err)
{
    pal_status status;

    set_forced(&job->view.input);
    status = pal_context_plan(&job->view.input, arena, &job->plan, err);
    if (status == PAL_OK)
        job->record.tokens_before = job->plan.tokens;
    return status;
}

static size_t count_through(const pal_context_input *input, uint64_t seq, uint64_t *out_tokens)
{
    size_t count = 0;

    *out_tokens = 0;
    while (count < input->messages_len && input->messages[count].seq <= seq)
        *out_tokens += input->messages[count++].tokens;
    return count;
}

static uint64_t summary_tokens(const pal_plan *plan)
{
    uint64_t tokens = 0;

    for (size_t i = 0; i < plan->items_len; i++)
        if (plan->items[i].kind == PAL_ITEM_SUMMARY)
            tokens += plan->items[i].tokens;
    return tokens;
}

static void set_cut(pal_compact_job *job, uint64_t cut_seq)
{
    pal_checkpoint_record *record = &job->record;
    const pal_checkpoint *before = &job->view.input.checkpoint;

    record->checkpoint.seq = cut_seq;
    record->messages = count_through(&job->view.input, cut_seq, &job->replaced_tokens);
    record->checkpoint.dropped = before->dropped + job->view.input.older_messages;
    job->replaced_tokens += summary_tokens(&job->plan);
}

/* ---- The question ---- */

/* How many items stand before the cut: what is made between two messages belongs to the one
 * before it, and the kept messages, which are older, come before the tail. */
static size_t items_before(const pal_plan *plan, uint64_t cut_seq)
{
    size_t len = 0;

    while (len < plan->items_len &&
            (plan->items[len].kind != PAL_ITEM_MESSAGE || plan->items[len].seq <= cut_seq))
        len++;
    return len;
}

static uint64_t request_budget(const pal_compact_job *job)
{
    const pal_context_limits *limits = &job->view.input.limits;
    uint64_t room = limits->input ? limits->input : limits->context;
    uint64_t answer = job->request.output_max + PAL_PROMPT_TOKENS_MAX;

    return room > answer ? room - answer : 0;
}

/* What was sent last time, up to the cut, and the question behind it: all but the question comes
 * from the provider's cache. Only where that is more than the model takes, the oldest messages
 * after the summary are left out of the question. */
static pal_status build_request(
        pal_compact_job *job, const pal_compaction *compaction, pal_arena *arena, pal_error *err)
{
    const pal_plan *plan = &job->plan;
    uint64_t cut_seq = job->record.checkpoint.seq, tokens = 0, budget;
    pal_message *list = pal_arena_array(arena, plan->items_len + 1, sizeof(*list));
    size_t len = 0, items_len = items_before(plan, cut_seq);
    pal_str question;
    pal_repaired repaired;
    pal_status status;

    if (!list)
        return no_memory(arena, err);
    job->request.output_max = job->view.input.settings.summary_tokens_max
            ? job->view.input.settings.summary_tokens_max
            : PAL_SUMMARY_TOKENS_MAX;
    budget = request_budget(job);
    for (size_t i = 0; i < items_len; i++)
        if (plan->items[i].hash)
            tokens += plan->items[i].tokens;
    for (size_t i = 0; i < items_len; i++) {
        const pal_plan_item *item = &plan->items[i];

        if (!item->message)
            continue;
        if (tokens > budget && item->kind == PAL_ITEM_MESSAGE) {
            tokens -= item->tokens;
            job->record.checkpoint.dropped++;
            continue;
        }
        list[len++] = *item->message;
    }
    question = pal_prompt_summary(job->view.input.checkpoint.summary.len > 0);
    if (compaction->prompt.len > 0)
        question = compaction->prompt;
    list[len++] = pal_message_text(arena, PAL_ROLE_USER, question);
    if (pal_arena_failure(arena) != PAL_OK)
        return no_memory(arena, err);
    status = pal_context_repair(list, len, &job->view.input, arena, &repaired, err);
    if (status != PAL_OK)
        return status;
    job->request.messages = repaired.messages;
    job->request.messages_len = repaired.len;
    job->request.tools = job->view.input.tools;
    job->request.tools_len = job->view.input.tools_len;
    job->request.model = compaction->model.len ? compaction->model : job->window.model;
    return PAL_OK;
}

/* ---- A fresh start ---- */

static void hint_line(pal_buf *buf, const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        pal_str text = part->text;

        if (part->kind != PAL_PART_TEXT || text.len == 0)
            continue;
        pal_buf_format(buf, "\n%s: ", pal_role_name(message->role));
        pal_buf_append_str(buf, pal_prompt_excerpt(text, HINT_TEXT_LEN_MAX));
    }
}

static pal_str make_hint(const pal_context_input *input, uint64_t cut_seq, pal_arena *arena)
{
    size_t end = 0, first;
    pal_buf buf;

    while (end < input->messages_len && input->messages[end].seq <= cut_seq)
        end++;
    first = end > HINT_MESSAGES ? end - HINT_MESSAGES : 0;
    pal_buf_init(&buf, PAL_MARK_BODY_LEN_MAX);
    pal_buf_append_str(&buf, pal_prompt_hint());
    for (size_t i = first; i < end; i++)
        hint_line(&buf, &input->messages[i]);
    return arena_text(arena, &buf);
}

/* ---- Redoing one ---- */

/* What stood before `again` was made: the newest of that number that still counts, if any does. */
static const pal_mark *find_previous(
        const pal_mark *marks, size_t len, const pal_checkpoint_record *again)
{
    for (size_t i = len; i-- > 0;)
        if (marks[i].kind == PAL_MARK_CHECKPOINT && marks[i].number == again->previous &&
                marks[i].seq < again->checkpoint.seq && !marks[i].undone)
            return &marks[i];
    return pal_checkpoint_find(marks, len, again->previous);
}

/* The checkpoint before it stands again; damaged or erased ones stand for nothing. */
static pal_status read_previous(pal_store *store, pal_compact_job *job,
        const pal_checkpoint_record *again, pal_arena *arena, pal_error *err)
{
    const pal_mark *mark;
    pal_mark *marks;
    size_t len;
    pal_status status;

    job->view.record = (pal_checkpoint_record){0};
    if (again->previous == 0)
        return PAL_OK;
    status = pal_store_marks(
            store, job->window.tenant, job->window.session, arena, &marks, &len, err);
    if (status != PAL_OK)
        return status;
    mark = find_previous(marks, len, again);
    return mark ? pal_checkpoint_read(mark, arena, &job->view.record, err) : PAL_OK;
}

/* The window as it was when the checkpoint was made, and what was said since. */
static pal_status load_again(
        pal_store *store, pal_compact_job *job, pal_arena *arena, pal_error *err)
{
    pal_window_view *view = &job->view;
    pal_context_input *input = &view->input;
    pal_load load = {.after_seq = view->record.checkpoint.seq,
            .bytes_max = AGAIN_BYTES_MAX,
            .from_end = true};
    pal_messages messages;
    pal_message *kept;
    pal_status status;

    input->checkpoint = view->record.checkpoint;
    if (input->head && input->head->seq > load.after_seq)
        load.after_seq = input->head->seq;
    status = pal_store_load(
            store, job->window.tenant, job->window.session, &load, arena, &messages, err);
    if (status != PAL_OK)
        return status;
    input->messages = messages.items;
    input->messages_len = messages.len;
    input->older_messages = 0;
    if (messages.has_more && messages.len)
        status = pal_store_count(store, job->window.tenant, job->window.session, load.after_seq,
                messages.items[0].seq, &input->older_messages, err);
    if (status != PAL_OK)
        return status;
    status = pal_window_kept(store, &job->window, &view->standing, view->record.keep_seqs,
            view->record.keep_len, messages.len ? messages.items[0].seq : UINT64_MAX, arena, &kept,
            &input->kept_len, err);
    if (status != PAL_OK)
        return status;
    input->kept = kept;
    return pal_window_finish(store, &job->window, view, err);
}

static pal_status begin_again(pal_store *store, const pal_compaction *compaction,
        pal_compact_job *job, pal_arena *arena, pal_error *err)
{
    pal_checkpoint_record again = job->view.record;
    pal_status status;

    if (job->view.standing.checkpoint.number != compaction->redo)
        return pal_error_set(err, PAL_CONFLICT,
                "checkpoint %llu is not the one that stands: only that one can be made again",
                (unsigned long long)compaction->redo);
    status = read_previous(store, job, &again, arena, err);
    if (status == PAL_OK)
        status = load_again(store, job, arena, err);
    if (status != PAL_OK)
        return status;
    job->is_again = true;
    /* A parent's stays as it is: the new one stands before it. */
    job->undo = job->view.standing.checkpoint.inherited ? 0 : again.checkpoint.number;
    set_forced(&job->view.input);
    status = pal_context_plan(&job->view.input, arena, &job->plan, err);
    job->record.keep_seqs = again.keep_seqs;
    job->record.keep_len = again.keep_len;
    job->record.tokens_before = again.tokens_before ? again.tokens_before : job->plan.tokens;
    set_cut(job, again.checkpoint.seq);
    return status;
}

/* ---- The two halves ---- */

static pal_str nothing_note(const pal_plan *plan)
{
    static const char nothing[] = "nothing to compact: everything is recent, or kept";

    return plan->action == PAL_ACTION_REFUSE && plan->usable && plan->tokens > plan->usable
            ? plan->reason
            : pal_str_of(nothing);
}

static const pal_message *last_user(const pal_message *messages, size_t len)
{
    for (size_t i = len; i-- > 0;)
        if (messages[i].role == PAL_ROLE_USER)
            return &messages[i];
    return NULL;
}

/* Of what the plan keeps before the cut, the record needs only the last user's message: pins are
 * marks of their own, and pending calls are never before a cut. */
static void keep_question(pal_compact_job *job)
{
    const pal_context_input *input = &job->view.input;
    const pal_message *question = last_user(input->messages, input->messages_len);

    if (!question)
        question = last_user(input->kept, input->kept_len);
    for (size_t i = 0; question && i < job->plan.keep_len; i++) {
        if (job->plan.keep_seqs[i] != question->seq)
            continue;
        job->record.keep_seqs = &job->plan.keep_seqs[i];
        job->record.keep_len = 1;
    }
}

/* A cut that was asked for goes to the beginning of its turn, and never behind the last user's
 * message. False where nothing is before it. */
static bool cut_where(pal_compact_job *job, uint64_t cut_seq)
{
    const pal_context_input *input = &job->view.input;
    size_t place = 0, last = 0;

    for (size_t i = 0; i < input->messages_len; i++)
        if (input->messages[i].role == PAL_ROLE_USER)
            last = i;
    while (place < last && input->messages[place].seq <= cut_seq)
        place++;
    place = pal_context_boundary(input->messages, input->messages_len, place);
    if (place > last)
        place = last;
    if (place == 0)
        return false;
    set_cut(job, input->messages[place - 1].seq);
    return true;
}

static pal_status begin_new(const pal_compaction *compaction, pal_compact_job *job,
        pal_arena *arena, bool *out_ready, pal_error *err)
{
    pal_status status = plan_cut(job, arena, err);

    if (status != PAL_OK)
        return status;
    *out_ready = job->plan.action == PAL_ACTION_COMPACT;
    if (!*out_ready)
        return PAL_OK;
    keep_question(job);
    set_cut(job, job->plan.cut_seq);
    if (compaction->cut_seq)
        *out_ready = cut_where(job, compaction->cut_seq);
    return PAL_OK;
}

pal_status pal_compact_begin(pal_store *store, const pal_window *window,
        const pal_compaction *compaction, pal_arena *arena, pal_compact_job *out_job,
        bool *out_ready, pal_compacted *out_compacted, pal_error *err)
{
    pal_compact_job *job = out_job;
    pal_status status;

    *job = (pal_compact_job){.window = *window};
    *out_compacted = (pal_compacted){0};
    *out_ready = true;
    status = pal_window_load(store, window, arena, &job->view, err);
    if (status == PAL_OK && compaction->redo)
        status = begin_again(store, compaction, job, arena, err);
    else if (status == PAL_OK)
        status = begin_new(compaction, job, arena, out_ready, err);
    if (status != PAL_OK)
        return status;
    if (!*out_ready) {
        out_compacted->note = nothing_note(&job->plan);
        return PAL_OK;
    }
    job->record.checkpoint.strategy = job->view.input.settings.strategy;
    job->record.previous = job->view.record.checkpoint.number;
    job->record.reason = compaction->reason;
    if (job->record.checkpoint.strategy == PAL_STRATEGY_RESET) {
        job->record.checkpoint.hint =
                make_hint(&job->view.input, job->record.checkpoint.seq, arena);
        return pal_arena_failure(arena) == PAL_OK ? PAL_OK : no_memory(arena, err);
    }
    job->needs_model = compaction->summarise != NULL;
    return build_request(job, compaction, arena, err);
}

/* What the next request would be, with this record standing. */
static pal_status plan_after(pal_store *store, const pal_compact_job *job, pal_arena *arena,
        pal_plan *out_plan, pal_error *err)
{
    pal_context_input input = job->view.input;
    uint64_t cut_seq = job->record.checkpoint.seq, tokens, tail_seq;
    size_t skip = count_through(&input, cut_seq, &tokens);
    pal_message *kept;
    pal_status status;

    input.checkpoint = job->record.checkpoint;
    input.checkpoint.number = UINT64_MAX; /* it has none yet, and stands all the same */
    if (job->view.is_recounted)
        input.checkpoint.tokens = 0;
    input.messages += skip;
    input.messages_len -= skip;
    input.older_messages = 0;
    input.after_overflow = false;
    input.after_compaction = true;
    tail_seq = input.messages_len ? input.messages[0].seq : UINT64_MAX;
    status = pal_window_kept(store, &job->window, &job->view.standing, job->record.keep_seqs,
            job->record.keep_len, tail_seq < cut_seq + 1 ? tail_seq : cut_seq + 1, arena, &kept,
            &input.kept_len, err);
    if (status != PAL_OK)
        return status;
    input.kept = kept;
    return pal_context_plan(&input, arena, out_plan, err);
}

/* The newest whole turns that stay below the low-water mark, the last one whatever it has; where
 * all of them do, or one turn is all there is, where the plan cuts. */
static void cut_turns(pal_compact_job *job)
{
    const pal_context_input *input = &job->view.input;
    uint32_t percent = input->settings.low_water_percent ? input->settings.low_water_percent
                                                         : LOW_WATER_PERCENT;
    uint64_t room = job->plan.usable / 100 * percent;
    uint64_t tokens = 0, cut_seq = job->plan.cut_seq;
    size_t first = input->messages_len;

    for (size_t i = input->messages_len; i-- > 0;) {
        tokens += pal_calibration_apply(&input->calibration, input->messages[i].tokens);
        if (tokens > room && first < input->messages_len)
            break;
        if (input->messages[i].role == PAL_ROLE_USER)
            first = i;
    }
    if (tokens > room && first > 0 && first < input->messages_len &&
            input->messages[first - 1].seq < cut_seq)
        cut_seq = input->messages[first - 1].seq;
    set_cut(job, cut_seq);
}

/* As messages are counted when they are stored: a model with another vocabulary counts anew. */
static pal_status count_summary(
        pal_store *store, pal_checkpoint *checkpoint, pal_arena *arena, pal_error *err)
{
    return pal_checkpoint_count(
            checkpoint, pal_store_encoding(store), arena, &checkpoint->tokens, err);
}

/* Of the messages before the cut those that are not sent all the same. */
static uint64_t count_dropped(const pal_compact_job *job)
{
    const pal_context_input *input = &job->view.input;
    const pal_checkpoint_record *record = &job->record;
    uint64_t dropped = 0;

    for (size_t i = 0; i < record->messages; i++) {
        bool is_sent = input->messages[i].flags & PAL_FLAG_PINNED;

        for (size_t j = 0; j < record->keep_len; j++)
            is_sent |= input->messages[i].seq == record->keep_seqs[j];
        dropped += !is_sent;
    }
    return dropped;
}

static pal_status fall_back(
        pal_store *store, pal_compact_job *job, pal_str why, pal_arena *arena, pal_error *err)
{
    pal_checkpoint_record *record = &job->record;

    if (!job->is_again)
        cut_turns(job);
    record->is_fallback = true;
    record->note = why;
    record->checkpoint.summary = job->view.input.checkpoint.summary;
    record->checkpoint.dropped += count_dropped(job);
    return count_summary(store, &record->checkpoint, arena, err);
}

static pal_str trimmed(pal_str text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.data[0]))
        text = pal_str_make(text.data + 1, text.len - 1);
    while (text.len > 0 && strchr(" \t\r\n", text.data[text.len - 1]))
        text.len--;
    return text;
}

/* Takes the summary if it is one; otherwise says why it isn't. */
static pal_status take_answer(pal_store *store, pal_compact_job *job,
        const pal_summary_answer *answer, pal_arena *arena, pal_str *out_failure, pal_error *err)
{
    pal_checkpoint taken = job->record.checkpoint;
    pal_status status;

    taken.summary = trimmed(answer->text);
    job->record.model = answer->model.len ? answer->model : job->request.model;
    job->record.has_usage = answer->has_usage;
    job->record.usage = answer->usage;
    job->record.cost_micros = answer->cost_micros;
    status = count_summary(store, &taken, arena, err);
    if (status != PAL_OK)
        return status;
    if (taken.summary.len == 0)
        *out_failure = pal_str_of("the model answered nothing");
    else if (taken.tokens >= job->replaced_tokens)
        *out_failure = pal_str_of("the summary is no shorter than what it stands for");
    else
        job->record.checkpoint = taken;
    return PAL_OK;
}

static void add_op(const pal_compact_job *job, pal_op_kind kind, pal_op *ops, size_t *len)
{
    ops[(*len)++] = (pal_op){.kind = kind,
            .tenant = job->window.tenant,
            .session = job->window.session,
            .fence = job->window.fence};
}

static pal_ledger_row ledger_row(
        const pal_compact_job *job, const pal_summary_answer *answer, char *request_id)
{
    pal_id_to_text(pal_id_new(), request_id);
    return (pal_ledger_row){.request_id = pal_str_of(request_id),
            .turn_id = answer->turn_id,
            .agent = answer->agent,
            .purpose = pal_str_of("compaction"),
            .provider = answer->provider,
            .model = job->record.model,
            .price_version = answer->price_version,
            .usage = answer->usage,
            .cost_micros = answer->cost_micros,
            .created_at = pal_clock_now_ms()};
}

/* One commit: the mark, and what the model call cost, which is known also where no mark is made
 * of it. */
static pal_status keep(pal_store *store, pal_compact_job *job, const pal_summary_answer *answer,
        bool with_mark, pal_arena *arena, uint64_t *out_number, pal_error *err)
{
    pal_mark undo = {.kind = PAL_MARK_UNDO, .target = job->undo};
    pal_mark mark = {.kind = PAL_MARK_CHECKPOINT, .seq = job->record.checkpoint.seq};
    pal_ledger_row row;
    char request_id[PAL_ID_TEXT_SIZE];
    pal_op ops[3];
    size_t len = 0;
    pal_status status = PAL_OK;

    if (answer && answer->has_usage) {
        row = ledger_row(job, answer, request_id);
        add_op(job, PAL_OP_LEDGER_ADD, ops, &len);
        ops[len - 1].u.ledger_row = &row;
    }
    if (with_mark) {
        status = pal_checkpoint_write(&job->record, arena, &mark.body, err);
        if (job->undo) {
            add_op(job, PAL_OP_MARK, ops, &len);
            ops[len - 1].u.mark = &undo;
        }
        add_op(job, PAL_OP_MARK, ops, &len);
        ops[len - 1].with_previous = job->undo != 0;
        ops[len - 1].u.mark = &mark;
    }
    if (status == PAL_OK && len > 0)
        status = pal_store_apply(store, ops, len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        if (ops[i].status != PAL_OK)
            status = pal_error_set(err, ops[i].status, "%s", ops[i].error.message);
    *out_number = mark.number;
    return status;
}

/* Where the window would not get smaller with a summary, whole turns go; where not even that helps,
 * nothing is kept. */
static pal_status settle(pal_store *store, pal_compact_job *job, pal_str failure, pal_arena *arena,
        bool *out_smaller, pal_error *err)
{
    pal_checkpoint_record *record = &job->record;
    bool is_reset = record->checkpoint.strategy == PAL_STRATEGY_RESET;
    pal_plan after;
    pal_status status = PAL_OK;

    if (!is_reset && record->checkpoint.summary.len == 0)
        status = fall_back(store, job, failure, arena, err);
    if (status == PAL_OK)
        status = plan_after(store, job, arena, &after, err);
    if (status == PAL_OK && after.tokens >= record->tokens_before && !is_reset &&
            !record->is_fallback && !job->is_again) {
        status = fall_back(store, job,
                pal_str_of("with the summary the window would not get smaller"), arena, err);
        if (status == PAL_OK)
            status = plan_after(store, job, arena, &after, err);
    }
    if (status != PAL_OK)
        return status;
    record->tokens_after = after.tokens;
    *out_smaller = job->is_again || after.tokens < record->tokens_before;
    return PAL_OK;
}

pal_status pal_compact_end(pal_store *store, pal_compact_job *job, const pal_summary_answer *answer,
        pal_str failure, pal_arena *arena, pal_compacted *out_compacted, pal_error *err)
{
    const pal_checkpoint_record *record = &job->record;
    bool is_smaller = false;
    uint64_t number = 0;
    pal_status status = PAL_OK;

    if (answer && record->checkpoint.strategy != PAL_STRATEGY_RESET)
        status = take_answer(store, job, answer, arena, &failure, err);
    if (status == PAL_OK)
        status = settle(store, job, failure, arena, &is_smaller, err);
    if (status == PAL_OK)
        status = keep(store, job, answer, is_smaller, arena, &number, err);
    if (status != PAL_OK)
        return status;
    *out_compacted = (pal_compacted){.number = number,
            .seq = record->checkpoint.seq,
            .is_fallback = record->is_fallback,
            .messages = record->messages,
            .tokens_before = record->tokens_before,
            .tokens_after = record->tokens_after,
            .summary = record->checkpoint.summary,
            .note = is_smaller ? record->note
                               : pal_str_of("nothing was kept: the window would not get smaller")};
    return PAL_OK;
}

pal_status pal_window_compact(pal_store *store, const pal_window *window,
        const pal_compaction *compaction, pal_arena *arena, pal_compacted *out_compacted,
        pal_error *err)
{
    pal_compact_job job;
    pal_summary_answer answer = {0};
    pal_error failure = {0};
    bool ready = false, answered = false;
    pal_str why = pal_str_of("there is no model to ask");
    pal_status status =
            pal_compact_begin(store, window, compaction, arena, &job, &ready, out_compacted, err);

    if (status != PAL_OK || !ready)
        return status;
    if (job.needs_model) {
        answered = compaction->summarise(
                           &job.request, arena, &answer, compaction->user, &failure) == PAL_OK;
        why = pal_arena_copy(arena, pal_str_of(failure.message));
    }
    return pal_compact_end(store, &job, answered ? &answer : NULL, why, arena, out_compacted, err);
}
