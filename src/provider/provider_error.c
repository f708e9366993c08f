/* provider_error.c - reads the error responses of services, in all their forms, and prepares them
 * for display. On the loop. */
#include "base/utf8.h"
#include "dialect/dialect_member.h"
#include "provider/provider_answer.h"
#include "provider/provider_kind.h"

#define EXCERPT_LEN_MAX 200
#define MESSAGE_LEN_MAX 1500

/* ---- Excerpts ---- */

static bool is_blank(char c)
{
    return (unsigned char)c <= ' ' || c == 0x7f;
}

static bool looks_like_page(pal_str bytes)
{
    size_t at = 0;
    while (at < bytes.len && is_blank(bytes.data[at]))
        at++;
    return at < bytes.len && bytes.data[at] == '<';
}

static void append_char(pal_buf *out, pal_str *rest)
{
    uint32_t character;
    char bytes[4];
    size_t len = pal_utf8_decode(*rest, &character);
    pal_buf_append(out, bytes, pal_utf8_encode(character, bytes));
    *rest = pal_str_make(rest->data + len, rest->len - len);
}

/* The contents of <style> and <script> are not skipped. An error page that begins with them yields
 * a poor excerpt. */
static pal_str skip_tag(pal_str rest)
{
    const char *end = memchr(rest.data, '>', rest.len);
    size_t len = end ? (size_t)(end - rest.data) + 1 : rest.len;
    return pal_str_make(rest.data + len, rest.len - len);
}

static void append_words(pal_buf *out, pal_str rest, size_t len_max)
{
    bool is_page = looks_like_page(rest), wants_blank = false;
    size_t from = out->len;
    while (rest.len && out->len - from < len_max) {
        if (is_page && rest.data[0] == '<') {
            rest = skip_tag(rest);
            wants_blank = true;
        } else if (is_blank(rest.data[0])) {
            rest = pal_str_make(rest.data + 1, rest.len - 1);
            wants_blank = true;
        } else {
            if (wants_blank && out->len > from)
                pal_buf_append_char(out, ' ');
            wants_blank = false;
            append_char(out, &rest);
        }
    }
    if (rest.len && out->len - from >= len_max)
        pal_buf_append_text(out, "...");
}

void pal_provider_excerpt(pal_buf *out, pal_str bytes)
{
    append_words(out, bytes, EXCERPT_LEN_MAX);
}

void pal_provider_redact_secret(pal_buf *text, pal_str secret)
{
    static const char mask[] = "***";
    size_t mask_len = sizeof mask - 1, at = 0, kept = 0;
    const char *found;
    if (secret.len <= mask_len || text->len == 0)
        return;
    /* Every byte is moved at most once, however often the text contains the secret. */
    while ((found = memmem(text->data + at, text->len - at, secret.data, secret.len)) != NULL) {
        size_t len = (size_t)(found - text->data) - at;
        memmove(text->data + kept, text->data + at, len);
        memcpy(text->data + kept + len, mask, mask_len);
        kept += len + mask_len;
        at += len + secret.len;
    }
    memmove(text->data + kept, text->data + at, text->len - at);
    text->len = kept + text->len - at;
}

void pal_provider_redact(const pal_provider *provider, pal_buf *text)
{
    for (size_t i = 0; i < provider->secrets_len; i++)
        pal_provider_redact_secret(text, provider->secrets[i]);
}

/* ---- Shapes ---- */

/* Members that may contain the text of an error, in this order. */
static const char *const message_names[] = {"message", "detail", "msg", "error", "reason", NULL};
static const char *const code_names[] = {"code", "type", "error_type", "status", NULL};

#define SHAPE_DEPTH_MAX 4

/* Returns the object that contains the text: the member "error", or the first element of a list. */
static pal_json inner_of(pal_json value)
{
    for (int depth = 0; depth < SHAPE_DEPTH_MAX; depth++) {
        pal_json error = pal_json_find(value, "error");
        pal_json errors = pal_json_find(value, "errors");
        pal_json_iter iter;
        if (pal_json_type_of(value) == PAL_JSON_ARRAY) {
            iter = pal_json_each(value);
            if (!pal_json_next(&iter, NULL, &value))
                return (pal_json){0};
        } else if (pal_json_type_of(error) == PAL_JSON_OBJECT) {
            value = error;
        } else if (pal_json_type_of(errors) == PAL_JSON_ARRAY && pal_json_count(errors)) {
            value = errors;
        } else {
            break;
        }
    }
    return value;
}

