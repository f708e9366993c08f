/* api_mcp_session.h - sessions of MCP clients of the old era of the protocol (mcp.h). They
 * are kept in memory. After a restart a client gets 404 and must send `initialize` again. All
 * functions can be called from any thread. */
#ifndef PAL_API_MCP_SESSION_H
#define PAL_API_MCP_SESSION_H

#include <stdbool.h>
#include "palaver/str.h"

#define PAL_MCP_SESSION_ID_SIZE 33 /* 32 hex digits and NUL */

typedef struct pal_mcp_sessions pal_mcp_sessions;

/* Returns NULL without memory. */
pal_mcp_sessions *pal_mcp_sessions_new(void);
void pal_mcp_sessions_free(pal_mcp_sessions *sessions); /* accepts NULL */

/* Creates a session for the tenant. If there are PAL_SERVER_MCP_SESSIONS_MAX sessions, the least
 * recently used one ends. Returns false without memory. */
bool pal_mcp_sessions_add(
        pal_mcp_sessions *sessions, pal_str tenant, char out_id[PAL_MCP_SESSION_ID_SIZE]);
/* Whether the tenant has this session. Also marks it as used. */
bool pal_mcp_sessions_use(pal_mcp_sessions *sessions, pal_str tenant, pal_str id);
/* Ends the session. Returns false if the tenant has no such session. */
bool pal_mcp_sessions_remove(pal_mcp_sessions *sessions, pal_str tenant, pal_str id);

#endif
