/* tokens_stream.h - what a stream is made of, for its two files: tokens_stream.c takes what comes
 * in and keeps the undecided end; tokens_stream_run.c goes on with a piece that does not end. */
#ifndef PAL_TOKENS_STREAM_H
#define PAL_TOKENS_STREAM_H

#include "tokens/tokens_estimate.h"
#include "tokens/tokens_split.h"
#include "tokens/tokens_walk.h"

/* A piece that is longer than this is gone on with in parts. */
#define PAL_STREAM_RUN (2 * PAL_MERGE_WINDOW)

/* An id and how often it comes: what waits is often all the same. */
struct pal_stream_ids {
    uint32_t id;
    uint32_t count;
};

/* One way in which a long piece may end. */
struct pal_stream_side {
    uint64_t count;             /* of the whole text until `at` */
    size_t at;                  /* the text from here on is not yet taken */
    bool is_begun;              /* some of the piece was taken, so it is no token by itself */
    struct pal_stream_ids *ids; /* that wait until it is known which way it is */
    size_t ids_len;
    size_t ids_room;
};

struct pal_token_stream {
    const pal_encoding *encoding; /* NULL: only `estimate` is used */
    pal_estimate estimate;
    pal_token_sink sink;
    void *user;
    struct pal_walk walk;

    unsigned char *text; /* text[begin] to text[end] is what is not taken; pal_free() */
    size_t begin;
    size_t end;
    size_t room;
    size_t tried; /* how much was there when it was last in vain */

    bool is_run;    /* in a long piece: `rest` and sides[0] say where */
    size_t scanned; /* text[scanned] follows rest.text */
    struct pal_split_rest rest;
    bool is_forked; /* sides[1] is the case that it ended at rest.cut */
    struct pal_stream_side sides[2];
    struct pal_stream_side *side; /* whose ids the walk is telling; NULL: the sink's */
};

/* The end of the text that is there, without a character whose end has not come. */
size_t pal_stream_safe_end(const pal_token_stream *stream, bool is_final);

/* The piece at `begin` is longer than PAL_STREAM_RUN. */
void pal_stream_run_begin(pal_token_stream *stream);

/* Goes on with it; true when it ended and `begin` is behind it. */
bool pal_stream_run_next(pal_token_stream *stream, bool is_final);

/* Adds to what waits; false: no memory. */
bool pal_stream_ids_add(struct pal_stream_side *side, const uint32_t *ids, size_t len);

#endif
