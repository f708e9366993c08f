/* turn_journal.c - commits the writes of all turns. The loop never waits for the disk: while one
 * commit runs on a worker, new writes gather, and the next commit takes them all. Writes are
 * committed in the order in which they came.
 *
 * States: idle, or one commit in flight (`busy`). Only commit() runs on a worker, and only it uses
 * `running` and `ops` meanwhile. A crash loses the waiting writes; their callers have not been
 * notified. */
#include "turn/runtime/runtime.h"

#include "base/memory.h"

enum { OPS_PER_COMMIT_MAX = 512 };

static void start_commit(pal_journal *journal);

void pal_journal_init(pal_journal *journal, pal_runtime *runtime)
{
    *journal = (pal_journal){.runtime = runtime};
    journal->last = &journal->first;
}

void pal_journal_done(pal_journal *journal)
{
    pal_free(journal->ops);
}

/* Runs on a worker. */
static void commit(pal_work_item *item)
{
    pal_journal *journal = (pal_journal *)((char *)item - offsetof(pal_journal, item));
    size_t len = 0;
    pal_error err = {0};

    for (pal_write *write = journal->running; write; write = write->next)
        len += write->ops_len;
    if (pal_store_apply(journal->runtime->store, journal->ops, len, &err) == PAL_OK)
        return;
    for (pal_write *write = journal->running; write; write = write->next)
        write->failure = err;
}

static void commit_done(pal_work_item *item)
{
    pal_journal *journal = (pal_journal *)((char *)item - offsetof(pal_journal, item));
    pal_write *write = journal->running;
    const pal_op *from = journal->ops;

    /* Copy all results first: a callback may start a new write in the same memory. */
    for (pal_write *each = write; each; each = each->next) {
        memcpy(each->ops, from, each->ops_len * sizeof(*from));
        from += each->ops_len;
    }
    journal->running = NULL;
    journal->busy = false;
    while (write) {
        pal_write *next = write->next;

        write->done(write);
        write = next;
    }
    start_commit(journal);
}

static bool make_room(pal_journal *journal, size_t len)
{
    pal_op *ops;

    if (len <= journal->ops_cap)
        return true;
    ops = pal_realloc(journal->ops, len * sizeof(*ops));
    if (!ops)
        return false;
    journal->ops = ops;
    journal->ops_cap = len;
    return true;
}

/* Takes as many waiting writes as fit into one commit. */
static size_t take(pal_journal *journal)
{
    pal_write **end = &journal->first;
    size_t len = 0;

    while (*end && (len == 0 || len + (*end)->ops_len <= OPS_PER_COMMIT_MAX)) {
        len += (*end)->ops_len;
        end = &(*end)->next;
    }
    journal->running = journal->first;
    journal->first = *end;
    *end = NULL;
    if (!journal->first)
        journal->last = &journal->first;
    return len;
}

static void start_commit(pal_journal *journal)
{
    size_t len;
    pal_op *to;

    if (journal->busy || !journal->first)
        return;
    journal->busy = true;
    len = take(journal);
    journal->item.work = commit;
    journal->item.done = commit_done;
    if (!make_room(journal, len)) {
        for (pal_write *write = journal->running; write; write = write->next)
            pal_no_memory(&write->failure);
        /* Nothing was copied into the commit, so there are no results to copy back. A callback may
         * write again, and that write may start the next commit. */
        pal_write *failed = journal->running;
        journal->running = NULL;
        journal->busy = false;
        for (pal_write *next; failed; failed = next) {
            next = failed->next;
            failed->done(failed);
        }
        return;
    }
    to = journal->ops;
    for (pal_write *write = journal->running; write; write = write->next) {
        memcpy(to, write->ops, write->ops_len * sizeof(*to));
        to += write->ops_len;
    }
    pal_loop_work(journal->runtime->loop, &journal->item);
}

void pal_journal_write(pal_journal *journal, pal_write *write)
{
    write->next = NULL;
    write->failure = (pal_error){0};
    *journal->last = write;
    journal->last = &write->next;
    start_commit(journal);
}
