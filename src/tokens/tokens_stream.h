/* tokens_stream.h - the parts of a stream, for its two files. tokens_stream.c accepts text and
 * keeps the undecided end. tokens_stream_run.c handles a piece that is too long to keep. */
#ifndef PAL_TOKENS_STREAM_H
#define PAL_TOKENS_STREAM_H

#include "tokens/split/split.h"
#include "tokens/tokens_estimate.h"
#include "tokens/tokens_walk.h"

/* A longer piece is handled in parts. */
#define PAL_STREAM_RUN (2 * PAL_MERGE_WINDOW)

/* An id and the number of its repetitions, because waiting ids are often equal. */
struct pal_stream_ids {
    uint32_t id;
    uint32_t count;
};

/* One possible end of a long piece. */
struct pal_stream_side {
    uint64_t count;             /* tokens of the whole text up to `at` */
    size_t at;                  /* the text from here on has not been counted */
    bool is_begun;              /* some of the piece was counted, so it is not a token itself */
    struct pal_stream_ids *ids; /* ids that wait until the real end is known */
    size_t ids_len;
    size_t ids_room;
};

struct pal_token_stream {
    const pal_encoding *encoding; /* NULL: only `estimate` is used */
    pal_estimate estimate;
    pal_token_stream_on_ids sink;
    void *user;
    struct pal_walk walk;

    unsigned char *text; /* text[begin] to text[end] has not been counted; freed with pal_free() */
    size_t begin;
    size_t end;
    size_t room;
    size_t tried; /* length of the text at the last attempt that found no piece */

    bool is_run;    /* in a long piece: `rest` and sides[0] describe the state */
    size_t scanned; /* text[scanned] follows rest.text */
    struct pal_split_rest rest;
    bool is_forked; /* sides[1] is the case that the piece ended at rest.cut */
    struct pal_stream_side sides[2];
    struct pal_stream_side *side; /* the side that gets the ids of the walk; NULL: the sink gets
                                     them */
};

/* Returns the end of the available text, without an incomplete character. */
size_t pal_stream_safe_end(const pal_token_stream *stream, bool is_final);

/* Starts to handle a piece at `begin` that is longer than PAL_STREAM_RUN. */
void pal_stream_run_begin(pal_token_stream *stream);

/* Continues with the piece. Returns true if it ended; then `begin` is after it. */
bool pal_stream_run_next(pal_token_stream *stream, bool is_final);

/* Adds to the waiting ids. Returns false if there is no memory. */
bool pal_stream_ids_add(struct pal_stream_side *side, const uint32_t *ids, size_t len);

#endif
