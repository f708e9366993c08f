/* matrix_event.h - reads one event of a Matrix room. Pure functions that accept whatever a server
 * sends: an event that means nothing to a bot is PAL_MATRIX_OTHER, and never a failure.
 *
 * All texts of a result point into the parsed text or into the arena. */
#ifndef PAL_MATRIX_EVENT_H
#define PAL_MATRIX_EVENT_H

#include "base/json/json.h"

#define PAL_MATRIX_ID_LEN_MAX 255           /* ids of events, rooms and users */
#define PAL_MATRIX_MARKER "pt.palaver.out"  /* member of a content: which sending made the event */

typedef enum pal_matrix_kind {
    PAL_MATRIX_OTHER = 0, /* nothing for a bot: ignore it */
    PAL_MATRIX_MESSAGE,   /* also a sticker */
    PAL_MATRIX_EDIT,
    PAL_MATRIX_REACTION,
    PAL_MATRIX_REDACTION,
    PAL_MATRIX_ENCRYPTED, /* a message that cannot be read */
    /* State. */
    PAL_MATRIX_MEMBER,
    PAL_MATRIX_NAME,
    PAL_MATRIX_ALIAS,
    PAL_MATRIX_CREATE,
    PAL_MATRIX_ENCRYPTION,
    PAL_MATRIX_TOMBSTONE,
} pal_matrix_kind;

/* A file, image, recording or video of a message. */
typedef struct pal_matrix_media {
    pal_str url;        /* "mxc://server/id"; empty: it is encrypted and cannot be read */
    pal_str media_type; /* as the sender declares it; can be wrong */
    pal_str name;
    uint64_t bytes; /* 0: not said */
    uint32_t width, height;
    int64_t duration_ms;
    bool is_voice; /* a recorded voice message */
} pal_matrix_media;

typedef struct pal_matrix_event {
    pal_matrix_kind kind;
    pal_str id; /* empty in the state of an invite */
    pal_str sender;
    int64_t sent_at;    /* the clock of the sender's server */
    pal_str state_key;  /* MEMBER: the user */
    pal_str target;     /* EDIT, REACTION, REDACTION: an event. TOMBSTONE: the room that replaces
                           this one */
    pal_str text;       /* MESSAGE, EDIT: without the quote of a reply. NAME, ALIAS: the name.
                           MEMBER: the display name. TOMBSTONE: its reason. CREATE: the type of the
                           room */
    pal_str html;       /* MESSAGE, EDIT: the formatted body; may be empty */
    pal_str key;        /* REACTION */
    pal_str membership; /* MEMBER: "join", "invite", "leave", "ban" or "knock" */
    pal_str membership_before; /* MEMBER: of the replaced event; may be empty */
    pal_str sender_before;     /* MEMBER: who sent the replaced event, for example the inviter */
    pal_str our_membership; /* membership of the reader when the event was sent; may be empty */
    pal_str thread;     /* the root of its thread; empty: none */
    pal_str reply_to;   /* a reply by a person; not the fallback of a thread */
    pal_str marker;     /* PAL_MATRIX_MARKER; empty: another program or a person sent the event */
    pal_json mentions;  /* m.mentions of a MESSAGE, and of the new content of an EDIT */
    pal_json mentions_new; /* EDIT: m.mentions of the edit itself: people who were added */
    pal_matrix_media media; /* MESSAGE with media */
    bool has_media;
    bool is_notice; /* of a bot */
    bool is_emote;
    bool is_direct; /* MEMBER: an invite to a direct chat */
    bool is_direct_before; /* MEMBER: the replaced event was one */
} pal_matrix_event;

/* Reads an event, for example an element of `timeline.events`. PAL_NO_MEMORY is the only
 * failure. */
PAL_CHECKED pal_status pal_matrix_event_read(
        pal_json json, pal_arena *arena, pal_matrix_event *out_event, pal_error *err);

/* Whether the text is an id that begins with `sigil` ('@', '!' or '$') and can be used. */
bool pal_matrix_id_is_valid(pal_str id, char sigil);
/* The server of a user or of a room, "hs.example.org:8448". Empty: the id does not name one. */
pal_str pal_matrix_id_server(pal_str id);

/* ---- Mentions (matrix_mention.c) ---- */

/* Whether an event mentions the user. m.mentions decides if the event has it, which `mentions` and
 * `text` and `html` are members of; otherwise a text or link with the user's id counts. */
bool pal_matrix_mention_is(pal_json mentions, pal_str text, pal_str html, pal_str user);
/* Whether an event mentions the whole room. */
bool pal_matrix_mention_is_room(pal_json mentions);
/* Returns the text without an address at its beginning: "@bot:hs: hello" and "Bot: hello" become
 * "hello". `name` is the display name of the user; may be empty. */
pal_str pal_matrix_mention_strip(pal_str text, pal_str user, pal_str name);

/* ---- Replies (matrix_reply.c) ---- */

/* Returns the body of a reply without the quoted lines that older clients put in front of it. */
pal_str pal_matrix_reply_strip(pal_str body);

#endif
