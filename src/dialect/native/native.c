/* native.c - messages in the native JSON format, docs/messages.md.
 *
 * There are two forms: the full one, and the body that the store keeps next to its columns. Unknown
 * members of the usage have no field. They are kept in the message's extra, in the member
 * "usage_extra", and the full form writes them back to their place. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "message/message_check.h"
#include "palaver/limits.h"

enum { FULL = 1 << 0, BODY = 1 << 1, BOTH = FULL | BODY };

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define USAGE_EXTRA "usage_extra"
#define SENT_MEMBER "palaver_sent"

/* ---- Usage ---- */

static const pal_member usage_members[] = {
        {"input_tokens", PAL_MEMBER_U64, BOTH, .offset = offsetof(pal_usage, input)},
        {"cache_read_tokens", PAL_MEMBER_U64, BOTH, .offset = offsetof(pal_usage, cache_read)},
        {"cache_write_tokens", PAL_MEMBER_U64, BOTH, .offset = offsetof(pal_usage, cache_write)},
        {"output_tokens", PAL_MEMBER_U64, BOTH, .offset = offsetof(pal_usage, output)},
        {"reasoning_tokens", PAL_MEMBER_U64, BOTH, .offset = offsetof(pal_usage, reasoning)},
};

const pal_member_table pal_native_usage_table = {
        usage_members, COUNT_OF(usage_members), NULL, NULL};

/* ---- The request that led to an answer ----
 *
 *   "palaver_sent": {"tokens": 12034, "items": 41, "first_seq": 3, "hashes": "9f3a..."}
 *
 * A hash has four hex digits. */

enum { HASH_DIGITS = 4 };

typedef struct sent_record {
    pal_sent sent;
    pal_str hashes; /* hashes in hex */
} sent_record;

static const pal_member sent_members[] = {
        {"tokens", PAL_MEMBER_U64, 1, .offset = offsetof(sent_record, sent.tokens)},
        {"items", PAL_MEMBER_U64, 1, .offset = offsetof(sent_record, sent.items)},
        {"first_seq", PAL_MEMBER_U64, 1, .offset = offsetof(sent_record, sent.first_seq)},
        {"hashes", PAL_MEMBER_STRING, 1, .offset = offsetof(sent_record, hashes)},
};

static const pal_member_table sent_table = {sent_members, COUNT_OF(sent_members), NULL, NULL};

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

/* If the number of hashes is wrong, they are left out. */
static void read_hashes(sent_record *record, pal_arena *arena)
{
    uint64_t places[PAL_SENT_HASHES_MAX];
    size_t len = record->hashes.len / HASH_DIGITS;
    if (len == 0 || record->hashes.len % HASH_DIGITS ||
            len != pal_sent_places(record->sent.items, places))
        return;
    uint16_t *hashes = pal_arena_array(arena, len, sizeof(*hashes));
    for (size_t i = 0; hashes && i < len; i++) {
        if (!read_hash(record->hashes.data + i * HASH_DIGITS, &hashes[i]))
            return;
    }
    record->sent.hashes = hashes;
    record->sent.hashes_len = hashes ? len : 0;
}

static pal_status read_sent(
        pal_json value, pal_arena *arena, const pal_sent **out_sent, pal_error *err)
{
    sent_record record = {0};
    pal_str unknown;
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_member_wrong(err, SENT_MEMBER, value, "an object");
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

const pal_sent *pal_native_sent_copy(pal_arena *arena, const pal_sent *sent)
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

static void write_sent(pal_json_writer *writer, const pal_sent *sent)
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
    pal_json_name(writer, SENT_MEMBER);
    pal_json_begin_object(writer);
    pal_members_write(&sent_table, 1, writer, &record);
    pal_json_end_object(writer);
}

/* ---- Parts ---- */

/* Each kind of part is one form of the table. */
#define KIND(kind) (1u << PAL_PART_##kind)
#define MEDIA (KIND(IMAGE) | KIND(FILE))
#define CALLS (KIND(TOOL_CALL) | KIND(TOOL_RESULT))
#define TEXTS (KIND(TEXT) | KIND(REASONING) | KIND(COMPACTION))

static pal_status read_part_other(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err);
static void write_part_other(const pal_member *member, pal_json_writer *writer, const void *record);
static void write_body_part_other(
        const pal_member *member, pal_json_writer *writer, const void *record);

static const pal_member_names kind_names = {pal_part_kind_names, PAL_PART_KINDS,
        "one of text, reasoning, tool_call, tool_result, image, file, compaction"};

