/* picoclaw_write.c - writes PicoClaw's lines.
 *
 * The members that PicoClaw understands are written first. They are then read back by the plain
 * rules, and everything that differs goes into "palaver". So nothing is lost if reader and writer
 * interpret a rule differently. A message of one text needs no such check.
 *
 * PicoClaw's decoder rejects a whole line if a member that it knows has another type, and it
 * ignores the case of names ("Role"). So members of an extra are written only if they cannot be
 * mistaken for a known member. */
#include "base/clock.h"
#include "base/json/json_put.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "dialect/picoclaw/picoclaw_part.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define NOWHERE SIZE_MAX

/* The times that a line can express. The millisecond before the first one would mean "no time". */
#define TIME_FIRST INT64_C(-62135596799999)
#define TIME_LAST INT64_C(253402300799999)

typedef struct line {
    pal_json_writer writer;
    const pal_message *message;
    pal_arena *arena; /* NULL for a plain line */
    size_t start;     /* offset of the line in the buf */
    pal_str content;
    size_t content_part; /* index of the only part that provides the text, or NOWHERE */
    pal_str reasoning;
    size_t reasoning_part;
    bool parts_differ; /* the parts differ from those that the plain rules read */
    bool extra_differs;
    bool role_differs;
} line;

/* ---- Texts ---- */

typedef bool (*wanted_fn)(const pal_part *part);

static bool is_spoken(const pal_part *part)
{
    return part->kind == PAL_PART_TEXT || part->kind == PAL_PART_COMPACTION ||
            part->kind == PAL_PART_TOOL_RESULT;
}

static bool is_reasoning(const pal_part *part)
{
    return part->kind == PAL_PART_REASONING;
}

static void join_texts(pal_buf *buf, const pal_part *parts, size_t len, wanted_fn wanted)
{
    for (size_t i = 0; i < len; i++) {
        if (!wanted(&parts[i]))
            continue;
        if (buf->len && parts[i].text.len)
            pal_buf_append_text(buf, "\n\n");
        pal_buf_append_str(buf, parts[i].text);
        join_texts(buf, parts[i].parts, parts[i].parts_len, wanted);
    }
}

/* If only one part has a text, returns it. Otherwise joins all texts with blank lines. */
static pal_str gather(line *out, wanted_fn wanted, size_t *out_part)
{
    const pal_message *message = out->message;
    size_t found = NOWHERE, count = 0;
    pal_str text = {0};
    pal_buf buf;
    for (size_t i = 0; i < message->parts_len; i++) {
        if (!wanted(&message->parts[i]))
            continue;
        found = i;
        count += 1 + message->parts[i].parts_len;
    }
    *out_part = count == 1 ? found : NOWHERE;
    if (count <= 1)
        return count ? message->parts[found].text : text;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    join_texts(&buf, message->parts, message->parts_len, wanted);
    if (pal_member_keep(&buf, out->arena, &text, NULL) != PAL_OK)
        out->writer.buf->failure = PAL_NO_MEMORY;
    pal_buf_done(&buf);
    return text;
}

/* ---- Members of extras ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Returns whether PicoClaw would read the name as one of these. Its decoder also folds a few
 * letters beyond ASCII (U+017F as s, U+212A as k), so names that are not plain ASCII are never
 * trusted. */
static bool is_like_one_of(pal_str name, const char *const *names, size_t names_len)
{
    for (size_t i = 0; i < name.len; i++) {
        if ((unsigned char)name.data[i] >= 0x80)
            return true;
    }
    for (size_t i = 0; i < names_len; i++) {
        size_t at = 0;
        while (at < name.len && names[i][at] && lower(name.data[at]) == names[i][at])
            at++;
        if (at == name.len && !names[i][at])
            return true;
    }
    return false;
}

static bool is_text(pal_json value)
{
    return pal_json_type_of(value) == PAL_JSON_STRING;
}

/* The value must be absent or an object with a string, such as {"type":"ephemeral"}. */
static bool is_object_of_text(pal_json value, const char *name)
{
    pal_json text = pal_json_find(value, name);
    return pal_json_type_of(value) == PAL_JSON_NONE ||
            (pal_json_type_of(value) == PAL_JSON_OBJECT &&
                    (pal_json_type_of(text) == PAL_JSON_NONE || is_text(text)));
}

static bool are_system_parts(pal_json array)
{
    pal_json item;
    bool good = pal_json_type_of(array) == PAL_JSON_ARRAY;
    for (pal_json_iter iter = pal_json_each(array); good && pal_json_next(&iter, NULL, &item);)
        good = is_text(pal_json_find(item, "type")) && is_text(pal_json_find(item, "text")) &&
                is_object_of_text(pal_json_find(item, "cache_control"), "type");
    return good;
}

