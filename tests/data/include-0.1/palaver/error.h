/* error.h - how functions report failures: a status that a program can act on, and one line for a
 * person to read. */
#ifndef PALAVER_ERROR_H
#define PALAVER_ERROR_H

#include "palaver/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Results of functions. Values are only added, never renumbered. docs/errors.md maps them to exit
 * codes and HTTP statuses. */
typedef enum pal_status {
    PAL_OK = 0,
    PAL_INVALID = 1,   /* the input is wrong; the same call will fail again */
    PAL_NOT_FOUND = 2, /* the thing does not exist for this tenant */
    PAL_CONFLICT = 3,  /* the state is not the one that the caller expected */
    PAL_LIMIT = 4,     /* a named limit is exceeded */
    PAL_NO_MEMORY = 5,
    PAL_IO = 6,      /* the disk or the network failed */
    PAL_CORRUPT = 7, /* stored data is damaged */
    PAL_BUSY = 8,    /* another caller or process holds the resource; retry later */
    PAL_TIMEOUT = 9,
    PAL_CANCELED = 10,
    PAL_DENIED = 11,   /* not permitted: file permissions, keys or a stale fence */
    PAL_PROVIDER = 12, /* the model service failed */
    PAL_BUDGET = 13,   /* a budget of tokens, money or sessions is used up */
    PAL_FULL = 14,     /* the disk is full; nothing was written */
    PAL_OVERLOADED = 15, /* too much runs at the same time; nothing was started: retry later */
} pal_status;

#define PAL_ERROR_MESSAGE_MAX 248

/* Describes a failure. The caller provides the memory and nothing is allocated, so that a lack of
 * memory can be reported too. */
typedef struct pal_error {
    pal_status status;
    char message[PAL_ERROR_MESSAGE_MAX]; /* one line in lower case, with names in 'quotes' */
} pal_error;

/* Returns a stable name in lower case, for example "ok" or "not_found". */
PAL_API const char *pal_status_name(pal_status status);

/* Fills `err` (may be NULL) and returns `status`, so that a function can fail in one line. A
 * message that is too long is cut between two characters. */
PAL_API pal_status pal_error_set(pal_error *err, pal_status status, const char *format, ...)
        PAL_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif
#endif
