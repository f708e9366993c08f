/* cut_script.h - a script that uses everything of a store that moves, cuts or joins files, and the
 * store as one text, to be compared before and after a crash. */
#ifndef PAL_TESTS_CUT_SCRIPT_H
#define PAL_TESTS_CUT_SCRIPT_H

#include "palaver/palaver.h"

#define SCRIPT_STEPS_MAX 96
#define SCRIPT_MESSAGES_MAX 128

/* What the store held before the first step, after opening, and after each step. */
typedef struct script_texts {
    char *texts[SCRIPT_STEPS_MAX + 2]; /* allocated */
    size_t len;
} script_texts;

/* Lays out what is there before the script begins: of "jsonl", files of PicoClaw's. */
void script_prepare(bool is_jsonl, const char *root);
void script_url(bool is_jsonl, const char *root, char out_url[512]);

/* Runs it, with a note in the trace behind each acknowledged step: the index of its text. It ends
 * with steps that the seed decides. With `has_failures`, steps that fail are tried again, and those
 * that can't be are left out. */
void script_run(const char *url, uint64_t seed, bool has_failures, script_texts *out_texts);
/* Says something twice: by a process that dies in place of the `calls`-th disk call after it has
 * begun to, and by the next one, until it is acknowledged. */
void script_repeat(const char *url, uint64_t calls, script_texts *out_texts);
void script_texts_free(script_texts *texts);

/* Everything that the store shows: two stores with the same text have the same content. NULL where
 * it can't be read. Allocated. */
char *store_text(pal_store *store);
/* The same of a store that is opened for it, or the error. */
char *store_text_at(const char *url, bool read_only);
/* How many problems fsck finds; with `repair`, how many are left. They are printed. */
uint64_t store_findings(pal_store *store, bool repair);

#endif
