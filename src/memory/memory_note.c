/* memory_note.c - adds, reads and changes notes.
 *
 * Every change is one commit. A note is written only if it still has the version that was read, so
 * of two changes at the same time one fails with PAL_CONFLICT. If a note supersedes another one,
 * the commit first marks the old note, and writes the new one only if that succeeded. So a crash
 * leaves either both or neither. */
#include "memory/memory_note.h"

#include <string.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/text.h"
#include "memory/memory_gate.h"
#include "store/search/search_rank.h"

#define MESSAGE_TEXT_MAX ((size_t)64 << 20)

/* ---- Checks ---- */

static pal_status too_long(const char *name, pal_str text, size_t max, pal_error *err)
{
    if (text.len <= max)
        return PAL_OK;
    return pal_error_set(err, PAL_LIMIT, "'%s' of %zu bytes exceeds the limit of %zu", name,
            text.len, max);
}

static bool is_subject(pal_str text)
{
    return pal_str_is(text, PAL_NOTE_TENANT) || pal_text_begins(text, "person:") ||
            pal_text_begins(text, "room:") || pal_text_begins(text, "session:");
}

static pal_status check_subject(const char *name, pal_str text, pal_error *err)
{
    pal_status status = too_long(name, text, PAL_NOTE_SUBJECT_LEN_MAX, err);

    if (status != PAL_OK || text.len == 0 || (is_subject(text) && !pal_text_has_control(text)))
        return status;
    return pal_error_set(err, PAL_INVALID,
            "'%s' is '%.*s'; expected tenant, person:NAME, room:NAME or session:ID", name,
            PAL_EXCERPT(text, 80));
}

static pal_status check_request(const pal_note_request *request, pal_error *err)
{
    pal_status status;

    if (pal_text_is_blank(request->text))
        return pal_error_set(err, PAL_INVALID, "'text' is missing; send one sentence");
    if (request->kind == PAL_NOTE_KIND_NONE || request->kind > PAL_NOTE_CONTEXT)
        return pal_error_set(err, PAL_INVALID, "'kind' is missing; send fact, preference, "
                "instruction, event or context");
    if (request->by == PAL_NOTE_BY_NONE || request->by > PAL_NOTE_BY_ADMIN)
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
    status = too_long("text", request->text, PAL_NOTE_TEXT_LEN_MAX, err);
    if (status == PAL_OK)
        status = too_long("quote", request->quote, PAL_NOTE_QUOTE_LEN_MAX, err);
    if (status == PAL_OK)
        status = check_subject("subject", request->subject, err);
    if (status == PAL_OK)
        status = check_subject("circle", request->circle, err);
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

static pal_status read_text(const pal_message *message, pal_arena *arena, pal_str *out_text,
        pal_error *err)
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
        status = read_text(&out_source->message, arena, &out_source->text, err);
    if (status == PAL_OK)
        find_person(out_source, &session, arena);
    return status;
}

/* Texts that Palaver or a client has put into the conversation were not said by a person. */
static bool is_said(const pal_message *message)
{
    return message->role == PAL_ROLE_USER && message->flags == 0;
}

/* ---- Notes that exist already ---- */

