/* search_words.c - words: how a search compares texts and queries. See search_words.h. */
#include "store/search/search_words.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "palaver/limits.h"

/* ---- The normal form ---- */

/* The maximum output of one character: a space and everything that folding makes of it. */
enum { STEP_LEN_MAX = 1 + 4 * PAL_UNICODE_FOLD_MAX, WINDOW_LEN = 8192 };

typedef struct walk {
    pal_str text;
    size_t at;             /* offset in the text */
    size_t len;            /* length of the normal form so far */
    pal_unicode_kind kind; /* kind of the previous character; GAP at the beginning */
} walk;

/* Most characters are ASCII, and they need no table. */
static inline size_t ascii_step(walk *state, unsigned char c, char *out)
{
    unsigned char lower = c | 0x20;
    bool is_letter = lower >= 'a' && lower <= 'z';
    size_t len = 0;

    state->at++;
    if (!is_letter && (c < '0' || c > '9')) {
        state->kind = PAL_UNICODE_GAP;
        return 0;
    }
    if (state->kind != PAL_UNICODE_WORD && state->len > 0)
        out[len++] = ' ';
    out[len++] = (char)(is_letter ? lower : c);
    state->kind = PAL_UNICODE_WORD;
    state->len += len;
    return len;
}

/* Writes what the next character adds. Returns the number of bytes. */
static inline size_t walk_step(walk *state, char out[STEP_LEN_MAX])
{
    const char *from = state->text.data + state->at;
    uint32_t character, folded[PAL_UNICODE_FOLD_MAX] = {0};
    pal_unicode_kind kind;
    size_t len = 0, folded_len;

    if ((unsigned char)*from < 0x80)
        return ascii_step(state, (unsigned char)*from, out);
    state->at += pal_utf8_decode(pal_str_make(from, state->text.len - state->at), &character);
    kind = pal_unicode_kind_of(character);
    if (kind != PAL_UNICODE_GAP && kind != state->kind && state->len > 0)
        out[len++] = ' ';
    state->kind = kind;
    if (kind == PAL_UNICODE_GAP)
        return 0;
    folded_len = pal_unicode_fold(character, folded);
    for (size_t i = 0; i < folded_len; i++)
        len += pal_utf8_encode(folded[i], out + len);
    state->len += len;
    return len;
}

void pal_words_normal(pal_str text, pal_buf *out)
{
    walk state = {.text = text};

    while (state.at < text.len) {
        char *room = pal_buf_reserve(out, WINDOW_LEN);
        size_t len = 0;

        if (!room)
            return;
        while (state.at < text.len && len + STEP_LEN_MAX <= WINDOW_LEN)
            len += walk_step(&state, room + len);
        pal_buf_commit(out, len);
    }
}

size_t pal_words_origin(pal_str text, size_t at)
{
    walk state = {.text = text};
    char ignored[STEP_LEN_MAX];
    size_t before = 0;

    while (state.at < text.len && state.len <= at) {
        before = state.at;
        walk_step(&state, ignored);
    }
    return before;
}

/* ---- Terms ---- */

/* Returns the run at the beginning of a normal form. */
static pal_str next_run(pal_str normal)
{
    const char *space = normal.len > 0 ? memchr(normal.data, ' ', normal.len) : NULL;

    return pal_str_make(normal.data, space ? (size_t)(space - normal.data) : normal.len);
}

static pal_str behind_run(pal_str normal, pal_str run)
{
    size_t len = run.len < normal.len ? run.len + 1 : run.len;

    return pal_str_make(normal.data + len, normal.len - len);
}

static pal_unicode_kind kind_of_run(pal_str run)
{
    uint32_t character;

    if ((unsigned char)run.data[0] < 0x80)
        return PAL_UNICODE_WORD;
    pal_utf8_decode(run, &character);
    return pal_unicode_kind_of(character);
}

static size_t character_len(pal_str run, size_t at)
{
    uint32_t ignored;

    return at < run.len ? pal_utf8_decode(pal_str_make(run.data + at, run.len - at), &ignored) : 0;
}

/* Yields each pair of neighbors and, if `with_last` is set, the last character alone. */
static bool unspaced_terms(pal_str run, bool with_last, pal_term_sink sink, void *user)
{
    size_t at = 0, len = character_len(run, 0);

    while (at < run.len) {
        size_t next_len = character_len(run, at + len);
        pal_term term = {.text = pal_str_make(run.data + at, len + next_len)};

        if ((next_len > 0 || with_last) && !sink(term, user))
            return false;
        at += len;
        len = next_len;
    }
    return true;
}

static pal_term word_term(pal_str run, bool is_prefix)
{
    pal_term term = {.text = run, .is_prefix = is_prefix};

    if (run.len >= PAL_TERM_LEN_MAX) {
        term.text.len = PAL_TERM_LEN_MAX;
        term.is_prefix = false;
    }
    return term;
}

