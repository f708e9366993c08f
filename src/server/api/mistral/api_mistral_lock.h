/* api_mistral_lock.h - locks on conversations: each conversation runs one request at a time. A
 * request can run several turns, one for each agent that the conversation is handed to. No other
 * request may run between these turns, or use settings that the running request is about to change.
 * Requests of the other APIs do not use these locks: the runtime orders their turns within the
 * session. If several servers share the store, all requests for a conversation are passed on to one
 * of them (pal_pass_to_home()), and the locks are there. All functions can be called from any
 * thread, and none of them blocks. */
#ifndef PAL_API_MISTRAL_LOCK_H
#define PAL_API_MISTRAL_LOCK_H

#include "server/server.h"

#define PAL_MISTRAL_WAITING_MAX 100 /* maximum number of requests that wait for one conversation */

typedef struct pal_mistral_locks pal_mistral_locks; /* the locks of all conversations */
typedef struct pal_mistral_hold pal_mistral_hold;   /* a request's lock, held or waited for */

pal_mistral_locks *pal_mistral_locks_new(void); /* returns NULL if there is no memory */
/* No lock may be held. Accepts NULL. */
void pal_mistral_locks_free(pal_mistral_locks *locks);

/* The work of the request while it holds the lock. After PAL_OK, the request calls
 * pal_mistral_lock_release() when it is done. After any other status it has not begun, and its lock
 * is released. */
typedef pal_status (*pal_mistral_on_acquire)(
        pal_call *call, pal_mistral_hold *hold, pal_error *err);

/* Calls `on_acquire` now, or on a worker after all earlier requests have released the lock.
 * PAL_BUSY if PAL_MISTRAL_WAITING_MAX requests are waiting. */
PAL_CHECKED pal_status pal_mistral_lock_acquire(
        pal_call *call, pal_id session, pal_mistral_on_acquire on_acquire, pal_error *err);
/* Call it once per acquired lock. Accepts NULL. */
void pal_mistral_lock_release(pal_mistral_hold *hold);

#endif
