/* test_active_marks_decide.c - which marks count: thousands of random histories against the plain
 * definition, message by message. */
#include <stdlib.h>

#include "store/view/view_active_marks.h"
#include "support/tap.h"

enum { SEQS = 24, MARKS = 14, ROUNDS = 20000 };

static uint64_t seed = 7;

static unsigned roll(unsigned sides)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % sides;
}

/* Whether the mark applies if only the first `len` marks exist. */
static bool counts(const pal_mark *marks, size_t len, size_t index)
{
    for (size_t i = index + 1; i < len; i++)
        if (marks[i].kind == PAL_MARK_UNDO && marks[i].target == marks[index].number &&
                counts(marks, len, i))
            return false;
    return true;
}

static bool is_hidden(const pal_mark *marks, size_t len, uint64_t below_seq, uint64_t seq)
{
    for (size_t i = 0; i < len; i++)
        if ((marks[i].kind == PAL_MARK_REWIND || marks[i].kind == PAL_MARK_RESET) &&
                seq > marks[i].seq && seq <= marks[i].through_seq &&
                marks[i].through_seq < below_seq && counts(marks, len, i))
            return true;
    return false;
}

/* The plain definition, over a parent and a session that was forked from it (or none). */
static bool stands(const pal_marks_level *levels, size_t len, size_t level, size_t index)
{
    const pal_mark *mark = &levels[level].marks[index];

    if (!counts(levels[level].marks, levels[level].len, index) ||
            mark->seq > levels[level].below_seq)
        return false;
    for (uint64_t seq = 1; seq <= mark->seq; seq++) {
        bool then = is_hidden(levels[level].marks, index, UINT64_MAX, seq), now = false;

        for (size_t i = 0; i < level; i++)
            then = then || is_hidden(levels[i].marks, levels[i].len, levels[i].below_seq, seq);
        for (size_t i = 0; i < len; i++)
            now = now || is_hidden(levels[i].marks, levels[i].len, levels[i].below_seq, seq);
        if ((now && !then) || (mark->kind == PAL_MARK_CHECKPOINT && then && !now))
            return false;
    }
    return true;
}

/* Appends messages and marks alternately, as a store would. Returns the last seq. */
static uint64_t invent(pal_mark *marks, size_t len, uint64_t last_seq)
{
    static const pal_mark_kind kinds[] = {PAL_MARK_REWIND, PAL_MARK_REWIND, PAL_MARK_RESET,
            PAL_MARK_CHECKPOINT, PAL_MARK_CHECKPOINT, PAL_MARK_PRUNE, PAL_MARK_EPOCH, PAL_MARK_PIN,
            PAL_MARK_UNPIN, PAL_MARK_UNDO, PAL_MARK_UNDO, PAL_MARK_UNDO};

    for (size_t i = 0; i < len; i++) {
        pal_mark *mark = &marks[i];

        last_seq += roll(3);
        *mark = (pal_mark){.number = i + 1, .through_seq = last_seq};
        mark->kind = kinds[roll(sizeof kinds / sizeof kinds[0])];
        mark->seq = last_seq ? roll((unsigned)last_seq + 1) : 0;
        if (mark->kind != PAL_MARK_UNDO)
            continue;
        mark->seq = 0;
        if (i > 0)
            mark->target = roll((unsigned)i) + 1;
        if (i == 0 || !counts(marks, i, mark->target - 1))
            mark->kind = PAL_MARK_PRUNE; /* a store refuses to undo twice */
    }
    return last_seq;
}

static void compare(const pal_marks_level *levels, size_t len, pal_arena *arena)
{
    pal_owned_marks found;
    const pal_mark *checkpoint = NULL, *epoch = NULL;
    size_t prunes = 0;

    if (!CHECK_STATUS(pal_active_marks_decide(levels, len, arena, &found, NULL), PAL_OK))
        return;
    for (size_t i = len; i-- > 0 && !checkpoint;)
        for (size_t j = levels[i].len; j-- > 0 && !checkpoint;) {
            const pal_mark *mark = &levels[i].marks[j];

            if (mark->kind < PAL_MARK_CHECKPOINT || mark->kind == PAL_MARK_PIN ||
                    mark->kind == PAL_MARK_UNPIN || mark->kind == PAL_MARK_UNDO ||
                    !stands(levels, len, i, j))
                continue;
            prunes += mark->kind == PAL_MARK_PRUNE;
            if (mark->kind == PAL_MARK_EPOCH && !epoch)
                epoch = mark;
            if (mark->kind == PAL_MARK_CHECKPOINT)
                checkpoint = mark;
        }
    CHECK_EQ(found.checkpoint.mark.number, (checkpoint ? checkpoint->number : 0));
    CHECK_EQ(found.epoch.mark.number, (epoch ? epoch->number : 0));
    CHECK_EQ(found.prunes_len, prunes);
    for (size_t i = 0; i < found.pins_len; i++) {
        CHECK(i == 0 || found.pins[i] > found.pins[i - 1]);
        for (size_t j = 0; j < len; j++)
            CHECK(!is_hidden(levels[j].marks, levels[j].len, levels[j].below_seq, found.pins[i]));
    }
}

