/* channel_owner.c - makes sure that one process has an account: two that receive the same messages
 * would answer them twice.
 *
 * An account has one record, with its cursor and the name of its owner. The owner writes it again
 * and again, and with every batch, each time with the version that it knows. So a process that has
 * lost the account cannot store anything, however late it wakes up. Another process takes the
 * account if the owner is a dead process of this machine, or if the record has not changed for
 * PAL_CHANNEL_STALE_MS of its own clock. A crash at any point leaves a record that says who had the
 * account, and the cursor of the last batch. */
#include "channel/channel_host.h"

#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/text.h"

typedef struct own_job {
    pal_work_item item;
    pal_channel_account *account;
    pal_arena *arena;
    pal_status status;
    pal_error err;
    bool is_mine;
    bool was_mine;
    pal_str *names; /* names of waiting answers */
    size_t names_len, names_cap;
} own_job;

pal_str pal_channel_record_body(
        const pal_channel_account *account, pal_str cursor, pal_arena *arena)
{
    pal_buf buf;
    pal_str body;

    pal_buf_init(&buf, PAL_CHANNEL_CURSOR_LEN_MAX * 6 + 1024);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "owner", account->host->owner);
    pal_put_str(&writer, "cursor", cursor);
    pal_json_end_object(&writer);
    body = buf.failure ? (pal_str){0} : pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return body;
}

/* ---- On a worker ---- */

static pal_status write_record(own_job *j, uint64_t expected)
{
    pal_channel_record *known = &j->account->record;
    pal_record record = {.kind = pal_str_of(PAL_CHANNEL_RECORD), .name = j->account->name,
            .body = pal_channel_record_body(j->account,
                    pal_str_make(known->cursor, known->cursor_len), j->arena)};

    if (!record.body.data)
        return pal_no_memory(&j->err);
    pal_status status = pal_store_record_put(
            j->account->host->store, j->account->settings.tenant, &record, expected, &j->err);
    if (status == PAL_OK)
        known->version = record.version;
    return status;
}

/* Has the owner of a record that this process does not have stopped? */
static bool is_free(own_job *j, const pal_record *record, pal_str owner)
{
    pal_channel_record *known = &j->account->record;
    int64_t now = pal_clock_monotonic_ms();

    if (owner.len == 0 || pal_str_is(owner, j->account->host->owner) ||
            pal_process_is_dead(owner))
        return true;
    if (known->seen_version != record->version) {
        known->seen_version = record->version;
        known->seen_since_ms = now;
    }
    return now - known->seen_since_ms >= PAL_CHANNEL_STALE_MS;
}

static pal_status keep_cursor(own_job *j, pal_json body)
{
    pal_channel_record *known = &j->account->record;
    pal_str cursor = pal_json_string(pal_json_find(body, "cursor"), j->arena);
    char *copy = pal_malloc(cursor.len + 1);

    if (!copy)
        return pal_no_memory(&j->err);
    memcpy(copy, cursor.data ? cursor.data : "", cursor.len);
    pal_free(known->cursor);
    known->cursor = copy;
    known->cursor_len = cursor.len;
    return pal_arena_checked(j->arena, &j->err);
}

static pal_status claim(own_job *j)
{
    pal_channel_account *account = j->account;
    pal_record record;
    pal_json body = {0};
    pal_status status = pal_store_record_find(account->host->store, account->settings.tenant,
            pal_str_of(PAL_CHANNEL_RECORD), account->name, j->arena, &record, &j->err);

    if (status == PAL_NOT_FOUND)
        return write_record(j, 0);
    if (status == PAL_OK)
        status = pal_json_parse(j->arena, record.body, NULL, &body, &j->err);
    if (status != PAL_OK)
        return status;
    if (!is_free(j, &record, pal_json_string(pal_json_find(body, "owner"), j->arena)))
        return PAL_OK;
    status = keep_cursor(j, body);
    return status == PAL_OK ? write_record(j, record.version) : status;
}

/* Lists answers that wait. A new owner needs all; later this finds those of turns that ended in
 * other processes. */
