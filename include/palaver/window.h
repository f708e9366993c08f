/* window.h - loads the input of a plan from a store, and records the decisions of a plan as marks.
 * Nothing is deleted, and every mark can be undone.
 *
 * All functions read or write the store on the caller's thread, so they block. Results are
 * allocated in the arena that the caller passes. Any of them can return PAL_NO_MEMORY or an error
 * of the store. */
#ifndef PALAVER_WINDOW_H
#define PALAVER_WINDOW_H

#include "palaver/context.h"
#include "palaver/store_marks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A session, and the conditions under which its context is planned. */
typedef struct pal_window {
    pal_str tenant;
    pal_id session;
    uint64_t fence; /* not 0: marks are written with this fence number of the session's lease */
    pal_str model;  /* its limits and its encoding are looked up in `models`; may be empty */
    const pal_models *models; /* NULL: the built-in table */
    pal_str system;    /* the agent's instructions. During an epoch the text from its beginning is
                          sent; the next compaction ends the epoch. May be empty */
    bool system_exact; /* send `system` as it is now, whatever the epoch began with */
    const pal_tool *tools;
    size_t tools_len;
    pal_context_limits limits; /* members that are 0 are set from the model or the profile. If the
                                  length of an answer is unknown, a quarter of the context is left
                                  for it */
    pal_context_settings settings;
    pal_profile profile;
    pal_str family;         /* the model's family; only reasoning of this family is sent;
                               empty: none is sent */
    const pal_str *pending; /* ids of tool calls that run or wait for approval */
    size_t pending_len;
    bool after_overflow;          /* as in pal_context_input */
    bool after_compaction;        /* as in pal_context_input */
    const pal_context_last *last; /* NULL: use the record in the newest answer (pal_message.sent) */
    uint64_t full_tokens;         /* as in pal_context_input */
    pal_context_on_pruned pruned_text;  /* as in pal_context_input */
    void *pruned_user;
    bool assume_last; /* plan with the system text and the tools that the epoch began with, instead
                         of those above. For showing a context */
    uint64_t at_seq;  /* not 0: plan for the session as it was when the message `at_seq` was
                         appended: with the messages before it, and the marks of that time. If this
                         message is an answer, the prefix of the plan compares it with the request
                         for this answer. For showing a context */
    const uint64_t *without; /* plan as if the session's own marks with these numbers did not exist.
                                For showing a context */
    size_t without_len;
    const struct pal_memory_settings *memory; /* whether notes are sent; NULL: none are (note.h) */
    PAL_RESERVED(4);
} pal_window;

/* Loads the newest messages, the current checkpoint, pins and prunes, and makes a plan
 * (pal_context_plan()). The cost depends on the size of the context, not on that of the history.
 * Changes nothing. PAL_INVALID: the session has not had as many messages as `at_seq` says, or has
 * no mark of `without`. */
PAL_API PAL_CHECKED pal_status pal_window_plan(pal_store *store, const pal_window *window,
        pal_arena *arena, pal_plan *out_plan, pal_error *err);

/* Begins an epoch: records the system text and the tools that every request begins with, until the
 * next compaction. Does nothing if the current epoch has the same tools. */
PAL_API PAL_CHECKED pal_status pal_window_epoch(
        pal_store *store, const pal_window *window, pal_arena *arena, pal_error *err);

/* Records the plan's prune as a mark, after PAL_PLAN_ACTION_PRUNE. */
PAL_API PAL_CHECKED pal_status pal_window_prune(pal_store *store, const pal_window *window,
        const pal_plan *plan, pal_arena *arena, pal_error *err);

/* ---- Compaction ---- */

/* The request for a summary: the messages of the last request, byte for byte, and one question
 * after them. */
typedef struct pal_summary_request {
    const pal_message *messages;
    size_t messages_len;
    const pal_tool
            *tools; /* the same as in the last request, so that the service's cache can be used; the
                       model must not call them */
    size_t tools_len;
    pal_str model;
    uint64_t output_max; /* maximum tokens of the summary */
    pal_str parameters;  /* as in pal_compaction_request */
    PAL_RESERVED(8);
} pal_summary_request;

/* The model's answer. Texts must be in the arena or live as long as the program. */
typedef struct pal_summary_answer {
    pal_str text;
    pal_str model;
    bool has_usage;
    pal_usage usage;
    int64_t cost_micros; /* in millionths of the currency of the price list */
    pal_str provider;
    pal_str price_version;
    pal_str turn_id; /* written to the ledger; empty: the summary was not made in a turn */
    pal_str agent;
    PAL_RESERVED(8);
} pal_summary_answer;

/* Calls a model to write a summary, on the thread that compacts. Can block. The compaction uses its
 * fallback if this returns anything but PAL_OK or sets an empty text. */
typedef pal_status (*pal_compaction_on_summary)(const pal_summary_request *request,
        pal_arena *arena, pal_summary_answer *out_answer, void *user, pal_error *err);

