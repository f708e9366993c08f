/* test_store_model.c - thousands of random steps, each compared with a simple model. The model
 * copies everything that the store shares: a fork copies its messages and what was hidden of them.
 *
 * PAL_TEST_SEED and PAL_TEST_STEPS choose another run; a failure prints both. */
#include "contract/contract.h"

#include <stdlib.h>

#define NEVER UINT64_MAX

enum { SESSIONS_MAX = 30, MESSAGES_MAX = 300, MARKS_MAX = 300 };

typedef struct model_mark {
    pal_mark_kind kind;
    uint64_t seq;
    uint64_t through_seq;
    uint64_t target;
} model_mark;

typedef struct model {
    bool exists;
    bool trashed;
    pal_id id;
    uint32_t messages[MESSAGES_MAX + 1]; /* the text at each seq */
    uint64_t frozen[MESSAGES_MAX + 1];   /* the first mark before the fork that hid the message */
    uint64_t last_seq;
    model_mark marks[MARKS_MAX + 1]; /* by number */
    uint64_t marks_len;
} model;

static model models[SESSIONS_MAX];
static uint64_t random_state;
static uint32_t said;
static unsigned long step_number;

static uint64_t random_below(uint64_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % bound;
}

/* ---- The model ---- */

static pal_role role_of(uint32_t message)
{
    return message % 7 == 0 ? PAL_ROLE_SYSTEM : PAL_ROLE_USER;
}

static bool mark_counts(const model *of, uint64_t number)
{
    for (uint64_t later = number + 1; later <= of->marks_len; later++)
        if (of->marks[later].kind == PAL_MARK_UNDO && of->marks[later].target == number &&
                mark_counts(of, later))
            return false;
    return true;
}

/* The through_seq of the first mark that hides the message; NEVER if no mark hides it. */
static uint64_t hidden_since(const model *of, uint64_t seq)
{
    uint64_t since = of->frozen[seq];

    for (uint64_t number = 1; number <= of->marks_len; number++) {
        const model_mark *mark = &of->marks[number];
        bool hides = mark->kind == PAL_MARK_REWIND || mark->kind == PAL_MARK_RESET;

        if (hides && mark->seq < seq && seq <= mark->through_seq && mark->through_seq < since &&
                mark_counts(of, number))
            since = mark->through_seq;
    }
    return since;
}

static bool is_hidden(const model *of, uint64_t seq)
{
    return hidden_since(of, seq) != NEVER;
}

static uint64_t first_shown(const model *of)
{
    for (uint64_t seq = 1; seq <= of->last_seq; seq++)
        if (!is_hidden(of, seq))
            return seq;
    return 0;
}

static uint64_t last_shown(const model *of)
{
    for (uint64_t seq = of->last_seq; seq > 0; seq--)
        if (!is_hidden(of, seq))
            return seq;
    return 0;
}

/* The messages that were visible when the last of them was appended; later marks do not count. */
static void model_fork(const model *from, uint64_t at_seq, model *out_model)
{
    out_model->exists = true;
    out_model->trashed = false;
    out_model->marks_len = 0;
    out_model->last_seq = at_seq;
    for (uint64_t seq = 1; seq <= at_seq; seq++) {
        out_model->messages[seq] = from->messages[seq];
        out_model->frozen[seq] = hidden_since(from, seq);
        if (out_model->frozen[seq] >= at_seq)
            out_model->frozen[seq] = NEVER;
    }
}

static void model_mark_add(model *of, model_mark mark)
{
    mark.through_seq = of->last_seq;
    of->marks[++of->marks_len] = mark;
}

/* The expected result of an undo. *target becomes the mark that it reverts. */
static pal_status model_undo(const model *of, uint64_t *target)
{
    if (*target == 0) {
        for (uint64_t number = of->marks_len; number > 0 && *target == 0; number--)
            if (of->marks[number].kind != PAL_MARK_UNDO && mark_counts(of, number))
                *target = number;
        return *target ? PAL_OK : PAL_NOT_FOUND;
    }
    if (*target > of->marks_len)
        return PAL_NOT_FOUND;
    return mark_counts(of, *target) ? PAL_OK : PAL_CONFLICT;
}

