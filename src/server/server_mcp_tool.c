/* server_mcp_tool.c - the tools that MCP clients are offered, in one table. Names and members are
 * for models: a conversation is what the rest of Palaver calls a session. */
#include "server/server_mcp_inside.h"

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

#define HIT_SCHEMA                                                                                 \
    OBJECT("\"conversation\",\"seq\",\"role\",\"created_at\",\"snippet\"",                         \
            "\"conversation\":" TEXT ",\"key\":" TEXT ",\"title\":" TEXT ",\"seq\":" COUNT         \
            ",\"role\":" TEXT ",\"created_at\":" TIME ",\"snippet\":" TEXT)

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
static const char *const own_role[] = {"user", "assistant", "system", NULL};

/* clang-format off */
#define CONVERSATION(required, what) \
    {"conversation", PAL_MCP_TEXT, required, 1, PAL_KEY_LEN_MAX, 0, NULL, what}
#define ONE_CONVERSATION CONVERSATION(true, "its id, key or alias")
#define LIMIT(fallback) \
    {"limit", PAL_MCP_NUMBER, false, 1, PAL_SERVER_MCP_PAGE_MAX, fallback, NULL, "at most so many"}
#define CURSOR \
    {"cursor", PAL_MCP_TEXT, false, 0, PAL_KEY_LEN_MAX, 0, NULL, \
            "next_cursor of the page before"}
#define SINCE(what) {"since", PAL_MCP_TIME, false, 0, 0, 0, NULL, what " then or later"}
#define UNTIL(what) {"until", PAL_MCP_TIME, false, 0, 0, 0, NULL, what " before then"}
#define SAID(what) \
    {"text", PAL_MCP_TEXT, true, 1, PAL_SERVER_MCP_INPUT_BYTES_MAX, 0, NULL, what}
#define NAME(name, max, what) {name, PAL_MCP_TEXT, false, 0, max, 0, NULL, what}
#define NEW_KEY \
    NAME("key", PAL_KEY_LEN_MAX, "a name to find it by, that no other conversation has")
#define NEW_TITLE NAME("title", PAL_TITLE_LEN_MAX, "what it is about")
#define SEQ(name, min, what) {name, PAL_MCP_NUMBER, false, min, INT64_MAX, 0, NULL, what}
/* clang-format on */

static const pal_mcp_field list_fields[] = {
        LIMIT(20),
        CURSOR,
        NAME("project", PAL_NAME_LEN_MAX, "only those of this project"),
        NAME("agent", PAL_NAME_LEN_MAX, "only those of this agent"),
        SINCE("only those that changed"),
        UNTIL("only those that changed"),
        {0},
};

static const pal_mcp_field read_fields[] = {
        ONE_CONVERSATION,
        SEQ("after_seq", 0, "read on behind this message; 0 begins with the first"),
        SEQ("before_seq", 1, "read those before this message"),
        LIMIT(50),
        SEQ("text_offset", 1,
                "for a message that was cut: its next_text_offset, with after_seq one less than "
                "its seq"),
        {0},
};

static const pal_mcp_field search_fields[] = {
        {"query", PAL_MCP_TEXT, true, 1, PAL_SEARCH_TEXT_LEN_MAX, 0, NULL,
                "words that must all occur; \"a phrase\" in quotes; a word* may go on"},
        CONVERSATION(false, "only in this one: its id, key or alias"),
        {"role", PAL_MCP_TEXT, false, 0, 0, 0, any_role, "only what this one said"},
        SINCE("only what was said"),
        UNTIL("only what was said"),
        LIMIT(20),
        CURSOR,
        {0},
};

static const pal_mcp_field create_fields[] = {
        NEW_TITLE,
        NEW_KEY,
        NAME("project", PAL_NAME_LEN_MAX, "what it belongs to"),
        NAME("agent", PAL_NAME_LEN_MAX, "who answers in it"),
        {0},
};

static const pal_mcp_field append_fields[] = {
        ONE_CONVERSATION,
        SAID("what was said"),
        {"role", PAL_MCP_TEXT, false, 0, 0, 0, own_role, "who said it; user unless given"},
        NAME("client_id", PAL_CLIENT_ID_LEN_MAX,
                "your own id of the message: sent again, it is kept once"),
        {0},
};

