/* jsonl_log.c - the frames of the log.
 *
 * A frame is a head of 32 bytes, a JSON object and a tail of raw bytes:
 *
 *   "PLVJ" | json_len | tail_len | frames | batch (8) | checksum (8)      little-endian, 4 each
 *
 * The checksum is 64-bit FNV-1a over the preceding part of the head, the JSON and the tail. The
 * last frame of a batch contains the number of frames of the batch; the others contain 0.
 *
 * Everything after the last such intact frame never happened. It is ignored, and the next batch
 * cuts it off. The same applies to the last batch if frames of it are missing, for example after a
 * power cut that wrote its end first. Damage before that destroys only the affected frames: reading
 * continues with the next intact frame.
 *
 * The record "done" is not synced when it is written. The next batch writes it again, before its
 * own frames. So one sync makes both durable, and neither depends on an earlier sync that failed. A
 * power cut before that sync can leave a hole in place of "done", with the intact batch after it.
 * Then nothing is missing. */
#include "base/memory.h"
#include "store/jsonl/jsonl.h"

#define HEAD_LEN 32
#define SUM_AT 24
#define LOG_BYTES_MAX (SIZE_MAX / 4)

static void put_number(char *at, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(number >> (8 * i));
}

static uint64_t get_number(const char *at, size_t bytes)
{
    uint64_t number = 0;

    for (size_t i = 0; i < bytes; i++)
        number |= (uint64_t)(unsigned char)at[i] << (8 * i);
    return number;
}

uint64_t pal_jsonl_sum(uint64_t sum, pal_str bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        sum = (sum ^ (unsigned char)bytes.data[i]) * 0x100000001b3u;
    return sum;
}

static uint64_t checksum(const char *frame, size_t len)
{
    uint64_t sum = pal_jsonl_sum(JSONL_SUM_START, pal_str_make(frame, SUM_AT));

    return pal_jsonl_sum(sum, pal_str_make(frame + HEAD_LEN, len - HEAD_LEN));
}

/* ---- Writing ---- */

pal_status pal_jsonl_batch_init(jsonl_batch *batch, jsonl_engine *engine)
{
    memset(batch, 0, sizeof *batch);
    batch->engine = engine;
    pal_buf_init(&batch->log, LOG_BYTES_MAX);
    pal_buf_init(&batch->lines, LOG_BYTES_MAX);
    batch->arena = pal_arena_new(0);
    return batch->arena ? PAL_OK : PAL_NO_MEMORY;
}

void pal_jsonl_batch_untouch(jsonl_batch *batch)
{
    while (batch->touched) {
        batch->touched->is_touched = false;
        pal_free(batch->touched->moved_from);
        batch->touched->moved_from = NULL;
        batch->touched->append_last = 0;
        batch->touched = batch->touched->next_touched;
    }
}

void pal_jsonl_batch_done(jsonl_batch *batch)
{
    pal_jsonl_batch_untouch(batch);
    pal_buf_done(&batch->log);
    pal_buf_done(&batch->lines);
    pal_free(batch->appends);
    pal_arena_free(batch->arena);
}

static size_t frame_len(const char *frame)
{
    return HEAD_LEN + (size_t)get_number(frame + 4, 4) + (size_t)get_number(frame + 8, 4);
}

void pal_jsonl_log_put(jsonl_batch *batch, pal_str json, pal_str tail)
{
    size_t at = batch->log.len;
    char head[HEAD_LEN] = "PLVJ";

    if (json.len > UINT32_MAX || tail.len > UINT32_MAX) {
        batch->log.failure = PAL_LIMIT;
        return;
    }
    put_number(head + 4, json.len, 4);
    put_number(head + 8, tail.len, 4);
    put_number(head + 16, batch->engine->batch + 1, 8);
    pal_buf_append(&batch->log, head, sizeof head);
    pal_buf_append_str(&batch->log, json);
    pal_buf_append_str(&batch->log, tail);
    if (batch->log.failure)
        return;
    put_number(
            batch->log.data + at + SUM_AT, checksum(batch->log.data + at, batch->log.len - at), 8);
    batch->last_frame = at;
    batch->frames++;
}

void pal_jsonl_log_finish(jsonl_batch *batch)
{
    char *frame;

    if (batch->frames == 0 || batch->log.failure)
        return;
    frame = batch->log.data + batch->last_frame;
    put_number(frame + 12, batch->frames, 4);
    put_number(frame + SUM_AT, checksum(frame, frame_len(frame)), 8);
}

