/* api_loom_bead.c - the session of a work item. Loom calls a work item a bead.
 *
 * A work item has one session, whichever agent answers in it: routing makes its key from the
 * project and the bead. Older sessions have a key that contains the agent. They are found too, and
 * the session with the newest update is the one of the work item.
 *
 * Bead ids can repeat in other projects. A record of the kind "bead", named BEAD|SESSION, leads
 * from the id alone to each session. Older records are named BEAD and know only one session. If
 * there is such a record, or no record at all, the sessions are searched.
 *
 * An imported row without times gets the time of its import, which says nothing about its age.
 * {"untimed":MS} in its record marks this. While the session still has that time, it counts as
 * older than all others.
 *
 * A record is written after its session. A crash between the two leaves a session without a record,
 * which the search of all sessions still finds. */
#include "server/api/loom/api_loom_bead.h"

#include <stdio.h>
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "server/server_call.h"
#include "server/server_limits.h"

pal_str pal_bead_value(pal_call *call, const pal_session *session, const char *name)
{
    pal_json scope = {0}, metadata = {0};
    pal_str text = {0};
    pal_arena *arena = call->arena;
    if (session->scope.len && pal_json_parse(arena, session->scope, NULL, &scope, NULL) == PAL_OK)
        text = pal_member_string(pal_json_find(scope, "values"), name, arena);
    if (!text.len && session->metadata.len &&
            pal_json_parse(arena, session->metadata, NULL, &metadata, NULL) == PAL_OK)
        text = pal_member_string(metadata, name, arena);
    return text;
}

/* ---- The newest matching session ---- */

typedef struct bead_search {
    pal_call *call;
    pal_str project; /* empty: any project */
    pal_str bead;
    pal_session *newest;
    int64_t newest_at;
    bool is_found;
} bead_search;

static bool is_wanted(const bead_search *search, const pal_session *session)
{
    if (session->state != PAL_SESSION_ACTIVE ||
            !pal_str_equal(pal_bead_value(search->call, session, "bead_id"), search->bead))
        return false;
    if (!search->project.len)
        return true;
    pal_str project = pal_bead_value(search->call, session, "project_id");
    return pal_str_equal(project.len ? project : session->project, search->project);
}

/* `untimed_at`: if the session was last updated at this time, the time does not count. */
static pal_status consider(bead_search *search, pal_session_by by, pal_str name, int64_t untimed_at,
        pal_error *err)
{
    pal_session session;
    pal_call *call = search->call;
    pal_status status = pal_store_find(
            call->server->store, call->caller.tenant, by, name, call->arena, &session, err);
    if (status == PAL_NOT_FOUND)
        return PAL_OK;
    if (status != PAL_OK || !is_wanted(search, &session))
        return status;
    int64_t at = session.updated_at == untimed_at ? 0 : session.updated_at;
    if (!search->is_found || at > search->newest_at) {
        *search->newest = session;
        search->newest_at = at;
    }
    search->is_found = true;
    return PAL_OK;
}

/* ---- Records ---- */

static pal_status consider_record(bead_search *search, const pal_record *record, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_json body;
    uint64_t untimed_at = 0;
    if (pal_json_parse(search->call->arena, record->body, NULL, &body, NULL) == PAL_OK)
        (void)pal_json_u64(pal_json_find(body, "untimed"), &untimed_at);
    pal_id_to_text(record->session, id);
    return consider(search, PAL_SESSION_BY_ID, pal_str_of(id), (int64_t)untimed_at, err);
}

static pal_status consider_records(bead_search *search, pal_error *err)
{
    char name[PAL_RECORD_NAME_LEN_MAX + 1];
    pal_call *call = search->call;
    pal_record_query query = {.tenant = call->caller.tenant,
            .kind = pal_str_of(PAL_BEAD_RECORD),
            .limit = PAL_RECORD_PAGE_MAX};
    pal_record_page page = {.has_more = true};
    pal_status status = PAL_OK;
    if (!pal_bead_record_begin(search->bead, name))
        return PAL_OK;
    query.after = pal_str_of(name);
    while (status == PAL_OK && page.has_more) {
        status = pal_store_record_list(call->server->store, &query, call->arena, &page, err);
        for (size_t i = 0; status == PAL_OK && i < page.len; i++) {
            if (!pal_text_begins(page.items[i].name, name))
                return PAL_OK;
            status = consider_record(search, &page.items[i], err);
            query.after = page.items[i].name;
        }
    }
    return status;
}

