/* turn_window.c - loads what a plan needs: the tail, from the end backwards as far as the model's
 * limit reaches, and the few things before it that are kept. Reads only, but for the marks that
 * pal_window_epoch() and pal_window_prune() add: a crash before the mark leaves the window as it
 * was, and the next plan asks for the same mark again. */
#include "turn/turn_window.h"

#include <stdlib.h>

#include "base/json.h"

/* A tail of twice what may be sent shows a compaction all that it has to summarise. */
enum {
    TAIL_FACTOR = 2,
    ANSWER_SHARE = 4,
    SEARCH_PAGE = 200,
    SEARCH_PAGES_MAX = 50,
    PAIR_DISTANCE = 64, /* messages between a call and its results */
};

#define TAIL_BYTES_MAX ((uint64_t)256 << 20)

static pal_status no_memory(pal_arena *arena, pal_error *err)
{
    return pal_error_set(err, pal_arena_failure(arena), "out of memory");
}

/* ---- The tail ---- */

static void set_limits(const pal_window *window, const pal_model *model, pal_context_limits *limits)
{
    *limits = window->limits;
    if (limits->context == 0)
        limits->context = model->context ? model->context : PAL_CONTEXT_TOKENS_DEFAULT;
    if (limits->output == 0)
        limits->output = model->output;
    /* Of a small model, 32,000 for an answer of unknown length would leave nothing to ask with. */
    if (limits->output == 0)
        limits->output = limits->context / ANSWER_SHARE;
    pal_profile_limits(window->profile, limits);
}

/* Tokens to load: what may be sent by the counts that are stored, whatever the provider's are. */
static uint64_t tail_tokens(const pal_context_input *input)
{
    uint64_t usable = pal_context_usable(&input->limits);

    if (input->settings.max_tokens && input->settings.max_tokens < usable)
        usable = input->settings.max_tokens;
    return (usable + 1) * TAIL_FACTOR;
}

static pal_status load_tail(pal_store *store, const pal_window *window, pal_arena *arena,
        pal_window_view *view, pal_error *err)
{
    pal_context_input *input = &view->input;
    pal_load load = {
            .after_seq = input->checkpoint.seq,
            .tokens_max = tail_tokens(input),
            .bytes_max = TAIL_BYTES_MAX,
            .from_end = true,
    };
    pal_messages tail;
    pal_status status =
            pal_store_load(store, window->tenant, window->session, &load, arena, &tail, err);

    if (status == PAL_OK && tail.len == 0 && tail.has_more) {
        /* The newest message alone is larger than that: the plan has to say so. */
        load = (pal_load){.after_seq = input->checkpoint.seq, .limit = 1, .from_end = true};
        status = pal_store_load(store, window->tenant, window->session, &load, arena, &tail, err);
    }
    if (status != PAL_OK)
        return status;
    input->messages = tail.items;
    input->messages_len = tail.len;
    if (tail.has_more && tail.len > 0)
        status = pal_store_count(store, window->tenant, window->session, input->checkpoint.seq,
                tail.items[0].seq, &input->older_messages, err);
    return status;
}

/* The session's leading system message goes first, whatever is cut behind it. */
static pal_status load_head(pal_store *store, const pal_window *window, pal_arena *arena,
        pal_window_view *view, pal_error *err)
{
    pal_context_input *input = &view->input;
    pal_load load = {.limit = 1};
    pal_messages first;
    pal_status status =
            pal_store_load(store, window->tenant, window->session, &load, arena, &first, err);

    if (status != PAL_OK || first.len == 0 || first.items[0].role != PAL_ROLE_SYSTEM)
        return status;
    input->head = &first.items[0];
    if (input->messages_len > 0 && input->messages[0].seq == input->head->seq) {
        input->messages++;
        input->messages_len--;
    } else if (input->older_messages > 0 && input->head->seq > input->checkpoint.seq) {
        input->older_messages--;
    }
    return PAL_OK;
}

/* ---- What is kept before it ---- */

