/* fuzz_config.c - any bytes as a configuration file: nothing crashes, an error names the reason and
 * the place, and an accepted file has values within the limits and can be shown. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/json/json.h"
#include "palaver/config.h"
#include "palaver/turn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_config.c:%d: %s\n", line, text);
    abort();
}

static pal_arena *arena;

static void check_values(const pal_config_values *v)
{
    pal_route_settings *settings = NULL;
    REQUIRE(v->store.data && strlen(v->store.data) == v->store.len);
    REQUIRE(v->context->strategy <= PAL_STRATEGY_NONE);
    REQUIRE(v->context->threshold_percent >= 1 && v->context->threshold_percent <= 100);
    REQUIRE(v->context->keep_recent_messages >= 1);
    REQUIRE(v->expiry.cleanup_interval >= 1000 && v->expiry.session_expiration >= 0);
    for (size_t i = 0; i < v->models_len; i++) {
        REQUIRE(v->models[i].rule.pattern.len > 0);
        REQUIRE(pal_str_equal(v->models[i].rule.pattern, v->model_rules[i].pattern));
        REQUIRE(v->models[i].price.input >= -1 && v->models[i].price.input <= 1000000);
    }
    for (size_t i = 0; i < v->runtime->prices_len; i++)
        REQUIRE(v->runtime->prices[i].output <= 1000000000000);
    REQUIRE((v->runtime->prices_len == 0) || v->runtime->price_version.len > 0);
    REQUIRE(v->runtime->agents_len == v->session.agents_len);
    REQUIRE(v->server.body_bytes_max >= 1024 && v->server.idle_ms >= 1000);
    REQUIRE(pal_route_settings_new(&v->session, &settings, NULL) == PAL_OK);
    pal_route_settings_free(settings);
}

/* Only unset environment variables may be missing. */
static void check_runtime(const pal_config *config)
{
    pal_runtime_options options = {.endpoints_len = 12345};
    pal_error err = {PAL_OK, ""};
    pal_status status = pal_config_runtime(config, arena, &options, &err);
    if (status != PAL_OK) {
        REQUIRE(status == PAL_NOT_FOUND || status == PAL_INVALID);
        REQUIRE(err.message[0] && options.endpoints_len == 12345);
        return;
    }
    for (size_t i = 0; i < options.endpoints_len; i++)
        REQUIRE(options.endpoints[i].name.len > 0 && options.endpoints[i].kind.len > 0);
    for (size_t i = 0; i < options.tool_servers_len; i++)
        REQUIRE((options.tool_servers[i].command_len > 0) != (options.tool_servers[i].url.len > 0));
}

static void check_entries(const pal_config *config, size_t lines)
{
    pal_config_entry *entries;
    size_t len;
    REQUIRE(pal_config_list(config, arena, &entries, &len, NULL) == PAL_OK);
    for (size_t i = 0; i < len; i++) {
        pal_json value;
        REQUIRE(entries[i].key.len > 0);
        REQUIRE(pal_json_parse(arena, entries[i].value, NULL, &value, NULL) == PAL_OK);
        REQUIRE((entries[i].line > 0) == (entries[i].source == PAL_CONFIG_FILE));
        REQUIRE(entries[i].line <= lines);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pal_str text = pal_str_make((const char *)data, size);
    pal_config *config = NULL;
    pal_error err = {PAL_OK, ""};
    size_t lines = 1;
    if (!arena)
        REQUIRE((arena = pal_arena_new(0)) != NULL);
    /* YAML also ends lines with CR and with three characters of Unicode. */
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n' || data[i] == '\r' || data[i] >= 0x80;
    pal_status status = pal_config_parse(text, "f", &config, &err);
    if (status == PAL_OK) {
        check_values(pal_config_get(config));
        check_runtime(config);
        check_entries(config, lines);
    } else {
        REQUIRE(status == PAL_INVALID || status == PAL_LIMIT);
        REQUIRE(err.status == status && err.message[0] == 'f' && err.message[1] == ':');
    }
    pal_config_free(config);
    pal_arena_reset(arena);
    return 0;
}
