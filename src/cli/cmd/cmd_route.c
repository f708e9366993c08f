/* cmd_route.c - `palaver route`: shows which session inbound messages belong to. */
#include "base/json/json_put.h"
#include "base/text.h"
#include "cli/cli.h"
#include "dialect/dialect_route.h"

typedef struct route_values {
    bool keep_going;
} route_values;

static const pal_cli_option options[] = {
        {"keep-going", 0, PAL_CLI_FLAG, offsetof(route_values, keep_going), NULL,
                "report a wrong line and continue with the next one"},
        {0},
};

static void put_texts(pal_json_writer *writer, const char *name, const pal_str *texts, size_t len)
{
    pal_json_name(writer, name);
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++)
        pal_json_put_str(writer, texts[i]);
    pal_json_end_array(writer);
}

static void print_route(pal_cli *cli, const pal_route *route)
{
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_json_begin_object(&writer);
    put_texts(&writer, "main_aliases", &route->main_alias, 1);
    pal_put_str(&writer, "main_session_key", route->main_key);
    pal_put_raw(&writer, "scope", route->scope);
    put_texts(&writer, "session_aliases", route->aliases, route->aliases_len);
    pal_put_str(&writer, "session_key", route->key);
    pal_put_str(&writer, "signature", route->signature);
    pal_put_str(&writer, "matched_by", route->matched_by);
    if (route->is_explicit)
        pal_put_flag(&writer, "explicit", true);
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
}

/* The configuration, with its defaults, fills in settings that the input leaves out, so that the
 * result is the same as the server's. Dimensions and dm_scope express the same setting in two
 * ways; if the input has one of them, the configuration sets neither. */
static void fill_settings(const pal_cli *cli, pal_json value, pal_route_config *settings)
{
    const pal_route_config *ours = &pal_config_get(cli->config)->session;
    pal_json inner = pal_json_find(value, "input");
    if (pal_json_type_of(inner) == PAL_JSON_OBJECT)
        value = inner;
    pal_json_type across = pal_json_type_of(pal_json_find(value, "link_across_channels"));
    bool has_dimensions = settings->dimensions || settings->dm_scope.data;
    if (!has_dimensions) {
        settings->dimensions = ours->dimensions;
        settings->dimensions_len = ours->dimensions_len;
        settings->dm_scope = ours->dm_scope;
    }
    if (!settings->links) {
        settings->links = ours->links;
        settings->links_len = ours->links_len;
    }
    if (!settings->rules) {
        settings->rules = ours->rules;
        settings->rules_len = ours->rules_len;
    }
    if (!settings->agents) {
        settings->agents = ours->agents;
        settings->agents_len = ours->agents_len;
    }
    if (across == PAL_JSON_NONE || across == PAL_JSON_NULL)
        settings->link_across_channels = ours->link_across_channels;
}

static pal_status route_value(pal_cli *cli, pal_arena *arena, pal_json value)
{
    pal_route_input input;
    pal_route_settings *settings = NULL;
    pal_route route;
    pal_status status = pal_route_input_read(value, arena, &input, &cli->err);
    if (status != PAL_OK)
        return status;
    fill_settings(cli, value, &input.config);
    status = pal_route_settings_new(&input.config, &settings, &cli->err);
    if (status != PAL_OK)
        return status;
    status = pal_route_decide(settings, &input.context, arena, &route, &cli->err);
    if (status == PAL_OK)
        print_route(cli, &route);
    pal_route_settings_free(settings);
    return status;
}

/* Adds the line number to the beginning of an error message. */
static pal_status at_line(pal_cli *cli, pal_status status, uint64_t number)
{
    pal_error cause = cli->err;
    if (status == PAL_OK)
        return PAL_OK;
    return pal_error_set(
            &cli->err, status, "line %llu: %s", (unsigned long long)number, cause.message);
}

static pal_status route_line(pal_cli *cli, pal_arena *arena, pal_str line, uint64_t number)
{
    pal_json value;
    pal_arena_reset(arena);
    pal_status status = pal_json_parse(arena, line, NULL, &value, &cli->err);
    if (status == PAL_OK)
        status = route_value(cli, arena, value);
    return at_line(cli, status, number);
}

static pal_status route_lines(pal_cli *cli, pal_arena *arena, pal_str text, bool keep_going)
{
    uint64_t number = 0, wrong = 0;
    while (text.len) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end ? (size_t)(end - text.data) : text.len;
        pal_str line = pal_str_make(text.data, len);
        number++;
        text = pal_str_make(text.data + len + (end != NULL), text.len - len - (end != NULL));
        if (pal_text_is_blank(line))
            continue;
        pal_status status = route_line(cli, arena, line, number);
        if (status != PAL_OK && !keep_going)
            return status;
        if (status != PAL_OK) {
            pal_cli_print_error(cli->err.message, NULL);
            wrong++;
        }
        status = pal_cli_flush_some(cli);
        if (status != PAL_OK)
            return status;
    }
    if (wrong == 0)
        return PAL_OK;
    pal_status status = pal_cli_flush(cli);
    if (status != PAL_OK)
        return status;
    return pal_error_set(&cli->err, PAL_INVALID, "%llu %s wrong", (unsigned long long)wrong,
            wrong == 1 ? "line is" : "lines are");
}

/* Returns the line on which the first object begins. */
static uint64_t first_line(pal_str text)
{
    uint64_t number = 1;
    for (size_t i = 0; i < text.len && text.data[i] != '{'; i++)
        number += text.data[i] == '\n';
    return number;
}

/* Routes one object on any number of lines, or one object per line. */
static pal_status route_text(pal_cli *cli, pal_arena *arena, pal_str text, bool keep_going)
{
    pal_json value;
    pal_error ignored;
    if (pal_json_parse(arena, text, NULL, &value, &ignored) == PAL_OK)
        return at_line(cli, route_value(cli, arena, value), first_line(text));
    if (pal_text_is_blank(text))
        return pal_error_set(&cli->err, PAL_INVALID, "the input is empty");
    return route_lines(cli, arena, text, keep_going);
}

static pal_status route(pal_cli *cli, void *values)
{
    const route_values *v = values;
    pal_cli_input input;
    pal_str text;
    pal_arena *arena;
    pal_status status = pal_cli_input_open(cli, cli->args_len ? cli->args[0] : "-", &input);
    if (status != PAL_OK)
        return status;
    arena = pal_arena_new(0);
    status = arena ? pal_cli_input_all(cli, &input, &text) : pal_cli_no_memory(cli);
    if (status == PAL_OK)
        status = route_text(cli, arena, text, v->keep_going);
    pal_arena_free(arena);
    pal_cli_input_close(&input);
    return status;
}

const pal_cli_command pal_cmd_route = {
        .name = "route",
        .summary = "show which session a message belongs to",
        .usage = "[FILE]",
        .about = "Reads inbound messages with their settings: one JSON object, or one per line. "
                 "For each message it prints the session's key, scope and aliases, the main "
                 "session, and the rule that matched. Missing settings come from the "
                 "configuration. Nothing is stored. docs/routing.md lists all members.",
        .examples = "palaver route inbound.json\n"
                    "tail -n 5 inbound.jsonl | palaver route --keep-going",
        .options = options,
        .values_size = sizeof(route_values),
        .args_max = 1,
        .run = route,
};
