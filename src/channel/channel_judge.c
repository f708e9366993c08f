/* channel_judge.c - decides what a message deserves. */
#include "channel/channel_judge.h"

#include "base/text.h"
#include "base/unicode.h"
#include "channel/channel_limits.h"

const char *pal_channel_role_name(pal_channel_role role)
{
    static const char *const names[] = {"nobody", "guest", "user", "owner"};
    return (size_t)role < sizeof names / sizeof *names ? names[role] : "nobody";
}

const char *pal_channel_act_name(pal_verdict_act act)
{
    static const char *const names[] = {"nothing", "note", "maybe", "answer", "command", "mute"};
    return (size_t)act < sizeof names / sizeof *names ? names[act] : "nothing";
}

/* ---- People ---- */

static bool is_listed(pal_str id, const pal_str *patterns, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (pal_text_matches(id, patterns[i]))
            return true;
    return false;
}

pal_channel_role pal_judge_role(
        const pal_channel_settings *settings, pal_str sender, bool is_group, bool is_open)
{
    pal_channel_guests guests = settings->guests ? settings->guests : PAL_CHANNEL_GUESTS_INVITED;

    if (is_listed(sender, settings->blocked, settings->blocked_len))
        return PAL_CHANNEL_ROLE_NOBODY;
    if (is_listed(sender, settings->owners, settings->owners_len))
        return PAL_CHANNEL_ROLE_OWNER;
    if (is_listed(sender, settings->users, settings->users_len))
        return PAL_CHANNEL_ROLE_USER;
    if (guests == PAL_CHANNEL_GUESTS_ALL ||
            (guests == PAL_CHANNEL_GUESTS_INVITED && is_group && is_open))
        return PAL_CHANNEL_ROLE_GUEST;
    return PAL_CHANNEL_ROLE_NOBODY;
}

/* ---- Words at the beginning of a text ---- */

static bool ends_name(pal_str rest)
{
    return rest.len == 0 || pal_text_is_space(rest.data[0]) ||
            memchr(",:;?!.", rest.data[0], 6) != NULL;
}

/* Removes `word` and what separates it from the rest. Case does not matter. Returns false if the
 * text does not begin with it. */
static bool take_word(pal_str *text, pal_str word)
{
    char wanted[2 * PAL_CHANNEL_NAME_LEN_MAX], found[2 * PAL_CHANNEL_NAME_LEN_MAX];

    if (word.len == 0 || word.len > PAL_CHANNEL_NAME_LEN_MAX || text->len < word.len ||
            pal_utf8_cut(*text, word.len) != word.len)
        return false;
    size_t wanted_len = pal_unicode_lower(word, wanted);
    size_t found_len = pal_unicode_lower(pal_str_make(text->data, word.len), found);
    if (wanted_len != found_len || memcmp(wanted, found, found_len) != 0)
        return false;
    pal_str rest = pal_text_after(*text, word.len);
    if (!ends_name(rest))
        return false;
    while (rest.len > 0 && (pal_text_is_space(rest.data[0]) || memchr(",:;?!.", rest.data[0], 6)))
        rest = pal_text_after(rest, 1);
    *text = rest;
    return true;
}

static bool take_any(pal_str *text, const char *const *words)
{
    for (; *words; words++)
        if (take_word(text, pal_str_of(*words)))
            return true;
    return false;
}

/* Removes a greeting and a name: "hey Sol, look". Returns false if there is no name. */
static bool take_call(const pal_channel_settings *settings, pal_str *text)
{
    static const char *const greetings[] = {
            "hey", "hi", "hello", "ok", "okay", "dear", "hallo", "salut", "hola", "ciao", NULL};
    pal_str rest = pal_text_trim(*text);

    if (rest.len > 0 && rest.data[0] == '@')
        rest = pal_text_after(rest, 1);
    take_any(&rest, greetings);
    for (size_t i = 0; i < settings->names_len; i++) {
        if (take_word(&rest, settings->names[i])) {
            *text = rest;
            return true;
        }
    }
    return false;
}

/* "Sol, be quiet." The text has nothing else. */
static bool asks_for_quiet(
        const pal_channel_settings *settings, const pal_incoming *message)
{
    static const char *const phrases[] = {
            "be quiet", "quiet", "shut up", "hush", "be silent", "stop talking", NULL};
    static const char *const please[] = {"please", "now", NULL};
    pal_str text = pal_text_trim(message->text);

    if (!take_call(settings, &text) && !message->mentions_me && !message->direct)
        return false;
    take_any(&text, please);
    if (!take_any(&text, phrases))
        return false;
    take_any(&text, please);
    return text.len == 0;
}

/* ---- The table ---- */

