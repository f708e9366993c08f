/* window_prompt.c - the texts that the engine itself sends to a model. */
#include "window/window_prompt.h"

#include "base/utf8.h"

#define SUMMARY_SHAPE                                                                              \
    "Write for the one who goes on from here and has nothing else to read. Use these headings "    \
    "and leave out those with nothing under them:\n"                                               \
    "## Goal\nWhat the user wants, in the user's own terms.\n"                                     \
    "## Decided\nDecisions, preferences and constraints that still hold, with their reasons.\n"    \
    "## Facts\nNames, numbers, paths, ids, quotations and results that will be needed again, "     \
    "exactly as they were.\n"                                                                      \
    "## Done\nWhat was finished.\n"                                                                \
    "## Open\nWhat is under way, what failed and why, what waits for whom.\n"                      \
    "## Next\nThe next step.\n"                                                                    \
    "Do not answer anything, do not call tools, and do not mention that this is a summary."

pal_str pal_prompt_summary(bool merge)
{
    static const char fresh[] =
            "Stop here and write down this conversation so far, so that it can be continued "
            "without it.\n\n" SUMMARY_SHAPE;
    static const char merged[] =
            "Stop here and write down this conversation so far, so that it can be continued "
            "without it. It begins with notes on what came before: take over from them all that "
            "still holds, correct what has changed since, and add what is new, in one text that "
            "replaces them.\n\n" SUMMARY_SHAPE;

    return merge ? pal_str_make(merged, sizeof(merged) - 1)
                 : pal_str_make(fresh, sizeof(fresh) - 1);
}

pal_str pal_prompt_hint(void)
{
    static const char hint[] =
            "[This conversation was restarted because it was too long. The last messages were:]";

    return pal_str_make(hint, sizeof(hint) - 1);
}

pal_str pal_prompt_excerpt(pal_str text, size_t len_max)
{
    if (text.len > len_max)
        text.len = pal_utf8_cut(text, len_max);
    return text;
}
