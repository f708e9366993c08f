/* api_schema.c - all schemas and query parameters that routes name. Add those of a new route
 * here: a test reads /openapi.json and fails if a name is not in these tables. */
#include "server/api/api_schema.h"

#include <stddef.h>

#define REF(name) "{\"$ref\":\"#/components/schemas/" name "\"}"
#define TEXT "{\"type\":\"string\"}"
#define TEXT_OR_NULL "{\"type\":[\"string\",\"null\"]}"
#define COUNT "{\"type\":\"integer\",\"minimum\":0}"
#define FLAG "{\"type\":\"boolean\"}"
#define TIME_OR_NULL "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"

#define KEY_MEMBERS                                                                                \
    "\"id\":" TEXT ",\"tenant\":" TEXT                                                             \
    ",\"role\":" REF("KeyRole") ",\"label\":" TEXT ",\"budget\":" REF(                             \
            "KeyBudget") ",\"requests_per_minute\":" COUNT ",\"created_at\":" TIME_OR_NULL         \
                         ",\"used_on\":" TEXT_OR_NULL ",\"revoked_at\":" TIME_OR_NULL

#define SESSION_MEMBERS                                                                            \
    "\"key\":" TEXT ",\"aliases\":{\"type\":\"array\",\"items\":" TEXT "},\"title\":" TEXT         \
    ",\"project\":" TEXT ",\"agent\":" TEXT ",\"metadata\":{\"type\":\"object\"}"                  \
    ",\"scope\":{\"type\":\"object\"},\"expires_at\":" TIME_OR_NULL ",\"expires_in\":" COUNT

#define TOKEN_MEMBERS                                                                              \
    "\"input_tokens\":" COUNT ",\"cache_read_tokens\":" COUNT ",\"cache_write_tokens\":" COUNT     \
    ",\"output_tokens\":" COUNT ",\"reasoning_tokens\":" COUNT

#define LIST_OF(name) "{\"type\":\"array\",\"items\":" REF(name) "}"
#define MESSAGES LIST_OF("Message")
#define TOOLS LIST_OF("Tool")
#define TOOL_CALLS LIST_OF("ToolCall")
#define MESSAGE REF("Message")
#define TOKEN_USAGE REF("TokenUsage")
#define OBJECT "{\"type\":\"object\"}"

#define SAID_MEMBERS "\"message\":{\"oneOf\":[" TEXT "," MESSAGE "]},\"messages\":" MESSAGES

#define TURN_STATE                                                                                 \
    "{\"enum\":[\"idle\",\"queued\",\"running\",\"retrying\",\"paused\",\"asking\",\"done\","      \
    "\"failed\",\"canceled\"]}"

#define TURN_MEMBERS                                                                               \
    "\"lane\":{\"enum\":[\"reject\",\"queue\",\"steer\",\"interrupt\"]},\"model\":" TEXT           \
    ",\"provider\":" TEXT ",\"system\":" TEXT ",\"tools\":" TOOLS                                  \
    ",\"tool_choice\":{\"type\":[\"string\",\"object\"]},\"parameters\":" OBJECT                   \
    ",\"max_output_tokens\":" COUNT ",\"strategy\":" TEXT ",\"max_tool_iterations\":" COUNT        \
    ",\"all_or_nothing\":" FLAG ",\"no_server_tools\":" FLAG ",\"label\":" TEXT                    \
    ",\"stream\":" FLAG ",\"background\":" FLAG

#define CONTEXT_SETTINGS                                                                           \
    "{\"type\":\"object\",\"properties\":{\"token_strategy\":" TEXT ",\"max_tokens\":" COUNT       \
    ",\"threshold_percent\":" COUNT ",\"keep_recent_messages\":" COUNT                             \
    ",\"compaction_threshold\":" COUNT ",\"low_water_percent\":" COUNT                             \
    ",\"compaction\":{\"type\":\"object\",\"properties\":{\"auto\":" FLAG ",\"prune\":" FLAG       \
    ",\"prune_protect\":" COUNT ",\"prune_protect_turns\":" COUNT ",\"prune_minimum\":" COUNT      \
    ",\"preserve_recent_tokens\":" COUNT ",\"max_output_tokens\":" COUNT "}}}}"

