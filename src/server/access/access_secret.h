/* access_secret.h - random bytes that are stored in the store. */
#ifndef PAL_ACCESS_SECRET_H
#define PAL_ACCESS_SECRET_H

#include <stdint.h>
#include "palaver/store.h"

#define PAL_SECRET_SIZE 32

/* Returns the secret of the store, and creates it at the first call. Every process on the store
 * gets the same secret. It is a record of a tenant that no request can name, so no route reads it
 * and no export contains it. */
PAL_CHECKED pal_status pal_secret_get(
        pal_store *store, uint8_t out_secret[PAL_SECRET_SIZE], pal_error *err);

#endif
