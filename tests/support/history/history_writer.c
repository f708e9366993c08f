/* history_writer.c - appends to shared sessions as one node would, and writes down the results.
 *
 *   history_writer create URL COUNT
 *   history_writer write URL LOG NODE CALLERS PAUSE_US BUSY_MS SESSION...
 *
 * "create" creates sessions and prints their ids. "write" appends with several threads until it
 * gets SIGTERM. Now and then a thread takes the lease of a session, and then writes with its fence.
 * The log has one line per event, in the form that history.mjs reads. Times are milliseconds of the
 * machine's monotonic clock, so that logs of several processes can be compared. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "palaver/palaver.h"

#define CALLERS_MAX 64
#define LEASE_MS 2000
#define LEASE_EVERY 16 /* appends of a caller; the first ones of them use the lease */
#define LEASE_APPENDS 4
#define FAILED_PAUSE_US 50000
#define LINE_SIZE 512

typedef struct caller {
    pthread_t thread;
    char name[32];
    uint64_t number; /* number of the message */
    uint64_t fence;
    pal_id leased;
} caller;

static caller callers[CALLERS_MAX];
static const char *node;
static pal_store *store;
static pal_id *sessions;
static size_t sessions_len;
static useconds_t pause_us;
static atomic_bool is_over;
static int log_fd = -1;

static int64_t now_ms(void)
{
    return pal_clock_monotonic_us() / 1000;
}

/* One write, so that a line is complete even if the process is killed. */
static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (len >= (int)sizeof line) {
        len = sizeof line;
        line[len - 1] = '\n';
    }
    if (write(log_fd, line, (size_t)len) != len)
        _exit(4);
}

/* The store has certainly written nothing. */
static bool is_refusal(pal_status status)
{
    return status == PAL_DENIED || status == PAL_CONFLICT || status == PAL_INVALID ||
            status == PAL_LIMIT || status == PAL_NOT_FOUND;
}

/* Appends one message, without a client id: a store that writes it twice must not get away with it.
 * Returns false if it was refused or is in doubt. */
static bool append(caller *self, pal_id session, uint64_t fence)
{
    char text[64], session_text[PAL_ID_TEXT_SIZE], id_text[PAL_ID_TEXT_SIZE];
    pal_part part = {.kind = PAL_PART_TEXT};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_op op = pal_op_append((pal_str){0}, session, &message, 1, PAL_SEQ_ANY);
    int64_t from = now_ms();
    pal_error err = {0};
    pal_status status;

    snprintf(text, sizeof text, "%s.%" PRIu64, self->name, ++self->number);
    part.text = pal_str_of(text);
    op.fence = fence;
    pal_id_to_text(session, session_text);
    status = pal_store_apply(store, &op, 1, &err);
    if (status == PAL_OK && op.status != PAL_OK) {
        status = op.status;
        err = op.error;
    }
    if (status == PAL_OK) {
        pal_id_to_text(message.id, id_text);
        tell("ack %s %s %" PRIu64 " %" PRId64 " %" PRId64 " %s %" PRIu64 " %s %" PRIu64 "\n",
                session_text, self->name, self->number, from, now_ms(), node, message.seq, id_text,
                fence);
        return true;
    }
    tell("%s %s %s %" PRIu64 " %" PRId64 " %" PRId64 " %s %s\n",
            is_refusal(status) ? "refused" : "doubt", session_text, self->name, self->number, from,
            now_ms(), node, err.message);
    usleep(FAILED_PAUSE_US);
    return false;
}

static bool take_lease(caller *self, pal_id session)
{
    int64_t from = now_ms();
    char text[PAL_ID_TEXT_SIZE];
    pal_error err = {0};

    if (pal_store_lease_take(store, (pal_str){0}, session, pal_str_of(self->name), LEASE_MS,
                &self->fence, &err) != PAL_OK)
        return false;
    pal_id_to_text(session, text);
    tell("take %s %s %" PRIu64 " %" PRId64 " %" PRId64 "\n", text, self->name, self->fence, from,
            now_ms());
    return true;
}

static void write_with_lease(caller *self, pal_id session)
{
    bool is_held = take_lease(self, session);

    for (unsigned i = 0; is_held && i < LEASE_APPENDS; i++) {
        is_held = append(self, session, self->fence);
        usleep(pause_us);
    }
    if (is_held)
        (void)!pal_store_lease_release(store, (pal_str){0}, session, self->fence, NULL);
}

static void *write_on(void *user)
{
    caller *self = user;

    for (size_t i = (size_t)(self - callers); !atomic_load(&is_over); i++) {
        pal_id session = sessions[i % sessions_len];

        if (i % LEASE_EVERY == 0)
            write_with_lease(self, session);
        else
            append(self, session, 0);
        usleep(pause_us);
    }
    return NULL;
}

static int create_all(const char *url, size_t count)
{
    pal_error err = {0};

    if (pal_store_open(url, NULL, &store, &err) != PAL_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        pal_session session = {0};
        char text[PAL_ID_TEXT_SIZE];
        pal_id id;

        if (pal_store_create(store, &session, &id, &err) != PAL_OK) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        pal_id_to_text(id, text);
        puts(text);
    }
    pal_store_close(store);
    return 0;
}

static int write_all(char **argv, size_t callers_len)
{
    pal_store_options options = {.estimate = true};
    pal_error err = {0};
    sigset_t ends;
    int signal_number;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    options.busy_timeout_ms = (uint32_t)strtoul(argv[7], NULL, 10);
    log_fd = open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (log_fd < 0 || pal_store_open(argv[2], &options, &store, &err) != PAL_OK) {
        fprintf(stderr, "%s: %s\n", argv[3], err.message);
        return 1;
    }
    node = argv[4];
    pause_us = (useconds_t)strtoul(argv[6], NULL, 10);
    for (size_t i = 0; i < callers_len; i++) {
        snprintf(callers[i].name, sizeof callers[i].name, "%s-%zu", node, i);
        pthread_create(&callers[i].thread, NULL, write_on, &callers[i]);
    }
    sigwait(&ends, &signal_number);
    atomic_store(&is_over, true);
    for (size_t i = 0; i < callers_len; i++)
        pthread_join(callers[i].thread, NULL);
    tell("back %s %" PRIu64 "\n", node, pal_store_went_back(store));
    pal_store_close(store);
    return 0;
}

int main(int argc, char **argv)
{
    size_t callers_len;

    if (argc == 4 && strcmp(argv[1], "create") == 0)
        return create_all(argv[2], strtoul(argv[3], NULL, 10));
    if (argc < 9 || strcmp(argv[1], "write") != 0)
        return 2;
    callers_len = strtoul(argv[5], NULL, 10);
    if (callers_len > CALLERS_MAX)
        return 2;
    sessions_len = (size_t)argc - 8;
    sessions = calloc(sessions_len, sizeof *sessions);
    for (size_t i = 0; i < sessions_len; i++) {
        if (!pal_id_from_text(pal_str_of(argv[8 + i]), &sessions[i])) {
            fprintf(stderr, "'%s' is not an id\n", argv[8 + i]);
            return 2;
        }
    }
    return write_all(argv, callers_len);
}
