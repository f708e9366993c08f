/* api_mistral_restart.c - starts another conversation from one entry of this one. The new session
 * is a fork, so earlier messages are shared and not copied. If the entry is not the last one of its
 * message, the later entries of that message are hidden in the fork. */
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/mistral/api_mistral_start.h"
#include "server/server_call.h"

#define RESULTS_MESSAGES 64 /* messages after a call that can contain its results */

typedef struct restart_point {
    uint64_t seq;                    /* the last message that is kept */
    const pal_mistral_entry *hidden; /* the parts of its message after this entry are hidden; NULL
                                        hides nothing */
} restart_point;

static pal_status no_entry(pal_call *call, pal_str id, pal_error *err)
{
    call->fail_param = "from_entry_id";
    return pal_error_set(err, PAL_NOT_FOUND,
            "unknown entry '%.*s'; the conversation does not contain it", PAL_EXCERPT(id, 80));
}

/* Returns the seq of the last tool message that follows, so that a call is kept with its
 * results. */
static uint64_t end_of_results(const pal_message_page *list)
{
    size_t i = 1;
    while (i < list->len && list->items[i].role == PAL_ROLE_TOOL)
        i++;
    return list->items[i - 1].seq;
}

/* Returns the index of the entry with the id, or `len`. */
static size_t index_of(const pal_mistral_entry *entries, size_t len, pal_str id)
{
    size_t i = 0;
    for (; i < len; i++) {
        char own[PAL_MISTRAL_ENTRY_ID_SIZE];
        pal_mistral_entry_id(entries[i].kind, entries[i].message->id, entries[i].number, own);
        if (pal_str_is(id, own))
            break;
    }
    return i;
}

static pal_status find_point(
        pal_call *call, pal_id session, pal_str id, restart_point *out_point, pal_error *err)
{
    pal_store *store = call->server->store;
    pal_id message_id, owner;
    pal_message message;
    pal_message_page list;
    pal_mistral_entry *entries;
    size_t len = 0;
    if (!pal_mistral_entry_parse(id, &message_id))
        return no_entry(call, id, err);
    pal_status status = pal_store_message(
            store, call->caller.tenant, message_id, call->arena, &message, &owner, err);
    if (status == PAL_NOT_FOUND)
        return no_entry(call, id, err);
    if (status != PAL_OK)
        return status;
    const pal_message_query load = {.after_seq = message.seq - 1, .limit = RESULTS_MESSAGES};
    status = pal_store_load(store, call->caller.tenant, session, &load, call->arena, &list, err);
    if (status != PAL_OK)
        return status;
    if (list.len == 0 || !pal_id_equal(list.items[0].id, message_id))
        return no_entry(call, id, err);
    status = pal_mistral_entries(call, &list, (pal_str){0}, &entries, &len, err);
    if (status != PAL_OK)
        return status;
    size_t i = index_of(entries, len, id);
    if (i == len)
        return no_entry(call, id, err);
    bool is_execution = entries[i].kind == PAL_ENTRY_EXECUTION;
    out_point->seq = is_execution ? end_of_results(&list) : list.items[0].seq;
    out_point->hidden = is_execution ? NULL : &entries[i];
    return PAL_OK;
}