typedef struct known_list {
    pal_note *notes;
    pal_gate_known *known;
    size_t len;
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

static bool take_known(const pal_note *note, void *user)
{
    known_list *list = user;

    if (note->state != PAL_NOTE_ACTIVE || !pal_str_equal(note->subject, list->subject))
        return true;
    if (list->len == PAL_NOTES_MAX)
        return false;
    list->known[list->len] = (pal_gate_known){note->text, newest_source(note)};
    list->notes[list->len++] = *note;
    return true;
}

static pal_status read_known(pal_store *store, pal_str tenant, const pal_note *note,
        pal_arena *arena, known_list *out_list, pal_error *err)
{
    known_list list = {.subject = note->subject};
    pal_status status;

    list.notes = pal_arena_array(arena, PAL_NOTES_MAX, sizeof(*list.notes));
    list.known = pal_arena_array(arena, PAL_NOTES_MAX, sizeof(*list.known));
    if (!list.notes || !list.known)
        return pal_no_memory(err);
    status = pal_note_each(
            store, tenant, note->circle, (pal_str){0}, arena, take_known, &list, err);
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

/* Writes one note, or the note that is superseded and then the one that supersedes it. */
static pal_status commit(pal_store *store, pal_str tenant, pal_note *first, pal_note *second,
        pal_arena *arena, pal_error *err)
{
    pal_note *notes[2] = {first, second};
    pal_record records[2];
    pal_op ops[2];
    size_t len = second ? 2 : 1;
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        status = pal_note_to_record(notes[i], arena, &records[i], err);
        ops[i] = pal_op_record_put(tenant, &records[i], notes[i]->version);
        ops[i].with_previous = i > 0;
    }
    if (status == PAL_OK)
        status = pal_store_apply(store, ops, len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        if (ops[i].status == PAL_CONFLICT)
            return pal_error_set(err, PAL_CONFLICT,
                    "note '%.*s' was changed meanwhile; read it again",
                    PAL_EXCERPT(notes[i]->id, 80));
        if (ops[i].status != PAL_OK)
            return pal_error_set(err, ops[i].status, "%s", ops[i].error.message);
        notes[i]->version = records[i].version;
        notes[i]->updated_at = records[i].updated_at;
    }
    return status;
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
static pal_status support(pal_store *store, pal_str tenant, const source *of,
        const pal_note_request *request, pal_note *known, pal_arena *arena, bool *out_is_done,
        pal_error *err)
{
    pal_status status = PAL_OK;

    *out_is_done = pal_id_is_none(request->session) || has_source(known, of->message.id) ||
            (pal_id_equal(known->session, of->session) &&
                    known->sources_len >= PAL_NOTE_SOURCES_MAX);
    if (*out_is_done || !pal_id_equal(known->session, of->session))
        return PAL_OK;
    *out_is_done = true;
    status = add_source(known, of, request->quote, arena, err);
    if (status == PAL_OK)
        status = pal_note_log(known, "support", request->by, (pal_str){0},
                pal_store_clock_ms(store), arena, err);
    return status == PAL_OK ? commit(store, tenant, known, NULL, arena, err) : status;
}

static pal_status judge(const pal_note *note, const pal_note_request *request, const source *of,
        const known_list *list, pal_gate_result *out_result, pal_error *err)
{
    pal_gate_message message = {of->text, of->person, of->message.created_at,
            is_said(&of->message)};
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
static pal_status write_new(pal_store *store, pal_str tenant, pal_note *note, pal_note *old,
        pal_note_by by, pal_arena *arena, pal_error *err)
{
    int64_t now_ms = pal_store_clock_ms(store);
    pal_status status = make_id(note, arena, err);

    note->created_at = now_ms;
    if (status == PAL_OK)
        status = pal_note_log(note, "add", by, (pal_str){0}, now_ms, arena, err);
    if (status != PAL_OK)
        return status;
    if (!old)
        return commit(store, tenant, note, NULL, arena, err);
    note->replaces = old->id;
    if (note->state == PAL_NOTE_PENDING)
        return commit(store, tenant, note, NULL, arena, err);
    old->state = PAL_NOTE_SUPERSEDED;
    old->replaced_by = note->id;
    status = pal_note_log(old, "supersede", by, (pal_str){0}, now_ms, arena, err);
    return status == PAL_OK ? commit(store, tenant, old, note, arena, err) : status;
}

static pal_status find_replaced(pal_store *store, pal_str tenant, const pal_note *note,
        pal_str id, pal_arena *arena, pal_note *out_old, pal_error *err)
{
    pal_status status = pal_note_find(store, tenant, id, arena, out_old, err);

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
    return check_subject("subject", note->subject, err);
}

static pal_status add_note(pal_store *store, pal_str tenant, const pal_note_request *given,
        pal_arena *arena, pal_note_added *out_added, pal_error *err)
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
        status = read_source(store, tenant, &request, arena, &of, err);
    if (status == PAL_OK)
        status = place_note(&note, &request, &of, err);
    if (status == PAL_OK)
        status = read_known(store, tenant, &note, arena, &list, err);
    if (status == PAL_OK && request.replaces.len > 0)
        status = find_replaced(store, tenant, &note, request.replaces, arena, &old, err);
    if (status == PAL_OK)
        status = has_source ? judge(&note, &request, &of, &list, &result, err)
                            : judge_given(&note, &request, &list, &result);
    if (status == PAL_OK && result.outcome == PAL_GATE_REJECTED)
        status = reject(result.rule, err);
    if (status == PAL_OK && result.outcome == PAL_GATE_SUPPORT)
        status = support(
                store, tenant, &of, &request, &list.notes[result.supports], arena, &is_done, err);
    if (status == PAL_OK && is_done) {
        *out_added = (pal_note_added){
                .note = list.notes[result.supports], .is_support = true, .rule = result.rule};
        return PAL_OK;
    }
    if (status == PAL_OK && has_source)
        status = add_source(&note, &of, request.quote, arena, err);
    if (result.outcome == PAL_GATE_PENDING) {
        note.state = PAL_NOTE_PENDING;
        note.pending = pal_str_of(result.rule);
        note.expires_at = pal_store_clock_ms(store) + PAL_NOTE_PENDING_MS;
    } else if (result.keep_ms > 0 && note.expires_at == 0) {
        note.expires_at = pal_store_clock_ms(store) + result.keep_ms;
    }
    if (status == PAL_OK)
        status = write_new(
                store, tenant, &note, request.replaces.len ? &old : NULL, request.by, arena, err);
    if (status == PAL_OK)
        *out_added = (pal_note_added){.note = note, .rule = result.rule};
    return status;
}

/* The source may have been erased since it was read, with the notes that rested on it then. */
static pal_status check_source(pal_store *store, pal_str tenant, const pal_note_request *request,
        pal_arena *arena, pal_error *err)
{
    pal_message_query load = {.after_seq = request->seq - 1,
            .before_seq = request->seq + 1,
            .limit = 1,
            .hidden = true};
    pal_message_page page = {.len = 0};
    pal_status status = pal_store_load(store, tenant, request->session, &load, arena, &page, err);

    if (status != PAL_OK || page.len == 0 || !(page.items[0].flags & PAL_MESSAGE_FLAG_ERASED))
        return status;
    status = pal_note_erase_message(
            store, tenant, request->session, request->seq, NULL, NULL, err);
    return status == PAL_OK
            ? pal_error_set(err, PAL_NOT_FOUND, "message %llu was erased meanwhile",
                      (unsigned long long)request->seq)
            : status;
}

pal_status pal_note_add(pal_store *store, pal_str tenant, const pal_note_request *given,
        pal_arena *arena, pal_note_added *out_added, pal_error *err)
{
    pal_status status = add_note(store, tenant, given, arena, out_added, err);

    if (status == PAL_OK && !pal_id_is_none(given->session))
        status = check_source(store, tenant, given, arena, err);
    return status;
}

/* ---- Reading ---- */

pal_status pal_note_find(pal_store *store, pal_str tenant, pal_str id, pal_arena *arena,
        pal_note *out_note, pal_error *err)
{
    pal_record record;
    pal_status status = PAL_NOT_FOUND;

    if (id.len > 0 && id.len <= PAL_RECORD_NAME_LEN_MAX && !pal_text_has_control(id))
        status = pal_store_record_find(
                store, tenant, pal_str_of(PAL_NOTE_RECORD), id, arena, &record, err);
    if (status == PAL_NOT_FOUND)
        return pal_error_set(
                err, PAL_NOT_FOUND, "note '%.*s' does not exist", PAL_EXCERPT(id, 80));
    return status == PAL_OK ? pal_note_from_record(&record, arena, out_note, err) : status;
}

typedef struct note_lister {
    const pal_note_query *query;
    const pal_rank_query *words; /* NULL: no text */
    pal_note *items;
    double *scores;
    size_t len, cap;
    size_t max;
    bool has_more;
    bool has_no_memory;
} note_lister;

static bool is_wanted(const pal_note_query *query, const pal_note *note)
{
    return (query->subject.len == 0 || pal_str_equal(query->subject, note->subject)) &&
            (query->state == 0 || query->state == note->state) &&
            (query->kind == 0 || query->kind == note->kind);
}

/* A note has one sentence, so a word counts once, and longer words are taken as rarer. */
static double score_of(const pal_rank_query *words, pal_str text, bool *has_no_memory)
{
    uint8_t counts[PAL_RANK_TERMS_MAX];
    uint32_t len;
    uint64_t found = 0;
    double score = 0;
    pal_buf normal;

    pal_buf_init(&normal, SIZE_MAX / 4);
    pal_words_normal(text, &normal);
    *has_no_memory |= normal.failure != PAL_OK;
    if (!normal.failure)
        found = pal_rank_tally(words, pal_buf_str(&normal), counts, &len);
    for (uint64_t mask = found; mask; mask &= mask - 1)
        score += (double)words->terms[__builtin_ctzll(mask)].text.len;
    pal_buf_done(&normal);
    return score;
}

static bool keep_note(note_lister *lister, const pal_note *note, double score)
{
    size_t at = lister->len, scores_cap = lister->cap;

    if (!pal_reserve(&lister->items, &lister->cap, lister->len + 1, sizeof(*lister->items)) ||
            !pal_reserve(&lister->scores, &scores_cap, lister->cap, sizeof(*lister->scores))) {
        lister->has_no_memory = true;
        return false;
    }
    while (at > 0 && lister->words &&
            (lister->scores[at - 1] < score ||
                    (lister->scores[at - 1] == score &&
                            lister->items[at - 1].updated_at < note->updated_at)))
        at--;
    memmove(&lister->items[at + 1], &lister->items[at],
            (lister->len - at) * sizeof(*lister->items));
    memmove(&lister->scores[at + 1], &lister->scores[at],
            (lister->len - at) * sizeof(*lister->scores));
    lister->items[at] = *note;
    lister->scores[at] = score;
    if (lister->len < lister->max)
        lister->len++;
    else
        lister->has_more = true;
    return true;
}

static bool take_note(const pal_note *note, void *user)
{
    note_lister *lister = user;
    double score = 1;

    if (!is_wanted(lister->query, note))
        return true;
    if (lister->words)
        score = score_of(lister->words, note->text, &lister->has_no_memory);
    if (score == 0 || lister->has_no_memory)
        return !lister->has_no_memory;
    if (!lister->words && lister->len == lister->max) {
        lister->has_more = true;
        return false;
    }
    return keep_note(lister, note, score);
}

static pal_status check_query(pal_note_query *query, pal_error *err)
{
    if (query->limit == 0)
        query->limit = PAL_RECORD_PAGE_DEFAULT;
    if (query->limit > PAL_NOTE_PAGE_MAX)
        return pal_error_set(err, PAL_LIMIT, "a page of %u notes exceeds the limit of %d",
                query->limit, PAL_NOTE_PAGE_MAX);
    if (query->text.len > 0 && query->after.len > 0)
        return pal_error_set(err, PAL_INVALID, "a search for notes has one page only");
    if (query->after.len > PAL_RECORD_NAME_LEN_MAX)
        return pal_error_set(err, PAL_INVALID, "'after' is not the id of a note");
    return check_subject("subject", query->subject, err);
}

/* Lists the circles by the beginnings of their ids, as a list of the tenant does. */
static pal_status list_circles(
        pal_store *store, const pal_note_query *query, pal_arena *arena, note_lister *lister,
        pal_error *err)
{
    pal_str last = query->after;
    pal_status status = PAL_OK;

    if (query->circles_len == 0)
        return pal_note_each(
                store, query->tenant, (pal_str){0}, query->after, arena, take_note, lister, err);
    for (size_t round = 0; status == PAL_OK && round < query->circles_len; round++) {
        pal_str next = {0}, circle = {0};

        if (lister->has_more && !lister->words)
            break;

        for (size_t i = 0; i < query->circles_len; i++) {
            pal_str prefix = pal_note_prefix(query->circles[i], arena);
            bool is_later = pal_text_compare(prefix, last) > 0 ||
                    (round == 0 && pal_text_begins_str(last, prefix));

            if (prefix.len == 0)
                return pal_no_memory(err);
            if (is_later && (next.len == 0 || pal_text_compare(prefix, next) < 0)) {
                next = prefix;
                circle = query->circles[i];
            }
        }
        if (next.len == 0)
            break;
        status = pal_note_each(
                store, query->tenant, circle, query->after, arena, take_note, lister, err);
        last = next;
    }
    return status;
}

pal_status pal_note_list(pal_store *store, const pal_note_query *given, pal_arena *arena,
        pal_note_page *out_page, pal_error *err)
{
    pal_note_query query = *given;
    note_lister lister = {.query = &query};
    pal_rank_query *words = NULL;
    pal_status status = check_query(&query, err);

    if (status == PAL_OK && query.text.len > 0)
        status = pal_rank_query_read(query.text, arena, &words, err);
    if (status != PAL_OK)
        return status;
    lister.words = words;
    lister.max = query.limit;
    status = list_circles(store, &query, arena, &lister, err);
    if (status == PAL_OK && lister.has_no_memory)
        status = pal_no_memory(err);
    if (status == PAL_OK) {
        pal_note_page page = {.len = lister.len, .has_more = lister.has_more};

        page.items = pal_arena_array(arena, lister.len + 1, sizeof(*page.items));
        if (page.items && lister.len > 0)
            memcpy(page.items, lister.items, lister.len * sizeof(*page.items));
        *out_page = page;
        status = pal_arena_checked(arena, err);
    }
    pal_free(lister.items);
    pal_free(lister.scores);
    return status;
}

/* ---- Changing ---- */

static pal_status wrong_state(const pal_note *note, const char *act, pal_error *err)
{
    return pal_error_set(err, PAL_CONFLICT, "note '%.*s' is %s and cannot be %s",
            PAL_EXCERPT(note->id, 80), pal_note_state_name(note->state), act);
}

/* Finds the note at the other end of a replacement, if it still is in the given state. */
static pal_status find_other(pal_store *store, pal_str tenant, pal_str id, pal_note_state state,
        pal_arena *arena, pal_note *out_other, bool *out_is_there, pal_error *err)
{
    pal_status status = id.len ? pal_note_find(store, tenant, id, arena, out_other, err)
                               : PAL_NOT_FOUND;

    *out_is_there = status == PAL_OK && out_other->state == state;
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

static pal_status retract(pal_store *store, pal_str tenant, pal_note *note, pal_note_by by,
        pal_str reason, pal_arena *arena, pal_error *err)
{
    pal_status status;

    if (note->state != PAL_NOTE_ACTIVE && note->state != PAL_NOTE_PENDING)
        return wrong_state(note, "retracted", err);
    note->state = PAL_NOTE_RETRACTED;
    status = pal_note_log(
            note, "retract", by, reason, pal_store_clock_ms(store), arena, err);
    return status == PAL_OK ? commit(store, tenant, note, NULL, arena, err) : status;
}

static pal_status restore(pal_store *store, pal_str tenant, pal_note *note, pal_note_by by,
        pal_str reason, pal_arena *arena, pal_error *err)
{
    int64_t now_ms = pal_store_clock_ms(store);
    pal_note other;
    bool has_other;
    pal_status status;

    if (note->state != PAL_NOTE_SUPERSEDED && note->state != PAL_NOTE_RETRACTED)
        return wrong_state(note, "restored", err);
    status = find_other(store, tenant, note->replaced_by, PAL_NOTE_ACTIVE, arena, &other,
            &has_other, err);
    if (status != PAL_OK)
        return status;
    note->state = PAL_NOTE_ACTIVE;
    note->replaced_by = (pal_str){0};
    note->pending = (pal_str){0};
    note->expires_at = 0;
    status = pal_note_log(note, "restore", by, reason, now_ms, arena, err);
    if (status != PAL_OK || !has_other)
        return status == PAL_OK ? commit(store, tenant, note, NULL, arena, err) : status;
    other.state = PAL_NOTE_RETRACTED;
    status = pal_note_log(&other, "retract", by, reason, now_ms, arena, err);
    return status == PAL_OK ? commit(store, tenant, &other, note, arena, err) : status;
}

static pal_status confirm(pal_store *store, pal_str tenant, pal_note *note, pal_note_by by,
        pal_str reason, pal_arena *arena, pal_error *err)
{
    int64_t now_ms = pal_store_clock_ms(store);
    pal_note other;
    bool has_other;
    pal_status status;

    if (note->state != PAL_NOTE_PENDING)
        return wrong_state(note, "confirmed", err);
    status = find_other(
            store, tenant, note->replaces, PAL_NOTE_ACTIVE, arena, &other, &has_other, err);
    if (status != PAL_OK)
        return status;
    note->state = PAL_NOTE_ACTIVE;
    note->pending = (pal_str){0};
    note->expires_at = 0;
    status = pal_note_log(note, "confirm", by, reason, now_ms, arena, err);
    if (status != PAL_OK || !has_other)
        return status == PAL_OK ? commit(store, tenant, note, NULL, arena, err) : status;
    other.state = PAL_NOTE_SUPERSEDED;
    other.replaced_by = note->id;
    status = pal_note_log(&other, "supersede", by, reason, now_ms, arena, err);
    return status == PAL_OK ? commit(store, tenant, &other, note, arena, err) : status;
}

pal_status pal_note_change_state(pal_store *store, pal_str tenant, pal_str id, pal_note_act act,
        pal_note_by by, pal_str reason, pal_arena *arena, pal_note *out_note, pal_error *err)
{
    pal_note note;
    pal_status status = too_long("reason", reason, PAL_NOTE_REASON_LEN_MAX, err);

    if (status == PAL_OK)
        status = pal_note_find(store, tenant, id, arena, &note, err);
    if (status != PAL_OK)
        return status;
    if (act == PAL_NOTE_RETRACT)
        status = retract(store, tenant, &note, by, reason, arena, err);
    else if (act == PAL_NOTE_RESTORE)
        status = restore(store, tenant, &note, by, reason, arena, err);
    else if (act == PAL_NOTE_CONFIRM)
        status = confirm(store, tenant, &note, by, reason, arena, err);
    else
        status = pal_error_set(err, PAL_INVALID, "'act' is not a value of pal_note_act");
    if (status == PAL_OK)
        *out_note = note;
    return status;
}

/* ---- Erasing ---- */

pal_status pal_note_erase(pal_store *store, pal_str tenant, pal_str id, pal_error *err)
{
    pal_status status = PAL_NOT_FOUND;

    if (id.len > 0 && id.len <= PAL_RECORD_NAME_LEN_MAX && !pal_text_has_control(id))
        status = pal_store_record_drop(store, tenant, pal_str_of(PAL_NOTE_RECORD), id, err);
    if (status == PAL_NOT_FOUND)
        return pal_error_set(
                err, PAL_NOT_FOUND, "note '%.*s' does not exist", PAL_EXCERPT(id, 80));
    return status;
}

typedef struct eraser {
    pal_str subject;
    pal_str *ids;
    size_t len, cap;
    pal_arena *arena;
    bool has_no_memory;
} eraser;

static bool take_id(const pal_note *note, void *user)
{
    eraser *of = user;

    if (!pal_str_equal(note->subject, of->subject))
        return true;
    of->has_no_memory = !pal_reserve(&of->ids, &of->cap, of->len + 1, sizeof(*of->ids));
    if (!of->has_no_memory)
        of->ids[of->len++] = note->id;
    return !of->has_no_memory;
}

pal_status pal_note_erase_subject(
        pal_store *store, pal_str tenant, pal_str subject, uint64_t *out_erased, pal_error *err)
{
    eraser of = {.subject = subject, .arena = pal_arena_new(0)};
    uint64_t erased = 0;
    pal_status status = check_subject("subject", subject, err);

    if (status == PAL_OK && subject.len == 0)
        status = pal_error_set(err, PAL_INVALID, "'subject' is missing");
    if (status == PAL_OK && !of.arena)
        status = pal_no_memory(err);
    if (status == PAL_OK)
        status = pal_note_each(
                store, tenant, (pal_str){0}, (pal_str){0}, of.arena, take_id, &of, err);
    if (status == PAL_OK && of.has_no_memory)
        status = pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && i < of.len; i++) {
        status = pal_note_erase(store, tenant, of.ids[i], err);
        erased += status == PAL_OK;
        if (status == PAL_NOT_FOUND)
            status = PAL_OK;
    }
    if (status == PAL_OK && out_erased)
        *out_erased = erased;
    pal_free(of.ids);
    pal_arena_free(of.arena);
    return status;
}
