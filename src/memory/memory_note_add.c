/* memory_note_add.c - adds notes. A proposal is judged by the gate, with its source and with the
 * notes that exist, and then written in one commit, or put into a batch that is written later as
 * one commit. A note is written only if it still has the version that was read, so of two
 * changes at the same time one fails with PAL_CONFLICT. If a note supersedes another one, both
 * are in the same commit. */
#include "memory/memory_note.h"

#include <string.h>

#include "base/json/json.h"
#include "base/text.h"
#include "memory/memory_gate.h"
#include "palaver/store_admin.h"

#define MESSAGE_TEXT_MAX ((size_t)64 << 20)

/* ---- Checks ---- */

static pal_status check_request(const pal_note_request *request, pal_error *err)
{
    pal_status status;

    if (pal_text_is_blank(request->text))
        return pal_error_set(err, PAL_INVALID, "'text' is missing; send one sentence");
    if (request->kind == PAL_NOTE_KIND_NONE || request->kind > PAL_NOTE_CONTEXT)
        return pal_error_set(err, PAL_INVALID, "'kind' is missing; send fact, preference, "
                "instruction, event or context");
    if (request->by == PAL_NOTE_BY_NONE || request->by > PAL_NOTE_BY_EXTRACTED)
        return pal_error_set(err, PAL_INVALID, "'by' is not a value of pal_note_by");
    if (request->expires_at < 0)
        return pal_error_set(err, PAL_INVALID, "'expires_at' is before 1970");
    if (request->by != PAL_NOTE_BY_ADMIN && request->circle.len > 0)
        return pal_error_set(err, PAL_DENIED, "only an admin can choose the circle of a note");
    if (pal_id_is_none(request->session) && request->by != PAL_NOTE_BY_ADMIN)
        return pal_error_set(err, PAL_DENIED,
                "no_source: a note needs a message as its source; only an admin can add one "
                "without");
    if (pal_id_is_none(request->session) && (request->seq > 0 || request->quote.len > 0))
        return pal_error_set(err, PAL_INVALID, "a source requires a session");
    if (pal_id_is_none(request->session) && request->subject.len == 0)
        return pal_error_set(err, PAL_INVALID, "'subject' is missing; send tenant, person:NAME, "
                "room:NAME or session:ID");
    status = pal_note_check_len("text", request->text, PAL_NOTE_TEXT_LEN_MAX, err);
    if (status == PAL_OK)
        status = pal_note_check_len("quote", request->quote, PAL_NOTE_QUOTE_LEN_MAX, err);
    if (status == PAL_OK)
        status = pal_note_check_subject("subject", request->subject, err);
    if (status == PAL_OK)
        status = pal_note_check_subject("circle", request->circle, err);
    return status;
}

/* ---- The source ---- */

typedef struct source {
    pal_note_place place;
    pal_message message;
    pal_id session; /* the session that the message was appended to; a fork only shares it */
    pal_str text;
    pal_str person;
} source;

static pal_str extra_string(const pal_message *message, const char *name, pal_arena *arena)
{
    pal_json extra;

    if (message->extra.len == 0 ||
            pal_json_parse(arena, message->extra, NULL, &extra, NULL) != PAL_OK)
        return (pal_str){0};
    return pal_json_string(pal_json_find(extra, name), arena);
}

pal_status pal_note_message_text(
        const pal_message *message, pal_arena *arena, pal_str *out_text, pal_error *err)
{
    pal_buf buf;

    pal_buf_init(&buf, MESSAGE_TEXT_MAX);
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind != PAL_PART_TEXT)
            continue;
        pal_buf_append_text(&buf, buf.len > 0 ? "\n" : "");
        pal_buf_append_str(&buf, message->parts[i].text);
    }
    *out_text = pal_arena_copy(arena, pal_buf_str(&buf));
    if (buf.failure) {
        pal_buf_done(&buf);
        return pal_no_memory(err);
    }
    pal_buf_done(&buf);
    return pal_arena_checked(arena, err);
}

static pal_str channel_of(const pal_session *session, pal_arena *arena)
{
    pal_json scope;

    if (session->scope.len == 0 ||
            pal_json_parse(arena, session->scope, NULL, &scope, NULL) != PAL_OK)
        return (pal_str){0};
    return pal_json_string(pal_json_find(scope, "channel"), arena);
}

