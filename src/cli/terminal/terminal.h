/* terminal.h - reads from a person at a terminal: line editing, history, Ctrl-C, and the
 * size of the window. A process has at most one terminal. */
#ifndef PAL_TERMINAL_H
#define PAL_TERMINAL_H

#include "cli/cli.h"

#define PAL_TERMINAL_HISTORY_MAX 1000           /* lines in the history */
#define PAL_TERMINAL_LINE_MAX ((size_t)1 << 20) /* characters of one line or one paste */

/* ---- Signals, also without a terminal ---- */

/* From now on SIGINT, SIGTERM and SIGHUP are only recorded; they do not end the process. */
PAL_CHECKED pal_status pal_signals_open(pal_cli *cli);
void pal_signals_close(void);

/* Waits until a signal was recorded, pal_signals_wake() was called, `timeout_ms` have passed
 * (negative: no timeout), or `fd` (negative: none) can be read. Returns true in the last case. */
bool pal_signals_wait(int fd, int timeout_ms);
void pal_signals_wake(void); /* can be called from any thread and from signal handlers */

/* Returns whether Ctrl-C was pressed since the last call. */
bool pal_signals_interrupted(void);
/* Returns whether a signal requested the end of the process. Stays true. */
bool pal_signals_ended(void);

/* ---- The terminal ---- */

typedef struct pal_terminal pal_terminal;

/* Opens the terminal. While no line is read, typed keys are kept for the next line and not
 * shown. The Tab key completes `words` (NULL at the end) at the beginning of a line, and names of
 * files (terminal_complete.h).
 * pal_terminal_close() releases the terminal and restores its settings. */
PAL_CHECKED pal_status pal_terminal_open(
        pal_cli *cli, const char *const *words, pal_terminal **out_terminal);
void pal_terminal_close(pal_terminal *terminal); /* accepts NULL */

typedef enum pal_terminal_input {
    PAL_INPUT_LINE = 0,
    PAL_INPUT_INTERRUPTED = 1, /* Ctrl-C on a line that is not empty */
    PAL_INPUT_EMPTY = 2,       /* Ctrl-C on an empty line */
    PAL_INPUT_END = 3,         /* Ctrl-D, or the terminal was closed */
} pal_terminal_input;

/* Lets the user edit a line after the prompt and a space. Pasted text can contain line ends.
 * *out_line has no final line end and is valid until the next call. */
pal_terminal_input pal_terminal_read(
        pal_terminal *terminal, const char *prompt, bool has_styles, pal_str *out_line);

/* Adds the text to the history, for this process and later ones. */
void pal_terminal_remember(pal_terminal *terminal, pal_str text);

/* Returns the current width of the window in columns. */
int pal_terminal_width(const pal_terminal *terminal);

#endif
