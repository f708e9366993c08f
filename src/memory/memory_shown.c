/* memory_shown.c - makes the lines by which a model is shown notes, and chooses among them. A line
 * depends on nothing that changes while the note is active, because a changed line at the beginning
 * of a request makes the service's cache useless. Reads only; any thread; blocks on the store. */
#include "memory/memory_shown.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "memory/memory_note.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define DAY_LEN 10         /* "2026-11-16" */
#define SHOWN_MAX 10000    /* notes of one session that are read */
#define LINE_TOKENS 2      /* "- " and the line break */

pal_memory_mode pal_memory_mode_of(
        const pal_memory_settings *settings, const pal_note_place *place)
{
    if (!settings)
        return PAL_MEMORY_OFF;
    if (place->is_direct)
        return settings->direct;
    return pal_text_begins(place->subject, "room:") ? settings->groups : settings->sessions;
}

/* ---- Lines ---- */

static int64_t first_said(const pal_note *note)
{
    return note->sources_len > 0 ? note->sources[0].said_at : note->created_at;
}

static uint32_t count_days(const pal_note *note)
{
    uint32_t days = 0;

    for (size_t i = 0; i < note->sources_len; i++) {
        bool is_new = true;

        for (size_t j = 0; j < i; j++)
            is_new &= note->sources[i].said_at / DAY_MS != note->sources[j].said_at / DAY_MS;
        days += is_new;
    }
    return days;
}

static int64_t active_since(const pal_note *note)
{
    static const char *const acts[] = {"add", "confirm", "restore"};
    int64_t since = note->created_at;

    for (size_t i = 0; i < note->changes_len; i++)
        for (size_t j = 0; j < sizeof(acts) / sizeof(acts[0]); j++)
            if (pal_str_is(note->changes[i].act, acts[j]))
                since = note->changes[i].at;
    return since;
}

/* Returns whom the note is about, as other people in the room know them; empty in a direct chat. */
static pal_str name_of(const pal_note *note, const pal_note_place *place)
{
    if (place->is_direct || !pal_text_begins(note->subject, "person:"))
        return (pal_str){0};
    return pal_note_person_name(note->subject);
}

static pal_note_shown show(const pal_note *note, const pal_note_place *place, pal_arena *arena)
{
    char day[PAL_TIME_TEXT_SIZE];
    pal_str name = name_of(note, place), kind = pal_str_of(pal_note_kind_name(note->kind));
    pal_note_shown shown = {.id = note->id,
            .state = note->state,
            .since = active_since(note),
            .days = count_days(note),
            .kind = note->kind};
    pal_str text[7] = {pal_str_of("("), kind, pal_str_of(", "), {0},
            pal_str_of(") "), name, pal_str_of(name.len ? ": " : "")};
    pal_str line[2], reason[3] = {kind, pal_str_of(", said on "), {0}};

    pal_time_to_text(first_said(note), day);
    text[3] = reason[2] = pal_str_make(day, DAY_LEN);
    line[0] = pal_note_join(arena, text, 7);
    line[1] = note->text;
    shown.text = shown.change = pal_note_join(arena, line, 2);
    shown.reason = pal_note_join(arena, reason, 3);
    return shown;
}

/* ---- Listing ---- */

typedef struct shown_list {
    const pal_note_place *place;
    pal_arena *arena;
    pal_note *notes;
    size_t len, cap;
    bool has_no_memory;
} shown_list;

static bool take_note(const pal_note *note, void *user)
{
    shown_list *list = user;

    if (note->state != PAL_NOTE_ACTIVE && note->state != PAL_NOTE_SUPERSEDED)
        return true;
    if (list->len == SHOWN_MAX)
        return false;
    list->has_no_memory =
            !pal_reserve(&list->notes, &list->cap, list->len + 1, sizeof(*list->notes));
    if (!list->has_no_memory)
        list->notes[list->len++] = *note;
    return !list->has_no_memory;
}

static const pal_note *find_note(const shown_list *list, pal_str id)
{
    for (size_t i = 0; id.len > 0 && i < list->len; i++)
        if (pal_str_equal(list->notes[i].id, id))
            return &list->notes[i];
    return NULL;
}