static bool is_extra_content(pal_json value)
{
    return is_object_of_text(value, "tool_feedback_explanation") &&
            is_object_of_text(pal_json_find(value, "google"), "thought_signature");
}

static void put_member(line *out, pal_json name, pal_json value)
{
    pal_json_name_str(&out->writer, pal_json_string(name, out->arena));
    pal_json_put_raw(&out->writer, pal_json_raw(value));
}

/* Returns the object that an extra keeps under "picoclaw", or a zeroed value if there is none. */
static pal_json kept_in(const line *out, pal_str extra)
{
    pal_json value = {0};
    if (!extra.len || !out->arena ||
            pal_json_parse(out->arena, extra, NULL, &value, NULL) != PAL_OK)
        return (pal_json){0};
    return pal_json_find(value, PAL_PICOCLAW_KEPT);
}

/* Writes the members of `kept` that PicoClaw cannot confuse with one of `names`. `odd` is an
 * exception: it is written if its value is valid. */
static void put_kept(line *out, pal_json kept, const char *const *names, size_t names_len,
        const char *odd, bool (*is_good)(pal_json value))
{
    pal_json name, value;
    if (pal_json_type_of(kept) != PAL_JSON_OBJECT)
        return;
    for (pal_json_iter iter = pal_json_each(kept); pal_json_next(&iter, &name, &value);) {
        if (is_like_one_of(pal_json_string(name, out->arena), names, names_len) &&
                !(pal_json_string_is(name, odd) && is_good(value)))
            continue;
        put_member(out, name, value);
    }
}

/* ---- Members of a line ---- */

static void put_text(line *out, const char *name, pal_str text)
{
    if (!text.len)
        return;
    pal_put_str(&out->writer, name, text);
}

/* An unknown role is kept in the extra. A message with results always has the role tool. */
static void put_role(line *out)
{
    const pal_message *message = out->message;
    pal_role role = message->role;
    pal_str name = {0};
    if (role == PAL_ROLE_USER && out->arena) {
        pal_json kept = pal_json_find(kept_in(out, message->extra), "role");
        name = pal_json_string(kept, out->arena);
        if (pal_role_from_name(name) != PAL_ROLE_NONE)
            name.len = 0;
    }
    if (!name.len && role == PAL_ROLE_USER && message->parts_len &&
            message->parts[0].kind == PAL_PART_TOOL_RESULT)
        role = PAL_ROLE_TOOL;
    pal_put_str(&out->writer, "role", name.len ? name : pal_str_of(pal_role_name(role)));
}

static bool can_say_time(const pal_message *message)
{
    return message->created_at >= TIME_FIRST && message->created_at <= TIME_LAST;
}

static void put_time(line *out)
{
    char text[PAL_TIME_TEXT_SIZE];
    if (out->message->created_at == 0 || !can_say_time(out->message))
        return;
    size_t len = pal_time_to_text(out->message->created_at, text);
    put_text(out, "created_at", pal_str_make(text, len));
}

static bool is_medium(const pal_part *part)
{
    return part->kind == PAL_PART_IMAGE && (part->url.len || part->data.len);
}

static bool is_attachment(const pal_part *part)
{
    return part->kind == PAL_PART_FILE;
}

static bool is_call(const pal_part *part)
{
    return part->kind == PAL_PART_TOOL_CALL;
}

static void put_medium(line *out, const pal_part *part)
{
    pal_buf prefix;
    if (part->url.len) {
        pal_json_put_str(&out->writer, part->url);
        return;
    }
    pal_buf_init(&prefix, PAL_JSON_BYTES_MAX);
    pal_buf_append_text(&prefix, "data:");
    pal_buf_append_str(&prefix, part->media_type);
    pal_buf_append_text(&prefix, ";base64,");
    pal_base64_encode(&prefix, part->data);
    if (prefix.failure)
        out->writer.buf->failure = prefix.failure;
    pal_json_put_str(&out->writer, pal_buf_str(&prefix));
    pal_buf_done(&prefix);
}

static void put_attachment(line *out, const pal_part *part)
{
    static const char *const names[] = {"type", "ref", "url", "filename", "content_type"};
    pal_json kept = kept_in(out, part->extra);
    pal_json_begin_object(&out->writer);
    put_text(out, "type", pal_json_string(pal_json_find(kept, "type"), out->arena));
    put_text(out, "ref", pal_json_string(pal_json_find(kept, "ref"), out->arena));
    put_text(out, "url", part->url);
    put_text(out, "filename", part->name);
    put_text(out, "content_type", part->media_type);
    put_kept(out, kept, names, COUNT_OF(names), "", is_text);
    pal_json_end_object(&out->writer);
}

