/* message_check.h - decides whether a message can be stored. Can be called from any thread. */
#ifndef PAL_MESSAGE_CHECK_H
#define PAL_MESSAGE_CHECK_H

#include "palaver/message.h"
#include "palaver/session.h"

#define PAL_BLOB_NAME_LEN 71 /* "sha256:" and 64 hex digits */

#define PAL_MESSAGE_PARTS_MAX 4096 /* parts in one message, and in one tool result */

#define PAL_TENANT_DEFAULT "default"

#define PAL_ROLES (PAL_ROLE_TOOL + 1)
#define PAL_PART_KINDS (PAL_PART_COMPACTION + 1)
#define PAL_SESSION_STATES (PAL_SESSION_ERASED + 1)

/* The names of all roles, kinds and states, by their values, which must have been checked. */
extern const char *const pal_role_names[PAL_ROLES];
extern const char *const pal_part_kind_names[PAL_PART_KINDS];
extern const char *const pal_session_state_names[PAL_SESSION_STATES];

/* Checks everything except `extra`, which depends on the format: the form, texts, names and blobs.
 * PAL_INVALID or PAL_LIMIT: `err` names the part and the member. */
PAL_CHECKED pal_status pal_message_check(const pal_message *message, pal_error *err);

/* Checks only the form: the role and the kinds are known, there are not too many parts, and no tool
 * result is inside another. Costs almost nothing. */
PAL_CHECKED pal_status pal_message_check_form(const pal_message *message, pal_error *err);

/* Checks for valid UTF-8 of at most `len_max` bytes. `what` names the text in the error: "'title'
 * is not valid UTF-8 at byte 3". With `no_nul`, which names and keys use, a NUL is rejected too. */
PAL_CHECKED pal_status pal_text_check(
        pal_str text, const char *what, size_t len_max, bool no_nul, pal_error *err);

/* Replaces an empty name of a tenant by the default, and checks it. */
PAL_CHECKED pal_status pal_tenant_check(pal_str *tenant, pal_error *err);

/* Accepts an empty text or a JSON object. */
PAL_CHECKED pal_status pal_object_check(
        pal_str json, const char *what, size_t len_max, pal_error *err);

/* Accepts any JSON value. */
PAL_CHECKED pal_status pal_value_check(
        pal_str json, const char *what, size_t len_max, pal_error *err);

#endif
