/* tool_schema_pattern.c - matches a pattern of ECMA 262, which JSON Schema uses, by the extended
 * regular expressions of POSIX.
 *
 * A pattern is rewritten piece by piece into one that means the same there: classes become plain
 * sets, (?: a group, and a lazy repetition a greedy one, which is the same where only "does it
 * match" is asked. What has no equal (looking around, \b, back references, \u and \p, anything
 * beyond ASCII) is not checked, and so is a text beyond ASCII: POSIX would see it as bytes. Pure.
 */
#include <regex.h>
#include <stdio.h>

#include "tool/tool_schema_inside.h"

#define PATTERN_LEN_MAX 1024
#define TEXT_LEN_MAX 65536
#define NODES_MAX 4000 /* all repetitions written out */

typedef struct rewriter {
    pal_str from;
    size_t at;
    pal_buf out;
    uint64_t nodes;  /* that it has when all repetitions are written out */
    size_t groups;   /* that are open */
    bool has_dot;    /* which POSIX lets match a line's end */
    bool can_repeat; /* something stands before that can be repeated */
    bool after_group;
    bool unknown;
} rewriter;

typedef struct char_set {
    bool has[128];
} char_set;

static int peek(const rewriter *w, size_t ahead)
{
    return w->at + ahead < w->from.len ? (unsigned char)w->from.data[w->at + ahead] : -1;
}

static void add_range(char_set *set, int first, int last)
{
    for (int c = first; c <= last; c++)
        set->has[c] = true;
}

static void complement(char_set *set)
{
    for (int c = 1; c < 128; c++)
        set->has[c] = !set->has[c];
}

/* \d, \w, \s and their opposites; false for any other letter. */
static bool add_class(char_set *set, int letter)
{
    char_set own = {{false}};
    switch (letter | 0x20) {
    case 'd':
        add_range(&own, '0', '9');
        break;
    case 'w':
        add_range(&own, '0', '9');
        add_range(&own, 'a', 'z');
        add_range(&own, 'A', 'Z');
        own.has['_'] = true;
        break;
    case 's':
        add_range(&own, '\t', '\r');
        own.has[' '] = true;
        break;
    default:
        return false;
    }
    if (!(letter & 0x20))
        complement(&own);
    for (int c = 1; c < 128; c++)
        set->has[c] |= own.has[c];
    return true;
}

