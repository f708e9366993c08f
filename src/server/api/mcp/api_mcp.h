/* api_mcp.h - the state that the server keeps for its MCP clients. */
#ifndef PAL_API_MCP_H
#define PAL_API_MCP_H

#include "server/server.h"

typedef struct pal_mcp_service pal_mcp_service;

/* Creates the service. Returns NULL without memory. The service uses the server's store and
 * runtime. */
pal_mcp_service *pal_mcp_service_new(pal_server *server);
/* Call it after the listener is closed. Accepts NULL. */
void pal_mcp_service_free(pal_mcp_service *service);

#endif
