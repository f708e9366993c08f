/* server_import.c - see server_import.h.
 *
 * Operations wait in one array and go to the store together: a CREATE (or FORK) and an APPEND for
 * each session. The new session's id is chosen here, so that both can be in one batch. An append
 * that the store refuses is tried again message by message: one bad message costs only itself. */
#include "server/server_import.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/utf8.h"

#define OPS_MAX 1000
#define MESSAGES_FLUSH_AT 2000
#define BYTES_FLUSH_AT ((size_t)8 << 20)
#define KNOWN_PAGE 1000
#define MEDIA_TYPE_SHOWN 60
#define SESSION_MESSAGES_MAX ((size_t)1 << 30)

/* An operation with where its messages came from. */
typedef struct waiting {
    uint64_t *lines;   /* of each message */
    uint64_t *indexes; /* of each message in the session that is being imported, from 0 */
    size_t cap;
    uint64_t generation; /* of the session */
} waiting;

/* A mark's number there and here. */
typedef struct mark_pair {
    uint64_t theirs;
    uint64_t ours;
    bool inherited;
} mark_pair;

struct pal_import {
    pal_store *store;
    pal_str tenant;
    pal_error *err;
    pal_import_problem problem;
    void *user;
    pal_import_counts counts;
    pal_arena *arena;
    pal_op *ops;
    waiting *waits; /* one for each op */
    size_t ops_len;
    size_t messages_waiting;
    size_t bytes_waiting;

    /* The session that is being imported. */
    uint64_t generation; /* counts sessions; 0: none yet */
    pal_id id;
    pal_buf name;  /* its key, or its id as text */
    pal_buf title; /* as the store has it */
    bool is_native;
    bool is_fork;   /* here too: its first `shared` messages are the parent's */
    bool is_broken; /* nothing can be appended to it */
    bool drop_ids;  /* another session here has messages with these ids */
    bool ids_checked;
    uint64_t shared;
    size_t append_at; /* 1 + the op that takes its next message; 0: none yet */
    pal_buf seqs;     /* a uint64_t each: the seq here of each message; 0 where it was refused */
    pal_buf marks;    /* mark_pair each */
    uint64_t marks_known;
    uint64_t marks_seen;
    pal_arena *known_arena;
    pal_map known; /* id or client id -> known_make(), of what the session had before */
};

pal_import *pal_import_new(
        pal_store *store, pal_str tenant, pal_import_problem problem, void *user, pal_error *err)
{
    pal_import *import = pal_calloc(1, sizeof *import);
    if (!import)
        return NULL;
    import->store = store;
    import->tenant = tenant;
    import->err = err;
    import->problem = problem;
    import->user = user;
    pal_buf_init(&import->name, 65536);
    pal_buf_init(&import->title, 65536);
    pal_buf_init(&import->seqs, SESSION_MESSAGES_MAX);
    pal_buf_init(&import->marks, SESSION_MESSAGES_MAX);
    pal_map_init(&import->known);
    import->ops = pal_calloc(OPS_MAX, sizeof *import->ops);
    import->waits = pal_calloc(OPS_MAX, sizeof *import->waits);
    import->arena = pal_arena_new(0);
    import->known_arena = pal_arena_new(0);
    if (!import->ops || !import->waits || !import->arena || !import->known_arena) {
        pal_import_free(import);
        return NULL;
    }
    return import;
}

void pal_import_free(pal_import *import)
{
    if (!import)
        return;
    pal_buf_done(&import->name);
    pal_buf_done(&import->title);
    pal_buf_done(&import->seqs);
    pal_buf_done(&import->marks);
    pal_map_done(&import->known);
    pal_free(import->ops);
    pal_free(import->waits);
    pal_arena_free(import->arena);
    pal_arena_free(import->known_arena);
    pal_free(import);
}

pal_arena *pal_import_arena(pal_import *import)
{
    return import->arena;
}

bool pal_import_has_session(const pal_import *import)
{
    return import->generation > 0;
}

