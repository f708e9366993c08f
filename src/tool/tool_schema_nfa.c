/* tool_schema_nfa.c - runs a program on a text. The current positions in the program are a list
 * without duplicates, so a step of one character visits each position once. */
#include "tool/tool_schema_nfa.h"

#include <string.h>
#include "base/memory.h"

/* The places that wait for the next character. */
typedef struct places {
    uint16_t list[PAL_NFA_CODE_MAX];
    size_t len;
} places;

typedef struct runner {
    const pal_nfa_code *code;
    pal_str text;
    size_t at; /* offset in the text */
    size_t steps;
    bool is_match;
    uint32_t round;                  /* always `at` + 1 */
    uint32_t seen[PAL_NFA_CODE_MAX]; /* the round in which a place was added */
    uint16_t stack[PAL_NFA_CODE_MAX + 1];
    places now;
    places next;
} runner;

/* Pushes a place that was not added in this round, so the stack never contains a place twice. */
static size_t push(runner *r, size_t depth, uint16_t place)
{
    if (r->seen[place] == r->round)
        return depth;
    r->seen[place] = r->round;
    r->stack[depth] = place;
    return depth + 1;
}

/* Adds a place and all places that follow it without a character. */
static void add(runner *r, places *to, uint16_t place)
{
    size_t depth = push(r, 0, place);

    while (depth > 0) {
        uint16_t here = r->stack[--depth];
        const pal_nfa_code *code = &r->code[here];

        r->steps++;
        switch (code->op) {
        case PAL_NFA_SET:
            to->list[to->len++] = here;
            break;
        case PAL_NFA_BEGIN:
            if (r->at == 0)
                depth = push(r, depth, (uint16_t)(here + 1));
            break;
        case PAL_NFA_END:
            if (r->at == r->text.len)
                depth = push(r, depth, (uint16_t)(here + 1));
            break;
        case PAL_NFA_SPLIT:
            depth = push(r, depth, code->y);
            depth = push(r, depth, code->x);
            break;
        case PAL_NFA_JUMP:
            depth = push(r, depth, code->x);
            break;
        default:
            r->is_match = true;
            return;
        }
    }
}

/* Consumes one character. */
static void step(runner *r, const pal_nfa_set *sets)
{
    unsigned char c = (unsigned char)r->text.data[r->at];

    r->at++;
    r->round++;
    r->next.len = 0;
    for (size_t i = 0; i < r->now.len && !r->is_match; i++) {
        uint16_t place = r->now.list[i];

        r->steps++;
        if (pal_nfa_set_has(&sets[r->code[place].x], c))
            add(r, &r->next, (uint16_t)(place + 1));
    }
    if (!r->is_match)
        add(r, &r->next, 0);
    memcpy(r->now.list, r->next.list, r->next.len * sizeof r->next.list[0]);
    r->now.len = r->next.len;
}

pal_nfa_result pal_nfa_run(const pal_nfa_code *code, size_t code_len, const pal_nfa_set *sets,
        pal_str text, size_t *out_steps)
{
    runner *r = pal_calloc(1, sizeof *r);
    pal_nfa_result result = PAL_NFA_STOPPED;

    *out_steps = 0;
    if (!r)
        return result;
    r->code = code;
    r->text = text;
    r->round = 1;
    r->steps = code_len;
    add(r, &r->now, 0);
    while (!r->is_match && r->at < text.len && r->steps < PAL_NFA_STEPS_MAX)
        step(r, sets);
    if (r->is_match)
        result = PAL_NFA_MATCHES;
    else if (r->at == text.len)
        result = PAL_NFA_MATCHES_NOT;
    *out_steps = r->steps;
    pal_free(r);
    return result;
}
