/* window.h - a session's window: loads what a plan needs from the store, and keeps what was decided
 * as marks. Deletes nothing; every mark can be undone. */
#ifndef PALAVER_WINDOW_H
#define PALAVER_WINDOW_H

#include "palaver/context.h"
#include "palaver/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whose window, and under which conditions. */
typedef struct pal_window {
    pal_str tenant;
    pal_id session;
    uint64_t fence;           /* not 0: what is written carries the lease's number */
    pal_str model;            /* its limits and encoding come from `models`; may be empty */
    const pal_models *models; /* NULL: the built-in table */
    pal_str system;           /* the agent's instructions, replayed as they were when the epoch
                                 began, until a compaction; empty: none */
    bool system_exact;        /* sent as they are now, whatever was sent before */
    const pal_tool *tools;
    size_t tools_len;
    pal_context_limits limits; /* what is 0 is the model's or the profile's; an answer that nobody
                                  knows the length of may take a quarter of the context */
    pal_context_settings settings;
    pal_profile profile;
    pal_str family;         /* of the model: whose reasoning may be replayed; empty: none */
    const pal_str *pending; /* ids of calls that run, or wait for approval */
    size_t pending_len;
    bool after_overflow; /* these three as in pal_context_input */
    bool after_compaction;
    const pal_context_last *last; /* NULL: what the newest answer's message keeps of it */
    uint64_t full_tokens;         /* these three as in pal_context_input */
    pal_pruned_text pruned_text;
    void *pruned_user;
    bool assume_last; /* for a look at it: system text and tools are those that the epoch began
                         with, whatever stands above */
} pal_window;

/* Loads the tail, the standing checkpoint, pins and prunes, and plans. The cost is that of the
 * window, not of the history. Everything lies in the arena. */
PAL_API PAL_CHECKED pal_status pal_window_plan(pal_store *store, const pal_window *window,
        pal_arena *arena, pal_plan *out_plan, pal_error *err);

/* Keeps system text and tools as what every request begins with until the next compaction. Does
 * nothing where the same tools stand already. */
PAL_API PAL_CHECKED pal_status pal_window_epoch(
        pal_store *store, const pal_window *window, pal_arena *arena, pal_error *err);

/* Keeps the plan's prune as a mark: what PAL_ACTION_PRUNE asks for. */
PAL_API PAL_CHECKED pal_status pal_window_prune(pal_store *store, const pal_window *window,
        const pal_plan *plan, pal_arena *arena, pal_error *err);

/* ---- Compaction ---- */

/* What the model is asked: the conversation's own beginning, byte for byte what the last request
 * was, and one question behind it. */
typedef struct pal_summary_request {
    const pal_message *messages;
    size_t messages_len;
    const pal_tool
            *tools; /* declared as before, so that the prefix stays the same; not to be used */
    size_t tools_len;
    pal_str model;
    uint64_t output_max; /* tokens */
    pal_str parameters;  /* pal_compaction.parameters */
} pal_summary_request;

typedef struct pal_summary_answer {
    pal_str text; /* in the arena */
    pal_str model;
    bool has_usage;
    pal_usage usage;
    int64_t cost_micros; /* millionths of the price list's currency */
    pal_str provider;
    pal_str price_version;
    pal_str turn_id; /* for the ledger, if it was made in a turn */
    pal_str agent;
} pal_summary_answer;

/* Asks the model; anything but PAL_OK, and an empty text, count as a failure. */
typedef pal_status (*pal_summarise)(const pal_summary_request *request, pal_arena *arena,
        pal_summary_answer *out_answer, void *user, pal_error *err);

typedef struct pal_compaction {
    pal_summarise summarise; /* NULL: whole oldest turns are left out instead */
    void *user;
    pal_str prompt;   /* instead of the built-in one; may be empty */
    pal_str model;    /* instead of the window's; may be empty */
    pal_str reason;   /* "manual", "over the limit", ...: kept with the checkpoint */
    uint64_t cut_seq; /* 0: where the plan would cut, or, below the limit, before the recent tail */
    uint64_t redo;    /* not 0: the number of a checkpoint to make again, from the same messages */
    pal_str summary;  /* the summary itself: no model is called, and it is used however long it is;
                         empty: the model writes it */
    pal_str system;   /* instructions for the question, instead of the window's, so that it finds
                         nothing in the provider's cache; may be empty */
    pal_str parameters; /* further members of the model's request, a JSON object; may be empty */
} pal_compaction;

typedef struct pal_compacted {
    uint64_t number; /* of the checkpoint's mark; 0: nothing was done, `note` says why */
    uint64_t seq;
    bool is_fallback; /* no summary: whole turns were left out */
    uint64_t messages;
    uint64_t tokens_before;
    uint64_t tokens_after;
    pal_str summary; /* in the arena */
    pal_str note;    /* why the fallback was taken, or why nothing was done */
} pal_compacted;

/* Makes a checkpoint. The last summary is merged into the new one; pins, the last user's message,
 * running calls and what waits for approval are kept by code. If the model fails, answers nothing,
 * or nothing shorter, whole oldest turns are left out, and it is said so. */
PAL_API PAL_CHECKED pal_status pal_window_compact(pal_store *store, const pal_window *window,
        const pal_compaction *compaction, pal_arena *arena, pal_compacted *out_compacted,
        pal_error *err);

/* Takes the checkpoint with this number out of force, or with 0 the newest that stands.
 * PAL_NOT_FOUND where there is none. */
PAL_API PAL_CHECKED pal_status pal_window_uncompact(
        pal_store *store, pal_str tenant, pal_id session, uint64_t number, pal_error *err);

/* The summary that stands, in the arena; empty: none does. */
PAL_API PAL_CHECKED pal_status pal_window_summary(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_str *out_summary, pal_error *err);
/* Sets it, without a model and without a cut: it replaces the summary of the checkpoint that
 * stands, or else it is sent before all messages. An empty one clears it. Kept as a mark, which can
 * be undone; out_mark->number is 0 if there was nothing to clear. */
PAL_API PAL_CHECKED pal_status pal_window_summary_set(pal_store *store, pal_str tenant,
        pal_id session, pal_str summary, pal_mark *out_mark, pal_error *err);

/* A line-by-line difference of two checkpoints' summaries, as text, in the arena. */
PAL_API PAL_CHECKED pal_status pal_window_diff(pal_store *store, pal_str tenant, pal_id session,
        uint64_t old_number, uint64_t new_number, pal_arena *arena, pal_str *out_diff,
        pal_error *err);

/* ---- Built-in tools ---- */

/* read_output and search_output read what pal_context_spill() cut out, recall searches what a
 * compaction moved out of sight, on this branch only. They live as long as the program. */
PAL_API const pal_tool *pal_builtin_tools(size_t *out_len);
PAL_API bool pal_builtin_has(pal_str name);
/* Runs one; the answer is bounded and lies in the arena. PAL_INVALID and PAL_NOT_FOUND are for the
 * model to read: they become the call's result. */
PAL_API PAL_CHECKED pal_status pal_builtin_run(pal_store *store, pal_str tenant, pal_id session,
        pal_str name, pal_str arguments, pal_arena *arena, pal_str *out_text, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
