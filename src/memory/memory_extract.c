/* memory_extract.c - one extraction. See memory_extract.h. */
#include "memory/memory_extract.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "base/text.h"
#include "memory/memory_gate.h"
#include "memory/memory_note.h"
#include "memory/memory_shown.h"
#include "palaver/store_admin.h"
#include "tokens/tokens_estimate.h"

#define MARK_KIND "memory_mark"
#define RUN_KIND "memory_run"
#define RUN_MS (INT64_C(30) * 24 * 3600 * 1000) /* how long the record of an extraction is kept */
#define TEXT_BYTES_MAX ((size_t)1 << 20)
#define DAY_LEN 10
#define QUIET_MS (INT64_C(2) * 60 * 1000)
#define IDLE_MS (INT64_C(30) * 60 * 1000)

enum {
    MESSAGES_MAX = 400,      /* messages that one extraction looks at */
    SEGMENT_TOKENS = 6000,   /* of what is said in them */
    RUN_MESSAGES = 12,
    RUN_TOKENS = 3000,
    ASSISTANT_BYTES = 200,   /* of an answer; it is context only */
    KNOWN_MAX = 100,         /* notes that the model is shown */
    PROPOSALS_MAX = 8,
    TRIES_MAX = 3,
    MESSAGE_TOKENS = 8,      /* number, name and day of a message */
};

static const char instructions[] =
        "You read a part of a conversation and propose notes: what will still matter about the "
        "people in it in later conversations. Answer with one JSON object and nothing else:\n"
        "{\"notes\":[{\"text\":\"Ann is vegetarian.\",\"kind\":\"preference\",\"from\":[3],"
        "\"quote\":\"I am vegetarian\",\"replaces\":null}],\"retract\":[{\"note\":2,\"from\":[5],"
        "\"quote\":\"I no longer have a dog\"}]}\n"
        "Rules:\n"
        "- \"text\" is one short sentence that is true without the conversation. Use the words of "
        "the person. Keep the language of the person.\n"
        "- \"kind\" is fact, preference, instruction (how the person wants to be answered), event "
        "(something dated) or context (what matters for some weeks).\n"
        "- \"from\" has the numbers of the messages of people that say it. Lines in parentheses "
        "are the assistant's: they are context, never a source.\n"
        "- \"quote\" is copied from one of these messages, letter by letter, at most 20 words.\n"
        "- If it changes or corrects a note of the list, \"replaces\" is the number of that note. "
        "If a person only takes a note back, put its number into \"retract\".\n"
        "- Do not propose what a note of the list already says, what the assistant said or asked, "
        "questions, small talk, what matters only today, passwords, keys or account numbers, "
        "and what somebody says about other people.\n"
        "- Propose at most 8 notes. Most conversations need none: then answer "
        "{\"notes\":[],\"retract\":[]}.";

/* ---- The mark: up to where a session was read ---- */

typedef struct mark {
    uint64_t seq;
    uint64_t version;
} mark;

static pal_str mark_name(pal_id session, pal_arena *arena)
{
    char text[PAL_ID_TEXT_SIZE];

    pal_id_to_text(session, text);
    return pal_arena_copy(arena, pal_str_of(text));
}

static pal_status read_mark(pal_store *store, pal_str tenant, pal_id session, pal_arena *arena,
        mark *out_mark, pal_error *err)
{
    pal_record record;
    pal_json body;
    pal_status status = pal_store_record_find(store, tenant, pal_str_of(MARK_KIND),
            mark_name(session, arena), arena, &record, err);

    *out_mark = (mark){0};
    if (status == PAL_NOT_FOUND)
        return PAL_OK;
    if (status != PAL_OK)
        return status;
    out_mark->version = record.version;
    if (pal_json_parse(arena, record.body, NULL, &body, NULL) == PAL_OK)
        pal_json_u64(pal_json_find(body, "seq"), &out_mark->seq);
    return PAL_OK;
}

