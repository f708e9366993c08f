/* route_text.h - checks, trims, lower-cases and joins texts for routing. Results are in the arena;
 * its failure is checked once, at the end. */
#ifndef PAL_ROUTE_TEXT_H
#define PAL_ROUTE_TEXT_H

#include "palaver/arena.h"
#include "palaver/route.h"

#define PAL_LITERAL(text) (pal_str_make((text), sizeof(text) - 1))

/* Checks a text from a person or a program: it must be within the limit, valid UTF-8, and without
 * control characters after trimming. Returns it trimmed. `name` is used in the error. */
PAL_CHECKED pal_status pal_route_check(
        const char *name, pal_str text, pal_str *out_trimmed, pal_error *err);

/* Returns the text in lower case, in the arena. */
pal_str pal_route_lower(pal_arena *arena, pal_str text);

/* Returns true if the text is equal to `word`, which is in lower case. The case of ASCII letters
 * does not matter. */
bool pal_route_is_word(pal_str text, const char *word);

/* Makes the id of an agent or an account from a trimmed and lower-cased text: letters, digits, '_'
 * and '-', at most 64. Returns `fallback` if nothing is left. */
pal_str pal_route_id(pal_arena *arena, pal_str text, pal_str fallback);

/* Joins all parts. */
pal_str pal_route_join_parts(pal_arena *arena, const pal_str *parts, size_t len);
#define pal_route_join(arena, ...)                                                                 \
    pal_route_join_parts((arena), (const pal_str[]){__VA_ARGS__},                                  \
            sizeof((const pal_str[]){__VA_ARGS__}) / sizeof(pal_str))

/* Writes '|' as %7C and '%' as %25, so that a value cannot look like two fields. */
pal_str pal_route_escape(pal_arena *arena, pal_str value);

/* Returns a JSON string with quotes. The text was checked and has no control characters. */
pal_str pal_route_quote(pal_arena *arena, pal_str text);

/* Returns "sk_v1_" and the hash of exactly these bytes, in the arena. If there is no memory, the
 * arena has failed. */
pal_str pal_route_key_hash(pal_arena *arena, pal_str text);

#endif
