/* test_net_process.c - child processes that write, are silent, die, and refuse to die. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "net/net_process.h"
#include "support/on_loop.h"
#include "support/tap.h"

static pal_loop *loop;

/* One child, and all that was reported about it. */
typedef struct child {
    const char *arguments[8];
    const char *const *environment;
    const char *directory;
    size_t line_max;
    pal_process *process;
    pal_status started, written;
    pal_error err;
    pal_buf lines, errors; /* each with its newline */
    size_t lines_len, bytes;
    int exits, code;
    bool after_exit;
    const char *write;
    size_t write_len;
    int64_t grace_ms;
    const char *stop_at; /* a line */
    bell told;
} child;

static void take_line(void *user, pal_str line)
{
    child *c = user;
    c->after_exit = c->after_exit || c->exits;
    c->lines_len++;
    c->bytes += line.len;
    pal_buf_append_str(&c->lines, line);
    pal_buf_append_char(&c->lines, '\n');
    if (c->stop_at && pal_str_is(line, c->stop_at))
        pal_process_stop(c->process, c->grace_ms);
}

static void take_error_line(void *user, pal_str line)
{
    child *c = user;
    c->after_exit = c->after_exit || c->exits;
    pal_buf_append_str(&c->errors, line);
    pal_buf_append_char(&c->errors, '\n');
}

static void take_exit(void *user, int code)
{
    child *c = user;
    c->exits++;
    c->code = code;
    c->process = NULL;
    bell_ring(&c->told);
}

static const pal_process_events events = {take_line, take_error_line, take_exit};

static void write_to(void *user)
{
    child *c = user;
    c->written = PAL_CANCELED;
    if (c->process)
        c->written = pal_process_write(c->process, pal_str_make(c->write, c->write_len), &c->err);
}

static void begin(void *user)
{
    child *c = user;
    const pal_process_spec spec = {c->arguments, c->environment, c->directory, c->line_max};
    c->started = pal_process_start(loop, &spec, &events, c, &c->process, &c->err);
    if (c->started)
        bell_ring(&c->told);
    else if (c->write)
        write_to(c);
}

static void stop(void *user)
{
    child *c = user;
    if (c->process)
        pal_process_stop(c->process, c->grace_ms);
}

static child make_child(const char *script)
{
    child c = {.told = BELL_INIT};
    pal_buf_init(&c.lines, 1u << 20);
    pal_buf_init(&c.errors, 1u << 20);
    c.arguments[0] = "sh";
    c.arguments[1] = "-c";
    c.arguments[2] = script;
    return c;
}

/* The child must not be moved any more. */
static void start(child *c, const char *input)
{
    c->write = input;
    c->write_len = input ? strlen(input) : 0;
    on_loop(loop, begin, c);
}

static void finish(child *c)
{
    CHECK(bell_wait(&c->told, 1));
    CHECK(!c->after_exit);
}

/* A child that only writes, until its end. */
static void hear(child *c)
{
    start(c, NULL);
    finish(c);
}

static void done(child *c)
{
    pal_buf_done(&c->lines);
    pal_buf_done(&c->errors);
}

static bool said(const pal_buf *buf, const char *text)
{
    return pal_str_is(pal_buf_str(buf), text);
}

/* The number that it wrote first. */
static int number_of(const child *c)
{
    return c->lines.len ? (int)strtol(c->lines.data, NULL, 10) : 0;
}

/* ---- Speaking ---- */

static void lines_are_exchanged_with_a_child(void)
{
    child c = make_child("while read -r x; do echo \"got $x\"; done; echo bye >&2; exit 3");
    c.grace_ms = 30000; /* the end of its input is enough */
    start(&c, "one\ntwo\n");
    on_loop(loop, stop, &c);
    finish(&c);
    CHECK_STATUS(c.written, PAL_OK);
    if (CHECK(said(&c.lines, "got one\ngot two\n")))
        CHECK(said(&c.errors, "bye\n"));
    CHECK_EQ(c.exits, 1);
    CHECK_EQ(c.code, 3);
    done(&c);
}

