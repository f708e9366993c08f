/* fuzz_host.h - a complete server for fuzz targets, with the store "memory:" and the model "echo". It
 * is restarted from time to time, so that inputs do not add up. */
#ifndef FUZZ_HOST_H
#define FUZZ_HOST_H

#include <stdint.h>
#include "server/access/access_key.h"
#include "server/observe/observe_metrics.h"
#include "server/server.h"

#define REQUIRE(condition) fuzz_require((condition), #condition, __FILE__, __LINE__)
#define FUZZ_PATIENCE_S 60 /* nothing takes this long, unless it hangs */

typedef struct fuzz_host_state {
    pal_arena *arena;
    pal_config *config;
    pal_config_values values;
    pal_store *store;
    pal_models *models;
    pal_runtime *runtime;
    pal_route_settings *routes;
    pal_metrics *metrics;
    pal_server *server;
    char secret[PAL_KEY_SECRET_SIZE]; /* an API key */
    size_t inputs;
} fuzz_host_state;

extern fuzz_host_state fuzz_host;

void fuzz_require(bool held, const char *text, const char *file, int line);
/* Begins an input: makes sure that the server runs and that the key is valid. */
void fuzz_host_want(void);
/* Returns a connection to the server. */
int fuzz_host_connect(void);

#endif
