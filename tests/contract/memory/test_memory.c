/* test_memory.c - notes, on any backend: adding, superseding, undo, circles and erasure. */
#include "contract/contract.h"

#include <string.h>

#define DIRECT "{\"version\":1,\"agent_id\":\"main\",\"channel\":\"%s\",\"account\":\"default\","    \
               "\"dimensions\":[\"chat\"],\"values\":{\"chat\":\"%s\"}}"
#define LINKED "{\"version\":1,\"agent_id\":\"main\",\"channel\":\"\",\"account\":\"\","             \
               "\"dimensions\":[\"sender\"],\"values\":{\"sender\":\"ann\"}}"

static pal_id session_with(const char *scope)
{
    pal_session session = {.scope = S(scope)};
    pal_id id;

    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

static pal_id chat_of(const char *channel, const char *chat)
{
    char scope[300];

    snprintf(scope, sizeof scope, DIRECT, channel, chat);
    return session_with(pal_arena_copy(test.arena, S(scope)).data);
}

static uint64_t say_by(pal_id session, const char *sender, const char *text)
{
    char extra[100];
    pal_message message = text_of(PAL_ROLE_USER, text);

    snprintf(extra, sizeof extra, "{\"sender\":\"%s\"}", sender);
    message.extra = pal_arena_copy(test.arena, S(extra));
    OK(pal_store_append(test.store, no_tenant(), session, &message, 1, PAL_SEQ_ANY, &test.err));
    return message.seq;
}

static pal_note_request about(pal_id session, uint64_t seq, const char *text)
{
    return (pal_note_request){.text = S(text),
            .kind = PAL_NOTE_FACT,
            .by = PAL_NOTE_BY_TOOL,
            .session = session,
            .seq = seq};
}

static pal_note_added add(const pal_note_request *request)
{
    pal_note_added added = {.is_support = false};

    OK(pal_note_add(test.store, no_tenant(), request, test.arena, &added, &test.err));
    return added;
}

static pal_status add_status(const pal_note_request *request)
{
    pal_note_added added;

    return pal_note_add(test.store, no_tenant(), request, test.arena, &added, &test.err);
}

/* Says the text in the session and notes it. */
static pal_note note(pal_id session, const char *text)
{
    pal_note_request request = about(session, say(session, text), text);

    return add(&request).note;
}

static pal_note find(pal_str id)
{
    pal_note found = {.state = PAL_NOTE_STATE_NONE};

    OK(pal_note_find(test.store, no_tenant(), id, test.arena, &found, &test.err));
    return found;
}

/* The texts of the notes that may be shown in a session, joined by '|'. */
static const char *shown_in(pal_id session)
{
    static char text[1000];
    pal_session of = get_session(session);
    pal_note_place place = {.circles_len = 0};
    pal_note_page page = {.len = 0};
    pal_note_query query = {.state = PAL_NOTE_ACTIVE};

    text[0] = 0;
    OK(pal_note_place_of(&of, test.arena, &place, &test.err));
    query.circles = place.circles;
    query.circles_len = place.circles_len;
    if (!CHECK_THAT(place.circles_len, >, 0))
        return text;
    OK(pal_note_list(test.store, &query, test.arena, &page, &test.err));
    for (size_t i = 0; i < page.len; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.*s", i ? "|" : "",
                PAL_STR_ARG(page.items[i].text));
    return text;
}

static pal_status change(pal_str id, pal_note_act act, pal_note *out_note)
{
    return pal_note_change_state(test.store, no_tenant(), id, act, PAL_NOTE_BY_PERSON, S("why"),
            test.arena, out_note, &test.err);
}

/* ---- Adding ---- */

static void a_note_has_its_source(void)
{
    pal_id session = chat_of("matrix", "direct:@ann:hs");
    uint64_t seq = say(session, "Hello. I am vegetarian now.");
    pal_note_request request = about(session, seq, "Ann is vegetarian.");
    pal_note_added added;
    pal_note found;

    request.quote = S("I am vegetarian");
    added = add(&request);
    found = find(added.note.id);
    CHECK(!added.is_support);
    CHECK_STR(found.text, "Ann is vegetarian.");
    CHECK_STR(found.subject, "person:matrix:@ann:hs");
    CHECK_STR(found.circle, "person:matrix:@ann:hs");
    CHECK_EQ(found.state, PAL_NOTE_ACTIVE);
    CHECK_EQ(found.kind, PAL_NOTE_FACT);
    CHECK_EQ(found.by, PAL_NOTE_BY_TOOL);
    CHECK_EQ(found.version, 1);
    CHECK(pal_id_equal(found.session, session));
    if (CHECK_EQ(found.sources_len, 1)) {
        CHECK_EQ(found.sources[0].seq, seq);
        CHECK_STR(found.sources[0].quote, "I am vegetarian");
        CHECK_EQ(found.sources[0].said_at, NOW);
    }
    if (CHECK_EQ(found.changes_len, 1))
        CHECK_STR(found.changes[0].act, "add");
}

static void the_gate_decides(void)
{
    pal_id session = chat_of("matrix", "direct:@ann:hs");
    pal_message answer = text_of(PAL_ROLE_ASSISTANT, "You like tea.");
    pal_note_request request = about(session, say(session, "I like tea."), "I like coffee.");
    pal_note_added added;

    request.quote = S("I like coffee");
    GIVES(PAL_DENIED, add_status(&request));
    CHECK_CONTAINS(test.err.message, "not_said");
    request.subject = S("person:matrix:@bob:hs");
    request.quote = S("I like tea");
    GIVES(PAL_DENIED, add_status(&request));
    CHECK_CONTAINS(test.err.message, "other_person");
    request.subject = no_tenant();
    request.text = S("I hate broccoli and spinach.");
    added = add(&request);
    CHECK_EQ(added.note.state, PAL_NOTE_PENDING);
    CHECK_STR(added.note.pending, "inferred");
    CHECK_THAT(added.note.expires_at, >, pal_store_clock_ms(test.store));
    CHECK_STR(shown_in(session), "");
    OK(pal_store_append(test.store, no_tenant(), session, &answer, 1, PAL_SEQ_ANY, &test.err));
    request = about(session, answer.seq, "You like tea.");
    GIVES(PAL_DENIED, add_status(&request));
    CHECK_CONTAINS(test.err.message, "no_source");
}

static void the_same_statement_adds_a_source(void)
{
    pal_id session = chat_of("matrix", "direct:@ann:hs"), other = chat_of("matrix", "direct:@ann:hs");
    pal_note first = note(session, "I like green tea.");
    pal_note_request request = about(session, say(session, "I like green tea!"), "I like green tea");
    pal_note_added added = add(&request);

    CHECK(added.is_support);
    CHECK_STR(added.note.id, first.id);
    CHECK_EQ(find(first.id).sources_len, 2);
    CHECK(add(&request).is_support);
    CHECK_EQ(find(first.id).sources_len, 2);
    /* Another session can be erased alone, so its sources make a note of their own. */
    request = about(other, say(other, "I like green tea."), "I like green tea.");
    added = add(&request);
    CHECK(!added.is_support);
    OK(pal_store_erase(test.store, no_tenant(), session, NULL, &test.err));
    CHECK_STR(shown_in(other), "I like green tea.");
}

static void wrong_requests_change_nothing(void)
{
    pal_id session = new_session();
    uint64_t seq = say(session, "I like tea.");
    pal_note_request request = about(session, seq, "I like tea.");
    pal_note_page page = {.len = 9};
    pal_note_query all = {.limit = 10};

    request.text = S("  ");
    GIVES(PAL_INVALID, add_status(&request));
    request = about(session, seq + 1, "I like tea.");
    GIVES(PAL_NOT_FOUND, add_status(&request));
    request = about(pal_id_new(), seq, "I like tea.");
    GIVES(PAL_NOT_FOUND, add_status(&request));
    request = about(session, seq, "I like tea.");
    request.circle = S("tenant");
    GIVES(PAL_DENIED, add_status(&request));
    request.circle = no_tenant();
    request.subject = S("Ann");
    GIVES(PAL_INVALID, add_status(&request));
    request.subject = no_tenant();
    request.kind = PAL_NOTE_KIND_NONE;
    GIVES(PAL_INVALID, add_status(&request));
    request = (pal_note_request){
            .text = S("x"), .kind = PAL_NOTE_FACT, .by = PAL_NOTE_BY_TOOL, .subject = S("tenant")};
    GIVES(PAL_DENIED, add_status(&request));
    request.by = PAL_NOTE_BY_ADMIN;
    request.subject = no_tenant();
    GIVES(PAL_INVALID, add_status(&request));
    request = about(session, seq, "I like tea.");
    request.replaces = S("nothing");
    GIVES(PAL_NOT_FOUND, add_status(&request));
    rewind_to(session, 0);
    request = about(session, seq, "I like tea.");
    GIVES(PAL_NOT_FOUND, add_status(&request));
    OK(pal_note_list(test.store, &all, test.arena, &page, &test.err));
    CHECK_EQ(page.len, 0);
}

/* ---- Changes ---- */

static void each_note_of_a_chain_can_be_restored(void)
{
    static const char *const texts[] = {"I live in Lisbon.", "I live in Porto.", "I live in Bergen.",
            "I live in Cairo.", "I live in Quito."};
    pal_id session = chat_of("matrix", "direct:@ann:hs");
    pal_str ids[5];
    pal_note changed;

    for (int i = 0; i < 5; i++) {
        pal_note_request request = about(session, say(session, texts[i]), texts[i]);

        pal_clock_set_ms(NOW + i * 1000);
        request.replaces = i > 0 ? ids[i - 1] : no_tenant();
        ids[i] = add(&request).note.id;
        CHECK_STR(shown_in(session), texts[i]);
    }
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(find(ids[i]).state, PAL_NOTE_SUPERSEDED);
        CHECK_STR(find(ids[i]).replaced_by, ids[i + 1]);
    }
    for (int i = 3; i >= 0; i--) {
        OK(change(ids[i], PAL_NOTE_RESTORE, &changed));
        CHECK_STR(shown_in(session), texts[i]);
        CHECK_EQ(find(ids[i + 1]).state, PAL_NOTE_RETRACTED);
    }
    CHECK_EQ(find(ids[0]).changes_len, 3);
    CHECK_STR(find(ids[0]).changes[2].reason, "why");
}

