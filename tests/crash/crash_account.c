/* crash_account.c - all that a store contains of the script's sessions, as text. Ids that the store
 * creates are left out, so that two stores can be compared byte for byte. */
#include "crash_script.h"
#include "palaver/store_admin.h"
#include "palaver/store_marks.h"
#include "palaver/store_records.h"
#include "palaver/store_turns.h"

#include "base/clock.h"
#include "base/digest.h"
#include "crash_sessions.h"

#define CLOCK_END 1800000100000

static const pal_str tenant = {"crash", 5};

typedef struct account {
    pal_store *store;
    pal_arena *arena;
    pal_buf *out;
    bool failed;
} account;

/* Appends the outcome of a read. PAL_NOT_FOUND is a result, any other status a failure. */
static bool answered(account *a, const char *what, pal_status status, const pal_error *error)
{
    if (status == PAL_OK)
        return true;
    pal_buf_format(a->out, "  %s: %s\n", what, pal_status_name(status));
    if (status != PAL_NOT_FOUND) {
        pal_buf_format(a->out, "  %s\n", error->message);
        a->failed = true;
    }
    return false;
}

static void account_text(account *a, const char *what, pal_str value)
{
    if (value.len > 0)
        pal_buf_format(a->out, " %s=%.*s", what, PAL_STR_ARG(value));
}

static void account_number(account *a, const char *what, uint64_t value)
{
    if (value)
        pal_buf_format(a->out, " %s=%llu", what, (unsigned long long)value);
}

static void account_session(account *a, const pal_session *session)
{
    pal_buf_format(a->out, "  %s", pal_session_state_name(session->state));
    account_text(a, "key", session->key);
    for (size_t i = 0; i < session->aliases_len; i++)
        account_text(a, "alias", session->aliases[i]);
    account_text(a, "title", session->title);
    account_text(a, "metadata", session->metadata);
    account_number(a, "fork", session->fork_seq);
    account_number(a, "is_child", !pal_id_is_none(session->parent_id));
    account_number(a, "last", session->last_seq);
    account_number(a, "tokens", session->tokens);
    account_number(a, "bytes", session->bytes);
    account_number(a, "created", (uint64_t)session->created_at);
    account_number(a, "updated", (uint64_t)session->updated_at);
    account_number(a, "deleted", (uint64_t)session->deleted_at);
    pal_buf_append_text(a->out, "\n");
}

static void account_message(account *a, const pal_message *message)
{
    pal_buf_format(
            a->out, "    %llu %s", (unsigned long long)message->seq, pal_role_name(message->role));
    account_text(a, "client", message->client_id);
    account_number(a, "tokens", message->tokens);
    account_number(a, "created", (uint64_t)message->created_at);
    for (size_t i = 0; i < message->parts_len; i++) {
        account_text(a, pal_part_kind_name(message->parts[i].kind), message->parts[i].text);
        account_text(a, "blob", message->parts[i].blob);
    }
    pal_buf_append_text(a->out, "\n");
}

/* The blobs that messages refer to must be there. */
static void account_blobs(account *a, const pal_message *message)
{
    pal_error error;
    pal_str media_type, data;

    for (size_t i = 0; i < message->parts_len; i++) {
        pal_str name = message->parts[i].blob;
        if (name.len == 0)
            continue;
        if (answered(a, "blob",
                    pal_store_blob_get(
                            a->store, tenant, name, a->arena, &media_type, &data, &error),
                    &error))
            pal_buf_format(a->out, "    blob %.*s %zu\n", PAL_STR_ARG(media_type), data.len);
        else
            a->failed = true;
    }
}

static void account_messages(account *a, pal_id id, bool hidden)
{
    pal_message_query load = {.hidden = hidden};
    pal_message_page messages;
    pal_error error;

    pal_buf_append_text(a->out, hidden ? "  all:\n" : "  in sight:\n");
    if (!answered(a, "messages",
                pal_store_load(a->store, tenant, id, &load, a->arena, &messages, &error), &error))
        return;
    for (size_t i = 0; i < messages.len; i++) {
        account_message(a, &messages.items[i]);
        account_blobs(a, &messages.items[i]);
    }
}

static void account_marks(account *a, pal_id id)
{
    pal_mark *marks;
    size_t len;
    pal_error error;

    if (!answered(a, "marks", pal_store_marks(a->store, tenant, id, a->arena, &marks, &len, &error),
                &error))
        return;
    for (size_t i = 0; i < len; i++) {
        pal_buf_format(a->out, "    mark %d", (int)marks[i].kind);
        account_number(a, "number", marks[i].number);
        account_number(a, "seq", marks[i].seq);
        account_number(a, "through", marks[i].through_seq);
        account_number(a, "target", marks[i].target);
        account_number(a, "undone", marks[i].undone);
        account_number(a, "inherited", marks[i].inherited);
        account_text(a, "body", marks[i].body);
        pal_buf_append_text(a->out, "\n");
    }
}

static void account_inbox(account *a, pal_id id)
{
    pal_inbox_item *items;
    size_t len;
    pal_error error;

    if (!answered(a, "inbox",
                pal_store_inbox_list(a->store, tenant, id, a->arena, &items, &len, &error), &error))
        return;
    for (size_t i = 0; i < len; i++) {
        pal_buf_append_text(a->out, "    inbox");
        account_text(a, "client", items[i].client_id);
        account_text(a, "delivery", items[i].delivery);
        account_text(a, "body", items[i].body);
        pal_buf_append_text(a->out, "\n");
    }
}

