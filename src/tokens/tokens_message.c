/* tokens_message.c - counts the tokens of messages and tool declarations in a request.
 *
 * No service documents how it writes a request for its model. These are the rules that OpenAI
 * publishes for its own models. For models of other services they are correct to within a few
 * tokens:
 *
 *   a message   3, its role, and its parts; each tool result is a separate message
 *   a tool      7 (10 before o200k_base), and "name:description"
 *   arguments   3 if there are any, and for each 3 and "name:type:description"
 *   an enum     less 3, and for each value 3 and the value
 *
 * The period at the end of a description is not counted. Nested schemas are counted by the same
 * rules. The caller adds the costs of the request as a whole: 3 for the beginning of the answer,
 * and 12 if it declares tools. Nothing is published about tool calls; they are counted as 3 plus
 * their name and arguments. */
#include "base/buf.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "message/message_check.h"
#include "palaver/limits.h"
#include "palaver/tokens.h"

enum {
    MESSAGE = 3,
    CALL = 3,
    TOOL = 7,
    TOOL_OLD = 10,
    ARGUMENTS = 3,
    ARGUMENT = 3,
    ENUM_VALUE = 3, /* cost of each value; an enum costs 3 less in total */
};

/* ---- Messages ---- */

/* Counts texts one by one. After a failure all further counts fail. */
typedef struct counter {
    const pal_encoding *encoding;
    pal_error *err;
    uint64_t tokens;
    pal_status status;
} counter;

static void count(counter *c, pal_str text)
{
    uint64_t tokens = 0;

    if (c->status != PAL_OK || text.len == 0)
        return;
    if (c->encoding)
        c->status = pal_tokens_count(c->encoding, text, &tokens, c->err);
    else
        tokens = pal_tokens_estimate(text);
    c->tokens += tokens;
}

static void count_frame(counter *c, pal_role role)
{
    c->tokens += MESSAGE;
    count(c, pal_str_of(pal_role_names[(unsigned)role < PAL_ROLES ? role : PAL_ROLE_NONE]));
}

static void count_part(counter *c, const pal_part *part)
{
    count(c, part->text);
    switch (part->kind) {
    case PAL_PART_TOOL_CALL:
        c->tokens += CALL;
        count(c, part->name);
        count(c, part->arguments);
        break;
    case PAL_PART_TOOL_RESULT:
        count_frame(c, PAL_ROLE_TOOL);
        break;
    case PAL_PART_IMAGE:
        c->tokens += PAL_TOKENS_IMAGE;
        break;
    case PAL_PART_FILE:
        c->tokens += PAL_TOKENS_FILE;
        break;
    default:
        break;
    }
}

pal_status pal_tokens_message(const pal_encoding *encoding, const pal_message *message,
        uint64_t *out_tokens, pal_error *err)
{
    counter c = {.encoding = encoding, .err = err};
    size_t results = 0;

    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];

        results += part->kind == PAL_PART_TOOL_RESULT;
        count_part(&c, part);
        for (size_t j = 0; j < part->parts_len; j++) /* the output of a tool; it is one level
                                                        deep */
            count_part(&c, &part->parts[j]);
    }
    if (results == 0 || results < message->parts_len)
        count_frame(&c, message->role);
    if (c.status == PAL_OK)
        *out_tokens = c.tokens;
    return c.status;
}

/* ---- Tools ---- */

/* A schema that was not counted yet. */
typedef struct schema schema;
struct schema {
    pal_json value;
    pal_str name; /* name of the argument; empty if it has none */
    schema *next;
};

typedef struct tool {
    counter c;
    pal_arena *arena; /* holds the schema's JSON and the waiting schemas, at most one per JSON
                         value */
    pal_buf line;
    schema *waiting;
} tool;

static void push(tool *t, pal_json value, pal_str name)
{
    schema *s;

    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return;
    s = pal_arena_alloc(t->arena, sizeof(*s));
    if (!s)
        return;
    *s = (schema){.value = value, .name = name, .next = t->waiting};
    t->waiting = s;
}

static void push_all(tool *t, pal_json values, bool are_arguments)
{
    pal_json_iter iter = pal_json_each(values);
    pal_json name, value;

    while (pal_json_next(&iter, &name, &value))
        push(t, value, are_arguments ? pal_json_string(name, t->arena) : (pal_str){0});
}

