/* memory_gate.h - the gate: decides whether a proposed note is kept. A model, a program or a person
 * proposes; only this code decides. The rules are one table in memory_gate.c, and docs/memory.md
 * lists them.
 *
 * A pure function over the caller's memory. Any thread can call it. */
#ifndef PAL_MEMORY_GATE_H
#define PAL_MEMORY_GATE_H

#include "palaver/note.h"

typedef enum pal_gate_outcome {
    PAL_GATE_ACTIVE = 1,
    PAL_GATE_SUPPORT = 2, /* a note says the same: it gets one more source */
    PAL_GATE_PENDING = 3,
    PAL_GATE_REJECTED = 4,
} pal_gate_outcome;

/* A message that the proposal names as a source. */
typedef struct pal_gate_message {
    pal_str text;
    pal_str person; /* subject of the sender; empty: unknown */
    int64_t said_at;
    bool is_user; /* an ordinary message of a user: only these are sources */
} pal_gate_message;

/* An active note with the subject and the circle of the proposal. */
typedef struct pal_gate_known {
    pal_str text;
    int64_t said_at; /* of its newest source */
} pal_gate_known;

typedef struct pal_gate_case {
    pal_str text;
    pal_str quote;
    pal_note_kind kind;
    pal_str subject;
    pal_str place; /* subject of the session: it is allowed as the subject of the note */
    const pal_gate_message *messages;
    size_t messages_len;
    const pal_gate_known *known;
    size_t known_len;
    bool is_replacing;
    size_t replaces; /* if is_replacing: the position of that note in `known`; known_len: it is not
                        among them */
    pal_str system;  /* instructions of the model */
} pal_gate_case;

typedef struct pal_gate_result {
    pal_gate_outcome outcome;
    const char *rule; /* the rule that decided; NULL: none did */
    size_t supports;  /* SUPPORT: the position in `known` */
    size_t quoted;    /* the position of the message with the quote */
    int64_t keep_ms;  /* the note expires after this time; 0: never */
} pal_gate_result;

/* PAL_NO_MEMORY is the only failure. */
PAL_CHECKED pal_status pal_gate_judge(
        const pal_gate_case *proposal, pal_gate_result *out_result, pal_error *err);

/* Returns whether the quote occurs in the text, by the rule `not_said`. False if there is no
 * memory. */
bool pal_gate_has_quote(pal_str text, pal_str quote);
/* Returns whether two notes say the same, by the rule `support`. */
PAL_CHECKED pal_status pal_gate_says_same(pal_str a, pal_str b, bool *out_is_same, pal_error *err);
/* Returns whether the source has the quote, and whether the quote shares a word with the note that
 * is taken back. */
PAL_CHECKED pal_status pal_gate_may_retract(pal_str note, pal_str source, pal_str quote,
        bool *out_is_said, bool *out_is_about, pal_error *err);

/* Returns whether every longer word, every number and every character of a script without spaces of
 * the text occurs in one of the quotes. */
PAL_CHECKED pal_status pal_gate_is_quoted(
        pal_str text, const pal_str *quotes, size_t len, bool *out_is_quoted, pal_error *err);

#endif
