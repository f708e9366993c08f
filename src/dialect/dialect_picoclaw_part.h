/* dialect_picoclaw_part.h - what reading and writing PicoClaw's lines share. Only for the
 * dialect_picoclaw*.c files. */
#ifndef PAL_DIALECT_PICOCLAW_PART_H
#define PAL_DIALECT_PICOCLAW_PART_H

#include "base/json.h"
#include "dialect/dialect_picoclaw.h"

#define PAL_PICOCLAW_KEPT "picoclaw" /* the member of an extra that keeps what is PicoClaw's */
#define PAL_PICOCLAW_OURS "palaver"

/* A line by PicoClaw's own rules, whatever its member "palaver" says. */
typedef struct pal_picoclaw_plain {
    pal_message message;
    pal_str content;
    pal_str reasoning;
    pal_json palaver; /* the member, where there is one; not in the extra */
} pal_picoclaw_plain;

PAL_CHECKED pal_status pal_picoclaw_plain_read(
        pal_json line, pal_arena *arena, pal_picoclaw_plain *out_plain, pal_error *err);

/* From a parsed value, as pal_picoclaw_line_read(). */
PAL_CHECKED pal_status pal_picoclaw_value_read(
        pal_json line, pal_arena *arena, pal_message *out_message, pal_error *err);

/* Whether a member of the native form has this name: such a one can't stand in an extra. */
bool pal_picoclaw_is_native_name(pal_json name);

#endif
