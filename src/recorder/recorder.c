/* recorder.c - finds the place of a request in the sessions of its conversation, and appends what
 * is new. recorder.h explains how histories are compared.
 *
 * The record of a family lists its sessions, newest first. It is written in the batch that creates
 * a session, under its version. So two requests that create one at the same time do not lose a
 * session: the batch of one of them fails, and it looks for its place again. */
#include "recorder/recorder.h"

#include <string.h>
#include "base/buf.h"
#include "base/digest.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "palaver/store_batch.h"
#include "palaver/store_marks.h"
#include "palaver/store_records.h"

/* Searches for a place while other requests change the family. Each failed one means that another
 * request has succeeded, so this is the number of requests that can run at the same time. */
#define TRIES_MAX PAL_RECORDER_BRANCHES_MAX
#define NEWEST_TRIED 8   /* last messages of a request that are looked for one by one */
#define HASH_ID_BYTES 16 /* bytes of a hash that become the client id of a message */

/* The sessions of one conversation. */
typedef struct family {
    pal_id *sessions; /* newest first */
    size_t len;
    uint64_t version; /* version of the record; 0: there is no record */
} family;

typedef struct recording {
    pal_store *store;
    pal_arena *arena;
    pal_error *err;
    const pal_recorder_history *history;
    pal_message *messages;    /* the messages that count */
    pal_recorder_hash *hashes; /* hashes of the history up to each of them */
    size_t len;
} recording;

/* The longest known beginning of a request. */
typedef struct known_prefix {
    size_t len; /* messages of the request that are known */
    pal_session session;
    uint64_t seq; /* seq of the last known message; 0: nothing is known */
} known_prefix;

/* ---- Hashes ---- */

static pal_str client_id_of(const pal_recorder_hash *hash, pal_arena *arena)
{
    char text[2 * HASH_ID_BYTES + 1];
    pal_hex(hash->bytes, HASH_ID_BYTES, text);
    return pal_arena_copy(arena, pal_str_of(text));
}

/* Leaves out messages without content, such as those with nothing but reasoning. */
static pal_status hash_messages(recording *r)
{
    const pal_recorder_history *history = r->history;
    pal_recorder_hash hash = {0};
    r->messages = pal_arena_array(r->arena, history->messages_len + 1, sizeof *r->messages);
    r->hashes = pal_arena_array(r->arena, history->messages_len + 1, sizeof *r->hashes);
    if (!r->messages || !r->hashes)
        return pal_no_memory(r->err);
    for (size_t i = 0; i < history->messages_len; i++) {
        bool counts;
        pal_status status =
                pal_recorder_hash_add(&hash, &history->messages[i], r->arena, &counts, r->err);
        if (status != PAL_OK)
            return status;
        if (!counts)
            continue;
        r->messages[r->len] = history->messages[i];
        r->messages[r->len].client_id = client_id_of(&hash, r->arena);
        r->hashes[r->len++] = hash;
    }
    return pal_arena_checked(r->arena, r->err);
}

/* ---- The family ---- */

/* A session with the family's key can exist before anything is recorded. It is then the family's
 * first session. */
static pal_status adopt_session(const recording *r, family *out)
{
    pal_session session;
    pal_status status = pal_store_find(r->store, r->history->tenant, PAL_SESSION_BY_KEY,
            r->history->key, r->arena, &session, r->err);
    if (status != PAL_OK)
        return status == PAL_NOT_FOUND ? PAL_OK : status;
    out->sessions = pal_arena_array(r->arena, 1, sizeof *out->sessions);
    if (!out->sessions)
        return pal_no_memory(r->err);
    out->sessions[0] = session.id;
    out->len = 1;
    return PAL_OK;
}

static pal_status read_family(const recording *r, family *out)
{
    pal_record record;
    pal_json body, item;
    *out = (family){0};
    pal_status status = pal_store_record_find(r->store, r->history->tenant,
            pal_str_of(PAL_RECORDER_KIND), r->history->key, r->arena, &record, r->err);
    if (status == PAL_NOT_FOUND)
        return adopt_session(r, out);
    if (status != PAL_OK)
        return status;
    status = pal_json_parse(r->arena, record.body, NULL, &body, r->err);
    if (status != PAL_OK)
        return status;
    pal_json list = pal_json_find(body, "sessions");
    out->version = record.version;
    out->sessions = pal_arena_array(r->arena, pal_json_count(list) + 1, sizeof *out->sessions);
    if (!out->sessions)
        return pal_no_memory(r->err);
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &item);) {
        if (pal_id_from_text(pal_json_string(item, r->arena), &out->sessions[out->len]))
            out->len++;
    }
    return pal_arena_checked(r->arena, r->err);
}

