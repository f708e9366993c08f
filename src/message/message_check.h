/* message_check.h - whether a message may be kept. */
#ifndef PAL_MESSAGE_CHECK_H
#define PAL_MESSAGE_CHECK_H

#include "palaver/message.h"

#define PAL_BLOB_NAME_LEN 71 /* "sha256:" and 64 hex digits */

/* Its texts, names and blobs. PAL_INVALID or PAL_LIMIT with the part and member that is wrong.
 * The shape must have passed pal_native_message_check(): that bounds the nesting. */
PAL_CHECKED pal_status pal_message_check(const pal_message *message, pal_error *err);

/* `what` names it in the error: "'title' is not valid UTF-8 at byte 3". NUL is no text either
 * where `what` is a name or a key, so those refuse it with `no_nul`. */
PAL_CHECKED pal_status pal_text_check(
        pal_str text, const char *what, size_t len_max, bool no_nul, pal_error *err);

/* Empty, or a JSON object. */
PAL_CHECKED pal_status pal_object_check(
        pal_str json, const char *what, size_t len_max, pal_error *err);

/* Any JSON value. */
PAL_CHECKED pal_status pal_value_check(
        pal_str json, const char *what, size_t len_max, pal_error *err);

#endif
