/* context_drop.c - leaves out the oldest messages of a tail until the rest fits.
 *
 * The newest message, or the newest call with its results, is always sent. If its results alone are
 * too long, they are cleared first. A window that begins within a turn gets that turn's question
 * before it, because some services reject a request that begins with an assistant message. */
#include "context/context_draft.h"

static pal_size add_sizes(pal_size a, pal_size b)
{
    return (pal_size){a.tokens + b.tokens, a.bytes + b.bytes, a.images + b.images};
}

/* Returns the oldest place that the target allows; more than tail_len if there is none. */
static size_t place_allowed(const pal_draft *draft, const pal_drop *drop)
{
    pal_size all = add_sizes(drop->notice, drop->excess);
    size_t place = pal_cut_to_fit(draft, drop->target, drop->whole_turns ? all : drop->excess);
    size_t hard = pal_cut_to_fit(draft, draft->hard, all);
    place = place > hard ? place : hard;
    return place > drop->start_min ? place : drop->start_min;
}

/* ---- Beginning with a user message ---- */

static bool is_user(const pal_draft *draft, size_t place)
{
    return place < draft->tail_len && pal_draft_tail(draft, place)->message->role == PAL_ROLE_USER;
}

/* Returns the user message of the turn that contains `place`; tail_len if it is not in the tail. */
static size_t question_of(const pal_draft *draft, size_t place)
{
    while (place > 0 && !is_user(draft, place - 1))
        place--;
    return place > 0 ? place - 1 : draft->tail_len;
}

static void set_opening(pal_draft *draft, size_t place)
{
    if (draft->has_opening)
        pal_draft_tail(draft, draft->opening)->must = false;
    draft->has_opening = place < draft->tail_len && !pal_draft_tail(draft, place)->must;
    draft->opening = place;
    if (draft->has_opening)
        pal_draft_tail(draft, place)->must = true;
    pal_cut_add_up(draft);
}

bool pal_drop_open(pal_draft *draft, size_t place)
{
    size_t question = is_user(draft, place) ? draft->tail_len : question_of(draft, place);
    bool is_open = is_user(draft, place) || question < draft->tail_len ||
            pal_cut_at_turn(draft, place) == draft->tail_len;
    set_opening(draft, question);
    return is_open;
}

/* Returns the beginning of the next turn, if that leaves half of the target. Otherwise a place
 * within a turn, whose question is sent too. */
static size_t place_opened(pal_draft *draft, const pal_drop *drop, size_t place)
{
    size_t turn = pal_cut_at_turn(draft, place);
    if (turn < draft->tail_len &&
            !pal_context_size_fits(draft, draft->rest_tokens[turn], 0, drop->target / 2))
        return turn;
    if (!pal_drop_open(draft, place))
        return turn;
    size_t moved = place_allowed(draft, drop);
    moved = pal_cut_after(draft, moved > place ? moved : place);
    if (moved < turn || turn == draft->tail_len)
        return moved;
    set_opening(draft, draft->tail_len);
    return turn;
}

/* Returns the place for the target; tail_len or more if there is none. */
static size_t place_within(pal_draft *draft, const pal_drop *drop)
{
    if (drop->begins_turn)
        set_opening(draft, draft->tail_len);
    size_t place = place_allowed(draft, drop);
    if (place > draft->tail_len)
        return place;
    if (drop->begins_turn)
        return place_opened(draft, drop, pal_cut_after(draft, place));
    size_t turn = drop->whole_turns ? pal_cut_at_turn(draft, place) : draft->tail_len;
    return turn < draft->tail_len ? turn : pal_cut_after(draft, place);
}

pal_status pal_drop_find(
        pal_draft *draft, const pal_drop *drop, size_t *out_start, bool *out_fits, pal_error *err)
{
    pal_size all = add_sizes(drop->notice, drop->excess);
    size_t newest = pal_cut_before_newest(draft);
    size_t start = place_within(draft, drop);
    bool fits = start < draft->tail_len;
    pal_status status = PAL_OK;
    if (!fits) {
        start = newest;
        fits = pal_cut_to_fit(draft, draft->hard, all) <= newest;
    }
    if (!fits)
        status = pal_media_clear_newest(draft, newest, all, &fits, err);
    if (status != PAL_OK)
        return status;
    /* If the results so far do not fit, the question alone can still be sent. */
    if (!fits && draft->is_open && draft->last_user < newest) {
        start = draft->tail_len;
        fits = pal_cut_to_fit(draft, draft->hard, all) <= start;
    }
    *out_start = start;
    *out_fits = fits;
    return PAL_OK;
}
