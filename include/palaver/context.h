/* context.h - decides what the model gets to see, and says why. Data in, answer out: no store, no
 * clock, no network; window.h loads the data and keeps what was decided. docs/context.md has the
 * rules with examples. */
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

/* ---- What is configured ---- */

typedef enum pal_strategy {
    PAL_STRATEGY_COMPACT = 0,        /* prune old tool outputs; if that isn't enough, summarise */
    PAL_STRATEGY_SUMMARIZATION = 1,  /* a summary of all but the newest messages */
    PAL_STRATEGY_SLIDING_WINDOW = 2, /* the newest that fit, with a notice */
    PAL_STRATEGY_RESET = 3,          /* over the threshold: begin anew, with a hint */
    PAL_STRATEGY_NONE = 4,           /* everything, or an error */
} pal_strategy;

PAL_API const char *pal_strategy_name(pal_strategy strategy); /* "sliding_window" */
/* False when there is none of that name. */
PAL_API bool pal_strategy_from_name(pal_str name, pal_strategy *out_strategy);

/* What a provider takes. */
typedef enum pal_profile {
    PAL_PROFILE_OPENAI_CHAT = 0,
    PAL_PROFILE_OPENAI_RESPONSES = 1,
    PAL_PROFILE_ANTHROPIC = 2,
    PAL_PROFILE_MISTRAL = 3,
    PAL_PROFILE_PICOCLAW = 4, /* drops what it can't pair, as PicoClaw does: it mends nothing */
} pal_profile;

PAL_API const char *pal_profile_name(pal_profile profile); /* "openai_chat" */
/* False when there is none of that name. */
PAL_API bool pal_profile_from_name(pal_str name, pal_profile *out_profile);

/* Every field may stay zero; zero means the default named beside it. */
typedef struct pal_context_settings {
    pal_strategy strategy;
    bool auto_off;         /* never prune or compact by itself: over the limit is `refuse` */
    bool prune_off;        /* `compact` does not prune */
    uint64_t max_tokens;   /* most that is sent, whatever the model takes; 0: the model's limits */
    uint32_t threshold_percent;     /* 80, of the model's context: `summarization` and
                                       `sliding_window` stay below it; what it leaves is the
                                       answer's, unless limits.output says more */
    uint32_t keep_recent_messages;  /* 10, for `summarization` */
    uint64_t compaction_threshold;  /* tokens at which the strategy makes room, whatever
                                       threshold_percent says; 0: `reset` at 118000, others not */
    uint32_t low_water_percent;     /* 50, of what may be sent: how far a cut goes */
    uint64_t preserve_recent_tokens; /* of the tail that `compact` keeps; a quarter of what may be
                                        sent, within 2000 and 15000 */
    uint64_t summary_tokens_max;     /* 4096 */
    uint64_t prune_protect_tokens;   /* 40000: the newest tool outputs that stay */
    uint64_t prune_minimum_tokens;   /* 20000: less than this, or just this, is not worth it */
    uint32_t prune_protect_turns;    /* 2 */
} pal_context_settings;

/* Takes over what a session's or an agent's metadata says of its own, a JSON object whose member
 * "context" has the keys of the configuration: {"context": {"token_strategy": "reset"}}. Unknown
 * keys are left alone; on failure nothing has changed. PAL_INVALID names the key. */
PAL_API PAL_CHECKED pal_status pal_context_override(
        pal_str metadata, pal_context_settings *settings, pal_error *err);

/* What holds for a session: what its metadata says of its own, over its agent's settings, over the
 * configuration's. The agent's are whole, made from the configuration's; NULL: it has none. */
PAL_API PAL_CHECKED pal_status pal_context_settings_merge(const pal_context_settings *configured,
        const pal_context_settings *agent, pal_str metadata, pal_context_settings *out_settings,
        pal_error *err);

/* Of the model and the provider; 0 means that there is none. */
typedef struct pal_context_limits {
    uint64_t context; /* tokens, of input and output together */
    uint64_t input;   /* tokens, where the model has a limit for the input alone */
    uint64_t output;  /* tokens that the answer may take; 0: 32000 are left free */
    uint64_t bytes;   /* of the whole request's messages and tools */
    uint32_t images;
    uint64_t image_bytes; /* of one image */
    uint64_t answer;      /* tokens that the request itself asks for the answer; they stay free */
} pal_context_limits;