static pal_record mark_record(const pal_extract_job *job, pal_arena *arena)
{
    char body[64];
    int len = snprintf(body, sizeof(body), "{\"seq\":%llu}", (unsigned long long)job->until_seq);

    return (pal_record){.kind = pal_str_of(MARK_KIND),
            .name = mark_name(job->session, arena),
            .session = job->session,
            .body = pal_arena_copy(arena, pal_str_make(body, (size_t)len))};
}

static pal_status move_mark(
        pal_store *store, const pal_extract_job *job, pal_arena *arena, pal_error *err)
{
    pal_record record = mark_record(job, arena);
    pal_status status = pal_arena_checked(arena, err);

    return status == PAL_OK
            ? pal_store_record_put(store, job->tenant, &record, job->mark_version, err)
            : status;
}

/* ---- Reading ---- */

typedef struct segment {
    const pal_note_place *place;
    const pal_session *session;
    pal_arena *arena;
    pal_buf text; /* the lines of the conversation */
    pal_extract_said *said;
    size_t said_len;
    uint64_t tokens; /* of what users said */
    uint64_t until_seq;
    int64_t newest_ms;
    bool has_more;
} segment;

static void put_clean(pal_buf *buf, pal_str text)
{
    for (size_t i = 0; i < text.len; i++)
        pal_buf_append_char(buf, (unsigned char)text.data[i] < ' ' ? ' ' : text.data[i]);
}

static void put_user(segment *of, const pal_message *message, pal_str text)
{
    char day[PAL_TIME_TEXT_SIZE];
    pal_str person = pal_note_speaker(of->place, message, of->arena);

    of->said[of->said_len] =
            (pal_extract_said){(uint32_t)of->said_len + 1, message->seq, text};
    of->said_len++;
    pal_time_to_text(message->created_at, day);
    pal_buf_format(&of->text, "%zu <", of->said_len);
    put_clean(&of->text, person);
    pal_buf_format(&of->text, "> %.*s: ", DAY_LEN, day);
    put_clean(&of->text, text);
    pal_buf_append_char(&of->text, '\n');
}

static void put_assistant(segment *of, pal_str text)
{
    if (text.len > ASSISTANT_BYTES)
        text.len = pal_utf8_cut(text, ASSISTANT_BYTES);
    pal_buf_append_text(&of->text, "(assistant: ");
    put_clean(&of->text, text);
    pal_buf_append_text(&of->text, ")\n");
}

/* Returns false if the message does not fit any more. What Palaver, a tool or a client has put
 * into the conversation, and what was erased, is left out. */
static pal_status take_message(
        segment *of, const pal_message *message, bool *out_fits, pal_error *err)
{
    pal_str text = {0};
    pal_status status = PAL_OK;
    bool is_user = pal_note_is_said(message);

    *out_fits = true;
    if (is_user || (message->role == PAL_ROLE_ASSISTANT && message->flags == 0))
        status = pal_note_message_text(message, of->arena, &text, err);
    if (status != PAL_OK)
        return status;
    text = pal_text_trim(text);
    if (is_user && text.len > 0) {
        uint64_t tokens = pal_estimate_quickly(text) + MESSAGE_TOKENS;

        *out_fits = of->said_len == 0 || of->tokens + tokens <= SEGMENT_TOKENS;
        if (!*out_fits)
            return PAL_OK;
        of->tokens += tokens;
        put_user(of, message, text);
    } else if (text.len > 0) {
        put_assistant(of, text);
    }
    of->until_seq = message->seq;
    if (message->created_at > of->newest_ms)
        of->newest_ms = message->created_at;
    return PAL_OK;
}

static pal_status read_segment(pal_store *store, uint64_t after_seq, segment *of, pal_error *err)
{
    pal_message_query load = {.after_seq = after_seq, .limit = MESSAGES_MAX};
    pal_message_page page = {.len = 0};
    pal_status status = pal_store_load(store, of->session->tenant, of->session->id, &load,
            of->arena, &page, err);
    bool fits = true;

    of->until_seq = after_seq;
    of->said = pal_arena_array(of->arena, page.len + 1, sizeof(*of->said));
    if (status == PAL_OK && !of->said)
        status = pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && fits && i < page.len; i++)
        status = take_message(of, &page.items[i], &fits, err);
    of->has_more = page.has_more || !fits;
    return status;
}

