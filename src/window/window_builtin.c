/* window_builtin.c - the tools that every session has. They read the parts that were cut out of
 * long outputs, and find messages that a compaction has hidden. The tools only read, and their
 * results are bounded. So looking something up never fills the window again. */
#include <ctype.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "palaver/limits.h"
#include "palaver/store_records.h"
#include "palaver/window.h"
#include "window/window_prompt.h"
#include "window/window_internal.h"

enum {
    LINES_DEFAULT = 200,
    LINES_MAX = 1000,
    MATCHES_DEFAULT = 20,
    MATCHES_MAX = 100,
    CONTEXT_MAX = 10,
    LINE_LEN_MAX = 2000,
    LINE_NOTE_LEN = 128,
    BEFORE_MATCH_LEN = 200, /* bytes shown before a match in a long line */
    RECALL_DEFAULT = 10,
    RECALL_MAX = 50,
};

#define ANSWER_BYTES_MAX (PAL_SPILL_BYTES_MAX - 1024u) /* so that a result is never cut itself */

typedef struct run {
    pal_store *store;
    pal_str tenant;
    pal_id session;
    pal_json arguments;
    pal_arena *arena;
    pal_buf out;
} run;

static const char read_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"handle\":{\"type\":\"string\",\"description\":\"handle in the shortened output\"},"
        "\"first_line\":{\"type\":\"integer\",\"minimum\":1},"
        "\"lines\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000},"
        "\"first_byte\":{\"type\":\"integer\",\"minimum\":1,\"description\":"
        "\"where to continue in a long first line\"}},"
        "\"required\":[\"handle\"],\"additionalProperties\":false}";
static const char search_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"handle\":{\"type\":\"string\",\"description\":\"handle in the shortened output\"},"
        "\"text\":{\"type\":\"string\",\"minLength\":1},"
        "\"context\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":10},"
        "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100}},"
        "\"required\":[\"handle\",\"text\"],\"additionalProperties\":false}";
static const char recall_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"text\":{\"type\":\"string\",\"minLength\":1},"
        "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":50}},"
        "\"required\":[\"text\"],\"additionalProperties\":false}";

#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

static const pal_tool tools[] = {
        {.name = TEXT("read_output"),
                .description = TEXT("Reads lines of a tool output that was too long to show in "
                                    "full."),
                .schema = TEXT(read_schema)},
        {.name = TEXT("search_output"),
                .description = TEXT("Finds lines that contain a text, ignoring case, in a tool "
                                    "output that was too long to show in full."),
                .schema = TEXT(search_schema)},
        {.name = TEXT("recall"),
                .description = TEXT("Searches earlier messages of this conversation that are no "
                                    "longer shown. Ask a question or name words; the best "
                                    "matches come first. \"a phrase\" or a word* must occur."),
                .schema = TEXT(recall_schema)},
};

const pal_tool *pal_builtin_tools(size_t *out_len)
{
    *out_len = sizeof(tools) / sizeof(tools[0]);
    return tools;
}

bool pal_builtin_has(pal_str name)
{
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
        if (pal_str_equal(tools[i].name, name))
            return true;
    return false;
}

/* Clamps to the limits of the schema, for models that ignore them. */
static uint64_t argument(
        const run *r, const char *name, uint64_t fallback, uint64_t min, uint64_t max)
{
    uint64_t number = fallback;

    pal_json_u64(pal_json_find(r->arguments, name), &number);
    number = number < min ? min : number;
    return number > max ? max : number;
}

static pal_str text_argument(const run *r, const char *name)
{
    return pal_json_string(pal_json_find(r->arguments, name), r->arena);
}

static pal_status load_output(const run *r, pal_str *out_text, pal_error *err)
{
    pal_str media_type;
    pal_str handle = text_argument(r, "handle");
    pal_status status =
            pal_store_blob_get(r->store, r->tenant, handle, r->arena, &media_type, out_text, err);

    if (status == PAL_NOT_FOUND || status == PAL_INVALID)
        return pal_error_set(err, status, "unknown output handle '%.*s'", PAL_EXCERPT(handle, 80));
    return status;
}