/* Fills in what is 0 of bytes, images and image_bytes: what the provider of that profile takes, as
 * far as it says so. */
PAL_API void pal_profile_limits(pal_profile profile, pal_context_limits *limits);

#define PAL_CONTEXT_OUTPUT_MAX 32000 /* tokens that are left free for the answer, at most */

/* limits.input, or context - min(output, 32000), or half of a context that is not larger than that;
 * 0 where nothing is known: then nothing is over. */
PAL_API uint64_t pal_context_usable(const pal_context_limits *limits);
/* Whether a provider reported more than there is room for: input, cache read, cache write and
 * output over limits.input, or over context - min(output, 32000). The rule of Sol and opencode, to
 * the letter: a context that nobody knows is never full, and one that is not larger than what the
 * answer may take always is. */
PAL_API bool pal_context_overflow(const pal_context_limits *limits, const pal_usage *usage);

/* ---- What goes in ---- */

typedef struct pal_tool {
    pal_str name;
    pal_str description;
    pal_str schema;     /* the JSON Schema of its arguments, or empty */
    uint64_t tokens;    /* 0: counted */
    bool is_strict;     /* the service is to hold the model to the schema, where it can */
    pal_str call_extra; /* a JSON object, kept as the `extra` of each call of it; or empty */
} pal_tool;

/* What stands for the messages up to and with `seq`. */
typedef struct pal_checkpoint {
    uint64_t number; /* of its mark; 0: there is none */
    uint64_t seq;
    pal_strategy strategy;
    pal_str summary;   /* empty: nothing was summarised, whole turns were left out */
    pal_str hint;      /* `reset`: what the fresh start is told */
    uint64_t dropped;  /* messages that are in no summary */
    uint64_t tokens;   /* of the message that stands for them; 0: counted */
    uint64_t messages; /* how many of those up to `seq` are in sight; 0: all of them */
    uint64_t hidden_tokens; /* of these messages, but for the head; 0: not known */
} pal_checkpoint;

/* A part that is not sent any more. */
typedef struct pal_pruned {
    uint64_t seq;
    uint32_t part; /* its place in the message, from 0 */
} pal_pruned;

/* A part of a message that is sent without its content. */
typedef struct pal_pruned_info {
    const pal_message *message; /* as it is stored */
    size_t part;                /* its place in the message, from 0 */
    ptrdiff_t nested;           /* the place of a part within that tool's result; -1: none */
    pal_part_kind kind;         /* of the part that is not sent */
    pal_str name;               /* of its tool or file, if it has one */
    pal_str text;               /* the built-in placeholder */
} pal_pruned_info;

/* Returns the text that is sent instead of the part; an empty one is the built-in placeholder. The
 * same part must get the same text each time, or the provider's cache is of no use from there on.
 * It is called on the thread that plans, and must not call back. The text is in the arena, or lives
 * as long as the program. */
typedef pal_str (*pal_pruned_text)(const pal_pruned_info *info, pal_arena *arena, void *user);

/* A request that was sent: enough of it to tell how long the next one is the same. */
typedef struct pal_context_last {
    const uint64_t *hashes; /* of each item, in order */
    const uint64_t *tokens;
    size_t len;
    uint64_t first_seq; /* of the oldest message in its tail */
    const pal_sent *sent; /* instead of all others: what an answer's message keeps of its request */
} pal_context_last;