/* ---- Whether it is due ---- */

static void decide(const pal_memory_settings *settings, const segment *of, int64_t now_ms,
        pal_extract_job *job)
{
    uint32_t messages = settings->run_messages ? settings->run_messages : RUN_MESSAGES;
    int64_t quiet_ms = settings->quiet_ms ? settings->quiet_ms : QUIET_MS;
    int64_t idle_ms = settings->run_idle_ms ? settings->run_idle_ms : IDLE_MS;
    bool is_much = of->said_len >= messages || of->tokens >= RUN_TOKENS || of->has_more;

    job->due_ms = of->newest_ms + (is_much ? quiet_ms : idle_ms);
    job->state = now_ms >= job->due_ms ? PAL_EXTRACT_READY : PAL_EXTRACT_LATER;
}

/* ---- The request ---- */

typedef struct known_notes {
    pal_note *items;
    size_t len;
} known_notes;

static bool take_known(const pal_note *note, void *user)
{
    known_notes *list = user;

    if (note->state == PAL_NOTE_ACTIVE && list->len < KNOWN_MAX)
        list->items[list->len++] = *note;
    return list->len < KNOWN_MAX;
}

static pal_status put_known(pal_store *store, const segment *of, pal_buf *buf, pal_extract_job *job,
        pal_error *err)
{
    known_notes list = {.items = pal_arena_array(of->arena, KNOWN_MAX, sizeof(pal_note))};
    pal_str *ids = pal_arena_array(of->arena, KNOWN_MAX, sizeof(*ids));
    pal_status status;

    if (!list.items || !ids)
        return pal_no_memory(err);
    status = pal_note_each(store, job->tenant, of->place->subject, (pal_str){0}, of->arena,
            take_known, &list, err);
    if (status != PAL_OK)
        return status;
    pal_buf_append_text(buf, list.len ? "Notes so far:\n" : "There are no notes yet.\n");
    for (size_t i = 0; i < list.len; i++) {
        ids[i] = list.items[i].id;
        pal_buf_format(buf, "%zu (%s) ", i + 1, pal_note_kind_name(list.items[i].kind));
        put_clean(buf, list.items[i].text);
        pal_buf_append_char(buf, '\n');
    }
    job->known = ids;
    job->known_len = list.len;
    return PAL_OK;
}

static pal_status make_request(
        pal_store *store, segment *of, pal_extract_job *job, pal_error *err)
{
    pal_buf buf;
    pal_status status;

    pal_buf_init(&buf, TEXT_BYTES_MAX);
    status = put_known(store, of, &buf, job, err);
    pal_buf_append_text(&buf, "\nThe conversation:\n");
    pal_buf_append_str(&buf, pal_buf_str(&of->text));
    if (status == PAL_OK && (buf.failure || of->text.failure))
        status = pal_no_memory(err);
    if (status == PAL_OK) {
        job->request[0] = pal_message_text(
                of->arena, PAL_ROLE_SYSTEM, pal_str_make(instructions, sizeof(instructions) - 1));
        job->request[1] = pal_message_text(of->arena, PAL_ROLE_USER,
                pal_arena_copy(of->arena, pal_buf_str(&buf)));
        status = pal_arena_checked(of->arena, err);
    }
    pal_buf_done(&buf);
    return status;
}

static pal_status begin(pal_store *store, const pal_memory_settings *settings, bool is_forced,
        segment *of, pal_extract_job *job, pal_error *err)
{
    mark done;
    pal_status status = read_mark(store, job->tenant, job->session, of->arena, &done, err);

    if (status == PAL_OK)
        status = read_segment(store, done.seq, of, err);
    if (status != PAL_OK)
        return status;
    job->first_seq = done.seq + 1;
    job->mark_version = done.version;
    job->until_seq = of->until_seq;
    job->said = of->said;
    job->said_len = of->said_len;
    job->has_more = of->has_more;
    if (of->said_len == 0) {
        if (of->until_seq > done.seq && of->has_more)
            status = move_mark(store, job, of->arena, err);
        if (status == PAL_OK && of->has_more)
            job->state = PAL_EXTRACT_LATER; /* nothing was said in this part; look at the next */
        return status;
    }
    decide(settings, of, pal_store_clock_ms(store), job);
    if (is_forced)
        job->state = PAL_EXTRACT_READY;
    return job->state == PAL_EXTRACT_READY ? make_request(store, of, job, err) : PAL_OK;
}

