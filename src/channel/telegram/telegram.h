/* telegram.h - the channel "telegram": a bot on Telegram, by the Bot API with long polling.
 *
 *   telegram.c         the account: receives and sends
 *   telegram_call.c    calls a method of the Bot API
 *   telegram_update.c  reads updates
 *   telegram_text.c    writes Markdown as text with entities */
#ifndef PAL_TELEGRAM_H
#define PAL_TELEGRAM_H

#include "base/json/json.h"
#include "channel/channel_kind.h"

extern const pal_channel_kind pal_channel_telegram;

/* ---- Calls (telegram_call.c) ---- */

/* How a call ended. `result` is valid during the callback. */
typedef struct pal_telegram_result {
    pal_status status; /* PAL_OK; PAL_BUSY: after retry_ms; PAL_DENIED: the token is not valid;
                          PAL_INVALID: the request was refused; others: the connection failed */
    bool sent;         /* the service may have received the request */
    int64_t retry_ms;
    long code;         /* error_code of the service; 0: none */
    int64_t moved_to;  /* the group has this id now; 0: it has not moved */
    pal_json result;
    pal_arena *arena;
    char reason[200];
} pal_telegram_result;

typedef void (*pal_telegram_on_result)(const pal_telegram_result *result, void *user);

/* The calls of one account. */
typedef struct pal_telegram_calls {
    const pal_channel_settings *settings;
    pal_channel_account *account;
    struct pal_telegram_call *first;
} pal_telegram_calls;

/* Calls a method with a JSON object. `on_result` is called once, but not if the calls are canceled
 * before; without memory it is called at once. With `once`, the request is never repeated. */
void pal_telegram_call(pal_telegram_calls *calls, const char *method, pal_str json,
        int64_t total_ms, bool once, pal_telegram_on_result on_result, void *user);
/* Ends all calls. No callback is made after this. */
void pal_telegram_cancel(pal_telegram_calls *calls);

/* ---- Updates (telegram_update.c) ---- */

/* The bot itself. */
typedef struct pal_telegram_me {
    int64_t id;
    char name[64]; /* without '@' */
} pal_telegram_me;

/* Reads the result of getUpdates into the arena. *out_next is the offset after the last update; 0:
 * there was none. PAL_INVALID: it is not a list of updates. */
PAL_CHECKED pal_status pal_telegram_updates(pal_json result, const pal_telegram_me *me,
        pal_arena *arena, pal_incoming **out_events, size_t *out_len, int64_t *out_next,
        pal_error *err);

/* ---- Texts (telegram_text.c) ---- */

/* Writes the members "text" and "entities" of a message. With `is_plain`, the Markdown is not
 * read. */
void pal_telegram_put_text(
        pal_json_writer *writer, pal_str markdown, bool is_plain, pal_arena *arena);

#endif
