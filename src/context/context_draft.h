/* context_draft.h - a request in the making: everything that could be sent, line by line, before it
 * is decided what is. Only for context/.
 *
 * Lines stand in the order of the request, which never changes: system text, head, tools, the
 * notice, what the checkpoint hides, what stands for it, what was not loaded, kept messages, the
 * tail. System messages of ours are all at the beginning, where every service takes them.
 * A place in the tail counts from 0 for its first line; a cut at place i leaves out what is before
 * it. Everything lies in the arena; one plan is made by one thread. */
#ifndef PAL_CONTEXT_DRAFT_H
#define PAL_CONTEXT_DRAFT_H

#include "palaver/context.h"

typedef struct pal_size {
    uint64_t tokens; /* as counted, not calibrated */
    uint64_t bytes;
    uint32_t images;
} pal_size;

typedef struct pal_line {
    pal_item_kind kind;         /* 0: nothing is here */
    const pal_message *message; /* as it would be sent; NULL for tools and ranges */
    uint64_t seq;
    uint64_t first_seq;
    uint64_t count;
    pal_size size;
    pal_size cost;               /* likewise, with what repairs are known to make of it */
    uint64_t hash;               /* tools only: messages are hashed when they are sent */
    pal_disposition disposition; /* when it is sent; of a range: why it is not */
    bool must;                   /* sent even where it is before the cut */
    pal_str reason;
} pal_line;

/* What of a tail is sent: place 0 is everything. */
typedef struct pal_choice {
    size_t start;
    bool after_overflow; /* the words of the notice */
    pal_str sent;        /* reasons */
    pal_str dropped;
} pal_choice;

typedef struct pal_draft {
    const pal_context_input *input;
    pal_arena *arena;
    pal_context_settings settings; /* defaults filled in */
    uint64_t hard;                 /* tokens that may be sent; 0: no limit is known */
    uint64_t soft;                 /* tokens from which the strategy acts; 0: none */

    pal_line *lines;
    size_t len;
    size_t notice; /* its line */
    size_t kept;   /* the first line of the kept messages */
    size_t tail;   /* the first line of the tail */
    size_t tail_len;
    size_t last_user; /* a place; tail_len: there is none */
    bool is_open;     /* the newest message waits for an answer */
    pal_size fixed;   /* of what is before the tail, without the notice */

    /* From pal_draft_places(), each with tail_len + 1 entries. */
    bool *unsafe;          /* a cut here would part a call from its result */
    uint64_t *rest_tokens; /* from here to the end */
    uint64_t *cost_tokens; /* likewise, and what must be sent of before */
    uint64_t *cost_bytes;
    size_t pending; /* the first message with a pending call; tail_len: none */

    bool has_opening; /* the line at place `opening` is sent only for the cut that was chosen */
    size_t opening;
} pal_draft;

/* ---- context_settings.c ---- */

pal_context_settings pal_context_settings_filled(const pal_context_settings *settings);
PAL_CHECKED pal_status pal_context_input_check(const pal_context_input *input, pal_error *err);

/* ---- context_budget.c ---- */

/* The strategy's two limits. */
void pal_draft_limits(pal_draft *draft);
uint64_t pal_percent_of(uint64_t number, uint32_t percent);
/* Of an image or a file: the bytes at hand, or those of its blob. */
uint64_t pal_part_data_bytes(const pal_part *part);
/* How many bytes those are in base64. */
uint64_t pal_part_base64_bytes(const pal_part *part);
/* Bytes as JSON takes them, and images; tokens are left alone. */
void pal_message_measure(const pal_message *message, pal_size *size);
PAL_CHECKED pal_status pal_message_count(const pal_context_input *input, const pal_message *message,
        uint64_t *out_tokens, pal_error *err);
PAL_CHECKED pal_status pal_tools_measure(
        const pal_context_input *input, pal_size *out_size, pal_error *err);
bool pal_size_fits(const pal_draft *draft, uint64_t tokens, uint64_t bytes, uint64_t tokens_max);

/* ---- context_draft.c ---- */

PAL_CHECKED pal_status pal_draft_make(pal_draft *draft, pal_error *err);
static inline pal_line *pal_draft_tail(const pal_draft *draft, size_t place)
{
    return &draft->lines[draft->tail + place];
}
/* Puts what the draft's line shows now into it: counted and measured anew. */
PAL_CHECKED pal_status pal_line_show(pal_draft *draft, pal_line *line, const pal_message *message,
        pal_str reason, pal_error *err);

/* ---- context_show.c ---- */

/* Which parts become placeholders; `nested` is a part within a tool's result, -1 the whole. */
typedef struct pal_removal {
    size_t part;
    ptrdiff_t nested;
} pal_removal;

/* A copy in the arena with placeholders for the parts. NULL on failure of the arena. */
const pal_message *pal_message_without(const pal_draft *draft, const pal_message *message,
        const pal_removal *removals, size_t removals_len);

/* ---- context_media.c ---- */

