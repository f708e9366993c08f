/* window_recall.c - finds messages that the model does not see any more. Questions are ranked
 * searches; a phrase or a prefix must occur.
 *
 * Hidden messages are those before the checkpoint or before the tail of the last request, and those
 * that were pruned since. Of a long text, the part is shown in which the words are closest
 * together. Reads only. */
#include "palaver/store_search.h"
#include "window/window_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/search/search_rank.h"
#include "window/window_prompt.h"
#include "window/window_record.h"

enum {
    EXCERPT_LEN_MAX = 1500, /* shown bytes of a text that contains the words */
    OTHER_LEN_MAX = 300,    /* shown bytes of a text without the words */
    LEAD_LEN = 300,         /* bytes shown before the words */
    PLACES_MAX = 4096,      /* occurrences of one word in one text that are considered */
    CALL_DISTANCE_MAX = 50, /* messages between a result and its call */
    LAST_MESSAGES = 64,     /* newest messages that are searched for the last answer */
    PAGE = 50,
    PAGES_MAX = 20,
    CLOSE = 1000, /* bytes of the normal form in which the words of a question are counted */
    NEIGHBORS = 1, /* messages before and after a hit of which the beginning is shown */
};

typedef struct recall_search {
    const pal_recall *recall;
    pal_arena *arena;
    pal_buf *out;
    pal_query query;
    pal_rank_query *ranked; /* NULL: the search is not ranked */
    pal_active_marks active;
    pal_pruned_part *pruned;
    size_t pruned_len;
    /* messages up to this seq are hidden, except pins; 0: none; UINT64_MAX: unknown */
    uint64_t hidden_through;
    pal_buf normal;          /* normal form of the text that is searched */
    struct place *places;    /* room for PLACES_MAX places of each phrase or word */
    size_t places_len, places_max;
    size_t *counts;          /* one for each phrase or word */
} recall_search;

/* ---- Hidden messages ---- */

static pal_status find_first_seq(const recall_search *r, uint64_t *out_seq, pal_error *err)
{
    pal_message_query load = {.limit = LAST_MESSAGES, .from_end = true};
    pal_message_page newest;
    pal_status status = pal_store_load(
            r->recall->store, r->recall->tenant, r->recall->session, &load, r->arena, &newest, err);

    for (size_t i = status == PAL_OK ? newest.len : 0; i-- > 0;) {
        if (!newest.items[i].sent)
            continue;
        *out_seq = newest.items[i].sent->first_seq;
        break;
    }
    return status;
}

static pal_status find_hidden(recall_search *r, pal_error *err)
{
    const pal_recall *recall = r->recall;
    uint64_t first_seq = 0, tokens;
    pal_status status = pal_store_active_marks(
            recall->store, recall->tenant, recall->session, r->arena, &r->active, err);

    if (status == PAL_OK)
        status = pal_window_prunes_read(r->active.prunes, r->active.prunes_len, r->arena,
                &r->pruned,
                &r->pruned_len, &tokens, err);
    if (status == PAL_OK)
        status = find_first_seq(r, &first_seq, err);
    if (status != PAL_OK)
        return status;
    if (r->active.checkpoint.number)
        r->hidden_through = r->active.checkpoint.seq;
    if (first_seq > 0 && first_seq - 1 > r->hidden_through)
        r->hidden_through = first_seq - 1;
    if (first_seq == 0 && r->active.checkpoint.number == 0)
        r->hidden_through = UINT64_MAX; /* it is not known what the model sees */
    return PAL_OK;
}

static bool is_pinned(const recall_search *r, uint64_t seq)
{
    for (size_t i = 0; i < r->active.pins_len; i++)
        if (r->active.pins[i] == seq)
            return true;
    return false;
}

static bool is_pruned(const recall_search *r, uint64_t seq)
{
    for (size_t i = 0; i < r->pruned_len; i++)
        if (r->pruned[i].seq == seq)
            return true;
    return false;
}

static bool is_hidden(const recall_search *r, uint64_t seq)
{
    if (r->hidden_through == UINT64_MAX || is_pruned(r, seq))
        return true;
    return seq <= r->hidden_through && !is_pinned(r, seq);
}

