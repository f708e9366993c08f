/* config_keys_runtime.c - the keys of providers, MCP servers, turns and the server. See
 * config_keys.c, which points to these tables. */
#include "config/config_row.h"

#include <stddef.h>
#include "palaver/limits.h"
#include "palaver/provider_info.h"

#define SECOND_MS 1000ull
#define MINUTE_MS (60 * SECOND_MS)
#define DAY_MS (24ull * 3600 * SECOND_MS)
#define TIMEOUT_MS_MAX (365 * DAY_MS)
#define COUNT_MAX 1000000u
#define TOKENS_MAX 1000000000u
#define RETRIES_MAX 100u
#define BYTES_MIN 1024u
#define BYTES_MAX (1ull << 40)
#define BYTES32_MAX (1ull << 30)
#define CONNECTIONS_MAX 10000000u
#define THREADS_MAX 1024u

static const char *const log_words[] = {"debug", "info", "warn", "error", NULL};

static const char *provider_kind_at(size_t index)
{
    const pal_provider_info *info = pal_provider_info_at(index);
    return info ? info->kind : NULL;
}

/* In the order of pal_endpoint_affinity. */
static const char *const affinity_words[] = {
        "auto", "off", "headers", "prompt_cache_key", "llama.cpp", NULL};
/* In the order of pal_memory_mode. */
static const char *const memory_words[] = {"off", "ask", "on", NULL};
/* In the order of pal_config_grant. */
static const char *const grant_words[] = {
        "login", "client_credentials", "workload", "enterprise", NULL};
/* In the order of pal_endpoint_responses. */
static const char *const responses_words[] = {"auto", "on", "off", NULL};

/* clang-format off */

/* ---- providers, mcp_servers ---- */

#define PROVIDER(field) offsetof(pal_config_provider, endpoint.field)
#define SERVER(field) offsetof(pal_config_tool_server, server.field)

static const pal_config_row header_rows[] = {
        {"name", PAL_CONFIG_TEXT, offsetof(pal_header, name), .max = PAL_LABEL_LEN_MAX,
                .sample = "x-team"},
        {"value", PAL_CONFIG_REFERENCE, offsetof(pal_header, value), .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "value of the header; ${NAME} is replaced by an environment variable",
                .sample = "\"${TEAM}\""},
        {0},
};

static const pal_config_row variable_rows[] = {
        {"name", PAL_CONFIG_TEXT, offsetof(pal_header, name), .max = PAL_LABEL_LEN_MAX,
                .sample = "FILES_TOKEN"},
        {"value", PAL_CONFIG_REFERENCE, offsetof(pal_header, value), .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "value of the variable; ${NAME} is replaced by a variable of Palaver's "
                        "environment",
                .sample = "\"${FILES_TOKEN}\""},
        {0},
};

const pal_config_row pal_config_provider_rows[] = {
        {"name", PAL_CONFIG_TEXT, PROVIDER(name), "", .max = PAL_LABEL_LEN_MAX,
                .help = "name of the provider; empty: its kind", .sample = "main"},
        {"kind", PAL_CONFIG_TEXT, PROVIDER(kind), .word_at = provider_kind_at,
                .is_required = true,
                .help = "API of the service; use openai for every compatible service",
                .sample = "openai"},
        {"url", PAL_CONFIG_HTTP_URL, PROVIDER(url), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "URL of the service; empty: the usual URL of the kind"},
        {"api_key_env", PAL_CONFIG_VARIABLE, offsetof(pal_config_provider, api_key_env), "",
                .max = PAL_LABEL_LEN_MAX, .secret = "api_key",
                .help = "environment variable with the API key; empty: the kind's usual one, or "
                        "none with url",
                .sample = "OPENAI_API_KEY"},
        {"headers", PAL_CONFIG_MAP, PROVIDER(headers), "{}", .len_offset = PROVIDER(headers_len),
                .rows = header_rows, .size = sizeof(pal_header), .max = PAL_CONFIG_LIST_MAX,
                .help = "headers of every request"},
        {"path", PAL_CONFIG_TEXT, PROVIDER(path), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "kind script only: the file with the recorded answers"},
        {"model", PAL_CONFIG_TEXT, PROVIDER(model), "", .max = PAL_MODEL_LEN_MAX,
                .help = "the default model", .sample = "gpt-5-mini"},
        {"responses", PAL_CONFIG_WORD, PROVIDER(responses), "auto", .words = responses_words,
                .help = "kind openai only: whether the service has the Responses API; auto: if "
                        "it is OpenAI's"},
        {"affinity", PAL_CONFIG_WORD, PROVIDER(affinity), "auto", .words = affinity_words,
                .help = "how the requests of a session reach the same server; auto: headers, or "
                        "what the kind's usual service supports"},
        {"affinity_headers", PAL_CONFIG_TEXTS, PROVIDER(affinity_headers), "[]",
                .len_offset = PROVIDER(affinity_headers_len), .max = 8,
                .help = "headers with the session's id; empty: x-session-id and "
                        "x-session-affinity", .sample = "[x-user-id]"},
        {0},
};

