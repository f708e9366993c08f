/* config_keys_runtime.c - the keys of what answers: providers, MCP servers, turns, and the server.
 * As config_keys.c, which points to these tables. */
#include "config/config_row.h"

#include <stddef.h>
#include "palaver/limits.h"

#define SECOND_MS 1000ull
#define MINUTE_MS (60 * SECOND_MS)
#define DAY_MS (24ull * 3600 * SECOND_MS)
#define TIMEOUT_MS_MAX (365 * DAY_MS)
#define COUNT_MAX 1000000u
#define RETRIES_MAX 100u
#define BYTES_MIN 1024u
#define BYTES_MAX (1ull << 40)
#define BYTES32_MAX (1ull << 30)
#define CONNECTIONS_MAX 10000000u
#define THREADS_MAX 1024u

const char *const pal_config_provider_kinds[] = {
        "openai", "anthropic", "mistral", "mistral_conversations", "echo", "script", NULL};
static const char *const log_words[] = {"debug", "info", "warn", "error", NULL};

/* clang-format off */

/* ---- providers, mcp_servers ---- */

#define PROVIDER(field) offsetof(pal_config_provider, endpoint.field)
#define SERVER(field) offsetof(pal_config_tool_server, server.field)

static const pal_config_row header_rows[] = {
        {"name", PAL_CONFIG_TEXT, offsetof(pal_header, name), .max = PAL_LABEL_LEN_MAX,
                .sample = "x-team"},
        {"value", PAL_CONFIG_REFERENCE, offsetof(pal_header, value), .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "its value; ${NAME} stands for a variable of the environment",
                .sample = "\"${TEAM}\""},
        {0},
};

static const pal_config_row variable_rows[] = {
        {"name", PAL_CONFIG_TEXT, offsetof(pal_header, name), .max = PAL_LABEL_LEN_MAX,
                .sample = "FILES_TOKEN"},
        {"value", PAL_CONFIG_REFERENCE, offsetof(pal_header, value), .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "its value; ${NAME} stands for a variable of our own environment",
                .sample = "\"${FILES_TOKEN}\""},
        {0},
};

const pal_config_row pal_config_provider_rows[] = {
        {"name", PAL_CONFIG_TEXT, PROVIDER(name), "", .max = PAL_LABEL_LEN_MAX,
                .help = "your word for it; empty: its kind", .sample = "main"},
        {"kind", PAL_CONFIG_TEXT, PROVIDER(kind), .words = pal_config_provider_kinds,
                .is_required = true,
                .help = "what it speaks; openai: whatever is compatible with it",
                .sample = "openai"},
        {"url", PAL_CONFIG_HTTP_URL, PROVIDER(url), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "where it is; empty: the kind's own place"},
        {"api_key_env", PAL_CONFIG_VARIABLE, offsetof(pal_config_provider, api_key_env), "",
                .max = PAL_LABEL_LEN_MAX, .secret = "api_key",
                .help = "which variable has its key; empty: the kind's usual one, none with a url",
                .sample = "OPENAI_API_KEY"},
        {"headers", PAL_CONFIG_MAP, PROVIDER(headers), "{}", .len_offset = PROVIDER(headers_len),
                .rows = header_rows, .size = sizeof(pal_header), .max = PAL_CONFIG_LIST_MAX,
                .help = "sent with every request"},
        {"path", PAL_CONFIG_TEXT, PROVIDER(path), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "of kind script: the file with the recorded answers"},
        {"model", PAL_CONFIG_TEXT, PROVIDER(model), "", .max = PAL_MODEL_LEN_MAX,
                .help = "the one to use where none is named", .sample = "gpt-5-mini"},
        {0},
};

