/* transfer_input.c - reads files and stdin, completely or line by line, with limits. */
#include "transfer/transfer_input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"

#define CHUNK ((size_t)256 << 10)

pal_status pal_transfer_input_open(
        const char *path, pal_transfer_input *out_input, pal_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pal_error_set(err, errno == ENOENT ? PAL_NOT_FOUND : PAL_IO,
                "could not read '%.160s': %s", path, strerror(errno));
    *out_input = (pal_transfer_input){.name = is_stdin ? "stdin" : path, .fd = fd};
    pal_buf_init(&out_input->buf, PAL_TRANSFER_LINE_MAX + CHUNK);
    return PAL_OK;
}

void pal_transfer_input_close(pal_transfer_input *input)
{
    pal_buf_done(&input->buf);
    if (input->fd > STDIN_FILENO)
        close(input->fd);
    input->fd = -1;
}

/* Reads one more piece and appends it to the buffer. */
static pal_status fill(pal_transfer_input *input, pal_error *err)
{
    char *place = pal_buf_reserve(&input->buf, CHUNK);
    if (!place && input->buf.failure == PAL_LIMIT)
        return pal_error_set(err, PAL_LIMIT, "'%.160s' is too large", input->name);
    if (!place)
        return pal_no_memory(err);
    ssize_t len;
    do {
        len = read(input->fd, place, CHUNK);
    } while (len < 0 && errno == EINTR);
    if (len < 0)
        return pal_error_set(
                err, PAL_IO, "could not read '%.160s': %s", input->name, strerror(errno));
    input->is_end = len == 0;
    pal_buf_commit(&input->buf, (size_t)len);
    return PAL_OK;
}

pal_status pal_transfer_input_all(
        pal_transfer_input *input, pal_str *out_text, pal_error *err)
{
    pal_status status = PAL_OK;
    while (status == PAL_OK && !input->is_end) {
        status = fill(input, err);
        if (status == PAL_OK && input->buf.len > PAL_TRANSFER_INPUT_MAX)
            status = pal_error_set(err, PAL_LIMIT, "'%.160s' exceeds %zu MiB", input->name,
                    PAL_TRANSFER_INPUT_MAX >> 20);
    }
    if (status == PAL_OK)
        *out_text = pal_str_make(input->buf.data + input->at, input->buf.len - input->at);
    return status;
}

pal_status pal_transfer_input_piece(
        pal_transfer_input *input, pal_str *out_text, pal_error *err)
{
    pal_buf_clear(&input->buf);
    pal_status status = fill(input, err);
    if (status != PAL_OK)
        return status;
    input->bytes += input->buf.len;
    *out_text = pal_buf_str(&input->buf);
    return PAL_OK;
}

/* Returns the line of `len` bytes at the current position. */
static void take(pal_transfer_input *input, size_t len, bool with_end, pal_transfer_line *out_line)
{
    out_line->text = pal_str_make(input->buf.data + input->at, len);
    if (len > 0 && out_line->text.data[len - 1] == '\r')
        out_line->text.len--;
    input->at += len + (with_end ? 1 : 0);
    input->bytes += len + (with_end ? 1 : 0);
}

pal_status pal_transfer_input_line(
        pal_transfer_input *input, pal_transfer_line *out_line, bool *out_has, pal_error *err)
{
    size_t searched = 0;
    bool too_long = false;
    for (;;) {
        pal_str rest = {0};

        if (input->buf.data) /* before the first read there is no buffer to point into */
            rest = pal_str_make(input->buf.data + input->at, input->buf.len - input->at);
        const char *end = rest.len > searched
                ? memchr(rest.data + searched, '\n', rest.len - searched)
                : NULL;
        if (end || (input->is_end && (rest.len || too_long))) {
            take(input, end ? (size_t)(end - rest.data) : rest.len, end != NULL, out_line);
            out_line->too_long = too_long || out_line->text.len > PAL_TRANSFER_LINE_MAX;
            *out_has = true;
            return PAL_OK;
        }
        if (input->is_end) {
            *out_has = false;
            return PAL_OK;
        }
        pal_buf_consume(&input->buf, input->at);
        input->at = 0;
        searched = input->buf.len;
        if (searched > PAL_TRANSFER_LINE_MAX) {
            too_long = true;
            input->bytes += searched;
            pal_buf_consume(&input->buf, searched);
            searched = 0;
        }
        pal_status status = fill(input, err);
        if (status != PAL_OK)
            return status;
    }
}
