/* dialect_picoclaw.h - the files of a PicoClaw directory: lines of messages ({base}.jsonl), a
 * session's facts ({base}.meta.json), and the older form that had both ({base}.json).
 *
 * A line is PicoClaw's own message object. What it can't say (ids, flags, tokens, several texts,
 * signatures, usage, blobs) stands in one member "palaver" that PicoClaw's decoder ignores:
 *
 *   "palaver":{"message":{...},"parts":true,"extra":true,"content":0,"reasoning":1,"calls":true}
 *
 * "message" is the native form; it has the parts and the extra only where the marks say so. There
 * "content" and "reasoning" name the parts whose text is that of the line, and "calls" says that
 * the arguments of its tool calls are those of the line, so that no text is written twice.
 *
 * Pure functions over the caller's memory: any thread may call them. */
#ifndef PAL_DIALECT_PICOCLAW_H
#define PAL_DIALECT_PICOCLAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/str.h"

/* PicoClaw can't read a session any more that has a line of more bytes; the line end counts. */
#define PAL_PICOCLAW_LINE_MAX (10u << 20)
#define PAL_PICOCLAW_META_MAX (16u << 20) /* what is read of a meta file at most */
#define PAL_PICOCLAW_SHARDS 64

/* ---- Lines ---- */

/* Appends one line without its line end. The message is one that pal_native_message_check() takes;
 * raw line ends in an extra, white space by the rules of JSON, become blanks.
 * The caller compares what was written with PAL_PICOCLAW_LINE_MAX. A failure shows in `buf`. */
void pal_picoclaw_line_write(pal_buf *buf, const pal_message *message);

/* Reads one line; everything lies in the arena. What was written by pal_picoclaw_line_write()
 * comes back whole; members that nobody knows are kept in the extra. PAL_INVALID for a line that
 * is not a message. */
PAL_CHECKED pal_status pal_picoclaw_line_read(
        pal_str line, pal_arena *arena, pal_message *out_message, pal_error *err);

/* An assistant's thought that said nothing and called nothing: PicoClaw neither keeps nor shows
 * it. */
bool pal_picoclaw_is_transient(const pal_message *message);

/* ---- Sessions ---- */

typedef struct pal_picoclaw_meta {
    pal_str key;
    pal_str summary;
    uint64_t skip;      /* lines from the start that are out of sight */
    uint64_t count;     /* lines, as far as PicoClaw knew when it wrote this */
    pal_str created_at; /* as it was written, with nanoseconds; empty: made of the milliseconds */
    pal_str updated_at;
    int64_t created_at_ms; /* 0: none */
    int64_t updated_at_ms;
    pal_str scope; /* JSON, or empty */
    pal_str *aliases;
    size_t aliases_len;
    pal_str extra; /* unknown members, as JSON: {"a":1}; empty when there are none */
} pal_picoclaw_meta;

/* Reads a meta file's text; everything lies in the arena. */
PAL_CHECKED pal_status pal_picoclaw_meta_read(
        pal_str json, pal_arena *arena, pal_picoclaw_meta *out_meta, pal_error *err);

/* Writes it indented by two, as PicoClaw does, without a line end. A failure shows in `buf`. */
void pal_picoclaw_meta_write(pal_buf *buf, const pal_picoclaw_meta *meta);

/* The older file: a whole session in one object. */
typedef struct pal_picoclaw_legacy {
    pal_str key; /* empty: the file's name without ".json" is meant */
    pal_str summary;
    int64_t created_at_ms; /* 0: none */
    int64_t updated_at_ms;
    pal_message *messages;
    size_t messages_len;
    size_t skipped; /* elements of "messages" that are none */
} pal_picoclaw_legacy;

PAL_CHECKED pal_status pal_picoclaw_legacy_read(
        pal_str json, pal_arena *arena, pal_picoclaw_legacy *out_legacy, pal_error *err);

/* ---- Names ---- */

/* The name of a session's files without their endings: ':' '/' and '\' become '_'. Two keys may
 * have the same. In the arena. */
pal_str pal_picoclaw_base(pal_str key, pal_arena *arena);

/* FNV-1a, 32 bits; PicoClaw's locks are chosen by it, modulo PAL_PICOCLAW_SHARDS. */
uint32_t pal_picoclaw_hash(pal_str key);
uint32_t pal_picoclaw_shard(pal_str key);

/* "agent:<x>:main", and the opaque key of agent "main"'s: every routed session lists this alias,
 * but it means the main session only. */
bool pal_picoclaw_is_main_alias(pal_str alias);

#endif
