/* cache_entry.c - one session: its record and its marks. The caller holds the lock of the shard.
 *
 * Memory that is missing never fails a read or a commit: the entry then knows less. */
#include <string.h>

#include "base/memory.h"
#include "store/cache/cache_internal.h"
#include "store/view/view_marks.h"

static void drop_list(pal_cache_marks *marks)
{
    pal_free(marks->items);
    *marks = (pal_cache_marks){0};
}

void pal_cache_entry_free(pal_cache_entry *entry)
{
    drop_list(&entry->hiding);
    drop_list(&entry->brief);
    for (size_t i = 0; i < entry->bodies_len; i++)
        pal_free((void *)entry->bodies[i].body.data);
    pal_cache_tail_release(entry->tail);
    pal_free(entry->texts);
    pal_free(entry);
}

size_t pal_cache_entry_size(const pal_cache_entry *entry)
{
    size_t size = sizeof(*entry) + entry->key_len + entry->texts_size;

    size += (entry->hiding.cap + entry->brief.cap) * sizeof(pal_mark);
    for (size_t i = 0; i < entry->bodies_len; i++)
        size += entry->bodies[i].body.len;
    return size + (entry->tail ? entry->tail->bytes : 0);
}

/* ---- The record ---- */

#define TEXTS 9

static void texts_of(pal_session *session, pal_str *out_texts[TEXTS])
{
    out_texts[0] = &session->tenant;
    out_texts[1] = &session->key;
    out_texts[2] = &session->alias_apart;
    out_texts[3] = &session->title;
    out_texts[4] = &session->project;
    out_texts[5] = &session->agent;
    out_texts[6] = &session->scope;
    out_texts[7] = &session->metadata;
    out_texts[8] = &session->extra;
}

static size_t texts_size(pal_session session)
{
    size_t size = session.aliases_len * sizeof(pal_str);
    pal_str *texts[TEXTS];

    texts_of(&session, texts);
    for (size_t i = 0; i < TEXTS; i++)
        size += texts[i]->len + 1;
    for (size_t i = 0; i < session.aliases_len; i++)
        size += session.aliases[i].len + 1;
    return size;
}

/* Like pal_arena_copy(), the copy ends with a NUL. */
static void move_text(pal_str *text, char **at)
{
    if (text->len > 0)
        memcpy(*at, text->data, text->len);
    (*at)[text->len] = '\0';
    text->data = *at;
    *at += text->len + 1;
}

/* Copies all texts of the session to `at`, and lets the session point to the copies. */
static void move_texts(pal_session *session, char *at)
{
    const pal_str *aliases = session->aliases;
    pal_str *texts[TEXTS];

    session->aliases = session->aliases_len > 0 ? (pal_str *)at : NULL;
    at += session->aliases_len * sizeof(pal_str);
    for (size_t i = 0; i < session->aliases_len; i++) {
        session->aliases[i] = aliases[i];
        move_text(&session->aliases[i], &at);
    }
    texts_of(session, texts);
    for (size_t i = 0; i < TEXTS; i++)
        move_text(texts[i], &at);
}

bool pal_cache_entry_set_session(pal_cache_entry *entry, const pal_session_row *row)
{
    size_t size = texts_size(row->session);
    char *texts = pal_malloc(size);

    pal_free(entry->texts);
    entry->texts = texts;
    entry->texts_size = texts ? size : 0;
    entry->has_session = texts != NULL;
    if (!texts)
        return false;
    entry->session = *row;
    move_texts(&entry->session.session, texts);
    entry->session.handle.tenant = entry->session.session.tenant;
    return true;
}

bool pal_cache_entry_get_session(
        const pal_cache_entry *entry, pal_arena *arena, pal_session_row *out_row)
{
    char *texts = pal_arena_alloc(arena, entry->texts_size);

    if (!texts)
        return false;
    *out_row = entry->session;
    move_texts(&out_row->session, texts);
    out_row->handle.tenant = out_row->session.tenant;
    return true;
}

/* ---- Marks ---- */

static void add_to_list(pal_cache_marks *marks, const pal_mark *mark)
{
    if (!marks->is_known)
        return;
    if (!pal_reserve(&marks->items, &marks->cap, marks->len + 1, sizeof(*marks->items))) {
        drop_list(marks);
        return;
    }
    marks->items[marks->len] = *mark;
    marks->items[marks->len++].body = pal_str_make(NULL, 0);
}

void pal_cache_entry_set_marks(pal_cache_marks *marks, const pal_mark *items, size_t len)
{
    drop_list(marks);
    marks->is_known = true;
    for (size_t i = 0; i < len; i++)
        add_to_list(marks, &items[i]);
}

void pal_cache_entry_set_body(pal_cache_entry *entry, const pal_mark *mark)
{
    char *body = pal_malloc(mark->body.len + 1);
    pal_mark *place = &entry->bodies[entry->bodies_next];

    if (!body)
        return;
    if (entry->bodies_len == PAL_CACHE_BODIES)
        pal_free((void *)place->body.data);
    else
        entry->bodies_len++;
    if (mark->body.len > 0)
        memcpy(body, mark->body.data, mark->body.len);
    *place = *mark;
    place->body = pal_str_make(body, mark->body.len);
    entry->bodies_next = (entry->bodies_next + 1) % PAL_CACHE_BODIES;
}

void pal_cache_entry_add_mark(pal_cache_entry *entry, const pal_mark *mark)
{
    pal_mark stored = {.number = mark->number,
            .kind = mark->kind,
            .seq = mark->seq,
            .through_seq = mark->through_seq,
            .target = mark->target,
            .created_at = mark->created_at};

    add_to_list(&entry->brief, &stored);
    if (pal_mark_bears_on_view(stored.kind))
        add_to_list(&entry->hiding, &stored);
}

static bool get_list(const pal_cache_marks *marks, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len)
{
    pal_mark *copies = NULL;
    size_t first = 0, end = marks->len;

    if (!marks->is_known)
        return false;
    while (first < end && marks->items[first].number < scan->first)
        first++;
    while (end > first && marks->items[end - 1].number > scan->last)
        end--;
    if (end > first) {
        copies = pal_arena_array(arena, end - first, sizeof(*copies));
        if (!copies)
            return false;
        memcpy(copies, marks->items + first, (end - first) * sizeof(*copies));
    }
    *out_marks = copies;
    *out_len = end - first;
    return true;
}

static bool get_body(const pal_cache_entry *entry, uint64_t number, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len)
{
    for (size_t i = 0; i < entry->bodies_len; i++) {
        pal_mark *copy;

        if (entry->bodies[i].number != number)
            continue;
        copy = pal_arena_alloc(arena, sizeof(*copy));
        if (!copy)
            return false;
        *copy = entry->bodies[i];
        copy->body = pal_arena_copy(arena, copy->body);
        if (pal_arena_failure(arena))
            return false;
        *out_marks = copy;
        *out_len = 1;
        return true;
    }
    return false;
}

bool pal_cache_entry_get_marks(const pal_cache_entry *entry, const pal_mark_scan *scan,
        pal_arena *arena, pal_mark **out_marks, size_t *out_len)
{
    if (scan->wanted == PAL_MARKS_WHOLE)
        return scan->first == scan->last &&
                get_body(entry, scan->first, arena, out_marks, out_len);
    return get_list(scan->wanted == PAL_MARKS_HIDING ? &entry->hiding : &entry->brief, scan, arena,
            out_marks, out_len);
}
