/* transcript_go_session.c - messages of the Go package session: {"id","role","content","parts",
 * "parentId","summary","tokens", "compacted"}, one per line, in an array, or within a session,
 * {"ID","AgentName","ModelID","Messages"}.
 *
 * In this format a part of type "tool" is a call together with its result. In an answer it becomes
 * a call; its output, if there is one, becomes a message of role tool after the answer. The package
 * may repeat the output in a separate tool message, which is then used instead. Values of a
 * message, a part, or the object in a part that have no counterpart are kept in extra under
 * "go_session"; values next to that object are kept in its member "part". A part of an unknown type
 * becomes a text that shows it, with a warning, so that nothing is lost silently. */
#include <stdio.h>
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "dialect/transcript/transcript_reader.h"

#define FAMILY "go_session"
#define UNKNOWN_SHOWN 4096 /* bytes of an unknown part that are shown */

static pal_json find_either(pal_json object, const char *name, const char *other)
{
    pal_json value = pal_json_find(object, name);
    return pal_json_type_of(value) != PAL_JSON_NONE ? value : pal_json_find(object, other);
}

/* ---- Detecting the format ---- */

static bool has_object(pal_json object, const char *name)
{
    return pal_json_type_of(pal_json_find(object, name)) == PAL_JSON_OBJECT;
}

static bool is_message(pal_json message)
{
    pal_json part;
    pal_json parts = pal_json_find(message, "parts");
    if (pal_json_type_of(pal_json_find(message, "role")) != PAL_JSON_STRING)
        return false;
    if (has_object(message, "tokens") ||
            pal_json_type_of(pal_json_find(message, "parentId")) == PAL_JSON_STRING)
        return true;
    for (pal_json_iter iter = pal_json_each(parts); pal_json_next(&iter, NULL, &part);)
        if (has_object(part, "tool") || has_object(part, "image") || has_object(part, "file") ||
                pal_json_type_of(pal_json_find(part, "id")) == PAL_JSON_STRING)
            return true;
    return false;
}

static pal_json messages_of(pal_json line)
{
    if (pal_json_type_of(line) == PAL_JSON_ARRAY)
        return line;
    return find_either(line, "messages", "Messages");
}

bool pal_transcript_is_go_session(pal_json line)
{
    pal_json message, messages = messages_of(line);
    if (pal_json_type_of(pal_json_find(line, "Messages")) == PAL_JSON_ARRAY)
        return true;
    if (pal_json_type_of(messages) != PAL_JSON_ARRAY)
        return is_message(line);
    for (pal_json_iter iter = pal_json_each(messages); pal_json_next(&iter, NULL, &message);)
        if (is_message(message))
            return true;
    return false;
}

/* ---- Parts ---- */

/* The message that is being read. */
typedef struct go_message {
    pal_transcript *in;
    pal_message message;
    pal_part *results; /* results of the answer's tool calls */
    size_t results_len;
} go_message;

static pal_part *add(go_message *r, pal_part_kind kind)
{
    pal_part *part = &r->message.parts[r->message.parts_len++];
    part->kind = kind;
    return part;
}

/* Returns the members that were not read, as one object. A null member is treated as absent. */
static pal_str unread(go_message *r, pal_json object, const char *const *read, pal_str more)
{
    pal_buf buf;
    pal_str kept = {0};
    pal_json name, value;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
        if (pal_json_type_of(value) == PAL_JSON_NULL || pal_member_is_one_of(name, read))
            continue;
        pal_json_name_str(&writer, pal_json_string(name, r->in->line_arena));
        pal_json_put_raw(&writer, pal_json_raw(value));
    }
    if (more.len) {
        pal_put_raw(&writer, "part", more);
    }
    pal_json_end_object(&writer);
    if (buf.failure)
        r->in->failure = PAL_NO_MEMORY;
    else if (buf.len > 2)
        kept = pal_arena_copy(r->in->line_arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return kept;
}

