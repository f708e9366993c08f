/* net_process.c - a child process on the loop.
 *
 * States: running; dead (reaped, its streams may still contain lines); ended (`exit` was called);
 * freed.
 *
 * Threads: everything runs on the loop, except that a separate thread waits for each child, so that
 * the program keeps its own SIGCHLD handling. The thread waits without reaping, and posts a task.
 * The loop first kills the other processes in the child's process group and then reaps the child:
 * until then no other process can have the same group number.
 *
 * `exit` is called when the child is dead and both of its streams have ended. A grandchild that
 * left the group can hold a stream open; the loop waits for it only for a moment. The process is
 * freed when it has ended and libuv has closed its three pipes. */
#include "net/net_process.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/memory.h"
#include "net/net_loop_internal.h"

#define LINE_BYTES_MAX (16u << 20)
#define WRITE_BYTES_MAX (64u << 20)
#define READ_BYTES 65536
#define LINE_KEPT 4096      /* larger buffers are freed after their line */
#define WAITER_STACK 262144 /* the thread calls nothing but waitid() */
#define DRAIN_MS 100        /* after the exit, the streams get DRAIN_ROUNDS periods of this length
                               to end */
#define DRAIN_ROUNDS 10

typedef struct stream {
    uv_pipe_t pipe;
    pal_process *process;
    pal_buf line;
    void (*on_line)(void *user, pal_str line); /* may be NULL */
    bool open;
    bool cut; /* a line was too long, and its rest is skipped */
} stream;

struct pal_process {
    pal_loop *loop;
    pal_process_events events;
    void *user;
    uv_pipe_t input;
    stream output, error;
    char *read_buffer;
    pal_timer timer; /* time limit of a stop, later of the end of the streams */
    int64_t grace_ms;
    size_t write_len; /* bytes that are not written yet */

    pthread_t waiter;
    pal_task task; /* posted by the waiter thread when the child is dead */
    pid_t pid;
    int code;
    unsigned handles; /* pipes that libuv has not closed yet */
    unsigned drains;
    bool input_open, input_ending;
    bool dead;     /* the child has ended and was reaped */
    bool too_long; /* a line of its output was too long */
    bool ended;    /* `exit` was called, or the start failed */
};

/* A pending write and its bytes. */
typedef struct write_job {
    uv_write_t request;
    pal_process *process;
    size_t len;
    char bytes[];
} write_job;

static void maybe_free(pal_process *process)
{
    if (!process->ended || !process->dead || process->handles)
        return;
    pal_loop_timer_stop(process->loop, &process->timer);
    pal_buf_done(&process->output.line);
    pal_buf_done(&process->error.line);
    pal_free(process->read_buffer);
    pal_free(process);
}

/* ---- The end of the process ---- */

static void on_closed(uv_handle_t *handle)
{
    pal_process *process = handle->data;
    process->handles--;
    maybe_free(process);
}

static void close_input(pal_process *process)
{
    if (process->input_open)
        uv_close((uv_handle_t *)&process->input, on_closed);
    process->input_open = false;
}

/* Closes the input after all pending writes. */
static void end_input(pal_process *process)
{
    process->input_ending = true;
    if (process->write_len == 0)
        close_input(process);
}

static void close_stream(stream *from)
{
    if (from->open)
        uv_close((uv_handle_t *)&from->pipe, on_closed);
    from->open = false;
}

static void signal_group(pal_process *process, int number)
{
    if (!process->dead)
        kill(-process->pid, number);
}

static void maybe_tell_exit(pal_process *process)
{
    if (!process->dead || process->ended || process->output.open || process->error.open)
        return;
    close_input(process);
    process->ended = true;
    if (process->events.exit)
        process->events.exit(
                process->user, process->too_long ? PAL_PROCESS_LINE_TOO_LONG : process->code);
    maybe_free(process);
}

/* Waits in rounds instead of once: even if the loop was held up, it must read the available
 * bytes. */
static void on_drained(pal_timer *timer)
{
    pal_process *process = (pal_process *)((char *)timer - offsetof(pal_process, timer));
    if (++process->drains < DRAIN_ROUNDS &&
            pal_loop_timer_start(process->loop, timer, DRAIN_MS, on_drained))
        return;
    close_stream(&process->output);
    close_stream(&process->error);
    maybe_tell_exit(process);
}

