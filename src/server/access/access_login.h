/* access_login.h - logins of browsers. A login has two secrets. The cookie is sent by the browser
 * and cannot be read by scripts; the half is kept by the page and sent as a header. Only both
 * together count as the key that the login was made with. Cookies do not depend on the port, so
 * other servers on this machine receive the cookie, but never the half.
 *
 * Logins are records of the tenant PAL_ACCESS_TENANT, which contain only digests. A login ends 12
 * hours after its last use, or after 30 days. A code for a login counts once, for a minute.
 *
 * Threads: any. `palaver page` uses pal_login_code_create() too. */
#ifndef PAL_ACCESS_LOGIN_H
#define PAL_ACCESS_LOGIN_H

#include "server/access/access_key.h"

#define PAL_LOGIN_SECRET_SIZE 65 /* 64 hex digits, NUL */
#define PAL_LOGIN_COOKIE "palaver_page"

typedef struct pal_login {
    char cookie[PAL_LOGIN_SECRET_SIZE];
    char half[PAL_LOGIN_SECRET_SIZE];
    int64_t expires_at; /* if it is not used before */
} pal_login;

/* Makes a login for a key. */
PAL_CHECKED pal_status pal_login_create(
        pal_store *store, pal_str key_id, pal_login *out_login, pal_error *err);

/* Finds the key of a login, by both secrets. PAL_NOT_FOUND if there is no such login, or if the
 * secrets do not fit. */
PAL_CHECKED pal_status pal_login_find(pal_store *store, pal_str cookie, pal_str half,
        pal_arena *arena, pal_str *out_key_id, pal_error *err);
/* Extends a login that was used. A login that was renewed recently is not written again. */
PAL_CHECKED pal_status pal_login_renew(pal_store *store, pal_str cookie, pal_error *err);
/* Ends a login. PAL_NOT_FOUND if there is none. */
PAL_CHECKED pal_status pal_login_end(pal_store *store, pal_str cookie, pal_error *err);

typedef struct pal_login_entry {
    pal_str id; /* digest of the cookie */
    int64_t created_at;
    int64_t used_at;    /* the last use that extended the login */
    int64_t expires_at; /* if it is not used before */
} pal_login_entry;

/* Lists the logins of a key. At most PAL_SERVER_LOGINS_MAX logins of all keys are inspected. The
 * result is in the arena. */
PAL_CHECKED pal_status pal_login_list(pal_store *store, pal_str key_id, pal_arena *arena,
        pal_login_entry **out_items, size_t *out_len, pal_error *err);
/* Writes the id of a login, from its cookie. */
PAL_CHECKED pal_status pal_login_id(
        pal_str cookie, char out_id[PAL_LOGIN_SECRET_SIZE], pal_error *err);
/* Ends the login of a key by its id. PAL_NOT_FOUND if the key has no such login. */
PAL_CHECKED pal_status pal_login_drop(
        pal_store *store, pal_str key_id, pal_str id, pal_arena *arena, pal_error *err);

/* Makes a code for one login with the key. */
PAL_CHECKED pal_status pal_login_code_create(pal_store *store, pal_str key_id,
        char out_code[PAL_LOGIN_SECRET_SIZE], pal_error *err);
/* Uses a code up. PAL_NOT_FOUND if it is unknown, was used or is too old. */
PAL_CHECKED pal_status pal_login_code_take(pal_store *store, pal_str code, pal_arena *arena,
        pal_str *out_key_id, pal_error *err);

/* Returns the value of the cookie in a Cookie header; empty if it is not there. */
pal_str pal_login_cookie_of(pal_str header);

#endif
