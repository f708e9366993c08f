/* channel_outbox.c - delivers answers: in order in each chat, several chats at a time, until the
 * service has accepted them. The records in the store are the queue; what is here is only a view of
 * it, which a new process makes again. */
#include "channel/channel_chat.h"
#include "channel/channel_delivery.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"

/* ---- The lists ---- */

static void list_remove(pal_channel_account *account, pal_delivery *d)
{
    pal_delivery **at = &account->loaded;

    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    account->loaded_len--;
}

static void forget(pal_channel_account *account, pal_delivery *d)
{
    list_remove(account, d);
    pal_map_remove(&account->deliveries, pal_str_make(d->name, d->name_len));
    atomic_fetch_sub(&account->pending, 1);
    pal_delivery_free(d);
}

static void list_append(pal_channel_account *account, pal_delivery *d)
{
    pal_delivery **at = &account->loaded;

    while (*at)
        at = &(*at)->next;
    d->next = NULL;
    *at = d;
    account->loaded_len++;
}

/* ---- Ending ---- */

static void send_again_after(pal_delivery *d, int64_t delay_ms);

static void check_drained(pal_channel_account *account)
{
    pal_channels *host = account->host;

    if (!host->is_stopping)
        return;
    for (size_t i = 0; i < host->accounts_len; i++)
        if (host->accounts[i].deliveries.len > 0 && host->accounts[i].channel)
            return;
    /* Nothing is left to send. */
    pal_channel_timer(host, &host->drain_timer, 0, host->drain_timer.fire);
}

static void ended(pal_work_item *item)
{
    pal_delivery *d = (pal_delivery *)item;
    pal_channel_account *account = d->account;

    pal_channel_work_done(account->host);
    if (d->status != PAL_OK && !d->is_orphan) {
        send_again_after(d, 1000); /* sends nothing: all pieces are sent */
        return;
    }
    if (d->status == PAL_OK && d->is_given_up) {
        atomic_fetch_add(&account->undelivered, 1);
        pal_channel_log(account, true, "gave up an answer to chat '%.*s': %s",
                PAL_STR_ARG(d->message.chat), d->reason);
    }
    forget(account, d);
    check_drained(account);
    pal_channel_outbox_send(account);
}

static void work_end(pal_work_item *item)
{
    pal_delivery_end((pal_delivery *)item);
}

static void end(pal_delivery *d)
{
    d->state = PAL_DELIVERY_ENDING;
    d->item.work = work_end;
    d->item.done = ended;
    pal_channel_work(d->account->host, &d->item);
}

static void give_up(pal_delivery *d, const char *reason)
{
    d->is_given_up = true;
    snprintf(d->reason, sizeof d->reason, "%s", reason);
    end(d);
}

/* ---- Sending ---- */

static void tick(pal_timer *timer)
{
    pal_channel_outbox_send(
            (pal_channel_account *)((char *)timer - offsetof(pal_channel_account, send_timer)));
}

/* Makes sure that pal_channel_outbox_send() runs again when the first delivery may be tried. */
static void arm(pal_channel_account *account)
{
    int64_t now = pal_clock_monotonic_ms(), first = INT64_MAX;

    for (pal_delivery *d = account->loaded; d; d = d->next)
        if (d->state == PAL_DELIVERY_RESTING && d->at_ms < first)
            first = d->at_ms;
    if (account->paused_until_ms > now &&
            (first == INT64_MAX || first < account->paused_until_ms))
        first = account->paused_until_ms;
    if (first != INT64_MAX)
        pal_channel_timer(account->host, &account->send_timer, first > now ? first - now : 0, tick);
}

static void send_again_after(pal_delivery *d, int64_t delay_ms)
{
    d->state = PAL_DELIVERY_RESTING;
    d->at_ms = pal_clock_monotonic_ms() + delay_ms;
    arm(d->account);
}

/* 1 s, doubling to 5 minutes; a part of it is random, so that chats do not come all at once. */
static int64_t back_off_ms(uint32_t tries)
{
    uint32_t chance;
    int64_t delay = tries > 8 ? 300000 : INT64_C(1000) << tries;

    if (delay > 300000)
        delay = 300000;
    pal_random_bytes(&chance, sizeof chance);
    return delay * 3 / 4 + chance % (delay / 4 + 1);
}

static void piece_sent(pal_delivery *d, pal_str id)
{
    d->ids[d->piece] = pal_arena_copy(d->arena, id);
    d->piece++;
    d->tries = 0;
    d->is_uncertain = false;
    atomic_fetch_add(&d->account->sent, 1);
    pal_channel_chat_spoken(d->account, d->message.chat);
    if (d->piece >= d->pieces_len)
        end(d);
    else
        d->state = PAL_DELIVERY_READY;
}