static void any_history_is_decided_as_defined(void)
{
    pal_arena *arena = pal_arena_new(0);

    for (int i = 0; i < ROUNDS && !tap_failed; i++) {
        pal_mark marks[3][MARKS];
        pal_marks_level levels[3];
        size_t len = 1 + roll(3);
        uint64_t last_seq = 0;

        for (size_t j = 0; j < len; j++) {
            size_t marks_len = roll(MARKS);

            last_seq = invent(marks[j], marks_len, last_seq);
            levels[j] = (pal_marks_level){.handle = {.number = j + 1},
                    .marks = marks[j],
                    .len = marks_len,
                    .below_seq = UINT64_MAX};
            if (j + 1 < len)
                levels[j].below_seq = last_seq = last_seq ? 1 + roll((unsigned)last_seq) : 0;
        }
        compare(levels, len, arena);
        pal_arena_reset(arena);
    }
    pal_arena_free(arena);
}

/* Each mark is followed by a rewind that reverts it: the time must not be quadratic in the number
 * of marks. */
static void ten_thousand_void_checkpoints_are_decided(void)
{
    enum { LEN = 10001 };
    pal_arena *arena = pal_arena_new(0);
    pal_mark *marks = calloc(LEN, sizeof(*marks));
    pal_marks_level level = {
            .handle = {.number = 1}, .marks = marks, .len = LEN, .below_seq = UINT64_MAX};
    pal_owned_marks found;

    for (size_t i = 0; i < LEN; i++)
        marks[i] = (pal_mark){.number = i + 1,
                .kind = i + 1 < LEN ? PAL_MARK_CHECKPOINT : PAL_MARK_RESET,
                .seq = i + 1 < LEN ? 5 : 0,
                .through_seq = 9};
    CHECK_STATUS(pal_active_marks_decide(&level, 1, arena, &found, NULL), PAL_OK);
    CHECK_EQ(found.checkpoint.mark.number, 0);
    free(marks);
    pal_arena_free(arena);
}

/* A backend reads bodies only on request, and nothing of other kinds. */
static void backends_list_only_the_requested_marks(void)
{
    pal_arena *arena = pal_arena_new(0);
    pal_store *store = NULL;
    pal_mark first = {.kind = PAL_MARK_CHECKPOINT, .body = pal_str_of("{}")};
    pal_mark second = {.kind = PAL_MARK_RESET, .body = pal_str_of("{}")};
    pal_mark_scan scan = {.handle = {.number = 1}, .last = UINT64_MAX};
    pal_engine *engine;
    pal_mark *marks;
    pal_id id;
    size_t len;

    CHECK_STATUS(pal_store_open("memory:", NULL, &store, NULL), PAL_OK);
    CHECK_STATUS(pal_store_create(store, &(pal_session){0}, &id, NULL), PAL_OK);
    CHECK_STATUS(pal_store_mark(store, pal_str_of(NULL), id, &first, NULL), PAL_OK);
    CHECK_STATUS(pal_store_mark(store, pal_str_of(NULL), id, &second, NULL), PAL_OK);
    engine = *pal_store_engine(store);
    scan.wanted = PAL_MARKS_WHOLE;
    CHECK_STATUS(engine->backend->mark_list(engine, &scan, arena, &marks, &len, NULL), PAL_OK);
    if (CHECK_EQ(len, 2)) {
        CHECK_EQ(marks[0].body.len, 2);
        CHECK_EQ(marks[1].body.len, 2);
    }
    scan.wanted = PAL_MARKS_BRIEF;
    CHECK_STATUS(engine->backend->mark_list(engine, &scan, arena, &marks, &len, NULL), PAL_OK);
    if (CHECK_EQ(len, 2)) {
        CHECK_EQ(marks[0].body.len, 0);
        CHECK_EQ(marks[1].body.len, 0);
    }
    scan.wanted = PAL_MARKS_HIDING;
    CHECK_STATUS(engine->backend->mark_list(engine, &scan, arena, &marks, &len, NULL), PAL_OK);
    if (CHECK_EQ(len, 1))
        CHECK_EQ(marks[0].number, 2);
    pal_store_close(store);
    pal_arena_free(arena);
}

int main(void)
{
    RUN(any_history_is_decided_as_defined);
    RUN(backends_list_only_the_requested_marks);
    RUN(ten_thousand_void_checkpoints_are_decided);
    return tap_done();
}
