/* note.h - long-term memory: notes. A note is one sentence that somebody said, with its source. The
 * rules at the top of store.h apply. docs/memory.md explains who may be shown a note. */
#ifndef PALAVER_NOTE_H
#define PALAVER_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/session.h"
#include "palaver/store.h"
#include "palaver/store_batch.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The subject and the circle of everybody in a tenant. */
#define PAL_NOTE_TENANT "tenant"

typedef enum pal_note_kind {
    PAL_NOTE_KIND_NONE = 0,
    PAL_NOTE_FACT = 1,
    PAL_NOTE_PREFERENCE = 2,
    PAL_NOTE_INSTRUCTION = 3,
    PAL_NOTE_EVENT = 4,
    PAL_NOTE_CONTEXT = 5,
} pal_note_kind;

typedef enum pal_note_state {
    PAL_NOTE_STATE_NONE = 0,
    PAL_NOTE_ACTIVE = 1,
    PAL_NOTE_PENDING = 2,    /* waits until it is confirmed or retracted; expires after
                                PAL_NOTE_PENDING_MS */
    PAL_NOTE_SUPERSEDED = 3, /* another note replaced it */
    PAL_NOTE_RETRACTED = 4,
} pal_note_state;

/* Who made a note or a change. */
typedef enum pal_note_by {
    PAL_NOTE_BY_NONE = 0,
    PAL_NOTE_BY_PERSON = 1, /* the person that the note is about */
    PAL_NOTE_BY_TOOL = 2,   /* a program or a model, through a tool */
    PAL_NOTE_BY_ADMIN = 3,
    PAL_NOTE_BY_EXTRACTED = 4, /* a model proposed it, and the rules accepted it */
} pal_note_by;

/* Names of kinds, states and makers, for example "fact", "active" and "tool". An unknown value
 * gives "none", and an unknown name the value 0. */
PAL_API const char *pal_note_kind_name(pal_note_kind kind);
PAL_API pal_note_kind pal_note_kind_from_name(pal_str name);
PAL_API const char *pal_note_state_name(pal_note_state state);
PAL_API pal_note_state pal_note_state_from_name(pal_str name);
PAL_API const char *pal_note_by_name(pal_note_by by);

/* A message that a note rests on. */
typedef struct pal_note_source {
    pal_id message;
    uint64_t seq;
    int64_t said_at; /* created_at of the message */
    pal_str quote;   /* words of the message */
    PAL_RESERVED(2);
} pal_note_source;

typedef struct pal_note_change {
    uint64_t version; /* of the note after the change */
    int64_t at;
    pal_note_by by;
    pal_str act;    /* "add", "support", "supersede", "retract", "restore", "confirm" or
                       "source_erased" */
    pal_str reason; /* may be empty */
    PAL_RESERVED(2);
} pal_note_change;

typedef struct pal_note {
    pal_str id;
    pal_str subject; /* whom it is about: "person:NAME", "room:NAME", "session:ID" or "tenant" */
    pal_str circle;  /* who may be shown it: the same forms */
    pal_note_kind kind;
    pal_note_state state;
    pal_note_by by;
    pal_str text;
    pal_str pending;     /* why it is pending, for example "inferred" */
    pal_str replaces;    /* id of the note that this one superseded; may be empty */
    pal_str replaced_by; /* id of the note that superseded this one; may be empty */
    pal_id session;      /* the session of all sources; empty: an admin gave the note without one.
                            The note is erased with the session */
    pal_note_source *sources;
    size_t sources_len;
    pal_note_change *changes; /* oldest first; the first and the newest ones if there were more than
                                 PAL_NOTE_CHANGES_MAX */
    size_t changes_len;
    uint64_t version;
    int64_t created_at;
    int64_t updated_at;
    int64_t expires_at; /* 0: never */
    PAL_RESERVED(8);
} pal_note;

