/* error.c - names of statuses, and one-line messages in the caller's memory.
 *
 * Nothing here allocates or locks, so any thread can report any error, even a lack of memory. */
#include "palaver/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/utf8.h"

static const char *const status_names[] = {
        [PAL_OK] = "ok",
        [PAL_INVALID] = "invalid",
        [PAL_NOT_FOUND] = "not_found",
        [PAL_CONFLICT] = "conflict",
        [PAL_LIMIT] = "limit",
        [PAL_NO_MEMORY] = "no_memory",
        [PAL_IO] = "io",
        [PAL_CORRUPT] = "corrupt",
        [PAL_BUSY] = "busy",
        [PAL_TIMEOUT] = "timeout",
        [PAL_CANCELED] = "canceled",
        [PAL_DENIED] = "denied",
        [PAL_PROVIDER] = "provider",
        [PAL_BUDGET] = "budget_exceeded",
        [PAL_FULL] = "full",
        [PAL_OVERLOADED] = "overloaded",
};

const char *pal_status_name(pal_status status)
{
    size_t count = sizeof status_names / sizeof status_names[0];
    return (size_t)status < count ? status_names[status] : "unknown";
}

/* A message may quote text from a client. Control characters are replaced so that it stays one
 * line. */
static void keep_to_one_line(char *message)
{
    for (char *p = message; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    }
}

pal_status pal_error_set(pal_error *err, pal_status status, const char *format, ...)
{
    if (!err)
        return status;

    /* Formats into a separate buffer, because an argument may be the message that is being
     * replaced. */
    char message[PAL_ERROR_MESSAGE_MAX + 4];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (len < 0)
        message[0] = '\0';

    /* The buffer is a few bytes larger, so that the cut can see whether the last character
     * continues. */
    size_t kept = pal_utf8_cut(pal_str_of(message), PAL_ERROR_MESSAGE_MAX - 1);
    message[kept] = '\0';
    keep_to_one_line(message);
    memcpy(err->message, message, kept + 1);
    err->status = status;
    return status;
}
