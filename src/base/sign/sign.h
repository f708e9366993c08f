/* sign.h - signatures for JSON Web Tokens (RFC 7518), by OpenSSL. */
#ifndef PAL_BASE_SIGN_H
#define PAL_BASE_SIGN_H

#include <stddef.h>
#include <stdint.h>
#include "palaver/error.h"
#include "palaver/str.h"

#define PAL_SIGNATURE_MAX 1024 /* enough for RSA with 8192 bits */
#define PAL_SIGN_KEY_SIZE 512   /* a new key in PEM, with a NUL */
#define PAL_SIGN_POINT_SIZE 32  /* each coordinate of a public key on P-256 */

/* Returns the name of the algorithm that the key is used with: "ES256" for EC on P-256, "RS256" for
 * RSA, "EdDSA" for Ed25519. `key` is a private key in PEM, without a password. PAL_INVALID: it is
 * not such a key. No error text contains a part of the key. */
PAL_CHECKED pal_status pal_sign_algorithm(
        pal_str key, const char **out_algorithm, pal_error *err);
/* Signs `data`, in the form that a JSON Web Token requires. */
PAL_CHECKED pal_status pal_sign(pal_str key, pal_str data, uint8_t out_signature[PAL_SIGNATURE_MAX],
        size_t *out_len, pal_error *err);

/* Makes a new key: EC on P-256, in PEM. */
PAL_CHECKED pal_status pal_sign_make_key(char out_key[static PAL_SIGN_KEY_SIZE], pal_error *err);
/* Returns the public part of a key. PAL_INVALID: the key is not on P-256. */
PAL_CHECKED pal_status pal_sign_public(pal_str key, uint8_t out_x[static PAL_SIGN_POINT_SIZE],
        uint8_t out_y[static PAL_SIGN_POINT_SIZE], pal_error *err);

#endif
