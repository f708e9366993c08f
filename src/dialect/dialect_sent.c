/* dialect_sent.c - the record of the request that led to an answer, in the native format. */
#include "dialect/dialect_sent.h"

#include <string.h>

#include "dialect/dialect_member.h"
#include "palaver/limits.h"

enum { HASH_DIGITS = 4 };

typedef struct sent_record {
    pal_sent sent;
    pal_str hashes; /* hashes in hex */
} sent_record;

static const pal_member sent_members[] = {
        {"tokens", PAL_MEMBER_U64, 1, offsetof(sent_record, sent.tokens)},
        {"items", PAL_MEMBER_U64, 1, offsetof(sent_record, sent.items)},
        {"first_seq", PAL_MEMBER_U64, 1, offsetof(sent_record, sent.first_seq)},
        {"hashes", PAL_MEMBER_STRING, 1, offsetof(sent_record, hashes)},
};

static const pal_member_table sent_table = {
        sent_members, sizeof(sent_members) / sizeof(sent_members[0]), NULL, NULL};

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hash(const char *digits, uint16_t *out_hash)
{
    unsigned hash = 0;
    for (int i = 0; i < HASH_DIGITS; i++) {
        int digit = digit_of(digits[i]);
        if (digit < 0)
            return false;
        hash = hash << 4 | (unsigned)digit;
    }
    *out_hash = (uint16_t)hash;
    return true;
}

static void read_hashes(sent_record *record, pal_arena *arena)
{
    size_t len = record->hashes.len / HASH_DIGITS;
    if (len == 0 || len > PAL_SENT_HASHES_MAX || record->hashes.len % HASH_DIGITS ||
            pal_sent_place(record->sent.items, len - 1) != record->sent.items ||
            pal_sent_place(record->sent.items, len) != 0)
        return;
    uint16_t *hashes = pal_arena_array(arena, len, sizeof(*hashes));
    for (size_t i = 0; hashes && i < len; i++) {
        if (!read_hash(record->hashes.data + i * HASH_DIGITS, &hashes[i]))
            return;
    }
    record->sent.hashes = hashes;
    record->sent.hashes_len = hashes ? len : 0;
}

pal_status pal_sent_read(
        pal_json value, pal_arena *arena, const pal_sent **out_sent, pal_error *err)
{
    sent_record record = {0};
    pal_str unknown;
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_member_wrong(err, PAL_SENT_MEMBER, value, "an object");
    pal_status status = pal_members_read(&sent_table, 1, value, arena, &record, &unknown, err);
    if (status != PAL_OK)
        return status;
    read_hashes(&record, arena);
    pal_sent *sent = pal_arena_alloc(arena, sizeof(*sent));
    if (sent)
        *sent = record.sent;
    *out_sent = sent;
    return pal_arena_checked(arena, err);
}

const pal_sent *pal_sent_copy(pal_arena *arena, const pal_sent *sent)
{
    pal_sent *copy = sent ? pal_arena_alloc(arena, sizeof(*copy)) : NULL;
    uint16_t *hashes = copy && sent->hashes_len
            ? pal_arena_array(arena, sent->hashes_len, sizeof(*hashes))
            : NULL;
    if (!copy)
        return NULL;
    *copy = *sent;
    if (hashes)
        memcpy(hashes, sent->hashes, sent->hashes_len * sizeof(*hashes));
    copy->hashes = hashes;
    copy->hashes_len = hashes ? sent->hashes_len : 0;
    return copy;
}

void pal_sent_write(pal_json_writer *writer, const pal_sent *sent)
{
    static const char digits[] = "0123456789abcdef";
    if (!sent)
        return;
    char text[PAL_SENT_HASHES_MAX * HASH_DIGITS];
    size_t len = 0;
    for (size_t i = 0; i < sent->hashes_len && i < PAL_SENT_HASHES_MAX; i++) {
        for (int shift = 12; shift >= 0; shift -= 4)
            text[len++] = digits[sent->hashes[i] >> shift & 15];
    }
    sent_record record = {.sent = *sent, .hashes = pal_str_make(text, len)};
    pal_json_name(writer, PAL_SENT_MEMBER);
    pal_json_begin_object(writer);
    pal_members_write(&sent_table, 1, writer, &record);
    pal_json_end_object(writer);
}
