/* terminal.c - line editing with libedit; only this file uses it. This file reads the
 * characters itself, so that Ctrl-C and a new window size are noticed immediately. The terminal
 * sends marks before and after pasted text (bracketed paste), so line ends in it are text.
 *
 * The history is a file in libedit's format in the user's state directory. Only the user can
 * read it, and it is always replaced completely. If it cannot be written, there is no history
 * file. */
#include "cli/terminal/terminal.h"
#include "cli/terminal/terminal_complete.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>
#include "base/memory.h"
#include "base/utf8.h"

#define PASTE_BEGIN "\033[?2004h"
#define PASTE_END "\033[?2004l"
#define PROMPT_SIZE 64
#define COLUMNS_MIN 20 /* in a narrower window the terminal breaks the lines */

struct pal_terminal {
    EditLine *editor;
    History *history;
    const char *const *words;
    char *history_file;    /* NULL: the history is not stored */
    struct termios before; /* settings to restore */
    char prompt[PROMPT_SIZE];
    pal_terminal_input reason; /* why reading ended without a line */
    pal_buf pasted;            /* wide characters */
};

static volatile sig_atomic_t resized;

static void note_resize(int number)
{
    (void)number;
    resized = 1;
    pal_signals_wake();
}

static pal_terminal *terminal_of(EditLine *editor)
{
    pal_terminal *terminal = NULL;
    el_get(editor, EL_CLIENTDATA, &terminal);
    return terminal;
}

static void put(const char *text)
{
    ssize_t written = write(STDOUT_FILENO, text, strlen(text));
    (void)written; /* if the terminal is gone, the next read fails */
}

int pal_terminal_width(const pal_terminal *terminal)
{
    struct winsize size;
    (void)terminal;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 80;
    return size.ws_col < COLUMNS_MIN ? COLUMNS_MIN : size.ws_col;
}

/* ---- Characters ---- */

/* Handles signals and a new window size. Returns false if reading must stop. */
static bool look_around(pal_terminal *terminal)
{
    if (pal_signals_interrupted()) {
        const LineInfoW *line = el_wline(terminal->editor);
        bool is_empty = line->lastchar == line->buffer;
        terminal->reason = is_empty ? PAL_INPUT_EMPTY : PAL_INPUT_INTERRUPTED;
        return false;
    }
    if (pal_signals_ended())
        return false;
    if (resized) {
        resized = 0;
        el_resize(terminal->editor);
        el_set(terminal->editor, EL_PREP_TERM, 1);
        el_set(terminal->editor, EL_REFRESH);
    }
    return true;
}

/* Waits for one byte. Returns false if reading must stop. */
static bool read_byte(pal_terminal *terminal, unsigned char *out_byte)
{
    while (look_around(terminal)) {
        if (!pal_signals_wait(STDIN_FILENO, -1))
            continue;
        ssize_t len = read(STDIN_FILENO, out_byte, 1);
        if (len == 1)
            return true;
        if (len == 0 || errno != EINTR)
            break;
    }
    return false;
}

static int read_char(EditLine *editor, wchar_t *out_char)
{
    pal_terminal *terminal = terminal_of(editor);
    unsigned char bytes[4];
    uint32_t c;
    size_t len = 1;
    if (!read_byte(terminal, &bytes[0]))
        return -1;
    size_t wanted = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : bytes[0] >= 0xc0 ? 2 : 1;
    while (len < wanted) {
        if (!read_byte(terminal, &bytes[len]))
            return -1;
        len++;
    }
    pal_utf8_decode(pal_str_make((char *)bytes, len), &c);
    *out_char = (wchar_t)c;
    return 1;
}

/* ---- Keys ---- */

static void insert_char(pal_terminal *terminal, wchar_t c)
{
    bool is_control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
    if (!is_control)
        pal_buf_append(&terminal->pasted, &c, sizeof c);
}

/* Reads pasted text up to the mark of the terminal. Text over the limit is dropped. */
static unsigned char paste(EditLine *editor, int key)
{
    static const wchar_t mark[] = L"\033[201~";
    pal_terminal *terminal = terminal_of(editor);
    size_t seen = 0;
    wchar_t c, last = 0;
    (void)key;
    pal_buf_clear(&terminal->pasted);
    while (mark[seen]) {
        if (el_wgetc(editor, &c) != 1)
            return CC_FATAL;
        if (c == mark[seen]) {
            seen++;
            continue;
        }
        /* The characters so far are text and not the mark; only the escape is dropped. */
        for (size_t i = 1; i < seen; i++)
            insert_char(terminal, mark[i]);
        seen = c == mark[0];
        if (!seen && !(c == '\n' && last == '\r'))
            insert_char(terminal, c == '\r' ? '\n' : c);
        last = c;
    }
    pal_status failure = terminal->pasted.failure;
    wchar_t end = 0;
    if (failure == PAL_OK)
        pal_buf_append(&terminal->pasted, &end, sizeof end);
    if (terminal->pasted.failure || terminal->pasted.len <= sizeof end)
        return CC_ERROR;
    return el_winsertstr(editor, (const wchar_t *)(const void *)terminal->pasted.data) == 0
            ? CC_REFRESH
            : CC_ERROR;
}

