/* route_text.h - texts as routing treats them: checked, trimmed, lower-cased, joined. Results lie
 * in the arena, whose failure sticks and is looked at once, at the end. */
#ifndef PAL_ROUTE_TEXT_H
#define PAL_ROUTE_TEXT_H

#include "palaver/arena.h"
#include "palaver/route.h"

#define PAL_LITERAL(text) (pal_str_make((text), sizeof(text) - 1))

/* What a person's or a program's text must be: within the limit, valid UTF-8, and without control
 * characters once it is trimmed. Gives it back trimmed. `name` is for the error. */
PAL_CHECKED pal_status pal_route_check(
        const char *name, pal_str text, pal_str *out_trimmed, pal_error *err);

/* In the arena. */
pal_str pal_route_lower(pal_arena *arena, pal_str text);

/* Whether they are the same, letters of ASCII in either case. `word` is lower case. */
bool pal_route_is_word(pal_str text, const char *word);

/* An agent's or an account's id from a trimmed and lower-cased text: letters, digits, '_' and '-',
 * 64 at most; `fallback` where nothing is left. */
pal_str pal_route_id(pal_arena *arena, pal_str text, pal_str fallback);

/* All parts behind each other. */
pal_str pal_route_join_parts(pal_arena *arena, const pal_str *parts, size_t len);
#define pal_route_join(arena, ...)                                                                 \
    pal_route_join_parts((arena), (const pal_str[]){__VA_ARGS__},                                  \
            sizeof((const pal_str[]){__VA_ARGS__}) / sizeof(pal_str))

/* With '|' as %7C and '%' as %25, so that no value can look like two fields. */
pal_str pal_route_escape(pal_arena *arena, pal_str value);

/* As a JSON string, quotes and all. The text was checked: it has no control characters. */
pal_str pal_route_quote(pal_arena *arena, pal_str text);

#endif