static void account_lease(account *a, pal_id id)
{
    pal_lease lease;
    pal_error error;

    if (!answered(a, "lease", pal_store_lease_find(a->store, tenant, id, a->arena, &lease, &error),
                &error))
        return;
    pal_buf_append_text(a->out, "  lease");
    account_text(a, "owner", lease.owner);
    account_number(a, "fence", lease.fence);
    account_number(a, "expires", (uint64_t)lease.expires_at);
    pal_buf_append_text(a->out, "\n");
}

static void account_ledger(account *a, const char *what, pal_ledger_query query)
{
    pal_ledger_sum sum;
    pal_error error;

    query.tenant = tenant;
    if (!answered(a, "ledger", pal_store_ledger_sum(a->store, &query, &sum, &error), &error))
        return;
    pal_buf_append_text(a->out, what);
    account_number(a, "calls", sum.calls);
    account_number(a, "input", sum.usage.input);
    account_number(a, "output", sum.usage.output);
    account_number(a, "cost", (uint64_t)sum.cost_micros);
    pal_buf_append_text(a->out, "\n");
}

static void account_one(account *a, script_session which)
{
    pal_id id = script_session_id(which);
    char name[PAL_ID_TEXT_SIZE];
    pal_session session;
    pal_error error;

    pal_id_to_text(id, name);
    pal_buf_format(a->out, "session %d\n", (int)which);
    if (!answered(a, "session",
                pal_store_find(a->store, tenant, PAL_SESSION_BY_ID, pal_str_of(name), a->arena,
                        &session, &error),
                &error))
        return;
    account_session(a, &session);
    account_messages(a, id, true);
    account_messages(a, id, false);
    account_marks(a, id);
    account_inbox(a, id);
    account_lease(a, id);
    account_ledger(a, "  ledger", (pal_ledger_query){.session = id});
}

static void account_records(account *a)
{
    pal_record_query query = {.tenant = tenant, .kind = pal_str_of(SCRIPT_RECORD_KIND)};
    pal_record_page records;
    pal_error error;

    if (!answered(a, "records", pal_store_record_list(a->store, &query, a->arena, &records, &error),
                &error))
        return;
    for (size_t i = 0; i < records.len; i++) {
        const pal_record *record = &records.items[i];

        pal_buf_append_text(a->out, "record");
        account_text(a, "name", record->name);
        account_text(a, "body", record->body);
        account_number(a, "version", record->version);
        account_number(a, "created", (uint64_t)record->created_at);
        account_number(a, "updated", (uint64_t)record->updated_at);
        account_number(a, "expires", (uint64_t)record->expires_at);
        for (int j = 0; j < SCRIPT_SESSIONS; j++)
            if (pal_id_equal(record->session, script_session_id((script_session)j)))
                account_number(a, "session", (uint64_t)j + 1);
        pal_buf_append_text(a->out, "\n");
    }
}

/* Which session has this name. */
static void account_name(account *a, pal_session_by by, const char *name)
{
    pal_session session;
    pal_error error;

    pal_buf_format(a->out, "name %s\n", name);
    if (!answered(a, "name",
                pal_store_find(a->store, tenant, by, pal_str_of(name), a->arena, &session, &error),
                &error))
        return;
    for (int i = 0; i < SCRIPT_SESSIONS; i++)
        if (pal_id_equal(session.id, script_session_id((script_session)i)))
            pal_buf_format(a->out, "  is session %d\n", i);
}

static void account_totals(account *a)
{
    pal_store_stats stats;
    pal_error error;

    if (!answered(a, "stat", pal_store_stat(a->store, a->arena, &stats, &error), &error))
        return;
    pal_buf_append_text(a->out, "totals");
    account_number(a, "active", stats.sessions_active);
    account_number(a, "trash", stats.sessions_trash);
    account_number(a, "quarantined", stats.sessions_quarantined);
    account_number(a, "messages", stats.messages);
    account_number(a, "content", stats.content_bytes);
    account_number(a, "blobs", stats.blobs);
    account_number(a, "blob_bytes", stats.blob_bytes);
    pal_buf_append_text(a->out, "\n");
}

static void account_loose_blob(account *a)
{
    uint8_t hash[PAL_SHA256_SIZE];
    char name[PAL_BLOB_NAME_SIZE] = "sha256:";
    pal_str media_type, data;
    pal_error error;

    if (pal_sha256(pal_str_of(SCRIPT_BLOB_TEXT), hash))
        a->failed = true;
    pal_hex(hash, sizeof(hash), name + sizeof("sha256:") - 1);
    if (answered(a, "loose blob",
                pal_store_blob_get(
                        a->store, tenant, pal_str_of(name), a->arena, &media_type, &data, &error),
                &error))
        account_text(a, "loose blob", data);
    pal_buf_append_text(a->out, "\n");
}

bool script_account(pal_store *store, pal_buf *out)
{
    account a = {.store = store, .arena = pal_arena_new(0), .out = out};
    static const char *const names[] = {"first of the aliases", "second", "third"};

    pal_clock_set_ms(CLOCK_END);
    for (int i = 0; i < SCRIPT_SESSIONS; i++)
        account_one(&a, (script_session)i);
    account_name(&a, PAL_SESSION_BY_KEY, "a");
    account_name(&a, PAL_SESSION_BY_KEY, "b");
    account_name(&a, PAL_SESSION_BY_KEY, "c");
    for (size_t i = 0; i < 3; i++)
        account_name(&a, PAL_SESSION_BY_ALIAS, names[i]);
    account_ledger(&a, "ledger of all", (pal_ledger_query){0});
    account_ledger(&a, "ledger of a turn", (pal_ledger_query){.turn_id = pal_str_of("turn")});
    account_ledger(&a, "ledger of an agent", (pal_ledger_query){.agent = pal_str_of("agent")});
    account_records(&a);
    account_loose_blob(&a);
    account_totals(&a);
    pal_arena_free(a.arena);
    return !a.failed && !out->failure;
}
