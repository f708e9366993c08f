/* context.h - decides which messages the model receives, and gives the reasons.
 *
 * All functions here are pure: they read only their input and have no access to a store, a clock or
 * the network. They can be called from any thread. window.h loads the input from a store and
 * records the decisions. docs/context.md has the rules with examples.
 *
 * Ownership: results are allocated in the arena that the caller passes, or point into the input,
 * which must live as long as the result. Errors: any function that takes an arena can return
 * PAL_NO_MEMORY. */
#ifndef PALAVER_CONTEXT_H
#define PALAVER_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/str.h"
#include "palaver/tokens.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Settings ---- */

/* Decides what happens if the history is too long for the model. */
typedef enum pal_strategy {
    PAL_STRATEGY_COMPACT = 0, /* prune old tool outputs; if that is not enough, make a summary */
    PAL_STRATEGY_SUMMARIZATION = 1,  /* make a summary of all but the newest messages */
    PAL_STRATEGY_SLIDING_WINDOW = 2, /* send the newest messages that fit, with a notice */
    PAL_STRATEGY_RESET = 3, /* from a threshold on, start again with an empty history and a hint */
    PAL_STRATEGY_NONE = 4,  /* send everything, or fail */
} pal_strategy;

/* Returns the name, for example "sliding_window". "unknown" for an unknown value. */
PAL_API const char *pal_strategy_name(pal_strategy strategy);
/* Sets *out_strategy. Returns false if there is no strategy of that name. */
PAL_API bool pal_strategy_from_name(pal_str name, pal_strategy *out_strategy);

/* The rules of a model service for a valid list of messages. */
typedef enum pal_profile {
    PAL_PROFILE_OPENAI_CHAT = 0,
    PAL_PROFILE_OPENAI_RESPONSES = 1,
    PAL_PROFILE_ANTHROPIC = 2,
    PAL_PROFILE_MISTRAL = 3,
    PAL_PROFILE_PICOCLAW = 4, /* drops calls and results that have no counterpart, as PicoClaw (a
                                 personal assistant that keeps sessions in JSONL files) does; the
                                 other profiles repair them */
} pal_profile;

/* Returns the name, for example "openai_chat". "none" for an unknown value. */
PAL_API const char *pal_profile_name(pal_profile profile);
/* Sets *out_profile. Returns false if there is no profile of that name. */
PAL_API bool pal_profile_from_name(pal_str name, pal_profile *out_profile);

/* Settings for building a context. A member that is 0 means the default in its comment. */
typedef struct pal_context_settings {
    pal_strategy strategy;
    bool auto_off;  /* never prune or compact automatically: a plan over the limit is refused */
    bool prune_off; /* the strategy `compact` does not prune */
    uint64_t max_tokens;             /* maximum tokens to send, whatever the model accepts; 0: the
                                        model's limits */
    uint32_t threshold_percent;      /* the strategies `summarization` and `sliding_window` send at
                                        most this share of the model's context; the rest is left for
                                        the answer, unless limits.output requires more; 80 */
    uint32_t keep_recent_messages;   /* messages that `summarization` keeps; 10 */
    uint64_t compaction_threshold;   /* tokens from which the strategy makes room, instead of
                                        threshold_percent; 0: 118000 for `reset`, none for the
                                        others */
    uint32_t low_water_percent;      /* how far a cut reduces the context, as a share of the tokens
                                        that may be sent; 50 */
    uint64_t preserve_recent_tokens; /* tokens of the newest messages that `compact` keeps; 0: a
                                        quarter of the tokens that may be sent, but from 2000 to
                                        15000 */
    uint64_t summary_tokens_max;     /* maximum tokens of a summary; 4096 */
    uint64_t prune_protect_tokens;   /* tokens of the newest tool outputs that are not pruned;
                                        40000 */
    uint64_t prune_minimum_tokens;   /* a prune must save more tokens than this; 20000 */
    uint32_t prune_protect_turns;    /* newest turns that are not pruned; 2 */
    PAL_RESERVED(4);
} pal_context_settings;

/* Applies the settings in the metadata of a session or an agent. The metadata is a JSON object
 * whose member "context" uses the keys of the configuration file: {"context": {"token_strategy":
 * "reset"}}. Unknown keys are ignored. PAL_INVALID: `err` names the key, and `settings` is
 * unchanged. */
PAL_API PAL_CHECKED pal_status pal_context_override(
        pal_str metadata, pal_context_settings *settings, pal_error *err);