static void notes_are_retracted_confirmed_and_restored(void)
{
    pal_id session = chat_of("matrix", "direct:@ann:hs");
    pal_note first = note(session, "I like tea."), changed;
    pal_note_request request = about(session, say(session, "He said I like coffee."), "I like coffee");
    pal_str pending = add(&request).note.id;

    GIVES(PAL_CONFLICT, change(first.id, PAL_NOTE_CONFIRM, &changed));
    GIVES(PAL_CONFLICT, change(first.id, PAL_NOTE_RESTORE, &changed));
    OK(change(first.id, PAL_NOTE_RETRACT, &changed));
    CHECK_EQ(changed.state, PAL_NOTE_RETRACTED);
    CHECK_EQ(changed.version, 2);
    GIVES(PAL_CONFLICT, change(first.id, PAL_NOTE_RETRACT, &changed));
    CHECK_STR(shown_in(session), "");
    OK(change(pending, PAL_NOTE_CONFIRM, &changed));
    CHECK_EQ(changed.expires_at, 0);
    CHECK_STR(shown_in(session), "I like coffee");
    OK(change(first.id, PAL_NOTE_RESTORE, &changed));
    GIVES(PAL_NOT_FOUND, change(S("nothing"), PAL_NOTE_RETRACT, &changed));
    GIVES(PAL_NOT_FOUND,
            pal_note_find(test.store, S("other"), first.id, test.arena, &changed, &test.err));
}

