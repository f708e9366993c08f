/* api_openai_socket_items.c - keeps the items of responses in memory. Each entry has a text with
 * the items of its input and one with those of its output, and refers to the entry before it.
 * Entries with the same root are one conversation with its branches, which is dropped at once. */
#include "server/api/openai/socket/api_openai_socket_items.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"

#define ITEMS_BYTES_MAX (32u << 20)      /* kept items of one connection */
#define ITEMS_ALL_BYTES_MAX (512u << 20) /* kept items of all connections of the process */
#define ID_LEN_MAX 256

struct pal_socket_entry {
    pal_socket_entry *next;     /* in the list */
    pal_socket_entry *previous; /* the response that it continues; NULL: none, or not kept yet */
    pal_socket_entry *root;
    uint64_t used; /* only in a root: the number of the newest response of its conversation */
    char id[ID_LEN_MAX + 1];        /* id of the response; empty: it is not kept, or forgotten */
    char continued[ID_LEN_MAX + 1]; /* the id of `previous`; may be empty */
    pal_buf input;                  /* items with commas between them */
    pal_buf output;
    bool has_plain_reasoning; /* the output has reasoning without its encrypted content */
};

struct pal_socket_items {
    pthread_mutex_t lock;
    pal_socket_entry *entries; /* newest first */
    size_t bytes;
    uint64_t uses; /* responses that were kept so far */
};

static atomic_size_t all_bytes; /* bytes of the items of all connections */

pal_socket_items *pal_socket_items_new(void)
{
    pal_socket_items *items = pal_calloc(1, sizeof *items);
    if (items)
        pthread_mutex_init(&items->lock, NULL);
    return items;
}

void pal_socket_items_free(pal_socket_items *items)
{
    if (!items)
        return;
    atomic_fetch_sub(&all_bytes, items->bytes);
    while (items->entries) {
        pal_socket_entry *next = items->entries->next;
        pal_socket_entry_free(items->entries);
        items->entries = next;
    }
    pthread_mutex_destroy(&items->lock);
    pal_free(items);
}

/* ---- Entries ---- */

static bool copy_id(char out[ID_LEN_MAX + 1], pal_str id)
{
    if (id.len > ID_LEN_MAX)
        return false;
    memcpy(out, id.data ? id.data : "", id.len);
    out[id.len] = '\0';
    return true;
}

/* Appends the elements of an array. */
static void append_items(pal_buf *out, pal_str array)
{
    pal_str inside = pal_text_trim(pal_str_make(array.data + 1, array.len - 2));
    if (inside.len == 0)
        return;
    pal_buf_append_text(out, out->len ? "," : "");
    pal_buf_append_str(out, inside);
}

/* A text is a message of the user. */
static void append_input(pal_buf *out, pal_json input)
{
    if (pal_json_type_of(input) == PAL_JSON_ARRAY) {
        append_items(out, pal_json_raw(input));
    } else if (pal_json_type_of(input) == PAL_JSON_STRING) {
        pal_buf_append_text(out, "{\"type\":\"message\",\"role\":\"user\",\"content\":");
        pal_buf_append_str(out, pal_json_raw(input));
        pal_buf_append_text(out, "}");
    }
}

pal_socket_entry *pal_socket_entry_new(pal_str previous, pal_json input)
{
    pal_socket_entry *entry = pal_calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    pal_buf_init(&entry->input, ITEMS_BYTES_MAX);
    pal_buf_init(&entry->output, ITEMS_BYTES_MAX);
    append_input(&entry->input, input);
    if (copy_id(entry->continued, previous) && entry->input.failure != PAL_NO_MEMORY)
        return entry;
    pal_socket_entry_free(entry);
    return NULL;
}

void pal_socket_entry_free(pal_socket_entry *entry)
{
    if (!entry)
        return;
    pal_buf_done(&entry->input);
    pal_buf_done(&entry->output);
    pal_free(entry);
}

static size_t bytes_of(const pal_socket_entry *entry)
{
    return sizeof *entry + entry->input.cap + entry->output.cap;
}

/* ---- The list; the lock must be held ---- */

static pal_socket_entry *find(const pal_socket_items *items, const char *id)
{
    for (pal_socket_entry *entry = items->entries; id[0] && entry; entry = entry->next) {
        if (strcmp(entry->id, id) == 0)
            return entry;
    }
    return NULL;
}

/* Drops a conversation with all its branches. */
static void drop(pal_socket_items *items, const pal_socket_entry *root)
{
    pal_socket_entry **at = &items->entries;
    while (*at) {
        pal_socket_entry *entry = *at;
        if (entry->root != root) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        items->bytes -= bytes_of(entry);
        atomic_fetch_sub(&all_bytes, bytes_of(entry));
        pal_socket_entry_free(entry);
    }
}

static void drop_oldest(pal_socket_items *items)
{
    const pal_socket_entry *oldest = items->entries->root;
    for (const pal_socket_entry *entry = items->entries; entry; entry = entry->next) {
        if (entry->root->used < oldest->used)
            oldest = entry->root;
    }
    drop(items, oldest);
}

/* Keeps the entry, and drops the oldest ones of the connection if there are too many bytes. If the
 * response that it continues was dropped meanwhile, the entry is freed. */
static void keep(pal_socket_items *items, pal_socket_entry *entry)
{
    entry->previous = find(items, entry->continued);
    if (entry->continued[0] && !entry->previous) {
        pal_socket_entry_free(entry);
        return;
    }
    entry->root = entry->previous ? entry->previous->root : entry;
    entry->root->used = ++items->uses;
    entry->next = items->entries;
    items->entries = entry;
    items->bytes += bytes_of(entry);
    atomic_fetch_add(&all_bytes, bytes_of(entry));
    while (items->entries &&
            (items->bytes > ITEMS_BYTES_MAX || atomic_load(&all_bytes) > ITEMS_ALL_BYTES_MAX))
        drop_oldest(items);
}

