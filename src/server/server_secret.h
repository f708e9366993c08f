/* server_secret.h - random bytes that the store keeps for itself. */
#ifndef PAL_SERVER_SECRET_H
#define PAL_SERVER_SECRET_H

#include <stdint.h>
#include "palaver/store.h"

#define PAL_SECRET_SIZE 32

/* The store's secret, which is made when it is first asked for. Every process on the store gets the
 * same one. It is a record of no tenant's, so that no route reads it and no export has it. */
PAL_CHECKED pal_status pal_secret_get(
        pal_store *store, uint8_t out_secret[PAL_SECRET_SIZE], pal_error *err);

#endif
