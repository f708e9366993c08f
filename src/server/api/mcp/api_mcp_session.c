/* api_mcp_session.c - sessions of MCP clients of the old era of the protocol (mcp.h): a map by id,
 * and a list ordered by last use. Sessions are kept in memory. After a restart a client gets 404
 * and must send `initialize` again. */
#include "server/api/mcp/api_mcp.h"

#include <pthread.h>
#include "base/digest.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/random.h"
#include "palaver/limits.h"
#include "server/server_limits.h"

typedef struct mcp_session mcp_session;
struct mcp_session {
    mcp_session *newer, *older;
    char id[PAL_MCP_SESSION_ID_SIZE];
    size_t tenant_len;
    char tenant[PAL_TENANT_LEN_MAX];
};

struct pal_mcp_sessions {
    pthread_mutex_t lock; /* guards all members */
    pal_map by_id;
    mcp_session *newest, *oldest;
};

pal_mcp_sessions *pal_mcp_sessions_new(void)
{
    pal_mcp_sessions *sessions = pal_calloc(1, sizeof *sessions);
    if (!sessions)
        return NULL;
    pthread_mutex_init(&sessions->lock, NULL);
    return sessions;
}

static void unlink_session(pal_mcp_sessions *sessions, mcp_session *session)
{
    if (session->newer)
        session->newer->older = session->older;
    else
        sessions->newest = session->older;
    if (session->older)
        session->older->newer = session->newer;
    else
        sessions->oldest = session->newer;
}

static void link_newest(pal_mcp_sessions *sessions, mcp_session *session)
{
    session->newer = NULL;
    session->older = sessions->newest;
    if (session->older)
        session->older->newer = session;
    else
        sessions->oldest = session;
    sessions->newest = session;
}

static void drop(pal_mcp_sessions *sessions, mcp_session *session)
{
    unlink_session(sessions, session);
    (void)pal_map_remove(&sessions->by_id, pal_str_of(session->id));
    pal_free(session);
}

void pal_mcp_sessions_free(pal_mcp_sessions *sessions)
{
    if (!sessions)
        return;
    while (sessions->oldest)
        drop(sessions, sessions->oldest);
    pal_map_done(&sessions->by_id);
    pthread_mutex_destroy(&sessions->lock);
    pal_free(sessions);
}

static mcp_session *find(pal_mcp_sessions *sessions, pal_str tenant, pal_str id)
{
    mcp_session *session = pal_map_find(&sessions->by_id, id);
    bool is_own =
            session && pal_str_equal(pal_str_make(session->tenant, session->tenant_len), tenant);
    return is_own ? session : NULL;
}

bool pal_mcp_sessions_add(
        pal_mcp_sessions *sessions, pal_str tenant, char out_id[PAL_MCP_SESSION_ID_SIZE])
{
    uint8_t bytes[(PAL_MCP_SESSION_ID_SIZE - 1) / 2];
    mcp_session *session = pal_calloc(1, sizeof *session);
    if (!session || tenant.len > sizeof session->tenant ||
            pal_random_secret(bytes, sizeof bytes, NULL) != PAL_OK) {
        pal_free(session);
        return false;
    }
    pal_hex(bytes, sizeof bytes, session->id);
    session->tenant_len = tenant.len;
    if (tenant.len)
        memcpy(session->tenant, tenant.data, tenant.len);
    memcpy(out_id, session->id, sizeof session->id);
    pthread_mutex_lock(&sessions->lock);
    bool is_kept = pal_map_set(&sessions->by_id, pal_str_of(session->id), session) == PAL_OK;
    if (is_kept)
        link_newest(sessions, session);
    if (sessions->by_id.len > PAL_SERVER_MCP_SESSIONS_MAX)
        drop(sessions, sessions->oldest);
    pthread_mutex_unlock(&sessions->lock);
    if (!is_kept)
        pal_free(session);
    return is_kept;
}

bool pal_mcp_sessions_use(pal_mcp_sessions *sessions, pal_str tenant, pal_str id)
{
    pthread_mutex_lock(&sessions->lock);
    mcp_session *session = find(sessions, tenant, id);
    if (session) {
        unlink_session(sessions, session);
        link_newest(sessions, session);
    }
    pthread_mutex_unlock(&sessions->lock);
    return session != NULL;
}

bool pal_mcp_sessions_remove(pal_mcp_sessions *sessions, pal_str tenant, pal_str id)
{
    pthread_mutex_lock(&sessions->lock);
    mcp_session *session = find(sessions, tenant, id);
    if (session)
        drop(sessions, session);
    pthread_mutex_unlock(&sessions->lock);
    return session != NULL;
}