/* A pending note supersedes nothing before it is confirmed. */
static void a_pending_note_waits_to_supersede(void)
{
    pal_id session = chat_of("matrix", "direct:@ann:hs");
    pal_note old = note(session, "I drink coffee."), changed;
    pal_note_request request = about(session, say(session, "I drink it rarely."), "Prefers green sencha.");
    pal_note_added added;

    request.quote = S("I drink it");
    request.replaces = old.id;
    added = add(&request);
    CHECK_EQ(added.note.state, PAL_NOTE_PENDING);
    CHECK_STR(shown_in(session), "I drink coffee.");
    OK(change(added.note.id, PAL_NOTE_CONFIRM, &changed));
    CHECK_STR(shown_in(session), "Prefers green sencha.");
    CHECK_STR(find(old.id).replaced_by, added.note.id);
}

static void pending_notes_expire(void)
{
    pal_id session = chat_of("matrix", "direct:@ann:hs");
    pal_note_request request = about(session, say(session, "He said I like tea."), "I like tea");
    pal_note_added added = add(&request);
    pal_note found;

    CHECK_EQ(added.note.state, PAL_NOTE_PENDING);
    pal_clock_set_ms(NOW + PAL_NOTE_PENDING_MS + 1);
    if (strcmp(test.scheme, "postgres") != 0)
        GIVES(PAL_NOT_FOUND, pal_note_find(test.store, no_tenant(), added.note.id, test.arena,
                &found, &test.err));
}

