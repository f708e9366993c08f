/* provider_meter.c - reads a forwarded response only for its model and its usage.
 *
 * A meter is a reader of the service's format whose sink takes nothing. It is used on the loop. A
 * long response can be finished on a worker: then no other thread uses the meter, and it gets a
 * separate arena in place of the provider's. */
#include <assert.h>
#include "base/memory.h"
#include "palaver/limits.h"
#include "provider/provider_kind.h"

struct pal_meter {
    pal_reader reader;
};

pal_meter *pal_meter_new(pal_provider *provider, pal_forward_api api)
{
    static const pal_model_sink none;
    const pal_provider_kind *kind = provider->kind;
    const pal_reader_kind *counter =
            api == PAL_FORWARD_RESPONSES ? kind->responses_counter : kind->counter;
    pal_meter *meter = pal_calloc(1, sizeof(*meter));
    assert(counter);
    if (meter)
        pal_reader_init(&meter->reader, counter, provider->scratch, &none, NULL);
    return meter;
}

void pal_meter_free(pal_meter *meter)
{
    if (!meter)
        return;
    pal_reader_done(&meter->reader);
    pal_free(meter);
}

void pal_meter_head(pal_meter *meter, const pal_http_head *head)
{
    pal_reader_head(&meter->reader, head);
}

void pal_meter_feed(pal_meter *meter, pal_str bytes)
{
    pal_reader_feed(&meter->reader, bytes);
}

uint64_t pal_meter_said(const pal_meter *meter, pal_str *out_text)
{
    *out_text = pal_buf_str(&meter->reader.answer.kept);
    return meter->reader.answer.kept_len;
}

const pal_model_end *pal_meter_finish(pal_meter *meter, const pal_http_end *http)
{
    pal_reader_finish(&meter->reader, http);
    return &meter->reader.answer.end;
}

bool pal_meter_is_long(const pal_meter *meter)
{
    return meter->reader.form == PAL_READER_WHOLE &&
            meter->reader.body.len > PAL_PROVIDER_INLINE_BYTES_MAX;
}

const pal_model_end *pal_meter_finish_apart(pal_meter *meter, const pal_http_end *http)
{
    pal_arena *arena = pal_arena_new(0);
    meter->reader.answer.is_on_worker = true;
    meter->reader.answer.scratch = arena;
    if (!arena)
        pal_answer_fail(&meter->reader.answer, PAL_NO_MEMORY, "out of memory");
    pal_reader_finish(&meter->reader, http);
    pal_arena_free(arena);
    return &meter->reader.answer.end;
}
