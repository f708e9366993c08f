/* test_matrix_event.c - events of Matrix rooms as servers and clients write them, and as nobody
 * should. */
#include "channel/matrix/matrix_event.h"
#include "support/tap.h"

#define ROOM_EVENT "\"event_id\":\"$e\",\"sender\":\"@ann:hs\",\"origin_server_ts\":1700000000123,"
#define MESSAGE(content) "{" ROOM_EVENT "\"type\":\"m.room.message\",\"content\":" content "}"

static pal_arena *arena;

static pal_matrix_event read_event(const char *text)
{
    pal_matrix_event event = {0};
    pal_json json;
    pal_error err = {0};

    CHECK_STATUS(pal_json_parse(arena, pal_str_of(text), NULL, &json, &err), PAL_OK, &err);
    CHECK_STATUS(pal_matrix_event_read(json, arena, &event, &err), PAL_OK, &err);
    return event;
}

static void a_message_has_its_text(void)
{
    pal_matrix_event event = read_event(
            MESSAGE("{\"msgtype\":\"m.text\",\"body\":\"hello\",\"format\":"
                    "\"org.matrix.custom.html\",\"formatted_body\":\"<b>hello</b>\"}"));
    CHECK_EQ(event.kind, PAL_MATRIX_MESSAGE);
    CHECK_STR(event.id, "$e");
    CHECK_STR(event.sender, "@ann:hs");
    CHECK_EQ(event.sent_at, 1700000000123);
    CHECK_STR(event.text, "hello");
    CHECK_STR(event.html, "<b>hello</b>");
    CHECK(!event.is_notice);
    event = read_event(MESSAGE("{\"msgtype\":\"m.notice\",\"body\":\"done\"}"));
    CHECK(event.is_notice);
    event = read_event(MESSAGE("{\"msgtype\":\"m.emote\",\"body\":\"waves\"}"));
    CHECK(event.is_emote);
    event = read_event(MESSAGE("{\"msgtype\":\"org.example.new\",\"body\":\"hello\"}"));
    CHECK_STR(event.text, "hello");
}

