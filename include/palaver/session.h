/* session.h - one conversation's record: who it belongs to and where it stands. Plain data. */
#ifndef PALAVER_SESSION_H
#define PALAVER_SESSION_H

#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pal_session_state {
    PAL_SESSION_NONE = 0,
    PAL_SESSION_ACTIVE = 1,
    PAL_SESSION_TRASH = 2,       /* deleted or expired; can be restored until it is erased */
    PAL_SESSION_QUARANTINED = 3, /* fsck found damage: readable as far as it goes, not writable */
    PAL_SESSION_ERASED = 4,      /* only rows that forks still share are left; never listed */
} pal_session_state;

typedef struct pal_session {
    pal_id id;
    pal_session_state state;
    pal_str tenant;
    pal_str key;       /* unique among the tenant's active sessions; may be empty */
    pal_str *aliases;  /* other names, in the order given */
    size_t aliases_len;
    bool is_routed;      /* the list stays as it was given, and its aliases lead here where they are
                            free; otherwise an alias that another session has is a conflict */
    pal_str alias_apart; /* routed: one of the aliases that never leads here (the main alias) */
    pal_str title;
    pal_str project;
    pal_str agent;
    pal_str scope;     /* a JSON object, or empty */
    pal_str metadata;  /* a JSON object, or empty */
    pal_id parent_id;  /* the session whose messages up to fork_seq are this one's too */
    uint64_t fork_seq;
    uint64_t last_seq; /* of the newest message, shared ones included; 0: none yet */
    uint64_t tokens;   /* of its own messages: hidden ones count, those of a parent don't */
    uint64_t bytes;    /* likewise */
    int64_t created_at; /* milliseconds since 1970 */
    int64_t updated_at;
    int64_t expires_at; /* 0: never */
    int64_t deleted_at; /* 0: not in the trash */
    pal_str extra;      /* unknown members, as JSON: {"a":1}; empty when there are none */
} pal_session;

PAL_API const char *pal_session_state_name(pal_session_state state); /* "active" */
/* PAL_SESSION_NONE where there is none of that name. */
PAL_API pal_session_state pal_session_state_from_name(pal_str name);

/* The native JSON form, docs/sessions.md, put into the arena. */
PAL_API PAL_CHECKED pal_status pal_session_to_json(
        const pal_session *session, pal_arena *arena, pal_str *out_json, pal_error *err);
/* Reads it; everything lies in the arena. */
PAL_API PAL_CHECKED pal_status pal_session_from_json(
        pal_str json, pal_arena *arena, pal_session *out_session, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