static pal_str wrap(go_message *r, pal_str members)
{
    return members.len ? pal_member_wrap(r->in->line_arena, FAMILY, members) : members;
}

/* Returns the members of a message or a part that have no field here. */
static pal_str keep(go_message *r, pal_json object, const char *const *read)
{
    return wrap(r, unread(r, object, read, (pal_str){0}));
}

/* Returns the unread members of the object inside a part and of the part itself. */
static pal_str keep_inner(go_message *r, pal_json part, const char *name, const char *const *read)
{
    const char *const around[] = {"type", name, NULL};
    pal_str more = unread(r, part, around, (pal_str){0});
    return wrap(r, unread(r, pal_json_find(part, name), read, more));
}

/* A Go program may have stored JSON instead of a string that contains it. */
static pal_str text_of(go_message *r, pal_json object, const char *name)
{
    pal_json value = pal_json_find(object, name);
    pal_json_type type = pal_json_type_of(value);
    if (type == PAL_JSON_STRING)
        return pal_json_string(value, r->in->line_arena);
    return type == PAL_JSON_NONE || type == PAL_JSON_NULL ? (pal_str){0} : pal_json_raw(value);
}

/* A call without an id and a name could not be distinguished from others. */
static bool is_tool(go_message *r, pal_json part)
{
    pal_json tool = pal_json_find(part, "tool");
    return text_of(r, tool, "callId").len || text_of(r, tool, "name").len;
}

/* If there is no output, the error is the result. */
static pal_str error_of(go_message *r, pal_json tool)
{
    pal_json_type type = pal_json_type_of(pal_json_find(tool, "error"));
    if (text_of(r, tool, "output").len || (type != PAL_JSON_STRING && type != PAL_JSON_OBJECT))
        return (pal_str){0};
    return text_of(r, tool, "error");
}

static void read_tool(go_message *r, pal_json part)
{
    /* A result has no arguments. If the error is the text of the result, it counts as read; it is
     * the first name, so that it can be skipped. */
    static const char *const read[] = {"error", "callId", "name", "output", "input", NULL};
    static const char *const result_read[] = {"error", "callId", "name", "output", NULL};
    pal_json tool = pal_json_find(part, "tool");
    pal_str status = pal_member_string(tool, "status", r->in->line_arena);
    pal_str call_id = text_of(r, tool, "callId");
    pal_str name = text_of(r, tool, "name");
    pal_str error = error_of(r, tool);
    size_t skip = error.len ? 0 : 1;
    pal_part result = {.kind = PAL_PART_TOOL_RESULT,
            .call_id = call_id.len ? call_id : name,
            .name = name,
            .text = error.len ? error : text_of(r, tool, "output"),
            .is_error = pal_str_is(status, "error") || error.len};
    bool has_ended = pal_str_is(status, "completed") || result.is_error || result.text.len;
    if (r->message.role == PAL_ROLE_TOOL) {
        result.extra = keep_inner(r, part, "tool", result_read + skip);
        *add(r, PAL_PART_TOOL_RESULT) = result;
        return;
    }
    pal_part *call = add(r, PAL_PART_TOOL_CALL);
    call->call_id = result.call_id;
    call->name = name;
    call->arguments = text_of(r, tool, "input");
    call->extra = keep_inner(r, part, "tool", read + skip);
    if (has_ended)
        r->results[r->results_len++] = result;
}

/* Returns the name of the member with the bytes or the URL of an image or a file, or NULL if there
 * is none. */
static const char *content_name(go_message *r, pal_json media, const char *name)
{
    if (text_of(r, media, name).len)
        return name;
    return text_of(r, media, "url").len ? "url" : NULL;
}

