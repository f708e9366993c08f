/* memory_gate.c - the rules of the gate. See memory_gate.h.
 *
 * A rule is a question about the proposal; the first rule that says yes decides, in the order of
 * the table. Rules that reject come first, so that a note that waits for a person was said, in
 * these words, by the person that it is about. The comparisons use the normal form of texts
 * (search_words.h): case, width and punctuation do not count. */
#include "memory/memory_gate.h"

#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/unicode.h"
#include "memory/memory_secret.h"
#include "palaver/limits.h"
#include "store/search/search_fold.h"

enum {
    CONTENT_LEN_MIN = 4, /* shorter words of letters are not content */
    TERMS_MAX = 256,     /* words of a note or a sentence that are compared */
    SAME_PERCENT = 80,   /* shared words from which two texts say the same */
};

#define ABILITY_MS (INT64_C(14) * 24 * 3600 * 1000)

/* A word, folded. */
typedef struct word {
    char stem[PAL_TERM_LEN_MAX];
    size_t len;
    size_t full_len;  /* of the word itself */
    bool is_literal;  /* it contains a digit: it must occur as it is */
    bool is_unspaced; /* a pair of characters of a script without spaces */
    bool is_found;
} word;

typedef struct words {
    word items[TERMS_MAX];
    size_t len;
} words;

typedef struct gate {
    const pal_gate_case *proposal;
    pal_gate_result *result;
    words text;          /* words of the note */
    pal_str sentence;    /* the sentences of the source that contain the quote */
    size_t quote_at;     /* where the quote begins in the source, */
    size_t quote_end;    /* and where it ends */
    bool has_no_memory;
} gate;

/* ---- Words ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool take_word(pal_term term, void *user)
{
    words *list = user;
    word *next = &list->items[list->len];
    uint32_t character;

    if (list->len == TERMS_MAX || term.text.len == 0)
        return list->len < TERMS_MAX;
    *next = (word){.full_len = term.text.len};
    next->len = pal_fold_stem(term.text, next->stem);
    for (size_t i = 0; i < term.text.len; i++)
        next->is_literal |= is_digit(term.text.data[i]);
    pal_utf8_decode(term.text, &character);
    next->is_unspaced = pal_unicode_kind_of(character) == PAL_UNICODE_UNSPACED;
    list->len++;
    return true;
}

static void each_term(gate *g, pal_str text, pal_term_sink sink, void *user)
{
    pal_buf normal;

    pal_buf_init(&normal, SIZE_MAX / 4);
    pal_words_normal(text, &normal);
    if (normal.failure)
        g->has_no_memory = true;
    else
        pal_words_terms(pal_buf_str(&normal), sink, user);
    pal_buf_done(&normal);
}

static void read_words(gate *g, pal_str text, words *out_words)
{
    out_words->len = 0;
    each_term(g, text, take_word, out_words);
}

static bool mark_word(pal_term term, void *user)
{
    words *list = user;
    char stem[PAL_TERM_LEN_MAX];
    size_t len = pal_fold_stem(term.text, stem);

    for (size_t i = 0; i < list->len; i++)
        if (list->items[i].len == len && memcmp(list->items[i].stem, stem, len) == 0)
            list->items[i].is_found = true;
    return true;
}

/* Marks the words of the list that occur in the text. */
static void mark_words(gate *g, pal_str text, words *list)
{
    each_term(g, text, mark_word, list);
}

static bool is_content(const word *of)
{
    return of->is_literal || of->is_unspaced || of->full_len >= CONTENT_LEN_MIN;
}

/* Returns how many percent of all different words of two texts occur in both. */
static unsigned same_percent(gate *g, const words *a, pal_str text)
{
    words b, marked = *a;
    size_t both = 0, all;

    read_words(g, text, &b);
    for (size_t i = 0; i < marked.len; i++)
        marked.items[i].is_found = false;
    mark_words(g, text, &marked);
    for (size_t i = 0; i < marked.len; i++)
        both += marked.items[i].is_found;
    all = marked.len + b.len - both;
    return all > 0 ? (unsigned)(100 * both / all) : 0;
}

/* ---- Words with a meaning of their own ---- */

/* Calls for each piece of the text between white space, without punctuation at its ends. */
static bool next_piece(pal_str *rest, pal_str *out_piece)
{
    pal_str piece;
    size_t len = 0;

    *rest = pal_text_trim(*rest);
    if (rest->len == 0)
        return false;
    while (len < rest->len && !pal_text_is_space(rest->data[len]))
        len++;
    piece = pal_str_make(rest->data, len);
    *rest = pal_text_after(*rest, len);
    while (piece.len && strchr("\"'()[]{}<>.,;:!?*_", piece.data[piece.len - 1]))
        piece.len--;
    while (piece.len && strchr("\"'()[]{}<>*_", piece.data[0]))
        piece = pal_text_after(piece, 1);
    *out_piece = piece;
    return true;
}

