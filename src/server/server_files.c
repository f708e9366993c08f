/* server_files.c - divides the open files that the process can have. Can be called from any
 * thread. */
#include "server/server_files.h"

#include <sys/resource.h>
#include "server/server_limits.h"

/* False: the number of files is not limited, or not known. */
static bool raise_limit(uint64_t *out_files)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0 && getrlimit(RLIMIT_NOFILE, &limit) != 0)
            return false;
    }
    *out_files = limit.rlim_cur;
    return limit.rlim_cur != RLIM_INFINITY;
}

void pal_files_claim(const pal_config_server *config, pal_files *out_files)
{
    uint64_t files, wanted = (uint64_t)config->connections_max + PAL_SERVER_CONNECTIONS_SPARE;
    *out_files = (pal_files){.connections = config->connections_max};
    if (!raise_limit(&files))
        return;
    uint64_t spare = PAL_SERVER_FILES_SPARE < files / 4 ? PAL_SERVER_FILES_SPARE : files / 4;
    uint64_t room = files - spare, share = room / 3 * 2;
    if (wanted > share) {
        wanted = share;
        out_files->connections = (uint32_t)(share > 2 * (uint64_t)PAL_SERVER_CONNECTIONS_SPARE
                        ? share - PAL_SERVER_CONNECTIONS_SPARE
                        : share / 2 + 1);
    }
    /* In addition to the running calls, the HTTP client keeps a quarter as many idle
     * connections. */
    uint64_t calls = (room - wanted) / 5 * 4;
    out_files->calls = calls > UINT32_MAX ? UINT32_MAX : calls < 1 ? 1 : (uint32_t)calls;
}
