/* random.c - random bytes from getrandom(2). It waits until the kernel's pool is ready. With flags
 * 0 and valid memory it fails only if the system call is missing or forbidden. */
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Used in a sandbox without getrandom(2). The bytes differ between processes and calls, but they
 * are not secret. */
static void fill_from_clock(unsigned char *bytes, size_t len)
{
    static atomic_uint_least64_t calls;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t state = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    state ^= (uint64_t)getpid() << 40 ^ atomic_fetch_add(&calls, 1) << 20;
    for (size_t i = 0; i < len; i++) {
        state += 0x9e3779b97f4a7c15u;
        uint64_t mixed = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
        bytes[i] = (unsigned char)(mixed >> 56);
    }
}

/* Returns the number of filled bytes. It is less than `len` if the system call is missing or
 * forbidden. */
static size_t fill_from_call(unsigned char *bytes, size_t len)
{
    size_t filled = 0;
    while (filled < len) {
        ssize_t got = getrandom(bytes + filled, len - filled, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        filled += (size_t)got;
    }
    return filled;
}

static bool fill_from_device(unsigned char *bytes, size_t len)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    while (fd >= 0 && len > 0) {
        ssize_t got = read(fd, bytes, len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        bytes += got;
        len -= (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    return fd >= 0 && len == 0;
}

void pal_random_bytes(void *out_bytes, size_t len)
{
    unsigned char *bytes = out_bytes;
    size_t filled = fill_from_call(bytes, len);
    if (filled < len)
        fill_from_clock(bytes + filled, len - filled);
}

pal_status pal_random_secret(void *out_bytes, size_t len, pal_error *err)
{
    unsigned char *bytes = out_bytes;
    size_t filled = fill_from_call(bytes, len);
    if (filled < len && !fill_from_device(bytes + filled, len - filled))
        return pal_error_set(err, PAL_IO,
                "no random bytes for a secret: getrandom() and /dev/urandom failed");
    return PAL_OK;
}
