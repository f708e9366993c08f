/* tool_schema_pattern.c - matches an ECMA 262 pattern, as used by JSON Schema.
 *
 * A pattern is parsed into a tree, the tree is written as a program (tool_schema_nfa.h), and the
 * program is run. Lazy and greedy repetitions are the same, because only the existence of a match
 * matters. The result is "unsure" for patterns with anything else (look-around, \b, back
 * references, \u and \p, characters beyond ASCII), for texts beyond ASCII, and if matching costs
 * too much. Pure. */
#include "base/memory.h"
#include "tool/tool_schema_internal.h"
#include "tool/tool_schema_nfa.h"

#define PATTERN_LEN_MAX 1024
#define TEXT_LEN_MAX 65536
#define GROUPS_MAX 64 /* maximum depth of nested groups */
#define TIMES_MAX 255
#define WRITE_CALLS_MAX (4 * PAL_NFA_CODE_MAX)
#define STEPS_SHARE 4 /* this many steps of a run count as one step of a check */

typedef enum node_kind {
    NODE_SET,
    NODE_BEGIN,
    NODE_END,
    NODE_GROUP, /* its children are alternatives */
    NODE_ROW,   /* an alternative: its children follow each other */
} node_kind;

/* A part of the pattern and its number of repetitions. Indexes refer to `nodes`; 0 means none. */
typedef struct node {
    uint8_t kind;
    bool is_open;   /* can repeat more often than `least`, without limit */
    uint16_t least;
    uint16_t most;
    uint16_t set;
    uint16_t child; /* the first child */
    uint16_t next;  /* the next child of the same parent */
} node;

typedef struct reader {
    pal_str from;
    size_t at;
    node nodes[2 * PATTERN_LEN_MAX + 4];
    size_t nodes_len;
    pal_nfa_set sets[PATTERN_LEN_MAX];
    size_t sets_len;
    uint16_t groups[GROUPS_MAX]; /* the open groups */
    uint16_t rows[GROUPS_MAX];   /* the current alternative of each open group */
    uint16_t last[GROUPS_MAX];   /* the last part of each current alternative */
    size_t depth;
    pal_nfa_code code[PAL_NFA_CODE_MAX];
    size_t code_len;
    size_t writes;
    bool has_dot;    /* a dot was read, which does not match a line end */
    bool can_repeat; /* the last part can be repeated */
    bool unknown;
} reader;

static int peek(const reader *r, size_t ahead)
{
    return r->at + ahead < r->from.len ? (unsigned char)r->from.data[r->at + ahead] : -1;
}

static void add_range(pal_nfa_set *set, int first, int last)
{
    for (int c = first; c <= last; c++)
        pal_nfa_set_add(set, (unsigned)c);
}

/* Sets all other ASCII characters except NUL. */
static void complement(pal_nfa_set *set)
{
    set->bits[0] = ~set->bits[0] & ~(uint64_t)1;
    set->bits[1] = ~set->bits[1];
}

/* Adds \d, \w, \s or their opposites. Returns false for any other letter. */
static bool add_class(pal_nfa_set *set, int letter)
{
    pal_nfa_set own = {{0}};
    switch (letter | 0x20) {
    case 'd':
        add_range(&own, '0', '9');
        break;
    case 'w':
        add_range(&own, '0', '9');
        add_range(&own, 'a', 'z');
        add_range(&own, 'A', 'Z');
        pal_nfa_set_add(&own, '_');
        break;
    case 's':
        add_range(&own, '\t', '\r');
        pal_nfa_set_add(&own, ' ');
        break;
    default:
        return false;
    }
    if (!(letter & 0x20))
        complement(&own);
    set->bits[0] |= own.bits[0];
    set->bits[1] |= own.bits[1];
    return true;
}

/* Returns the character that an escape means, or -1. */
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
        /* Escaped letters and digits have special meanings; escaped punctuation means itself. */
        return letter > ' ' && letter < 127 &&
                        !((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z') &&
                        !(letter >= '0' && letter <= '9')
                ? letter
                : -1;
    }
}

/* Adds a part after the last one of the current alternative. */
static node *add_node(reader *r, node_kind kind)
{
    size_t level = r->depth - 1;
    uint16_t index = (uint16_t)r->nodes_len++;
    node *added = &r->nodes[index];

    *added = (node){.kind = (uint8_t)kind, .least = 1, .most = 1};
    if (r->last[level])
        r->nodes[r->last[level]].next = index;
    else
        r->nodes[r->rows[level]].child = index;
    r->last[level] = index;
    return added;
}

static void add_set(reader *r, const pal_nfa_set *set)
{
    if ((set->bits[0] | set->bits[1]) == 0)
        r->unknown = true;
    r->sets[r->sets_len] = *set;
    add_node(r, NODE_SET)->set = (uint16_t)r->sets_len++;
    r->can_repeat = true;
}

