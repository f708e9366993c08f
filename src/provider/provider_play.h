/* provider_play.h - replays a known answer step by step, as a service would send it. For the
 * provider_*.c files only. Everything runs on the loop. */
#ifndef PAL_PROVIDER_PLAY_H
#define PAL_PROVIDER_PLAY_H

#include "provider/provider_kind.h"

typedef enum pal_play_kind {
    PAL_PLAY_TEXT = 1,
    PAL_PLAY_REASONING = 2,
    PAL_PLAY_SIGNATURE = 3,
    PAL_PLAY_CALL = 4, /* `text` is its arguments */
    PAL_PLAY_DELAY = 5,
    PAL_PLAY_USAGE = 6,
    PAL_PLAY_FINISH = 7, /* `text` is the reason */
    PAL_PLAY_ERROR = 8,  /* ends the answer */
} pal_play_kind;

struct pal_play_step {
    pal_play_kind kind;
    pal_str text;
    pal_str id;
    pal_str name;      /* call: the tool; signature: the family; error: the service's code */
    pal_status status; /* error: the status */
    long code;         /* error: the HTTP status */
    int64_t ms;        /* delay: its length; error: retry-after, or -1 */
    pal_usage usage;
};

typedef struct pal_play {
    const pal_play_step *steps;
    size_t steps_len;
    pal_str model;
    pal_arena *owned; /* holds the steps; the call frees it in every case. NULL: the steps live long
                         enough */
} pal_play;

PAL_CHECKED pal_status pal_play_start(pal_provider *provider, const pal_play *play,
        int64_t timeout_ms, const pal_model_sink *sink, void *user, pal_model_call **out_call,
        pal_error *err);

#endif
