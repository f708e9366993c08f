/* test_channel_judge.c - the table of verdicts, both sides of each rule. */
#include "channel/channel_judge.h"

#include "channel/channel_limits.h"
#include "support/tap.h"

#define NOW INT64_C(1790000000000)
#define HOUR INT64_C(3600000)

static const pal_str owners[] = {{"@me:hs", 6}};
static const pal_str users[] = {{"@*:hs", 5}};
static const pal_str blocked[] = {{"@bad:hs", 7}};
static const pal_str bots[] = {{"@otherbot:hs", 12}};
static const pal_str names[] = {{"sol", 3}, {"Zoë", 4}};

static pal_channel_settings settings_make(void)
{
    return (pal_channel_settings){
            .kind = pal_str_of("webhook"), .user = pal_str_of("@sol:hs"),
            .owners = owners, .owners_len = 1, .users = users, .users_len = 1,
            .blocked = blocked, .blocked_len = 1, .bots = bots, .bots_len = 1,
            .names = names, .names_len = 2};
}

/* A message of a user in a group, and what the row changes. */
typedef struct row {
    const char *what;
    const char *text;
    const char *sender; /* NULL: @ann:hs */
    bool direct, mentions_me, replies_to_me, mentions_all, mentions_other, is_bot, is_notice;
    bool encrypted, is_backlog, is_command, is_open, asked_in_topic, bots_tired, replies;
    pal_channel_mode mode;
    pal_channel_guests guests;
    int64_t age, muted_for, unasked_ago;
    uint32_t since;
    const char *act, *why;
} row;

/* clang-format off */
static const row table[] = {
    {"own", "hi", .sender = "@sol:hs", .direct = true, .act = "nothing", .why = "own"},
    {"a blocked user", "hi", .sender = "@bad:hs", .direct = true, .act = "nothing", .why = "not-allowed"},
    {"a stranger", "hi", .sender = "@x:far", .direct = true, .act = "nothing", .why = "not-allowed"},
    {"a stranger in an open group", "sol, hi", .sender = "@x:far", .is_open = true, .act = "answer", .why = "name"},
    {"a stranger in a group of strangers", "sol, hi", .sender = "@x:far", .act = "nothing", .why = "not-allowed"},
    {"a stranger where all may", "hi", .sender = "@x:far", .direct = true, .guests = PAL_CHANNEL_GUESTS_ALL, .act = "answer", .why = "direct"},
    {"a stranger where no guest may", "sol, hi", .sender = "@x:far", .is_open = true, .guests = PAL_CHANNEL_GUESTS_OFF, .act = "nothing", .why = "not-allowed"},
    {"off", "sol, hi", .mentions_me = true, .mode = PAL_CHANNEL_MODE_OFF, .act = "nothing", .why = "off"},
    {"encrypted", "", .direct = true, .encrypted = true, .act = "nothing", .why = "encrypted"},
    {"seven hours old", "hi", .direct = true, .age = 7 * HOUR, .act = "note", .why = "old"},
    {"five hours old", "hi", .direct = true, .age = 5 * HOUR, .act = "answer", .why = "direct"},
    {"from the future", "hi", .direct = true, .age = -9 * HOUR, .act = "answer", .why = "direct"},
    {"backlog", "sol, hi", .mentions_me = true, .is_backlog = true, .act = "note", .why = "old"},
    {"a command", "!help", .is_command = true, .act = "command", .why = "command"},
    {"a bot's command", "!help", .is_bot = true, .is_command = true, .act = "note", .why = "bot"},
    {"a notice", "sol, built", .is_notice = true, .act = "note", .why = "bot"},
    {"a bot", "sol, hi", .is_bot = true, .act = "note", .why = "bot"},
    {"a listed bot", "sol, hi", .sender = "@otherbot:hs", .act = "note", .why = "bot"},
    {"a bot in a direct chat", "hi", .direct = true, .is_bot = true, .act = "note", .why = "bot"},
    {"a bot that mentions us", "hi", .is_bot = true, .mentions_me = true, .act = "answer", .why = "mention"},
    {"a bot that mentions us for ever", "hi", .is_bot = true, .mentions_me = true, .bots_tired = true, .act = "note", .why = "bots-answer-each-other"},
    {"be quiet", "Sol, be quiet!", .act = "mute", .why = "asked-to-be-quiet"},
    {"be quiet, please", "sol please be quiet please", .act = "mute", .why = "asked-to-be-quiet"},
    {"quiet in a sentence", "sol, be quiet about the cake", .act = "answer", .why = "name"},
    {"quiet to somebody else", "ann, be quiet", .act = "note", .why = "not-addressed"},
    {"muted", "sol, hi", .muted_for = 1, .act = "note", .why = "muted"},
    {"muted no more", "sol, hi", .muted_for = 0, .act = "answer", .why = "name"},
    {"muted and mentioned", "hi", .muted_for = 1, .mentions_me = true, .act = "answer", .why = "mention"},
    {"muted in a direct chat", "hi", .muted_for = 1, .direct = true, .act = "note", .why = "muted"},
    {"direct", "hi", .direct = true, .act = "answer", .why = "direct"},
    {"direct by mention only", "hi", .direct = true, .mode = PAL_CHANNEL_MODE_MENTION, .act = "note", .why = "not-addressed"},
    {"mentioned", "hi", .mentions_me = true, .act = "answer", .why = "mention"},
    {"a reply", "and then?", .replies = true, .replies_to_me = true, .act = "answer", .why = "reply"},
    {"a reply to another", "and then?", .replies = true, .mode = PAL_CHANNEL_MODE_MAYBE, .act = "note", .why = "addressed-to-other"},
    {"a thread", "more", .asked_in_topic = true, .act = "answer", .why = "thread"},
    {"a thread, to another", "more", .asked_in_topic = true, .mentions_other = true, .act = "note", .why = "not-addressed"},
    {"a name", "Sol: look", .act = "answer", .why = "name"},
    {"a name after a greeting", "hey sol, look", .act = "answer", .why = "name"},
    {"a name with an at", "@sol look", .act = "answer", .why = "name"},
    {"a name alone", "SOL?", .act = "answer", .why = "name"},
    {"a name in another script", "ZOË, bonjour", .act = "answer", .why = "name"},
    {"a word that begins like the name", "solar power is fine", .act = "note", .why = "not-addressed"},
    {"a name in the middle", "ask sol", .act = "note", .why = "not-addressed"},
    {"all", "hi", .mode = PAL_CHANNEL_MODE_ALL, .act = "answer", .why = "all"},
    {"everybody, by mention", "hi", .mentions_all = true, .act = "note", .why = "not-addressed"},
    {"everybody", "hi", .mentions_all = true, .mode = PAL_CHANNEL_MODE_MAYBE, .act = "maybe", .why = "everybody"},
    {"unasked", "hi", .mode = PAL_CHANNEL_MODE_MAYBE, .act = "maybe", .why = "unasked"},
    {"cooling down", "hi", .mode = PAL_CHANNEL_MODE_MAYBE, .unasked_ago = PAL_CHANNEL_COOLDOWN_MS - 1, .act = "note", .why = "cooldown"},
    {"cooled down", "hi", .mode = PAL_CHANNEL_MODE_MAYBE, .unasked_ago = PAL_CHANNEL_COOLDOWN_MS, .act = "maybe", .why = "unasked"},
    {"people talk", "hi", .mode = PAL_CHANNEL_MODE_MAYBE, .since = 3, .act = "note", .why = "passive"},
    {"people ask", "why?", .mode = PAL_CHANNEL_MODE_MAYBE, .since = 3, .act = "maybe", .why = "unasked"},
};
/* clang-format on */