/* Runs on the loop, posted by the waiter. The child is dead and still a zombie. */
static void on_dead(pal_task *task)
{
    pal_process *process = (pal_process *)((char *)task - offsetof(pal_process, task));
    int status = 0;
    pthread_join(process->waiter, NULL);
    signal_group(process, SIGKILL);
    /* If the program ignores SIGCHLD, the system has already reaped the child and its exit code is
     * lost. */
    if (waitpid(process->pid, &status, 0) == process->pid)
        process->code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    process->dead = true;
    close_input(process);
    pal_loop_release(process->loop);
    if (process->output.open || process->error.open)
        on_drained(&process->timer);
    else
        maybe_tell_exit(process);
}

static void *wait_for(void *user)
{
    pal_process *process = user;
    siginfo_t info;
    while (waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOWAIT) && errno == EINTR)
        continue;
    process->task.run = on_dead;
    pal_loop_post(process->loop, &process->task);
    return NULL;
}

/* ---- Reading lines ---- */

static void take_too_long(stream *from)
{
    pal_process *process = from->process;
    from->cut = true;
    /* The error stream is for people, so a long line is cut there and the process continues. */
    if (from != &process->output)
        return;
    process->too_long = true;
    signal_group(process, SIGKILL);
}

static void tell_line(stream *from, pal_str line)
{
    if (from->on_line)
        from->on_line(from->process->user, line);
}

/* Appends bytes to a line whose end was not read yet. */
static void gather(stream *from, pal_str bytes)
{
    size_t room = from->line.len_max - from->line.len;
    if (from->cut)
        return;
    pal_buf_append(&from->line, bytes.data, bytes.len < room ? bytes.len : room);
    if (bytes.len <= room && !from->line.failure)
        return;
    tell_line(from, pal_buf_str(&from->line));
    pal_buf_done(&from->line);
    take_too_long(from);
}

static void end_line(stream *from, pal_str bytes)
{
    if (from->line.len == 0 && !from->cut && bytes.len <= from->line.len_max) {
        tell_line(from, bytes);
        return;
    }
    gather(from, bytes);
    if (!from->cut)
        tell_line(from, pal_buf_str(&from->line));
    if (from->line.cap > LINE_KEPT)
        pal_buf_done(&from->line);
    else
        pal_buf_clear(&from->line);
    from->cut = false;
}

static void take_bytes(stream *from, pal_str bytes)
{
    const char *end;
    while (!from->process->too_long && bytes.len &&
            (end = memchr(bytes.data, '\n', bytes.len)) != NULL) {
        size_t len = (size_t)(end - bytes.data);
        end_line(from, pal_str_make(bytes.data, len));
        bytes = pal_str_make(end + 1, bytes.len - len - 1);
    }
    if (!from->process->too_long && bytes.len)
        gather(from, bytes);
}

static void give_buffer(uv_handle_t *handle, size_t wanted, uv_buf_t *out_buffer)
{
    pal_process *process = handle->data;
    (void)wanted;
    *out_buffer = uv_buf_init(process->read_buffer, READ_BYTES);
}

static void on_read(uv_stream_t *handle, ssize_t len, const uv_buf_t *buffer)
{
    pal_process *process = handle->data;
    bool is_output = (uv_pipe_t *)handle == &process->output.pipe;
    stream *from = is_output ? &process->output : &process->error;
    if (len > 0)
        take_bytes(from, pal_str_make(buffer->base, (size_t)len));
    if (len >= 0)
        return;
    /* The last line may have no newline. */
    if (from->line.len && !from->cut)
        tell_line(from, pal_buf_str(&from->line));
    close_stream(from);
    maybe_tell_exit(process);
}

/* ---- Writing the input ---- */

static void on_written(uv_write_t *request, int status)
{
    write_job *job = (write_job *)request;
    pal_process *process = job->process;
    process->write_len -= job->len;
    pal_free(job);
    if (status < 0 || (process->input_ending && process->write_len == 0))
        close_input(process);
}

pal_status pal_process_write(pal_process *process, pal_str bytes, pal_error *err)
{
    if (!process->input_open || process->input_ending)
        return pal_error_set(err, PAL_IO, "the input of the process is closed");
    if (bytes.len > WRITE_BYTES_MAX - process->write_len)
        return pal_error_set(err, PAL_LIMIT, "the process does not read its input");
    write_job *job = pal_malloc(sizeof *job + bytes.len);
    if (!job)
        return pal_no_memory(err);
    job->process = process;
    job->len = bytes.len;
    if (bytes.len)
        memcpy(job->bytes, bytes.data, bytes.len);
    uv_buf_t buffer = uv_buf_init(job->bytes, (unsigned)bytes.len);
    int rc = uv_write(&job->request, (uv_stream_t *)&process->input, &buffer, 1, on_written);
    if (rc) {
        pal_free(job);
        return pal_error_set(err, rc == UV_ENOMEM ? PAL_NO_MEMORY : PAL_IO,
                "could not write to the process: %s", uv_strerror(rc));
    }
    process->write_len += bytes.len;
    return PAL_OK;
}