void pal_socket_items_forget(pal_socket_items *items, pal_str response)
{
    char id[ID_LEN_MAX + 1];
    if (!copy_id(id, response))
        return;
    pthread_mutex_lock(&items->lock);
    pal_socket_entry *entry = find(items, id);
    if (entry)
        entry->id[0] = '\0'; /* responses that continue it are still kept */
    pthread_mutex_unlock(&items->lock);
}

/* ---- Histories ---- */

static void append_text(pal_buf *out, pal_str items)
{
    if (items.len == 0)
        return;
    pal_buf_append_text(out, out->len ? "," : "");
    pal_buf_append_str(out, items);
}

static bool is_plain_reasoning(pal_json item)
{
    return pal_json_string_is(pal_json_find(item, "type"), "reasoning") &&
            pal_json_type_of(pal_json_find(item, "encrypted_content")) != PAL_JSON_STRING;
}

/* Appends the output without reasoning that a service could not read again. */
static pal_status append_replayed(pal_buf *out, const pal_buf *output, pal_error *err)
{
    pal_json list, item;
    pal_buf array;
    pal_arena *arena = pal_arena_new(0);
    pal_buf_init(&array, output->len + 2);
    pal_buf_append_text(&array, "[");
    pal_buf_append_str(&array, pal_buf_str(output));
    pal_buf_append_text(&array, "]");
    pal_status status = arena && !array.failure
            ? pal_json_parse(arena, pal_buf_str(&array), NULL, &list, err)
            : pal_no_memory(err);
    if (status == PAL_OK) {
        for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &item);) {
            if (!is_plain_reasoning(item))
                append_text(out, pal_json_raw(item));
        }
    }
    pal_buf_done(&array);
    pal_arena_free(arena);
    return status;
}

/* Returns the kept entries up to `last` in order. NULL: out of memory. */
static const pal_socket_entry **list_chain(const pal_socket_entry *last, size_t *out_len)
{
    size_t len = 0;
    for (const pal_socket_entry *entry = last; entry; entry = entry->previous)
        len++;
    const pal_socket_entry **list = pal_calloc(len + 1, sizeof *list);
    *out_len = len;
    for (const pal_socket_entry *entry = last; list && entry; entry = entry->previous)
        list[--len] = entry;
    return list;
}

static pal_status put_history(const pal_socket_items *items, const pal_socket_entry *entry,
        bool is_replayed, pal_buf *out, pal_error *err)
{
    const pal_socket_entry *last = find(items, entry->continued);
    if (entry->continued[0] && !last)
        return pal_error_set(
                err, PAL_NOT_FOUND, "response '%s' is no longer in memory", entry->continued);
    size_t len;
    const pal_socket_entry **list = list_chain(last, &len);
    pal_status status = list ? PAL_OK : pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        append_text(out, pal_buf_str(&list[i]->input));
        if (is_replayed && list[i]->has_plain_reasoning)
            status = append_replayed(out, &list[i]->output, err);
        else
            append_text(out, pal_buf_str(&list[i]->output));
    }
    pal_free(list);
    append_text(out, pal_buf_str(&entry->input));
    return status;
}

pal_status pal_socket_items_history(pal_socket_items *items, const pal_socket_entry *entry,
        bool is_replayed, pal_buf *out, pal_error *err)
{
    pthread_mutex_lock(&items->lock);
    pal_status status = put_history(items, entry, is_replayed, out, err);
    pthread_mutex_unlock(&items->lock);
    return status;
}

/* ---- Events ---- */

static void add_item(pal_socket_entry *entry, pal_json item)
{
    if (pal_json_type_of(item) != PAL_JSON_OBJECT)
        return;
    append_text(&entry->output, pal_json_raw(item));
    entry->has_plain_reasoning = entry->has_plain_reasoning || is_plain_reasoning(item);
}

/* The last event contains the output too. It is used if the service did not send the items one by
 * one. Returns whether the entry can be kept. */
static bool complete(pal_socket_entry *entry, pal_json response, pal_arena *arena)
{
    pal_json item;
    if (entry->output.len == 0) {
        for (pal_json_iter iter = pal_json_each(pal_json_find(response, "output"));
                pal_json_next(&iter, NULL, &item);)
            add_item(entry, item);
    }
    return copy_id(entry->id, pal_member_string(response, "id", arena)) && entry->id[0] &&
            !entry->input.failure && !entry->output.failure;
}

/* Most events are deltas, which need not be parsed. */
static bool has_news(pal_str event)
{
    static const char *const types[] = {
            "response.output_item.done", "response.completed", "response.incomplete"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (memmem(event.data, event.len, types[i], strlen(types[i])))
            return true;
    }
    return false;
}

bool pal_socket_items_see(pal_socket_items *items, pal_socket_entry *entry, pal_str event)
{
    pal_json value;
    bool is_kept = false;
    pal_arena *arena = has_news(event) ? pal_arena_new(0) : NULL;
    if (!arena)
        return false;
    if (pal_json_parse(arena, event, NULL, &value, NULL) == PAL_OK) {
        pal_json type = pal_json_find(value, "type");
        if (pal_json_string_is(type, "response.output_item.done"))
            add_item(entry, pal_json_find(value, "item"));
        else if (pal_json_string_is(type, "response.completed") ||
                pal_json_string_is(type, "response.incomplete"))
            is_kept = complete(entry, pal_json_find(value, "response"), arena);
    }
    pal_arena_free(arena);
    if (!is_kept)
        return false;
    pthread_mutex_lock(&items->lock);
    keep(items, entry);
    pthread_mutex_unlock(&items->lock);
    return true;
}