#define AUTH(field) offsetof(pal_config_auth, field)

static const pal_config_row auth_rows[] = {
        {"grant", PAL_CONFIG_WORD, AUTH(grant), "login", .words = grant_words,
                .help = "login: a person allows the access with 'palaver mcp login'; "
                        "client_credentials: the client itself has access; workload: the platform "
                        "identifies it by token_file; enterprise: an identity provider allows the "
                        "access"},
        {"client_id", PAL_CONFIG_TEXT, AUTH(auth.client_id), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "id of a client that is registered with the authorization server"},
        {"client_secret_env", PAL_CONFIG_VARIABLE, AUTH(client_secret_env), "",
                .max = PAL_LABEL_LEN_MAX, .secret = "client_secret",
                .help = "environment variable with the client's secret"},
        {"client_key", PAL_CONFIG_TEXT, AUTH(auth.client_key), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "file with the client's private key (PEM), instead of a secret"},
        {"client_metadata_url", PAL_CONFIG_HTTP_URL, AUTH(auth.client_metadata_url), "",
                .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "URL of a document that describes the client, instead of a client_id"},
        {"scope", PAL_CONFIG_TEXT, AUTH(auth.scope), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "scopes to request, separated by blanks; empty: those that the server "
                        "names"},
        {"issuer", PAL_CONFIG_HTTP_URL, AUTH(auth.issuer), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "the only authorization server to use; empty: the first one that the "
                        "server names"},
        {"token_file", PAL_CONFIG_TEXT, AUTH(auth.token_file), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "file with the token of the platform (workload) or the ID token of a "
                        "person (enterprise)"},
        {"idp_token_url", PAL_CONFIG_HTTP_URL, AUTH(idp.token_url), "",
                .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "enterprise: token endpoint of the identity provider"},
        {"idp_client_id", PAL_CONFIG_TEXT, AUTH(idp.client_id), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "enterprise: id of the client that is registered with the identity "
                        "provider"},
        {"idp_client_secret_env", PAL_CONFIG_VARIABLE, AUTH(idp_secret_env), "",
                .max = PAL_LABEL_LEN_MAX, .secret = "idp_client_secret",
                .help = "enterprise: environment variable with the secret of that client"},
        {0},
};

const pal_config_row pal_config_tool_server_rows[] = {
        {"name", PAL_CONFIG_TEXT, SERVER(name), .max = PAL_LABEL_LEN_MAX, .is_required = true,
                .help = "letters, digits, '_' and '-'; the tools are called NAME__TOOL",
                .sample = "files"},
        {"command", PAL_CONFIG_TEXTS, SERVER(command), "[]", .len_offset = SERVER(command_len),
                .max = PAL_CONFIG_LIST_MAX,
                .help = "program and arguments, for a server that Palaver starts",
                .sample = "[mcp-files, /srv/files]"},
        {"environment", PAL_CONFIG_MAP, offsetof(pal_config_tool_server, variables), "{}",
                .len_offset = offsetof(pal_config_tool_server, variables_len),
                .rows = variable_rows, .size = sizeof(pal_header), .max = PAL_CONFIG_LIST_MAX,
                .help = "environment variables for it, besides PATH, HOME and a few others",
                .sample = "{FILES_TOKEN: \"${FILES_TOKEN}\"}"},
        {"url", PAL_CONFIG_HTTP_URL, SERVER(url), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "URL, for a server on the network"},
        {"headers", PAL_CONFIG_MAP, SERVER(headers), "{}", .len_offset = SERVER(headers_len),
                .rows = header_rows, .size = sizeof(pal_header), .max = PAL_CONFIG_LIST_MAX,
                .help = "headers of every request to url"},
        {"call_timeout", PAL_CONFIG_DURATION, SERVER(call_ms), "120s", .min = 1,
                .max = TIMEOUT_MS_MAX, .help = "timeout of one tool call"},
        {"auth", PAL_CONFIG_SECTION, offsetof(pal_config_tool_server, auth), .rows = auth_rows,
                .help = "how access tokens for url are got (OAuth)"},
        {0},
};