static void output_is_split_at_line_ends(void)
{
    child c = make_child("printf 'a\\n\\nb\\r\\nlast'; printf 'e1\\ne2' >&2");
    hear(&c);
    if (CHECK(said(&c.lines, "a\n\nb\r\nlast\n")) && CHECK(said(&c.errors, "e1\ne2\n")))
        CHECK_EQ(c.code, 0);
    done(&c);
}

static void long_lines_arrive_complete(void)
{
    child c = make_child("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end");
    hear(&c);
    CHECK_EQ(c.lines_len, 2);
    CHECK_EQ(c.bytes, 3000003);
    CHECK_EQ(c.code, 0);
    done(&c);
}

static void a_line_over_the_limit_kills_the_child(void)
{
    child c = make_child("echo fine; head -c 3000000 /dev/zero | tr '\\0' x; echo; sleep 100");
    c.line_max = 100000;
    hear(&c);
    CHECK_EQ(c.lines_len, 2);
    CHECK_EQ(c.bytes, 100004);
    CHECK_EQ(c.code, PAL_PROCESS_LINE_TOO_LONG);
    done(&c);
}

static void a_long_error_line_is_only_cut(void)
{
    child c = make_child("head -c 300 /dev/zero | tr '\\0' x >&2; echo >&2; echo end >&2");
    c.line_max = 10;
    hear(&c);
    if (CHECK(said(&c.errors, "xxxxxxxxxx\nend\n")))
        CHECK_EQ(c.code, 0);
    done(&c);
    /* Of exactly the maximum length. */
    child d = make_child("echo 1234567890; echo 1234567890 >&2");
    d.line_max = 10;
    hear(&d);
    if (CHECK(said(&d.lines, "1234567890\n")) && CHECK(said(&d.errors, "1234567890\n")))
        CHECK_EQ(d.code, 0);
    done(&d);
}

static void large_output_arrives(void)
{
    child c = make_child("yes 0123456789abcde | head -n 500000");
    hear(&c);
    CHECK_EQ(c.lines_len, 500000);
    CHECK_EQ(c.bytes, 500000 * 15);
    CHECK_EQ(c.code, 0);
    done(&c);
}

/* ---- Its input ---- */

static void large_input_waits_for_a_slow_child(void)
{
    size_t len = 8u << 20;
    char *text = malloc(len + 1);
    memset(text, 'y', len);
    text[len] = '\0';
    child c = make_child("wc -c");
    c.grace_ms = 30000;
    start(&c, text);
    free(text);
    on_loop(loop, stop, &c);
    finish(&c);
    /* A stop closes the input after the written bytes. */
    CHECK_STATUS(c.written, PAL_OK);
    CHECK_EQ(number_of(&c), (int)len);
    done(&c);
}

static void unread_input_is_limited(void)
{
    size_t len = 32u << 20;
    char *text = calloc(1, len);
    child c = make_child("exec sleep 100");
    start(&c, NULL);
    c.write = text;
    c.write_len = len;
    on_loop(loop, write_to, &c);
    CHECK_STATUS(c.written, PAL_OK);
    on_loop(loop, write_to, &c);
    CHECK_STATUS(c.written, PAL_OK);
    on_loop(loop, write_to, &c);
    CHECK_STATUS(c.written, PAL_LIMIT);
    CHECK(c.err.message[0]);
    c.grace_ms = 1;
    on_loop(loop, stop, &c);
    finish(&c);
    CHECK_EQ(c.code, -SIGTERM);
    free(text);
    done(&c);
}

static void writing_to_a_dead_child_is_harmless(void)
{
    child c = make_child("exec <&-; echo closed; exec sleep 100");
    start(&c, NULL);
    c.write = "hello\n";
    c.write_len = 6;
    do
        on_loop(loop, write_to, &c);
    while (c.written == PAL_OK);
    CHECK_STATUS(c.written, PAL_IO);
    CHECK(c.err.message[0]);
    c.grace_ms = 1;
    on_loop(loop, stop, &c);
    finish(&c);
    CHECK_EQ(c.exits, 1);
    CHECK_EQ(c.code, -SIGTERM);
    done(&c);
}

/* ---- Its end ---- */

static void death_by_a_signal_is_reported(void)
{
    child c = make_child("kill -9 $$");
    hear(&c);
    CHECK_EQ(c.exits, 1);
    CHECK_EQ(c.code, -SIGKILL);
    done(&c);
}