pal_id pal_import_session(const pal_import *import)
{
    return import->is_broken ? (pal_id){{0}} : import->id;
}

pal_import_counts pal_import_count(const pal_import *import)
{
    return import->counts;
}

static pal_status no_memory(pal_import *import)
{
    return pal_error_set(import->err, PAL_NO_MEMORY, "out of memory");
}

static void tell(pal_import *import, uint64_t line, const char *text)
{
    import->problem(line, text, import->user);
}

/* Whether a refusal concerns what was refused alone, and the import can go on. */
static bool is_about_input(pal_status status)
{
    return status == PAL_INVALID || status == PAL_LIMIT || status == PAL_CONFLICT ||
            status == PAL_NOT_FOUND;
}

/* ---- Flushing ---- */

static void remember_seqs(pal_import *import, const pal_op *op, const waiting *wait)
{
    if (wait->generation != import->generation)
        return;
    for (size_t i = 0; i < op->u.append.messages_len; i++) {
        uint64_t seq = op->u.append.messages[i].seq;
        memcpy(import->seqs.data + wait->indexes[i] * sizeof seq, &seq, sizeof seq);
    }
}

/* Bytes that neither the file nor the store has: a line of text takes their place, so that the
 * rest of the message is not lost with them. False when there is nothing to replace. */
static bool replace_blobs(pal_import *import, pal_part *parts, size_t parts_len)
{
    bool replaced = false;
    for (size_t i = 0; i < parts_len; i++) {
        pal_str media_type, data;
        pal_error why;
        char text[256];
        pal_part *part = &parts[i];
        if (part->parts_len && replace_blobs(import, part->parts, part->parts_len))
            replaced = true;
        if (!part->blob.len || part->data.len ||
                pal_store_blob_get(import->store, import->tenant, part->blob, import->arena,
                        &media_type, &data, &why) != PAL_NOT_FOUND)
            continue;
        snprintf(text, sizeof text, "[%s %.*s %.*s was not in the import]",
                pal_part_kind_name(part->kind),
                (int)pal_utf8_cut(part->media_type, MEDIA_TYPE_SHOWN),
                part->media_type.len ? part->media_type.data : "", PAL_STR_ARG(part->blob));
        *part = (pal_part){
                .kind = PAL_PART_TEXT, .text = pal_arena_copy(import->arena, pal_str_of(text))};
        replaced = true;
    }
    return replaced;
}

static pal_status append_one(
        pal_import *import, const pal_op *op, pal_message *message, uint64_t line, pal_error *err)
{
    pal_store *store = import->store;
    pal_status status =
            pal_store_append(store, op->tenant, op->session, message, 1, PAL_SEQ_ANY, err);
    if (status != PAL_NOT_FOUND || !replace_blobs(import, message->parts, message->parts_len))
        return status;
    tell(import, line, "an image or file is not in the export: a note stands in its place");
    return pal_store_append(store, op->tenant, op->session, message, 1, PAL_SEQ_ANY, err);
}

static pal_status append_singly(pal_import *import, pal_op *op, const waiting *wait)
{
    for (size_t i = 0; i < op->u.append.messages_len; i++) {
        pal_error why;
        pal_message *message = &op->u.append.messages[i];
        pal_status status = append_one(import, op, message, wait->lines[i], &why);
        if (status == PAL_OK) {
            import->counts.messages++;
            continue;
        }
        if (!is_about_input(status)) {
            *import->err = why;
            return status;
        }
        message->seq = 0;
        import->counts.failed++;
        tell(import, wait->lines[i], why.message);
    }
    remember_seqs(import, op, wait);
    return PAL_OK;
}

static pal_status finish_append(
        pal_import *import, pal_op *op, const waiting *wait, pal_id refused_session)
{
    if (op->status == PAL_OK) {
        import->counts.messages += op->u.append.messages_len;
        remember_seqs(import, op, wait);
        return PAL_OK;
    }
    if (pal_id_equal(op->session, refused_session)) {
        import->counts.failed += op->u.append.messages_len;
        return PAL_OK;
    }
    return append_singly(import, op, wait);
}

