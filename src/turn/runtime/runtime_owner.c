/* runtime_owner.c - counts the running and waiting turns and forwards of each budget owner. An
 * owner is not counted if memory runs out. On any thread: the runtime's lock is held during the
 * lookup. */
#include "turn/runtime/runtime_owner.h"

#include "base/memory.h"

typedef struct owned {
    uint64_t len;
    char name[PAL_OWNER_SIZE];
} owned;

/* The lock must be held. */
static owned *find(pal_runtime *runtime, const char *name, bool may_make)
{
    owned *o = pal_map_find(&runtime->owners, pal_str_of(name));

    if (o || !may_make)
        return o;
    o = pal_calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    memcpy(o->name, name, strlen(name));
    if (pal_map_set(&runtime->owners, pal_str_of(o->name), o) == PAL_OK)
        return o;
    pal_free(o);
    return NULL;
}

void pal_owner_enter(pal_runtime *runtime, const pal_budget *budget)
{
    owned *o;

    if (!budget->owner[0])
        return;
    pthread_mutex_lock(&runtime->lock);
    o = find(runtime, budget->owner, true);
    if (o)
        o->len++;
    pthread_mutex_unlock(&runtime->lock);
}

void pal_owner_leave(pal_runtime *runtime, const pal_budget *budget)
{
    owned *o;

    if (!budget->owner[0])
        return;
    pthread_mutex_lock(&runtime->lock);
    o = find(runtime, budget->owner, false);
    if (o && --o->len == 0) {
        pal_map_remove(&runtime->owners, pal_str_of(o->name));
        pal_free(o);
    }
    pthread_mutex_unlock(&runtime->lock);
}

uint64_t pal_runtime_owned(pal_runtime *runtime, pal_str owner)
{
    const owned *o;
    uint64_t len;

    pthread_mutex_lock(&runtime->lock);
    o = pal_map_find(&runtime->owners, owner);
    len = o ? o->len : 0;
    pthread_mutex_unlock(&runtime->lock);
    return len;
}
