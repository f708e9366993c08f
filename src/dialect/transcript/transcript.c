/* transcript.c - turns a line into items: cleans it, parses it, detects the kind of
 * transcript, and holds messages back until they are complete. The files of the formats interpret
 * the lines. */
#include <stdarg.h>
#include <stdio.h>
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "dialect/transcript/transcript_reader.h"
#include "dialect/transcript/transcript_tree.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *const kind_names[] = {
        "auto", "native", "openai", "claude-code", "codex", "skillian", "loom", "sol",
        "go-session", "chatgpt", "claude-ai", "open-webui", "librechat"};

const char *pal_transcript_kind_name(pal_transcript_kind kind)
{
    return kind_names[(unsigned)kind < COUNT_OF(kind_names) ? kind : PAL_TRANSCRIPT_AUTO];
}

bool pal_transcript_kind_from_name(pal_str name, pal_transcript_kind *out_kind)
{
    for (unsigned i = 0; i < COUNT_OF(kind_names); i++) {
        if (pal_str_is(name, kind_names[i])) {
            *out_kind = (pal_transcript_kind)i;
            return true;
        }
    }
    return false;
}

/* ---- Creating and freeing ---- */

pal_transcript *pal_transcript_open(pal_transcript_kind kind)
{
    pal_transcript *in = pal_calloc(1, sizeof(*in));
    if (!in)
        return NULL;
    in->kind = kind;
    in->line_arena = pal_arena_new(0);
    in->held_arena = pal_arena_new(0);
    in->kept = pal_arena_new(0);
    pal_map_init(&in->positions);
    if (!in->line_arena || !in->held_arena || !in->kept) {
        pal_transcript_close(in);
        return NULL;
    }
    return in;
}

void pal_transcript_close(pal_transcript *in)
{
    if (!in)
        return;
    pal_map_done(&in->positions);
    pal_arena_free(in->kept);
    pal_arena_free(in->held_arena);
    pal_arena_free(in->line_arena);
    pal_free(in);
}

pal_transcript_kind pal_transcript_kind_of(const pal_transcript *in)
{
    return in->kind;
}

const pal_transcript_facts *pal_transcript_session(const pal_transcript *in)
{
    return &in->facts;
}

/* ---- Items ---- */

/* Returns NULL if the caller's arena failed. */
static pal_transcript_item *add_item(
        pal_transcript *in, pal_transcript_item_kind kind, uint64_t line)
{
    if (!pal_arena_reserve(in->out_arena, &in->items, &in->items_cap, in->items_len + 1,
                sizeof(*in->items)))
        return NULL;
    pal_transcript_item *item = &in->items[in->items_len++];
    *item = (pal_transcript_item){.kind = kind, .line = line};
    return item;
}

void pal_transcript_warn(pal_transcript *in, const char *format, ...)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pal_transcript_item *item = add_item(in, PAL_ENTRY_WARNING, in->line);
    if (!item)
        return;
    /* The text is never NULL, so that readers of the item need no check. */
    const char *kept = pal_arena_copy(in->out_arena, pal_str_of(text)).data;
    item->u.warning = kept ? kept : "";
}

void pal_transcript_tell_strays(pal_transcript *in, pal_json list)
{
    pal_json item;
    if (pal_json_type_of(list) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &item);) {
        pal_json_type type = pal_json_type_of(item);
        if (type != PAL_JSON_OBJECT && type != PAL_JSON_NULL)
            pal_transcript_warn(in, "a part of 'content' is not an object and is left out");
    }
}

void pal_transcript_tell_opaque(pal_transcript *in, const pal_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const pal_part *part = &parts[i];
        bool has_bytes = part->url.len || part->data.len || part->blob.len || part->name.len;
        if (part->kind == PAL_PART_FILE && !has_bytes)
            pal_transcript_warn(in,
                    "'content[%zu]' has an unknown type: it is stored, but not shown to models",
                    i);
        pal_transcript_tell_opaque(in, part->parts, part->parts_len);
    }
}

static void copy_strings(pal_arena *arena, pal_str **strings, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (strings[i]->len)
            *strings[i] = pal_arena_copy(arena, *strings[i]);
    }
}

