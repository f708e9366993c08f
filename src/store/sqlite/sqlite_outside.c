/* sqlite_outside.c - notices commits of other processes without asking SQLite.
 *
 * The first bytes of the shared memory of a WAL (the file that ends with -shm) describe the last
 * commit: how many commits there were, the number of frames, and the checksum of all frames. SQLite
 * documents this format. Every commit changes it before it ends, and nothing else has to be read to
 * see that the file has not changed.
 *
 * The engine keeps a copy of these bytes as its own last commit has left them. If the present bytes
 * are equal, nobody else has committed since. Otherwise somebody has, and the number that
 * pal_sqlite_outside() returns changes. Two moments need care:
 *
 * - The writer holds the write lock from the beginning of a transaction to its commit, and the
 *   bytes change a moment before the copy does. Between the two nobody can tell who has committed,
 *   so the number is not known.
 * - Another process can commit between the writer's commit and the copy. The checksum of the last
 *   frame that the writer has written shows whether the bytes are those of its own commit.
 *
 * The memory is mapped as long as the writer's connection is open. */
#include <string.h>

#include "store/sqlite/sqlite.h"

#define INDEX_BYTES 32768 /* the size in which SQLite maps the file */
#define IS_SET_WORD 3     /* not 0 if the words are valid */
#define SUM_WORD 6        /* two words: the checksum of the last frame */
#define FRAME_SUM 16      /* where a frame's head has the same checksum, in big-endian order */

/* SQLite writes a second copy of the words first. If both are equal, they are complete. No thread
 * sanitizer can know how processes agree on this memory. */
__attribute__((no_sanitize("thread"))) static bool read_words(
        const volatile uint32_t *index, uint32_t out_words[PAL_SQLITE_INDEX_WORDS])
{
    bool is_complete = true;

    atomic_thread_fence(memory_order_acquire);
    for (size_t i = 0; i < PAL_SQLITE_INDEX_WORDS; i++) {
        out_words[i] = index[i];
        is_complete = is_complete && index[PAL_SQLITE_INDEX_WORDS + i] == out_words[i];
    }
    atomic_thread_fence(memory_order_acquire);
    return is_complete && out_words[IS_SET_WORD] != 0;
}


/* ---- The copy ---- */

static bool is_known(pal_sqlite_outside_state *state, const uint32_t *words)
{
    bool equal = true;

    for (size_t i = 0; i < PAL_SQLITE_INDEX_WORDS; i++)
        equal = equal &&
                atomic_load_explicit(&state->known[i], memory_order_relaxed) == words[i];
    return equal;
}

/* Readers that see an odd `changes`, or another one afterward, have seen half of the copy. The
 * caller holds the lock. */
static void learn(pal_sqlite_outside_state *state, const uint32_t *words, bool by_others)
{
    unsigned changes = atomic_load_explicit(&state->changes, memory_order_relaxed);

    atomic_store_explicit(&state->changes, changes + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < PAL_SQLITE_INDEX_WORDS; i++)
        atomic_store_explicit(&state->known[i], words[i], memory_order_relaxed);
    if (by_others)
        atomic_fetch_add_explicit(&state->number, 1, memory_order_relaxed);
    atomic_store_explicit(&state->changes, changes + 2, memory_order_release);
}

void pal_sqlite_outside_init(pal_sqlite *self)
{
    pthread_mutex_init(&self->outside.lock, NULL);
}

void pal_sqlite_outside_done(pal_sqlite *self)
{
    pthread_mutex_destroy(&self->outside.lock);
}

void pal_sqlite_outside_watch(pal_sqlite *self)
{
    sqlite3_file *file = NULL;
    void volatile *index = NULL;
    int code = sqlite3_file_control(self->writer.db, "main", SQLITE_FCNTL_FILE_POINTER, &file);

    if (code != SQLITE_OK || !file || !file->pMethods || file->pMethods->iVersion < 2 ||
            !file->pMethods->xShmMap)
        return;
    if (file->pMethods->xShmMap(file, 0, INDEX_BYTES, 0, &index) == SQLITE_OK)
        self->outside.index = index;
}

/* ---- The writer ---- */

void pal_sqlite_outside_begin(pal_sqlite *self)
{
    pal_sqlite_outside_state *state = &self->outside;
    uint32_t words[PAL_SQLITE_INDEX_WORDS];

    if (!state->index)
        return;
    self->gather.has_frame = false;
    pthread_mutex_lock(&state->lock);
    state->is_writing = true;
    if (read_words(state->index, words) && !is_known(state, words))
        learn(state, words, true);
    pthread_mutex_unlock(&state->lock);
}

/* Returns whether the words describe the commit that the writer has just made. */
static bool is_own(pal_sqlite *self, const uint32_t *words)
{
    const unsigned char *sum = (const unsigned char *)self->gather.frame + FRAME_SUM;

    if (!self->gather.has_frame)
        return is_known(&self->outside, words);
    for (size_t i = 0; i < 2; i++, sum += 4)
        if (words[SUM_WORD + i] != ((uint32_t)sum[0] << 24 | (uint32_t)sum[1] << 16 |
                                           (uint32_t)sum[2] << 8 | (uint32_t)sum[3]))
            return false;
    return true;
}

void pal_sqlite_outside_end(pal_sqlite *self, bool is_committed)
{
    pal_sqlite_outside_state *state = &self->outside;
    uint32_t words[PAL_SQLITE_INDEX_WORDS];

    if (!state->index)
        return;
    pthread_mutex_lock(&state->lock);
    if (is_committed && read_words(state->index, words) && !is_known(state, words))
        learn(state, words, !is_own(self, words));
    state->is_writing = false;
    pthread_mutex_unlock(&state->lock);
}

/* ---- Readers ---- */

/* The words are not those of the copy. If no transaction of this engine runs, another process has
 * committed. */
static uint64_t outside_changed(pal_sqlite_outside_state *state)
{
    uint32_t words[PAL_SQLITE_INDEX_WORDS];
    uint64_t number = 0;

    pthread_mutex_lock(&state->lock);
    if (read_words(state->index, words)) {
        bool known = is_known(state, words);

        if (!known && !state->is_writing)
            learn(state, words, true);
        if (known || !state->is_writing)
            number = 1 + atomic_load_explicit(&state->number, memory_order_relaxed);
    }
    pthread_mutex_unlock(&state->lock);
    return number;
}

uint64_t pal_sqlite_outside(pal_engine *engine)
{
    pal_sqlite_outside_state *state = &((pal_sqlite *)engine)->outside;
    unsigned changes = atomic_load_explicit(&state->changes, memory_order_acquire);
    uint32_t words[PAL_SQLITE_INDEX_WORDS];
    uint64_t number;
    bool known;

    if (!state->index)
        return 0;
    number = 1 + atomic_load_explicit(&state->number, memory_order_relaxed);
    known = changes % 2 == 0 && read_words(state->index, words) && is_known(state, words);
    atomic_thread_fence(memory_order_acquire);
    if (known && atomic_load_explicit(&state->changes, memory_order_relaxed) == changes)
        return number;
    return outside_changed(state);
}