/* The character that an escape stands for, or -1. */
static int escaped(int letter)
{
    switch (letter) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'f':
        return '\f';
    case 'v':
        return '\v';
    default:
        /* Letters and digits mean something of their own; signs mean themselves. */
        return letter > ' ' && letter < 127 &&
                        !((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z') &&
                        !(letter >= '0' && letter <= '9')
                ? letter
                : -1;
    }
}

/* In an order in which none of them is special: ] first, then [, ^ and - last. */
static void put_set(rewriter *w, const char_set *set)
{
    static const char last[] = "[^-";
    size_t len = 0;
    pal_buf_append_char(&w->out, '[');
    size_t start = w->out.len;
    if (set->has[']'])
        pal_buf_append_char(&w->out, ']');
    for (int c = 1; c < 128; c++) {
        if (set->has[c] && c != ']' && !strchr(last, c))
            pal_buf_append_char(&w->out, (char)c);
    }
    for (size_t i = 0; i < 3; i++) {
        /* A lone ^ or ^- would be read as the opposite of something. */
        if (set->has[(int)last[i]] && last[i] == '^' && w->out.len == start)
            w->unknown = true;
        if (set->has[(int)last[i]])
            pal_buf_append_char(&w->out, last[i]);
    }
    len = w->out.len - start;
    pal_buf_append_char(&w->out, ']');
    if (len == 0)
        w->unknown = true;
}

/* One end of a range, or a class, which is added at once and gives 0. */
static int set_character(rewriter *w, char_set *set)
{
    int c = peek(w, 0);
    w->at++;
    if (c != '\\')
        return c < 0 || c > 126 || c < ' ' ? -1 : c;
    c = peek(w, 0);
    w->at++;
    if (c > 0 && add_class(set, c))
        return 0;
    return c == 'b' ? '\b' : escaped(c);
}

static void rewrite_set(rewriter *w)
{
    char_set set = {{false}};
    bool negated = peek(w, 1) == '^';
    w->at += negated ? 2 : 1;
    while (!w->unknown && peek(w, 0) != ']') {
        int first = set_character(w, &set), last = first;
        if (first > 0 && peek(w, 0) == '-' && peek(w, 1) != ']') {
            w->at++;
            last = set_character(w, &set);
        }
        if (first < 0 || last < first)
            w->unknown = true;
        else if (first > 0)
            add_range(&set, first, last);
    }
    w->at++;
    if (negated)
        complement(&set);
    if (!w->unknown)
        put_set(w, &set);
    w->can_repeat = true;
}

static void rewrite_escape(rewriter *w)
{
    char_set set = {{false}};
    int letter = peek(w, 1), c = escaped(letter);
    w->at += 2;
    w->can_repeat = true;
    if (letter > 0 && add_class(&set, letter)) {
        put_set(w, &set);
    } else if (c < 0) {
        w->unknown = true;
    } else {
        if (strchr(".[]{}()*+?^$|\\", c))
            pal_buf_append_char(&w->out, '\\');
        pal_buf_append_char(&w->out, (char)c);
    }
}

/* Of a group, only that it is not more than all before it. */
static void count_repeats(rewriter *w, uint64_t times)
{
    w->nodes = w->after_group ? w->nodes * (times ? times : 1) : w->nodes + times;
    if (w->nodes > NODES_MAX)
        w->unknown = true;
}

static uint64_t number(rewriter *w)
{
    uint64_t value = 0;
    if (peek(w, 0) < '0' || peek(w, 0) > '9')
        w->unknown = true;
    while (peek(w, 0) >= '0' && peek(w, 0) <= '9' && value < 1000)
        value = value * 10 + (uint64_t)(w->from.data[w->at++] - '0');
    if (value > 255)
        w->unknown = true;
    return value;
}

static void rewrite_bounds(rewriter *w)
{
    w->at++;
    uint64_t least = number(w), most = least;
    bool is_open = false;
    if (peek(w, 0) == ',') {
        w->at++;
        is_open = peek(w, 0) == '}';
        most = is_open ? least : number(w);
    }
    if (peek(w, 0) != '}' || most < least)
        w->unknown = true;
    w->at++;
    count_repeats(w, most);
    if (is_open)
        pal_buf_format(&w->out, "{%u,}", (unsigned)least);
    else
        pal_buf_format(&w->out, "{%u,%u}", (unsigned)least, (unsigned)most);
}

static void rewrite_repeat(rewriter *w)
{
    int c = peek(w, 0);
    if (!w->can_repeat) {
        w->unknown = true;
        return;
    }
    if (c == '{') {
        rewrite_bounds(w);
    } else {
        pal_buf_append_char(&w->out, (char)c);
        w->at++;
    }
    if (peek(w, 0) == '?')
        w->at++;
    w->can_repeat = false;
}

static void rewrite_open(rewriter *w)
{
    bool is_plain = peek(w, 1) == '?' && peek(w, 2) == ':';
    if (peek(w, 1) == '?' && !is_plain)
        w->unknown = true;
    w->at += is_plain ? 3 : 1;
    /* Empty alternatives are not portable. */
    if (peek(w, 0) == ')' || peek(w, 0) == '|')
        w->unknown = true;
    pal_buf_append_char(&w->out, '(');
    w->groups++;
    w->can_repeat = false;
}

static void rewrite_close(rewriter *w)
{
    if (w->groups == 0)
        w->unknown = true;
    else
        w->groups--;
    pal_buf_append_char(&w->out, ')');
    w->at++;
    w->can_repeat = w->after_group = true;
}

static void rewrite_plain(rewriter *w, int c)
{
    bool is_anchor = c == '^' || c == '$', is_or = c == '|';
    if (c < ' ' || c > 126 || c == ']' || c == '}' ||
            (is_or && (peek(w, 1) < 0 || peek(w, 1) == ')' || peek(w, 1) == '|' || w->at == 0)))
        w->unknown = true;
    w->has_dot |= c == '.';
    pal_buf_append_char(&w->out, (char)c);
    w->at++;
    w->can_repeat = !is_anchor && !is_or;
}

static void rewrite_next(rewriter *w)
{
    int c = peek(w, 0);
    bool after_group = w->after_group;
    w->nodes++;
    switch (c) {
    case '[':
        rewrite_set(w);
        break;
    case '\\':
        rewrite_escape(w);
        break;
    case '(':
        rewrite_open(w);
        break;
    case ')':
        rewrite_close(w);
        return;
    case '*':
    case '+':
    case '?':
    case '{':
        rewrite_repeat(w);
        break;
    default:
        rewrite_plain(w, c);
        break;
    }
    w->after_group &= !after_group;
}

/* False where the pattern has no equal. */
static bool rewrite(rewriter *w, pal_str pattern)
{
    *w = (rewriter){.from = pattern};
    pal_buf_init(&w->out, 64 * PATTERN_LEN_MAX);
    while (!w->unknown && w->at < pattern.len)
        rewrite_next(w);
    pal_buf_append_char(&w->out, '\0');
    return !w->unknown && w->groups == 0 && !w->out.failure;
}

static bool is_plain_text(pal_str text, bool has_dot)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == 0 || c > 127 || (has_dot && (c == '\n' || c == '\r')))
            return false;
    }
    return true;
}

pal_schema_verdict pal_schema_pattern(pal_str pattern, pal_str text)
{
    pal_schema_verdict verdict = PAL_SCHEMA_UNSURE;
    rewriter w;
    regex_t regex;
    pal_buf subject;
    if (pattern.len == 0)
        return PAL_SCHEMA_FITS;
    if (pattern.len > PATTERN_LEN_MAX || text.len > TEXT_LEN_MAX)
        return verdict;
    pal_buf_init(&subject, TEXT_LEN_MAX + 1);
    pal_buf_append_str(&subject, text);
    pal_buf_append_char(&subject, '\0');
    if (rewrite(&w, pattern) && !subject.failure && is_plain_text(text, w.has_dot) &&
            regcomp(&regex, w.out.data, REG_EXTENDED | REG_NOSUB) == 0) {
        int rc = regexec(&regex, subject.data, 0, NULL, 0);
        if (rc == 0 || rc == REG_NOMATCH)
            verdict = rc == 0 ? PAL_SCHEMA_FITS : PAL_SCHEMA_DIFFERS;
        regfree(&regex);
    }
    pal_buf_done(&w.out);
    pal_buf_done(&subject);
    return verdict;
}
