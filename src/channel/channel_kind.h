/* channel_kind.h - the interface between the host of channels and one kind of channel, such as a
 * webhook. A kind is a folder with a table pal_channel_KIND. It speaks the protocol of a service,
 * and knows neither the store nor sessions.
 *
 * Threads: the host calls a kind on the loop of the channels only, and a kind calls the host on
 * that loop only. Nothing here may block.
 *
 * Memory: texts that a function receives are valid until it returns, unless its comment says
 * otherwise. */
#ifndef PAL_CHANNEL_KIND_H
#define PAL_CHANNEL_KIND_H

#include "net/net_http.h"
#include "net/net_loop.h"
#include "palaver/channel.h"
#include "palaver/header.h"

/* The host's side of an account, and the kind's side. The struct of a kind begins with a
 * pal_channel. */
typedef struct pal_channel_account pal_channel_account;
typedef struct pal_channel pal_channel;
typedef struct pal_channel_kind pal_channel_kind;

/* Capabilities of a kind, one bit each. */
typedef enum pal_channel_can {
    PAL_CHANNEL_CAN_EDIT = 1,
    PAL_CHANNEL_CAN_REACT = 2,
    PAL_CHANNEL_CAN_THREAD = 4,
    PAL_CHANNEL_CAN_TYPE = 8,
    PAL_CHANNEL_CAN_REDACT = 16,
    PAL_CHANNEL_CAN_MEDIA = 32,
    PAL_CHANNEL_CAN_ONCE = 64, /* a second message with the same pal_outgoing.id is not shown */
} pal_channel_can;

/* ---- In ---- */

typedef enum pal_incoming_kind {
    PAL_INCOMING_NONE = 0,
    PAL_INCOMING_MESSAGE = 1,
    PAL_INCOMING_EDIT = 2,      /* `target` has the text `text` now */
    PAL_INCOMING_REDACTION = 3, /* `target` was deleted */
    PAL_INCOMING_REACTION = 4,  /* `key` was put on `target` */
    PAL_INCOMING_INVITE = 5,    /* `sender` invites the bot into the chat */
    PAL_INCOMING_JOINED = 6,    /* the bot is in the chat; `sender` has added it, if known */
    PAL_INCOMING_LEFT = 7,      /* the bot is no longer in the chat */
    PAL_INCOMING_CHAT = 8,      /* properties of the chat have changed */
    PAL_INCOMING_UPGRADE = 9,   /* `target` is the chat that replaces this one */
} pal_incoming_kind;

/* A picture or a file of a message. */
typedef struct pal_incoming_media {
    pal_str url;        /* for pal_channel_kind.fetch() */
    pal_str media_type; /* may be empty */
    pal_str name;       /* may be empty */
    pal_str data;       /* its bytes, if the channel delivered them with the message */
    uint64_t bytes;     /* 0: not known */
} pal_incoming_media;

/* Something that happened on a channel. Members that do not apply are empty. */
typedef struct pal_incoming {
    pal_incoming_kind kind;
    pal_str id;     /* unique in the account; the client id of the message contains it */
    pal_str target; /* the id of another event or chat; see `kind` */
    pal_str chat;   /* the id in the form of the channel; the case is kept */
    pal_str chat_name;
    pal_str space; /* the server or team that the chat belongs to */
    pal_str space_type;
    pal_str topic;  /* the thread or topic in the chat */
    pal_str sender; /* the id of the person */
    pal_str sender_name;
    bool direct;         /* a chat between this person and the bot */
    bool mentions_me;
    bool mentions_other; /* it addresses another person */
    bool mentions_all;   /* it addresses everybody in the chat */
    bool replies_to_me;
    bool is_notice; /* written by a program */
    bool is_bot;    /* the sender is a bot */
    bool encrypted; /* it cannot be read */
    bool is_backlog; /* it is from the time before the bot read the chat */
    pal_str reply_to; /* the id of the message that this one answers */
    int64_t sent_at;  /* by the channel's clock, in milliseconds since 1970; 0: not known */
    pal_str text;     /* plain, without the quoted message and without the mention of the bot */
    pal_str key;      /* the reaction, for example an emoji */
    const pal_incoming_media *media;
    size_t media_len;
} pal_incoming;

/* ---- Out ---- */

typedef enum pal_outgoing_kind {
    PAL_OUTGOING_NONE = 0,
    PAL_OUTGOING_TEXT = 1,
    PAL_OUTGOING_NOTICE = 2,   /* a text that other bots do not answer */
    PAL_OUTGOING_EDIT = 3,     /* replaces the text of `target` */
    PAL_OUTGOING_REACTION = 4, /* puts `reaction` on `target` */
    PAL_OUTGOING_REDACTION = 5,
    PAL_OUTGOING_MEDIA = 6,
} pal_outgoing_kind;

/* One message to a chat. Everything that it points to stays valid until `on_sent` is called or the
 * channel is closed. */
typedef struct pal_outgoing {
    pal_str id; /* the same for every attempt to send the same message: "pal" and 32 hex digits */
    pal_outgoing_kind kind;
    pal_str chat;
    pal_str topic;
    pal_str reply_to;
    pal_str sender; /* the person who is answered */
    bool direct;
    pal_str target;
    pal_str text; /* Markdown */
    pal_str html; /* the same as HTML; empty if HTML shows no more than the text */
    pal_str reaction;
    pal_str data; /* the bytes of media */
    pal_str media_type;
    pal_str name;
    bool is_retry; /* an earlier attempt may have been successful */
    bool is_plain; /* the service has refused it with formatting */
} pal_outgoing;