const pal_config_row pal_config_tool_server_rows[] = {
        {"name", PAL_CONFIG_TEXT, SERVER(name), .max = PAL_LABEL_LEN_MAX, .is_required = true,
                .help = "letters, digits, '_' and '-'; its tools are shown as NAME__TOOL",
                .sample = "files"},
        {"command", PAL_CONFIG_TEXTS, SERVER(command), "[]", .len_offset = SERVER(command_len),
                .max = PAL_CONFIG_LIST_MAX,
                .help = "the program and its arguments, for a server that is a process here",
                .sample = "[mcp-files, /srv/files]"},
        {"environment", PAL_CONFIG_MAP, offsetof(pal_config_tool_server, variables), "{}",
                .len_offset = offsetof(pal_config_tool_server, variables_len),
                .rows = variable_rows, .size = sizeof(pal_header), .max = PAL_CONFIG_LIST_MAX,
                .help = "variables for it; of our own it gets PATH, HOME and such only",
                .sample = "{FILES_TOKEN: \"${FILES_TOKEN}\"}"},
        {"url", PAL_CONFIG_HTTP_URL, SERVER(url), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "where it is, for one on the network"},
        {"headers", PAL_CONFIG_MAP, SERVER(headers), "{}", .len_offset = SERVER(headers_len),
                .rows = header_rows, .size = sizeof(pal_header), .max = PAL_CONFIG_LIST_MAX,
                .help = "sent with every request to its url"},
        {"call_timeout", PAL_CONFIG_DURATION, SERVER(call_ms), "120s", .min = 1,
                .max = TIMEOUT_MS_MAX, .help = "how long one call may take"},
        {0},
};

/* ---- turn: zero in the struct means the default ---- */

#define TURN(field) offsetof(pal_runtime_options, field)

const pal_config_row pal_config_turn_rows[] = {
        {"system", PAL_CONFIG_TEXT, TURN(system), "", .max = PAL_SYSTEM_LEN_MAX,
                .help = "instructions for every session"},
        {"max_tool_iterations", PAL_CONFIG_COUNT32, TURN(max_tool_iterations), "10", .min = 1,
                .max = COUNT_MAX, .help = "rounds of tool calls in one turn"},
        {"retries", PAL_CONFIG_COUNT32, TURN(retries_max), "5", .min = 1, .max = RETRIES_MAX,
                .help = "how often a service is asked again that fails for a while"},
        {"timeout", PAL_CONFIG_DURATION, TURN(turn_ms), "0s", .max = TIMEOUT_MS_MAX,
                .help = "how long a turn may take; 0s: as long as it does"},
        {"lease", PAL_CONFIG_DURATION, TURN(lease_ms), "30s", .min = SECOND_MS,
                .max = PAL_LEASE_TTL_MS_MAX,
                .help = "how long a process that died keeps others from a session"},
        {"tools_wait", PAL_CONFIG_DURATION, TURN(tools_wait_ms), "10s", .min = 1,
                .max = TIMEOUT_MS_MAX,
                .help = "how long the first turns wait for mcp_servers that are being started"},
        {"turns_max", PAL_CONFIG_COUNT32, TURN(turns_max), "100000", .min = 1,
                .max = CONNECTIONS_MAX, .help = "turns that run or wait at once"},
        {"events_max", PAL_CONFIG_COUNT32, TURN(events_max), "10000", .min = 1,
                .max = COUNT_MAX, .help = "events of a turn that are kept to be read again"},
        {"events_bytes_max", PAL_CONFIG_COUNT, TURN(events_bytes_max), "4194304", .min = BYTES_MIN,
                .max = BYTES_MAX, .help = "likewise, in bytes"},
        {"builtin_tools", PAL_CONFIG_BOOL_OFF, TURN(builtin_tools_off), "true",
                .help = "the model may read what was cut out or summarised"},
        {"show_senders", PAL_CONFIG_BOOL_OFF, TURN(senders_off), "true",
                .help = "in a group the text of a message begins with <sender>"},
        {"parameters", PAL_CONFIG_OBJECT, TURN(parameters), "{}", .max = PAL_SYSTEM_LEN_MAX,
                .help = "members of every request to a model, such as temperature: 0.7"},
        {0},
};

/* ---- server ---- */

#define AT(field) offsetof(pal_config_server, field)