static pal_transcript_facts copy_facts(pal_arena *arena, const pal_transcript_facts *facts)
{
    pal_transcript_facts copy = *facts;
    pal_session *session = &copy.session;
    pal_str *strings[] = {&session->tenant, &session->key, &session->title, &session->project,
            &session->agent, &session->scope, &session->metadata, &session->extra,
            &copy.original_id, &copy.cwd, &copy.branch, &copy.bead, &copy.room,
            &copy.conversation, &copy.parent_key, &copy.parent_message};
    copy_strings(arena, strings, COUNT_OF(strings));
    size_t len = session->aliases_len;
    session->aliases = len ? pal_arena_array(arena, len, sizeof(pal_str)) : NULL;
    if (!session->aliases)
        session->aliases_len = 0;
    for (size_t i = 0; i < session->aliases_len; i++)
        session->aliases[i] = pal_arena_copy(arena, facts->session.aliases[i]);
    return copy;
}

void pal_transcript_tell_session(pal_transcript *in)
{
    if (in->session_told)
        return;
    in->session_told = true;
    pal_transcript_item *item = add_item(in, PAL_ENTRY_SESSION, in->line);
    pal_transcript_facts *facts = pal_arena_alloc(in->out_arena, sizeof(*facts));
    if (!item || !facts)
        return;
    *facts = copy_facts(in->out_arena, &in->facts);
    item->u.facts = facts;
}

static pal_part *copy_parts(pal_arena *arena, const pal_part *parts, size_t *parts_len)
{
    size_t len = *parts_len;
    pal_part *copies = len ? pal_arena_array(arena, len, sizeof(*copies)) : NULL;
    if (!copies) {
        *parts_len = 0;
        return NULL;
    }
    for (size_t i = 0; i < len; i++) {
        pal_part *copy = &copies[i];
        *copy = parts[i];
        pal_str *strings[] = {&copy->text, &copy->call_id, &copy->name, &copy->arguments,
                &copy->signature, &copy->family, &copy->media_type, &copy->url, &copy->blob,
                &copy->data, &copy->extra};
        copy_strings(arena, strings, COUNT_OF(strings));
        copy->parts = copy_parts(arena, parts[i].parts, &copy->parts_len);
    }
    return copies;
}

/* Returns a deep copy of a message, in `arena`. */
static pal_message copy_message(pal_arena *arena, const pal_message *message)
{
    pal_message copy = *message;
    pal_str *strings[] = {&copy.model, &copy.client_id, &copy.extra};
    copy_strings(arena, strings, COUNT_OF(strings));
    copy.parts = copy_parts(arena, message->parts, &copy.parts_len);
    copy.sent = pal_native_sent_copy(arena, message->sent);
    return copy;
}

/* A message that could not be stored is neither returned nor counted. */
static bool is_keepable(pal_transcript *in, const pal_message *message)
{
    pal_error error;
    pal_status status = pal_native_message_check(message, &error);
    if (status == PAL_NO_MEMORY)
        in->failure = status;
    else if (status != PAL_OK)
        pal_transcript_warn(in, "skipped: %s", error.message);
    return status == PAL_OK;
}

static void give_out(pal_transcript *in, const pal_message *message, uint64_t line)
{
    pal_transcript_tell_session(in);
    pal_transcript_item *item = add_item(in, PAL_ENTRY_MESSAGE, line);
    if (!item)
        return;
    item->u.message = copy_message(in->out_arena, message);
}

void pal_transcript_emit(pal_transcript *in, const pal_message *message)
{
    pal_transcript_flush(in);
    if (!is_keepable(in, message))
        return;
    in->position++;
    give_out(in, message, in->line);
}

void pal_transcript_emit_mark(pal_transcript *in, const pal_mark *mark)
{
    pal_transcript_flush(in);
    pal_transcript_tell_session(in);
    pal_transcript_item *item = add_item(in, PAL_ENTRY_MARK, in->line);
    if (!item)
        return;
    item->u.mark = *mark;
    if (mark->body.len)
        item->u.mark.body = pal_arena_copy(in->out_arena, mark->body);
}

void pal_transcript_start_session(pal_transcript *in)
{
    pal_transcript_flush(in);
    memset(&in->facts, 0, sizeof(in->facts));
    in->session_told = false;
    in->position = 0;
}

/* ---- Held messages ---- */

void pal_transcript_hold(pal_transcript *in, const pal_message *message, pal_str key)
{
    if (!is_keepable(in, message))
        return;
    if (in->held_len == PAL_TRANSCRIPT_HELD_MAX)
        pal_transcript_flush(in);
    if (in->held_len == 0)
        in->held_key = pal_arena_copy(in->held_arena, key);
    pal_held *held = &in->held[in->held_len++];
    held->message = copy_message(in->held_arena, message);
    held->line = in->line;
    in->position++;
}

