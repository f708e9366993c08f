/* dialect_transcript_reader.h - what the readers of the several transcripts share. Only for the
 * dialect_transcript*.c files and the formats' own ones.
 *
 * A line is parsed into an arena that the next line empties; what must last longer is copied: facts
 * to one that lives as long as the reader, messages that wait for their other pieces to one that
 * is emptied when they are given out, and everything given out to the caller's. */
#ifndef PAL_DIALECT_TRANSCRIPT_READER_H
#define PAL_DIALECT_TRANSCRIPT_READER_H

#include "base/json.h"
#include "base/map.h"
#include "dialect/dialect_transcript.h"

#define PAL_TRANSCRIPT_HELD_MAX                                                                    \
    512 /* messages that wait; more of them are given out as they are                              \
         */

typedef struct pal_held {
    pal_message message;
    uint64_t line;
} pal_held;

/* What each format calls a session's own facts, gathered until they are asked for. */
struct pal_transcript {
    pal_transcript_kind kind;
    pal_transcript_counts counts;
    uint64_t line;      /* the current one */
    pal_status failure; /* of memory outside of the arenas; sticks */
    bool session_told;
    pal_transcript_facts facts; /* in `kept` */
    uint64_t position;          /* messages of this session so far, held ones included */

    pal_arena *line_arena;
    pal_arena *held_arena;
    pal_arena *kept;

    /* The first is an answer that may get more pieces; the others are results of its calls. */
    pal_held held[PAL_TRANSCRIPT_HELD_MAX];
    size_t held_len;
    pal_str held_key; /* what its pieces have in common; in held_arena */

    /* Claude Code: record id -> its message's position plus 1, as a pointer. */
    pal_map positions;
    uint64_t spoken_position; /* of the newest message that is not a tool's */
    bool seen_message;
    bool is_sidechain; /* the whole file is a sub-agent's */
    bool sidechain_told;
    bool has_own_title;

    /* Codex: what turns said of themselves. */
    pal_str model;
    uint64_t *prompts; /* positions of what the user said; in `kept` */
    size_t prompts_len;
    size_t prompts_cap;

    /* The call that is running. */
    pal_arena *out_arena;
    pal_transcript_item *items;
    size_t items_len;
    size_t items_cap;
};

/* ---- Giving items out; failures of an arena show in it ---- */

void pal_transcript_warn(pal_transcript *in, const char *format, ...) PAL_PRINTF(2, 3);

/* Gives the message out now, behind whatever is held. It is copied. One that the store would refuse
 * is skipped with a warning, here and below. */
void pal_transcript_emit(pal_transcript *in, const pal_message *message);
void pal_transcript_emit_mark(pal_transcript *in, const pal_mark *mark);

/* The session is told before the first thing in it; this tells it now. */
void pal_transcript_tell_session(pal_transcript *in);

/* Starts another session: what follows is counted from 1 again. */
void pal_transcript_start_session(pal_transcript *in);

/* Holds a message back. The first one held, with `key`, may get more pieces. */
void pal_transcript_hold(pal_transcript *in, const pal_message *message, pal_str key);
/* Adds parts to the first one held. False when there is none, or no room. */
bool pal_transcript_extend(pal_transcript *in, const pal_message *piece);
void pal_transcript_flush(pal_transcript *in);

/* ---- Facts ---- */

/* Sets a fact that is not known yet; later values are not taken. */
void pal_transcript_learn(pal_transcript *in, pal_str *fact, pal_str value);
/* Replaces it. */
void pal_transcript_relearn(pal_transcript *in, pal_str *fact, pal_str value);
/* Makes key, project, agent and metadata of what was learned. `agent` names the program. */
void pal_transcript_settle_facts(pal_transcript *in, const char *agent);

/* ---- Helpers of the formats ---- */

/* A message as deep as it goes, in `arena`. */
pal_message pal_transcript_copy(pal_arena *arena, const pal_message *message);

/* The texts of an array's objects (their member "text"), a blank line between them. */
pal_str pal_transcript_texts(pal_arena *arena, pal_json array);

/* A number made into a text, such as "codex:17". */
pal_str pal_transcript_number_id(pal_arena *arena, const char *prefix, uint64_t number);

/* Two texts as one. */
pal_str pal_transcript_suffix(pal_arena *arena, pal_str text, const char *suffix);

/* ---- The formats: one parsed line each ---- */

void pal_native_line_read(pal_transcript *in, pal_json line);
void pal_openai_line_read(pal_transcript *in, pal_json line);
void pal_claude_code_line_read(pal_transcript *in, pal_json line);
void pal_codex_line_read(pal_transcript *in, pal_json line);
void pal_skillian_line_read(pal_transcript *in, pal_json line);
void pal_loom_line_read(pal_transcript *in, pal_json line);
void pal_sol_line_read(pal_transcript *in, pal_json line);
void pal_go_session_line_read(pal_transcript *in, pal_json line);

/* Whether it is a message or a session of the Go package, and nothing else. */
bool pal_go_session_is(pal_json line);

#endif