pal_status pal_extract_begin(pal_store *store, const pal_memory_settings *settings, pal_str tenant,
        pal_id session, pal_str system, bool is_forced, pal_arena *arena, pal_extract_job *out_job,
        pal_error *err)
{
    pal_session *row = pal_arena_alloc(arena, sizeof(*row));
    pal_note_place *place = pal_arena_alloc(arena, sizeof(*place));
    segment of = {.place = place, .session = row, .arena = arena};
    pal_extract_job job = {.tenant = tenant, .session = session, .system = system};
    char id[PAL_ID_TEXT_SIZE];
    pal_status status;

    if (!row || !place)
        return pal_no_memory(err);
    pal_id_to_text(session, id);
    status = pal_store_find(store, tenant, PAL_SESSION_BY_ID, pal_str_of(id), arena, row, err);
    if (status == PAL_OK)
        status = pal_note_place_of(row, arena, place, err);
    if (status != PAL_OK)
        return status;
    job.mode = pal_memory_mode_of(settings, place);
    pal_buf_init(&of.text, TEXT_BYTES_MAX);
    if (job.mode != PAL_MEMORY_OFF)
        status = begin(store, settings, is_forced, &of, &job, err);
    pal_buf_done(&of.text);
    if (status == PAL_OK)
        *out_job = job;
    return status;
}

/* ---- The answer ---- */

/* Models like to put a text or a fence around the object. */
static pal_str object_in(pal_str answer)
{
    size_t from = 0, to = answer.len;

    while (from < answer.len && answer.data[from] != '{')
        from++;
    while (to > from && answer.data[to - 1] != '}')
        to--;
    return pal_str_make(answer.data + from, to - from);
}

typedef struct keeper {
    pal_store *store;
    const pal_extract_job *job;
    pal_arena *arena;
    pal_note_batch batch;
    pal_json_writer *run;
    pal_extract_result result;
} keeper;

/* Returns the message that the proposal rests on: the first one with the quote, otherwise the first
 * one, so that the rules can say what is wrong. 0: it names none. */
static uint64_t source_of(const keeper *k, pal_json proposal, pal_str quote)
{
    pal_json_iter each = pal_json_each(pal_json_find(proposal, "from"));
    pal_json value;
    uint64_t number, first = 0;

    while (pal_json_next(&each, NULL, &value)) {
        const pal_extract_said *said;

        if (!pal_json_u64(value, &number) || number == 0 || number > k->job->said_len)
            continue;
        said = &k->job->said[number - 1];
        if (first == 0)
            first = said->seq;
        if (quote.len > 0 && pal_gate_has_quote(said->text, quote))
            return said->seq;
    }
    return first;
}

/* Returns the id of the note with this number; empty if there is none. */
static pal_str known_id(const keeper *k, pal_json number)
{
    uint64_t at;

    if (!pal_json_u64(number, &at) || at == 0 || at > k->job->known_len)
        return (pal_str){0};
    return k->job->known[at - 1];
}

/* Only ids and rules are recorded: a text would have to be erased with its message. */
static void record_proposal(keeper *k, const char *act, uint64_t seq, const char *outcome,
        const char *rule, pal_str id)
{
    pal_json_begin_object(k->run);
    pal_put_text(k->run, "act", act);
    pal_put_count(k->run, "seq", seq);
    pal_put_text(k->run, "outcome", outcome);
    if (rule)
        pal_put_text(k->run, "rule", rule);
    pal_put_str_if(k->run, "note", id);
    pal_json_end_object(k->run);
}

