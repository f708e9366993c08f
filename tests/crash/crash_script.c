/* crash_script.c - the steps; see crash_script.h. crash_account.c writes the account. */
#include "crash_script.h"
#include "palaver/store_admin.h"
#include "palaver/store_batch.h"
#include "palaver/store_marks.h"
#include "palaver/store_records.h"
#include "palaver/store_search.h"
#include "palaver/store_turns.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "crash_pattern.h"
#include "crash_sessions.h"

#define CLOCK_START 1800000000000
#define BATCH_BIT 48 /* the first bit of the batch's parts */
#define BATCH_LEN 7
#define BATCH_REFUSED 2
#define MESSAGES_MAX 4
#define MANY 1024

typedef struct call {
    pal_store *store;
    pal_id session;
    uint32_t writer; /* represents the step in the texts */
    uint64_t n;
    script_mask mask;
    script_result *result;
    pal_error error;
} call;

typedef struct step {
    const char *name;
    pal_status (*run)(call *c);
    script_session session;
    uint64_t n;
} step;

static pal_str text(const char *terminated)
{
    return pal_str_of(terminated);
}

static const pal_str tenant = {"crash", 5};

/* ---- Sessions ---- */

static pal_session session_fields(pal_id id, const char *key, pal_str *aliases, size_t aliases_len)
{
    pal_session session = {0};

    session.id = id;
    session.tenant = tenant;
    session.key = text(key);
    session.aliases = aliases;
    session.aliases_len = aliases_len;
    session.title = text("a title");
    session.metadata = text("{\"kept\":true}");
    return session;
}

static pal_status do_create(call *c)
{
    char key[2] = {(char)c->n, 0};
    pal_str aliases[2] = {text("first of the aliases"), text("second")};
    pal_session session = session_fields(c->session, key, aliases, c->n == 'a' ? 2 : 0);
    pal_id id;

    return pal_store_create(c->store, &session, &id, &c->error);
}

static pal_status do_update(call *c)
{
    pal_session session = {0};
    pal_str alias = text("third");

    session.id = c->session;
    session.tenant = tenant;
    session.title = text("another title");
    session.metadata = text("{\"kept\":[1,2]}");
    session.aliases = &alias;
    session.aliases_len = 1;
    return pal_store_update(c->store, &session,
            PAL_SESSION_FIELD_TITLE | PAL_SESSION_FIELD_METADATA | PAL_SESSION_FIELD_ALIASES,
            &c->error);
}

static pal_status do_fork(call *c)
{
    pal_session session = session_fields(c->session, NULL, NULL, 0);
    pal_id id;

    return pal_store_fork(c->store, &session, script_session_id(SCRIPT_A), c->n, &id, &c->error);
}

static pal_status do_delete(call *c)
{
    return pal_store_delete(c->store, tenant, c->session, &c->error);
}

static pal_status do_restore(call *c)
{
    return pal_store_restore(c->store, tenant, c->session, &c->error);
}

static pal_status do_erase(call *c)
{
    pal_erase_result erasure;
    pal_status status = pal_store_erase(c->store, tenant, c->session, &erasure, &c->error);

    if (!status)
        c->result->seq = erasure.messages * 1000 + erasure.shared;
    return status;
}

static pal_status do_sweep(call *c)
{
    pal_sweep_result sweep;

    return pal_store_sweep(c->store, (int64_t)c->n, 100, &sweep, &c->error);
}

/* ---- Messages and marks ---- */

static pal_status do_append(call *c)
{
    static pattern_message rooms[MESSAGES_MAX];
    pal_message messages[MESSAGES_MAX];
    pal_status status;

    for (uint32_t i = 0; i < c->n; i++) {
        pattern what = {.writer = c->writer, .part = i, .parts = (uint32_t)c->n, .counter = 1};
        pattern_message_init(&rooms[i], &what);
        messages[i] = rooms[i].message;
    }
    status = pal_store_append(c->store, tenant, c->session, messages, c->n, PAL_SEQ_ANY, &c->error);
    if (!status)
        c->result->seq = messages[c->n - 1].seq;
    return status;
}

