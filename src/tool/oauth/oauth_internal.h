/* oauth_internal.h - definitions that the oauth_*.c files share. For them only. */
#ifndef PAL_OAUTH_INTERNAL_H
#define PAL_OAUTH_INTERNAL_H

#include "base/buf.h"
#include "base/json/json.h"
#include "palaver/arena.h"
#include "tool/oauth/oauth.h"

#define PAL_OAUTH_RESPONSE_BYTES_MAX (256u << 10) /* metadata, or a response with tokens */
#define PAL_OAUTH_FILE_BYTES_MAX (256u << 10)
#define PAL_OAUTH_SCOPE_LEN_MAX 4096
#define PAL_OAUTH_URL_LEN_MAX 4096

/* ---- URLs (oauth_url.c) ---- */

/* The parts of a URL; they point into its text. */
typedef struct pal_oauth_url {
    pal_str origin; /* "https://host:8443" */
    pal_str host;
    pal_str port; /* may be empty */
    pal_str path; /* begins with '/', or is empty; without the query */
    bool is_https;
} pal_oauth_url;

/* False: it is not a URL with http or https, or it contains a user or a fragment. */
bool pal_oauth_url_read(pal_str text, pal_oauth_url *out_url);
bool pal_oauth_url_is_local(const pal_oauth_url *url); /* the host is this machine */
bool pal_oauth_url_same_origin(const pal_oauth_url *a, const pal_oauth_url *b);
/* Whether `resource` identifies the server at `url`: the same origin, and the path or a part of it
 * that ends at a '/'. */
bool pal_oauth_url_covers(pal_str resource, pal_str url);
/* Appends name=value to a form or to a query, with '&' if it is not the first. */
void pal_oauth_form_add(pal_buf *form, const char *name, pal_str value);
void pal_oauth_form_encode(pal_buf *out, pal_str text);
/* Returns the decoded value of a parameter, in the arena; empty if there is none, or if there are
 * two. */
pal_str pal_oauth_form_find(pal_str form, const char *name, pal_arena *arena);

/* ---- Challenges (oauth_challenge.c) ---- */

typedef struct pal_oauth_challenge_values {
    pal_str error;
    pal_str scope;
    pal_str resource_metadata;
    bool is_bound; /* the server takes only tokens that are bound to a key (DPoP) */
} pal_oauth_challenge_values;

/* Reads the parameters of the scheme Bearer, otherwise those of the scheme DPoP, in the arena. */
void pal_oauth_challenge_read(
        pal_str header, pal_arena *arena, pal_oauth_challenge_values *out_values);

/* ---- Scopes (oauth_challenge.c) ---- */

/* Whether all scopes of `some`, which are separated by blanks, are in `all`. */
bool pal_oauth_scope_contains(pal_str all, pal_str some);
/* Returns both without duplicates, in the arena. */
pal_str pal_oauth_scope_join(pal_str a, pal_str b, pal_arena *arena);
pal_str pal_oauth_scope_of_list(pal_json list, pal_arena *arena);

/* ---- Metadata (oauth_metadata.c) ---- */

typedef enum pal_oauth_method {
    PAL_OAUTH_METHOD_NONE = 0, /* a public client */
    PAL_OAUTH_METHOD_BASIC = 1,
    PAL_OAUTH_METHOD_POST = 2,
    PAL_OAUTH_METHOD_KEY = 3, /* private_key_jwt */
} pal_oauth_method;

const char *pal_oauth_method_name(pal_oauth_method method);
bool pal_oauth_method_read(pal_str name, pal_oauth_method *out_method);

/* An authorization server. */
typedef struct pal_oauth_issuer {
    pal_str issuer;
    pal_str authorization_endpoint;
    pal_str token_endpoint;
    pal_str registration_endpoint; /* empty: clients cannot register */
    pal_str scopes;                /* the supported ones */
    unsigned methods;              /* bits of pal_oauth_method; 0: not said */
    bool has_iss;                  /* it puts `iss` into redirects */
    bool takes_documents;          /* client id metadata documents */
    bool takes_proofs;             /* it binds tokens to a key on P-256 (DPoP) */
    bool has_pkce;
} pal_oauth_issuer;

/* The URLs at which metadata may be, in the order of the specification; NULL after the last one. */
#define PAL_OAUTH_PLACES_MAX 3
pal_str pal_oauth_resource_place(pal_str url, size_t index, pal_arena *arena);
pal_str pal_oauth_issuer_place(pal_str issuer, size_t index, pal_arena *arena);
/* Reads metadata of an authorization server; everything is in the arena. */
PAL_CHECKED pal_status pal_oauth_issuer_read(pal_json json, pal_str issuer, bool allow_local,
        pal_arena *arena, pal_oauth_issuer *out_issuer, pal_error *err);
