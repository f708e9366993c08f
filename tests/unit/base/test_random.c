/* test_random.c - secrets are random, or their creation fails; sums saturate instead of wrapping to
 * 0. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/random.h"
#include "base/sum.h"
#include "support/tap.h"

static bool has_call = true, has_device = true;

/* These replace the functions of libc. */
ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
    static bool was_interrupted;

    was_interrupted = !was_interrupted;
    if (!has_call || was_interrupted) {
        errno = has_call ? EINTR : ENOSYS;
        return -1;
    }
    return syscall(SYS_getrandom, bytes, len, flags);
}

int open(const char *path, int flags, ...)
{
    va_list more;
    mode_t mode;

    va_start(more, flags);
    mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (!has_device && strcmp(path, "/dev/urandom") == 0) {
        errno = EACCES;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void secrets_come_from_the_system(void)
{
    unsigned char first[32] = {0}, second[32] = {0}, zeros[32] = {0};

    for (int i = 0; i < 2; i++) {
        has_call = i == 0;
        CHECK_STATUS(pal_random_secret(first, sizeof(first), NULL), PAL_OK);
        CHECK_STATUS(pal_random_secret(second, sizeof(second), NULL), PAL_OK);
        CHECK(memcmp(first, second, sizeof(first)) != 0);
        CHECK(memcmp(first, zeros, sizeof(first)) != 0);
    }
    has_call = true;
}

static void secrets_fail_if_the_system_has_no_random_bytes(void)
{
    unsigned char bytes[16];
    pal_error err;

    has_call = has_device = false;
    CHECK_FAILS(pal_random_secret(bytes, sizeof(bytes), &err), PAL_IO, &err, "getrandom");
    /* Ids only have to differ. */
    unsigned char first[16], second[16];
    pal_random_bytes(first, sizeof(first));
    pal_random_bytes(second, sizeof(second));
    CHECK(memcmp(first, second, sizeof(first)) != 0);
    has_call = has_device = true;
}

static void sums_stay_at_the_largest_number(void)
{
    uint64_t sum = UINT64_MAX - 1;
    int64_t cost = INT64_MAX - 1;

    pal_sum_u64(&sum, 1);
    CHECK_EQ(sum, UINT64_MAX);
    pal_sum_u64(&sum, 7);
    CHECK_EQ(sum, UINT64_MAX);
    pal_sum_i64(&cost, 9);
    CHECK_EQ(cost, INT64_MAX);
    pal_sum_i64(&cost, -2);
    CHECK_EQ(cost, INT64_MAX - 2);
}

int main(void)
{
    RUN(secrets_come_from_the_system);
    RUN(secrets_fail_if_the_system_has_no_random_bytes);
    RUN(sums_stay_at_the_largest_number);
    return tap_done();
}
