/* turn_abandon.c - stops a turn for somebody who can't wait: a client has left, and the thread that
 * notices has others to serve. */
#include "base/memory.h"
#include "turn/turn_runtime.h"

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

    (void)status; /* one that has ended meanwhile, or is forgotten, needs nothing */
    pal_free(a);
}

void pal_turn_abandon(pal_runtime *runtime, pal_str tenant, pal_id turn)
{
    abandoning *a = tenant.len <= PAL_TENANT_LEN_MAX ? pal_malloc(sizeof(*a)) : NULL;

    if (!a)
        return; /* it goes on to its end */
    *a = (abandoning){.task.run = abandon, .runtime = runtime, .turn = turn};
    a->tenant_len = tenant.len;
    if (tenant.len)
        memcpy(a->tenant, tenant.data, tenant.len);
    pal_loop_post(runtime->loop, &a->task);
}
