/* store_private.h - whether others can get at the files of a store. A store is made for its owner
 * alone, but a file may come from elsewhere. */
#ifndef PAL_STORE_PRIVATE_H
#define PAL_STORE_PRIVATE_H

#include "palaver/store.h"

/* Whether the file or directory can be read or written by others: tells it (`sink` may be NULL),
 * and with `repair` takes it from them. False where there is no such file. */
bool pal_private_check(const char *path, bool repair, pal_finding_sink sink, void *user);

#endif
