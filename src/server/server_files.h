/* server_files.h - who gets how many of the files that may be open. */
#ifndef PAL_SERVER_FILES_H
#define PAL_SERVER_FILES_H

#include "palaver/config.h"

typedef struct pal_files {
    uint32_t connections; /* that fit, connections_max at most */
    uint32_t calls;       /* calls of model services that may run at once; 0: no bound is needed */
} pal_files;

/* Raises the limit of open files as far as the system lets us, and shares them out: some for the
 * store and the rest of the process, then connections and calls. Neither can take what the other
 * needs. */
void pal_files_claim(const pal_config_server *config, pal_files *out_files);

#endif