/* Returns the settings of a session: its metadata overrides single members of its agent's settings.
 * `agent` replaces `configured` completely, so it should be a changed copy; NULL: the agent has no
 * settings. PAL_INVALID: `err` names the key in the metadata. */
PAL_API PAL_CHECKED pal_status pal_context_settings_merge(const pal_context_settings *configured,
        const pal_context_settings *agent, pal_str metadata, pal_context_settings *out_settings,
        pal_error *err);

/* Limits of the model and of its service. 0: no limit. */
typedef struct pal_context_limits {
    uint64_t context; /* tokens of input and output together */
    uint64_t input;   /* tokens of the input, if the model has a separate limit for it */
    uint64_t output;  /* maximum tokens of an answer; 0: 32000 are left free */
    uint64_t bytes;   /* bytes of all messages and tools of a request */
    uint32_t images;
    uint64_t image_bytes; /* bytes of one image */
    uint64_t answer;      /* tokens that the request asks for the answer; they are left free */
    PAL_RESERVED(4);
} pal_context_limits;

/* Sets bytes, images and image_bytes to the documented limits of the profile's service, if they are
 * 0 and the service documents such a limit. */
PAL_API void pal_profile_limits(pal_profile profile, pal_context_limits *limits);

#define PAL_CONTEXT_OUTPUT_MAX 32000 /* maximum of tokens that are left free for the answer */

/* Returns the tokens that the limits leave for the input: limits.input, otherwise context -
 * min(output, 32000). If the context is not larger than that, half of the context. 0: no limit is
 * known. */
PAL_API uint64_t pal_context_usable(const pal_context_limits *limits);
/* Returns true if the usage that a service reported exceeds the limits. The sum of input, cache
 * read, cache write and output is compared with limits.input, otherwise with context - min(output,
 * 32000). This is exactly the rule of Sol (a Matrix bot) and opencode (a coding agent): an unknown
 * context is never full, and a context that is smaller than the reserved answer always is. */
PAL_API bool pal_context_overflow(const pal_context_limits *limits, const pal_usage *usage);

/* ---- Input ---- */

/* A tool that is offered to the model. */
typedef struct pal_tool {
    pal_str name;
    pal_str description;
    pal_str schema;  /* JSON Schema of the arguments; may be empty */
    uint64_t tokens; /* tokens of the definition; 0: count them */
    bool is_strict;  /* the service must enforce the schema, if it can */
    pal_str call_extra; /* a JSON object that is stored as the `extra` of each call of this tool;
                           may be empty */
    pal_str server;     /* the tool server that runs it; empty: any other tool */
    bool is_read_only;  /* its server declares that it changes nothing (readOnlyHint) */
    uint64_t permission; /* pal_permission that the configuration decides for the default agent; set
                            by pal_runtime_tools() */
    PAL_RESERVED(2);
} pal_tool;

/* The result of a compaction. It replaces all messages up to and including `seq`. */
typedef struct pal_checkpoint {
    uint64_t number; /* number of its mark; 0: no checkpoint */
    uint64_t seq;
    pal_strategy strategy;
    pal_str summary;        /* empty: there is no summary, and whole turns were left out */
    pal_str hint;           /* strategy `reset`: the hint that the new history begins with */
    uint64_t dropped;       /* messages that are not part of any summary */
    uint64_t tokens;        /* tokens of the message that carries the summary; 0: count them */
    uint64_t messages;      /* visible messages up to `seq`; 0: all are visible */
    uint64_t hidden_tokens; /* tokens of these messages without the head; 0: unknown */
    PAL_RESERVED(4);
} pal_checkpoint;

/* A part whose content is no longer sent. */
typedef struct pal_pruned_part {
    uint64_t seq;
    uint32_t part; /* position of the part in the message, from 0 */
} pal_pruned_part;

/* Describes a part of a message that is sent without its content. */
typedef struct pal_pruned_info {
    const pal_message *message; /* the stored message */
    size_t part;                /* position of the part in the message, from 0 */
    ptrdiff_t nested;   /* position within the parts of that tool result; -1: the part itself */
    pal_part_kind kind; /* kind of the part that is not sent */
    pal_str name;       /* name of its tool or file; may be empty */
    pal_str text;       /* the built-in placeholder */
    PAL_RESERVED(4);
} pal_pruned_info;

/* Returns the text that is sent instead of the part. An empty text means the built-in placeholder.
 * The same part must always get the same text; otherwise the service's cache is useless from that
 * part on. Called on the thread that plans. Must not make another plan. The text must be in
 * the arena or live as long as the program. */
