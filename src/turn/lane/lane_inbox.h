/* lane_inbox.h - the JSON form of a request that waits in the inbox. */
#ifndef PAL_LANE_INBOX_H
#define PAL_LANE_INBOX_H

#include "palaver/turn.h"

/* Members of an item in addition to its request. */
typedef struct pal_inbox_head {
    pal_id turn;    /* id of the turn that the item belongs to */
    pal_id first;   /* owed: id of the turn's first message; none: not recorded yet */
    uint32_t tries; /* owed: how many processes have begun to answer, including this one */
    bool is_final;  /* owed: no other process can continue the turn */
    uint64_t on_seq; /* owed: seq of the answer whose calls a client has answered; 0: none */
    /* owed: its last process shut down normally, so that try is not counted */
    bool is_handed;
    pal_str questions; /* owed: the questions as JSON (permission_question.c); empty: none */
    pal_str handles; /* owed: handles of calls, as JSON (input.c); empty: none */
    uint32_t spent; /* failed turns with the same request; see lane_join.c */
    pal_turn_channel channel; /* copied from the request when the item is written */
} pal_inbox_head;

/* The delivery of an admitted turn's item, which has no messages; see recovery_owed.c. */
#define PAL_DELIVERY_OWED "owed"

/* Writes the messages and settings that are needed after a restart; in the arena. */
PAL_CHECKED pal_status pal_inbox_write(const pal_turn_request *request, const pal_inbox_head *head,
        const char *delivery, pal_arena *arena, pal_inbox_item *out_item, pal_error *err);
/* Reads an item into `request`. Its tenant and session are not changed. */
PAL_CHECKED pal_status pal_inbox_read(const pal_inbox_item *item, pal_arena *arena,
        pal_turn_request *request, pal_inbox_head *out_head, pal_error *err);
/* Reads only the head. Returns false if the item is unreadable. */
bool pal_inbox_read_head(
        const pal_inbox_item *item, pal_arena *scratch, pal_inbox_head *out_head);

#endif
