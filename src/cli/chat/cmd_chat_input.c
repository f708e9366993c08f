/* cmd_chat_input.c - asks the user for the input that a tool server requires, field by field. All
 * texts come from the server, so they are indented and control characters are made visible: a
 * server cannot imitate the prompt. A page is only shown, and never fetched or opened. */
#include "cli/chat/cmd_chat.h"

#include "base/json/json_put.h"
#include "base/text.h"

#define INDENT 4

typedef struct form {
    pal_chat *chat;
    pal_json_writer json;
    bool is_stopped; /* the user wants to stop the turn */
} form;

static void put_text(pal_chat *chat, const char *label, pal_str text)
{
    if (text.len == 0)
        return;
    pal_buf_format(&chat->cli->out, "%*s%s: ", INDENT, "", label);
    pal_cli_clean(&chat->cli->out, text, false);
    pal_buf_append_char(&chat->cli->out, '\n');
}

static pal_str member(const form *f, pal_json object, const char *name)
{
    return pal_json_string(pal_json_find(object, name), f->chat->arena);
}

/* Reads a line. Returns false if the user wants to stop. */
static bool read_line(form *f, const char *prompt, pal_str *out_line)
{
    pal_chat *chat = f->chat;
    f->is_stopped = pal_cli_flush(chat->cli) != PAL_OK ||
            pal_terminal_read(chat->terminal, prompt, chat->has_styles, out_line) !=
                    PAL_INPUT_LINE;
    return !f->is_stopped;
}

static bool is_yes(pal_str line)
{
    return pal_text_is_nocase(line, "y") || pal_text_is_nocase(line, "yes");
}

/* ---- Forms ---- */

static void put_list(pal_json_writer *json, pal_str line)
{
    pal_json_begin_array(json);
    while (line.len) {
        const char *comma = memchr(line.data, ',', line.len);
        size_t len = comma ? (size_t)(comma - line.data) : line.len;
        pal_json_put_str(json, pal_text_trim(pal_str_make(line.data, len)));
        line = comma ? pal_str_make(line.data + len + 1, line.len - len - 1) : (pal_str){0};
    }
    pal_json_end_array(json);
}

/* A line that does not have the type is sent as text: the check of the answer explains what is
 * wrong. */
static void put_value(form *f, pal_json type, pal_str line)
{
    pal_json value;
    bool is_flag = pal_json_string_is(type, "boolean");
    if (pal_json_string_is(type, "array"))
        put_list(&f->json, line);
    else if (is_flag && (is_yes(line) || pal_text_is_nocase(line, "true")))
        pal_json_put_bool(&f->json, true);
    else if (is_flag && (pal_text_is_nocase(line, "n") || pal_text_is_nocase(line, "no") ||
                                pal_text_is_nocase(line, "false")))
        pal_json_put_bool(&f->json, false);
    else if (!is_flag && !pal_json_string_is(type, "string") &&
            pal_json_parse(f->chat->arena, line, NULL, &value, NULL) == PAL_OK)
        pal_json_put_raw(&f->json, line);
    else
        pal_json_put_str(&f->json, line);
}

/* Writes the values that can be chosen. */
static pal_json choices_of(pal_json rule)
{
    pal_json items = pal_json_find(rule, "items");
    pal_json owner = pal_json_type_of(items) == PAL_JSON_OBJECT ? items : rule;
    pal_json list = pal_json_find(owner, "enum");
    if (pal_json_type_of(list) == PAL_JSON_NONE)
        list = pal_json_find(owner, "oneOf");
    return pal_json_type_of(list) == PAL_JSON_NONE ? pal_json_find(owner, "anyOf") : list;
}

static void put_field(form *f, pal_str name, pal_json rule, bool is_required)
{
    pal_chat *chat = f->chat;
    pal_json type = pal_json_find(rule, "type");
    pal_buf_append_char(&chat->cli->out, '\n');
    put_text(chat, is_required ? "required" : "optional", name);
    put_text(chat, "title", member(f, rule, "title"));
    put_text(chat, "about", member(f, rule, "description"));
    put_text(chat, "choices", pal_json_raw(choices_of(rule)));
    put_text(chat, "default", pal_json_raw(pal_json_find(rule, "default")));
    if (pal_json_string_is(type, "array"))
        put_text(chat, "note", pal_str_of("separate several values by commas"));
}

