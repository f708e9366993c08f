/* tokens_builtin.h - the tables that were embedded when the library was built.
 *
 * The build defines both names: with one entry for each vocabulary that it had, best known first,
 * or with none. */
#ifndef PAL_TOKENS_BUILTIN_H
#define PAL_TOKENS_BUILTIN_H

#include <stddef.h>

/* A table as tools/tokens_compile made it. `data` is aligned to 64 bytes. */
struct pal_builtin {
    const char *name; /* of the encoding: "o200k_base" */
    const unsigned char *data;
    const unsigned char *end;
};

extern const struct pal_builtin pal_builtins[];
extern const size_t pal_builtins_len;

#endif
