/* channel_delivery.c - reads one answer that must be delivered, and settles it.
 *
 * The record stays in the outbox until the service has accepted all pieces. The id of a piece is
 * computed from the record's name, so a process that begins again sends the same ids, and a service
 * that knows them shows each piece once. For other services, the record says before each piece that
 * it is being sent: a piece that may have been sent is not sent again. */
#include "channel/channel_delivery.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/channel_html.h"
#include "channel/channel_split.h"
#include "palaver/limits.h"

/* ---- The text ---- */

/* A model must not notify a complete room: the '@' is followed by a character without width. */
static void put_harmless(pal_buf *buf, pal_str text)
{
    static const char *const calls[] = {"@room", "@everyone", "@channel", "@here", "@all"};

    for (size_t at = 0; at < text.len; at++) {
        pal_buf_append_char(buf, text.data[at]);
        if (text.data[at] != '@')
            continue;
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            if (pal_text_begins_nocase(pal_text_after(text, at), calls[i])) {
                pal_buf_append_text(buf, "\xe2\x80\x8d");
                break;
            }
        }
    }
}

static pal_str answer_text(pal_delivery *d, const pal_message *message)
{
    pal_buf buf;
    pal_str text;

    pal_buf_init(&buf, 2 * PAL_MESSAGE_BYTES_MAX);
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind != PAL_PART_TEXT || message->parts[i].text.len == 0)
            continue;
        if (buf.len > 0)
            pal_buf_append_text(&buf, "\n\n");
        put_harmless(&buf, message->parts[i].text);
    }
    text = buf.failure ? (pal_str){0} : pal_arena_copy(d->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

/* Returns what is sent. An empty text: nothing. */
static pal_status read_text(pal_delivery *d, pal_json body, pal_str *out_text)
{
    pal_channel_account *account = d->account;
    pal_str state = pal_json_string(pal_json_find(body, "state"), d->arena);
    pal_str text = pal_json_string(pal_json_find(body, "text"), d->arena);
    pal_message message;
    pal_id id;

    *out_text = (pal_str){0};
    if (text.len > 0) {
        d->message.kind = PAL_OUTGOING_NOTICE;
        *out_text = text;
        return PAL_OK;
    }
    if (pal_str_is(state, "failed") && !account->settings.errors_off) {
        d->message.kind = PAL_OUTGOING_NOTICE;
        *out_text = pal_str_of("I could not answer, because something went wrong. "
                               "Say it again, and I will try again.");
    }
    if (!pal_str_is(state, "done") ||
            !pal_id_from_text(pal_json_string(pal_json_find(body, "message"), d->arena), &id))
        return PAL_OK;
    pal_status status = pal_store_message(account->host->store, account->settings.tenant, id,
            d->arena, &message, NULL, &d->err);
    if (status == PAL_OK)
        *out_text = answer_text(d, &message);
    return status;
}

static pal_status read_body(pal_delivery *d)
{
    const pal_channel_kind *kind = d->account->kind;
    pal_json body, deliver;
    pal_str text;
    uint64_t piece = 0;
    pal_status status = pal_json_parse(d->arena, d->body, NULL, &body, &d->err);

    if (status != PAL_OK)
        return status;
    deliver = pal_json_find(body, "deliver");
    d->message = (pal_outgoing){.kind = PAL_OUTGOING_TEXT,
            .chat = pal_json_string(pal_json_find(deliver, "chat"), d->arena),
            .topic = pal_json_string(pal_json_find(deliver, "topic"), d->arena),
            .sender = pal_json_string(pal_json_find(deliver, "sender"), d->arena)};
    d->event = pal_json_string(pal_json_find(deliver, "event"), d->arena);
    pal_json_bool(pal_json_find(deliver, "direct"), &d->message.direct);
    if (d->message.chat.len == 0)
        return pal_error_set(&d->err, PAL_INVALID, "the record does not say where to");
    if (pal_json_u64(pal_json_find(body, "piece"), &piece))
        d->is_uncertain = true;
    d->piece = piece;
    status = read_text(d, body, &text);
    if (status == PAL_OK)
        status = pal_channel_split(text, kind->piece_bytes_max, kind->piece_units_max, d->arena,
                &d->pieces, &d->pieces_len, &d->err);
    if (status != PAL_OK)
        return status;
    d->ids = pal_arena_array(d->arena, d->pieces_len + 1, sizeof *d->ids);
    if (d->ids)
        memset(d->ids, 0, (d->pieces_len + 1) * sizeof *d->ids);
    return pal_arena_checked(d->arena, &d->err);
}

void pal_delivery_load(pal_delivery *d)
{
    pal_record record;
    pal_channel_account *account = d->account;

    d->arena = pal_arena_new(0);
    if (!d->arena) {
        d->status = PAL_NO_MEMORY;
        return;
    }
    d->status = pal_store_record_find(account->host->store, account->settings.tenant,
            pal_str_of(PAL_OUTBOX_KIND), pal_str_make(d->name, d->name_len), d->arena, &record,
            &d->err);
    if (d->status != PAL_OK)
        return;
    d->body = record.body;
    d->session = record.session;
    d->version = record.version;
    d->status = read_body(d);
}

/* ---- One piece ---- */

/* Fills in the HTML of a piece, if the kind shows HTML and it says more than the text. */
static void add_html(pal_delivery *d)
{
    pal_buf buf;

    d->message.html = (pal_str){0};
    if (!d->account->kind->has_html || d->is_plain)
        return;
    pal_buf_init(&buf, 4 * PAL_CHANNEL_MARKDOWN_BYTES_MAX);
    if (pal_channel_html(d->message.text, d->arena, &buf) && buf.failure == PAL_OK)
        d->message.html = pal_arena_copy(d->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
}

void pal_delivery_aim(pal_delivery *d)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char hex[2 * PAL_SHA256_SIZE + 1], text[1024];
    int len = snprintf(text, sizeof text, "%.*s/%zu", (int)d->name_len, d->name, d->piece);
    pal_outgoing_kind kind = d->message.kind;

    if (len < 0 || pal_sha256(pal_str_make(text, (size_t)len), digest) != PAL_OK)
        memset(digest, 0, sizeof digest);
    pal_hex(digest, sizeof digest, hex);
    snprintf(d->id, sizeof d->id, "pal%.32s", hex);
    d->message.kind = kind;
    d->message.id = pal_str_of(d->id);
    d->message.text = d->pieces[d->piece];
    d->message.reply_to = d->piece == 0 && !d->message.direct && !d->is_plain ? d->event
                                                                              : (pal_str){0};
    d->message.is_retry = d->tries > 0;
    d->message.is_plain = d->is_plain;
    add_html(d);
}

/* Writes the body again, with the number of the piece that is being sent. */
static pal_str marked_body(pal_delivery *d)
{
    pal_json body, name, value;
    pal_buf buf;
    pal_str made = {0};

    if (pal_json_parse(d->arena, d->body, NULL, &body, &d->err) != PAL_OK)
        return made;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    for (pal_json_iter i = pal_json_each(body); pal_json_next(&i, &name, &value);) {
        if (pal_json_string_is(name, "piece"))
            continue;
        pal_json_name_str(&writer, pal_json_string(name, d->arena));
        pal_json_put_raw(&writer, pal_json_raw(value));
    }
    pal_put_count(&writer, "piece", d->piece);
    pal_json_end_object(&writer);
    if (buf.failure == PAL_OK)
        made = pal_arena_copy(d->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return made;
}

void pal_delivery_mark(pal_delivery *d)
{
    pal_channel_account *account = d->account;
    pal_record record = {.kind = pal_str_of(PAL_OUTBOX_KIND),
            .name = pal_str_make(d->name, d->name_len),
            .session = d->session,
            .body = marked_body(d)};

    if (!record.body.data) {
        d->status = pal_no_memory(&d->err);
        return;
    }
    d->status = pal_store_record_put(
            account->host->store, account->settings.tenant, &record, d->version, &d->err);
    if (d->status == PAL_OK)
        d->version = record.version;
}

/* ---- The end ---- */

static pal_str dead_body(pal_delivery *d)
{
    pal_buf buf;
    pal_str made = {0};

    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "reason", d->reason);
    pal_put_str(&writer, "chat", d->message.chat);
    pal_put_raw(&writer, "answer", d->body);
    pal_json_end_object(&writer);
    if (buf.failure == PAL_OK)
        made = pal_arena_copy(d->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return made;
}

/* The record of a piece that was sent: its message belongs to this session. */
static pal_record sent_record(pal_delivery *d, pal_str id, int64_t now)
{
    char session[PAL_ID_TEXT_SIZE];
    pal_buf buf;
    pal_record record = {.kind = pal_str_of(PAL_CHANNEL_EVENT_RECORD),
            .session = d->session,
            .expires_at = now + PAL_CHANNEL_KEPT_MS};

    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_buf_format(&buf, "%.*s/", PAL_STR_ARG(d->account->name));
    pal_buf_append_str(&buf, pal_str_make(id.data, pal_utf8_cut(id, 300)));
    record.name = pal_arena_copy(d->arena, pal_buf_str(&buf));
    pal_buf_clear(&buf);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "chat", d->message.chat);
    if (!pal_id_is_none(d->session)) {
        pal_id_to_text(d->session, session);
        pal_put_text(&writer, "session", session);
    }
    pal_json_end_object(&writer);
    record.body = pal_arena_copy(d->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return record;
}

void pal_delivery_end(pal_delivery *d)
{
    pal_channel_account *account = d->account;
    pal_str tenant = account->settings.tenant;
    int64_t now = pal_clock_now_ms();
    pal_record *records = pal_arena_array(d->arena, d->pieces_len + 2, sizeof *records);
    pal_op *ops = pal_arena_array(d->arena, d->pieces_len + 2, sizeof *ops);
    size_t len = 0, failed = 0;

    if (!records || !ops) {
        d->status = pal_no_memory(&d->err);
        return;
    }
    records[0] = (pal_record){.kind = pal_str_of(PAL_OUTBOX_KIND),
            .name = pal_str_make(d->name, d->name_len)};
    ops[len] = pal_op_record_drop(tenant, &records[len]);
    len++;
    if (d->is_given_up) {
        records[len] = (pal_record){.kind = pal_str_of(PAL_CHANNEL_DEAD_RECORD),
                .name = pal_str_make(d->name, d->name_len),
                .session = d->session,
                .body = dead_body(d),
                .expires_at = now + PAL_CHANNEL_KEPT_MS};
        ops[len] = pal_op_record_put(tenant, &records[len], PAL_RECORD_VERSION_ANY);
        len++;
    }
    for (size_t i = 0; !d->is_given_up && i < d->pieces_len; i++) {
        if (d->ids[i].len == 0)
            continue;
        records[len] = sent_record(d, d->ids[i], now);
        ops[len] = pal_op_record_put(tenant, &records[len], PAL_RECORD_VERSION_ANY);
        len++;
    }
    pal_channel_point("outbox.before_settle");
    d->status = pal_arena_checked(d->arena, &d->err);
    if (d->status == PAL_OK)
        d->status = pal_store_apply_all(account->host->store, ops, len, &failed, &d->err);
    if (d->status == PAL_NOT_FOUND || d->status == PAL_CONFLICT)
        d->status = PAL_OK; /* the session was erased meanwhile, and the record with it */
}

void pal_delivery_free(pal_delivery *d)
{
    pal_arena_free(d->arena);
    pal_free(d->name);
    pal_free(d);
}