bool pal_transcript_extend(pal_transcript *in, const pal_message *piece)
{
    pal_message *first = &in->held[0].message;
    size_t len = in->held_len ? first->parts_len + piece->parts_len : 0;
    if (in->held_len == 0 || len > PAL_MESSAGE_PARTS_MAX)
        return false;
    if (!is_keepable(in, piece))
        return true; /* the piece has nothing worth holding */
    pal_message copy = copy_message(in->held_arena, piece);
    pal_part *parts = pal_arena_array(in->held_arena, len ? len : 1, sizeof(*parts));
    if (!parts)
        return true; /* the caller checks the arena */
    if (first->parts_len)
        memcpy(parts, first->parts, first->parts_len * sizeof(*parts));
    if (copy.parts_len)
        memcpy(parts + first->parts_len, copy.parts, copy.parts_len * sizeof(*parts));
    first->parts_len += copy.parts_len;
    first->parts = parts;
    first->flags |= copy.flags;
    if (copy.has_usage) {
        first->usage = copy.usage; /* each piece repeats the usage, and the last one is complete */
        first->has_usage = true;
    }
    return true;
}

void pal_transcript_flush(pal_transcript *in)
{
    for (size_t i = 0; i < in->held_len; i++)
        give_out(in, &in->held[i].message, in->held[i].line);
    in->held_len = 0;
    in->held_key = pal_str_make(NULL, 0);
    if (pal_arena_failure(in->held_arena) == PAL_OK)
        pal_arena_reset(in->held_arena);
}

/* ---- Facts ---- */

void pal_transcript_relearn(pal_transcript *in, pal_str *fact, pal_str value)
{
    if (value.len && !pal_str_equal(*fact, value))
        *fact = pal_arena_copy(in->kept, value);
}

void pal_transcript_learn(pal_transcript *in, pal_str *fact, pal_str value)
{
    if (fact->len == 0)
        pal_transcript_relearn(in, fact, value);
}

void pal_transcript_settle_facts(pal_transcript *in, const char *agent)
{
    pal_transcript_facts *facts = &in->facts;
    pal_buf text;
    pal_buf_init(&text, PAL_JSON_BYTES_MAX);
    if (facts->original_id.len && facts->session.key.len == 0) {
        pal_buf_format(&text, "%s:", agent);
        pal_buf_append_str(&text, facts->original_id);
        pal_transcript_learn(in, &facts->session.key, pal_buf_str(&text));
        text.len = 0;
    }
    pal_transcript_learn(in, &facts->session.project, facts->cwd);
    pal_transcript_learn(in, &facts->session.agent, pal_str_of(agent));
    pal_json_writer writer = pal_json_writer_make(&text);
    pal_json_begin_object(&writer);
    pal_put_str_if(&writer, "source", pal_str_of(agent));
    pal_put_str_if(&writer, "original_id", facts->original_id);
    pal_put_str_if(&writer, "branch", facts->branch);
    pal_json_end_object(&writer);
    if (text.failure)
        in->failure = text.failure;
    else
        pal_transcript_relearn(in, &facts->session.metadata, pal_buf_str(&text));
    pal_buf_done(&text);
}

/* ---- Helpers for the formats ---- */

pal_str pal_transcript_texts(pal_arena *arena, pal_json array)
{
    size_t len = 0;
    pal_json item;
    for (pal_json_iter iter = pal_json_each(array); pal_json_next(&iter, NULL, &item);)
        len += pal_member_string(item, "text", arena).len + 2;
    char *data = pal_arena_alloc(arena, len + 1);
    if (!data)
        return pal_str_make(NULL, 0);
    size_t at = 0;
    for (pal_json_iter iter = pal_json_each(array); pal_json_next(&iter, NULL, &item);) {
        pal_str text = pal_member_string(item, "text", arena);
        if (at && text.len) {
            memcpy(data + at, "\n\n", 2);
            at += 2;
        }
        if (text.len)
            memcpy(data + at, text.data, text.len);
        at += text.len;
    }
    return pal_str_make(data, at);
}

pal_str pal_transcript_number_id(pal_arena *arena, const char *prefix, uint64_t number)
{
    char text[64];
    snprintf(text, sizeof(text), "%s:%llu", prefix, (unsigned long long)number);
    return pal_arena_copy(arena, pal_str_of(text));
}

