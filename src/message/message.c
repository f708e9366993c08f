/* message.c - names of roles and of kinds of parts, and a simple way to make a message. Plain data:
 * any thread. */
#include "message/message_check.h"
#include "palaver/limits.h"

const char *const pal_role_names[PAL_ROLES] = {"none", "system", "user", "assistant", "tool"};

const char *const pal_part_kind_names[PAL_PART_KINDS] = {
        "none", "text", "reasoning", "tool_call", "tool_result", "image", "file", "compaction"};

/* A name's position is the value of the enum. Position 0 has no name and is never found. */
static unsigned find_name(const char *const *names, unsigned names_len, pal_str name)
{
    for (unsigned i = 1; i < names_len; i++) {
        if (pal_str_is(name, names[i]))
            return i;
    }
    return 0;
}

const char *pal_role_name(pal_role role)
{
    return pal_role_names[(unsigned)role < PAL_ROLES ? role : PAL_ROLE_NONE];
}

pal_role pal_role_from_name(pal_str name)
{
    return (pal_role)find_name(pal_role_names, PAL_ROLES, name);
}

const char *pal_part_kind_name(pal_part_kind kind)
{
    return pal_part_kind_names[(unsigned)kind < PAL_PART_KINDS ? kind : PAL_PART_NONE];
}

pal_part_kind pal_part_kind_from_name(pal_str name)
{
    return (pal_part_kind)find_name(pal_part_kind_names, PAL_PART_KINDS, name);
}

size_t pal_sent_places(uint64_t items, uint64_t *out_places)
{
    uint64_t place = 0;
    size_t len = 0;
    while (place < items && len < PAL_SENT_HASHES_MAX) {
        place += place < PAL_SENT_ITEMS_EACH ? 1 : place / PAL_SENT_ITEMS_EACH;
        if (place > items || len + 1 == PAL_SENT_HASHES_MAX)
            place = items;
        out_places[len++] = place;
    }
    return len;
}

uint64_t pal_sent_place(uint64_t items, size_t number)
{
    uint64_t places[PAL_SENT_HASHES_MAX];
    return number < pal_sent_places(items, places) ? places[number] : 0;
}

pal_message pal_message_text(pal_arena *arena, pal_role role, pal_str text)
{
    pal_message message = {0};
    pal_part *part = pal_arena_alloc(arena, sizeof(*part));
    if (!part)
        return message;
    part->kind = PAL_PART_TEXT;
    part->text = text;
    message.role = role;
    message.parts = part;
    message.parts_len = 1;
    return message;
}
