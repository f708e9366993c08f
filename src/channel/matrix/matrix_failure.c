/* matrix_failure.c - what an error of a homeserver means. One table from error codes; a proxy in
 * front of the server can send HTML instead, and then the HTTP status decides. */
#include <stdio.h>
#include <stdlib.h>
#include "base/text.h"
#include "channel/matrix/matrix_answer.h"

static const struct {
    const char *code;
    pal_matrix_fault fault;
} faults[] = {
        {"M_LIMIT_EXCEEDED", PAL_MATRIX_FAULT_RATE},
        {"M_UNKNOWN_TOKEN", PAL_MATRIX_FAULT_TOKEN},
        {"M_MISSING_TOKEN", PAL_MATRIX_FAULT_TOKEN},
        {"M_USER_LOCKED", PAL_MATRIX_FAULT_ACCOUNT},
        {"M_USER_DEACTIVATED", PAL_MATRIX_FAULT_ACCOUNT},
        {"M_USER_SUSPENDED", PAL_MATRIX_FAULT_ACCOUNT},
        {"M_RESOURCE_LIMIT_EXCEEDED", PAL_MATRIX_FAULT_ACCOUNT},
        {"M_USER_LIMIT_EXCEEDED", PAL_MATRIX_FAULT_ACCOUNT},
        {"M_FORBIDDEN", PAL_MATRIX_FAULT_FORBIDDEN},
        {"M_GUEST_ACCESS_FORBIDDEN", PAL_MATRIX_FAULT_FORBIDDEN},
        {"M_NOT_FOUND", PAL_MATRIX_FAULT_MISSING},
        {"M_UNRECOGNIZED", PAL_MATRIX_FAULT_MISSING},
        {"M_TOO_LARGE", PAL_MATRIX_FAULT_LARGE},
        {"M_NOT_YET_UPLOADED", PAL_MATRIX_FAULT_AGAIN},
        {"M_DUPLICATE_ANNOTATION", PAL_MATRIX_FAULT_DUPLICATE},
};

static pal_matrix_fault fault_of(long code, const char *name)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (strcmp(faults[i].code, name) == 0)
            return faults[i].fault;
    }
    switch (code) {
    case 401:
        return PAL_MATRIX_FAULT_TOKEN;
    case 403:
        return PAL_MATRIX_FAULT_FORBIDDEN;
    case 404:
    case 405:
        return PAL_MATRIX_FAULT_MISSING;
    case 408:
        return PAL_MATRIX_FAULT_AGAIN;
    case 413:
        return PAL_MATRIX_FAULT_LARGE;
    case 429:
        return PAL_MATRIX_FAULT_RATE;
    default:
        return code >= 400 && code < 500 ? PAL_MATRIX_FAULT_REQUEST : PAL_MATRIX_FAULT_AGAIN;
    }
}

/* Copies the beginning of a text without control characters. */
static void copy_line(pal_str text, char *out, size_t size)
{
    size_t len = pal_utf8_cut(text, size - 1);
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f ? ' ' : text.data[i];
    out[len] = '\0';
}

/* Returns the milliseconds that the header Retry-After names, or -1. Dates are not used here. */
static int64_t seconds_of(pal_str header)
{
    int64_t seconds = 0;
    header = pal_text_trim(header);
    if (header.len == 0 || header.len > 6)
        return -1;
    for (size_t i = 0; i < header.len; i++) {
        if (header.data[i] < '0' || header.data[i] > '9')
            return -1;
        seconds = seconds * 10 + (header.data[i] - '0');
    }
    return seconds * 1000;
}

static int64_t retry_of(pal_str header, pal_json json)
{
    int64_t ms = seconds_of(header);
    if (ms < 0 && !pal_json_i64(pal_json_find(json, "retry_after_ms"), &ms))
        ms = PAL_MATRIX_RETRY_MS;
    if (ms < 0)
        ms = PAL_MATRIX_RETRY_MS;
    return ms < PAL_MATRIX_RETRY_MS_MAX ? ms : PAL_MATRIX_RETRY_MS_MAX;
}

void pal_matrix_failure_read(
        long code, pal_str retry_after, pal_str body, pal_matrix_failure *out_failure)
{
    pal_matrix_failure *failure = out_failure;
    pal_arena *arena = pal_arena_new(0);
    pal_json json = {0};
    pal_str name = {0}, text = {0};

    *failure = (pal_matrix_failure){0};
    if (code >= 200 && code < 300) {
        pal_arena_free(arena);
        return;
    }
    if (arena && pal_json_parse(arena, body, NULL, &json, NULL) == PAL_OK) {
        name = pal_json_string(pal_json_find(json, "errcode"), arena);
        text = pal_json_string(pal_json_find(json, "error"), arena);
        (void)pal_json_bool(pal_json_find(json, "soft_logout"), &failure->is_soft_logout);
    }
    copy_line(name, failure->code, sizeof failure->code);
    if (text.len)
        copy_line(text, failure->text, sizeof failure->text);
    else
        snprintf(failure->text, sizeof failure->text, "HTTP status %ld", code);
    failure->fault = fault_of(code, failure->code);
    if (failure->fault == PAL_MATRIX_FAULT_RATE)
        failure->retry_ms = retry_of(retry_after, json);
    pal_arena_free(arena);
}
