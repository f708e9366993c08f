/* transfer_picoclaw_walk.c - reads one session once. A message gets a client id that is derived
 * from its content and time, not from its line. PicoClaw's compaction moves lines; a repeated
 * import must still find each message exactly once.
 *
 * PicoClaw hides the lines before a meta file's `skip`. They are imported too, and a reset after
 * them hides them here as well. */
#include "transfer/transfer_picoclaw_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "dialect/native/native.h"

#define NAMELESS "picoclaw" /* key of a session whose key is empty */

void pal_picoclaw_tell(pal_picoclaw_walk *w, uint64_t line, const char *what, const char *detail)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    if (w->is_check)
        return;
    snprintf(text, sizeof text, "%s%.*s", what, (int)(sizeof text / 2), detail);
    w->import->problem(line, text, w->import->user);
}

/* ---- Messages ---- */

pal_status pal_picoclaw_digest(pal_picoclaw_walk *w, const pal_message *message, bool with_time,
        uint8_t out_digest[PAL_SHA256_SIZE])
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_buf_format(
            &buf, "%d %lld ", (int)message->role, (long long)(with_time ? message->created_at : 0));
    pal_native_body_write(&buf, message);
    bool failed = buf.failure || pal_sha256(pal_buf_str(&buf), out_digest) != PAL_OK;
    pal_buf_done(&buf);
    return failed ? pal_no_memory(w->import->err) : PAL_OK;
}

/* The same content can appear twice at the same time: then the second one gets a number. */
static pal_status name_message(pal_picoclaw_walk *w, pal_message *message, pal_arena *arena)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char text[2 * PAL_SHA256_SIZE + 40] = "picoclaw:";
    pal_status status = pal_picoclaw_digest(w, message, true, digest);
    if (status != PAL_OK)
        return status;
    pal_str content = pal_arena_copy(w->arena, pal_str_make((char *)digest, sizeof digest));
    uintptr_t times = content.len ? (uintptr_t)pal_map_find(&w->seen, content) + 1 : 0;
    if (!times || pal_map_set(&w->seen, content, (void *)times) != PAL_OK)
        return pal_no_memory(w->import->err);
    pal_hex(digest, PAL_SHA256_SIZE / 2, text + 9);
    if (times > 1)
        snprintf(text + 9 + PAL_SHA256_SIZE, 24, ":%llu", (unsigned long long)times);
    message->client_id = pal_arena_copy(arena, pal_str_of(text));
    return PAL_OK;
}

/* The store requires an id and a name for each call; PicoClaw does not. */
static void name_calls(pal_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool is_call = parts[i].kind == PAL_PART_TOOL_CALL;
        if ((is_call || parts[i].kind == PAL_PART_TOOL_RESULT) && !parts[i].call_id.len)
            parts[i].call_id = pal_str_of("none");
        if (is_call && !parts[i].name.len)
            parts[i].name = pal_str_of("none");
    }
}

static pal_status take(pal_picoclaw_walk *w, pal_message *message, uint64_t line)
{
    if (pal_picoclaw_is_transient(message))
        return PAL_OK;
    /* Ids belong to the tenant: an exported id may belong to another session here. */
    message->id = message->parent_id = (pal_id){{0}};
    message->seq = 0;
    name_calls(message->parts, message->parts_len);
    pal_status status = name_message(w, message, w->message_arena);
    if (!message->created_at)
        message->created_at = w->time;
    w->time = message->created_at;
    w->messages++;
    return status == PAL_OK ? w->take(w, message, line) : status;
}

/* ---- Files ---- */

static pal_status read_whole(pal_picoclaw_walk *w, const char *path, pal_str *out_text)
{
    const pal_picoclaw_import *import = w->import;
    pal_transfer_input input;
    pal_str text;
    pal_status status = pal_transfer_input_open(path, &input, import->err);
    if (status != PAL_OK)
        return status;
    status = pal_transfer_input_all(&input, &text, import->err);
    if (status == PAL_OK) {
        *out_text = pal_arena_copy(w->arena, text);
        if (pal_arena_failure(w->arena) != PAL_OK)
            status = pal_no_memory(import->err);
    }
    pal_transfer_input_close(&input);
    return status;
}

/* If the meta file is damaged, the key, the summary and the hidden lines are not known. */
static void read_meta(pal_picoclaw_walk *w)
{
    pal_str text;
    pal_error why;
    if (w->from->meta &&
            (read_whole(w, w->from->meta, &text) != PAL_OK ||
                    pal_picoclaw_meta_read(text, w->arena, &w->meta, &why) != PAL_OK)) {
        *w->import->file = w->from->meta;
        pal_picoclaw_tell(
                w, 0, "the meta file could not be read; the session is imported without it", "");
        w->meta = (pal_picoclaw_meta){0};
    }
    if (!w->meta.key.len)
        w->meta.key = pal_str_of(w->from->base[0] ? w->from->base : NAMELESS);
    w->time = w->meta.created_at_ms;
}

