/* test_context_repair.c - the repair of histories: PicoClaw's results (tests/data/vectors), and
 * each of our rules.
 *
 * Histories have a short notation: u user, a text of the assistant, s system, A:x,y assistant with
 * calls, t:x,y tool with results. In results '+' marks a message that was added, '!' a failed
 * result. */
#include <stdio.h>
#include <stdlib.h>
#include "base/json/json.h"
#include "base/memory.h"
#include "palaver/context.h"
#include "support/tap.h"
#include "support/vectors.h"

#define WORDS_MAX 64
#define TEXT_MAX 1024
#define FAMILY "f1"

static pal_arena *arena;

static pal_str str(const char *text)
{
    return pal_str_of(text);
}

/* ---- Histories in short ---- */

typedef struct history {
    pal_message messages[WORDS_MAX];
    size_t len;
} history;

static pal_part *parts_of(pal_message *message, size_t len)
{
    message->parts = pal_arena_array(arena, len, sizeof(*message->parts));
    message->parts_len = len;
    return message->parts;
}

/* The parts of "x,y": one call or one result each. */
static void add_ids(pal_message *message, pal_str ids, pal_part_kind kind)
{
    size_t count = 1, at = 0;
    for (size_t i = 0; i < ids.len; i++)
        count += ids.data[i] == ',';
    pal_part *parts = parts_of(message, count);
    for (size_t i = 0; i < count; i++, at++) {
        size_t start = at;
        while (at < ids.len && ids.data[at] != ',')
            at++;
        parts[i].kind = kind;
        parts[i].call_id = pal_arena_copy(arena, pal_str_make(ids.data + start, at - start));
        parts[i].name = str("ls");
        if (kind == PAL_PART_TOOL_CALL)
            parts[i].arguments = str("{}");
        else
            parts[i].text = str("out");
    }
}

static pal_message message_of(pal_str word, uint64_t seq)
{
    pal_message message = {.seq = seq, .tokens = 7};
    pal_str ids = word.len > 2 ? pal_str_make(word.data + 2, word.len - 2) : (pal_str){"", 0};
    message.role = word.data[0] == 's' ? PAL_ROLE_SYSTEM
            : word.data[0] == 'u'      ? PAL_ROLE_USER
            : word.data[0] == 't'      ? PAL_ROLE_TOOL
                                       : PAL_ROLE_ASSISTANT;
    if (word.len > 1) {
        add_ids(&message, ids, word.data[0] == 't' ? PAL_PART_TOOL_RESULT : PAL_PART_TOOL_CALL);
        return message;
    }
    *parts_of(&message, 1) = (pal_part){.kind = PAL_PART_TEXT, .text = str("text")};
    return message;
}

static history history_of(pal_str text)
{
    history list = {.len = 0};
    for (size_t at = 0; at < text.len;) {
        size_t start = at;
        while (at < text.len && text.data[at] != ' ')
            at++;
        if (at > start)
            list.messages[list.len] =
                    message_of(pal_str_make(text.data + start, at - start), list.len + 1);
        list.len += at > start;
        at++;
    }
    return list;
}

static size_t show_message(const pal_message *message, char *out, size_t size)
{
    static const char letters[] = "?suat";
    bool has_calls = false;
    size_t len = 0;
    for (size_t i = 0; i < message->parts_len; i++)
        has_calls |= message->parts[i].kind == PAL_PART_TOOL_CALL;
    if (message->flags & PAL_MESSAGE_FLAG_SYNTHETIC)
        out[len++] = '+';
    out[len++] = has_calls ? 'A' : letters[message->role];
    for (size_t i = 0, ids = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (part->kind != PAL_PART_TOOL_CALL && part->kind != PAL_PART_TOOL_RESULT)
            continue;
        len += (size_t)snprintf(out + len, size - len, "%c%.*s%s", ids++ ? ',' : ':',
                PAL_STR_ARG(part->call_id), part->is_error ? "!" : "");
    }
    return len;
}

static const char *show(const pal_repair_result *repaired)
{
    static char text[TEXT_MAX];
    size_t len = 0;
    for (size_t i = 0; i < repaired->len; i++) {
        if (i)
            text[len++] = ' ';
        len += show_message(&repaired->messages[i], text + len, sizeof text - len - 2);
    }
    text[len] = 0;
    return text;
}

/* ---- Repairs ---- */

static pal_repair_result repair_with(
        const pal_message *messages, size_t len, const pal_context_input *input)
{
    pal_repair_result repaired = {0};
    pal_error err = {PAL_OK, ""};
    if (!CHECK_STATUS(
                pal_context_repair(messages, len, input, arena, &repaired, &err), PAL_OK, &err))
        printf("# %s\n", err.message);
    return repaired;
}

static pal_repair_result repair(pal_profile profile, const pal_message *messages, size_t len)
{
    pal_context_input input = {.profile = profile, .family = str(FAMILY)};
    return repair_with(messages, len, &input);
}

static bool becomes(pal_profile profile, const char *in, const char *out)
{
    history list = history_of(str(in));
    pal_repair_result repaired = repair(profile, list.messages, list.len);
    bool same = strcmp(show(&repaired), out) == 0;
    if (!same)
        printf("# %s: '%s' gives '%s', not '%s'\n", pal_profile_name(profile), in, show(&repaired),
                out);
    return same;
}

static bool says(const pal_repair_result *repaired, const char *words)
{
    for (size_t i = 0; i < repaired->repairs_len; i++) {
        pal_str text = repaired->repairs[i].text;
        if (memmem(text.data, text.len, words, strlen(words)))
            return true;
    }
    printf("# none of %zu repairs says '%s'\n", repaired->repairs_len, words);
    return false;
}