/* ---- turn: zero in the struct means the default ---- */

#define TURN(field) offsetof(pal_runtime_options, field)

const pal_config_row pal_config_turn_rows[] = {
        {"system", PAL_CONFIG_TEXT, TURN(system), "", .max = PAL_SYSTEM_LEN_MAX,
                .help = "instructions for every session"},
        {"max_tool_iterations", PAL_CONFIG_COUNT32, TURN(max_tool_iterations), "10", .min = 1,
                .max = COUNT_MAX, .help = "maximum rounds of tool calls in one turn"},
        {"retries", PAL_CONFIG_COUNT32, TURN(retries_max), "5", .min = 1, .max = RETRIES_MAX,
                .help = "maximum number of retries after a transient failure of a model call"},
        {"timeout", PAL_CONFIG_DURATION, TURN(turn_ms), "0s", .max = TIMEOUT_MS_MAX,
                .help = "maximum duration of a turn; 0s: no limit"},
        {"lease", PAL_CONFIG_DURATION, TURN(lease_ms), "30s", .min = SECOND_MS,
                .max = PAL_LEASE_TTL_MS_MAX,
                .help = "how long a session stays blocked after its process died"},
        {"tools_wait", PAL_CONFIG_DURATION, TURN(tools_wait_ms), "10s", .min = 1,
                .max = TIMEOUT_MS_MAX,
                .help = "how long after the start turns wait for mcp_servers that are not ready"},
        {"turns_max", PAL_CONFIG_COUNT32, TURN(turns_max), "100000", .min = 1,
                .max = CONNECTIONS_MAX,
                .help = "maximum number of turns that run or wait at the same time"},
        {"events_max", PAL_CONFIG_COUNT32, TURN(events_max), "10000", .min = 1,
                .max = COUNT_MAX, .help = "events of one turn that are kept for late readers"},
        {"events_bytes_max", PAL_CONFIG_COUNT, TURN(events_bytes_max), "4194304", .min = BYTES_MIN,
                .max = BYTES_MAX,
                .help = "bytes of one turn's events that are kept for late readers"},
        {"builtin_tools", PAL_CONFIG_BOOL_OFF, TURN(builtin_tools_off), "true",
                .help = "offer tools that read shortened outputs and search hidden messages"},
        {"allow_unasked", PAL_CONFIG_BOOL, TURN(unasked_allowed), "false",
                .help = "run tools that need approval if the client cannot be asked; false: do "
                        "not run them"},
        {"show_senders", PAL_CONFIG_BOOL_OFF, TURN(senders_off), "true",
                .help = "begin the text of a message in a group with <sender>"},
        {"parameters", PAL_CONFIG_OBJECT, TURN(parameters), "{}", .max = PAL_SYSTEM_LEN_MAX,
                .help = "members to add to every model request, such as temperature: 0.7"},
        {0},
};

/* ---- memory ---- */

#define MEMORY(field) offsetof(pal_memory_settings, field)