void pal_words_terms(pal_str normal, pal_term_sink sink, void *user)
{
    bool wanted = true;

    while (wanted && normal.len > 0) {
        pal_str run = next_run(normal);

        if (kind_of_run(run) == PAL_UNICODE_UNSPACED)
            wanted = unspaced_terms(run, true, sink, user);
        else
            wanted = sink(word_term(run, false), user);
        normal = behind_run(normal, run);
    }
}

static bool phrase_terms(const pal_phrase *phrase, pal_term_sink sink, void *user)
{
    pal_str left = phrase->normal;
    bool wanted = true;

    while (wanted && left.len > 0) {
        pal_str run = next_run(left);

        left = behind_run(left, run);
        if (kind_of_run(run) != PAL_UNICODE_UNSPACED)
            wanted = sink(word_term(run, phrase->is_prefix && left.len == 0), user);
        else if (character_len(run, 0) < run.len)
            wanted = unspaced_terms(run, false, sink, user);
        else
            wanted = sink((pal_term){.text = run, .is_prefix = true}, user);
    }
    return wanted;
}

void pal_words_query_terms(const pal_query *query, pal_term_sink sink, void *user)
{
    for (size_t i = 0; i < query->len; i++)
        if (!phrase_terms(&query->phrases[i], sink, user))
            return;
}

/* ---- Queries ---- */

/* Removes one word or quoted phrase from the front of the text. */
static pal_str take_part(pal_str *text, bool *out_prefix, bool *out_quoted)
{
    bool quoted = text->data[0] == '"';
    size_t begin = quoted ? 1 : 0, end = begin, next;

    *out_quoted = quoted;
    if (quoted) {
        while (end < text->len && text->data[end] != '"')
            end++;
        next = end < text->len ? end + 1 : end;
        *out_prefix = next < text->len && text->data[next] == '*';
        next += *out_prefix;
    } else {
        while (end < text->len && !pal_text_is_space(text->data[end]) && text->data[end] != '"')
            end++;
        next = end;
        *out_prefix = text->data[end - 1] == '*';
    }
    pal_str part = pal_str_make(text->data + begin, end - begin);
    *text = pal_str_make(text->data + next, text->len - next);
    return part;
}

static pal_status add_phrase(pal_query *query, pal_str part, bool is_prefix, bool is_quoted,
        pal_arena *arena, pal_error *err)
{
    pal_status status = PAL_OK;
    pal_buf normal;

    pal_buf_init(&normal, PAL_SEARCH_TEXT_LEN_MAX * STEP_LEN_MAX + WINDOW_LEN);
    pal_words_normal(part, &normal);
    if (normal.failure)
        status = pal_error_set(err, normal.failure, "out of memory");
    else if (normal.len > 0 && query->len == PAL_SEARCH_WORDS_MAX)
        status = pal_error_set(
                err, PAL_LIMIT, "a search can have at most %d words", PAL_SEARCH_WORDS_MAX);
    else if (normal.len > 0)
        query->phrases[query->len++] =
                (pal_phrase){pal_arena_copy(arena, pal_buf_str(&normal)), is_prefix, is_quoted};
    pal_buf_done(&normal);
    return status;
}

pal_status pal_words_query_read(pal_str text, pal_arena *arena, pal_query *out_query,
        pal_error *err)
{
    pal_query query = {0};

    if (text.len > PAL_SEARCH_TEXT_LEN_MAX)
        return pal_error_set(err, PAL_LIMIT, "a search of %zu bytes exceeds the limit of %d",
                text.len, PAL_SEARCH_TEXT_LEN_MAX);
    query.phrases = pal_arena_array(arena, PAL_SEARCH_WORDS_MAX, sizeof(*query.phrases));
    if (!query.phrases)
        return pal_no_memory(err);
    while (text.len > 0) {
        bool is_prefix, is_quoted;
        pal_str part;
        pal_status status;

        if (pal_text_is_space(text.data[0])) {
            text = pal_str_make(text.data + 1, text.len - 1);
            continue;
        }
        part = take_part(&text, &is_prefix, &is_quoted);
        status = add_phrase(&query, part, is_prefix, is_quoted, arena, err);
        if (status != PAL_OK)
            return status;
    }
    if (pal_arena_failure(arena))
        return pal_no_memory(err);
    if (query.len == 0)
        return pal_error_set(err, PAL_INVALID, "the search contains no words");
    *out_query = query;
    return PAL_OK;
}

/* ---- Matching ---- */

static pal_str last_run(pal_str normal)
{
    size_t at = normal.len;

    while (at > 0 && normal.data[at - 1] != ' ')
        at--;
    return pal_str_make(normal.data + at, normal.len - at);
}