/* Whether a stop with that grace period lets the child end by itself. */
static bool ends_gently(int64_t grace_ms)
{
    child c = make_child("trap 'echo term; exit 7' TERM; echo up; while :; do sleep 0.01; done");
    c.stop_at = "up";
    c.grace_ms = grace_ms;
    hear(&c);
    CHECK_EITHER(c.code, 7, -SIGKILL);
    bool is_gentle = c.code == 7 && said(&c.lines, "up\nterm\n");
    done(&c);
    return is_gentle;
}

/* The machine's speed decides how much time a child needs to write a word. */
static void a_stop_begins_with_sigterm(void)
{
    CHECK(ends_gently(30) || ends_gently(1000) || ends_gently(10000));
}

static void a_stop_ends_with_sigkill(void)
{
    child c = make_child("trap '' TERM; echo up; while :; do sleep 0.01; done");
    c.stop_at = "up";
    c.grace_ms = 30;
    hear(&c);
    if (CHECK(said(&c.lines, "up\n")))
        CHECK_EQ(c.code, -SIGKILL);
    done(&c);
}

static bool is_gone(pid_t pid)
{
    /* A zombie that its new parent has not waited for yet is gone, too. */
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    return len <= 0 || strstr(text, ") Z") || strstr(text, ") X");
}

