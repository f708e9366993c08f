/* cache_peer.c - see cache_peer.h. */
#include "contract/cache/cache_peer.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

const pal_str peer_tenants[PEER_TENANTS] = {{"default", 7}, {"acme", 4}};

pal_id peer_session(uint64_t number)
{
    pal_id id = {{0x77, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}};

    id.bytes[14] = (uint8_t)(number / 5);
    id.bytes[15] = (uint8_t)number;
    return id;
}

uint64_t peer_random(uint64_t *state, uint64_t bound)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % bound;
}

/* ---- Steps. Each can be refused: then nothing changes. ---- */

typedef struct step {
    pal_store *store;
    pal_str tenant;
    pal_id session;
    uint64_t random;
    pal_arena *arena;
    uint64_t last_seq;
} step;

static void append(step *self)
{
    pal_message messages[3];
    size_t len = 1 + peer_random(&self->random, 3);
    char client_id[8];
    char text[3][64];

    for (size_t i = 0; i < len; i++) {
        snprintf(text[i], sizeof text[i], "said %llu",
                (unsigned long long)peer_random(&self->random, 1000000));
        messages[i] = pal_message_text(self->arena, PAL_ROLE_USER, pal_str_of(text[i]));
    }
    if (peer_random(&self->random, 4) == 0) {
        snprintf(client_id, sizeof client_id, "c%u", (unsigned)peer_random(&self->random, 20));
        messages[0].client_id = pal_str_of(client_id);
    }
    (void)!pal_store_append(
            self->store, self->tenant, self->session, messages, len, PAL_SEQ_ANY, NULL);
}

static void mark(step *self)
{
    static const pal_mark_kind kinds[] = {PAL_MARK_REWIND, PAL_MARK_RESET, PAL_MARK_HIDE,
            PAL_MARK_PIN, PAL_MARK_UNDO, PAL_MARK_CHECKPOINT};
    pal_mark mark = {.kind = kinds[peer_random(&self->random, 6)]};

    mark.seq = 1 + peer_random(&self->random, self->last_seq + 1);
    if (mark.kind == PAL_MARK_UNDO)
        mark.seq = 0;
    if (mark.kind == PAL_MARK_CHECKPOINT)
        mark.body = pal_str_of("{\"summary\":\"what was said\"}");
    (void)!pal_store_mark(self->store, self->tenant, self->session, &mark, NULL);
}

static void update(step *self)
{
    pal_session session = {.tenant = self->tenant, .id = self->session};
    char title[32];

    snprintf(title, sizeof title, "title %llu",
            (unsigned long long)peer_random(&self->random, 1000));
    session.title = pal_str_of(title);
    (void)!pal_store_update(self->store, &session, PAL_SESSION_FIELD_TITLE, NULL);
}

static void create(step *self)
{
    pal_str alias = pal_str_of("an alias");
    pal_session session = {.tenant = self->tenant,
            .id = self->session,
            .title = pal_str_of("new"),
            .aliases = &alias,
            .aliases_len = peer_random(&self->random, 2)};

    (void)!pal_store_create(self->store, &session, NULL, NULL);
}

/* The fork gets the id of another session of the test, if that does not exist. */
static void fork_it(step *self)
{
    pal_session session = {.tenant = self->tenant,
            .id = peer_session(peer_random(&self->random, PEER_SESSIONS))};

    (void)!pal_store_fork(self->store, &session, self->session,
            peer_random(&self->random, self->last_seq + 1), NULL, NULL);
}

/* Several operations on several sessions in one commit. */
static void batch(step *self)
{
    pal_message messages[2] = {
            pal_message_text(self->arena, PAL_ROLE_USER, pal_str_of("one")),
            pal_message_text(self->arena, PAL_ROLE_USER, pal_str_of("two"))};
    pal_mark pin = {.kind = PAL_MARK_PIN, .seq = 1};
    pal_id other = peer_session(peer_random(&self->random, PEER_SESSIONS));
    pal_op ops[] = {
            pal_op_append(self->tenant, self->session, &messages[0], 1, PAL_SEQ_ANY),
            pal_op_mark(self->tenant, self->session, &pin),
            pal_op_append(self->tenant, other, &messages[1], 1, PAL_SEQ_ANY),
    };

    (void)!pal_store_apply(self->store, ops, sizeof ops / sizeof ops[0], NULL);
}

static void change(step *self)
{
    uint64_t kind = peer_random(&self->random, 100);

    if (kind < 5)
        create(self);
    else if (kind < 50)
        append(self);
    else if (kind < 65)
        mark(self);
    else if (kind < 75)
        batch(self);
    else if (kind < 80)
        update(self);
    else if (kind < 88)
        fork_it(self);
    else if (kind < 92)
        (void)!pal_store_erase_message(self->store, self->tenant, self->session,
                1 + peer_random(&self->random, self->last_seq + 1), NULL, NULL);
    else if (kind < 95)
        (void)!pal_store_delete(self->store, self->tenant, self->session, NULL);
    else if (kind < 97)
        (void)!pal_store_restore(self->store, self->tenant, self->session, NULL);
    else if (kind < 99)
        (void)!pal_store_erase(self->store, self->tenant, self->session, NULL, NULL);
    else
        (void)!pal_store_sweep(self->store, 0, 3, NULL, NULL);
}