/* ---- Lines ---- */

/* Takes the next line of *text, without its newline. Returns false at the end. */
static bool next_line(pal_str *text, pal_str *out_line)
{
    const char *end;
    size_t len;

    if (text->len == 0)
        return false;
    end = memchr(text->data, '\n', text->len);
    len = end ? (size_t)(end - text->data) : text->len;
    *out_line = pal_str_make(text->data, len);
    len += end != NULL;
    *text = pal_str_make(text->data + len, text->len - len);
    return true;
}

/* Writes the line from the byte `from` on, as far as there is room, and notes where the rest of a
 * long line continues. Returns false if there is no room for a line of the usual length. */
static bool put_line_from(run *r, uint64_t number, pal_str line, size_t from, size_t len_max)
{
    size_t start = from < line.len ? pal_prompt_excerpt(line, from).len : line.len;
    pal_str shown = pal_prompt_excerpt(pal_str_make(line.data + start, line.len - start), len_max);
    size_t end = start + shown.len;

    if (r->out.len + LINE_LEN_MAX + LINE_NOTE_LEN > ANSWER_BYTES_MAX)
        return false;
    pal_buf_append_u64(&r->out, number);
    if (start > 0)
        pal_buf_format(&r->out, ", from byte %zu", start + 1);
    pal_buf_append_text(&r->out, ": ");
    pal_buf_append_str(&r->out, shown);
    if (end < line.len)
        pal_buf_format(&r->out, " [... %zu bytes more: first_line %llu, lines 1, first_byte %zu]",
                line.len - end, (unsigned long long)number, end + 1);
    pal_buf_append_char(&r->out, '\n');
    return true;
}

static bool put_line(run *r, uint64_t number, pal_str line)
{
    return put_line_from(r, number, line, 0, LINE_LEN_MAX);
}

static pal_status run_read(run *r, pal_error *err)
{
    uint64_t first = argument(r, "first_line", 1, 1, UINT64_MAX);
    uint64_t lines = argument(r, "lines", LINES_DEFAULT, 1, LINES_MAX);
    uint64_t first_byte = argument(r, "first_byte", 1, 1, PAL_BLOB_BYTES_MAX);
    size_t len_max = lines == 1 ? ANSWER_BYTES_MAX - 2 * LINE_NOTE_LEN : LINE_LEN_MAX;
    uint64_t number = 0, shown = 0;
    bool is_full = false;
    pal_str text, line;
    pal_status status = load_output(r, &text, err);

    if (status != PAL_OK)
        return status;
    while (next_line(&text, &line)) {
        number++;
        if (number < first || number - first >= lines || is_full)
            continue;
        is_full = !put_line_from(
                r, number, line, number == first ? (size_t)first_byte - 1 : 0, len_max);
        shown += !is_full;
    }
    if (shown == 0)
        pal_buf_format(&r->out, "[There is no line %llu: the output has %llu lines.]",
                (unsigned long long)first, (unsigned long long)number);
    else if (first + shown <= number)
        pal_buf_format(
                &r->out, "[%llu lines follow.]", (unsigned long long)(number + 1 - first - shown));
    return PAL_OK;
}

static bool find_text(pal_str line, pal_str wanted, size_t *out_at)
{
    for (size_t i = 0; i + wanted.len <= line.len; i++) {
        size_t same = 0;

        while (same < wanted.len &&
                tolower((unsigned char)line.data[i + same]) ==
                        tolower((unsigned char)wanted.data[same]))
            same++;
        if (same == wanted.len) {
            *out_at = i;
            return true;
        }
    }
    return false;
}

/* Lines before a match are kept in a ring until a match is found. */
typedef struct ring {
    pal_str lines[CONTEXT_MAX];
    size_t len;
} ring;

static void ring_add(ring *before, size_t cap, pal_str line)
{
    if (cap == 0)
        return;
    if (before->len == cap) {
        memmove(before->lines, before->lines + 1, (cap - 1) * sizeof(before->lines[0]));
        before->len--;
    }
    before->lines[before->len++] = line;
}

/* Writes a match with the lines kept before it. Returns false if there was no room for the match.
 * In a long line, the part around the match is shown. */
