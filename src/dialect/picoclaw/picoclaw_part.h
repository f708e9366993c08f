/* picoclaw_part.h - definitions that the reader and the writer of PicoClaw's lines share.
 * For the picoclaw*.c files only. */
#ifndef PAL_PICOCLAW_PART_H
#define PAL_PICOCLAW_PART_H

#include "base/json/json.h"
#include "dialect/picoclaw/picoclaw.h"

#define PAL_PICOCLAW_KEPT "picoclaw" /* member of an extra that keeps PicoClaw's values */
#define PAL_PICOCLAW_OURS "palaver"

/* A line as PicoClaw's rules read it, without its member "palaver". */
typedef struct pal_picoclaw_plain {
    pal_message message;
    pal_str content;
    pal_str reasoning;
    pal_json palaver; /* the member "palaver", if there is one; not in the extra */
} pal_picoclaw_plain;

PAL_CHECKED pal_status pal_picoclaw_plain_read(
        pal_json line, pal_arena *arena, pal_picoclaw_plain *out_plain, pal_error *err);

/* Like pal_picoclaw_line_read(), for a parsed value. */
PAL_CHECKED pal_status pal_picoclaw_value_read(
        pal_json line, pal_arena *arena, pal_message *out_message, pal_error *err);

/* Returns true if the native format has a member of this name. Such a member cannot be in an
 * extra. */
bool pal_picoclaw_is_native_name(pal_json name);

#endif