typedef struct pal_context_input {
    pal_str system;                /* rendered once an epoch; may be empty */
    const pal_message *head;       /* a leading system message of the session; NULL: none */
    const pal_message *messages;   /* the tail, ascending, all of it after the checkpoint */
    size_t messages_len;
    uint64_t older_messages;       /* between the checkpoint and the tail, and neither head nor
                                      kept: left out for room */
    uint64_t older_tokens;
    const pal_message *kept;       /* before the tail: pins, and the last user's message */
    size_t kept_len;
    pal_checkpoint checkpoint;
    const pal_pruned *pruned;      /* sorted by seq and part */
    size_t pruned_len;
    const pal_str *pending;        /* ids of calls that run, or wait for approval */
    size_t pending_len;
    const pal_tool *tools;
    size_t tools_len;
    pal_context_limits limits;
    pal_context_settings settings;
    pal_profile profile;
    pal_str family;                /* of the model: whose reasoning may be replayed; empty: none */
    const pal_encoding *encoding;  /* NULL: estimates */
    pal_calibration calibration;
    bool after_overflow;           /* the provider refused the last request as too long */
    bool after_compaction;         /* one was made in this turn already: no second one */
    const pal_context_last *last;  /* NULL: nothing was sent yet */
    uint64_t full_tokens;          /* the service keeps the conversation, and reports this many
                                      tokens, at which room must be made; 0: it doesn't */
    pal_pruned_text pruned_text;   /* NULL: the built-in texts */
    void *pruned_user;
} pal_context_input;

/* Tokens that may be sent: the lowest of what the limits leave and settings.max_tokens. A
 * compaction_threshold that fits into the context counts more than what is left free for an answer
 * of unknown length. 0: no limit is known. */
PAL_API uint64_t pal_context_sendable(const pal_context_input *input);

/* ---- What comes out ---- */

typedef enum pal_disposition {
    PAL_SENT = 0,
    PAL_SENT_PRUNED = 1,      /* sent, with a placeholder for a part or more */
    PAL_SUMMARISED = 2,       /* not sent: the summary stands for it */
    PAL_DROPPED = 3,          /* not sent */
    PAL_SENT_REPAIRED = 4,    /* sent, changed so that the provider takes it */
    PAL_SENT_SYNTHESISED = 5, /* sent, made here: summary, notice, result of an interrupted call */
} pal_disposition;

PAL_API const char *pal_disposition_name(pal_disposition disposition); /* "summarised" */

typedef enum pal_item_kind {
    PAL_ITEM_SYSTEM = 1,  /* system text, and head */
    PAL_ITEM_TOOLS = 2,   /* all tools together */
    PAL_ITEM_SUMMARY = 3, /* what stands for the checkpoint */
    PAL_ITEM_NOTICE = 4,  /* says that something is left out */
    PAL_ITEM_MESSAGE = 5,
    PAL_ITEM_RANGE = 6, /* messages that are not sent, first_seq to seq, in one line */
} pal_item_kind;

typedef struct pal_plan_item {
    pal_item_kind kind;
    pal_disposition disposition;
    uint64_t seq;       /* 0: not a stored message */
    uint64_t first_seq; /* range: the first; otherwise as seq */
    uint64_t count;     /* range: how many messages; otherwise 1 */
    uint64_t tokens;    /* of what is sent; where nothing is, of what was not */
    uint64_t bytes;
    uint32_t images;
    uint64_t hash;              /* of what is sent; 0: nothing is */
    bool is_pinned;
    const pal_message *message; /* what is sent, in the arena or the input's; NULL: nothing */
    pal_str reason;             /* "newest that fit", "orphan result: no call 'c1' before it" */
} pal_plan_item;

typedef enum pal_action {
    PAL_ACTION_SEND = 0,
    PAL_ACTION_PRUNE = 1,   /* keep `prune` as a mark, then plan again */
    PAL_ACTION_COMPACT = 2, /* summarise up to cut_seq, then plan again */
    PAL_ACTION_REFUSE = 3,  /* `refusal` says why; nothing can be sent */
} pal_action;

PAL_API const char *pal_action_name(pal_action action); /* "compact" */

typedef struct pal_plan {
    pal_plan_item *items; /* in the order of the request, what is not sent at its place; in the
                             arena */
    size_t items_len;
    pal_action action;
    pal_str reason;    /* of the action */
    pal_error refusal; /* REFUSE: PAL_LIMIT, and by how much */
    pal_strategy strategy;

    uint64_t tokens;       /* that are sent, tools and all, calibrated */
    uint64_t tokens_plain; /* likewise, as counted */
    uint64_t usable;       /* that may be sent; 0: no limit is known. A threshold may be lower */
    uint64_t bytes;
    uint32_t images;
    uint32_t repairs;
    bool is_estimate; /* the counts are not the model's own */

    size_t prefix_items; /* so much of it is the same as the last request */
    uint64_t prefix_tokens;
    pal_str prefix_break; /* what changed first; empty: nothing did */

    const pal_pruned *prune; /* PRUNE: everything that is pruned now, old and new */
    size_t prune_len;
    uint64_t prune_tokens; /* that go by it */

    uint64_t cut_seq;           /* COMPACT: the last message that the summary stands for */
    uint64_t cut_tokens;        /* of what is cut */
    const uint64_t *keep_seqs;  /* COMPACT: of them, those sent all the same */
    size_t keep_len;
    uint64_t first_seq;         /* of the oldest message in the tail that is sent */
} pal_plan;

