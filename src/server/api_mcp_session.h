/* api_mcp_session.h - the sessions of MCP clients of the old era: who began one goes on in it. They
 * live in memory: after a restart a client is told 404, and begins anew. From any thread. */
#ifndef PAL_API_MCP_SESSION_H
#define PAL_API_MCP_SESSION_H

#include <stdbool.h>
#include "palaver/str.h"

#define PAL_MCP_SESSION_ID_SIZE 33 /* 32 hex digits */

typedef struct pal_mcp_sessions pal_mcp_sessions;

/* NULL without memory. */
pal_mcp_sessions *pal_mcp_sessions_new(void);
void pal_mcp_sessions_free(pal_mcp_sessions *sessions); /* accepts NULL */

/* Begins one of the tenant. Where there are PAL_SERVER_MCP_SESSIONS_MAX, the one that was not used
 * for longest ends. False without memory. */
bool pal_mcp_sessions_add(
        pal_mcp_sessions *sessions, pal_str tenant, char out_id[PAL_MCP_SESSION_ID_SIZE]);
/* Whether the tenant has it; it counts as used. */
bool pal_mcp_sessions_use(pal_mcp_sessions *sessions, pal_str tenant, pal_str id);
/* Ends it; false where the tenant has none such. */
bool pal_mcp_sessions_remove(pal_mcp_sessions *sessions, pal_str tenant, pal_str id);

#endif
