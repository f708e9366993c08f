/* mcp_drive.c - lets a script use an MCP server through the library.
 *
 *   mcp_drive COMMAND [ARGUMENT]...
 *   mcp_drive --url URL [AUTH]
 *
 * AUTH is a JSON object with members of pal_tool_auth. A page for a login is requested without a
 * browser: its server must redirect at once.
 *
 * Starts the server and prints a line about it, {"state":"ready","tools":[...]}. Then it prints one
 * line for each line of input: {"call":NAME,"arguments":{...}}, {"tools":true} or {"wait":NAME}. It
 * exits at the end of the input. With "action" and "content" a call replies to questions. */
#include <signal.h>
#include <stdio.h>
#include "base/text.h"
#include "tool/mcp_client.h"

#define LINE_MAX_BYTES (1 << 20)

static const char *state_name(pal_tool_mcp_state state)
{
    static const char *const names[] = {"starting", "ready", "waiting", "failed"};
    return names[state];
}

typedef struct report {
    mcp_client *client;
    pal_buf out;
} report;

static void write_report(void *user)
{
    report *r = user;
    size_t len;
    const pal_tool *tools = pal_tool_mcp_tools(r->client->mcp, &len);
    pal_json_writer json = pal_json_writer_make(&r->out);
    pal_json_begin_object(&json);
    pal_json_name(&json, "state");
    pal_json_put_text(&json, state_name(pal_tool_mcp_state_of(r->client->mcp)));
    pal_json_name(&json, "failure");
    pal_json_put_str(&json, pal_tool_mcp_failure(r->client->mcp));
    pal_json_name(&json, "tools");
    pal_json_begin_array(&json);
    for (size_t i = 0; i < len; i++) {
        pal_json_begin_object(&json);
        pal_json_name(&json, "name");
        pal_json_put_str(&json, tools[i].name);
        pal_json_name(&json, "description");
        pal_json_put_str(&json, tools[i].description);
        pal_json_name(&json, "schema");
        pal_json_put_raw(&json, tools[i].schema.len ? tools[i].schema : pal_str_of("null"));
        pal_json_end_object(&json);
    }
    pal_json_end_array(&json);
    pal_json_end_object(&json);
}

/* ---- Logins ---- */

static mcp_client client;
static bool is_sent_back; /* used on the loop */

static void on_page_head(void *user, const pal_http_head *head)
{
    for (size_t i = 0; i < head->headers_len; i++) {
        pal_str value = head->headers[i].value;
        const char *query = memchr(value.data, '?', value.len);
        if (pal_str_is(head->headers[i].name, "location") && query)
            is_sent_back = pal_tool_mcp_redirected(client.mcp,
                    pal_text_after(value, (size_t)(query - value.data) + 1));
    }
    (void)user;
}

static void on_page_body(void *user, pal_str bytes)
{
    (void)user;
    (void)bytes;
}

static void on_page_end(void *user, const pal_http_end *end)
{
    (void)user;
    if (!is_sent_back)
        fprintf(stderr, "mcp_drive: the page of the login answered with code %ld\n", end->code);
}

static void on_authorize(void *user, pal_str url)
{
    static const pal_http_events events = {on_page_head, on_page_body, on_page_end};
    const pal_http_request request = {.method = "GET", .url = url, .total_ms = 10000};
    pal_http_call *call;
    (void)user;
    is_sent_back = false;
    if (pal_http_start(client.http, &request, &events, NULL, &call, NULL))
        fprintf(stderr, "mcp_drive: could not open the page of the login\n");
}