/* How sending ended. */
typedef struct pal_outgoing_end {
    pal_status status; /* PAL_OK; PAL_BUSY: send again after retry_ms; PAL_DENIED: never to this
                          chat; PAL_INVALID: never with this content; PAL_LIMIT: too long;
                          PAL_CANCELED: the account is logged out; others: the connection failed */
    bool sent;         /* if the connection failed: the service may have received the message */
    int64_t retry_ms;  /* 0: the host decides */
    pal_str id;        /* the id of the new message on the channel; may be empty */
    char reason[256];
} pal_outgoing_end;

/* Called once for each message. */
typedef void (*pal_outgoing_on_sent)(const pal_outgoing_end *end, void *user);

/* Called once for each file. `data` is empty unless the status is PAL_OK. */
typedef void (*pal_incoming_on_fetched)(
        pal_status status, pal_str media_type, pal_str data, const char *reason, void *user);

/* ---- HTTP requests from the service ---- */

/* A request below /api/v1/channels/KIND/ACCOUNT/. Everything stays valid until `answer` is called,
 * which must happen once, at once or later. */
typedef struct pal_channel_hook pal_channel_hook;
struct pal_channel_hook {
    pal_str method;
    pal_str path;  /* what follows the account, for example "events" */
    pal_str query; /* without '?' */
    const pal_header *headers; /* names are in lower case */
    size_t headers_len;
    pal_str body;
    void (*answer)(pal_channel_hook *hook, unsigned code, pal_str json);
};

/* ---- A kind ---- */

struct pal_channel_kind {
    const char *name;          /* for example "matrix" */
    uint32_t can;              /* bits of pal_channel_can */
    char command_sign;         /* commands begin with it: '!' or '/' */
    uint32_t piece_bytes_max;  /* bytes of the text of one message */
    uint32_t piece_units_max;  /* the same in UTF-16 units; 0: no limit */
    bool has_html;             /* the host fills pal_outgoing.html */

    /* Makes an account's channel. Sends nothing. The settings stay valid until close().
     * PAL_INVALID: the settings lack something; `err` names it. */
    pal_status (*open)(const pal_channel_settings *settings, pal_channel_account *account,
            pal_channel **out_channel, pal_error *err);
    /* Receives what comes after `cursor`, which is empty the first time. Hands batches to
     * pal_channel_take(), and waits for taken() in between. Called again after
     * pal_channel_failed(). */
    void (*start)(pal_channel *channel, pal_str cursor);
    /* The batch is stored, or (any other status) is not: the host will call start() again with the
     * old cursor. A kind with hook() reports the status to the service. */
    void (*taken)(pal_channel *channel, pal_status status);
    /* Sends one message. */
    void (*send)(pal_channel *channel, const pal_outgoing *message, pal_outgoing_on_sent on_sent,
            void *user);
    /* Shows in a chat that the bot is writing. NULL: it cannot. */
    void (*typing)(pal_channel *channel, pal_str chat, pal_str topic, bool is_on);
    /* Was this message sent before? PAL_OK: yes; PAL_NOT_FOUND: no. NULL: it cannot be known. */
    void (*find_sent)(pal_channel *channel, const pal_outgoing *message,
            pal_outgoing_on_sent on_sent, void *user);
    /* Gets the bytes of media. NULL: all media come with their data. */
    void (*fetch)(pal_channel *channel, pal_str url, uint64_t bytes_max,
            pal_incoming_on_fetched on_fetched, void *user);
    /* Accepts an invitation into a chat, or leaves it. The result is another event
     * (PAL_INCOMING_JOINED, PAL_INCOMING_LEFT). NULL: there are no invitations. */
    void (*join)(pal_channel *channel, pal_str chat, pal_str inviter);
    void (*leave)(pal_channel *channel, pal_str chat, pal_str reason);
    /* Serves a request of the service. NULL: it sends none. */
    void (*hook)(pal_channel *channel, pal_channel_hook *hook);
    /* Ends everything and frees the channel. Calls no callback of send() any more. Requests of
     * hook() that have no answer yet are answered. */
    void (*close)(pal_channel *channel);
};

/* The beginning of the struct of every kind; open() sets it. */
struct pal_channel {
    const pal_channel_kind *kind;
    pal_channel_account *account;
};

/* ---- What a kind calls ---- */

pal_loop *pal_channel_loop(const pal_channel_account *account);
pal_http *pal_channel_http(const pal_channel_account *account);

/* Stores a batch of at most PAL_CHANNEL_BATCH_MAX events together with the cursor after them, in
 * one commit. The events stay valid until taken() is called, once and usually later. An empty
 * `cursor` leaves the stored cursor as it is. */
void pal_channel_take(pal_channel_account *account, const pal_incoming *events, size_t len,
        pal_str cursor);
/* Receiving works: ends the back-off, and is shown to operators. */
void pal_channel_ready(pal_channel_account *account);
/* Receiving has failed. The host calls start() again after `retry_ms` (0: after a delay that grows
 * with each failure). PAL_DENIED: the login is not valid; start() is not called again. */
void pal_channel_failed(
        pal_channel_account *account, pal_status status, int64_t retry_ms, const char *reason);

#endif