/* Finds the agent that spoke at that point, if the conversation had been handed over. */
static pal_status find_speaker(
        pal_mistral_start *start, pal_id session, uint64_t seq, pal_error *err)
{
    pal_call *call = start->call;
    pal_mistral_settings *settings = &start->settings;
    pal_message_page list = {0};
    pal_mistral_entry *entries;
    size_t len = 0;
    const pal_message_query load = {.before_seq = seq + 1};
    if (settings->speaker_id.len == 0)
        return PAL_OK;
    settings->speaker_id = (pal_str){0};
    pal_status status = pal_store_load(
            call->server->store, call->caller.tenant, session, &load, call->arena, &list, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_entries(call, &list, settings->agent_id, &entries, &len, err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < len; i++) {
        if (entries[i].kind == PAL_ENTRY_HANDOFF)
            settings->speaker_id = pal_member_string(entries[i].kept, "next_agent_id", call->arena);
    }
    return PAL_OK;
}

static pal_status add_speaker(pal_mistral_start *start, pal_error *err)
{
    pal_buf buf;
    pal_str body = {0};
    if (start->settings.speaker_id.len == 0)
        return PAL_OK;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_quote(&buf, start->settings.speaker_id);
    pal_status status = pal_member_keep(&buf, start->call->arena, &body, err);
    pal_buf_done(&buf);
    if (status == PAL_OK)
        pal_mistral_start_record(start, 1, PAL_MISTRAL_SPEAKER, body);
    return status;
}

static pal_status add_hiding(pal_mistral_start *start, const restart_point *point, pal_error *err)
{
    const pal_mistral_entry *entry = point->hidden;
    size_t first = entry ? entry->first + entry->len : 0;
    for (size_t i = first; entry && i < entry->message->parts_len; i++) {
        const pal_part *part = &entry->message->parts[i];
        pal_mark *mark = pal_arena_alloc(start->call->arena, sizeof *mark);
        if (!mark)
            return pal_arena_checked(start->call->arena, err);
        *mark = (pal_mark){.kind = PAL_MARK_HIDE,
                .seq = point->seq,
                .target = part->number ? part->number : i + 1};
        pal_mistral_start_add(
                start, pal_op_mark(start->session.tenant, start->session.id, mark));
    }
    return PAL_OK;
}

static pal_status fork_session(pal_mistral_start *start, const pal_session *parent,
        const restart_point *point, pal_error *err)
{
    size_t parts = point->hidden ? point->hidden->message->parts_len : 0;
    pal_status status = pal_mistral_start_session(start, parts, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_settings_keep(
            start->call, &start->settings, &start->session.metadata, err);
    if (status != PAL_OK)
        return status;
    start->session.title = parent->title;
    start->run.conversation = start->session.id;
    pal_mistral_start_add(start, pal_op_fork(&start->session, parent->id, point->seq));
    status = add_hiding(start, point, err);
    if (status != PAL_OK)
        return status;
    status = add_speaker(start, err);
    return status == PAL_OK ? pal_mistral_start_make(start, err) : status;
}

static const pal_api_object restart_body = {"MistralRestartRequest", .is_open = true,
        .members = PAL_API_MEMBERS(
                {"from_entry_id", PAL_API_TEXT, "the id of the last entry to keep",
                        .offset = offsetof(pal_mistral_start, from_entry_id), .min = 1,
                        .max = PAL_NAME_LEN_MAX, .is_required = true},
                {.type = PAL_API_INCLUDE, .of = &pal_mistral_start_members},
                {"metadata", PAL_API_VALUE, .of = &pal_api_any_object},
                {"agent_version", PAL_API_VALUE,
                        .schema = "{\"type\":[\"string\",\"integer\"]}"})};

static pal_status read_restart(pal_mistral_start *start, const pal_session *parent,
        restart_point *out_point, pal_error *err)
{
    pal_call *call = start->call;
    pal_status status = pal_mistral_start_read(start, &restart_body, false, err);
    if (status != PAL_OK)
        return status;
    status = find_point(call, parent->id, start->from_entry_id, out_point, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_settings_of(call, parent, &start->settings, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_metadata_read(call, &start->settings.metadata, err);
    if (status != PAL_OK)
        return status;
    return pal_mistral_version_read(call, &start->settings.agent_version, err);
}

static pal_status restart(pal_call *call, pal_error *err)
{
    pal_session parent;
    restart_point point = {0};
    pal_mistral_start *start = pal_mistral_start_new(call, err);
    if (!start)
        return err->status;
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &parent, err);
    if (status != PAL_OK)
        return status;
    status = read_restart(start, &parent, &point, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_start_check(start, parent.id, point.seq + 1, err);
    if (status != PAL_OK)
        return status;
    status = find_speaker(start, parent.id, point.seq, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_speakers_make(
            call, &start->settings, start->args, &start->run.speakers, err);
    return status == PAL_OK ? fork_session(start, &parent, &point, err) : status;
}

PAL_MISTRAL_HANDLER(restart)

const pal_api_route pal_mistral_restart_routes[] = {
        {"POST", "/mistral/v1/conversations/{id}/restart", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER, handle_restart,
                {"mistralRestartConversation",
                        "start another conversation from one of the entries", NULL,
                        &restart_body, &pal_api_any_object, 200}},
        {0},
};
