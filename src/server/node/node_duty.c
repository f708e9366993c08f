/* node_duty.c - duties: periodic work that one node does for all of them.
 *
 * A duty is a record of kind "duty" with the name of the node that does it. The record expires, and
 * then any node can take the duty by writing a record that must not exist. The holder renews it by
 * its version. The store decides by its own clock, so the clocks of the nodes do not count.
 *
 * If two nodes do the same work nevertheless, for example because one of them was frozen, nothing
 * is lost: each step of the work is a transaction that begins with what the store contains. A crash
 * leaves the record until it expires. A server that is alone needs no record. */

#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "server/access/access_key.h"
#include "server/node/node.h"

#define KIND "duty"
#define BODY_MAX 1024

static pal_status write_duty(pal_server *server, const char *name, int64_t ttl_ms, uint64_t version,
        pal_error *err)
{
    pal_buf buf;
    pal_buf_init(&buf, BODY_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "owner", pal_runtime_name(server->runtime));
    pal_json_end_object(&writer);
    pal_record record = {.kind = pal_str_of(KIND),
            .name = pal_str_of(name),
            .body = pal_buf_str(&buf),
            .expires_at = pal_store_clock_ms(server->store) + ttl_ms};
    pal_status status = buf.failure
            ? pal_no_memory(err)
            : pal_store_record_put(
                      server->store, pal_str_of(PAL_ACCESS_TENANT), &record, version, err);
    pal_buf_done(&buf);
    return status;
}

static bool is_ours(const pal_server *server, pal_str body, pal_arena *arena)
{
    pal_json value;
    return pal_json_parse(arena, body, NULL, &value, NULL) == PAL_OK &&
            pal_str_equal(pal_json_string(pal_json_find(value, "owner"), arena),
                    pal_runtime_name(server->runtime));
}

bool pal_duty_take(pal_server *server, const char *name, int64_t ttl_ms)
{
    pal_error err;
    pal_record record;
    pal_arena *arena = pal_nodes_has_others(server->nodes) ? pal_arena_new(0) : NULL;
    bool is_taken = false;
    if (!arena)
        return true;
    pal_status status = pal_store_record_find(server->store, pal_str_of(PAL_ACCESS_TENANT),
            pal_str_of(KIND), pal_str_of(name), arena, &record, &err);
    if (status == PAL_NOT_FOUND)
        is_taken = write_duty(server, name, ttl_ms, 0, &err) == PAL_OK;
    else if (status == PAL_OK && is_ours(server, record.body, arena))
        is_taken = write_duty(server, name, ttl_ms, record.version, &err) == PAL_OK;
    pal_arena_free(arena);
    return is_taken;
}
