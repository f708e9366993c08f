/* cache_read.c - answers reads, and keeps what the backend returned. */
#include "base/memory.h"
#include "store/cache/cache_internal.h"

/* What is not in memory is counted when it is read from the backend. */
static void count(const pal_engine *engine, bool is_hit)
{
    pal_cache *cache = engine->cache;

    if (!cache || (engine->is_only_memory && !is_hit))
        return;
    atomic_fetch_add_explicit(is_hit ? &cache->hits : &cache->misses, 1, memory_order_relaxed);
}

/* ---- Sessions ---- */

static pal_status find_stored(pal_engine *engine, pal_str tenant, pal_id id, pal_arena *arena,
        pal_session_row *out_row, pal_error *err)
{
    pal_str name = pal_str_make((const char *)id.bytes, sizeof(id.bytes));

    count(engine, false);
    if (engine->is_only_memory)
        return pal_cache_missing(err);
    return engine->backend->session_find(
            engine, tenant, PAL_SESSION_BY_ID, name, arena, out_row, err);
}

/* Returns whether the session was copied to *out_row. Otherwise *out_keep says whether it should be
 * kept when it was read. */
static bool find_kept(const pal_engine *engine, pal_str key, pal_id id, const pal_cache_note *note,
        pal_arena *arena, pal_session_row *out_row, bool *out_keep)
{
    pal_cache *cache = engine->cache;
    pal_cache_shard *shard = pal_cache_shard_of(cache, id);
    pal_cache_entry *entry;
    bool found = false;

    pthread_mutex_lock(&shard->lock);
    entry = pal_cache_shard_find(shard, key);
    *out_keep = entry || (!engine->is_only_memory &&
                                 pal_cache_shard_touch(shard, id, cache->shard_bytes_max));
    if (entry && !pal_cache_entry_is_valid(entry, note))
        entry = NULL;
    if (entry && pal_cache_session_is_valid(entry, note))
        found = pal_cache_entry_get_session(entry, arena, out_row);
    if (found)
        pal_cache_shard_use(shard, entry);
    pthread_mutex_unlock(&shard->lock);
    return found;
}

static void keep_session(pal_cache *cache, pal_str key, const pal_cache_note *note,
        const pal_session_row *row)
{
    pal_id id = row->session.id;
    pal_cache_shard *shard = pal_cache_shard_of(cache, id);
    pal_cache_entry *entry;

    pthread_mutex_lock(&shard->lock);
    entry = pal_cache_shard_find(shard, key);
    if (pal_cache_note_holds(cache, id, note)) {
        if (entry && !pal_cache_entry_is_valid(entry, note)) {
            pal_cache_shard_drop(shard, entry);
            entry = NULL;
        }
        if (!entry)
            entry = pal_cache_shard_add(shard, key);
        if (entry) {
            entry->outside = note->outside;
            entry->all = note->all;
            entry->names = note->names;
            (void)pal_cache_entry_set_session(entry, row);
            pal_cache_shard_fit(shard, entry, cache->shard_bytes_max);
        }
    }
    pthread_mutex_unlock(&shard->lock);
}

pal_status pal_cache_session_find(pal_engine *engine, pal_str tenant, pal_id id, pal_arena *arena,
        pal_session_row *out_row, pal_error *err)
{
    pal_cache *cache = engine->cache;
    char room[PAL_CACHE_KEY_MAX];
    pal_str key;
    pal_cache_note note;
    bool has_note, keep = false;
    pal_status status;

    if (!cache || tenant.len > PAL_TENANT_LEN_MAX)
        return find_stored(engine, tenant, id, arena, out_row, err);
    key = pal_cache_key(room, tenant, id);
    has_note = pal_cache_note_take(cache, id, &note);
    if (has_note && find_kept(engine, key, id, &note, arena, out_row, &keep)) {
        count(engine, true);
        return PAL_OK;
    }
    status = find_stored(engine, tenant, id, arena, out_row, err);
    if (status == PAL_OK && keep)
        keep_session(cache, key, &note, out_row);
    return status;
}

/* ---- Entries of a handle ---- */

/* A read of something that belongs to a session. */
typedef struct reading {
    pal_cache *cache; /* NULL: the entry of the session cannot be used */
    pal_cache_shard *shard;
    pal_id id;
    pal_cache_note note;
    pal_str key;
    char room[PAL_CACHE_KEY_MAX];
} reading;

static void reading_begin(reading *self, pal_engine *engine, const pal_handle *handle)
{
    self->cache = NULL;
    if (!engine->cache || pal_id_is_none(handle->id) || handle->tenant.len == 0 ||
            handle->tenant.len > PAL_TENANT_LEN_MAX || handle->ahead ||
            !pal_cache_note_take(engine->cache, handle->id, &self->note))
        return;
    self->cache = engine->cache;
    self->id = handle->id;
    self->shard = pal_cache_shard_of(self->cache, self->id);
    self->key = pal_cache_key(self->room, handle->tenant, self->id);
}

