/* mcp_tool.c - the table of tools for MCP clients. Names and members are chosen for models:
 * they call a session a conversation. */
#include "mcp/mcp_internal.h"

/* ---- Pieces of schemas ---- */

#define TEXT "{\"type\":\"string\"}"
#define COUNT "{\"type\":\"integer\",\"minimum\":0}"
#define FLAG "{\"type\":\"boolean\"}"
#define TIME "{\"type\":\"string\",\"format\":\"date-time\"}"
#define LIST(of) "{\"type\":\"array\",\"items\":" of "}"
#define OBJECT(required, properties)                                                               \
    "{\"type\":\"object\",\"required\":[" required "],\"properties\":{" properties "}}"

#define CONVERSATION_SCHEMA                                                                        \
    OBJECT("\"id\",\"messages\",\"created_at\",\"updated_at\"",                                    \
            "\"id\":" TEXT ",\"key\":" TEXT ",\"title\":" TEXT ",\"project\":" TEXT                \
            ",\"agent\":" TEXT ",\"messages\":" COUNT ",\"created_at\":" TIME                      \
            ",\"updated_at\":" TIME)

#define MESSAGE_SCHEMA                                                                             \
    OBJECT("\"seq\",\"role\",\"created_at\",\"text\"",                                             \
            "\"seq\":" COUNT ",\"role\":" TEXT ",\"created_at\":" TIME ",\"model\":" TEXT          \
            ",\"text\":" TEXT ",\"text_bytes\":" COUNT ",\"next_text_offset\":" COUNT              \
            ",\"tool_calls\":" LIST(OBJECT("\"name\",\"arguments\"",                               \
                    "\"name\":" TEXT                                                               \
                    ",\"arguments\":" TEXT)) ",\"attachments\":" LIST(OBJECT("\"kind\"",           \
                    "\"kind\":" TEXT ",\"name\":" TEXT ",\"media_type\":" TEXT ",\"url\":" TEXT)))

#define NEIGHBOR_SCHEMA                                                                            \
    OBJECT("\"seq\",\"role\",\"created_at\",\"text\"",                                             \
            "\"seq\":" COUNT ",\"role\":" TEXT ",\"created_at\":" TIME ",\"text\":" TEXT)

#define HIT_SCHEMA                                                                                 \
    OBJECT("\"conversation\",\"seq\",\"role\",\"created_at\",\"snippet\"",                         \
            "\"conversation\":" TEXT ",\"key\":" TEXT ",\"title\":" TEXT ",\"seq\":" COUNT         \
            ",\"role\":" TEXT ",\"created_at\":" TIME ",\"snippet\":" TEXT                         \
            ",\"neighbors\":" LIST(NEIGHBOR_SCHEMA))

#define NOTE_SCHEMA                                                                                \
    OBJECT("\"id\",\"text\",\"kind\",\"state\",\"subject\",\"circle\"",                        \
            "\"id\":" TEXT ",\"text\":" TEXT ",\"kind\":" TEXT ",\"state\":" TEXT                \
            ",\"pending\":" TEXT ",\"subject\":" TEXT ",\"circle\":" TEXT ",\"created_at\":" TIME)

#define APPENDED_SCHEMA                                                                            \
    OBJECT("\"conversation\",\"message_id\",\"seq\"",                                              \
            "\"conversation\":" TEXT ",\"message_id\":" TEXT ",\"seq\":" COUNT)

#define USAGE_SCHEMA                                                                               \
    OBJECT("\"input_tokens\",\"output_tokens\"",                                                   \
            "\"input_tokens\":" COUNT ",\"cache_read_tokens\":" COUNT                              \
            ",\"cache_write_tokens\":" COUNT ",\"output_tokens\":" COUNT                           \
            ",\"reasoning_tokens\":" COUNT)

/* ---- Arguments ---- */

static const char *const any_role[] = {"system", "user", "assistant", "tool", NULL};
static const char *const note_kind[] = {
        "fact", "preference", "instruction", "event", "context", NULL};
static const char *const search_order[] = {"auto", "best", "newest", NULL};
static const char *const own_role[] = {"user", "assistant", "system", NULL};

/* clang-format off */
#define CONVERSATION(required, what) \
    {"conversation", PAL_MCP_TEXT, required, 1, PAL_KEY_LEN_MAX, 0, NULL, what}
#define ONE_CONVERSATION CONVERSATION(true, "id, key or alias of the conversation")
#define LIMIT(fallback) \
    {"limit", PAL_MCP_NUMBER, false, 1, PAL_MCP_HOST_PAGE_MAX, fallback, NULL, \
            "maximum number of results"}
#define CURSOR \
    {"cursor", PAL_MCP_TEXT, false, 0, PAL_KEY_LEN_MAX, 0, NULL, \
            "next_cursor of the previous page"}
#define SINCE(what) {"since", PAL_MCP_TIME, false, 0, 0, 0, NULL, what " at or after this time"}
#define UNTIL(what) {"until", PAL_MCP_TIME, false, 0, 0, 0, NULL, what " before this time"}
#define SAID(what) \
    {"text", PAL_MCP_TEXT, true, 1, PAL_MCP_HOST_INPUT_BYTES_MAX, 0, NULL, what}
