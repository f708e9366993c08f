/* config_secret.c - keeps secrets out of files and out of the output. Secrets belong into the
 * environment. A secret that cannot be kept out of the file, such as the password in a URL, is
 * never shown. Pure: can be called from any thread. */
#include "config/config_row.h"

#include "base/text.h"

#define HIDDEN "***"

/* ---- Variables ---- */

bool pal_config_variable_is_name(pal_str text)
{
    if (text.len == 0 || (text.data[0] >= '0' && text.data[0] <= '9'))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (!(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '_')
            return false;
    }
    return true;
}

bool pal_config_reference_next(pal_str text, size_t *at, pal_str *out_before, pal_str *out_name)
{
    if (*at >= text.len)
        return false; /* the data pointer of an empty text may be NULL */
    const char *from = text.data + *at;
    const char *start = memmem(from, text.len - *at, "${", 2);
    const char *end = start ? memchr(start, '}', (size_t)(text.data + text.len - start)) : NULL;
    if (!end)
        return false;
    *out_before = pal_str_make(from, (size_t)(start - from));
    *out_name = pal_str_make(start + 2, (size_t)(end - start - 2));
    *at = (size_t)(end + 1 - text.data);
    return true;
}

bool pal_config_reference_is_valid(pal_str text)
{
    size_t at = 0;
    pal_str before, name;
    while (pal_config_reference_next(text, &at, &before, &name)) {
        if (!pal_config_variable_is_name(name))
            return false;
    }
    return at == text.len || !memmem(text.data + at, text.len - at, "${", 2);
}

static bool has_reference(pal_str text)
{
    size_t at = 0;
    pal_str before, name;
    return pal_config_reference_next(text, &at, &before, &name);
}

/* ---- Recognizing secrets ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_secret_word(pal_str word)
{
    static const char *const words[] = {"key", "apikey", "token", "secret", "password", "passwd",
            "authorization", "auth", "cookie", "credential", "credentials", "bearer", NULL};
    for (size_t i = 0; words[i]; i++) {
        if (pal_text_is_nocase(word, words[i]))
            return true;
    }
    return false;
}

/* "X-Api-Key", "GITHUB_TOKEN": a name is secret if one of its words is. */
static bool is_secret_name(pal_str name)
{
    size_t start = 0;
    for (size_t i = 0; i <= name.len; i++) {
        if (i < name.len && is_letter(name.data[i]))
            continue;
        if (is_secret_word(pal_str_make(name.data + start, i - start)))
            return true;
        start = i + 1;
    }
    return false;
}

bool pal_config_secret_is_clear(pal_str name, pal_str value)
{
    bool looks_so = is_secret_name(name) || pal_text_begins_nocase(value, "bearer ") ||
            pal_text_begins_nocase(value, "basic ") ||
            pal_text_begins_nocase(value, "sk-");
    return looks_so && value.len > 0 && !has_reference(value);
}

/* ---- Showing ---- */

/* Writes the text with "***" for the bytes from `from` to `to`; unchanged if `from` is 0. */
static void hide(pal_buf *buf, pal_str text, size_t from, size_t to)
{
    if (!from) {
        pal_buf_append_str(buf, text);
        return;
    }
    pal_buf_append(buf, text.data, from);
    pal_buf_append_text(buf, HIDDEN);
    pal_buf_append(buf, text.data + to, text.len - to);
}

/* Finds the next query parameter with a secret name, from `*at` on. Sets the beginning and the
 * end of its value. Returns false if there is none. */
static bool secret_parameter(pal_str url, size_t *at, size_t *out_end)
{
    for (size_t i = *at > 0 ? *at : 1; i < url.len; i++) {
        if (url.data[i - 1] != '?' && url.data[i - 1] != '&')
            continue;
        size_t equals = i, end = i;
        while (end < url.len && url.data[end] != '&')
            end++;
        while (equals < end && url.data[equals] != '=')
            equals++;
        if (equals < end && is_secret_name(pal_str_make(url.data + i, equals - i))) {
            *at = equals + 1;
            *out_end = end;
            return true;
        }
    }
    return false;
}

/* Returns the position of the password in "scheme://user:password@host", otherwise 0. The
 * password may contain characters that should have been escaped, so it ends at the last '@'. */
static size_t password_of_user(pal_str url, size_t *out_end)
{
    const char *slashes = url.len ? memmem(url.data, url.len, "://", 3) : NULL;
    const char *at = slashes ? memrchr(url.data, '@', url.len) : NULL;
    const char *colon =
            at && at > slashes + 3 ? memchr(slashes + 3, ':', (size_t)(at - slashes - 3)) : NULL;
    if (!colon)
        return 0;
    *out_end = (size_t)(at - url.data);
    return (size_t)(colon + 1 - url.data);
}

/* Hides each secret of the query; the text between them does not change. */
static void hide_parameters(pal_buf *buf, pal_str url)
{
    size_t written = 0, at = 0, end;
    while (secret_parameter(url, &at, &end)) {
        pal_buf_append(buf, url.data + written, at - written);
        pal_buf_append_text(buf, HIDDEN);
        written = at = end;
    }
    pal_buf_append(buf, url.data ? url.data + written : "", url.len - written);
}

void pal_config_url_write(pal_json_writer *writer, pal_str url)
{
    pal_buf user, shown;
    size_t from, end = 0;
    pal_buf_init(&user, url.len + sizeof HIDDEN);
    pal_buf_init(&shown, url.len * (1 + sizeof HIDDEN) + sizeof HIDDEN);
    from = password_of_user(url, &end);
    hide(&user, url, from, end);
    hide_parameters(&shown, pal_buf_str(&user));
    pal_json_put_str(writer, pal_buf_str(&shown));
    if (user.failure || shown.failure)
        writer->buf->failure = PAL_NO_MEMORY;
    pal_buf_done(&user);
    pal_buf_done(&shown);
}

/* A text without variables may be a secret, so it is hidden. */
void pal_config_reference_write(pal_json_writer *writer, pal_str text)
{
    bool is_shown = text.len == 0 || has_reference(text);
    pal_json_put_str(writer, is_shown ? text : pal_str_of(HIDDEN));
}
