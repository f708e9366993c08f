/* store_reading.c - several reads of one session, which is looked up once. */
#include "store/store_reading.h"

#include "base/memory.h"
#include "store/store_front.h"
#include "store/store_prepare.h"
#include "store/view/view.h"
#include "store/view/view_chain.h"
#include "store/view/view_standing.h"

pal_status pal_reading_begin(pal_store *store, pal_str tenant, pal_id session, pal_arena *arena,
        pal_reading *out_reading, pal_error *err)
{
    pal_str checked = pal_tenant_or_default(tenant);
    pal_status status = pal_tenant_check(checked, err);

    if (status == PAL_OK)
        status = pal_view_session(store->engine, checked, session, arena, &out_reading->row, err);
    out_reading->store = store;
    return status;
}

pal_status pal_reading_load(const pal_reading *reading, const pal_load *load, pal_arena *arena,
        pal_messages *out_messages, pal_error *err)
{
    return pal_view_load(reading->store->engine, &reading->row, load, arena, out_messages, err);
}

pal_status pal_reading_count(const pal_reading *reading, uint64_t after_seq, uint64_t before_seq,
        uint64_t *out_count, pal_error *err)
{
    pal_arena *scratch = pal_arena_new(0);
    uint64_t count = 0;
    pal_piece *pieces;
    size_t len;
    pal_status status;

    if (!scratch)
        return pal_no_memory(err);
    status = pal_chain_pieces(reading->store->engine, &reading->row, after_seq, before_seq, false,
            scratch, &pieces, &len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        count += pieces[i].last - pieces[i].first + 1;
    if (status == PAL_OK)
        *out_count = count;
    pal_arena_free(scratch);
    return status;
}

pal_status pal_reading_standing(
        const pal_reading *reading, pal_arena *arena, pal_standing *out_standing, pal_error *err)
{
    return pal_standing_read(reading->store->engine, &reading->row, arena, out_standing, err);
}

pal_status pal_reading_inbox_list(const pal_reading *reading, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err)
{
    pal_engine *engine = reading->store->engine;

    return engine->backend->inbox_list(engine, reading->row.handle, arena, out_items, out_len, err);
}