/* ---- Circles ---- */

/* Where something was said decides where it may be shown. */
static void notes_stay_in_their_circle(void)
{
    pal_id ann = chat_of("matrix", "direct:@ann:hs"), bob = chat_of("matrix", "direct:@bob:hs");
    pal_id room = chat_of("matrix", "group:!r"), other = chat_of("matrix", "group:!s");
    pal_id telegram = chat_of("telegram", "direct:@ann:hs"), linked = session_with(LINKED);
    pal_id plain = new_session(), work = session_with("{\"version\":1,\"kind\":\"work_item\"}");
    pal_id all[] = {ann, bob, room, other, telegram, linked, plain, work};
    const char *const secrets[] = {"ann alpha", "bob bravo", "room charlie", "other delta",
            "telegram echo", "linked foxtrot", "plain golf", "work hotel"};
    pal_note_request everybody = {.text = S("everybody"),
            .kind = PAL_NOTE_FACT,
            .by = PAL_NOTE_BY_ADMIN,
            .subject = S("tenant")};

    for (size_t i = 0; i < 8; i++)
        note(all[i], secrets[i]);
    add(&everybody);
    for (size_t i = 0; i < 8; i++)
        for (size_t j = 0; j < 8; j++) {
            const char *shown_here = shown_in(all[i]);

            CHECK_CONTAINS(shown_here, "everybody");
            if (i == j)
                CHECK_CONTAINS(shown_here, secrets[j]);
            else
                CHECK_LACKS(shown_here, secrets[j]);
        }
    CHECK_CONTAINS(shown_in(chat_of("matrix", "direct:@ann:hs")), "ann alpha");
    CHECK_CONTAINS(shown_in(session_with(LINKED)), "linked foxtrot");
}

static void a_note_of_a_group_is_about_its_sender(void)
{
    pal_id room = chat_of("matrix", "group:!r"), ann = chat_of("matrix", "direct:@ann:hs");
    uint64_t by_ann = say_by(room, "@ann:hs", "I like tea.");
    uint64_t by_bob = say_by(room, "@bob:hs", "I like coffee.");
    pal_note_request request = about(room, by_ann, "I like tea.");
    pal_note_added added = add(&request);

    CHECK_STR(added.note.subject, "person:matrix:@ann:hs");
    CHECK_CONTAINS(added.note.circle, "room:matrix:");
    CHECK_STR(shown_in(ann), "");
    CHECK_STR(shown_in(room), "I like tea.");
    request = about(room, by_bob, "I like coffee.");
    request.subject = S("person:matrix:@ann:hs");
    GIVES(PAL_DENIED, add_status(&request));
    CHECK_CONTAINS(test.err.message, "other_person");
    request.subject = no_tenant();
    CHECK_STR(add(&request).note.subject, "person:matrix:@bob:hs");
}

