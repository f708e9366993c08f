/* cmd_chat_memory.c - notes in `palaver chat`. A conversation at the terminal is a direct chat of
 * its user, so what was said in one is known in the next. */
#include "cli/chat/cmd_chat.h"

#include <stdlib.h>
#include "base/json/json.h"
#include "base/text.h"

#define SCOPE_BYTES_MAX 4096
#define NOTES_SHOWN_MAX 200

pal_str pal_chat_scope(pal_chat *chat)
{
    const char *user = getenv("USER");
    pal_buf scope;
    pal_buf chat_name;
    pal_buf_init(&scope, SCOPE_BYTES_MAX);
    pal_buf_init(&chat_name, SCOPE_BYTES_MAX);
    pal_buf_format(&chat_name, "direct:%.80s", user && *user ? user : "me");
    pal_buf_append_text(&scope,
            "{\"version\":1,\"agent_id\":\"main\",\"channel\":\"terminal\","
            "\"account\":\"default\",\"dimensions\":[\"chat\"],\"values\":{\"chat\":");
    pal_json_quote(&scope, pal_buf_str(&chat_name));
    pal_buf_append_text(&scope, "}}");
    pal_str text = pal_arena_copy(chat->arena, pal_buf_str(&scope));
    pal_buf_done(&chat_name);
    pal_buf_done(&scope);
    return text;
}

static pal_status find_place(pal_chat *chat, pal_note_place *out_place)
{
    pal_cli *cli = chat->cli;
    pal_session session = {.scope = pal_chat_scope(chat)};
    pal_status status = PAL_OK;
    if (!pal_id_is_none(chat->session))
        status = pal_store_find(cli->store, pal_cli_tenant(cli), PAL_SESSION_BY_ID,
                pal_cli_id(cli, chat->session), chat->arena, &session, &cli->err);
    return status == PAL_OK ? pal_note_place_of(&session, chat->arena, out_place, &cli->err)
                            : status;
}

/* Lists the active notes and those that wait for an answer, always in the same order. */
static pal_status list_notes(pal_chat *chat, pal_note *out_notes, size_t *out_len)
{
    pal_cli *cli = chat->cli;
    pal_note_place place;
    pal_note_page page;
    pal_status status = find_place(chat, &place);
    *out_len = 0;
    if (status != PAL_OK)
        return status;
    pal_note_query query = {.tenant = pal_cli_tenant(cli),
            .circles = place.circles,
            .circles_len = place.circles_len,
            .limit = PAL_NOTE_PAGE_MAX};
    status = pal_note_list(cli->store, &query, chat->arena, &page, &cli->err);
    for (size_t i = 0; status == PAL_OK && i < page.len && *out_len < NOTES_SHOWN_MAX; i++)
        if (page.items[i].state == PAL_NOTE_ACTIVE || page.items[i].state == PAL_NOTE_PENDING)
            out_notes[(*out_len)++] = page.items[i];
    return status;
}

static void put_notes(pal_chat *chat, const pal_note *notes, size_t len)
{
    pal_buf *out = &chat->cli->out;
    bool has_pending = false;
    for (size_t i = 0; i < len; i++) {
        bool is_pending = notes[i].state == PAL_NOTE_PENDING;
        has_pending |= is_pending;
        pal_buf_format(out, "%3zu  ", i + 1);
        pal_cli_clean(out, notes[i].text, false);
        pal_buf_format(out, "  (%s%s)\n", pal_note_kind_name(notes[i].kind),
                is_pending ? ", waiting" : "");
    }
    if (len == 0)
        pal_buf_append_text(out, "There are no notes. /remember TEXT adds one.\n");
    else
        pal_buf_append_text(out, has_pending
                        ? "/memory yes N and /memory no N answer; /memory forget N forgets one.\n"
                        : "/memory forget N forgets one.\n");
}

static pal_status change_note(pal_chat *chat, const pal_note *note, pal_note_act act)
{
    pal_cli *cli = chat->cli;
    pal_note changed;
    pal_status status = pal_note_change_state(cli->store, pal_cli_tenant(cli), note->id, act,
            PAL_NOTE_BY_PERSON, (pal_str){0}, chat->arena, &changed, &cli->err);
    if (status == PAL_OK)
        pal_buf_append_text(&cli->out, act == PAL_NOTE_CONFIRM ? "Noted.\n" : "Forgotten.\n");
    return status;
}

pal_status pal_chat_memory(pal_chat *chat, pal_str argument)
{
    static const struct {
        const char *word;
        pal_note_act act;
    } words[] = {{"yes ", PAL_NOTE_CONFIRM}, {"no ", PAL_NOTE_RETRACT},
            {"forget ", PAL_NOTE_RETRACT}};
    pal_note *notes = pal_arena_array(chat->arena, NOTES_SHOWN_MAX, sizeof(*notes));
    size_t len;
    pal_status status = notes ? list_notes(chat, notes, &len) : pal_cli_no_memory(chat->cli);
    if (status != PAL_OK)
        return status;
    if (argument.len == 0) {
        put_notes(chat, notes, len);
        return PAL_OK;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!pal_text_begins(argument, words[i].word))
            continue;
        unsigned long number =
                strtoul(argument.data + strlen(words[i].word), NULL, 10); /* ends with a NUL */
        if (number > 0 && number <= len)
            return change_note(chat, &notes[number - 1], words[i].act);
    }
    return pal_error_set(&chat->cli->err, PAL_INVALID,
            "/memory takes yes, no or forget and the number of a note");
}

pal_status pal_chat_remember(pal_chat *chat, pal_str text)
{
    pal_cli *cli = chat->cli;
    pal_note_place place;
    pal_note_added added;
    pal_status status = find_place(chat, &place);
    if (status != PAL_OK)
        return status;
    pal_note_request request = {.text = text,
            .kind = PAL_NOTE_FACT,
            .by = PAL_NOTE_BY_ADMIN,
            .subject = place.subject};
    status = pal_note_add(
            cli->store, pal_cli_tenant(cli), &request, chat->arena, &added, &cli->err);
    if (status == PAL_OK)
        pal_buf_append_text(&cli->out, added.is_support ? "That is noted already.\n" : "Noted.\n");
    return status;
}
