/* provider_slots.c - the slots of a llama.cpp server. A slot holds the cache of one conversation,
 * and a request can name its slot. Without a name, the server takes the slot whose content is
 * similar: conversations with the same instructions then overwrite each other.
 *
 * A conversation keeps its slot until another one needs it. A new conversation takes the first free
 * slot in an order that depends on its id, so that it finds its slot again after a restart if
 * possible. If all slots are taken, it takes the one that was not used for the longest time and is
 * idle. If none is idle, the server chooses.
 *
 * GET /props says how many slots there are. A server would let a request for a missing slot wait
 * forever, so the number is read again from time to time. On the loop. */
#include "base/clock.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "palaver/limits.h"
#include "provider/provider_kind.h"

#define REFRESH_MS ((int64_t)60000)
#define PROPS_MS 5000
#define PROPS_BYTES_MAX ((size_t)4 << 20)

typedef struct slot {
    char id[2 * PAL_AFFINITY_ID_BYTES + 1]; /* the conversation; empty: the slot is free */
    uint64_t used;                          /* when it was last used, as a count of calls */
    uint32_t running;
} slot;

struct pal_slots {
    slot *items;
    size_t len;
    uint64_t calls;
    int64_t refreshed_ms;
    pal_http_call *query; /* NULL: none runs */
    pal_buf body;
};

/* ---- The number of slots ---- */

static void resize(pal_slots *slots, size_t len)
{
    slot *items = len == slots->len ? NULL : pal_calloc(len, sizeof *items);
    if (!items)
        return;
    memcpy(items, slots->items ? slots->items : items,
            (len < slots->len ? len : slots->len) * sizeof *items);
    pal_free(slots->items);
    slots->items = items;
    slots->len = len;
}

static void read_props(pal_provider *provider)
{
    pal_slots *slots = provider->slots;
    pal_json props;
    uint64_t len = 0;
    pal_arena *arena = pal_arena_new(0);
    if (arena && pal_json_parse(arena, pal_buf_str(&slots->body), NULL, &props, NULL) == PAL_OK &&
            pal_json_u64(pal_json_find(props, "total_slots"), &len) && len > 0 &&
            len <= PAL_PROVIDER_SLOTS_MAX)
        resize(slots, (size_t)len);
    pal_arena_free(arena);
}

static void on_body(void *user, pal_str bytes)
{
    const pal_provider *provider = user;
    pal_buf_append_str(&provider->slots->body, bytes);
}

static void on_end(void *user, const pal_http_end *end)
{
    pal_provider *provider = user;
    pal_slots *slots = provider->slots;
    slots->query = NULL;
    if (end->status == PAL_OK && end->code == 200 && !slots->body.failure)
        read_props(provider);
    pal_buf_done(&slots->body);
}

/* The path is next to the API: "http://host:8080/v1" has "http://host:8080/props". */
static void query(pal_provider *provider)
{
    static const pal_http_events events = {.body = on_body, .end = on_end};
    pal_slots *slots = provider->slots;
    pal_str base = provider->url;
    pal_buf url;
    if (pal_text_ends(base, "/v1"))
        base.len -= 3;
    pal_buf_init(&url, base.len + 16);
    pal_buf_append_str(&url, base);
    pal_buf_append_text(&url, "/props");
    pal_buf_init(&slots->body, PROPS_BYTES_MAX);
    const pal_http_request request = {.method = "GET",
            .url = pal_buf_str(&url),
            .headers = provider->headers,
            .headers_len = provider->headers_len,
            .connect_ms = provider->connect_ms,
            .total_ms = PROPS_MS,
            .response_bytes_max = PROPS_BYTES_MAX};
    if (url.failure ||
            pal_http_start(provider->http, &request, &events, provider, &slots->query, NULL) !=
                    PAL_OK)
        slots->query = NULL;
    pal_buf_done(&url);
}

void pal_slots_refresh(pal_provider *provider)
{
    int64_t now_ms = pal_clock_monotonic_ms();
    if (!provider->slots)
        provider->slots = pal_calloc(1, sizeof *provider->slots);
    pal_slots *slots = provider->slots;
    if (!slots || slots->query ||
            (slots->refreshed_ms && now_ms - slots->refreshed_ms < REFRESH_MS))
        return;
    slots->refreshed_ms = now_ms ? now_ms : 1;
    query(provider);
}

void pal_slots_close(pal_provider *provider)
{
    pal_slots *slots = provider->slots;
    if (!slots)
        return;
    if (slots->query)
        pal_http_cancel(slots->query);
    pal_buf_done(&slots->body);
    pal_free(slots->items);
    pal_free(slots);
}

/* ---- Choosing a slot ---- */

/* A hash of the conversation and the slot (FNV-1a). */
static uint64_t weight(pal_str id, size_t index)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < id.len; i++)
        hash = (hash ^ (unsigned char)id.data[i]) * 1099511628211u;
    hash = (hash ^ index) * 1099511628211u;
    return hash ^ (hash >> 29);
}

static slot *find_own(const pal_slots *slots, pal_str id)
{
    for (size_t i = 0; i < slots->len; i++) {
        if (pal_str_is(id, slots->items[i].id))
            return &slots->items[i];
    }
    return NULL;
}

/* Returns the free slot that comes first for this conversation. */
static slot *find_free(const pal_slots *slots, pal_str id)
{
    slot *found = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < slots->len; i++) {
        if (slots->items[i].id[0] || (found && weight(id, i) <= most))
            continue;
        found = &slots->items[i];
        most = weight(id, i);
    }
    return found;
}

static slot *find_oldest(const pal_slots *slots)
{
    slot *found = NULL;
    for (size_t i = 0; i < slots->len; i++) {
        slot *each = &slots->items[i];
        if (!each->running && (!found || each->used < found->used))
            found = each;
    }
    return found;
}

uint32_t pal_slots_take(pal_provider *provider, pal_str conversation)
{
    if (provider->affinity != PAL_AFFINITY_LLAMA_CPP)
        return 0;
    pal_slots_refresh(provider);
    pal_slots *slots = provider->slots;
    if (!slots || conversation.len == 0 || conversation.len >= sizeof slots->items->id)
        return 0;
    slot *s = find_own(slots, conversation);
    if (!s)
        s = find_free(slots, conversation);
    if (!s)
        s = find_oldest(slots);
    if (!s)
        return 0;
    memcpy(s->id, conversation.data, conversation.len);
    s->id[conversation.len] = '\0';
    s->used = ++slots->calls;
    s->running++;
    return (uint32_t)(s - slots->items) + 1;
}

void pal_slots_release(const pal_provider *provider, uint32_t number)
{
    const pal_slots *slots = provider->slots;
    if (number && slots && number <= slots->len && slots->items[number - 1].running)
        slots->items[number - 1].running--;
}