/* A user's question, then a message with these parts. */
static pal_repair_result repair_parts(
        pal_profile profile, pal_role role, pal_part *parts, size_t len)
{
    pal_part *question = pal_arena_alloc(arena, sizeof(*question));
    *question = (pal_part){.kind = PAL_PART_TEXT, .text = str("hi")};
    pal_message messages[] = {{.role = PAL_ROLE_USER, .parts = question, .parts_len = 1, .seq = 1},
            {.role = role, .parts = parts, .parts_len = len, .seq = 2}};
    return repair(profile, messages, 2);
}

static const pal_part *part_at(const pal_repair_result *repaired, size_t message, size_t part)
{
    static const pal_part none = {0};
    if (!CHECK_THAT(message, <, repaired->len) ||
            !CHECK_THAT(part, <, repaired->messages[message].parts_len))
        return &none;
    return &repaired->messages[message].parts[part];
}

/* ---- Tests ---- */

static pal_str text_of(pal_json object, const char *name)
{
    return pal_arena_copy(arena, pal_json_string(pal_json_find(object, name), arena));
}

static void results_match_picoclaws_vectors(void)
{
    pal_json rows = pal_json_find(
                     vectors_load(arena, "picoclaw_history.json"), "sanitize_for_provider"),
             row;
    size_t count = 0;
    for (pal_json_iter iter = pal_json_each(rows); pal_json_next(&iter, NULL, &row); count++)
        CHECK(becomes(PAL_PROFILE_PICOCLAW, text_of(row, "in").data, text_of(row, "out").data));
    CHECK_THAT(count, >=, 13);
}

static void invalid_messages_are_dropped_as_in_picoclaw(void)
{
    CHECK(becomes(PAL_PROFILE_PICOCLAW, "s u s a", "u a"));
    CHECK(becomes(PAL_PROFILE_PICOCLAW, "u A:A t:A t:A a", "u A:A t:A a"));
    CHECK(becomes(PAL_PROFILE_PICOCLAW, "u A:A,B t:B t:A a", "u A:A,B t:B t:A a"));
    CHECK(becomes(PAL_PROFILE_PICOCLAW, "u A:A,B t:A,X t:B a", "u A:A,B t:A t:B a"));
    CHECK(becomes(PAL_PROFILE_PICOCLAW, "u A:A A:B t:A t:B u", "u A:A t:A u"));
    CHECK(becomes(PAL_PROFILE_PICOCLAW, "u A:A,B t:A A:C t:C", "u A:C t:C"));
    CHECK(becomes(PAL_PROFILE_PICOCLAW, "u A:A, t:A a", "u a"));
    CHECK(becomes(PAL_PROFILE_PICOCLAW, "u t:A a A:A", "u a"));
    CHECK(becomes(PAL_PROFILE_PICOCLAW, "A:A", ""));
    /* Messages that are added to a request are not part of the history. */
    history list = history_of(str("s u s a"));
    list.messages[0].seq = 0;
    list.messages[0].flags = PAL_MESSAGE_FLAG_SYNTHETIC;
    pal_repair_result ours = repair(PAL_PROFILE_PICOCLAW, list.messages, list.len);
    CHECK_STR(show(&ours), "+s u a");
    list = history_of(str("u s A:A t:A"));
    list.messages[1].seq = 0;
    list.messages[1].flags = PAL_MESSAGE_FLAG_SYNTHETIC;
    ours = repair(PAL_PROFILE_PICOCLAW, list.messages, list.len);
    CHECK_STR(show(&ours), "u +s A:A t:A");
    list = history_of(str("u A:A t:X"));
    pal_repair_result repaired = repair(PAL_PROFILE_PICOCLAW, list.messages, list.len);
    if (CHECK_EQ(repaired.repairs_len, 2)) {
        CHECK(repaired.repairs[0].dropped);
        CHECK_EQ(repaired.repairs[0].seq, 2);
    }
}

static void valid_lists_are_not_changed(void)
{
    static const char *const valid[] = {"", "u", "s u", "u a u", "s s u A:c00000001 t:c00000001",
            "u A:c00000001,c00000002 t:c00000001 t:c00000002 a u",
            "u A:c00000001,c00000002 t:c00000001,c00000002 a u", "u u a u"};
    for (size_t profile = 0; profile < PAL_PROFILE_PICOCLAW; profile++) {
        for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++) {
            history list = history_of(str(valid[i]));
            pal_repair_result repaired = repair((pal_profile)profile, list.messages, list.len);
            CHECK_EQ(repaired.repairs_len, 0);
            CHECK_EQ(repaired.len, list.len);
            for (size_t k = 0; k < repaired.len && k < list.len; k++) {
                CHECK_PTR(repaired.messages[k].parts, list.messages[k].parts);
                CHECK_BYTES(&repaired.messages[k], &list.messages[k], sizeof(pal_message));
            }
        }
    }
}

