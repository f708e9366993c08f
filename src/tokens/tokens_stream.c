/* tokens_stream.c - a text that arrives in pieces. Decided parts are counted at once; the rest
 * waits for more text. It is examined again only when it has doubled, so that small pieces are not
 * slow. It never grows beyond a few windows; see tokens_stream_run.c. */
#include "tokens/tokens_stream.h"
#include "base/memory.h"
#include "base/utf8.h"

/* Room before the text for the replacement text of pal_split_rest(). */
#define MARGIN 8
#define TRY_FROM 256
#define CHUNK ((size_t)PAL_MERGE_WINDOW)

/* Receives the ids of the walk. */
static bool stream_collect(const uint32_t *ids, size_t len, void *user)
{
    pal_token_stream *stream = user;

    if (stream->side) {
        if (!pal_stream_ids_add(stream->side, ids, len))
            stream->walk.failure = PAL_NO_MEMORY;
        return true;
    }
    return stream->sink(ids, len, stream->user);
}

pal_status pal_token_stream_new(const pal_encoding *encoding, pal_token_stream_on_ids sink,
        void *user, pal_token_stream **out_stream, pal_error *err)
{
    pal_token_stream *stream;
    const pal_encoding *table = NULL;
    pal_status status = PAL_OK;

    if (!encoding && sink)
        return pal_error_set(err, PAL_INVALID, "an estimated count has no token ids");
    if (encoding)
        status = pal_table_ready(encoding, &table, err);
    if (status != PAL_OK)
        return status;
    stream = pal_calloc(1, sizeof *stream);
    if (!stream)
        return pal_no_memory(err);
    stream->encoding = table;
    stream->sink = sink;
    stream->user = user;
    stream->begin = MARGIN;
    stream->end = MARGIN;
    if (encoding)
        pal_walk_init(&stream->walk, table, sink ? stream_collect : NULL, stream);
    *out_stream = stream;
    return PAL_OK;
}

void pal_token_stream_free(pal_token_stream *stream)
{
    if (!stream)
        return;
    if (stream->encoding)
        pal_walk_done(&stream->walk);
    pal_free(stream->sides[0].ids);
    pal_free(stream->sides[1].ids);
    pal_free(stream->text);
    pal_free(stream);
}

/* Returns how many bytes at the end of the text are an incomplete character. */
static size_t cut_len(const unsigned char *begin, const unsigned char *end)
{
    static const unsigned char low[3] = {0x80, 0x80, 0x80};
    static const unsigned char high[3] = {0xbf, 0xbf, 0xbf};
    unsigned char whole[6];

    for (size_t len = 1; len <= 3 && len <= (size_t)(end - begin); len++) {
        if (end[-(ptrdiff_t)len] < 0xc0)
            continue;
        memcpy(whole, end - len, len);
        memcpy(whole + len, low, sizeof low);
        if (pal_utf8_char_len(whole, whole + len + 3) > len)
            return len;
        memcpy(whole + len, high, sizeof high);
        return pal_utf8_char_len(whole, whole + len + 3) > len ? len : 0;
    }
    return 0;
}

size_t pal_stream_safe_end(const pal_token_stream *stream, bool is_final)
{
    if (is_final)
        return stream->end;
    return stream->end - cut_len(stream->text + stream->begin, stream->text + stream->end);
}

/* Counts all decided pieces, or everything if `is_final` is set. */
static void stream_take(pal_token_stream *stream, bool is_final)
{
    while (stream->begin < stream->end && stream->walk.failure == PAL_OK) {
        size_t end = pal_stream_safe_end(stream, is_final);

        if (stream->is_run) {
            if (!pal_stream_run_next(stream, is_final))
                break;
            continue;
        }
        stream->begin += pal_walk_text(
                &stream->walk, stream->text + stream->begin, end - stream->begin, is_final);
        if (is_final || stream->end - stream->begin < PAL_STREAM_RUN)
            break;
        pal_stream_run_begin(stream);
    }
    stream->tried = stream->end - stream->begin;
}

