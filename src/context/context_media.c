/* context_media.c - keeps a request within the service's limits of images and bytes, by showing
 * placeholders for old or large parts.
 *
 * Nothing is remembered from one plan to the next, but the beginning of the request should stay the
 * same. So the amount that is removed is rounded up to quarters of the limit: the same oldest parts
 * are left out until the conversation has grown by another quarter. */
#include "context/context_draft.h"

#include <stdlib.h>
#include "context/context_text.h"

#define SMALL_BYTES 1024 /* a smaller part is not worth a placeholder */

typedef struct candidate {
    pal_line *line;
    size_t part;
    uint64_t bytes;
    bool is_chosen;
} candidate;

typedef struct candidates {
    candidate *items; /* oldest first */
    size_t len;
    pal_removal *removals; /* has room for all of them */
} candidates;

static bool is_pinned(const pal_line *line)
{
    return line->message && line->message->flags & PAL_MESSAGE_FLAG_PINNED;
}

/* Returns how much must be removed so that `size` is within `limit`, rounded up to quarters of
 * the limit. */
static uint64_t excess(uint64_t size, uint64_t limit)
{
    uint64_t quarter = limit / 4 ? limit / 4 : 1;
    return size > limit ? (size - limit + quarter - 1) / quarter * quarter : 0;
}

/* ---- Images ---- */

static size_t list_images(const pal_message *message, size_t max, pal_removal *out_removals)
{
    size_t len = 0;
    for (size_t i = 0; i < message->parts_len && len < max; i++) {
        const pal_part *part = &message->parts[i];
        if (part->kind == PAL_PART_IMAGE)
            out_removals[len++] = (pal_removal){i, -1};
        for (size_t j = 0; j < part->parts_len && len < max; j++) {
            if (part->parts[j].kind == PAL_PART_IMAGE)
                out_removals[len++] = (pal_removal){i, (ptrdiff_t)j};
        }
    }
    return len;
}

static pal_status remove_images(pal_draft *draft, pal_line *line, uint64_t *left, pal_error *err)
{
    size_t max = line->size.images < *left ? line->size.images : (size_t)*left;
    pal_removal *removals = pal_arena_array(draft->arena, max, sizeof(*removals));
    if (!removals)
        return pal_draft_failure(draft, err);
    size_t len = list_images(line->message, max, removals);
    *left -= len;
    return pal_draft_show(draft, line,
            pal_show_without(draft, line->message, removals, len),
            PAL_TEXT("image removed: there are more than the provider accepts"), err);
}

static pal_status limit_images(pal_draft *draft, pal_error *err)
{
    uint64_t images = 0;
    for (size_t i = 0; i < draft->len; i++)
        images += draft->lines[i].size.images;
    uint64_t left = excess(images, draft->input->limits.images);
    pal_status status = PAL_OK;
    for (int pinned = 0; pinned <= 1; pinned++) {
        for (size_t i = 0; status == PAL_OK && left > 0 && i < draft->len; i++) {
            pal_line *line = &draft->lines[i];
            if (line->size.images && is_pinned(line) == pinned)
                status = remove_images(draft, line, &left, err);
        }
    }
    return status;
}

/* ---- Bytes ---- */

/* Bytes as they are sent: base64 for data. Texts are counted without escapes, which is never too
 * much. */
static uint64_t part_bytes(const pal_part *part)
{
    uint64_t bytes = part->text.len + pal_context_part_base64_bytes(part) + part->url.len;
    for (size_t i = 0; i < part->parts_len; i++)
        bytes += part_bytes(&part->parts[i]);
    return bytes;
}

static bool is_cleared(const pal_part *part)
{
    return part->parts_len == 0 && pal_str_is(part->text, PAL_TEXT_CLEARED);
}

/* Lists the tool outputs, images and files of one message. `out` NULL: only counts them. */
static size_t list_parts(pal_line *line, bool only_results, candidate *out)
{
    size_t len = 0;
    for (size_t i = 0; line->message && i < line->message->parts_len; i++) {
        const pal_part *part = &line->message->parts[i];
        bool is_media = part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;
        if (part->kind != PAL_PART_TOOL_RESULT && (only_results || !is_media))
            continue;
        uint64_t bytes = part_bytes(part);
        if (is_cleared(part) || bytes < (only_results ? sizeof(PAL_TEXT_CLEARED) : SMALL_BYTES))
            continue;
        if (out)
            out[len] = (candidate){line, i, bytes, false};
        len++;
    }
    return len;
}