/* A text of many pages and, with a second part, an image that becomes a blob. */
static pal_status do_append_large(call *c)
{
    static char large[60000];
    pal_part parts[2] = {{.kind = PAL_PART_TEXT}, {.kind = PAL_PART_IMAGE}};
    pal_message message = {.role = PAL_ROLE_USER, .parts = parts, .parts_len = c->n};
    pal_status status;

    memset(large, 'A' + (int)c->writer, sizeof(large));
    for (size_t i = 0; i < sizeof(large); i += 97)
        large[i] = (char)('a' + i % 26);
    parts[0].text = pal_str_make(large, sizeof(large) / 3);
    parts[1].media_type = text("image/png");
    parts[1].data = pal_str_make(large, sizeof(large));
    status = pal_store_append(c->store, tenant, c->session, &message, 1, PAL_SEQ_ANY, &c->error);
    if (!status)
        c->result->seq = message.seq;
    return status;
}

/* Enough messages to complete a part of the search index. */
static pal_status do_append_many(call *c)
{
    static char texts[MANY][8];
    static pal_part parts[MANY];
    static pal_message messages[MANY];
    pal_status status;

    for (size_t i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof(texts[i]), "n%zu", i % 10);
        parts[i] = (pal_part){.kind = PAL_PART_TEXT, .text = text(texts[i])};
        messages[i] = (pal_message){.role = PAL_ROLE_USER, .parts = &parts[i], .parts_len = 1};
    }
    status = pal_store_append(c->store, tenant, c->session, messages, MANY, PAL_SEQ_ANY, &c->error);
    if (!status)
        c->result->seq = messages[MANY - 1].seq;
    return status;
}

/* Indexes the missing messages. The search must find the same whether this succeeds or fails. */
static pal_status do_search(call *c)
{
    pal_search_query search = {.tenant = tenant, .text = text("n7"), .limit = PAL_SEARCH_HITS_MAX};
    pal_arena *arena = pal_arena_new(0);
    pal_search_page hits = {0};
    pal_status status = pal_store_search(c->store, &search, arena, &hits, &c->error);

    if (!status)
        c->result->seq = hits.len;
    pal_arena_free(arena);
    return status;
}

static pal_status do_mark(call *c)
{
    pal_mark mark = {.kind = (pal_mark_kind)(c->n / 100), .seq = c->n % 100};
    pal_status status;

    if (mark.kind == PAL_MARK_CHECKPOINT)
        mark.body = text("{\"summary\":\"all that was said\"}");
    status = pal_store_mark(c->store, tenant, c->session, &mark, &c->error);
    if (!status)
        c->result->seq = mark.number;
    return status;
}

static pal_status do_reset(call *c)
{
    pal_mark mark;

    return pal_store_reset(c->store, tenant, c->session, true, &mark, &c->error);
}

/* ---- Inbox, lease, ledger, blobs ---- */

static pal_status do_inbox_add(call *c)
{
    pal_inbox_item item = {.delivery = text("queue"), .body = text("{\"text\":\"wait\"}")};

    item.client_id = c->n == 1 ? text("one") : text("two");
    return pal_store_inbox_add(c->store, tenant, c->session, &item, &c->error);
}

/* The id of the first waiting item; the empty id if nothing waits. */
static pal_id inbox_first(call *c)
{
    pal_arena *arena = pal_arena_new(0);
    pal_inbox_item *items;
    size_t len;
    pal_id id = {{0}};

    if (!pal_store_inbox_list(c->store, tenant, c->session, arena, &items, &len, &c->error) &&
            len > 0)
        id = items[0].id;
    pal_arena_free(arena);
    return id;
}

static pal_status do_inbox_drop(call *c)
{
    pal_id item = inbox_first(c);

    if (pal_id_is_none(item))
        return pal_error_set(&c->error, PAL_NOT_FOUND, "nothing in the inbox");
    return pal_store_inbox_drop(c->store, tenant, c->session, item, &c->error);
}

