/* fuzz_oauth.c - a line and any text after it, as strangers send them: a URL, a header
 * WWW-Authenticate, a redirect, metadata, and responses of a token endpoint. The readers never
 * crash, and they never accept an endpoint that is neither https nor local. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/utf8.h"
#include "tool/oauth/oauth_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_oauth.c:%d: %s\n", line, text);
    abort();
}

static bool is_within(pal_str whole, pal_str part)
{
    return part.len == 0 ||
            (part.data >= whole.data && part.data + part.len <= whole.data + whole.len);
}

/* A failure always has a message that can be shown. */
static void require_message(pal_status status, const pal_error *err)
{
    REQUIRE(status == PAL_OK ||
            (err->message[0] && pal_utf8_is_valid(pal_str_of(err->message))));
}

static void read_url(pal_str text, pal_str other, pal_arena *arena)
{
    pal_oauth_url url;
    if (!pal_oauth_url_read(text, &url))
        return;
    REQUIRE(url.host.len > 0 && is_within(text, url.origin) && is_within(text, url.host));
    REQUIRE(is_within(text, url.port) && is_within(text, url.path));
    REQUIRE(url.path.len == 0 || url.path.data[0] == '/');
    REQUIRE(pal_oauth_url_same_origin(&url, &url));
    REQUIRE(pal_oauth_url_covers(text, text));
    (void)pal_oauth_url_covers(text, other);
    for (size_t i = 0; i < PAL_OAUTH_PLACES_MAX; i++) {
        pal_oauth_url place;
        pal_str places[] = {pal_oauth_resource_place(text, i, arena),
                pal_oauth_issuer_place(text, i, arena)};
        for (size_t at = 0; at < sizeof places / sizeof *places; at++)
            REQUIRE(places[at].len == 0 ||
                    (pal_oauth_url_read(places[at], &place) &&
                            pal_oauth_url_same_origin(&url, &place)));
    }
    pal_error err;
    if (pal_oauth_check_url("the URL", text, false, &err) == PAL_OK)
        REQUIRE(url.is_https);
    if (pal_oauth_check_url("the URL", text, true, &err) == PAL_OK)
        REQUIRE(url.is_https || pal_oauth_url_is_local(&url));
}

/* A value that is written into a form is read from it again. */
static void read_form(pal_str line, pal_str text, pal_arena *arena)
{
    pal_buf form;
    (void)pal_oauth_form_find(line, "code", arena);
    (void)pal_oauth_form_find(text, "iss", arena);
    pal_buf_init(&form, SIZE_MAX / 2);
    pal_oauth_form_add(&form, "state", line);
    pal_oauth_form_add(&form, "code", text);
    REQUIRE(pal_str_equal(pal_oauth_form_find(pal_buf_str(&form), "state", arena), line));
    REQUIRE(pal_str_equal(pal_oauth_form_find(pal_buf_str(&form), "code", arena), text));
    pal_buf_done(&form);
}

static void read_challenge(pal_str header, pal_arena *arena)
{
    pal_oauth_challenge_values values = {0};
    pal_oauth_challenge_read(header, arena, &values);
    REQUIRE(values.error.len <= header.len && values.scope.len <= header.len);
    REQUIRE(values.resource_metadata.len <= header.len);
    pal_str both = pal_oauth_scope_join(values.scope, values.error, arena);
    REQUIRE(both.len > PAL_OAUTH_SCOPE_LEN_MAX ||
            values.scope.len + values.error.len >= PAL_OAUTH_SCOPE_LEN_MAX ||
            pal_oauth_scope_contains(both, values.scope));
}

static void require_endpoint(pal_str text)
{
    pal_oauth_url url;
    REQUIRE(text.len == 0 || (pal_oauth_url_read(text, &url) && url.is_https));
}

static void read_answers(pal_str line, pal_str text, pal_arena *arena)
{
    static const long codes[] = {200, 201, 400, 401, 500};
    pal_oauth_issuer issuer = {0};
    pal_json json;
    pal_error err = {0};
    /* The URL of an issuer comes from JSON, so it is valid UTF-8. */
    if (pal_utf8_is_valid(line) && pal_json_parse(arena, text, NULL, &json, NULL) == PAL_OK) {
        pal_status status = pal_oauth_issuer_read(json, line, false, arena, &issuer, &err);
        require_message(status, &err);
        if (status == PAL_OK) {
            REQUIRE(pal_str_equal(issuer.issuer, line));
            require_endpoint(issuer.authorization_endpoint);
            require_endpoint(issuer.token_endpoint);
            require_endpoint(issuer.registration_endpoint);
        }
    }
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        pal_oauth_login login = {.refresh_token = pal_str_of("old")};
        pal_oauth_client client = {0};
        err = (pal_error){0};
        pal_status status = pal_oauth_token_read(codes[i], text, 1000, arena, &login, &err);
        require_message(status, &err);
        REQUIRE(status != PAL_OK || (codes[i] < 300 && login.access_token.len > 0));
        REQUIRE(status != PAL_OK || login.expires_ms >= 0);
        status = pal_oauth_register_read(codes[i], text, &issuer, arena, &client, &err);
        require_message(status, &err);
        REQUIRE(status != PAL_OK || client.id.len > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t len = end ? (size_t)(end - data) : size;
    pal_str line = pal_str_make((const char *)data, len);
    pal_str text = end ? pal_str_make((const char *)end + 1, size - len - 1) : (pal_str){0};
    pal_arena *arena = pal_arena_new(0);
    if (!arena || size > PAL_OAUTH_RESPONSE_BYTES_MAX) {
        pal_arena_free(arena);
        return 0;
    }
    read_url(line, text, arena);
    read_url(text, line, arena);
    read_form(line, text, arena);
    read_challenge(line, arena);
    read_challenge(text, arena);
    read_answers(line, text, arena);
    pal_arena_free(arena);
    return 0;
}
