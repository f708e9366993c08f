/* transfer_import_known.c - the messages that a session already has in the store: a map from id and
 * client id to the seq of a message, its number of parts, and a digest of its content. */
#include "transfer/transfer_import_internal.h"

#include <stdio.h>
#include <string.h>
#include "base/digest.h"
#include "base/text.h"

#define KNOWN_PAGE 1000
#define DIGEST_LEN 16 /* bytes of the SHA-256; enough to distinguish messages */
#define MISSING_END " was not in the import]"

typedef struct known_message {
    uint64_t seq;
    size_t parts_len;
    uint8_t digest[DIGEST_LEN];
} known_message;

/* ---- Digests ---- */

static void put_text(pal_buf *buf, pal_str text)
{
    pal_buf_append_u64(buf, text.len);
    pal_buf_append_char(buf, ':');
    pal_buf_append_str(buf, text);
}

/* Images and files are not included: their bytes may be stored as blobs, or a note may replace them
 * (transfer_import.c). */
static bool is_told(const pal_part *part)
{
    bool is_note = part->kind == PAL_PART_TEXT && pal_text_ends(part->text, MISSING_END);
    return part->kind != PAL_PART_IMAGE && part->kind != PAL_PART_FILE && !is_note;
}

static void put_parts(pal_buf *buf, const pal_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!is_told(&parts[i]))
            continue;
        pal_buf_append_u64(buf, (uint64_t)parts[i].kind);
        put_text(buf, parts[i].text);
        put_text(buf, parts[i].call_id);
        put_parts(buf, parts[i].parts, parts[i].parts_len);
    }
}

/* Computes the digest of the role and the first `parts_len` parts. */
static pal_status digest_message(
        const pal_message *message, size_t parts_len, uint8_t out[PAL_SHA256_SIZE])
{
    pal_buf buf;
    pal_buf_init(&buf, SIZE_MAX / 4);
    pal_buf_append_u64(&buf, (uint64_t)message->role);
    put_parts(&buf, message->parts, parts_len);
    pal_status status = buf.failure ? buf.failure : pal_sha256(pal_buf_str(&buf), out);
    pal_buf_done(&buf);
    return status;
}

pal_status pal_import_other_id(
        const pal_import *import, const pal_message *first, unsigned n, pal_id *out_id)
{
    uint8_t said[PAL_SHA256_SIZE], bytes[PAL_SHA256_SIZE];
    pal_buf buf;
    pal_status status = digest_message(first, first->parts_len, said);
    pal_buf_init(&buf, 65536);
    put_text(&buf, pal_str_of("import"));
    put_text(&buf, pal_buf_str(&import->name));
    put_text(&buf, pal_str_make((const char *)said, sizeof said));
    pal_buf_append_u64(&buf, n);
    if (status == PAL_OK)
        status = buf.failure ? buf.failure : pal_sha256(pal_buf_str(&buf), bytes);
    pal_buf_done(&buf);
    if (status != PAL_OK)
        return status;
    memcpy(out_id->bytes, bytes, sizeof out_id->bytes);
    /* UUID version 8: derived by a rule of this project. */
    out_id->bytes[6] = (uint8_t)(0x80 | (out_id->bytes[6] & 0x0f));
    out_id->bytes[8] = (uint8_t)(0x80 | (out_id->bytes[8] & 0x3f));
    return PAL_OK;
}

/* ---- The map ---- */

static pal_status add_known(pal_import *import, const pal_message *message)
{
    uint8_t digest[PAL_SHA256_SIZE];
    known_message *known = pal_arena_alloc(import->known_arena, sizeof *known);
    pal_str id = pal_arena_copy(import->known_arena,
            pal_str_make((const char *)message->id.bytes, sizeof message->id.bytes));
    pal_str client_id = pal_arena_copy(import->known_arena, message->client_id);
    if (!known || digest_message(message, message->parts_len, digest) != PAL_OK ||
            pal_arena_failure(import->known_arena) != PAL_OK ||
            pal_map_set(&import->known, id, known) != PAL_OK ||
            (client_id.len && pal_map_set(&import->known, client_id, known) != PAL_OK))
        return pal_import_no_memory(import);
    *known = (known_message){.seq = message->seq, .parts_len = message->parts_len};
    memcpy(known->digest, digest, sizeof known->digest);
    return PAL_OK;
}

pal_status pal_import_known_load(pal_import *import, pal_id session, uint64_t before_seq)
{
    pal_message_query load = {.limit = KNOWN_PAGE, .before_seq = before_seq, .hidden = true};
    pal_message_page page;
    pal_status status;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_import_no_memory(import);
    do {
        pal_arena_reset(arena);
        status = pal_store_load(
                import->store, import->tenant, session, &load, arena, &page, import->err);
        for (size_t i = 0; status == PAL_OK && i < page.len; i++) {
            load.after_seq = page.items[i].seq;
            status = add_known(import, &page.items[i]);
        }
    } while (status == PAL_OK && page.has_more);
    pal_arena_free(arena);
    return status;
}

/* If a message's id was in use, the id is its client id: see name_message(). */
static const known_message *find_dropped(const pal_import *import, const pal_message *message)
{
    char id[PAL_ID_TEXT_SIZE], text[64];
    pal_id_to_text(message->id, id);
    snprintf(text, sizeof text, "native:%s", id);
    return pal_map_find(&import->known, pal_str_of(text));
}

static const known_message *known_find(const pal_import *import, const pal_message *message)
{
    const known_message *known = NULL;
    if (!pal_id_is_none(message->id))
        known = pal_map_find(&import->known,
                pal_str_make((const char *)message->id.bytes, sizeof message->id.bytes));
    if (!known && message->client_id.len)
        known = pal_map_find(&import->known, message->client_id);
    if (!known && !pal_id_is_none(message->id))
        known = find_dropped(import, message);
    return known;
}

pal_import_match pal_import_known_match(const pal_import *import, const pal_message *message)
{
    uint8_t digest[PAL_SHA256_SIZE];
    const known_message *known = known_find(import, message);
    if (!known)
        return PAL_IMPORT_UNKNOWN;
    /* For a message that was still being written, the digest of the parts that existed then. */
    size_t len = known->parts_len < message->parts_len ? known->parts_len : message->parts_len;
    bool is_same = digest_message(message, len, digest) == PAL_OK &&
            memcmp(digest, known->digest, sizeof known->digest) == 0;
    return is_same ? PAL_IMPORT_SAME : PAL_IMPORT_OTHER;
}

uint64_t pal_import_known_seq(pal_import *import, pal_message *message)
{
    const known_message *known = known_find(import, message);
    char text[PAL_CLIENT_ID_LEN_MAX];

    while (known && message->client_id.len && known->parts_len < message->parts_len) {
        size_t before = known->parts_len;
        int len = snprintf(text, sizeof text, "%.*s#%zu", PAL_STR_ARG(message->client_id), before);
        if (before == 0 || len < 0 || (size_t)len >= sizeof text)
            break;
        message->id = (pal_id){{0}};
        message->client_id = pal_arena_copy(import->arena, pal_str_make(text, (size_t)len));
        message->parts += before;
        message->parts_len -= before;
        known = known_find(import, message);
    }
    return known ? known->seq : 0;
}
