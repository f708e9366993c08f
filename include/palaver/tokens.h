/* tokens.h - how many tokens a text is: exactly where the model's vocabulary is public, else as an
 * estimate that says so. docs/tokens.md has the rules and where the vocabularies come from. */
#ifndef PALAVER_TOKENS_H
#define PALAVER_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Encodings ---- */

/* A vocabulary and the rule that splits a text before it is looked up. Read-only, so that any
 * number of threads may use one; built-in ones live as long as the program. */
typedef struct pal_encoding pal_encoding;

/* "o200k_base", "cl100k_base", ...; NULL when there is none of that name in this build. */
PAL_API const pal_encoding *pal_encoding_find(pal_str name);

/* The built-in ones, best known first; NULL when `index` is past the last one. A library that was
 * built without vocabularies has none. */
PAL_API const pal_encoding *pal_encoding_at(size_t index);

PAL_API pal_str pal_encoding_name(const pal_encoding *encoding);
PAL_API uint32_t pal_encoding_size(const pal_encoding *encoding); /* ids are below this */

/* Maps a table that `palaver tokens compile` made from a vocabulary file of the user's own.
 * Release it with pal_encoding_close(), when nothing uses it any more. */
PAL_API PAL_CHECKED pal_status pal_encoding_open(
        const char *path, pal_encoding **out_encoding, pal_error *err);
/* Accepts NULL. */
PAL_API void pal_encoding_close(pal_encoding *encoding);

/* What a table is made from. */
typedef struct pal_vocabulary {
    pal_str name;
    pal_str pattern; /* how texts are split: "o200k", "cl100k", "llama3", "qwen2", "tekken", ... */
    pal_str tokens;  /* tiktoken's format: a line for each token, in base64, and its rank */
    pal_str special; /* likewise, or empty: names with their ids, plain ("<|endoftext|> 199999") */
} pal_vocabulary;

/* Makes the table that pal_encoding_open() maps, in the arena. PAL_INVALID names the line. */
PAL_API PAL_CHECKED pal_status pal_encoding_compile(const pal_vocabulary *vocabulary,
        pal_arena *arena, pal_str *out_table, pal_error *err);

/* ---- Texts ---- */

/* Bytes that are no valid UTF-8 are counted and encoded as what they are, bytes; for the splitting
 * rule each is a character that is neither letter, number nor white space. Names of special tokens
 * ("<|endoftext|>") are plain text. Time is linear in the length, whatever the text is. `encoding`
 * NULL gives the estimate. PAL_NO_MEMORY is the only failure. */
PAL_API PAL_CHECKED pal_status pal_tokens_count(
        const pal_encoding *encoding, pal_str text, uint64_t *out_tokens, pal_error *err);

typedef struct pal_token_ids {
    uint32_t *ids; /* in the arena */
    size_t len;
} pal_token_ids;

/* There is nothing to encode without an encoding: NULL gives PAL_INVALID, as in decoding. */
PAL_API PAL_CHECKED pal_status pal_tokens_encode(const pal_encoding *encoding, pal_str text,
        pal_arena *arena, pal_token_ids *out_ids, pal_error *err);

/* The bytes, which need not be valid UTF-8. Ids of special tokens give their names. PAL_INVALID
 * names an id that the encoding does not have. */
PAL_API PAL_CHECKED pal_status pal_tokens_decode(const pal_encoding *encoding, const uint32_t *ids,
        size_t ids_len, pal_arena *arena, pal_str *out_text, pal_error *err);

/* How long the beginning of `text` is that ends between two characters and has at most
 * `tokens_max` tokens, counted by itself. `encoding` NULL goes by the estimate. */
PAL_API PAL_CHECKED pal_status pal_tokens_cut(const pal_encoding *encoding, pal_str text,
        uint64_t tokens_max, size_t *out_len, pal_error *err);

/* The estimate by itself: ceil(bytes / 4) on ASCII, by script elsewhere. */
PAL_API uint64_t pal_tokens_estimate(pal_str text);

/* ---- Streams ---- */

/* Counts, or encodes, a text that comes in pieces, cut anywhere: the result is that of the whole.
 * Memory for counting is bounded, whatever comes; with a sink, ids that what follows may still
 * change wait for it, packed as runs. Used by one thread at a time. */
typedef struct pal_token_stream pal_token_stream;

/* Told ids in their order; false stops the stream with PAL_CANCELED. */
typedef bool (*pal_token_sink)(const uint32_t *ids, size_t len, void *user);

