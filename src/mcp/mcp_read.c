/* mcp_read.c - the tools that only read: list, read and search conversations. Models read
 * their results and have small windows, so every result is limited and says how to get the rest.
 * Tools block while the store works. All functions can be called from any thread. */
#include "base/json/json_put.h"
#include "base/utf8.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_text.h"
#include "dialect/openai/openai_id.h"
#include "mcp/mcp_internal.h"

#define LOAD_BYTES_MAX ((uint64_t)4 << 20) /* maximum size of the stored messages that are loaded
                                              for one page */

/* Returns the longest beginning of at most `max` bytes that does not cut a character. */
static pal_str cut(pal_str text, size_t max)
{
    return text.len > max ? pal_str_make(text.data, pal_utf8_cut(text, max)) : text;
}

/* ---- Conversations ---- */

void pal_mcp_put_conversation(pal_json_writer *writer, const pal_session *session)
{
    pal_put_id(writer, "id", session->id);
    pal_put_str_if(writer, "key", session->key);
    pal_put_str_if(writer, "title", session->title);
    pal_put_str_if(writer, "project", session->project);
    pal_put_str_if(writer, "agent", session->agent);
    pal_put_count(writer, "messages", session->last_seq);
    pal_put_time(writer, "created_at", session->created_at);
    pal_put_time(writer, "updated_at", session->updated_at);
}

pal_status pal_mcp_call_session(const pal_mcp_call *call, pal_session *out_session, pal_error *err)
{
    pal_id id;
    char id_text[PAL_ID_TEXT_SIZE];
    pal_str name = pal_mcp_call_text(call, "conversation"), asked = name;
    /* Uses the same form as the other APIs. */
    if (pal_openai_id_read(name, "conv_", &id)) {
        pal_id_to_text(id, id_text);
        asked = pal_str_of(id_text);
    }
    pal_status status = pal_store_find(call->host->options.store, call->peer->tenant,
            PAL_SESSION_BY_ANY, asked, call->arena, out_session, err);
    bool is_gone = status == PAL_NOT_FOUND ||
            (status == PAL_OK && out_session->state == PAL_SESSION_TRASH);
    if (!is_gone)
        return status;
    return pal_error_set(err, PAL_NOT_FOUND,
            "unknown conversation '%.*s'; use list_conversations to find it",
            PAL_STR_ARG(cut(name, 80)));
}

pal_status pal_mcp_list_conversations(pal_mcp_call *call, pal_error *err)
{
    pal_session_page page;
    pal_session_query query = {
            .tenant = call->peer->tenant,
            .project = pal_mcp_call_text(call, "project"),
            .agent = pal_mcp_call_text(call, "agent"),
            .updated_from = pal_mcp_call_time(call, "since"),
            .updated_to = pal_mcp_call_time(call, "until"),
            .limit = (uint32_t)pal_mcp_call_number(call, "limit"),
            .cursor = pal_mcp_call_text(call, "cursor"),
    };
    pal_status status = pal_store_list(call->host->options.store, &query, call->arena, &page, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(call->writer);
    pal_json_name(call->writer, "conversations");
    pal_json_begin_array(call->writer);
    for (size_t i = 0; i < page.sessions_len; i++) {
        pal_json_begin_object(call->writer);
        pal_mcp_put_conversation(call->writer, &page.sessions[i]);
        pal_json_end_object(call->writer);
    }
    pal_json_end_array(call->writer);
    pal_put_str_if(call->writer, "next_cursor", page.cursor);
    pal_json_end_object(call->writer);
    return PAL_OK;
}

/* ---- Messages ---- */

static void put_calls(pal_json_writer *writer, const pal_message *message)
{
    bool is_begun = false;
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (part->kind != PAL_PART_TOOL_CALL)
            continue;
        if (!is_begun) {
            pal_json_name(writer, "tool_calls");
            pal_json_begin_array(writer);
            is_begun = true;
        }
        pal_json_begin_object(writer);
        pal_put_str(writer, "name", part->name);
        pal_put_str(writer, "arguments", cut(part->arguments, PAL_MCP_HOST_PART_BYTES_MAX));
        pal_json_end_object(writer);
    }
    if (is_begun)
        pal_json_end_array(writer);
}

static void put_attachments(pal_json_writer *writer, const pal_message *message)
{
    bool is_begun = false;
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (part->kind != PAL_PART_IMAGE && part->kind != PAL_PART_FILE)
            continue;
        if (!is_begun) {
            pal_json_name(writer, "attachments");
            pal_json_begin_array(writer);
            is_begun = true;
        }
        pal_json_begin_object(writer);
        pal_put_text(writer, "kind", pal_part_kind_name(part->kind));
        pal_put_str_if(writer, "name", cut(part->name, PAL_MCP_HOST_PART_BYTES_MAX));
        pal_put_str_if(writer, "media_type", part->media_type);
        pal_put_str_if(writer, "url", cut(part->url, PAL_MCP_HOST_PART_BYTES_MAX));
        pal_json_end_object(writer);
    }
    if (is_begun)
        pal_json_end_array(writer);
}