static void results_are_paired_with_their_calls(void)
{
    const pal_profile chat = PAL_PROFILE_OPENAI_CHAT;
    CHECK(becomes(chat, "u A:c t:c a", "u A:c t:c a"));
    CHECK(becomes(chat, "t:c u", "u"));
    CHECK(becomes(chat, "u t:c a", "u a"));
    CHECK(becomes(chat, "u t:c A:c", "u A:c +t:c!"));
    CHECK(becomes(chat, "u A:c", "u A:c +t:c!"));
    CHECK(becomes(chat, "u A:c u t:c a", "u A:c t:c u a"));
    CHECK(becomes(chat, "u A:c,d t:d t:c", "u A:c,d t:c t:d"));
    CHECK(becomes(chat, "u A:c,d t:d,c", "u A:c,d t:c,d"));
    CHECK(becomes(chat, "u A:c,d,e t:c,e t:d", "u A:c,d,e t:c t:d t:e"));
    CHECK(becomes(chat, "u A:c,d t:c u", "u A:c,d t:c +t:d! u"));
    CHECK(becomes(chat, "u A:c t:c t:c u", "u A:c t:c u"));
    CHECK(becomes(chat, "u A:c t:c,c u", "u A:c t:c u"));
    CHECK(becomes(chat, "u A:c t:c u A:c t:c a", "u A:c t:c u A:c t:c a"));
    CHECK(becomes(chat, "u A:c u A:c t:c a", "u A:c +t:c! u A:c t:c a"));
    CHECK(becomes(chat, "u A:c s t:c a", "u A:c t:c s a"));
    CHECK(becomes(chat, "u A:c a t:c", "u A:c t:c a"));
    history list = history_of(str("u A:c,d,e t:c,e t:d"));
    pal_repair_result repaired = repair(chat, list.messages, list.len);
    CHECK(says(&repaired, "in more than one message"));
}

static void parallel_calls_are_one_message(void)
{
    const pal_profile chat = PAL_PROFILE_OPENAI_CHAT;
    CHECK(becomes(chat, "u A:c A:d t:c t:d a", "u A:c,d t:c t:d a"));
    CHECK(becomes(chat, "u A:c A:d A:e t:e t:c t:d", "u A:c,d,e t:c t:d t:e"));
    CHECK(becomes(chat, "u A:c t:c A:d t:d", "u A:c t:c A:d t:d"));
    CHECK(becomes(chat, "u a A:c t:c", "u a A:c t:c"));
    history list = history_of(str("u A:c A:d t:c t:d"));
    pal_repair_result repaired = repair(chat, list.messages, list.len);
    CHECK_EQ(repaired.messages[1].seq, 2);
    CHECK_EQ(repaired.messages[1].tokens, 0);
    if (CHECK_EQ(repaired.repairs_len, 2)) {
        CHECK_EQ(repaired.repairs[0].seq, 2);
        CHECK_EQ(repaired.repairs[1].seq, 3);
    }
    CHECK(says(&repaired, "together with the assistant message"));
}

static void repairs_have_a_reason(void)
{
    history list = history_of(str("t:x u A:c,d t:c t:c u"));
    pal_repair_result repaired = repair(PAL_PROFILE_OPENAI_CHAT, list.messages, list.len);
    CHECK_EQ(repaired.repairs_len, 3);
    CHECK(says(&repaired, "orphan result: no call 'x' before it"));
    CHECK(says(&repaired, "second result of call 'c' left out"));
    CHECK(says(&repaired, "result created for call 'd': no result exists"));
    CHECK(repaired.repairs[0].dropped);
    CHECK_EQ(repaired.repairs[0].seq, 1);
    CHECK(repaired.repairs[1].dropped);
    CHECK_EQ(repaired.repairs[1].seq, 5);
    CHECK(!repaired.repairs[2].dropped);
    CHECK_EQ(repaired.repairs[2].seq, 0);
}

static void results_of_pending_calls_say_that_they_still_run(void)
{
    const pal_str pending[] = {str("d"), str("e")};
    pal_context_input input = {.pending = pending, .pending_len = 2};
    history list = history_of(str("u A:d u A:c,d,e t:e"));
    pal_repair_result repaired = repair_with(list.messages, list.len, &input);
    CHECK_STR(show(&repaired), "u A:d +t:d! u A:c,d,e +t:c! +t:d t:e");
    CHECK_STR(part_at(&repaired, 5, 0)->text, "[Tool execution was interrupted]");
    CHECK_STR(part_at(&repaired, 6, 0)->text, "[Tool is still running]");
    CHECK_STR(part_at(&repaired, 7, 0)->text, "out");
    CHECK_STR(part_at(&repaired, 6, 0)->name, "ls");
}

static void ids_in_one_message_are_unique(void)
{
    CHECK(becomes(PAL_PROFILE_OPENAI_CHAT, "u A:c,c t:c u", "u A:c t:c u"));
    history list = history_of(str("u A:c,c t:c t:c"));
    list.messages[1].parts[1].arguments = str("{\"other\":1}");
    list.messages[3].parts[0].text = str("second");
    pal_repair_result repaired = repair(PAL_PROFILE_OPENAI_CHAT, list.messages, list.len);
    CHECK_EQ(repaired.len, 4);
    CHECK_STR(part_at(&repaired, 1, 0)->call_id, "c");
    CHECK_DIFFER(part_at(&repaired, 1, 1)->call_id, "c");
    CHECK_STR(part_at(&repaired, 1, 1)->call_id, part_at(&repaired, 3, 0)->call_id);
    CHECK_STR(part_at(&repaired, 3, 0)->text, "second");
    CHECK_STR(list.messages[1].parts[1].call_id, "c");
}

