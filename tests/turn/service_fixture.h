/* service_fixture.h - a runtime whose only endpoint is a service with prepared responses. */
#ifndef SERVICE_FIXTURE_H
#define SERVICE_FIXTURE_H

#include "turn_fixture.h"
#include "turn_service.h"

#define ANSWER(text) "{\"choices\":[{\"message\":{\"content\":\"" text "\"}}]}"

static inline void open_with(const service *s)
{
    pal_endpoint endpoint = {.kind = S("openai"), .url = S(s->url), .model = S("m")};

    open_runtime(NULL, (pal_runtime_options){.endpoints = &endpoint, .endpoints_len = 1});
}

static inline service *begin_service(const service_reply *replies, size_t len)
{
    service *s = service_open(replies, len);

    open_store();
    open_with(s);
    return s;
}

static inline void end_service(service *s)
{
    end();
    service_close(s);
}

#endif