static const pal_member part_members[] = {
        /* Read first, by read_part(), because the other members depend on it. */
        {"type", PAL_MEMBER_NAME, ~0u, .offset = offsetof(pal_part, kind), .of = &kind_names},
        {"text", PAL_MEMBER_TEXT, TEXTS, .offset = offsetof(pal_part, text)},
        {"signature", PAL_MEMBER_STRING, KIND(REASONING), .offset = offsetof(pal_part, signature)},
        {"family", PAL_MEMBER_STRING, KIND(REASONING), .offset = offsetof(pal_part, family)},
        {"call_id", PAL_MEMBER_STRING, CALLS, .offset = offsetof(pal_part, call_id)},
        {"name", PAL_MEMBER_STRING, CALLS | MEDIA, .offset = offsetof(pal_part, name)},
        {"arguments", PAL_MEMBER_VERBATIM, KIND(TOOL_CALL),
                .offset = offsetof(pal_part, arguments)},
        {"output", PAL_MEMBER_STRING, KIND(TOOL_RESULT), .offset = offsetof(pal_part, text)},
        {"parts", PAL_MEMBER_OTHER, KIND(TOOL_RESULT), .offset = offsetof(pal_part, parts)},
        {"error", PAL_MEMBER_BOOL, KIND(TOOL_RESULT), .offset = offsetof(pal_part, is_error)},
        {"media_type", PAL_MEMBER_STRING, MEDIA, .offset = offsetof(pal_part, media_type)},
        {"url", PAL_MEMBER_STRING, MEDIA, .offset = offsetof(pal_part, url)},
        {"blob", PAL_MEMBER_STRING, MEDIA | KIND(TOOL_RESULT), .offset = offsetof(pal_part, blob)},
        /* Must be last: see below. */
        {"data", PAL_MEMBER_BASE64, MEDIA, .offset = offsetof(pal_part, data)},
};

static const pal_member_table part_table = {
        part_members, COUNT_OF(part_members), read_part_other, write_part_other};

/* The last member is left out: the store keeps bytes as blobs, never in a body. */
static const pal_member_table body_part_table = {
        part_members, COUNT_OF(part_members) - 1, NULL, write_body_part_other};

static pal_status read_parts(pal_json value, pal_arena *arena, bool nested, pal_part **out_parts,
        size_t *out_len, pal_error *err);

static pal_status read_part_other(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    pal_part *part = record;
    return read_parts(value, arena, true, &part->parts, &part->parts_len, err);
}

static pal_status read_part(
        pal_json value, pal_arena *arena, bool nested, pal_part *part, pal_error *err)
{
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "a part is of type %s; expected an object",
                pal_json_type_name(pal_json_type_of(value)));
    pal_json type = pal_json_find(value, "type");
    part->kind = pal_part_kind_from_name(pal_json_string(type, arena));
    if (part->kind == PAL_PART_NONE)
        return pal_member_wrong(err, "type", type, kind_names.expected);
    if (nested && part->kind == PAL_PART_TOOL_RESULT)
        return pal_member_wrong(err, "type", type, "no tool_result inside a tool_result");
    return pal_members_read(&part_table, 1u << part->kind, value, arena, part, &part->extra, err);
}

static pal_status read_parts(pal_json value, pal_arena *arena, bool nested, pal_part **out_parts,
        size_t *out_len, pal_error *err)
{
    size_t len = pal_json_count(value);
    if (pal_json_type_of(value) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "parts", value, "an array of parts");
    if (len > PAL_MESSAGE_PARTS_MAX)
        return pal_error_set(err, PAL_LIMIT, "member 'parts' has %zu parts; at most %d are allowed",
                len, PAL_MESSAGE_PARTS_MAX);
    pal_part *parts = len ? pal_arena_array(arena, len, sizeof(*parts)) : NULL;
    if (len && !parts)
        return pal_arena_checked(arena, err);
    pal_json_iter iter = pal_json_each(value);
    pal_json item;
    for (size_t i = 0; i < len && pal_json_next(&iter, NULL, &item); i++) {
        pal_status status = read_part(item, arena, nested, &parts[i], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "parts", i);
    }
    *out_parts = parts;
    *out_len = len;
    return PAL_OK;
}