static void empty_ids_are_replaced(void)
{
    history list = history_of(str("u A:, t: t: t: u"));
    pal_repair_result repaired = repair(PAL_PROFILE_OPENAI_CHAT, list.messages, list.len);
    CHECK_EQ(repaired.len, 5);
    CHECK_THAT(part_at(&repaired, 1, 0)->call_id.len, >, 0);
    CHECK_DIFFER(part_at(&repaired, 1, 0)->call_id, part_at(&repaired, 1, 1)->call_id);
    CHECK_STR(part_at(&repaired, 1, 1)->call_id, part_at(&repaired, 3, 0)->call_id);
}

static bool id_becomes(pal_profile profile, const char *id, size_t len, bool same)
{
    history list = history_of(str("u A:c t:c u"));
    list.messages[1].parts[0].call_id = list.messages[2].parts[0].call_id = str(id);
    pal_repair_result repaired = repair(profile, list.messages, list.len);
    pal_repair_result again = repair(profile, list.messages, list.len);
    pal_str sent = part_at(&repaired, 1, 0)->call_id;
    return pal_str_equal(sent, part_at(&repaired, 2, 0)->call_id) && sent.len == len &&
            pal_str_is(sent, id) == same && (same || says(&repaired, "call id")) &&
            pal_str_equal(sent, part_at(&again, 1, 0)->call_id);
}

static void ids_have_the_form_that_the_provider_requires(void)
{
    const char *forty = "call_0123456789012345678901234567890123x";
    const char *fortyone = "call_0123456789012345678901234567890123xy";
    CHECK(id_becomes(PAL_PROFILE_MISTRAL, "call_abc", 9, false));
    CHECK(id_becomes(PAL_PROFILE_MISTRAL, "abcDEF123", 9, true));
    CHECK(id_becomes(PAL_PROFILE_MISTRAL, "abcDEF12_", 9, false));
    CHECK(id_becomes(PAL_PROFILE_ANTHROPIC, "toolu_1-x", 9, true));
    CHECK(id_becomes(PAL_PROFILE_ANTHROPIC, "functions.ls:0", 21, false));
    CHECK(id_becomes(PAL_PROFILE_OPENAI_CHAT, "functions.ls:0", 14, true));
    CHECK(id_becomes(PAL_PROFILE_OPENAI_CHAT, forty, 40, true));
    CHECK(id_becomes(PAL_PROFILE_OPENAI_CHAT, fortyone, 21, false));
    CHECK(id_becomes(PAL_PROFILE_OPENAI_RESPONSES, fortyone, 41, true));
    CHECK(id_becomes(PAL_PROFILE_OPENAI_CHAT, "a\nb", 21, false));
    CHECK(id_becomes(PAL_PROFILE_OPENAI_CHAT,
            "a\xff"
            "b",
            21, false));
}

static void ids_are_unique_if_the_profile_requires_it(void)
{
    history list = history_of(str("u A:c t:c u A:c t:c u"));
    pal_repair_result repaired = repair(PAL_PROFILE_ANTHROPIC, list.messages, list.len);
    if (CHECK_EQ(repaired.len, 7))
        CHECK_STR(part_at(&repaired, 1, 0)->call_id, "c");
    CHECK_DIFFER(part_at(&repaired, 4, 0)->call_id, "c");
    CHECK_STR(part_at(&repaired, 4, 0)->call_id, part_at(&repaired, 5, 0)->call_id);
    /* The position in the session decides, so that a shorter history has the same ids. */
    history cut = history_of(str("u A:c t:c u A:c t:c u A:c t:c u"));
    pal_repair_result all = repair(PAL_PROFILE_ANTHROPIC, cut.messages, cut.len);
    pal_repair_result rest = repair(PAL_PROFILE_ANTHROPIC, cut.messages + 3, cut.len - 3);
    CHECK_STR(part_at(&all, 7, 0)->call_id, part_at(&rest, 4, 0)->call_id);
}