static pal_status finish_op(pal_import *import, size_t at, pal_id *refused_session)
{
    pal_op *op = &import->ops[at];
    bool makes = op->kind == PAL_OP_CREATE || op->kind == PAL_OP_FORK;
    if (op->status != PAL_OK && !is_about_input(op->status)) {
        *import->err = op->error;
        return op->status;
    }
    if (op->kind == PAL_OP_APPEND)
        return finish_append(import, op, &import->waits[at], *refused_session);
    if (op->status == PAL_OK) {
        import->counts.sessions += makes;
        return PAL_OK;
    }
    tell(import, 0, op->error.message);
    if (makes) {
        *refused_session = op->session;
        if (import->waits[at].generation == import->generation)
            import->is_broken = true;
    }
    return PAL_OK;
}

pal_status pal_import_flush(pal_import *import)
{
    pal_id refused_session = {{0}};
    pal_status status = PAL_OK;
    if (import->seqs.failure || import->marks.failure || pal_arena_failure(import->arena))
        return no_memory(import);
    if (import->ops_len)
        status = pal_store_apply(import->store, import->ops, import->ops_len, import->err);
    for (size_t i = 0; status == PAL_OK && i < import->ops_len; i++)
        status = finish_op(import, i, &refused_session);
    import->ops_len = 0;
    import->messages_waiting = 0;
    import->bytes_waiting = 0;
    import->append_at = 0;
    return status;
}

pal_status pal_import_settle(pal_import *import, size_t line_len)
{
    pal_status status = PAL_OK;
    import->bytes_waiting += line_len;
    if (import->messages_waiting >= MESSAGES_FLUSH_AT || import->bytes_waiting >= BYTES_FLUSH_AT ||
            import->ops_len > OPS_MAX / 2)
        status = pal_import_flush(import);
    if (status == PAL_OK && import->ops_len == 0)
        pal_arena_reset(import->arena);
    return status;
}

/* A new operation for the current session at the end of the batch. */
static pal_status add_op(pal_import *import, pal_op_kind kind, pal_op **out_op)
{
    pal_status status = PAL_OK;
    if (import->ops_len == OPS_MAX)
        status = pal_import_flush(import);
    if (status != PAL_OK)
        return status;
    import->waits[import->ops_len] = (waiting){.generation = import->generation};
    *out_op = &import->ops[import->ops_len++];
    **out_op = (pal_op){.kind = kind, .tenant = import->tenant, .session = import->id};
    return PAL_OK;
}

/* ---- Sessions ---- */

static pal_status find(pal_import *import, pal_find_by by, pal_str name, pal_session *out_session)
{
    return pal_store_find(
            import->store, import->tenant, by, name, import->arena, out_session, import->err);
}

static pal_status find_id(pal_import *import, pal_id id, pal_session *out_session)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_id_to_text(id, text);
    return find(import, PAL_FIND_ID, pal_str_of(text), out_session);
}

/* Whether what is about to be looked up may be in the batch that waits. */
static bool must_flush(const pal_import *import, const pal_session *session)
{
    if (!pal_id_is_none(session->parent_id))
        return true;
    for (size_t i = 0; i < import->ops_len; i++) {
        const pal_op *op = &import->ops[i];
        if (op->kind == PAL_OP_CREATE &&
                ((session->key.len && pal_str_equal(op->u.create.session->key, session->key)) ||
                        pal_id_equal(op->session, session->id)))
            return true;
    }
    return false;
}

/* What is remembered of a message: its seq, and of how many parts it was, in one word. */
#define KNOWN_PARTS_BITS 13 /* more than a message may have */

static void *known_make(const pal_message *message)
{
    return (void *)(uintptr_t)(message->seq << KNOWN_PARTS_BITS | message->parts_len);
}