static void write_parts(pal_json_writer *writer, const pal_member_table *table,
        const pal_part *parts, size_t parts_len)
{
    pal_json_begin_array(writer);
    for (size_t i = 0; i < parts_len; i++) {
        pal_json_begin_object(writer);
        pal_members_write(table, 1u << parts[i].kind, writer, &parts[i]);
        pal_json_put_members(writer, parts[i].extra);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static void write_inner_parts(const pal_member *member, const pal_member_table *table,
        pal_json_writer *writer, const pal_part *part)
{
    if (part->parts_len == 0)
        return;
    pal_json_name(writer, member->name);
    write_parts(writer, table, part->parts, part->parts_len);
}

static void write_part_other(const pal_member *member, pal_json_writer *writer, const void *record)
{
    write_inner_parts(member, &part_table, writer, record);
}

static void write_body_part_other(
        const pal_member *member, pal_json_writer *writer, const void *record)
{
    write_inner_parts(member, &body_part_table, writer, record);
}

/* ---- Flags ---- */

static const struct {
    const char *name;
    uint32_t flag;
} flag_names[] = {
        {"summary", PAL_MESSAGE_FLAG_SUMMARY},
        {"pruned", PAL_MESSAGE_FLAG_PRUNED},
        {"synthetic", PAL_MESSAGE_FLAG_SYNTHETIC},
        {"erased", PAL_MESSAGE_FLAG_ERASED},
        {"pinned", PAL_MESSAGE_FLAG_PINNED},
        {"error", PAL_MESSAGE_FLAG_ERROR},
};

#define FLAGS_EXPECTED "an array of summary, pruned, synthetic, pinned, error"

static uint32_t flag_of(pal_json value)
{
    for (size_t i = 0; i < COUNT_OF(flag_names); i++) {
        if (pal_json_string_is(value, flag_names[i].name))
            return flag_names[i].flag;
    }
    return 0;
}

static pal_status read_flags(pal_json value, uint32_t *out_flags, pal_error *err)
{
    uint32_t flags = 0;
    pal_json item;
    if (pal_json_type_of(value) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "flags", value, FLAGS_EXPECTED);
    for (pal_json_iter iter = pal_json_each(value); pal_json_next(&iter, NULL, &item);) {
        uint32_t flag = flag_of(item);
        if (!flag)
            return pal_member_wrong(err, "flags", item, FLAGS_EXPECTED);
        flags |= flag;
    }
    *out_flags = flags;
    return PAL_OK;
}

static void write_flags(pal_json_writer *writer, uint32_t flags)
{
    if (!flags)
        return;
    pal_json_name(writer, "flags");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < COUNT_OF(flag_names); i++) {
        if (flags & flag_names[i].flag)
            pal_json_put_text(writer, flag_names[i].name);
    }
    pal_json_end_array(writer);
}

/* ---- Messages ---- */

/* The record that is read or written. The message must be first, so that the table's offsets are
 * valid for both structs. */
typedef struct message_record {
    pal_message message;
    pal_str usage_extra; /* unknown members of 'usage' */
    bool has_content;
    bool has_parts;
} message_record;

static pal_status read_message_other(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err);
static void write_message_other(
        const pal_member *member, pal_json_writer *writer, const void *record);
static void write_body_other(const pal_member *member, pal_json_writer *writer, const void *record);

static const pal_member_names role_names = {
        pal_role_names, PAL_ROLES, "one of system, user, assistant, tool"};
static const pal_member_record usage_record = {&pal_native_usage_table, BOTH,
        offsetof(message_record, message.has_usage), offsetof(message_record, usage_extra)};

enum message_other { CONTENT, PARTS, FLAGS, SENT };

/* For members of type OTHER the offset identifies the member. */
static const pal_member message_members[] = {
        {"id", PAL_MEMBER_ID, FULL, .offset = offsetof(pal_message, id)},
        {"seq", PAL_MEMBER_U64, FULL, .offset = offsetof(pal_message, seq)},
        {"role", PAL_MEMBER_NAME, FULL, .offset = offsetof(pal_message, role), .of = &role_names},
        {"content", PAL_MEMBER_OTHER, BOTH, .offset = CONTENT},
        {"parts", PAL_MEMBER_OTHER, BOTH, .offset = PARTS},
        {"parent_id", PAL_MEMBER_ID, BOTH, .offset = offsetof(pal_message, parent_id)},
        {"created_at", PAL_MEMBER_TIME, FULL, .offset = offsetof(pal_message, created_at)},
        {"model", PAL_MEMBER_STRING, BOTH, .offset = offsetof(pal_message, model)},
        {"usage", PAL_MEMBER_RECORD, BOTH, .offset = offsetof(pal_message, usage),
                .of = &usage_record},
        {"flags", PAL_MEMBER_OTHER, FULL, .offset = FLAGS},
        {"tokens", PAL_MEMBER_U32, FULL, .offset = offsetof(pal_message, tokens)},
        {"client_id", PAL_MEMBER_STRING, FULL, .offset = offsetof(pal_message, client_id)},
        {"turn_id", PAL_MEMBER_ID, FULL, .offset = offsetof(pal_message, turn_id)},
        {SENT_MEMBER, PAL_MEMBER_OTHER, BOTH, .offset = SENT},
};

const pal_member_table pal_native_message_table = {
        message_members, COUNT_OF(message_members), read_message_other, write_message_other};

static const pal_member_table body_table = {
        message_members, COUNT_OF(message_members), read_message_other, write_body_other};

static pal_status read_content(
        pal_json value, pal_arena *arena, message_record *record, pal_error *err)
{
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return pal_member_wrong(err, "content", value, "a string, or 'parts' in its place");
    pal_str text = pal_json_string(value, arena);
    pal_message made = pal_message_text(arena, PAL_ROLE_USER, text);
    record->message.parts = made.parts;
    record->message.parts_len = made.parts_len;
    record->has_content = true;
    return pal_arena_checked(arena, err);
}

static pal_status read_message_other(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    message_record *reading = record;
    pal_message *message = &reading->message;
    switch ((enum message_other)member->offset) {
    case CONTENT:
        return read_content(value, arena, reading, err);
    case PARTS:
        reading->has_parts = true;
        return read_parts(value, arena, false, &message->parts, &message->parts_len, err);
    case FLAGS:
        return read_flags(value, &message->flags, err);
    case SENT:
        return read_sent(value, arena, &message->sent, err);
    }
    return PAL_OK;
}

/* Inserts {"usage_extra":...} before the members of the message's extra. */
static pal_status keep_usage_extra(
        pal_json object, pal_arena *arena, message_record *record, pal_error *err)
{
    static const char start[] = "{\"" USAGE_EXTRA "\":";
    pal_str kept = record->usage_extra, extra = record->message.extra;
    if (pal_json_type_of(pal_json_find(object, USAGE_EXTRA)) != PAL_JSON_NONE)
        return pal_error_set(err, PAL_INVALID,
                "member '" USAGE_EXTRA "' is not allowed together with unknown members of 'usage'");
    size_t start_len = sizeof(start) - 1;
    char *data = pal_arena_alloc(arena, start_len + kept.len + extra.len + 1);
    if (!data)
        return pal_arena_checked(arena, err);
    memcpy(data, start, start_len);
    memcpy(data + start_len, kept.data, kept.len);
    size_t len = start_len + kept.len;
    if (extra.len) {
        memcpy(data + len, extra.data, extra.len);
        data[len] = ','; /* replaces the opening brace of the extra */
        len += extra.len;
    } else {
        data[len++] = '}';
    }
    record->message.extra = pal_str_make(data, len);
    return PAL_OK;
}

static pal_status read_message(
        uint32_t form, pal_json value, pal_arena *arena, message_record *record, pal_error *err)
{
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "a message is of type %s; expected an object",
                pal_json_type_name(pal_json_type_of(value)));
    pal_status status = pal_members_read(
            &pal_native_message_table, form, value, arena, record, &record->message.extra, err);
    if (status != PAL_OK)
        return status;
    if (record->has_content && record->has_parts)
        return pal_error_set(
                err, PAL_INVALID, "a message has both 'content' and 'parts'; expected one of them");
    if (record->usage_extra.len)
        return keep_usage_extra(value, arena, record, err);
    return PAL_OK;
}