static void names_and_arguments_are_corrected(void)
{
    static const char *const rows[][3] = {{"{\"a\":1}", "{\"a\":1}", "{\"a\":1}"}, {"", "", "{}"},
            {" \n", " \n", "{}"}, {"[1]", "[1]", "{\"arguments\":[1]}"},
            {"{\"a\":", "{\"a\":", "{\"arguments\":\"{\\\"a\\\":\"}"},
            {"{\"a\":\"\\ud83d\"}", "{\"a\":\"\\ud83d\"}", "{\"a\":\"\\ufffd\"}"},
            {"{\"a\":\"\\ud83d\\ude00\"}", "{\"a\":\"\\ud83d\\ude00\"}",
                    "{\"a\":\"\\ud83d\\ude00\"}"},
            {"{\"a\":\"\\\\ud83d\"}", "{\"a\":\"\\\\ud83d\"}", "{\"a\":\"\\\\ud83d\"}"},
            {"\xff", "\xef\xbf\xbd", "{\"arguments\":\"\xef\xbf\xbd\"}"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        history list = history_of(str("u A:c00000001 t:c00000001"));
        list.messages[1].parts[0].arguments = str(rows[i][0]);
        pal_repair_result chat = repair(PAL_PROFILE_OPENAI_CHAT, list.messages, list.len);
        pal_repair_result object = repair(PAL_PROFILE_ANTHROPIC, list.messages, list.len);
        CHECK_STR(part_at(&chat, 1, 0)->arguments, rows[i][1]);
        CHECK_STR(part_at(&object, 1, 0)->arguments, rows[i][2]);
        CHECK_EQ((object.repairs_len == 0), (strcmp(rows[i][0], rows[i][2]) == 0));
    }
    history list = history_of(str("u A:c,d t:c,d"));
    list.messages[1].parts[0].name = list.messages[2].parts[0].name = str("mcp.fs/ls \xc3\xa9");
    list.messages[1].parts[1].name = str("");
    pal_repair_result repaired = repair(PAL_PROFILE_OPENAI_CHAT, list.messages, list.len);
    CHECK_STR(part_at(&repaired, 1, 0)->name, "mcp_fs_ls___");
    CHECK_STR(part_at(&repaired, 2, 0)->name, "mcp_fs_ls___");
    CHECK_STR(part_at(&repaired, 1, 1)->name, "unknown");
    CHECK(says(&repaired, "tool name"));
}

static void roles_follow_the_profile(void)
{
    CHECK(becomes(PAL_PROFILE_OPENAI_CHAT, "a u a", "a u a"));
    CHECK(becomes(PAL_PROFILE_OPENAI_CHAT, "s u s u", "s u s u"));
    CHECK(becomes(PAL_PROFILE_OPENAI_CHAT, "s", "s"));
    CHECK(becomes(PAL_PROFILE_OPENAI_CHAT, "t:x", "+u"));
    CHECK(becomes(PAL_PROFILE_ANTHROPIC, "a u", "+u a u"));
    CHECK(becomes(PAL_PROFILE_ANTHROPIC, "s a u", "s +u a u"));
    CHECK(becomes(PAL_PROFILE_ANTHROPIC, "s", "s +u"));
    CHECK(becomes(PAL_PROFILE_ANTHROPIC, "s s u s a u", "s s u u a u"));
    CHECK(becomes(PAL_PROFILE_ANTHROPIC, "u a", "u a +u"));
    CHECK(becomes(PAL_PROFILE_ANTHROPIC, "u A:c t:c u", "u A:c t:c u"));
    CHECK(becomes(PAL_PROFILE_ANTHROPIC, "u a a u", "u a a u"));
    CHECK(becomes(
            PAL_PROFILE_MISTRAL, "u A:c00000001 t:c00000001 u", "u A:c00000001 t:c00000001 +a u"));
    CHECK(becomes(
            PAL_PROFILE_MISTRAL, "u A:c00000001 t:c00000001 s", "u A:c00000001 t:c00000001 +a u"));
    CHECK(becomes(PAL_PROFILE_MISTRAL, "u a a a u", "u a u"));
    CHECK(becomes(PAL_PROFILE_MISTRAL, "u a A:c00000001", "u A:c00000001 +t:c00000001!"));
    CHECK(becomes(PAL_PROFILE_MISTRAL, "u A:c00000001 a a", "u A:c00000001 +t:c00000001! a +u"));
    CHECK(becomes(PAL_PROFILE_MISTRAL, "a", "+u a +u"));
    history list = history_of(str("u s u"));
    pal_repair_result repaired = repair(PAL_PROFILE_ANTHROPIC, list.messages, list.len);
    CHECK(says(&repaired, "later system message"));
    CHECK_STR(part_at(&repaired, 1, 0)->text, "[System message]\n");
    CHECK_STR(part_at(&repaired, 1, 1)->text, "text");
    pal_message nobody = {.seq = 1, .parts = list.messages[0].parts, .parts_len = 1};
    repaired = repair(PAL_PROFILE_ANTHROPIC, &nobody, 1);
    if (CHECK_STR(show(&repaired), "+u"))
        CHECK(says(&repaired, "without a role"));
}

static void invalid_texts_are_cleaned(void)
{
    pal_part parts[] = {{.kind = PAL_PART_TEXT, .text = {"a\0b\xff", 4}},
            {.kind = PAL_PART_TEXT, .text = {"", 0}}, {.kind = PAL_PART_TEXT, .text = {" \n", 2}}};
    pal_repair_result chat = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_USER, parts, 3);
    pal_repair_result blank = repair_parts(PAL_PROFILE_ANTHROPIC, PAL_ROLE_USER, parts, 3);
    CHECK_EQ(chat.messages[1].parts_len, 2);
    CHECK_EQ(blank.messages[1].parts_len, 1);
    CHECK_STR(part_at(&chat, 1, 0)->text,
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd");
    CHECK_STR(part_at(&chat, 1, 1)->text, " \n");
    if (CHECK(says(&chat, "invalid characters")) && CHECK(says(&chat, "empty text")))
        CHECK_EQ(chat.repairs_len, 2);
    CHECK_EQ(chat.messages[1].tokens, 0);
    parts[0].text.len = 3;
    chat = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_USER, parts, 1);
    CHECK_STR(part_at(&chat, 1, 0)->text,
            "a\xef\xbf\xbd"
            "b");
    chat = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_USER, &parts[1], 1);
    if (CHECK_EQ(chat.len, 1) && CHECK_EQ(chat.repairs_len, 1))
        CHECK(chat.repairs[0].dropped);
    chat = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_ASSISTANT, NULL, 0);
    if (CHECK_EQ(chat.len, 1) && CHECK(says(&chat, "without content")))
        CHECK(chat.repairs[0].dropped);
    blank = repair_parts(PAL_PROFILE_ANTHROPIC, PAL_ROLE_USER, &parts[2], 1);
    CHECK_EQ(blank.len, 1);
}

