/* tokens.h - counts the tokens of a text. The count is exact if the model's vocabulary is public;
 * otherwise it is an estimate, and marked as one. docs/tokens.md has the rules and the origin of
 * the vocabularies.
 *
 * Threads: all functions can be called from any thread. Encodings and tables of models never change
 * and can be shared; a stream must be used by one thread at a time. Only pal_encoding_open() reads
 * a file. */
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

/* A vocabulary, and the rule that splits a text before it is looked up. Read-only. Built-in
 * encodings live as long as the program. */
typedef struct pal_encoding pal_encoding;

/* Finds a built-in encoding: "o200k_base", "cl100k_base" and so on. NULL if this build does not
 * contain it. The first function that counts, encodes or decodes with it makes its table, which
 * takes up to a tenth of a second and 5 to 17 MB of memory. */
PAL_API const pal_encoding *pal_encoding_find(pal_str name);

/* Returns the built-in encodings one by one, the best known first. NULL if `index` is past the last
 * one. A library that was built without vocabularies has none. */
PAL_API const pal_encoding *pal_encoding_at(size_t index);

PAL_API pal_str pal_encoding_name(const pal_encoding *encoding);
/* Returns a number that is larger than all ids of the encoding. */
PAL_API uint32_t pal_encoding_size(const pal_encoding *encoding);

/* Maps a table that `palaver tokens compile` made from a user's vocabulary file. The caller must
 * release it with pal_encoding_close(), when nothing uses it any more. */
PAL_API PAL_CHECKED pal_status pal_encoding_open(
        const char *path, pal_encoding **out_encoding, pal_error *err);
/* Releases an encoding that pal_encoding_open() returned. Accepts NULL. */
PAL_API void pal_encoding_close(pal_encoding *encoding);

/* The input for a table. */
typedef struct pal_vocabulary {
    pal_str name;
    pal_str pattern; /* the rule that splits texts: "o200k", "cl100k", "llama3", "qwen2", "tekken"
                        and so on */
    pal_str tokens;  /* in tiktoken's format: one line for each token, with the token in base64 and
                        its rank */
    pal_str special; /* special tokens, one line for each with its plain name and its id
                        ("<|endoftext|> 199999"); may be empty */
    PAL_RESERVED(4);
} pal_vocabulary;

/* Makes the table that pal_encoding_open() maps, in the arena. PAL_INVALID: `err` names the
 * line. */
PAL_API PAL_CHECKED pal_status pal_encoding_compile(const pal_vocabulary *vocabulary,
        pal_arena *arena, pal_str *out_table, pal_error *err);

/* ---- Texts ---- */

/* Counts the tokens of a text. `encoding` NULL: estimates them. Takes time linear in the length of
 * the text. PAL_NO_MEMORY is the only error.
 *
 * Bytes that are not valid UTF-8 are counted and encoded as bytes. The splitting rule treats each
 * of them as a character that is neither a letter nor a number nor white space. Names of special
 * tokens ("<|endoftext|>") are plain text. */
PAL_API PAL_CHECKED pal_status pal_tokens_count(
        const pal_encoding *encoding, pal_str text, uint64_t *out_tokens, pal_error *err);

/* The ids of a text, in the arena. */
typedef struct pal_token_ids {
    uint32_t *ids;
    size_t len;
} pal_token_ids;

/* Encodes a text. PAL_INVALID: `encoding` is NULL. */
PAL_API PAL_CHECKED pal_status pal_tokens_encode(const pal_encoding *encoding, pal_str text,
        pal_arena *arena, pal_token_ids *out_ids, pal_error *err);

/* Decodes ids into bytes, which need not be valid UTF-8. Ids of special tokens give their names.
 * PAL_INVALID: `encoding` is NULL, or `err` names an id that the encoding does not have. */
PAL_API PAL_CHECKED pal_status pal_tokens_decode(const pal_encoding *encoding, const uint32_t *ids,
        size_t ids_len, pal_arena *arena, pal_str *out_text, pal_error *err);

/* Sets *out_len to the length of the longest beginning of `text` that has at most `tokens_max`
 * tokens, counted alone. It ends between two characters. If the text has very long words, a longer
 * beginning might fit as well. `encoding` NULL: uses the estimate. */
PAL_API PAL_CHECKED pal_status pal_tokens_cut(const pal_encoding *encoding, pal_str text,
        uint64_t tokens_max, size_t *out_len, pal_error *err);

/* Estimates the tokens of a text: ceil(bytes / 4) for ASCII, and by script otherwise. */
PAL_API uint64_t pal_tokens_estimate(pal_str text);

/* ---- Streams ---- */

/* Counts or encodes a text that arrives in pieces. Pieces can be cut anywhere: the result is that
 * of the whole text. Counting uses a limited amount of memory. If there is a sink, ids that later
 * text can still change are kept until they are final. A stream must be used by one thread at a
 * time. */
typedef struct pal_token_stream pal_token_stream;

/* Receives ids in order, on the thread that feeds the stream. Return false to stop the stream,
 * which then fails with PAL_CANCELED. */
