/* window_kept.c - loads the few messages before the tail that are still sent: pins, messages
 * that a checkpoint keeps, and the question of a turn that is longer than the tail. Reads only. */
#include "window/window_internal.h"

#include <stdlib.h>
#include "dialect/dialect_member.h"

enum {
    SEARCH_PAGE = 200,
    SEARCH_PAGES_MAX = 50,
    PAIR_DISTANCE = 64, /* maximum number of messages between a call and its results */
};

/* Loads the visible message `seq`; PAL_NOT_FOUND if it is hidden. */
static pal_status load_one(const pal_snapshot *snapshot, uint64_t seq, pal_arena *arena,
        pal_message *out_message, pal_error *err)
{
    pal_message_query load = {.after_seq = seq - 1, .before_seq = seq + 1, .limit = 1};
    pal_message_page found;
    pal_status status = pal_snapshot_load(snapshot, &load, arena, &found, err);

    if (status != PAL_OK)
        return status;
    if (found.len == 0)
        return pal_error_set(err, PAL_NOT_FOUND, "message %llu does not exist or is hidden",
                (unsigned long long)seq);
    *out_message = found.items[0];
    return PAL_OK;
}

static int seq_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

/* Merges both lists, in ascending order and without duplicates, and leaves out messages of the
 * tail. */
static uint64_t *kept_seqs(const pal_active_marks *active, const uint64_t *keep_seqs,
        size_t keep_len, uint64_t tail_seq, pal_arena *arena, size_t *out_len)
{
    uint64_t *seqs = pal_arena_array(arena, active->pins_len + keep_len + 1, sizeof(*seqs));
    size_t len = 0, unique = 0;

    if (!seqs)
        return NULL;
    for (size_t i = 0; i < active->pins_len; i++)
        seqs[len++] = active->pins[i];
    for (size_t i = 0; i < keep_len; i++)
        seqs[len++] = keep_seqs[i];
    qsort(seqs, len, sizeof(*seqs), seq_compare);
    for (size_t i = 0; i < len; i++)
        if (seqs[i] > 0 && seqs[i] < tail_seq && (unique == 0 || seqs[unique - 1] != seqs[i]))
            seqs[unique++] = seqs[i];
    *out_len = unique;
    return seqs;
}

static pal_status load_kept_seqs(const pal_snapshot *snapshot, const uint64_t *seqs,
        size_t seqs_len, pal_arena *arena, pal_message **out_kept, size_t *out_len, pal_error *err)
{
    pal_message *kept = pal_arena_array(arena, seqs_len + 1, sizeof(*kept));
    size_t len = 0;

    if (!kept)
        return pal_arena_checked(arena, err);
    for (size_t i = 0; i < seqs_len; i++) {
        pal_status status = load_one(snapshot, seqs[i], arena, &kept[len], err);

        if (status != PAL_OK && status != PAL_NOT_FOUND)
            return status;
        if (status == PAL_OK && !(kept[len].flags & PAL_MESSAGE_FLAG_ERASED))
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

/* Adds the results of a kept call, and the call of a kept result: one without the other cannot be
 * sent. */
static pal_status add_halves(const pal_snapshot *snapshot, const pal_message *message,
        pal_arena *arena, uint64_t *seqs, size_t *len, pal_error *err)
{
    pal_message_query load = {
            .after_seq = message->seq > PAIR_DISTANCE ? message->seq - PAIR_DISTANCE : 0,
            .before_seq = message->seq + PAIR_DISTANCE};
    pal_message_page near;
    pal_status status = pal_snapshot_load(snapshot, &load, arena, &near, err);

    for (size_t i = 0; status == PAL_OK && i < near.len; i++)
        if (is_other_half(message, &near.items[i]))
            seqs[(*len)++] = near.items[i].seq;
    return status;
}

pal_status pal_window_kept(const pal_snapshot *snapshot,
        const pal_active_marks *active, const uint64_t *keep_seqs, size_t keep_len,
        uint64_t tail_seq, pal_arena *arena, pal_message **out_kept, size_t *out_len,
        pal_error *err)
{
    size_t seqs_len = 0, halves_len = 0, len = 0;
    uint64_t *seqs = kept_seqs(active, keep_seqs, keep_len, tail_seq, arena, &seqs_len), *halves;
    pal_message *kept = NULL;
    pal_status status;

    if (!seqs)
        return pal_arena_checked(arena, err);
    status = load_kept_seqs(snapshot, seqs, seqs_len, arena, &kept, &len, err);
    halves = pal_arena_array(arena, keep_len + len * 2 * PAIR_DISTANCE + 1, sizeof(*halves));
    if (status == PAL_OK && !halves)
        return pal_arena_checked(arena, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        if (has_tool_part(&kept[i]))
            status = add_halves(snapshot, &kept[i], arena, halves, &halves_len, err);
    if (status == PAL_OK && halves_len > 0) {
        for (size_t i = 0; i < keep_len; i++)
            halves[halves_len++] = keep_seqs[i];
        seqs = kept_seqs(active, halves, halves_len, tail_seq, arena, &seqs_len);
        status = seqs ? load_kept_seqs(snapshot, seqs, seqs_len, arena, &kept, &len, err)
                      : pal_arena_checked(arena, err);
    }
    if (status != PAL_OK)
        return status;
    *out_kept = kept;
    *out_len = len;
    return PAL_OK;
}

static bool is_from_user(const pal_message *message)
{
    return message->role == PAL_ROLE_USER && !(message->flags & PAL_MESSAGE_FLAG_SYNTHETIC);
}

static bool has_user(const pal_message *messages, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (is_from_user(&messages[i]))
            return true;
    return false;
}

/* A turn can be longer than the tail. Then its question is searched for before the tail. */
static pal_status find_question(const pal_snapshot *snapshot, pal_arena *arena,
        const pal_context_input *input, uint64_t *out_seq, pal_error *err)
{
    pal_message_query load = {
            .after_seq = input->checkpoint.seq,
            .before_seq = input->messages[0].seq,
            .limit = SEARCH_PAGE,
            .from_end = true,
    };

    for (int page = 0; page < SEARCH_PAGES_MAX; page++) {
        pal_message_page found;
        pal_status status = pal_snapshot_load(snapshot, &load, arena, &found, err);

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

pal_status pal_window_load_kept(const pal_snapshot *snapshot, pal_arena *arena,
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
        return pal_arena_checked(arena, err);
    while (len < record->keep_len) {
        seqs[len] = record->keep_seqs[len];
        len++;
    }
    if (input->older_messages > 0 && !has_user(input->messages, input->messages_len))
        status = find_question(snapshot, arena, input, &seqs[len], err);
    if (status != PAL_OK)
        return status;
    len += seqs[len] != 0;
    status = pal_window_kept(snapshot, &view->active, seqs, len, tail_seq, arena, &kept,
            &input->kept_len, err);
    if (status != PAL_OK)
        return status;
    input->kept = kept;
    for (size_t i = 0; i < input->kept_len; i++)
        if (kept[i].seq > input->checkpoint.seq && input->older_messages > 0 &&
                !(input->head && input->head->seq == kept[i].seq)) {
            uint64_t tokens = kept[i].tokens;

            input->older_messages--;
            input->older_tokens -= tokens < input->older_tokens ? tokens : input->older_tokens;
        }
    return PAL_OK;
}
