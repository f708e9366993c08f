/* context_draft.h - a draft of a request: everything that could be sent, line by line, before it is
 * decided what is sent. For context/ only.
 *
 * Lines are in the order of the request, which never changes: system text, head, notes, tools, the
 * notice, the messages that the checkpoint replaces, the summary, messages that were not loaded,
 * kept messages, the tail. Our system messages are all at the beginning, where every service
 * accepts them. A place in the tail is counted from 0 for its first line; a cut at place i leaves
 * out everything before it. All of it is in the arena. One plan is made by one thread. */
#ifndef PAL_CONTEXT_DRAFT_H
#define PAL_CONTEXT_DRAFT_H

#include "palaver/context.h"

typedef struct pal_size {
    uint64_t tokens; /* the plain count, not calibrated */
    uint64_t bytes;
    uint32_t images;
} pal_size;

typedef struct pal_line {
    pal_plan_item_kind kind;         /* 0: the line is empty */
    const pal_message *message; /* the form that would be sent; NULL for tools and ranges */
    uint64_t seq;
    uint64_t first_seq;
    uint64_t count;
    pal_size size;
    pal_size cost;               /* size as it would be sent, including known repairs */
    uint64_t hash;               /* tools only; messages are hashed when they are sent */
    pal_disposition disposition; /* how it is sent; for a range, why it is not sent */
    bool must;                   /* sent even if it is before the cut */
    pal_str reason;
} pal_line;

/* The part of a tail that is sent. Place 0 means everything. */
typedef struct pal_choice {
    size_t start;
    bool after_overflow; /* selects the wording of the notice */
    pal_str sent;        /* reasons for the plan */
    pal_str dropped;
} pal_choice;

typedef struct pal_draft {
    const pal_context_input *input;
    pal_arena *arena;
    pal_context_settings settings; /* with defaults filled in */
    uint64_t hard;                 /* tokens that may be sent; 0: no limit is known */
    uint64_t soft;                 /* tokens from which the strategy acts; 0: none */

    pal_line *lines;
    size_t len;
    size_t notice; /* line of the notice */
    size_t kept;   /* first line of the kept messages */
    size_t tail;   /* first line of the tail */
    size_t tail_len;
    size_t last_user; /* place of the last user message; tail_len: there is none */
    bool is_open;     /* the newest message waits for an answer */
    pal_size fixed;   /* size of everything before the tail, without the notice */

    /* Set by pal_cut_find_places(), with tail_len + 1 entries each. */
    bool *unsafe;          /* a cut here would separate a call from its result */
    uint64_t *rest_tokens; /* tokens from here to the end */
    uint64_t *cost_tokens; /* tokens from here to the end, plus everything before it that must be
                              sent */
    uint64_t *cost_bytes;
    size_t pending; /* the first message with a pending call; tail_len: none */

    bool has_opening; /* the line at place `opening` is sent only for the chosen cut */
    size_t opening;
} pal_draft;

/* ---- context_settings.c ---- */

pal_context_settings pal_context_settings_filled(const pal_context_settings *settings);
PAL_CHECKED pal_status pal_context_input_check(const pal_context_input *input, pal_error *err);

/* ---- context_budget.c ---- */

/* Sets the two limits of the strategy. */
void pal_context_set_limits(pal_draft *draft);
uint64_t pal_context_percent(uint64_t number, uint32_t percent);
bool pal_context_size_fits(const pal_draft *draft, uint64_t tokens, uint64_t bytes,
        uint64_t tokens_max);

/* ---- context_draft.c ---- */

/* Returns the size of an image or a file: of its content, or of its blob. */
uint64_t pal_context_part_bytes(const pal_part *part);
/* Returns the same size in base64. */
uint64_t pal_context_part_base64_bytes(const pal_part *part);
/* Sets bytes (as JSON) and images, but not tokens. */
void pal_context_measure_message(const pal_message *message, pal_size *size);
PAL_CHECKED pal_status pal_context_count_message(const pal_context_input *input,
        const pal_message *message, uint64_t *out_tokens, pal_error *err);

PAL_CHECKED pal_status pal_draft_make(pal_draft *draft, pal_error *err);
static inline pal_line *pal_draft_tail(const pal_draft *draft, size_t place)
{
    return &draft->lines[draft->tail + place];
}
/* Sets the message that a line shows, and counts and measures it again. */
PAL_CHECKED pal_status pal_draft_show(pal_draft *draft, pal_line *line, const pal_message *message,
        pal_str reason, pal_error *err);

/* ---- context_show.c ---- */

/* A part that becomes a placeholder. `nested` is a part within a tool result; -1: the whole
 * part. */
typedef struct pal_removal {
    size_t part;
    ptrdiff_t nested;
} pal_removal;

/* Returns a copy in the arena with placeholders for the parts. NULL if the arena fails. */
const pal_message *pal_show_without(const pal_draft *draft, const pal_message *message,
        const pal_removal *removals, size_t removals_len);

/* ---- context_note.c ---- */

/* Returns the text of the message with the notes at the beginning; empty: there are none. */
PAL_CHECKED pal_status pal_draft_notes_text(
        const pal_draft *draft, pal_str *out_text, pal_error *err);
/* Puts the notes of a message in front of it, if it has any. */
PAL_CHECKED pal_status pal_draft_notes_show(pal_draft *draft, pal_line *line, pal_error *err);
/* Adds an item to the plan for each note that `carrier` sends. */
PAL_CHECKED pal_status pal_draft_notes_items(
        const pal_draft *draft, pal_plan *plan, pal_plan_item *carrier, pal_error *err);