static void reasoning_of_other_models_is_left_out(void)
{
    pal_part parts[] = {{.kind = PAL_PART_REASONING, .text = str("r"), .family = str("other")},
            {.kind = PAL_PART_REASONING, .text = str("r"), .family = str(FAMILY)},
            {.kind = PAL_PART_REASONING,
                    .text = str("r"),
                    .family = str(FAMILY),
                    .signature = str("s")},
            {.kind = PAL_PART_TEXT, .text = str("t")}};
    pal_repair_result chat = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_ASSISTANT, parts, 4);
    pal_repair_result claude = repair_parts(PAL_PROFILE_ANTHROPIC, PAL_ROLE_ASSISTANT, parts, 4);
    CHECK_EQ(chat.messages[1].parts_len, 3);
    CHECK(says(&chat, "another model"));
    CHECK_EQ(claude.messages[1].parts_len, 2);
    CHECK(says(&claude, "without a signature"));
    /* An answer that ended while the model was reasoning. */
    chat = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_ASSISTANT, &parts[1], 2);
    CHECK_EQ(chat.len, 1);
    CHECK(says(&chat, "nothing after it"));
    pal_part last[] = {parts[3], parts[2]};
    chat = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_ASSISTANT, last, 2);
    claude = repair_parts(PAL_PROFILE_ANTHROPIC, PAL_ROLE_ASSISTANT, last, 2);
    CHECK_EQ(chat.messages[1].parts_len, 2);
    CHECK_EQ(claude.messages[1].parts_len, 1);
    /* Without a family nothing is replayed, not even reasoning without a family. */
    pal_context_input input = {.profile = PAL_PROFILE_OPENAI_CHAT};
    pal_part nobodys[] = {{.kind = PAL_PART_REASONING, .text = str("r")}, parts[3]};
    pal_message message = {.role = PAL_ROLE_ASSISTANT, .parts = nobodys, .parts_len = 2};
    chat = repair_with(&message, 1, &input);
    CHECK_EQ(chat.messages[0].parts_len, 1);
    /* Reasoning before a duplicated call is removed with the call. */
    pal_part call = {.kind = PAL_PART_TOOL_CALL,
            .call_id = str("c"),
            .name = str("ls"),
            .arguments = str("{}")};
    pal_part twice[] = {call, parts[2], call};
    claude = repair_parts(PAL_PROFILE_ANTHROPIC, PAL_ROLE_ASSISTANT, twice, 3);
    CHECK_EQ(claude.messages[1].parts_len, 1);
    CHECK_EQ(part_at(&claude, 1, 0)->kind, call.kind);
    /* Signed reasoning is not changed. */
    parts[2].text = str("\xff");
    claude = repair_parts(PAL_PROFILE_ANTHROPIC, PAL_ROLE_ASSISTANT, &parts[2], 2);
    CHECK_EQ(claude.messages[1].parts_len, 1);
    CHECK_EQ(part_at(&claude, 1, 0)->kind, PAL_PART_TEXT);
}

static void unsupported_images_are_replaced(void)
{
    pal_context_input input = {.limits.image_bytes = 4};
    pal_part parts[] = {
            {.kind = PAL_PART_IMAGE, .media_type = str("image/png"), .data = str("1234")},
            {.kind = PAL_PART_IMAGE, .media_type = str("image/png"), .data = str("12345")},
            {.kind = PAL_PART_IMAGE, .media_type = str("image/tiff"), .data = str("1")},
            {.kind = PAL_PART_IMAGE, .media_type = str("image/png")},
            {.kind = PAL_PART_IMAGE, .media_type = str("image/JPG"), .data = str("1")},
            {.kind = PAL_PART_IMAGE, .url = str("https://example.org/x")},
            {.kind = PAL_PART_FILE, .name = str("x")},
            {.kind = PAL_PART_FILE, .name = str("x"), .data = str("1")},
            {.kind = PAL_PART_COMPACTION, .text = str("x")}};
    pal_message message = {.role = PAL_ROLE_USER, .parts = parts, .parts_len = 9, .seq = 1};
    pal_repair_result repaired = repair_with(&message, 1, &input);
    static const char *const texts[] = {"", "[Image removed from context]",
            "[Image removed from context]", "[Image removed from context]", "", "",
            "[File removed from context]", "", "What did we do so far?"};
    for (size_t i = 0; i < 9; i++)
        CHECK_STR(part_at(&repaired, 0, i)->text, texts[i]);
    CHECK_STR(part_at(&repaired, 0, 4)->media_type, "image/jpeg");
    CHECK_EQ(repaired.repairs_len, 5);
    CHECK(says(&repaired, "over the limit"));
    message.role = PAL_ROLE_ASSISTANT;
    repaired = repair_with(&message, 1, &input);
    CHECK_STR(part_at(&repaired, 0, 0)->text, "[Image removed from context]");
    CHECK(says(&repaired, "only a user"));
}

static void an_image_over_the_limit_is_replaced_in_every_form(void)
{
    static const char *const urls[][2] = {{"data:image/png;base64,MTIz", "123"},
            {"data:image/png;base64,MTIzNA==", "1234"}, {"data:image/png;base64,MTIzNA", "1234"},
            {"DATA:image/png;BASE64,MTIzNDU=", "12345"},
            {"data:image/png;base64,MTIzNDU2", "123456"}, {"data:image/png,12345", "12345"},
            {"data:image/png;base64,", ""}, {"https://example.org/a,bcdefghijklmnop", ""},
            {"data:", ""}};
    pal_context_input input = {.limits.image_bytes = 4};
    pal_part part = {.kind = PAL_PART_IMAGE, .media_type = str("image/png")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1, .seq = 1};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        part.url = str(urls[i][0]);
        pal_repair_result repaired = repair_with(&message, 1, &input);
        bool is_gone = part_at(&repaired, 0, 0)->kind == PAL_PART_TEXT;
        CHECK_EQ(is_gone, (strlen(urls[i][1]) > 4));
    }
    part.url = str("");
    part.blob = str("sha256:00");
    for (part.bytes = 3; part.bytes <= 5; part.bytes++) {
        pal_repair_result repaired = repair_with(&message, 1, &input);
        bool is_gone = part_at(&repaired, 0, 0)->kind == PAL_PART_TEXT;
        CHECK_EQ(is_gone, (part.bytes > 4));
        CHECK(!is_gone || says(&repaired, "over the limit"));
    }
}

