/* server_files.h - divides the open files that the process can have. */
#ifndef PAL_SERVER_FILES_H
#define PAL_SERVER_FILES_H

#include "palaver/config.h"

typedef struct pal_files {
    uint32_t connections; /* connections that fit, at most connections_max */
    uint32_t calls;       /* model calls that can run at the same time; 0: no limit is needed */
} pal_files;

/* Raises the limit of open files as far as the system allows, and divides the files: some for the
 * store and the rest of the process, then for connections and model calls. Neither can use the
 * files of the other. */
void pal_files_claim(const pal_config_server *config, pal_files *out_files);

#endif