static bool is_among(pal_str piece, const char *const *list)
{
    for (; *list; list++)
        if (pal_text_is_nocase(piece, *list))
            return true;
    return false;
}

static const char *const negations[] = {"not", "no", "never", "none", "nobody", "nothing",
        "neither", "nor", "without", "cannot", "nicht", "kein", "keine", "keinen", "keinem",
        "keiner", "nie", "niemals", "niemand", "nichts", "ohne", "ne", "pas", "jamais", "aucun",
        "aucune", "sans", "rien", "nunca", "sin", "nada", "non", "mai", "senza", "n\xc3\xa3o",
        "sem", "\xd0\xbd\xd0\xb5", "\xd0\xbd\xd0\xb5\xd1\x82",
        "\xd0\xbd\xd0\xb8\xd0\xba\xd0\xbe\xd0\xb3\xd0\xb4\xd0\xb0", "\xd0\xb1\xd0\xb5\xd0\xb7",
        NULL};

/* In scripts without spaces: not, without, does not exist. */
static const char *const negation_characters[] = {"\xe4\xb8\x8d", "\xe6\xb2\xa1", "\xe6\xb2\x92",
        "\xe7\x84\xa1", "\xe6\x97\xa0", "\xe6\x9c\xaa", "\xe9\x9d\x9e", "\xe5\x88\xab",
        "\xe3\x81\xaa\xe3\x81\x84", "\xe3\x81\xbe\xe3\x81\x9b\xe3\x82\x93", "\xec\x95\x8a",
        "\xec\x97\x86", NULL};

static unsigned count_in(pal_str text, const char *needle)
{
    size_t len = strlen(needle);
    unsigned found = 0;

    for (size_t i = 0; i + len <= text.len; i++)
        found += memcmp(text.data + i, needle, len) == 0;
    return found;
}

static unsigned count_negations(pal_str text)
{
    unsigned found = 0;
    pal_str rest = text, piece;

    while (next_piece(&rest, &piece)) {
        const char *end = piece.data + piece.len;
        bool is_short = pal_text_ends(piece, "n't") || pal_text_ends(piece, "n\xe2\x80\x99t") ||
                pal_text_ends(piece, "N'T");
        /* "No, I moved" denies what was said before. */
        bool is_answer = found == 0 && end < text.data + text.len && *end == ',';

        found += is_short || (is_among(piece, negations) && !is_answer);
    }
    for (size_t i = 0; negation_characters[i]; i++)
        found += count_in(text, negation_characters[i]);
    return found;
}

static const char *const numbers[] = {"one", "two", "three", "four", "five", "six", "seven",
        "eight", "nine", "ten", "eleven", "twelve", "twenty", "thirty", "forty", "fifty", "hundred",
        "thousand", "million", "first", "second", "third", "once", "twice", NULL};

/* Words with which a sentence may begin although nobody said them. */
static const char *const beginnings[] = {"the", "this", "that", "these", "they", "their", "there",
        "she", "her", "his", "has", "had", "have", "was", "were", "are", "does", "did", "will",
        "can", "wants", "uses", "user", "for", "and", "but", "when", "der", "die", "das", "sie",
        "ihr", "ist", "hat", "les", "est", "elle", "los", "las", NULL};

static bool is_literal_piece(pal_str piece)
{
    for (size_t i = 0; i < piece.len; i++)
        if (is_digit(piece.data[i]) || piece.data[i] == '@')
            return true;
    return pal_text_begins_nocase(piece, "www.") || count_in(piece, "://") > 0;
}

static bool has_piece(pal_str text, pal_str wanted)
{
    pal_str piece;

    while (next_piece(&text, &piece))
        if (pal_text_equal_nocase(piece, wanted))
            return true;
    return false;
}

/* A capital letter outside of ASCII is not recognized; its word counts as other words do. */
static bool is_name(pal_str piece)
{
    return piece.len >= 2 && piece.data[0] >= 'A' && piece.data[0] <= 'Z';
}

/* ---- The rules ---- */

static bool is_over_limit(gate *g)
{
    const pal_gate_case *p = g->proposal;

    return p->text.len > PAL_NOTE_TEXT_LEN_MAX || p->quote.len > PAL_NOTE_QUOTE_LEN_MAX ||
            p->messages_len > PAL_NOTE_SOURCES_MAX ||
            (p->known_len >= PAL_NOTES_MAX && !p->is_replacing) || g->text.len == TERMS_MAX;
}