const pal_config_row pal_config_server_rows[] = {
        {"listen", PAL_CONFIG_ADDRESS, AT(listen), "127.0.0.1:7077", .max = PAL_LABEL_LEN_MAX,
                .help = "address and port; any but this machine's own asks for keys"},
        {"tls_certificate", PAL_CONFIG_TEXT, AT(tls_certificate), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "a PEM file; empty: no TLS"},
        {"tls_key", PAL_CONFIG_TEXT, AT(tls_key), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "the PEM file with the certificate's key"},
        {"trusted_proxies", PAL_CONFIG_TEXTS, AT(trusted_proxies), "[]",
                .len_offset = AT(trusted_proxies_len), .max = PAL_CONFIG_LIST_MAX,
                .help = "addresses whose forwarded headers are believed"},
        {"cors_origins", PAL_CONFIG_TEXTS, AT(cors_origins), "[]",
                .len_offset = AT(cors_origins_len), .max = PAL_CONFIG_LIST_MAX,
                .help = "pages of other origins that may call; \"*\": any"},
        {"body_bytes_max", PAL_CONFIG_COUNT, AT(body_bytes_max), "33554432", .min = BYTES_MIN,
                .max = BYTES_MAX, .help = "of a request's body"},
        {"header_bytes_max", PAL_CONFIG_COUNT32, AT(header_bytes_max), "16384", .min = BYTES_MIN,
                .max = BYTES32_MAX, .help = "of a request's headers together"},
        {"url_bytes_max", PAL_CONFIG_COUNT32, AT(url_bytes_max), "8192", .min = BYTES_MIN,
                .max = BYTES32_MAX, .help = "of its URL"},
        {"connections_max", PAL_CONFIG_COUNT32, AT(connections_max), "12000", .min = 1,
                .max = CONNECTIONS_MAX, .help = "connections at once"},
        {"streams_max", PAL_CONFIG_COUNT32, AT(streams_max), "11000", .min = 1,
                .max = CONNECTIONS_MAX, .help = "readers of events at once"},
        {"stream_bytes_max", PAL_CONFIG_COUNT, AT(stream_bytes_max), "1048576", .min = BYTES_MIN,
                .max = BYTES_MAX, .help = "that wait for one slow reader; then it is let go"},
        {"requests_per_minute", PAL_CONFIG_COUNT32, AT(requests_per_minute), "0",
                .max = COUNT_MAX,
                .help = "of one key, or of one address without keys; 0: no bound"},
        {"idle", PAL_CONFIG_DURATION, AT(idle_ms), "60s", .min = SECOND_MS, .max = DAY_MS,
                .help = "how long a connection may be without a request"},
        {"request_timeout", PAL_CONFIG_DURATION, AT(request_ms), "60s", .min = SECOND_MS,
                .max = DAY_MS, .help = "for a request to arrive as a whole"},
        {"heartbeat", PAL_CONFIG_DURATION, AT(heartbeat_ms), "15s", .min = SECOND_MS,
                .max = DAY_MS, .help = "between signs of life in a quiet stream"},
        {"drain", PAL_CONFIG_DURATION, AT(drain_ms), "30s", .max = DAY_MS,
                .help = "that turns have to end after SIGTERM"},
        {"idempotency", PAL_CONFIG_DURATION, AT(idempotency_ms), "24h", .min = MINUTE_MS,
                .max = TIMEOUT_MS_MAX, .help = "how long an answer is remembered by its key"},
        {"threads", PAL_CONFIG_COUNT32, AT(threads), "0", .max = THREADS_MAX,
                .help = "that answer requests; 0: one a core, at most 8"},
        {"log_level", PAL_CONFIG_TEXT, AT(log_level), "info", .words = log_words,
                .help = "the least important of what is logged"},
        {"log_text", PAL_CONFIG_BOOL, AT(log_text), "false",
                .help = "texts of messages may be in the log"},
        {"bodies_bytes_max", PAL_CONFIG_COUNT, AT(bodies_bytes_max), "268435456", .min = BYTES_MIN,
                .max = BYTES_MAX, .help = "of all bodies that are held at once"},
        {"connections_per_address", PAL_CONFIG_COUNT32, AT(connections_per_address), "0",
                .max = CONNECTIONS_MAX,
                .help = "of connections_max; 0: a half, and on a loopback address fifteen "
                        "sixteenths"},
        {"key_failures_per_minute", PAL_CONFIG_COUNT32, AT(key_failures_per_minute), "30",
                .max = COUNT_MAX,
                .help = "requests of one address with a wrong key; 0: no bound"},
        {"turns_per_key", PAL_CONFIG_COUNT32, AT(turns_per_key), "1000", .max = COUNT_MAX,
                .help = "turns and passed-on calls of one key at once; 0: no bound"},
        {"streams_per_key", PAL_CONFIG_COUNT32, AT(streams_per_key), "1000", .max = COUNT_MAX,
                .help = "streams of one key at once; 0: no bound"},
        {"otlp_url", PAL_CONFIG_HTTP_URL, AT(otlp_url), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "where traces go; empty: none are made"},
        {0},
};

/* clang-format on */
