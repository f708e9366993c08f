/* store_resolve.c - finds or creates the session that a message belongs to, from the result of
 * routing.
 *
 * Usually the session exists and its record matches the result of routing. Then one lookup by key
 * is enough. Otherwise each step is an operation that can be repeated. If two processes resolve the
 * same message at the same time, both find the same session. A crash between two steps leaves a
 * session that the next call completes. */
#include "base/text.h"
#include "palaver/store.h"
#include "palaver/store_batch.h"

#include "base/memory.h"
#include "message/message_check.h"
#include "palaver/limits.h"
#include "store/store_front.h"

static pal_status find(pal_store *store, const pal_session *wanted, pal_session_by by, pal_str name,
        pal_arena *arena, pal_session *out_session, bool *out_found, pal_error *err)
{
    pal_status status =
            pal_store_find(store, wanted->tenant, by, name, arena, out_session, err);

    *out_found = status == PAL_OK;
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

/* Builds the record to store. An alias that is too long for a name is left out, because it must not
 * prevent a message from being stored. */
static pal_status routed_record(const pal_resolve_request *resolve, pal_arena *arena,
        pal_session *out_record, pal_error *err)
{
    const pal_session *given = resolve->session;
    pal_session record = *given;

    record.is_routed = true;
    record.alias_apart = resolve->is_main ? pal_str_make(NULL, 0) : resolve->main_alias;
    record.aliases = pal_arena_array(arena, given->aliases_len, sizeof(*record.aliases));
    record.aliases_len = 0;
    if (given->aliases_len > 0 && !record.aliases)
        return pal_no_memory(err);
    for (size_t i = 0; i < given->aliases_len; i++)
        if (given->aliases[i].len <= PAL_KEY_LEN_MAX)
            record.aliases[record.aliases_len++] = given->aliases[i];
    *out_record = record;
    return PAL_OK;
}

static bool same_aliases(const pal_session *a, const pal_session *b)
{
    if (a->aliases_len != b->aliases_len || a->is_routed != b->is_routed ||
            !pal_str_equal(a->alias_apart, b->alias_apart))
        return false;
    for (size_t i = 0; i < a->aliases_len; i++)
        if (!pal_str_equal(a->aliases[i], b->aliases[i]))
            return false;
    return true;
}

static pal_status create(pal_store *store, const pal_session *record, pal_id *out_id,
        bool *out_created, pal_error *err)
{
    pal_op op = pal_op_find_or_create(record);
    pal_status status;

    op.session = (pal_id){{0}}; /* the store chooses the id */
    status = pal_store_apply_one(store, &op, err);
    if (status != PAL_OK)
        return status;
    *out_id = op.session;
    *out_created = !op.u.create.existing;
    return PAL_OK;
}

/* The result of routing replaces the stored values. */
static pal_status update(pal_store *store, const pal_session *stored, const pal_session *record,
        pal_error *err)
{
    pal_session changed = *record;
    uint32_t fields = 0;

    changed.id = stored->id;
    if (!same_aliases(stored, record))
        fields |= PAL_SESSION_FIELD_ALIASES;
    if (!pal_str_equal(stored->scope, record->scope))
        fields |= PAL_SESSION_FIELD_SCOPE;
    return fields ? pal_store_update(store, &changed, fields, err) : PAL_OK;
}

/* ---- Adoption ---- */

static pal_status adopt_from(pal_store *store, const pal_session *record, pal_id session,
        pal_id from, bool *out_adopted, pal_error *err)
{
    pal_op op = pal_op_adopt(record->tenant, session, from);
    pal_status status;

    *out_adopted = false;
    if (pal_id_equal(session, from))
        return PAL_OK;
    status = pal_store_apply_one(store, &op, err);
    if (status == PAL_OK)
        *out_adopted = op.u.adopt.adopted;
    return status;
}

/* Returns whether routing made the key. The messages of such a session belong to one specific
 * chat. */
static bool is_routed_key(pal_str key)
{
    return pal_text_begins_nocase(key, "sk_v1_");
}

/* Adopts only from the session whose key is the alias. Other sessions that list the alias are other
 * chats, maybe of other people. The alias must also lead to this session: the first chat that
 * claims a legacy key gets its history, and no other chat does. */
static pal_status adopt_alias(pal_store *store, const pal_session *record, pal_id session,
        pal_str alias, pal_arena *arena, bool *out_adopted, pal_error *err)
{
    pal_session legacy = {0}, owner = {0};
    bool found = false, is_owned = false;
    pal_status status = PAL_OK;

    *out_adopted = false;
    if (is_routed_key(alias))
        return PAL_OK;
    status = find(store, record, PAL_SESSION_BY_KEY, alias, arena, &legacy, &found, err);
    if (status == PAL_OK && found)
        status = find(store, record, PAL_SESSION_BY_ALIAS, alias, arena, &owner, &is_owned, err);
    if (status != PAL_OK || !found || !is_owned || !pal_id_equal(owner.id, session))
        return status;
    return adopt_from(store, record, session, legacy.id, out_adopted, err);
}

static pal_status adopt_history(pal_store *store, const pal_resolve_request *resolve,
        const pal_session *record, pal_arena *arena, pal_resolve_result *resolution, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && !resolution->adopted && i < record->aliases_len; i++)
        if (!pal_str_equal(record->aliases[i], resolve->main_alias))
            status = adopt_alias(store, record, resolution->session, record->aliases[i], arena,
                    &resolution->adopted, err);
    return status;
}