static bool has_no_source(gate *g)
{
    for (size_t i = 0; i < g->proposal->messages_len; i++)
        if (!g->proposal->messages[i].is_user)
            return true;
    return g->proposal->messages_len == 0;
}

static bool ends_sentence(pal_str text, size_t at)
{
    static const char *const stops[] = {
            "\xe3\x80\x82", "\xef\xbc\x81", "\xef\xbc\x9f", NULL}; /* of Chinese and Japanese */

    if (text.data[at] == '\n')
        return true;
    for (size_t i = 0; stops[i]; i++)
        if (pal_text_begins(pal_text_after(text, at), stops[i]))
            return true;
    return strchr(".!?", text.data[at]) &&
            (at + 1 == text.len || pal_text_is_space(text.data[at + 1]));
}

/* Sets the sentences that contain the quote. */
static void find_sentence(gate *g, pal_str text)
{
    size_t from = g->quote_at, to = g->quote_end;

    while (from > 0 && !ends_sentence(text, from - 1))
        from--;
    while (to < text.len && !(to > 0 && ends_sentence(text, to - 1)) && !ends_sentence(text, to))
        to++;
    g->sentence = pal_str_make(text.data + from, to - from);
    g->quote_at -= from;
    g->quote_end -= from;
}

static bool find_quote(gate *g, pal_str text, pal_str quote)
{
    pal_phrase phrase = {.normal = quote};
    pal_query query = {.phrases = &phrase, .len = 1};
    pal_buf normal;
    size_t at;
    bool is_there;

    pal_buf_init(&normal, SIZE_MAX / 4);
    pal_words_normal(text, &normal);
    g->has_no_memory |= normal.failure != PAL_OK;
    is_there = !normal.failure && pal_words_query_match(&query, pal_buf_str(&normal), &at);
    if (is_there) {
        g->quote_at = pal_words_origin(text, at);
        g->quote_end = at + quote.len < normal.len
                ? pal_words_origin(text, at + quote.len)
                : text.len;
        while (g->quote_end > g->quote_at && pal_text_is_space(text.data[g->quote_end - 1]))
            g->quote_end--; /* the next word may be in the next sentence */
        if (g->quote_end < g->quote_at)
            g->quote_end = g->quote_at;
    }
    pal_buf_done(&normal);
    return is_there;
}

static bool is_not_said(gate *g)
{
    const pal_gate_case *p = g->proposal;
    pal_buf quote;
    bool is_said = false;

    pal_buf_init(&quote, SIZE_MAX / 4);
    pal_words_normal(p->quote, &quote);
    g->has_no_memory |= quote.failure != PAL_OK;
    for (size_t i = 0; quote.len > 0 && !is_said && i < p->messages_len; i++) {
        is_said = find_quote(g, p->messages[i].text, pal_buf_str(&quote));
        if (is_said) {
            g->result->quoted = i;
            find_sentence(g, p->messages[i].text);
        }
    }
    pal_buf_done(&quote);
    return !is_said;
}

static bool is_other_person(gate *g)
{
    const pal_gate_case *p = g->proposal;

    return !pal_str_equal(p->subject, p->place) &&
            (p->messages[g->result->quoted].person.len == 0 ||
                    !pal_str_equal(p->subject, p->messages[g->result->quoted].person));
}

static bool has_secret(gate *g)
{
    return pal_secret_is_in(g->proposal->text) || pal_secret_is_in(g->proposal->quote);
}

static bool repeats_system(gate *g)
{
    pal_str rest = g->proposal->system;

    while (rest.len > 0) {
        size_t len = 0;

        while (len < rest.len && !ends_sentence(rest, len))
            len++;
        if (same_percent(g, &g->text, pal_str_make(rest.data, len)) >= SAME_PERCENT)
            return true;
        rest = pal_text_after(rest, len + 1);
    }
    return false;
}

static bool repeats_note(gate *g)
{
    const pal_gate_case *p = g->proposal;

    for (size_t i = 0; i < p->known_len; i++) {
        if (p->is_replacing && p->replaces == i)
            continue;
        if (count_negations(p->known[i].text) != count_negations(p->text) ||
                same_percent(g, &g->text, p->known[i].text) < SAME_PERCENT)
            continue;
        g->result->supports = i;
        return true;
    }
    return false;
}

