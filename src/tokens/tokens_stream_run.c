/* tokens_stream_run.c - a piece that does not end: a gigabyte of spaces, of letters or of Chinese.
 *
 * Its beginning is not kept. A short text replaces it for the scanner (pal_split_rest()), and all
 * final tokens are taken from the merge. Some pieces may turn out to have ended earlier, at a line
 * end among spaces, or before upper-case letters. Until that is known, there are two sides: one
 * counts as if the piece continues, the other as if a new piece had begun. Their ids wait, stored
 * as runs of equal ids, so that only a specially made text makes them grow. */
#include "tokens/tokens_stream.h"
#include "base/memory.h"

bool pal_stream_ids_add(struct pal_stream_side *side, const uint32_t *ids, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        struct pal_stream_ids *last = side->ids_len > 0 ? &side->ids[side->ids_len - 1] : NULL;

        if (last && last->id == ids[i] && last->count < UINT32_MAX) {
            last->count++;
            continue;
        }
        if (!pal_reserve(&side->ids, &side->ids_room, side->ids_len + 1, sizeof side->ids[0]))
            return false;
        side->ids[side->ids_len++] = (struct pal_stream_ids){ids[i], 1};
    }
    return true;
}

/* Makes the walk add to the count of this side, and to its ids if they must wait. */
static void side_enter(pal_token_stream *stream, struct pal_stream_side *side)
{
    stream->walk.count = side->count;
    stream->side = stream->is_forked ? side : NULL;
}

static void side_leave(pal_token_stream *stream, struct pal_stream_side *side)
{
    if (stream->sink)
        pal_walk_flush(&stream->walk);
    side->count = stream->walk.count;
    stream->side = NULL;
}

/* Takes the final tokens of the text up to `scanned`. */
static void side_advance(pal_token_stream *stream, struct pal_stream_side *side)
{
    size_t taken;

    side_enter(stream, side);
    taken = pal_walk_front(&stream->walk, stream->text + side->at, stream->scanned - side->at);
    side->at += taken;
    side->is_begun = side->is_begun || taken > 0;
    side_leave(stream, side);
}

/* Takes the rest of the side's piece, which ends at `end`. */
static void side_finish(pal_token_stream *stream, struct pal_stream_side *side, size_t end)
{
    side_enter(stream, side);
    if (side->is_begun)
        pal_walk_rest(&stream->walk, stream->text + side->at, end - side->at);
    else
        pal_walk_piece(&stream->walk, stream->text + side->at, end - side->at);
    side->at = end;
    side_leave(stream, side);
}

/* The right side is known. Drops the other side and passes the waiting ids to the sink. */
static void sides_join(pal_token_stream *stream, int winner)
{
    struct pal_stream_side side = stream->sides[winner];
    uint32_t ids[64];
    size_t len = 0;

    if (!stream->is_forked)
        return;
    stream->is_forked = false;
    stream->sides[winner] = stream->sides[0];
    stream->sides[0] = side;
    stream->sides[1].ids_len = 0;
    for (size_t i = 0; stream->sink && i < side.ids_len; i++) {
        for (uint32_t left = side.ids[i].count; left > 0; left--) {
            ids[len++] = side.ids[i].id;
            if (len == sizeof ids / sizeof ids[0] || (left == 1 && i + 1 == side.ids_len)) {
                if (!stream->sink(ids, len, stream->user)) {
                    stream->walk.failure = PAL_CANCELED;
                    return;
                }
                len = 0;
            }
        }
    }
    stream->sides[0].ids_len = 0;
}

/* Begins the second side, on which the piece ended at `cut`. */
static void sides_fork(pal_token_stream *stream, size_t cut)
{
    struct pal_stream_side *side = &stream->sides[1];

    stream->is_forked = true;
    side->count = stream->sides[0].count;
    side->at = stream->sides[0].at;
    side->is_begun = true;
    side_finish(stream, side, cut);
    side->is_begun = false;
}

/* The scanner has read more of the piece. `rest` describes the text from `begin` on. */
static void run_slide(
        pal_token_stream *stream, struct pal_split_rest rest, size_t begin, size_t text_len)
{
    bool is_old_cut = stream->is_forked && rest.cut > 0 && rest.cut < text_len;

    stream->scanned = begin + rest.used;
    stream->rest = rest;
    if (!is_old_cut) {
        sides_join(stream, 0);
        if (rest.cut > 0 && stream->walk.failure == PAL_OK)
            sides_fork(stream, begin + rest.cut);
    }
    side_advance(stream, &stream->sides[0]);
    stream->begin = stream->sides[0].at;
    if (stream->is_forked) {
        side_advance(stream, &stream->sides[1]);
        if (stream->sides[1].at < stream->begin)
            stream->begin = stream->sides[1].at;
    }
}

void pal_stream_run_begin(pal_token_stream *stream)
{
    struct pal_split_rest rest = {0};
    size_t end = pal_stream_safe_end(stream, false);

    if (pal_split_rest(stream->walk.table.split, stream->text + stream->begin, stream->text + end,
                &rest) != 0)
        return;
    stream->is_run = true;
    stream->is_forked = false;
    stream->sides[0].count = stream->walk.count;
    stream->sides[0].at = stream->begin;
    stream->sides[0].is_begun = true;
    if (stream->sink)
        pal_walk_flush(&stream->walk);
    run_slide(stream, rest, stream->begin, 0);
}

/* Continues to scan the piece from `scanned`. Meanwhile the text before it is replaced by the short
 * text, and restored afterwards. Returns the length with the short text, or 0 and the rest. */
static size_t run_scan(
        pal_token_stream *stream, bool is_final, size_t text_len, struct pal_split_rest *rest)
{
    const struct pal_split *split = stream->walk.table.split;
    unsigned char *begin = stream->text + stream->scanned - text_len;
    unsigned char *end = stream->text + pal_stream_safe_end(stream, is_final);
    unsigned char saved[8];
    size_t len;

    memcpy(saved, begin, text_len);
    memcpy(begin, stream->rest.text, text_len);
    len = is_final ? pal_split_next(split, begin, end, true)
                   : pal_split_rest(split, begin, end, rest);
    memcpy(begin, saved, text_len);
    return len;
}

bool pal_stream_run_next(pal_token_stream *stream, bool is_final)
{
    size_t text_len = strlen(stream->rest.text);
    struct pal_split_rest rest = {0};
    size_t len = run_scan(stream, is_final, text_len, &rest);

    if (len == 0) {
        run_slide(stream, rest, stream->scanned - text_len, text_len);
        return false;
    }
    if (stream->is_forked && len == stream->rest.text_cut) {
        stream->rest = (struct pal_split_rest){.text = stream->rest.cut_text};
        sides_join(stream, 1);
        stream->begin = stream->sides[0].at;
        return true;
    }
    sides_join(stream, 0);
    side_finish(stream, &stream->sides[0],
            len < text_len ? stream->scanned : stream->scanned + len - text_len);
    stream->begin = stream->sides[0].at;
    stream->is_run = false;
    return true;
}