/* Finds the phrase at or after `at`. */
static bool phrase_find(const pal_phrase *phrase, pal_str normal, size_t at, size_t *out_at)
{
    pal_str wanted = phrase->normal;
    bool begins_word = kind_of_run(wanted) == PAL_UNICODE_WORD;
    bool ends_word = !phrase->is_prefix && kind_of_run(last_run(wanted)) == PAL_UNICODE_WORD;

    while (at + wanted.len <= normal.len) {
        const char *found = memmem(normal.data + at, normal.len - at, wanted.data, wanted.len);

        if (!found)
            return false;
        at = (size_t)(found - normal.data);
        if ((!begins_word || at == 0 || normal.data[at - 1] == ' ') &&
                (!ends_word || at + wanted.len == normal.len ||
                        normal.data[at + wanted.len] == ' ')) {
            *out_at = at;
            return true;
        }
        at++;
    }
    return false;
}

bool pal_words_query_match(const pal_query *query, pal_str normal, size_t *out_first)
{
    size_t first = SIZE_MAX;

    for (size_t i = 0; i < query->len; i++) {
        size_t at;

        if (!phrase_find(&query->phrases[i], normal, 0, &at))
            return false;
        if (at < first)
            first = at;
    }
    *out_first = first;
    return true;
}

static int compare_matches(const void *left, const void *right)
{
    const pal_search_match *a = left, *b = right;

    return (a->start > b->start) - (a->start < b->start);
}

/* Joins matches that overlap. They must be sorted. */
static size_t merge_matches(pal_search_match *matches, size_t len)
{
    size_t kept = 0;

    for (size_t i = 1; i < len; i++) {
        pal_search_match *last = &matches[kept];

        if (matches[i].start >= last->start + last->len)
            matches[++kept] = matches[i];
        else if (matches[i].start + matches[i].len > last->start + last->len)
            last->len = matches[i].start + matches[i].len - last->start;
    }
    return len > 0 ? kept + 1 : 0;
}

size_t pal_words_matches_join(pal_search_match *matches, size_t len)
{
    qsort(matches, len, sizeof(*matches), compare_matches);
    return merge_matches(matches, len);
}

pal_search_match pal_words_match_at(pal_str text, size_t at, size_t end)
{
    size_t first = pal_words_origin(text, at), last = pal_words_origin(text, end - 1);
    uint32_t ignored;

    last += pal_utf8_decode(pal_str_make(text.data + last, text.len - last), &ignored);
    return (pal_search_match){
            .start = (uint32_t)pal_utf8_count(pal_str_make(text.data, first)),
            .len = (uint32_t)pal_utf8_count(pal_str_make(text.data + first, last - first))};
}

size_t pal_words_matches(
        const pal_query *query, pal_str text, pal_search_match *out_matches, size_t max)
{
    size_t len = 0;
    pal_buf normal;

    pal_buf_init(&normal, SIZE_MAX / 4);
    pal_words_normal(text, &normal);
    for (size_t i = 0; normal.failure == PAL_OK && i < query->len; i++) {
        size_t at = 0, width = query->phrases[i].normal.len;

        for (; len < max && phrase_find(&query->phrases[i], pal_buf_str(&normal), at, &at);
                at += width)
            out_matches[len++] = pal_words_match_at(text, at, at + width);
    }
    pal_buf_done(&normal);
    return pal_words_matches_join(out_matches, len);
}

/* ---- Snippets ---- */

enum { SNIPPET_CHARACTERS = 120, SNIPPET_LEAD = 40 };

/* Goes back up to `count` characters from `at`, which must be the start of a character. */
static size_t step_back(pal_str text, size_t at, size_t count)
{
    for (; at > 0 && count > 0; count--)
        do
            at--;
        while (at > 0 && ((unsigned char)text.data[at] & 0xc0) == 0x80);
    return at;
}

/* Appends a character. A space is appended only after another character that is not a space. */
static size_t put_character(char *out, size_t len, uint32_t character)
{
    bool blank = character <= ' ' || character == 0x7f;

    if (!blank)
        return len + pal_utf8_encode(character, out + len);
    if (len > 0 && out[len - 1] != ' ')
        out[len++] = ' ';
    return len;
}

pal_str pal_words_snippet(pal_str text, size_t at, pal_arena *arena)
{
    static const char ellipsis[] = "\xe2\x80\xa6";
    char out[4 * SNIPPET_CHARACTERS + 2 * sizeof(ellipsis)];
    size_t begin = step_back(text, at, SNIPPET_LEAD), len = 0;

    at = begin;
    if (begin > 0) {
        memcpy(out, ellipsis, sizeof(ellipsis) - 1);
        len = sizeof(ellipsis) - 1;
    }
    for (int count = 0; at < text.len && count < SNIPPET_CHARACTERS; count++) {
        uint32_t character;

        at += pal_utf8_decode(pal_str_make(text.data + at, text.len - at), &character);
        len = put_character(out, len, character);
    }
    while (len > 0 && out[len - 1] == ' ')
        len--;
    if (at < text.len) {
        memcpy(out + len, ellipsis, sizeof(ellipsis) - 1);
        len += sizeof(ellipsis) - 1;
    }
    return pal_arena_copy(arena, pal_str_make(out, len));
}
