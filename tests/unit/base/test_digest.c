/* test_digest.c - digests are those of the standards, and threads can compute them while the
 * program exits. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/digest.h"
#include "support/tap.h"

#define THREADS 4
#define START_US 2000
#define CLEANUP_US 20000

/* ---- Known digests ---- */

static void check_hmac(pal_str key, const char *data, const char *wanted)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char text[2 * PAL_SHA256_SIZE + 1];
    CHECK_EQ(pal_hmac_sha256(key, pal_str_of(data), digest), PAL_OK);
    pal_hex(digest, sizeof digest, text);
    CHECK_STR(text, wanted);
}

static void an_hmac_is_that_of_rfc_4231(void)
{
    char short_key[20], long_key[131];
    memset(short_key, 0x0b, sizeof short_key);
    memset(long_key, 0xaa, sizeof long_key);
    check_hmac(pal_str_make(short_key, sizeof short_key), "Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    check_hmac(pal_str_of("Jefe"), "what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    check_hmac(pal_str_make(long_key, sizeof long_key),
            "Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    check_hmac(pal_str_make(NULL, 0), "",
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void sha1_and_sha256_are_those_of_fips_180(void)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char text[2 * PAL_SHA256_SIZE + 1];
    CHECK_EQ(pal_sha1(pal_str_of("abc"), digest), PAL_OK);
    pal_hex(digest, PAL_SHA1_SIZE, text);
    CHECK_STR(text, "a9993e364706816aba3e25717850c26c9cd0d89d");
    CHECK_EQ(pal_sha256(pal_str_of("abc"), digest), PAL_OK);
    pal_hex(digest, PAL_SHA256_SIZE, text);
    CHECK_STR(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* ---- While the program exits ---- */

static void *compute(void *user)
{
    uint8_t digest[PAL_SHA256_SIZE];
    (void)user;
    for (;;) {
        if (pal_hmac_sha256(pal_str_of("key"), pal_str_of("data"), digest) != PAL_OK ||
                pal_sha256(pal_str_of("data"), digest) != PAL_OK ||
                pal_sha1(pal_str_of("data"), digest) != PAL_OK)
            abort();
    }
    return NULL;
}

/* Registered first, so it runs after the functions that libraries have registered. */
static void exit_slowly(void)
{
    usleep(CLEANUP_US);
}

static void exit_while_threads_compute(void)
{
    atexit(exit_slowly);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, compute, NULL) != 0)
            _exit(1);
    }
    usleep(START_US);
    exit(0);
}

static void threads_can_compute_while_the_program_exits(void)
{
    int code = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit_while_threads_compute();
    CHECK_EQ(waitpid(child, &code, 0), child);
    CHECK_EQ(code, 0);
}

int main(void)
{
    /* First, so that OpenSSL is not initialized yet. */
    for (int i = 0; i < 10; i++)
        RUN(threads_can_compute_while_the_program_exits);
    RUN(an_hmac_is_that_of_rfc_4231);
    RUN(sha1_and_sha256_are_those_of_fips_180);
    return tap_done();
}
