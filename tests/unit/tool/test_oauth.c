/* test_oauth.c - the parts of a login at an MCP server: URLs, challenges, scopes, metadata,
 * responses with tokens, the file, and signatures. login.test.mjs tests the whole. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/sign/sign.h"
#include "support/tap.h"
#include "tool/oauth/oauth_internal.h"

/* ---- URLs ---- */

static void tokens_go_only_to_https_or_this_machine(void)
{
    static const char *const good[] = {"https://h/mcp", "http://localhost:80/x", "http://127.0.0.1",
            "http://[::1]:7/mcp", "https://h:8443/a?b=c"};
    static const char *const bad[] = {"http://h/mcp", "http://127.0.0.1.example.com/",
            "http://127.example.com", "https://user@h/", "https://h/#part", "ftp://h/", "https://",
            "https://h:port/", "https://h/a b", "http://localhost.example.com", ""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(pal_oauth_is_possible(pal_str_of(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (!CHECK(!pal_oauth_is_possible(pal_str_of(bad[i]))))
            printf("# %s\n", bad[i]);
    }
}

static bool covers(const char *resource, const char *url)
{
    return pal_oauth_url_covers(pal_str_of(resource), pal_str_of(url));
}

static void metadata_must_describe_the_server(void)
{
    CHECK(covers("https://h/mcp", "https://h/mcp"));
    CHECK(covers("https://H:443", "https://h/mcp"));
    CHECK(covers("https://h/", "https://h/mcp"));
    CHECK(covers("https://h/a", "https://h/a/mcp"));
    CHECK(!covers("https://h/mc", "https://h/mcp"));
    CHECK(!covers("https://h/mcp/more", "https://h/mcp"));
    CHECK(!covers("https://evil/mcp", "https://h/mcp"));
    CHECK(!covers("http://h/mcp", "https://h/mcp"));
    CHECK(!covers("https://h:8443/mcp", "https://h/mcp"));
    CHECK(!covers("", "https://h/mcp"));
}

static void forms_are_encoded_and_read(void)
{
    pal_arena *arena = pal_arena_new(0);
    pal_buf form;
    pal_buf_init(&form, 1000);
    pal_oauth_form_add(&form, "a", pal_str_of("x y&=\xc3\xa4"));
    pal_oauth_form_add(&form, "b", pal_str_of("-._~"));
    CHECK_STR(pal_buf_str(&form), "a=x%20y%26%3D%C3%A4&b=-._~");
    CHECK_STR(pal_oauth_form_find(pal_buf_str(&form), "a", arena), "x y&=\xc3\xa4");
    CHECK_EQ(pal_oauth_form_find(pal_str_of("state=1&state=2"), "state", arena).len, 0);
    CHECK_EQ(pal_oauth_form_find(pal_str_of("xstate=1"), "state", arena).len, 0);
    CHECK_EQ(pal_oauth_form_find((pal_str){0}, "state", arena).len, 0);
    CHECK_STR(pal_oauth_form_find(pal_str_of("state=a+b%2"), "state", arena), "a b%2");
    pal_buf_done(&form);
    pal_arena_free(arena);
}

/* ---- Challenges and scopes ---- */

static void challenges_are_read(void)
{
    pal_arena *arena = pal_arena_new(0);
    pal_oauth_challenge_values v;
    pal_oauth_challenge_read(pal_str_of("Basic realm=\"x\", scope=\"no\", bearer error=invalid_token , "
                                        "scope=\"a b\", resource_metadata=\"https://h/\\\"q\""),
            arena, &v);
    CHECK_STR(v.error, "invalid_token");
    CHECK_STR(v.scope, "a b");
    CHECK_STR(v.resource_metadata, "https://h/\"q");
    static const char *const odd[] = {"", "Bearer", "Bearer scope", "Bearer scope=", "=", "\"", ",,,",
            "Bearer scope=\"open", "Bearer \"x\"=y"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        pal_oauth_challenge_read(pal_str_of(odd[i]), arena, &v);
        CHECK_EQ(v.error.len, 0);
    }
    pal_oauth_challenge_read(
            pal_str_of("DPoP error=\"use_dpop_nonce\", resource_metadata=\"https://h/m\""), arena, &v);
    CHECK(v.is_bound);
    CHECK_STR(v.error, "use_dpop_nonce");
    CHECK_STR(v.resource_metadata, "https://h/m");
    static const char *const both[] = {"DPoP algs=\"ES256\", scope=\"d\", Bearer scope=\"b\"",
            "Bearer scope=\"b\", DPoP algs=\"ES256\", scope=\"d\""};
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        pal_oauth_challenge_read(pal_str_of(both[i]), arena, &v);
        CHECK(!v.is_bound);
        CHECK_STR(v.scope, "b");
    }
    pal_oauth_challenge_read((pal_str){0}, arena, &v); /* no header */
    CHECK_EQ(v.error.len, 0);
    CHECK(pal_oauth_is_challenge(401, pal_str_of("")));
    CHECK(!pal_oauth_is_challenge(403, pal_str_of("Bearer error=\"insufficient_scope\"")));
    CHECK(pal_oauth_is_challenge(403, pal_str_of("Bearer error=\"insufficient_scope\", scope=\"w\"")));
    CHECK(!pal_oauth_is_challenge(404, pal_str_of("Bearer scope=\"w\"")));
    pal_arena_free(arena);
}

static void scopes_are_joined_once(void)
{
    pal_arena *arena = pal_arena_new(0);
    CHECK_STR(pal_oauth_scope_join(pal_str_of("a b"), pal_str_of(" b  c a"), arena), "a b c");
    CHECK(pal_oauth_scope_contains(pal_str_of("a b"), pal_str_of("b a")));
    CHECK_STR(pal_oauth_scope_join(pal_str_of("a\n b"), pal_str_of("a\n\tc"), arena), "a b c");
    CHECK(pal_oauth_scope_contains(pal_str_of("a"), pal_str_of("")));
    CHECK(!pal_oauth_scope_contains(pal_str_of("ab"), pal_str_of("a")));
    pal_arena_free(arena);
}

/* ---- Metadata ---- */

static pal_status read_issuer(const char *text, const char *issuer, bool allow_local)
{
    pal_arena *arena = pal_arena_new(0);
    pal_oauth_issuer out;
    pal_error err;
    pal_json json = {0};
    (void)!pal_json_parse(arena, pal_str_of(text), NULL, &json, NULL);
    pal_status status =
            pal_oauth_issuer_read(json, pal_str_of(issuer), allow_local, arena, &out, &err);
    pal_arena_free(arena);
    return status;
}

static void metadata_of_another_issuer_are_refused(void)
{
    static const char good[] = "{\"issuer\":\"https://a\",\"token_endpoint\":\"https://a/t\"}";
    static const char local[] = "{\"issuer\":\"https://a\",\"token_endpoint\":\"http://127.0.0.1/t\"}";
    CHECK_STATUS(read_issuer(good, "https://a", false), PAL_OK);
    CHECK_STATUS(read_issuer(good, "https://a/", false), PAL_DENIED);
    CHECK_STATUS(read_issuer(good, "https://A", false), PAL_DENIED);
    CHECK_STATUS(read_issuer(local, "https://a", false), PAL_DENIED);
    CHECK_STATUS(read_issuer(local, "https://a", true), PAL_OK);
    CHECK_STATUS(read_issuer("{\"issuer\":\"https://a\",\"token_endpoint\":\"http://a/t\"}", "https://a",
                         true),
            PAL_DENIED);
    CHECK_STATUS(read_issuer("{\"issuer\":\"https://a\"}", "https://a", false), PAL_INVALID);
}

/* ---- Tokens ---- */

static pal_status read_token(long code, const char *body, pal_oauth_login *login, pal_error *err)
{
    static pal_arena *arena;
    pal_arena_free(arena);
    arena = pal_arena_new(0);
    return pal_oauth_token_read(code, pal_str_of(body), 1000, arena, login, err);
}

static void responses_with_tokens_are_read(void)
{
    pal_oauth_login login = {.refresh_token = pal_str_of("old")};
    pal_error err;
    CHECK_STATUS(read_token(200, "{\"access_token\":\"t\",\"token_type\":\"bearer\",\"expires_in\":60}", &login,
                         &err),
            PAL_OK, &err);
    CHECK_STR(login.access_token, "t");
    CHECK_STR(login.refresh_token, "old");
    CHECK_EQ(login.expires_ms, 61000);
    CHECK_STATUS(read_token(200, "{\"access_token\":\"a\\r\\nb\",\"token_type\":\"Bearer\"}", &login, &err),
            PAL_PROVIDER, &err);
    CHECK_STATUS(read_token(200, "{\"access_token\":\"t\",\"token_type\":\"DPoP\"}", &login, &err),
            PAL_PROVIDER, &err);
    CHECK_CONTAINS(err.message, "a token that is bound to a key (DPoP)");
    pal_oauth_login bound = {.proof_key = pal_str_of("key")};
    CHECK_STATUS(read_token(200, "{\"access_token\":\"t\",\"token_type\":\"DPoP\"}", &bound, &err),
            PAL_OK, &err);
    CHECK_STATUS(read_token(200, "{\"access_token\":\"t\",\"token_type\":\"Bearer\"}", &bound, &err),
            PAL_PROVIDER, &err);
    CHECK_CONTAINS(err.message, "a token that is not bound to a key (DPoP)");
    CHECK_STATUS(read_token(200, "<html>", &login, &err), PAL_PROVIDER, &err);
    /* Texts of the server are not repeated: they could contain what was sent. */
    CHECK_STATUS(read_token(400, "{\"error\":\"invalid_grant\",\"error_description\":\"code s3cret\"}", &login,
                         &err),
            PAL_DENIED, &err);
    CHECK_CONTAINS(err.message, "refused a token: invalid_grant");
    CHECK(!strstr(err.message, "s3cret"));
    CHECK_STATUS(read_token(500, "{\"error\":\"s3cret with blanks\"}", &login, &err), PAL_DENIED, &err);
    CHECK_CONTAINS(err.message, "HTTP code 500");
}

/* ---- The file ---- */

static void a_login_is_written_for_its_owner_and_read_again(void)
{
    char dir[] = "/tmp/palaver-oauth-XXXXXX", path[128], other[160];
    pal_arena *arena = pal_arena_new(0);
    pal_oauth_login login = {.url = pal_str_of("https://h/mcp"),
            .method = PAL_OAUTH_METHOD_POST,
            .access_token = pal_str_of("t\"\\"),
            .is_registered = true,
            .expires_ms = 5};
    pal_oauth_login read = {0};
    pal_error err;
    struct stat st;
    if (!CHECK(mkdtemp(dir) != NULL))
        return;
    snprintf(path, sizeof path, "%s/a/b/login.json", dir);
    snprintf(other, sizeof other, "%s.tmp", path);
    CHECK_STATUS(pal_oauth_file_read(path, arena, &read, &err), PAL_NOT_FOUND, &err);
    CHECK_STATUS(pal_oauth_file_write(path, &login, &err), PAL_OK, &err);
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0600);
    CHECK(access(other, F_OK) != 0);
    CHECK_STATUS(pal_oauth_file_read(path, arena, &read, &err), PAL_OK, &err);
    CHECK_STR(read.access_token, "t\"\\");
    CHECK_EQ(read.method, PAL_OAUTH_METHOD_POST);
    CHECK(read.is_registered);
    CHECK_EQ(read.expires_ms, 5);
    CHECK_STR(read.url, "https://h/mcp");
    int fd = open(path, O_WRONLY | O_TRUNC);
    CHECK_EQ(write(fd, "{", 1), 1);
    CHECK_EQ(close(fd), 0);
    CHECK_STATUS(pal_oauth_file_read(path, arena, &read, &err), PAL_CORRUPT, &err);
    CHECK_EQ(unlink(path), 0);
    pal_arena_free(arena);
    snprintf(path, sizeof path, "rm -r %s", dir);
    CHECK_EQ(system(path), 0);
}

/* ---- Signatures ---- */

/* The conformance suite checks signatures with a real key. */
static void a_wrong_key_is_not_repeated(void)
{
    uint8_t signature[PAL_SIGNATURE_MAX];
    const char *algorithm;
    size_t len;
    pal_error err;
    pal_str key = pal_str_of("-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----\n");
    CHECK_STATUS(pal_sign_algorithm(key, &algorithm, &err), PAL_INVALID, &err);
    CHECK(!strstr(err.message, "s3cret"));
    CHECK_STATUS(pal_sign(key, pal_str_of("data"), signature, &len, &err), PAL_INVALID, &err);
    CHECK_STATUS(pal_sign((pal_str){0}, pal_str_of("data"), signature, &len, &err), PAL_INVALID, &err);
}

int main(void)
{
    RUN(tokens_go_only_to_https_or_this_machine);
    RUN(metadata_must_describe_the_server);
    RUN(forms_are_encoded_and_read);
    RUN(challenges_are_read);
    RUN(scopes_are_joined_once);
    RUN(metadata_of_another_issuer_are_refused);
    RUN(responses_with_tokens_are_read);
    RUN(a_login_is_written_for_its_owner_and_read_again);
    RUN(a_wrong_key_is_not_repeated);
    return tap_done();
}
