/* cli_progress.c - shows the progress of long work in one line on stderr. Nothing is shown for
 * short work, or if stderr is not a terminal. */
#include "cli/cli.h"

#include <unistd.h>
#include "base/clock.h"

#define SHOW_EVERY_US 100000
#define SHOW_AFTER_US 300000

void pal_cli_progress_start(pal_cli_progress *progress, const char *what)
{
    progress->what = what;
    progress->enabled = isatty(STDERR_FILENO);
    progress->visible = false;
    progress->shown_us = pal_clock_monotonic_us() + SHOW_AFTER_US - SHOW_EVERY_US;
}

void pal_cli_progress_set(pal_cli_progress *progress, uint64_t done, uint64_t total)
{
    if (!progress->enabled)
        return;
    int64_t now = pal_clock_monotonic_us();
    if (now - progress->shown_us < SHOW_EVERY_US)
        return;
    progress->shown_us = now;
    progress->visible = true;
    if (total)
        fprintf(stderr, "\r\033[K%s: %llu of %llu (%d %%)", progress->what,
                (unsigned long long)done, (unsigned long long)total,
                (int)((double)done * 100 / (double)total));
    else
        fprintf(stderr, "\r\033[K%s: %llu", progress->what, (unsigned long long)done);
    fflush(stderr);
}

void pal_cli_progress_end(pal_cli_progress *progress)
{
    if (progress->visible)
        fputs("\r\033[K", stderr);
    progress->visible = false;
}