static pal_status do_lease_take(call *c)
{
    uint64_t fence;
    pal_status status = pal_store_lease_take(
            c->store, tenant, c->session, text("node-1"), 3600000, &fence, &c->error);

    if (!status)
        c->result->seq = fence;
    return status;
}

static pal_status do_lease_release(call *c)
{
    return pal_store_lease_release(c->store, tenant, c->session, c->n, &c->error);
}

static pal_ledger_row ledger_row(const char *request_id)
{
    pal_ledger_row row = {.request_id = text(request_id)};

    row.turn_id = text("turn");
    row.agent = text("agent");
    row.purpose = text("turn");
    row.provider = text("script");
    row.model = text("model-1");
    row.price_version = text("v1");
    row.usage.input = 100;
    row.usage.output = 7;
    row.cost_micros = 12345;
    return row;
}

static pal_status do_ledger_add(call *c)
{
    pal_ledger_row row = ledger_row("request-1");

    return pal_store_ledger_add(c->store, tenant, c->session, &row, &c->error);
}

static pal_status do_blob_put(call *c)
{
    char name[PAL_BLOB_NAME_SIZE];

    return pal_store_blob_put(
            c->store, tenant, text("text/plain"), text(SCRIPT_BLOB_TEXT), name, &c->error);
}

/* ---- Records ---- */

static pal_record record_named(const char *name)
{
    return (pal_record){
            .kind = text(SCRIPT_RECORD_KIND), .name = text(name), .body = text("{\"n\":[1,2]}")};
}

/* Record 1 belongs to the session, 2 expires soon, and the others belong to no session and stay. */
static pal_status do_record_put(call *c)
{
    char name[16], body[32];
    pal_record record = record_named("");
    pal_status status;

    snprintf(name, sizeof(name), "record-%d", (int)c->n);
    snprintf(body, sizeof(body), "{\"writer\":%u}", c->writer);
    record.name = text(name);
    record.body = text(body);
    if (c->n == 1)
        record.session = c->session;
    if (c->n == 2)
        record.expires_at = CLOCK_START + 20000;
    status = pal_store_record_put(c->store, tenant, &record, PAL_RECORD_VERSION_ANY, &c->error);
    if (!status)
        c->result->seq = record.version;
    return status;
}

static pal_status do_record_drop(call *c)
{
    char name[16];

    snprintf(name, sizeof(name), "record-%d", (int)c->n);
    return pal_store_record_drop(c->store, tenant, text(SCRIPT_RECORD_KIND), text(name), &c->error);
}

/* An append like that of a turn: with its lease, with the inbox item that it answers, and with the
 * ledger row of the model call. All of it is written, or nothing. */
static pal_status do_turn(call *c)
{
    static pattern_message room;
    pattern what = {.writer = c->writer, .parts = 1, .counter = 1};
    pal_ledger_row row = ledger_row("request-2");
    pal_id item = inbox_first(c);
    pal_op op = {.kind = PAL_OP_APPEND, .tenant = tenant, .session = c->session, .fence = c->n};
    pal_status status;

    if (pal_id_is_none(item))
        return pal_error_set(&c->error, PAL_NOT_FOUND, "nothing in the inbox");
    pattern_message_init(&room, &what);
    op.u.append.messages = &room.message;
    op.u.append.messages_len = 1;
    op.u.append.expected_seq = PAL_SEQ_ANY;
    op.u.append.inbox_ids = &item;
    op.u.append.inbox_ids_len = 1;
    op.u.append.ledger = &row;
    op.u.append.ledger_len = 1;
    status = pal_store_apply(c->store, &op, 1, &c->error);
    if (status)
        return status;
    c->error = op.error;
    c->result->seq = room.message.seq;
    return op.status;
}

/* ---- The batch ---- */

typedef struct batch_rooms {
    pal_session session;
    pattern_message append, refused;
    pal_mark mark;
    pal_ledger_row row;
    pal_record put, drop;
} batch_rooms;