static void failed_to_connect(pal_delivery *d, const pal_outgoing_end *sent)
{
    pal_channel_account *account = d->account;
    bool is_once = (account->kind->can & PAL_CHANNEL_CAN_ONCE) != 0;

    d->tries++;
    if (sent->sent && !is_once) {
        d->is_uncertain = true;
        send_again_after(d, back_off_ms(0)); /* looks for it, or leaves it */
    } else if (pal_clock_monotonic_ms() - d->since_ms > PAL_CHANNEL_SEND_MS_MAX) {
        give_up(d, sent->reason);
    } else {
        d->is_left |= pal_clock_monotonic_ms() - d->since_ms > PAL_CHANNEL_ONCE_MS;
        send_again_after(d, sent->retry_ms > 0 ? sent->retry_ms : back_off_ms(d->tries - 1));
    }
}

static void on_sent(const pal_outgoing_end *sent, void *user)
{
    pal_delivery *d = user;
    pal_channel_account *account = d->account;

    account->flying--;
    pal_channel_point("outbox.after_put");
    switch (sent->status) {
    case PAL_OK:
        piece_sent(d, sent->id);
        break;
    case PAL_BUSY:
        account->paused_until_ms =
                pal_clock_monotonic_ms() + (sent->retry_ms > 0 ? sent->retry_ms : 5000);
        d->state = PAL_DELIVERY_READY;
        break;
    case PAL_DENIED:
    case PAL_NOT_FOUND:
    case PAL_LIMIT:
        give_up(d, sent->reason);
        break;
    case PAL_INVALID:
        if (d->is_plain)
            give_up(d, sent->reason);
        d->is_plain = true;
        if (d->state == PAL_DELIVERY_SENDING)
            d->state = PAL_DELIVERY_READY;
        break;
    case PAL_CANCELED:
        d->state = PAL_DELIVERY_READY; /* pal_channel_failed() has stopped the account */
        break;
    default:
        failed_to_connect(d, sent);
    }
    arm(account);
    pal_channel_outbox_send(account);
}

static void put(pal_delivery *d)
{
    d->state = PAL_DELIVERY_SENDING;
    d->account->flying++;
    pal_channel_point("outbox.before_put");
    d->account->kind->send(d->account->channel, &d->message, on_sent, d);
}

static void on_found(const pal_outgoing_end *found, void *user)
{
    pal_delivery *d = user;
    pal_channel_account *account = d->account;

    account->flying--;
    d->is_uncertain = false;
    if (found->status == PAL_OK)
        piece_sent(d, found->id);
    else if (found->status == PAL_NOT_FOUND) {
        d->is_left = false; /* later pieces were not sent, either */
        d->state = PAL_DELIVERY_READY;
    } else if (found->status == PAL_DENIED) {
        give_up(d, found->reason);
    } else {
        d->is_uncertain = true;
        d->tries++;
        send_again_after(d, back_off_ms(d->tries));
    }
    arm(account);
    pal_channel_outbox_send(account);
}

static void marked(pal_work_item *item)
{
    pal_delivery *d = (pal_delivery *)item;
    pal_channel_account *account = d->account;

    pal_channel_work_done(account->host);
    if (d->is_orphan || d->status == PAL_CONFLICT || d->status == PAL_NOT_FOUND) {
        forget(account, d); /* another process delivers it, or it was erased */
        pal_channel_outbox_send(account);
    } else if (d->status != PAL_OK || account->is_closing) {
        send_again_after(d, 1000);
    } else {
        put(d);
    }
}

static void work_mark(pal_work_item *item)
{
    pal_delivery_mark((pal_delivery *)item);
}

/* Begins with the current piece. */
static void begin(pal_delivery *d)
{
    pal_channel_account *account = d->account;
    const pal_channel_kind *kind = account->kind;
    bool is_once = (kind->can & PAL_CHANNEL_CAN_ONCE) != 0;

    if (d->since_ms == 0)
        d->since_ms = pal_clock_monotonic_ms();
    if (d->is_given_up || d->piece >= d->pieces_len) {
        end(d);
        return;
    }
    pal_delivery_aim(d);
    bool is_looked_for = is_once ? d->is_left : d->is_uncertain;
    if (is_looked_for && kind->find_sent) {
        d->state = PAL_DELIVERY_LOOKING;
        account->flying++;
        kind->find_sent(account->channel, &d->message, on_found, d);
    } else if (is_once) {
        put(d);
    } else if (d->is_uncertain) {
        pal_channel_log(account, true,
                "a message to chat '%.*s' may not have arrived; it is not sent again",
                PAL_STR_ARG(d->message.chat));
        piece_sent(d, (pal_str){0});
    } else {
        d->state = PAL_DELIVERY_MARKING;
        d->item.work = work_mark;
        d->item.done = marked;
        pal_channel_work(account->host, &d->item);
    }
}

