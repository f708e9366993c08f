/* oauth_proof.c - tokens that are bound to a key (DPoP, RFC 9449). Every request that uses the key
 * contains a new proof: a JWT with the public key that names the method, the URL and the token, and
 * is signed with the private key. So a stolen token is useless without the key.
 *
 * The authorization server and the MCP server can require a value of theirs (a nonce) in the proof.
 * They refuse a request without it, and say the value; the request is then sent again. On the
 * loop. */
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sign/sign.h"
#include "base/text.h"
#include "dialect/dialect_base64.h"
#include "tool/oauth/oauth_internal.h"

#define PROOF_BYTES_MAX (64u << 10)

static void put_coordinate(pal_json_writer *json, const char *name, const uint8_t *bytes)
{
    pal_buf text;
    pal_buf_init(&text, 2 * PAL_SIGN_POINT_SIZE);
    pal_base64_encode_for_url(&text, pal_str_make((const char *)bytes, PAL_SIGN_POINT_SIZE));
    pal_put_str(json, name, pal_buf_str(&text));
    pal_buf_done(&text);
}

static pal_status put_head(pal_str key, pal_buf *out, pal_error *err)
{
    uint8_t x[PAL_SIGN_POINT_SIZE], y[PAL_SIGN_POINT_SIZE];
    pal_status status = pal_sign_public(key, x, y, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer json = pal_json_writer_make(out);
    pal_json_begin_object(&json);
    pal_put_text(&json, "typ", "dpop+jwt");
    pal_put_text(&json, "alg", "ES256");
    pal_json_name(&json, "jwk");
    pal_json_begin_object(&json);
    pal_put_text(&json, "kty", "EC");
    pal_put_text(&json, "crv", "P-256");
    put_coordinate(&json, "x", x);
    put_coordinate(&json, "y", y);
    pal_json_end_object(&json);
    pal_json_end_object(&json);
    return PAL_OK;
}

static void put_token_hash(pal_json_writer *json, pal_str token)
{
    uint8_t digest[PAL_SHA256_SIZE];
    pal_buf text;
    pal_buf_init(&text, 2 * sizeof digest);
    if (pal_sha256(token, digest) == PAL_OK)
        pal_base64_encode_for_url(&text, pal_str_make((const char *)digest, sizeof digest));
    pal_put_str(json, "ath", pal_buf_str(&text));
    pal_buf_done(&text);
}

/* The URL without query and fragment. */
static pal_str plain_url(pal_str url)
{
    for (size_t i = 0; i < url.len; i++) {
        if (url.data[i] == '?' || url.data[i] == '#')
            return pal_str_make(url.data, i);
    }
    return url;
}

static void put_claims(const pal_oauth_proof *proof, pal_buf *out)
{
    uint8_t id[16];
    char text[2 * sizeof id + 1];
    pal_random_bytes(id, sizeof id);
    pal_hex(id, sizeof id, text);
    pal_json_writer json = pal_json_writer_make(out);
    pal_json_begin_object(&json);
    pal_put_text(&json, "jti", text);
    pal_put_text(&json, "htm", proof->method);
    pal_put_str(&json, "htu", plain_url(proof->url));
    pal_put_number(&json, "iat", pal_clock_now_ms() / 1000);
    if (proof->token.len)
        put_token_hash(&json, proof->token);
    pal_put_str_if(&json, "nonce", proof->nonce);
    pal_json_end_object(&json);
}

static pal_status write_proof(
        const pal_oauth_proof *proof, pal_buf *json, pal_buf *out, pal_error *err)
{
    uint8_t signature[PAL_SIGNATURE_MAX];
    size_t len;
    pal_status status = put_head(proof->key, json, err);
    if (status != PAL_OK)
        return status;
    pal_base64_encode_for_url(out, pal_buf_str(json));
    pal_buf_append_char(out, '.');
    pal_buf_clear(json);
    put_claims(proof, json);
    pal_base64_encode_for_url(out, pal_buf_str(json));
    if (json->failure || out->failure)
        return pal_error_set(err, PAL_NO_MEMORY, "the proof of a token is too long");
    status = pal_sign(proof->key, pal_buf_str(out), signature, &len, err);
    if (status != PAL_OK)
        return status;
    pal_buf_append_char(out, '.');
    pal_base64_encode_for_url(out, pal_str_make((const char *)signature, len));
    return out->failure ? pal_no_memory(err) : PAL_OK;
}

pal_status pal_oauth_proof_write(
        const pal_oauth_proof *proof, pal_arena *arena, pal_str *out_proof, pal_error *err)
{
    pal_buf json, out;
    pal_buf_init(&json, PROOF_BYTES_MAX);
    pal_buf_init(&out, PROOF_BYTES_MAX);
    pal_status status = write_proof(proof, &json, &out, err);
    if (status == PAL_OK) {
        *out_proof = pal_arena_copy(arena, pal_buf_str(&out));
        status = out_proof->len ? PAL_OK : pal_no_memory(err);
    }
    pal_buf_done(&json);
    pal_buf_done(&out);
    return status;
}

/* ---- Values of the servers ---- */

bool pal_oauth_nonce_take(pal_buf *nonce, pal_str value)
{
    if (!value.len || value.len > PAL_OAUTH_NONCE_LEN_MAX ||
            pal_str_equal(pal_buf_str(nonce), value))
        return false;
    pal_buf_clear(nonce);
    pal_buf_append_str(nonce, value);
    return true;
}

void pal_oauth_take_nonce(pal_oauth *oauth, pal_str value)
{
    (void)pal_oauth_nonce_take(&oauth->server_nonce, value);
}

pal_status pal_oauth_prove(const pal_oauth *oauth, const char *method, pal_arena *arena,
        pal_str *out_proof, pal_error *err)
{
    *out_proof = (pal_str){0};
    if (!oauth->login.proof_key.len || !oauth->login.access_token.len)
        return PAL_OK;
    const pal_oauth_proof proof = {.key = oauth->login.proof_key,
            .method = method,
            .url = oauth->config.url,
            .token = oauth->login.access_token,
            .nonce = pal_buf_str(&oauth->server_nonce)};
    return pal_oauth_proof_write(&proof, arena, out_proof, err);
}

/* ---- The key ---- */

pal_status pal_oauth_proof_begin(pal_oauth *o, pal_error *err)
{
    char key[PAL_SIGN_KEY_SIZE];
    pal_oauth_flow *f = &o->flow;
    if (!f->wants_proof)
        return PAL_OK;
    if (!f->issuer.takes_proofs)
        return pal_error_set(err, PAL_DENIED,
                "the server requires tokens that are bound to a key (DPoP), and authorization "
                "server '%.*s' does not support that with ES256",
                PAL_EXCERPT(f->issuer.issuer, 60));
    pal_status status = pal_sign_make_key(key, err);
    if (status == PAL_OK) {
        f->proof_key = pal_arena_copy(f->arena, pal_str_of(key));
        status = f->proof_key.len ? PAL_OK : pal_no_memory(err);
    }
    explicit_bzero(key, sizeof key);
    return status;
}