/* ---- Comparing ---- */

static bool same_as_model(const model *of, const pal_message_query *load)
{
    pal_message_page loaded = {0};
    char text[16];
    size_t at = 0;

    if (!OK(pal_store_load(test.store, no_tenant(), of->id, load, test.arena, &loaded, &test.err)))
        return false;
    for (uint64_t seq = 1; seq <= of->last_seq; seq++) {
        if (seq <= load->after_seq || (!load->hidden && is_hidden(of, seq)))
            continue;
        snprintf(text, sizeof text, "%u", of->messages[seq]);
        if (at >= loaded.len || loaded.items[at].seq != seq ||
                !pal_str_is(loaded.items[at].parts[0].text, text))
            return false;
        at++;
    }
    return at == loaded.len;
}

static bool same_tail(const model *of, uint32_t limit)
{
    pal_message_query load = {.limit = limit, .from_end = true};
    pal_message_page loaded = {0};
    uint64_t seq = of->last_seq;

    if (!OK(pal_store_load(test.store, no_tenant(), of->id, &load, test.arena, &loaded, &test.err)))
        return false;
    for (size_t i = loaded.len; i-- > 0; seq--) {
        while (seq > 0 && is_hidden(of, seq))
            seq--;
        if (seq == 0 || loaded.items[i].seq != seq)
            return false;
    }
    while (seq > 0 && is_hidden(of, seq))
        seq--;
    return seq == 0 ? !loaded.has_more : loaded.has_more && loaded.len == limit;
}

static bool same_marks(const model *of)
{
    pal_mark *marks;
    size_t len, own = 0;

    if (!OK(pal_store_marks(test.store, no_tenant(), of->id, test.arena, &marks, &len, &test.err)))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (marks[i].inherited)
            continue;
        if (++own > of->marks_len || marks[i].number != own ||
                marks[i].kind != of->marks[own].kind || marks[i].undone == mark_counts(of, own) ||
                marks[i].through_seq != of->marks[own].through_seq)
            return false;
    }
    return own == of->marks_len;
}

static bool compare(const model *of)
{
    pal_message_query all = {0}, hidden = {.hidden = true}, part = {0};
    bool same;

    part.after_seq = random_below(of->last_seq + 1);
    same = same_as_model(of, &all) && same_as_model(of, &hidden) && same_as_model(of, &part) &&
            same_tail(of, 1 + (uint32_t)random_below(6)) && same_marks(of) &&
            get_session(of->id).last_seq == of->last_seq;
    if (!same)
        printf("# differs from the model after step %lu\n", step_number);
    pal_arena_reset(test.arena);
    return CHECK(same);
}

/* ---- Steps ---- */

static model *any_model(void)
{
    size_t start = random_below(SESSIONS_MAX);

    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        model *found = &models[(start + i) % SESSIONS_MAX];

        if (found->exists && !found->trashed)
            return found;
    }
    return NULL;
}

static model *free_model(void)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        if (!models[i].exists)
            return &models[i];
    return NULL;
}

static void step_create(void)
{
    model *made = free_model();

    if (!made)
        return;
    memset(made, 0, sizeof *made);
    made->exists = true;
    made->id = new_session();
}

static void step_append(model *of)
{
    pal_message messages[4];
    size_t len = 1 + random_below(4);
    char text[16];

    if (of->last_seq + len > MESSAGES_MAX)
        return;
    for (size_t i = 0; i < len; i++) {
        said++;
        snprintf(text, sizeof text, "%u", said);
        messages[i] = text_of(role_of(said), pal_arena_copy(test.arena, S(text)).data);
        of->messages[of->last_seq + 1 + i] = said;
        of->frozen[of->last_seq + 1 + i] = NEVER;
    }
    OK(pal_store_append(test.store, no_tenant(), of->id, messages, len, of->last_seq, &test.err));
    of->last_seq += len;
}

