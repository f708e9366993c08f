/* api_list.c - the list of all APIs. A new API is one line here and one in server.h. */
#include "server/server.h"

const pal_api *const pal_apis[] = {
        &pal_api_native,
        &pal_api_openai,
        &pal_api_anthropic,
        &pal_api_anthropic_models,
        &pal_api_mistral,
        &pal_api_mcp,
        &pal_api_picoclaw,
        &pal_api_root,
        NULL,
};