static void tenants_are_separate(void)
{
    pal_note_request request = {.text = S("We meet on Mondays."),
            .kind = PAL_NOTE_FACT,
            .by = PAL_NOTE_BY_ADMIN,
            .subject = S("tenant")};
    pal_note_query theirs = {.tenant = S("other")};
    pal_note_page page = {.len = 9};
    pal_note kept = add(&request).note;

    OK(pal_note_list(test.store, &theirs, test.arena, &page, &test.err));
    CHECK_EQ(page.len, 0);
    GIVES(PAL_NOT_FOUND, pal_note_erase(test.store, S("other"), kept.id, &test.err));
    CHECK_EQ(find(kept.id).state, PAL_NOTE_ACTIVE);
}

/* ---- Lists ---- */

static void lists_have_pages_and_filters(void)
{
    pal_id ann = chat_of("matrix", "direct:@ann:hs");
    pal_note_query query = {.subject = S("person:matrix:@ann:hs"), .limit = 2};
    pal_note_page page = {.len = 0};
    size_t seen = 0;

    note(ann, "I paint horses in autumn.");
    note(ann, "My cat sleeps all day.");
    note(ann, "We sail to Bergen.");
    note(chat_of("matrix", "direct:@bob:hs"), "I paint boats.");
    do {
        OK(pal_note_list(test.store, &query, test.arena, &page, &test.err));
        seen += page.len;
        if (page.len > 0)
            query.after = page.items[page.len - 1].id;
    } while (page.has_more && seen < 9);
    CHECK_EQ(seen, 3);
    query = (pal_note_query){.text = S("What does she paint in autumn?"), .limit = 1};
    OK(pal_note_list(test.store, &query, test.arena, &page, &test.err));
    if (CHECK_EQ(page.len, 1))
        CHECK_STR(page.items[0].text, "I paint horses in autumn.");
    CHECK(page.has_more);
    query = (pal_note_query){.kind = PAL_NOTE_EVENT};
    OK(pal_note_list(test.store, &query, test.arena, &page, &test.err));
    CHECK_EQ(page.len, 0);
    query = (pal_note_query){.subject = S("ann")};
    GIVES(PAL_INVALID, pal_note_list(test.store, &query, test.arena, &page, &test.err));
    query = (pal_note_query){.limit = PAL_NOTE_PAGE_MAX + 1};
    GIVES(PAL_LIMIT, pal_note_list(test.store, &query, test.arena, &page, &test.err));
}

/* ---- Erasing ---- */

