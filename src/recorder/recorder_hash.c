/* recorder_hash.c - the hash of a history.
 *
 * Every text, call, result, image or file of a message is an atom. An atom is written as a JSON
 * array with a fixed spelling, and the hash of a history is a chain of SHA-256 over its atoms. So
 * it does not matter how a client divides one answer into messages, only where messages end.
 *
 * Pure functions: any thread. */
#include "recorder/recorder.h"

#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/digest.h"
#include "base/json/json.h"

#define ATOM_BYTES_MAX ((size_t)1 << 30)
#define BLOB_PREFIX "sha256:"

typedef struct atoms {
    pal_recorder_hash *hash;
    pal_arena *arena;
    pal_buf buf; /* the current atom, after the bytes of the hash before it */
    pal_json_writer writer;
    size_t len;
    pal_status status;
} atoms;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Clients cut white space off the end of an answer. */
static pal_str without_end(pal_str text)
{
    while (text.len && is_blank(text.data[text.len - 1]))
        text.len--;
    return text;
}

/* ---- JSON in one spelling ---- */

typedef struct named_value {
    pal_str name;
    pal_json value;
} named_value;

static int compare_names(const void *left, const void *right)
{
    const named_value *a = left, *b = right;
    size_t len = a->name.len < b->name.len ? a->name.len : b->name.len;
    int order = len ? memcmp(a->name.data, b->name.data, len) : 0;
    return order ? order : (a->name.len > b->name.len) - (a->name.len < b->name.len);
}

static void put_json(pal_json_writer *writer, pal_json value, pal_arena *arena);

static void put_object(pal_json_writer *writer, pal_json value, pal_arena *arena)
{
    named_value *members = pal_arena_array(arena, pal_json_count(value) + 1, sizeof *members);
    pal_json name, member;
    size_t len = 0;
    if (!members)
        return; /* the arena has failed, which the caller checks */
    for (pal_json_iter iter = pal_json_each(value); pal_json_next(&iter, &name, &member);) {
        if (!pal_json_string_is(name, "cache_control"))
            members[len++] = (named_value){pal_json_string(name, arena), member};
    }
    qsort(members, len, sizeof *members, compare_names);
    pal_json_begin_object(writer);
    for (size_t i = 0; i < len; i++) {
        pal_json_name_str(writer, members[i].name);
        put_json(writer, members[i].value, arena);
    }
    pal_json_end_object(writer);
}

static void put_json(pal_json_writer *writer, pal_json value, pal_arena *arena)
{
    pal_json item;
    double number;
    switch (pal_json_type_of(value)) {
    case PAL_JSON_OBJECT:
        put_object(writer, value, arena);
        break;
    case PAL_JSON_ARRAY:
        pal_json_begin_array(writer);
        for (pal_json_iter iter = pal_json_each(value); pal_json_next(&iter, NULL, &item);)
            put_json(writer, item, arena);
        pal_json_end_array(writer);
        break;
    case PAL_JSON_STRING:
        pal_json_put_str(writer, pal_json_string(value, arena));
        break;
    case PAL_JSON_NUMBER: /* a client that parses 1.0 writes 1 */
        if (pal_json_f64(value, &number))
            pal_json_put_f64(writer, number);
        else
            pal_json_put_raw(writer, pal_json_raw(value));
        break;
    default:
        pal_json_put_raw(writer, pal_json_raw(value));
        break;
    }
}

/* Writes a text that is JSON, or was meant to be. */
static void put_json_text(pal_json_writer *writer, pal_str text, pal_arena *arena)
{
    pal_json value;
    if (pal_json_parse(arena, text, NULL, &value, NULL) == PAL_OK)
        put_json(writer, value, arena);
    else
        pal_json_put_str(writer, text);
}

/* ---- Atoms ---- */

