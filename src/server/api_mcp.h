/* api_mcp.h - what the server keeps for its MCP clients. */
#ifndef PAL_API_MCP_H
#define PAL_API_MCP_H

#include "server/server.h"

typedef struct pal_mcp_service pal_mcp_service;

/* NULL without memory. Store and runtime are the server's. */
pal_mcp_service *pal_mcp_service_new(pal_server *server);
/* After the listener is closed. Accepts NULL. */
void pal_mcp_service_free(pal_mcp_service *service);

#endif
