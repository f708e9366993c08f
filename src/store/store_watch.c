/* store_watch.c - notifies watchers of changes after these are durable.
 *
 * The thread that made the commit, or that waited for it, reports the change. Watchers are called
 * under a lock for reading. Only starting and ending a watch take the lock for writing, so a watch
 * has ended when pal_store_unwatch() returns. Changes of other processes are not reported. */
#include "palaver/store_watch.h"
#include "store/store_front.h"

static bool describe(const pal_op *op, pal_store_change *out_change)
{
    const pal_message *messages = op->u.append.messages;
    pal_store_change change = {.session = op->session};

    switch (op->kind) {
    case PAL_OP_CREATE:
        change.kind = op->u.create.existing ? PAL_STORE_CHANGE_NONE : PAL_STORE_CHANGE_CREATED;
        break;
    case PAL_OP_FORK:
        change.kind = PAL_STORE_CHANGE_CREATED;
        break;
    case PAL_OP_UPDATE:
        change.kind = PAL_STORE_CHANGE_UPDATED;
        break;
    case PAL_OP_ADOPT:
        change.kind = op->u.adopt.adopted ? PAL_STORE_CHANGE_UPDATED : PAL_STORE_CHANGE_NONE;
        break;
    case PAL_OP_APPEND:
        if (op->u.append.replayed || op->u.append.messages_len == 0)
            break;
        change.kind = PAL_STORE_CHANGE_MESSAGES;
        change.seq = messages[op->u.append.messages_len - 1].seq;
        break;
    case PAL_OP_MARK:
        change.kind = PAL_STORE_CHANGE_MARK;
        change.mark = op->u.mark->kind;
        change.number = op->u.mark->number;
        break;
    case PAL_OP_INBOX_ADD:
    case PAL_OP_INBOX_DROP:
        change.kind = PAL_STORE_CHANGE_INBOX;
        break;
    case PAL_OP_DELETE:
        change.kind = PAL_STORE_CHANGE_DELETED;
        break;
    case PAL_OP_RESTORE:
        change.kind = PAL_STORE_CHANGE_RESTORED;
        break;
    case PAL_OP_ERASE_MESSAGE:
        change.kind = PAL_STORE_CHANGE_UPDATED;
        change.seq = op->u.erase_message.seq;
        break;
    case PAL_OP_ERASE:
        change.kind = PAL_STORE_CHANGE_ERASED;
        break;
    default:
        break;
    }
    change.tenant = op->tenant.len ? op->tenant : pal_str_of("default");
    *out_change = change;
    return change.kind != PAL_STORE_CHANGE_NONE;
}

void pal_store_changed(pal_store *store, const pal_op *ops, size_t ops_len)
{
    pal_store_change change;

    if (atomic_load(&store->watchers_len) == 0)
        return;
    pthread_rwlock_rdlock(&store->watch_lock);
    for (size_t i = 0; i < ops_len; i++) {
        if (ops[i].status != PAL_OK || !describe(&ops[i], &change))
            continue;
        for (size_t k = 0; k < PAL_STORE_WATCHERS_MAX; k++)
            if (store->watchers[k].sink)
                store->watchers[k].sink(&change, store->watchers[k].user);
    }
    pthread_rwlock_unlock(&store->watch_lock);
}

pal_status pal_store_watch(
        pal_store *store, pal_store_on_change sink, void *user, pal_error *err)
{
    pal_status status = pal_error_set(err, PAL_LIMIT,
            "the store has %d watchers, which is the limit", PAL_STORE_WATCHERS_MAX);

    pthread_rwlock_wrlock(&store->watch_lock);
    for (size_t i = 0; status != PAL_OK && i < PAL_STORE_WATCHERS_MAX; i++) {
        if (store->watchers[i].sink)
            continue;
        store->watchers[i].sink = sink;
        store->watchers[i].user = user;
        atomic_fetch_add(&store->watchers_len, 1);
        status = PAL_OK;
    }
    pthread_rwlock_unlock(&store->watch_lock);
    return status;
}

void pal_store_unwatch(pal_store *store, void *user)
{
    pthread_rwlock_wrlock(&store->watch_lock);
    for (size_t i = 0; i < PAL_STORE_WATCHERS_MAX; i++) {
        if (!store->watchers[i].sink || store->watchers[i].user != user)
            continue;
        store->watchers[i].sink = NULL;
        atomic_fetch_sub(&store->watchers_len, 1);
    }
    pthread_rwlock_unlock(&store->watch_lock);
}