static pal_tool_auth read_auth(const char *text, pal_arena *arena)
{
    static pal_tool_idp idp;
    pal_json json = {0};
    pal_tool_auth auth = {0};
    if (pal_json_parse(arena, pal_str_of(text), NULL, &json, NULL) != PAL_OK)
        fprintf(stderr, "mcp_drive: AUTH is not JSON\n");
    auth.client_id = pal_json_string(pal_json_find(json, "client_id"), arena);
    auth.client_secret = pal_json_string(pal_json_find(json, "client_secret"), arena);
    auth.client_key = pal_json_string(pal_json_find(json, "client_key"), arena);
    auth.client_metadata_url = pal_json_string(pal_json_find(json, "client_metadata_url"), arena);
    auth.scope = pal_json_string(pal_json_find(json, "scope"), arena);
    auth.issuer = pal_json_string(pal_json_find(json, "issuer"), arena);
    auth.file = pal_json_string(pal_json_find(json, "file"), arena);
    (void)pal_json_bool(pal_json_find(json, "client_credentials"), &auth.client_credentials);
    auth.token_file = pal_json_string(pal_json_find(json, "token_file"), arena);
    idp.token_url = pal_json_string(pal_json_find(json, "idp_token_url"), arena);
    idp.client_id = pal_json_string(pal_json_find(json, "idp_client_id"), arena);
    auth.idp = idp.token_url.len ? &idp : NULL;
    return auth;
}

/* ---- Lines ---- */

static void print_line(pal_str text)
{
    /* A schema is shown exactly as the server sent it, with its line breaks. */
    for (size_t i = 0; i < text.len; i++)
        putchar(text.data[i] == '\n' || text.data[i] == '\r' ? ' ' : text.data[i]);
    putchar('\n');
    fflush(stdout);
}

static void print_report(void)
{
    report r = {.client = &client};
    pal_buf_init(&r.out, SIZE_MAX / 2);
    on_loop(client.loop, write_report, &r);
    print_line(pal_buf_str(&r.out));
    pal_buf_done(&r.out);
}

static void run_call(pal_json line, pal_arena *arena)
{
    pal_str name = pal_arena_copy(arena, pal_json_string(pal_json_find(line, "call"), arena));
    pal_str arguments = pal_arena_copy(arena, pal_json_raw(pal_json_find(line, "arguments")));
    mcp_client_call call = {.name = name.data, .arguments = arguments.data};
    if (pal_json_type_of(pal_json_find(line, "action")) == PAL_JSON_STRING)
        call.action =
                pal_arena_copy(arena, pal_json_string(pal_json_find(line, "action"), arena)).data;
    if (pal_json_type_of(pal_json_find(line, "content")) == PAL_JSON_OBJECT)
        call.content = pal_arena_copy(arena, pal_json_raw(pal_json_find(line, "content"))).data;
    (void)mcp_client_start_call(&call, &client);
    char *outcome = mcp_client_finish(&call);
    print_line(pal_str_of(outcome));
    free(outcome);
}

static void run_line(pal_str text)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json line;
    if (pal_json_parse(arena, text, NULL, &line, NULL) == PAL_OK) {
        pal_json wait = pal_json_find(line, "wait");
        if (pal_json_type_of(pal_json_find(line, "call")) == PAL_JSON_STRING) {
            run_call(line, arena);
        } else {
            if (pal_json_type_of(wait) == PAL_JSON_STRING)
                (void)mcp_client_wait(&client, PAL_TOOL_MCP_READY,
                        pal_arena_copy(arena, pal_json_string(wait, arena)).data);
            print_report();
        }
    }
    pal_arena_free(arena);
}

int main(int argc, char **argv)
{
    static char line[LINE_MAX_BYTES];
    pal_str command[32];
    pal_tool_mcp_config config = {
            .name = pal_str_of("srv"), .command = command, .can_ask = true};
    pal_arena *arena = pal_arena_new(0);
    pal_tool_auth auth;
    signal(SIGPIPE, SIG_IGN);
    if (argc >= 3 && strcmp(argv[1], "--url") == 0)
        config.url = pal_str_of(argv[2]);
    if (config.url.len && argc == 4) {
        auth = read_auth(argv[3], arena);
        config.auth = &auth;
        config.on_authorize = on_authorize;
        config.redirect_uri = pal_str_of("http://127.0.0.1:7078/callback");
    }
    for (int i = 1; i < argc && i < 32 && !config.url.len; i++)
        command[config.command_len++] = pal_str_of(argv[i]);
    if (!mcp_client_open(&client, &config)) {
        fprintf(stderr, "mcp_drive: %s\n", client.err.message);
        return 1;
    }
    (void)mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL);
    print_report();
    while (fgets(line, sizeof(line), stdin))
        run_line(pal_str_of(line));
    mcp_client_close(&client);
    pal_arena_free(arena);
    return 0;
}
