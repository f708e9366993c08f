/* sign.c - signatures for JSON Web Tokens. All functions can be called from any thread. */
#include "base/sign/sign.h"

#include <limits.h>
#include <string.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#define EC_HALF 32 /* bytes of each number of a signature on P-256 */

/* OpenSSL would ask on the terminal. */
static int no_password(char *buf, int size, int is_writing, void *user)
{
    (void)buf;
    (void)size;
    (void)is_writing;
    (void)user;
    return -1;
}

static EVP_PKEY *read_key(pal_str pem)
{
    BIO *bio = pem.len && pem.len < INT_MAX ? BIO_new_mem_buf(pem.data, (int)pem.len) : NULL;
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    BIO_free(bio);
    ERR_clear_error();
    return key;
}

static bool is_p256(const EVP_PKEY *key)
{
    char group[32];
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
            EVP_PKEY_get_group_name(key, group, sizeof group, NULL) &&
            (strcmp(group, "prime256v1") == 0 || strcmp(group, "P-256") == 0);
}

static const char *algorithm_of(const EVP_PKEY *key)
{
    if (is_p256(key))
        return "ES256";
    if (EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA)
        return "RS256";
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? "EdDSA" : NULL;
}

/* The caller must free the key. */
static pal_status load_key(
        pal_str pem, EVP_PKEY **out_key, const char **out_algorithm, pal_error *err)
{
    EVP_PKEY *key = read_key(pem);
    if (!key)
        return pal_error_set(
                err, PAL_INVALID, "the private key is not in PEM, or it has a password");
    *out_algorithm = algorithm_of(key);
    if (*out_algorithm) {
        *out_key = key;
        return PAL_OK;
    }
    EVP_PKEY_free(key);
    return pal_error_set(
            err, PAL_INVALID, "the private key must be of type EC (P-256), RSA or Ed25519");
}

pal_status pal_sign_algorithm(pal_str key, const char **out_algorithm, pal_error *err)
{
    EVP_PKEY *loaded = NULL;
    pal_status status = load_key(key, &loaded, out_algorithm, err);
    EVP_PKEY_free(loaded);
    return status;
}

/* Replaces the DER of a signature by its two numbers. */
static bool to_numbers(uint8_t *signature, size_t *len)
{
    const unsigned char *der = signature;
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &der, (long)*len);
    bool is_ok = pair &&
            BN_bn2binpad(ECDSA_SIG_get0_r(pair), signature, EC_HALF) == EC_HALF &&
            BN_bn2binpad(ECDSA_SIG_get0_s(pair), signature + EC_HALF, EC_HALF) == EC_HALF;
    ECDSA_SIG_free(pair);
    *len = 2 * EC_HALF;
    return is_ok;
}

pal_status pal_sign(pal_str key, pal_str data, uint8_t out_signature[PAL_SIGNATURE_MAX],
        size_t *out_len, pal_error *err)
{
    EVP_PKEY *loaded = NULL;
    const char *algorithm;
    size_t len = PAL_SIGNATURE_MAX;
    pal_status status = load_key(key, &loaded, &algorithm, err);
    if (status != PAL_OK)
        return status;
    bool is_ed = strcmp(algorithm, "EdDSA") == 0; /* it has its own digest */
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool is_ok = context &&
            EVP_DigestSignInit(context, NULL, is_ed ? NULL : EVP_sha256(), NULL, loaded) == 1 &&
            EVP_DigestSign(context, out_signature, &len, (const unsigned char *)data.data,
                    data.len) == 1 &&
            (strcmp(algorithm, "ES256") != 0 || to_numbers(out_signature, &len));
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(loaded);
    ERR_clear_error();
    if (!is_ok)
        return pal_error_set(err, PAL_INVALID, "could not sign with the private key");
    *out_len = len;
    return PAL_OK;
}

/* ---- New keys ---- */

static bool write_key(const EVP_PKEY *key, char *out_key)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text;
    bool is_ok = bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1;
    long len = is_ok ? BIO_get_mem_data(bio, &text) : 0;
    is_ok = len > 0 && len < PAL_SIGN_KEY_SIZE;
    if (is_ok) {
        memcpy(out_key, text, (size_t)len);
        out_key[len] = '\0';
    }
    BIO_free(bio);
    return is_ok;
}

pal_status pal_sign_make_key(char out_key[static PAL_SIGN_KEY_SIZE], pal_error *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    bool is_ok = key && write_key(key, out_key);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return is_ok ? PAL_OK : pal_error_set(err, PAL_NO_MEMORY, "could not make a key");
}

static bool read_coordinate(const EVP_PKEY *key, const char *name, uint8_t *out)
{
    BIGNUM *number = NULL;
    bool is_ok = EVP_PKEY_get_bn_param(key, name, &number) == 1 &&
            BN_bn2binpad(number, out, PAL_SIGN_POINT_SIZE) == PAL_SIGN_POINT_SIZE;
    BN_free(number);
    return is_ok;
}

pal_status pal_sign_public(pal_str key, uint8_t out_x[static PAL_SIGN_POINT_SIZE],
        uint8_t out_y[static PAL_SIGN_POINT_SIZE], pal_error *err)
{
    EVP_PKEY *loaded = NULL;
    const char *algorithm;
    pal_status status = load_key(key, &loaded, &algorithm, err);
    if (status != PAL_OK)
        return status;
    bool is_ok = is_p256(loaded) && read_coordinate(loaded, OSSL_PKEY_PARAM_EC_PUB_X, out_x) &&
            read_coordinate(loaded, OSSL_PKEY_PARAM_EC_PUB_Y, out_y);
    EVP_PKEY_free(loaded);
    ERR_clear_error();
    return is_ok ? PAL_OK : pal_error_set(err, PAL_INVALID, "the key is not of type EC (P-256)");
}