static void read_image(go_message *r, pal_json part)
{
    pal_json image = pal_json_find(part, "image");
    const char *name = content_name(r, image, "image");
    const char *const read[] = {"mimeType", name, NULL};
    pal_str text = text_of(r, image, name);
    pal_part *out = add(r, PAL_PART_IMAGE);
    out->media_type = text_of(r, image, "mimeType");
    out->extra = keep_inner(r, part, "image", read);
    if (pal_base64_decode_url(text, r->in->line_arena, &out->media_type, &out->data))
        return;
    bool is_url = memchr(text.data, ':', text.len) != NULL;
    if (is_url || !pal_base64_decode(text, r->in->line_arena, &out->data) || !out->data.len)
        out->url = text;
    if (out->data.len && !out->media_type.len)
        out->media_type = pal_str_of("image/png");
}

static void read_file(go_message *r, pal_json part)
{
    pal_json file = pal_json_find(part, "file");
    const char *name = content_name(r, file, "data");
    const char *const read[] = {"mimeType", "filename", name, NULL};
    pal_str text = text_of(r, file, name);
    pal_part *out = add(r, PAL_PART_FILE);
    out->media_type = text_of(r, file, "mimeType");
    out->name = text_of(r, file, "filename");
    out->extra = keep_inner(r, part, "file", read);
    if (!pal_base64_decode(text, r->in->line_arena, &out->data))
        out->url = text;
}

/* A media part without any content is not a media part. */
static bool is_media(go_message *r, pal_json part, const char *type, const char *name)
{
    return pal_json_string_is(pal_json_find(part, "type"), type) &&
            content_name(r, pal_json_find(part, type), name) != NULL;
}

static void read_unknown(go_message *r, pal_json part)
{
    char text[UNKNOWN_SHOWN + 64];
    pal_str raw = pal_json_raw(part);
    pal_str type = pal_member_string(part, "type", r->in->line_arena);
    size_t len = raw.len < UNKNOWN_SHOWN ? raw.len : UNKNOWN_SHOWN;
    while (len > 0 && len < raw.len && ((unsigned char)raw.data[len] & 0xc0) == 0x80)
        len--;
    snprintf(text, sizeof(text), "[part of unknown type: %.*s]", (int)len, raw.data);
    pal_transcript_warn(r->in, "'parts': a part of unknown type '%.*s' is kept as text",
            PAL_EXCERPT(type, 60));
    pal_part *out = add(r, PAL_PART_TEXT);
    out->text = pal_arena_copy(r->in->line_arena, pal_str_of(text));
    out->extra = pal_member_wrap(r->in->line_arena, FAMILY, raw);
}

/* Returns whether the content of a part is somewhere else than in its text. */
static bool is_elsewhere(go_message *r, pal_json part)
{
    static const char *const usual[] = {"id", "type", "text", "compacted", NULL};
    return !text_of(r, part, "text").len && unread(r, part, usual, (pal_str){0}).len;
}

static void read_part(go_message *r, pal_json part)
{
    static const struct {
        const char *type;
        pal_part_kind kind;
    } texts[] = {{"text", PAL_PART_TEXT}, {"reasoning", PAL_PART_REASONING},
            {"compaction", PAL_PART_COMPACTION}};
    static const char *const read[] = {"type", "text", NULL};
    pal_json type = pal_json_find(part, "type");
    if (pal_json_string_is(type, "tool") && is_tool(r, part)) {
        read_tool(r, part);
        return;
    }
    if (is_media(r, part, "image", "image")) {
        read_image(r, part);
        return;
    }
    if (is_media(r, part, "file", "data")) {
        read_file(r, part);
        return;
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!pal_json_string_is(type, texts[i].type))
            continue;
        if (texts[i].kind != PAL_PART_COMPACTION && is_elsewhere(r, part))
            break;
        pal_part *out = add(r, texts[i].kind);
        out->text = text_of(r, part, "text");
        out->extra = keep(r, part, read);
        /* The package sends this text for a compaction without a text. */
        if (out->kind == PAL_PART_COMPACTION && !out->text.len)
            out->text = pal_str_of("What did we do so far?");
        return;
    }
    read_unknown(r, part);
}