static void begin_atom(atoms *a, const char *kind, pal_role role)
{
    pal_buf_clear(&a->buf);
    pal_buf_append(&a->buf, a->hash->bytes, sizeof a->hash->bytes);
    a->writer = pal_json_writer_make(&a->buf);
    pal_json_begin_array(&a->writer);
    pal_json_put_text(&a->writer, pal_role_name(role));
    pal_json_put_text(&a->writer, kind);
}

static void end_atom(atoms *a)
{
    pal_json_end_array(&a->writer);
    if (a->status == PAL_OK)
        a->status = a->buf.failure;
    if (a->status == PAL_OK)
        a->status = pal_sha256(pal_buf_str(&a->buf), a->hash->bytes);
    a->len++;
}

/* The content by its digest, which is also the name of the blob that the store makes of it. */
static void put_content(atoms *a, const pal_part *part)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char name[sizeof BLOB_PREFIX + 2 * PAL_SHA256_SIZE] = BLOB_PREFIX;
    if (part->data.len) {
        if (pal_sha256(part->data, digest) != PAL_OK)
            a->status = PAL_NO_MEMORY;
        pal_hex(digest, sizeof digest, name + sizeof BLOB_PREFIX - 1);
        pal_json_put_text(&a->writer, name);
    } else {
        pal_json_put_str(&a->writer, part->blob.len ? part->blob : part->url);
    }
}

static void add_media(atoms *a, const pal_part *part, pal_role role)
{
    begin_atom(a, "media", role);
    if (part->data.len || part->blob.len || part->url.len)
        put_content(a, part);
    else /* a block of a kind that has no counterpart here */
        put_json_text(&a->writer, part->extra, a->arena);
    end_atom(a);
}

static void add_text(atoms *a, pal_str text, pal_role role)
{
    text = without_end(text);
    if (!text.len)
        return;
    begin_atom(a, "text", role);
    pal_json_put_str(&a->writer, text);
    end_atom(a);
}

static void add_part(atoms *a, const pal_part *part, pal_role role);

static void add_result(atoms *a, const pal_part *part)
{
    begin_atom(a, "result", PAL_ROLE_TOOL);
    pal_json_put_str(&a->writer, part->call_id);
    end_atom(a);
    add_text(a, part->text, PAL_ROLE_TOOL);
    for (size_t i = 0; i < part->parts_len; i++)
        add_part(a, &part->parts[i], PAL_ROLE_TOOL);
}

static void add_part(atoms *a, const pal_part *part, pal_role role)
{
    switch (part->kind) {
    case PAL_PART_TEXT:
    case PAL_PART_COMPACTION:
        add_text(a, part->text, role);
        break;
    case PAL_PART_TOOL_CALL:
        begin_atom(a, "call", role);
        pal_json_put_str(&a->writer, part->call_id);
        pal_json_put_str(&a->writer, part->name);
        put_json_text(&a->writer, part->arguments, a->arena);
        end_atom(a);
        break;
    case PAL_PART_TOOL_RESULT:
        add_result(a, part);
        break;
    case PAL_PART_IMAGE:
    case PAL_PART_FILE:
        add_media(a, part, role);
        break;
    default: /* reasoning: clients keep it, change it or drop it */
        break;
    }
}

pal_status pal_recorder_hash_add(pal_recorder_hash *hash, const pal_message *message,
        pal_arena *arena, bool *out_counts, pal_error *err)
{
    pal_recorder_hash chain = *hash;
    atoms a = {.hash = &chain, .arena = arena};
    pal_buf_init(&a.buf, ATOM_BYTES_MAX);
    for (size_t i = 0; i < message->parts_len; i++)
        add_part(&a, &message->parts[i], message->role);
    pal_buf_done(&a.buf);
    if (a.status == PAL_OK)
        a.status = pal_arena_failure(arena);
    if (a.status != PAL_OK)
        return pal_error_set(err, a.status, "a message is too large to compare");
    *hash = chain;
    *out_counts = a.len > 0;
    return PAL_OK;
}