static void media_of_results_are_moved_to_a_user_message(void)
{
    pal_part inner[] = {{.kind = PAL_PART_TEXT, .text = str("see")},
            {.kind = PAL_PART_IMAGE, .media_type = str("image/png"), .data = str("1")},
            {.kind = PAL_PART_TOOL_CALL, .call_id = str("x")}};
    history list = history_of(str("u A:c00000001,c00000002 t:c00000001 t:c00000002 u"));
    list.messages[2].parts[0].parts = inner;
    list.messages[2].parts[0].parts_len = 3;
    list.messages[2].parts[0].text = str("");
    list.messages[3].parts[0].parts = inner + 1;
    list.messages[3].parts[0].parts_len = 1;
    list.messages[3].parts[0].text = str("");
    pal_repair_result chat = repair(PAL_PROFILE_OPENAI_CHAT, list.messages, list.len);
    CHECK_STR(show(&chat), "u A:c00000001,c00000002 t:c00000001 t:c00000002 +u u");
    if (CHECK_EQ(part_at(&chat, 2, 0)->parts_len, 1))
        CHECK_EQ(part_at(&chat, 3, 0)->parts_len, 0);
    CHECK_THAT(part_at(&chat, 3, 0)->text.len, >, 0);
    CHECK_STR(part_at(&chat, 4, 0)->text, "Attached media from tool result:");
    CHECK_EQ(chat.messages[4].parts_len, 3);
    CHECK(says(&chat, "moved after the results"));
    CHECK(says(&chat, "created for the media"));
    pal_repair_result mistral = repair(PAL_PROFILE_MISTRAL, list.messages, list.len);
    CHECK_STR(show(&mistral), "u A:c00000001,c00000002 t:c00000001 t:c00000002 +a +u u");
    list.messages[3].parts[0].is_error = true;
    pal_repair_result claude = repair(PAL_PROFILE_ANTHROPIC, list.messages, list.len);
    if (CHECK_EQ(part_at(&claude, 2, 0)->parts_len, 2))
        CHECK_EQ(part_at(&claude, 3, 0)->parts_len, 0);
    CHECK_STR(show(&claude), "u A:c00000001,c00000002 t:c00000001 t:c00000002! +u u");
}

static void results_are_sent_as_tool_messages(void)
{
    history list = history_of(str("u A:c,d t:c t:d u"));
    pal_part mixed[] = {{.kind = PAL_PART_TEXT, .text = str("also")}, list.messages[2].parts[0]};
    list.messages[2].parts = mixed;
    list.messages[2].parts_len = 2;
    list.messages[3].role = PAL_ROLE_USER;
    pal_repair_result repaired = repair(PAL_PROFILE_OPENAI_CHAT, list.messages, list.len);
    CHECK_STR(show(&repaired), "u A:c,d t:c t:d u u");
    if (CHECK(says(&repaired, "separate tool message")))
        CHECK(says(&repaired, "moved after their call"));
    CHECK_EQ(repaired.messages[4].seq, 3);
    CHECK_STR(part_at(&repaired, 4, 0)->text, "also");
    /* A tool message with text, but without a call. */
    repaired = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_TOOL, mixed, 1);
    if (CHECK_STR(show(&repaired), "u u"))
        CHECK(says(&repaired, "without a result"));
    /* Calls in a user message do not count. */
    repaired = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_USER, list.messages[1].parts, 2);
    CHECK_EQ(repaired.len, 1);
    CHECK(says(&repaired, "not allowed for its role"));
    /* An answer that contains the result of its own call. */
    pal_part both[] = {list.messages[1].parts[0], mixed[1]};
    repaired = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_ASSISTANT, both, 2);
    CHECK_STR(show(&repaired), "u A:c t:c");
}

static void failures_without_output_get_a_text(void)
{
    history list = history_of(str("u A:c t:c"));
    list.messages[2].parts[0].is_error = true;
    list.messages[2].parts[0].text = str(" ");
    pal_repair_result claude = repair(PAL_PROFILE_ANTHROPIC, list.messages, list.len);
    CHECK_STR(part_at(&claude, 2, 0)->text, "[The tool failed without output]");
    pal_repair_result chat = repair(PAL_PROFILE_OPENAI_CHAT, list.messages, list.len);
    CHECK_EQ(chat.repairs_len, 0);
}

