/* digest.c - SHA-256, HMAC and SHA-1 by OpenSSL, and hex digits. All functions can be called from
 * any thread.
 *
 * OpenSSL recommends its EVP interface, which looks up the algorithm and allocates memory for every
 * digest. For texts as short as session keys this takes several times as long as the hashing, so
 * the older functions are used. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/digest.h"

#include <limits.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include "base/text.h"

pal_status pal_sha256(pal_str data, uint8_t out_digest[PAL_SHA256_SIZE])
{
    SHA256_CTX context;
    if (!SHA256_Init(&context) || !SHA256_Update(&context, data.data, data.len) ||
            !SHA256_Final(out_digest, &context))
        return PAL_NO_MEMORY;
    return PAL_OK;
}

pal_status pal_hmac_sha256(pal_str key, pal_str data, uint8_t out_digest[PAL_SHA256_SIZE])
{
    unsigned len = PAL_SHA256_SIZE;
    if (key.len > INT_MAX ||
            !HMAC(EVP_sha256(), key.data, (int)key.len, (const unsigned char *)data.data, data.len,
                    out_digest, &len))
        return PAL_NO_MEMORY;
    return PAL_OK;
}

pal_status pal_sha1(pal_str data, uint8_t out_digest[PAL_SHA1_SIZE])
{
    return SHA1((const unsigned char *)data.data, data.len, out_digest) ? PAL_OK : PAL_NO_MEMORY;
}

/* Computed, because the compiler can then convert sixteen digits at once; a table would prevent
 * that. */
static inline char hex_digit(uint8_t value)
{
    return (char)('0' + value + (value > 9 ? 'a' - '9' - 1 : 0));
}

void pal_hex(const uint8_t *data, size_t len, char *out_text)
{
    for (size_t i = 0; i < len; i++) {
        out_text[2 * i] = hex_digit(data[i] >> 4);
        out_text[2 * i + 1] = hex_digit(data[i] & 15);
    }
    out_text[2 * len] = '\0';
}

bool pal_unhex(pal_str text, uint8_t *out_data, size_t len)
{
    if (text.len / 2 != len || text.len % 2)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (pal_text_hex(text.data[i]) < 0)
            return false;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned high = (unsigned)pal_text_hex(text.data[2 * i]);
        unsigned low = (unsigned)pal_text_hex(text.data[2 * i + 1]);
        out_data[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