static void batch_fill(pal_op ops[BATCH_LEN], batch_rooms *rooms, uint32_t writer)
{
    static const pal_op_kind kinds[BATCH_LEN] = {PAL_OP_CREATE, PAL_OP_APPEND, PAL_OP_APPEND,
            PAL_OP_MARK, PAL_OP_LEDGER_ADD, PAL_OP_RECORD_PUT, PAL_OP_RECORD_DROP};
    pattern first = {.writer = writer, .parts = 1, .counter = 1};
    pattern second = {.writer = writer, .parts = 1, .counter = 2};

    rooms->session = session_fields(script_session_id(SCRIPT_C), "c", NULL, 0);
    pattern_message_init(&rooms->append, &first);
    pattern_message_init(&rooms->refused, &second);
    rooms->mark = (pal_mark){.kind = PAL_MARK_PIN, .seq = 1};
    rooms->row = ledger_row("request-3");
    for (size_t i = 0; i < BATCH_LEN; i++)
        ops[i] = (pal_op){
                .kind = kinds[i], .tenant = tenant, .session = script_session_id(SCRIPT_C)};
    ops[0].u.create.session = &rooms->session;
    ops[1].u.append.messages = &rooms->append.message;
    ops[1].u.append.messages_len = 1;
    ops[1].u.append.expected_seq = PAL_SEQ_ANY;
    /* Has a wrong expectation: it must fail alone and leave nothing. */
    ops[2].u.append.messages = &rooms->refused.message;
    ops[2].u.append.messages_len = 1;
    ops[2].u.append.expected_seq = 77;
    ops[3].u.mark = &rooms->mark;
    ops[4].u.ledger_row = &rooms->row;
    rooms->put = record_named("record-batch");
    rooms->put.session = script_session_id(SCRIPT_C);
    ops[5].u.record.record = &rooms->put;
    ops[5].with_previous = true;
    rooms->drop = record_named("record-3");
    ops[6].u.record.record = &rooms->drop;
}

static pal_status do_batch(call *c)
{
    static batch_rooms rooms;
    pal_op all[BATCH_LEN], ops[BATCH_LEN];
    script_mask bits[BATCH_LEN];
    size_t len = 0;
    pal_status status;

    batch_fill(all, &rooms, c->writer);
    for (size_t i = 0; i < BATCH_LEN; i++) {
        script_mask bit = (script_mask)1 << (BATCH_BIT + i);
        if (c->mask & bit) {
            bits[len] = bit;
            ops[len++] = all[i];
        }
    }
    status = pal_store_apply(c->store, ops, len, &c->error);
    for (size_t i = 0; !status && i < len; i++)
        if (ops[i].status == PAL_OK)
            c->result->done |= bits[i];
    return status;
}

/* ---- The list ---- */

