/* config_channel.c - the keys of `channels`, and their secrets. */
#include "config/config_row.h"

#include <stddef.h>
#include <stdlib.h>
#include "base/memory.h"
#include "base/text.h"
#include "palaver/limits.h"

#define DAY_MS (24ull * 3600 * 1000)

/* In the order of the enums of channel.h, from 1 on. */
static const char *const kind_words[] = {"matrix", "telegram", "webhook", NULL};
static const char *const mode_words[] = {"all", "mention", "off", "maybe", NULL};
static const char *const guests_words[] = {"invited", "all", "off", NULL};
static const char *const edits_words[] = {"note", "ignore", NULL};
static const char *const redactions_words[] = {"erase", "hide", "ignore", NULL};

#define CHAT(field) offsetof(pal_channel_chat, field)
#define ACCOUNT(field) offsetof(pal_config_channel, settings.field)
#define LIST(field) "[]", .len_offset = ACCOUNT(field##_len), .max = PAL_CONFIG_LIST_MAX

/* clang-format off */

static const pal_config_row chat_rows[] = {
        {"chat", PAL_CONFIG_TEXT, CHAT(chat), .max = PAL_ROUTE_ID_LEN_MAX, .is_required = true,
                .help = "id of the chat on the channel", .sample = "\"-100123\""},
        {"mode", PAL_CONFIG_WORD, CHAT(mode), .words = mode_words, .min = 1,
                .help = "which messages get an answer there; absent: as elsewhere",
                .sample = "all"},
        {"agent", PAL_CONFIG_TEXT, CHAT(agent), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "agent of this chat, if no routing rule matches"},
        {0},
};

static const pal_config_row evaluator_rows[] = {
        {"model", PAL_CONFIG_TEXT, offsetof(pal_channel_evaluator, model), "",
                .max = PAL_MODEL_LEN_MAX,
                .help = "the model that decides, a small one; empty: the default model"},
        {"tokens_per_day", PAL_CONFIG_COUNT, offsetof(pal_channel_evaluator, tokens_per_day),
                "200000", .min = 1, .max = 1000000000,
                .help = "tokens that it may use on a day; then the bot stays silent"},
        {"cooldown", PAL_CONFIG_DURATION, offsetof(pal_channel_evaluator, cooldown_ms), "10m",
                .min = 1000, .max = 3650 * DAY_MS,
                .help = "time between two unasked answers"},
        {0},
};