/* A note can be replaced by what was said later about the same thing. */
static bool conflicts(gate *g)
{
    const pal_gate_case *p = g->proposal;
    words marked = g->text;

    if (!p->is_replacing)
        return false;
    if (p->replaces >= p->known_len ||
            p->messages[g->result->quoted].said_at < p->known[p->replaces].said_at)
        return true;
    mark_words(g, p->known[p->replaces].text, &marked);
    for (size_t i = 0; i < marked.len; i++)
        if (marked.items[i].is_found && is_content(&marked.items[i]))
            return false;
    return true;
}

static void mark_sources(gate *g, words *list)
{
    const pal_gate_case *p = g->proposal;

    for (size_t i = 0; i < p->messages_len; i++)
        mark_words(g, p->messages[i].text, list);
    if (p->is_replacing && p->replaces < p->known_len)
        mark_words(g, p->known[p->replaces].text, list);
    mark_words(g, p->subject, list);
}

static bool is_in_sources(gate *g, pal_str piece)
{
    const pal_gate_case *p = g->proposal;

    for (size_t i = 0; i < p->messages_len; i++)
        if (has_piece(p->messages[i].text, piece))
            return true;
    return p->is_replacing && p->replaces < p->known_len &&
            has_piece(p->known[p->replaces].text, piece);
}

/* Returns whether a number, an address or a name was not said. */
static bool has_new_literal(gate *g)
{
    pal_str rest = g->proposal->text, piece;
    bool is_first = true;

    for (; next_piece(&rest, &piece); is_first = false) {
        words named;
        bool is_known = true;

        if (is_literal_piece(piece) || is_among(piece, numbers)) {
            if (!is_in_sources(g, piece))
                return true;
            continue;
        }
        if (!is_name(piece) || (is_first && is_among(piece, beginnings)))
            continue;
        read_words(g, piece, &named);
        mark_sources(g, &named);
        for (size_t i = 0; i < named.len; i++)
            is_known &= named.items[i].is_found || named.items[i].len < 2;
        if (!is_known)
            return true;
    }
    return false;
}

static bool is_inferred(gate *g)
{
    words marked = g->text;
    size_t content = 0, found = 0;

    mark_sources(g, &marked);
    for (size_t i = 0; i < marked.len; i++) {
        const word *of = &marked.items[i];

        if (!of->is_found && (of->is_literal || of->is_unspaced))
            return true;
        content += is_content(of);
        found += is_content(of) && of->is_found;
    }
    return 2 * found < content || has_new_literal(g) ||
            count_negations(g->proposal->text) != count_negations(g->sentence);
}

static bool has_any(pal_str text, const char *const *list)
{
    for (; *list; list++) {
        size_t len = strlen(*list);

        for (size_t i = 0; i + len <= text.len; i++)
            if (strncasecmp(text.data + i, *list, len) == 0)
                return true;
    }
    return false;
}

static bool speaks_to_model(gate *g)
{
    static const char *const list[] = {"ignore ", "disregard", "always answer", "always reply",
            "always respond", "never tell", "never reveal", "system prompt", "your instructions",
            "you must", "from now on", "pretend", "act as", "jailbreak", NULL};

    return has_any(g->proposal->text, list) || has_any(g->proposal->quote, list);
}

static bool is_reported(gate *g)
{
    static const char *const list[] = {" said", " says", " told me", " claims", " claimed",
            "according to", " wrote", " writes", " thinks", " meinte", " sagte", " sagt ", " a dit",
            " dice que", " dijo", "\xe8\xaf\xb4", "\xe8\xa8\x80\xe3\x81\xa3", NULL};
    static const char *const own[] = {"i said", "i told", "as i wrote", NULL};
    pal_str before = pal_str_make(g->sentence.data, g->quote_at);
    pal_str line = pal_text_trim(g->sentence);
    unsigned straight = count_in(before, "\"");
    unsigned open = count_in(before, "\xe2\x80\x9c") + count_in(before, "\xe2\x80\x9e") +
            count_in(before, "\xc2\xab") + count_in(before, "\xe3\x80\x8c");
    unsigned closed = count_in(before, "\xe2\x80\x9d") + count_in(before, "\xc2\xbb") +
            count_in(before, "\xe3\x80\x8d");

    return straight % 2 == 1 || open > closed || pal_text_begins(line, ">") ||
            pal_text_begins_nocase(g->proposal->messages[g->result->quoted].text, "fwd:") ||
            (has_any(g->sentence, list) && !has_any(g->sentence, own));
}

/* What an assistant can or cannot do changes with its tools. */
static bool is_ability(gate *g)
{
    static const char *const who[] = {"assistant", "the bot", "the model", "you ", "chatbot", NULL};
    static const char *const can[] = {" can ", " can't", " cannot", " able to", " unable", NULL};

    return has_any(g->proposal->text, who) && has_any(g->proposal->text, can);
}