/* ---- Resolving ---- */

/* Finds the first session that has one of the keys. */
static pal_status find_first(pal_store *store, const pal_session *wanted, const pal_str *keys,
        size_t keys_len, pal_arena *arena, pal_session *out_session, bool *out_found,
        pal_error *err)
{
    pal_status status = PAL_OK;

    *out_found = false;
    for (size_t i = 0; status == PAL_OK && !*out_found && i < keys_len; i++)
        status = find(
                store, wanted, PAL_SESSION_BY_KEY, keys[i], arena, out_session, out_found, err);
    return status;
}

static pal_status resolve_routed(pal_store *store, const pal_resolve_request *resolve,
        pal_arena *arena, pal_resolve_result *resolution, pal_error *err)
{
    pal_session record, stored = {0};
    bool found = false, is_earlier = false;
    pal_status status = routed_record(resolve, arena, &record, err);

    if (status != PAL_OK)
        return status;
    status = find(store, &record, PAL_SESSION_BY_KEY, record.key, arena, &stored, &found, err);
    if (status == PAL_OK && !found)
        status = find_first(store, &record, resolve->earlier_keys, resolve->earlier_keys_len, arena,
                &stored, &is_earlier, err);
    resolution->session = stored.id;
    /* A session with an earlier key keeps its names, because PicoClaw knows it by them. */
    if (status != PAL_OK || is_earlier)
        return status;
    if (found)
        status = update(store, &stored, &record, err);
    else
        status = create(store, &record, &resolution->session, &resolution->created, err);
    if (status == PAL_OK && stored.last_seq == 0)
        status = adopt_history(store, resolve, &record, arena, resolution, err);
    return status;
}

/* An alias is tried before a key, because the messages of a legacy key may be stored under its
 * canonical key. */
static pal_status find_named(pal_store *store, const pal_session *wanted, pal_arena *arena,
        pal_session *stored, bool *out_found, pal_error *err)
{
    pal_status status =
            find(store, wanted, PAL_SESSION_BY_ALIAS, wanted->key, arena, stored, out_found, err);

    if (status == PAL_OK && !*out_found)
        status =
                find(store, wanted, PAL_SESSION_BY_KEY, wanted->key, arena, stored, out_found, err);
    return status;
}

static pal_status resolve_explicit(pal_store *store, const pal_resolve_request *resolve,
        pal_arena *arena, pal_resolve_result *resolution, pal_error *err)
{
    const pal_session *wanted = resolve->session;
    pal_session stored = {0}, record = {.tenant = wanted->tenant, .key = wanted->key};
    const pal_str own[] = {resolve->routed_key, wanted->key};
    bool found = false;
    pal_status status;

    if (resolve->routed_key.len > 0)
        status = find_first(store, wanted, own, 2, arena, &stored, &found, err);
    else
        status = find_named(store, wanted, arena, &stored, &found, err);
    resolution->session = stored.id;
    record.agent = wanted->agent;
    if (status == PAL_OK && !found)
        status = create(store, &record, &resolution->session, &resolution->created, err);
    return status;
}