static void old_forms_are_sent_as_plain_ones(void)
{
    history list = history_of(str("u A:ls t:ls u"));
    list.messages[1].parts[0].extra = str("{\"openai\":{\"type\":\"function_call\"}}");
    list.messages[2].extra = str("{\"openai\":{\"role\":\"function\"}}");
    pal_repair_result chat = repair(PAL_PROFILE_OPENAI_CHAT, list.messages, list.len);
    if (CHECK_EQ(part_at(&chat, 1, 0)->extra.len, 0))
        CHECK_EQ(chat.messages[2].extra.len, 0);
    if (CHECK(says(&chat, "old or unknown form")))
        CHECK_EQ(chat.repairs_len, 2);
    pal_part refusal = {.kind = PAL_PART_TEXT,
            .text = str("no"),
            .extra = str("{\"openai\":{\"type\":\"message_refusal\"}}")};
    chat = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_ASSISTANT, &refusal, 1);
    CHECK_EQ(part_at(&chat, 1, 0)->extra.len, 0);
    pal_part file = {
            .kind = PAL_PART_FILE, .extra = str("{\"openai\":{\"file\":{\"file_id\":\"f\"}}}")};
    chat = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_USER, &file, 1);
    CHECK_EQ(chat.repairs_len, 0);
    file.extra = str("{\"openai\":{\"type\":\"input_text\"}}");
    chat = repair_parts(PAL_PROFILE_OPENAI_CHAT, PAL_ROLE_USER, &file, 1);
    CHECK_STR(part_at(&chat, 1, 0)->text, "[File removed from context]");
}

static void profiles_have_names(void)
{
    for (int i = 0; i <= PAL_PROFILE_PICOCLAW; i++) {
        pal_profile profile = PAL_PROFILE_OPENAI_CHAT;
        CHECK(pal_profile_from_name(str(pal_profile_name((pal_profile)i)), &profile));
        CHECK_EQ((int)profile, i);
    }
    pal_profile untouched = PAL_PROFILE_MISTRAL;
    if (CHECK(!pal_profile_from_name(str("gemini"), &untouched)))
        CHECK_EQ(untouched, PAL_PROFILE_MISTRAL);
    CHECK_STR(pal_profile_name((pal_profile)77), "none");
}

static void null_arguments_are_handled(void)
{
    pal_repair_result repaired = {0};
    pal_message hollow = {.role = PAL_ROLE_USER, .parts = NULL, .parts_len = 3, .seq = 1};
    pal_context_input wrong = {.profile = (pal_profile)9};
    pal_error err;
    CHECK_STATUS(pal_context_repair(NULL, 0, NULL, arena, &repaired, NULL), PAL_OK);
    CHECK_EQ(repaired.len, 0);
    CHECK_EQ(repaired.repairs_len, 0);
    CHECK_STATUS(pal_context_repair(NULL, 1, NULL, arena, &repaired, NULL), PAL_INVALID);
    CHECK_STATUS(pal_context_repair(NULL, 0, NULL, NULL, &repaired, NULL), PAL_INVALID);
    CHECK_FAILS(pal_context_repair(NULL, 0, &wrong, arena, &repaired, &err), PAL_INVALID, &err,
            "profile");
    for (int i = 0; i <= PAL_PROFILE_PICOCLAW; i++)
        CHECK_EQ(repair((pal_profile)i, &hollow, 1).len, 1);
}

static void no_memory_is_reported(void)
{
    history list = history_of(str("s u A:c,d,c t:d u A:c t:x a A:e A:f t:e"));
    for (int profile = 0; profile <= PAL_PROFILE_PICOCLAW; profile++) {
        pal_context_input input = {.profile = (pal_profile)profile};
        bool failed = true;
        for (uint64_t nth = 1; failed && nth < 1000; nth++) {
            pal_arena *own = pal_arena_new(0);
            pal_repair_result repaired = {.len = 77};
            pal_error err = {PAL_OK, ""};
            pal_memory_fail_at(nth, 0);
            pal_status status =
                    pal_context_repair(list.messages, list.len, &input, own, &repaired, &err);
            failed = pal_memory_failed();
            pal_memory_fail_at(0, 0);
            CHECK_EQ(status, (failed ? PAL_NO_MEMORY : PAL_OK));
            CHECK(failed ? repaired.len == 77 && err.message[0] : repaired.len != 77);
            pal_arena_free(own);
        }
        CHECK(!failed);
    }
}

static void a_small_arena_is_reported(void)
{
    history list = history_of(str("u A:c u A:d"));
    pal_arena *small = pal_arena_new(256);
    pal_repair_result repaired;
    pal_context_input input = {.profile = PAL_PROFILE_MISTRAL};
    CHECK_STATUS(
            pal_context_repair(list.messages, list.len, &input, small, &repaired, NULL), PAL_LIMIT);
    pal_arena_free(small);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(results_match_picoclaws_vectors);
    RUN(invalid_messages_are_dropped_as_in_picoclaw);
    RUN(valid_lists_are_not_changed);
    RUN(results_are_paired_with_their_calls);
    RUN(parallel_calls_are_one_message);
    RUN(repairs_have_a_reason);
    RUN(results_of_pending_calls_say_that_they_still_run);
    RUN(ids_in_one_message_are_unique);
    RUN(empty_ids_are_replaced);
    RUN(ids_have_the_form_that_the_provider_requires);
    RUN(ids_are_unique_if_the_profile_requires_it);
    RUN(names_and_arguments_are_corrected);
    RUN(roles_follow_the_profile);
    RUN(invalid_texts_are_cleaned);
    RUN(reasoning_of_other_models_is_left_out);
    RUN(unsupported_images_are_replaced);
    RUN(an_image_over_the_limit_is_replaced_in_every_form);
    RUN(media_of_results_are_moved_to_a_user_message);
    RUN(results_are_sent_as_tool_messages);
    RUN(failures_without_output_get_a_text);
    RUN(old_forms_are_sent_as_plain_ones);
    RUN(profiles_have_names);
    RUN(null_arguments_are_handled);
    RUN(no_memory_is_reported);
    RUN(a_small_arena_is_reported);
    pal_arena_free(arena);
    return tap_done();
}
