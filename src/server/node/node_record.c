/* node_record.c - the records of nodes. Each has the kind "node" and its slot as its name.
 *
 * Only its own process writes a record, on the condition that the record has the version that this
 * process wrote last. A slot is taken by writing a record that must not exist, so two processes
 * never have the same one. A record expires a day after its last renewal. So an old id of a turn
 * does not lead to another process that has the same slot now.
 *
 * A crash leaves the record. The others see that it is not renewed any more. */
#include "server/node/node.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/process.h"
#include "dialect/dialect_member.h"
#include "server/access/access_key.h"

#define KIND "node"
#define NAME_SIZE 8
#define BODY_MAX 4096

static const char *const state_names[] = {"running", "stopping", "stopped", "dead"};

const char *pal_node_state_name(pal_node_state state)
{
    return state_names[state];
}

static pal_node_state state_from_name(pal_str name)
{
    for (pal_node_state state = PAL_NODE_RUNNING; state <= PAL_NODE_DEAD; state++)
        if (pal_str_is(name, state_names[state]))
            return state;
    return PAL_NODE_DEAD;
}

/* ---- Reading ---- */

#define MEMBER(name, type, field) {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_node, field)}
static const pal_member node_members[] = {
        MEMBER("address", STRING, address),
        MEMBER("owner", STRING, owner),
        MEMBER("release", STRING, release),
        MEMBER("started_at", TIME, started_at),
        MEMBER("renew_ms", U32, renew_ms),
        MEMBER("state", OTHER, state),
};

static pal_status read_state(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    pal_node *node = record;
    (void)member;
    (void)err;
    node->state = state_from_name(pal_json_string(value, arena));
    return PAL_OK;
}

static const pal_member_table node_table = {
        node_members, sizeof node_members / sizeof *node_members, read_state, NULL};

/* The record says what the node last wrote. Whether it is still alive depends on the time since. */
static pal_node_state judge(const pal_node *node, int64_t now_ms)
{
    int64_t age = now_ms - node->seen_at;
    bool is_dead = age > (int64_t)node->renew_ms * PAL_NODE_MISSES_MAX ||
            pal_process_is_dead(node->owner);
    if (node->state == PAL_NODE_STOPPED || (is_dead && age > PAL_NODE_DEAD_MS))
        return PAL_NODE_STOPPED;
    return is_dead ? PAL_NODE_DEAD : node->state;
}

static pal_status read_node(
        const pal_record *record, int64_t now_ms, pal_arena *arena, pal_node *out_node,
        pal_error *err)
{
    pal_json body;
    uint64_t slot = 0;
    pal_node node = {0};
    pal_status status = pal_json_parse(arena, record->body, NULL, &body, err);
    if (status == PAL_OK)
        status = pal_members_read_stored(&node_table, 1, body, arena, &node, err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < record->name.len && i < NAME_SIZE; i++)
        slot = slot * 10 + (uint64_t)(record->name.data[i] - '0');
    node.slot = (uint32_t)slot;
    node.seen_at = record->updated_at;
    node.version = record->version;
    node.state = judge(&node, now_ms);
    *out_node = node;
    return PAL_OK;
}

pal_status pal_node_list(pal_store *store, pal_arena *arena, pal_node **out_nodes,
        size_t *out_len, pal_error *err)
{
    pal_record_query query = {.tenant = pal_str_of(PAL_ACCESS_TENANT),
            .kind = pal_str_of(KIND),
            .limit = PAL_RECORD_PAGE_MAX};
    pal_record_page page = {.has_more = true};
    pal_node *nodes = NULL;
    size_t len = 0;
    int64_t now_ms = pal_store_clock_ms(store);
    while (page.has_more) {
        pal_status status = pal_store_record_list(store, &query, arena, &page, err);
        if (status != PAL_OK)
            return status;
        pal_node *longer = pal_arena_array(arena, len + page.len + 1, sizeof *longer);
        if (!longer)
            return pal_no_memory(err);
        if (len)
            memcpy(longer, nodes, len * sizeof *nodes);
        nodes = longer;
        for (size_t i = 0; i < page.len; i++) {
            status = read_node(&page.items[i], now_ms, arena, &nodes[len++], err);
            if (status != PAL_OK)
                return status;
            query.after = page.items[i].name;
        }
    }
    *out_nodes = nodes;
    *out_len = len;
    return PAL_OK;
}

/* ---- Writing ---- */

void pal_node_put(const pal_node *node, pal_json_writer *writer)
{
    pal_json_begin_object(writer);
    pal_put_count(writer, "slot", node->slot);
    pal_put_text(writer, "state", pal_node_state_name(node->state));
    pal_put_str(writer, "address", node->address);
    pal_put_str(writer, "release", node->release);
    pal_put_str(writer, "owner", node->owner);
    pal_put_time(writer, "started_at", node->started_at);
    pal_put_time(writer, "seen_at", node->seen_at);
    pal_put_count(writer, "renew_ms", node->renew_ms);
    pal_json_end_object(writer);
}

pal_status pal_node_write(pal_store *store, pal_node *node, pal_error *err)
{
    char name[NAME_SIZE];
    pal_buf buf;
    int64_t now_ms = pal_store_clock_ms(store);
    snprintf(name, sizeof name, "%05u", (unsigned)node->slot);
    pal_buf_init(&buf, BODY_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    node->seen_at = now_ms;
    pal_node_put(node, &writer);
    pal_record record = {.kind = pal_str_of(KIND),
            .name = pal_str_of(name),
            .body = pal_buf_str(&buf),
            .expires_at = now_ms + PAL_NODE_KEPT_MS};
    pal_status status = buf.failure
            ? pal_error_set(err, buf.failure, "the record of the node is too large")
            : pal_store_record_put(
                      store, pal_str_of(PAL_ACCESS_TENANT), &record, node->version, err);
    pal_buf_done(&buf);
    if (status == PAL_OK)
        node->version = record.version;
    return status;
}

/* Returns the slot after the largest one, or the first one if that is the last. */
static pal_status guess_slot(pal_store *store, pal_arena *arena, uint32_t *out_slot, pal_error *err)
{
    pal_record_query query = {.tenant = pal_str_of(PAL_ACCESS_TENANT),
            .kind = pal_str_of(KIND),
            .descending = true,
            .limit = 1};
    pal_record_page page;
    pal_node last = {0};
    pal_status status = pal_store_record_list(store, &query, arena, &page, err);
    if (status == PAL_OK && page.len)
        status = read_node(&page.items[0], 0, arena, &last, err);
    *out_slot = last.slot < PAL_NODE_SLOT_MAX ? last.slot + 1 : 1;
    return status;
}

pal_status pal_node_claim(pal_store *store, pal_arena *arena, pal_node *node, pal_error *err)
{
    uint32_t slot;
    pal_status status = guess_slot(store, arena, &slot, err);
    for (; status == PAL_OK && slot <= PAL_NODE_SLOT_MAX; slot++) {
        node->slot = slot;
        node->version = 0;
        status = pal_node_write(store, node, err);
        if (status != PAL_CONFLICT)
            return status;
        status = PAL_OK;
    }
    if (status != PAL_OK)
        return status;
    return pal_error_set(err, PAL_LIMIT, "all %d slots for nodes are taken; retry in a day",
            PAL_NODE_SLOT_MAX);
}
