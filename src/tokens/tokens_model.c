/* tokens_model.c - finds the properties of a model by its name, in any form that services use.
 *
 * A name is a path whose last part is the model ("openrouter/anthropic/claude-3-opus"). Words that
 * end in a dot or a colon can precede it ("us.anthropic.", "ft:"). A word with a digit does not
 * count as one, because of "gpt-4.1". So the model's own name can begin at several positions, and
 * patterns are tried at each. A complete name can be followed by a version ("-2024-08-06"), a tag
 * (":free") or a region ("@20250514").
 *
 * Finding a model allocates nothing, and the tables never change: any thread. */
#include "tokens/tokens_model.h"

#include "base/memory.h"
#include "base/text.h"
#include "palaver/limits.h"
#include "palaver/tokens.h"

typedef struct own_rule {
    pal_str pattern; /* lower case */
    const pal_encoding *encoding;
    pal_model_rule rule;
} own_rule;

struct pal_models {
    pal_arena *arena; /* holds everything, including this struct */
    own_rule *rules;
    size_t rules_len;
};

/* ---- Names and patterns ---- */

static char lower_char(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static pal_str rest_of(pal_str text, size_t at)
{
    return pal_str_make(text.data + at, text.len - at);
}

static size_t digits_at(pal_str text, size_t at)
{
    size_t len = 0;

    while (at + len < text.len && is_digit(text.data[at + len]))
        len++;
    return len;
}

/* Returns whether the text after a model's name only selects a variant: a date, a tag, a region, or
 * a version in Bedrock's form ("-v1:0"). */
static bool is_version(pal_str rest)
{
    size_t digits;

    if (rest.len == 0 || memchr(":@[", rest.data[0], 3))
        return true;
    if (pal_str_is(rest, "-latest"))
        return true;
    if (pal_text_begins(rest, "-v")) {
        digits = digits_at(rest, 2);
        return digits > 0 && digits + 2 < rest.len && rest.data[digits + 2] == ':';
    }
    return rest.data[0] == '-' && digits_at(rest, 1) >= 4;
}

static bool matches(pal_str pattern, pal_str name)
{
    if (pattern.len > 0 && pattern.data[pattern.len - 1] == '*')
        return pal_text_begins_str(name, pal_str_make(pattern.data, pattern.len - 1));
    return pal_text_begins_str(name, pattern) && is_version(rest_of(name, pattern.len));
}

/* Returns the next position after `at` where the model's name can begin, or name.len if there is
 * none. */
static size_t next_start(pal_str name, size_t at)
{
    for (; at < name.len && !is_digit(name.data[at]); at++) {
        if (name.data[at] == '.' || name.data[at] == ':')
            return at + 1;
    }
    return name.len;
}

static pal_str last_part(pal_str name)
{
    size_t at = name.len;

    while (at > 0 && name.data[at - 1] != '/')
        at--;
    return rest_of(name, at);
}

/* ---- The tables ---- */

static const pal_model_line *find_line(pal_str name)
{
    const pal_model_line *best = NULL;
    size_t best_len = 0;

    name = last_part(name);
    for (size_t at = 0; at < name.len; at = next_start(name, at)) {
        for (size_t i = 0; i < pal_model_lines_len; i++) {
            pal_str pattern = pal_str_of(pal_model_lines[i].pattern);

            if (pattern.len > best_len && matches(pattern, rest_of(name, at))) {
                best = &pal_model_lines[i];
                best_len = pattern.len;
            }
        }
    }
    return best;
}

static bool matches_anywhere(pal_str pattern, pal_str name)
{
    pal_str part = last_part(name);

    for (size_t at = 0; at < name.len; at++) {
        if ((at == 0 || name.data[at - 1] == '/') && matches(pattern, rest_of(name, at)))
            return true;
    }
    for (size_t at = 0; at < part.len; at = next_start(part, at)) {
        if (matches(pattern, rest_of(part, at)))
            return true;
    }
    return false;
}

static const own_rule *find_rule(const pal_models *models, pal_str name)
{
    for (size_t i = 0; models && i < models->rules_len; i++) {
        if (matches_anywhere(models->rules[i].pattern, name))
            return &models->rules[i];
    }
    return NULL;
}

static const pal_encoding *encoding_named(const char *name)
{
    return name ? pal_encoding_find(pal_str_of(name)) : NULL;
}

static pal_model_rule rule_of(const pal_model_line *line)
{
    bool has_own = encoding_named(line->encoding) != NULL;
    const char *encoding = has_own ? line->encoding : line->nearest;

    return (pal_model_rule){
            .pattern = pal_str_of(line->pattern),
            .encoding = pal_str_of(encoding_named(encoding) ? encoding : NULL),
            .is_exact = has_own,
            .context = line->context,
            .output = line->output,
            .input = line->input,
    };
}

bool pal_models_builtin(size_t index, pal_model_rule *out_rule)
{
    if (index >= pal_model_lines_len)
        return false;
    *out_rule = rule_of(&pal_model_lines[index]);
    return true;
}

pal_model pal_models_find(const pal_models *models, pal_str name)
{
    char lower[PAL_MODEL_LEN_MAX];
    pal_model model = {.name = name};
    const own_rule *own;
    const pal_model_line *line;

    if (name.len == 0 || name.len > sizeof(lower))
        return model;
    for (size_t i = 0; i < name.len; i++)
        lower[i] = lower_char(name.data[i]);
    own = find_rule(models, pal_str_make(lower, name.len));
    line = own ? NULL : find_line(pal_str_make(lower, name.len));
    if (own || line) {
        pal_model_rule rule = own ? own->rule : rule_of(line);

        model.is_known = true;
        model.encoding = own ? own->encoding : pal_encoding_find(rule.encoding);
        model.is_exact = rule.is_exact && model.encoding;
        model.context = rule.context;
        model.output = rule.output;
        model.input = rule.input;
    }
    return model;
}

/* ---- Lines of the configuration ---- */

/* An encoding that only other builds contain is also allowed, so that one configuration works with
 * all builds. */
static bool is_known_encoding(pal_str name)
{
    for (size_t i = 0; i < pal_model_lines_len; i++) {
        const pal_model_line *line = &pal_model_lines[i];

        if ((line->encoding && pal_str_is(name, line->encoding)) ||
                (line->nearest && pal_str_is(name, line->nearest)))
            return true;
    }
    return pal_encoding_find(name) != NULL;
}

static pal_status check_rule(const pal_model_rule *rule, size_t number, pal_error *err)
{
    pal_str pattern = rule->pattern;

    if (pattern.len == 0 || pattern.len > PAL_MODEL_LEN_MAX)
        return pal_error_set(err, PAL_INVALID, "model %zu: the name must have 1 to %d bytes",
                number, PAL_MODEL_LEN_MAX);
    if (memchr(pattern.data, '*', pattern.len - 1))
        return pal_error_set(err, PAL_INVALID, "model '%.*s': '*' is only allowed at the end",
                PAL_STR_ARG(pattern));
    if (rule->encoding.len > 0 && !is_known_encoding(rule->encoding))
        return pal_error_set(err, PAL_INVALID, "model '%.*s': unknown encoding '%.*s'",
                PAL_STR_ARG(pattern), PAL_STR_ARG(rule->encoding));
    return PAL_OK;
}

static void copy_rule(pal_arena *arena, const pal_model_rule *rule, own_rule *out_rule)
{
    char *pattern = pal_arena_alloc(arena, rule->pattern.len);

    if (!pattern)
        return;
    for (size_t i = 0; i < rule->pattern.len; i++)
        pattern[i] = lower_char(rule->pattern.data[i]);
    out_rule->pattern = pal_str_make(pattern, rule->pattern.len);
    out_rule->rule = *rule;
    out_rule->rule.pattern = out_rule->pattern;
    out_rule->rule.encoding = pal_arena_copy(arena, rule->encoding);
    out_rule->encoding = pal_encoding_find(rule->encoding);
}

pal_status pal_models_new(
        const pal_model_rule *rules, size_t rules_len, pal_models **out_models, pal_error *err)
{
    pal_arena *arena;
    pal_models *models;

    if (rules_len > PAL_MODEL_RULES_MAX)
        return pal_error_set(err, PAL_LIMIT,
                "%zu models exceed the limit of %d; combine some with a pattern that ends in '*'",
                rules_len, PAL_MODEL_RULES_MAX);
    for (size_t i = 0; i < rules_len; i++) {
        pal_status status = check_rule(&rules[i], i + 1, err);

        if (status != PAL_OK)
            return status;
    }
    arena = pal_arena_new(0);
    models = arena ? pal_arena_alloc(arena, sizeof(*models)) : NULL;
    if (models && rules_len > 0)
        models->rules = pal_arena_array(arena, rules_len, sizeof(*models->rules));
    for (size_t i = 0; models && models->rules && i < rules_len; i++)
        copy_rule(arena, &rules[i], &models->rules[i]);
    if (!arena || pal_arena_failure(arena) != PAL_OK) {
        pal_arena_free(arena);
        return pal_no_memory(err);
    }
    models->arena = arena;
    models->rules_len = rules_len;
    *out_models = models;
    return PAL_OK;
}

void pal_models_free(pal_models *models)
{
    if (models)
        pal_arena_free(models->arena);
}
