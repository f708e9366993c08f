/* transfer_import_mark.c - marks. They refer to messages and to other marks by numbers of the
 * source, which are different in this store. */
#include "transfer/transfer_import_internal.h"

#include <string.h>

/* The number of a mark in the source and in this store. */
typedef struct mark_pair {
    uint64_t theirs;
    uint64_t ours;
    bool inherited;
} mark_pair;

pal_status pal_import_marks_count(pal_import *import)
{
    pal_mark *marks;
    size_t len;
    pal_status status = pal_store_marks(
            import->store, import->tenant, import->id, import->arena, &marks, &len, import->err);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        import->marks_known += !marks[i].inherited;
    return status;
}

/* Returns the seq in this store of the message at `place` (from 1), or of the nearest message
 * before it. */
static uint64_t seq_of(const pal_import *import, uint64_t place)
{
    uint64_t count = import->seqs.len / sizeof(uint64_t), seq = 0;
    if (place > count)
        place = count;
    for (; place > 0 && !seq; place--)
        memcpy(&seq, import->seqs.data + (place - 1) * sizeof seq, sizeof seq);
    return seq;
}

static uint64_t mark_here(const pal_import *import, const pal_mark *undo)
{
    mark_pair pair;
    for (size_t at = import->marks.len; at >= sizeof pair; at -= sizeof pair) {
        memcpy(&pair, import->marks.data + at - sizeof pair, sizeof pair);
        if (pair.theirs == undo->target && pair.inherited == undo->inherited)
            return pair.ours;
    }
    return 0;
}

static pal_status add_mark(pal_import *import, const pal_mark *given, uint64_t line, mark_pair pair)
{
    pal_error why;
    pal_status status = pal_import_flush(import);
    if (status != PAL_OK || import->is_broken)
        return status;
    pal_mark mark = {.kind = given->kind, .body = given->body};
    if (mark.kind == PAL_MARK_UNDO)
        mark.target = mark_here(import, given);
    else
        mark.seq = seq_of(import, given->seq);
    if (mark.kind == PAL_MARK_HIDE)
        mark.target = given->target;
    /* A rewind with a target ends there, even if the session here has later messages already. */
    if (mark.kind == PAL_MARK_REWIND && given->target)
        mark.target = seq_of(import, given->target);
    status = pal_store_mark(import->store, import->tenant, import->id, &mark, &why);
    if (status == PAL_OK) {
        import->counts.marks++;
        import->is_changed = true;
        pair.ours = mark.number;
        pal_buf_append(&import->marks, &pair, sizeof pair);
    } else if (pal_import_is_about_input(status)) {
        pal_import_tell(import, line, why.message);
        status = PAL_OK;
    } else {
        *import->err = why;
    }
    return status;
}

/* If no message was compared yet, the existing session may be a different conversation. */
static bool may_mark(const pal_import *import)
{
    return !import->is_broken && !(import->is_unsure && import->compared == 0);
}

pal_status pal_import_mark(pal_import *import, const pal_mark *given, uint64_t line)
{
    mark_pair pair = {.theirs = given->number, .inherited = given->inherited};
    if (!may_mark(import) || (given->inherited && import->is_fork))
        return PAL_OK;
    if (++import->marks_seen <= import->marks_known) {
        pair.ours = import->marks_seen;
        pal_buf_append(&import->marks, &pair, sizeof pair);
        return PAL_OK;
    }
    return add_mark(import, given, line, pair);
}

pal_status pal_import_mark_anew(pal_import *import, const pal_mark *given, uint64_t line)
{
    mark_pair pair = {.theirs = given->number, .inherited = given->inherited};
    return may_mark(import) ? add_mark(import, given, line, pair) : PAL_OK;
}