static void other_things_are_ignored(void)
{
    static const char *const texts[] = {
            "{}",
            "[]",
            "7",
            MESSAGE("{}"), /* redacted */
            MESSAGE("{\"msgtype\":\"m.text\"}"),
            MESSAGE("{\"msgtype\":\"m.text\",\"body\":7}"),
            MESSAGE("{\"msgtype\":\"m.key.verification.request\",\"body\":\"verify\"}"),
            MESSAGE("\"text\""),
            "{\"type\":\"m.room.message\",\"event_id\":\"$e\",\"sender\":\"ann\","
            "\"content\":{\"msgtype\":\"m.text\",\"body\":\"x\"}}",
            "{\"type\":\"m.room.message\",\"event_id\":\"e\",\"sender\":\"@ann:hs\","
            "\"content\":{\"msgtype\":\"m.text\",\"body\":\"x\"}}",
            "{\"type\":\"m.room.message\",\"event_id\":\"$e\",\"sender\":\"@a\\nb:hs\","
            "\"content\":{\"msgtype\":\"m.text\",\"body\":\"x\"}}",
            "{" ROOM_EVENT "\"type\":\"m.room.topic\",\"state_key\":\"\",\"content\":{}}",
            "{" ROOM_EVENT "\"type\":\"m.room.member\",\"state_key\":\"ann\",\"content\":"
            "{\"membership\":\"join\"}}",
            "{" ROOM_EVENT "\"type\":\"m.room.name\",\"state_key\":\"x\",\"content\":{}}",
            "{" ROOM_EVENT "\"type\":\"m.reaction\",\"content\":{}}",
            "{" ROOM_EVENT "\"type\":\"m.room.redaction\",\"content\":{}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK_EQ(read_event(texts[i]).kind, PAL_MATRIX_OTHER);
}

static void a_reply_loses_the_quote(void)
{
    pal_matrix_event event = read_event(MESSAGE(
            "{\"msgtype\":\"m.text\",\"body\":\"> <@bob:hs> !leave\\n> more\\n\\nno\\n> mine\","
            "\"m.relates_to\":{\"m.in_reply_to\":{\"event_id\":\"$b\"}}}"));
    CHECK_STR(event.text, "no\n> mine");
    CHECK_STR(event.reply_to, "$b");
    event = read_event(MESSAGE("{\"msgtype\":\"m.text\",\"body\":\"> quoted\\n\\nyes\","
                               "\"m.relates_to\":{\"m.in_reply_to\":{\"event_id\":\"$b\"}}}"));
    CHECK_STR(event.text, "> quoted\n\nyes");
    event = read_event(MESSAGE("{\"msgtype\":\"m.text\",\"body\":\"> <@bob:hs> hi\"}"));
    CHECK_STR(event.text, "> <@bob:hs> hi"); /* not a reply */
    CHECK_STR(pal_matrix_reply_strip(pal_str_of("> * <@b:hs> waves\n\nhi")), "hi");
    CHECK_STR(pal_matrix_reply_strip(pal_str_of("> <@b:hs> only")), "");
    CHECK_STR(pal_matrix_reply_strip(pal_str_of("> <@b:hs> one\n>\n> two\n\nhi")), "hi");
}

static void threads_have_a_root(void)
{
    pal_matrix_event event = read_event(
            MESSAGE("{\"msgtype\":\"m.text\",\"body\":\"x\",\"m.relates_to\":{\"rel_type\":"
                    "\"m.thread\",\"event_id\":\"$root\",\"is_falling_back\":true,"
                    "\"m.in_reply_to\":{\"event_id\":\"$b\"}}}"));
    CHECK_STR(event.thread, "$root");
    CHECK_STR(event.reply_to, "");
    event = read_event(
            MESSAGE("{\"msgtype\":\"m.text\",\"body\":\"x\",\"m.relates_to\":{\"rel_type\":"
                    "\"m.thread\",\"event_id\":\"$root\",\"m.in_reply_to\":{\"event_id\":\"$b\"}"
                    "}}"));
    CHECK_STR(event.thread, "$root");
    CHECK_STR(event.reply_to, "$b");
}

static void an_edit_has_new_content(void)
{
    pal_matrix_event event = read_event(
            MESSAGE("{\"msgtype\":\"m.text\",\"body\":\"* new\",\"m.mentions\":{\"user_ids\":"
                    "[\"@b:hs\"]},\"m.new_content\":{\"msgtype\":\"m.text\",\"body\":\"new\"},"
                    "\"m.relates_to\":{\"rel_type\":\"m.replace\",\"event_id\":\"$t\"}}"));
    CHECK_EQ(event.kind, PAL_MATRIX_EDIT);
    CHECK_STR(event.target, "$t");
    CHECK_STR(event.text, "new");
    CHECK(pal_matrix_mention_is(
            event.mentions_new, (pal_str){0}, (pal_str){0}, pal_str_of("@b:hs")));
    event = read_event(MESSAGE("{\"msgtype\":\"m.text\",\"body\":\"* new\",\"m.relates_to\":"
                               "{\"rel_type\":\"m.replace\",\"event_id\":\"$t\"}}"));
    CHECK_EQ(event.kind, PAL_MATRIX_OTHER);
    event = read_event(MESSAGE("{\"msgtype\":\"m.text\",\"body\":\"* new\",\"m.new_content\":"
                               "{\"msgtype\":\"m.text\",\"body\":\"new\"},\"m.relates_to\":"
                               "{\"rel_type\":\"m.replace\",\"event_id\":\"t\"}}"));
    CHECK_EQ(event.kind, PAL_MATRIX_OTHER);
}

static void redactions_name_their_target_in_two_places(void)
{
    pal_matrix_event event = read_event("{" ROOM_EVENT
                                        "\"type\":\"m.room.redaction\",\"redacts\":\"$old\","
                                        "\"content\":{\"reason\":\"spam\"}}");
    CHECK_EQ(event.kind, PAL_MATRIX_REDACTION);
    CHECK_STR(event.target, "$old");
    CHECK_STR(event.text, "spam");
    event = read_event("{" ROOM_EVENT
                       "\"type\":\"m.room.redaction\",\"content\":{\"redacts\":\"$new\"}}");
    CHECK_STR(event.target, "$new");
}

static void a_reaction_has_a_key(void)
{
    pal_matrix_event event = read_event(
            "{" ROOM_EVENT "\"type\":\"m.reaction\",\"content\":{\"m.relates_to\":{\"rel_type\":"
            "\"m.annotation\",\"event_id\":\"$t\",\"key\":\"\xf0\x9f\x91\x8d\"}}}");
    CHECK_EQ(event.kind, PAL_MATRIX_REACTION);
    CHECK_STR(event.target, "$t");
    CHECK_STR(event.key, "\xf0\x9f\x91\x8d");
}

static void media_have_a_caption_only_with_a_name(void)
{
    pal_matrix_event event = read_event(
            MESSAGE("{\"msgtype\":\"m.image\",\"body\":\"cat.png\",\"url\":\"mxc://hs/abc\","
                    "\"info\":{\"mimetype\":\"image/png\",\"size\":4096,\"w\":20,\"h\":30}}"));
    CHECK_EQ(event.kind, PAL_MATRIX_MESSAGE);
    CHECK(event.has_media);
    CHECK_STR(event.text, "");
    CHECK_STR(event.media.name, "cat.png");
    CHECK_STR(event.media.url, "mxc://hs/abc");
    CHECK_EQ(event.media.bytes, 4096);
    CHECK_EQ(event.media.height, 30);
    event = read_event(MESSAGE("{\"msgtype\":\"m.image\",\"body\":\"what is this?\",\"filename\":"
                               "\"cat.png\",\"url\":\"mxc://hs/abc\"}"));
    CHECK_STR(event.text, "what is this?");
    CHECK_STR(event.media.name, "cat.png");
    event = read_event(MESSAGE("{\"msgtype\":\"m.audio\",\"body\":\"voice\",\"info\":{\"duration\""
                               ":12000,\"size\":-1},\"org.matrix.msc3245.voice\":{}}"));
    CHECK(event.media.is_voice);
    CHECK_EQ(event.media.duration_ms, 12000);
    CHECK_EQ(event.media.bytes, 0);
    event = read_event("{" ROOM_EVENT "\"type\":\"m.sticker\",\"content\":{\"body\":\"wave\","
                       "\"url\":\"mxc://hs/s\"}}");
    CHECK(event.has_media);
    CHECK_STR(event.media.name, "wave");
}

static void state_says_who_and_what(void)
{
    pal_matrix_event event = read_event(
            "{\"type\":\"m.room.member\",\"sender\":\"@ann:hs\",\"state_key\":\"@bot:hs\","
            "\"content\":{\"membership\":\"invite\",\"is_direct\":true,\"displayname\":\"Bot\"}}");
    CHECK_EQ(event.kind, PAL_MATRIX_MEMBER);
    CHECK_STR(event.state_key, "@bot:hs");
    CHECK_STR(event.membership, "invite");
    CHECK(event.is_direct);
    event = read_event("{" ROOM_EVENT
                       "\"type\":\"m.room.tombstone\",\"state_key\":\"\",\"content\":{\"body\":"
                       "\"moved\",\"replacement_room\":\"!new\"}}");
    CHECK_EQ(event.kind, PAL_MATRIX_TOMBSTONE);
    CHECK_STR(event.target, "!new");
    event = read_event("{" ROOM_EVENT "\"type\":\"m.room.encryption\",\"state_key\":\"\","
                       "\"content\":{\"algorithm\":\"m.megolm.v1.aes-sha2\"}}");
    CHECK_EQ(event.kind, PAL_MATRIX_ENCRYPTION);
    event = read_event("{" ROOM_EVENT "\"type\":\"m.room.create\",\"state_key\":\"\",\"content\":"
                       "{\"type\":\"m.space\"}}");
    CHECK_STR(event.text, "m.space");
    event = read_event("{" ROOM_EVENT "\"type\":\"m.room.encrypted\",\"content\":{}}");
    CHECK_EQ(event.kind, PAL_MATRIX_ENCRYPTED);
}

static bool mentions(const char *json, const char *text, const char *html, const char *user)
{
    pal_json value = {0};
    if (json[0])
        CHECK_STATUS(pal_json_parse(arena, pal_str_of(json), NULL, &value, NULL), PAL_OK);
    return pal_matrix_mention_is(value, pal_str_of(text), pal_str_of(html), pal_str_of(user));
}

static void mentions_decide_before_the_body(void)
{
    CHECK(mentions("{\"user_ids\":[\"@a:hs\",\"@bot:hs\"]}", "", "", "@bot:hs"));
    CHECK(!mentions("{\"user_ids\":[7,\"@bot:hs2\"]}", "", "", "@bot:hs"));
    CHECK(!mentions("{}", "@bot:hs", "", "@bot:hs"));
    CHECK(mentions("", "ask @bot:hs.", "", "@bot:hs"));
    CHECK(mentions("", "@bot:hs.example, then @bot:hs", "", "@bot:hs"));
    CHECK(!mentions("", "@bot:hs.example", "", "@bot:hs"));
    CHECK(!mentions("", "@bot:hs:8448", "", "@bot:hs"));
    CHECK(mentions("", "", "<a href=\"https://matrix.to/#/%40bot%3Ahs\">Bot</a>", "@bot:hs"));
    CHECK(mentions("", "", "<a href=\"https://matrix.to/#/@bot:hs\">Bot</a>", "@bot:hs"));
    CHECK(!mentions("", "bot", "", "@bot:hs"));
}

static void a_whole_room_can_be_mentioned(void)
{
    pal_json json;
    CHECK_STATUS(pal_json_parse(arena, pal_str_of("{\"room\":true}"), NULL, &json, NULL), PAL_OK);
    CHECK(pal_matrix_mention_is_room(json));
    CHECK(!pal_matrix_mention_is_room((pal_json){0}));
}

static void an_address_is_taken_off(void)
{
    pal_str user = pal_str_of("@bot:hs"), name = pal_str_of("Sol Bot");
    CHECK_STR(pal_matrix_mention_strip(pal_str_of("@bot:hs: hello"), user, name), "hello");
    CHECK_STR(pal_matrix_mention_strip(pal_str_of(" @bot hello"), user, name), "hello");
    CHECK_STR(pal_matrix_mention_strip(pal_str_of("sol bot, hello"), user, name), "hello");
    CHECK_STR(pal_matrix_mention_strip(pal_str_of("@Sol Bot hello"), user, name), "hello");
    CHECK_STR(pal_matrix_mention_strip(pal_str_of("Sol Botany"), user, name), "Sol Botany");
    CHECK_STR(pal_matrix_mention_strip(pal_str_of("hello @bot:hs"), user, name), "hello @bot:hs");
    CHECK_STR(pal_matrix_mention_strip(pal_str_of("Sol Bot"), user, name), "Sol Bot");
    CHECK_STR(pal_matrix_mention_strip(pal_str_of(""), user, name), "");
}

static void ids_are_checked(void)
{
    char longest[PAL_MATRIX_ID_LEN_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[0] = '$';
    CHECK(pal_matrix_id_is_valid(pal_str_make(longest, PAL_MATRIX_ID_LEN_MAX), '$'));
    CHECK(!pal_matrix_id_is_valid(pal_str_make(longest, PAL_MATRIX_ID_LEN_MAX + 1), '$'));
    CHECK(!pal_matrix_id_is_valid(pal_str_of("$"), '$'));
    CHECK(!pal_matrix_id_is_valid(pal_str_of("@a:hs"), '!'));
    CHECK(!pal_matrix_id_is_valid(pal_str_of("@a b:hs"), '@'));
    CHECK_STR(pal_matrix_id_server(pal_str_of("@a:hs:8448")), "hs:8448");
    CHECK_STR(pal_matrix_id_server(pal_str_of("!v12room")), "");
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(a_message_has_its_text);
    RUN(other_things_are_ignored);
    RUN(a_reply_loses_the_quote);
    RUN(threads_have_a_root);
    RUN(an_edit_has_new_content);
    RUN(redactions_name_their_target_in_two_places);
    RUN(a_reaction_has_a_key);
    RUN(media_have_a_caption_only_with_a_name);
    RUN(state_says_who_and_what);
    RUN(mentions_decide_before_the_body);
    RUN(a_whole_room_can_be_mentioned);
    RUN(an_address_is_taken_off);
    RUN(ids_are_checked);
    pal_arena_free(arena);
    return tap_done();
}
