/* log.h - log lines for operators. The command and the server log; the
 * library logs only errors of its own code. */
#ifndef PAL_BASE_LOG_H
#define PAL_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "palaver/api.h"
#include "palaver/str.h"

typedef enum pal_log_level {
    PAL_LOG_ERROR = 0,
    PAL_LOG_WARN = 1,
    PAL_LOG_INFO = 2,
    PAL_LOG_DEBUG = 3,
} pal_log_level;

/* Sends lines up to `level` to `file` (stderr by default), as text or as one JSON object per
 * line. */
void pal_log_setup(FILE *file, pal_log_level level, int as_json);

/* Writes one complete line, from any thread. Control characters are escaped. */
void pal_log(pal_log_level level, const char *format, ...) PAL_PRINTF(2, 3);

/* A value that belongs to a line, written as name=value or as a member of the JSON object. */
typedef struct pal_log_field {
    const char *name;
    pal_str text;
    int64_t number;
    bool is_number;
} pal_log_field;

#define PAL_LOG_FIELDS_MAX 16

/* Like pal_log(), with fields after the message. Empty texts are left out. */
void pal_log_event(
        pal_log_level level, const char *message, const pal_log_field *fields, size_t fields_len);

#endif