static pal_channel_mode mode_of(const pal_channel_settings *settings,
        const pal_incoming *message, const pal_judge_chat *chat)
{
    if (chat->mode != PAL_CHANNEL_MODE_NONE)
        return chat->mode;
    if (message->direct)
        return settings->direct ? settings->direct : PAL_CHANNEL_MODE_ALL;
    return settings->groups ? settings->groups : PAL_CHANNEL_MODE_MENTION;
}

static bool is_bot(const pal_channel_settings *settings, const pal_incoming *message)
{
    return message->is_bot || message->is_notice ||
            is_listed(message->sender, settings->bots, settings->bots_len);
}

static pal_verdict verdict(pal_verdict_act act, const char *why)
{
    return (pal_verdict){act, why};
}

/* Decides about a message that does not address the bot. */
static pal_verdict judge_unasked(const pal_channel_settings *settings,
        const pal_incoming *message, const pal_judge_chat *chat, pal_channel_mode mode,
        int64_t now)
{
    int64_t cooldown = settings->evaluator.cooldown_ms ? settings->evaluator.cooldown_ms
                                                       : PAL_CHANNEL_COOLDOWN_MS;
    bool asks = message->text.len > 0 && memchr(message->text.data, '?', message->text.len);

    if (message->mentions_all && mode != PAL_CHANNEL_MODE_MENTION)
        return verdict(PAL_VERDICT_MAYBE, "everybody");
    if (mode != PAL_CHANNEL_MODE_MAYBE)
        return verdict(PAL_VERDICT_NOTE, "not-addressed");
    if (message->reply_to.len > 0 || message->mentions_other)
        return verdict(PAL_VERDICT_NOTE, "addressed-to-other");
    if (chat->unasked_at != 0 && now - chat->unasked_at < cooldown)
        return verdict(PAL_VERDICT_NOTE, "cooldown");
    if (chat->messages_since >= PAL_CHANNEL_PASSIVE_AFTER && !asks)
        return verdict(PAL_VERDICT_NOTE, "passive");
    return verdict(PAL_VERDICT_MAYBE, "unasked");
}

pal_verdict pal_judge(const pal_channel_settings *settings, const pal_incoming *message,
        const pal_judge_chat *chat, bool is_command, int64_t now)
{
    int64_t within =
            settings->answer_within_ms ? settings->answer_within_ms : PAL_CHANNEL_ANSWER_WITHIN_MS;
    pal_channel_mode mode = mode_of(settings, message, chat);
    bool addressed = message->mentions_me || message->replies_to_me;
    pal_str text = message->text;

    if (settings->user.len > 0 && pal_str_equal(message->sender, settings->user))
        return verdict(PAL_VERDICT_NOTHING, "own");
    if (pal_judge_role(settings, message->sender, !message->direct, chat->is_open) ==
            PAL_CHANNEL_ROLE_NOBODY)
        return verdict(PAL_VERDICT_NOTHING, "not-allowed");
    if (mode == PAL_CHANNEL_MODE_OFF)
        return verdict(PAL_VERDICT_NOTHING, "off");
    if (message->encrypted)
        return verdict(PAL_VERDICT_NOTHING, "encrypted");
    if (message->is_backlog ||
            (message->sent_at > 0 && now > message->sent_at && now - message->sent_at > within))
        return verdict(PAL_VERDICT_NOTE, "old");
    if (is_bot(settings, message)) {
        if (!message->mentions_me)
            return verdict(PAL_VERDICT_NOTE, "bot");
        return chat->bots_tired ? verdict(PAL_VERDICT_NOTE, "bots-answer-each-other")
                                : verdict(PAL_VERDICT_ANSWER, "mention");
    }
    if (is_command)
        return verdict(PAL_VERDICT_COMMAND, "command");
    if (asks_for_quiet(settings, message))
        return verdict(PAL_VERDICT_MUTE, "asked-to-be-quiet");
    if (message->mentions_me)
        return verdict(PAL_VERDICT_ANSWER, "mention");
    if (now < chat->muted_until)
        return verdict(PAL_VERDICT_NOTE, "muted");
    if (message->direct && mode == PAL_CHANNEL_MODE_ALL)
        return verdict(PAL_VERDICT_ANSWER, "direct");
    if (addressed)
        return verdict(PAL_VERDICT_ANSWER, "reply");
    if (chat->asked_in_topic && message->topic.len > 0 && !message->mentions_other &&
            message->reply_to.len == 0)
        return verdict(PAL_VERDICT_ANSWER, "thread");
    if (take_call(settings, &text))
        return verdict(PAL_VERDICT_ANSWER, "name");
    if (mode == PAL_CHANNEL_MODE_ALL)
        return verdict(PAL_VERDICT_ANSWER, "all");
    return judge_unasked(settings, message, chat, mode, now);
}
