/* transfer_input.h - reads a file or stdin completely, in pieces or line by line, with limits. One
 * thread at a time. */
#ifndef PAL_TRANSFER_INPUT_H
#define PAL_TRANSFER_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "palaver/error.h"
#include "palaver/str.h"

#define PAL_TRANSFER_LINE_MAX ((size_t)256 << 20)
#define PAL_TRANSFER_INPUT_MAX ((size_t)256 << 20) /* limit for input that is read completely */

typedef struct pal_transfer_input {
    const char *name; /* names the input in error messages */
    int fd;
    pal_buf buf;
    size_t at;      /* offset of the next line in buf */
    uint64_t bytes; /* bytes read so far */
    bool is_end;
} pal_transfer_input;

typedef struct pal_transfer_line {
    pal_str text;  /* without its line end; valid until the next line is read */
    bool too_long; /* longer than PAL_TRANSFER_LINE_MAX; the text was dropped */
} pal_transfer_line;

/* Opens a file; `path` "-" is stdin. */
PAL_CHECKED pal_status pal_transfer_input_open(
        const char *path, pal_transfer_input *out_input, pal_error *err);
void pal_transfer_input_close(pal_transfer_input *input);

/* Reads everything that is left; valid until the input is closed. PAL_LIMIT if it exceeds
 * PAL_TRANSFER_INPUT_MAX. */
PAL_CHECKED pal_status pal_transfer_input_all(
        pal_transfer_input *input, pal_str *out_text, pal_error *err);
/* Reads the next line; *out_has is false at the end. */
PAL_CHECKED pal_status pal_transfer_input_line(
        pal_transfer_input *input, pal_transfer_line *out_line, bool *out_has, pal_error *err);

/* Reads the next piece; empty at the end. The piece is valid until the next call. For files of
 * any size; cannot be combined with pal_transfer_input_line(). */
PAL_CHECKED pal_status pal_transfer_input_piece(
        pal_transfer_input *input, pal_str *out_text, pal_error *err);

#endif
