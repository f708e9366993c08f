/* cache_tail.c - the newest rows of a session.
 *
 * A reader takes a reference to the tail and the number of its rows while it holds the lock of the
 * shard, and then reads the rows without the lock. Rows never change. New rows are written behind
 * those that readers know, or into another tail that shares the old rows. */
#include <string.h>

#include "base/memory.h"
#include "store/cache/cache_internal.h"

#define ROOM_MIN 16

/* ---- Rows ---- */

static pal_str copy_text(char **at, pal_str text)
{
    pal_str copy = pal_str_make(*at, text.len);

    if (text.len > 0)
        memcpy(*at, text.data, text.len);
    *at += text.len;
    return copy;
}

pal_cache_row *pal_cache_row_new(const pal_row *row)
{
    size_t bytes = sizeof(pal_cache_row) + row->client_id.len + row->body.len;
    pal_cache_row *self = pal_malloc(bytes);
    char *at;

    if (!self)
        return NULL;
    at = (char *)(self + 1);
    atomic_init(&self->refs, 1);
    self->bytes = bytes;
    self->row = *row;
    self->row.is_named = false;
    self->row.client_id = copy_text(&at, row->client_id);
    self->row.body = copy_text(&at, row->body);
    return self;
}

void pal_cache_row_release(pal_cache_row *row)
{
    if (row && atomic_fetch_sub_explicit(&row->refs, 1, memory_order_acq_rel) == 1)
        pal_free(row);
}

/* ---- Tails ---- */

pal_cache_tail *pal_cache_tail_new(pal_cache_row *const *rows, size_t len)
{
    size_t cap = len < ROOM_MIN ? 2 * ROOM_MIN : len + len / 2;
    pal_cache_tail *tail = pal_malloc(sizeof(*tail) + cap * sizeof(*tail->rows));

    if (!tail)
        return NULL;
    atomic_init(&tail->refs, 1);
    tail->len = len;
    tail->cap = cap;
    tail->bytes = sizeof(*tail) + cap * sizeof(*tail->rows);
    for (size_t i = 0; i < len; i++) {
        tail->rows[i] = rows[i];
        tail->bytes += rows[i]->bytes;
    }
    return tail;
}

pal_cache_tail *pal_cache_tail_keep(pal_cache_tail *tail)
{
    atomic_fetch_add_explicit(&tail->refs, 1, memory_order_relaxed);
    return tail;
}

void pal_cache_tail_release(pal_cache_tail *tail)
{
    if (!tail || atomic_fetch_sub_explicit(&tail->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < tail->len; i++)
        pal_cache_row_release(tail->rows[i]);
    pal_free(tail);
}

/* Replaces the tail by one with room, and without its first `dropped` rows. */
static bool renew(pal_cache_tail **tail, size_t dropped)
{
    pal_cache_tail *old = *tail;
    pal_cache_tail *new_tail = pal_cache_tail_new(old->rows + dropped, old->len - dropped);

    if (!new_tail)
        return false;
    for (size_t i = 0; i < new_tail->len; i++)
        atomic_fetch_add_explicit(&new_tail->rows[i]->refs, 1, memory_order_relaxed);
    pal_cache_tail_release(old);
    *tail = new_tail;
    return true;
}

bool pal_cache_tail_add(pal_cache_tail **tail, pal_cache_row *row, size_t bytes_max)
{
    pal_cache_tail *self = *tail;
    bool is_too_long = self->bytes + row->bytes > bytes_max;

    if ((is_too_long || self->len == self->cap) && !renew(tail, is_too_long ? self->len / 2 : 0))
        return false;
    self = *tail;
    self->rows[self->len++] = row;
    self->bytes += row->bytes;
    return true;
}

uint64_t pal_cache_tail_first(const pal_cache_tail *tail)
{
    return tail->rows[0]->row.seq;
}

uint64_t pal_cache_tail_last(const pal_cache_tail *tail)
{
    return tail->rows[tail->len - 1]->row.seq;
}