/* Options of a compaction. Zero it, then set the members that are needed. */
typedef struct pal_compaction_request {
    pal_compaction_on_summary summarize; /* NULL: leave out whole turns, the oldest first, instead
                                of making a summary */
    void *user;
    pal_str prompt;   /* replaces the built-in prompt; may be empty */
    pal_str model;    /* replaces the window's model; may be empty */
    pal_str reason;   /* stored with the checkpoint, for example "manual" or "over the limit" */
    uint64_t cut_seq; /* the last message to replace; 0: where the plan would cut; if nothing is
                         over the limit, before the recent messages */
    uint64_t redo;    /* not 0: the number of the checkpoint in effect, to make it again from the
                         same messages; another number fails with PAL_CONFLICT */
    pal_str summary;  /* use this summary and call no model, whatever its length; empty: the model
                         writes the summary */
    pal_str system;   /* replaces the window's instructions in the request for the summary, which
                         then finds nothing in the service's cache; may be empty */
    pal_str parameters; /* a JSON object whose members are added to the request for the summary; may
                           be empty */
    const struct pal_budget *budget; /* refuses a compaction that calls a model if the budget is
                                        used up; NULL: no budget; pal_turn_compact() only */
    pal_str request_id; /* stored with the checkpoint, for pal_window_compaction_find(); may be
                           empty */
    PAL_RESERVED(6);
} pal_compaction_request;

/* The result of a compaction. */
typedef struct pal_compaction_result {
    uint64_t number; /* number of the checkpoint's mark; 0: nothing was done, and `note` says why */
    uint64_t seq;    /* the last message that the checkpoint replaces */
    bool is_fallback;       /* there is no summary: whole turns were left out */
    uint64_t messages;      /* messages that the checkpoint replaces */
    uint64_t tokens_before; /* tokens of the context before the compaction */
    uint64_t tokens_after;  /* tokens of the context after the compaction */
    pal_str summary;
    pal_str note; /* why the fallback was used, or why nothing was done */
    PAL_RESERVED(4);
} pal_compaction_result;

/* Makes a checkpoint. The previous summary is merged into the new one. Pinned messages, the last
 * user message, running calls and calls that wait for approval are always kept. If the model fails,
 * or if its answer is empty or not shorter than the messages, complete turns are left out, the
 * oldest first. In this case is_fallback is set. With the strategy `reset` no model is called: a
 * hint replaces the messages. Blocks until the model has answered. */
PAL_API PAL_CHECKED pal_status pal_window_compact(pal_store *store, const pal_window *window,
        const pal_compaction_request *compaction, pal_arena *arena,
        pal_compaction_result *out_compacted, pal_error *err);

/* Finds the result of an earlier compaction by its request_id, so that a repeated request does not
 * compact again. PAL_NOT_FOUND if the session has no such checkpoint. Parents are not searched. */
PAL_API PAL_CHECKED pal_status pal_window_compaction_find(pal_store *store, pal_str tenant,
        pal_id session, pal_str request_id, pal_arena *arena, pal_compaction_result *out_compacted,
        pal_error *err);

/* Undoes the checkpoint with this number; 0: the newest that is in effect. PAL_NOT_FOUND if
 * it does not exist. */
PAL_API PAL_CHECKED pal_status pal_window_uncompact(
        pal_store *store, pal_str tenant, pal_id session, uint64_t number, pal_error *err);

/* Returns the summary that is in effect. Empty if there is none. */
PAL_API PAL_CHECKED pal_status pal_window_summary(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_str *out_summary, pal_error *err);
/* Sets the summary, without calling a model and without a cut. It replaces the summary of the
 * checkpoint that is in effect. If there is no checkpoint, it is sent before all messages. An empty
 * summary clears it. The change is a mark, which can be undone. out_mark->number is 0 if there was
 * nothing to clear. */
PAL_API PAL_CHECKED pal_status pal_window_summary_set(pal_store *store, pal_str tenant,
        pal_id session, pal_str summary, pal_mark *out_mark, pal_error *err);

/* Compares the summaries of two checkpoints line by line and returns the differences as text.
 * PAL_NOT_FOUND if there is no such checkpoint. */
PAL_API PAL_CHECKED pal_status pal_window_diff(pal_store *store, pal_str tenant, pal_id session,
        uint64_t old_number, uint64_t new_number, pal_arena *arena, pal_str *out_diff,
        pal_error *err);

/* ---- Built-in tools ---- */

/* Returns the built-in tools, which live as long as the program. read_output and search_output read
 * outputs that pal_context_spill() cut; recall searches the messages that a compaction replaced, in
 * this session and its parents only. */
PAL_API const pal_tool *pal_builtin_tools(size_t *out_len);
/* Returns true if there is a built-in tool of that name. */
PAL_API bool pal_builtin_has(pal_str name);
/* Runs a built-in tool. The result has a limited length. PAL_INVALID and PAL_NOT_FOUND are meant
 * for the model: the caller records `err` as the call's result. */
PAL_API PAL_CHECKED pal_status pal_builtin_run(pal_store *store, pal_str tenant, pal_id session,
        pal_str name, pal_str arguments, pal_arena *arena, pal_str *out_text, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