static bool is_required(pal_json schema, pal_str name, pal_arena *arena)
{
    pal_json_iter each = pal_json_each(pal_json_find(schema, "required"));
    pal_json one;
    while (pal_json_next(&each, NULL, &one)) {
        if (pal_str_equal(pal_json_string(one, arena), name))
            return true;
    }
    return false;
}

/* An empty line leaves a member out: then its default counts. */
static bool fill_form(form *f, pal_json schema)
{
    pal_json_iter each = pal_json_each(pal_json_find(schema, "properties"));
    pal_json key, rule;
    pal_str line;
    pal_json_name(&f->json, "content");
    pal_json_begin_object(&f->json);
    while (pal_json_next(&each, &key, &rule)) {
        pal_str name = pal_json_string(key, f->chat->arena);
        put_field(f, name, rule, is_required(schema, name, f->chat->arena));
        if (!read_line(f, "value (Enter to skip)", &line))
            return false;
        if (line.len == 0)
            continue;
        pal_json_name_str(&f->json, name);
        put_value(f, pal_json_find(rule, "type"), line);
    }
    pal_json_end_object(&f->json);
    return true;
}

/* ---- Questions ---- */

/* Names that look like others are a way to deceive. */
static bool is_unusual(pal_str url)
{
    for (size_t i = 0; i < url.len; i++) {
        if ((unsigned char)url.data[i] > '~' ||
                pal_text_begins_nocase(pal_str_make(url.data + i, url.len - i), "xn--"))
            return true;
    }
    return false;
}

static bool ask_one(form *f, pal_json input)
{
    pal_chat *chat = f->chat;
    pal_str line, url = member(f, input, "url");
    pal_cli_wrap(&chat->cli->out, member(f, input, "message"), INDENT, chat->cli->width);
    if (url.len) {
        put_text(chat, "page", url);
        if (is_unusual(url))
            put_text(chat, "note", pal_str_of("the address has unusual characters"));
    }
    if (!read_line(f, url.len ? "did you open the page, and continue? [y/N]"
                              : "answer this question? [y/N]", &line))
        return false;
    pal_json_begin_object(&f->json);
    pal_put_text(&f->json, "action", is_yes(line) ? "accept" : "decline");
    if (is_yes(line) && !url.len && !fill_form(f, pal_json_find(input, "schema")))
        return false;
    pal_json_end_object(&f->json);
    return true;
}

pal_status pal_chat_ask_input(pal_chat *chat, const pal_question *question,
        pal_question_answer *out_answer, bool *out_is_stopped)
{
    pal_cli *cli = chat->cli;
    pal_json data, input;
    pal_buf text;
    pal_buf_init(&text, PAL_MESSAGE_BYTES_MAX);
    form f = {.chat = chat, .json = pal_json_writer_make(&text)};
    pal_status status = pal_json_parse(chat->arena, question->data, NULL, &data, &cli->err);
    if (status != PAL_OK)
        return status;
    pal_json_iter each = pal_json_each(pal_json_find(data, "inputs"));
    pal_json_begin_object(&f.json);
    pal_json_name(&f.json, "replies");
    pal_json_begin_object(&f.json);
    while (!f.is_stopped && pal_json_next(&each, NULL, &input)) {
        pal_json_name_str(&f.json, member(&f, input, "id"));
        (void)ask_one(&f, input);
    }
    if (!f.is_stopped) {
        pal_json_end_object(&f.json);
        pal_json_end_object(&f.json);
    }
    *out_is_stopped = f.is_stopped;
    *out_answer = (pal_question_answer){.call_id = question->call_id,
            .allow = true,
            .data = pal_arena_copy(chat->arena, pal_buf_str(&text))};
    if (text.failure || pal_arena_failure(chat->arena))
        status = pal_cli_no_memory(cli);
    pal_buf_done(&text);
    return status;
}