/* ---- context_media.c ---- */

/* Replaces images over the maximum number by placeholders, and the largest old outputs and images
 * if the request has too many bytes. */
PAL_CHECKED pal_status pal_media_limit(pal_draft *draft, pal_error *err);
/* Clears results from `place` on, the largest first, until the rest fits. *out_fits says whether it
 * does. */
PAL_CHECKED pal_status pal_media_clear_newest(
        pal_draft *draft, size_t place, pal_size extra, bool *out_fits, pal_error *err);

/* ---- context_cut.c ---- */

/* Finds where the tail can be cut, what must be sent, and what each cut costs. */
PAL_CHECKED pal_status pal_cut_find_places(pal_draft *draft, pal_error *err);
/* Computes only the costs, after lines have changed. */
void pal_cut_add_up(pal_draft *draft);
/* Returns the first safe place at or after `place`. */
size_t pal_cut_after(const pal_draft *draft, size_t place);
/* Returns the first safe place at or after `place` where a turn begins; tail_len if there is
 * none. */
size_t pal_cut_at_turn(const pal_draft *draft, size_t place);
/* Returns where the newest call with its results begins, or the newest message. */
size_t pal_cut_before_newest(const pal_draft *draft);
/* Returns the oldest place, safe or not, from which everything fits into tokens_max together with
 * `extra`; tail_len + 1 if not even the messages that must be sent fit. */
size_t pal_cut_to_fit(const pal_draft *draft, uint64_t tokens_max, pal_size extra);
/* Return whether a line before the tail stays there after a compaction, and the size of all such
 * lines. */
bool pal_cut_line_lasts(const pal_draft *draft, size_t index);
pal_size pal_cut_lasting_size(const pal_draft *draft);
/* Returns where a compaction cuts so that the recent messages stay; 0: there is nothing to cut. */
size_t pal_cut_for_compact(const pal_draft *draft);
size_t pal_cut_for_summarization(const pal_draft *draft);
size_t pal_cut_for_reset(const pal_draft *draft);
/* The retry rule of Loom (which sends agents to work items): this share of `len` messages, without
 * the first and the last, is kept. Returns how many are left out after the first. */
size_t pal_context_retry_left_out(size_t len, uint32_t percent);

/* ---- context_drop.c ---- */

/* How far to reduce a tail by leaving out its oldest messages. */
typedef struct pal_drop {
    uint64_t target;  /* tokens to reach, if possible; never more than draft->hard */
    pal_size notice;  /* counted against the hard limit, and against the target if whole turns are
                         left out */
    pal_size excess;  /* tokens that repairs add before the tail */
    bool whole_turns; /* cut only where a turn begins; otherwise at any safe place */
    bool begins_turn; /* the first message that is sent is a user message, as in every real
                         request */
    size_t start_min;
} pal_drop;

/* Finds the place. Clears results of the newest call if only they do not fit. *out_fits is false if
 * not even the newest message fits. */
PAL_CHECKED pal_status pal_drop_find(
        pal_draft *draft, const pal_drop *drop, size_t *out_start, bool *out_fits, pal_error *err);

/* Puts the question of its turn before a window that begins at `place`. Returns false if the
 * question cannot be sent and a later turn could begin the window. */
bool pal_drop_open(pal_draft *draft, size_t place);

/* ---- context_prefix.c ---- */

uint64_t pal_prefix_hash_message(const pal_message *message);
uint64_t pal_prefix_hash_tools(const pal_tool *tools, size_t tools_len);
/* Reports how much of the plan is equal to the last request. */
void pal_prefix_compare(pal_plan *plan, const pal_context_last *last, pal_arena *arena);

/* ---- context_compose.c ---- */

/* Makes the items and totals of the plan for this choice, repaired so that the service accepts
 * them. */
PAL_CHECKED pal_status pal_compose_plan(
        pal_draft *draft, const pal_choice *choice, pal_plan *plan, pal_error *err);

/* ---- context_strategy.c ---- */

/* Decides what to do, and composes the plan. */
PAL_CHECKED pal_status pal_strategy_decide(pal_draft *draft, pal_plan *plan, pal_error *err);

/* ---- context_strategy_drop.c ---- */

bool pal_strategy_fits(const pal_draft *draft, const pal_plan *plan);
/* Returns true if the service that keeps the conversation reports that it is full, and nothing was
 * done about it. */
bool pal_strategy_is_full(const pal_draft *draft);
/* Leaves out whole turns, the oldest first, until the rest can be sent, and composes the plan; or
 * refuses. */
PAL_CHECKED pal_status pal_strategy_drop_turns(pal_draft *draft, pal_plan *plan, pal_error *err);
PAL_CHECKED pal_status pal_strategy_slide(pal_draft *draft, pal_plan *plan, pal_error *err);

/* ---- context_refuse.c ---- */

/* Each sets the action and the error, which gives the amount over the limit and a remedy. */
void pal_refuse_whole(const pal_draft *draft, pal_plan *plan);
void pal_refuse_least(const pal_draft *draft, pal_plan *plan, pal_size least);
void pal_refuse_again(const pal_draft *draft, pal_plan *plan);

/* Returns PAL_OK, or the failure of the arena. */
PAL_CHECKED pal_status pal_draft_failure(const pal_draft *draft, pal_error *err);

#endif
