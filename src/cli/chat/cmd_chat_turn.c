/* cmd_chat_turn.c - runs one turn and shows it: the text as it arrives, one line per tool call, a
 * status line while the turn waits, and the tokens and cost at the end. */
#include "cli/chat/cmd_chat.h"

#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/text.h"
#include "base/utf8.h"

#define TITLE_COLUMNS 60
#define PATIENCE_MS 700 /* milliseconds of silence before the status line appears */
#define TICK_MS 500

/* One turn while it is shown. */
typedef struct show {
    pal_chat *chat;
    pal_chat_answer *answer;
    pal_markdown markdown;
    bool is_shown;
    bool is_canceled;    /* Ctrl-C was pressed and the turn was canceled */
    bool has_status;     /* a status line is shown, which is removed later */
    const char *waiting; /* "waiting"; NULL: text is arriving */
    int64_t since_ms;    /* when the waiting began */
    int64_t retry_at;    /* not 0: the time of the next retry */
    uint64_t attempt;
    pal_buf why;   /* the reason of the retry */
    pal_buf text;  /* the text of this step */
    pal_id asking; /* the turn, if it waits for the user's answers */
    bool is_ended;
    pal_status status;
    bool is_key_refused;
    pal_buf endpoint; /* if the turn failed: the endpoint that was called */
} show;

static int64_t now_ms(void)
{
    return pal_clock_monotonic_us() / 1000;
}

/* ---- Lines next to the text ---- */

static void clear_status(show *s)
{
    if (s->has_status)
        pal_buf_append_text(&s->chat->cli->out, "\r\033[K");
    s->has_status = false;
}

/* Ends the text so far, so that a separate line can follow it. */
static void end_text(show *s)
{
    clear_status(s);
    pal_markdown_finish(&s->markdown);
}

static bool has_notes(const show *s)
{
    return s->is_shown && s->chat->terminal;
}

/* Prints a faint line, cut to the width of the terminal. */
static void put_note(show *s, pal_str text)
{
    pal_cli *cli = s->chat->cli;
    pal_str line = pal_chat_first_line(s->chat, text, (size_t)cli->width - 2);
    pal_cli_style(cli, 2);
    pal_buf_format(&cli->out, "  %.*s", PAL_STR_ARG(line));
    pal_cli_style(cli, 0);
}

static void put_line(show *s, pal_str text)
{
    end_text(s);
    put_note(s, text);
    pal_buf_append_char(&s->chat->cli->out, '\n');
}

static void wait_for(show *s, const char *what)
{
    s->waiting = what;
    s->since_ms = now_ms();
    s->retry_at = 0;
}

/* Shows what is awaited, if it takes noticeably long. */
static void tick(show *s)
{
    pal_buf line;
    int64_t waited = now_ms() - s->since_ms;
    if (!has_notes(s) || !s->chat->has_styles || !s->waiting || waited < PATIENCE_MS ||
            !pal_markdown_is_idle(&s->markdown))
        return;
    pal_buf_init(&line, 1024);
    if (s->retry_at) {
        int64_t left = s->retry_at - pal_clock_now_ms();
        pal_buf_format(&line, "retry %llu in %lld s: ", (unsigned long long)s->attempt,
                (long long)(left > 0 ? (left + 999) / 1000 : 0));
        pal_buf_append_str(&line, pal_buf_str(&s->why));
    } else {
        pal_buf_format(&line, "%s, %lld s (Ctrl-C stops)", s->waiting, (long long)(waited / 1000));
    }
    clear_status(s);
    put_note(s, pal_buf_str(&line));
    s->has_status = true;
    pal_buf_done(&line);
}

/* ---- Events ---- */

static void show_text(show *s, pal_str text)
{
    s->waiting = NULL;
    pal_buf_append_str(&s->text, text);
    if (!s->is_shown)
        return;
    clear_status(s);
    if (s->chat->terminal)
        pal_markdown_set_width(&s->markdown, (size_t)pal_terminal_width(s->chat->terminal));
    pal_markdown_feed(&s->markdown, text);
}

static void show_call(show *s, const pal_event *event)
{
    pal_buf line;
    wait_for(s, "running the tool");
    if (!has_notes(s))
        return;
    pal_buf_init(&line, 4096);
    pal_buf_format(&line, "\xe2\x9a\x99 %.*s ", PAL_STR_ARG(event->name));
    pal_buf_append(&line, event->text.data, pal_utf8_cut(event->text, 1000));
    put_line(s, pal_buf_str(&line));
    pal_buf_done(&line);
}

