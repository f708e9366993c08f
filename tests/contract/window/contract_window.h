/* contract_window.h - what the files of the window's suite share. It runs over every backend, as the store's
 * does. Messages say how many tokens they are, so that nothing depends on vocabularies. */
#ifndef PAL_TESTS_CONTRACT_WINDOW_H
#define PAL_TESTS_CONTRACT_WINDOW_H

#include <string.h>
#include "contract/contract.h"

void window_plans(void);
void window_compactions(void);
void window_marks(void);
void window_tools(void);

/* Of a model with 10,000 tokens, 2,000 of them for the answer: 8,000 may be sent. */
pal_window window_of(pal_id session);

/* `turns` times a user's message "qN" and an answer "aN" of so many tokens each, N being the
 * user's message's seq. */
void say_turns(pal_id session, size_t turns, uint32_t tokens);
uint64_t say_as(pal_id session, pal_role role, const char *text, uint32_t tokens);
/* A call, and the result of one. */
uint64_t say_call(pal_id session, const char *id, uint32_t tokens);
uint64_t say_result(pal_id session, const char *id, const char *text, uint32_t tokens);
uint64_t pin(pal_id session, uint64_t seq);

pal_plan plan_of(const pal_window *window);
/* What is sent, as text: seqs, and "sys", "tools", "sum", "note", or "made" for what has none;
 * "3-7" for neighbours. In the arena. */
const char *sent_text(const pal_plan *plan);
bool sends(const pal_plan *plan, const char *wanted);
const char *plan_json(const pal_window *window);

/* A model that answers from a script. */
typedef struct script {
    const char *answer; /* NULL: it fails */
    uint64_t cost_input;
    size_t calls;
    pal_summary_request request; /* the last one; in the arena */
} script;

pal_status script_run(const pal_summary_request *request, pal_arena *answers,
        pal_summary_answer *out_answer, void *user, pal_error *error);
pal_compaction_result compact(const pal_window *window, script *s);
/* Whether one of the request's messages has the text. */
bool asks_with(const script *s, const char *text);

#endif
