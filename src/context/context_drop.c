/* context_drop.c - leaves out the oldest of a tail until the rest fits.
 *
 * The newest message, or the newest call with its results, is always sent: where its results alone
 * are too long, they are cleared before anything is given up. */
#include "context/context_draft.h"

static pal_size add_sizes(pal_size a, pal_size b)
{
    return (pal_size){a.tokens + b.tokens, a.bytes + b.bytes, a.images + b.images};
}

/* The place that the target asks for; tail_len or more where it cannot be reached. */
static size_t place_within(const pal_draft *draft, const pal_drop *drop)
{
    pal_size all = add_sizes(drop->notice, drop->excess);
    size_t place = pal_place_fitting(draft, drop->target, drop->whole_turns ? all : drop->excess);
    size_t hard = pal_place_fitting(draft, draft->hard, all);
    place = place > hard ? place : hard;
    place = place > drop->start_min ? place : drop->start_min;
    if (place > draft->tail_len)
        return place;
    size_t turn = drop->whole_turns ? pal_place_turn(draft, place) : draft->tail_len;
    return turn < draft->tail_len ? turn : pal_place_after(draft, place);
}

pal_status pal_draft_drop(
        pal_draft *draft, const pal_drop *drop, size_t *out_start, bool *out_fits, pal_error *err)
{
    pal_size all = add_sizes(drop->notice, drop->excess);
    size_t newest = pal_place_newest(draft);
    size_t start = place_within(draft, drop);
    bool fits = start < draft->tail_len;
    pal_status status = PAL_OK;
    if (!fits) {
        start = newest;
        fits = pal_place_fitting(draft, draft->hard, all) <= newest;
    }
    if (!fits)
        status = pal_draft_clear_newest(draft, newest, all, &fits, err);
    if (status != PAL_OK)
        return status;
    /* The question without what was found so far is still a question. */
    if (!fits && draft->is_open && draft->last_user < newest) {
        start = draft->tail_len;
        fits = pal_place_fitting(draft, draft->hard, all) <= start;
    }
    *out_start = start;
    *out_fits = fits;
    return PAL_OK;
}
