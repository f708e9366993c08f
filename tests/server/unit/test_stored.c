/* test_stored.c - records that older versions of the server have written are still read. The texts
 * are exactly as version 0.1.0 wrote them. */
#include "base/digest.h"
#include "server/access/access_key.h"
#include "server/api/mistral/api_mistral.h"
#include "server/api/openai/responses/api_openai_responses.h"
#include "server/server_call.h"
#include "server/server_internal.h"
#include "support/tap.h"

static struct fixture {
    pal_server server;
    pal_arena *arena;
    pal_error err;
} test;

static void put(const char *tenant, const char *kind, const char *name, const char *body)
{
    pal_record record = {
            .kind = pal_str_of(kind), .name = pal_str_of(name), .body = pal_str_of(body)};
    OK(pal_store_record_put(test.server.store, pal_str_of(tenant), &record, 0, &test.err));
}

static void a_key_is_read(void)
{
    static const char secret[] = "pk_old";
    uint8_t digest[PAL_SHA256_SIZE];
    char name[2 * PAL_SHA256_SIZE + 1];
    pal_key key = {0};
    OK(pal_sha256(pal_str_of(secret), digest));
    pal_hex(digest, sizeof digest, name);
    put(PAL_ACCESS_TENANT, "key", name,
            "{\"id\":\"key_0123456789abcdef\",\"tenant\":\"acme\",\"role\":\"write\","
            "\"label\":\"old\",\"budget\":{\"tokens\":1000,\"cost_micros\":7,"
            "\"period\":\"month\"},\"requests_per_minute\":60,"
            "\"created_at\":\"2026-11-16T00:00:01.000Z\",\"used_on\":null,\"revoked_at\":null}");
    OK(pal_key_find(test.server.store, pal_str_of(secret), test.arena, &key, &test.err));
    CHECK_STR(key.id, "key_0123456789abcdef");
    CHECK_STR(key.tenant, "acme");
    CHECK_EQ(key.role, PAL_KEY_WRITE);
    CHECK_STR(key.label, "old");
    CHECK_EQ(key.budget_tokens, 1000);
    CHECK_EQ(key.budget_cost_micros, 7);
    CHECK(key.is_monthly);
    CHECK_EQ(key.requests_per_minute, 60);
    CHECK_EQ(key.created_at, INT64_C(1794787201000));
    CHECK_EQ(key.used_on.len, 0);
    CHECK_EQ(key.revoked_at, 0);
}

/* The record of a response, with all members. It is also written with the same bytes. */
static const char response_body[] =
        "{\"created_at\":1700000000,\"completed_at\":1700000001,\"status\":\"incomplete\","
        "\"turn\":\"019a0000-0000-7000-8000-000000000002\",\"background\":true,"
        "\"conversation\":true,\"filtered\":true,\"error_code\":\"server_error\","
        "\"error_message\":\"it broke\","
        "\"input\":{\"message\":\"019a0000-0000-7000-8000-000000000003\",\"count\":2},"
        "\"output\":[\"019a0000-0000-7000-8000-000000000004\"],\"usage\":[7,1,2,3,4],"
        "\"deltas\":[[0,5,6]],\"echo\":{\"model\":\"m\"}}";

static void a_response_is_read(void)
{
    pal_call call = {.server = &test.server, .arena = test.arena, .caller.tenant = pal_str_of("acme")};
    pal_response response = {0};
    pal_record record;
    char text[PAL_ID_TEXT_SIZE];
    put("acme", PAL_RESPONSE_KIND, "019a0000-0000-7000-8000-000000000001", response_body);
    OK(pal_response_find(
            &call, pal_str_of("resp_019a0000000070008000000000000001"), &response, &test.err));
    CHECK_EQ(response.created_at, 1700000000);
    CHECK_EQ(response.completed_at, 1700000001);
    CHECK_EQ(response.status, PAL_RESPONSE_INCOMPLETE);
    CHECK(response.is_background);
    CHECK(response.is_in_conversation);
    CHECK(response.is_filtered);
    CHECK_STR(response.error_code, "server_error");
    CHECK_STR(response.error_message, "it broke");
    pal_id_to_text(response.input, text);
    CHECK_STR(text, "019a0000-0000-7000-8000-000000000003");
    CHECK_EQ(response.input_len, 2);
    CHECK_EQ(response.output_len, 1);
    CHECK_EQ(response.usage.input, 7);
    CHECK_EQ(response.usage.reasoning, 4);
    CHECK_STR(response.deltas, "[[0,5,6]]");
    CHECK_STR(response.echo, "{\"model\":\"m\"}");
    OK(pal_response_record(&response, test.arena, &record, &test.err));
    CHECK_STR(record.body, response_body);
}

static const char metadata[] =
        "{\"project\":\"x\",\"turn\":{\"model\":\"m\",\"system\":\"Be brief.\",\"endpoint\":\"e\"},"
        "\"context\":{\"max_tokens\":5},\"mistral\":{\"agent_version\":\"2\","
        "\"description\":\"d\",\"tools\":[],\"completion_args\":{\"top_p\":1},"
        "\"guardrails\":[1]}}";

static void the_settings_of_a_conversation_are_read(void)
{
    pal_call call = {.server = &test.server, .arena = test.arena, .caller.tenant = pal_str_of("acme")};
    pal_session session = {.title = pal_str_of("t"), .metadata = pal_str_of(metadata)};
    pal_mistral_settings settings = {.name = {0}};
    pal_str written = {0};
    OK(pal_mistral_settings_of(&call, &session, &settings, &test.err));
    CHECK_STR(settings.name, "t");
    CHECK_STR(settings.model, "m");
    CHECK_STR(settings.instructions, "Be brief.");
    CHECK_STR(settings.agent_version, "2");
    CHECK_STR(settings.description, "d");
    CHECK_STR(pal_json_raw(settings.tools), "[]");
    CHECK_STR(pal_json_raw(settings.completion_args), "{\"top_p\":1}");
    CHECK_STR(pal_json_raw(settings.guardrails), "[1]");
    CHECK_STR(pal_json_raw(settings.metadata), "{\"project\":\"x\"}");
    OK(pal_mistral_settings_keep(&call, &settings, &written, &test.err));
    CHECK_STR(written, metadata);
}

int main(void)
{
    test.arena = pal_arena_new(0);
    OK(pal_store_open("memory:", NULL, &test.server.store, &test.err));
    RUN(a_key_is_read);
    RUN(a_response_is_read);
    RUN(the_settings_of_a_conversation_are_read);
    pal_store_close(test.server.store);
    pal_arena_free(test.arena);
    return tap_done();
}