static pal_note_kind kind_of(pal_json proposal, pal_arena *arena)
{
    pal_note_kind kind =
            pal_note_kind_from_name(pal_json_string(pal_json_find(proposal, "kind"), arena));

    return kind ? kind : PAL_NOTE_FACT;
}

/* A refusal is not a failure of the extraction. */
static bool is_refused(pal_status status)
{
    return status == PAL_DENIED || status == PAL_LIMIT || status == PAL_INVALID ||
            status == PAL_NOT_FOUND || status == PAL_CONFLICT;
}

static const char *rule_in(const pal_error *why, pal_arena *arena)
{
    const char *colon = strchr(why->message, ':');

    if (!colon || colon - why->message > 20)
        return "invalid";
    return pal_arena_copy(arena, pal_str_make(why->message, (size_t)(colon - why->message))).data;
}

static pal_status keep_proposal(keeper *k, pal_json proposal, pal_error *err)
{
    pal_note_request request = {
            .text = pal_json_string(pal_json_find(proposal, "text"), k->arena),
            .kind = kind_of(proposal, k->arena),
            .by = PAL_NOTE_BY_EXTRACTED,
            .session = k->job->session,
            .quote = pal_json_string(pal_json_find(proposal, "quote"), k->arena),
            .replaces = known_id(k, pal_json_find(proposal, "replaces")),
            .system = k->job->system};
    pal_note_added added = {.is_support = false};
    pal_error why = {0};
    pal_status status;

    k->result.proposed++;
    request.seq = source_of(k, proposal, request.quote);
    if (request.seq == 0 || request.quote.len == 0) {
        k->result.rejected++;
        record_proposal(k, "note", 0, "rejected", "no_source", (pal_str){0});
        return PAL_OK;
    }
    status = pal_note_add_to(k->store, k->job->tenant, &request,
            k->job->mode == PAL_MEMORY_ASK, &k->batch, k->arena, &added, &why);
    if (status != PAL_OK && !is_refused(status))
        return pal_error_set(err, status, "%s", why.message);
    if (status != PAL_OK) {
        k->result.rejected++;
        record_proposal(
                k, "note", request.seq, "rejected", rule_in(&why, k->arena), (pal_str){0});
        return PAL_OK;
    }
    k->result.supported += added.is_support;
    k->result.pending += !added.is_support && added.note.state == PAL_NOTE_PENDING;
    k->result.kept += !added.is_support && added.note.state == PAL_NOTE_ACTIVE;
    record_proposal(k, "note", request.seq,
            added.is_support ? "support" : pal_note_state_name(added.note.state), added.rule,
            added.note.id);
    return PAL_OK;
}

static pal_status keep_retraction(keeper *k, pal_json proposal, pal_error *err)
{
    pal_str quote = pal_json_string(pal_json_find(proposal, "quote"), k->arena);
    pal_str id = known_id(k, pal_json_find(proposal, "note"));
    uint64_t seq = source_of(k, proposal, quote);
    pal_error why = {0};
    pal_status status;

    k->result.proposed++;
    if (seq == 0 || quote.len == 0 || id.len == 0) {
        k->result.rejected++;
        record_proposal(k, "retract", seq, "rejected", "no_source", id);
        return PAL_OK;
    }
    status = pal_note_retract_to(k->store, k->job->tenant, id,
            &(pal_note_request){.by = PAL_NOTE_BY_EXTRACTED,
                    .session = k->job->session,
                    .seq = seq,
                    .quote = quote},
            &k->batch, k->arena, &why);
    if (status != PAL_OK && !is_refused(status))
        return pal_error_set(err, status, "%s", why.message);
    k->result.retracted += status == PAL_OK;
    k->result.rejected += status != PAL_OK;
    record_proposal(k, "retract", seq, status == PAL_OK ? "retracted" : "rejected",
            status == PAL_OK ? NULL : rule_in(&why, k->arena), id);
    return PAL_OK;
}

