/* crash_verify.c - see crash_verify.h. Messages never change, so the first reading of a message is
 * compared with all later readings. */
#include "crash_verify.h"
#include "palaver/store_admin.h"
#include "palaver/store_marks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

#define PAGE 2000

/* The writer of the message at one position of a session. */
typedef struct entry {
    uint32_t writer;
    uint8_t part, parts;
    uint64_t counter;
} entry;

/* A growing array of `len` elements of one size. */
typedef struct list {
    void *items;
    size_t len, cap;
} list;

/* A session that a writer created for itself. */
typedef struct life {
    uint32_t writer;
    uint64_t counter;
    work_stage stage; /* acknowledged */
    bool is_settled;  /* checked, and no writer will use it again */
} life;

typedef struct known {
    uint64_t next; /* counter */
    uint64_t seen; /* the largest counter that was read */
    uint64_t last[WORK_SESSIONS];
    bool is_living; /* in the middle of a life, the last one in its list */
    size_t life;
} known;

static known writers[VERIFY_WRITERS_MAX + 1];
static list sessions[WORK_SESSIONS]; /* entries, by seq - 1 */
static list pending;                 /* acks of appends that were not checked yet */
static list lives;                   /* lives */
static const pal_str tenant = {WORK_TENANT, sizeof(WORK_TENANT) - 1};

static void *list_add(list *l, size_t item_size)
{
    if (l->len == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 256;
        l->items = pal_realloc(l->items, l->cap * item_size);
        if (!l->items)
            abort();
    }
    return (char *)l->items + l->len++ * item_size;
}

static bool wrong(const char *what, uint64_t a, uint64_t b, uint64_t c)
{
    printf("# %s: %" PRIu64 ", %" PRIu64 ", %" PRIu64 "\n", what, a, b, c);
    return false;
}

/* ---- What was acknowledged ---- */

static void ack_stage(known *k, const ack *a)
{
    life *it;

    if (!k->is_living) {
        k->life = lives.len;
        it = list_add(&lives, sizeof(life));
        *it = (life){.writer = a->writer, .counter = a->counter};
        k->is_living = true;
    }
    it = (life *)lives.items + k->life;
    it->stage = (work_stage)a->seq;
    if (it->stage == STAGE_FORK_ERASED) {
        k->is_living = false;
        k->next = a->counter + 1;
    }
}

/* The life can have begun without an acknowledged stage. */
static void ack_skipped(known *k, const ack *a)
{
    if (!k->is_living)
        *(life *)list_add(&lives, sizeof(life)) =
                (life){.writer = a->writer, .counter = a->counter};
    k->is_living = false;
    k->next = a->counter + 1;
}

bool verify_ack(const ack *a)
{
    known *k = &writers[a->writer <= VERIFY_WRITERS_MAX ? a->writer : 0];

    if (a->hash != ack_hash(a) || k == writers)
        return wrong("a torn acknowledgement", a->kind, a->writer, a->counter);
    if (a->kind == ACK_FAILED)
        return wrong("a writer failed: writer, counter, status", a->writer, a->counter, a->seq);
    if (k->next == 0)
        k->next = 1;
    if (a->counter != k->next)
        return wrong("acknowledged out of turn: writer, counter, expected", a->writer, a->counter,
                k->next);
    if (a->kind == ACK_APPENDED) {
        *(ack *)list_add(&pending, sizeof(ack)) = *a;
        k->next = a->counter + 1;
    } else if (a->kind == ACK_STAGE) {
        ack_stage(k, a);
    } else {
        ack_skipped(k, a);
    }
    return true;
}

uint64_t verify_next_counter(uint32_t writer)
{
    return writers[writer].next ? writers[writer].next : 1;
}

/* ---- What is there ---- */

/* The messages of one append are next to each other. */
static bool entry_follows(const entry *before, const entry *e)
{
    if (e->part == 0)
        return !before || before->part + 1 == before->parts;
    return before && before->writer == e->writer && before->counter == e->counter &&
            before->part + 1 == e->part && before->parts == e->parts;
}

/* The last known message of the session. */
static bool entry_add(uint32_t session, const pal_message *message)
{
    list *l = &sessions[session];
    entry *before = l->len ? (entry *)l->items + l->len - 1 : NULL;
    pattern what;
    entry e;
    known *k;

    if (message->seq != l->len + 1)
        return wrong("a gap: session, seq, expected", session, message->seq, l->len + 1);
    if (!pattern_read(message, &what) || what.writer > VERIFY_WRITERS_MAX)
        return wrong("a damaged message: session, seq", session, message->seq, 0);
    e = (entry){.writer = what.writer,
            .counter = what.counter,
            .part = (uint8_t)what.part,
            .parts = (uint8_t)what.parts};
    k = &writers[e.writer];
    if (!entry_follows(before, &e))
        return wrong("half an append: session, seq, writer", session, message->seq, e.writer);
    if (work_session_of(e.writer, e.counter) != session)
        return wrong("in the wrong session: session, seq, writer", session, message->seq, e.writer);
    /* With one session per counter, growing counters also mean that no message is there twice. */
    if (e.part == 0 && e.counter <= k->last[session])
        return wrong(
                "out of order or twice: session, seq, counter", session, message->seq, e.counter);
    k->last[session] = e.counter;
    if (e.counter > k->seen)
        k->seen = e.counter;
    *(entry *)list_add(l, sizeof(entry)) = e;
    return true;
}