static unsigned char new_line(EditLine *editor, int key)
{
    (void)key;
    return el_winsertstr(editor, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

/* Prints the candidates in columns below the line. */
static void list_candidates(const pal_terminal *terminal, const pal_complete *found)
{
    pal_buf out;
    size_t widest = 0, column = 0;
    size_t width = (size_t)pal_terminal_width(terminal);
    const char *name = found->names.data;
    for (size_t i = 0; i < found->len; i++, name += strlen(name) + 1) {
        size_t columns = pal_cli_columns(pal_str_of(name));
        widest = columns > widest ? columns : widest;
    }
    pal_buf_init(&out, PAL_TERMINAL_LINE_MAX);
    name = found->names.data;
    for (size_t i = 0; i < found->len; i++, name += strlen(name) + 1) {
        bool begins = column == 0 || column + widest + 2 > width;
        column = begins ? widest + 2 : column + widest + 2;
        pal_buf_append_text(&out, begins ? "\r\n" : "");
        pal_cli_clean(&out, pal_str_of(name), false);
        for (size_t at = pal_cli_columns(pal_str_of(name)); at < widest + 2; at++)
            pal_buf_append_char(&out, ' ');
    }
    pal_buf_append_text(&out, "\r\n");
    pal_buf_append_char(&out, '\0');
    if (!out.failure)
        put(out.data);
    pal_buf_done(&out);
}

/* Inserts what all candidates have in common. If there is nothing to insert, lists them. */
static unsigned char insert_common(EditLine *editor, const pal_complete *found)
{
    char rest[PATH_MAX];
    size_t len = found->common - found->typed;
    bool is_only = found->len == 1;
    const char *name = found->names.data;
    if (len == 0 && !is_only) {
        list_candidates(terminal_of(editor), found);
        return CC_REDISPLAY;
    }
    bool wants_space = is_only && found->is_file && name[found->common - 1] != '/';
    snprintf(rest, sizeof rest, "%.*s%s", (int)len, name + found->typed, wants_space ? " " : "");
    return *rest && el_insertstr(editor, rest) != 0 ? CC_ERROR : CC_REFRESH;
}

static unsigned char complete(EditLine *editor, int key)
{
    const LineInfo *line = el_line(editor);
    unsigned char result = CC_REFRESH_BEEP;
    pal_complete found;
    (void)key;
    pal_complete_init(&found);
    pal_complete_line(&found, pal_str_make(line->buffer, (size_t)(line->cursor - line->buffer)),
            terminal_of(editor)->words);
    if (found.len && !found.names.failure)
        result = insert_common(editor, &found);
    pal_complete_done(&found);
    return result;
}

static void bind_keys(EditLine *editor)
{
    static const char *const keys[][2] = {
            {"\\e[200~", "palaver-paste"},
            {"\\e^M", "palaver-new-line"},
            {"\\e^J", "palaver-new-line"}, /* for terminals that send a line feed for Enter */
            {"^I", "palaver-complete"},
            {"^R", "em-inc-search-prev"},
            {"^W", "ed-delete-prev-word"},
            {"\\e[H", "ed-move-to-beg"},
            {"\\e[F", "ed-move-to-end"},
            {"\\e[1~", "ed-move-to-beg"},
            {"\\e[4~", "ed-move-to-end"},
            {"\\e[3~", "ed-delete-next-char"},
            {"\\e[1;5C", "em-next-word"},
            {"\\e[1;5D", "ed-prev-word"},
    };
    /* The wide function keeps pointers to these texts; the other one copies and leaks them. */
    el_wset(editor, EL_ADDFN, L"palaver-paste", L"insert pasted text", paste);
    el_wset(editor, EL_ADDFN, L"palaver-new-line", L"insert a line end", new_line);
    el_wset(editor, EL_ADDFN, L"palaver-complete", L"complete a command", complete);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        el_set(editor, EL_BIND, keys[i][0], keys[i][1], NULL);
}

/* ---- History ---- */

/* Creates the missing directories of the path. Returns false on failure. */
static bool make_parents(char *path)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *at = '/';
        if (!made)
            return false;
    }
    return true;
}

/* Returns the path; free it with pal_free(). NULL if there is no home directory. */
static char *find_history(void)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    bool has_state = state && *state == '/';
    if (!has_state && (!home || *home != '/'))
        return NULL;
    const char *base = has_state ? state : home;
    const char *rest = has_state ? "/palaver/chat_history" : "/.local/state/palaver/chat_history";
    size_t size = strlen(base) + strlen(rest) + 1;
    char *path = pal_malloc(size);
    if (!path)
        return NULL;
    snprintf(path, size, "%s%s", base, rest);
    if (make_parents(path))
        return path;
    pal_free(path);
    return NULL;
}

