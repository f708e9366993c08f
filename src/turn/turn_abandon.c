/* turn_abandon.c - cancels a turn without waiting for it. A thread that serves many clients calls
 * this when one of them has left. */
#include "base/memory.h"
#include "turn/runtime/runtime.h"

typedef struct abandoning {
    pal_task task;
    pal_runtime *runtime;
    pal_id turn;
    char tenant[PAL_TENANT_LEN_MAX];
    size_t tenant_len;
} abandoning;

static void abandon(pal_task *task)
{
    abandoning *a = (abandoning *)task;
    pal_status status =
            pal_turn_cancel(a->runtime, pal_str_make(a->tenant, a->tenant_len), a->turn, NULL);

    (void)status; /* a turn that has ended or is no longer in memory needs nothing */
    pal_free(a);
}

void pal_turn_cancel_async(pal_runtime *runtime, pal_str tenant, pal_id turn)
{
    abandoning *a = tenant.len <= PAL_TENANT_LEN_MAX ? pal_malloc(sizeof(*a)) : NULL;

    if (!a)
        return; /* the turn continues to its end */
    *a = (abandoning){.task.run = abandon, .runtime = runtime, .turn = turn};
    a->tenant_len = tenant.len;
    if (tenant.len)
        memcpy(a->tenant, tenant.data, tenant.len);
    pal_loop_post(runtime->loop, &a->task);
}
