/* context_prefix.c - finds how much of a request is equal to the last one, because that part is in
 * the service's cache.
 *
 * Each item has a hash. It is the same in every process, so that a request can be compared with one
 * that another process sent. Only explanations depend on it, so it is fast and not made to resist
 * attacks. Pure: any thread. */
#include "context/context_draft.h"

#include <inttypes.h>
#include "context/context_text.h"
#include "palaver/limits.h"

#define SEED UINT64_C(0x9e3779b97f4a7c15)
#define FACTOR UINT64_C(0xd6e8feb86659fd93)

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * FACTOR;
    return hash ^ hash >> 32;
}

static uint64_t mix_text(uint64_t hash, pal_str text)
{
    uint64_t word;
    size_t at = 0;
    hash = mix(hash, text.len);
    for (; text.len - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, text.data + at, sizeof(word));
        hash = mix(hash, word);
    }
    word = 0;
    if (at < text.len) {
        memcpy(&word, text.data + at, text.len - at);
        hash = mix(hash, word);
    }
    return hash;
}

static uint64_t mix_parts(uint64_t hash, const pal_part *parts, size_t len)
{
    hash = mix(hash, len);
    for (size_t i = 0; i < len; i++) {
        const pal_part *part = &parts[i];
        const pal_str texts[] = {part->text, part->call_id, part->name, part->arguments,
                part->signature, part->family, part->media_type, part->url, part->blob, part->data,
                part->extra};
        hash = mix(hash, (uint64_t)part->kind << 1 | part->is_error);
        for (size_t j = 0; j < sizeof(texts) / sizeof(texts[0]); j++)
            hash = mix_text(hash, texts[j]);
        hash = mix_parts(hash, part->parts, part->parts_len);
    }
    return hash;
}

/* 0 is the hash of items that are not sent. */
static uint64_t not_zero(uint64_t hash)
{
    hash = mix(hash, SEED);
    return hash ? hash : 1;
}

uint64_t pal_prefix_hash_message(const pal_message *message)
{
    uint64_t hash = mix(SEED, (uint64_t)message->role);
    hash = mix_parts(hash, message->parts, message->parts_len);
    return not_zero(mix_text(hash, message->extra));
}

uint64_t pal_prefix_hash_tools(const pal_tool *tools, size_t tools_len)
{
    uint64_t hash = mix(SEED, tools_len);
    for (size_t i = 0; i < tools_len; i++) {
        hash = mix_text(hash, tools[i].name);
        hash = mix_text(hash, tools[i].description);
        hash = mix_text(hash, tools[i].schema);
    }
    return not_zero(hash);
}

/* ---- Comparison ---- */

static pal_str break_text(const pal_plan_item *item, pal_arena *arena)
{
    switch (item->kind) {
    case PAL_PLAN_ITEM_SYSTEM:
        return item->seq ? PAL_TEXT("the session's system message changed")
                         : PAL_TEXT("the system text changed");
    case PAL_PLAN_ITEM_TOOLS:
        return PAL_TEXT("the tools changed");
    case PAL_PLAN_ITEM_SUMMARY:
        return PAL_TEXT("the summary is a different one");
    case PAL_PLAN_ITEM_NOTICE:
        return PAL_TEXT("older messages were left out");
    case PAL_PLAN_ITEM_NOTES:
    case PAL_PLAN_ITEM_NOTE:
        return PAL_TEXT("the notes changed");
    default:
        break;
    }
    if (item->seq == 0)
        return PAL_TEXT("a message that the plan created is different");
    return pal_text_format(arena, "message %" PRIu64 " %s", item->seq,
            item->disposition == PAL_DISPOSITION_SENT_PRUNED ? "is shown without old content"
                                                 : "was not at this place, or differs");
}

/* The last request may contain entries of 0, for items that were not sent. */
static size_t next_sent(const pal_context_last *last, size_t at)
{
    while (at < last->len && last->hashes[at] == 0)
        at++;
    return at;
}