#define NAME(name, max, what) {name, PAL_MCP_TEXT, false, 0, max, 0, NULL, what}
#define NEW_KEY \
    NAME("key", PAL_KEY_LEN_MAX, "a unique name for the conversation")
#define NEW_TITLE NAME("title", PAL_TITLE_LEN_MAX, "what the conversation is about")
#define SEQ(name, min, what) {name, PAL_MCP_NUMBER, false, min, INT64_MAX, 0, NULL, what}
/* clang-format on */

static const pal_mcp_field list_fields[] = {
        LIMIT(20),
        CURSOR,
        NAME("project", PAL_NAME_LEN_MAX, "only conversations of this project"),
        NAME("agent", PAL_NAME_LEN_MAX, "only conversations of this agent"),
        SINCE("only conversations that changed"),
        UNTIL("only conversations that changed"),
        {0},
};

static const pal_mcp_field read_fields[] = {
        ONE_CONVERSATION,
        SEQ("after_seq", 0, "read the messages after this seq; 0 starts with the first message"),
        SEQ("before_seq", 1, "read the messages before this seq"),
        LIMIT(50),
        SEQ("text_offset", 1,
                "for a truncated message: its next_text_offset; set after_seq to its seq minus 1"),
        {0},
};

static const pal_mcp_field search_fields[] = {
        {"query", PAL_MCP_TEXT, true, 1, PAL_SEARCH_TEXT_LEN_MAX, 0, NULL,
                "a question or words; use \"quotes\" for a phrase and word* for a prefix"},
        CONVERSATION(false, "search only this conversation: its id, key or alias"),
        {"order", PAL_MCP_TEXT, false, 0, 0, 0, search_order,
                "best: any of the words may occur, the best hits first; newest: all must occur; "
                "auto (default): best, unless the query has a phrase or a prefix"},
        {"neighbors", PAL_MCP_NUMBER, false, 0, PAL_SEARCH_NEIGHBORS_MAX, 1, NULL,
                "messages before and after each of the best hits of which the beginning is shown"},
        NAME("sender", PAL_NAME_LEN_MAX, "only messages of this sender"),
        {"role", PAL_MCP_TEXT, false, 0, 0, 0, any_role, "only messages of this role"},
        SINCE("only messages that were sent"),
        UNTIL("only messages that were sent"),
        LIMIT(20),
        CURSOR,
        {0},
};

static const pal_mcp_field create_fields[] = {
        NEW_TITLE,
        NEW_KEY,
        NAME("project", PAL_NAME_LEN_MAX, "the project of the conversation"),
        NAME("agent", PAL_NAME_LEN_MAX, "the agent that answers in the conversation"),
        {0},
};

static const pal_mcp_field append_fields[] = {
        ONE_CONVERSATION,
        SAID("the text of the message"),
        {"role", PAL_MCP_TEXT, false, 0, 0, 0, own_role, "role of the message (user)"},
        NAME("client_id", PAL_CLIENT_ID_LEN_MAX,
                "your id for the message: if you send it again, it is stored once"),
        {0},
};

static const pal_mcp_field remember_fields[] = {
        SAID("the note to store"),
        NAME("topic", PAL_KEY_LEN_MAX,
                "key of the conversation that stores the note (memory)"),
        {0},
};

static const pal_mcp_field continue_fields[] = {
        ONE_CONVERSATION,
        SAID("the message to send"),
        NAME("model", PAL_MODEL_LEN_MAX, "the model that answers (the default model)"),
        {0},
};

static const pal_mcp_field fork_fields[] = {
        ONE_CONVERSATION,
        SEQ("at_seq", 1, "the last message that both conversations share (the newest)"),
        NEW_TITLE,
        NEW_KEY,
        {0},
};

static const pal_mcp_field note_search_fields[] = {
        NAME("query", PAL_SEARCH_TEXT_LEN_MAX, "words or a question; all notes if it is absent"),
        CONVERSATION(false, "show also notes that may be shown in this conversation"),
        {"kind", PAL_MCP_TEXT, false, 0, 0, 0, note_kind, "only notes of this kind"},
        LIMIT(20),
        {0},
};

static const pal_mcp_field note_fields[] = {
        {"text", PAL_MCP_TEXT, true, 1, PAL_NOTE_TEXT_LEN_MAX, 0, NULL,
                "the note: one sentence in the words of the message"},
        {"kind", PAL_MCP_TEXT, false, 0, 0, 0, note_kind, "the kind of the note (fact)"},
        ONE_CONVERSATION,
        {"seq", PAL_MCP_NUMBER, true, 1, INT64_MAX, 0, NULL,
                "seq of the user message that says so"},
        NAME("quote", PAL_NOTE_QUOTE_LEN_MAX, "words of that message, unchanged (the text)"),
        NAME("replaces", PAL_RECORD_NAME_LEN_MAX, "id of the note that is no longer true"),
        {0},
};