static void show_result(show *s, const pal_event *event)
{
    char size[PAL_CLI_SIZE_SIZE];
    pal_buf line;
    wait_for(s, "waiting");
    if (!has_notes(s))
        return;
    pal_buf_init(&line, 4096);
    pal_cli_size(event->text.len, size);
    pal_buf_format(&line, "%s %.*s: ", event->status == PAL_OK ? "\xe2\x86\x92" : "\xe2\x9c\x97",
            PAL_STR_ARG(event->name));
    if (event->status == PAL_OK)
        pal_buf_append_text(&line, size);
    else
        pal_buf_append(&line, event->text.data, pal_utf8_cut(event->text, 1000));
    put_line(s, pal_buf_str(&line));
    pal_buf_done(&line);
}

/* Without a terminal: prints the retry to stderr, for a person who waits for a pipe. */
static void print_retry(const show *s, const pal_event *event)
{
    char line[PAL_ERROR_MESSAGE_MAX + 64];
    int64_t left = event->at - pal_clock_now_ms();
    if (s->chat->cli->json)
        return;
    snprintf(line, sizeof line, "%.*s; retry %llu in %lld s",
            (int)pal_utf8_cut(event->text, PAL_ERROR_MESSAGE_MAX),
            event->text.data ? event->text.data : "", (unsigned long long)event->count,
            (long long)(left > 0 ? (left + 999) / 1000 : 0));
    pal_cli_print_error(line, NULL);
}

static void show_retry(show *s, const pal_event *event)
{
    wait_for(s, "retrying");
    s->since_ms -= PATIENCE_MS;
    s->retry_at = event->at;
    s->attempt = event->count;
    pal_buf_clear(&s->why);
    pal_buf_append_str(&s->why, event->text);
    if (!s->chat->terminal)
        print_retry(s, event);
    else if (has_notes(s) && !s->chat->has_styles)
        put_line(s, event->text);
    else
        tick(s);
}

static void show_compaction(show *s, const pal_event *event)
{
    pal_buf line;
    if (!has_notes(s))
        return;
    pal_buf_init(&line, 4096);
    pal_buf_format(&line, "compacted: %.*s, ", PAL_STR_ARG(event->text));
    pal_cli_count(&line, event->count, "token");
    pal_buf_append_text(&line, " less");
    put_line(s, pal_buf_str(&line));
    pal_buf_done(&line);
}

static void show_missing(show *s, const pal_event *event)
{
    pal_buf line;
    if (!has_notes(s))
        return;
    pal_buf_init(&line, 4096);
    pal_buf_format(&line, "the tools of '%.*s' are missing: %.*s", PAL_STR_ARG(event->name),
            PAL_STR_ARG(event->text));
    put_line(s, pal_buf_str(&line));
    pal_buf_done(&line);
}

static void note_end(show *s, const pal_event *event)
{
    pal_cli *cli = s->chat->cli;
    s->is_ended = true;
    s->answer->state = event->state;
    s->answer->usage = event->usage;
    if (event->state != PAL_TURN_FAILED)
        return;
    s->status = event->status ? event->status : PAL_PROVIDER;
    s->is_key_refused = event->code == 401 || event->code == 403;
    pal_buf_clear(&s->endpoint);
    pal_buf_append_str(&s->endpoint, event->name);
    pal_error_set(&cli->err, s->status, "%.*s",
            (int)pal_utf8_cut(event->text, PAL_ERROR_MESSAGE_MAX - 1),
            event->text.data ? event->text.data : "");
}

static bool show_event(const pal_event *event, void *user)
{
    show *s = user;
    switch (event->kind) {
    case PAL_EVENT_STEP:
        pal_buf_clear(&s->text);
        if (s->is_shown)
            end_text(s);
        wait_for(s, "waiting");
        break;
    case PAL_EVENT_TEXT:
        show_text(s, event->text);
        break;
    case PAL_EVENT_REASONING:
        if (!s->waiting || strcmp(s->waiting, "thinking") != 0)
            wait_for(s, "thinking");
        break;
    case PAL_EVENT_CALL:
        wait_for(s, "calling a tool");
        break;
    case PAL_EVENT_TOOL_STARTED:
        show_call(s, event);
        break;
    case PAL_EVENT_TOOL_ENDED:
        show_result(s, event);
        break;
    case PAL_EVENT_RETRYING:
        show_retry(s, event);
        break;
    case PAL_EVENT_COMPACTED:
        show_compaction(s, event);
        break;
    case PAL_EVENT_TOOLS_MISSING:
        show_missing(s, event);
        break;
    case PAL_EVENT_ASKING:
        s->asking = event->turn;
        s->waiting = NULL;
        break;
    case PAL_EVENT_ENDED:
        note_end(s, event);
        break;
    default:
        break;
    }
    return !s->is_ended;
}