pal_str pal_transcript_suffix(pal_arena *arena, pal_str text, const char *suffix)
{
    size_t suffix_len = strlen(suffix);
    char *data = pal_arena_alloc(arena, text.len + suffix_len + 1);
    if (!data)
        return pal_str_make(NULL, 0);
    if (text.len)
        memcpy(data, text.data, text.len);
    memcpy(data + text.len, suffix, suffix_len);
    return pal_str_make(data, text.len + suffix_len);
}

/* ---- Detecting the format ---- */

static bool has(pal_json object, const char *name)
{
    return pal_json_type_of(pal_json_find(object, name)) != PAL_JSON_NONE;
}

/* Returns AUTO if this line does not show the format. */
static pal_transcript_kind detect_typed(pal_json line)
{
    static const char *const codex_items[] = {"message", "reasoning", "function_call",
            "function_call_output", "custom_tool_call", "custom_tool_call_output",
            "local_shell_call", "web_search_call", NULL};
    static const char *const claude_records[] = {"summary", "ai-title", "custom-title",
            "file-history-snapshot", "queue-operation", "last-prompt", NULL};
    pal_json type = pal_json_find(line, "type");
    if (has(line, "payload"))
        return PAL_TRANSCRIPT_CODEX;
    if (has(line, "uuid") || has(line, "sessionId") || has(line, "message") ||
            pal_member_is_one_of(type, claude_records))
        return PAL_TRANSCRIPT_CLAUDE_CODE;
    if (pal_member_is_one_of(type, codex_items))
        return PAL_TRANSCRIPT_CODEX;
    return PAL_TRANSCRIPT_AUTO;
}

static pal_transcript_kind detect(pal_json line)
{
    if (has(line, "conversation_data"))
        return PAL_TRANSCRIPT_SKILLIAN;
    if (has(line, "session_id") && has(line, "messages") &&
            (has(line, "bead_id") || has(line, "project_id") || has(line, "expires_at")))
        return PAL_TRANSCRIPT_LOOM;
    if (has(line, "room_id") && has(line, "conversation_id"))
        return PAL_TRANSCRIPT_SOL;
    if (has(line, "mapping"))
        return PAL_TRANSCRIPT_CHATGPT;
    if (has(line, "chat_messages"))
        return PAL_TRANSCRIPT_CLAUDE_AI;
    if (pal_json_type_of(pal_json_find(line, "chat")) == PAL_JSON_OBJECT)
        return PAL_TRANSCRIPT_OPEN_WEBUI;
    if (has(line, "conversationId") && (has(line, "messages") || has(line, "messagesTree")))
        return PAL_TRANSCRIPT_LIBRECHAT;
    if (pal_transcript_is_go_session(line))
        return PAL_TRANSCRIPT_GO_SESSION;
    if (pal_json_type_of(line) == PAL_JSON_ARRAY || has(line, "messages"))
        return PAL_TRANSCRIPT_OPENAI_CHAT;
    if (has(line, "palaver"))
        return PAL_TRANSCRIPT_NATIVE;
    if (has(line, "type"))
        return detect_typed(line);
    if (has(line, "role"))
        return has(line, "parts") || has(line, "seq") || has(line, "client_id")
                ? PAL_TRANSCRIPT_NATIVE
                : PAL_TRANSCRIPT_OPENAI_CHAT;
    /* Older Codex files begin with a line of plain metadata. */
    if (has(line, "record_type") || (has(line, "id") && has(line, "timestamp")))
        return PAL_TRANSCRIPT_CODEX;
    return PAL_TRANSCRIPT_AUTO;
}

/* ---- Lines ---- */

/* Removes the byte order mark, the line end and surrounding white space. */
static pal_str clean(pal_str line, bool is_first)
{
    static const char mark[] = "\xef\xbb\xbf";
    if (is_first && pal_text_begins(line, mark))
        line = pal_str_make(line.data + 3, line.len - 3);
    while (line.len && strchr(" \t\r\n", line.data[line.len - 1]) && line.data[line.len - 1])
        line.len--;
    while (line.len && strchr(" \t\r\n", line.data[0]) && line.data[0])
        line = pal_str_make(line.data + 1, line.len - 1);
    return line;
}

/* A short message of the Go package can look like one of Palaver. A later one can show the format,
 * which is then used from there on. */
static void find_kind(pal_transcript *in, pal_json line)
{
    if (in->is_guess && pal_transcript_is_go_session(line)) {
        in->kind = PAL_TRANSCRIPT_GO_SESSION;
        in->is_guess = false;
    }
    if (in->kind != PAL_TRANSCRIPT_AUTO)
        return;
    in->kind = detect(line);
    in->is_guess = in->kind == PAL_TRANSCRIPT_NATIVE && has(line, "role");
}