/* ---- Starting and stopping ---- */

static void on_killed(pal_timer *timer)
{
    pal_process *process = (pal_process *)((char *)timer - offsetof(pal_process, timer));
    signal_group(process, SIGKILL);
}

static void on_grace(pal_timer *timer)
{
    pal_process *process = (pal_process *)((char *)timer - offsetof(pal_process, timer));
    signal_group(process, SIGTERM);
    if (!pal_loop_timer_start(process->loop, timer, process->grace_ms, on_killed))
        signal_group(process, SIGKILL);
}

void pal_process_stop(pal_process *process, int64_t grace_ms)
{
    assert(pal_loop_is_on(process->loop));
    end_input(process);
    if (process->dead)
        return;
    process->grace_ms = grace_ms;
    if (!pal_loop_timer_start(process->loop, &process->timer, grace_ms, on_grace))
        signal_group(process, SIGKILL);
}

/* Takes ownership of the descriptor, even on failure. */
static int open_pipe(pal_process *process, uv_pipe_t *pipe, int *fd)
{
    int rc = uv_pipe_init(&process->loop->uv, pipe, 0);
    if (rc)
        return rc;
    pipe->data = process;
    process->handles++;
    rc = uv_pipe_open(pipe, *fd);
    if (rc == 0)
        *fd = -1;
    return rc;
}

static int open_stream(pal_process *process, stream *from, int *fd)
{
    from->process = process;
    int rc = open_pipe(process, &from->pipe, fd);
    from->open = from->pipe.data != NULL;
    return rc ? rc : uv_read_start((uv_stream_t *)&from->pipe, give_buffer, on_read);
}

static int open_pipes(pal_process *process, pal_child *child)
{
    int rc = open_pipe(process, &process->input, &child->input);
    process->input_open = process->input.data != NULL;
    if (!rc)
        rc = open_stream(process, &process->output, &child->output);
    if (!rc)
        rc = open_stream(process, &process->error, &child->error);
    return rc;
}

static void close_left(const pal_child *child)
{
    const int fds[] = {child->input, child->output, child->error};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

static pal_process *new_process(
        pal_loop *loop, const pal_process_spec *spec, const pal_process_events *events, void *user)
{
    size_t line_max = spec->line_bytes_max ? spec->line_bytes_max : LINE_BYTES_MAX;
    pal_process *process = pal_calloc(1, sizeof *process);
    char *buffer = pal_malloc(READ_BYTES);
    if (!process || !buffer) {
        pal_free(buffer);
        pal_free(process);
        return NULL;
    }
    process->loop = loop;
    process->events = *events;
    process->user = user;
    process->read_buffer = buffer;
    process->output.on_line = events->line;
    process->error.on_line = events->error_line;
    pal_buf_init(&process->output.line, line_max);
    pal_buf_init(&process->error.line, line_max);
    return process;
}

/* The waiter thread is not running yet, so the child must be reaped here. */
static void undo_start(pal_process *process)
{
    kill(-process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    process->dead = process->ended = true;
    close_input(process);
    close_stream(&process->output);
    close_stream(&process->error);
    maybe_free(process);
}

pal_status pal_process_start(pal_loop *loop, const pal_process_spec *spec,
        const pal_process_events *events, void *user, pal_process **out_process, pal_error *err)
{
    assert(pal_loop_is_on(loop));
    pal_child child;
    pal_process *process = new_process(loop, spec, events, user);
    if (!process)
        return pal_no_memory(err);
    pal_status status = pal_child_start(spec, &child, err);
    if (status) {
        process->ended = process->dead = true;
        maybe_free(process);
        return status;
    }
    process->pid = child.pid;
    int rc = open_pipes(process, &child);
    if (rc == 0)
        rc = -pal_net_thread_start(&process->waiter, WAITER_STACK, wait_for, process);
    close_left(&child);
    if (rc) {
        undo_start(process);
        return pal_error_set(err, rc == UV_ENOMEM ? PAL_NO_MEMORY : PAL_IO,
                "could not start '%s': %s", spec->arguments[0], uv_strerror(rc));
    }
    pal_loop_hold(loop);
    *out_process = process;
    return PAL_OK;
}