/* ---- While it runs ---- */

static pal_status cancel(show *s)
{
    pal_cli *cli = s->chat->cli;
    s->is_canceled = true;
    pal_status status = pal_turn_cancel(
            s->chat->runtime.runtime, pal_cli_tenant(cli), s->answer->turn, &cli->err);
    /* The turn may have ended in the meantime. */
    return status == PAL_NOT_FOUND || status == PAL_CONFLICT ? PAL_OK : status;
}

static pal_status ask(show *s)
{
    bool is_stopped;
    end_text(s);
    pal_status status = pal_chat_ask(s->chat, s->asking, &is_stopped);
    s->asking = (pal_id){0};
    if (status == PAL_OK && is_stopped)
        status = cancel(s);
    else
        wait_for(s, "waiting");
    return status;
}

static pal_status follow(show *s, pal_chat_events *events)
{
    pal_cli *cli = s->chat->cli;
    for (;;) {
        pal_status status = PAL_OK;
        bool is_open;
        if (!s->is_canceled && (pal_signals_interrupted() || pal_signals_ended()))
            status = cancel(s);
        is_open = pal_chat_events_take(events, show_event, s);
        if (status == PAL_OK && !pal_id_is_none(s->asking))
            status = ask(s);
        if (status != PAL_OK)
            return status;
        if (!is_open)
            break;
        if (s->chat->terminal)
            cli->width = pal_terminal_width(s->chat->terminal);
        tick(s);
        status = pal_cli_flush(cli);
        if (status != PAL_OK)
            return status;
        pal_signals_wait(-1, TICK_MS);
    }
    return s->is_ended
            ? PAL_OK
            : pal_error_set(&cli->err, PAL_CANCELED, "the turn was dropped before it ended");
}

/* ---- The end ---- */

static void put_cost(pal_buf *line, int64_t micros)
{
    if (micros <= 0)
        return;
    /* The configured prices are in dollars, as providers list them. */
    pal_buf_format(line, ", cost $%.6f", (double)micros / 1e6);
}

static void put_usage(show *s)
{
    pal_chat *chat = s->chat;
    const pal_usage *usage = &s->answer->usage;
    char turn[PAL_ID_TEXT_SIZE];
    uint64_t input = usage->input + usage->cache_read + usage->cache_write;
    pal_ledger_sum sum = {0};
    pal_buf line;
    if (input + usage->output == 0)
        return;
    pal_id_to_text(s->answer->turn, turn);
    pal_ledger_query query = {.tenant = pal_cli_tenant(chat->cli),
            .session = chat->session,
            .turn_id = pal_str_of(turn)};
    /* This is only information: if it fails, the line is shorter. */
    if (pal_store_ledger_sum(chat->cli->store, &query, &sum, NULL) != PAL_OK)
        sum.cost_micros = 0;
    pal_buf_init(&line, 1024);
    pal_cli_count(&line, input, "token");
    pal_buf_append_text(&line, " in");
    if (usage->cache_read) {
        pal_buf_append_text(&line, " (");
        pal_cli_number_text(&line, usage->cache_read);
        pal_buf_append_text(&line, " cached)");
    }
    pal_buf_append_text(&line, ", ");
    pal_cli_number_text(&line, usage->output);
    pal_buf_append_text(&line, " out");
    put_cost(&line, sum.cost_micros);
    put_line(s, pal_buf_str(&line));
    pal_buf_done(&line);
}

static void put_end(show *s)
{
    if (!s->is_shown)
        return;
    end_text(s);
    if (!s->chat->terminal)
        return;
    if (s->answer->state == PAL_TURN_CANCELED)
        put_line(s, pal_str_of("stopped; the answer so far is stored"));
    put_usage(s);
}

/* Names the variable of the key, because the user may have several keys. */
static void hint_for_key(pal_chat *chat, pal_str endpoint)
{
    pal_str variable = pal_runtime_key_variable(chat->runtime.runtime, endpoint);
    int len = (int)(endpoint.len < 60 ? endpoint.len : 60);
    if (variable.len)
        snprintf(chat->cli->hint, sizeof chat->cli->hint,
                "'%.*s' was called with the key from %.*s; set it to a valid key, or select "
                "another provider with --provider", len, endpoint.data, PAL_EXCERPT(variable, 80));
    else
        snprintf(chat->cli->hint, sizeof chat->cli->hint,
                "'%.*s' was called without a key; put a key into an environment variable, and set "
                "the provider's 'api_key_env' to its name",
                len, endpoint.data ? endpoint.data : "");
}

