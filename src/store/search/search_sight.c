/* search_sight.c - finds an active session that shows a message.
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
    uint64_t handle; /* 0: the session does not exist */
    pal_piece *pieces;
    size_t pieces_len; /* 0 if the session is not active */
} seen_session;

bool pal_pieces_have(const pal_piece *pieces, size_t len, uint64_t handle, uint64_t seq)
{
    size_t low = 0, high = len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (pieces[middle].first > seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < len && seq <= pieces[low].last && pieces[low].handle == handle;
}

void pal_sight_init(pal_sight *sight, pal_engine *engine, pal_str tenant, pal_arena *arena)
{
    *sight = (pal_sight){.engine = engine, .tenant = tenant, .arena = arena};
    pal_map_init(&sight->known);
}

void pal_sight_done(pal_sight *sight)
{
    pal_map_done(&sight->known);
}

static bool is_active(const pal_session *session)
{
    return session->state == PAL_SESSION_ACTIVE &&
            (session->expires_at == 0 || pal_clock_now_ms() <= session->expires_at);
}

static pal_status look_up(pal_sight *sight, pal_id id, seen_session **out_seen, pal_error *err)
{
    pal_str key = pal_str_make((const char *)id.bytes, sizeof(id.bytes));
    seen_session *seen = pal_map_find(&sight->known, key);
    pal_session_row row;
    pal_status status;

    if (seen) {
        *out_seen = seen;
        return PAL_OK;
    }
    seen = pal_arena_alloc(sight->arena, sizeof(*seen));
    if (!seen)
        return pal_no_memory(err);
    seen->id = id;
    status = sight->engine->backend->session_find(
            sight->engine, sight->tenant, PAL_SESSION_BY_ID, key, sight->arena, &row, err);
    if (status == PAL_OK)
        seen->handle = row.handle;
    if (status == PAL_OK && is_active(&row.session))
        status = pal_chain_pieces(sight->engine, &row, 0, 0, true, sight->arena, &seen->pieces,
                &seen->pieces_len, err);
    if (status != PAL_OK && status != PAL_NOT_FOUND)
        return status;
    key = pal_str_make((const char *)seen->id.bytes, sizeof(seen->id.bytes));
    if (pal_map_set(&sight->known, key, seen) != PAL_OK)
        return pal_no_memory(err);
    *out_seen = seen;
    return PAL_OK;
}

typedef struct pending {
    uint64_t handle; /* the session whose forks must be checked */
    struct pending *next;
} pending;

/* Checks the forks of one session. Forks that do not show the row are added to the list. */
static pal_status ask_forks(pal_sight *sight, uint64_t of, uint64_t handle, uint64_t seq,
        pending **list, size_t *asked, pal_id *out_session, pal_error *err)
{
    pal_id *ids = NULL;
    size_t len = 0;
    pal_status status = sight->engine->backend->fork_list(
            sight->engine, of, seq, sight->arena, &ids, &len, err);

    for (size_t i = 0; status == PAL_OK && i < len && (*asked)++ < FORKS_MAX; i++) {
        pending *more;
        seen_session *seen;

        status = look_up(sight, ids[i], &seen, err);
        if (status != PAL_OK)
            break;
        if (pal_pieces_have(seen->pieces, seen->pieces_len, handle, seq)) {
            *out_session = seen->id;
            break;
        }
        more = pal_arena_alloc(sight->arena, sizeof(*more));
        if (!more)
            return pal_no_memory(err);
        *more = (pending){.handle = seen->handle, .next = *list};
        *list = more;
    }
    return status;
}

pal_status pal_sight_find(pal_sight *sight, pal_id owner, uint64_t handle, uint64_t seq,
        pal_id *out_session, pal_error *err)
{
    pending first = {.handle = handle}, *list = &first;
    pal_id found = {{0}};
    size_t asked = 0;
    seen_session *seen;
    pal_status status = look_up(sight, owner, &seen, err);

    if (status != PAL_OK)
        return status;
    if (pal_pieces_have(seen->pieces, seen->pieces_len, handle, seq)) {
        *out_session = owner;
        return PAL_OK;
    }
    while (status == PAL_OK && list && pal_id_is_none(found)) {
        uint64_t of = list->handle;

        list = list->next;
        if (of != 0)
            status = ask_forks(sight, of, handle, seq, &list, &asked, &found, err);
    }
    if (status == PAL_OK)
        *out_session = found;
    return status;
}
