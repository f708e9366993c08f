/* picoclaw.h - the files of a directory of PicoClaw (a personal assistant that keeps
 * sessions in JSONL files): lines of messages ({base}.jsonl), the properties of a session
 * ({base}.meta.json), and the older format with both ({base}.json).
 *
 * A line is a message object of PicoClaw. Values that it cannot express (ids, flags, tokens,
 * several texts, signatures, usage, blobs) are in one member "palaver", which PicoClaw's decoder
 * ignores:
 *
 *   "palaver":{"message":{...},"parts":true,"extra":true,"content":0,"reasoning":1,"calls":true}
 *
 * "message" is the native format. It contains the parts and the extra only if "parts" and "extra"
 * say so. Then "content" and "reasoning" name the parts whose text is in the line, and "calls" says
 * that the arguments of its tool calls are in the line. So no text is written twice.
 *
 * Pure functions that use only the caller's memory: any thread. */
#ifndef PAL_PICOCLAW_H
#define PAL_PICOCLAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/str.h"

/* If a session has a longer line, PicoClaw cannot read the session any more. Includes the line
 * end. */
#define PAL_PICOCLAW_LINE_MAX (10u << 20)
#define PAL_PICOCLAW_META_MAX (16u << 20) /* maximum size of a meta file that is read */

/* ---- Lines ---- */

/* Appends one line without its line end. The message must have passed
 * pal_native_message_check_form(). Line ends between the values of an extra become blanks. The
 * caller must compare the length with PAL_PICOCLAW_LINE_MAX. If it fails, `buf` has failed. */
void pal_picoclaw_line_write(pal_buf *buf, const pal_message *message);

/* Reads one line into the arena. A line that pal_picoclaw_line_write() wrote is restored
 * completely. Unknown members are kept in the extra. PAL_INVALID: the line is not a message. */
PAL_CHECKED pal_status pal_picoclaw_line_read(
        pal_str line, pal_arena *arena, pal_message *out_message, pal_error *err);

/* Returns true for an assistant message that has only reasoning, and neither text nor calls.
 * PicoClaw neither stores nor shows it. */
bool pal_picoclaw_is_transient(const pal_message *message);

/* ---- Sessions ---- */

typedef struct pal_picoclaw_meta {
    pal_str key;
    pal_str summary;
    uint64_t skip;      /* lines at the beginning that are hidden */
    uint64_t count;     /* number of lines when PicoClaw wrote this */
    pal_str created_at; /* the original text, with nanoseconds; empty: use the milliseconds */
    pal_str updated_at;
    int64_t created_at_ms; /* 0: none */
    int64_t updated_at_ms;
    pal_str scope; /* JSON; may be empty */
    pal_str *aliases;
    size_t aliases_len;
    pal_str extra; /* unknown members as a JSON object, for example {"a":1}; empty if there are
                      none */
} pal_picoclaw_meta;

/* Reads the text of a meta file into the arena. */
PAL_CHECKED pal_status pal_picoclaw_meta_read(
        pal_str json, pal_arena *arena, pal_picoclaw_meta *out_meta, pal_error *err);

/* Writes a meta file, indented by two spaces as PicoClaw does, without a line end. If it fails,
 * `buf` has failed. */
void pal_picoclaw_meta_write(pal_buf *buf, const pal_picoclaw_meta *meta);

/* The older file: a complete session in one object. */
typedef struct pal_picoclaw_legacy {
    pal_str key; /* empty: the file's name without ".json" */
    pal_str summary;
    int64_t created_at_ms; /* 0: none */
    int64_t updated_at_ms;
    pal_message *messages;
    size_t messages_len;
    size_t skipped; /* elements of "messages" that are not messages */
} pal_picoclaw_legacy;

PAL_CHECKED pal_status pal_picoclaw_legacy_read(
        pal_str json, pal_arena *arena, pal_picoclaw_legacy *out_legacy, pal_error *err);

/* ---- Names ---- */

/* Returns the name of a session's files without their endings, in the arena: ':', '/' and '\'
 * become '_'. Two keys can have the same name. */
pal_str pal_picoclaw_base(pal_str key, pal_arena *arena);

/* Returns true for "agent:<x>:main" and for the opaque key of agent "main". Every routed session
 * lists this alias, but it leads only to the main session. */
bool pal_picoclaw_is_main_alias(pal_str alias);

#endif