static void hint_for(pal_chat *chat, pal_status status)
{
    bool is_talk = chat->terminal != NULL;
    const char *hint = "";
    if (status == PAL_DENIED || status == PAL_BUSY)
        hint = is_talk ?
                "another process uses this session; /retry later, or start a new session with /new"
                       :
                               "another process uses this session; retry later, or start a new "
                               "session with --new";
    else if (status == PAL_BUDGET)
        hint = "raise the budget, or wait for the next period";
    else if (status == PAL_LIMIT)
        hint = is_talk ? "use /compact to make room, or /new to start a new session" :
                "use --new to start a new session";
    else if (is_talk)
        hint =
                "your message is stored; use /retry to send it again, or /model to select another "
                "model";
    else
        hint = "your message is stored in the session; retry later";
    snprintf(chat->cli->hint, sizeof chat->cli->hint, "%s", hint);
}

/* ---- Starting ---- */

pal_turn_request pal_chat_request(const pal_chat *chat)
{
    return (pal_turn_request){.tenant = pal_cli_tenant(chat->cli),
            .session = chat->session,
            .endpoint = pal_buf_str(&chat->endpoint),
            .model = pal_buf_str(&chat->model),
            .label = pal_str_of("chat"),
            .system = pal_buf_str(&chat->system),
            .has_system = chat->system.len > 0,
            .cannot_ask = !chat->terminal};
}

static pal_status begin_session(pal_chat *chat, pal_str text)
{
    pal_cli *cli = chat->cli;
    pal_session session = {.tenant = pal_cli_tenant(cli),
            .agent = pal_str_of(chat->agent),
            .scope = pal_chat_scope(chat),
            .title = pal_chat_first_line(chat, text, TITLE_COLUMNS)};
    return pal_store_create(cli->store, &session, &chat->session, &cli->err);
}

static pal_status start(pal_chat *chat, pal_str text, pal_chat_answer *answer)
{
    pal_cli *cli = chat->cli;
    pal_status status = PAL_OK;
    pal_turn_info info;
    if (pal_id_is_none(chat->session))
        status = begin_session(chat, text);
    if (status != PAL_OK)
        return status;
    pal_turn_request request = pal_chat_request(chat);
    pal_message message;
    status = pal_chat_take_attached(chat, text, &message);
    if (status != PAL_OK)
        return status;
    request.messages = &message;
    request.messages_len = text.len > 0;
    status = pal_turn_start(chat->runtime.runtime, &request, &info, &cli->err);
    if (status != PAL_OK)
        return status;
    answer->turn = info.turn;
    if (text.len > 0)
        pal_chat_drop_attached(chat);
    return status;
}

static void init_show(show *s, pal_chat *chat, bool is_shown, pal_chat_answer *answer)
{
    size_t width =
            chat->terminal ? (size_t)pal_terminal_width(chat->terminal) : (size_t)chat->cli->width;
    *s = (show){.chat = chat, .answer = answer, .is_shown = is_shown};
    pal_markdown_init(&s->markdown, &chat->cli->out, width, chat->has_styles);
    s->markdown.is_raw = !chat->cli->is_terminal;
    pal_buf_init(&s->why, 1024);
    pal_buf_init(&s->endpoint, 4096);
    pal_buf_init(&s->text, PAL_CLI_OUT_MAX);
    wait_for(s, "waiting");
}

pal_status pal_chat_say(pal_chat *chat, pal_str text, bool is_shown, pal_chat_answer *out_answer)
{
    show s;
    pal_chat_events *events = NULL;
    *out_answer = (pal_chat_answer){0};
    init_show(&s, chat, is_shown, out_answer);
    pal_status status = start(chat, text, out_answer);
    if (status != PAL_OK)
        goto out;
    events = pal_chat_events_open(chat, out_answer->turn);
    status = events ? follow(&s, events) : chat->cli->err.status;
    if (status == PAL_OK)
        status = s.status; /* why the turn failed, if it did */
    if (status == PAL_OK && s.text.failure)
        status = pal_cli_no_memory(chat->cli);
out:
    pal_chat_events_close(events);
    put_end(&s);
    if (status == PAL_OK)
        out_answer->text = pal_arena_copy(chat->arena, pal_buf_str(&s.text));
    else if (s.is_key_refused)
        hint_for_key(chat, pal_buf_str(&s.endpoint));
    else
        hint_for(chat, status);
    pal_markdown_done(&s.markdown);
    pal_buf_done(&s.why);
    pal_buf_done(&s.endpoint);
    pal_buf_done(&s.text);
    return status;
}
