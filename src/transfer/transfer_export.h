/* transfer_export.h - exports one session as JSON lines, a page at a time, so that it never has to
 * be in memory completely. Used by the command and by the server. One thread at a time.
 *
 * The native form is complete. It contains the session, all messages (also hidden ones) and the
 * marks. Each mark comes after the messages that existed when it was made, so that an import can
 * repeat it. The openai form contains the visible messages, even if a checkpoint or a prune keeps
 * them from the model: {"messages":[...]} in one line. The skillian form contains the visible
 * messages as a row of Skillian's table (Skillian is a chat assistant):
 * {"id","created_at","last_accessed","conversation_data","message_count"} in one line. It contains
 * texts and tools only.
 *
 * The claude-code and codex forms are transcripts of these programs, which continue them: one file
 * for each session. The markdown and html forms are for people: one text, or one page. */
#ifndef PAL_TRANSFER_EXPORT_H
#define PAL_TRANSFER_EXPORT_H

#include "base/buf.h"
#include "base/json/json.h"
#include "palaver/store_marks.h"

#define PAL_TRANSFER_PAGE_BYTES ((size_t)256 << 10) /* bytes that an export reads at a time */

typedef enum pal_export_form {
    PAL_EXPORT_NATIVE = 0,
    PAL_EXPORT_OPENAI = 1,
    PAL_EXPORT_SKILLIAN = 2,
    PAL_EXPORT_CLAUDE_CODE = 3,
    PAL_EXPORT_CODEX = 4,
    PAL_EXPORT_MARKDOWN = 5,
    PAL_EXPORT_HTML = 6,
} pal_export_form;

#define PAL_EXPORT_FORMS                                                                           \
    "native, openai, skillian, claude-code, codex, markdown or html" /* for error messages */
/* Finds a form by its name. Leaves *out_form unchanged and returns false if the name is unknown. */
bool pal_export_form_from_name(pal_str name, pal_export_form *out_form);

typedef struct pal_export {
    /* Set by the caller; all other members must be zero. */
    pal_store *store;
    pal_str tenant;
    pal_export_form form;
    bool with_blobs; /* include the bytes of images and files, as base64 */
    pal_str cwd;     /* the directory for transcripts of sessions that have none */
    /* Counts of everything that was written, over all sessions. */
    uint64_t messages;
    uint64_t blobs_left; /* images and files that were left out */
    /* Private members. */
    pal_arena *arena;      /* freed after each session */
    pal_arena *page_arena; /* freed after each page */
    pal_id session;
    uint64_t fork_seq;
    uint64_t after_seq; /* seq of the last message that was written */
    uint64_t questions; /* number of the user's messages that were written */
    bool is_alone;      /* the next message exceeds the size of a page and becomes a page by
                           itself */
    pal_json_writer writer;
    pal_str project;               /* of the session */
    char parent[PAL_ID_TEXT_SIZE]; /* id of the message before; empty: none */
    const pal_mark *marks;
    size_t marks_len;
    size_t marks_at; /* index of the next mark to write */
} pal_export;

/* Writes the lines before the messages. Call pal_export_end() afterwards in any case. */
PAL_CHECKED pal_status pal_export_begin(
        pal_export *export, const pal_session *session, pal_buf *out, pal_error *err);
/* Writes some messages. *out_more is false after the last message, when everything else is written
 * too. */
PAL_CHECKED pal_status pal_export_page(
        pal_export *export, pal_buf *out, bool *out_more, pal_error *err);
/* Ends the session and keeps the counts. Another session can begin. */
void pal_export_end(pal_export *export);

#endif