pal_status pal_window_message(pal_store *store, const pal_window *window, uint64_t seq,
        pal_arena *arena, pal_message *out_message, pal_error *err)
{
    pal_load load = {.after_seq = seq - 1, .before_seq = seq + 1, .limit = 1};
    pal_messages found;
    pal_status status =
            pal_store_load(store, window->tenant, window->session, &load, arena, &found, err);

    if (status != PAL_OK)
        return status;
    if (found.len == 0)
        return pal_error_set(
                err, PAL_NOT_FOUND, "there is no message %llu in sight", (unsigned long long)seq);
    *out_message = found.items[0];
    return PAL_OK;
}

static int seq_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

/* Of both lists, ascending and each once, those before the tail. */
static uint64_t *kept_seqs(const pal_standing *standing, const uint64_t *keep_seqs, size_t keep_len,
        uint64_t tail_seq, pal_arena *arena, size_t *out_len)
{
    uint64_t *seqs = pal_arena_array(arena, standing->pins_len + keep_len + 1, sizeof(*seqs));
    size_t len = 0, unique = 0;

    if (!seqs)
        return NULL;
    for (size_t i = 0; i < standing->pins_len; i++)
        seqs[len++] = standing->pins[i];
    for (size_t i = 0; i < keep_len; i++)
        seqs[len++] = keep_seqs[i];
    qsort(seqs, len, sizeof(*seqs), seq_compare);
    for (size_t i = 0; i < len; i++)
        if (seqs[i] > 0 && seqs[i] < tail_seq && (unique == 0 || seqs[unique - 1] != seqs[i]))
            seqs[unique++] = seqs[i];
    *out_len = unique;
    return seqs;
}

static pal_status load_kept_seqs(pal_store *store, const pal_window *window, const uint64_t *seqs,
        size_t seqs_len, pal_arena *arena, pal_message **out_kept, size_t *out_len, pal_error *err)
{
    pal_message *kept = pal_arena_array(arena, seqs_len + 1, sizeof(*kept));
    size_t len = 0;

    if (!kept)
        return no_memory(arena, err);
    for (size_t i = 0; i < seqs_len; i++) {
        pal_status status = pal_window_message(store, window, seqs[i], arena, &kept[len], err);

        if (status != PAL_OK && status != PAL_NOT_FOUND)
            return status;
        if (status == PAL_OK)
            len++;
    }
    *out_kept = kept;
    *out_len = len;
    return PAL_OK;
}

static bool is_other_half(const pal_message *message, const pal_message *other)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        bool is_call = part->kind == PAL_PART_TOOL_CALL;

        if (!is_call && part->kind != PAL_PART_TOOL_RESULT)
            continue;
        for (size_t j = 0; j < other->parts_len; j++)
            if (other->parts[j].kind == (is_call ? PAL_PART_TOOL_RESULT : PAL_PART_TOOL_CALL) &&
                    pal_str_equal(other->parts[j].call_id, part->call_id))
                return true;
    }
    return false;
}

static bool has_tool_part(const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_CALL ||
                message->parts[i].kind == PAL_PART_TOOL_RESULT)
            return true;
    return false;
}

/* Adds the results of a kept call, and the call of a kept result: half a pair is none. */
static pal_status add_halves(pal_store *store, const pal_window *window, const pal_message *message,
        pal_arena *arena, uint64_t *seqs, size_t *len, pal_error *err)
{
    pal_load load = {.after_seq = message->seq > PAIR_DISTANCE ? message->seq - PAIR_DISTANCE : 0,
            .before_seq = message->seq + PAIR_DISTANCE};
    pal_messages near;
    pal_status status =
            pal_store_load(store, window->tenant, window->session, &load, arena, &near, err);

    for (size_t i = 0; status == PAL_OK && i < near.len; i++)
        if (is_other_half(message, &near.items[i]))
            seqs[(*len)++] = near.items[i].seq;
    return status;
}