/* `offset` is the position at which its text begins. */
static void put_message(pal_mcp_call *call, const pal_message *message, uint64_t offset)
{
    pal_json_writer *writer = call->writer;
    pal_str all = pal_dialect_text(message, call->arena);
    size_t from = offset < all.len ? pal_utf8_cut(all, (size_t)offset) : all.len;
    pal_str rest = pal_str_make(all.data ? all.data + from : NULL, all.len - from);
    pal_str text = cut(rest, PAL_MCP_HOST_TEXT_BYTES_MAX);
    pal_json_begin_object(writer);
    pal_put_count(writer, "seq", message->seq);
    pal_put_text(writer, "role", pal_role_name(message->role));
    pal_put_time(writer, "created_at", message->created_at);
    pal_put_str_if(writer, "model", message->model);
    pal_put_str(writer, "text", text);
    if (text.len < rest.len) {
        pal_put_count(writer, "text_bytes", all.len);
        pal_put_count(writer, "next_text_offset", from + text.len);
    }
    put_calls(writer, message);
    put_attachments(writer, message);
    pal_json_end_object(writer);
}

/* Estimates how much of a page the message needs. */
static size_t weight_of(const pal_message *message)
{
    size_t text = 0, others = 0;
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        size_t arguments = part->arguments.len;
        text += part->text.len;
        others += arguments < PAL_MCP_HOST_PART_BYTES_MAX ? arguments
                                                            : PAL_MCP_HOST_PART_BYTES_MAX;
    }
    return (text < PAL_MCP_HOST_TEXT_BYTES_MAX ? text : PAL_MCP_HOST_TEXT_BYTES_MAX) + others;
}

/* Keeps as many messages as fit, but at least one, from the requested end. */
static void fit_page(pal_message_page *page, bool from_end)
{
    size_t count = 0, bytes = 0;
    for (; count < page->len; count++) {
        size_t at = from_end ? page->len - 1 - count : count;
        bytes += weight_of(&page->items[at]);
        if (count && bytes > PAL_MCP_HOST_PAGE_BYTES_MAX)
            break;
    }
    if (count < page->len)
        page->has_more = true;
    if (from_end && page->len)
        page->items += page->len - count;
    page->len = count;
}

static bool is_given(const pal_mcp_call *call, const char *name)
{
    return pal_json_type_of(pal_json_find(call->arguments, name)) == PAL_JSON_NUMBER;
}

static pal_status load_page(
        pal_mcp_call *call, const pal_session *session, pal_message_page *out_page, pal_error *err)
{
    pal_message_query load = {
            .after_seq = pal_mcp_call_number(call, "after_seq"),
            .before_seq = pal_mcp_call_number(call, "before_seq"),
            .limit = (uint32_t)pal_mcp_call_number(call, "limit"),
            .bytes_max = LOAD_BYTES_MAX,
            .from_end = !is_given(call, "after_seq"),
    };
    pal_store *store = call->host->options.store;
    pal_status status = pal_store_load(
            store, call->peer->tenant, session->id, &load, call->arena, out_page, err);
    /* A single message that is larger than a page. */
    if (status == PAL_OK && out_page->len == 0 && out_page->has_more) {
        load.bytes_max = 0;
        load.limit = 1;
        status = pal_store_load(
                store, call->peer->tenant, session->id, &load, call->arena, out_page, err);
    }
    if (status == PAL_OK)
        fit_page(out_page, load.from_end);
    return status;
}

static void put_page(pal_mcp_call *call, const pal_session *session, const pal_message_page *page)
{
    pal_json_writer *writer = call->writer;
    uint64_t offset = pal_mcp_call_number(call, "text_offset");
    bool is_forward = is_given(call, "after_seq");
    pal_json_begin_object(writer);
    pal_json_name(writer, "conversation");
    pal_json_begin_object(writer);
    pal_mcp_put_conversation(writer, session);
    pal_json_end_object(writer);
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < page->len; i++)
        put_message(call, &page->items[i], i == 0 ? offset : 0);
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", page->has_more);
    if (page->has_more && page->len && is_forward)
        pal_put_count(writer, "next_after_seq", page->items[page->len - 1].seq);
    if (page->has_more && page->len && !is_forward)
        pal_put_count(writer, "next_before_seq", page->items[0].seq);
    pal_json_end_object(writer);
}

