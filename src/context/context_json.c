/* context_json.c - a plan as JSON, for programs and for the page:
 *
 *   {"action": "compact", "reason": "...", "strategy": "compact",
 *    "tokens": 70120, "tokens_plain": 68000, "usable": 68000, "bytes": 281000, "images": 0,
 *    "is_estimate": false, "repairs": 1,
 *    "prefix": {"items": 3, "tokens": 900, "break": "the summary is a different one"},
 *    "refusal": "...",                                             with "refuse"
 *    "prune": {"tokens": 30000, "parts": [{"seq": 4, "part": 0}]},   with "prune"
 *    "cut": {"seq": 40, "tokens": 50000, "keep": [2, 38]},           with "compact"
 *    "first_seq": 41,
 *    "endpoint": "openai", "model": "gpt-4o",           from pal_plan_extras
 *    "limits": {"context": 128000, "output": 16384, "usable": 111616, "threshold": 111616,
 *               "low_water": 55808},
 *    "items": [{"kind": "message", "disposition": "sent", "role": "user", "seq": 41, "tokens": 12,
 *               "bytes": 80, "images": 0, "pinned": true, "hash": "00ff...", "reason": "fits",
 *               "text": "Hello"}]}
 *
 * A range also has "first_seq" and "count", and tools have "count". "pinned" is present only if it
 * is true, "note" (its id) only for a note, "hash" (16 hex digits) only if the item is sent, and
 * "seq" only for a stored message. "role" is absent for a message that is not sent, "text" unless
 * pal_plan_extras asks for it. */
#include <inttypes.h>
#include <stdio.h>
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "base/utf8.h"
#include "palaver/context.h"

#define PLAN_BYTES_MAX ((size_t)256 << 20)
#define CHARACTER_BYTES_MAX ((size_t)4) /* in UTF-8 */

static const char *kind_name(pal_plan_item_kind kind)
{
    static const char *const names[] = {
            "none", "system", "tools", "summary", "notice", "message", "range", "notes", "note"};
    return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : names[0];
}

/* ---- Texts ---- */

/* Collects the beginning of a text, up to a number of bytes. */
typedef struct excerpt {
    pal_buf buf;
    size_t room;
} excerpt;

static void add_text(excerpt *out, pal_str text)
{
    if (text.len > out->room)
        text.len = out->room;
    pal_buf_append(&out->buf, text.data, text.len);
    out->room -= text.len;
}

static void add_parts(excerpt *out, const pal_part *parts, size_t len)
{
    for (size_t i = 0; i < len && out->room > 0; i++) {
        const pal_part *part = &parts[i];
        if (out->buf.len > 0)
            add_text(out, pal_str_of(" "));
        if (part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE)
            add_text(out, pal_str_of(pal_part_kind_name(part->kind)));
        if (part->kind == PAL_PART_TOOL_CALL) {
            add_text(out, part->name);
            add_text(out, pal_str_of(" "));
            add_text(out, part->arguments);
        }
        add_text(out, part->text);
        add_parts(out, part->parts, part->parts_len);
    }
}

static void add_tools(excerpt *out, const pal_tool *tools, size_t len)
{
    for (size_t i = 0; i < len && out->room > 0; i++) {
        if (i > 0)
            add_text(out, pal_str_of(", "));
        add_text(out, tools[i].name);
    }
}

/* Returns the bytes of the first characters. */
static size_t characters_len(pal_str text, uint32_t max)
{
    const unsigned char *at = (const unsigned char *)text.data, *end = at + text.len;
    for (; at < end && max > 0; max--) {
        size_t len = pal_utf8_char_len(at, end);
        if (len == 0 && (size_t)(end - at) < CHARACTER_BYTES_MAX)
            break; /* the excerpt ends within a character */
        at += len ? len : 1;
    }
    return text.len - (size_t)(end - at);
}

/* Writes what is sent, or would have been sent. */
static void put_item_text(pal_json_writer *writer, const pal_plan *plan, const pal_plan_item *item,
        uint32_t text_max)
{
    const pal_message *message = item->message ? item->message : item->given;
    excerpt out = {.room = text_max * CHARACTER_BYTES_MAX};
    if (!message && !item->note && item->kind != PAL_PLAN_ITEM_TOOLS)
        return;
    pal_buf_init(&out.buf, out.room);
    if (item->note)
        add_text(&out, item->note->text);
    else if (message)
        add_parts(&out, message->parts, message->parts_len);
    else
        add_tools(&out, plan->tools, (size_t)item->count);
    pal_str text = pal_buf_str(&out.buf);
    text.len = characters_len(text, text_max);
    if (out.buf.failure == PAL_OK)
        pal_put_str(writer, "text", text);
    else
        writer->buf->failure = out.buf.failure;
    pal_buf_done(&out.buf);
}

/* ---- Items ---- */

static void put_item(pal_json_writer *writer, const pal_plan *plan, const pal_plan_item *item,
        uint32_t text_max)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "kind", kind_name(item->kind));
    pal_put_text(writer, "disposition", pal_disposition_name(item->disposition));
    if (item->message)
        pal_put_text(writer, "role", pal_role_name(item->message->role));
    if (item->kind == PAL_PLAN_ITEM_RANGE)
        pal_put_count(writer, "first_seq", item->first_seq);
    if (item->seq)
        pal_put_count(writer, "seq", item->seq);
    if (item->kind == PAL_PLAN_ITEM_RANGE || item->kind == PAL_PLAN_ITEM_TOOLS)
        pal_put_count(writer, "count", item->count);
    pal_put_count(writer, "tokens", item->tokens);
    pal_put_count(writer, "bytes", item->bytes);
    pal_put_count(writer, "images", item->images);
    if (item->is_pinned) {
        pal_put_flag(writer, "pinned", true);
    }
    if (item->hash) {
        char text[17];
        snprintf(text, sizeof text, "%016" PRIx64, item->hash);
        pal_put_text(writer, "hash", text);
    }
    if (item->note)
        pal_put_str(writer, "note", item->note->id);
    pal_put_str(writer, "reason", item->reason);
    if (text_max > 0)
        put_item_text(writer, plan, item, text_max);
    pal_json_end_object(writer);
}