/* ---- Reading ---- */

/* Returns the length of the intact frame at `at`, or 0 if there is none. */
static size_t intact_frame(pal_str text, size_t at)
{
    size_t len;

    if (text.len - at < HEAD_LEN || memcmp(text.data + at, "PLVJ", 4) != 0)
        return 0;
    len = frame_len(text.data + at);
    if (len > text.len - at)
        return 0;
    return checksum(text.data + at, len) == get_number(text.data + at + SUM_AT, 8) ? len : 0;
}

/* Moves *in_out_at to the next intact frame, skipping damaged bytes. Returns 0 at the end. */
static size_t next_frame(pal_str text, size_t *in_out_at)
{
    size_t at = *in_out_at, len = intact_frame(text, at);
    const char *found;

    while (len == 0 && at < text.len) {
        found = memmem(text.data + at + 1, text.len - at - 1, "PLVJ", 4);
        if (!found)
            return 0;
        at = (size_t)(found - text.data);
        len = intact_frame(text, at);
    }
    if (len > 0)
        *in_out_at = at;
    return len;
}

static pal_status tell(jsonl_engine *engine, const char *frame, jsonl_record_sink sink,
        pal_arena *arena, bool is_last, pal_error *err)
{
    size_t json_len = (size_t)get_number(frame + 4, 4);
    jsonl_record record = {
            .tail = pal_str_make(frame + HEAD_LEN + json_len, (size_t)get_number(frame + 8, 4))};
    pal_status status = pal_json_parse(
            arena, pal_str_make(frame + HEAD_LEN, json_len), NULL, &record.json, err);

    if (status == PAL_INVALID)
        return pal_error_set(err, PAL_CORRUPT, "the log contains a record that cannot be read");
    if (status == PAL_OK)
        status = sink(engine, &record, arena, is_last, err);
    pal_arena_reset(arena);
    return status;
}

/* Finds the end of the last complete batch, and where this batch begins. */
static size_t complete_len(pal_str text, size_t *out_last)
{
    size_t at = 0, start = 0, last = 0, before = 0, len;
    uint64_t batch = 0, frames = 0;
    bool is_torn = false;

    while ((len = next_frame(text, &at)) > 0) {
        const char *frame = text.data + at;
        uint64_t wanted = get_number(frame + 12, 4);

        if (get_number(frame + 16, 8) != batch)
            frames = 0;
        batch = get_number(frame + 16, 8);
        frames++;
        at += len;
        if (wanted > 0) {
            is_torn = frames < wanted;
            before = last;
            last = start;
            start = at;
        }
    }
    *out_last = is_torn ? before : last;
    return is_torn ? last : start;
}

/* Frames are missing: decides whether only a record "done" is lost, or records that matter. */
static void note_gap(jsonl_engine *engine, size_t len, uint64_t batch)
{
    size_t done_len = HEAD_LEN + sizeof JSONL_DONE - 1;

    if (len == 0)
        return;
    if (len == done_len && batch == engine->batch + 2)
        engine->log_holes++;
    else
        engine->log_gaps++;
}

static void note_tail(jsonl_engine *engine, pal_str batch)
{
    size_t done_len = HEAD_LEN + sizeof JSONL_DONE - 1;
    bool is_done = batch.len == done_len &&
            memcmp(batch.data + HEAD_LEN, JSONL_DONE, sizeof JSONL_DONE - 1) == 0;

    engine->log_tail_len = is_done ? batch.len : 0;
    if (is_done)
        memcpy(engine->log_tail, batch.data, batch.len);
}

pal_status pal_jsonl_log_each(
        jsonl_engine *engine, pal_str text, jsonl_record_sink sink, size_t *out_len, pal_error *err)
{
    size_t last, at = 0, end = complete_len(text, &last);
    pal_arena *arena = pal_arena_new(0);
    pal_status status = PAL_OK;

    if (!arena)
        return pal_no_memory(err);
    while (status == PAL_OK && at < end) {
        size_t before = at, len = next_frame(text, &at);
        const char *frame = text.data + at;

        note_gap(engine, at - before, get_number(frame + 16, 8));
        engine->batch = get_number(frame + 16, 8);
        status = tell(engine, frame, sink, arena, at >= last, err);
        at += len;
    }
    pal_arena_free(arena);
    if (status != PAL_OK)
        return status;
    if (end > last)
        note_tail(engine, pal_str_make(text.data + last, end - last));
    *out_len = end;
    return PAL_OK;
}
