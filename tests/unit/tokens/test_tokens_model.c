/* test_tokens_model.c - finds models by the names that providers give them, and the user's own
 * rules. */
#include <stdio.h>
#include <stdlib.h>
#include "base/memory.h"
#include "palaver/limits.h"
#include "palaver/tokens.h"
#include "support/tap.h"

#define KI 1024

typedef struct expectation {
    const char *name;
    const char *encoding; /* "" for the estimate */
    bool is_exact;
    uint64_t context;
    uint64_t output;
} expectation;

static const expectation expectations[] = {
        {"gpt-4o", "o200k_base", true, 128000, 16384},
        {"GPT-4o", "o200k_base", true, 128000, 16384},
        {"openai/gpt-4o", "o200k_base", true, 128000, 16384},
        {"openai:gpt-4o", "o200k_base", true, 128000, 16384},
        {"azure/gpt-4o-2024-08-06", "o200k_base", true, 128000, 16384},
        {"gpt-4o-2024-05-13", "o200k_base", true, 128000, 4096},
        {"openrouter/openai/gpt-4o-mini:free", "o200k_base", true, 128000, 16384},
        {"ft:gpt-4o-mini-2024-07-18:my-org::AbC123", "o200k_base", true, 128000, 16384},
        {"ft:gpt-3.5-turbo-0613:my-org::id", "cl100k_base", true, 4096, 4096},
        {"chatgpt-4o-latest", "o200k_base", true, 128000, 16384},
        {"gpt-4", "cl100k_base", true, 8192, 8192},
        {"gpt-4-0613", "cl100k_base", true, 8192, 8192},
        {"gpt-4-32k-0613", "cl100k_base", true, 32768, 8192},
        {"gpt-4-1106-preview", "cl100k_base", true, 128000, 4096},
        {"gpt-4-turbo-2024-04-09", "cl100k_base", true, 128000, 4096},
        {"gpt-4.1-mini-2025-04-14", "o200k_base", true, 1047576, 32768},
        {"gpt-35-turbo-16k", "cl100k_base", true, 16385, 4096},
        {"gpt-3.5-turbo-0125", "cl100k_base", true, 16385, 4096},
        {"gpt-5", "o200k_base", true, 400000, 128000},
        {"gpt-5-mini-2025-08-07", "o200k_base", true, 400000, 128000},
        {"gpt-5.1-chat-latest", "o200k_base", true, 128000, 16384},
        {"gpt-5.9", "o200k_base", true, 0, 128000},
        {"o1", "o200k_base", true, 200000, 100000},
        {"o1-mini-2024-09-12", "o200k_base", true, 128000, 65536},
        {"o3-mini", "o200k_base", true, 200000, 100000},
        {"o4-mini:high", "o200k_base", true, 200000, 100000},
        {"openai/gpt-oss-120b:free", "o200k_base", true, 128 * KI, 128 * KI},
        {"text-embedding-3-small", "cl100k_base", true, 8191, 0},

        {"claude-2.1", "claude", true, 200000, 4096},
        {"anthropic.claude-v2:1", "claude", true, 200000, 4096},
        {"claude-instant-1.2", "claude", true, 100000, 4096},
        {"claude-3-opus-20240229", "claude", false, 200000, 4096},
        {"us.anthropic.claude-3-5-sonnet-20241022-v2:0", "claude", false, 200000, 8192},
        {"arn:aws:bedrock:us-east-1:123456789012:inference-profile/"
         "us.anthropic.claude-3-5-haiku-20241022-v1:0",
                "claude", false, 200000, 8192},
        {"anthropic/claude-3.7-sonnet:thinking", "claude", false, 200000, 64000},
        {"anthropic/claude-sonnet-4@20250514", "claude", false, 200000, 64000},
        {"publishers/anthropic/models/claude-opus-4-1@20250805", "claude", false, 200000, 32000},
        {"anthropic/claude-opus-4.5", "claude", false, 200000, 64000},
        {"claude-opus-4-6", "claude", false, 1000000, 128000},
        {"claude-something-new", "claude", false, 0, 0},

        {"mistralai/Mistral-Nemo-Instruct-2407", "tekken", true, 128 * KI, 0},
        {"open-mistral-nemo-2407", "tekken", true, 128 * KI, 0},
        {"mistral-small-2506", "tekken", true, 128 * KI, 0},
        {"mistralai/Mistral-Small-24B-Instruct-2501", "tekken", true, 32 * KI, 0},
        {"mistral-small-latest", "tekken", false, 128 * KI, 0},
        {"mistral-large-2411", "", false, 128 * KI, 0},
        {"mistral.mistral-large-2407-v1:0", "", false, 128 * KI, 0},
        {"mistral:7b", "", false, 0, 0},
        {"mixtral-8x7b-instruct", "", false, 32 * KI, 0},

        {"qwen3:8b-q4_K_M", "qwen3", true, 0, 0},
        {"Qwen/Qwen3-8B-GGUF", "qwen3", true, 128 * KI, 0},
        {"qwen.qwen3-32b-v1:0", "qwen3", true, 128 * KI, 0},
        {"Qwen/Qwen2.5-Coder-32B-Instruct", "qwen3", true, 0, 8192},
        {"qwen3.5-27b", "qwen3", false, 0, 0},
        {"qwen-max", "qwen3", false, 0, 0},

        {"deepseek-ai/DeepSeek-V3.1", "deepseek_v3", true, 128 * KI, 0},
        {"deepseek/deepseek-r1-0528:free", "deepseek_v3", true, 128 * KI, 0},
        {"us.deepseek.r1-v1:0", "deepseek_v3", true, 128 * KI, 0},
        {"deepseek-r1:8b", "qwen3", false, 128 * KI, 0},
        {"deepseek-r1:671b-q8_0", "deepseek_v3", true, 128 * KI, 0},
        {"deepseek-chat", "deepseek_v3", false, 0, 0},

        {"meta.llama3-8b-instruct-v1:0", "cl100k_base", false, 8192, 0},
        {"us.meta.llama3-1-70b-instruct-v1:0", "cl100k_base", false, 128 * KI, 0},
        {"meta-llama/Llama-3.3-70B-Instruct", "cl100k_base", false, 128 * KI, 0},
        {"accounts/fireworks/models/llama-v3p1-8b-instruct", "cl100k_base", false, 128 * KI, 0},
        {"hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M", "cl100k_base", false, 128 * KI, 0},
        {"llama3.1:8b", "cl100k_base", false, 128 * KI, 0},
        {"meta-llama/Llama-2-7b-chat-hf", "", false, 0, 0},
        {"llama-4-scout-17b-16e-instruct", "o200k_base", false, 0, 0},

        {"models/gemini-1.5-pro-002", "", false, 2048 * KI, 8192},
        {"google/gemini-2.5-flash", "", false, 1024 * KI, 65536},
        {"google/gemma-3-27b-it", "", false, 128 * KI, 0},
        {"gemma3:1b", "", false, 32 * KI, 0},
};