typedef pal_str (*pal_context_on_pruned)(const pal_pruned_info *info, pal_arena *arena, void *user);

/* Describes the last request, so that a plan can report how much of the next request is equal. */
typedef struct pal_context_last {
    const uint64_t *hashes; /* a hash of each item, in order */
    const uint64_t *tokens;
    size_t len;
    uint64_t first_seq;   /* seq of the oldest message in its tail */
    const pal_sent *sent; /* used instead of all other members if not NULL: the record of the
                             request in pal_message.sent */
    PAL_RESERVED(4);
} pal_context_last;

/* A note of the long-term memory (note.h) that is sent. */
typedef struct pal_context_note {
    pal_str id;
    pal_str text;   /* what is sent; its line breaks become spaces */
    pal_str reason; /* for the plan */
    uint64_t seq;   /* the user message that it is sent in front of; 0: it is sent at the beginning
                       of the request */
    PAL_RESERVED(2);
} pal_context_note;

/* Everything that a plan depends on. */
typedef struct pal_context_input {
    pal_str system;              /* system text; constant during an epoch; may be empty */
    const pal_message *head;     /* a system message at the beginning of the session; NULL: none */
    const pal_message *messages; /* the tail: messages after the checkpoint, ascending */
    size_t messages_len;
    uint64_t older_messages; /* messages between the checkpoint and the tail that were left out for
                                lack of room; head and kept messages are not counted */
    uint64_t older_tokens;   /* their tokens */
    const pal_message *kept; /* messages before the tail that must be sent: pinned messages and the
                                last user message */
    size_t kept_len;
    pal_checkpoint checkpoint;
    const pal_pruned_part *pruned; /* sorted by seq and part */
    size_t pruned_len;
    const pal_str *pending; /* ids of tool calls that run or wait for approval */
    size_t pending_len;
    const pal_tool *tools;
    size_t tools_len;
    pal_context_limits limits;
    pal_context_settings settings;
    pal_profile profile;
    pal_str family;               /* the model's family; only reasoning of this family is sent;
                                     empty: none is sent */
    const pal_encoding *encoding; /* NULL: tokens are estimated */
    pal_calibration calibration;
    bool after_overflow;   /* the service rejected the last request as too long */
    bool after_compaction; /* this turn has already made a compaction, so do not make another one */
    const pal_context_last *last; /* NULL: nothing was sent yet */
    uint64_t full_tokens;         /* the service keeps the conversation and reports this many
                                     tokens, so room must be made; 0: it does not */
    pal_context_on_pruned pruned_text;  /* NULL: the built-in placeholders */
    void *pruned_user;
    const pal_context_note *notes; /* in the order in which they are sent */
    size_t notes_len;
    uint64_t notes_more; /* notes that are not sent for lack of room; the model is told */
    PAL_RESERVED(5);
} pal_context_input;

/* Returns the tokens that may be sent: the smaller of settings.max_tokens and what the limits
 * leave. A compaction_threshold that fits into the context raises this value, because it takes
 * precedence over the room for an answer of unknown length. 0: no limit is known. */
PAL_API uint64_t pal_context_sendable(const pal_context_input *input);

/* ---- Plan ---- */

/* Says what happens to an item of a plan. */
typedef enum pal_disposition {
    PAL_DISPOSITION_SENT = 0,
    PAL_DISPOSITION_SENT_PRUNED = 1,      /* sent with a placeholder for one or more parts */
    PAL_DISPOSITION_SUMMARIZED = 2,       /* not sent; the summary replaces it */
    PAL_DISPOSITION_DROPPED = 3,          /* not sent */
    PAL_DISPOSITION_SENT_REPAIRED = 4,    /* sent, but changed so that the service accepts it */
    /* Sent, and created by the plan: a summary, a notice or the result of an interrupted call. */
    PAL_DISPOSITION_SENT_SYNTHESIZED = 5,
} pal_disposition;

/* Returns the name, for example "summarized". "unknown" for an unknown value. */
PAL_API const char *pal_disposition_name(pal_disposition disposition);

typedef enum pal_plan_item_kind {
    PAL_PLAN_ITEM_SYSTEM = 1,  /* the system text and the head */
    PAL_PLAN_ITEM_TOOLS = 2,   /* all tools together */
    PAL_PLAN_ITEM_SUMMARY = 3, /* a message that replaces the messages up to the checkpoint */
    PAL_PLAN_ITEM_NOTICE = 4,  /* a message that says that messages were left out */
    PAL_PLAN_ITEM_MESSAGE = 5,
    PAL_PLAN_ITEM_RANGE = 6, /* messages from first_seq to seq that are not sent, as one item */
    PAL_PLAN_ITEM_NOTES = 7, /* a message with the notes of the long-term memory */
    PAL_PLAN_ITEM_NOTE = 8,  /* one note; it is sent in the message of the item before it, which
                                does not count it */
} pal_plan_item_kind;

