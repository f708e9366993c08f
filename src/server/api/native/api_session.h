/* api_session.h - functions that read sessions from requests and write them into responses. */
#ifndef PAL_API_SESSION_H
#define PAL_API_SESSION_H

#include "server/server.h"

extern const pal_api_object pal_api_session_body;
/* The settings of a session: members of a pal_api_session_request. */
extern const pal_api_object pal_api_session_settings;

/* Responds with the current state of the session. Can be called from any thread; the session is
 * read on a worker. */
void pal_api_session_send(pal_call *call, pal_id session, unsigned code);

/* A request that creates, updates or forks a session. */
typedef struct pal_api_session_request {
    pal_session session; /* the members that a client can set, and the tenant */
    uint64_t expires_in; /* in seconds */
    bool or_find;        /* create: an existing session with this key is returned */
    uint64_t at_seq;     /* fork: the last seq that both sessions share */
} pal_api_session_request;

/* Reads the body of the call by the table `body`, which includes pal_api_session_settings. */
PAL_CHECKED pal_status pal_api_session_read(pal_call *call, const pal_api_object *body,
        pal_api_session_request *request, pal_error *err);

/* Finds the session that the path names, also in the trash. Blocks; call it on a worker. */
PAL_CHECKED pal_status pal_api_session_or_trash(pal_call *call, pal_id *out_id, pal_error *err);

/* Returns the first failure; PAL_OK if there is none. */
pal_status pal_api_ops_failure(const pal_op *ops, size_t ops_len, pal_status status,
        const pal_error *err, const pal_error **out_error);

#endif
