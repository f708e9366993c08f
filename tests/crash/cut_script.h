/* cut_script.h - a script that uses every operation of a store that moves, truncates or joins
 * files, and the contents of a store as one text, to compare them before and after a crash. */
#ifndef PAL_TESTS_CUT_SCRIPT_H
#define PAL_TESTS_CUT_SCRIPT_H

#include "palaver/palaver.h"

#define SCRIPT_STEPS_MAX 96
#define SCRIPT_MESSAGES_MAX 128

/* The contents before the first step, after opening, and after each step. */
typedef struct script_texts {
    char *texts[SCRIPT_STEPS_MAX + 2]; /* allocated */
    size_t len;
} script_texts;

/* Creates what exists before the script begins: for "jsonl", files of PicoClaw. */
void script_prepare(bool is_jsonl, const char *root);
void script_url(bool is_jsonl, const char *root, char out_url[512]);

/* Runs the script. After each acknowledged step it adds a note to the trace: the index of the
 * step's text. The seed determines the last steps. With `has_failures`, failed steps are tried
 * again, or left out if they cannot be repeated. */
void script_run(const char *url, uint64_t seed, bool has_failures, script_texts *out_texts);
/* Appends a message twice: by a process that dies instead of the `calls`-th disk call after the
 * append began, and by the next process, until it is acknowledged. */
void script_repeat(const char *url, uint64_t calls, script_texts *out_texts);
void script_texts_free(script_texts *texts);

/* All visible contents: two stores with the same text have the same contents. NULL if the store
 * cannot be read. The caller frees it. */
char *store_text(pal_store *store);
/* Opens a store and returns its text, or the error. */
char *store_text_at(const char *url, bool read_only);
/* The number of problems that fsck finds; with `repair`, the number of remaining problems. Problems
 * are printed. */
uint64_t store_findings(pal_store *store, bool repair);

#endif