/* Writes a note as JSON (docs/api.md) into the arena. */
PAL_API PAL_CHECKED pal_status pal_note_to_json(
        const pal_note *note, pal_arena *arena, pal_str *out_json, pal_error *err);

/* ---- Circles ---- */

/* Who speaks in a session, as its scope says. */
typedef struct pal_note_place {
    pal_str subject; /* of the session itself: "person:NAME" in a direct chat, "room:..." in a
                        group, otherwise "session:ID" */
    bool is_direct;
    const pal_str *circles; /* the circles whose notes may be shown in the session */
    size_t circles_len;
    PAL_RESERVED(4);
} pal_note_place;

/* Computes what may be shown in a session, from its scope alone. This is the only function that
 * does. The result is in the arena. PAL_INVALID: the scope is not valid. */
PAL_API PAL_CHECKED pal_status pal_note_place_of(const pal_session *session, pal_arena *arena,
        pal_note_place *out_place, pal_error *err);

/* ---- Settings ---- */

/* What is done with notes in one kind of session. */
typedef enum pal_memory_mode {
    PAL_MEMORY_OFF = 0, /* no note is sent to a model, and none is extracted */
    PAL_MEMORY_ASK = 1, /* notes are sent; extracted notes wait until a person confirms them */
    PAL_MEMORY_ON = 2,
} pal_memory_mode;

/* Settings of the long-term memory. A number that is 0 means the default in its comment. */
typedef struct pal_memory_settings {
    pal_memory_mode direct;   /* direct chats */
    pal_memory_mode groups;   /* groups and rooms */
    pal_memory_mode sessions; /* all other sessions */
    uint64_t block_tokens;    /* maximum tokens of the notes at the beginning of a request; 800 */
    int64_t idle_ms;          /* after a pause of this length, a request begins with the newest
                                 notes; 60 minutes */
    pal_str model;            /* the model that proposes notes; empty: none are extracted */
    uint64_t tokens_per_day;  /* tokens that a tenant's extractions can use in 24 hours; 300000 */
    uint32_t run_messages;    /* user messages after which an extraction is due; 12 */
    int64_t quiet_ms;         /* how long a session must be quiet before it runs then; 2 minutes */
    int64_t run_idle_ms;      /* how long a session must be quiet with fewer messages; 30 minutes */
    PAL_RESERVED(9);
} pal_memory_settings;

/* ---- Adding ---- */

typedef struct pal_note_request {
    pal_str text;
    pal_note_kind kind;
    pal_note_by by;
    pal_id session;  /* the session of the source; empty: no source, which only an admin can add */
    uint64_t seq;    /* the user message that the note rests on */
    pal_str quote;   /* words of that message; empty: the text itself */
    pal_str subject; /* empty: the sender of the message. "tenant" and other subjects only with
                        PAL_NOTE_BY_ADMIN */
    pal_str circle;  /* only with PAL_NOTE_BY_ADMIN; empty: computed from the session */
    pal_str replaces;   /* id of a note that this one supersedes; may be empty */
    pal_str system;     /* instructions of the model; a note that repeats them is refused */
    int64_t expires_at; /* 0: never */
    PAL_RESERVED(6);
} pal_note_request;

typedef struct pal_note_added {
    pal_note note;
    bool is_support;  /* such a note existed; it has one more source now */
    const char *rule; /* the rule of docs/memory.md that decided; NULL: none */
    PAL_RESERVED(4);
} pal_note_added;

/* Adds a note, if the rules of docs/memory.md accept it. A note that they leave open becomes
 * pending. It is durable when this function returns.
 *
 *   PAL_INVALID    the request is incomplete or contradicts itself
 *   PAL_DENIED     a rule rejects the note; the error begins with the rule's name
 *   PAL_NOT_FOUND  the session, the message or the note to supersede does not exist
 *   PAL_CONFLICT   the note to supersede was changed meanwhile
 *   PAL_LIMIT      a text is too long, or the subject has PAL_NOTES_MAX notes */
