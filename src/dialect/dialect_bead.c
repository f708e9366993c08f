/* dialect_bead.c - the record that leads from a bead to its session. See dialect_bead.h. */
#include "dialect/dialect_bead.h"

#include <stdio.h>
#include <string.h>

bool pal_bead_record_begin(pal_str bead, char out_name[PAL_RECORD_NAME_LEN_MAX + 1])
{
    if (bead.len + PAL_ID_TEXT_SIZE > PAL_RECORD_NAME_LEN_MAX)
        return false;
    snprintf(out_name, PAL_RECORD_NAME_LEN_MAX + 1, "%.*s|", PAL_STR_ARG(bead));
    return true;
}

bool pal_bead_record_name(
        pal_str bead, pal_id session, char out_name[PAL_RECORD_NAME_LEN_MAX + 1])
{
    if (!pal_bead_record_begin(bead, out_name))
        return false;
    pal_id_to_text(session, out_name + strlen(out_name));
    return true;
}

void pal_bead_record_body(int64_t untimed_at, char out_body[PAL_BEAD_BODY_SIZE])
{
    if (untimed_at)
        snprintf(out_body, PAL_BEAD_BODY_SIZE, "{\"untimed\":%lld}", (long long)untimed_at);
    else
        snprintf(out_body, PAL_BEAD_BODY_SIZE, "{}");
}