/* A direct chat is one person's. In a group, the message says who wrote it. */
static void find_person(source *of, const pal_session *session, pal_arena *arena)
{
    pal_str sender = extra_string(&of->message, "sender", arena);

    if (of->place.is_direct)
        of->person = of->place.subject;
    else if (sender.len > 0)
        of->person = pal_note_person(channel_of(session, arena), sender, arena);
}

pal_str pal_note_speaker(const pal_note_place *place, const pal_message *message, pal_arena *arena)
{
    pal_str sender = extra_string(message, "sender", arena);

    return sender.len > 0 || !place->is_direct
            ? sender
            : pal_note_person_name(place->subject);
}

static pal_status read_source(pal_store *store, pal_str tenant, const pal_note_request *request,
        pal_arena *arena, source *out_source, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_session session;
    pal_message_page page = {.len = 0};
    pal_message_query load = {
            .after_seq = request->seq - 1, .before_seq = request->seq + 1, .limit = 1};
    pal_status status;

    pal_id_to_text(request->session, id);
    if (request->seq == 0)
        return pal_error_set(err, PAL_INVALID,
                "'seq' is missing; send the seq of the message that the note rests on");
    status = pal_store_find(
            store, tenant, PAL_SESSION_BY_ID, pal_str_of(id), arena, &session, err);
    if (status == PAL_OK)
        status = pal_note_place_of(&session, arena, &out_source->place, err);
    if (status == PAL_OK)
        status = pal_store_load(store, tenant, request->session, &load, arena, &page, err);
    if (status == PAL_OK && page.len == 0)
        status = pal_error_set(err, PAL_NOT_FOUND, "session '%s' shows no message with seq %llu",
                id, (unsigned long long)request->seq);
    if (status == PAL_OK)
        status = pal_store_message(store, tenant, page.items[0].id, arena, &out_source->message,
                &out_source->session, err);
    if (status == PAL_OK)
        status = pal_note_message_text(&out_source->message, arena, &out_source->text, err);
    if (status == PAL_OK)
        find_person(out_source, &session, arena);
    return status;
}

/* Texts that Palaver or a client has put into the conversation were not said by a person. */
bool pal_note_is_said(const pal_message *message)
{
    return message->role == PAL_ROLE_USER && message->flags == 0;
}

/* Where notes are added. */
typedef struct adding {
    pal_store *store;
    pal_str tenant;
    pal_arena *arena;
    pal_note_batch *batch; /* NULL: every note is written at once */
    bool is_asked;         /* every new note waits until it is confirmed */
} adding;

/* ---- Notes that exist already ---- */

typedef struct known_list {
    pal_note *notes;
    pal_gate_known *known;
    size_t len;
    pal_note *gone; /* notes that a person has retracted */
    size_t gone_len;
    pal_str subject;
} known_list;

static int64_t newest_source(const pal_note *note)
{
    int64_t newest = note->sources_len > 0 ? 0 : note->created_at;

    for (size_t i = 0; i < note->sources_len; i++)
        if (note->sources[i].said_at > newest)
            newest = note->sources[i].said_at;
    return newest;
}

static bool is_retracted_by_person(const pal_note *note)
{
    return note->state == PAL_NOTE_RETRACTED && note->changes_len > 0 &&
            (note->changes[note->changes_len - 1].by == PAL_NOTE_BY_PERSON ||
                    note->changes[note->changes_len - 1].by == PAL_NOTE_BY_ADMIN);
}

static bool take_known(const pal_note *note, void *user)
{
    known_list *list = user;

    if (is_retracted_by_person(note) && pal_str_equal(note->subject, list->subject) &&
            list->gone_len < PAL_NOTES_MAX)
        list->gone[list->gone_len++] = *note;
    if (note->state != PAL_NOTE_ACTIVE || !pal_str_equal(note->subject, list->subject))
        return true;
    if (list->len == PAL_NOTES_MAX)
        return false;
    list->known[list->len] = (pal_gate_known){note->text, newest_source(note)};
    list->notes[list->len++] = *note;
    return true;
}

static void apply_batch(const adding *to, const pal_note *note, known_list *list);