/* ---- The plan ---- */

static void put_prune(pal_json_writer *writer, const pal_plan *plan)
{
    pal_json_name(writer, "prune");
    pal_json_begin_object(writer);
    pal_put_count(writer, "tokens", plan->prune_tokens);
    pal_json_name(writer, "parts");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < plan->prune_len; i++) {
        pal_json_begin_object(writer);
        pal_put_count(writer, "seq", plan->prune[i].seq);
        pal_put_count(writer, "part", plan->prune[i].part);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
    pal_json_end_object(writer);
}

static void put_cut(pal_json_writer *writer, const pal_plan *plan)
{
    pal_json_name(writer, "cut");
    pal_json_begin_object(writer);
    pal_put_count(writer, "seq", plan->cut_seq);
    pal_put_count(writer, "tokens", plan->cut_tokens);
    pal_json_name(writer, "keep");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < plan->keep_len; i++)
        pal_json_put_u64(writer, plan->keep_seqs[i]);
    pal_json_end_array(writer);
    pal_json_end_object(writer);
}

static void put_action(pal_json_writer *writer, const pal_plan *plan)
{
    pal_put_text(writer, "action", pal_plan_action_name(plan->action));
    pal_put_str(writer, "reason", plan->reason);
    pal_put_text(writer, "strategy", pal_strategy_name(plan->strategy));
    if (plan->action == PAL_PLAN_ACTION_REFUSE)
        pal_put_text(writer, "refusal", plan->refusal.message);
    if (plan->action == PAL_PLAN_ACTION_PRUNE)
        put_prune(writer, plan);
    if (plan->action == PAL_PLAN_ACTION_COMPACT)
        put_cut(writer, plan);
}

static void put_totals(pal_json_writer *writer, const pal_plan *plan)
{
    pal_put_count(writer, "tokens", plan->tokens);
    pal_put_count(writer, "tokens_plain", plan->tokens_plain);
    pal_put_count(writer, "usable", plan->usable);
    pal_put_count(writer, "bytes", plan->bytes);
    pal_put_count(writer, "images", plan->images);
    pal_put_flag(writer, "is_estimate", plan->is_estimate);
    pal_put_count(writer, "repairs", plan->repairs);
    pal_put_count(writer, "first_seq", plan->first_seq);
    pal_json_name(writer, "prefix");
    pal_json_begin_object(writer);
    pal_put_count(writer, "items", plan->prefix_items);
    pal_put_count(writer, "tokens", plan->prefix_tokens);
    pal_put_str(writer, "break", plan->prefix_break);
    pal_json_end_object(writer);
}

static void put_limits(pal_json_writer *writer, const pal_plan_limits *limits)
{
    pal_json_name(writer, "limits");
    pal_json_begin_object(writer);
    pal_put_count(writer, "context", limits->context);
    pal_put_count(writer, "output", limits->output);
    pal_put_count(writer, "usable", limits->usable);
    pal_put_count(writer, "threshold", limits->threshold);
    pal_put_count(writer, "low_water", limits->low_water);
    pal_json_end_object(writer);
}

/* Copies the written JSON into the arena and frees the buffer. */
static pal_status finish(pal_buf *buf, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    pal_status status = buf->failure;
    pal_str json = {0};
    if (status == PAL_OK)
        json = pal_arena_copy(arena, pal_buf_str(buf));
    if (status == PAL_OK)
        status = pal_arena_failure(arena);
    pal_buf_done(buf);
    if (status != PAL_OK)
        return pal_error_set(err, status, "out of memory");
    *out_json = json;
    return PAL_OK;
}

pal_status pal_plan_show(const pal_plan *plan, const pal_plan_extras *extras, pal_arena *arena,
        pal_str *out_json, pal_error *err)
{
    pal_buf buf;
    pal_buf_init(&buf, PLAN_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    put_action(&writer, plan);
    put_totals(&writer, plan);
    if (extras->endpoint.len)
        pal_put_str(&writer, "endpoint", extras->endpoint);
    if (extras->model.len)
        pal_put_str(&writer, "model", extras->model);
    if (plan->limits)
        put_limits(&writer, plan->limits);
    pal_json_name(&writer, "items");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < plan->items_len; i++)
        put_item(&writer, plan, &plan->items[i], extras->text_max);
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    return finish(&buf, arena, out_json, err);
}

pal_status pal_plan_to_json(
        const pal_plan *plan, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    static const pal_plan_extras none;
    return pal_plan_show(plan, &none, arena, out_json, err);
}

pal_status pal_plan_item_to_json(const pal_plan *plan, size_t index, pal_arena *arena,
        pal_str *out_json, pal_error *err)
{
    pal_buf buf;
    if (index >= plan->items_len)
        return pal_error_set(err, PAL_NOT_FOUND,
                "item %zu does not exist: the plan has %zu items, counted from 0", index,
                plan->items_len);
    pal_buf_init(&buf, PLAN_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    put_item(&writer, plan, &plan->items[index], 0);
    return finish(&buf, arena, out_json, err);
}
