/* tokens_text.c - counts and encodes texts that are completely in memory. */
#include "base/memory.h"
#include "tokens/tokens_walk.h"

static pal_status walk_status(const struct pal_walk *walk, pal_error *err)
{
    return walk->failure == PAL_OK ? PAL_OK
                                   : pal_no_memory(err);
}

static const unsigned char *bytes_of(pal_str text)
{
    return (const unsigned char *)text.data;
}

pal_status pal_tokens_count(
        const pal_encoding *encoding, pal_str text, uint64_t *out_tokens, pal_error *err)
{
    struct pal_walk walk;
    const pal_encoding *table;
    pal_status status;

    if (!encoding) {
        *out_tokens = pal_tokens_estimate(text);
        return PAL_OK;
    }
    status = pal_table_ready(encoding, &table, err);
    if (status != PAL_OK)
        return status;
    pal_walk_init(&walk, table, NULL, NULL);
    if (text.len > 0)
        pal_walk_text(&walk, bytes_of(text), text.len, true);
    status = walk_status(&walk, err);
    if (status == PAL_OK)
        *out_tokens = walk.count;
    pal_walk_done(&walk);
    return status;
}

/* Collects the ids of the walk. */
struct ids {
    uint32_t *list;
    size_t len;
    size_t room;
};

static bool ids_append(const uint32_t *ids, size_t len, void *user)
{
    struct ids *to = user;

    if (!pal_reserve(&to->list, &to->room, to->len + len, sizeof to->list[0]))
        return false;
    memcpy(to->list + to->len, ids, len * sizeof ids[0]);
    to->len += len;
    return true;
}

pal_status pal_tokens_encode(const pal_encoding *encoding, pal_str text, pal_arena *arena,
        pal_token_ids *out_ids, pal_error *err)
{
    struct pal_walk walk;
    struct ids ids = {0};
    pal_token_ids result = {0};
    const pal_encoding *table;
    pal_status status;

    if (!encoding)
        return pal_error_set(err, PAL_INVALID, "an estimated count has no token ids");
    status = pal_table_ready(encoding, &table, err);
    if (status != PAL_OK)
        return status;
    pal_walk_init(&walk, table, ids_append, &ids);
    if (text.len > 0) {
        pal_walk_text(&walk, bytes_of(text), text.len, true);
        pal_walk_flush(&walk);
    }
    status = walk_status(&walk, err);
    if (status == PAL_OK) {
        result.len = ids.len;
        result.ids = pal_arena_array(arena, ids.len, sizeof result.ids[0]);
        if (!result.ids)
            status = pal_no_memory(err);
        else if (ids.len > 0)
            memcpy(result.ids, ids.list, ids.len * sizeof ids.list[0]);
    }
    if (status == PAL_OK)
        *out_ids = result;
    pal_free(ids.list);
    pal_walk_done(&walk);
    return status;
}

pal_status pal_tokens_decode(const pal_encoding *encoding, const uint32_t *ids, size_t ids_len,
        pal_arena *arena, pal_str *out_text, pal_error *err)
{
    const pal_encoding *head;
    struct pal_table table;
    pal_str part;
    size_t len = 0;
    char *text;
    pal_status status;

    if (!encoding)
        return pal_error_set(err, PAL_INVALID, "an estimated count has no token ids");
    status = pal_table_ready(encoding, &head, err);
    if (status != PAL_OK)
        return status;
    pal_table_view(head, &table);
    for (size_t i = 0; i < ids_len; i++) {
        if (!pal_table_text(&table, ids[i], &part)) {
            return pal_error_set(err, PAL_INVALID, "'%.*s' has no token %u",
                    PAL_STR_ARG(pal_encoding_name(encoding)), ids[i]);
        }
        len += part.len;
    }
    text = pal_arena_alloc(arena, len + 1);
    if (!text)
        return pal_no_memory(err);
    len = 0;
    for (size_t i = 0; i < ids_len; i++) {
        if (pal_table_text(&table, ids[i], &part)) {
            memcpy(text + len, part.data, part.len);
            len += part.len;
        }
    }
    *out_text = pal_str_make(text, len);
    return PAL_OK;
}