static pal_status read_known(
        const adding *to, const pal_note *note, known_list *out_list, pal_error *err)
{
    known_list list = {.subject = note->subject};
    pal_status status;

    list.notes = pal_arena_array(to->arena, PAL_NOTES_MAX, sizeof(*list.notes));
    list.known = pal_arena_array(to->arena, PAL_NOTES_MAX, sizeof(*list.known));
    list.gone = pal_arena_array(to->arena, PAL_NOTES_MAX, sizeof(*list.gone));
    if (!list.notes || !list.known || !list.gone)
        return pal_no_memory(err);
    status = pal_note_each(to->store, to->tenant, note->circle, (pal_str){0}, to->arena, take_known,
            &list, err);
    apply_batch(to, note, &list);
    *out_list = list;
    return status;
}

/* ---- Adding ---- */

static pal_status make_id(pal_note *note, pal_arena *arena, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_str parts[2] = {pal_note_prefix(note->circle, arena)};

    pal_id_to_text(pal_id_new(), id);
    parts[1] = pal_str_of(id);
    note->id = pal_note_join(arena, parts, 2);
    return parts[0].len ? pal_arena_checked(arena, err) : pal_no_memory(err);
}

static pal_status add_source(
        pal_note *note, const source *of, pal_str quote, pal_arena *arena, pal_error *err)
{
    size_t len = note->sources_len;
    pal_note_source *sources = pal_arena_array(arena, len + 1, sizeof(*sources));

    if (!sources)
        return pal_no_memory(err);
    if (len > 0)
        memcpy(sources, note->sources, len * sizeof(*sources));
    sources[len] = (pal_note_source){.message = of->message.id,
            .seq = of->message.seq,
            .said_at = of->message.created_at,
            .quote = quote};
    note->sources = sources;
    note->sources_len = len + 1;
    return PAL_OK;
}

/* ---- Batches ---- */

static void put_into(pal_note_batch *batch, const pal_note *note)
{
    size_t at = 0;

    while (at < batch->len && !pal_str_equal(batch->notes[at].id, note->id))
        at++;
    if (at == PAL_NOTE_BATCH_MAX) {
        batch->is_full = true;
        return;
    }
    batch->notes[at] = *note;
    batch->len += at == batch->len;
}

static const pal_note *find_in(const pal_note_batch *batch, pal_str id)
{
    for (size_t i = 0; batch && i < batch->len; i++)
        if (pal_str_equal(batch->notes[i].id, id))
            return &batch->notes[i];
    return NULL;
}

pal_status pal_note_batch_ops(pal_note_batch *batch, pal_str tenant, size_t room, pal_arena *arena,
        pal_op **out_ops, size_t *out_len, pal_error *err)
{
    pal_record *records = pal_arena_array(arena, batch->len + 1, sizeof(*records));
    pal_op *ops = pal_arena_array(arena, batch->len + room, sizeof(*ops));

    if (!records || !ops)
        return pal_no_memory(err);
    if (batch->is_full)
        return pal_error_set(err, PAL_LIMIT, "more than %d notes change at once",
                PAL_NOTE_BATCH_MAX);
    for (size_t i = 0; i < batch->len; i++) {
        pal_status status = pal_note_to_record(&batch->notes[i], arena, &records[i], err);

        if (status != PAL_OK)
            return status;
        ops[i] = pal_op_record_put(tenant, &records[i], batch->notes[i].version);
    }
    *out_ops = ops;
    *out_len = batch->len;
    return PAL_OK;
}

/* Writes one or two notes now, or puts them into the batch. */
static pal_status write(const adding *to, pal_note *first, pal_note *second, pal_error *err)
{
    if (!to->batch)
        return pal_note_commit(to->store, to->tenant, first, second, to->arena, err);
    put_into(to->batch, first);
    if (second)
        put_into(to->batch, second);
    return PAL_OK;
}

/* Makes the list as it will be when the batch is written. */
static void apply_batch(const adding *to, const pal_note *note, known_list *list)
{
    for (size_t i = 0; to->batch && i < to->batch->len; i++) {
        const pal_note *changed = &to->batch->notes[i];
        size_t at = 0;

        if (!pal_str_equal(changed->circle, note->circle))
            continue;
        while (at < list->len && !pal_str_equal(list->notes[at].id, changed->id))
            at++;
        if (at < list->len) {
            list->len--;
            memmove(&list->notes[at], &list->notes[at + 1],
                    (list->len - at) * sizeof(*list->notes));
            memmove(&list->known[at], &list->known[at + 1],
                    (list->len - at) * sizeof(*list->known));
        }
        take_known(changed, list);
    }
}

