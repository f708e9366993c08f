/* matrix_sync.h - reads the responses that carry events: /sync and /messages. Pure functions; all
 * results are in the arena, or point into the text. */
#ifndef PAL_MATRIX_SYNC_H
#define PAL_MATRIX_SYNC_H

#include "channel/matrix/matrix_event.h"

typedef enum pal_matrix_section {
    PAL_MATRIX_JOINED = 1,
    PAL_MATRIX_INVITED = 2,
    PAL_MATRIX_LEFT = 3, /* left, kicked or banned */
} pal_matrix_section;

/* Everything that a /sync reports about one room. */
typedef struct pal_matrix_room_news {
    pal_str room;
    pal_matrix_section section;
    const pal_matrix_event *state; /* state that changed. INVITED: what the invite shows */
    size_t state_len;
    const pal_matrix_event *timeline; /* oldest first, without PAL_MATRIX_OTHER */
    size_t timeline_len;
    bool is_limited;       /* events between the previous /sync and `timeline` are missing */
    pal_str prev_batch;    /* where the missing events end; empty: not said */
    bool has_joined, has_invited;
    uint64_t joined, invited; /* numbers of members */
} pal_matrix_room_news;

typedef struct pal_matrix_sync {
    pal_str next_batch;
    const pal_matrix_room_news *rooms; /* in the order of the response */
    size_t rooms_len;
    pal_json direct;  /* content of m.direct, if it changed */
    pal_json ignored; /* `ignored_users` of m.ignored_user_list, if it changed */
} pal_matrix_sync;

/* PAL_PROVIDER: the text is not a response to /sync; `err` says why. Rooms and events that cannot
 * be used are left out. */
PAL_CHECKED pal_status pal_matrix_sync_read(
        pal_str text, pal_arena *arena, pal_matrix_sync *out_sync, pal_error *err);

/* A page of /messages with dir=b. */
typedef struct pal_matrix_page {
    const pal_matrix_event *events; /* newest first, without PAL_MATRIX_OTHER */
    size_t events_len;
    size_t raw_len; /* the number of events in the response */
    pal_str end;    /* where the next page begins; empty: this is the last one */
} pal_matrix_page;

PAL_CHECKED pal_status pal_matrix_page_read(
        pal_str text, pal_arena *arena, pal_matrix_page *out_page, pal_error *err);

/* Whether m.direct lists the room. */
bool pal_matrix_direct_has(pal_json direct, pal_str room);
/* Writes `direct` with the room under the user. */
void pal_matrix_direct_add(pal_json direct, pal_str user, pal_str room, pal_buf *out);

#endif
