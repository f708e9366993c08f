/* provider_play.h - an answer that is known beforehand, told step by step as a service would. Only
 * for the provider_*.c files. All on the loop. */
#ifndef PAL_PROVIDER_PLAY_H
#define PAL_PROVIDER_PLAY_H

#include "provider/provider_kind.h"

typedef enum pal_play_kind {
    PAL_PLAY_TEXT = 1,
    PAL_PLAY_REASONING = 2,
    PAL_PLAY_SIGNATURE = 3,
    PAL_PLAY_CALL = 4, /* `text` are its arguments */
    PAL_PLAY_DELAY = 5,
    PAL_PLAY_USAGE = 6,
    PAL_PLAY_FINISH = 7, /* `text` is the reason */
    PAL_PLAY_ERROR = 8,  /* ends it */
} pal_play_kind;

struct pal_play_step {
    pal_play_kind kind;
    pal_str text;
    pal_str id;
    pal_str name;      /* of a call; the family of a signature; an error's own code */
    pal_status status; /* of an error */
    long code;         /* likewise HTTP's */
    int64_t ms;        /* of a delay; an error's retry-after, or -1 */
    pal_usage usage;
};

typedef struct pal_play {
    const pal_play_step *steps;
    size_t steps_len;
    pal_str model;
    pal_arena *owned; /* holds them; the call frees it, whatever comes of it. NULL: they last */
} pal_play;

PAL_CHECKED pal_status pal_play_start(pal_provider *provider, const pal_play *play,
        int64_t timeout_ms, const pal_model_sink *sink, void *user, pal_model_call **out_call,
        pal_error *err);

#endif
