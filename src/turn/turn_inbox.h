/* turn_inbox.h - a request while it waits: its JSON form in the inbox. */
#ifndef PAL_TURN_INBOX_H
#define PAL_TURN_INBOX_H

#include "palaver/turn.h"

/* What an item says beside its request. */
typedef struct pal_inbox_head {
    pal_id turn;    /* whose it is */
    pal_id first;   /* owed: the turn's first message; none: it has recorded none yet */
    uint32_t tries; /* owed: how many processes have begun to answer, this one included */
    bool is_final;  /* owed: nobody else can go on with it */
    uint64_t on_seq; /* owed: the answer whose calls somebody outside has dealt with; 0: none */
    bool is_handed; /* owed: its last process stopped in good order, which is not a death */
    uint32_t spent; /* turns that said the same before, and failed: turn_join.c */
} pal_inbox_head;

/* The delivery of an admitted turn's item, which has no messages: turn_owed.c. */
#define PAL_DELIVERY_OWED "owed"

/* Messages, and what of the request a restart needs; in the arena. */
PAL_CHECKED pal_status pal_inbox_write(const pal_turn_request *request, const pal_inbox_head *head,
        const char *delivery, pal_arena *arena, pal_inbox_item *out_item, pal_error *err);
/* The other way round; tenant and session stay as they are. */
PAL_CHECKED pal_status pal_inbox_read(const pal_inbox_item *item, pal_arena *arena,
        pal_turn_request *request, pal_inbox_head *out_head, pal_error *err);
/* The head alone. False for an item that can't be read. */
bool pal_inbox_read_head(
        const pal_inbox_item *item, pal_arena *scratch, pal_inbox_head *out_head);

#endif