/* Decides. What is sent is valid for the profile, and inside every limit, whatever the history is;
 * with `prune`, `compact` and `refuse` the items show what would be sent if nothing were done.
 * PAL_INVALID names what is wrong with the input; a refusal is PAL_OK. */
PAL_API PAL_CHECKED pal_status pal_context_plan(const pal_context_input *input, pal_arena *arena,
        pal_plan *out_plan, pal_error *err);

/* The messages to send, in order, as one list in the arena: those items of the plan that are sent,
 * system text first. Tools are not among them. */
PAL_API PAL_CHECKED pal_status pal_plan_messages(const pal_plan *plan, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* What is to be kept of a request that was made from this plan, with the answer to it, in
 * pal_message.sent: windows that are loaded later learn from it how the provider counts, where a
 * sliding window began, and what of the next request is in the provider's cache. In the arena. */
PAL_API PAL_CHECKED pal_status pal_plan_sent(
        const pal_plan *plan, pal_arena *arena, const pal_sent **out_sent, pal_error *err);

/* The plan as JSON, in the arena; docs/context.md has its shape. */
PAL_API PAL_CHECKED pal_status pal_plan_to_json(
        const pal_plan *plan, pal_arena *arena, pal_str *out_json, pal_error *err);

/* ---- The steps by themselves ---- */

/* What a repair did: one line for each change. */
typedef struct pal_repair {
    uint64_t seq; /* of the message; 0: of one that was made here */
    bool dropped; /* the message is not sent at all */
    pal_str text;
} pal_repair;

typedef struct pal_repaired {
    pal_message *messages; /* in the arena; unchanged parts are the input's */
    size_t len;
    pal_repair *repairs;
    size_t repairs_len;
} pal_repaired;

/* Makes any list of messages one that the profile's provider takes: calls and results paired, in
 * order and adjacent, orphan results dropped, orphan calls given an "interrupted" result (pending
 * ones "still running"), no empty messages, no duplicate ids, valid UTF-8, no image over the limit,
 * reasoning only of `family`. A list that is valid comes back as it is. */
PAL_API PAL_CHECKED pal_status pal_context_repair(const pal_message *messages, size_t messages_len,
        const pal_context_input *input, pal_arena *arena, pal_repaired *out_repaired,
        pal_error *err);

/* Which parts a prune would take out of these messages, beside those that are pruned already.
 * None, unless more than prune_minimum_tokens go. */
PAL_API PAL_CHECKED pal_status pal_context_prune(const pal_context_input *input, pal_arena *arena,
        pal_pruned **out_pruned, size_t *out_len, uint64_t *out_tokens, pal_error *err);

/* Outputs of tools that are longer than PAL_SPILL_LINES_MAX lines or PAL_SPILL_BYTES_MAX bytes are
 * cut to their head and tail, with a handle in between by which the built-in tools read the rest;
 * the whole goes into the part's `data`, which the store keeps as a blob. To be called before the
 * message is appended; changes its parts in place, with texts in the arena, and counts them. */
PAL_API PAL_CHECKED pal_status pal_context_spill(
        pal_message *message, pal_arena *arena, uint32_t *out_spilled, pal_error *err);

/* The place, from 0, nearest to `target` where a history can be cut so that a turn begins there: at
 * a user's message, before `target` if there is one, else after it, else `target` itself; 0 where
 * the whole history is one turn. */
PAL_API size_t pal_context_boundary(
        const pal_message *messages, size_t messages_len, size_t target);

#ifdef __cplusplus
}
#endif
#endif
