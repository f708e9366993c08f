/* tool_loop.c - detects a model that calls the same tool with the same arguments again and again.
 * Two calls are compared by a hash that does not depend on the order of members or on white
 * space. */
#include "palaver/loop.h"

#include <stdio.h>
#include <string.h>

#include "base/json/json.h"
#include "base/utf8.h"

static uint64_t mix(uint64_t hash)
{
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccd;
    hash ^= hash >> 33;
    hash *= 0xc4ceb9fe1a85ec53;
    return hash ^ hash >> 33;
}

static uint64_t hash_bytes(uint64_t hash, pal_str bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ (unsigned char)bytes.data[i]) * 0x100000001b3;
    return mix(hash ^ bytes.len);
}

static uint64_t hash_number(pal_json value)
{
    int64_t whole;
    double number;
    uint64_t bits = 0;

    if (pal_json_i64(value, &whole))
        return mix((uint64_t)whole ^ 0x11);
    if (pal_json_f64(value, &number)) {
        memcpy(&bits, &number, sizeof(number));
        return mix(bits ^ 0x12);
    }
    return hash_bytes(0x13, pal_json_raw(value));
}

/* The recursion is limited by the reader's PAL_JSON_DEPTH_MAX. */
static uint64_t hash_value(pal_json value, pal_arena *arena)
{
    pal_json_type type = pal_json_type_of(value);
    pal_json_iter each = pal_json_each(value);
    uint64_t hash = mix(0x100 + (uint64_t)type);
    pal_json name, member;

    switch (type) {
    case PAL_JSON_NUMBER:
        return hash_number(value);
    case PAL_JSON_STRING:
        return hash_bytes(hash, pal_json_string(value, arena));
    case PAL_JSON_ARRAY:
        while (pal_json_next(&each, NULL, &member))
            hash = mix(hash * 31 + hash_value(member, arena));
        return hash;
    case PAL_JSON_OBJECT:
        while (pal_json_next(&each, &name, &member))
            hash += mix(hash_bytes(0x200, pal_json_string(name, arena)) * 31 +
                    hash_value(member, arena));
        return mix(hash);
    default:
        return hash;
    }
}

static uint64_t hash_arguments(pal_str arguments)
{
    pal_arena *arena = pal_arena_new(0);
    uint64_t hash = hash_bytes(0x300, arguments);
    pal_json value;

    if (arena && pal_json_parse(arena, arguments, NULL, &value, NULL) == PAL_OK)
        hash = hash_value(value, arena);
    pal_arena_free(arena);
    return hash;
}

bool pal_tool_loop_add(pal_tool_loop *loop, pal_str name, pal_str arguments)
{
    uint64_t hash = mix(hash_bytes(0x400, name) * 31 + hash_arguments(arguments));

    loop->equal = loop->equal > 0 && loop->last == hash ? loop->equal + 1 : 1;
    loop->last = hash;
    snprintf(loop->last_name, sizeof(loop->last_name), "%.*s",
            (int)pal_utf8_cut(name, PAL_TOOL_LOOP_NAME_LEN_MAX), name.data ? name.data : "");
    return loop->equal >= PAL_TOOL_LOOP_CALLS;
}

void pal_tool_loop_reset(pal_tool_loop *loop)
{
    *loop = (pal_tool_loop){0};
}
