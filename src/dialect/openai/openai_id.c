/* openai_id.c - ids as OpenAI writes them. See openai_id.h. */
#include "dialect/openai/openai_id.h"

#include <stdio.h>
#include <string.h>
#include "base/digest.h"

#define HEX_LEN 32

void pal_openai_id_text(const char *prefix, pal_id id, char out_text[PAL_OPENAI_ID_SIZE])
{
    char hex[HEX_LEN + 1];
    pal_hex(id.bytes, sizeof id.bytes, hex);
    snprintf(out_text, PAL_OPENAI_ID_SIZE, "%.15s%.32s", prefix, hex);
}

bool pal_openai_id_read(pal_str text, const char *prefix, pal_id *out_id)
{
    pal_id id;
    size_t len = strlen(prefix);
    if (text.len != len + HEX_LEN || memcmp(text.data, prefix, len) != 0 ||
            !pal_unhex(pal_str_make(text.data + len, HEX_LEN), id.bytes, sizeof id.bytes))
        return false;
    *out_id = id;
    return true;
}
