/* openai_id.h - ids as OpenAI writes them: a prefix for the kind of object, and 32 hex digits. */
#ifndef PAL_OPENAI_ID_H
#define PAL_OPENAI_ID_H

#include <stdbool.h>
#include "palaver/id.h"
#include "palaver/str.h"

#define PAL_OPENAI_ID_SIZE 48 /* prefix, 32 hex digits and NUL */

/* Writes PREFIX and the id's 32 hex digits: "conv_...". */
void pal_openai_id_text(const char *prefix, pal_id id, char out_text[PAL_OPENAI_ID_SIZE]);
/* Returns false if the text is not such an id. */
bool pal_openai_id_read(pal_str text, const char *prefix, pal_id *out_id);

#endif