static bool put_match(run *r, uint64_t number, pal_str line, size_t at, ring *before)
{
    size_t from = at > LINE_LEN_MAX / 2 && line.len > LINE_LEN_MAX ? at - BEFORE_MATCH_LEN : 0;

    for (size_t i = 0; i < before->len; i++)
        put_line(r, number - before->len + i, before->lines[i]);
    before->len = 0;
    return put_line_from(r, number, line, from, LINE_LEN_MAX);
}

static pal_status run_search(run *r, pal_error *err)
{
    uint64_t limit = argument(r, "limit", MATCHES_DEFAULT, 1, MATCHES_MAX);
    size_t context = (size_t)argument(r, "context", 2, 0, CONTEXT_MAX);
    uint64_t number = 0, matches = 0, shown = 0, after = 0;
    pal_str wanted = text_argument(r, "text"), text, line;
    ring before = {.len = 0};
    pal_status status;

    if (wanted.len == 0)
        return pal_error_set(err, PAL_INVALID, "'text' is missing");
    status = load_output(r, &text, err);
    if (status != PAL_OK)
        return status;
    while (next_line(&text, &line)) {
        size_t at = 0;
        bool is_match = find_text(line, wanted, &at);

        number++;
        matches += is_match;
        if (is_match && shown < limit && shown + 1 == matches) {
            shown += put_match(r, number, line, at, &before);
            after = context;
        } else if (after > 0) {
            put_line(r, number, line);
            after--;
        } else {
            ring_add(&before, context, line);
        }
    }
    pal_buf_format(&r->out, "[%llu of %llu lines contain the text", (unsigned long long)matches,
            (unsigned long long)number);
    if (shown < matches)
        pal_buf_format(&r->out, "; the first %llu are shown", (unsigned long long)shown);
    pal_buf_append_text(&r->out, ".]");
    return PAL_OK;
}

/* ---- Recall ---- */

static pal_status run_recall(run *r, pal_error *err)
{
    pal_recall recall = {.store = r->store,
            .tenant = r->tenant,
            .session = r->session,
            .text = text_argument(r, "text"),
            .limit = (size_t)argument(r, "limit", RECALL_DEFAULT, 1, RECALL_MAX),
            .bytes_max = ANSWER_BYTES_MAX};

    return pal_recall_run(&recall, r->arena, &r->out, err);
}

/* ---- All of them ---- */

static pal_status parse_arguments(run *r, pal_str arguments, pal_error *err)
{
    pal_error inner;

    if (arguments.len == 0)
        arguments = pal_str_of("{}");
    if (pal_json_parse(r->arena, arguments, NULL, &r->arguments, &inner) != PAL_OK)
        return pal_error_set(err, PAL_INVALID, "the arguments are not JSON: %s", inner.message);
    if (pal_json_type_of(r->arguments) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "the arguments are not a JSON object");
    return PAL_OK;
}

pal_status pal_builtin_run(pal_store *store, pal_str tenant, pal_id session, pal_str name,
        pal_str arguments, pal_arena *arena, pal_str *out_text, pal_error *err)
{
    run r = {.store = store, .tenant = tenant, .session = session, .arena = arena};
    pal_status status = parse_arguments(&r, arguments, err);

    if (status != PAL_OK)
        return status;
    pal_buf_init(&r.out, PAL_MESSAGE_BYTES_MAX);
    if (pal_str_is(name, "read_output"))
        status = run_read(&r, err);
    else if (pal_str_is(name, "search_output"))
        status = run_search(&r, err);
    else if (pal_str_is(name, "recall"))
        status = run_recall(&r, err);
    else
        status = pal_error_set(err, PAL_NOT_FOUND, "unknown built-in tool '%.*s'",
                PAL_EXCERPT(name, 80));
    if (status == PAL_OK)
        *out_text = pal_arena_copy(arena, pal_buf_str(&r.out));
    if (status == PAL_OK && (r.out.failure != PAL_OK || pal_arena_failure(arena) != PAL_OK))
        status = pal_no_memory(err);
    pal_buf_done(&r.out);
    return status;
}