static bool is_plain_text(const pal_message *message)
{
    return message->parts_len == 1 && message->parts[0].kind == PAL_PART_TEXT &&
            message->parts[0].extra.len == 0;
}

static void write_message_member(enum message_other which, const pal_member_table *table,
        pal_json_writer *writer, const message_record *record)
{
    const pal_message *message = &record->message;
    switch (which) {
    case CONTENT:
        if (is_plain_text(message))
            pal_put_str(writer, "content", message->parts[0].text);
        break;
    case PARTS:
        if (message->parts_len && !is_plain_text(message)) {
            pal_json_name(writer, "parts");
            write_parts(writer, table, message->parts, message->parts_len);
        }
        break;
    case FLAGS:
        write_flags(writer, message->flags);
        break;
    case SENT:
        write_sent(writer, message->sent);
        break;
    }
}

static void write_message_other(
        const pal_member *member, pal_json_writer *writer, const void *record)
{
    write_message_member((enum message_other)member->offset, &part_table, writer, record);
}

static void write_body_other(const pal_member *member, pal_json_writer *writer, const void *record)
{
    write_message_member((enum message_other)member->offset, &body_part_table, writer, record);
}

/* ---- Checks ---- */

static pal_status check_part_extras(const pal_part *parts, size_t parts_len, pal_error *err)
{
    for (size_t i = 0; i < parts_len; i++) {
        const pal_part *part = &parts[i];
        pal_status status = PAL_OK;
        if (part->extra.len)
            status = pal_members_check(&part_table, 1u << part->kind, "extra", part->extra, err);
        if (status == PAL_OK && part->kind == PAL_PART_TOOL_RESULT)
            status = check_part_extras(part->parts, part->parts_len, err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "parts", i);
    }
    return PAL_OK;
}