static bool has_source(const pal_note *note, pal_id message)
{
    for (size_t i = 0; i < note->sources_len; i++)
        if (pal_id_equal(note->sources[i].message, message))
            return true;
    return false;
}

/* Adds the source to a note that says the same. Sources of another session would have to be erased
 * with that session, so they make a note of their own: *out_is_done is false. */
static pal_status support(const adding *to, const source *of, const pal_note_request *request,
        pal_note *known, bool *out_is_done, pal_error *err)
{
    pal_status status = PAL_OK;

    *out_is_done = pal_id_is_none(request->session) || has_source(known, of->message.id) ||
            (pal_id_equal(known->session, of->session) &&
                    known->sources_len >= PAL_NOTE_SOURCES_MAX);
    if (*out_is_done || !pal_id_equal(known->session, of->session))
        return PAL_OK;
    *out_is_done = true;
    status = add_source(known, of, request->quote, to->arena, err);
    if (status == PAL_OK)
        status = pal_note_log(known, "support", request->by, (pal_str){0},
                pal_store_clock_ms(to->store), to->arena, err);
    return status == PAL_OK ? write(to, known, NULL, err) : status;
}

static pal_status judge(const pal_note *note, const pal_note_request *request, const source *of,
        const known_list *list, pal_gate_result *out_result, pal_error *err)
{
    pal_gate_message message = {of->text, of->person, of->message.created_at,
            pal_note_is_said(&of->message)};
    pal_gate_case proposal = {.text = note->text,
            .quote = request->quote,
            .kind = note->kind,
            .subject = note->subject,
            .place = of->place.subject,
            .messages = &message,
            .messages_len = 1,
            .known = list->known,
            .known_len = list->len,
            .is_replacing = request->replaces.len > 0,
            .replaces = list->len,
            .system = request->system};

    for (size_t i = 0; i < list->len; i++)
        if (pal_str_equal(list->notes[i].id, request->replaces))
            proposal.replaces = i;
    return pal_gate_judge(&proposal, out_result, err);
}

/* An admin's note needs no source. It still gets no copy of an equal one, and no secret. */
static pal_status judge_given(const pal_note *note, const pal_note_request *request,
        const known_list *list, pal_gate_result *out_result)
{
    *out_result = (pal_gate_result){.outcome = PAL_GATE_ACTIVE};
    if (list->len >= PAL_NOTES_MAX && request->replaces.len == 0)
        *out_result = (pal_gate_result){.outcome = PAL_GATE_REJECTED, .rule = "limit"};
    for (size_t i = 0; i < list->len; i++)
        if (pal_str_equal(list->notes[i].text, note->text))
            *out_result = (pal_gate_result){
                    .outcome = PAL_GATE_SUPPORT, .rule = "support", .supports = i};
    return PAL_OK;
}

static pal_status reject(const char *rule, pal_error *err)
{
    static const struct {
        const char *rule, *why;
    } list[] = {
            {"limit", "the note has too many words, or its subject has too many notes"},
            {"no_source", "the source is not a message that a user wrote"},
            {"not_said", "the quote does not occur in the source"},
            {"other_person", "the subject is not the sender of the source"},
            {"secret", "the note contains a password, a key or an account number"},
            {"system_text", "the note repeats the instructions of the model"},
    };

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        if (strcmp(list[i].rule, rule) == 0)
            return pal_error_set(err, strcmp(rule, "limit") == 0 ? PAL_LIMIT : PAL_DENIED,
                    "%s: %s", rule, list[i].why);
    return pal_error_set(err, PAL_DENIED, "%s: the note was rejected", rule);
}

/* Writes a new note; with `old`, the note that it supersedes is marked in the same commit. A
 * pending note supersedes nothing before it is confirmed. */
static pal_status write_new(
        const adding *to, pal_note *note, pal_note *old, pal_note_by by, pal_error *err)
{
    int64_t now_ms = pal_store_clock_ms(to->store);
    pal_status status = make_id(note, to->arena, err);

    note->created_at = now_ms;
    if (status == PAL_OK)
        status = pal_note_log(note, "add", by, (pal_str){0}, now_ms, to->arena, err);
    if (status != PAL_OK)
        return status;
    if (!old)
        return write(to, note, NULL, err);
    note->replaces = old->id;
    if (note->state == PAL_NOTE_PENDING)
        return write(to, note, NULL, err);
    old->state = PAL_NOTE_SUPERSEDED;
    old->replaced_by = note->id;
    status = pal_note_log(old, "supersede", by, (pal_str){0}, now_ms, to->arena, err);
    return status == PAL_OK ? write(to, old, note, err) : status;
}