static bool goes(pid_t pid)
{
    for (int i = 0; i < 60000 && !is_gone(pid); i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return is_gone(pid);
}

static void grandchildren_are_killed_with_the_child(void)
{
    child c = make_child("sleep 1000 & echo $!; echo up; wait");
    c.stop_at = "up";
    c.grace_ms = 1;
    hear(&c);
    if (CHECK_THAT(number_of(&c), >, 1))
        CHECK(goes(number_of(&c)));
    done(&c);
    /* A grandchild that outlives its parent delays nothing. */
    child d = make_child("sleep 1000 & echo $!; exit 5");
    hear(&d);
    CHECK_EQ(d.code, 5);
    if (CHECK_THAT(number_of(&d), >, 1))
        CHECK(goes(number_of(&d)));
    done(&d);
}

static void a_detached_grandchild_delays_nothing(void)
{
    child c = make_child("setsid sh -c 'echo $$; echo up; exec sleep 1000' & read -r x; exit 5");
    c.stop_at = "up";
    c.grace_ms = 30000;
    hear(&c);
    CHECK_EQ(c.code, 5);
    CHECK_THAT(number_of(&c), >, 1);
    if (number_of(&c) > 1)
        kill(number_of(&c), SIGKILL);
    done(&c);
}

static void the_loop_waits_for_stopped_processes(void)
{
    child c = make_child("trap '' TERM; echo up; while :; do sleep 0.01; done");
    c.stop_at = "up";
    c.grace_ms = 30;
    start(&c, NULL);
    pal_loop_close(loop);
    /* It may have been stopped before it set its trap, but its end must be reported. */
    CHECK_EQ(c.exits, 1);
    CHECK_EQ(c.code, -SIGKILL);
    CHECK_STATUS(pal_loop_open(1, &loop, NULL), PAL_OK);
    done(&c);
}

/* ---- Its surroundings ---- */

static void the_child_gets_a_small_environment(void)
{
    static const char *const given[] = {"GIVEN=yes", "LANG=C.UTF-8", NULL};
    setenv("SECRET_API_KEY", "secret", 1);
    setenv("LANG", "tlh", 1);
    child c =
            make_child("echo \"$GIVEN $LANG ${SECRET_API_KEY-none} ${PATH:+path} ${HOME:+home}\"");
    setenv("HOME", "/", 1);
    c.environment = given;
    hear(&c);
    CHECK(said(&c.lines, "yes C.UTF-8 none path home\n"));
    done(&c);
}

static void the_child_inherits_no_descriptors(void)
{
    char script[64];
    int fd = fcntl(1, F_DUPFD, 77); /* without O_CLOEXEC */
    snprintf(script, sizeof script,
            "test -e /proc/self/fd/%d && echo open; test -e /proc/self/fd/2", fd);
    child c = make_child(script);
    hear(&c);
    CHECK_THAT(fd, >=, 77);
    CHECK_EQ(c.code, 0);
    CHECK(said(&c.lines, ""));
    close(fd);
    done(&c);
}

static void the_child_starts_in_the_given_directory(void)
{
    child c = make_child("pwd; kill -0 -$$ && echo leader");
    c.directory = "/usr";
    hear(&c);
    CHECK(said(&c.lines, "/usr\nleader\n"));
    done(&c);
}

/* The PATH of the child decides. */
static void a_program_is_found_in_the_path(void)
{
    char dir[] = "/tmp/palaver-net-XXXXXX", path[64], variable[64];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/own-program", dir);
    snprintf(variable, sizeof variable, "PATH=%s", dir);
    FILE *file = fopen(path, "w");
    fputs("#!/bin/sh\necho \"own $1\"\n", file);
    fchmod(fileno(file), 0755);
    fclose(file);
    const char *const given[] = {variable, NULL};
    child c = make_child("");
    c.arguments[0] = "own-program";
    c.arguments[1] = "x";
    c.arguments[2] = NULL;
    c.environment = given;
    hear(&c);
    CHECK_STATUS(c.started, PAL_OK);
    CHECK(said(&c.lines, "own x\n"));
    done(&c);
    unlink(path);
    rmdir(dir);
}

static void fails(const char *program, const char *directory, pal_status status, const char *text)
{
    child c = make_child("");
    c.arguments[0] = program;
    c.directory = directory;
    hear(&c);
    if (!CHECK_EQ(c.started, status) || !CHECK_CONTAINS(c.err.message, text))
        printf("# %d '%s'\n", c.started, c.err.message);
    CHECK(!c.process);
    CHECK_EQ(c.exits, 0);
    done(&c);
}

static void a_failed_start_is_reported(void)
{
    fails("no-such-program-here", NULL, PAL_NOT_FOUND, "could not start 'no-such-program-here'");
    fails("/no/such/program", NULL, PAL_NOT_FOUND, "'/no/such/program'");
    fails("/etc/passwd", NULL, PAL_DENIED, "'/etc/passwd'");
    fails("sh", "/no/such/place", PAL_NOT_FOUND, "'/no/such/place'");
    fails("", NULL, PAL_INVALID, "is empty");
}

static void begin_without_memory(void *user)
{
    static uint64_t nth;
    pal_memory_fail_at(++nth, 1);
    begin(user);
    pal_memory_fail_at(0, 0);
}

static void an_allocation_failure_is_reported(void)
{
    bool succeeded = false;
    int failures = 0;
    for (int i = 0; i < 30 && !succeeded; i++) {
        child c = make_child("echo up");
        on_loop(loop, begin_without_memory, &c);
        finish(&c);
        CHECK(c.started == PAL_OK || (c.started == PAL_NO_MEMORY && c.err.message[0]));
        succeeded = c.started == PAL_OK && said(&c.lines, "up\n");
        failures += c.started == PAL_NO_MEMORY;
        done(&c);
    }
    CHECK(succeeded);
    CHECK_THAT(failures, >=, 4);
}

int main(void)
{
    CHECK_STATUS(pal_loop_open(1, &loop, NULL), PAL_OK);
    RUN(lines_are_exchanged_with_a_child);
    RUN(output_is_split_at_line_ends);
    RUN(long_lines_arrive_complete);
    RUN(a_line_over_the_limit_kills_the_child);
    RUN(a_long_error_line_is_only_cut);
    RUN(large_output_arrives);
    RUN(large_input_waits_for_a_slow_child);
    RUN(unread_input_is_limited);
    RUN(writing_to_a_dead_child_is_harmless);
    RUN(death_by_a_signal_is_reported);
    RUN(a_stop_begins_with_sigterm);
    RUN(a_stop_ends_with_sigkill);
    RUN(grandchildren_are_killed_with_the_child);
    RUN(a_detached_grandchild_delays_nothing);
    RUN(the_loop_waits_for_stopped_processes);
    RUN(the_child_gets_a_small_environment);
    RUN(the_child_inherits_no_descriptors);
    RUN(the_child_starts_in_the_given_directory);
    RUN(a_program_is_found_in_the_path);
    RUN(a_failed_start_is_reported);
    RUN(an_allocation_failure_is_reported);
    pal_loop_close(loop);
    return tap_done();
}
