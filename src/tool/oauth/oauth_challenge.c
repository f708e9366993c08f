/* oauth_challenge.c - reads the header WWW-Authenticate (RFC 9110, RFC 6750) and lists of scopes.
 * Pure. */
#include <string.h>

#include "base/text.h"
#include "tool/oauth/oauth_internal.h"

/* ---- Challenges ---- */

typedef struct reader {
    const char *at, *end;
    pal_arena *arena;
} reader;

static void skip(reader *r, const char *chars)
{
    while (r->at < r->end && *r->at && strchr(chars, *r->at))
        r->at++;
}

static pal_str read_token(reader *r)
{
    const char *from = r->at;
    while (r->at < r->end && *r->at && !strchr(" \t,=\"", *r->at))
        r->at++;
    return pal_str_make(from, (size_t)(r->at - from));
}

/* Reads the rest of "..." with its escapes. */
static pal_str read_quoted(reader *r)
{
    char *out = pal_arena_alloc(r->arena, (size_t)(r->end - r->at) + 1);
    size_t len = 0;
    for (r->at++; r->at < r->end && *r->at != '"'; r->at++) {
        if (*r->at == '\\' && r->at + 1 < r->end)
            r->at++;
        if (out)
            out[len++] = *r->at;
    }
    r->at += r->at < r->end;
    return out ? pal_str_make(out, len) : (pal_str){0};
}

static void take(pal_oauth_challenge_values *values, pal_str name, pal_str value)
{
    if (pal_text_is_nocase(name, "error"))
        values->error = value;
    else if (pal_text_is_nocase(name, "scope") && value.len <= PAL_OAUTH_SCOPE_LEN_MAX)
        values->scope = value;
    else if (pal_text_is_nocase(name, "resource_metadata"))
        values->resource_metadata = value;
}

void pal_oauth_challenge_read(
        pal_str header, pal_arena *arena, pal_oauth_challenge_values *out_values)
{
    reader r = {header.data, header.data, arena};
    bool is_used = false, has_bearer = false;
    *out_values = (pal_oauth_challenge_values){0};
    if (header.len > 0)
        r.end += header.len;
    while (r.at < r.end) {
        skip(&r, " \t,");
        const char *from = r.at;
        pal_str name = read_token(&r);
        skip(&r, " \t");
        if (r.at < r.end && *r.at == '=') {
            r.at++;
            skip(&r, " \t");
            pal_str value = r.at < r.end && *r.at == '"' ? read_quoted(&r) : read_token(&r);
            if (is_used)
                take(out_values, name, value);
        } else if (name.len) {
            bool is_bearer = pal_text_is_nocase(name, "bearer");
            is_used = is_bearer || (!has_bearer && pal_text_is_nocase(name, "dpop"));
            if (is_used && !has_bearer)
                *out_values = (pal_oauth_challenge_values){.is_bound = !is_bearer};
            has_bearer |= is_bearer;
        }
        r.at += r.at == from; /* a character that belongs to nothing */
    }
}

bool pal_oauth_is_challenge(long code, pal_str header)
{
    pal_oauth_challenge_values values;
    if (code != 403)
        return code == 401;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return false;
    pal_oauth_challenge_read(header, arena, &values);
    bool is_scope = pal_str_is(values.error, "insufficient_scope") && values.scope.len;
    pal_arena_free(arena);
    return is_scope;
}

/* ---- Scopes ---- */

/* Returns the next word, and removes it. Any white space ends it, because pal_text_trim() removes
 * any. */
static pal_str next_word(pal_str *text)
{
    *text = pal_text_trim(*text);
    size_t len = 0;
    while (len < text->len && !pal_text_is_space(text->data[len]))
        len++;
    pal_str word = pal_str_make(text->data, len);
    *text = pal_text_after(*text, len);
    return word;
}

bool pal_oauth_scope_contains(pal_str all, pal_str some)
{
    for (pal_str word = next_word(&some); word.len; word = next_word(&some)) {
        pal_str rest = all, one = next_word(&rest);
        while (one.len && !pal_str_equal(one, word))
            one = next_word(&rest);
        if (!one.len)
            return false;
    }
    return true;
}

static void append_new(pal_buf *out, pal_str scope)
{
    for (pal_str word = next_word(&scope); word.len; word = next_word(&scope)) {
        if (!pal_oauth_scope_contains(pal_buf_str(out), word)) {
            if (out->len)
                pal_buf_append_char(out, ' ');
            pal_buf_append_str(out, word);
        }
    }
}

static pal_str keep(pal_buf *scope, pal_arena *arena)
{
    pal_str copy = scope->failure ? (pal_str){0} : pal_arena_copy(arena, pal_buf_str(scope));
    pal_buf_done(scope);
    return copy;
}

pal_str pal_oauth_scope_join(pal_str a, pal_str b, pal_arena *arena)
{
    pal_buf out;
    pal_buf_init(&out, PAL_OAUTH_SCOPE_LEN_MAX);
    append_new(&out, a);
    append_new(&out, b);
    return keep(&out, arena);
}

pal_str pal_oauth_scope_of_list(pal_json list, pal_arena *arena)
{
    pal_buf out;
    pal_json one;
    pal_buf_init(&out, PAL_OAUTH_SCOPE_LEN_MAX);
    for (pal_json_iter each = pal_json_each(list); pal_json_next(&each, NULL, &one);)
        append_new(&out, pal_json_string(one, arena));
    return keep(&out, arena);
}