/* ---- The main session ---- */

static bool has_name(const pal_session *session, pal_str name)
{
    bool has = pal_str_equal(session->key, name);

    for (size_t i = 0; !has && i < session->aliases_len; i++)
        has = pal_str_equal(session->aliases[i], name);
    return has;
}

/* Gives the main session both of its names. */
static pal_status complete_names(pal_store *store, const pal_resolve_request *resolve,
        const pal_session *stored, pal_arena *arena, pal_error *err)
{
    const pal_str names[] = {resolve->main_alias, resolve->routed_key};
    pal_session changed = *stored;

    changed.is_routed = true;
    changed.alias_apart = pal_str_make(NULL, 0);
    changed.aliases = pal_arena_array(arena, stored->aliases_len + 2, sizeof(*changed.aliases));
    if (!changed.aliases)
        return pal_no_memory(err);
    for (size_t i = 0; i < stored->aliases_len; i++)
        changed.aliases[i] = stored->aliases[i];
    for (size_t i = 0; i < 2; i++)
        if (!has_name(&changed, names[i]))
            changed.aliases[changed.aliases_len++] = names[i];
    if (same_aliases(stored, &changed))
        return PAL_OK;
    return pal_store_update(store, &changed, PAL_SESSION_FIELD_ALIASES, err);
}

/* The key and the alias name one session, whichever of them was created first. An older store may
 * have two sessions; then the session that has the given name as its key wins. */
static pal_status resolve_main(pal_store *store, const pal_resolve_request *resolve,
        pal_arena *arena, pal_resolve_result *resolution, pal_error *err)
{
    const pal_session *wanted = resolve->session;
    const pal_str keys[] = {wanted->key, resolve->routed_key, resolve->main_alias};
    pal_str alias = resolve->main_alias;
    pal_session stored = {0}, record = {.tenant = wanted->tenant,
                                      .key = resolve->routed_key,
                                      .aliases = &alias,
                                      .aliases_len = 1,
                                      .is_routed = true,
                                      .agent = wanted->agent};
    bool found;
    pal_status status = find_first(store, wanted, keys, 3, arena, &stored, &found, err);

    resolution->session = stored.id;
    if (status == PAL_OK && found)
        return complete_names(store, resolve, &stored, arena, err);
    if (status == PAL_OK)
        status = create(store, &record, &resolution->session, &resolution->created, err);
    return status;
}

/* Checks the names before the operations below do, so that errors use the field names of the
 * request. */
static pal_status check_names(const pal_resolve_request *resolve, pal_error *err)
{
    pal_status status;

    if (!resolve->session || resolve->session->key.len == 0)
        return pal_error_set(err, PAL_INVALID, "'key' is missing");
    status = pal_text_check(resolve->session->key, "key", PAL_KEY_LEN_MAX, true, err);
    if (status == PAL_OK)
        status = pal_text_check(resolve->main_alias, "main_alias", PAL_KEY_LEN_MAX, true, err);
    return status;
}

pal_status pal_store_resolve(pal_store *store, const pal_resolve_request *resolve,
        pal_resolve_result *out_resolution, pal_error *err)
{
    pal_resolve_result resolution = {0};
    pal_arena *arena;
    pal_status status = check_names(resolve, err);

    if (status != PAL_OK)
        return status;
    arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    if (resolve->is_main && resolve->routed_key.len > 0)
        status = resolve_main(store, resolve, arena, &resolution, err);
    else if (resolve->is_explicit)
        status = resolve_explicit(store, resolve, arena, &resolution, err);
    else
        status = resolve_routed(store, resolve, arena, &resolution, err);
    pal_arena_free(arena);
    if (status == PAL_OK)
        *out_resolution = resolution;
    return status;
}
