/* postgres_url.c - the URL of a store: a URL of libpq, and two parameters of ours.
 *
 *     postgres://user@h1,h2,h3:5432/database?schema=palaver&prepare=no
 *
 * Everything else is libpq's: hosts, sslmode, passfile, and so on. libpq quotes wrong parts of the
 * URL in its messages, and a part can be the password. So most mistakes are found here, and of
 * libpq's messages only the text before the quote is used. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store/postgres/postgres.h"

static pal_status set_schema(pal_postgres *store, pal_str name, pal_error *err)
{
    bool is_valid = name.len > 0 && name.len < sizeof store->schema &&
            !(name.data[0] >= '0' && name.data[0] <= '9') &&
            !(name.len >= 3 && memcmp(name.data, "pg_", 3) == 0);

    for (size_t i = 0; is_valid && i < name.len; i++) {
        char c = name.data[i];

        is_valid = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    }
    if (!is_valid)
        return pal_error_set(err, PAL_INVALID,
                "'schema=%.*s' is not valid; use lower-case letters, digits and '_'",
                PAL_EXCERPT(name, 80));
    memcpy(store->schema, name.data, name.len);
    store->schema[name.len] = 0;
    return PAL_OK;
}

static pal_status set_prepare(pal_postgres *store, pal_str value, pal_error *err)
{
    bool is_yes = pal_str_equal(value, pal_str_of("yes"));

    if (!is_yes && !pal_str_equal(value, pal_str_of("no")))
        return pal_error_set(err, PAL_INVALID, "'prepare=%.*s' must be 'yes' or 'no'",
                PAL_EXCERPT(value, 80));
    store->prepares = is_yes;
    return PAL_OK;
}

/* An encoded name is left to libpq. */
static pal_status check_known(pal_str name, pal_error *err)
{
    PQconninfoOption *options = PQconndefaults();
    bool is_known = !options || memchr(name.data, '%', name.len) ||
            pal_str_equal(name, pal_str_of("ssl")); /* libpq allows it for users of Java */

    for (const PQconninfoOption *each = options; !is_known && each->keyword; each++)
        is_known = pal_str_equal(name, pal_str_of(each->keyword));
    PQconninfoFree(options);
    if (is_known)
        return PAL_OK;
    return pal_error_set(err, PAL_INVALID,
            "the parameter '%.*s' in the URL of the store is unknown; use 'schema', 'prepare' or"
            " those of libpq", PAL_EXCERPT(name, 40));
}

/* Takes one parameter if it is ours. */
static pal_status take(pal_postgres *store, pal_str name, pal_str value, bool *out_taken,
        pal_error *err)
{
    *out_taken = true;
    if (pal_str_equal(name, pal_str_of("schema")))
        return set_schema(store, value, err);
    if (pal_str_equal(name, pal_str_of("prepare")))
        return set_prepare(store, value, err);
    *out_taken = false;
    return check_known(name, err);
}

static pal_status split_query(pal_postgres *store, const char *query, pal_buf *out, pal_error *err)
{
    char separator = '?';

    while (*query) {
        size_t len = strcspn(query, "&"), name_len = strcspn(query, "=&");
        pal_str value = {0};
        bool is_taken;
        pal_status status;

        if (name_len < len)
            value = pal_str_make(query + name_len + 1, len - name_len - 1);
        status = take(store, pal_str_make(query, name_len), value, &is_taken, err);
        if (status != PAL_OK)
            return status;
        if (!is_taken) {
            pal_buf_append_char(out, separator);
            pal_buf_append(out, query, len);
            separator = '&';
        }
        query += len + (query[len] == '&');
    }
    return PAL_OK;
}

/* Copies the URL up to the parameters, without the password. The last '@' counts: a password with
 * an '@' that is not encoded is a mistake, but must not be shown either. */
static void hide_password(const char *url, pal_buf *out)
{
    size_t len = strcspn(url, "?"), start = (size_t)(strstr(url, "//") + 2 - url), at = len;
    const char *colon;

    while (at > start && url[at - 1] != '@')
        at--;
    colon = memchr(url + start, ':', at - start);
    pal_buf_append(out, url, colon ? (size_t)(colon - url) : len);
    if (colon)
        pal_buf_append(out, url + at - 1, len - at + 1);
    pal_buf_append_char(out, 0);
}

static pal_status check_escapes(const pal_postgres *store, pal_error *err)
{
    for (const char *at = strchr(store->url, '%'); at; at = strchr(at + 1, '%'))
        if (!isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2]))
            return pal_error_set(err, PAL_INVALID,
                    "'%s' is not valid: two hex digits must follow a '%%'; write the character as"
                    " '%%25'", store->place);
    return PAL_OK;
}

pal_status pal_postgres_url_read(pal_postgres *store, const char *location, pal_error *err)
{
    size_t len = strcspn(location, "?");
    pal_buf url, place;
    pal_status status = PAL_OK;
    char *message = NULL;
    PQconninfoOption *parsed;

    if (strncmp(location, "//", 2) != 0)
        return pal_error_set(err, PAL_INVALID,
                "'postgres:%.80s' is not valid; use postgres://USER@HOST/DATABASE", location);
    memcpy(store->schema, "palaver", sizeof "palaver");
    pal_buf_init(&url, 1u << 20);
    pal_buf_init(&place, 1u << 20);
    pal_buf_append_text(&url, "postgres:");
    pal_buf_append(&url, location, len);
    if (location[len] == '?')
        status = split_query(store, location + len + 1, &url, err);
    pal_buf_append_char(&url, 0);
    if (status == PAL_OK && !url.failure)
        hide_password(url.data, &place);
    if (url.failure || place.failure)
        status = pal_no_memory(err);
    store->url = url.data;
    store->place = place.data;
    if (status == PAL_OK)
        status = check_escapes(store, err);
    if (status != PAL_OK)
        return status;
    parsed = PQconninfoParse(store->url, &message);
    if (!parsed)
        status = pal_error_set(err, PAL_INVALID, "'%s' is not valid: %.*s", store->place,
                message ? (int)strcspn(message, "\n\"") : 0, message ? message : "");
    PQconninfoFree(parsed);
    PQfreemem(message);
    return status;
}