/* ---- Loading ---- */

static void loaded(pal_work_item *item)
{
    pal_delivery *d = (pal_delivery *)item;
    pal_channel_account *account = d->account;

    pal_channel_work_done(account->host);
    account->is_loading = false;
    if (d->is_orphan) {
        forget(account, d);
    } else if (d->status == PAL_OK) {
        d->state = PAL_DELIVERY_READY;
        if (account->kind->typing && account->channel && !account->settings.typing_off)
            account->kind->typing(account->channel, d->message.chat, d->message.topic, false);
    } else if (d->status == PAL_INVALID || d->status == PAL_CORRUPT || d->status == PAL_LIMIT) {
        give_up(d, d->err.message);
    } else {
        /* The record is gone, or the store has a problem: the next look at the outbox finds it. */
        forget(account, d);
        check_drained(account);
    }
    pal_channel_outbox_send(account);
}

static void work_load(pal_work_item *item)
{
    pal_delivery_load((pal_delivery *)item);
}

static void load_next(pal_channel_account *account)
{
    pal_delivery *d = account->queue;

    if (!d || account->is_loading || account->loaded_len >= PAL_CHANNEL_LOADED_MAX)
        return;
    account->queue = d->next;
    if (!account->queue)
        account->queue_end = &account->queue;
    list_append(account, d);
    account->is_loading = true;
    d->state = PAL_DELIVERY_LOADING;
    d->item.work = work_load;
    d->item.done = loaded;
    pal_channel_work(account->host, &d->item);
}

/* Is an earlier answer to the same chat not delivered yet? */
static bool must_wait(const pal_channel_account *account, const pal_delivery *d)
{
    for (const pal_delivery *other = account->loaded; other != d; other = other->next)
        if (other->state != PAL_DELIVERY_LOADING && other->state != PAL_DELIVERY_ENDING &&
                pal_str_equal(other->message.chat, d->message.chat) &&
                pal_str_equal(other->message.topic, d->message.topic))
            return true;
    return false;
}

/* Returns the next delivery that can be sent now. */
static pal_delivery *next_ready(pal_channel_account *account, int64_t now)
{
    for (pal_delivery *d = account->loaded; d; d = d->next) {
        bool is_due = d->state == PAL_DELIVERY_READY ||
                (d->state == PAL_DELIVERY_RESTING && d->at_ms <= now);
        if (is_due && !must_wait(account, d))
            return d;
    }
    return NULL;
}

void pal_channel_outbox_send(pal_channel_account *account)
{
    int64_t now = pal_clock_monotonic_ms();
    pal_delivery *d;

    if (!account->channel || account->is_closing || account->state == PAL_CHANNEL_STOPPED)
        return;
    load_next(account);
    if (now < account->paused_until_ms) {
        arm(account);
        return;
    }
    while (account->flying < PAL_CHANNEL_FLYING_MAX && now >= account->paused_until_ms &&
            (d = next_ready(account, now)))
        begin(d);
    arm(account);
}

void pal_channel_outbox_add(pal_channel_account *account, pal_str name, bool is_left)
{
    pal_delivery *d;

    if (pal_map_find(&account->deliveries, name))
        return;
    d = pal_calloc(1, sizeof *d);
    if (!d)
        return; /* the next look at the outbox finds it */
    d->account = account;
    d->name = pal_malloc(name.len + 1);
    if (!d->name ||
            pal_map_set(&account->deliveries, pal_str_make(memcpy(d->name, name.data, name.len),
                                                      name.len), d) != PAL_OK) {
        pal_delivery_free(d);
        return;
    }
    d->name_len = name.len;
    d->is_left = is_left;
    atomic_fetch_add(&account->pending, 1);
    *account->queue_end = d;
    account->queue_end = &d->next;
    pal_channel_outbox_send(account);
}

/* Those that are on a worker are forgotten when they come back. */
void pal_channel_outbox_forget(pal_channel_account *account)
{
    pal_delivery *d = account->loaded;

    while (d) {
        pal_delivery *next = d->next;
        if (d->state == PAL_DELIVERY_LOADING || d->state == PAL_DELIVERY_MARKING ||
                d->state == PAL_DELIVERY_ENDING)
            d->is_orphan = true;
        else
            forget(account, d);
        d = next;
    }
    while ((d = account->queue)) {
        account->queue = d->next;
        pal_map_remove(&account->deliveries, pal_str_make(d->name, d->name_len));
        atomic_fetch_sub(&account->pending, 1);
        pal_delivery_free(d);
    }
    account->queue_end = &account->queue;
    account->flying = 0;
}
