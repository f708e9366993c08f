/* transcript.h - reads conversations of other programs from files of lines, and writes our
 * own files.
 *
 * The caller splits the file into lines and feeds them one by one. Each line gives any number of
 * items. The content of a file is never an error: lines that cannot be used are skipped, with a
 * warning that names the line. A call fails only for lack of memory or arena space.
 *
 *   pal_transcript *transcript = pal_transcript_open(PAL_TRANSCRIPT_AUTO);
 *   for each line: pal_transcript_feed(transcript, line, arena, &items, err);
 *   pal_transcript_finish(transcript, arena, &items, err);   (returns messages that were held back)
 *   pal_transcript_session(transcript)                       (title and so on, now complete)
 *   pal_transcript_close(transcript);
 *
 * Used by one thread at a time. */
#ifndef PAL_TRANSCRIPT_H
#define PAL_TRANSCRIPT_H

#include <stdint.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/session.h"
#include "palaver/store_marks.h"
#include "palaver/str.h"

typedef enum pal_transcript_kind {
    PAL_TRANSCRIPT_AUTO = 0,        /* detected from the first lines */
    PAL_TRANSCRIPT_NATIVE = 1,      /* our own export */
    PAL_TRANSCRIPT_OPENAI_CHAT = 2, /* one message per line; or {"messages":[...]}, one session per
                                       line */
    PAL_TRANSCRIPT_CLAUDE_CODE = 3, /* ~/.claude/projects/.../SESSION.jsonl */
    PAL_TRANSCRIPT_CODEX = 4,       /* ~/.codex/sessions/.../rollout-....jsonl */
    PAL_TRANSCRIPT_SKILLIAN = 5,    /* rows of its table of sessions, one per line */
    PAL_TRANSCRIPT_LOOM = 6,        /* rows of conversation_contexts, one per line */
    PAL_TRANSCRIPT_SOL = 7,         /* rows of Sol's table conversations, one per line */
    PAL_TRANSCRIPT_GO_SESSION = 8,  /* messages or sessions of the Go package session */
    PAL_TRANSCRIPT_CHATGPT = 9,     /* conversations.json of ChatGPT's export, one conversation per
                                       line; the same for the next two */
    PAL_TRANSCRIPT_CLAUDE_AI = 10,  /* conversations.json of claude.ai's export */
    PAL_TRANSCRIPT_OPEN_WEBUI = 11, /* chats of Open WebUI's export */
    PAL_TRANSCRIPT_LIBRECHAT = 12,  /* a conversation of LibreChat's export */
} pal_transcript_kind;

const char *pal_transcript_kind_name(pal_transcript_kind kind); /* for example "claude-code" or
                                                                   "auto" */
#define PAL_TRANSCRIPT_KINDS                                                                       \
    "native, openai, claude-code, codex, skillian, loom, sol, go-session, chatgpt, claude-ai, "    \
    "open-webui or librechat" /* for error messages */
/* Finds a kind by its name, or "auto". Returns false and leaves *out_kind unchanged if there is no
 * such kind. */
bool pal_transcript_kind_from_name(pal_str name, pal_transcript_kind *out_kind);

#define PAL_TRANSCRIPT_LINE_MAX (256u << 20) /* longer lines are skipped */

typedef enum pal_transcript_item_kind {
    PAL_ENTRY_NONE = 0,
    PAL_ENTRY_SESSION = 1, /* the following messages belong to `session`, as far as it is known */
    PAL_ENTRY_MESSAGE = 2,
    PAL_ENTRY_MARK = 3, /* mark.seq counts the messages of this session in the transcript, from 1 */
    PAL_ENTRY_WARNING = 4, /* the line was skipped, completely or in part */
} pal_transcript_item_kind;

/* The properties of a session in the transcript. For transcripts of other programs, `session` has:
 * key "claude-code:ID" or "codex:ID" (reading the same file again gives the same key), title,
 * project (the working directory), agent ("claude-code", "codex"), created_at, and metadata
 * {"source","original_id","branch",...}. For our own files it is the exported session, including
 * its id and seqs. */
typedef struct pal_transcript_facts {
    pal_session session;
    pal_str original_id; /* the session's id in the other program */
    pal_str cwd;
    pal_str branch;
    pal_str bead;         /* Loom: the work item (bead) that the conversation belongs to */
    pal_str room;         /* Sol: the Matrix room */
    pal_str conversation; /* Sol: the service's id of the conversation, which continues */
    uint64_t conversation_tokens;
    pal_str parent_key;     /* a branch of a tree: the key of the session that it is a fork of */
    pal_str parent_message; /* the client id of the last shared message */
    bool is_branch;         /* the session is a branch of a tree, which another export can continue
                               elsewhere */
} pal_transcript_facts;

typedef struct pal_transcript_item {
    pal_transcript_item_kind kind;
    uint64_t line; /* line where it began, from 1 */
    union {
        const pal_transcript_facts *facts; /* session */
        pal_message message;               /* its client_id is made from the record's id */
        pal_mark mark;                     /* add it after all items before it are stored */
        const char *warning;               /* one line of text */
    } u;
} pal_transcript_item;

typedef struct pal_transcript_items {
    pal_transcript_item *items; /* in the arena */
    size_t len;
} pal_transcript_items;

typedef struct pal_transcript pal_transcript;

/* Returns NULL if there is no memory. The caller must release it with pal_transcript_close(). */
pal_transcript *pal_transcript_open(pal_transcript_kind kind);
void pal_transcript_close(pal_transcript *transcript); /* accepts NULL */

/* Reads one line, with or without its line end. The items and everything that they point to are in
 * the arena. A message can be held back until later lines show that it is complete. */
PAL_CHECKED pal_status pal_transcript_feed(pal_transcript *transcript, pal_str line,
        pal_arena *arena, pal_transcript_items *out_items, pal_error *err);

/* Ends the file and returns the messages that were held back. No line can be fed afterwards. */
PAL_CHECKED pal_status pal_transcript_finish(pal_transcript *transcript, pal_arena *arena,
        pal_transcript_items *out_items, pal_error *err);

/* Returns AUTO until a line shows the kind. AUTO after the end means that the kind of transcript is
 * unknown. */
pal_transcript_kind pal_transcript_kind_of(const pal_transcript *transcript);

/* Returns the newest session, as far as it is known. Valid until the next call. A title can come
 * after the messages. */
const pal_transcript_facts *pal_transcript_session(const pal_transcript *transcript);

/* ---- Our own export: a line for the session, for each message and for each mark ---- */

#define PAL_TRANSCRIPT_VERSION 1

/* Each appends one line with its line end. Returns the failure of `buf` as well. */
PAL_CHECKED pal_status pal_transcript_write_session(
        pal_buf *buf, const pal_session *session, pal_error *err);
PAL_CHECKED pal_status pal_transcript_write_message(
        pal_buf *buf, const pal_message *message, pal_error *err);
PAL_CHECKED pal_status pal_transcript_write_mark(
        pal_buf *buf, const pal_mark *mark, pal_error *err);

#endif
