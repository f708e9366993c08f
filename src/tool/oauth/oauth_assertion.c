/* oauth_assertion.c - tokens for which something else has already identified the client, with a
 * signed text that the authorization server knows to check (RFC 7523). There are two ways:
 *
 *   workload    the platform on which the program runs writes a token into a file (workload
 *               identity federation). The file is the assertion.
 *   enterprise  a person has logged in to the company's identity provider, and the file has the ID
 *               token. The identity provider exchanges it for an assertion for this MCP server
 *               (RFC 8693, ID-JAG), if the company allows the access.
 *
 * The file is read for each token, because the platform replaces it. On the loop. */
#include "base/memory.h"
#include "base/text.h"
#include "tool/oauth/oauth_internal.h"

#define TYPE "urn:ietf:params:oauth:token-type:"
#define GRANT "urn:ietf:params:oauth:grant-type:"

/* ---- The identity provider ---- */

static void exchange_subject(pal_oauth *o, pal_str subject)
{
    const pal_oauth_flow *f = &o->flow;
    const pal_tool_idp *idp = &o->idp;
    pal_oauth_client client = {.id = idp->client_id, .secret = idp->client_secret};
    pal_buf form;
    pal_str header;
    pal_error err;
    client.method = pal_oauth_client_method(&client, 0);
    pal_buf_init(&form, PAL_OAUTH_RESPONSE_BYTES_MAX);
    pal_oauth_form_add(&form, "grant_type", pal_str_of(GRANT "token-exchange"));
    pal_oauth_form_add(&form, "requested_token_type", pal_str_of(TYPE "id-jag"));
    pal_oauth_form_add(&form, "subject_token", subject);
    pal_oauth_form_add(&form, "subject_token_type", pal_str_of(TYPE "id_token"));
    pal_oauth_form_add(&form, "audience", f->issuer.issuer);
    pal_oauth_form_add(&form, "resource", f->resource);
    if (f->scope.len)
        pal_oauth_form_add(&form, "scope", f->scope);
    pal_status status =
            pal_oauth_client_add(&client, idp->token_url, &form, f->arena, &header, &err);
    if (status == PAL_OK && form.failure)
        status = pal_no_memory(&err);
    if (status != PAL_OK)
        pal_oauth_fail_with(o, &err);
    else
        pal_oauth_send_form(o, PAL_OAUTH_STEP_EXCHANGE, idp->token_url, pal_buf_str(&form), header);
    pal_buf_done(&form);
}

void pal_oauth_on_exchanged(pal_oauth *o, const pal_http_end *end)
{
    pal_json json;
    pal_error err;
    pal_arena *arena = o->flow.arena;
    if (pal_oauth_answer_read(
                "an assertion", end->code, pal_buf_str(&o->body), arena, &json, &err)) {
        pal_oauth_fail(o, err.status, "identity provider: %s", err.message);
        return;
    }
    pal_str type = pal_json_string(pal_json_find(json, "issued_token_type"), arena);
    pal_str assertion = pal_json_string(pal_json_find(json, "access_token"), arena);
    if (!pal_str_is(type, TYPE "id-jag") || !assertion.len)
        pal_oauth_fail(o, PAL_PROVIDER, "the identity provider returned no assertion (ID-JAG)");
    else
        pal_oauth_send_assertion(o, pal_arena_copy(arena, assertion));
}

/* ---- The file ---- */

void pal_oauth_on_subject(pal_oauth *o, pal_str text)
{
    pal_str token = pal_arena_copy(o->flow.arena, pal_text_trim(text));
    if (!token.len)
        pal_oauth_fail(o, PAL_INVALID, "token file '%.*s' is empty",
                PAL_EXCERPT(o->auth.token_file, 100));
    else if (o->idp.token_url.len)
        exchange_subject(o, token);
    else
        pal_oauth_send_assertion(o, token);
}

/* ---- The authorization server ---- */

void pal_oauth_send_assertion(pal_oauth *o, pal_str assertion)
{
    pal_oauth_flow *f = &o->flow;
    pal_buf form;
    f->assertion = assertion;
    pal_buf_init(&form, PAL_OAUTH_RESPONSE_BYTES_MAX);
    pal_oauth_form_add(&form, "grant_type", pal_str_of(GRANT "jwt-bearer"));
    pal_oauth_form_add(&form, "assertion", assertion);
    if (f->scope.len)
        pal_oauth_form_add(&form, "scope", f->scope);
    pal_oauth_send_grant(o, &form);
    pal_buf_done(&form);
}