static const step steps[] = {
        {"create a", do_create, SCRIPT_A, 'a'},
        {"append 1 to a", do_append, SCRIPT_A, 1},
        {"append 3 to a", do_append, SCRIPT_A, 3},
        {"create b", do_create, SCRIPT_B, 'b'},
        {"append a large one to b", do_append_large, SCRIPT_B, 1},
        {"fork a at 2", do_fork, SCRIPT_FORK, 2},
        {"append 2 to the fork", do_append, SCRIPT_FORK, 2},
        {"rewind a to 2", do_mark, SCRIPT_A, PAL_MARK_REWIND * 100 + 2},
        {"append 1 to a", do_append, SCRIPT_A, 1},
        {"undo the rewind", do_mark, SCRIPT_A, PAL_MARK_UNDO * 100},
        {"checkpoint a at 3", do_mark, SCRIPT_A, PAL_MARK_CHECKPOINT * 100 + 3},
        {"add to a's inbox", do_inbox_add, SCRIPT_A, 1},
        {"add to a's inbox", do_inbox_add, SCRIPT_A, 2},
        {"drop from a's inbox", do_inbox_drop, SCRIPT_A, 0},
        {"take a's lease", do_lease_take, SCRIPT_A, 0},
        {"a turn on a", do_turn, SCRIPT_A, 1},
        {"add to the ledger", do_ledger_add, SCRIPT_A, 0},
        {"put a blob", do_blob_put, SCRIPT_A, 0},
        {"put a record of a", do_record_put, SCRIPT_A, 1},
        {"put a record that expires", do_record_put, SCRIPT_A, 2},
        {"put a record", do_record_put, SCRIPT_A, 3},
        {"put another record", do_record_put, SCRIPT_A, 4},
        {"append an image to b", do_append_large, SCRIPT_B, 2},
        {"append many to b", do_append_many, SCRIPT_B, 0},
        {"search", do_search, SCRIPT_A, 0},
        {"close and open", NULL, SCRIPT_A, 0},
        {"update a", do_update, SCRIPT_A, 0},
        {"change a's record", do_record_put, SCRIPT_A, 1},
        {"put a fifth record", do_record_put, SCRIPT_A, 5},
        {"drop a record", do_record_drop, SCRIPT_A, 4},
        {"reset b", do_reset, SCRIPT_B, 0},
        {"delete b", do_delete, SCRIPT_B, 0},
        {"create another b", do_create, SCRIPT_B_AGAIN, 'b'},
        {"restore the first b: conflict", do_restore, SCRIPT_B, 0},
        {"a batch", do_batch, SCRIPT_C, 0},
        {"erase a, whose rows the fork shares", do_erase, SCRIPT_A, 0},
        {"append 1 to the fork", do_append, SCRIPT_FORK, 1},
        {"search", do_search, SCRIPT_A, 0},
        {"erase the fork", do_erase, SCRIPT_FORK, 0},
        {"sweep b out of the trash", do_sweep, SCRIPT_B, 0},
        {"append 4 to c", do_append, SCRIPT_C, 4},
        {"delete c", do_delete, SCRIPT_C, 0},
        {"restore c", do_restore, SCRIPT_C, 0},
        {"release a lease that is gone", do_lease_release, SCRIPT_C, 1},
        {"create the last", do_create, SCRIPT_LAST, 'z'},
};

#define STEPS_LEN (sizeof(steps) / sizeof(*steps))

_Static_assert(STEPS_LEN <= BATCH_BIT, "a bit for every step");
_Static_assert(BATCH_LEN - 1 == SCRIPT_BATCH_DONE, "one of the batch is refused");

size_t script_len(void)
{
    return STEPS_LEN;
}

const char *script_name(size_t step_index)
{
    return steps[step_index].name;
}

script_mask script_bits(size_t step_index)
{
    script_mask bits = (script_mask)1 << step_index;

    for (size_t i = 0; steps[step_index].run == do_batch && i < BATCH_LEN; i++)
        if (i != BATCH_REFUSED)
            bits |= (script_mask)1 << (BATCH_BIT + i);
    return bits;
}

bool script_is_reopen(size_t step_index)
{
    return !steps[step_index].run;
}

static pal_status reopen(script_store *on, pal_error *err)
{
    pal_store_close(on->store);
    on->store = NULL;
    return pal_store_open(on->url, NULL, &on->store, err);
}

script_result script_step(script_store *on, size_t step_index, script_mask mask)
{
    const step *it = &steps[step_index];
    script_result result = {0};
    call c = {.store = on->store, .session = script_session_id(it->session), .n = it->n};

    c.writer = (uint32_t)step_index + 1;
    c.mask = mask;
    c.result = &result;
    pal_clock_set_ms(CLOCK_START + (int64_t)step_index * 1000);
    if (!it->run)
        result.status = reopen(on, &c.error);
    else if (!on->store)
        result.status = pal_error_set(&c.error, PAL_IO, "the store is closed");
    else
        result.status = it->run(&c);
    if (!result.status)
        result.done |= (script_mask)1 << step_index;
    memcpy(result.message, c.error.message, sizeof(result.message));
    return result;
}