PAL_API PAL_CHECKED pal_status pal_note_add(pal_store *store, pal_str tenant,
        const pal_note_request *request, pal_arena *arena, pal_note_added *out_added,
        pal_error *err);

/* ---- Reading ---- */

/* PAL_NOT_FOUND if the tenant has no such note. */
PAL_API PAL_CHECKED pal_status pal_note_find(
        pal_store *store, pal_str tenant, pal_str id, pal_arena *arena, pal_note *out_note,
        pal_error *err);

typedef struct pal_note_query {
    pal_str tenant;
    pal_str subject;        /* empty: any */
    const pal_str *circles; /* only notes with one of these circles */
    size_t circles_len;     /* 0: any circle, which is only for admins */
    pal_note_state state;   /* 0: any */
    pal_note_kind kind;     /* 0: any */
    pal_str text;           /* words, of which some must occur; the best notes come first. Empty:
                               all notes, by circle and time */
    pal_str after;          /* the list begins after the note with this id; not with `text` */
    uint32_t limit;         /* notes on a page, up to PAL_NOTE_PAGE_MAX; 0: 50 */
    PAL_RESERVED(4);
} pal_note_query;

typedef struct pal_note_page {
    pal_note *items;
    size_t len;
    bool has_more;
    PAL_RESERVED(4);
} pal_note_page;

/* Lists or searches notes. */
PAL_API PAL_CHECKED pal_status pal_note_list(pal_store *store, const pal_note_query *query,
        pal_arena *arena, pal_note_page *out_page, pal_error *err);

/* ---- Changing ---- */

typedef enum pal_note_act {
    PAL_NOTE_ACT_NONE = 0,
    PAL_NOTE_RETRACT = 1, /* from active or pending */
    PAL_NOTE_RESTORE = 2, /* from superseded or retracted to active. The note that superseded it is
                             retracted in the same commit */
    PAL_NOTE_CONFIRM = 3, /* from pending to active */
} pal_note_act;

/* Changes the state of a note. Nothing is removed. PAL_CONFLICT: the note is not in a state in
 * which this is possible, or it was changed meanwhile. */
PAL_API PAL_CHECKED pal_status pal_note_change_state(pal_store *store, pal_str tenant, pal_str id,
        pal_note_act act, pal_note_by by, pal_str reason, pal_arena *arena, pal_note *out_note,
        pal_error *err);

/* Erases a message as pal_store_erase_message() does, and in the same commit everything that rests
 * on it: notes without another source, and in other notes the source. Notes with words that no
 * other source has are erased too. *out_notes (may be NULL) is how many notes were erased; they are
 * counted in out_erasure->records (out_erasure may be NULL). */
PAL_API PAL_CHECKED pal_status pal_note_erase_message(pal_store *store, pal_str tenant,
        pal_id session, uint64_t seq, pal_erase_result *out_erasure, uint64_t *out_notes,
        pal_error *err);

/* Returns the operations for that, in the arena, for a batch of pal_store_apply(). Each one is
 * applied only if the one before it is. If one of them has the status PAL_CONFLICT or
 * PAL_NOT_FOUND, a note was changed meanwhile, and new operations are needed. */
PAL_API PAL_CHECKED pal_status pal_note_erase_ops(pal_store *store, pal_str tenant, pal_id session,
        uint64_t seq, pal_erase_result *out_erasure, pal_arena *arena, pal_op **out_ops,
        size_t *out_len, uint64_t *out_notes, pal_error *err);

/* Erases a note with its quotes and its history. PAL_NOT_FOUND if there is no such note. */
PAL_API PAL_CHECKED pal_status pal_note_erase(
        pal_store *store, pal_str tenant, pal_str id, pal_error *err);
/* Erases all notes about a subject. *out_erased (may be NULL) is their number. */
PAL_API PAL_CHECKED pal_status pal_note_erase_subject(
        pal_store *store, pal_str tenant, pal_str subject, uint64_t *out_erased, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
