/* session.h - the record of one conversation. Plain data: a struct does not own the memory that it
 * points to. The functions here can be called from any thread. */
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
    PAL_SESSION_QUARANTINED = 3, /* fsck found damage: the readable messages can be read, and
                                    nothing can be written */
    PAL_SESSION_ERASED = 4,      /* only messages that forks still share are left; never listed */
} pal_session_state;

typedef struct pal_session {
    pal_id id;
    pal_session_state state;
    pal_str tenant;
    pal_str key;      /* unique among the tenant's active sessions; may be empty */
    pal_str *aliases; /* other names, in the given order */
    size_t aliases_len;
    bool is_routed; /* keep the aliases as given; an alias leads to this session unless another
                       session has it. Otherwise an alias that another session has is a conflict */
    pal_str alias_apart; /* if is_routed: an alias that never leads to this session (the main
                            alias) */
    pal_str title;
    pal_str project;
    pal_str agent;
    pal_str scope;      /* a JSON object; may be empty */
    pal_str metadata;   /* a JSON object; may be empty */
    pal_id parent_id;   /* the session that messages are shared with; empty: none */
    uint64_t fork_seq;  /* the parent's messages up to this seq are shared */
    uint64_t last_seq;  /* seq of the newest message, including shared messages; 0: there are no
                           messages */
    uint64_t tokens;    /* tokens of all messages of this session: hidden ones are included, those
                           of a parent are not */
    uint64_t bytes;     /* stored bytes of the same messages */
    int64_t created_at; /* milliseconds since 1970 */
    int64_t updated_at;
    int64_t expires_at; /* milliseconds since 1970; 0: never */
    int64_t deleted_at; /* milliseconds since 1970; 0: not in the trash */
    pal_str extra;      /* unknown members as a JSON object, for example {"a":1}; empty if there are
                           none */
    uint64_t fork_mark; /* the parent's marks up to this number apply to the shared messages */
    PAL_RESERVED(6);
} pal_session;

/* Returns the name, for example "active". "none" for an unknown value. */
PAL_API const char *pal_session_state_name(pal_session_state state);
/* Returns the state with that name, or PAL_SESSION_NONE if there is no such state. */
PAL_API pal_session_state pal_session_state_from_name(pal_str name);

/* Writes a session in the native JSON format (docs/sessions.md) into the arena. */
PAL_API PAL_CHECKED pal_status pal_session_to_json(
        const pal_session *session, pal_arena *arena, pal_str *out_json, pal_error *err);
/* Reads a session in the native JSON format into the arena. PAL_INVALID: `err` says what is
 * wrong. */
PAL_API PAL_CHECKED pal_status pal_session_from_json(
        pal_str json, pal_arena *arena, pal_session *out_session, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