static pal_status list_answers(own_job *j)
{
    pal_channel_account *account = j->account;
    pal_buf prefix;
    pal_record_page page = {.has_more = true};
    pal_status status = PAL_OK;

    pal_buf_init(&prefix, PAL_RECORD_NAME_LEN_MAX);
    pal_buf_append_str(&prefix, account->name);
    pal_buf_append_text(&prefix, "/");
    pal_str start = pal_arena_copy(j->arena, pal_buf_str(&prefix)), after = start;
    pal_buf_done(&prefix);
    while (status == PAL_OK && page.has_more) {
        pal_record_query query = {.tenant = account->settings.tenant,
                .kind = pal_str_of(PAL_OUTBOX_KIND), .after = after, .limit = PAL_RECORD_PAGE_MAX};
        status = pal_store_record_list(account->host->store, &query, j->arena, &page, &j->err);
        if (status != PAL_OK || page.len == 0)
            break;
        for (size_t i = 0; i < page.len; i++) {
            if (!pal_text_begins_str(page.items[i].name, start))
                return PAL_OK;
            if (!pal_arena_reserve(j->arena, &j->names, &j->names_cap, j->names_len + 1,
                        sizeof *j->names))
                return pal_no_memory(&j->err);
            j->names[j->names_len++] = page.items[i].name;
        }
        after = page.items[page.len - 1].name;
        page.has_more = page.has_more && !j->was_mine;
    }
    return status;
}

static void own(pal_work_item *item)
{
    own_job *j = (own_job *)item;

    j->status = j->was_mine ? write_record(j, j->account->record.version) : claim(j);
    if (j->status == PAL_CONFLICT) {
        j->account->record.version = 0;
        j->status = PAL_OK;
    }
    j->is_mine = j->account->record.version != 0;
    if (j->status == PAL_OK && j->is_mine)
        j->status = list_answers(j);
}

/* ---- On the loop ---- */

static void own_again(pal_timer *timer)
{
    pal_channel_account *account =
            (pal_channel_account *)((char *)timer - offsetof(pal_channel_account, owner_timer));
    if (account->has_job)
        pal_channel_timer(account->host, timer, PAL_CHANNEL_LOOK_MS, own_again);
    else
        pal_channel_own(account);
}

static void owned(pal_work_item *item)
{
    own_job *j = (own_job *)item;
    pal_channel_account *account = j->account;
    pal_channels *host = account->host;

    pal_channel_work_done(host);
    account->has_job = false;
    if (j->status != PAL_OK)
        pal_channel_log(account, true, "could not read or write the account's record: %s",
                j->err.message);
    if (j->was_mine && !j->is_mine)
        pal_channel_lost(account);
    else if (!j->was_mine && j->is_mine && !host->is_stopping)
        pal_channel_begin(account);
    for (size_t i = 0; j->is_mine && i < j->names_len; i++)
        pal_channel_outbox_add(account, j->names[i], true);
    if (!host->is_stopping)
        pal_channel_timer(host, &account->owner_timer,
                j->is_mine ? PAL_CHANNEL_RENEW_MS : PAL_CHANNEL_LOOK_MS, own_again);
    pal_arena_free(j->arena);
    pal_free(j);
    pal_channel_job_done(account);
}

void pal_channel_own(pal_channel_account *account)
{
    own_job *j = pal_calloc(1, sizeof *j);

    if (!j || !(j->arena = pal_arena_new(0))) {
        pal_free(j);
        pal_channel_timer(account->host, &account->owner_timer, PAL_CHANNEL_LOOK_MS, own_again);
        return;
    }
    j->item.work = own;
    j->item.done = owned;
    j->account = account;
    j->was_mine = account->record.version != 0;
    account->has_job = true;
    pal_channel_work(account->host, &j->item);
}

void pal_channel_disown(pal_channel_account *account)
{
    pal_arena *arena = pal_arena_new(0);
    pal_channel_record *known = &account->record;

    if (arena && known->version != 0) {
        pal_buf buf;
        pal_buf_init(&buf, PAL_CHANNEL_CURSOR_LEN_MAX * 6 + 1024);
        pal_json_writer writer = pal_json_writer_make(&buf);
        pal_json_begin_object(&writer);
        pal_put_text(&writer, "owner", "");
        pal_put_str(&writer, "cursor", pal_str_make(known->cursor, known->cursor_len));
        pal_json_end_object(&writer);
        pal_record record = {.kind = pal_str_of(PAL_CHANNEL_RECORD), .name = account->name,
                .body = pal_buf_str(&buf)};
        if (buf.failure == PAL_OK && pal_store_record_put(account->host->store,
                        account->settings.tenant, &record, known->version, NULL) != PAL_OK)
            pal_channel_log(account, true, "could not give the account back");
        pal_buf_done(&buf);
    }
    known->version = 0;
    pal_arena_free(arena);
}