/* Returns the seq of the last hidden message; 0 if nothing is hidden. */
static uint64_t last_hidden(const recall_search *r)
{
    uint64_t seq = r->hidden_through;

    for (size_t i = 0; i < r->pruned_len; i++)
        if (r->pruned[i].seq > seq)
            seq = r->pruned[i].seq;
    return seq;
}

/* ---- The place in a text ---- */

typedef struct place {
    size_t at; /* position in the normal form */
    size_t end;
    size_t phrase; /* number of the phrase; of the word, if the search is ranked */
} place;

static int place_compare(const void *left, const void *right)
{
    const place *a = left, *b = right;

    return a->at < b->at ? -1 : a->at > b->at;
}

static void add_place(recall_search *r, size_t at, size_t end, size_t phrase)
{
    if (r->places_len < r->places_max)
        r->places[r->places_len++] = (place){at, end, phrase};
}

/* Finds the places in the normal form at which a phrase begins. */
static void find_phrase(recall_search *r, size_t phrase)
{
    const pal_phrase *of = &r->query.phrases[phrase];
    pal_query single = {.phrases = &r->query.phrases[phrase], .len = 1};
    pal_str normal = pal_buf_str(&r->normal);
    size_t from = 0, at;

    for (int found = 0; found < PLACES_MAX && from < normal.len &&
            pal_words_query_match(
                    &single, pal_str_make(normal.data + from, normal.len - from), &at);
            found++) {
        add_place(r, from + at, from + at + of->normal.len, phrase);
        from += at + 1;
        while (from < normal.len && normal.data[from - 1] != ' ' &&
                ((unsigned char)normal.data[from] & 0x80) == 0)
            from++;
        while (from < normal.len && ((unsigned char)normal.data[from] & 0xc0) == 0x80)
            from++;
    }
}

static bool take_word(size_t at, size_t end, uint64_t terms, void *user)
{
    recall_search *r = user;

    for (; terms; terms &= terms - 1)
        add_place(r, at, end, (size_t)__builtin_ctzll(terms));
    return r->places_len < r->places_max;
}

/* All phrases count the same. Longer words of a question count more: they are usually rarer. */
static size_t weight_of(const recall_search *r, size_t phrase)
{
    return r->ranked ? r->ranked->terms[phrase].text.len : 1;
}

/* Finds the shortest range with the largest weight. Words of a question must be close together. */
static void find_closest(recall_search *r, const place **out_first, const place **out_last)
{
    size_t first = 0, have = 0, most = 0, shortest = SIZE_MAX;
    const place *places = r->places;

    for (size_t last = 0; last < r->places_len; last++) {
        if (r->counts[places[last].phrase]++ == 0)
            have += weight_of(r, places[last].phrase);
        while (r->counts[places[first].phrase] > 1 ||
                (r->ranked && places[last].at - places[first].at > CLOSE)) {
            if (--r->counts[places[first].phrase] == 0)
                have -= weight_of(r, places[first].phrase);
            first++;
        }
        if (have > most || (have == most && places[last].at - places[first].at < shortest)) {
            most = have;
            shortest = places[last].at - places[first].at;
            *out_first = &places[first];
            *out_last = &places[last];
        }
    }
}

/* Finds the range of the text that contains the words. Returns false if it contains none of
 * them. */
static bool find_place(recall_search *r, pal_str text, size_t *out_from, size_t *out_to)
{
    const place *first = NULL, *last = NULL;

    r->normal.len = 0;
    r->places_len = 0;
    pal_words_normal(text, &r->normal);
    memset(r->counts, 0, PAL_RANK_TERMS_MAX * sizeof(*r->counts));
    if (r->ranked)
        pal_rank_find(r->ranked, pal_buf_str(&r->normal), take_word, r);
    for (size_t i = 0; !r->ranked && i < r->query.len; i++)
        find_phrase(r, i);
    if (r->places_len == 0)
        return false;
    qsort(r->places, r->places_len, sizeof(*r->places), place_compare);
    find_closest(r, &first, &last);
    *out_from = pal_words_origin(text, first->at);
    *out_to = pal_words_origin(text, last->at) + last->end - last->at;
    return true;
}

