/* id.h - identifiers. New ids are UUIDs of version 7, which sort by the time of their creation. All
 * functions can be called from any thread. */
#ifndef PALAVER_ID_H
#define PALAVER_ID_H

#include <stdbool.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PAL_ID_TEXT_LEN 36
#define PAL_ID_TEXT_SIZE (PAL_ID_TEXT_LEN + 1)

typedef struct pal_id {
    uint8_t bytes[16]; /* all zero: the id is empty */
} pal_id;

/* Creates an id. It is larger than all ids that this process created before. */
PAL_API pal_id pal_id_new(void);

/* Returns true if the id is empty. */
PAL_API bool pal_id_is_none(pal_id id);
PAL_API bool pal_id_equal(pal_id a, pal_id b);

/* Writes the 36 characters of the id in lower case, and a NUL. */
PAL_API void pal_id_to_text(pal_id id, char out_text[PAL_ID_TEXT_SIZE]);

/* Reads an id of 36 characters in upper or lower case. Accepts UUIDs of any version, except the one
 * that is all zero. Returns false and leaves *out_id unchanged if the text is not an id. */
PAL_API PAL_CHECKED bool pal_id_from_text(pal_str text, pal_id *out_id);

#ifdef __cplusplus
}
#endif
#endif