static pal_status list_candidates(pal_draft *draft, size_t from, size_t to, bool only_results,
        candidates *out, pal_error *err)
{
    size_t max = 0;
    for (size_t i = from; i < to; i++)
        max += list_parts(&draft->lines[i], only_results, NULL);
    out->len = 0;
    out->items = pal_arena_array(draft->arena, max, sizeof(*out->items));
    out->removals = pal_arena_array(draft->arena, max, sizeof(*out->removals));
    if (!out->items || !out->removals)
        return pal_draft_failure(draft, err);
    for (size_t i = from; i < to; i++)
        out->len += list_parts(&draft->lines[i], only_results, out->items + out->len);
    return PAL_OK;
}

/* Shows placeholders for the chosen parts, with one copy per message. */
static pal_status take_chosen(
        pal_draft *draft, const candidates *list, pal_str reason, pal_error *err)
{
    pal_status status = PAL_OK;
    for (size_t i = 0, next = 0; status == PAL_OK && i < list->len; i = next) {
        pal_line *line = list->items[i].line;
        size_t len = 0;
        for (next = i; next < list->len && list->items[next].line == line; next++) {
            if (list->items[next].is_chosen)
                list->removals[len++] = (pal_removal){list->items[next].part, -1};
        }
        if (len > 0)
            status = pal_draft_show(draft, line,
                    pal_show_without(draft, line->message, list->removals, len), reason,
                    err);
    }
    return status;
}

static uint64_t total_bytes(const pal_draft *draft)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < draft->len; i++)
        bytes += draft->lines[i].size.bytes;
    return bytes;
}

/* Removes the largest parts first, by powers of two, and among these the oldest, so that the
 * choice depends little on later messages. The newest turn and pinned messages are not changed. */
static pal_status limit_bytes(pal_draft *draft, pal_error *err)
{
    uint64_t left = excess(total_bytes(draft), draft->input->limits.bytes);
    if (left == 0)
        return PAL_OK;
    candidates old;
    pal_status status = list_candidates(draft, 0, draft->tail + draft->last_user, false, &old, err);
    if (status != PAL_OK)
        return status;
    for (uint64_t least = UINT64_C(1) << 40; least >= SMALL_BYTES; least /= 2) {
        for (size_t i = 0; left > 0 && i < old.len; i++) {
            candidate *item = &old.items[i];
            if (item->is_chosen || item->bytes < least || is_pinned(item->line))
                continue;
            item->is_chosen = true;
            left -= item->bytes < left ? item->bytes : left;
        }
    }
    return take_chosen(draft, &old, PAL_TEXT("cleared: too many bytes for the provider"), err);
}

pal_status pal_media_limit(pal_draft *draft, pal_error *err)
{
    pal_status status = PAL_OK;
    if (draft->input->limits.images)
        status = limit_images(draft, err);
    if (status == PAL_OK && draft->input->limits.bytes)
        status = limit_bytes(draft, err);
    return status;
}

/* ---- The newest results ---- */

static int compare_bytes(const void *a, const void *b)
{
    const candidate *x = *(candidate *const *)a, *y = *(candidate *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

static pal_status sort_by_bytes(
        pal_draft *draft, const candidates *list, candidate ***out_order, pal_error *err)
{
    candidate **order = pal_arena_array(draft->arena, list->len, sizeof(*order));
    if (!order)
        return pal_draft_failure(draft, err);
    for (size_t i = 0; i < list->len; i++)
        order[i] = &list->items[i];
    if (list->len)
        qsort(order, list->len, sizeof(*order), compare_bytes);
    *out_order = order;
    return PAL_OK;
}

/* Clears one result, then two, then four, because each round measures everything again. */
pal_status pal_media_clear_newest(
        pal_draft *draft, size_t place, pal_size extra, bool *out_fits, pal_error *err)
{
    candidates newest;
    candidate **order = NULL;
    bool fits = false;
    pal_status status = list_candidates(draft, draft->tail + place, draft->len, true, &newest, err);
    if (status == PAL_OK)
        status = sort_by_bytes(draft, &newest, &order, err);
    for (size_t done = 0, step = 1; status == PAL_OK && !fits && done < newest.len; step *= 2) {
        for (size_t i = 0; i < step && done < newest.len; i++)
            order[done++]->is_chosen = true;
        status = take_chosen(draft, &newest, PAL_TEXT("cleared: too long to be sent"), err);
        if (status != PAL_OK)
            break;
        pal_cut_add_up(draft);
        fits = pal_cut_to_fit(draft, draft->hard, extra) <= place;
    }
    if (status == PAL_OK)
        *out_fits = fits;
    return status;
}