typedef struct pal_plan_item {
    pal_plan_item_kind kind;
    pal_disposition disposition;
    uint64_t seq;       /* 0: not a stored message */
    uint64_t first_seq; /* RANGE: the first seq; otherwise equal to seq */
    uint64_t count;     /* RANGE: number of messages; TOOLS: number of tools; otherwise 1 */
    uint64_t tokens;    /* tokens that are sent; if nothing is sent, tokens that were left out */
    uint64_t bytes;
    uint32_t images;
    uint64_t hash; /* hash of the content that is sent; 0: nothing is sent */
    bool is_pinned;
    const pal_message *message; /* the message that is sent, in the arena or in the input;
                                   NULL: nothing is sent */
    pal_str reason; /* for example "newest that fit" or "orphan result: no call 'c1' before it" */
    const pal_message *given; /* the message before the repair, even if it is not sent; NULL: a
                                 message that the repair created, tools or a range */
    const pal_context_note *note; /* NOTE: the note; otherwise NULL */
} pal_plan_item;

/* The limits that a plan was made for, in tokens. 0: no such limit is known. */
typedef struct pal_plan_limits {
    uint64_t context;   /* input and output of the model together */
    uint64_t output;    /* maximum of an answer */
    uint64_t usable;    /* what may be sent */
    uint64_t threshold; /* from here on, the strategy makes room */
    uint64_t low_water; /* how far a cut reduces the context */
    PAL_RESERVED(3);
} pal_plan_limits;

/* One change that a repair made. */
typedef struct pal_repair {
    uint64_t seq; /* the message; 0: a message that the repair created */
    bool dropped; /* the message is not sent at all */
    pal_str text;
    PAL_RESERVED(4);
} pal_repair;

/* Says what the caller has to do with a plan. */
typedef enum pal_plan_action {
    PAL_PLAN_ACTION_SEND = 0,    /* send the items */
    PAL_PLAN_ACTION_PRUNE = 1,   /* record `prune` as a mark, then plan again */
    PAL_PLAN_ACTION_COMPACT = 2, /* make a summary up to cut_seq, then plan again */
    PAL_PLAN_ACTION_REFUSE = 3,  /* nothing can be sent; `refusal` says why */
} pal_plan_action;

/* Returns the name, for example "compact". "unknown" for an unknown value. */
PAL_API const char *pal_plan_action_name(pal_plan_action action);

typedef struct pal_plan {
    pal_plan_item *items; /* in the order of the request, including items that are not sent */
    size_t items_len;
    pal_plan_action action;
    pal_str reason;    /* why this action was chosen */
    pal_error refusal; /* REFUSE: PAL_LIMIT, with the amount that is over the limit */
    pal_strategy strategy;

    uint64_t tokens;       /* tokens that are sent, including tools, calibrated */
    uint64_t tokens_plain; /* the same tokens as counted, without calibration */
    uint64_t usable; /* tokens that may be sent; 0: no limit is known. A threshold can be lower */
    uint64_t bytes;
    uint32_t images;
    uint32_t repairs;
    bool is_estimate; /* the counts were not made with the model's own encoding */

    size_t prefix_items; /* items at the beginning that are equal to the last request */
    uint64_t prefix_tokens;
    pal_str prefix_break; /* the first item that changed; empty: none */

    const pal_pruned_part *prune; /* PRUNE: all parts that are pruned now, old and new */
    size_t prune_len;
    uint64_t prune_tokens; /* PRUNE: tokens that the new ones save */

    uint64_t cut_seq;          /* COMPACT: the last message that the summary replaces */
    uint64_t cut_tokens;       /* COMPACT: tokens of the messages that are cut */
    const uint64_t *keep_seqs; /* COMPACT: messages up to cut_seq that are still sent */
    size_t keep_len;
    uint64_t first_seq; /* seq of the oldest message of the tail that is sent */

    const pal_plan_limits *limits;
    const pal_repair *repairs_made; /* the `repairs` changes, in order */
    const pal_tool *tools; /* the tools of the item of kind TOOLS, whose `count` is their number */
    PAL_RESERVED(1);
} pal_plan;