static pal_status find_note(const adding *to, pal_str id, pal_note *out_note, pal_error *err)
{
    const pal_note *changed = find_in(to->batch, id);

    if (!changed)
        return pal_note_find(to->store, to->tenant, id, to->arena, out_note, err);
    *out_note = *changed;
    return PAL_OK;
}

static pal_status find_replaced(
        const adding *to, const pal_note *note, pal_str id, pal_note *out_old, pal_error *err)
{
    pal_status status = find_note(to, id, out_old, err);

    if (status != PAL_OK)
        return status;
    if (!pal_str_equal(out_old->subject, note->subject) ||
            !pal_str_equal(out_old->circle, note->circle))
        return pal_error_set(err, PAL_NOT_FOUND, "there is no note '%.*s' about this subject",
                PAL_EXCERPT(id, 80));
    if (out_old->state != PAL_NOTE_ACTIVE)
        return pal_error_set(err, PAL_CONFLICT, "note '%.*s' is %s; only active notes are replaced",
                PAL_EXCERPT(id, 80), pal_note_state_name(out_old->state));
    return PAL_OK;
}

/* Sets what the source says of the note. */
static pal_status place_note(pal_note *note, const pal_note_request *request, const source *of,
        pal_error *err)
{
    if (!pal_id_is_none(request->session)) {
        note->session = of->session;
        note->subject = of->person.len ? of->person : of->place.subject;
        note->circle = of->place.subject;
    }
    if (request->subject.len > 0)
        note->subject = request->subject;
    if (request->circle.len > 0)
        note->circle = request->circle;
    if (note->circle.len == 0)
        note->circle = note->subject;
    return pal_note_check_subject("subject", note->subject, err);
}

/* Nobody has to take the same thing back twice. */
static pal_status ask_again(const known_list *list, const pal_note *note,
        const pal_note_request *request, pal_gate_result *result, pal_error *err)
{
    pal_status status = PAL_OK;

    if (request->by == PAL_NOTE_BY_ADMIN || result->outcome != PAL_GATE_ACTIVE)
        return PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < list->gone_len; i++) {
        bool is_same = false;

        status = pal_gate_says_same(note->text, list->gone[i].text, &is_same, err);
        if (is_same)
            *result = (pal_gate_result){.outcome = PAL_GATE_PENDING, .rule = "retracted"};
    }
    return status;
}

static void set_state(const adding *to, const pal_gate_result *result, pal_note *note)
{
    int64_t now_ms = pal_store_clock_ms(to->store);
    bool is_pending = result->outcome == PAL_GATE_PENDING || to->is_asked;

    if (is_pending) {
        note->state = PAL_NOTE_PENDING;
        note->pending = pal_str_of(
                result->outcome == PAL_GATE_PENDING ? result->rule : "asked");
        note->expires_at = now_ms + PAL_NOTE_PENDING_MS;
    } else if (result->keep_ms > 0 && note->expires_at == 0) {
        note->expires_at = now_ms + result->keep_ms;
    }
}