const pal_config_row pal_config_memory_rows[] = {
        {"direct", PAL_CONFIG_WORD, MEMORY(direct), "on", .words = memory_words,
                .help = "whether notes are used in direct chats; ask: extracted notes wait until "
                        "they are confirmed"},
        {"groups", PAL_CONFIG_WORD, MEMORY(groups), "off", .words = memory_words,
                .help = "whether notes are used in groups and rooms"},
        {"sessions", PAL_CONFIG_WORD, MEMORY(sessions), "off", .words = memory_words,
                .help = "whether notes are used in sessions that are not chats"},
        {"block_tokens", PAL_CONFIG_COUNT, MEMORY(block_tokens), "800", .min = 1,
                .max = COUNT_MAX,
                .help = "maximum tokens of the notes at the beginning of a request"},
        {"idle", PAL_CONFIG_DURATION, MEMORY(idle_ms), "60m", .min = MINUTE_MS,
                .max = TIMEOUT_MS_MAX,
                .help = "after a pause of this length, a request begins with the newest notes"},
        {"model", PAL_CONFIG_TEXT, MEMORY(model), "", .max = PAL_MODEL_LEN_MAX,
                .help = "model that proposes notes in the background; empty: none are proposed"},
        {"tokens_per_day", PAL_CONFIG_COUNT, MEMORY(tokens_per_day), "300000", .min = 1,
                .max = TOKENS_MAX,
                .help = "tokens that this may take of one tenant in 24 hours"},
        {"run_messages", PAL_CONFIG_COUNT32, MEMORY(run_messages), "12", .min = 1,
                .max = COUNT_MAX, .help = "user messages after which a session is read soon"},
        {"run_quiet", PAL_CONFIG_DURATION, MEMORY(quiet_ms), "2m", .min = 1,
                .max = TIMEOUT_MS_MAX,
                .help = "how long a session must be quiet before it is read then"},
        {"run_idle", PAL_CONFIG_DURATION, MEMORY(run_idle_ms), "30m", .min = 1,
                .max = TIMEOUT_MS_MAX,
                .help = "how long a session with fewer messages must be quiet before it is read"},
        {0},
};

/* ---- server ---- */

#define AT(field) offsetof(pal_config_server, field)

