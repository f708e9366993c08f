/* store_private.c - checks whether other users can access the files of a store. */
#include "store/store_private.h"

#include <stdio.h>
#include <sys/stat.h>

bool pal_private_check(const char *path, bool repair, pal_store_on_finding sink, void *user)
{
    pal_store_finding finding = {.advice = true};
    struct stat info;
    unsigned mode;

    if (stat(path, &info) != 0 || !(S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)))
        return false;
    mode = info.st_mode & 0777;
    if ((mode & 077) == 0)
        return false;
    finding.repaired = repair && chmod(path, info.st_mode & 0700) == 0;
    snprintf(finding.text, sizeof finding.text, "'%.160s' can be %s by others (mode %04o)", path,
            mode & 055 ? "read" : "written", mode);
    if (sink)
        sink(&finding, user);
    return true;
}
