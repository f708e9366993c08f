/* crash_pattern.c - see crash_pattern.h. */
#include "crash_pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t pattern_hash(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

pal_id pattern_id(uint64_t a, uint64_t b)
{
    pal_id id;
    uint64_t high = pattern_hash(a, b), low = pattern_hash(b + 1, a);

    memcpy(id.bytes, &high, 8);
    memcpy(id.bytes + 8, &low, 8);
    id.bytes[0] |= 1;
    return id;
}

static size_t filler_len(uint64_t hash)
{
    if (hash % 64 == 0)
        return 4000 + (hash >> 8) % 20000;
    return 20 + (hash >> 8) % 1400;
}

size_t pattern_text(const pattern *what, char out_text[PATTERN_TEXT_MAX])
{
    uint64_t hash = pattern_hash(what->writer, what->counter * 8 + what->part);
    size_t len = (size_t)snprintf(out_text, PATTERN_TEXT_MAX,
            "writer %" PRIu32 " says %" PRIu64 ", %" PRIu32 " of %" PRIu32 ": ", what->writer,
            what->counter, what->part, what->parts);
    size_t end = len + filler_len(hash);

    for (; len < end; len++) {
        hash = hash * 6364136223846793005u + 1442695040888963407u;
        out_text[len] = (char)('a' + (hash >> 59) % 26);
    }
    return len;
}

size_t pattern_client_id(const pattern *what, char out_text[PATTERN_CLIENT_MAX])
{
    return (size_t)snprintf(out_text, PATTERN_CLIENT_MAX, "%" PRIu32 "-%" PRIu64 "-%" PRIu32,
            what->writer, what->counter, what->part);
}

bool pattern_read(const pal_message *message, pattern *out_what)
{
    char head[128], client_id[PATTERN_CLIENT_MAX], text[PATTERN_TEXT_MAX];
    pal_str stored;

    if (message->parts_len != 1 || message->parts[0].kind != PAL_PART_TEXT)
        return false;
    stored = message->parts[0].text;
    snprintf(head, sizeof(head), "%.*s", (int)(stored.len < 100 ? stored.len : 100), stored.data);
    if (sscanf(head, "writer %" SCNu32 " says %" SCNu64 ", %" SCNu32 " of %" SCNu32 ": ",
                &out_what->writer, &out_what->counter, &out_what->part, &out_what->parts) != 4)
        return false;
    return pal_str_equal(stored, pal_str_make(text, pattern_text(out_what, text))) &&
            pal_str_equal(message->client_id,
                    pal_str_make(client_id, pattern_client_id(out_what, client_id)));
}

void pattern_message_init(pattern_message *room, const pattern *what)
{
    memset(&room->message, 0, sizeof(room->message));
    memset(&room->part, 0, sizeof(room->part));
    room->part.kind = PAL_PART_TEXT;
    room->part.text = pal_str_make(room->text, pattern_text(what, room->text));
    room->message.role = what->counter % 2 ? PAL_ROLE_USER : PAL_ROLE_ASSISTANT;
    room->message.parts = &room->part;
    room->message.parts_len = 1;
    room->message.client_id =
            pal_str_make(room->client_id, pattern_client_id(what, room->client_id));
}
