/* matrix.h - one account on a Matrix homeserver: what the files of this folder share. Everything
 * runs on the loop of the channels.
 *
 * The kind stores nothing itself, so a crash is harmless: the host commits the events of a response
 * together with `next_batch`, and the next process asks the homeserver with the stored one. What a
 * room is like (its members, its name, whether it is encrypted) is asked for again. A message that
 * may have been sent before is sent again under the same transaction id, which the homeserver
 * recognizes for a day, and find_sent() looks for older ones in the room. */
#ifndef PAL_MATRIX_H
#define PAL_MATRIX_H

#include "base/map.h"
#include "channel/channel_kind.h"
#include "channel/matrix/matrix_answer.h"
#include "channel/matrix/matrix_sync.h"

#define PAL_MATRIX_SYNC_BYTES_MAX (1u << 30) /* a first /sync of thousands of rooms is long */
#define PAL_MATRIX_BODY_BYTES_MAX (64u << 20) /* other responses: the state of a room, a page */
#define PAL_MATRIX_MEDIA_BYTES_MAX (20u << 20) /* larger files are not fetched */
#define PAL_MATRIX_CALL_MS 60000              /* maximum time of a request, except for /sync */

typedef struct pal_matrix pal_matrix;

/* ---- Requests (matrix_call.c) ---- */

/* The result of a request. Valid during the callback. */
typedef struct pal_matrix_reply {
    pal_status status; /* PAL_OK: the homeserver has responded, maybe with a failure.
                          PAL_CANCELED: the channel is being closed; others: no response */
    bool sent;         /* without a response: the homeserver may have received the request */
    long code;
    pal_str body;
    pal_str media_type;
    pal_str location;           /* of a redirect */
    pal_matrix_failure failure; /* fault NONE: it was a success */
    const char *error;          /* one line, if status is not PAL_OK */
} pal_matrix_reply;

typedef void (*pal_matrix_on_reply)(pal_matrix *matrix, const pal_matrix_reply *reply, void *user);

typedef struct pal_matrix_request {
    const char *method;
    pal_str url;          /* matrix_url.h writes it */
    pal_str body;         /* copied */
    pal_str content_type; /* empty: JSON */
    uint64_t bytes_max;   /* 0: PAL_MATRIX_BODY_BYTES_MAX */
    int64_t total_ms;     /* 0: PAL_MATRIX_CALL_MS */
    bool no_token;        /* the request needs no login, or must not have it */
} pal_matrix_request;

/* Starts a request. `on_reply` is called once, never before this function returns; also if the
 * request could not be started. A user that waits for it owns `user` until then. */
void pal_matrix_call(pal_matrix *matrix, const pal_matrix_request *request,
        pal_matrix_on_reply on_reply, void *user);
/* The same, with a URL of `path` and `texts`, see pal_matrix_url_write(). */
void pal_matrix_call_path(pal_matrix *matrix, const char *method, const char *path,
        const pal_str *texts, size_t texts_len, pal_str body, pal_matrix_on_reply on_reply,
        void *user);
/* Ends all requests: each on_reply is called with PAL_CANCELED. */
void pal_matrix_call_cancel_all(pal_matrix *matrix);
/* Writes why a request failed, as one line. */
void pal_matrix_reply_describe(const pal_matrix_reply *reply, char *out_text, size_t size);

/* ---- Login (matrix_account.c) ---- */

/* Makes sure that there is a login, then continues with pal_matrix_poll(). */
void pal_matrix_account_begin(pal_matrix *matrix);
/* Whether the login must be renewed, which pal_matrix_account_begin() does. */
bool pal_matrix_account_is_due(const pal_matrix *matrix);
/* The homeserver has refused the token. */
void pal_matrix_account_refused(pal_matrix *matrix, const pal_matrix_failure *failure);

/* ---- Rooms (matrix_room.c) ---- */

typedef struct pal_matrix_room {
    char *id;
    char *name;        /* its name or alias; NULL: none */
    bool is_known;     /* the members below are right */
    bool is_joined;
    bool is_encrypted;
    bool is_space;
    uint64_t joined, invited; /* numbers of members */
    int64_t typing_at; /* when the homeserver was last told that we type; 0: we do not */
} pal_matrix_room;

/* Returns the room, which is made if it is new. NULL: no memory. */
pal_matrix_room *pal_matrix_room_get(pal_matrix *matrix, pal_str id);
pal_matrix_room *pal_matrix_room_find(const pal_matrix *matrix, pal_str id);
/* Takes a state event. Members are not counted here. */
void pal_matrix_room_take(
        pal_matrix *matrix, pal_matrix_room *room, const pal_matrix_event *event);
/* Asks for the state of a room. `on_known` gets PAL_OK, or why it is not known. */
typedef void (*pal_matrix_on_known)(pal_matrix *matrix, pal_status status, void *user);
void pal_matrix_room_ask(
        pal_matrix *matrix, pal_matrix_room *room, pal_matrix_on_known on_known, void *user);
/* Whether the room is a chat of two, when it has this number of members, with the invited ones. */
bool pal_matrix_room_is_direct(
        const pal_matrix *matrix, const pal_matrix_room *room, uint64_t members);
void pal_matrix_room_free_all(pal_matrix *matrix);
/* The display name of a user, as far as it is known; may be empty. */
pal_str pal_matrix_name_of(const pal_matrix *matrix, pal_str user);
void pal_matrix_name_keep(pal_matrix *matrix, pal_str user, pal_str name);
/* Keeps the content of m.direct. */
void pal_matrix_direct_keep(pal_matrix *matrix, pal_json direct);