static int compare_ids(const void *left, const void *right)
{
    return pal_text_compare(((const pal_note *)left)->id, ((const pal_note *)right)->id);
}

/* A superseded note is wrong, unless the note that replaced it is shown with it. */
static pal_note_shown *show_all(const shown_list *list, size_t *out_len)
{
    pal_note_shown *shown = pal_arena_array(list->arena, list->len + 1, sizeof(*shown));
    size_t len = 0;

    for (size_t i = 0; shown && i < list->len; i++) {
        const pal_note *note = &list->notes[i], *old = find_note(list, note->replaces);

        if (note->state == PAL_NOTE_SUPERSEDED && !find_note(list, note->replaced_by))
            continue;
        shown[len] = show(note, list->place, list->arena);
        if (old) {
            pal_str change[4] = {shown[len].text, pal_str_of(" (before: "), old->text,
                    pal_str_of(")")};

            shown[len].change = pal_note_join(list->arena, change, 4);
        }
        len++;
    }
    *out_len = len;
    return shown;
}

pal_status pal_note_shown_list(pal_store *store, const pal_session *session,
        const pal_note_place *place, pal_arena *arena, pal_note_shown **out_notes, size_t *out_len,
        pal_error *err)
{
    shown_list list = {.place = place, .arena = arena};
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < place->circles_len; i++)
        status = pal_note_each(store, session->tenant, place->circles[i], (pal_str){0}, arena,
                take_note, &list, err);
    if (status == PAL_OK && list.has_no_memory)
        status = pal_no_memory(err);
    if (status == PAL_OK && list.len > 0)
        qsort(list.notes, list.len, sizeof(*list.notes), compare_ids);
    if (status == PAL_OK) {
        *out_notes = show_all(&list, out_len);
        status = pal_arena_checked(arena, err);
    }
    pal_free(list.notes);
    return status;
}

/* ---- Choosing ---- */

typedef struct rank {
    const pal_note_shown *note;
    size_t at;
} rank;

static int class_of(const pal_note_shown *note)
{
    return note->kind == PAL_NOTE_INSTRUCTION || note->kind == PAL_NOTE_PREFERENCE ? 0 : 1;
}

static int compare_ranks(const void *left, const void *right)
{
    const rank *a = left, *b = right;

    if (class_of(a->note) != class_of(b->note))
        return class_of(a->note) - class_of(b->note);
    if (a->note->days != b->note->days)
        return a->note->days > b->note->days ? -1 : 1;
    if (a->note->since != b->note->since)
        return a->note->since > b->note->since ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static int compare_places(const void *left, const void *right)
{
    size_t a = *(const size_t *)left, b = *(const size_t *)right;

    return a < b ? -1 : a > b;
}

pal_status pal_note_shown_choose(const pal_note_shown *notes, size_t len,
        const pal_encoding *encoding, uint64_t tokens_max, size_t *out_chosen,
        size_t *out_chosen_len, uint64_t *out_more, pal_error *err)
{
    rank *ranks = pal_calloc(len + 1, sizeof(*ranks));
    size_t ranks_len = 0, chosen = 0;
    uint64_t sum = 0;
    pal_status status = ranks ? PAL_OK : pal_no_memory(err);

    for (size_t i = 0; status == PAL_OK && i < len; i++)
        if (notes[i].state == PAL_NOTE_ACTIVE)
            ranks[ranks_len++] = (rank){&notes[i], i};
    if (ranks_len > 0)
        qsort(ranks, ranks_len, sizeof(*ranks), compare_ranks);
    for (size_t i = 0; status == PAL_OK && i < ranks_len && sum < tokens_max; i++) {
        uint64_t tokens = 0;

        status = pal_tokens_count(encoding, ranks[i].note->text, &tokens, err);
        if (status != PAL_OK || sum + tokens + LINE_TOKENS > tokens_max)
            continue; /* a shorter one may fit */
        sum += tokens + LINE_TOKENS;
        out_chosen[chosen++] = ranks[i].at;
    }
    if (chosen > 0)
        qsort(out_chosen, chosen, sizeof(*out_chosen), compare_places);
    *out_chosen_len = chosen;
    *out_more = ranks_len - chosen;
    pal_free(ranks);
    return status;
}
