/* turn_outbox.c - puts a record into an outbox when a turn ends whose answer must be delivered to
 * somebody outside.
 *
 * Crash argument: the record is written in the commit that ends the turn, together with the removal
 * of the item that marks the turn as unfinished (recovery_owed.c). Before that commit another
 * process continues the turn, and after it the record exists. The operation of the record comes
 * before that of the messages, which depends on it. If only the record is stored, because the disk
 * is full, for example, the turn is unfinished, and its real end replaces the record.
 *
 * The name of the record is made of the turn's id, which stays the same in every process. So a turn
 * has only one record, however often it was tried. */
#include "turn/turn_outbox.h"

#include <stdio.h>

#include "base/json/json.h"
#include "base/json/json_put.h"
#include "base/text.h"
#include "message/message_check.h"

/* ---- Checks ---- */

static pal_status check_note(const pal_turn_request *request, pal_error *err)
{
    const pal_turn_channel *channel = request->channel;

    if (channel->outbox.len > 0)
        return pal_error_set(err, PAL_INVALID, "a note has no answer, so it cannot have an outbox");
    if (request->on_done || request->answers_len > 0 || request->messages_len == 0)
        return pal_error_set(
                err, PAL_INVALID, "a note must have messages, and neither on_done nor answers");
    if (request->lane != PAL_TURN_LANE_REJECT && request->lane != PAL_TURN_LANE_QUEUE)
        return pal_error_set(err, PAL_INVALID, "the lane of a note must be reject or queue");
    return PAL_OK;
}

static pal_status check_also(pal_str also, pal_arena *scratch, pal_error *err)
{
    pal_json list;

    if (also.len == 0)
        return PAL_OK;
    if (also.len > PAL_DELIVER_ALSO_BYTES_MAX)
        return pal_error_set(err, PAL_LIMIT, "'also' of %zu bytes exceeds the limit of %u",
                also.len, PAL_DELIVER_ALSO_BYTES_MAX);
    if (pal_json_parse(scratch, also, NULL, &list, err) != PAL_OK ||
            pal_json_type_of(list) != PAL_JSON_ARRAY)
        return pal_error_set(err, PAL_INVALID, "'also' must be a JSON array");
    return PAL_OK;
}

pal_status pal_outbox_check(const pal_turn_request *request, pal_arena *scratch, pal_error *err)
{
    const pal_turn_channel *channel = request->channel;
    pal_status status;

    if (!channel)
        return PAL_OK;
    if (channel->is_note)
        return check_note(request, err);
    if (channel->outbox.len == 0 && channel->deliver.len > 0)
        return pal_error_set(err, PAL_INVALID, "'deliver' requires an outbox");
    if (channel->outbox.len == 0)
        return PAL_OK;
    status = pal_text_check(channel->outbox, "outbox", PAL_OUTBOX_LEN_MAX, true, err);
    if (status != PAL_OK)
        return status;
    if (memchr(channel->outbox.data, '/', channel->outbox.len))
        return pal_error_set(err, PAL_INVALID, "the name of an outbox must not contain '/'");
    if (request->on_done || request->lane == PAL_TURN_LANE_STEER)
        return pal_error_set(err, PAL_INVALID,
                "a request with an outbox can have neither on_done nor lane=steer");
    if (channel->deliver.len == 0)
        return pal_error_set(err, PAL_INVALID, "an outbox requires 'deliver'");
    status = pal_object_check(channel->deliver, "deliver", PAL_DELIVER_BYTES_MAX, err);
    return status == PAL_OK ? check_also(channel->also, scratch, err) : status;
}

/* ---- Merging ---- */

static bool has_outbox(const pal_turn_channel *channel)
{
    return channel && channel->outbox.len > 0;
}

bool pal_outbox_can_merge(const pal_turn_channel *first, const pal_turn_channel *second)
{
    if (has_outbox(first) != has_outbox(second) ||
            (first && first->is_note) != (second && second->is_note))
        return false;
    return !has_outbox(first) ||
            (pal_str_equal(first->outbox, second->outbox) &&
                    first->also.len + first->deliver.len + second->also.len + 16 <=
                            PAL_DELIVER_ALSO_BYTES_MAX);
}

static void put_items(pal_json_writer *writer, pal_str array, pal_arena *arena)
{
    pal_json list, item;
    pal_json_iter each;

    if (array.len == 0 || pal_json_parse(arena, array, NULL, &list, NULL) != PAL_OK)
        return;
    each = pal_json_each(list);
    while (pal_json_next(&each, NULL, &item))
        pal_json_put_raw(writer, pal_json_raw(item));
}