static void put_call(line *out, const pal_part *part)
{
    static const char *const outer[] = {"id", "type", "function", "extra_content"};
    static const char *const inner[] = {"name", "arguments", "thought_signature"};
    pal_json kept = kept_in(out, part->extra);
    pal_str type = pal_json_string(pal_json_find(kept, "type"), out->arena);
    pal_json_begin_object(&out->writer);
    pal_put_str(&out->writer, "id", part->call_id);
    put_text(out, "type", type.len ? type : pal_str_of("function"));
    pal_json_name(&out->writer, "function");
    pal_json_begin_object(&out->writer);
    pal_put_str(&out->writer, "name", part->name);
    pal_put_str(&out->writer, "arguments", part->arguments);
    put_kept(out, pal_json_find(kept, "function"), inner, COUNT_OF(inner), "thought_signature",
            is_text);
    pal_json_end_object(&out->writer);
    put_kept(out, kept, outer, COUNT_OF(outer), "extra_content", is_extra_content);
    pal_json_end_object(&out->writer);
}

static void put_array(
        line *out, const char *name, wanted_fn wanted, void (*put)(line *out, const pal_part *part))
{
    bool begun = false;
    for (size_t i = 0; i < out->message->parts_len; i++) {
        const pal_part *part = &out->message->parts[i];
        if (!wanted(part))
            continue;
        if (!begun) {
            pal_json_name(&out->writer, name);
            pal_json_begin_array(&out->writer);
            begun = true;
        }
        put(out, part);
    }
    if (begun)
        pal_json_end_array(&out->writer);
}

static pal_str result_call_id(const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind == PAL_PART_TOOL_RESULT)
            return message->parts[i].call_id;
    }
    return pal_str_make(NULL, 0);
}

/* Members that were moved because a native member has the same name are written to their original
 * place. */
static void put_sheltered(line *out, pal_json kept)
{
    pal_json name, value;
    if (pal_json_type_of(kept) != PAL_JSON_OBJECT)
        return;
    for (pal_json_iter iter = pal_json_each(kept); pal_json_next(&iter, &name, &value);) {
        if (pal_picoclaw_is_native_name(name))
            put_member(out, name, value);
    }
}

static void put_extra(line *out)
{
    static const char *const names[] = {"role", "content", "model_name", "created_at", "media",
            "attachments", "reasoning_content", "system_parts", "tool_calls", "tool_call_id",
            PAL_PICOCLAW_OURS, PAL_PICOCLAW_KEPT};
    pal_json extra;
    if (!out->message->extra.len || !out->arena ||
            pal_json_parse(out->arena, out->message->extra, NULL, &extra, NULL) != PAL_OK)
        return;
    put_sheltered(out, pal_json_find(extra, PAL_PICOCLAW_KEPT));
    put_kept(out, extra, names, COUNT_OF(names), "system_parts", are_system_parts);
}

static void put_members(line *out)
{
    put_role(out);
    pal_put_str(&out->writer, "content", out->content);
    put_text(out, "model_name", out->message->model);
    put_time(out);
    put_array(out, "media", is_medium, put_medium);
    put_array(out, "attachments", is_attachment, put_attachment);
    put_text(out, "reasoning_content", out->reasoning);
    put_array(out, "tool_calls", is_call, put_call);
    put_text(out, "tool_call_id", result_call_id(out->message));
    put_extra(out);
}

/* ---- Comparing with the original ---- */

static bool parts_equal(const pal_part *a, size_t a_len, const pal_part *b, size_t b_len);

static bool part_equal(const pal_part *a, const pal_part *b)
{
    return a->kind == b->kind && a->is_error == b->is_error && pal_str_equal(a->text, b->text) &&
            pal_str_equal(a->call_id, b->call_id) && pal_str_equal(a->name, b->name) &&
            pal_str_equal(a->arguments, b->arguments) &&
            pal_str_equal(a->signature, b->signature) && pal_str_equal(a->family, b->family) &&
            pal_str_equal(a->media_type, b->media_type) && pal_str_equal(a->url, b->url) &&
            pal_str_equal(a->blob, b->blob) && pal_str_equal(a->data, b->data) &&
            pal_str_equal(a->extra, b->extra) &&
            parts_equal(a->parts, a->parts_len, b->parts, b->parts_len);
}

static bool parts_equal(const pal_part *a, size_t a_len, const pal_part *b, size_t b_len)
{
    bool equal = a_len == b_len;
    for (size_t i = 0; equal && i < a_len; i++)
        equal = part_equal(&a[i], &b[i]);
    return equal;
}

