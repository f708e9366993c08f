/* cut_check.h - checks a store after a crash, for each kind of process that can open it. */
#ifndef PAL_TESTS_CUT_CHECK_H
#define PAL_TESTS_CUT_CHECK_H

#include "cut_script.h"

/* Opens the store below `root` in separate processes: one that only reads, one that writes to a
 * plain copy of the directory (made at `copy`), and one that writes. All must show the text of
 * `index`, the last acknowledged step, or the text of the next step, and nothing else. fsck must
 * find no problem; with `may_repair`, `fsck --repair` may be needed. Problems are printed. */
bool cut_holds(bool is_jsonl, const char *root, const char *copy, const script_texts *given,
        size_t index, bool may_repair);

#endif
