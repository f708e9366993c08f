/* api_session.h - a session as answers show it. */
#ifndef PAL_API_SESSION_H
#define PAL_API_SESSION_H

#include "server/server.h"

/* The native form, with "session_id" and "message_count" before it, as one object. */
PAL_CHECKED pal_status pal_api_session_put(
        pal_json_writer *writer, const pal_session *session, pal_error *err);

/* Answers with the session as it stands now. From any thread: it is read on a worker. */
void pal_api_session_send(pal_call *call, pal_id session, unsigned code);

/* For pal_call_apply(): answers 200 with the session of the first operation, or with what failed.
 */
void pal_api_session_changed(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err);

/* Reads the members of a new session that a request gives; the rest is the store's. */
PAL_CHECKED pal_status pal_api_session_read(
        pal_call *call, pal_json object, pal_session *out_session, pal_error *err);

/* What failed first; PAL_OK: nothing did. */
pal_status pal_api_ops_failure(const pal_op *ops, size_t ops_len, pal_status status,
        const pal_error *err, const pal_error **out_error);

#endif