static void read_line(pal_transcript *in, pal_json line)
{
    find_kind(in, line);
    switch (in->kind) {
    case PAL_TRANSCRIPT_NATIVE:
        pal_transcript_native_read(in, line);
        break;
    case PAL_TRANSCRIPT_OPENAI_CHAT:
        pal_transcript_openai_read(in, line);
        break;
    case PAL_TRANSCRIPT_CLAUDE_CODE:
        pal_transcript_claude_code_read(in, line);
        break;
    case PAL_TRANSCRIPT_CODEX:
        pal_transcript_codex_read(in, line);
        break;
    case PAL_TRANSCRIPT_SKILLIAN:
        pal_transcript_skillian_read(in, line);
        break;
    case PAL_TRANSCRIPT_LOOM:
        pal_transcript_loom_read(in, line);
        break;
    case PAL_TRANSCRIPT_SOL:
        pal_transcript_sol_read(in, line);
        break;
    case PAL_TRANSCRIPT_GO_SESSION:
        pal_transcript_go_session_read(in, line);
        break;
    case PAL_TRANSCRIPT_CHATGPT:
        pal_transcript_chatgpt_read(in, line);
        break;
    case PAL_TRANSCRIPT_CLAUDE_AI:
        pal_transcript_claude_ai_read(in, line);
        break;
    case PAL_TRANSCRIPT_OPEN_WEBUI:
        pal_transcript_open_webui_read(in, line);
        break;
    case PAL_TRANSCRIPT_LIBRECHAT:
        pal_transcript_librechat_read(in, line);
        break;
    default:
        pal_transcript_warn(in, "the line is not from a known kind of transcript");
        break;
    }
}

/* LibreChat nests messages in each other. Of other formats, values are kept, which must not be
 * nested more deeply than a message can be. */
static bool may_be_deeper(const pal_transcript *in, pal_json line)
{
    return in->kind == PAL_TRANSCRIPT_LIBRECHAT ||
            (in->kind == PAL_TRANSCRIPT_AUTO && detect(line) == PAL_TRANSCRIPT_LIBRECHAT);
}

static void parse_line(pal_transcript *in, pal_str text)
{
    const pal_json_limits limits = {
            .bytes_max = PAL_TRANSCRIPT_LINE_MAX, .depth_max = PAL_MESSAGE_DEPTH_MAX};
    const pal_json_limits deep = {.bytes_max = PAL_TRANSCRIPT_LINE_MAX};
    pal_json line;
    pal_error error;
    pal_arena_reset(in->line_arena);
    pal_status status = pal_json_parse(in->line_arena, text, &limits, &line, &error);
    if (status == PAL_LIMIT &&
            pal_json_parse(in->line_arena, text, &deep, &line, NULL) == PAL_OK &&
            may_be_deeper(in, line))
        status = PAL_OK;
    if (status == PAL_OK)
        read_line(in, line);
    else if (status != PAL_NO_MEMORY)
        pal_transcript_warn(in, "skipped: %s", error.message);
}

static void begin_call(pal_transcript *in, pal_arena *arena)
{
    in->out_arena = arena;
    in->items = NULL;
    in->items_len = in->items_cap = 0;
}

static pal_status end_call(pal_transcript *in, pal_transcript_items *out_items, pal_error *err)
{
    const pal_arena *arenas[] = {in->out_arena, in->line_arena, in->held_arena, in->kept};
    for (size_t i = 0; i < COUNT_OF(arenas); i++) {
        pal_status status = pal_arena_checked(arenas[i], err);
        if (status != PAL_OK)
            return status;
    }
    if (in->failure != PAL_OK)
        return pal_error_set(err, in->failure, "out of memory");
    out_items->items = in->items;
    out_items->len = in->items_len;
    return PAL_OK;
}

pal_status pal_transcript_feed(pal_transcript *in, pal_str line, pal_arena *arena,
        pal_transcript_items *out_items, pal_error *err)
{
    begin_call(in, arena);
    in->line++;
    pal_str text = clean(line, in->line == 1);
    if (text.len)
        parse_line(in, text);
    return end_call(in, out_items, err);
}

pal_status pal_transcript_finish(
        pal_transcript *in, pal_arena *arena, pal_transcript_items *out_items, pal_error *err)
{
    begin_call(in, arena);
    pal_transcript_flush(in);
    return end_call(in, out_items, err);
}