/* The form of the message must be right: it limits the nesting. */
static pal_status check_extras(const pal_message *message, pal_error *err)
{
    pal_status status = PAL_OK;
    if (message->extra.len)
        status = pal_members_check(&pal_native_message_table, FULL, "extra", message->extra, err);
    if (status != PAL_OK)
        return status;
    return check_part_extras(message->parts, message->parts_len, err);
}

pal_status pal_native_message_check(const pal_message *message, pal_error *err)
{
    pal_status status = pal_message_check(message, err);
    return status == PAL_OK ? check_extras(message, err) : status;
}

pal_status pal_native_message_check_form(const pal_message *message, pal_error *err)
{
    pal_status status = pal_message_check_form(message, err);
    return status == PAL_OK ? check_extras(message, err) : status;
}

/* ---- The store's form ---- */

bool pal_native_is_plain(const pal_message *message)
{
    return is_plain_text(message) && pal_id_is_none(message->parent_id) &&
            message->model.len == 0 && !message->has_usage && message->extra.len == 0 &&
            !message->sent;
}

void pal_native_body_write(pal_buf *buf, const pal_message *message)
{
    message_record record = {.message = *message};
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_json_begin_object(&writer);
    pal_members_write(&body_table, BODY, &writer, &record);
    pal_json_put_members(&writer, message->extra);
    pal_json_end_object(&writer);
}

pal_status pal_native_body_read(
        pal_str body, pal_arena *arena, pal_message *message, pal_error *err)
{
    pal_json value;
    pal_status status = pal_member_parse(body, NULL, arena, &value, err);
    if (status != PAL_OK)
        return status;
    message_record record = {0};
    status = read_message(BODY, value, arena, &record, err);
    if (status != PAL_OK)
        return status;
    message->parts = record.message.parts;
    message->parts_len = record.message.parts_len;
    message->parent_id = record.message.parent_id;
    message->model = record.message.model;
    message->has_usage = record.message.has_usage;
    message->usage = record.message.usage;
    message->extra = record.message.extra;
    message->sent = record.message.sent;
    return PAL_OK;
}

/* ---- The full form ---- */

/* Writes the members of `extra`, except usage_extra, which goes to the record. */
static void write_extra_split(pal_json_writer *writer, pal_json extra, pal_arena *arena)
{
    pal_json name, value;
    for (pal_json_iter iter = pal_json_each(extra); pal_json_next(&iter, &name, &value);) {
        if (pal_json_string_is(name, USAGE_EXTRA))
            continue;
        pal_json_name_str(writer, pal_json_string(name, arena));
        pal_json_put_raw(writer, pal_json_raw(value));
    }
}

static void write_message(
        pal_json_writer *writer, message_record *record, pal_json extra, pal_arena *arena)
{
    pal_json kept = pal_json_find(extra, USAGE_EXTRA);
    bool split = pal_json_type_of(kept) == PAL_JSON_OBJECT;
    if (split)
        record->usage_extra = pal_json_raw(kept);
    pal_json_begin_object(writer);
    pal_members_write(&pal_native_message_table, FULL, writer, record);
    if (split)
        write_extra_split(writer, extra, arena);
    else
        pal_json_put_members(writer, record->message.extra);
    pal_json_end_object(writer);
}