/* Reads one end of a range, or a class. A class is added at once, and 0 is returned. */
static int set_character(reader *r, pal_nfa_set *set)
{
    int c = peek(r, 0);
    r->at++;
    if (c != '\\')
        return c < 0 || c > 126 || c < ' ' ? -1 : c;
    c = peek(r, 0);
    r->at++;
    if (c > 0 && add_class(set, c))
        return 0;
    return c == 'b' ? '\b' : escaped(c);
}

static void read_set(reader *r)
{
    pal_nfa_set set = {{0}};
    bool negated = peek(r, 1) == '^';
    r->at += negated ? 2 : 1;
    while (!r->unknown && peek(r, 0) != ']') {
        int first = set_character(r, &set), last = first;
        if (first > 0 && peek(r, 0) == '-' && peek(r, 1) != ']') {
            r->at++;
            last = set_character(r, &set);
        }
        if (first < 0 || last < first)
            r->unknown = true;
        else if (first > 0)
            add_range(&set, first, last);
    }
    r->at++;
    if (negated)
        complement(&set);
    add_set(r, &set);
}

static void read_escape(reader *r)
{
    pal_nfa_set set = {{0}};
    int letter = peek(r, 1), c = escaped(letter);
    r->at += 2;
    if (letter > 0 && add_class(&set, letter))
        add_set(r, &set);
    else if (c < 0)
        r->unknown = true;
    else {
        pal_nfa_set_add(&set, (unsigned)c);
        add_set(r, &set);
    }
}

static uint16_t number(reader *r)
{
    uint16_t value = 0;
    if (peek(r, 0) < '0' || peek(r, 0) > '9')
        r->unknown = true;
    while (peek(r, 0) >= '0' && peek(r, 0) <= '9' && value < 1000)
        value = (uint16_t)(value * 10 + (r->from.data[r->at++] - '0'));
    if (value > TIMES_MAX)
        r->unknown = true;
    return value;
}

static void read_bounds(reader *r, node *of)
{
    r->at++;
    of->least = of->most = number(r);
    if (peek(r, 0) == ',') {
        r->at++;
        of->is_open = peek(r, 0) == '}';
        if (!of->is_open)
            of->most = number(r);
    }
    if (peek(r, 0) != '}' || of->most < of->least)
        r->unknown = true;
    r->at++;
}

static void read_repeat(reader *r, int c)
{
    node *of = &r->nodes[r->last[r->depth - 1]];
    if (!r->can_repeat) {
        r->unknown = true;
        return;
    }
    if (c == '{') {
        read_bounds(r, of);
    } else {
        of->least = c == '+';
        of->is_open = c != '?';
        r->at++;
    }
    if (peek(r, 0) == '?')
        r->at++;
    r->can_repeat = false;
}

/* Begins an alternative of the innermost group. */
static void row_begin(reader *r)
{
    size_t level = r->depth - 1;
    uint16_t index = (uint16_t)r->nodes_len++;

    r->nodes[index] = (node){.kind = NODE_ROW, .least = 1, .most = 1};
    if (r->rows[level])
        r->nodes[r->rows[level]].next = index;
    else
        r->nodes[r->groups[level]].child = index;
    r->rows[level] = index;
    r->last[level] = 0;
    r->can_repeat = false;
}

static void group_begin(reader *r, uint16_t group)
{
    r->groups[r->depth] = group;
    r->rows[r->depth] = 0;
    r->depth++;
    row_begin(r);
}

static void read_open(reader *r)
{
    bool is_plain = peek(r, 1) == '?' && peek(r, 2) == ':';
    r->at += is_plain ? 3 : 1;
    if ((peek(r, 0) == '?' && !is_plain) || r->depth == GROUPS_MAX) {
        r->unknown = true;
        return;
    }
    add_node(r, NODE_GROUP);
    group_begin(r, r->last[r->depth - 1]);
}

/* Ends an alternative at ')' or '|', or at the end of the pattern. Empty alternatives are not
 * supported. */
static void row_end(reader *r)
{
    if (r->last[r->depth - 1] == 0)
        r->unknown = true;
}

static void read_close(reader *r)
{
    row_end(r);
    r->at++;
    if (r->depth == 1) {
        r->unknown = true;
        return;
    }
    r->depth--;
    r->can_repeat = true;
}

static void read_plain(reader *r, int c)
{
    pal_nfa_set set = {{0}};
    r->at++;
    if (c < ' ' || c > 126 || c == ']' || c == '}') {
        r->unknown = true;
        return;
    }
    pal_nfa_set_add(&set, (unsigned)c);
    if (c == '.') {
        r->has_dot = true;
        add_range(&set, 1, 127);
    }
    add_set(r, &set);
}