static void a_note_goes_with_its_session(void)
{
    pal_id session = chat_of("matrix", "direct:@ann:hs"), other = chat_of("matrix", "direct:@ann:hs");
    pal_note gone = note(session, "I keep a zebrafinch."), kept = note(other, "I sail.");
    pal_note found;

    OK(pal_store_delete(test.store, no_tenant(), session, &test.err));
    CHECK_EQ(find(gone.id).state, PAL_NOTE_ACTIVE);
    OK(pal_store_erase(test.store, no_tenant(), session, NULL, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_note_find(test.store, no_tenant(), gone.id, test.arena, &found, &test.err));
    CHECK_STR(shown_in(other), "I sail.");
    CHECK_EQ(find(kept.id).state, PAL_NOTE_ACTIVE);
}

static pal_note quoted(pal_id session, uint64_t seq, const char *text, const char *quote)
{
    pal_note_request request = about(session, seq, text);

    request.quote = S(quote);
    return add(&request).note;
}

static void notes_go_with_their_message(void)
{
    pal_id session = chat_of("matrix", "direct:@ann:hs");
    uint64_t first = say(session, "I sail on Sundays. I keep a quokka in Lisbon.");
    uint64_t second = say(session, "As I said: I sail on Sundays.");
    uint64_t third = say(session, "Yes, I keep a quokka.");
    pal_note alone = quoted(session, first, "Lisbon is where I am.", "in Lisbon");
    pal_note both = quoted(session, first, "I sail on Sundays.", "I sail on Sundays");
    pal_note partly = quoted(session, first, "I keep a quokka in Lisbon.", "I keep a quokka in Lisbon");
    pal_erase_result erasure = {0};
    uint64_t notes = 0;
    pal_note found;

    CHECK_EQ(alone.state, PAL_NOTE_ACTIVE);
    quoted(session, second, "I sail on Sundays.", "I sail on Sundays");
    quoted(session, third, "I keep a quokka Lisbon.", "I keep a quokka");
    CHECK_EQ(find(both.id).sources_len, 2);
    CHECK_EQ(find(partly.id).sources_len, 2);
    OK(pal_note_erase_message(
            test.store, no_tenant(), session, first, &erasure, &notes, &test.err));
    CHECK_EQ(notes, 2);
    CHECK_EQ(erasure.records, 2);
    CHECK_EQ(erasure.messages, 1);
    GIVES(PAL_NOT_FOUND,
            pal_note_find(test.store, no_tenant(), alone.id, test.arena, &found, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_note_find(test.store, no_tenant(), partly.id, test.arena, &found, &test.err));
    found = find(both.id);
    if (CHECK_EQ(found.sources_len, 1))
        CHECK_EQ(found.sources[0].seq, second);
    CHECK_STR(shown_in(session), "I sail on Sundays.");
    OK(pal_note_erase_message(test.store, no_tenant(), session, first, NULL, &notes, &test.err));
    CHECK_EQ(notes, 0);
    GIVES(PAL_NOT_FOUND,
            pal_note_erase_message(test.store, no_tenant(), session, 99, NULL, NULL, &test.err));
}

static void notes_are_erased_alone_and_by_subject(void)
{
    pal_id ann = chat_of("matrix", "direct:@ann:hs"), bob = chat_of("matrix", "direct:@bob:hs");
    pal_note one = note(ann, "I sail.");
    pal_note found;
    uint64_t erased = 0;

    note(ann, "I paint.");
    note(ann, "I cook.");
    note(bob, "I dance.");
    OK(pal_note_erase(test.store, no_tenant(), one.id, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_note_find(test.store, no_tenant(), one.id, test.arena, &found, &test.err));
    GIVES(PAL_NOT_FOUND, pal_note_erase(test.store, no_tenant(), one.id, &test.err));
    OK(pal_note_erase_subject(
            test.store, no_tenant(), S("person:matrix:@ann:hs"), &erased, &test.err));
    CHECK_EQ(erased, 2);
    CHECK_STR(shown_in(ann), "");
    CHECK_STR(shown_in(bob), "I dance.");
    GIVES(PAL_INVALID,
            pal_note_erase_subject(test.store, no_tenant(), S(""), &erased, &test.err));
}

static void notes_survive_a_restart(void)
{
    pal_id session = chat_of("matrix", "direct:@ann:hs");
    pal_note kept = note(session, "I sail.");

    if (!contract_is_durable())
        return;
    contract_reopen_store();
    CHECK_STR(find(kept.id).text, "I sail.");
    CHECK_STR(shown_in(session), "I sail.");
}

int main(int argc, char **argv)
{
    if (!contract_begin(argc, argv, false))
        return 1;
    RUN(a_note_has_its_source);
    RUN(the_gate_decides);
    RUN(the_same_statement_adds_a_source);
    RUN(wrong_requests_change_nothing);
    RUN(each_note_of_a_chain_can_be_restored);
    RUN(notes_are_retracted_confirmed_and_restored);
    RUN(a_pending_note_waits_to_supersede);
    RUN(pending_notes_expire);
    RUN(notes_stay_in_their_circle);
    RUN(a_note_of_a_group_is_about_its_sender);
    RUN(tenants_are_separate);
    RUN(lists_have_pages_and_filters);
    RUN(a_note_goes_with_its_session);
    RUN(notes_go_with_their_message);
    RUN(notes_are_erased_alone_and_by_subject);
    RUN(notes_survive_a_restart);
    return contract_end();
}