/* The record of the family after `added` has joined it. */
static pal_status make_record(
        const recording *r, const family *f, pal_id root, pal_id added, pal_record *out)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "sessions");
    pal_json_begin_array(&writer);
    pal_id_to_text(added, text);
    pal_json_put_text(&writer, text);
    for (size_t i = 0; i < f->len && i + 1 < PAL_RECORDER_BRANCHES_MAX; i++) {
        pal_id_to_text(f->sessions[i], text);
        pal_json_put_text(&writer, text);
    }
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    *out = (pal_record){
            .kind = pal_str_of(PAL_RECORDER_KIND), .name = r->history->key, .session = root};
    pal_status status = pal_member_keep(&buf, r->arena, &out->body, r->err);
    pal_buf_done(&buf);
    return status;
}

/* ---- Finding the place ---- */

/* A session that was deleted or damaged takes no messages. */
static pal_status find_active(const recording *r, pal_id id, pal_session *out, bool *out_is_active)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_id_to_text(id, text);
    pal_status status = pal_store_find(r->store, r->history->tenant, PAL_SESSION_BY_ID,
            pal_str_of(text), r->arena, out, r->err);
    *out_is_active = status == PAL_OK && out->state == PAL_SESSION_ACTIVE;
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

/* Removes sessions that take no messages from the family. */
static pal_status keep_active(const recording *r, family *f)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->len; i++) {
        pal_session session;
        bool is_active;
        pal_status status = find_active(r, f->sessions[i], &session, &is_active);
        if (status != PAL_OK)
            return status;
        if (is_active)
            f->sessions[kept++] = f->sessions[i];
    }
    f->len = kept;
    return PAL_OK;
}

/* Looks for the history up to message number `len` in all sessions, newest first. out->len stays 0
 * if there is none. */
static pal_status find_prefix(const recording *r, const family *f, size_t len, known_prefix *out)
{
    *out = (known_prefix){0};
    for (size_t i = 0; i < f->len; i++) {
        pal_message message;
        bool is_active;
        pal_status status = pal_store_find_client_id(r->store, r->history->tenant, f->sessions[i],
                r->messages[len - 1].client_id, r->arena, &message, r->err);
        if (status == PAL_NOT_FOUND)
            continue;
        if (status != PAL_OK)
            return status;
        status = find_active(r, f->sessions[i], &out->session, &is_active);
        if (status != PAL_OK)
            return status;
        if (!is_active)
            continue;
        out->len = len;
        out->seq = message.seq;
        return PAL_OK;
    }
    return PAL_OK;
}

/* Finds the longest beginning of the request that is stored. Most requests continue the history
 * that the client sent just before, so the last messages are tried first. A session that has a
 * message also has those before it. So the others are found by bisection, however long the history
 * is. */
static pal_status find_known(const recording *r, const family *f, known_prefix *out)
{
    size_t low = 0, high = r->len; /* `low` messages are known, more than `high` are not */
    known_prefix found;
    pal_status status = PAL_OK;
    *out = (known_prefix){0};
    while (status == PAL_OK && low < high) {
        size_t len = r->len - high < NEWEST_TRIED ? high : low + (high - low + 1) / 2;
        status = find_prefix(r, f, len, &found);
        if (status == PAL_OK && found.len) {
            *out = found;
            low = len;
        } else {
            high = len - 1;
        }
    }
    return status;
}

/* ---- Writing ---- */

/* Appends messages, in parts if there are very many. */
static pal_status append(const recording *r, pal_id session, pal_message *messages, size_t len,
        uint64_t expected_seq)
{
    for (size_t at = 0; at < len;) {
        size_t part = len - at < PAL_APPEND_MESSAGES_MAX ? len - at : PAL_APPEND_MESSAGES_MAX;
        pal_status status = pal_store_append(r->store, r->history->tenant, session, messages + at,
                part, expected_seq, r->err);
        if (status != PAL_OK)
            return status;
        at += part;
        expected_seq = messages[at - 1].seq;
    }
    return PAL_OK;
}

/* PAL_CONFLICT: another request has changed the family meanwhile. */
static pal_status first_failure(const pal_op *ops, size_t len, pal_error *err)
{
    for (size_t i = 0; i < len; i++) {
        if (ops[i].status != PAL_OK)
            return pal_error_set(err, ops[i].status, "%s", ops[i].error.message);
    }
    return PAL_OK;
}

static pal_status find_empty(const recording *r, pal_id id, bool *out_is_empty)
{
    pal_session session;
    bool is_active;
    pal_status status = find_active(r, id, &session, &is_active);
    *out_is_empty = status == PAL_OK && is_active && session.last_seq == 0;
    return status;
}

/* Makes the operation that creates a session after `known`: the first one of the family, or a
 * branch of it. A fork without messages would have no parent, so it shares at least one message. */
static pal_op make_session(
        const family *f, const known_prefix *known, pal_id root, const pal_session *session)
{
    if (f->len == 0 && known->seq == 0)
        return pal_op_create(session);
    return pal_op_fork(
            session, known->seq ? known->session.id : root, known->seq ? known->seq : 1);
}

static pal_status apply(const recording *r, pal_op *ops, size_t len)
{
    for (size_t i = 1; i < len; i++)
        ops[i].with_previous = true;
    pal_status status = pal_store_apply(r->store, ops, len, r->err);
    return status == PAL_OK ? first_failure(ops, len, r->err) : status;
}