static void read_next(reader *r)
{
    int c = peek(r, 0);
    switch (c) {
    case '[':
        read_set(r);
        break;
    case '\\':
        read_escape(r);
        break;
    case '(':
        read_open(r);
        break;
    case ')':
        read_close(r);
        break;
    case '|':
        row_end(r);
        r->at++;
        row_begin(r);
        break;
    case '*':
    case '+':
    case '?':
    case '{':
        read_repeat(r, c);
        break;
    case '^':
    case '$':
        add_node(r, c == '^' ? NODE_BEGIN : NODE_END);
        r->can_repeat = false;
        r->at++;
        break;
    default:
        read_plain(r, c);
        break;
    }
}

/* ---- The program ---- */

static size_t put(reader *r, pal_nfa_op op, size_t x)
{
    if (r->code_len == PAL_NFA_CODE_MAX) {
        r->unknown = true;
        return 0;
    }
    r->code[r->code_len] = (pal_nfa_code){.op = (uint8_t)op, .x = (uint16_t)x};
    return r->code_len++;
}

static void write_node(reader *r, uint16_t index);

/* Writes the alternatives. Each one except the last follows a split and ends with a jump to the
 * common end. */
static void write_rows(reader *r, uint16_t row)
{
    size_t jumps = PAL_NFA_CODE_MAX; /* a chain of jumps whose target is not known yet */

    for (; row; row = r->nodes[row].next) {
        bool is_last = r->nodes[row].next == 0;
        size_t split = is_last ? 0 : put(r, PAL_NFA_SPLIT, r->code_len + 1);

        for (uint16_t part = r->nodes[row].child; part; part = r->nodes[part].next)
            write_node(r, part);
        if (!is_last) {
            jumps = put(r, PAL_NFA_JUMP, jumps);
            r->code[split].y = (uint16_t)r->code_len;
        }
    }
    while (jumps != PAL_NFA_CODE_MAX && !r->unknown) {
        size_t next = r->code[jumps].x;

        r->code[jumps].x = (uint16_t)r->code_len;
        jumps = next;
    }
}

/* Writes the part once. */
static void write_part(reader *r, const node *part)
{
    if (part->kind == NODE_SET)
        put(r, PAL_NFA_SET, part->set);
    else if (part->kind == NODE_GROUP)
        write_rows(r, part->child);
    else
        put(r, part->kind == NODE_BEGIN ? PAL_NFA_BEGIN : PAL_NFA_END, 0);
}

/* Writes the part with its repetitions. An optional part follows a split that can skip it. */
static void write_node(reader *r, uint16_t index)
{
    const node *part = &r->nodes[index];
    unsigned times = part->least;

    if (r->unknown || ++r->writes > WRITE_CALLS_MAX) {
        r->unknown = true;
        return;
    }
    for (unsigned i = 0; i < times && !r->unknown; i++)
        write_part(r, part);
    for (; times < part->most && !part->is_open && !r->unknown; times++) {
        size_t split = put(r, PAL_NFA_SPLIT, r->code_len + 1);

        write_part(r, part);
        r->code[split].y = (uint16_t)r->code_len;
    }
    if (part->is_open) {
        size_t split = put(r, PAL_NFA_SPLIT, r->code_len + 1);

        write_part(r, part);
        put(r, PAL_NFA_JUMP, split);
        r->code[split].y = (uint16_t)r->code_len;
    }
}

/* Returns false if the pattern contains something unsupported or is too large. */
static bool compile(reader *r, pal_str pattern)
{
    r->from = pattern;
    r->nodes_len = 2; /* index 0 means none, and 1 is the complete pattern */
    r->nodes[1] = (node){.kind = NODE_GROUP, .least = 1, .most = 1};
    group_begin(r, 1);
    while (!r->unknown && r->at < pattern.len)
        read_next(r);
    row_end(r);
    if (r->unknown || r->depth != 1)
        return false;
    write_node(r, 1);
    put(r, PAL_NFA_MATCH, 0);
    return !r->unknown;
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

pal_schema_verdict pal_schema_pattern(pal_schema_check *check, pal_str pattern, pal_str text)
{
    pal_schema_verdict verdict = PAL_SCHEMA_UNSURE;
    pal_nfa_result result = PAL_NFA_STOPPED;
    size_t steps = 0;
    reader *r;

    if (pattern.len == 0)
        return PAL_SCHEMA_FITS;
    if (pattern.len > PATTERN_LEN_MAX || text.len > TEXT_LEN_MAX ||
            !pal_schema_spend(check, PAL_SCHEMA_PATTERN_STEPS + text.len))
        return verdict;
    r = pal_calloc(1, sizeof *r);
    if (!r)
        return verdict;
    if (compile(r, pattern) && is_plain_text(text, r->has_dot))
        result = pal_nfa_run(r->code, r->code_len, r->sets, text, &steps);
    if (result != PAL_NFA_STOPPED)
        verdict = result == PAL_NFA_MATCHES ? PAL_SCHEMA_FITS : PAL_SCHEMA_DIFFERS;
    pal_free(r);
    return pal_schema_spend(check, steps / STEPS_SHARE) ? verdict : PAL_SCHEMA_UNSURE;
}
