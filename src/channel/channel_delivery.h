/* channel_delivery.h - one answer that must be delivered: a record of the account's outbox. */
#ifndef PAL_CHANNEL_DELIVERY_H
#define PAL_CHANNEL_DELIVERY_H

#include "channel/channel_host.h"

typedef enum pal_delivery_state {
    PAL_DELIVERY_QUEUED = 0,
    PAL_DELIVERY_LOADING = 1, /* on a worker, as MARKING and ENDING */
    PAL_DELIVERY_READY = 2,
    PAL_DELIVERY_MARKING = 3,
    PAL_DELIVERY_SENDING = 4,
    PAL_DELIVERY_LOOKING = 5, /* find_sent() */
    PAL_DELIVERY_RESTING = 6, /* until at_ms */
    PAL_DELIVERY_ENDING = 7,
} pal_delivery_state;

struct pal_delivery {
    pal_work_item item; /* first */
    pal_channel_account *account;
    pal_delivery *next; /* in the queue, or in the list of those that are loaded */
    pal_delivery_state state;
    char *name;
    size_t name_len;

    /* Filled by pal_delivery_load(), in the arena: */
    pal_arena *arena;
    pal_str body;
    pal_id session;
    uint64_t version;
    pal_str *pieces;
    size_t pieces_len; /* 0: there is nothing to send */
    pal_str *ids; /* ids of the sent pieces on the channel */
    pal_outgoing message; /* the current piece */
    pal_str event; /* what is answered */
    char id[40];

    size_t piece;      /* the next one */
    bool is_left;      /* it is looked for on the channel before it is sent */
    bool is_uncertain; /* a process that is gone may have sent that piece */
    bool is_plain;     /* sent without relations and HTML, after the service refused it */
    bool is_given_up;
    bool is_orphan; /* the account was lost while it was on a worker */
    uint32_t tries;
    int64_t at_ms;   /* RESTING, monotonic */
    int64_t since_ms; /* time of this process's first attempt, monotonic */
    char reason[256];

    /* The result of the work. */
    pal_status status;
    pal_error err;
};

/* The first three run on a worker. */

/* Reads the record and its answer. PAL_NOT_FOUND: the record is gone, or its answer is not there
 * yet. */
void pal_delivery_load(pal_delivery *delivery);
/* Stores that the current piece is being sent, for channels that could show it twice. */
void pal_delivery_mark(pal_delivery *delivery);
/* Removes the record, and remembers which messages were sent. If it was given up, it is kept as a
 * channel_dead. */
void pal_delivery_end(pal_delivery *delivery);

/* Makes the message of the current piece. */
void pal_delivery_aim(pal_delivery *delivery);
void pal_delivery_free(pal_delivery *delivery);

#endif
