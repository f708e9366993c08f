/* api.h - the version, and macros that every public header uses: PAL_API exports a symbol,
 * PAL_CHECKED warns if a result is ignored, PAL_PRINTF checks format strings, and PAL_RESERVED
 * keeps room in structs. */
#ifndef PALAVER_API_H
#define PALAVER_API_H

#include <stdint.h>

#define PAL_VERSION "0.1.0"
#define PAL_VERSION_MAJOR 0
#define PAL_VERSION_MINOR 1
#define PAL_VERSION_PATCH 0

#if defined(__GNUC__)
#define PAL_API __attribute__((visibility("default")))
#define PAL_CHECKED __attribute__((warn_unused_result))
#define PAL_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
#else
#define PAL_API
#define PAL_CHECKED
#define PAL_PRINTF(format_at, args_at)
#endif

/* Room for the members of later versions, at the end of a struct. A new member takes some of it, so
 * the size of a struct never changes. A program therefore works with a newer library without being
 * compiled again. Zero the room with the rest of the struct; programs do not use it otherwise. */
#define PAL_RESERVED(words) uint64_t reserved[words]

#endif
