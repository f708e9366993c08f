/* api_mistral_gate.h - one request at a time in each conversation. A request may be several turns,
 * one for each agent that the conversation is handed to, and what another says must come neither
 * between them nor be read by the settings of before. Turns of the other APIs are not stopped here:
 * they take their place among a session's turns. From any thread. */
#ifndef PAL_API_MISTRAL_GATE_H
#define PAL_API_MISTRAL_GATE_H

#include "server/server.h"

#define PAL_MISTRAL_WAITING_MAX 100 /* requests that wait for one conversation */

typedef struct pal_mistral_gate pal_mistral_gate;
typedef struct pal_mistral_pass pal_mistral_pass; /* says that a request is in */

pal_mistral_gate *pal_mistral_gate_new(void);       /* NULL without memory */
void pal_mistral_gate_free(pal_mistral_gate *gate); /* nobody is in. Accepts NULL */

/* What a request does inside. PAL_OK: it leaves when it is done; anything else: it has not begun,
 * and is out already. */
typedef pal_status (*pal_mistral_inside)(pal_call *call, pal_mistral_pass *pass, pal_error *err);

/* Goes in, now or when those before have left, then on a worker. PAL_BUSY where
 * PAL_MISTRAL_WAITING_MAX wait. */
PAL_CHECKED pal_status pal_mistral_gate_enter(
        pal_call *call, pal_id session, pal_mistral_inside inside, pal_error *err);
/* Once for each, from any thread: it does not block. Accepts NULL. */
void pal_mistral_gate_leave(pal_mistral_pass *pass);

#endif
