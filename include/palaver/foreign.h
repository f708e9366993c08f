/* foreign.h - databases of other programs, read to import from them. */
#ifndef PALAVER_FOREIGN_H
#define PALAVER_FOREIGN_H

#include "palaver/api.h"
#include "palaver/error.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One row as a JSON object, its columns as members; borrowed until the call returns. Anything but
 * PAL_OK ends the reading, and is what it returns. */
typedef pal_status (*pal_foreign_row)(pal_str row, void *user);

/* Tells every row of the table 'conversation_contexts' in Loom's SQLite file, oldest first. The
 * file is not changed. PAL_INVALID where it is none or has no such table. */
PAL_API PAL_CHECKED pal_status pal_foreign_loom_each(
        const char *path, pal_foreign_row row, void *user, pal_error *err);

/* Likewise every row of the table 'conversations' in Sol's SQLite file: which conversation of the
 * service each Matrix room has. */
PAL_API PAL_CHECKED pal_status pal_foreign_sol_each(
        const char *path, pal_foreign_row row, void *user, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
