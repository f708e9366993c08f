/* tokens_builtin.h - the vocabularies that are embedded in the library.
 *
 * The build defines both names. There is one entry for each vocabulary that was available at build
 * time, the best known first, or none. */
#ifndef PAL_TOKENS_BUILTIN_H
#define PAL_TOKENS_BUILTIN_H

#include <stdatomic.h>
#include <stddef.h>
#include "palaver/tokens.h"

/* A pack as tools/tokens_compile made it. `data` is aligned to 64 bytes. */
struct pal_builtin {
    const char *name; /* name of the encoding, for example "o200k_base" */
    const unsigned char *data;
    const unsigned char *end;
    _Atomic(const pal_encoding *) table; /* made on its first use and never freed; NULL before */
    pal_arena *arena;                    /* owns the table */
};

extern struct pal_builtin pal_builtins[];
extern const size_t pal_builtins_len;

#endif