pal_status pal_mcp_read_conversation(pal_mcp_call *call, pal_error *err)
{
    pal_session session;
    pal_message_page page = {0};
    if (is_given(call, "text_offset") && !is_given(call, "after_seq"))
        return pal_error_set(err, PAL_INVALID,
                "'text_offset' requires 'after_seq', which is the seq before the truncated "
                "message");
    pal_status status = pal_mcp_call_session(call, &session, err);
    if (status == PAL_OK)
        status = load_page(call, &session, &page, err);
    if (status == PAL_OK) {
        put_page(call, &session, &page);
        status = pal_arena_checked(call->arena, err);
    }
    return status;
}

/* ---- Search ---- */

static void put_neighbors(pal_json_writer *writer, const pal_search_rank *rank)
{
    pal_json_name(writer, "neighbors");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < rank->neighbors_len; i++) {
        const pal_search_neighbor *neighbor = &rank->neighbors[i];
        pal_json_begin_object(writer);
        pal_put_count(writer, "seq", neighbor->seq);
        pal_put_text(writer, "role", pal_role_name(neighbor->role));
        pal_put_time(writer, "created_at", neighbor->created_at);
        pal_put_str(writer, "text", neighbor->text);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

/* Hits of one conversation are usually adjacent, so the last conversation is kept. */
static pal_status put_hit(
        pal_mcp_call *call, const pal_search_hit *hit, pal_session *session, pal_error *err)
{
    pal_json_writer *writer = call->writer;
    char id[PAL_ID_TEXT_SIZE];
    pal_id_to_text(hit->session, id);
    if (!pal_id_equal(session->id, hit->session)) {
        pal_status status = pal_store_find(call->host->options.store, call->peer->tenant,
                PAL_SESSION_BY_ID, pal_str_of(id), call->arena, session, err);
        /* The conversation may have been erased meanwhile. */
        if (status == PAL_NOT_FOUND)
            *session = (pal_session){.id = hit->session};
        else if (status != PAL_OK)
            return status;
    }
    pal_json_begin_object(writer);
    pal_put_text(writer, "conversation", id);
    pal_put_str_if(writer, "key", session->key);
    pal_put_str_if(writer, "title", session->title);
    pal_put_count(writer, "seq", hit->seq);
    pal_put_text(writer, "role", pal_role_name(hit->role));
    pal_put_time(writer, "created_at", hit->created_at);
    pal_put_str(writer, "snippet", cut(hit->snippet, PAL_MCP_HOST_PART_BYTES_MAX));
    if (hit->rank && hit->rank->neighbors_len > 0)
        put_neighbors(writer, hit->rank);
    pal_json_end_object(writer);
    return PAL_OK;
}

static uint64_t read_order(const pal_mcp_call *call)
{
    pal_str order = pal_mcp_call_text(call, "order");
    if (pal_str_is(order, "best"))
        return PAL_RANK_ALWAYS;
    return pal_str_is(order, "newest") ? PAL_RANK_NEVER : PAL_RANK_QUESTIONS;
}

pal_status pal_mcp_search_conversations(pal_mcp_call *call, pal_error *err)
{
    pal_search_page hits;
    pal_session session = {0};
    pal_status status = PAL_OK;
    pal_search_query search = {
            .tenant = call->peer->tenant,
            .text = pal_mcp_call_text(call, "query"),
            .role = pal_role_from_name(pal_mcp_call_text(call, "role")),
            .from = pal_mcp_call_time(call, "since"),
            .to = pal_mcp_call_time(call, "until"),
            .limit = (uint32_t)pal_mcp_call_number(call, "limit"),
            .cursor = pal_mcp_call_text(call, "cursor"),
            .wait_ms = PAL_SEARCH_WAIT_MS,
            .rank = read_order(call),
            .sender = pal_mcp_call_text(call, "sender"),
    };
    if (search.rank != PAL_RANK_NEVER)
        search.neighbors = pal_mcp_call_number(call, "neighbors");
    if (pal_mcp_call_text(call, "conversation").len) {
        status = pal_mcp_call_session(call, &session, err);
        search.session = session.id;
    }
    if (status == PAL_OK)
        status = pal_store_search(call->host->options.store, &search, call->arena, &hits, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(call->writer);
    pal_json_name(call->writer, "hits");
    pal_json_begin_array(call->writer);
    for (size_t i = 0; status == PAL_OK && i < hits.len; i++)
        status = put_hit(call, &hits.items[i], &session, err);
    pal_json_end_array(call->writer);
    pal_put_str_if(call->writer, "next_cursor", hits.cursor);
    if (hits.partial)
        pal_put_flag(call->writer, "partial", true);
    pal_json_end_object(call->writer);
    return status;
}