/* ---- Messages ---- */

static void read_usage(pal_json tokens, pal_message *message)
{
    pal_usage *usage = &message->usage;
    pal_json cache = pal_json_find(tokens, "cache");
    pal_json_u64(pal_json_find(tokens, "input"), &usage->input);
    pal_json_u64(pal_json_find(tokens, "output"), &usage->output);
    pal_json_u64(pal_json_find(tokens, "reasoning"), &usage->reasoning);
    pal_json_u64(pal_json_find(cache, "read"), &usage->cache_read);
    pal_json_u64(pal_json_find(cache, "write"), &usage->cache_write);
    message->has_usage = message->role == PAL_ROLE_ASSISTANT && (usage->input || usage->output);
}

/* An id such as "msg_2" is kept unchanged. If an id occurs twice in a file, the line number is
 * added. */
static void identify(go_message *r, pal_json value, size_t index)
{
    pal_transcript *in = r->in;
    pal_str id = pal_member_string(value, "id", in->line_arena);
    char place[48];
    snprintf(place, sizeof(place), "#%llu.%zu", (unsigned long long)in->line, index + 1);
    if (!id.len)
        id = pal_str_of("line");
    if (pal_str_is(id, "line") || pal_map_find(&in->positions, id))
        id = pal_transcript_suffix(in->line_arena, id, place);
    id = pal_arena_copy(in->kept, id);
    if (!id.data || pal_map_set(&in->positions, id, in) != PAL_OK)
        in->failure = PAL_NO_MEMORY;
    r->message.client_id = id;
}

/* The text next to the parts is added, unless a part repeats it. */
static void read_content(go_message *r, pal_json value)
{
    pal_str text = text_of(r, value, "content");
    pal_json part;
    pal_json parts = pal_json_find(value, "parts");
    for (pal_json_iter iter = pal_json_each(parts); pal_json_next(&iter, NULL, &part);)
        if (pal_str_equal(pal_member_string(part, "text", r->in->line_arena), text) ||
                pal_str_equal(text_of(r, pal_json_find(part, "tool"), "output"), text))
            return;
    if (text.len)
        add(r, PAL_PART_TEXT)->text = text;
}

/* A tool message consists of results. Texts, images and files next to them are added to the first
 * result. If there is no result, they become a result without a call. */
static void gather_results(go_message *r)
{
    pal_message *message = &r->message;
    pal_part *first = NULL;
    size_t kept = 0, others = 0;
    pal_part *rest = pal_arena_array(r->in->line_arena, message->parts_len + 1, sizeof(*rest));
    if (!rest)
        return;
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind == PAL_PART_TOOL_RESULT)
            message->parts[kept++] = message->parts[i];
        else
            rest[1 + others++] = message->parts[i];
    }
    if (!kept && others)
        message->parts[kept++] =
                (pal_part){.kind = PAL_PART_TOOL_RESULT, .call_id = pal_str_of("none")};
    message->parts_len = kept;
    first = kept ? &message->parts[0] : NULL;
    if (!first || !others)
        return;
    rest[0] = (pal_part){.kind = PAL_PART_TEXT, .text = first->text};
    first->parts = first->text.len ? rest : rest + 1;
    first->parts_len = others + (first->text.len > 0);
    first->text = (pal_str){0};
}

static bool repeats(const pal_message *held, const pal_message *message)
{
    for (size_t i = 0; i < held->parts_len; i++)
        for (size_t j = 0; j < message->parts_len; j++)
            if (pal_str_equal(held->parts[i].call_id, message->parts[j].call_id))
                return true;
    return false;
}