pal_status pal_window_kept(pal_store *store, const pal_window *window, const pal_standing *standing,
        const uint64_t *keep_seqs, size_t keep_len, uint64_t tail_seq, pal_arena *arena,
        pal_message **out_kept, size_t *out_len, pal_error *err)
{
    size_t seqs_len = 0, halves_len = 0, len = 0;
    uint64_t *seqs = kept_seqs(standing, keep_seqs, keep_len, tail_seq, arena, &seqs_len), *halves;
    pal_message *kept = NULL;
    pal_status status;

    if (!seqs)
        return no_memory(arena, err);
    status = load_kept_seqs(store, window, seqs, seqs_len, arena, &kept, &len, err);
    halves = pal_arena_array(arena, keep_len + len * 2 * PAIR_DISTANCE + 1, sizeof(*halves));
    if (status == PAL_OK && !halves)
        return no_memory(arena, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        if (has_tool_part(&kept[i]))
            status = add_halves(store, window, &kept[i], arena, halves, &halves_len, err);
    if (status == PAL_OK && halves_len > 0) {
        for (size_t i = 0; i < keep_len; i++)
            halves[halves_len++] = keep_seqs[i];
        seqs = kept_seqs(standing, halves, halves_len, tail_seq, arena, &seqs_len);
        status = seqs ? load_kept_seqs(store, window, seqs, seqs_len, arena, &kept, &len, err)
                      : no_memory(arena, err);
    }
    if (status != PAL_OK)
        return status;
    *out_kept = kept;
    *out_len = len;
    return PAL_OK;
}

static bool is_from_user(const pal_message *message)
{
    return message->role == PAL_ROLE_USER && !(message->flags & PAL_FLAG_SYNTHETIC);
}

static bool has_user(const pal_message *messages, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (is_from_user(&messages[i]))
            return true;
    return false;
}

/* One turn can be longer than the tail: then its question is looked for before it. */
static pal_status find_question(pal_store *store, const pal_window *window, pal_arena *arena,
        const pal_context_input *input, uint64_t *out_seq, pal_error *err)
{
    pal_load load = {
            .after_seq = input->checkpoint.seq,
            .before_seq = input->messages[0].seq,
            .limit = SEARCH_PAGE,
            .from_end = true,
    };

    for (int page = 0; page < SEARCH_PAGES_MAX; page++) {
        pal_messages found;
        pal_status status =
                pal_store_load(store, window->tenant, window->session, &load, arena, &found, err);

        if (status != PAL_OK)
            return status;
        for (size_t i = found.len; i-- > 0;) {
            if (is_from_user(&found.items[i])) {
                *out_seq = found.items[i].seq;
                return PAL_OK;
            }
        }
        if (!found.has_more || found.len == 0)
            break;
        load.before_seq = found.items[0].seq;
    }
    return PAL_OK;
}

static pal_status load_kept(pal_store *store, const pal_window *window, pal_arena *arena,
        pal_window_view *view, pal_error *err)
{
    pal_context_input *input = &view->input;
    const pal_checkpoint_record *record = &view->record;
    uint64_t *seqs = pal_arena_array(arena, record->keep_len + 1, sizeof(*seqs));
    uint64_t tail_seq = input->messages_len ? input->messages[0].seq : UINT64_MAX;
    size_t len = 0;
    pal_message *kept;
    pal_status status = PAL_OK;

    if (!seqs)
        return no_memory(arena, err);
    while (len < record->keep_len) {
        seqs[len] = record->keep_seqs[len];
        len++;
    }
    if (input->older_messages > 0 && !has_user(input->messages, input->messages_len))
        status = find_question(store, window, arena, input, &seqs[len], err);
    if (status != PAL_OK)
        return status;
    len += seqs[len] != 0;
    status = pal_window_kept(store, window, &view->standing, seqs, len, tail_seq, arena, &kept,
            &input->kept_len, err);
    if (status != PAL_OK)
        return status;
    input->kept = kept;
    for (size_t i = 0; i < input->kept_len; i++)
        if (kept[i].seq > input->checkpoint.seq && input->older_messages > 0 &&
                !(input->head && input->head->seq == kept[i].seq))
            input->older_messages--;
    return PAL_OK;
}

/* ---- Marks ---- */

static bool same_json(pal_str a, pal_str b, pal_arena *arena)
{
    pal_json left, right;

    if (pal_str_equal(a, b))
        return true;
    return a.len > 0 && b.len > 0 && pal_json_parse(arena, a, NULL, &left, NULL) == PAL_OK &&
            pal_json_parse(arena, b, NULL, &right, NULL) == PAL_OK && pal_json_equal(left, right);
}

static bool same_tools(const pal_epoch_record *epoch, const pal_window *window, pal_arena *arena)
{
    if (epoch->tools_len != window->tools_len)
        return false;
    for (size_t i = 0; i < window->tools_len; i++)
        if (!pal_str_equal(epoch->tools[i].name, window->tools[i].name) ||
                !pal_str_equal(epoch->tools[i].description, window->tools[i].description) ||
                !same_json(epoch->tools[i].schema, window->tools[i].schema, arena))
            return false;
    return true;
}

static void flag_pins(const pal_standing *standing, pal_message *messages, size_t len)
{
    size_t pin = 0;

    for (size_t i = 0; i < len; i++) {
        while (pin < standing->pins_len && standing->pins[pin] < messages[i].seq)
            pin++;
        if (pin < standing->pins_len && standing->pins[pin] == messages[i].seq)
            messages[i].flags |= PAL_FLAG_PINNED;
    }
}

static pal_status read_marks(pal_store *store, const pal_window *window, pal_arena *arena,
        pal_window_view *view, pal_error *err)
{
    const pal_standing *standing = &view->standing;
    pal_context_input *input = &view->input;
    pal_epoch_record epoch;
    pal_pruned *pruned;
    pal_status status = PAL_OK;

    if (standing->checkpoint.number)
        status = pal_checkpoint_read(&standing->checkpoint, arena, &view->record, err);
    if (status == PAL_OK && standing->checkpoint.number)
        status = pal_store_count(store, window->tenant, window->session, 0,
                view->record.checkpoint.seq + 1, &view->record.checkpoint.messages, err);
    if (status == PAL_OK)
        status = pal_prunes_read(
                standing->prunes, standing->prunes_len, arena, &pruned, &input->pruned_len, err);
    if (status != PAL_OK)
        return status;
    input->checkpoint = view->record.checkpoint;
    input->pruned = pruned;
    if (standing->epoch.number == 0 || window->system_exact)
        return PAL_OK;
    status = pal_epoch_read(&standing->epoch, arena, &epoch, err);
    if (status != PAL_OK)
        return status;
    input->system = epoch.system;
    if (same_tools(&epoch, window, arena))
        input->tools = epoch.tools; /* byte for byte what was sent before */
    return PAL_OK;
}

/* ---- Counts ---- */

/* Stored counts are the store's; where the model has its own vocabulary, they are made anew. */
static pal_status recount(
        const pal_encoding *encoding, pal_message *messages, size_t len, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        uint64_t tokens = 0;

        status = pal_tokens_message(encoding, &messages[i], &tokens, err);
        messages[i].tokens = tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
    }
    return status;
}

