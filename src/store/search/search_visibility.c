/* search_visibility.c - finds an active session that shows a message.
 *
 * Usually it is the session that the message was appended to. But that session may be erased while
 * forks share its rows, or be in the trash, or be rewound past a message that a fork still shows.
 * Then the search tries its forks, and their forks. */
#include "store/search/search.h"

#include "base/clock.h"
#include "base/memory.h"
#include "store/view/view_chain.h"

/* The maximum number of forks that are checked for one message. Beyond that, the message counts as
 * hidden. */
enum { FORKS_MAX = 10000 };

typedef struct seen_session {
    pal_id id;
    pal_handle handle; /* none: the session does not exist */
    pal_piece *pieces;
    size_t pieces_len; /* 0 if the session is not active */
} seen_session;

void pal_visibility_init(pal_visibility *visibility, pal_engine *engine, pal_str tenant,
        pal_pieces_wanted wanted, pal_arena *arena)
{
    *visibility = (pal_visibility){
            .engine = engine, .tenant = tenant, .wanted = wanted, .arena = arena};
    pal_map_init(&visibility->known);
}

void pal_visibility_done(pal_visibility *visibility)
{
    pal_map_done(&visibility->known);
}

static bool is_active(const pal_visibility *visibility, const pal_session *session)
{
    return session->state == PAL_SESSION_ACTIVE &&
            (session->expires_at == 0 ||
                    pal_store_now_ms(visibility->engine) <= session->expires_at);
}

static pal_status look_up(pal_visibility *visibility, pal_id id, seen_session **out_seen,
        pal_error *err)
{
    pal_str key = pal_str_make((const char *)id.bytes, sizeof(id.bytes));
    seen_session *seen = pal_map_find(&visibility->known, key);
    pal_session_row row;
    pal_status status;

    if (seen) {
        *out_seen = seen;
        return PAL_OK;
    }
    seen = pal_arena_alloc(visibility->arena, sizeof(*seen));
    if (!seen)
        return pal_no_memory(err);
    seen->id = id;
    status = visibility->engine->backend->session_find(visibility->engine, visibility->tenant,
            PAL_SESSION_BY_ID, key, visibility->arena, &row, err);
    if (status == PAL_OK)
        seen->handle = row.handle;
    if (status == PAL_OK && is_active(visibility, &row.session))
        status = pal_chain_pieces(visibility->engine, &row, 0, 0, visibility->wanted,
                visibility->arena, &seen->pieces, &seen->pieces_len, err);
    if (status != PAL_OK && status != PAL_NOT_FOUND)
        return status;
    key = pal_str_make((const char *)seen->id.bytes, sizeof(seen->id.bytes));
    if (pal_map_set(&visibility->known, key, seen) != PAL_OK)
        return pal_no_memory(err);
    *out_seen = seen;
    return PAL_OK;
}

typedef struct pending {
    pal_handle handle; /* the session whose forks must be checked */
    struct pending *next;
} pending;

/* Checks the forks of one session. Forks that do not show the row are added to the list. */
static pal_status check_forks(pal_visibility *visibility, pal_handle of, pal_handle handle,
        uint64_t seq, pending **list, size_t *checked, pal_id *out_session, pal_error *err)
{
    pal_id *ids = NULL;
    size_t len = 0;
    pal_status status = visibility->engine->backend->fork_list(
            visibility->engine, of, seq, visibility->arena, &ids, &len, err);

    for (size_t i = 0; status == PAL_OK && i < len && (*checked)++ < FORKS_MAX; i++) {
        pending *more;
        seen_session *seen;

        status = look_up(visibility, ids[i], &seen, err);
        if (status != PAL_OK)
            break;
        if (pal_chain_pieces_have(seen->pieces, seen->pieces_len, handle, seq)) {
            *out_session = seen->id;
            break;
        }
        more = pal_arena_alloc(visibility->arena, sizeof(*more));
        if (!more)
            return pal_no_memory(err);
        *more = (pending){.handle = seen->handle, .next = *list};
        *list = more;
    }
    return status;
}

pal_status pal_visibility_find(pal_visibility *visibility, pal_id owner, pal_handle handle,
        uint64_t seq, pal_id *out_session, pal_error *err)
{
    pending first = {.handle = handle}, *list = &first;
    pal_id found = {{0}};
    size_t checked = 0;
    seen_session *seen;
    pal_status status = look_up(visibility, owner, &seen, err);

    if (status != PAL_OK)
        return status;
    if (pal_chain_pieces_have(seen->pieces, seen->pieces_len, handle, seq)) {
        *out_session = owner;
        return PAL_OK;
    }
    while (status == PAL_OK && list && pal_id_is_none(found)) {
        pal_handle of = list->handle;

        list = list->next;
        if (!pal_handle_is_none(of))
            status = check_forks(visibility, of, handle, seq, &list, &checked, &found, err);
    }
    if (status == PAL_OK)
        *out_session = found;
    return status;
}

pal_status pal_visibility_pieces(pal_visibility *visibility, pal_id session,
        const pal_piece **out_pieces, size_t *out_len, pal_error *err)
{
    seen_session *seen;
    pal_status status = look_up(visibility, session, &seen, err);

    if (status != PAL_OK)
        return status;
    *out_pieces = seen->pieces;
    *out_len = seen->pieces_len;
    return PAL_OK;
}
