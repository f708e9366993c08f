/* store_tenant.h - the name of a tenant: its default and its limits. */
#ifndef PAL_STORE_TENANT_H
#define PAL_STORE_TENANT_H

#include "message/message_check.h"
#include "palaver/limits.h"

/* Returns the tenant, or "default" if it is empty. */
static inline pal_str pal_tenant_or_default(pal_str tenant)
{
    return tenant.len > 0 ? tenant : pal_str_of("default");
}

PAL_CHECKED static inline pal_status pal_tenant_check(pal_str tenant, pal_error *err)
{
    return pal_text_check(tenant, "tenant", PAL_TENANT_LEN_MAX, true, err);
}

#endif