/* `sink` NULL only counts. `encoding` NULL estimates, and takes no sink. Release it with
 * pal_token_stream_free(). */
PAL_API PAL_CHECKED pal_status pal_token_stream_new(const pal_encoding *encoding,
        pal_token_sink sink, void *user, pal_token_stream **out_stream, pal_error *err);
PAL_API PAL_CHECKED pal_status pal_token_stream_feed(
        pal_token_stream *stream, pal_str text, pal_error *err);
/* What the text would count if it ended here; the stream goes on. */
PAL_API PAL_CHECKED pal_status pal_token_stream_count(
        const pal_token_stream *stream, uint64_t *out_tokens, pal_error *err);
/* The text ends: the rest goes to the sink. The stream can then be fed a new text. */
PAL_API PAL_CHECKED pal_status pal_token_stream_end(
        pal_token_stream *stream, uint64_t *out_tokens, pal_error *err);
/* Accepts NULL. */
PAL_API void pal_token_stream_free(pal_token_stream *stream);

/* ---- Models ---- */

/* What is known of a model. Limits are in tokens; 0 means not known. */
typedef struct pal_model {
    pal_str name;                 /* as it was asked for */
    const pal_encoding *encoding; /* NULL: only the estimate */
    bool is_exact;                /* the encoding is the model's own, not the nearest known one */
    bool is_known;                /* the table has it */
    uint64_t context;             /* input and output together */
    uint64_t output;
    uint64_t input; /* if there is a limit for the input alone */
} pal_model;

/* One line of the table: `pattern` is a name, or the beginning of one with a '*' behind it. */
typedef struct pal_model_rule {
    pal_str pattern;
    pal_str encoding; /* a name; empty: the estimate */
    bool is_exact;
    uint64_t context;
    uint64_t output;
    uint64_t input;
} pal_model_rule;

/* The built-in table with the user's own lines before it. It never changes: any thread. */
typedef struct pal_models pal_models;

/* Everything is copied. PAL_INVALID names an unknown encoding. `rules` may be NULL. Release it with
 * pal_models_free(). */
PAL_API PAL_CHECKED pal_status pal_models_new(const pal_model_rule *rules, size_t rules_len,
        pal_models **out_models, pal_error *err);
/* Accepts NULL. */
PAL_API void pal_models_free(pal_models *models);

/* Finds a model by its name as providers write it: with a provider in front ("openai/gpt-4o",
 * "us.anthropic.claude-..."), a date, a quantisation or ":free" behind. Case does not matter. The
 * user's lines come first; among the built-in ones the longest pattern wins. `models` NULL is the
 * built-in table. */
PAL_API pal_model pal_models_find(const pal_models *models, pal_str name);

/* The built-in lines one by one, for those who show them; false when `index` is past the last one.
 * An encoding that this build does not have is empty. */
PAL_API bool pal_models_builtin(size_t index, pal_model_rule *out_rule);

/* ---- Messages and tools ---- */

/* What a message costs in a request: its parts and what the format adds around them. `encoding`
 * NULL estimates. Images and files cost fixed amounts, limits.h. At least 1. */
PAL_API PAL_CHECKED pal_status pal_tokens_message(const pal_encoding *encoding,
        const pal_message *message, uint64_t *out_tokens, pal_error *err);

/* What a tool's declaration costs: `schema` is the JSON Schema of its arguments, or empty. */
PAL_API PAL_CHECKED pal_status pal_tokens_tool(const pal_encoding *encoding, pal_str name,
        pal_str description, pal_str schema, uint64_t *out_tokens, pal_error *err);

/* ---- Calibration ---- */

/* How far our counts are from what the provider reports, learned as it reports. Zero is a fresh
 * one. Plain data: keep it where you like. */
typedef struct pal_calibration {
    double ratio; /* reported / counted, smoothed; 0: nothing learned yet */
    uint32_t reports;
} pal_calibration;

/* A request that we counted as `counted` was reported as `reported` tokens of input. Reports of
 * less than PAL_CALIBRATION_TOKENS_MIN tell nothing and are left out. */
PAL_API void pal_calibration_learn(pal_calibration *calibration, uint64_t counted,
        uint64_t reported);
/* Rounded up; the number itself while nothing was learned. The ratio is kept within
 * PAL_CALIBRATION_MIN and PAL_CALIBRATION_MAX. */
PAL_API uint64_t pal_calibration_apply(const pal_calibration *calibration, uint64_t counted);

#ifdef __cplusplus
}
#endif
#endif
