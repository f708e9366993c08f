/* random.c - random bytes from getrandom(2). It waits until the kernel's pool is ready and, with
 * flags 0 and valid memory, fails only where the system call is missing or forbidden. */
#include "base/random.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* For a sandbox without getrandom(2): unique among processes and calls, though not secret. */
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

void pal_random_bytes(void *out_bytes, size_t len)
{
    unsigned char *p = out_bytes;
    while (len) {
        ssize_t got = getrandom(p, len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            fill_from_clock(p, len);
            return;
        }
        p += got;
        len -= (size_t)got;
    }
}
