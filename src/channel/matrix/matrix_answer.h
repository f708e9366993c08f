/* matrix_answer.h - reads short responses of a homeserver: errors, logins, and what was sent. Pure
 * functions. A token is never part of an error text. */
#ifndef PAL_MATRIX_ANSWER_H
#define PAL_MATRIX_ANSWER_H

#include "base/json/json.h"
#include "palaver/header.h"

/* What an error means for us. */
typedef enum pal_matrix_fault {
    PAL_MATRIX_FAULT_NONE = 0,  /* it is a success */
    PAL_MATRIX_FAULT_AGAIN,     /* the server has a problem: later */
    PAL_MATRIX_FAULT_RATE,      /* too many requests: after `retry_ms` */
    PAL_MATRIX_FAULT_TOKEN,     /* the token has expired or was revoked */
    PAL_MATRIX_FAULT_ACCOUNT,   /* the account is locked, or a quota is used up */
    PAL_MATRIX_FAULT_FORBIDDEN, /* never in this room */
    PAL_MATRIX_FAULT_MISSING,   /* the room, the event or the endpoint does not exist */
    PAL_MATRIX_FAULT_LARGE,
    PAL_MATRIX_FAULT_DUPLICATE, /* the reaction is there already */
    PAL_MATRIX_FAULT_REQUEST,   /* the request is wrong */
} pal_matrix_fault;

#define PAL_MATRIX_RETRY_MS 5000              /* if the server does not say when */
#define PAL_MATRIX_RETRY_MS_MAX INT64_C(3600000)

typedef struct pal_matrix_failure {
    pal_matrix_fault fault;
    int64_t retry_ms;    /* RATE */
    bool is_soft_logout; /* TOKEN: the device can log in again */
    char code[64];       /* for example "M_FORBIDDEN"; empty: the server did not say */
    char text[160];      /* one line for a person */
} pal_matrix_failure;

/* Reads a response with HTTP status `code`. `retry_after` is the value of that header; may be
 * empty. The error code decides; the HTTP status only counts for an unknown one. */
void pal_matrix_failure_read(
        long code, pal_str retry_after, pal_str body, pal_matrix_failure *out_failure);

/* A login. */
typedef struct pal_matrix_login {
    pal_str user;
    pal_str device; /* empty: the token has no device */
    pal_str access_token;
    pal_str refresh_token; /* empty: the token does not rotate */
    int64_t expires_at;    /* milliseconds since 1970; 0: never */
} pal_matrix_login;

/* Reads the response to /login or /refresh. The members that it does not have stay unchanged.
 * PAL_PROVIDER: it is not one. */
PAL_CHECKED pal_status pal_matrix_login_read(pal_str body, int64_t now, pal_arena *arena,
        pal_matrix_login *login, pal_error *err);
/* Reads the response to /account/whoami: user and device. */
PAL_CHECKED pal_status pal_matrix_login_read_whoami(
        pal_str body, pal_arena *arena, pal_matrix_login *login, pal_error *err);
/* Writes the body of /login with a password. */
void pal_matrix_login_write(pal_str user, pal_str password, pal_str device, pal_buf *out);
/* Writes the body of /refresh. */
void pal_matrix_login_write_refresh(pal_str refresh_token, pal_buf *out);
/* Returns a text member of a response that is a JSON object, in the arena, for example "event_id".
 * Empty: there is none. */
pal_str pal_matrix_answer_text(pal_str body, const char *name, pal_arena *arena);

#endif
