/* contract_window.h - shared by the files of the window's suite, which runs on every backend, as
 * the store's does. Messages carry their token counts, so that nothing depends on vocabularies. */
#ifndef PAL_TESTS_CONTRACT_WINDOW_H
#define PAL_TESTS_CONTRACT_WINDOW_H

#include <string.h>
#include "contract/contract.h"

void window_plans(void);
void window_compactions(void);
void window_marks(void);
void window_tools(void);

/* For a model with 10,000 tokens, of which 2,000 are for the answer: 8,000 can be sent. */
pal_window window_of(pal_id session);

/* Appends `turns` pairs of a user message "qN" and an answer "aN" with that many tokens each. N is
 * the seq of the user message. */
void say_turns(pal_id session, size_t turns, uint32_t tokens);
uint64_t say_as(pal_id session, pal_role role, const char *text, uint32_t tokens);
/* Append a tool call, and the result of a call. */
uint64_t say_call(pal_id session, const char *id, uint32_t tokens);
uint64_t say_result(pal_id session, const char *id, const char *text, uint32_t tokens);
uint64_t pin(pal_id session, uint64_t seq);

pal_plan plan_of(const pal_window *window);
/* The planned messages as text: their seqs, and "sys", "tools", "sum", "note" or "made" for parts
 * without a seq; "3-7" for a range. In the arena. */
const char *sent_text(const pal_plan *plan);
bool sends(const pal_plan *plan, const char *wanted);
const char *plan_json(const pal_window *window);

/* A model whose answers are scripted. */
typedef struct script {
    const char *answer; /* NULL: the call fails */
    uint64_t cost_input;
    size_t calls;
    pal_summary_request request; /* the last request; in the arena */
} script;

pal_status script_run(const pal_summary_request *request, pal_arena *answers,
        pal_summary_answer *out_answer, void *user, pal_error *error);
pal_compaction_result compact(const pal_window *window, script *s);
/* Whether one of the messages of the request contains the text. */
bool asks_with(const script *s, const char *text);

#endif