/* ---- Output ---- */

/* Writes the bytes `from` to `to` of the text, rounded to whole characters. */
static void put_stretch(recall_search *r, pal_str text, size_t from, size_t to)
{
    pal_str rest;

    from = from > 0 ? pal_prompt_excerpt(text, from).len : 0;
    to = to < text.len ? to : text.len;
    rest = pal_str_make(text.data + from, text.len - from);
    pal_buf_append_text(r->out, from > 0 ? "[...] " : "");
    pal_buf_append_str(r->out, pal_prompt_excerpt(rest, to - from));
    pal_buf_append_text(r->out, to < text.len ? " [...]\n" : "\n");
}

static void put_text(recall_search *r, pal_str text)
{
    size_t from = 0, to = 0;
    bool has_words = find_place(r, text, &from, &to);

    if (text.len <= (has_words ? EXCERPT_LEN_MAX : OTHER_LEN_MAX)) {
        put_stretch(r, text, 0, text.len);
        return;
    }
    if (!has_words) {
        put_stretch(r, text, 0, OTHER_LEN_MAX);
        return;
    }
    from = from > LEAD_LEN ? from - LEAD_LEN : 0;
    if (to > from + EXCERPT_LEN_MAX) { /* the words are far apart: show both ends */
        put_stretch(r, text, from, from + EXCERPT_LEN_MAX / 2);
        from = to > LEAD_LEN ? to - LEAD_LEN : 0;
        put_stretch(r, text, from, from + EXCERPT_LEN_MAX / 2);
        return;
    }
    put_stretch(r, text, from, from + EXCERPT_LEN_MAX);
}

static bool is_full(const recall_search *r)
{
    return r->out->len + 4 * EXCERPT_LEN_MAX > r->recall->bytes_max;
}

static void put_parts(recall_search *r, const pal_part *parts, size_t len)
{
    for (size_t i = 0; i < len && !is_full(r); i++) {
        const pal_part *part = &parts[i];
        pal_str text = part->kind == PAL_PART_TOOL_CALL ? part->arguments : part->text;

        put_parts(r, part->parts, part->parts_len);
        if (part->kind == PAL_PART_REASONING || text.len == 0)
            continue;
        if (part->kind == PAL_PART_TOOL_CALL)
            pal_buf_format(r->out, "called %.*s: ", PAL_STR_ARG(part->name));
        put_text(r, text);
    }
}

static void put_message(recall_search *r, const pal_message *message)
{
    char time[PAL_TIME_TEXT_SIZE];

    pal_time_to_text(message->created_at, time);
    pal_buf_format(r->out, "--- message %llu, %s, %.16s\n", (unsigned long long)message->seq,
            pal_role_name(message->role), time);
    put_parts(r, message->parts, message->parts_len);
}

static bool has_call(const pal_message *message, pal_str call_id)
{
    for (size_t i = 0; i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_CALL &&
                pal_str_equal(message->parts[i].call_id, call_id))
            return true;
    return false;
}

static pal_str result_id(const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_RESULT)
            return message->parts[i].call_id;
    return (pal_str){0};
}

static pal_status load(const recall_search *r, const pal_message_query *wanted,
        pal_message_page *out_found, pal_error *err)
{
    return pal_store_load(r->recall->store, r->recall->tenant, r->recall->session, wanted, r->arena,
            out_found, err);
}

/* A result is hard to understand without its call, so the call is shown first. */
static pal_status put_call_of(recall_search *r, const pal_message *result, pal_error *err)
{
    pal_message_query wanted = {
            .before_seq = result->seq, .limit = CALL_DISTANCE_MAX, .from_end = true};
    pal_str call_id = result_id(result);
    pal_message_page before;
    pal_status status;

    if (call_id.len == 0)
        return PAL_OK;
    status = load(r, &wanted, &before, err);
    for (size_t i = status == PAL_OK ? before.len : 0; i-- > 0;) {
        if (has_call(&before.items[i], call_id)) {
            put_message(r, &before.items[i]);
            break;
        }
    }
    return status;
}