static pal_status keep_all(keeper *k, pal_json list,
        pal_status (*keep)(keeper *k, pal_json proposal, pal_error *err), pal_error *err)
{
    pal_json_iter each = pal_json_each(list);
    pal_json proposal;
    pal_status status = PAL_OK;

    while (status == PAL_OK && pal_json_next(&each, NULL, &proposal)) {
        if (k->result.proposed == PROPOSALS_MAX)
            return PAL_OK;
        if (pal_json_type_of(proposal) == PAL_JSON_OBJECT)
            status = keep(k, proposal, err);
    }
    return status;
}

static pal_status make_run(
        const keeper *k, pal_buf *buf, pal_record *out_record, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE];

    pal_id_to_text(pal_id_new(), id);
    *out_record = (pal_record){.kind = pal_str_of(RUN_KIND),
            .name = pal_arena_copy(k->arena, pal_str_of(id)),
            .session = k->job->session,
            .body = pal_arena_copy(k->arena, pal_buf_str(buf)),
            .expires_at = pal_store_clock_ms(k->store) + RUN_MS};
    if (buf->failure)
        return pal_no_memory(err);
    return pal_arena_checked(k->arena, err);
}

/* The notes, the mark and the record of the extraction are one commit. */
static pal_status commit(keeper *k, pal_buf *run, pal_error *err)
{
    pal_record records[2];
    pal_op *ops;
    size_t len, failed;
    pal_status status = make_run(k, run, &records[1], err);

    records[0] = mark_record(k->job, k->arena);
    if (status == PAL_OK)
        status = pal_note_batch_ops(&k->batch, k->job->tenant, 2, k->arena, &ops, &len, err);
    if (status != PAL_OK)
        return status;
    ops[len++] = pal_op_record_put(k->job->tenant, &records[0], k->job->mark_version);
    ops[len++] = pal_op_record_put(k->job->tenant, &records[1], 0);
    return pal_store_apply_all(k->store, ops, len, &failed, err);
}

static pal_status keep(keeper *k, pal_str answer, pal_error *err)
{
    pal_json root = {0};
    pal_buf run;
    pal_json_writer writer;
    pal_str object = object_in(answer);
    bool is_read = object.len > 0 &&
            pal_json_parse(k->arena, object, NULL, &root, NULL) == PAL_OK;
    pal_status status = PAL_OK;

    pal_buf_init(&run, TEXT_BYTES_MAX);
    writer = pal_json_writer_make(&run);
    k->run = &writer;
    pal_json_begin_object(&writer);
    pal_put_count(&writer, "from_seq", k->job->first_seq);
    pal_put_count(&writer, "to_seq", k->job->until_seq);
    pal_put_flag(&writer, "is_readable", is_read);
    pal_json_name(&writer, "proposals");
    pal_json_begin_array(&writer);
    if (is_read)
        status = keep_all(k, pal_json_find(root, "notes"), keep_proposal, err);
    if (is_read && status == PAL_OK)
        status = keep_all(k, pal_json_find(root, "retract"), keep_retraction, err);
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    if (status == PAL_OK)
        status = commit(k, &run, err);
    pal_buf_done(&run);
    return status;
}

/* Erases the notes again if a message was erased while they were being kept. */
static pal_status check_sources(const keeper *k, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < k->job->said_len; i++)
        status = pal_note_check_source(k->store, k->job->tenant, k->job->session,
                k->job->said[i].seq, k->arena, err);
    return status;
}

pal_status pal_extract_end(pal_store *store, const pal_extract_job *job, pal_str answer,
        pal_arena *arena, pal_extract_result *out_result, pal_error *err)
{
    pal_status status = PAL_CONFLICT;
    keeper k = {.store = NULL};

    /* A note that a person has changed meanwhile is judged again. */
    for (int tries = 0; status == PAL_CONFLICT && tries < TRIES_MAX; tries++) {
        k = (keeper){.store = store, .job = job, .arena = arena};
        status = keep(&k, answer, err);
    }
    if (status == PAL_OK && k.batch.len > 0)
        status = check_sources(&k, err);
    if (status == PAL_OK)
        *out_result = k.result;
    return status;
}
