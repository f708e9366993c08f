/* server_subject.c - an invalid request for an object that does not exist gets 404, not 400.
 *
 * The subject of a request is the object that its path names, such as the session in
 * "/api/v1/sessions/{id}/messages". If the subject does not exist, or belongs to another tenant,
 * the client must get 404 whatever else is wrong with the request. Handlers check the request
 * before they read the store, so that a successful request, above all an append, needs no extra
 * read. So the subject is looked up only after a request has failed as invalid:
 *
 *   1. The handler, or a check before it, fails with PAL_INVALID. The error is kept in the call.
 *   2. A worker calls find_subject() of the API, which may wait for the store or the runtime.
 *   3. If the subject is missing, the call fails with that error. Otherwise it fails with the first
 *      one.
 *
 * Threads: pal_subject_fail() runs where the request failed, on a listener's thread or on a worker,
 * and is the last use of the call there. */
#include "server/server_internal.h"

static void find_and_fail(pal_exchange *x)
{
    pal_call *call = x->call;
    pal_error missing = {0};
    if (call->api->find_subject(call, &missing) != PAL_NOT_FOUND) {
        pal_call_fail(call, call->failure.status, &call->failure);
        return;
    }
    /* These belong to the first error. */
    call->fail_code = 0;
    call->fail_name = call->fail_param = NULL;
    call->fail_members = (pal_str){0};
    pal_call_fail(call, PAL_NOT_FOUND, &missing);
}

void pal_subject_fail(pal_call *call, pal_status status, const pal_error *err)
{
    bool has_subject = call->api->find_subject && call->params[0].len > 0;
    if (status != PAL_INVALID || !has_subject) {
        pal_call_fail(call, status, err);
        return;
    }
    call->failure = *err;
    pal_exchange_to_worker(call->exchange, find_and_fail);
}
