/* test_matrix_content.c - the contents of events that we send, byte by byte. */
#include "channel/matrix/matrix_content.h"
#include "support/tap.h"

static pal_buf out;

static pal_str write_message(pal_matrix_message message)
{
    pal_buf_clear(&out);
    pal_matrix_content_message(&message, &out);
    CHECK_EQ(out.failure, PAL_OK);
    return pal_buf_str(&out);
}

static void a_message_mentions_nobody_by_itself(void)
{
    CHECK_STR(write_message((pal_matrix_message){
                      .text = pal_str_of("hi"), .marker = pal_str_of("pal01")}),
            "{\"msgtype\":\"m.text\",\"body\":\"hi\",\"m.mentions\":{},"
            "\"pt.palaver.out\":\"pal01\"}");
    pal_str ann = pal_str_of("@ann:hs");
    CHECK_CONTAINS(write_message((pal_matrix_message){
                           .text = pal_str_of("hi"), .mentions = &ann, .mentions_len = 1}),
            "\"m.mentions\":{\"user_ids\":[\"@ann:hs\"]}");
}

static void nobody_can_be_made_to_notify_a_room(void)
{
    pal_str text = write_message((pal_matrix_message){
            .text = pal_str_of("@room and @rooms"), .html = pal_str_of("<b>@room</b>")});
    CHECK_LACKS(text, "@room");
    CHECK_CONTAINS(text, "\"body\":\"@\xe2\x81\xa0room and @\xe2\x81\xa0rooms\"");
    CHECK_CONTAINS(text, "<b>@\xe2\x81\xa0room</b>");
}

static void a_reply_and_a_thread_have_relations(void)
{
    CHECK_CONTAINS(write_message((pal_matrix_message){.type = PAL_MATRIX_NOTICE,
                           .text = pal_str_of("x"), .reply_to = pal_str_of("$a")}),
            "\"m.relates_to\":{\"m.in_reply_to\":{\"event_id\":\"$a\"}}");
    CHECK_CONTAINS(write_message((pal_matrix_message){.text = pal_str_of("x"),
                           .thread = pal_str_of("$root"), .reply_to = pal_str_of("$new"),
                           .is_fallback = true}),
            "\"m.relates_to\":{\"rel_type\":\"m.thread\",\"event_id\":\"$root\","
            "\"is_falling_back\":true,\"m.in_reply_to\":{\"event_id\":\"$new\"}}");
    CHECK_LACKS(write_message((pal_matrix_message){.text = pal_str_of("x")}), "m.relates_to");
}

static void an_edit_has_the_complete_new_content(void)
{
    CHECK_STR(write_message((pal_matrix_message){.text = pal_str_of("new"),
                      .html = pal_str_of("<b>new</b>"), .edits = pal_str_of("$old"),
                      .thread = pal_str_of("$root"), .marker = pal_str_of("pal02")}),
            "{\"msgtype\":\"m.text\",\"body\":\"* new\",\"format\":\"org.matrix.custom.html\","
            "\"formatted_body\":\"* <b>new</b>\",\"m.mentions\":{},\"m.new_content\":{\"msgtype\":"
            "\"m.text\",\"body\":\"new\",\"format\":\"org.matrix.custom.html\",\"formatted_body\":"
            "\"<b>new</b>\",\"m.mentions\":{}},\"m.relates_to\":{\"rel_type\":\"m.replace\","
            "\"event_id\":\"$old\"},\"pt.palaver.out\":\"pal02\"}");
}

static void media_have_a_name_and_a_size(void)
{
    CHECK_CONTAINS(write_message((pal_matrix_message){.type = PAL_MATRIX_IMAGE,
                           .text = pal_str_of("cat.png"), .url = pal_str_of("mxc://hs/a"),
                           .media_type = pal_str_of("image/png"), .bytes = 9, .width = 2,
                           .height = 3}),
            "{\"msgtype\":\"m.image\",\"body\":\"cat.png\",\"url\":\"mxc://hs/a\",\"filename\":"
            "\"cat.png\",\"info\":{\"mimetype\":\"image/png\",\"size\":9,\"w\":2,\"h\":3}");
}

static void reactions_and_redactions_are_short(void)
{
    pal_buf_clear(&out);
    pal_matrix_content_reaction(pal_str_of("$a"), pal_str_of("+1"), pal_str_of("p"), &out);
    CHECK_STR(pal_buf_str(&out),
            "{\"m.relates_to\":{\"rel_type\":\"m.annotation\",\"event_id\":\"$a\",\"key\":\"+1\"},"
            "\"pt.palaver.out\":\"p\"}");
    pal_buf_clear(&out);
    pal_matrix_content_redaction((pal_str){0}, pal_str_of("p"), &out);
    CHECK_STR(pal_buf_str(&out), "{\"pt.palaver.out\":\"p\"}");
}

int main(void)
{
    pal_buf_init(&out, 1 << 20);
    RUN(a_message_mentions_nobody_by_itself);
    RUN(nobody_can_be_made_to_notify_a_room);
    RUN(a_reply_and_a_thread_have_relations);
    RUN(an_edit_has_the_complete_new_content);
    RUN(media_have_a_name_and_a_size);
    RUN(reactions_and_redactions_are_short);
    pal_buf_done(&out);
    return tap_done();
}