typedef bool (*pal_token_stream_on_ids)(const uint32_t *ids, size_t len, void *user);

/* Creates a stream. `sink` NULL: only counts. `encoding` NULL: estimates; PAL_INVALID if there is a
 * sink as well. The caller must release the stream with pal_token_stream_free(). */
PAL_API PAL_CHECKED pal_status pal_token_stream_new(const pal_encoding *encoding,
        pal_token_stream_on_ids sink, void *user, pal_token_stream **out_stream, pal_error *err);
/* Adds a piece of the text. */
PAL_API PAL_CHECKED pal_status pal_token_stream_feed(
        pal_token_stream *stream, pal_str text, pal_error *err);
/* Reports the tokens of the text so far, as if it ended here. The stream can still be fed. */
PAL_API PAL_CHECKED pal_status pal_token_stream_count(
        const pal_token_stream *stream, uint64_t *out_tokens, pal_error *err);
/* Ends the text: passes the remaining ids to the sink and reports the tokens. The stream can then
 * be fed a new text. */
PAL_API PAL_CHECKED pal_status pal_token_stream_end(
        pal_token_stream *stream, uint64_t *out_tokens, pal_error *err);
/* Frees a stream. Accepts NULL. */
PAL_API void pal_token_stream_free(pal_token_stream *stream);

/* ---- Models ---- */

/* The known properties of a model. Limits are in tokens; 0: unknown. */
typedef struct pal_model {
    pal_str name;                 /* the name that was looked up */
    const pal_encoding *encoding; /* NULL: only estimates are possible */
    bool is_exact;    /* the encoding is the model's own and not the nearest known one */
    bool is_known;    /* the table contains the model */
    uint64_t context; /* limit of input and output together */
    uint64_t output;
    uint64_t input; /* limit of the input, if there is a separate one */
    PAL_RESERVED(4);
} pal_model;

/* One row of the table of models. `pattern` is a name, or a prefix that ends in '*'. */
typedef struct pal_model_rule {
    pal_str pattern;
    pal_str encoding; /* name of an encoding; empty: estimates */
    bool is_exact;
    uint64_t context;
    uint64_t output;
    uint64_t input;
    PAL_RESERVED(4);
} pal_model_rule;

/* The built-in table, with the user's rows before it. Never changes. */
typedef struct pal_models pal_models;

/* Makes a table from the user's rows, which are copied. `rules` may be NULL. The caller must
 * release it with pal_models_free(). PAL_INVALID: `err` names an unknown encoding. */
PAL_API PAL_CHECKED pal_status pal_models_new(const pal_model_rule *rules, size_t rules_len,
        pal_models **out_models, pal_error *err);
/* Frees a table. Accepts NULL. */
PAL_API void pal_models_free(pal_models *models);

/* Finds a model by its name. The name can have the forms that services use: with a provider in
 * front ("openai/gpt-4o", "us.anthropic.claude-..."), or with a date, a quantization or ":free" at
 * the end. Case does not matter. The user's rows are searched first. Among the built-in rows the
 * longest pattern wins. `models` NULL: searches the built-in table only. If no row matches,
 * is_known is false. */
PAL_API pal_model pal_models_find(const pal_models *models, pal_str name);

/* Returns the built-in rows one by one. False if `index` is past the last one. `encoding` is empty
 * if this build does not contain it. */
PAL_API bool pal_models_builtin(size_t index, pal_model_rule *out_rule);

/* ---- Messages and tools ---- */

/* Counts the tokens of a message in a request: its parts and what the format adds around them.
 * `encoding` NULL: estimates. Images and files count fixed amounts (limits.h). The result is at
 * least 1. */
PAL_API PAL_CHECKED pal_status pal_tokens_message(const pal_encoding *encoding,
        const pal_message *message, uint64_t *out_tokens, pal_error *err);

/* Counts the tokens of a tool's declaration. `schema` is the JSON Schema of its arguments; may be
 * empty. */
PAL_API PAL_CHECKED pal_status pal_tokens_tool(const pal_encoding *encoding, pal_str name,
        pal_str description, pal_str schema, uint64_t *out_tokens, pal_error *err);

/* ---- Calibration ---- */

/* The relation of our counts to the numbers that a service reports. It is learned from its reports.
 * Zero it before the first use. Plain data without pointers: it can be copied and stored. */
typedef struct pal_calibration {
    double ratio; /* reported / counted, smoothed; 0: nothing was learned yet */
    uint32_t reports;
} pal_calibration;

/* Learns from a report: we counted `counted` tokens of input, and the service reported `reported`.
 * Reports below PAL_CALIBRATION_TOKENS_MIN are ignored. */
PAL_API void pal_calibration_learn(pal_calibration *calibration, uint64_t counted,
        uint64_t reported);
/* Corrects a count by what was learned, rounded up. Returns `counted` if nothing was learned. The
 * ratio is kept between PAL_CALIBRATION_MIN and PAL_CALIBRATION_MAX. */
PAL_API uint64_t pal_calibration_apply(const pal_calibration *calibration, uint64_t counted);

#ifdef __cplusplus
}
#endif
#endif