static const pal_mcp_field note_retract_fields[] = {
        {"note", PAL_MCP_TEXT, true, 1, PAL_RECORD_NAME_LEN_MAX, 0, NULL, "id of the note"},
        CONVERSATION(false, "a conversation in which the note may be shown"),
        NAME("reason", PAL_NOTE_REASON_LEN_MAX, "why the note is wrong"),
        {0},
};

/* ---- The table ---- */

const pal_mcp_tool pal_mcp_tools[] = {
        {"list_conversations", "List conversations",
                "Lists stored conversations, most recently changed first. Start here, or with "
                "search_conversations, to find earlier messages.",
                true, false, list_fields,
                OBJECT("\"conversations\"",
                        "\"conversations\":" LIST(CONVERSATION_SCHEMA) ",\"next_cursor\":" TEXT),
                pal_mcp_list_conversations},
        {"read_conversation", "Read a conversation",
                "Reads messages of a conversation in order: the newest messages, or those before "
                "or after a seq. If has_more is true, call it again with next_before_seq or "
                "next_after_seq.",
                true, false, read_fields,
                OBJECT("\"conversation\",\"messages\",\"has_more\"",
                        "\"conversation\":" CONVERSATION_SCHEMA ",\"messages\":" LIST(
                                MESSAGE_SCHEMA) ",\"has_more\":" FLAG ",\"next_after_seq\":" COUNT
                                                ",\"next_before_seq\":" COUNT),
                pal_mcp_read_conversation},
        {"search_conversations", "Search conversations",
                "Searches messages, in all conversations or in one, by a question or by words. The "
                "best hits come first. To read the messages around a hit, call read_conversation "
                "with its seq.",
                true, false, search_fields,
                OBJECT("\"hits\"", "\"hits\":" LIST(HIT_SCHEMA) ",\"next_cursor\":" TEXT),
                pal_mcp_search_conversations},
        {"create_conversation", "Create a conversation",
                "Creates an empty conversation. If a conversation with the key exists, returns it "
                "instead, with created set to false.",
                false, false, create_fields,
                OBJECT("\"conversation\",\"created\"",
                        "\"conversation\":" CONVERSATION_SCHEMA ",\"created\":" FLAG),
                pal_mcp_create_conversation},
        {"append_message", "Append a message",
                "Appends one message to a conversation without an answer. The message is safely on "
                "disk when this returns.",
                false, false, append_fields, APPENDED_SCHEMA,
                pal_mcp_append_message},
        {"remember", "Remember something",
                "Stores a note in the conversation whose key is the topic. Creates the "
                "conversation if it does not exist. Use search_conversations or read_conversation "
                "to find the note again.",
                false, false, remember_fields, APPENDED_SCHEMA, pal_mcp_remember},
        {"continue_conversation", "Continue a conversation",
                "Sends a message to a conversation and returns the answer of the model that "
                "Palaver uses. The model sees the earlier messages. If it fails, neither the "
                "message nor an answer is stored.",
                false, true, continue_fields,
                OBJECT("\"conversation\",\"turn_id\",\"text\",\"finish_reason\",\"tool_calls\","
                       "\"usage\"",
                        "\"conversation\":" TEXT ",\"turn_id\":" TEXT ",\"text\":" TEXT
                        ",\"text_is_cut\":" FLAG ",\"message_id\":" TEXT ",\"seq\":" COUNT
                        ",\"finish_reason\":{\"enum\":[\"stop\",\"length\"]},\"tool_calls\":" COUNT
                        ",\"usage\":" USAGE_SCHEMA),
                NULL},
        {"fork_conversation", "Fork a conversation",
                "Creates a conversation that begins with the messages of another one, up to a seq. "
                "Later messages are separate.",
                false, false, fork_fields,
                OBJECT("\"conversation\"", "\"conversation\":" CONVERSATION_SCHEMA),
                pal_mcp_fork_conversation},
        {"search_notes", "Search notes",
                "Searches the long-term memory: notes for everybody, and those that may be shown "
                "in a conversation. A note is one sentence that somebody said.",
                true, false, note_search_fields,
                OBJECT("\"notes\"", "\"notes\":" LIST(NOTE_SCHEMA) ",\"has_more\":" FLAG),
                pal_mcp_search_notes},
        {"add_note", "Add a note",
                "Adds a note that rests on a message of a user. It is rejected if the quote does "
                "not occur in the message, and it becomes pending if it says more than the "
                "message.",
                false, false, note_fields,
                OBJECT("\"note\",\"support\"",
                        "\"note\":" NOTE_SCHEMA ",\"support\":" FLAG),
                pal_mcp_add_note},
        {"retract_note", "Retract a note",
                "Retracts a note that is wrong, so that it is not shown any more. It can be "
                "restored by people.",
                false, false, note_retract_fields, OBJECT("\"note\"", "\"note\":" NOTE_SCHEMA),
                pal_mcp_retract_note},
        {0},
};