#define ANSWER_MEMBERS                                                                             \
    "\"turn_id\":" TEXT_OR_NULL ",\"session_id\":" TEXT ",\"state\":" TURN_STATE ",\"text\":" TEXT \
    ",\"message_id\":" TEXT ",\"seq\":" COUNT ",\"finish_reason\":" TEXT                           \
    ",\"tool_calls\":" TOOL_CALLS ",\"waiting\":" TOOL_CALLS ",\"asking\":" OBJECT                 \
    ",\"usage\":" TOKEN_USAGE ",\"cost_micros\":{\"type\":\"integer\"},\"reason\":" TEXT           \
    ",\"replayed\":" FLAG ",\"steered\":" FLAG

const pal_schema pal_schemas[] = {
        {"Object", "{\"type\":\"object\"}"},
        {"Error",
                "{\"type\":\"object\",\"required\":[\"error\",\"detail\",\"code\",\"param\","
                "\"request_id\"],\"properties\":{\"error\":" TEXT ",\"detail\":" TEXT
                ",\"code\":" TEXT ",\"param\":" TEXT_OR_NULL ",\"request_id\":" TEXT "}}"},
        {"Status",
                "{\"type\":\"object\",\"required\":[\"status\"],"
                "\"properties\":{\"status\":" TEXT ",\"version\":" TEXT ",\"store\":" TEXT "}}"},
        {"ServerHealth",
                "{\"type\":\"object\",\"required\":[\"status\",\"version\",\"environment\","
                "\"llm_provider\",\"llm_model\",\"skills_count\",\"tools_count\","
                "\"knowledge_documents\",\"business_db_healthy\"],\"properties\":{"
                "\"status\":{\"enum\":[\"healthy\",\"degraded\"]},\"version\":" TEXT
                ",\"environment\":" TEXT ",\"llm_provider\":" TEXT ",\"llm_model\":" TEXT
                ",\"skills_count\":" COUNT ",\"tools_count\":" COUNT
                ",\"knowledge_documents\":" COUNT ",\"business_db_healthy\":" FLAG "}}"},
        {"KeyRole", "{\"enum\":[\"admin\",\"write\",\"read\"]}"},
        {"KeyBudget",
                "{\"type\":\"object\",\"properties\":{\"tokens\":" COUNT ",\"cost_micros\":" COUNT
                ",\"period\":{\"enum\":[\"day\",\"month\"]}}}"},
        {"KeyRequest",
                "{\"type\":\"object\",\"properties\":{\"tenant\":" TEXT
                ",\"role\":" REF("KeyRole") ",\"label\":" TEXT ",\"budget\":" REF(
                        "KeyBudget") ",\"requests_per_minute\":" COUNT "}}"},
        {"Key",
                "{\"type\":\"object\",\"required\":[\"id\",\"tenant\",\"role\"],"
                "\"properties\":{" KEY_MEMBERS "}}"},
        {"NewKey",
                "{\"type\":\"object\",\"required\":[\"id\",\"key\",\"tenant\",\"role\"],"
                "\"properties\":{\"key\":" TEXT "," KEY_MEMBERS "}}"},
        {"KeyPage",
                "{\"type\":\"object\",\"required\":[\"keys\",\"has_more\",\"cursor\"],"
                "\"properties\":{\"keys\":{\"type\":\"array\",\"items\":" REF(
                        "Key") "},\"has_more\":" FLAG ",\"cursor\":" TEXT_OR_NULL "}}"},
        {"Bytes", "{\"type\":\"string\",\"format\":\"binary\"}"},
        {"Message",
                "{\"type\":\"object\",\"additionalProperties\":true,"
                "\"required\":[\"role\"],\"properties\":{\"id\":" TEXT
                ",\"seq\":" COUNT ",\"role\":{\"enum\":[\"system\",\"user\",\"assistant\","
                "\"tool\"]},\"content\":{\"type\":[\"string\",\"array\"]},"
                "\"parts\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}},"
                "\"created_at\":" TIME_OR_NULL ",\"tokens\":" COUNT ",\"client_id\":" TEXT
                ",\"palaver_sent\":" OBJECT "}}"},
        {"AppendRequest",
                "{\"type\":\"object\",\"additionalProperties\":true,"
                "\"properties\":{\"messages\":{\"type\":\"array\","
                "\"items\":" REF("Message") "},\"role\":" TEXT ",\"content\":{\"type\":[\"string\","
                                            "\"array\"]},\"parts\":{\"type\":"
                                            "\"array\"},\"client_id\":" TEXT
                                            ",\"expected_seq\":" COUNT "}}"},
        {"Appended",
                "{\"type\":\"object\",\"required\":[\"messages\"],\"properties\":{"
                "\"messages\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
                "\"required\":[\"id\",\"seq\"],\"properties\":{\"id\":" TEXT ",\"seq\":" COUNT
                "}}}}}"},
        {"ReplaceRequest",
                "{\"type\":\"object\",\"required\":[\"messages\"],\"properties\":{"
                "\"messages\":{\"type\":\"array\",\"items\":" REF("Message") "}}}"},
        {"Replaced",
                "{\"type\":\"object\",\"required\":[\"messages\",\"mark\"],\"properties\":{"
                "\"messages\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
                "\"required\":[\"id\",\"seq\"],\"properties\":{\"id\":" TEXT ",\"seq\":" COUNT
                "}}},\"mark\":{\"type\":[\"object\",\"null\"]}}}"},
        {"MessagePage",
                "{\"type\":\"object\",\"required\":[\"messages\",\"has_more\"],"
                "\"properties\":{\"messages\":{\"type\":\"array\",\"items\":" REF(
                        "Message") "},\"has_more\":" FLAG "}}"},
        {"SessionRequest", "{\"type\":\"object\",\"properties\":{" SESSION_MEMBERS "}}"},
        {"NewSessionRequest",
                "{\"type\":\"object\",\"properties\":{\"or_find\":" FLAG
                ",\"message\":{\"type\":\"string\"}," SESSION_MEMBERS "}}"},
        {"Session",
                "{\"type\":\"object\",\"required\":[\"session_id\",\"message_count\",\"id\","
                "\"created_at\"],\"properties\":{\"session_id\":" TEXT ",\"message_count\":" COUNT
                ",\"id\":" TEXT ",\"state\":" TEXT ",\"created_at\":" TIME_OR_NULL
                ",\"updated_at\":" TIME_OR_NULL ",\"last_seq\":" COUNT "," SESSION_MEMBERS "}}"},
        {"SessionPage",
                "{\"type\":\"object\",\"required\":[\"sessions\",\"has_more\",\"cursor\"],"
                "\"properties\":{\"sessions\":{\"type\":\"array\",\"items\":" REF(
                        "Session") "},\"has_more\":" FLAG ",\"cursor\":" TEXT_OR_NULL "}}"},
        {"SessionStatus",
                "{\"type\":\"object\",\"required\":[\"status\",\"session_id\"],"
                "\"properties\":{\"status\":" TEXT ",\"session_id\":" TEXT "}}"},
        {"Erasure",
                "{\"type\":\"object\",\"required\":[\"status\",\"session_id\",\"messages\"],"
                "\"properties\":{\"status\":" TEXT ",\"session_id\":" TEXT ",\"messages\":" COUNT
                ",\"shared\":" COUNT ",\"marks\":" COUNT ",\"blobs\":" COUNT ",\"aliases\":" COUNT
                ",\"inbox\":" COUNT ",\"ledger\":" COUNT ",\"records\":" COUNT "}}"},
        {"ForkRequest",
                "{\"type\":\"object\",\"properties\":{\"at_seq\":" COUNT "," SESSION_MEMBERS "}}"},
        {"RewindRequest",
                "{\"type\":\"object\",\"required\":[\"to_seq\"],\"properties\":{\"to_seq\":" COUNT
                "}}"},
        {"ResetRequest", "{\"type\":\"object\",\"properties\":{\"keep_system_message\":" FLAG "}}"},
        {"TruncateRequest",
                "{\"type\":\"object\",\"required\":[\"keep\"],"
                "\"properties\":{\"keep\":" COUNT "}}"},
        {"UndoRequest", "{\"type\":\"object\",\"properties\":{\"number\":" COUNT "}}"},
        {"PinRequest",
                "{\"type\":\"object\",\"required\":[\"seq\"],\"properties\":{\"seq\":" COUNT "}}"},
        {"Mark",
                "{\"type\":\"object\",\"required\":[\"number\",\"kind\"],\"properties\":{"
                "\"number\":" COUNT ",\"kind\":" TEXT ",\"seq\":" COUNT ",\"through_seq\":" COUNT
                ",\"target\":" COUNT ",\"undone\":" FLAG ",\"created_at\":" TIME_OR_NULL "}}"},
        {"MarkList",
                "{\"type\":\"object\",\"required\":[\"marks\"],\"properties\":{\"marks\":{"
                "\"type\":\"array\",\"items\":" REF("Mark") "}}}"},
        {"CompactRequest",
                "{\"type\":\"object\",\"properties\":{\"prompt\":" TEXT ",\"model\":" TEXT
                ",\"cut_seq\":" COUNT ",\"redo\":" COUNT ",\"summary\":" TEXT
                ",\"system\":" TEXT ",\"parameters\":" OBJECT "}}"},
        {"SummaryRequest",
                "{\"type\":\"object\",\"required\":[\"summary\"],\"properties\":{\"summary\":" TEXT
                "}}"},
        {"Summary",
                "{\"type\":\"object\",\"required\":[\"session_id\",\"summary\"],"
                "\"properties\":{\"session_id\":" TEXT ",\"summary\":" TEXT "}}"},
        {"Compacted",
                "{\"type\":\"object\",\"required\":[\"number\",\"tokens_before\","
                "\"tokens_after\"],\"properties\":{\"number\":" COUNT ",\"seq\":" COUNT
                ",\"messages\":" COUNT ",\"tokens_before\":" COUNT ",\"tokens_after\":" COUNT
                ",\"fallback\":" FLAG ",\"summary\":" TEXT ",\"note\":" TEXT "}}"},
        {"Hit",
                "{\"type\":\"object\",\"required\":[\"session_id\",\"message_id\",\"seq\"],"
                "\"properties\":{\"session_id\":" TEXT ",\"message_id\":" TEXT ",\"seq\":" COUNT
                ",\"role\":" TEXT ",\"created_at\":" TIME_OR_NULL ",\"snippet\":" TEXT "}}"},
        {"HitPage",
                "{\"type\":\"object\",\"required\":[\"hits\",\"has_more\",\"cursor\"],"
                "\"properties\":{\"hits\":{\"type\":\"array\",\"items\":" REF(
                        "Hit") "},\"has_more\":" FLAG ",\"cursor\":" TEXT_OR_NULL
                ",\"partial\":" FLAG "}}"},
        {"TokenUsage", "{\"type\":\"object\",\"properties\":{" TOKEN_MEMBERS "}}"},
        {"Tool",
                "{\"type\":\"object\",\"additionalProperties\":true,"
                "\"properties\":{\"type\":{\"const\":\"function\"},"
                "\"function\":{\"type\":\"object\",\"required\":[\"name\"],\"properties\":{"
                "\"name\":" TEXT ",\"description\":" TEXT
                ",\"parameters\":{\"type\":\"object\"}}}}}"},
        {"TurnRequest",
                "{\"type\":\"object\",\"properties\":{" SAID_MEMBERS "," TURN_MEMBERS
                ",\"client_id\":" TEXT ",\"agent\":" TEXT
                ",\"context\":" CONTEXT_SETTINGS "}}"},
        {"ToolCall",
                "{\"type\":\"object\",\"required\":[\"call_id\",\"name\",\"arguments\"],"
                "\"properties\":{\"call_id\":" TEXT ",\"name\":" TEXT ",\"arguments\":" TEXT
                ",\"output\":" TEXT ",\"is_error\":" FLAG "}}"},
        {"TurnAnswer",
                "{\"type\":\"object\",\"required\":[\"turn_id\",\"session_id\",\"state\"],"
                "\"properties\":{" ANSWER_MEMBERS "}}"},
        {"TurnState",
                "{\"type\":\"object\",\"required\":[\"turn_id\",\"session_id\",\"state\"],"
                "\"properties\":{\"turn_id\":" TEXT_OR_NULL ",\"session_id\":" TEXT
                ",\"state\":" TURN_STATE ",\"since\":" TIME_OR_NULL ",\"events\":" COUNT
                ",\"attempt\":" COUNT ",\"retry_at\":" TIME_OR_NULL ",\"code\":" TEXT
                ",\"reason\":" TEXT ",\"text\":" TEXT ",\"message_id\":" TEXT ",\"seq\":" COUNT
                ",\"waiting\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}"
                ",\"asking\":{\"type\":\"object\"}}}"},
        {"ResultsRequest",
                "{\"type\":\"object\",\"required\":[\"results\"],\"properties\":{\"results\":{"
                "\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\","
                "\"required\":[\"call_id\"],\"properties\":{\"call_id\":" TEXT
                ",\"output\":{},\"content\":{}"
                ",\"is_error\":" FLAG "}}},\"stream\":" FLAG ",\"background\":" FLAG
                "}}"},
        {"ApproveRequest",
                "{\"type\":\"object\",\"required\":[\"allow\"],\"properties\":{\"allow\":" FLAG
                "}}"},
        {"ChatRequest",
                "{\"type\":\"object\",\"required\":[\"message\"],\"properties\":{"
                "\"message\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":10000},"
                "\"session_id\":" TEXT_OR_NULL ",\"agent\":" TEXT
                ",\"context\":{\"type\":\"object\"}," TURN_MEMBERS "}}"},
        {"ChatAnswer",
                "{\"type\":\"object\",\"required\":[\"response\",\"tool_calls\",\"session_id\","
                "\"finished\",\"created\"],\"properties\":{\"response\":" TEXT
                ",\"tool_calls\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
                "\"required\":[\"tool\",\"args\",\"result\"],\"properties\":{\"tool\":" TEXT
                ",\"args\":{\"type\":\"object\"},\"result\":" TEXT "}}},\"session_id\":" TEXT
                ",\"finished\":" FLAG ",\"created\":" FLAG ",\"turn_id\":" TEXT
                ",\"state\":" TURN_STATE "}}"},
        {"InboundRequest",
                "{\"type\":\"object\",\"properties\":{\"context\":{\"type\":\"object\","
                "\"additionalProperties\":true,"
                "\"properties\":{\"channel\":" TEXT ",\"account\":" TEXT ",\"space_id\":" TEXT
                ",\"space_type\":" TEXT ",\"chat_id\":" TEXT ",\"chat_type\":" TEXT
                ",\"topic_id\":" TEXT ",\"sender_id\":" TEXT ",\"mentioned\":" FLAG
                "}},\"agent_id\":" TEXT ",\"session_key\":" TEXT ",\"matrix_room\":" TEXT
                ",\"project_id\":" TEXT ",\"bead_id\":" TEXT ",\"project_path\":" TEXT
                ",\"branch\":" TEXT "," SAID_MEMBERS "," TURN_MEMBERS "}}"},
        {"InboundAnswer",
                "{\"type\":\"object\",\"required\":[\"key\",\"created\",\"adopted\","
                "\"session_id\"],\"properties\":{\"key\":" TEXT ",\"agent\":" TEXT
                ",\"created\":" FLAG ",\"adopted\":" FLAG "," ANSWER_MEMBERS "}}"},
        {"ConversationRequest",
                "{\"type\":\"object\",\"required\":[\"project_id\",\"bead_id\"],"
                "\"properties\":{\"project_id\":" TEXT ",\"bead_id\":" TEXT ",\"session_id\":" TEXT
                ",\"agent_id\":" TEXT ",\"metadata\":{\"type\":\"object\"}," SAID_MEMBERS "}}"},
        {"Conversation",
                "{\"type\":\"object\",\"required\":[\"session_id\",\"bead_id\",\"project_id\","
                "\"messages\",\"created_at\",\"updated_at\",\"expires_at\",\"token_count\","
                "\"metadata\",\"entity_metadata\"],\"properties\":{\"session_id\":" TEXT
                ",\"bead_id\":" TEXT ",\"project_id\":" TEXT
                ",\"messages\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
                "\"required\":[\"role\",\"content\",\"timestamp\"],\"properties\":{\"role\":" TEXT
                ",\"content\":" TEXT ",\"timestamp\":" TIME_OR_NULL ",\"token_count\":" COUNT
                "}}},\"created_at\":" TIME_OR_NULL ",\"updated_at\":" TIME_OR_NULL
                ",\"expires_at\":" TIME_OR_NULL ",\"token_count\":" COUNT
                ",\"metadata\":{\"type\":\"object\"},\"entity_metadata\":{\"type\":\"object\"},"
                "\"truncated\":" FLAG "}}"},
        {"ConversationList",
                "{\"type\":\"object\",\"required\":[\"project_id\",\"limit\",\"conversations\"],"
                "\"properties\":{\"project_id\":" TEXT ",\"limit\":" COUNT
                ",\"conversations\":{\"type\":[\"array\",\"null\"],\"items\":" REF(
                        "Conversation") "}}}"},
        {"ConversationDone",
                "{\"type\":\"object\",\"required\":[\"message\",\"session_id\"],"
                "\"properties\":{\"message\":" TEXT ",\"session_id\":" TEXT
                ",\"keep_system_message\":" FLAG "}}"},
        {"PicoSessionList",
                "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"id\",\"title\","
                "\"preview\",\"message_count\",\"created\",\"updated\"],"
                "\"properties\":{\"id\":" TEXT
                ",\"title\":" TEXT ",\"preview\":" TEXT ",\"message_count\":" COUNT
                ",\"created\":" TEXT ",\"updated\":" TEXT "}}}"},
        {"PicoSession",
                "{\"type\":\"object\",\"required\":[\"id\",\"messages\",\"summary\",\"created\","
                "\"updated\"],\"properties\":{\"id\":" TEXT
                ",\"messages\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
                "\"required\":[\"role\",\"content\"]}},\"summary\":" TEXT ",\"created\":" TEXT
                ",\"updated\":" TEXT "}}"},
        {"Imported",
                "{\"type\":\"object\",\"required\":[\"sessions\",\"messages\",\"session_ids\","
                "\"problems\"],\"properties\":{\"sessions\":" COUNT ",\"sessions_known\":" COUNT
                ",\"messages\":" COUNT ",\"messages_known\":" COUNT ",\"messages_failed\":" COUNT
                ",\"marks\":" COUNT ",\"session_ids\":{\"type\":\"array\",\"items\":" TEXT
                "},\"problems_total\":" COUNT ",\"problems\":{\"type\":\"array\",\"items\":{"
                "\"type\":\"object\",\"properties\":{\"line\":" COUNT ",\"text\":" TEXT "}}}}}"},
        {"Usage",
                "{\"type\":\"object\",\"required\":[\"calls\",\"cost_micros\"],\"properties\":{"
                "\"calls\":" COUNT ",\"input_tokens\":" COUNT ",\"cache_read_tokens\":" COUNT
                ",\"cache_write_tokens\":" COUNT ",\"output_tokens\":" COUNT
                ",\"reasoning_tokens\":" COUNT ",\"cost_micros\":{\"type\":\"integer\"}}}"},
        {NULL, NULL},
};

