/* binding.c - opens a store and a runtime for a binding, and its functions for sessions and
 * messages. */
#include "binding/binding_call.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "palaver/config.h"

const char *pal_binding_version(void)
{
    return PAL_VERSION;
}

void pal_binding_free(char *json)
{
    pal_free(json);
}

/* ---- Opening and closing ---- */

static pal_status open_engine(
        pal_binding *binding, const pal_config *config, const char *store, pal_error *err)
{
    const pal_config_values *values = pal_config_get(config);
    pal_store_options store_options = {.sessions_max = values->limits.sessions_per_tenant,
            .cache_bytes = values->store_cache > 0 ? values->store_cache : PAL_CACHE_BYTES_NONE};
    pal_runtime_options options = {0};
    pal_status status =
            pal_models_new(values->model_rules, values->models_len, &binding->models, err);
    if (status == PAL_OK)
        status = pal_config_runtime(config, binding->arena, &options, err);
    if (status == PAL_OK)
        status = pal_store_open(
                store ? store : values->store.data, &store_options, &binding->store, err);
    if (status != PAL_OK)
        return status;
    options.store = binding->store;
    options.models = binding->models;
    options.cannot_ask = true; /* a binding has no function for answers */
    return pal_runtime_open(&options, &binding->runtime, err);
}

int pal_binding_open(const char *store, const char *config, const char *tenant,
        pal_binding **out_binding, char **out_json)
{
    pal_binding_call call;
    pal_config *parsed = NULL;
    pal_binding *binding = pal_calloc(1, sizeof *binding);
    pal_status status = PAL_OK;
    pal_binding_begin(&call, binding);
    if (binding)
        binding->arena = pal_arena_new(0);
    if (!binding || !binding->arena) {
        status = pal_no_memory(&call.err);
        goto out;
    }
    binding->tenant = pal_arena_copy(binding->arena, pal_str_of(tenant));
    status = pal_config_parse(pal_str_of(config), "configuration", &parsed, &call.err);
    if (status == PAL_OK)
        status = open_engine(binding, parsed, store, &call.err);
    if (status == PAL_OK)
        status = pal_arena_checked(binding->arena, &call.err);
out:
    pal_config_free(parsed);
    if (status == PAL_OK)
        *out_binding = binding;
    else
        pal_binding_close(binding, 0);
    return pal_binding_end(&call, status, out_json);
}

void pal_binding_close(pal_binding *binding, int64_t drain_ms)
{
    if (!binding)
        return;
    binding->is_closing = true;
    pal_runtime_close(binding->runtime, drain_ms);
    pal_store_close(binding->store);
    pal_models_free(binding->models);
    pal_arena_free(binding->arena);
    pal_free(binding);
}

/* ---- Sessions ---- */

static pal_status refuse_unknown(pal_binding_call *call, pal_str members)
{
    return pal_error_set(&call->err, PAL_INVALID, "unknown members: %.*s",
            PAL_EXCERPT(members, 120));
}

/* Reads a query by its table, and refuses unknown members. */
static pal_status read_query(
        pal_binding_call *call, const char *json, const pal_member_table *table, void *query)
{
    pal_json value;
    pal_str unknown = {0};
    pal_status status = pal_binding_parse(call, json, &value);
    if (status == PAL_OK)
        status = pal_members_read(table, 1, value, call->arena, query, &unknown, &call->err);
    if (status == PAL_OK && unknown.len)
        return refuse_unknown(call, unknown);
    return status;
}

static pal_status show_session(pal_binding_call *call, const char *name)
{
    pal_session session;
    pal_status status = pal_binding_session(call, name, &session);
    if (status == PAL_OK)
        status = pal_native_session_show(&call->writer, &session, &call->err);
    return status;
}

static pal_status create(pal_binding_call *call, const char *json)
{
    pal_json value, others, flag;
    pal_session session = {0};
    pal_op op;
    char id[PAL_ID_TEXT_SIZE];
    pal_status status = pal_binding_parse(call, json, &value);
    if (status == PAL_OK)
        status = pal_native_session_read(value, call->arena, &session, &call->err);
    if (status != PAL_OK)
        return status;
    session.tenant = call->binding->tenant;
    op = pal_op_create(&session);
    flag = pal_json_find(value, "or_find");
    if (pal_json_type_of(flag) != PAL_JSON_NONE && !pal_json_bool(flag, &op.u.create.or_find))
        return pal_member_wrong(&call->err, "or_find", flag, "true or false");
    if (session.extra.len) {
        status = pal_json_parse(call->arena, session.extra, NULL, &others, &call->err);
        if (status != PAL_OK)
            return status;
        if (pal_json_count(others) > (pal_json_type_of(flag) != PAL_JSON_NONE))
            return refuse_unknown(call, session.extra);
        session.extra = (pal_str){0};
    }
    status = pal_store_apply(call->binding->store, &op, 1, &call->err);
    if (status != PAL_OK)
        return status;
    if (op.status != PAL_OK) {
        call->err = op.error;
        return op.status;
    }
    pal_id_to_text(op.session, id);
    return show_session(call, id);
}