/* Finds the entry. If it is found, the shard is locked. */
static pal_cache_entry *reading_lock(const reading *self)
{
    pal_cache_entry *entry;

    if (!self->cache)
        return NULL;
    pthread_mutex_lock(&self->shard->lock);
    entry = pal_cache_shard_find(self->shard, self->key);
    if (entry && pal_cache_entry_is_valid(entry, &self->note) &&
            pal_cache_session_is_valid(entry, &self->note))
        return entry;
    pthread_mutex_unlock(&self->shard->lock);
    return NULL;
}

/* The same at the end of the read, to change the entry. */
static pal_cache_entry *reading_lock_again(const reading *self)
{
    pal_cache_entry *entry = reading_lock(self);

    if (entry && !pal_cache_note_holds(self->cache, self->id, &self->note)) {
        pthread_mutex_unlock(&self->shard->lock);
        entry = NULL;
    }
    return entry;
}

/* ---- Rows ---- */

/* A scan of rows, of which the last ones may be in a tail. */
typedef struct row_reading {
    reading base;
    const pal_row_scan *scan;
    pal_row_sink sink;
    void *user;
    bool wanted;          /* the sink accepts more rows */
    pal_cache_tail *tail; /* has its own reference; NULL: none of the rows is known */
    size_t tail_first;    /* the wanted rows of the tail */
    size_t tail_end;
    pal_row_scan rest; /* the rows before the tail */
    bool has_rest;
    bool keeps;           /* the rows that the backend returns are kept */
    pal_cache_row **rows; /* these rows, in the order in which they came */
    size_t rows_len;
    size_t rows_cap;
    size_t bytes;
} row_reading;

/* Divides the scan in rows of the tail and others. Only rows that end with the newest one of the
 * session are kept. */
static void divide(row_reading *self, pal_cache_entry *entry)
{
    const pal_row_scan *scan = self->scan;
    pal_cache_tail *tail = entry->tail;
    uint64_t first = tail ? pal_cache_tail_first(tail) : 0;

    self->keeps = !tail && scan->last_seq == entry->session.session.last_seq;
    if (!tail || scan->last_seq < first || scan->last_seq > pal_cache_tail_last(tail))
        return;
    self->tail = pal_cache_tail_keep(tail);
    self->tail_end = (size_t)(scan->last_seq - first) + 1;
    self->tail_first = scan->first_seq > first ? (size_t)(scan->first_seq - first) : 0;
    self->has_rest = scan->first_seq < first;
    self->keeps = self->has_rest;
    self->rest.last_seq = first - 1;
    if (self->rest.rows_hint > 0)
        self->rest.rows_hint -=
                self->tail_end < self->rest.rows_hint ? self->tail_end : self->rest.rows_hint - 1;
}

static void pass_tail(row_reading *self)
{
    size_t len = self->tail ? self->tail_end - self->tail_first : 0;

    for (size_t i = 0; i < len && self->wanted; i++) {
        size_t at = self->scan->descending ? self->tail_end - 1 - i : self->tail_first + i;

        self->wanted = self->sink(&self->tail->rows[at]->row, self->user);
    }
}

/* Rows that do not follow each other, or are too long together, are not kept. */
static void keep_row(row_reading *self, const pal_row *row)
{
    uint64_t before = self->rows_len > 0 ? self->rows[self->rows_len - 1]->row.seq : 0;
    uint64_t expected = self->scan->descending
            ? (self->rows_len > 0 ? before - 1 : self->rest.last_seq)
            : (self->rows_len > 0 ? before + 1 : row->seq);
    pal_cache_row *copy = NULL;

    self->bytes += sizeof(*copy) + row->client_id.len + row->body.len;
    self->keeps = row->seq == expected &&
            self->bytes <= pal_cache_tail_bytes_max(self->base.cache) / 2 &&
            pal_reserve(&self->rows, &self->rows_cap, self->rows_len + 1, sizeof(*self->rows));
    if (self->keeps)
        copy = pal_cache_row_new(row);
    if (copy)
        self->rows[self->rows_len++] = copy;
    else
        self->keeps = false;
}

static bool pass_and_keep(const pal_row *row, void *user)
{
    row_reading *self = user;

    if (self->keeps)
        keep_row(self, row);
    self->wanted = self->sink(row, self->user);
    return self->wanted;
}

static void reverse(pal_cache_row **rows, size_t len)
{
    for (size_t i = 0; i < len / 2; i++) {
        pal_cache_row *swap = rows[i];

        rows[i] = rows[len - 1 - i];
        rows[len - 1 - i] = swap;
    }
}

