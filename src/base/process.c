/* process.c - finds out which processes of this machine are dead. The number of a process is
 * reused, so a name also contains the time at which the process was started. Machines and
 * containers number their processes separately, so the name also contains the machine's boot id and
 * the namespace. All functions can be called from any thread. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLACE_SIZE = 32, START_FIELD = 22 };

static size_t read_small(const char *path, char *out_text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, out_text, size - 1);

    if (fd >= 0)
        close(fd);
    out_text[len > 0 ? len : 0] = '\0';
    return len > 0 ? (size_t)len : 0;
}

/* Writes the machine's boot id and the process namespace. Writes an empty text if they are not
 * known. */
static void tell_place(char out_place[static PLACE_SIZE])
{
    char boot[64];
    struct stat space;

    out_place[0] = '\0';
    if (read_small("/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) < 13 ||
            stat("/proc/self/ns/pid", &space) != 0)
        return;
    snprintf(out_place, PLACE_SIZE, "%.8s%.4s.%lx", boot, boot + 9,
            (unsigned long)space.st_ino & 0xffffffff);
}

typedef enum life { UNKNOWN, ALIVE, GONE } life;

/* Sets *out_start to the start time of the process, in ticks since the machine booted. */
static life look_at(long pid, unsigned long long *out_start)
{
    char path[48], text[1024];
    const char *at;
    char state;

    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    if (read_small(path, text, sizeof(text)) == 0)
        return kill((pid_t)pid, 0) != 0 && errno == ESRCH ? GONE : UNKNOWN;
    at = strrchr(text, ')'); /* the process name, which ends here, can contain any character */
    if (!at || at[1] != ' ')
        return UNKNOWN;
    state = at[2];
    for (int field = 2; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return UNKNOWN;
    *out_start = strtoull(at + 1, NULL, 10);
    return state == 'Z' || state == 'X' ? GONE : ALIVE;
}

void pal_process_name(char out_name[static PAL_PROCESS_NAME_SIZE])
{
    char place[PLACE_SIZE];
    unsigned long long start;
    long pid = (long)getpid();

    tell_place(place);
    if (place[0] && look_at(pid, &start) == ALIVE)
        snprintf(out_name, PAL_PROCESS_NAME_SIZE, "%ld@%s.%llx", pid, place, start);
    else
        snprintf(out_name, PAL_PROCESS_NAME_SIZE, "%ld", pid);
}

static life look_at_named(pal_str name)
{
    char text[PAL_PROCESS_NAME_SIZE], place[PLACE_SIZE];
    const char *colon = name.len > 0 ? memchr(name.data, ':', name.len) : NULL;
    size_t len = colon ? (size_t)(colon - name.data) : name.len;
    char *at, *last;
    unsigned long long start;
    long pid;
    life is;

    if (len == 0 || len >= sizeof(text))
        return UNKNOWN;
    memcpy(text, name.data, len);
    text[len] = '\0';
    pid = strtol(text, &at, 10);
    last = strrchr(text, '.');
    if (pid <= 0 || *at != '@' || !last)
        return UNKNOWN;
    *last = '\0';
    tell_place(place);
    if (!place[0] || strcmp(at + 1, place) != 0)
        return UNKNOWN;
    is = look_at(pid, &start);
    return is == ALIVE && start != strtoull(last + 1, NULL, 16) ? GONE : is;
}

bool pal_process_is_dead(pal_str name)
{
    return look_at_named(name) == GONE;
}

bool pal_process_is_alive(pal_str name)
{
    return look_at_named(name) == ALIVE;
}