/* Creates the session for the messages after `known`: the first session of the family, which has
 * its key, or a branch. If the first session is there and empty, it takes the messages. One batch
 * creates the session, lists it, and appends.
 *
 * The record comes before a branch, so that a request that loses the race for the record leaves no
 * empty branch. The first session is guarded by its key. */
static pal_status write_session(
        const recording *r, const family *f, const known_prefix *known, pal_id *out_session)
{
    size_t rest = r->len - known->len, ops_len = 0;
    size_t part = rest < PAL_APPEND_MESSAGES_MAX ? rest : PAL_APPEND_MESSAGES_MAX;
    pal_message *messages = r->messages + known->len;
    pal_id id = pal_id_new();
    pal_id root = f->len ? f->sessions[f->len - 1] : id;
    pal_str tenant = r->history->tenant;
    const pal_session session = {.id = id,
            .tenant = tenant,
            .metadata = r->history->metadata,
            .key = f->len ? (pal_str){0} : r->history->key};
    const family none = {.version = f->version};
    pal_record record;
    pal_mark hide_all = {.kind = PAL_MARK_REWIND};
    uint64_t seq = known->seq;
    bool is_empty = false;
    pal_op ops[4];
    pal_status status = f->len && seq == 0 ? find_empty(r, root, &is_empty) : PAL_OK;
    if (status != PAL_OK)
        return status;
    if (is_empty)
        id = root;
    status = make_record(r, is_empty ? &none : f, root, id, &record);
    if (status != PAL_OK)
        return status;
    if (f->len == 0)
        ops[ops_len++] = make_session(f, known, root, &session);
    ops[ops_len++] = pal_op_record_put(tenant, &record, f->version);
    if (f->len && !is_empty)
        ops[ops_len++] = make_session(f, known, root, &session);
    if (f->len && !is_empty && seq == 0) {
        ops[ops_len++] = pal_op_mark(tenant, id, &hide_all);
        seq = 1;
    }
    if (part)
        ops[ops_len++] = pal_op_append(tenant, id, messages, part, seq);
    status = apply(r, ops, ops_len);
    *out_session = id;
    if (status != PAL_OK || part == rest)
        return status;
    return append(r, id, messages + part, rest - part, messages[part - 1].seq);
}

/* Appends what is new to the first session, whatever its last message is. */
static pal_status append_to_log(
        const recording *r, const family *f, const known_prefix *known, pal_recorder_place *place)
{
    place->session = f->sessions[f->len - 1];
    pal_status status = append(r, place->session, r->messages + known->len, r->len - known->len,
            PAL_SEQ_ANY);
    place->seq = r->messages[r->len - 1].seq;
    return status;
}

/* Looks for the place of the messages, and appends those that are not stored. */
static pal_status record_once(const recording *r, pal_recorder_place *place)
{
    family f;
    known_prefix known;
    pal_status status = read_family(r, &f);
    if (status != PAL_OK)
        return status;
    status = find_known(r, &f, &known);
    if (status != PAL_OK)
        return status;
    if (known.len == 0) {
        status = keep_active(r, &f);
        if (status != PAL_OK)
            return status;
    }
    place->appended = r->len - known.len;
    place->is_branch = false;
    place->session = known.session.id;
    if (known.len == r->len) { /* the answer decides whether there is a branch */
        place->seq = known.seq;
        return PAL_OK;
    }
    if (r->history->is_log && f.len)
        return append_to_log(r, &f, &known, place);
    if (known.len && known.seq == known.session.last_seq) {
        status = append(r, known.session.id, r->messages + known.len, place->appended, known.seq);
    } else {
        place->is_branch = f.len > 0;
        status = write_session(r, &f, &known, &place->session);
    }
    if (status != PAL_OK)
        return status;
    place->seq = r->messages[r->len - 1].seq;
    return PAL_OK;
}

/* Another request can change the family between the search and the write. Then the place is looked
 * for again. */
static pal_status record_messages(const recording *r, pal_recorder_place *place)
{
    pal_status status = PAL_CONFLICT;
    for (unsigned i = 0; i < TRIES_MAX && status == PAL_CONFLICT; i++)
        status = record_once(r, place);
    return status;
}

pal_status pal_recorder_request(pal_store *store, pal_recorder_history *history, pal_arena *arena,
        pal_recorder_place *out_place, pal_error *err)
{
    recording r = {.store = store, .arena = arena, .err = err, .history = history};
    pal_status status = hash_messages(&r);
    if (status != PAL_OK)
        return status;
    if (r.len == 0)
        return pal_error_set(err, PAL_INVALID, "the request has no messages to record");
    *out_place = (pal_recorder_place){.tenant = pal_arena_copy(arena, history->tenant),
            .key = pal_arena_copy(arena, history->key),
            .metadata = pal_arena_copy(arena, history->metadata),
            .hash = r.hashes[r.len - 1]};
    status = pal_arena_checked(arena, err);
    if (status != PAL_OK)
        return status;
    return record_messages(&r, out_place);
}