/* Makes room after the text. Bytes that are already counted are removed first. */
static bool stream_reserve(pal_token_stream *stream, size_t len)
{
    size_t kept = stream->end - stream->begin;
    size_t gap = stream->begin - MARGIN;
    unsigned char *text;

    if (gap > 0) {
        memmove(stream->text + MARGIN, stream->text + stream->begin, kept);
        stream->begin -= gap;
        stream->end -= gap;
        if (stream->is_run) {
            stream->scanned -= gap;
            stream->sides[0].at -= gap;
            stream->sides[1].at -= stream->is_forked ? gap : 0;
        }
    }
    if (stream->end + len > stream->room) {
        text = pal_realloc(stream->text, (stream->end + len) * 2);
        if (!text)
            return false;
        stream->text = text;
        stream->room = (stream->end + len) * 2;
    }
    return true;
}

/* Returns whether the waiting text should be examined now. A long piece is examined one window at a
 * time. */
static bool is_time(const pal_token_stream *stream)
{
    size_t len = stream->end - stream->begin;

    if (stream->is_run)
        return stream->end - stream->scanned >= PAL_MERGE_WINDOW;
    return len >= TRY_FROM && (len >= 2 * stream->tried || len >= PAL_STREAM_RUN);
}

static pal_status stream_status(const pal_token_stream *stream, pal_error *err)
{
    if (stream->walk.failure == PAL_CANCELED)
        return pal_error_set(err, PAL_CANCELED, "the sink stopped the token stream");
    if (stream->walk.failure != PAL_OK)
        return pal_no_memory(err);
    return PAL_OK;
}

pal_status pal_token_stream_feed(pal_token_stream *stream, pal_str text, pal_error *err)
{
    if (!stream->encoding) {
        pal_estimate_feed(&stream->estimate, text);
        return PAL_OK;
    }
    while (text.len > 0 && stream->walk.failure == PAL_OK) {
        size_t len = text.len < CHUNK ? text.len : CHUNK;

        if (!stream_reserve(stream, len)) {
            stream->walk.failure = PAL_NO_MEMORY;
            break;
        }
        memcpy(stream->text + stream->end, text.data, len);
        stream->end += len;
        text = pal_str_make(text.data + len, text.len - len);
        if (is_time(stream))
            stream_take(stream, false);
    }
    if (stream->sink && stream->walk.failure == PAL_OK)
        pal_walk_flush(&stream->walk);
    return stream_status(stream, err);
}

/* Works on a copy that only counts. The copy shares the text, which counting does not change. */
pal_status pal_token_stream_count(
        const pal_token_stream *stream, uint64_t *out_tokens, pal_error *err)
{
    pal_token_stream copy = *stream;
    pal_status status = stream_status(stream, err);

    if (!stream->encoding) {
        *out_tokens = pal_estimate_tokens(&stream->estimate);
        return PAL_OK;
    }
    if (status != PAL_OK)
        return status;
    copy.sink = NULL;
    copy.side = NULL;
    pal_walk_init(&copy.walk, stream->encoding, NULL, NULL);
    copy.walk.count = stream->walk.count;
    stream_take(&copy, true);
    status = stream_status(&copy, err);
    if (status == PAL_OK)
        *out_tokens = copy.walk.count;
    pal_walk_done(&copy.walk);
    return status;
}

/* The next byte begins a new text, also after a failure. */
static void stream_reset(pal_token_stream *stream)
{
    stream->begin = MARGIN;
    stream->end = MARGIN;
    stream->tried = 0;
    stream->is_run = false;
    stream->is_forked = false;
    stream->side = NULL;
    stream->sides[0].ids_len = 0;
    stream->sides[1].ids_len = 0;
    stream->walk.count = 0;
    stream->walk.ids_len = 0;
    stream->walk.failure = PAL_OK;
}

pal_status pal_token_stream_end(pal_token_stream *stream, uint64_t *out_tokens, pal_error *err)
{
    pal_status status;

    if (!stream->encoding) {
        *out_tokens = pal_estimate_tokens(&stream->estimate);
        stream->estimate = (pal_estimate){0};
        return PAL_OK;
    }
    stream_take(stream, true);
    if (stream->sink)
        pal_walk_flush(&stream->walk);
    status = stream_status(stream, err);
    if (status == PAL_OK)
        *out_tokens = stream->walk.count;
    stream_reset(stream);
    return status;
}