static pal_str str(const char *text)
{
    return pal_str_of(text);
}

/* A build can have any of the vocabularies, or none. */
static bool is_encoding(const pal_model *model, const expectation *wanted)
{
    const pal_encoding *encoding = pal_encoding_find(str(wanted->encoding));

    return model->encoding == encoding && model->is_exact == (wanted->is_exact && encoding);
}

static void names_of_providers_are_found(void)
{
    const pal_encoding *llama3 = pal_encoding_find(str("llama3"));

    for (size_t i = 0; i < sizeof(expectations) / sizeof(expectations[0]); i++) {
        const expectation *wanted = &expectations[i];
        pal_model model = pal_models_find(NULL, str(wanted->name));
        bool held = CHECK(model.is_known) && CHECK_STR(model.name, wanted->name) &&
                CHECK((llama3 && strstr(wanted->name, "lama")) || is_encoding(&model, wanted)) &&
                CHECK_EQ(model.context, wanted->context) && CHECK_EQ(model.output, wanted->output);

        if (!held)
            printf("# '%s': %llu %llu %s\n", wanted->name, (unsigned long long)model.context,
                    (unsigned long long)model.output, model.is_exact ? "exact" : "not exact");
    }
}

static void other_names_are_unknown(void)
{
    static const char *const names[] = {"", "my-model", "gpt", "xgpt-4o", "my-gpt-4o", "o", "/",
            ":", ".", "openai/", "4.gpt-4o", "us.", "adamant", "curie-osity"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        pal_model model = pal_models_find(NULL, str(names[i]));

        if (!CHECK(!model.is_known) || !CHECK(!model.encoding) || !CHECK(!model.is_exact) ||
                !CHECK(!model.context))
            printf("# '%s'\n", names[i]);
    }
}

static void long_names_are_unknown(void)
{
    char name[PAL_MODEL_LEN_MAX + 2];

    memset(name, '/', sizeof(name));
    memcpy(name + sizeof(name) - 6, "gpt-4o", 6);
    CHECK(!pal_models_find(NULL, pal_str_make(name, sizeof(name))).is_known);
    CHECK(pal_models_find(NULL, pal_str_make(name + 2, sizeof(name) - 2)).is_known);
}

