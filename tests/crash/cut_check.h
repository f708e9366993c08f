/* cut_check.h - a store after a crash: what each of its next users must find. */
#ifndef PAL_TESTS_CUT_CHECK_H
#define PAL_TESTS_CUT_CHECK_H

#include "cut_script.h"

/* Opens the store below `root` by processes of their own: one that only reads, one that writes to a
 * plain copy of the directory, which is made at `copy`, and one that writes. All must show the text
 * of `index`, the last step that was acknowledged, or the next, nothing between and nothing else,
 * and fsck must find it in order; with `may_repair`, it may be `fsck --repair` that brings it into
 * order. What is wrong is printed. */
bool cut_holds(bool is_jsonl, const char *root, const char *copy, const script_texts *given,
        size_t index, bool may_repair);

#endif