const pal_query_doc pal_query_docs[] = {
        {"limit", "{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000}",
                "maximum number of results"},
        {"cursor", TEXT, "cursor of the previous page"},
        {"offset", COUNT, "number of results to skip"},
        {"after", COUNT, "only messages or events with a larger number"},
        {"before", COUNT, "only messages with a smaller number"},
        {"order", "{\"enum\":[\"asc\",\"desc\"]}", "ascending or descending by seq"},
        {"hidden", FLAG, "include messages that a rewind or a reset hides"},
        {"state", TEXT, "active, trash or quarantined"},
        {"project", TEXT, "only results of this project"},
        {"project_id", TEXT, "the project"},
        {"agent", TEXT, "only results of this agent"},
        {"updated_from", TEXT,
                "changed at or after this time: RFC 3339, or milliseconds since 1970"},
        {"updated_to", TEXT, "changed before this time"},
        {"q", TEXT, "words that must all occur; use quotes for a phrase and word* for a prefix"},
        {"role", TEXT, "only messages of this role"},
        {"from", TEXT, "at or after this time: RFC 3339, or milliseconds since 1970"},
        {"to", TEXT, "before this time"},
        {"turn", TEXT, "only this turn"},
        {"format", TEXT, "format of the conversations; auto detects it on import"},
        {"blobs", FLAG, "include the bytes of images and files, as base64"},
        {"key", TEXT, "key of the session, if there is only one"},
        {"number", COUNT, "number of the mark; the newest if absent"},
        {"model", TEXT, "the model whose context is shown"},
        {"strategy", TEXT, "compact, summarization, sliding_window, reset or none"},
        {"stream", FLAG, "send events"},
        {"starting_after", COUNT, "only events with a larger number"},
        {NULL, NULL, NULL},
};