/* The endpoints of a server without metadata (revision 2025-03-26). */
void pal_oauth_issuer_default(pal_str url, pal_arena *arena, pal_oauth_issuer *out_issuer);
/* PAL_DENIED: the URL is neither https nor, with `allow_local`, on this machine. */
PAL_CHECKED pal_status pal_oauth_check_url(
        const char *what, pal_str url, bool allow_local, pal_error *err);

/* ---- Logins: what is kept in the file (oauth_file.c) ---- */

typedef struct pal_oauth_login {
    pal_str url; /* the server; a login is never used for another one */
    pal_str resource;
    pal_str issuer;
    pal_str token_endpoint;
    pal_str client_id;
    pal_str client_secret;
    pal_oauth_method method;
    pal_str redirect_uri; /* redirect URI of the registration */
    bool is_registered;   /* the client registered itself, so it belongs to the issuer */
    pal_str scope;        /* everything that was requested so far */
    pal_str access_token;
    pal_str refresh_token;
    int64_t expires_ms; /* wall clock; 0: not known */
    pal_str proof_key;  /* PEM: the key that the tokens are bound to; empty: to none */
} pal_oauth_login;

pal_oauth_login pal_oauth_login_copy(const pal_oauth_login *login, pal_arena *arena);
/* Block. PAL_NOT_FOUND: there is no file. */
PAL_CHECKED pal_status pal_oauth_file_read(
        const char *path, pal_arena *arena, pal_oauth_login *out_login, pal_error *err);
PAL_CHECKED pal_status pal_oauth_file_write(
        const char *path, const pal_oauth_login *login, pal_error *err);
/* Reads a file of at most PAL_OAUTH_FILE_BYTES_MAX bytes, in the arena. */
PAL_CHECKED pal_status pal_oauth_file_load(
        const char *path, pal_arena *arena, pal_str *out_text, pal_error *err);

/* ---- Requests to the authorization server (oauth_token.c) ---- */

/* A client that talks to the token endpoint. */
typedef struct pal_oauth_client {
    pal_str id;
    pal_str secret;
    pal_str key; /* PEM */
    pal_oauth_method method;
} pal_oauth_client;

/* Chooses how a configured client identifies itself. */
pal_oauth_method pal_oauth_client_method(const pal_oauth_client *client, unsigned supported);
/* Adds the client to a form. `out_header` is the value of the header Authorization, in the arena,
 * or empty. `audience` is the issuer. */
PAL_CHECKED pal_status pal_oauth_client_add(const pal_oauth_client *client, pal_str audience,
        pal_buf *form, pal_arena *arena, pal_str *out_header, pal_error *err);
/* Reads a JSON object that was requested with a POST. `what` says in errors what was requested. */
PAL_CHECKED pal_status pal_oauth_answer_read(const char *what, long code, pal_str body,
        pal_arena *arena, pal_json *out_json, pal_error *err);
/* Reads a response of the token endpoint into the login; texts are in the arena. If the login has a
 * proof_key, the token must be bound to it. */
PAL_CHECKED pal_status pal_oauth_token_read(long code, pal_str body, int64_t now_ms,
        pal_arena *arena, pal_oauth_login *login, pal_error *err);
/* Writes the request of a dynamic registration. */
void pal_oauth_register_write(
        const pal_oauth_issuer *issuer, pal_str redirect_uri, pal_str scope, pal_buf *out);
PAL_CHECKED pal_status pal_oauth_register_read(long code, pal_str body,
        const pal_oauth_issuer *issuer, pal_arena *arena, pal_oauth_client *out_client,
        pal_error *err);

/* ---- Proofs (oauth_proof.c) ---- */

#define PAL_OAUTH_NONCE_LEN_MAX 4096

/* What a proof is about. */
typedef struct pal_oauth_proof {
    pal_str key; /* PEM, EC on P-256 */
    const char *method;
    pal_str url;   /* query and fragment are left out */
    pal_str token; /* empty: none is sent */
    pal_str nonce; /* may be empty */
} pal_oauth_proof;

/* Writes the value of the header DPoP, in the arena. */
PAL_CHECKED pal_status pal_oauth_proof_write(
        const pal_oauth_proof *proof, pal_arena *arena, pal_str *out_proof, pal_error *err);
/* Keeps the header DPoP-Nonce of a response. Returns true if it is a new value. */
bool pal_oauth_nonce_take(pal_buf *nonce, pal_str value);
/* Makes the key of the flow, if the token must be bound to one. PAL_DENIED: the authorization
 * server cannot do that. */
PAL_CHECKED pal_status pal_oauth_proof_begin(pal_oauth *oauth, pal_error *err);

/* ---- Flows (oauth_flow.c) ---- */

#define PAL_OAUTH_SECRET_TEXT 44 /* 32 random bytes in base64, with a NUL */