static pal_status recount_all(pal_store *store, pal_window_view *view, pal_error *err)
{
    const pal_encoding *encoding = view->model.encoding;
    pal_context_input *input = &view->input;
    pal_status status = PAL_OK;

    if (!encoding || !view->model.is_exact || encoding == pal_store_encoding(store))
        return PAL_OK;
    view->is_recounted = true;
    input->checkpoint.tokens = 0;
    status = recount(encoding, (pal_message *)input->messages, input->messages_len, err);
    if (status == PAL_OK)
        status = recount(encoding, (pal_message *)input->kept, input->kept_len, err);
    if (status == PAL_OK && input->head)
        status = recount(encoding, (pal_message *)input->head, 1, err);
    return status;
}

/* A blob that is gone is taken for one that never was: the repair puts a text in its place, and
 * says so. */
static pal_status fill_bytes(
        pal_store *store, const pal_window *window, pal_part *parts, size_t len, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_part *part = &parts[i];
        bool is_media = part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;

        if (is_media && part->blob.len > 0 && part->data.len == 0)
            status = pal_store_blob_size(store, window->tenant, part->blob, &part->bytes, err);
        if (status == PAL_NOT_FOUND) {
            part->blob = (pal_str){0};
            status = PAL_OK;
        }
        if (status == PAL_OK && part->parts_len > 0)
            status = fill_bytes(store, window, part->parts, part->parts_len, err);
    }
    return status;
}

