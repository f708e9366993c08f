/* id.h - identifiers: UUIDv7, so that they sort by the time of their making. */
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
    uint8_t bytes[16]; /* all zero means "none" */
} pal_id;

/* A new one, larger than every one that this process made before. From any thread. */
PAL_API pal_id pal_id_new(void);

PAL_API bool pal_id_is_none(pal_id id);
PAL_API bool pal_id_equal(pal_id a, pal_id b);

/* Writes the 36 lower-case characters and a NUL. */
PAL_API void pal_id_to_text(pal_id id, char out_text[PAL_ID_TEXT_SIZE]);

/* Reads the 36-character form in either case; false leaves *out_id untouched. Any UUID is taken,
 * of whatever version, except the one of zeros only. */
PAL_API PAL_CHECKED bool pal_id_from_text(pal_str text, pal_id *out_id);

#ifdef __cplusplus
}
#endif
#endif
