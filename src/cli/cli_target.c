/* cli_target.c - writes a file that appears complete or not at all; an older file stays in place
 * until then. Devices and pipes are written directly. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/memory.h"

static pal_status target_failed(pal_cli *cli, const char *path)
{
    return pal_error_set(&cli->err, errno == EACCES || errno == EROFS ? PAL_DENIED : PAL_IO,
            "could not write '%.160s': %s", path, strerror(errno));
}

pal_status pal_cli_target_open(pal_cli *cli, const char *path, pal_cli_target *out_target)
{
    struct stat info;
    bool in_place = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
    size_t size = strlen(path) + 8;
    *out_target = (pal_cli_target){.path = path, .fd = -1};
    if (in_place) {
        out_target->fd = open(path, O_WRONLY | O_CLOEXEC);
        return out_target->fd < 0 ? target_failed(cli, path) : PAL_OK;
    }
    char *name = pal_malloc(size);
    if (!name)
        return pal_cli_no_memory(cli);
    snprintf(name, size, "%s.XXXXXX", path);
    out_target->fd = mkostemp(name, O_CLOEXEC);
    if (out_target->fd < 0) {
        pal_status status = target_failed(cli, path);
        pal_free(name);
        return status;
    }
    out_target->temporary = name;
    return PAL_OK;
}

pal_status pal_cli_target_finish(pal_cli *cli, pal_cli_target *target, pal_status status)
{
    const char *temporary = target->temporary;
    if (status == PAL_OK && temporary &&
            (fsync(target->fd) != 0 || rename(temporary, target->path) != 0))
        status = target_failed(cli, target->path);
    if (status != PAL_OK && temporary)
        unlink(temporary);
    close(target->fd);
    pal_free(target->temporary);
    return status;
}
