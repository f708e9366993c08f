/* server_match.c - finds the route for a path. Pure functions, for any thread. */
#include "server/server_internal.h"

#include <stdio.h>
#include "base/digest.h"
#include "base/utf8.h"

/* Takes the next segment, up to a slash, from the front of `rest`. */
static pal_str take_segment(pal_str *rest)
{
    const char *slash = rest->len ? memchr(rest->data, '/', rest->len) : NULL;
    size_t len = slash ? (size_t)(slash - rest->data) : rest->len;
    pal_str segment = pal_str_make(rest->data, len);
    *rest = pal_str_make(rest->data + len, rest->len - len);
    return segment;
}

/* Returns 1 plus the number of literal characters of the pattern; 0: no match. */
static size_t match_path(const char *pattern, pal_str path, pal_str params[PAL_API_PARAMS_MAX])
{
    size_t score = 1, params_len = 0;
    for (;;) {
        const char *brace = strchrnul(pattern, '{');
        size_t len = (size_t)(brace - pattern);
        if (path.len < len || (len && memcmp(path.data, pattern, len) != 0))
            return 0;
        path = pal_str_make(path.data + len, path.len - len);
        score += len;
        if (!*brace)
            return path.len == 0 ? score : 0;
        pal_str segment = take_segment(&path);
        if (segment.len == 0 || params_len == PAL_API_PARAMS_MAX)
            return 0;
        params[params_len++] = segment;
        pattern = strchr(brace, '}') + 1;
    }
}

/* A quick check. Most patterns of a method begin the same way, but their last characters differ. So
 * comparing the ends is faster than match_path(). */
static bool may_match(const pal_api_route *route, pal_str method, pal_str path)
{
    if (method.len == 0 || *route->method != *method.data || !pal_str_is(method, route->method))
        return false;
    const char *pattern = route->path;
    size_t len = strlen(pattern);
    if (len < 2 || path.len < 2 || pattern[len - 1] == '}' || pattern[len - 2] == '}')
        return true;
    return memcmp(pattern + len - 2, path.data + path.len - 2, 2) == 0;
}

static void add_method(char allowed[PAL_METHODS_SIZE], const char *method)
{
    size_t len = strlen(allowed);
    const char *head = strcmp(method, "GET") == 0 ? ", HEAD" : "";
    if (!strstr(allowed, method))
        snprintf(allowed + len, PAL_METHODS_SIZE - len, "%s%s%s", len ? ", " : "", method, head);
}

/* The match with the most literal characters. */
static pal_match best_of(const pal_api *api, pal_str method, pal_str path)
{
    size_t best = 0;
    pal_match match = {0};
    for (const pal_api_route *const *group = api->routes; *group; group++) {
        for (const pal_api_route *route = *group; route->method; route++) {
            if (!may_match(route, method, path))
                continue;
            pal_str params[PAL_API_PARAMS_MAX] = {0};
            size_t score = match_path(route->path, path, params);
            if (score <= best)
                continue;
            best = score;
            match.route = route;
            memcpy(match.params, params, sizeof params);
        }
    }
    return match;
}

static void add_methods(const pal_api *api, pal_str path, char allowed[PAL_METHODS_SIZE])
{
    pal_str params[PAL_API_PARAMS_MAX];
    for (const pal_api_route *const *group = api->routes; *group; group++)
        for (const pal_api_route *route = *group; route->method; route++)
            if (match_path(route->path, path, params))
                add_method(allowed, route->method);
}

void pal_match_route(const pal_api *api, pal_str method, pal_str path, pal_match *out_match)
{
    *out_match = best_of(api, pal_str_is(method, "HEAD") ? pal_str_of("GET") : method, path);
    if (!out_match->route)
        add_methods(api, path, out_match->allowed);
}

bool pal_match_decode(pal_arena *arena, pal_str segment, pal_str *out_text)
{
    size_t len = 0;
    char *text = pal_arena_alloc(arena, segment.len + 1);
    if (!text)
        return false;
    for (size_t i = 0; i < segment.len; i++) {
        uint8_t byte = (uint8_t)segment.data[i];
        if (byte == '%') {
            if (segment.len - i < 3 || !pal_unhex(pal_str_make(segment.data + i + 1, 2), &byte, 1))
                return false;
            i += 2;
        }
        if (byte == 0)
            return false;
        text[len++] = (char)byte;
    }
    *out_text = pal_str_make(text, len);
    return pal_utf8_is_valid(*out_text);
}