static pal_status find_old_record(bead_search *search, pal_record *out_record, pal_error *err)
{
    pal_call *call = search->call;
    if (search->bead.len > PAL_RECORD_NAME_LEN_MAX)
        return PAL_NOT_FOUND;
    return pal_store_record_find(call->server->store, call->caller.tenant,
            pal_str_of(PAL_BEAD_RECORD), search->bead, call->arena, out_record, err);
}

void pal_bead_note(pal_call *call, pal_str bead, pal_id session)
{
    char name[PAL_RECORD_NAME_LEN_MAX + 1];
    if (!pal_bead_record_name(bead, session, name))
        return;
    pal_record record = {.kind = pal_str_of(PAL_BEAD_RECORD),
            .name = pal_str_of(name),
            .session = session,
            .body = pal_str_of("{}")};
    (void)!pal_store_record_put(
            call->server->store, call->caller.tenant, &record, PAL_RECORD_VERSION_ANY, NULL);
}

/* ---- By project and bead ---- */

/* Tries the keys of earlier versions: one for each agent that may have answered. */
static pal_status consider_agents(
        bead_search *search, const pal_route_context *context, pal_error *err)
{
    pal_call *call = search->call;
    const pal_runtime_options *options = call->server->config->runtime;
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < options->agents_len; i++) {
        pal_route_context asked = *context;
        pal_route route;
        asked.agent_id = options->agents[i].name;
        status = pal_route_decide(
                call->server->route_settings, &asked, call->arena, &route, err);
        if (status == PAL_OK)
            status = consider(search, PAL_SESSION_BY_KEY, route.scope_key, 0, err);
    }
    return status;
}

static pal_status consider_old_record(bead_search *search, pal_error *err)
{
    pal_record old;
    pal_status status = find_old_record(search, &old, err);
    if (status == PAL_OK)
        return consider_record(search, &old, err);
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

/* The values of the route are the project and the bead, without surrounding white space. */
pal_status pal_bead_find(pal_call *call, const pal_route_context *context, const pal_route *route,
        pal_session *out_session, pal_error *err)
{
    bead_search search = {.call = call,
            .project = route->values[0].value,
            .bead = route->values[1].value,
            .newest = out_session};
    pal_status status = consider(&search, PAL_SESSION_BY_KEY, route->key, 0, err);
    if (status != PAL_OK)
        return status;
    status = consider(&search, PAL_SESSION_BY_KEY, route->scope_key, 0, err);
    if (status != PAL_OK)
        return status;
    status = consider_agents(&search, context, err);
    if (status != PAL_OK)
        return status;
    status = consider_records(&search, err);
    if (status != PAL_OK)
        return status;
    status = consider_old_record(&search, err);
    if (status != PAL_OK)
        return status;
    return search.is_found ? PAL_OK : PAL_NOT_FOUND;
}

/* ---- By the bead alone ---- */

/* Lists begin with the newest update, so the first match is the newest. */
static pal_status look_through(bead_search *search, pal_error *err)
{
    pal_call *call = search->call;
    pal_session_query query = {.tenant = call->caller.tenant, .limit = PAL_SESSION_PAGE_MAX};
    pal_session_page page;
    size_t seen = 0;
    do {
        pal_status status = pal_store_list(call->server->store, &query, call->arena, &page, err);
        if (status != PAL_OK)
            return status;
        for (size_t i = 0; i < page.sessions_len; i++) {
            if (is_wanted(search, &page.sessions[i])) {
                *search->newest = page.sessions[i];
                search->is_found = true;
                return PAL_OK;
            }
        }
        seen += page.sessions_len;
        query.cursor = page.cursor;
    } while (page.cursor.len && seen < PAL_SERVER_BEAD_SESSIONS_MAX);
    return PAL_OK;
}

pal_status pal_bead_find_any(
        pal_call *call, pal_str bead, pal_session *out_session, pal_error *err)
{
    bead_search search = {.call = call, .bead = bead, .newest = out_session};
    pal_record old;
    pal_status status = find_old_record(&search, &old, err);
    bool is_noted = status == PAL_NOT_FOUND; /* newer records lead to all sessions */
    if (is_noted)
        status = consider_records(&search, err);
    if (status != PAL_OK || search.is_found)
        return status;
    status = look_through(&search, err);
    if (status != PAL_OK)
        return status;
    return search.is_found ? PAL_OK : PAL_NOT_FOUND;
}