static pal_status read_line(pal_picoclaw_walk *w, const pal_transfer_line *line)
{
    pal_message message;
    pal_error why;
    pal_status status = PAL_OK;
    if (w->meta.skip && w->counted == w->meta.skip)
        status = pal_picoclaw_hide_skipped(w);
    w->counted++;
    if (status != PAL_OK)
        return status;
    if (line->too_long) {
        pal_picoclaw_tell(w, w->line, "the line is too long: skipped", "");
        return PAL_OK;
    }
    status = pal_picoclaw_line_read(line->text, w->message_arena, &message, &why);
    if (status == PAL_OK)
        return take(w, &message, w->line);
    if (status == PAL_NO_MEMORY)
        return pal_no_memory(w->import->err);
    pal_picoclaw_tell(w, w->line, "skipped: ", why.message);
    return PAL_OK;
}

static pal_status read_lines(pal_picoclaw_walk *w)
{
    pal_picoclaw_import *import = w->import;
    pal_transfer_input input;
    pal_transfer_line line;
    bool has = false;
    *import->file = w->from->lines;
    pal_status status = pal_transfer_input_open(w->from->lines, &input, import->err);
    if (status != PAL_OK)
        return status;
    while (status == PAL_OK && (!w->is_check || w->line < w->from->lines_read)) {
        status = pal_transfer_input_line(&input, &line, &has, import->err);
        if (status != PAL_OK || !has)
            break;
        w->line++;
        if (line.text.len || line.too_long)
            status = read_line(w, &line);
        if (status == PAL_OK && !w->is_check)
            status = pal_import_settle(import->import, line.text.len);
        else
            pal_arena_reset(w->message_arena);
    }
    if (status == PAL_OK && w->meta.skip && w->counted <= w->meta.skip)
        status = pal_picoclaw_hide_skipped(w);
    w->from->lines_read = w->line;
    pal_transfer_input_close(&input);
    return status;
}

static pal_status read_legacy(pal_picoclaw_walk *w, pal_picoclaw_legacy *legacy)
{
    pal_status status = PAL_OK;
    *w->import->file = w->from->legacy;
    if (legacy->skipped)
        pal_picoclaw_tell(w, 0, "some items are not messages: skipped", "");
    for (size_t i = 0; status == PAL_OK && i < legacy->messages_len; i++) {
        w->line++;
        w->message_arena = w->is_check ? w->message_arena : pal_import_arena(w->import->import);
        status = take(w, &legacy->messages[i], w->line);
    }
    /* The messages are allocated in the arena of this walk, so they must be written before it is
     * freed. */
    return status == PAL_OK && !w->is_check ? pal_import_flush(w->import->import) : status;
}

/* If an older file was already migrated, its lines are in a file next to it that is named after
 * its key. */
static pal_status open_legacy(pal_picoclaw_walk *w, pal_picoclaw_legacy *legacy, bool *out_use)
{
    const pal_picoclaw_listing *list = w->list;
    pal_str text;
    pal_error why;
    *out_use = false;
    *w->import->file = w->from->legacy;
    pal_status status = read_whole(w, w->from->legacy, &text);
    if (status != PAL_OK)
        return status;
    if (pal_picoclaw_legacy_read(text, w->arena, legacy, &why) != PAL_OK) {
        pal_picoclaw_tell(w, 0, "skipped: ", why.message);
        return PAL_OK;
    }
    w->meta = (pal_picoclaw_meta){.key = legacy->key.len ? legacy->key : pal_str_of(w->from->base),
            .summary = legacy->summary,
            .created_at_ms = legacy->created_at_ms,
            .updated_at_ms = legacy->updated_at_ms};
    w->time = legacy->created_at_ms;
    pal_str base = pal_picoclaw_base(w->meta.key, w->arena);
    uintptr_t place = (uintptr_t)pal_map_find(&list->by_base, base);
    *out_use = !place || !list->sources[place - 1].lines;
    if (!*out_use)
        pal_picoclaw_tell(w, 0,
                "skipped: the session was migrated, and its lines are imported from the new file",
                "");
    return PAL_OK;
}

/* If a file cannot be read, only its session is skipped. */
static bool can_read(pal_picoclaw_walk *w, const char *path)
{
    if (!path || access(path, R_OK) == 0)
        return true;
    *w->import->file = path;
    w->from->is_skipped = true;
    pal_picoclaw_tell(w, 0, "skipped: could not read the file: ", strerror(errno));
    return false;
}

/* ---- Reading a session ---- */

pal_status pal_picoclaw_walk_lines(pal_picoclaw_walk *w)
{
    if (!can_read(w, w->from->lines) || !can_read(w, w->from->meta))
        return PAL_OK;
    read_meta(w);
    *w->import->file = w->from->lines ? w->from->lines : w->from->meta;
    pal_status status = w->is_check ? PAL_OK : pal_picoclaw_begin(w);
    if (status == PAL_OK && w->from->lines)
        status = read_lines(w);
    return status == PAL_OK && !w->is_check ? pal_picoclaw_keep_summary(w) : status;
}

pal_status pal_picoclaw_walk_legacy(pal_picoclaw_walk *w)
{
    pal_picoclaw_legacy legacy;
    bool use;
    if (!can_read(w, w->from->legacy))
        return PAL_OK;
    pal_status status = open_legacy(w, &legacy, &use);
    w->from->is_skipped = !use;
    if (status != PAL_OK || !use)
        return status;
    if (!w->is_check)
        status = pal_picoclaw_begin(w);
    if (status == PAL_OK)
        status = read_legacy(w, &legacy);
    return status == PAL_OK && !w->is_check ? pal_picoclaw_keep_summary(w) : status;
}
