/* dialect_transcript.h - reads conversations that are kept as a file of lines, whoever wrote it,
 * and writes our own such files.
 *
 * The caller cuts the file into lines and feeds them one by one; each gives any number of items.
 * Nothing in a file is an error: what can't be used is skipped and told as a warning with its line.
 * A call fails only for want of memory or arena space.
 *
 *   pal_transcript *transcript = pal_transcript_open(PAL_TRANSCRIPT_AUTO);
 *   for each line: pal_transcript_feed(transcript, line, arena, &items, err);
 *   pal_transcript_finish(transcript, arena, &items, err);   (gives what was held back)
 *   pal_transcript_session(transcript)                       (title and so on, now complete)
 *   pal_transcript_close(transcript);
 *
 * One thread at a time. */
#ifndef PAL_DIALECT_TRANSCRIPT_H
#define PAL_DIALECT_TRANSCRIPT_H

#include <stdint.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/session.h"
#include "palaver/store.h"
#include "palaver/str.h"

typedef enum pal_transcript_kind {
    PAL_TRANSCRIPT_AUTO = 0,        /* found out by the first lines that tell */
    PAL_TRANSCRIPT_NATIVE = 1,      /* our own export */
    PAL_TRANSCRIPT_OPENAI_CHAT = 2, /* a message a line, or {"messages":[...]}: a session a line */
    PAL_TRANSCRIPT_CLAUDE_CODE = 3, /* ~/.claude/projects/.../SESSION.jsonl */
    PAL_TRANSCRIPT_CODEX = 4,       /* ~/.codex/sessions/.../rollout-....jsonl */
    PAL_TRANSCRIPT_SKILLIAN = 5,    /* rows of its table of sessions, one a line */
    PAL_TRANSCRIPT_LOOM = 6,        /* rows of conversation_contexts, one a line */
    PAL_TRANSCRIPT_SOL = 7,         /* rows of Sol's table conversations, one a line */
    PAL_TRANSCRIPT_GO_SESSION = 8,  /* messages of the Go package session, or its sessions */
} pal_transcript_kind;

const char *pal_transcript_kind_name(pal_transcript_kind kind); /* "claude-code"; "auto" */
#define PAL_TRANSCRIPT_KINDS                                                                       \
    "native, openai, claude-code, codex, skillian, loom, sol or go-session" /* for messages */
/* By its name, or "auto"; false leaves *out_kind untouched. */
bool pal_transcript_kind_from_name(pal_str name, pal_transcript_kind *out_kind);

#define PAL_TRANSCRIPT_LINE_MAX (256u << 20) /* longer lines are skipped */

typedef enum pal_transcript_item_kind {
    PAL_ENTRY_NONE = 0,
    PAL_ENTRY_SESSION = 1, /* messages after this one belong to `session`, as far as it is known */
    PAL_ENTRY_MESSAGE = 2,
    PAL_ENTRY_MARK = 3,    /* mark.seq counts this session's messages here, from 1 */
    PAL_ENTRY_WARNING = 4, /* the line was skipped, wholly or in part */
} pal_transcript_item_kind;

/* What the transcript says of a session.
 * For transcripts of other programs `session` has: key "claude-code:ID" or "codex:ID" (the same
 * file read again gives the same key), title, project (the working directory), agent
 * ("claude-code", "codex"), created_at, and metadata {"source","original_id","branch",...}.
 * For our own it is the exported session, id, seqs and all. */
typedef struct pal_transcript_facts {
    pal_session session;
    pal_str original_id; /* the other program's id of the session */
    pal_str cwd;
    pal_str branch;
    pal_str bead;         /* Loom: the work item whose conversation it is */
    pal_str room;         /* Sol: the Matrix room */
    pal_str conversation; /* Sol: the service's id of the conversation, which goes on */
    uint64_t conversation_tokens;
} pal_transcript_facts;

typedef struct pal_transcript_item {
    pal_transcript_item_kind kind;
    uint64_t line; /* where it began, from 1 */
    union {
        const pal_transcript_facts *facts; /* session */
        pal_message message;               /* its client_id is made of the record's id */
        pal_mark mark;                     /* add it when all items before it are stored */
        const char *warning;               /* one line of text */
    } u;
} pal_transcript_item;

typedef struct pal_transcript_items {
    pal_transcript_item *items; /* in the arena */
    size_t len;
} pal_transcript_items;

typedef struct pal_transcript_counts {
    uint64_t lines;
    uint64_t sessions;
    uint64_t messages;
    uint64_t marks;
    uint64_t ignored; /* records of a known type that hold no message: snapshots, progress */
    uint64_t skipped; /* lines that gave a warning */
} pal_transcript_counts;

typedef struct pal_transcript pal_transcript;

/* NULL when there is no memory. Release it with pal_transcript_close(). */
pal_transcript *pal_transcript_open(pal_transcript_kind kind);
void pal_transcript_close(pal_transcript *transcript); /* accepts NULL */

/* Takes one line, with or without its line end. The items and all they point to lie in the arena.
 * A message may be held back until later lines show that it is complete. */
PAL_CHECKED pal_status pal_transcript_feed(pal_transcript *transcript, pal_str line,
        pal_arena *arena, pal_transcript_items *out_items, pal_error *err);

/* The end of the file: gives what was held back. Nothing may be fed afterwards. */
PAL_CHECKED pal_status pal_transcript_finish(pal_transcript *transcript, pal_arena *arena,
        pal_transcript_items *out_items, pal_error *err);

/* AUTO as long as no line told; after the end that means: not a transcript that we know. */
pal_transcript_kind pal_transcript_kind_of(const pal_transcript *transcript);

/* The newest session as far as it is known now; borrowed until the next call. A title may come
 * after the messages. */
const pal_transcript_facts *pal_transcript_session(const pal_transcript *transcript);

pal_transcript_counts pal_transcript_count(const pal_transcript *transcript);

/* ---- Our own export: a session line, a line per message, a line per mark ---- */

#define PAL_TRANSCRIPT_VERSION 1

/* Each appends one line with its line end; a failure of `buf` is returned too. */
PAL_CHECKED pal_status pal_transcript_write_session(
        pal_buf *buf, const pal_session *session, pal_error *err);
PAL_CHECKED pal_status pal_transcript_write_message(
        pal_buf *buf, const pal_message *message, pal_error *err);
PAL_CHECKED pal_status pal_transcript_write_mark(
        pal_buf *buf, const pal_mark *mark, pal_error *err);

#endif
