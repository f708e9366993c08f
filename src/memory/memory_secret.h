/* memory_secret.h - finds secrets in a text, so that no note keeps one. A pure function for any
 * thread. */
#ifndef PAL_MEMORY_SECRET_H
#define PAL_MEMORY_SECRET_H

#include <stdbool.h>
#include "palaver/str.h"

/* Returns true if the text contains what looks like a key, a card number, an IBAN or a password. */
bool pal_secret_is_in(pal_str text);

#endif
