/* store_tenant.h - the default name of a tenant. */
#ifndef PAL_STORE_TENANT_H
#define PAL_STORE_TENANT_H

#include "message/message_check.h"

/* Returns the tenant, or "default" if it is empty. */
static inline pal_str pal_tenant_or_default(pal_str tenant)
{
    return tenant.len > 0 ? tenant : pal_str_of(PAL_TENANT_DEFAULT);
}

#endif