/* The message must be the same as in the first reading. */
static bool entry_again(uint32_t session, const pal_message *message)
{
    list *l = &sessions[session];
    entry *e = (entry *)l->items + message->seq - 1;
    pattern what;

    if (!pattern_read(message, &what) || what.writer != e->writer || what.counter != e->counter ||
            what.part != e->part)
        return wrong("a message changed: session, seq", session, message->seq, 0);
    return true;
}

/* Reads the session after `after`. Known messages are compared, new ones are added. */
static bool read_session(pal_store *store, uint32_t session, uint64_t after)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message_query load = {.after_seq = after, .limit = PAGE, .hidden = true};
    pal_message_page messages = {.has_more = true};
    pal_error error = {0};
    list *l = &sessions[session];
    bool held = true;

    while (held && messages.has_more) {
        pal_arena_reset(arena);
        if (pal_store_load(
                    store, tenant, work_session_id(session), &load, arena, &messages, &error)) {
            printf("# load: %s\n", error.message);
            held = false;
        }
        for (size_t i = 0; held && i < messages.len; i++) {
            const pal_message *message = &messages.items[i];
            if (message->seq != load.after_seq + 1)
                held = wrong("a gap: session, seq, after", session, message->seq, load.after_seq);
            else if (message->seq <= l->len)
                held = entry_again(session, message);
            else
                held = entry_add(session, message);
            load.after_seq = message->seq;
        }
    }
    if (held && load.after_seq < l->len)
        held = wrong("messages are gone: session, last, known", session, load.after_seq, l->len);
    if (held && l->len > 0) {
        entry *last = (entry *)l->items + l->len - 1;
        if (last->part + 1 != last->parts)
            held = wrong("half an append at the end: session, seq", session, l->len, 0);
    }
    pal_arena_free(arena);
    return held;
}

/* Every acknowledged append is at its position. */
static bool pending_settle(void)
{
    bool held = true;

    for (size_t i = 0; held && i < pending.len; i++) {
        const ack *a = (ack *)pending.items + i;
        uint32_t session = work_session_of(a->writer, a->counter);
        const entry *e = (entry *)sessions[session].items + a->seq - 1;
        if (a->seq == 0 || a->seq > sessions[session].len)
            held = wrong("lost: session, seq, writer", session, a->seq, a->writer);
        else if (e->writer != a->writer || e->counter != a->counter || e->part + 1 != e->parts)
            held = wrong("not at its place: session, seq, writer", session, a->seq, a->writer);
    }
    pending.len = 0;
    return held;
}

/* ---- Lives ---- */

typedef struct sight {
    bool is_there;
    pal_session_state state;
    uint64_t last_seq;
    size_t marks;
    bool is_whole; /* the session has the expected messages */
} sight;

static bool life_messages_whole(const life *it, const pal_message_page *messages, work_part part)
{
    if (messages->len != (part == PART_FORK ? 2 : 3))
        return messages->len == 0 && part != PART_FORK;
    for (size_t i = 0; i < messages->len; i++) {
        pattern what;
        if (!pattern_read(&messages->items[i], &what) || what.writer != it->writer ||
                what.counter != it->counter || what.part != i || what.parts != 3)
            return false;
    }
    return true;
}

static sight look(pal_store *store, const life *it, work_part part, pal_arena *arena)
{
    pal_id id = work_life_id(it->writer, it->counter, part);
    pal_session_by by = part == PART_HEIR ? PAL_SESSION_BY_KEY : PAL_SESSION_BY_ID;
    char name[WORK_KEY_MAX];
    pal_session session;
    pal_message_page messages = {0};
    pal_mark *marks;
    pal_message_query load = {.hidden = true};
    sight s = {.is_whole = true};

    if (part == PART_HEIR)
        work_life_key(it->writer, it->counter, part, name);
    else
        pal_id_to_text(id, name);
    if (pal_store_find(store, tenant, by, pal_str_of(name), arena, &session, NULL))
        return s;
    id = session.id;
    s.is_there = true;
    s.state = session.state;
    s.last_seq = session.last_seq;
    s.is_whole = !pal_store_load(store, tenant, id, &load, arena, &messages, NULL) &&
            life_messages_whole(it, &messages, part) && messages.len == s.last_seq &&
            !pal_store_marks(store, tenant, id, arena, &marks, &s.marks, NULL);
    return s;
}