static const struct {
    const char *name;
    pal_gate_outcome outcome;
    bool (*applies)(gate *g);
    int64_t keep_ms;
} rules[] = {
        {"limit", PAL_GATE_REJECTED, is_over_limit, 0},
        {"no_source", PAL_GATE_REJECTED, has_no_source, 0},
        {"not_said", PAL_GATE_REJECTED, is_not_said, 0},
        {"other_person", PAL_GATE_REJECTED, is_other_person, 0},
        {"secret", PAL_GATE_REJECTED, has_secret, 0},
        {"system_text", PAL_GATE_REJECTED, repeats_system, 0},
        {"support", PAL_GATE_SUPPORT, repeats_note, 0},
        {"conflict", PAL_GATE_PENDING, conflicts, 0},
        {"inferred", PAL_GATE_PENDING, is_inferred, 0},
        {"instruction", PAL_GATE_PENDING, speaks_to_model, 0},
        {"reported", PAL_GATE_PENDING, is_reported, 0},
        {"ability", PAL_GATE_ACTIVE, is_ability, ABILITY_MS},
};

pal_status pal_gate_judge(
        const pal_gate_case *proposal, pal_gate_result *out_result, pal_error *err)
{
    gate *g = pal_calloc(1, sizeof(*g));

    if (!g)
        return pal_no_memory(err);
    *out_result = (pal_gate_result){.outcome = PAL_GATE_ACTIVE};
    g->proposal = proposal;
    g->result = out_result;
    read_words(g, proposal->text, &g->text);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (!rules[i].applies(g))
            continue;
        out_result->outcome = rules[i].outcome;
        out_result->rule = rules[i].name;
        out_result->keep_ms = rules[i].keep_ms;
        break;
    }
    if (g->has_no_memory) {
        pal_free(g);
        return pal_no_memory(err);
    }
    pal_free(g);
    return PAL_OK;
}

pal_status pal_gate_is_quoted(
        pal_str text, const pal_str *quotes, size_t len, bool *out_is_quoted, pal_error *err)
{
    gate *g = pal_calloc(1, sizeof(*g));
    bool is_quoted = true;

    if (!g)
        return pal_no_memory(err);
    read_words(g, text, &g->text);
    for (size_t i = 0; i < len; i++)
        mark_words(g, quotes[i], &g->text);
    for (size_t i = 0; i < g->text.len; i++)
        is_quoted &= g->text.items[i].is_found || !is_content(&g->text.items[i]);
    *out_is_quoted = is_quoted && len > 0;
    if (g->has_no_memory) {
        pal_free(g);
        return pal_no_memory(err);
    }
    pal_free(g);
    return PAL_OK;
}

bool pal_gate_has_quote(pal_str text, pal_str quote)
{
    pal_gate_message message = {.text = text};
    pal_gate_case proposal = {.quote = quote, .messages = &message, .messages_len = 1};
    pal_gate_result result = {.outcome = PAL_GATE_ACTIVE};
    gate *g = pal_calloc(1, sizeof(*g));
    bool is_said;

    if (!g)
        return false;
    g->proposal = &proposal;
    g->result = &result;
    is_said = !is_not_said(g) && !g->has_no_memory;
    pal_free(g);
    return is_said;
}

pal_status pal_gate_says_same(pal_str a, pal_str b, bool *out_is_same, pal_error *err)
{
    gate *g = pal_calloc(1, sizeof(*g));
    bool has_no_memory;

    if (!g)
        return pal_no_memory(err);
    read_words(g, a, &g->text);
    *out_is_same = count_negations(a) == count_negations(b) &&
            same_percent(g, &g->text, b) >= SAME_PERCENT;
    has_no_memory = g->has_no_memory;
    pal_free(g);
    return has_no_memory ? pal_no_memory(err) : PAL_OK;
}

pal_status pal_gate_may_retract(pal_str note, pal_str source, pal_str quote, bool *out_is_said,
        bool *out_is_about, pal_error *err)
{
    gate *g = pal_calloc(1, sizeof(*g));
    bool has_no_memory, is_about = false;

    if (!g)
        return pal_no_memory(err);
    *out_is_said = pal_gate_has_quote(source, quote);
    read_words(g, note, &g->text);
    mark_words(g, quote, &g->text);
    for (size_t i = 0; i < g->text.len; i++)
        is_about |= g->text.items[i].is_found && is_content(&g->text.items[i]);
    *out_is_about = is_about;
    has_no_memory = g->has_no_memory;
    pal_free(g);
    return has_no_memory ? pal_no_memory(err) : PAL_OK;
}