static void configured_lines_come_first_in_their_order(void)
{
    const pal_model_rule rules[] = {
            {.pattern = str("My-Model"),
                    .encoding = str("cl100k_base"),
                    .is_exact = true,
                    .context = 1,
                    .output = 2},
            {.pattern = str("gpt-4o*"), .context = 3},
            {.pattern = str("gpt-4o-mini"), .context = 4},
            {.pattern = str("local/*"), .context = 5},
    };
    pal_models *models = NULL;
    pal_error err;
    pal_model model;

    if (!CHECK_STATUS(pal_models_new(rules, 4, &models, &err), PAL_OK, &err))
        return;
    model = pal_models_find(models, str("my-model"));
    CHECK_EQ(model.context, 1);
    CHECK_EQ(model.output, 2);
    CHECK_PTR(model.encoding, pal_encoding_find(str("cl100k_base")));
    CHECK_EQ(model.is_exact, (model.encoding != NULL));
    CHECK_EQ(pal_models_find(models, str("some/MY-MODEL:free")).context, 1);
    CHECK_EQ(pal_models_find(models, str("eu.some.my-model-20250101")).context, 1);
    CHECK(!pal_models_find(models, str("my-model-large")).is_known);
    model = pal_models_find(models, str("openai/gpt-4o-mini"));
    CHECK(model.is_known);
    CHECK_EQ(model.context, 3);
    CHECK(!model.encoding);
    CHECK(!model.is_exact);
    CHECK_EQ(pal_models_find(models, str("LOCAL/gpt-4")).context, 5);
    CHECK_EQ(pal_models_find(models, str("gpt-4")).context, 8192);
    pal_models_free(models);
}

static void a_star_alone_matches_every_name(void)
{
    const pal_model_rule rule = {.pattern = str("*"), .context = 9};
    pal_models *models = NULL;
    pal_error err;

    if (!CHECK_STATUS(pal_models_new(&rule, 1, &models, &err), PAL_OK, &err))
        return;
    CHECK_EQ(pal_models_find(models, str("gpt-4o")).context, 9);
    CHECK_EQ(pal_models_find(models, str("what")).context, 9);
    CHECK(!pal_models_find(models, str("")).is_known);
    pal_models_free(models);
}

static void wrong_lines_are_reported(void)
{
    const struct {
        pal_model_rule rule;
        const char *text;
    } cases[] = {
            {{.pattern = str("x"), .encoding = str("o300k")},
                    "model 'x': unknown encoding 'o300k'"},
            {{.pattern = str("a*b")}, "model 'a*b': '*' is only allowed at the end"},
            {{.pattern = str("")}, "model 1: the name must have 1 to 256 bytes"},
    };
    pal_models *models = NULL;
    pal_error err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK_STATUS(pal_models_new(&cases[i].rule, 1, &models, &err), PAL_INVALID, &err);
        CHECK_STR(err.message, cases[i].text);
        CHECK(!models);
    }
    CHECK_STATUS(pal_models_new(NULL, PAL_MODEL_RULES_MAX + 1, &models, &err), PAL_LIMIT, &err);
    pal_models_free(NULL);
}

static void an_allocation_failure_is_reported(void)
{
    const pal_model_rule rules[] = {
            {.pattern = str("a"), .encoding = str("o200k_base")}, {.pattern = str("b")}};
    pal_status status = PAL_NO_MEMORY;

    for (uint64_t n = 1; status != PAL_OK && n < 50; n++) {
        pal_models *models = NULL;
        pal_error err;

        pal_memory_fail_at(n, 0);
        status = pal_models_new(rules, 2, &models, &err);
        pal_memory_fail_at(0, 0);
        CHECK(status == PAL_OK || (status == PAL_NO_MEMORY && !models));
        pal_models_free(models);
    }
    CHECK_STATUS(status, PAL_OK);
}

/* A pattern that an earlier pattern covers would never be found. */
static void built_in_lines_are_all_reachable(void)
{
    pal_model_rule rule, other;
    size_t len = 0;

    for (; pal_models_builtin(len, &rule); len++) {
        char name[PAL_MODEL_LEN_MAX];
        bool has_star = rule.pattern.data[rule.pattern.len - 1] == '*';
        pal_model model;

        snprintf(name, sizeof(name), "%.*s", (int)(rule.pattern.len - has_star), rule.pattern.data);
        for (size_t i = 0; i < len && pal_models_builtin(i, &other); i++)
            CHECK_DIFFER(other.pattern, rule.pattern);
        for (const char *p = name; *p; p++)
            CHECK(*p < 'A' || *p > 'Z');
        model = pal_models_find(NULL, str(name));
        if (!CHECK_EQ(model.context, rule.context) || !CHECK_EQ(model.output, rule.output) ||
                !CHECK_EQ(model.is_exact, rule.is_exact))
            printf("# '%s'\n", name);
    }
    CHECK_THAT(len, >, 100);
}

int main(void)
{
    RUN(names_of_providers_are_found);
    RUN(other_names_are_unknown);
    RUN(long_names_are_unknown);
    RUN(configured_lines_come_first_in_their_order);
    RUN(a_star_alone_matches_every_name);
    RUN(wrong_lines_are_reported);
    RUN(an_allocation_failure_is_reported);
    RUN(built_in_lines_are_all_reachable);
    return tap_done();
}