int pal_binding_create(pal_binding *binding, const char *session, char **out_json)
{
    pal_binding_call call;
    pal_binding_begin(&call, binding);
    return pal_binding_end(&call, create(&call, session), out_json);
}

int pal_binding_find(pal_binding *binding, const char *session, char **out_json)
{
    pal_binding_call call;
    pal_binding_begin(&call, binding);
    return pal_binding_end(&call, show_session(&call, session), out_json);
}

static pal_status read_state(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    pal_session_state *state = &((pal_session_query *)record)->state;
    *state = pal_session_state_from_name(pal_json_string(value, arena));
    if (*state == PAL_SESSION_NONE || *state == PAL_SESSION_ERASED)
        return pal_member_wrong(err, member->name, value, "active, trash or quarantined");
    return PAL_OK;
}

static pal_status list(pal_binding_call *call, const char *json)
{
    static const pal_member members[] = {
            {"state", PAL_MEMBER_OTHER, 1, .offset = offsetof(pal_session_query, state)},
            {"project", PAL_MEMBER_STRING, 1, .offset = offsetof(pal_session_query, project)},
            {"agent", PAL_MEMBER_STRING, 1, .offset = offsetof(pal_session_query, agent)},
            {"limit", PAL_MEMBER_U32, 1, .offset = offsetof(pal_session_query, limit)},
            {"cursor", PAL_MEMBER_STRING, 1, .offset = offsetof(pal_session_query, cursor)},
    };
    static const pal_member_table table = {
            members, sizeof members / sizeof *members, read_state, NULL};
    pal_session_query query = {.tenant = call->binding->tenant};
    pal_session_page page;
    pal_json_writer *writer = &call->writer;
    pal_status status = read_query(call, json, &table, &query);
    if (status == PAL_OK)
        status = pal_store_list(call->binding->store, &query, call->arena, &page, &call->err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(writer);
    pal_json_name(writer, "sessions");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < page.sessions_len; i++)
        status = pal_native_session_show(writer, &page.sessions[i], &call->err);
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", page.cursor.len > 0);
    pal_put_str_or_null(writer, "cursor", page.cursor);
    pal_json_end_object(writer);
    return status;
}

int pal_binding_list(pal_binding *binding, const char *query, char **out_json)
{
    pal_binding_call call;
    pal_binding_begin(&call, binding);
    return pal_binding_end(&call, list(&call, query), out_json);
}

/* ---- Messages ---- */

static pal_status append(pal_binding_call *call, const char *name, const char *json)
{
    pal_session session;
    pal_message *messages;
    size_t len;
    pal_json_writer *writer = &call->writer;
    pal_status status = pal_binding_session(call, name, &session);
    if (status == PAL_OK)
        status = pal_binding_messages(call, json, &messages, &len);
    if (status == PAL_OK)
        status = pal_store_append(call->binding->store, call->binding->tenant, session.id, messages,
                len, PAL_SEQ_ANY, &call->err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(writer);
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++) {
        pal_json_begin_object(writer);
        pal_put_id(writer, "id", messages[i].id);
        pal_put_count(writer, "seq", messages[i].seq);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    return PAL_OK;
}

int pal_binding_append(
        pal_binding *binding, const char *session, const char *messages, char **out_json)
{
    pal_binding_call call;
    pal_binding_begin(&call, binding);
    return pal_binding_end(&call, append(&call, session, messages), out_json);
}

static pal_status load(pal_binding_call *call, const char *name, const char *json)
{
    static const pal_member members[] = {
            {"after", PAL_MEMBER_U64, 1, .offset = offsetof(pal_message_query, after_seq)},
            {"before", PAL_MEMBER_U64, 1, .offset = offsetof(pal_message_query, before_seq)},
            {"limit", PAL_MEMBER_U32, 1, .offset = offsetof(pal_message_query, limit)},
            {"from_end", PAL_MEMBER_BOOL, 1, .offset = offsetof(pal_message_query, from_end)},
            {"hidden", PAL_MEMBER_BOOL, 1, .offset = offsetof(pal_message_query, hidden)},
    };
    static const pal_member_table table = {members, sizeof members / sizeof *members, NULL, NULL};
    pal_message_query query = {.limit = PAL_BINDING_MESSAGES_DEFAULT};
    pal_session session;
    pal_message_page page;
    pal_json_writer *writer = &call->writer;
    pal_status status = read_query(call, json, &table, &query);
    if (status == PAL_OK)
        status = pal_binding_session(call, name, &session);
    if (status == PAL_OK)
        status = pal_store_load(call->binding->store, call->binding->tenant, session.id, &query,
                call->arena, &page, &call->err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(writer);
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < page.len; i++)
        status = pal_native_message_put(writer, &page.items[i], &call->err);
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", page.has_more);
    pal_json_end_object(writer);
    return status;
}

int pal_binding_load(pal_binding *binding, const char *session, const char *query, char **out_json)
{
    pal_binding_call call;
    pal_binding_begin(&call, binding);
    return pal_binding_end(&call, load(&call, session, query), out_json);
}