/* Most messages are bare: one text, and no members that the store did not set. */
static bool is_bare(const pal_message *message)
{
    bool has_role = message->role > PAL_ROLE_NONE && message->role <= PAL_ROLE_TOOL;
    return has_role && pal_native_is_plain(message) && message->flags == 0 &&
            message->client_id.len == 0 && pal_id_is_none(message->turn_id) && message->seq > 0 &&
            !pal_id_is_none(message->id) &&
            message->created_at > 0 && message->created_at <= PAL_TIME_MAX_MS;
}

#define BARE_HEAD_MAX 128 /* bytes before the text of a bare message */
#define BARE_TAIL_MAX 96  /* bytes after the text of a bare message */

static pal_str bare_head(const pal_message *message, char out[BARE_HEAD_MAX])
{
    char *p = pal_chars_put(out, "{\"id\":\"");
    pal_id_to_text(message->id, p);
    p = pal_chars_put(p + PAL_ID_TEXT_LEN, "\",\"seq\":");
    p += pal_u64_to_text(message->seq, p);
    p = pal_chars_put(p, ",\"role\":\"");
    p = pal_chars_put(p, pal_role_names[message->role]);
    p = pal_chars_put(p, "\",\"content\":");
    return pal_str_make(out, (size_t)(p - out));
}

static pal_str bare_tail(const pal_message *message, char out[BARE_TAIL_MAX])
{
    char *p = pal_chars_put(out, ",\"created_at\":\"");
    p += pal_time_to_text(message->created_at, p);
    *p++ = '"';
    if (message->tokens) {
        p = pal_chars_put(p, ",\"tokens\":");
        p += pal_u64_to_text(message->tokens, p);
    }
    *p++ = '}';
    return pal_str_make(out, (size_t)(p - out));
}

/* Writes the same as pal_native_message_table does for a bare message, but faster. Long lists
 * consist of them. */
static void write_bare(pal_json_writer *writer, const pal_message *message)
{
    char head[BARE_HEAD_MAX], tail[BARE_TAIL_MAX];
    pal_json_put_raw(writer, bare_head(message, head));
    pal_json_quote(writer->buf, message->parts[0].text);
    pal_buf_append_str(writer->buf, bare_tail(message, tail));
}

pal_status pal_native_message_put(
        pal_json_writer *writer, const pal_message *message, pal_error *err)
{
    if (is_bare(message)) { /* a bare message needs no checks */
        write_bare(writer, message);
        return PAL_OK;
    }
    pal_status status = pal_native_message_check_form(message, err);
    if (status != PAL_OK)
        return status;
    message_record record = {.message = *message};
    pal_arena *arena = NULL;
    pal_json extra = {0};
    if (message->has_usage && message->extra.len) {
        arena = pal_arena_new(0);
        if (!arena)
            return pal_no_memory(err);
        status = pal_json_parse(arena, message->extra, NULL, &extra, err);
    }
    if (status == PAL_OK)
        write_message(writer, &record, extra, arena);
    if (arena && status == PAL_OK)
        status = pal_arena_checked(arena, err);
    pal_arena_free(arena);
    return status;
}

pal_status pal_native_message_read(
        pal_json value, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    message_record record = {0};
    pal_status status = read_message(FULL, value, arena, &record, err);
    if (status != PAL_OK)
        return status;
    if (record.message.role == PAL_ROLE_NONE)
        return pal_member_wrong(err, "role", (pal_json){0}, role_names.expected);
    *out_message = record.message;
    return PAL_OK;
}

pal_status pal_message_to_json(
        const pal_message *message, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_status status = pal_native_message_put(&writer, message, err);
    if (status == PAL_OK)
        status = pal_member_keep(&buf, arena, out_json, err);
    pal_buf_done(&buf);
    return status;
}

pal_status pal_message_from_json(
        pal_str json, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    const pal_json_limits limits = {.depth_max = PAL_MESSAGE_DEPTH_MAX};
    pal_json value;
    pal_status status = pal_member_parse(json, &limits, arena, &value, err);
    if (status != PAL_OK)
        return status;
    return pal_native_message_read(value, arena, out_message, err);
}

void pal_native_put_tokens(pal_json_writer *writer, const pal_usage *usage)
{
    for (size_t i = 0; i < COUNT_OF(usage_members); i++)
        pal_put_count(writer, usage_members[i].name,
                *(const uint64_t *)(const void *)((const char *)usage + usage_members[i].offset));
}

void pal_native_put_usage(pal_json_writer *writer, const char *name, const pal_usage *usage)
{
    pal_json_name(writer, name);
    pal_json_begin_object(writer);
    pal_native_put_tokens(writer, usage);
    pal_json_end_object(writer);
}
