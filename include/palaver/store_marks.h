/* store_marks.h - marks say how the messages of a session are to be read: hidden, pinned,
 * summarized. The rules at the top of store.h apply. */
#ifndef PALAVER_STORE_MARKS_H
#define PALAVER_STORE_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/message.h"
#include "palaver/store.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pal_mark_kind {
    PAL_MARK_NONE = 0,
    PAL_MARK_REWIND = 1,     /* hides the messages after `seq`, up to the newest message at that
                                time, or up to `target` if it is not 0 */
    PAL_MARK_RESET = 2,      /* hides the messages after `seq`, up to the newest message at that
                                time; 0: hides all */
    PAL_MARK_CHECKPOINT = 3, /* the result of a compaction: `body` replaces all messages up to
                                `seq` */
    PAL_MARK_PRUNE = 4, /* `body` lists content up to `seq` that is no longer sent to the model */
    PAL_MARK_PIN = 5,   /* keeps the message `seq` in every context */
    PAL_MARK_UNPIN = 6, /* ends the pin of the message `seq` */
    PAL_MARK_UNDO = 7,  /* cancels the mark with the number `target` */
    PAL_MARK_EPOCH = 8, /* `body` is the system text and the tools that every request begins with */
    PAL_MARK_HIDE = 9,  /* hides the message `seq`; if `target` is not 0, only the part with that
                           number, counted from 1 */
} pal_mark_kind;

/* A mark says how messages are to be read. It is stored next to them and is never changed or
 * removed: an undo is another mark. */
typedef struct pal_mark {
    uint64_t number; /* counted from 1 in each session; set by the store */
    pal_mark_kind kind;
    uint64_t seq;
    uint64_t through_seq; /* the session's last_seq when the mark was added, or the target of a
                             rewind; set by the store */
    uint64_t target;      /* undo: the number of a mark, or 0 for the newest mark that is neither
                             undone nor an undo. hide: the number of a part, or 0 for the whole
                             message. rewind: the last seq to hide, or 0 for the newest.
                             checkpoint: 1 if it has lost its body and its effect, because a message
                             that it covers was erased */
    bool undone;          /* a later undo cancels this mark */
    bool inherited;       /* the mark belongs to a parent session and can be undone only there */
    pal_str body;         /* JSON; may be empty */
    int64_t created_at;
    PAL_RESERVED(4);
} pal_mark;

/* Adds a mark. `mark` gives kind, seq, target and body. On success the store sets number,
 * through_seq, target and created_at.
 *
 *   PAL_INVALID    the session has no message `seq`, or the kind requires a seq or a body
 *   PAL_NOT_FOUND  undo: there is no such mark, or none that can be undone
 *   PAL_CONFLICT   undo: the mark is already undone */
PAL_API PAL_CHECKED pal_status pal_store_mark(
        pal_store *store, pal_str tenant, pal_id session, pal_mark *mark, pal_error *err);

/* Adds a reset mark that hides all messages. With `keep_system`, a system message that is the first
 * visible message stays visible. `out_mark` may be NULL. */
PAL_API PAL_CHECKED pal_status pal_store_reset(pal_store *store, pal_str tenant, pal_id session,
        bool keep_system, pal_mark *out_mark, pal_error *err);

/* Adds a rewind mark that hides all visible messages except the newest `keep`. If there are no more
 * than that, it does nothing and sets out_mark->number to 0. With `keep` 0 it adds a reset mark,
 * like pal_store_reset(). */
PAL_API PAL_CHECKED pal_status pal_store_truncate(pal_store *store, pal_str tenant, pal_id session,
        uint32_t keep, pal_mark *out_mark, pal_error *err);

/* Appends the messages and hides all earlier ones with a rewind mark, in one commit. The mark can
 * be undone. The client ids of the messages are cleared. out_mark->number is 0 if there were no
 * earlier messages. Without messages this is pal_store_reset(). PAL_CONFLICT: other writers
 * appended to the session during each of 8 attempts. */
PAL_API PAL_CHECKED pal_status pal_store_replace(pal_store *store, pal_str tenant, pal_id session,
        pal_message *messages, size_t messages_len, pal_mark *out_mark, pal_error *err);

/* Lists all marks that affect the session, the oldest first. Marks of parents come before the
 * session's own. */
PAL_API PAL_CHECKED pal_status pal_store_marks(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_mark **out_marks, size_t *out_len, pal_error *err);

typedef struct pal_mark_query {
    uint64_t after;  /* leaves out this many of the oldest marks */
    uint32_t limit;  /* maximum number of marks; 0: all */
    bool bodies;     /* reads the bodies, which can be long */
    uint64_t number; /* not 0: only the session's own mark with this number, with its body */
    PAL_RESERVED(4);
} pal_mark_query;

typedef struct pal_mark_page {
    pal_mark *items; /* in the order of pal_store_marks() */
    bool *standing;  /* for each mark, whether it is in effect now */
    size_t len;
    bool has_more;
    PAL_RESERVED(4);
} pal_mark_page;

/* Lists marks as pal_store_marks() does, one page per call, and says which of them are in effect:
 * checkpoints, prunes, epochs and pins as pal_store_active_marks() reports them, and others until
 * they are undone. PAL_NOT_FOUND: the session has no mark `number`. */
PAL_API PAL_CHECKED pal_status pal_store_mark_page(pal_store *store, pal_str tenant,
        pal_id session, const pal_mark_query *query, pal_arena *arena, pal_mark_page *out_page,
        pal_error *err);

/* The marks that are in effect now, for building a context.
 *
 * A checkpoint, a prune or an epoch is in effect until it is undone. A rewind or a reset that hides
 * a message covered by it ends it too. The summary of a checkpoint does not contain messages that
 * were hidden when it was made. If such a message is visible again, the checkpoint is not in
 * effect. A checkpoint ends all earlier prunes and epochs. */
typedef struct pal_active_marks {
    pal_mark checkpoint; /* the newest one; number 0: none */
    pal_mark epoch;      /* the newest one after the checkpoint; number 0: none */
    pal_mark *prunes;    /* the prunes after the checkpoint, the oldest first */
    size_t prunes_len;
    uint64_t *pins; /* the seqs of pinned, visible messages, ascending */
    size_t pins_len;
    PAL_RESERVED(4);
} pal_active_marks;

/* Reports the marks that are in effect. The cost depends on the number of marks and on the size of
 * the result, not on the number of messages. Bodies are read only for the marks that are
 * returned. */
PAL_API PAL_CHECKED pal_status pal_store_active_marks(pal_store *store, pal_str tenant,
        pal_id session, pal_arena *arena, pal_active_marks *out_active, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