static uint64_t known_seq_of(const void *known)
{
    return (uint64_t)(uintptr_t)known >> KNOWN_PARTS_BITS;
}

static size_t known_parts_of(const void *known)
{
    return (uintptr_t)known & (((uintptr_t)1 << KNOWN_PARTS_BITS) - 1);
}

static pal_status add_known(pal_import *import, const pal_message *message)
{
    void *seq = known_make(message);
    pal_str id = pal_arena_copy(import->known_arena,
            pal_str_make((const char *)message->id.bytes, sizeof message->id.bytes));
    pal_str client_id = pal_arena_copy(import->known_arena, message->client_id);
    if (pal_arena_failure(import->known_arena) != PAL_OK ||
            pal_map_set(&import->known, id, seq) != PAL_OK ||
            (client_id.len && pal_map_set(&import->known, client_id, seq) != PAL_OK))
        return no_memory(import);
    return PAL_OK;
}

static pal_status load_known(pal_import *import)
{
    pal_load load = {.limit = KNOWN_PAGE, .hidden = true};
    pal_messages page;
    pal_status status;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return no_memory(import);
    do {
        pal_arena_reset(arena);
        status = pal_store_load(
                import->store, import->tenant, import->id, &load, arena, &page, import->err);
        for (size_t i = 0; status == PAL_OK && i < page.len; i++) {
            load.after_seq = page.items[i].seq;
            status = add_known(import, &page.items[i]);
        }
    } while (status == PAL_OK && page.has_more);
    pal_arena_free(arena);
    return status;
}

static pal_status count_known_marks(pal_import *import)
{
    pal_mark *marks;
    size_t len;
    pal_status status = pal_store_marks(
            import->store, import->tenant, import->id, import->arena, &marks, &len, import->err);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        import->marks_known += !marks[i].inherited;
    return status;
}

static pal_status resume_session(pal_import *import, const pal_session *found)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    import->id = found->id;
    import->counts.sessions_known++;
    pal_buf_append_str(&import->title, found->title);
    if (found->state != PAL_SESSION_ACTIVE) {
        snprintf(text, sizeof text, "session '%.*s' is in the state '%s' here: left as it is",
                (int)import->name.len, import->name.data, pal_session_state_name(found->state));
        import->is_broken = true;
        tell(import, 0, text);
        return PAL_OK;
    }
    if (!pal_id_is_none(found->parent_id)) {
        import->is_fork = true;
        import->shared = found->fork_seq;
    }
    pal_status status = load_known(import);
    return status == PAL_OK ? count_known_marks(import) : status;
}

/* Names that other sessions here have are left out: they can't be had twice. */
static pal_status drop_taken_names(pal_import *import, pal_session *session)
{
    pal_session other;
    char text[PAL_ERROR_MESSAGE_MAX];
    size_t kept = 0;
    pal_status status = PAL_NOT_FOUND;
    if (session->key.len)
        status = find(import, PAL_FIND_KEY, session->key, &other);
    if (status == PAL_OK) {
        snprintf(text, sizeof text, "the key '%.*s' is another session's here: left out",
                (int)(session->key.len < 150 ? session->key.len : 150), session->key.data);
        tell(import, 0, text);
        session->key = pal_str_of(NULL);
    } else if (status != PAL_NOT_FOUND) {
        return status;
    }
    for (size_t i = 0; i < session->aliases_len; i++) {
        status = find(import, PAL_FIND_ALIAS, session->aliases[i], &other);
        if (status == PAL_NOT_FOUND)
            session->aliases[kept++] = session->aliases[i];
        else if (status != PAL_OK)
            return status;
    }
    session->aliases_len = kept;
    return PAL_OK;
}

