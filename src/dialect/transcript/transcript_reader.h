/* transcript_reader.h - definitions that the readers of transcripts share. For the
 * transcript*.c files and the files of the formats only.
 *
 * Each line is parsed into an arena that is emptied for the next line. Values that must live longer
 * are copied:
 *
 *   properties of the session       into an arena that lives as long as the reader
 *   messages that wait for parts    into an arena that is emptied when they are returned
 *   returned items                  into the caller's arena */
#ifndef PAL_TRANSCRIPT_READER_H
#define PAL_TRANSCRIPT_READER_H

#include "base/json/json.h"
#include "base/map.h"
#include "dialect/transcript/transcript.h"

#define PAL_TRANSCRIPT_HELD_MAX 512 /* messages that wait; further ones are returned unchanged */

typedef struct pal_held {
    pal_message message;
    uint64_t line;
} pal_held;

/* The state of a reader, including the properties of the session that are collected until they are
 * requested. */
struct pal_transcript {
    pal_transcript_kind kind;
    bool is_guess; /* `kind` is native, because of a message that other formats can contain too */
    uint64_t line;      /* number of the current line, from 1 */
    pal_status failure; /* a failure outside the arenas; permanent */
    bool session_told;
    pal_transcript_facts facts; /* in the arena `kept` */
    uint64_t position;          /* messages of this session so far, including held ones */

    pal_arena *line_arena;
    pal_arena *held_arena;
    pal_arena *kept;

    /* The first is an answer that can get more parts; the others are results of its calls. */
    pal_held held[PAL_TRANSCRIPT_HELD_MAX];
    size_t held_len;
    pal_str held_key; /* the value that all parts of the answer have in common; in held_arena */

    /* Claude Code: record id -> position of its message plus 1, as a pointer. */
    pal_map positions;
    uint64_t spoken_position; /* position of the newest message that is not a tool's */
    bool seen_message;
    bool is_sidechain; /* the whole file belongs to a sub-agent */
    bool sidechain_told;
    bool has_own_title;

    /* Codex: properties of turns. */
    pal_str model;
    uint64_t *prompts; /* positions of the user's messages; in `kept` */
    size_t prompts_len;
    size_t prompts_cap;

    /* The call that is running. */
    pal_arena *out_arena;
    pal_transcript_item *items;
    size_t items_len;
    size_t items_cap;
};

/* ---- Returning items; if there is no memory, the arena has failed ---- */

void pal_transcript_warn(pal_transcript *in, const char *format, ...) PAL_PRINTF(2, 3);

/* Reports items of a list of parts that are not objects. They are left out. */
void pal_transcript_tell_strays(pal_transcript *in, pal_json list);
/* Reports file parts without a file. They keep content of an unknown type in their extra. */
void pal_transcript_tell_opaque(pal_transcript *in, const pal_part *parts, size_t len);

/* Returns the message after all held messages. It is copied. A message that the store would reject
 * is skipped with a warning, here and below. */
void pal_transcript_emit(pal_transcript *in, const pal_message *message);
void pal_transcript_emit_mark(pal_transcript *in, const pal_mark *mark);

/* Returns the session now. Otherwise it is returned before its first item. */
void pal_transcript_tell_session(pal_transcript *in);

/* Starts another session: positions are counted from 1 again. */
void pal_transcript_start_session(pal_transcript *in);

/* Holds a message back. The first held message, which has a `key`, can get more parts. */
void pal_transcript_hold(pal_transcript *in, const pal_message *message, pal_str key);
/* Adds parts to the first held message. Returns false if there is none, or no room. */
bool pal_transcript_extend(pal_transcript *in, const pal_message *piece);
void pal_transcript_flush(pal_transcript *in);

/* ---- Properties of a session ---- */

/* Sets a property that is not known yet; later values are ignored. */
void pal_transcript_learn(pal_transcript *in, pal_str *fact, pal_str value);
/* Sets or replaces a property. */
void pal_transcript_relearn(pal_transcript *in, pal_str *fact, pal_str value);
/* Makes key, project, agent and metadata from the known properties. `agent` names the program. */
void pal_transcript_settle_facts(pal_transcript *in, const char *agent);

/* ---- Helpers of the formats ---- */

/* Joins the texts of an array's objects (their member "text"), separated by blank lines. */
pal_str pal_transcript_texts(pal_arena *arena, pal_json array);

/* Makes an id from a number, such as "codex:17". */
pal_str pal_transcript_number_id(pal_arena *arena, const char *prefix, uint64_t number);

/* Joins two texts. */
pal_str pal_transcript_suffix(pal_arena *arena, pal_str text, const char *suffix);

/* ---- The formats: each function reads one parsed line ---- */

void pal_transcript_native_read(pal_transcript *in, pal_json line);
void pal_transcript_openai_read(pal_transcript *in, pal_json line);
void pal_transcript_claude_code_read(pal_transcript *in, pal_json line);
void pal_transcript_codex_read(pal_transcript *in, pal_json line);
void pal_transcript_skillian_read(pal_transcript *in, pal_json line);
void pal_transcript_loom_read(pal_transcript *in, pal_json line);
void pal_transcript_sol_read(pal_transcript *in, pal_json line);
void pal_transcript_go_session_read(pal_transcript *in, pal_json line);

/* Returns true if the line can only be a message or a session of the Go package. */
bool pal_transcript_is_go_session(pal_json line);

#endif
