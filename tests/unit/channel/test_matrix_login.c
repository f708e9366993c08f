/* test_matrix_login.c - errors of a homeserver, and logins. */
#include "channel/matrix/matrix_answer.h"
#include "support/tap.h"

static pal_arena *arena;

static pal_matrix_failure failure_of(long code, const char *header, const char *body)
{
    pal_matrix_failure failure;
    pal_matrix_failure_read(code, pal_str_of(header), pal_str_of(body), &failure);
    return failure;
}

static void the_error_code_decides(void)
{
    static const struct {
        long code;
        const char *body;
        pal_matrix_fault fault;
    } cases[] = {
            {200, "{}", PAL_MATRIX_FAULT_NONE},
            {403, "{\"errcode\":\"M_FORBIDDEN\"}", PAL_MATRIX_FAULT_FORBIDDEN},
            {403, "{\"errcode\":\"M_USER_LOCKED\"}", PAL_MATRIX_FAULT_ACCOUNT},
            {403, "{\"errcode\":\"M_RESOURCE_LIMIT_EXCEEDED\"}", PAL_MATRIX_FAULT_ACCOUNT},
            {401, "{\"errcode\":\"M_USER_DEACTIVATED\"}", PAL_MATRIX_FAULT_ACCOUNT},
            {401, "{\"errcode\":\"M_UNKNOWN_TOKEN\"}", PAL_MATRIX_FAULT_TOKEN},
            {401, "", PAL_MATRIX_FAULT_TOKEN},
            {404, "{\"errcode\":\"M_UNRECOGNIZED\"}", PAL_MATRIX_FAULT_MISSING},
            {502, "{\"errcode\":\"M_TOO_LARGE\"}", PAL_MATRIX_FAULT_LARGE},
            {413, "<html>", PAL_MATRIX_FAULT_LARGE},
            {400, "{\"errcode\":\"M_DUPLICATE_ANNOTATION\"}", PAL_MATRIX_FAULT_DUPLICATE},
            {400, "{\"errcode\":\"M_UNKNOWN\"}", PAL_MATRIX_FAULT_REQUEST},
            {502, "<html>bad gateway</html>", PAL_MATRIX_FAULT_AGAIN},
            {504, "{\"errcode\":\"M_NOT_YET_UPLOADED\"}", PAL_MATRIX_FAULT_AGAIN},
            {302, "", PAL_MATRIX_FAULT_AGAIN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_EQ(failure_of(cases[i].code, "", cases[i].body).fault, cases[i].fault);
}

static void the_header_says_how_long_to_wait(void)
{
    const char *body = "{\"errcode\":\"M_LIMIT_EXCEEDED\",\"retry_after_ms\":1500}";
    CHECK_EQ(failure_of(429, "7", body).retry_ms, 7000);
    CHECK_EQ(failure_of(429, "", body).retry_ms, 1500);
    CHECK_EQ(failure_of(429, "soon", body).retry_ms, 1500);
    CHECK_EQ(failure_of(429, "", "<html>").retry_ms, PAL_MATRIX_RETRY_MS);
    CHECK_EQ(failure_of(429, "", "{\"retry_after_ms\":-5}").retry_ms, PAL_MATRIX_RETRY_MS);
    CHECK_EQ(failure_of(429, "999999", "").retry_ms, PAL_MATRIX_RETRY_MS_MAX);
    CHECK_EQ(failure_of(500, "7", "").retry_ms, 0);
}

static void errors_have_one_line(void)
{
    pal_matrix_failure failure = failure_of(
            401, "", "{\"errcode\":\"M_UNKNOWN_TOKEN\",\"error\":\"a\\nb\",\"soft_logout\":true}");
    CHECK_STR(failure.code, "M_UNKNOWN_TOKEN");
    CHECK_STR(failure.text, "a b");
    CHECK(failure.is_soft_logout);
    failure = failure_of(503, "", "");
    CHECK_STR(failure.text, "HTTP status 503");
}

static void a_login_is_read_and_renewed(void)
{
    pal_matrix_login login = {0};
    pal_error err = {0};
    CHECK_STATUS(pal_matrix_login_read(pal_str_of("{\"user_id\":\"@bot:hs\",\"device_id\":\"D\","
                                                  "\"access_token\":\"a1\",\"refresh_token\":"
                                                  "\"r1\",\"expires_in_ms\":60000}"),
                         1000, arena, &login, &err),
            PAL_OK, &err);
    CHECK_STR(login.user, "@bot:hs");
    CHECK_STR(login.device, "D");
    CHECK_EQ(login.expires_at, 61000);
    CHECK_STATUS(pal_matrix_login_read(
                         pal_str_of("{\"access_token\":\"a2\"}"), 2000, arena, &login, &err),
            PAL_OK, &err);
    CHECK_STR(login.access_token, "a2");
    CHECK_STR(login.refresh_token, "r1"); /* it stays valid */
    CHECK_EQ(login.expires_at, 0);
}

static void bad_logins_are_refused(void)
{
    static const char *const bodies[] = {"", "[]", "{}", "{\"access_token\":7}",
            "{\"access_token\":\"a b\"}", "{\"access_token\":\"a\",\"refresh_token\":\"\\n\"}",
            "{\"access_token\":\"a\",\"user_id\":\"bot\"}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        pal_matrix_login login = {.access_token = pal_str_of("old")};
        pal_error err = {0};
        CHECK_STATUS(pal_matrix_login_read(pal_str_of(bodies[i]), 0, arena, &login, &err),
                PAL_PROVIDER);
        CHECK_LACKS(err.message, "a b");
    }
}

static void whoami_names_user_and_device(void)
{
    pal_matrix_login login = {0};
    pal_error err = {0};
    CHECK_STATUS(pal_matrix_login_read_whoami(
                         pal_str_of("{\"user_id\":\"@b:hs\",\"device_id\":\"D\"}"), arena, &login,
                         &err),
            PAL_OK, &err);
    CHECK_STR(login.user, "@b:hs");
    CHECK_STR(login.device, "D");
    CHECK_FAILS(pal_matrix_login_read_whoami(pal_str_of("{}"), arena, &login, &err), PAL_PROVIDER,
            &err, "user_id");
}

static void requests_are_written(void)
{
    pal_buf text;
    pal_buf_init(&text, 4096);
    pal_matrix_login_write(pal_str_of("@b:hs"), pal_str_of("p\"w"), pal_str_of("D"), &text);
    CHECK_STR(pal_buf_str(&text),
            "{\"type\":\"m.login.password\",\"identifier\":{\"type\":\"m.id.user\",\"user\":"
            "\"@b:hs\"},\"password\":\"p\\\"w\",\"device_id\":\"D\","
            "\"initial_device_display_name\":\"Palaver\",\"refresh_token\":true}");
    pal_buf_clear(&text);
    pal_matrix_login_write_refresh(pal_str_of("r"), &text);
    CHECK_STR(pal_buf_str(&text), "{\"refresh_token\":\"r\"}");
    CHECK_STR(pal_matrix_answer_text(pal_str_of("{\"event_id\":\"$1\"}"), "event_id", arena), "$1");
    CHECK_STR(pal_matrix_answer_text(pal_str_of("<html>"), "event_id", arena), "");
    pal_buf_done(&text);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(the_error_code_decides);
    RUN(the_header_says_how_long_to_wait);
    RUN(errors_have_one_line);
    RUN(a_login_is_read_and_renewed);
    RUN(bad_logins_are_refused);
    RUN(whoami_names_user_and_device);
    RUN(requests_are_written);
    pal_arena_free(arena);
    return tap_done();
}
