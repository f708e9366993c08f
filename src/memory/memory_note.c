/* memory_note.c - reads, changes and erases notes.
 *
 * Every change is one commit. A note is written only if it still has the version that was read, so
 * of two changes at the same time one fails with PAL_CONFLICT. If a note supersedes another one,
 * the commit first marks the old note, and writes the new one only if that succeeded. So a crash
 * leaves either both or neither. */
#include "memory/memory_note.h"

#include <string.h>

#include "base/text.h"
#include "palaver/store_admin.h"
#include "store/search/search_rank.h"

/* ---- Checks and commits ---- */

pal_status pal_note_check_len(const char *name, pal_str text, size_t max, pal_error *err)
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

pal_status pal_note_check_subject(const char *name, pal_str text, pal_error *err)
{
    pal_status status = pal_note_check_len(name, text, PAL_NOTE_SUBJECT_LEN_MAX, err);

    if (status != PAL_OK || text.len == 0 || (is_subject(text) && !pal_text_has_control(text)))
        return status;
    return pal_error_set(err, PAL_INVALID,
            "'%s' is '%.*s'; expected tenant, person:NAME, room:NAME or session:ID", name,
            PAL_EXCERPT(text, 80));
}

pal_status pal_note_commit(pal_store *store, pal_str tenant, pal_note *first, pal_note *second,
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
    return pal_note_check_subject("subject", query->subject, err);
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
    return status == PAL_OK ? pal_note_commit(store, tenant, note, NULL, arena, err) : status;
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
        return status == PAL_OK ? pal_note_commit(store, tenant, note, NULL, arena, err) : status;
    other.state = PAL_NOTE_RETRACTED;
    status = pal_note_log(&other, "retract", by, reason, now_ms, arena, err);
    return status == PAL_OK ? pal_note_commit(store, tenant, &other, note, arena, err) : status;
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
        return status == PAL_OK ? pal_note_commit(store, tenant, note, NULL, arena, err) : status;
    other.state = PAL_NOTE_SUPERSEDED;
    other.replaced_by = note->id;
    status = pal_note_log(&other, "supersede", by, reason, now_ms, arena, err);
    return status == PAL_OK ? pal_note_commit(store, tenant, &other, note, arena, err) : status;
}

pal_status pal_note_change_state(pal_store *store, pal_str tenant, pal_str id, pal_note_act act,
        pal_note_by by, pal_str reason, pal_arena *arena, pal_note *out_note, pal_error *err)
{
    pal_note note;
    pal_status status = pal_note_check_len("reason", reason, PAL_NOTE_REASON_LEN_MAX, err);

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
    pal_status status = pal_note_check_subject("subject", subject, err);

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