/* Writes a temporary file and renames it, so that a crash cannot leave an incomplete file. */
static void save_history(pal_terminal *terminal)
{
    HistEvent event;
    pal_buf path;
    if (!terminal->history_file)
        return;
    pal_buf_init(&path, 8192);
    pal_buf_format(&path, "%s.%ld", terminal->history_file, (long)getpid());
    pal_buf_append_char(&path, '\0');
    int fd = path.failure ? -1 : open(path.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file) {
        bool saved = history(terminal->history, &event, H_SAVE_FP, file) >= 0;
        saved = fclose(file) == 0 && saved;
        if (!saved || rename(path.data, terminal->history_file) != 0)
            unlink(path.data);
    } else if (fd >= 0) {
        close(fd);
    }
    pal_buf_done(&path);
}

void pal_terminal_remember(pal_terminal *terminal, pal_str text)
{
    HistEvent event;
    pal_buf line;
    pal_buf_init(&line, PAL_TERMINAL_LINE_MAX * 4);
    pal_buf_append_str(&line, text);
    pal_buf_append_char(&line, '\0');
    if (!line.failure && history(terminal->history, &event, H_ENTER, line.data) >= 0)
        save_history(terminal);
    pal_buf_done(&line);
}

/* ---- Lines ---- */

static char *tell_prompt(EditLine *editor)
{
    return terminal_of(editor)->prompt;
}

pal_terminal_input pal_terminal_read(
        pal_terminal *terminal, const char *prompt, bool has_styles, pal_str *out_line)
{
    int len = 0;
    /* libedit prints marked text only if a character follows it: the space. */
    const char *format = has_styles ? "\1\033[1m\1%s\1\033[0m\1 " : "%s ";
    snprintf(terminal->prompt, sizeof terminal->prompt, format, prompt);
    terminal->reason = PAL_INPUT_END;
    put(PASTE_BEGIN);
    const char *line = el_gets(terminal->editor, &len);
    put(PASTE_END);
    if (!line || len <= 0) {
        put("\n");
        return terminal->reason;
    }
    if (line[len - 1] == '\n')
        len--;
    *out_line = pal_str_make(line, (size_t)len);
    return PAL_INPUT_LINE;
}

/* ---- Life cycle ---- */

/* libedit must know that characters are UTF-8. The rest of the locale does not change. */
static void use_utf8(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static pal_status open_editor(pal_cli *cli, pal_terminal *terminal)
{
    HistEvent event;
    terminal->editor = el_init("palaver", stdin, stdout, stderr);
    terminal->history = history_init();
    if (!terminal->editor || !terminal->history)
        return pal_error_set(&cli->err, PAL_IO, "the terminal does not support line editing");
    history(terminal->history, &event, H_SETSIZE, PAL_TERMINAL_HISTORY_MAX);
    history(terminal->history, &event, H_SETUNIQUE, 1);
    if (terminal->history_file)
        history(terminal->history, &event, H_LOAD, terminal->history_file);
    el_set(terminal->editor, EL_CLIENTDATA, terminal);
    el_set(terminal->editor, EL_EDITOR, "emacs");
    el_set(terminal->editor, EL_PROMPT_ESC, tell_prompt, '\1');
    el_set(terminal->editor, EL_HIST, history, terminal->history);
    el_set(terminal->editor, EL_GETCFN, read_char);
    /* Between two lines, typed keys are kept for the next line and not shown. */
    el_set(terminal->editor, EL_SETTY, "-x", "-echo", "-icanon", NULL);
    bind_keys(terminal->editor);
    return PAL_OK;
}

pal_status pal_terminal_open(pal_cli *cli, const char *const *words, pal_terminal **out_terminal)
{
    struct sigaction action = {.sa_handler = note_resize};
    pal_terminal *terminal = pal_calloc(1, sizeof *terminal);
    if (!terminal)
        return pal_cli_no_memory(cli);
    use_utf8();
    terminal->words = words;
    terminal->history_file = find_history();
    pal_buf_init(&terminal->pasted, PAL_TERMINAL_LINE_MAX * sizeof(wchar_t));
    tcgetattr(STDIN_FILENO, &terminal->before);
    pal_status status = open_editor(cli, terminal);
    if (status != PAL_OK) {
        pal_terminal_close(terminal);
        return status;
    }
    struct termios quiet = terminal->before;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ICANON);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
    sigemptyset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL);
    sigaction(SIGCONT, &action, NULL);
    *out_terminal = terminal;
    return PAL_OK;
}

void pal_terminal_close(pal_terminal *terminal)
{
    if (!terminal)
        return;
    signal(SIGWINCH, SIG_DFL);
    signal(SIGCONT, SIG_DFL);
    if (terminal->history)
        history_end(terminal->history);
    if (terminal->editor)
        el_end(terminal->editor);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->before);
    pal_buf_done(&terminal->pasted);
    pal_free(terminal->history_file);
    pal_free(terminal);
}