/* Images over the limit's number, and the largest old outputs and images over its bytes, become
 * placeholders. */
PAL_CHECKED pal_status pal_draft_limit_media(pal_draft *draft, pal_error *err);
/* Clears results from `place` on, largest first, until the cost there fits. Says whether it
 * does. */
PAL_CHECKED pal_status pal_draft_clear_newest(
        pal_draft *draft, size_t place, pal_size extra, bool *out_fits, pal_error *err);

/* ---- context_cut.c ---- */

/* Finds where the tail may be cut, what must stay, and what each cut costs. */
PAL_CHECKED pal_status pal_draft_places(pal_draft *draft, pal_error *err);
/* The costs alone, after lines have changed. */
void pal_draft_add_up(pal_draft *draft);
/* The first safe place at or after, and the last one at or before `place`. */
size_t pal_place_after(const pal_draft *draft, size_t place);
size_t pal_place_before(const pal_draft *draft, size_t place);
/* The first safe place at or after `place` where a turn begins; tail_len: there is none. */
size_t pal_place_turn(const pal_draft *draft, size_t place);
/* Where the newest call with its results, or the newest message, begins. */
size_t pal_place_newest(const pal_draft *draft);
/* The oldest place, safe or not, from which everything fits into tokens_max with `extra` beside it;
 * tail_len + 1 if not even what must be sent does. */
size_t pal_place_fitting(const pal_draft *draft, uint64_t tokens_max, pal_size extra);
/* What is before the tail and stays there when a compaction is made; and of how much that is. */
bool pal_line_lasts(const pal_draft *draft, size_t index);
pal_size pal_draft_lasting(const pal_draft *draft);
/* Where a compaction cuts so that the recent tail stays; 0: there is nothing to cut. */
size_t pal_place_compact(const pal_draft *draft);
size_t pal_place_summarise(const pal_draft *draft);
size_t pal_place_reset(const pal_draft *draft);
/* Loom's retry: of `len` messages without the first and the last, this share is kept. How many are
 * left out behind the first. */
size_t pal_retry_left_out(size_t len, uint32_t percent);

/* ---- context_drop.c ---- */

/* How far to go when the oldest is left out. */
typedef struct pal_drop {
    uint64_t target;  /* tokens to come down to, where that is possible; never over draft->hard */
    pal_size notice;  /* counted against the hard limit, and against the target of whole turns */
    pal_size excess;  /* what repairs add before the tail */
    bool whole_turns; /* else any safe place will do */
    bool begins_turn; /* the first message that is sent is a user's, as in every real request */
    size_t start_min;
} pal_drop;

/* Finds the place. Results of the newest call are cleared where only they don't fit. *out_fits
 * false: not even the newest message fits. */
PAL_CHECKED pal_status pal_draft_drop(
        pal_draft *draft, const pal_drop *drop, size_t *out_start, bool *out_fits, pal_error *err);

/* A window that begins at `place` gets its turn's question before it. False: that is out of reach,
 * and a later turn could begin the window. */
bool pal_draft_open(pal_draft *draft, size_t place);

/* ---- context_prefix.c ---- */

uint64_t pal_message_hash(const pal_message *message);
uint64_t pal_tools_hash(const pal_tool *tools, size_t tools_len);
/* How much of the plan is the same as the last request. */
void pal_plan_compare(pal_plan *plan, const pal_context_last *last, pal_arena *arena);

/* ---- context_compose.c ---- */

/* The plan's items and totals for this choice: repaired, so that the provider takes it. */
PAL_CHECKED pal_status pal_draft_compose(
        pal_draft *draft, const pal_choice *choice, pal_plan *plan, pal_error *err);

/* ---- context_strategy.c ---- */

/* Decides what to do, and composes the plan accordingly. */
PAL_CHECKED pal_status pal_draft_decide(pal_draft *draft, pal_plan *plan, pal_error *err);

/* ---- context_strategy_drop.c ---- */

bool pal_plan_fits(const pal_draft *draft, const pal_plan *plan);
/* The service that keeps the conversation says that it is full, and nothing was done about it. */
bool pal_draft_is_full(const pal_draft *draft);
/* Leaves whole oldest turns out until the rest can be sent, and composes the plan; or refuses. */
PAL_CHECKED pal_status pal_draft_drop_turns(pal_draft *draft, pal_plan *plan, pal_error *err);
PAL_CHECKED pal_status pal_draft_slide(pal_draft *draft, pal_plan *plan, pal_error *err);

/* ---- context_refuse.c ---- */

/* Each sets the action and the error, which says by how much, and what to do. */
void pal_plan_refuse_whole(const pal_draft *draft, pal_plan *plan);
void pal_plan_refuse_least(const pal_draft *draft, pal_plan *plan, pal_size least);
void pal_plan_refuse_again(const pal_draft *draft, pal_plan *plan);

/* PAL_OK, or what the arena failed with. */
PAL_CHECKED pal_status pal_draft_failure(const pal_draft *draft, pal_error *err);

#endif
