/* cli_terminal.h - a person at a terminal: lines that they edit, what they said before, Ctrl-C, the
 * size of the window. There is one at most. */
#ifndef PAL_CLI_TERMINAL_H
#define PAL_CLI_TERMINAL_H

#include "cli/cli.h"

#define PAL_TERMINAL_HISTORY_MAX 1000           /* lines that are remembered */
#define PAL_TERMINAL_LINE_MAX ((size_t)1 << 20) /* characters of one line, or of what is pasted */

/* ---- Signals, also without a terminal ---- */

/* SIGINT, SIGTERM and SIGHUP are noted from here on, and end nothing by themselves. */
PAL_CHECKED pal_status pal_signals_open(pal_cli *cli);
void pal_signals_close(void);

/* Waits until something was noted, pal_signals_wake() was called, `timeout_ms` are over (negative:
 * never), or `fd` (negative: none) can be read: then it is true. */
bool pal_signals_wait(int fd, int timeout_ms);
void pal_signals_wake(void); /* from any thread, and from handlers of signals */

/* Whether Ctrl-C was pressed since the last time that this was asked. */
bool pal_signals_interrupted(void);
/* Whether the process was told to end. Stays so. */
bool pal_signals_ended(void);

/* ---- The terminal ---- */

typedef struct pal_terminal pal_terminal;

/* While no line is read, keys are kept for the next one, and not shown. `words` (NULL at the end)
 * are what the Tab key completes at the beginning of a line. Release it with pal_terminal_close(),
 * which sets the terminal back as it was. */
PAL_CHECKED pal_status pal_terminal_open(
        pal_cli *cli, const char *const *words, pal_terminal **out_terminal);
void pal_terminal_close(pal_terminal *terminal); /* accepts NULL */

typedef enum pal_terminal_input {
    PAL_INPUT_LINE = 0,
    PAL_INPUT_INTERRUPTED = 1, /* Ctrl-C; the line was not empty */
    PAL_INPUT_EMPTY = 2,       /* Ctrl-C at an empty line */
    PAL_INPUT_END = 3,         /* Ctrl-D, or the terminal is gone */
} pal_terminal_input;

/* Lets the user edit a line behind the prompt and a space. It may have line ends in it if it was
 * pasted; *out_line is borrowed until the next one, without the line end behind it. */
pal_terminal_input pal_terminal_read(
        pal_terminal *terminal, const char *prompt, bool has_styles, pal_str *out_line);

/* Keeps the text for the arrow keys, in this process and later ones. */
void pal_terminal_remember(pal_terminal *terminal, pal_str text);

/* Columns of the window, as it is now. */
int pal_terminal_width(const pal_terminal *terminal);

#endif