const pal_config_row pal_config_channel_rows[] = {
        {"kind", PAL_CONFIG_TEXT, ACCOUNT(kind), .words = kind_words, .is_required = true,
                .help = "the kind of channel", .sample = "webhook"},
        {"account", PAL_CONFIG_TEXT, ACCOUNT(account), "default", .max = 64,
                .help = "name of the account, which is part of the keys of its sessions"},
        {"tenant", PAL_CONFIG_TEXT, ACCOUNT(tenant), "default", .max = PAL_TENANT_LEN_MAX,
                .help = "tenant of its sessions"},
        {"agent", PAL_CONFIG_TEXT, ACCOUNT(agent), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "agent of its chats, if no routing rule matches; empty: the default agent"},
        {"url", PAL_CONFIG_HTTP_URL, ACCOUNT(url), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "address of the homeserver; for a webhook, where answers are posted",
                .sample = "\"http://127.0.0.1:9000/answers\""},
        {"user", PAL_CONFIG_TEXT, ACCOUNT(user), "", .max = PAL_ROUTE_ID_LEN_MAX,
                .help = "id of the bot on the channel, whose own messages are ignored"},
        {"token_env", PAL_CONFIG_VARIABLE, offsetof(pal_config_channel, token_env), "",
                .max = PAL_LABEL_LEN_MAX, .secret = "token",
                .help = "environment variable with the token that the bot logs in with"},
        {"password_env", PAL_CONFIG_VARIABLE, offsetof(pal_config_channel, password_env), "",
                .max = PAL_LABEL_LEN_MAX, .secret = "password",
                .help = "environment variable with the password, if there is no token"},
        {"secret_env", PAL_CONFIG_VARIABLE, offsetof(pal_config_channel, secret_env), "",
                .max = PAL_LABEL_LEN_MAX, .secret = "secret",
                .help = "environment variable with the secret that signs requests",
                .sample = "WEBHOOK_SECRET"},
        {"names", PAL_CONFIG_TEXTS, ACCOUNT(names), LIST(names),
                .help = "names that the bot is called by", .sample = "[sol]"},
        {"owners", PAL_CONFIG_TEXTS, ACCOUNT(owners), LIST(owners),
                .help = "ids of owners; '*' matches any text", .sample = "[\"@me:example.org\"]"},
        {"users", PAL_CONFIG_TEXTS, ACCOUNT(users), LIST(users),
                .help = "ids of people who may talk to the bot", .sample = "[\"*\"]"},
        {"blocked", PAL_CONFIG_TEXTS, ACCOUNT(blocked), LIST(blocked),
                .help = "ids of people who are ignored"},
        {"join", PAL_CONFIG_TEXTS, ACCOUNT(join), LIST(join),
                .help = "ids of people whose invitations are accepted; empty: owners and users"},
        {"bots", PAL_CONFIG_TEXTS, ACCOUNT(bots), LIST(bots),
                .help = "ids of other bots, which are answered only if they mention the bot"},
        {"guests", PAL_CONFIG_WORD, ACCOUNT(guests), "invited", .words = guests_words, .min = 1,
                .help = "who else may talk to the bot: members of groups that an owner or user "
                        "has added it to, all people, or no guests"},
        {"guest_tools", PAL_CONFIG_TEXTS, ACCOUNT(guest_tools), LIST(guest_tools),
                .help = "tools for messages of guests; empty: none"},
        {"direct", PAL_CONFIG_WORD, ACCOUNT(direct), "all", .words = mode_words, .min = 1,
                .help = "which messages in direct chats get an answer: all, those that address "
                        "the bot, or none"},
        {"groups", PAL_CONFIG_WORD, ACCOUNT(groups), "mention", .words = mode_words, .min = 1,
                .help = "the same for groups; with mention, the others are recorded; with maybe, a "
                        "model decides about them"},
        {"edits", PAL_CONFIG_WORD, ACCOUNT(edits), "note", .words = edits_words, .min = 1,
                .help = "whether a changed message is recorded again"},
        {"redactions", PAL_CONFIG_WORD, ACCOUNT(redactions), "erase", .words = redactions_words,
                .min = 1,
                .help = "what happens to a message that is deleted on the channel"},
        {"errors", PAL_CONFIG_BOOL_OFF, ACCOUNT(errors_off), "true",
                .help = "whether failed turns are reported in the chat"},
        {"typing", PAL_CONFIG_BOOL_OFF, ACCOUNT(typing_off), "true",
                .help = "whether the chat shows that the bot is writing"},
        {"answer_within", PAL_CONFIG_DURATION, ACCOUNT(answer_within_ms), "6h", .min = 1000,
                .max = 3650 * DAY_MS,
                .help = "older messages are recorded without an answer"},
        {"evaluator", PAL_CONFIG_SECTION, ACCOUNT(evaluator), .rows = evaluator_rows,
                .help = "the model that decides in the mode maybe"},
        {"chats", PAL_CONFIG_LIST, ACCOUNT(chats), "[]", .len_offset = ACCOUNT(chats_len),
                .rows = chat_rows, .size = sizeof(pal_channel_chat), .max = PAL_CONFIG_LIST_MAX,
                .help = "settings of single chats"},
        {0},
};

/* clang-format on */

/* ---- Secrets ---- */

typedef struct secret {
    pal_str name;
    pal_str *place;
} secret;

static pal_status secrets_read(const pal_config *config, size_t index, pal_arena *arena,
        const pal_config_channel *from, pal_channel_settings *out, pal_error *err)
{
    const secret secrets[] = {{from->token_env, &out->token},
            {from->password_env, &out->password}, {from->secret_env, &out->secret}};

    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        if (secrets[i].name.len == 0)
            continue;
        *secrets[i].place = pal_arena_copy(arena, pal_str_of(getenv(secrets[i].name.data)));
        if (secrets[i].place->len == 0) {
            const pal_config_node *node = pal_config_list_at(config->root, "channels", index);
            return pal_config_fail(err, PAL_NOT_FOUND, config->name, node ? node->line : 0,
                    "channel '%.*s:%.*s' requires environment variable %.*s, which is not set",
                    PAL_EXCERPT(out->kind, 40), PAL_EXCERPT(out->account, 64),
                    PAL_EXCERPT(secrets[i].name, 60));
        }
    }
    return PAL_OK;
}

pal_status pal_config_channels(const pal_config *config, pal_arena *arena,
        pal_channel_settings **out_accounts, size_t *out_len, pal_error *err)
{
    const pal_config_state *state = &config->state;
    pal_channel_settings *accounts =
            pal_arena_array(arena, state->channels_len + 1, sizeof *accounts);
    pal_status status = PAL_OK;

    if (!accounts)
        return pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && i < state->channels_len; i++) {
        accounts[i] = state->channels[i].settings;
        status = secrets_read(config, i, arena, &state->channels[i], &accounts[i], err);
    }
    *out_accounts = accounts;
    *out_len = state->channels_len;
    return status == PAL_OK ? pal_arena_checked(arena, err) : status;
}