static pal_status add_note(const adding *to, const pal_note_request *given,
        pal_note_added *out_added, pal_error *err)
{
    pal_note_request request = *given;
    pal_note note = {.text = pal_text_trim(given->text),
            .kind = given->kind,
            .by = given->by,
            .state = PAL_NOTE_ACTIVE,
            .expires_at = given->expires_at};
    bool has_source = !pal_id_is_none(given->session), is_done = false;
    source of = {.text = {0}};
    known_list list = {.len = 0};
    pal_gate_result result = {.outcome = PAL_GATE_ACTIVE};
    pal_note old = {.state = PAL_NOTE_STATE_NONE};
    pal_status status = check_request(&request, err);

    if (request.quote.len == 0 && has_source)
        request.quote = note.text;
    if (status == PAL_OK && has_source)
        status = read_source(to->store, to->tenant, &request, to->arena, &of, err);
    if (status == PAL_OK)
        status = place_note(&note, &request, &of, err);
    if (status == PAL_OK)
        status = read_known(to, &note, &list, err);
    if (status == PAL_OK && request.replaces.len > 0)
        status = find_replaced(to, &note, request.replaces, &old, err);
    if (status == PAL_OK)
        status = has_source ? judge(&note, &request, &of, &list, &result, err)
                            : judge_given(&note, &request, &list, &result);
    if (status == PAL_OK)
        status = ask_again(&list, &note, &request, &result, err);
    if (status == PAL_OK && result.outcome == PAL_GATE_REJECTED)
        status = reject(result.rule, err);
    if (status == PAL_OK && result.outcome == PAL_GATE_SUPPORT)
        status = support(to, &of, &request, &list.notes[result.supports], &is_done, err);
    if (status == PAL_OK && is_done) {
        *out_added = (pal_note_added){
                .note = list.notes[result.supports], .is_support = true, .rule = result.rule};
        return PAL_OK;
    }
    if (status == PAL_OK && has_source)
        status = add_source(&note, &of, request.quote, to->arena, err);
    if (status != PAL_OK)
        return status;
    set_state(to, &result, &note);
    status = write_new(to, &note, request.replaces.len ? &old : NULL, request.by, err);
    if (status == PAL_OK)
        *out_added = (pal_note_added){.note = note, .rule = result.rule};
    return status;
}

pal_status pal_note_check_source(pal_store *store, pal_str tenant, pal_id session, uint64_t seq,
        pal_arena *arena, pal_error *err)
{
    pal_message_query load = {
            .after_seq = seq - 1, .before_seq = seq + 1, .limit = 1, .hidden = true};
    pal_message_page page = {.len = 0};
    pal_status status = pal_store_load(store, tenant, session, &load, arena, &page, err);

    if (status != PAL_OK || page.len == 0 || !(page.items[0].flags & PAL_MESSAGE_FLAG_ERASED))
        return status;
    status = pal_note_erase_message(store, tenant, session, seq, NULL, NULL, err);
    return status == PAL_OK ? pal_error_set(err, PAL_NOT_FOUND, "message %llu was erased meanwhile",
                                      (unsigned long long)seq)
                            : status;
}

pal_status pal_note_add_to(pal_store *store, pal_str tenant, const pal_note_request *request,
        bool is_asked, pal_note_batch *batch, pal_arena *arena, pal_note_added *out_added,
        pal_error *err)
{
    adding to = {store, tenant, arena, batch, is_asked};

    return add_note(&to, request, out_added, err);
}

pal_status pal_note_retract_to(pal_store *store, pal_str tenant, pal_str id,
        const pal_note_request *request, pal_note_batch *batch, pal_arena *arena, pal_error *err)
{
    adding to = {store, tenant, arena, batch, false};
    source of = {.text = {0}};
    bool is_said = false, is_about = false;
    pal_note note;
    pal_status status = find_note(&to, id, &note, err);

    if (status == PAL_OK)
        status = read_source(store, tenant, request, arena, &of, err);
    if (status != PAL_OK)
        return status;
    if (note.state != PAL_NOTE_ACTIVE)
        return pal_error_set(err, PAL_CONFLICT, "conflict: the note is not active");
    if (!pal_note_is_said(&of.message))
        return reject("no_source", err);
    if (!pal_str_equal(note.circle, of.place.subject) ||
            (!pal_str_equal(note.subject, of.person) &&
                    !pal_str_equal(note.subject, of.place.subject)))
        return reject("other_person", err);
    status = pal_gate_may_retract(
            note.text, of.text, request->quote, &is_said, &is_about, err);
    if (status != PAL_OK)
        return status;
    if (!is_said)
        return reject("not_said", err);
    if (!is_about || of.message.created_at < newest_source(&note))
        return pal_error_set(err, PAL_DENIED,
                "conflict: the note is newer, or about something else");
    note.state = PAL_NOTE_RETRACTED;
    status = pal_note_log(&note, "retract", request->by, (pal_str){0}, pal_store_clock_ms(store),
            arena, err);
    return status == PAL_OK ? write(&to, &note, NULL, err) : status;
}

pal_status pal_note_add(pal_store *store, pal_str tenant, const pal_note_request *given,
        pal_arena *arena, pal_note_added *out_added, pal_error *err)
{
    pal_status status = pal_note_add_to(
            store, tenant, given, false, NULL, arena, out_added, err);

    if (status == PAL_OK && !pal_id_is_none(given->session))
        status = pal_note_check_source(store, tenant, given->session, given->seq, arena, err);
    return status;
}
