/* matrix_mention.c - whom an event mentions. Since version 1.7 of the specification, m.mentions
 * says it. In events without it, the body or a link to the user counts. */
#include <stdio.h>
#include "base/text.h"
#include "channel/matrix/matrix_event.h"

/* The characters of a user's id, with which a longer id continues. */
static bool is_id_char(char c)
{
    char lower = (char)(c | 0x20);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
            c == '=' || c == '/' || c == '+';
}

/* Whether an id ends at `at`. "@bot:example.org" is not in "@bot:example.org.evil.com", but it is
 * in "Ask @bot:example.org." */
static bool ends_id(pal_str text, size_t at)
{
    if (at == text.len)
        return true;
    if (text.data[at] == '.' || text.data[at] == ':')
        return at + 1 == text.len || !is_id_char(text.data[at + 1]);
    return !is_id_char(text.data[at]);
}

static bool has_id(pal_str text, pal_str user)
{
    for (size_t at = 0; user.len && at + user.len <= text.len; at++) {
        const char *found = memmem(text.data + at, text.len - at, user.data, user.len);
        if (!found)
            return false;
        at = (size_t)(found - text.data);
        if (ends_id(text, at + user.len))
            return true;
    }
    return false;
}

/* Whether there is a link "https://matrix.to/#/@bot:hs", whose id can be escaped. */
static bool has_link(pal_str html, pal_str user)
{
    char escaped[PAL_MATRIX_ID_LEN_MAX + 8];

    if (has_id(html, user))
        return true;
    if (user.len < 2 || user.len > PAL_MATRIX_ID_LEN_MAX)
        return false;
    const char *colon = memchr(user.data, ':', user.len);
    size_t local = colon ? (size_t)(colon - user.data) : user.len;
    int len = snprintf(escaped, sizeof escaped, "%%40%.*s%s%.*s", (int)local - 1, user.data + 1,
            colon ? "%3A" : "", colon ? (int)(user.len - local - 1) : 0, colon ? colon + 1 : "");
    return len > 0 && (size_t)len < sizeof escaped &&
            has_id(html, pal_str_make(escaped, (size_t)len));
}

bool pal_matrix_mention_is(pal_json mentions, pal_str text, pal_str html, pal_str user)
{
    pal_json_iter iter = pal_json_each(pal_json_find(mentions, "user_ids"));
    pal_json value;

    if (pal_json_type_of(mentions) != PAL_JSON_OBJECT)
        return has_id(text, user) || has_link(html, user);
    while (!iter.is_object && pal_json_next(&iter, NULL, &value)) {
        pal_str raw = pal_json_raw(value);
        bool is_plain = pal_json_type_of(value) == PAL_JSON_STRING && raw.len >= 2;
        if (is_plain && pal_str_equal(pal_str_make(raw.data + 1, raw.len - 2), user))
            return true;
    }
    return false;
}

bool pal_matrix_mention_is_room(pal_json mentions)
{
    bool is_room = false;
    return pal_json_bool(pal_json_find(mentions, "room"), &is_room) && is_room;
}

/* Returns the text after an address, or the text itself if it does not begin with `name`. */
static pal_str strip_name(pal_str text, pal_str name)
{
    size_t at = name.len;

    if (name.len == 0 || text.len < name.len ||
            !pal_text_equal_nocase(pal_str_make(text.data, name.len), name))
        return text;
    if (at < text.len && (text.data[at] == ':' || text.data[at] == ','))
        at++;
    else if (at < text.len && !pal_text_is_space(text.data[at]))
        return text; /* a longer word */
    pal_str rest = pal_text_trim(pal_text_after(text, at));
    return rest.len ? rest : text;
}

pal_str pal_matrix_mention_strip(pal_str text, pal_str user, pal_str name)
{
    const char *colon = user.len ? memchr(user.data, ':', user.len) : NULL;
    pal_str trimmed = pal_text_trim(text);
    pal_str short_id = pal_str_make(user.data, colon ? (size_t)(colon - user.data) : 0);
    pal_str forms[] = {user, short_id, name};

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        pal_str rest = strip_name(trimmed, forms[i]);
        if (rest.len < trimmed.len)
            return rest;
    }
    if (name.len && pal_text_begins(trimmed, "@")) {
        pal_str rest = strip_name(pal_text_after(trimmed, 1), name);
        if (rest.len + 1 < trimmed.len)
            return rest;
    }
    return trimmed;
}
