/* foreign.h - reads the databases of other programs, for imports. */
#ifndef PALAVER_FOREIGN_H
#define PALAVER_FOREIGN_H

#include "palaver/api.h"
#include "palaver/error.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Receives one row as a JSON object whose members are the columns. `row` is valid during the
 * callback only. If the callback returns anything but PAL_OK, reading stops, and the function
 * returns that status. */
typedef pal_status (*pal_foreign_on_row)(pal_str row, void *user);

/* Calls `row` for every row of the table 'conversation_contexts' in the SQLite file of Loom (which
 * sends agents to work items), the oldest first. Runs on the caller's thread and blocks. The file
 * is not changed.
 *
 *   PAL_INVALID  the file is not a SQLite database or has no such table
 *   PAL_IO       the file cannot be opened
 *   PAL_BUSY     another process has locked the file */
PAL_API PAL_CHECKED pal_status pal_foreign_loom_each(
        const char *path, pal_foreign_on_row row, void *user, pal_error *err);

/* Like pal_foreign_loom_each(), for the table 'conversations' in the SQLite file of Sol (a Matrix
 * bot). A row names the conversation of the model service that belongs to a Matrix room. */
PAL_API PAL_CHECKED pal_status pal_foreign_sol_each(
        const char *path, pal_foreign_on_row row, void *user, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