const pal_turn_channel *pal_outbox_merge(
        const pal_turn_channel *first, const pal_turn_channel *second, pal_arena *arena)
{
    pal_turn_channel *both = pal_arena_alloc(arena, sizeof(*both));
    pal_json_writer writer;
    pal_buf buf;

    if (!both || !has_outbox(first))
        return first;
    pal_buf_init(&buf, 2 * PAL_DELIVER_ALSO_BYTES_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_array(&writer);
    put_items(&writer, first->also, arena);
    pal_json_put_raw(&writer, first->deliver);
    put_items(&writer, second->also, arena);
    pal_json_end_array(&writer);
    *both = *second;
    both->outbox = pal_arena_copy(arena, second->outbox);
    both->deliver = pal_arena_copy(arena, second->deliver);
    both->also = buf.failure == PAL_OK ? pal_arena_copy(arena, pal_buf_str(&buf)) : first->also;
    pal_buf_done(&buf);
    return both;
}

/* ---- The record ---- */

static pal_str name_of(const pal_turn_channel *channel, pal_id turn, char *out_text, size_t size)
{
    char id[PAL_ID_TEXT_SIZE];
    int len;

    pal_id_to_text(turn, id);
    len = snprintf(out_text, size, "%.*s/%s", PAL_STR_ARG(channel->outbox), id);
    return pal_str_make(out_text, (size_t)len);
}

static void put_body(pal_buf *buf, pal_id turn, const pal_turn_channel *channel,
        pal_turn_state state, pal_str reason, pal_id answer)
{
    pal_json_writer writer = pal_json_writer_make(buf);

    pal_json_begin_object(&writer);
    pal_put_count(&writer, "v", 1);
    pal_put_raw(&writer, "deliver", channel->deliver);
    if (channel->also.len > 0)
        pal_put_raw(&writer, "also", channel->also);
    pal_put_id(&writer, "turn", turn);
    if (!pal_id_is_none(answer))
        pal_put_id(&writer, "message", answer);
    pal_put_text(&writer, "state", pal_turn_state_name(state));
    if (state != PAL_TURN_DONE)
        pal_put_str_if(&writer, "reason", reason);
    pal_json_end_object(&writer);
}

pal_record *pal_outbox_make_for(pal_turn *turn, pal_id other, const pal_turn_channel *channel,
        pal_turn_state state, pal_str reason, pal_id answer)
{
    pal_record *record;
    char name[PAL_OUTBOX_LEN_MAX + 1 + PAL_ID_TEXT_SIZE];
    pal_buf buf;

    if (!has_outbox(channel))
        return NULL;
    record = pal_arena_alloc(turn->arena, sizeof(*record));
    if (!record) {
        turn->commit.ops_failure = PAL_NO_MEMORY; /* pal_turn_write() reports it */
        return NULL;
    }
    turn->commit.outbox = record;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    put_body(&buf, other, channel, state, reason, answer);
    *record = (pal_record){.kind = pal_str_of(PAL_OUTBOX_KIND),
            .name = pal_arena_copy(turn->arena, name_of(channel, other, name, sizeof(name))),
            .session = turn->request.session,
            .body = pal_arena_copy(turn->arena, pal_buf_str(&buf))};
    if (buf.failure != PAL_OK || pal_arena_failure(turn->arena) != PAL_OK)
        turn->commit.ops_failure = PAL_NO_MEMORY;
    pal_buf_done(&buf);
    return record;
}

pal_record *pal_outbox_make(pal_turn *turn, pal_turn_state state, pal_id answer)
{
    return pal_outbox_make_for(turn, turn->owed.turn, turn->request.channel, state,
            pal_str_of(turn->info.reason), answer);
}

void pal_outbox_tell(const pal_turn *turn, pal_turn_state state)
{
    const pal_runtime_options *options = &turn->runtime->options;
    char name[PAL_OUTBOX_LEN_MAX + 1 + PAL_ID_TEXT_SIZE];

    if (!options->on_outbox || !has_outbox(turn->request.channel) ||
            (state != PAL_TURN_DONE && state != PAL_TURN_FAILED && state != PAL_TURN_CANCELED))
        return;
    options->on_outbox(turn->request.tenant,
            name_of(turn->request.channel, turn->owed.turn, name, sizeof(name)),
            turn->request.session, options->outbox_user);
}