/* The stage while there is no fork. The heir is created before it adopts messages. */
static int stage_before_fork(const sight *own, const sight *heir)
{
    if (own->last_seq != 3)
        return heir->is_there ? -1 : STAGE_CREATED;
    return heir->last_seq == 3 ? STAGE_ADOPTED : STAGE_FILLED;
}

/* The stage of the sessions; -1 if they match none. */
static int stage_of(const sight *own, const sight *fork, const sight *heir)
{
    bool has_heir = heir->is_there && heir->last_seq == 3;

    if (!own->is_there && heir->is_there)
        return -1;
    if (!own->is_there && !fork->is_there)
        return STAGE_FORK_ERASED;
    if (!own->is_there)
        return fork->state == PAL_SESSION_TRASH ? STAGE_ERASED : -1;
    if (!fork->is_there && own->marks == 0)
        return stage_before_fork(own, heir);
    if (!fork->is_there || own->last_seq != 3)
        return -1;
    if (own->marks == 0)
        return fork->state == PAL_SESSION_ACTIVE && has_heir ? STAGE_FORKED : -1;
    if (fork->state == PAL_SESSION_TRASH)
        return has_heir ? STAGE_FORK_DELETED : STAGE_HEIR_ERASED;
    return has_heir ? STAGE_REWOUND : -1;
}

static bool life_judge(pal_store *store, const life *it)
{
    pal_arena *arena = pal_arena_new(0);
    sight own = look(store, it, PART_OWN, arena);
    sight fork = look(store, it, PART_FORK, arena);
    sight heir = look(store, it, PART_HEIR, arena);
    int stage = stage_of(&own, &fork, &heir);
    bool is_whole = own.is_whole && fork.is_whole && heir.is_whole, held;

    /* Before the first and after the last stage, nothing exists. */
    if (stage == STAGE_FORK_ERASED && it->stage == STAGE_NONE)
        stage = STAGE_NONE;
    held = is_whole && (stage == (int)it->stage || stage == (int)it->stage + 1);
    if (!held)
        printf("# writer %" PRIu32 ", life %" PRIu64 ": acknowledged stage %d, is at %d, %s\n",
                it->writer, it->counter, it->stage, stage, is_whole ? "whole" : "not whole");
    pal_arena_free(arena);
    return held;
}

static bool lives_judge(pal_store *store, uint32_t dead, bool again)
{
    bool held = true;

    for (size_t i = 0; held && i < lives.len; i++) {
        life *it = (life *)lives.items + i;
        known *k = &writers[it->writer];
        bool is_over = !k->is_living || k->life != i;
        bool can_change = !is_over && !(dead & (1u << it->writer));
        if (can_change || (it->is_settled && !again))
            continue;
        held = life_judge(store, it);
        it->is_settled = is_over;
    }
    return held;
}

/* ---- Together ---- */

/* A dead writer has sent at most one operation without a response. */
static bool nothing_invented(uint32_t dead)
{
    for (uint32_t i = 1; i <= VERIFY_WRITERS_MAX; i++)
        if ((dead & (1u << i)) && writers[i].seen > verify_next_counter(i))
            return wrong("written by no writer: writer, counter, next", i, writers[i].seen,
                    verify_next_counter(i));
    return true;
}

bool verify_new(pal_store *store, uint32_t dead)
{
    bool held = true;

    for (uint32_t i = 0; held && i < WORK_SESSIONS; i++)
        held = read_session(store, i, sessions[i].len);
    return held && pending_settle() && lives_judge(store, dead, false) && nothing_invented(dead);
}

static void finding_print(const pal_store_finding *finding, void *user)
{
    printf("# found: %s\n", finding->text);
}

bool verify_all(pal_store *store)
{
    bool held = true;
    uint64_t findings = 0;
    pal_error error = {0};

    for (uint32_t i = 0; held && i < WORK_SESSIONS; i++)
        held = read_session(store, i, 0);
    held = held && pending_settle() && lives_judge(store, UINT32_MAX, true) &&
            nothing_invented(UINT32_MAX);
    if (pal_store_check(store, false, finding_print, NULL, NULL, &findings, &error)) {
        printf("# check: %s\n", error.message);
        held = false;
    }
    return held && findings == 0;
}

uint64_t verify_messages(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < WORK_SESSIONS; i++)
        sum += sessions[i].len;
    return sum;
}

uint64_t verify_lives(void)
{
    return lives.len;
}

void verify_done(void)
{
    for (uint32_t i = 0; i < WORK_SESSIONS; i++)
        pal_free(sessions[i].items);
    pal_free(pending.items);
    pal_free(lives.items);
}