/* Puts the kept rows before those of the tail. */
static bool join_tail(row_reading *self)
{
    pal_cache_tail *tail = self->tail;
    size_t len = self->rows_len;

    if (!tail)
        return true;
    if (!pal_reserve(&self->rows, &self->rows_cap, len + tail->len, sizeof(*self->rows)))
        return false;
    for (size_t i = 0; i < tail->len; i++) {
        self->rows[self->rows_len++] = tail->rows[i];
        atomic_fetch_add_explicit(&tail->rows[i]->refs, 1, memory_order_relaxed);
    }
    return true;
}

/* The kept rows end with the row before the tail, or with the newest one. */
static void keep_rows(row_reading *self)
{
    pal_cache_entry *entry;
    pal_cache_tail *tail = NULL;

    if (self->scan->descending)
        reverse(self->rows, self->rows_len);
    if (self->rows_len == 0 || self->rows[self->rows_len - 1]->row.seq != self->rest.last_seq)
        return;
    entry = reading_lock_again(&self->base);
    if (!entry)
        return;
    if (entry->tail == self->tail && join_tail(self))
        tail = pal_cache_tail_new(self->rows, self->rows_len);
    if (tail) {
        self->rows_len = 0;
        pal_cache_tail_release(entry->tail);
        entry->tail = tail;
        pal_cache_shard_fit(self->base.shard, entry, self->base.cache->shard_bytes_max);
    }
    pthread_mutex_unlock(&self->base.shard->lock);
}

static pal_status scan_stored(pal_engine *engine, const pal_row_scan *scan, pal_row_sink sink,
        void *user, pal_error *err)
{
    count(engine, false);
    if (engine->is_only_memory)
        return pal_cache_missing(err);
    return engine->backend->row_scan(engine, scan, sink, user, err);
}

static pal_status read_rows(row_reading *self, pal_engine *engine, pal_error *err)
{
    pal_status status = PAL_OK;

    if (self->scan->descending)
        pass_tail(self);
    if (self->has_rest && self->wanted) {
        status = scan_stored(engine, &self->rest, pass_and_keep, self, err);
        if (status == PAL_OK && self->keeps)
            keep_rows(self);
    } else {
        count(engine, true);
    }
    if (!self->scan->descending && status == PAL_OK)
        pass_tail(self);
    for (size_t i = 0; i < self->rows_len; i++)
        pal_cache_row_release(self->rows[i]);
    pal_free(self->rows);
    pal_cache_tail_release(self->tail);
    return status;
}

pal_status pal_cache_row_scan(pal_engine *engine, const pal_row_scan *scan, pal_row_sink sink,
        void *user, pal_error *err)
{
    row_reading self = {.scan = scan,
            .sink = sink,
            .user = user,
            .wanted = true,
            .rest = *scan,
            .has_rest = true};
    pal_cache_entry *entry;

    reading_begin(&self.base, engine, &scan->handle);
    entry = reading_lock(&self.base);
    if (!entry)
        return scan_stored(engine, scan, sink, user, err);
    divide(&self, entry);
    pal_cache_shard_use(self.base.shard, entry);
    pthread_mutex_unlock(&self.base.shard->lock);
    return read_rows(&self, engine, err);
}

/* ---- Marks ---- */

static void keep_marks(
        const reading *self, const pal_mark_scan *scan, const pal_mark *marks, size_t len)
{
    pal_cache_entry *entry = reading_lock_again(self);

    if (!entry)
        return;
    if (scan->wanted == PAL_MARKS_WHOLE && scan->first == scan->last && len == 1)
        pal_cache_entry_set_body(entry, &marks[0]);
    if (scan->wanted != PAL_MARKS_WHOLE && scan->first <= 1 &&
            scan->last >= entry->session.mark_number)
        pal_cache_entry_set_marks(
                scan->wanted == PAL_MARKS_HIDING ? &entry->hiding : &entry->brief, marks, len);
    pal_cache_shard_fit(self->shard, entry, self->cache->shard_bytes_max);
    pthread_mutex_unlock(&self->shard->lock);
}

pal_status pal_cache_mark_list(pal_engine *engine, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err)
{
    reading self;
    pal_cache_entry *entry;
    bool found = false;
    pal_status status;

    reading_begin(&self, engine, &scan->handle);
    entry = reading_lock(&self);
    if (entry) {
        found = pal_cache_entry_get_marks(entry, scan, arena, out_marks, out_len);
        pthread_mutex_unlock(&self.shard->lock);
    }
    count(engine, found);
    if (found)
        return PAL_OK;
    if (engine->is_only_memory)
        return pal_cache_missing(err);
    status = engine->backend->mark_list(engine, scan, arena, out_marks, out_len, err);
    if (status == PAL_OK && self.cache)
        keep_marks(&self, scan, *out_marks, *out_len);
    return status;
}
