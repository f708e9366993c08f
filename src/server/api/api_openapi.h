/* api_openapi.h - /openapi.json, created from the tables of routes. */
#ifndef PAL_API_OPENAPI_H
#define PAL_API_OPENAPI_H

#include "server/server.h"

PAL_CHECKED pal_status pal_openapi_handle(pal_call *call, pal_error *err);

#endif