static void compare_hashes(pal_plan *plan, const pal_context_last *last, pal_arena *arena)
{
    size_t at = next_sent(last, 0);
    const pal_plan_item *newest = NULL;
    for (size_t i = 0; i < plan->items_len; i++) {
        const pal_plan_item *item = &plan->items[i];
        if (item->hash == 0)
            continue;
        if (at == last->len)
            return;
        if (item->hash != last->hashes[at]) {
            plan->prefix_break = break_text(item, arena);
            return;
        }
        newest = item;
        plan->prefix_items++;
        plan->prefix_tokens += item->tokens;
        at = next_sent(last, at + 1);
    }
    if (at < last->len)
        plan->prefix_break = pal_text_format(arena,
                "the last request continued where this one ends, after message %" PRIu64,
                newest ? newest->seq : 0);
}

/* ---- The stored form of a request ---- */

/* Returns the hash of all items up to the last one that was added. */
static uint16_t chain_hash(uint64_t chain)
{
    return (uint16_t)(chain ^ chain >> 16 ^ chain >> 32 ^ chain >> 48);
}

static uint64_t count_sent(const pal_plan *plan)
{
    uint64_t count = 0;
    for (size_t i = 0; i < plan->items_len; i++)
        count += plan->items[i].hash != 0;
    return count;
}

pal_status pal_plan_sent(
        const pal_plan *plan, pal_arena *arena, const pal_sent **out_sent, pal_error *err)
{
    pal_sent *sent = pal_arena_alloc(arena, sizeof(*sent));
    uint16_t *hashes = pal_arena_array(arena, PAL_SENT_HASHES_MAX, sizeof(*hashes));
    uint64_t chain = SEED, at = 0, places[PAL_SENT_HASHES_MAX];
    if (!sent || !hashes)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    *sent = (pal_sent){.tokens = plan->tokens_plain,
            .items = count_sent(plan),
            .first_seq = plan->first_seq,
            .hashes = hashes};
    size_t places_len = pal_sent_places(sent->items, places);
    for (size_t i = 0; i < plan->items_len; i++) {
        if (plan->items[i].hash == 0)
            continue;
        chain = mix(chain, plan->items[i].hash);
        if (sent->hashes_len < places_len && ++at == places[sent->hashes_len])
            hashes[sent->hashes_len++] = chain_hash(chain);
    }
    *out_sent = sent;
    return PAL_OK;
}

/* Between two places with a hash, only the first is known to be equal. So the reported prefix
 * may be too short, by an eighth at most. */
static void compare_places(pal_plan *plan, const pal_sent *sent, pal_arena *arena)
{
    uint64_t chain = SEED, at = 0, tokens = 0, places[PAL_SENT_HASHES_MAX];
    size_t number = 0, places_len = pal_sent_places(sent->items, places);
    const pal_plan_item *newest = NULL, *next = NULL;
    for (size_t i = 0;
            i < plan->items_len && number < sent->hashes_len && number < places_len; i++) {
        const pal_plan_item *item = &plan->items[i];
        if (item->hash == 0)
            continue;
        next = next ? next : item; /* the first one after the prefix */
        chain = mix(chain, item->hash);
        tokens += item->tokens;
        if (++at < places[number])
            continue;
        if (chain_hash(chain) != sent->hashes[number]) {
            plan->prefix_break = next == item ? break_text(item, arena)
                                              : pal_text_format(arena,
                                                        "a message from %" PRIu64 " to %" PRIu64
                                                        " differs, or is shown without old content",
                                                        next->seq, item->seq);
            return;
        }
        plan->prefix_items = at;
        plan->prefix_tokens = tokens;
        newest = item;
        next = NULL;
        number++;
    }
    if (number < sent->hashes_len)
        plan->prefix_break = pal_text_format(arena,
                "the last request continued where this one ends, after message %" PRIu64,
                newest ? newest->seq : 0);
}

void pal_prefix_compare(pal_plan *plan, const pal_context_last *last, pal_arena *arena)
{
    if (last->sent)
        compare_places(plan, last->sent, arena);
    else
        compare_hashes(plan, last, arena);
}