/* Results inside an answer are held until the next message shows whether it repeats them. */
static void emit(go_message *r)
{
    pal_transcript *in = r->in;
    if (in->held_len && r->message.role == PAL_ROLE_TOOL &&
            repeats(&in->held[0].message, &r->message)) {
        in->held_len = 0;
        in->position--;
    }
    pal_transcript_emit(in, &r->message);
    if (!r->results_len)
        return;
    pal_message results = {.role = PAL_ROLE_TOOL,
            .parts = r->results,
            .parts_len = r->results_len,
            .created_at = r->message.created_at,
            .client_id =
                    pal_transcript_suffix(in->line_arena, r->message.client_id, "#results")};
    pal_transcript_hold(in, &results, results.parts[0].call_id);
}

static void read_message(pal_transcript *in, pal_json value, size_t index)
{
    static const char *const read[] = {
            "id", "role", "content", "parts", "summary", "tokens", NULL};
    pal_json part;
    pal_json parts = pal_json_find(value, "parts");
    size_t most = pal_json_count(parts) + 1;
    go_message r = {.in = in};
    pal_str role = pal_member_string(value, "role", in->line_arena);
    r.message.role = pal_role_from_name(role);
    r.message.parts = pal_arena_array(in->line_arena, most, sizeof(*r.message.parts));
    r.results = pal_arena_array(in->line_arena, most, sizeof(*r.results));
    if (!r.message.parts || !r.results)
        return; /* the caller checks the arena */
    if (r.message.role == PAL_ROLE_NONE) {
        pal_transcript_warn(in, "skipped: unknown 'role' '%.*s'", PAL_EXCERPT(role, 60));
        return;
    }
    identify(&r, value, index);
    read_content(&r, value);
    for (pal_json_iter iter = pal_json_each(parts); pal_json_next(&iter, NULL, &part);)
        read_part(&r, part);
    if (r.message.role == PAL_ROLE_TOOL)
        gather_results(&r);
    if (r.message.parts_len == 0) {
        pal_transcript_warn(in, "skipped: the message has neither 'content' nor 'parts'");
        return;
    }
    if (pal_json_type_of(pal_json_find(value, "summary")) == PAL_JSON_TRUE)
        r.message.flags |= PAL_MESSAGE_FLAG_SUMMARY;
    read_usage(pal_json_find(value, "tokens"), &r.message);
    r.message.model = in->model;
    r.message.extra = keep(&r, value, read);
    emit(&r);
}

/* ---- Sessions ---- */

static void read_session(pal_transcript *in, pal_json line)
{
    pal_str id = pal_json_string(find_either(line, "id", "ID"), in->line_arena);
    pal_str agent = pal_json_string(find_either(line, "agentName", "AgentName"), in->line_arena);
    pal_str model = pal_json_string(find_either(line, "modelId", "ModelID"), in->line_arena);
    char key[PAL_KEY_LEN_MAX];
    pal_transcript_start_session(in);
    in->model = (pal_str){0};
    pal_transcript_learn(in, &in->model, model);
    pal_transcript_learn(in, &in->facts.original_id, id);
    pal_transcript_learn(in, &in->facts.session.agent, agent);
    int len = id.len ? snprintf(key, sizeof(key), "go-session:%.*s", PAL_STR_ARG(id)) : 0;
    if (len > 0 && (size_t)len < sizeof(key))
        pal_transcript_learn(in, &in->facts.session.key, pal_str_make(key, (size_t)len));
}

void pal_transcript_go_session_read(pal_transcript *in, pal_json line)
{
    pal_json message, messages = messages_of(line);
    size_t index = 0;
    if (pal_json_type_of(messages) != PAL_JSON_ARRAY) {
        read_message(in, line, 0);
        return;
    }
    if (pal_json_type_of(line) == PAL_JSON_OBJECT) {
        read_session(in, line);
        pal_transcript_tell_session(in);
    }
    for (pal_json_iter iter = pal_json_each(messages); pal_json_next(&iter, NULL, &message);)
        read_message(in, message, index++);
}