/* Closes the line temporarily and reads it again. */
static void compare(line *out)
{
    pal_buf *buf = out->writer.buf;
    pal_json value;
    pal_picoclaw_plain plain;
    out->parts_differ = out->extra_differs = out->role_differs = true;
    pal_buf_append_char(buf, '}');
    if (buf->failure)
        return;
    pal_str text = pal_str_make(buf->data + out->start, buf->len - out->start);
    buf->len--;
    if (pal_json_parse(out->arena, text, NULL, &value, NULL) != PAL_OK ||
            pal_picoclaw_plain_read(value, out->arena, &plain, NULL) != PAL_OK)
        return;
    const pal_message *message = out->message;
    out->role_differs = plain.message.role != message->role;
    out->extra_differs = !pal_str_equal(plain.message.extra, message->extra);
    out->parts_differ = !parts_equal(
            plain.message.parts, plain.message.parts_len, message->parts, message->parts_len);
}

/* ---- The member "palaver" ---- */

/* Returns the parts without the texts that are already in the line. */
static pal_part *lean_parts(const line *out)
{
    const pal_message *message = out->message;
    pal_part *parts = pal_arena_array(out->arena, message->parts_len + 1, sizeof(*parts));
    if (!parts)
        return NULL;
    for (size_t i = 0; i < message->parts_len; i++) {
        parts[i] = message->parts[i];
        if (i == out->content_part || i == out->reasoning_part)
            parts[i].text = pal_str_make(NULL, 0);
        parts[i].arguments = pal_str_make(NULL, 0);
    }
    return parts;
}

static void put_marks(line *out)
{
    pal_json_writer *writer = &out->writer;
    if (out->extra_differs) {
        pal_put_flag(writer, "extra", true);
    }
    if (!out->parts_differ)
        return;
    pal_put_flag(writer, "parts", true);
    if (out->content_part != NOWHERE) {
        pal_put_count(writer, "content", out->content_part);
    }
    if (out->reasoning_part != NOWHERE) {
        pal_put_count(writer, "reasoning", out->reasoning_part);
    }
    pal_put_flag(writer, "calls", true);
}

static bool needs_more(const line *out, const pal_message *rest)
{
    return out->parts_differ || out->extra_differs || out->role_differs || rest->created_at ||
            !pal_id_is_none(rest->id) || !pal_id_is_none(rest->parent_id) || rest->seq ||
            rest->has_usage || rest->flags || rest->tokens || rest->client_id.len ||
            !pal_id_is_none(rest->turn_id) || rest->sent;
}

static void put_rest(line *out)
{
    pal_json_writer *writer = &out->writer;
    pal_message rest = *out->message;
    rest.model = pal_str_make(NULL, 0);
    if (can_say_time(&rest))
        rest.created_at = 0;
    if (!out->extra_differs)
        rest.extra = pal_str_make(NULL, 0);
    rest.parts = out->parts_differ ? lean_parts(out) : NULL;
    if (!rest.parts)
        rest.parts_len = 0;
    if (!needs_more(out, &rest))
        return;
    pal_json_name(writer, PAL_PICOCLAW_OURS);
    pal_json_begin_object(writer);
    pal_json_name(writer, "message");
    pal_status status = pal_native_message_put(writer, &rest, NULL);
    if (status != PAL_OK && !writer->buf->failure)
        writer->buf->failure = status;
    if (!writer->buf->failure)
        put_marks(out);
    if (!writer->buf->failure)
        pal_json_end_object(writer);
}

/* An extra may contain line breaks. In JSON a raw line break is white space, so it can be
 * removed. */
static void flatten(pal_buf *buf, size_t start)
{
    char *end = buf->data + buf->len;
    for (char *p = buf->data + start; p < end && (p = memchr(p, '\n', (size_t)(end - p)));)
        *p = ' ';
}

void pal_picoclaw_line_write(pal_buf *buf, const pal_message *message)
{
    line out = {.writer = pal_json_writer_make(buf), .message = message, .start = buf->len};
    bool simple = message->parts_len == 1 && message->parts[0].kind == PAL_PART_TEXT &&
            !message->parts[0].extra.len && !message->extra.len;
    if (!simple && !(out.arena = pal_arena_new(0))) {
        buf->failure = PAL_NO_MEMORY;
        return;
    }
    out.content = gather(&out, is_spoken, &out.content_part);
    out.reasoning = gather(&out, is_reasoning, &out.reasoning_part);
    pal_json_begin_object(&out.writer);
    put_members(&out);
    if (!simple && !buf->failure)
        compare(&out);
    if (!buf->failure)
        put_rest(&out);
    if (!buf->failure)
        pal_json_end_object(&out.writer);
    if (!buf->failure && !simple)
        flatten(buf, out.start);
    if (out.arena && pal_arena_failure(out.arena) != PAL_OK)
        buf->failure = PAL_NO_MEMORY;
    pal_arena_free(out.arena);
}