/* Makes a plan. The items that are sent are valid for the profile and within all limits, whatever
 * the history contains. If the action is PRUNE, COMPACT or REFUSE, the items show what would be
 * sent if nothing were done. The same input always gives the same plan.
 *
 * A plan that refuses is not an error: the call returns PAL_OK. PAL_INVALID: `err` names the member
 * of the input that is wrong. */
PAL_API PAL_CHECKED pal_status pal_context_plan(const pal_context_input *input, pal_arena *arena,
        pal_plan *out_plan, pal_error *err);

/* Returns the messages to send, in order: the items of the plan that are sent, beginning with the
 * system text. Tools are not included. */
PAL_API PAL_CHECKED pal_status pal_plan_messages(const pal_plan *plan, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* Returns a record of the request that was made from this plan. Store it with the answer, in
 * pal_message.sent. Later plans learn from it how the service counts tokens and where a sliding
 * window began. It also shows how much of the next request is in the service's cache. */
PAL_API PAL_CHECKED pal_status pal_plan_sent(
        const pal_plan *plan, pal_arena *arena, const pal_sent **out_sent, pal_error *err);

/* Returns the plan as JSON. docs/context.md describes the format. */
PAL_API PAL_CHECKED pal_status pal_plan_to_json(
        const pal_plan *plan, pal_arena *arena, pal_str *out_json, pal_error *err);

/* Additions to the JSON of a plan. */
typedef struct pal_plan_extras {
    pal_str endpoint;  /* empty: the member is left out */
    pal_str model;     /* empty: the member is left out */
    uint32_t text_max; /* characters of each item's text; 0: no texts */
    PAL_RESERVED(4);
} pal_plan_extras;

/* As pal_plan_to_json(), with additions. */
PAL_API PAL_CHECKED pal_status pal_plan_show(const pal_plan *plan, const pal_plan_extras *extras,
        pal_arena *arena, pal_str *out_json, pal_error *err);

/* Returns one item of a plan as JSON, as pal_plan_to_json() writes it. PAL_NOT_FOUND: the plan has
 * no item with this index. */
PAL_API PAL_CHECKED pal_status pal_plan_item_to_json(const pal_plan *plan, size_t index,
        pal_arena *arena, pal_str *out_json, pal_error *err);

/* ---- Single steps ---- */

typedef struct pal_repair_result {
    pal_message *messages; /* unchanged parts point into the input */
    size_t len;
    pal_repair *repairs;
    size_t repairs_len;
    PAL_RESERVED(4);
} pal_repair_result;

/* Turns any list of messages into one that the profile's service accepts:
 *
 *   - calls and results are paired, adjacent and in order;
 *   - results without a call are dropped;
 *   - calls without a result get the result "interrupted", or "still running" if they are pending;
 *   - there are no empty messages, no duplicate ids, no invalid UTF-8 and no images over the limit;
 *   - reasoning is kept only if it is of `input->family`.
 *
 * A valid list is returned unchanged. */
PAL_API PAL_CHECKED pal_status pal_context_repair(const pal_message *messages, size_t messages_len,
        const pal_context_input *input, pal_arena *arena, pal_repair_result *out_repaired,
        pal_error *err);

/* Returns the parts that a prune would remove, in addition to those that are already pruned. If
 * they do not save more than prune_minimum_tokens, it returns none. */
PAL_API PAL_CHECKED pal_status pal_context_prune(const pal_context_input *input, pal_arena *arena,
        pal_pruned_part **out_pruned, size_t *out_len, uint64_t *out_tokens, pal_error *err);

/* Cuts tool outputs that are longer than PAL_SPILL_LINES_MAX lines or PAL_SPILL_BYTES_MAX bytes to
 * their beginning and end. A handle in between lets the built-in tools read the rest. The complete
 * output is put into the part's `data`, which the store keeps as a blob. Call this before the
 * message is appended. It changes the parts in place, with texts in the arena, and sets
 * *out_spilled to the number of outputs that were cut. */
PAL_API PAL_CHECKED pal_status pal_context_spill(
        pal_message *message, pal_arena *arena, uint32_t *out_spilled, pal_error *err);

/* Returns the position, from 0, nearest to `target` where a history can be cut so that a turn
 * begins there: the last user message up to `target`, otherwise the first one after it, otherwise
 * `target`. 0 if the whole history is one turn. `messages_len` if `target` is not smaller than
 * that. */
PAL_API size_t pal_context_boundary(
        const pal_message *messages, size_t messages_len, size_t target);

#ifdef __cplusplus
}
#endif
#endif