static void each_rule_decides(void)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const row *r = &table[i];
        pal_channel_settings settings = settings_make();
        pal_incoming message = {.kind = PAL_INCOMING_MESSAGE, .text = pal_str_of(r->text),
                .sender = pal_str_of(r->sender ? r->sender : "@ann:hs"), .direct = r->direct,
                .mentions_me = r->mentions_me, .replies_to_me = r->replies_to_me,
                .mentions_all = r->mentions_all, .mentions_other = r->mentions_other,
                .is_bot = r->is_bot, .is_notice = r->is_notice, .encrypted = r->encrypted,
                .is_backlog = r->is_backlog, .sent_at = NOW - r->age,
                .topic = pal_str_of(r->asked_in_topic ? "t" : ""),
                .reply_to = pal_str_of(r->replies ? "e1" : "")};
        pal_judge_chat chat = {.mode = r->mode, .is_open = r->is_open,
                .asked_in_topic = r->asked_in_topic, .bots_tired = r->bots_tired,
                .muted_until = NOW + r->muted_for,
                .unasked_at = r->unasked_ago ? NOW - r->unasked_ago : 0,
                .messages_since = r->since};
        settings.guests = r->guests;
        pal_verdict verdict = pal_judge(&settings, &message, &chat, r->is_command, NOW);
        if (strcmp(pal_channel_act_name(verdict.act), r->act) != 0)
            printf("# row '%s'\n", r->what);
        CHECK_STR(pal_channel_act_name(verdict.act), r->act);
        CHECK_STR(verdict.why, r->why);
    }
}

static void roles_follow_the_lists(void)
{
    pal_channel_settings settings = settings_make();

    CHECK_EQ(pal_judge_role(&settings, pal_str_of("@me:hs"), false, false), PAL_CHANNEL_ROLE_OWNER);
    CHECK_EQ(pal_judge_role(&settings, pal_str_of("@ann:hs"), true, false), PAL_CHANNEL_ROLE_USER);
    CHECK_EQ(pal_judge_role(&settings, pal_str_of("@x:far"), true, true), PAL_CHANNEL_ROLE_GUEST);
    CHECK_EQ(pal_judge_role(&settings, pal_str_of("@x:far"), false, true), PAL_CHANNEL_ROLE_NOBODY);
    CHECK_EQ(pal_judge_role(&settings, pal_str_of("@bad:hs"), true, true), PAL_CHANNEL_ROLE_NOBODY);
    CHECK_STR(pal_channel_role_name(PAL_CHANNEL_ROLE_OWNER), "owner");
    CHECK_STR(pal_channel_role_name((pal_channel_role)9), "nobody");
}

int main(void)
{
    RUN(each_rule_decides);
    RUN(roles_follow_the_lists);
    return tap_done();
}
