/* store_private.h - checks whether other users can access the files of a store. Palaver creates the
 * files for their owner only, but a file may come from elsewhere. */
#ifndef PAL_STORE_PRIVATE_H
#define PAL_STORE_PRIVATE_H

#include "palaver/store_admin.h"

/* Returns whether other users can read or write the file or directory, and reports it in that case
 * (`sink` may be NULL). With `repair` it removes their access. Returns false if the file does not
 * exist. */
bool pal_private_check(const char *path, bool repair, pal_store_on_finding sink, void *user);

#endif