/* A fork whose parent is here becomes a fork again; else it has all messages of its own. */
static pal_status has_parent(pal_import *import, const pal_session *session, bool *out_has)
{
    pal_session parent;
    *out_has = false;
    if (!import->is_native || pal_id_is_none(session->parent_id))
        return PAL_OK;
    pal_status status = find_id(import, session->parent_id, &parent);
    if (status == PAL_OK)
        *out_has = parent.last_seq >= session->fork_seq && parent.state == PAL_SESSION_ACTIVE;
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

static pal_status make_session(pal_import *import, pal_session *session)
{
    pal_op *op;
    pal_status status = import->is_native ? drop_taken_names(import, session) : PAL_OK;
    if (status == PAL_OK)
        status = has_parent(import, session, &import->is_fork);
    if (pal_id_is_none(session->id))
        session->id = pal_id_new();
    import->id = session->id;
    /* An expiry that has passed would send the session to the trash before it is read. */
    if (session->expires_at && session->expires_at <= pal_clock_now_ms())
        session->expires_at = 0;
    pal_buf_append_str(&import->title, session->title);
    if (status == PAL_OK)
        status = add_op(import, import->is_fork ? PAL_OP_FORK : PAL_OP_CREATE, &op);
    if (status != PAL_OK)
        return status;
    if (import->is_fork) {
        import->shared = session->fork_seq;
        op->u.fork.session = session;
        op->u.fork.parent = session->parent_id;
        op->u.fork.at_seq = session->fork_seq;
    } else {
        op->u.create.session = session;
    }
    return PAL_OK;
}

static void forget_session(pal_import *import)
{
    import->generation++;
    import->append_at = 0;
    import->is_fork = import->is_broken = import->drop_ids = import->ids_checked = false;
    import->shared = import->marks_known = import->marks_seen = 0;
    pal_buf_clear(&import->name);
    pal_buf_clear(&import->title);
    pal_buf_clear(&import->seqs);
    pal_buf_clear(&import->marks);
    pal_map_done(&import->known);
    pal_map_init(&import->known);
    pal_arena_reset(import->known_arena);
}

pal_status pal_import_begin(pal_import *import, const pal_session *given, bool is_native)
{
    char id[PAL_ID_TEXT_SIZE] = "";
    pal_session found;
    pal_session *session = pal_arena_alloc(import->arena, sizeof *session);
    if (!session)
        return no_memory(import);
    *session = *given;
    session->tenant = import->tenant;
    if (is_native)
        pal_id_to_text(session->id, id);
    pal_str name = is_native ? pal_str_of(id) : session->key;
    if (import->generation && name.len && pal_str_equal(pal_buf_str(&import->name), name))
        return PAL_OK;
    pal_status status = must_flush(import, session) ? pal_import_flush(import) : PAL_OK;
    if (status != PAL_OK)
        return status;
    forget_session(import);
    import->is_native = is_native;
    pal_buf_append_str(&import->name, name);
    status = PAL_NOT_FOUND;
    if (is_native)
        status = find_id(import, session->id, &found);
    else if (name.len)
        status = find(import, PAL_FIND_KEY, name, &found);
    if (status == PAL_OK)
        return resume_session(import, &found);
    return status == PAL_NOT_FOUND ? make_session(import, session) : status;
}

pal_status pal_import_title(pal_import *import, pal_str title)
{
    pal_op *op;
    if (!title.len || import->title.len || import->is_broken || !import->generation)
        return PAL_OK;
    pal_session *session = pal_arena_alloc(import->arena, sizeof *session);
    if (!session)
        return no_memory(import);
    pal_buf_append_str(&import->title, title);
    session->id = import->id;
    session->tenant = import->tenant;
    session->title = pal_arena_copy(import->arena, title);
    pal_status status = add_op(import, PAL_OP_UPDATE, &op);
    if (status != PAL_OK)
        return status;
    op->u.update.session = session;
    op->u.update.fields = PAL_FIELD_TITLE;
    return PAL_OK;
}

/* ---- Messages ---- */

/* Ids are the tenant's, not the session's: a fork that comes without its parent may meet its
 * messages in another fork. Then they get new ids, and their old ones become client ids. */
static pal_status check_ids(pal_import *import, const pal_message *message)
{
    pal_message other;
    pal_id session;
    pal_error why;
    import->ids_checked = true;
    if (!import->is_native || pal_id_is_none(message->id))
        return PAL_OK;
    pal_status status = pal_store_message(
            import->store, import->tenant, message->id, import->arena, &other, &session, &why);
    if (status == PAL_OK)
        import->drop_ids = !pal_id_equal(session, import->id);
    return PAL_OK;
}

static void name_message(pal_import *import, pal_message *message, uint64_t index)
{
    char text[64];
    char id[PAL_ID_TEXT_SIZE];
    if (import->drop_ids && !pal_id_is_none(message->id)) {
        pal_id_to_text(message->id, id);
        snprintf(text, sizeof text, "native:%s", id);
        message->id = (pal_id){{0}};
        if (!message->client_id.len)
            message->client_id = pal_arena_copy(import->arena, pal_str_of(text));
    } else if (pal_id_is_none(message->id) && !message->client_id.len) {
        snprintf(text, sizeof text, "import:%llu", (unsigned long long)index + 1);
        message->client_id = pal_arena_copy(import->arena, pal_str_of(text));
    }
}

static const void *known_find(const pal_import *import, const pal_message *message)
{
    const void *known = NULL;
    if (!pal_id_is_none(message->id))
        known = pal_map_find(&import->known,
                pal_str_make((const char *)message->id.bytes, sizeof message->id.bytes));
    if (!known && message->client_id.len)
        known = pal_map_find(&import->known, message->client_id);
    return known;
}

/* The seq of a message that is here already; 0 where there is something to append. A transcript may
 * have been read while its last answer was still being written: the parts that came later are then
 * a message of their own, "<client id>#<parts before>", and so on. */
static uint64_t known_seq(pal_import *import, pal_message *message)
{
    const void *known = known_find(import, message);
    char text[PAL_CLIENT_ID_LEN_MAX];

    while (known && message->client_id.len && known_parts_of(known) < message->parts_len) {
        size_t before = known_parts_of(known);
        int len = snprintf(text, sizeof text, "%.*s#%zu", PAL_STR_ARG(message->client_id), before);
        if (before == 0 || len < 0 || (size_t)len >= sizeof text)
            break;
        message->id = (pal_id){{0}};
        message->client_id = pal_arena_copy(import->arena, pal_str_make(text, (size_t)len));
        message->parts += before;
        message->parts_len -= before;
        known = known_find(import, message);
    }
    return known_seq_of(known);
}

static pal_status grow_append(pal_import *import, pal_op *op, waiting *wait)
{
    size_t len = op->u.append.messages_len;
    size_t cap = wait->cap ? wait->cap * 2 : 16;
    pal_message *messages = pal_arena_array(import->arena, cap, sizeof *messages);
    uint64_t *lines = pal_arena_array(import->arena, cap, sizeof *lines);
    uint64_t *indexes = pal_arena_array(import->arena, cap, sizeof *indexes);
    if (!messages || !lines || !indexes)
        return no_memory(import);
    if (len) {
        assert(wait->lines && wait->indexes);
        memcpy(messages, op->u.append.messages, len * sizeof *messages);
        memcpy(lines, wait->lines, len * sizeof *lines);
        memcpy(indexes, wait->indexes, len * sizeof *indexes);
    }
    op->u.append.messages = messages;
    wait->lines = lines;
    wait->indexes = indexes;
    wait->cap = cap;
    return PAL_OK;
}

static pal_status wait_message(
        pal_import *import, const pal_message *message, uint64_t index, uint64_t line)
{
    pal_op *op;
    pal_status status = PAL_OK;
    if (!import->append_at) {
        status = add_op(import, PAL_OP_APPEND, &op);
        if (status != PAL_OK)
            return status;
        op->u.append.expected_seq = PAL_SEQ_ANY;
        import->append_at = import->ops_len;
    }
    op = &import->ops[import->append_at - 1];
    waiting *wait = &import->waits[import->append_at - 1];
    if (op->u.append.messages_len == wait->cap)
        status = grow_append(import, op, wait);
    if (status != PAL_OK)
        return status;
    assert(wait->lines && wait->indexes);
    size_t at = op->u.append.messages_len++;
    op->u.append.messages[at] = *message;
    wait->lines[at] = line;
    wait->indexes[at] = index;
    import->messages_waiting++;
    return PAL_OK;
}

pal_status pal_import_message(pal_import *import, const pal_message *given, uint64_t line)
{
    pal_message message = *given;
    uint64_t index = import->seqs.len / sizeof index;
    uint64_t seq = 0;
    pal_status status = PAL_OK;
    if (import->is_broken) {
        import->counts.failed++;
        return PAL_OK;
    }
    if (import->is_fork && index < import->shared) {
        seq = index + 1;
    } else {
        if (!import->ids_checked)
            status = check_ids(import, &message);
        name_message(import, &message, index);
        seq = known_seq(import, &message);
    }
    pal_buf_append(&import->seqs, &seq, sizeof seq);
    if (status != PAL_OK || import->seqs.failure)
        return status != PAL_OK ? status : no_memory(import);
    if (seq) {
        import->counts.messages_known++;
        return PAL_OK;
    }
    return wait_message(import, &message, index, line);
}

/* ---- Marks ---- */

/* The seq here of the message at `place` (from 1), or of the nearest before it. */
static uint64_t seq_of(const pal_import *import, uint64_t place)
{
    uint64_t count = import->seqs.len / sizeof(uint64_t), seq = 0;
    if (place > count)
        place = count;
    for (; place > 0 && !seq; place--)
        memcpy(&seq, import->seqs.data + (place - 1) * sizeof seq, sizeof seq);
    return seq;
}

static uint64_t mark_here(const pal_import *import, const pal_mark *undo)
{
    mark_pair pair;
    for (size_t at = import->marks.len; at >= sizeof pair; at -= sizeof pair) {
        memcpy(&pair, import->marks.data + at - sizeof pair, sizeof pair);
        if (pair.theirs == undo->target && pair.inherited == undo->inherited)
            return pair.ours;
    }
    return 0;
}

static pal_status add_mark(pal_import *import, const pal_mark *given, uint64_t line, mark_pair pair)
{
    pal_error why;
    pal_status status = pal_import_flush(import);
    if (status != PAL_OK || import->is_broken)
        return status;
    pal_mark mark = {.kind = given->kind, .body = given->body};
    if (mark.kind == PAL_MARK_UNDO)
        mark.target = mark_here(import, given);
    else
        mark.seq = seq_of(import, given->seq);
    status = pal_store_mark(import->store, import->tenant, import->id, &mark, &why);
    if (status == PAL_OK) {
        import->counts.marks++;
        pair.ours = mark.number;
        pal_buf_append(&import->marks, &pair, sizeof pair);
    } else if (is_about_input(status)) {
        tell(import, line, why.message);
        status = PAL_OK;
    } else {
        *import->err = why;
    }
    return status;
}

pal_status pal_import_mark(pal_import *import, const pal_mark *given, uint64_t line)
{
    mark_pair pair = {.theirs = given->number, .inherited = given->inherited};
    if (import->is_broken || (given->inherited && import->is_fork))
        return PAL_OK;
    if (++import->marks_seen <= import->marks_known) {
        pair.ours = import->marks_seen;
        pal_buf_append(&import->marks, &pair, sizeof pair);
        return PAL_OK;
    }
    return add_mark(import, given, line, pair);
}

pal_status pal_import_mark_anew(pal_import *import, const pal_mark *given, uint64_t line)
{
    mark_pair pair = {.theirs = given->number, .inherited = given->inherited};
    return import->is_broken ? PAL_OK : add_mark(import, given, line, pair);
}