/* What was said before and after a hit may answer what was asked. */
static void put_neighbors(recall_search *r, const pal_search_hit *hit)
{
    for (size_t i = 0; hit->rank && i < hit->rank->neighbors_len && !is_full(r); i++) {
        const pal_search_neighbor *neighbor = &hit->rank->neighbors[i];

        if (is_hidden(r, neighbor->seq) && neighbor->text.len > 0)
            pal_buf_format(r->out, "(%s: message %llu, %s: %.*s)\n",
                    neighbor->seq < hit->seq ? "before it" : "after it",
                    (unsigned long long)neighbor->seq, pal_role_name(neighbor->role),
                    PAL_STR_ARG(neighbor->text));
    }
}

static pal_status put_hit(recall_search *r, const pal_search_hit *hit, pal_error *err)
{
    pal_message_query wanted = {.after_seq = hit->seq - 1, .before_seq = hit->seq + 1, .limit = 1};
    pal_message_page found;
    pal_status status = load(r, &wanted, &found, err);

    if (status != PAL_OK || found.len == 0)
        return status;
    status = put_call_of(r, &found.items[0], err);
    if (status == PAL_OK) {
        put_message(r, &found.items[0]);
        put_neighbors(r, hit);
    }
    return status;
}

/* ---- The search ---- */

static pal_status put_hits(recall_search *r, size_t *out_shown, bool *out_more, pal_error *err)
{
    pal_search_query search = {.tenant = r->recall->tenant,
            .session = r->recall->session,
            .text = r->recall->text,
            .limit = PAGE,
            .rank = PAL_RANK_QUESTIONS,
            .neighbors = NEIGHBORS};
    pal_status status = PAL_OK;

    if (last_hidden(r) < UINT64_MAX)
        search.before_seq = last_hidden(r) + 1;
    for (int page = 0; status == PAL_OK && page < PAGES_MAX && !*out_more; page++) {
        pal_search_page hits = {0};

        status = pal_store_search(r->recall->store, &search, r->arena, &hits, err);
        if (status == PAL_OK && !r->ranked && hits.len > 0 && hits.items[0].rank)
            status = pal_rank_query_read(r->recall->text, r->arena, &r->ranked, err);
        for (size_t i = 0; status == PAL_OK && i < hits.len; i++) {
            if (!is_hidden(r, hits.items[i].seq))
                continue;
            *out_more = *out_shown == r->recall->limit || is_full(r);
            if (*out_more)
                break;
            status = put_hit(r, &hits.items[i], err);
            (*out_shown)++;
        }
        if (hits.cursor.len == 0)
            break;
        search.cursor = hits.cursor;
    }
    return status;
}

pal_status pal_recall_run(
        const pal_recall *recall, pal_arena *arena, pal_buf *out, pal_error *err)
{
    recall_search r = {.recall = recall, .arena = arena, .out = out};
    size_t shown = 0;
    bool has_more = false;
    pal_status status = pal_words_query_read(recall->text, arena, &r.query, err);

    if (status == PAL_OK)
        status = find_hidden(&r, err);
    if (status != PAL_OK)
        return status;
    r.places_max = r.query.len * PLACES_MAX;
    r.places = pal_arena_array(arena, r.places_max, sizeof(*r.places));
    r.counts = pal_arena_array(arena, PAL_RANK_TERMS_MAX, sizeof(*r.counts));
    if (!r.places || !r.counts)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    pal_buf_init(&r.normal, PAL_MESSAGE_BYTES_MAX * 2);
    if (last_hidden(&r) > 0)
        status = put_hits(&r, &shown, &has_more, err);
    if (status != PAL_OK)
        goto out;
    if (shown == 0)
        pal_buf_append_text(out, "[Nothing was found.]");
    else if (has_more)
        pal_buf_append_text(out, "[There are more matches. Use more specific words.]");
    if (r.normal.failure != PAL_OK)
        status = pal_error_set(err, r.normal.failure, "out of memory");
out:
    pal_buf_done(&r.normal);
    return status;
}
