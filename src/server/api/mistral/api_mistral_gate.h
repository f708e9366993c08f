/* api_mistral_gate.h - admits one request at a time to each conversation. A request can run several
 * turns, one for each agent that the conversation is handed to. No other request may come between
 * these turns, or use settings that the running request is about to change. Requests of the other
 * APIs do not pass this gate: the runtime orders their turns within the session. All functions can
 * be called from any thread. */
#ifndef PAL_API_MISTRAL_GATE_H
#define PAL_API_MISTRAL_GATE_H

#include "server/server.h"

#define PAL_MISTRAL_WAITING_MAX 100 /* maximum number of requests that wait for one conversation */

typedef struct pal_mistral_gate pal_mistral_gate;
typedef struct pal_mistral_pass pal_mistral_pass; /* held by a request while it is in the
                                                     conversation or waits for it */

pal_mistral_gate *pal_mistral_gate_new(void);       /* returns NULL without memory */
void pal_mistral_gate_free(pal_mistral_gate *gate); /* no request may be inside; accepts NULL */

/* The work of an admitted request. After PAL_OK, the request calls pal_mistral_gate_leave() when it
 * is done. After any other status it has not begun, and the gate has released its pass. */
typedef pal_status (*pal_mistral_inside)(pal_call *call, pal_mistral_pass *pass, pal_error *err);

/* Admits the request now, or on a worker after all earlier requests have left. PAL_BUSY if
 * PAL_MISTRAL_WAITING_MAX requests are waiting. */
PAL_CHECKED pal_status pal_mistral_gate_enter(
        pal_call *call, pal_id session, pal_mistral_inside inside, pal_error *err);
/* Call it once per admitted request, from any thread. Does not block. Accepts NULL. */
void pal_mistral_gate_leave(pal_mistral_pass *pass);

#endif