static pal_status fill_list(pal_store *store, const pal_window *window, const pal_message *messages,
        size_t len, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++)
        status = fill_bytes(store, window, messages[i].parts, messages[i].parts_len, err);
    return status;
}

/* The lists were made for this call; nobody else sees what is changed in them. */
pal_status pal_window_finish(
        pal_store *store, const pal_window *window, pal_window_view *view, pal_error *err)
{
    const pal_context_input *input = &view->input;
    pal_status status = recount_all(store, view, err);

    if (status == PAL_OK)
        status = fill_list(store, window, input->messages, input->messages_len, err);
    if (status == PAL_OK)
        status = fill_list(store, window, input->kept, input->kept_len, err);
    if (status != PAL_OK)
        return status;
    flag_pins(&view->standing, (pal_message *)input->messages, input->messages_len);
    flag_pins(&view->standing, (pal_message *)input->kept, input->kept_len);
    return PAL_OK;
}

static uint64_t reported_input(const pal_message *message)
{
    return message->usage.input + message->usage.cache_read + message->usage.cache_write;
}

static pal_status base_tokens(const pal_context_input *input, uint64_t *out_tokens, pal_error *err)
{
    uint64_t tokens = 0, sum = 0;
    pal_status status = pal_tokens_count(input->encoding, input->system, &sum, err);

    for (size_t i = 0; status == PAL_OK && i < input->tools_len; i++) {
        const pal_tool *tool = &input->tools[i];

        tokens = tool->tokens;
        if (tokens == 0)
            status = pal_tokens_tool(
                    input->encoding, tool->name, tool->description, tool->schema, &tokens, err);
        sum += tokens;
    }
    if (status == PAL_OK)
        status = pal_tokens_count(input->encoding, input->checkpoint.summary, &tokens, err);
    for (size_t i = 0; i < input->kept_len; i++)
        sum += input->kept[i].tokens;
    *out_tokens = sum + tokens + (input->head ? input->head->tokens : 0);
    return status;
}

/* Up to this message the provider saw something else than what is counted now: more before a
 * checkpoint or a prune, other instructions and tools before an epoch. */
static uint64_t other_through(const pal_standing *standing)
{
    uint64_t seq = standing->checkpoint.number ? standing->checkpoint.through_seq : 0;

    if (standing->epoch.number && standing->epoch.through_seq > seq)
        seq = standing->epoch.through_seq;
    for (size_t i = 0; i < standing->prunes_len; i++)
        if (standing->prunes[i].through_seq > seq)
            seq = standing->prunes[i].through_seq;
    return seq;
}

static bool is_same_counting(
        const pal_window *window, const pal_message *message, const pal_model *model)
{
    if (message->model.len == 0 || model->name.len == 0 ||
            pal_str_equal(message->model, model->name))
        return true;
    return pal_models_find(window->models, message->model).encoding == model->encoding;
}

/* Every answer in the tail tells how many tokens the provider saw in what stands before it. */
static pal_status calibrate(const pal_window *window, pal_window_view *view, pal_error *err)
{
    pal_context_input *input = &view->input;
    uint64_t from_seq = other_through(&view->standing), counted;
    pal_status status;

    if (input->older_messages > 0)
        return PAL_OK;
    status = base_tokens(input, &counted, err);
    for (size_t i = 0; status == PAL_OK && i < input->messages_len; i++) {
        const pal_message *message = &input->messages[i];

        if (message->role == PAL_ROLE_ASSISTANT && message->has_usage && message->seq > from_seq &&
                is_same_counting(window, message, &view->model))
            pal_calibration_learn(&input->calibration, counted, reported_input(message));
        counted += message->tokens;
    }
    return status;
}

/* ---- The whole ---- */