static const pal_mcp_field remember_fields[] = {
        SAID("what to remember"),
        NAME("topic", PAL_KEY_LEN_MAX,
                "the key of the conversation that keeps it; memory unless "
                "given"),
        {0},
};

static const pal_mcp_field continue_fields[] = {
        ONE_CONVERSATION,
        SAID("what to say"),
        NAME("model", PAL_MODEL_LEN_MAX, "which model answers; the usual one unless given"),
        {0},
};

static const pal_mcp_field fork_fields[] = {
        ONE_CONVERSATION,
        SEQ("at_seq", 1, "the last message that both share; the newest unless given"),
        NEW_TITLE,
        NEW_KEY,
        {0},
};

/* ---- The table ---- */

const pal_mcp_offer pal_mcp_offers[] = {
        {"list_conversations", "List conversations",
                "Lists stored conversations, the one that changed last first. Begin here, or with "
                "search_conversations, to find what was said before.",
                PAL_KEY_READ, true, false, list_fields,
                OBJECT("\"conversations\"",
                        "\"conversations\":" LIST(CONVERSATION_SCHEMA) ",\"next_cursor\":" TEXT),
                pal_mcp_list_conversations},
        {"read_conversation", "Read a conversation",
                "Reads messages of a conversation in their order: the newest ones, or those "
                "before or after a message by its seq. Where has_more is true, ask again with "
                "next_before_seq or next_after_seq.",
                PAL_KEY_READ, true, false, read_fields,
                OBJECT("\"conversation\",\"messages\",\"has_more\"",
                        "\"conversation\":" CONVERSATION_SCHEMA ",\"messages\":" LIST(
                                MESSAGE_SCHEMA) ",\"has_more\":" FLAG ",\"next_after_seq\":" COUNT
                                                ",\"next_before_seq\":" COUNT),
                pal_mcp_read_conversation},
        {"search_conversations", "Search conversations",
                "Finds messages by their words, in all conversations or in one, the newest "
                "first. Read around a hit with read_conversation and its seq.",
                PAL_KEY_READ, true, false, search_fields,
                OBJECT("\"hits\"", "\"hits\":" LIST(HIT_SCHEMA) ",\"next_cursor\":" TEXT),
                pal_mcp_search_conversations},
        {"create_conversation", "Create a conversation",
                "Makes an empty conversation. With a key that one has already, that one is given "
                "back instead, and created is false.",
                PAL_KEY_WRITE, false, false, create_fields,
                OBJECT("\"conversation\",\"created\"",
                        "\"conversation\":" CONVERSATION_SCHEMA ",\"created\":" FLAG),
                pal_mcp_create_conversation},
        {"append_message", "Append a message",
                "Appends one message to a conversation; nobody answers it. It is safe on disk "
                "when this returns.",
                PAL_KEY_WRITE, false, false, append_fields, APPENDED_SCHEMA,
                pal_mcp_append_message},
        {"remember", "Remember something",
                "Keeps a note for later, in the conversation that has the topic as its key, which "
                "is made when there is none. Find it again with search_conversations or "
                "read_conversation.",
                PAL_KEY_WRITE, false, false, remember_fields, APPENDED_SCHEMA, pal_mcp_remember},
        {"continue_conversation", "Continue a conversation",
                "Says something in a conversation and returns the answer of the model behind "
                "Palaver, which sees what was said before. Both are kept, or neither where it "
                "fails.",
                PAL_KEY_WRITE, false, true, continue_fields,
                OBJECT("\"conversation\",\"turn_id\",\"text\",\"finish_reason\",\"tool_calls\","
                       "\"usage\"",
                        "\"conversation\":" TEXT ",\"turn_id\":" TEXT ",\"text\":" TEXT
                        ",\"text_is_cut\":" FLAG ",\"message_id\":" TEXT ",\"seq\":" COUNT
                        ",\"finish_reason\":{\"enum\":[\"stop\",\"length\"]},\"tool_calls\":" COUNT
                        ",\"usage\":" USAGE_SCHEMA),
                NULL},
        {"fork_conversation", "Fork a conversation",
                "Makes a conversation that begins with the messages of another up to one of them; "
                "from there on each goes its own way.",
                PAL_KEY_WRITE, false, false, fork_fields,
                OBJECT("\"conversation\"", "\"conversation\":" CONVERSATION_SCHEMA),
                pal_mcp_fork_conversation},
        {0},
};
