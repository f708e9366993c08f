/* tool_schema_nfa.h - a regular expression as a program, and its execution on a text. All possible
 * matches are followed at the same time, one character after another, so time and memory are
 * limited for any expression. ASCII only. Pure. */
#ifndef PAL_TOOL_SCHEMA_NFA_H
#define PAL_TOOL_SCHEMA_NFA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/str.h"

#define PAL_NFA_CODE_MAX 4000    /* instructions, with all repetitions written out */
#define PAL_NFA_STEPS_MAX 500000 /* steps of one run */

/* The characters that are allowed at one position of a text. */
typedef struct pal_nfa_set {
    uint64_t bits[2];
} pal_nfa_set;

static inline bool pal_nfa_set_has(const pal_nfa_set *set, unsigned c)
{
    return set->bits[c / 64] >> c % 64 & 1;
}

static inline void pal_nfa_set_add(pal_nfa_set *set, unsigned c)
{
    set->bits[c / 64] |= (uint64_t)1 << c % 64;
}

typedef enum pal_nfa_op {
    PAL_NFA_SET,   /* continues if the character is in set `x` */
    PAL_NFA_BEGIN, /* continues at the beginning of the text */
    PAL_NFA_END,   /* continues at the end of the text */
    PAL_NFA_SPLIT, /* continues at `x` and at `y` */
    PAL_NFA_JUMP,  /* continues at `x` */
    PAL_NFA_MATCH,
} pal_nfa_op;

typedef struct pal_nfa_code {
    uint8_t op;
    uint16_t x;
    uint16_t y;
} pal_nfa_code;

typedef enum pal_nfa_result {
    PAL_NFA_MATCHES,
    PAL_NFA_MATCHES_NOT,
    PAL_NFA_STOPPED, /* there were too many steps, or there was no memory */
} pal_nfa_result;

/* Searches for a match anywhere in the text. *out_steps is the number of steps. */
pal_nfa_result pal_nfa_run(const pal_nfa_code *code, size_t code_len, const pal_nfa_set *sets,
        pal_str text, size_t *out_steps);

#endif