const pal_config_row pal_config_server_rows[] = {
        {"listen", PAL_CONFIG_ADDRESS, AT(listen), "127.0.0.1:7077", .max = PAL_LABEL_LEN_MAX,
                .help = "address and port; an address open to other machines requires API keys"},
        {"advertise", PAL_CONFIG_HTTP_URL, AT(advertise), "", .max = PAL_LABEL_LEN_MAX,
                .help = "URL at which other servers on the same store reach this one; empty: "
                        "derived from listen"},
        {"tls_certificate", PAL_CONFIG_TEXT, AT(tls_certificate), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "PEM file with the certificate; empty: no TLS"},
        {"tls_key", PAL_CONFIG_TEXT, AT(tls_key), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "PEM file with the certificate's private key"},
        {"trusted_proxies", PAL_CONFIG_TEXTS, AT(trusted_proxies), "[]",
                .len_offset = AT(trusted_proxies_len), .max = PAL_CONFIG_LIST_MAX,
                .help = "addresses of proxies whose forwarded headers are trusted"},
        {"cors_origins", PAL_CONFIG_TEXTS, AT(cors_origins), "[]",
                .len_offset = AT(cors_origins_len), .max = PAL_CONFIG_LIST_MAX,
                .help = "origins whose pages may call from a browser; \"*\": any"},
        {"responses_tools", PAL_CONFIG_BOOL_OFF, AT(responses_tools_off), "true",
                .help = "offer the tools of mcp_servers to /v1/responses if a request has no "
                        "'tools'"},
        {"body_bytes_max", PAL_CONFIG_COUNT, AT(body_bytes_max), "33554432", .min = BYTES_MIN,
                .max = BYTES_MAX, .help = "maximum bytes of a request's body"},
        {"header_bytes_max", PAL_CONFIG_COUNT32, AT(header_bytes_max), "16384", .min = BYTES_MIN,
                .max = BYTES32_MAX, .help = "maximum bytes of a request's headers together"},
        {"url_bytes_max", PAL_CONFIG_COUNT32, AT(url_bytes_max), "8192", .min = BYTES_MIN,
                .max = BYTES32_MAX, .help = "maximum bytes of a request's URL"},
        {"connections_max", PAL_CONFIG_COUNT32, AT(connections_max), "12000", .min = 1,
                .max = CONNECTIONS_MAX, .help = "maximum number of open connections"},
        {"streams_max", PAL_CONFIG_COUNT32, AT(streams_max), "11000", .min = 1,
                .max = CONNECTIONS_MAX, .help = "maximum number of open event streams"},
        {"stream_bytes_max", PAL_CONFIG_COUNT, AT(stream_bytes_max), "1048576", .min = BYTES_MIN,
                .max = BYTES_MAX,
                .help = "maximum unread bytes of one stream; a slower reader is disconnected"},
        {"requests_per_minute", PAL_CONFIG_COUNT32, AT(requests_per_minute), "0",
                .max = COUNT_MAX,
                .help = "maximum requests per minute of one key, or of one address without keys; "
                        "0: no limit"},
        {"idle", PAL_CONFIG_DURATION, AT(idle_ms), "60s", .min = SECOND_MS, .max = DAY_MS,
                .help = "how long a connection may stay open without a request"},
        {"request_timeout", PAL_CONFIG_DURATION, AT(request_ms), "60s", .min = SECOND_MS,
                .max = DAY_MS, .help = "how long a request may take to arrive completely"},
        {"heartbeat", PAL_CONFIG_DURATION, AT(heartbeat_ms), "15s", .min = SECOND_MS,
                .max = DAY_MS, .help = "interval of keep-alive comments in an idle stream"},
        {"drain", PAL_CONFIG_DURATION, AT(drain_ms), "30s", .max = DAY_MS,
                .help = "how long running turns may continue after SIGTERM"},
        {"drain_delay", PAL_CONFIG_DURATION, AT(drain_delay_ms), "3s", .max = DAY_MS,
                .help = "if other servers share the store: how long a server that stops still "
                        "accepts requests, so that load balancers notice"},
        {"idempotency", PAL_CONFIG_DURATION, AT(idempotency_ms), "24h", .min = MINUTE_MS,
                .max = TIMEOUT_MS_MAX,
                .help = "how long the response to an idempotency key is stored"},
        {"threads", PAL_CONFIG_COUNT32, AT(threads), "0", .max = THREADS_MAX,
                .help = "threads that serve requests; 0: one per core, at most 8"},
        {"log_level", PAL_CONFIG_TEXT, AT(log_level), "info", .words = log_words,
                .help = "lowest level that is logged"},
        {"log_text", PAL_CONFIG_BOOL, AT(log_text), "false",
                .help = "allow the text of messages in the log"},
        {"bodies_bytes_max", PAL_CONFIG_COUNT, AT(bodies_bytes_max), "268435456", .min = BYTES_MIN,
                .max = BYTES_MAX, .help = "maximum bytes of all request bodies in memory together"},
        {"connections_per_address", PAL_CONFIG_COUNT32, AT(connections_per_address), "0",
                .max = CONNECTIONS_MAX,
                .help = "maximum connections of one address; 0: half of connections_max, or 15/16 "
                        "of it if listen is a loopback address"},
        {"key_failures_per_minute", PAL_CONFIG_COUNT32, AT(key_failures_per_minute), "30",
                .max = COUNT_MAX,
                .help = "maximum requests per minute of one address with an invalid key; 0: no "
                        "limit"},
        {"turns_per_key", PAL_CONFIG_COUNT32, AT(turns_per_key), "1000", .max = COUNT_MAX,
                .help = "maximum turns and forwarded calls of one key at the same time; 0: no "
                        "limit"},
        {"streams_per_key", PAL_CONFIG_COUNT32, AT(streams_per_key), "1000", .max = COUNT_MAX,
                .help = "maximum open streams of one key; 0: no limit"},
        {"websocket", PAL_CONFIG_BOOL, AT(websocket), "true",
                .help = "responses can be requested over a WebSocket, at GET /v1/responses"},
        {"websocket_age", PAL_CONFIG_DURATION, AT(websocket_age_ms), "1h", .min = SECOND_MS,
                .max = DAY_MS, .help = "an older WebSocket takes no more requests"},
        {"page", PAL_CONFIG_BOOL_OFF, AT(page_off), "true",
                .help = "show the page at GET /"},
        {"page_dir", PAL_CONFIG_TEXT, AT(page_dir), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "directory whose files replace those of the page, for work on the page; "
                        "empty: none"},
        {"otlp_url", PAL_CONFIG_HTTP_URL, AT(otlp_url), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "URL that traces are sent to; empty: no traces"},
        {0},
};

/* clang-format on */