/* ---- Receiving (matrix_poll.c, matrix_gap.c, matrix_incoming.c) ---- */

/* One response to /sync on its way to the host. */
typedef struct pal_matrix_round pal_matrix_round;

/* Sets the cursor. False: no memory. */
PAL_CHECKED bool pal_matrix_poll_from(pal_matrix *matrix, pal_str cursor);
void pal_matrix_poll(pal_matrix *matrix);     /* asks for the next events */
void pal_matrix_poll_end(pal_matrix *matrix); /* drops the running round */
void pal_matrix_poll_taken(pal_matrix *matrix, pal_status status);
/* Fills what a response lacks: missing events, unknown rooms, whose message a reply answers. Then
 * `on_filled` is called, maybe at once. `round` stays the caller's. */
typedef void (*pal_matrix_on_filled)(pal_matrix *matrix, pal_status status, const char *why);
void pal_matrix_gap_fill(
        pal_matrix *matrix, pal_matrix_round *round, pal_matrix_on_filled on_filled);

/* What a gap has found out about an event. */
typedef struct pal_matrix_extra {
    bool answers_me;    /* it is a reply to one of our events */
    pal_str data;       /* the bytes of its file */
    pal_str media_type; /* what they are */
} pal_matrix_extra;

struct pal_matrix_round {
    uint64_t number; /* callbacks of another round are ignored */
    pal_arena *arena;
    char *body; /* the response, which the events point into */
    pal_matrix_sync sync;
    bool is_first;      /* nothing was read before: events are from the time before us */
    bool is_repeated;   /* the homeserver refused `since`, and everything comes again */
    pal_matrix_room_news *rooms; /* sync.rooms, with complete timelines */
    struct pal_matrix_extra *extras; /* one per event of all timelines, in order */
    /* For matrix_gap.c. */
    struct pal_matrix_gap *gaps;
    size_t gaps_len, gaps_next, gaps_running;
    pal_matrix_on_filled on_filled;
    bool has_failed;
    /* For the host. */
    pal_incoming *events;
    size_t events_len, events_cap;
    size_t handed; /* events that the host has, or is storing */
};

/* Writes round->events. PAL_NO_MEMORY is the only failure. */
PAL_CHECKED pal_status pal_matrix_incoming_write(
        pal_matrix *matrix, pal_matrix_round *round, pal_error *err);

/* ---- Sending (matrix_send.c, matrix_media.c) ---- */

void pal_matrix_send(pal_channel *channel, const pal_outgoing *message,
        pal_outgoing_on_sent on_sent, void *user);
void pal_matrix_send_find(pal_channel *channel, const pal_outgoing *message,
        pal_outgoing_on_sent on_sent, void *user);
void pal_matrix_send_typing(pal_channel *channel, pal_str chat, pal_str topic, bool is_on);
/* Gets a picture or a file. `data` is empty if that fails, and valid during the call. `url` is one
 * that pal_matrix_url_media() accepts. */
typedef void (*pal_matrix_on_media)(
        pal_matrix *matrix, pal_str media_type, pal_str data, void *user);
void pal_matrix_media_fetch(
        pal_matrix *matrix, pal_str url, pal_matrix_on_media on_media, void *user);
/* Whether we have sent the event, as far as it is known. */
bool pal_matrix_sent_has(const pal_matrix *matrix, pal_str event);
void pal_matrix_sent_free(pal_matrix *matrix);

/* ---- Invitations (matrix_join.c) ---- */

void pal_matrix_join(pal_channel *channel, pal_str chat, pal_str inviter);
void pal_matrix_leave(pal_channel *channel, pal_str chat, pal_str reason);
void pal_matrix_join_end(pal_matrix *matrix); /* ends those that wait to try again */
/* Leaves a room that cannot be read, and says why. */
void pal_matrix_leave_encrypted(pal_matrix *matrix, pal_str room);
/* Adds a room to m.direct on the homeserver. */
void pal_matrix_join_direct(pal_matrix *matrix, pal_str user, pal_str room);

struct pal_matrix {
    pal_channel base; /* must be the first member */
    const pal_channel_settings *settings;
    pal_loop *loop;
    pal_http *http;
    pal_arena *arena; /* of `login`; replaced with it */
    pal_matrix_login login;
    uint64_t logins;    /* changes with the token */
    int64_t renew_at;   /* on the wall clock; 0: never */
    bool is_logged_in;  /* `login` was accepted */
    bool is_logging_in;
    bool is_started; /* there was a response to /sync since start() */
    bool is_closing;
    pal_str cursor; /* `next_batch` of the newest stored response; owned */
    int64_t cursor_at;
    struct pal_matrix_call_state *calls; /* list */
    pal_map rooms;  /* id -> pal_matrix_room */
    pal_map names;  /* user -> char * */
    pal_buf direct; /* content of m.direct */
    pal_map sent;   /* ids of our newest events */
    pal_matrix_round *round; /* NULL: none */
    uint64_t rounds;
    bool is_cursor_refused;
    pal_timer typing_timer;
    struct pal_matrix_joining *joins; /* invitations that are accepted again after a delay */
    int64_t limited_until; /* on the monotonic clock: the homeserver wants no events before */
};

static inline pal_matrix *pal_matrix_of(pal_channel *channel)
{
    return (pal_matrix *)channel;
}

#endif