pal_status pal_window_load(pal_store *store, const pal_window *window, pal_arena *arena,
        pal_window_view *out_view, pal_error *err)
{
    pal_window_view view = {.model = pal_models_find(window->models, window->model)};
    pal_context_input *input = &view.input;
    pal_status status =
            pal_store_standing(store, window->tenant, window->session, arena, &view.standing, err);

    if (status != PAL_OK)
        return status;
    input->system = window->system;
    input->tools = window->tools;
    input->tools_len = window->tools_len;
    input->settings = window->settings;
    input->profile = window->profile;
    input->family = window->family;
    input->encoding = view.model.encoding;
    input->pending = window->pending;
    input->pending_len = window->pending_len;
    input->after_overflow = window->after_overflow;
    input->after_compaction = window->after_compaction;
    input->last = window->last;
    set_limits(window, &view.model, &input->limits);
    status = read_marks(store, window, arena, &view, err);
    if (status == PAL_OK)
        status = load_tail(store, window, arena, &view, err);
    if (status == PAL_OK)
        status = load_head(store, window, arena, &view, err);
    if (status == PAL_OK)
        status = load_kept(store, window, arena, &view, err);
    if (status == PAL_OK)
        status = pal_window_finish(store, window, &view, err);
    if (status == PAL_OK)
        status = calibrate(window, &view, err);
    if (status == PAL_OK)
        *out_view = view;
    return status;
}

pal_status pal_window_plan(pal_store *store, const pal_window *window, pal_arena *arena,
        pal_plan *out_plan, pal_error *err)
{
    pal_window_view view;
    pal_status status = pal_window_load(store, window, arena, &view, err);

    if (status == PAL_OK)
        status = pal_context_plan(&view.input, arena, out_plan, err);
    if (status == PAL_OK)
        out_plan->is_estimate = !view.model.encoding || !view.model.is_exact;
    return status;
}

static pal_status add_mark(
        pal_store *store, const pal_window *window, pal_mark *mark, pal_error *err)
{
    pal_op op = {.kind = PAL_OP_MARK,
            .tenant = window->tenant,
            .session = window->session,
            .fence = window->fence,
            .u.mark = mark};
    pal_status status = pal_store_apply(store, &op, 1, err);

    if (status == PAL_OK && op.status != PAL_OK)
        status = pal_error_set(err, op.status, "%s", op.error.message);
    return status;
}

pal_status pal_window_prune(pal_store *store, const pal_window *window, const pal_plan *plan,
        pal_arena *arena, pal_error *err)
{
    pal_mark mark = {.kind = PAL_MARK_PRUNE};
    pal_status status;

    if (plan->prune_len == 0)
        return PAL_OK;
    mark.seq = plan->prune[plan->prune_len - 1].seq;
    status = pal_prunes_write(
            plan->prune, plan->prune_len, plan->prune_tokens, arena, &mark.body, err);
    if (status == PAL_OK)
        status = add_mark(store, window, &mark, err);
    return status;
}

pal_status pal_window_epoch_mark(const pal_window *window, const pal_standing *standing,
        pal_arena *arena, pal_mark *out_mark, bool *out_needed, pal_error *err)
{
    pal_epoch_record record = {.system = window->system,
            .tools = (pal_tool *)window->tools,
            .tools_len = window->tools_len};
    pal_epoch_record standing_record;
    pal_status status;

    *out_mark = (pal_mark){.kind = PAL_MARK_EPOCH};
    *out_needed = window->system.len > 0 || window->tools_len > 0;
    if (!standing->epoch.number || !*out_needed)
        return *out_needed ? pal_epoch_write(&record, arena, &out_mark->body, err) : PAL_OK;
    status = pal_epoch_read(&standing->epoch, arena, &standing_record, err);
    if (status != PAL_OK)
        return status;
    /* New tools break the cache anyway; the instructions are taken anew with them. */
    *out_needed = !same_tools(&standing_record, window, arena);
    return *out_needed ? pal_epoch_write(&record, arena, &out_mark->body, err) : PAL_OK;
}

pal_status pal_window_epoch(
        pal_store *store, const pal_window *window, pal_arena *arena, pal_error *err)
{
    pal_mark mark;
    pal_standing standing;
    bool needed = false;
    pal_status status =
            pal_store_standing(store, window->tenant, window->session, arena, &standing, err);

    if (status == PAL_OK)
        status = pal_window_epoch_mark(window, &standing, arena, &mark, &needed, err);
    if (status == PAL_OK && needed)
        status = add_mark(store, window, &mark, err);
    return status;
}
