/* digest.c - SHA-256, HMAC and SHA-1 by OpenSSL, and hex digits. All functions can be called from
 * any thread.
 *
 * OpenSSL recommends its EVP interface, which looks up the algorithm and allocates memory for every
 * digest. For texts as short as session keys this takes several times as long as the hashing. The
 * lookup also uses global state, which OpenSSL frees when a program calls exit(), while turns may
 * still run on their threads. The older functions use only the caller's memory. HMAC() and SHA1()
 * look up the algorithm too, so they are not used. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/digest.h"

#include <openssl/sha.h>
#include <string.h>
#include "base/text.h"

pal_status pal_sha256(pal_str data, uint8_t out_digest[PAL_SHA256_SIZE])
{
    SHA256_CTX context;
    if (!SHA256_Init(&context) || !SHA256_Update(&context, data.data, data.len) ||
            !SHA256_Final(out_digest, &context))
        return PAL_NO_MEMORY;
    return PAL_OK;
}

#define BLOCK_SIZE SHA256_CBLOCK

/* Writes the digest of the key's block, whose bytes are combined with `pad`, and the data. */
static bool digest_padded(const uint8_t block[BLOCK_SIZE], uint8_t pad, pal_str data,
        uint8_t out_digest[PAL_SHA256_SIZE])
{
    SHA256_CTX context;
    uint8_t padded[BLOCK_SIZE];
    for (size_t i = 0; i < BLOCK_SIZE; i++)
        padded[i] = block[i] ^ pad;
    return SHA256_Init(&context) && SHA256_Update(&context, padded, BLOCK_SIZE) &&
            SHA256_Update(&context, data.data, data.len) && SHA256_Final(out_digest, &context);
}

/* RFC 2104. */
pal_status pal_hmac_sha256(pal_str key, pal_str data, uint8_t out_digest[PAL_SHA256_SIZE])
{
    uint8_t block[BLOCK_SIZE] = {0}, inner[PAL_SHA256_SIZE];
    if (key.len > BLOCK_SIZE) {
        if (pal_sha256(key, block) != PAL_OK)
            return PAL_NO_MEMORY;
    } else if (key.len > 0) {
        memcpy(block, key.data, key.len);
    }
    if (!digest_padded(block, 0x36, data, inner) ||
            !digest_padded(block, 0x5c, pal_str_make((const char *)inner, sizeof inner),
                    out_digest))
        return PAL_NO_MEMORY;
    return PAL_OK;
}

pal_status pal_sha1(pal_str data, uint8_t out_digest[PAL_SHA1_SIZE])
{
    SHA_CTX context;
    if (!SHA1_Init(&context) || !SHA1_Update(&context, data.data, data.len) ||
            !SHA1_Final(out_digest, &context))
        return PAL_NO_MEMORY;
    return PAL_OK;
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