static void append_description(tool *t, pal_str text)
{
    if (text.len > 0 && text.data[text.len - 1] == '.')
        text.len--;
    pal_buf_append_char(&t->line, ':');
    pal_buf_append_str(&t->line, text);
}

/* Appends "string", or "string|null" if there are several types. */
static void append_type(tool *t, pal_json type)
{
    pal_json_iter iter = pal_json_each(type);
    pal_json each;
    size_t len = 0;

    pal_buf_append_str(&t->line, pal_json_string(type, t->arena));
    while (pal_json_next(&iter, NULL, &each)) {
        if (len++ > 0)
            pal_buf_append_char(&t->line, '|');
        pal_buf_append_str(&t->line, pal_json_string(each, t->arena));
    }
}

static void count_line(tool *t)
{
    if (t->line.failure != PAL_OK && t->c.status == PAL_OK)
        t->c.status = pal_error_set(t->c.err, t->line.failure,
                "out of memory while counting a tool");
    count(&t->c, pal_buf_str(&t->line));
    pal_buf_clear(&t->line);
}

static void count_enum(tool *t, pal_json values)
{
    pal_json_iter iter = pal_json_each(values);
    pal_json value;

    for (size_t i = 0; pal_json_next(&iter, NULL, &value); i++) {
        bool is_text = pal_json_type_of(value) == PAL_JSON_STRING;

        if (i > 0)
            t->c.tokens += ENUM_VALUE;
        count(&t->c, is_text ? pal_json_string(value, t->arena) : pal_json_raw(value));
    }
}

static void count_argument(tool *t, const schema *s)
{
    t->c.tokens += ARGUMENT;
    pal_buf_append_str(&t->line, s->name);
    pal_buf_append_char(&t->line, ':');
    append_type(t, pal_json_find(s->value, "type"));
    append_description(t, pal_json_string(pal_json_find(s->value, "description"), t->arena));
    count_line(t);
}

static void count_schema(tool *t, const schema *s)
{
    static const char *const one[] = {"items", "additionalProperties"};
    static const char *const lists[] = {"anyOf", "oneOf", "allOf", "prefixItems"};
    static const char *const names[] = {"properties", "$defs", "definitions"};

    if (s->name.len > 0)
        count_argument(t, s);
    count_enum(t, pal_json_find(s->value, "enum"));
    if (pal_json_count(pal_json_find(s->value, "properties")) > 0)
        t->c.tokens += ARGUMENTS;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        push_all(t, pal_json_find(s->value, names[i]), true);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        push_all(t, pal_json_find(s->value, lists[i]), false);
    for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++)
        push(t, pal_json_find(s->value, one[i]), (pal_str){0});
}

static void count_schemas(tool *t, pal_str text)
{
    pal_json value = {0};
    pal_error inner;

    if (t->c.status != PAL_OK || text.len == 0)
        return;
    t->c.status = pal_json_parse(t->arena, text, NULL, &value, &inner);
    if (t->c.status != PAL_OK) {
        pal_error_set(t->c.err, t->c.status, "the schema is not valid JSON: %s", inner.message);
        return;
    }
    push(t, value, (pal_str){0});
    while (t->waiting && t->c.status == PAL_OK) {
        schema *s = t->waiting;

        t->waiting = s->next;
        count_schema(t, s);
    }
    if (t->c.status == PAL_OK && pal_arena_failure(t->arena) != PAL_OK)
        t->c.status = pal_no_memory(t->c.err);
}

pal_status pal_tokens_tool(const pal_encoding *encoding, pal_str name, pal_str description,
        pal_str schema_json, uint64_t *out_tokens, pal_error *err)
{
    bool is_new = encoding && pal_str_is(pal_encoding_name(encoding), "o200k_base");
    tool t = {.c = {.encoding = encoding, .err = err}};

    t.arena = pal_arena_new(0);
    if (!t.arena)
        return pal_no_memory(err);
    pal_buf_init(&t.line, PAL_JSON_BYTES_MAX);
    t.c.tokens = is_new ? TOOL : TOOL_OLD;
    pal_buf_append_str(&t.line, name);
    append_description(&t, description);
    count_line(&t);
    count_schemas(&t, schema_json);
    if (t.c.status == PAL_OK)
        *out_tokens = t.c.tokens;
    pal_buf_done(&t.line);
    pal_arena_free(t.arena);
    return t.c.status;
}
