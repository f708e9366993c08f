/* error.h - how every call reports failure: a status to act on and a line to read. */
#ifndef PALAVER_ERROR_H
#define PALAVER_ERROR_H

#include "palaver/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a caller can act on. Appended, never renumbered; docs/errors.md maps them to exit codes
 * and HTTP. */
typedef enum pal_status {
    PAL_OK = 0,
    PAL_INVALID = 1,   /* the input is wrong; sending it again will fail again */
    PAL_NOT_FOUND = 2, /* no such thing for this tenant */
    PAL_CONFLICT = 3,  /* the state is not the one the caller expected */
    PAL_LIMIT = 4,     /* over a named limit */
    PAL_NO_MEMORY = 5,
    PAL_IO = 6,      /* the disk or the network failed */
    PAL_CORRUPT = 7, /* stored data is damaged */
    PAL_BUSY = 8,    /* somebody else holds it; try again */
    PAL_TIMEOUT = 9,
    PAL_CANCELED = 10,
    PAL_DENIED = 11,   /* not permitted: file permissions, keys, a stale fence */
    PAL_PROVIDER = 12, /* the model's service failed */
    PAL_BUDGET = 13,   /* a budget of tokens, money or sessions is used up */
    PAL_FULL = 14,     /* the disk is full; nothing was written */
} pal_status;

#define PAL_ERROR_MESSAGE_MAX 248

/* The caller's; it is never allocated, so running out of memory can be reported too. */
typedef struct pal_error {
    pal_status status;
    char message[PAL_ERROR_MESSAGE_MAX]; /* one line, lower case, names the thing in 'quotes' */
} pal_error;

/* A stable lower-case word: "ok", "not_found", ... */
PAL_API const char *pal_status_name(pal_status status);

/* Fills `err` (which may be NULL) and returns `status`, so that failing is one line. A message
 * that is too long is cut at a character boundary. */
PAL_API pal_status pal_error_set(pal_error *err, pal_status status, const char *format, ...)
        PAL_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif
#endif