typedef enum pal_oauth_step {
    PAL_OAUTH_STEP_NONE = 0,
    PAL_OAUTH_STEP_LOAD,
    PAL_OAUTH_STEP_RESOURCE,
    PAL_OAUTH_STEP_ISSUER,
    PAL_OAUTH_STEP_REGISTER,
    PAL_OAUTH_STEP_AUTHORIZE,
    PAL_OAUTH_STEP_SUBJECT,
    PAL_OAUTH_STEP_EXCHANGE,
    PAL_OAUTH_STEP_TOKEN,
    PAL_OAUTH_STEP_REFRESH,
    PAL_OAUTH_STEP_RELOAD,
    PAL_OAUTH_STEP_SAVE,
} pal_oauth_step;

/* One attempt to get a token. All zero: none. */
typedef struct pal_oauth_flow {
    pal_oauth_step step;
    pal_arena *arena; /* owns the texts */
    pal_oauth_challenge_values challenge;
    bool is_step_up; /* the token lacks a scope */
    size_t place;    /* where metadata are looked for */
    bool has_resource; /* the MCP server has metadata */
    pal_str resource, resource_scopes, issuer_url;
    pal_oauth_issuer issuer;
    pal_oauth_client client;
    bool is_registered;
    pal_str scope; /* the requested scopes */
    pal_str code;      /* of the redirect */
    pal_str assertion; /* of the platform or of the identity provider */
    bool wants_proof;  /* the token must be bound to a key */
    bool is_repeated;  /* the request for a token was sent again, with the server's nonce */
    bool is_nonce_new; /* the last response had another nonce */
    pal_str proof_key; /* PEM */
    char state[PAL_OAUTH_SECRET_TEXT], verifier[PAL_OAUTH_SECRET_TEXT];
} pal_oauth_flow;

/* Work on a worker: it reads or writes the file. */
typedef struct pal_oauth_work {
    pal_work_item item;
    pal_oauth *oauth;
    bool is_write;
    bool is_subject; /* it reads auth.token_file */
    pal_arena *arena;
    pal_oauth_login login;
    pal_str key;     /* PEM */
    pal_str subject; /* the content of auth.token_file */
    pal_status status;
    pal_error err;
} pal_oauth_work;

struct pal_oauth {
    pal_loop *loop;
    pal_http *client;
    pal_arena *arena; /* owns the configuration and the key */
    pal_oauth_config config;
    pal_tool_auth auth;
    pal_tool_idp idp;
    bool allow_local; /* the MCP server is on this machine, so the authorization server can be */
    pal_str key;

    pal_arena *login_arena;
    pal_oauth_login login;
    pal_buf header; /* "Bearer ..." or "DPoP ..." */
    pal_buf server_nonce, issuer_nonce; /* the newest DPoP-Nonce of each */
    uint32_t serial;
    uint32_t refreshed; /* the serial of the last token that was got by a refresh */

    pal_oauth_flow flow;
    pal_http_call *http;
    pal_buf body;
    pal_timer timer; /* starts a flow, or reads the file again */
    pal_oauth_wait *waits;
    pal_oauth_work work;
    bool is_loaded, needs_login;
    unsigned busy;
    bool closed;
};

/* Renews the token of the login, or gets another one. The flow has an arena. */
void pal_oauth_flow_start(pal_oauth *o);
/* Finds the authorization server and gets a token from it. */
void pal_oauth_flow_discover(pal_oauth *o);
/* Sends a form as the next step. `authorization` may be empty. */
void pal_oauth_send_form(pal_oauth *o, pal_oauth_step step, pal_str url, pal_str form,
        pal_str authorization);
/* Adds the resource and the client to a form with a grant, and sends it to the token endpoint. */
void pal_oauth_send_grant(pal_oauth *o, pal_buf *form);
/* Whether tokens are got without a person, and not kept in a file. */
bool pal_oauth_is_unattended(const pal_oauth *o);

/* ---- Assertions (oauth_assertion.c) ---- */

/* The content of auth.token_file was read. */
void pal_oauth_on_subject(pal_oauth *o, pal_str text);
/* The identity provider has answered. */
void pal_oauth_on_exchanged(pal_oauth *o, const pal_http_end *end);
/* Exchanges an assertion, which is in the flow's arena, for a token. */
void pal_oauth_send_assertion(pal_oauth *o, pal_str assertion);

/* ---- The token (oauth.c) ---- */

void pal_oauth_enter(pal_oauth *o); /* keeps the memory until pal_oauth_release() */
void pal_oauth_release(pal_oauth *o);
/* Uses a login from now on. Returns false if there is no memory. */
bool pal_oauth_adopt(pal_oauth *o, const pal_oauth_login *login);
bool pal_oauth_is_expired(const pal_oauth *o);
/* Reads or writes the file, as a step of the flow. */
void pal_oauth_use_file(pal_oauth *o, pal_oauth_step step, bool is_write);
/* Ends the flow and all waits. */
void pal_oauth_finish(pal_oauth *o, pal_status status, pal_str error);
void pal_oauth_fail(pal_oauth *o, pal_status status, const char *format, ...) PAL_PRINTF(3, 4);
void pal_oauth_fail_with(pal_oauth *o, const pal_error *err);
void pal_oauth_fail_no_login(pal_oauth *o); /* only a person can help */

#endif