/* Appends the place of a validation error, such as {"loc":["body","inputs",0],"msg":"Field
 * required"}. */
static void append_place(pal_buf *out, pal_json value, pal_arena *scratch)
{
    pal_json name;
    bool first = true;
    for (pal_json_iter iter = pal_json_each(pal_json_find(value, "loc"));
            pal_json_next(&iter, NULL, &name); first = false) {
        pal_str text = pal_json_type_of(name) == PAL_JSON_STRING ? pal_json_string(name, scratch)
                                                                 : pal_json_raw(name);
        pal_buf_append_text(out, first ? "" : ".");
        append_words(out, text, EXCERPT_LEN_MAX);
    }
    if (!first)
        pal_buf_append_text(out, ": ");
}

static bool append_message(pal_buf *out, pal_json value, pal_arena *scratch, int depth)
{
    pal_json_type type = pal_json_type_of(value);
    if (type == PAL_JSON_STRING) {
        size_t from = out->len;
        append_words(out, pal_json_string(value, scratch), MESSAGE_LEN_MAX);
        return out->len > from;
    }
    if (depth == SHAPE_DEPTH_MAX)
        return false;
    if (type == PAL_JSON_ARRAY) {
        pal_json first;
        pal_json_iter iter = pal_json_each(value);
        return pal_json_next(&iter, NULL, &first) && append_message(out, first, scratch, depth + 1);
    }
    for (size_t i = 0; type == PAL_JSON_OBJECT && message_names[i]; i++) {
        pal_json found = pal_json_find(value, message_names[i]);
        size_t from = out->len;
        append_place(out, value, scratch);
        if (append_message(out, found, scratch, depth + 1))
            return true;
        out->len = from;
    }
    return false;
}

static void learn_code(pal_answer *answer, pal_json value, pal_arena *scratch)
{
    for (size_t i = 0; code_names[i] && answer->error_code.len == 0; i++) {
        pal_json found = pal_json_find(value, code_names[i]);
        if (pal_json_type_of(found) == PAL_JSON_STRING)
            pal_answer_learn(&answer->error_code, pal_json_string(found, scratch));
        else if (pal_json_type_of(found) == PAL_JSON_NUMBER)
            pal_answer_learn(&answer->error_code, pal_json_raw(found));
    }
}

/* Appends the original error if a service forwards it:
 * {"metadata":{"raw":"...","provider_name"}}. */
static void append_upstream(pal_buf *out, pal_json value, pal_arena *scratch)
{
    pal_str raw = pal_member_string(pal_json_find(value, "metadata"), "raw", scratch);
    if (raw.len == 0)
        return;
    pal_buf_append_text(out, ": ");
    append_words(out, raw, EXCERPT_LEN_MAX);
}

void pal_answer_error_value(pal_answer *answer, pal_json value)
{
    pal_arena *scratch = answer->scratch;
    if (answer->end.status)
        return;
    pal_json inner = inner_of(value);
    pal_buf_clear(&answer->error);
    if (append_message(&answer->error, inner, scratch, 0) ||
            append_message(&answer->error, value, scratch, 0))
        append_upstream(&answer->error, inner, scratch);
    else
        pal_provider_excerpt(&answer->error, pal_json_raw(value));
    learn_code(answer, inner, scratch);
    answer->end.status = PAL_PROVIDER;
}

void pal_answer_error_body(pal_answer *answer, long code, pal_str body)
{
    pal_json value;
    if (answer->end.status)
        return;
    if (pal_json_parse(answer->scratch, body, NULL, &value, NULL) == PAL_OK &&
            pal_json_type_of(value) >= PAL_JSON_STRING) {
        pal_answer_error_value(answer, value);
        return;
    }
    pal_buf_clear(&answer->error);
    pal_buf_format(&answer->error, "HTTP %ld", code);
    size_t len = answer->error.len;
    pal_buf_append_text(&answer->error, ": ");
    pal_provider_excerpt(&answer->error, body);
    if (answer->error.len == len + 2)
        answer->error.len = len;
    answer->end.status = PAL_PROVIDER;
}