void peer_step(pal_store *store, uint64_t seed)
{
    step self = {.store = store, .random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    pal_session session;
    char text[PAL_ID_TEXT_SIZE];

    self.arena = pal_arena_new(0);
    self.tenant = peer_tenants[peer_random(&self.random, PEER_TENANTS)];
    self.session = peer_session(peer_random(&self.random, PEER_SESSIONS));
    pal_id_to_text(self.session, text);
    if (pal_store_find(store, self.tenant, PAL_SESSION_BY_ID, pal_str_of(text), self.arena,
                &session, NULL) == PAL_OK) {
        self.last_seq = session.last_seq;
        change(&self);
    } else {
        create(&self);
    }
    pal_arena_free(self.arena);
}

/* ---- The other process ---- */

static void run(const pal_store_options *options, int from, int to)
{
    pal_store *store = NULL;
    uint64_t seed;

    if (pal_store_open(test.url, options, &store, NULL) != PAL_OK)
        _exit(1);
    while (read(from, &seed, sizeof seed) == sizeof seed) {
        peer_step(store, seed);
        if (write(to, "", 1) != 1)
            _exit(1);
    }
    pal_store_close(store);
    _exit(0);
}

peer peer_start(const pal_store_options *options)
{
    int down[2], up[2];
    peer other = {0};

    CHECK_EQ(pipe(down), 0);
    CHECK_EQ(pipe(up), 0);
    other.pid = fork();
    if (other.pid == 0) {
        close(down[1]);
        close(up[0]);
        run(options, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    other.to = down[1];
    other.from = up[0];
    return other;
}

void peer_order(const peer *other, uint64_t seed)
{
    char done;

    CHECK_EQ(write(other->to, &seed, sizeof seed), (ssize_t)sizeof seed);
    CHECK_EQ(read(other->from, &done, 1), 1);
}

void peer_stop(peer *other)
{
    int status = 1;

    close(other->to);
    close(other->from);
    CHECK_EQ(waitpid(other->pid, &status, 0), other->pid);
    CHECK_EQ(status, 0);
}

/* ---- Comparing ---- */

static pal_str json_of(pal_store *store, pal_str tenant, pal_id id, pal_arena *arena)
{
    pal_session session;
    char text[PAL_ID_TEXT_SIZE];
    pal_str json = pal_str_of("none");

    pal_id_to_text(id, text);
    if (pal_store_find(store, tenant, PAL_SESSION_BY_ID, pal_str_of(text), arena, &session, NULL) ==
            PAL_OK)
        OK(pal_session_to_json(&session, arena, &json, &test.err));
    return json;
}

static bool same_messages(const pal_message_page *a, const pal_message_page *b)
{
    bool same = a->len == b->len && a->has_more == b->has_more;

    for (size_t i = 0; same && i < a->len; i++) {
        const pal_message *x = &a->items[i], *y = &b->items[i];

        same = x->seq == y->seq && pal_id_equal(x->id, y->id) && x->role == y->role &&
                x->flags == y->flags && x->tokens == y->tokens && x->created_at == y->created_at &&
                pal_str_equal(x->client_id, y->client_id) && x->parts_len == y->parts_len &&
                (x->parts_len == 0 || pal_str_equal(x->parts[0].text, y->parts[0].text));
    }
    return same;
}

static bool same_marks(const pal_mark *a, size_t a_len, const pal_mark *b, size_t b_len)
{
    bool same = a_len == b_len;

    for (size_t i = 0; same && i < a_len; i++)
        same = a[i].number == b[i].number && a[i].kind == b[i].kind && a[i].seq == b[i].seq &&
                a[i].through_seq == b[i].through_seq && a[i].target == b[i].target &&
                a[i].undone == b[i].undone && a[i].created_at == b[i].created_at &&
                pal_str_equal(a[i].body, b[i].body);
    return same;
}

static bool same_active(const pal_active_marks *a, const pal_active_marks *b)
{
    return a->checkpoint.number == b->checkpoint.number &&
            pal_str_equal(a->checkpoint.body, b->checkpoint.body) && a->pins_len == b->pins_len;
}

bool peer_same(pal_store *a, pal_store *b, uint64_t tenant_number, uint64_t number, uint64_t seed)
{
    pal_str tenant = peer_tenants[tenant_number];
    pal_id id = peer_session(number);
    pal_arena *arena = pal_arena_new(0);
    pal_message_query load = {.limit = 1 + (uint32_t)peer_random(&seed, 40),
            .from_end = peer_random(&seed, 3) > 0,
            .bytes_max = peer_random(&seed, 3) == 0 ? 1 + peer_random(&seed, 200) : 0,
            .hidden = peer_random(&seed, 4) == 0};
    pal_message_page pages[2] = {0};
    pal_active_marks active[2] = {0};
    pal_mark *marks[2] = {0};
    size_t marks_len[2] = {0};
    pal_store *stores[2] = {a, b};
    pal_status found[2];
    bool same = CHECK_STR(json_of(a, tenant, id, arena), json_of(b, tenant, id, arena));

    for (size_t i = 0; i < 2; i++) {
        found[i] = pal_store_load(stores[i], tenant, id, &load, arena, &pages[i], NULL);
        if (found[i] != PAL_OK)
            continue;
        OK(pal_store_marks(
                stores[i], tenant, id, arena, &marks[i], &marks_len[i], &test.err));
        OK(pal_store_active_marks(stores[i], tenant, id, arena, &active[i], &test.err));
    }
    same = CHECK_STATUS(found[0], found[1]) && CHECK(same_messages(&pages[0], &pages[1])) &&
            CHECK(same_marks(marks[0], marks_len[0], marks[1], marks_len[1])) &&
            CHECK(same_active(&active[0], &active[1])) && same;
    pal_arena_free(arena);
    return same;
}
