/* digest.h - SHA-256, HMAC and SHA-1, by OpenSSL. */
#ifndef PAL_BASE_DIGEST_H
#define PAL_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>
#include "palaver/error.h"
#include "palaver/str.h"

#define PAL_SHA256_SIZE 32

PAL_CHECKED pal_status pal_sha256(pal_str data, uint8_t out_digest[PAL_SHA256_SIZE]);
/* HMAC-SHA-256. The digest of a text cannot be computed without the key. */
PAL_CHECKED pal_status pal_hmac_sha256(
        pal_str key, pal_str data, uint8_t out_digest[PAL_SHA256_SIZE]);

#define PAL_SHA1_SIZE 20

/* SHA-1, which is not safe against attackers: only for protocols that require it. */
PAL_CHECKED pal_status pal_sha1(pal_str data, uint8_t out_digest[PAL_SHA1_SIZE]);

/* Writes `data` as lower-case hex digits and a NUL: 2 * len + 1 bytes. */
void pal_hex(const uint8_t *data, size_t len, char *out_text);
/* Reads exactly 2 * len hex digits, in upper or lower case. Returns false if the text is anything
 * else. */
_Bool pal_unhex(pal_str text, uint8_t *out_data, size_t len);

#endif