static void step_mark(model *of, pal_mark_kind kind)
{
    pal_mark mark = {.kind = kind, .seq = random_below(of->last_seq + 1)};

    if (of->marks_len == MARKS_MAX || (kind == PAL_MARK_PIN && mark.seq == 0))
        return;
    OK(pal_store_mark(test.store, no_tenant(), of->id, &mark, &test.err));
    model_mark_add(of, (model_mark){.kind = kind, .seq = mark.seq});
}

static void step_reset(model *of)
{
    bool keep_system = random_below(2);
    uint64_t first = first_shown(of);
    bool keeps = keep_system && first > 0 && role_of(of->messages[first]) == PAL_ROLE_SYSTEM;

    if (of->marks_len == MARKS_MAX)
        return;
    OK(pal_store_reset(test.store, no_tenant(), of->id, keep_system, NULL, &test.err));
    model_mark_add(of, (model_mark){.kind = PAL_MARK_RESET, .seq = keeps ? first : 0});
}

static void step_undo(model *of)
{
    uint64_t target = random_below(2) ? 0 : random_below(of->marks_len + 2);
    pal_mark mark = {.kind = PAL_MARK_UNDO, .target = target};
    pal_status wanted = model_undo(of, &target);

    if (of->marks_len == MARKS_MAX)
        return;
    GIVES(wanted, pal_store_mark(test.store, no_tenant(), of->id, &mark, &test.err));
    if (wanted == PAL_OK) {
        CHECK_EQ(mark.target, target);
        model_mark_add(of, (model_mark){.kind = PAL_MARK_UNDO, .target = target});
    }
}

static void step_fork(const model *of)
{
    bool all = random_below(3) == 0;
    uint64_t at_seq = all ? last_shown(of) : random_below(of->last_seq + 1);
    model *made = free_model();

    if (!made)
        return;
    model_fork(of, at_seq, made);
    made->id = fork_at(of->id, all ? PAL_SEQ_ANY : at_seq);
    compare(made);
}

static void step_erase(model *of)
{
    OK(pal_store_erase(test.store, no_tenant(), of->id, NULL, &test.err));
    of->exists = false;
    GIVES(PAL_NOT_FOUND, find_id_status(of->id));
}

static void step_trash(model *of)
{
    OK(pal_store_delete(test.store, no_tenant(), of->id, &test.err));
    if (random_below(2))
        OK(pal_store_restore(test.store, no_tenant(), of->id, &test.err));
    else
        of->trashed = true;
}

static bool step(void)
{
    model *of = any_model();
    uint64_t kind = random_below(100);

    if (!of || kind < 3)
        step_create();
    else if (kind < 50)
        step_append(of);
    else if (kind < 60)
        step_mark(of, PAL_MARK_REWIND);
    else if (kind < 63)
        step_mark(of, PAL_MARK_PIN);
    else if (kind < 67)
        step_reset(of);
    else if (kind < 79)
        step_undo(of);
    else if (kind < 92)
        step_fork(of);
    else if (kind < 97)
        step_erase(of);
    else
        step_trash(of);
    return !of || !of->exists || compare(of);
}

static bool compare_all(void)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        if (models[i].exists && !compare(&models[i]))
            return false;
    return true;
}

static void erase_everything(void)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        if (models[i].exists)
            step_erase(&models[i]);
    CHECK_EQ(count_messages(), 0);
}

static unsigned long number_from(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);

    return text ? strtoul(text, NULL, 10) : otherwise;
}

static void random_steps_match_the_model(void)
{
    unsigned long seed = number_from("PAL_TEST_SEED", 20);
    unsigned long steps = number_from("PAL_TEST_STEPS", contract_is_durable() ? 2000 : 6000);
    bool same = true;

    memset(models, 0, sizeof models);
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    said = 0;
    for (step_number = 1; same && step_number <= steps; step_number++) {
        same = step();
        if (same && step_number % 100 == 0)
            same = compare_all();
        if (same && contract_is_durable() && step_number % 700 == 0)
            contract_reopen_store();
    }
    if (!same)
        printf("# PAL_TEST_SEED=%lu PAL_TEST_STEPS=%lu\n", seed, step_number - 1);
    CHECK(compare_all());
    erase_everything();
}

void contract_model(void)
{
    RUN(random_steps_match_the_model);
}
