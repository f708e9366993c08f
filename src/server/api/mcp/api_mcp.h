/* api_mcp.h - the state that the server keeps for its MCP clients. */
#ifndef PAL_API_MCP_H
#define PAL_API_MCP_H

#include "server/server.h"

typedef struct pal_mcp_service pal_mcp_service;

/* Creates the service. Returns NULL if out of memory. The service uses the server's store and
 * runtime. */
pal_mcp_service *pal_mcp_service_new(pal_server *server);
/* Call it after the listener is closed. Accepts NULL. */
void pal_mcp_service_free(pal_mcp_service *service);

/* ---- Sessions (api_mcp_session.c); all functions can be called from any thread ---- */

#define PAL_MCP_SESSION_ID_SIZE 33 /* 32 hex digits and NUL */

typedef struct pal_mcp_sessions pal_mcp_sessions;

/* Returns NULL if out of memory. */
pal_mcp_sessions *pal_mcp_sessions_new(void);
void pal_mcp_sessions_free(pal_mcp_sessions *sessions); /* accepts NULL */

/* Creates a session for the tenant. If there are PAL_SERVER_MCP_SESSIONS_MAX sessions, the least
 * recently used one ends. Returns false if out of memory. */
bool pal_mcp_sessions_add(
        pal_mcp_sessions *sessions, pal_str tenant, char out_id[PAL_MCP_SESSION_ID_SIZE]);
/* Whether the tenant has this session. Also marks it as used. */
bool pal_mcp_sessions_use(pal_mcp_sessions *sessions, pal_str tenant, pal_str id);
/* Ends the session. Returns false if the tenant has no such session. */
bool pal_mcp_sessions_remove(pal_mcp_sessions *sessions, pal_str tenant, pal_str id);

#endif
