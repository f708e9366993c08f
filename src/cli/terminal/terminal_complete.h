/* terminal_complete.h - the candidates for the Tab key. Knows nothing about the terminal. */
#ifndef PAL_TERMINAL_COMPLETE_H
#define PAL_TERMINAL_COMPLETE_H

#include <stdbool.h>
#include "base/buf.h"

#define PAL_COMPLETE_MAX 200 /* candidates; more are left out */

typedef struct pal_complete {
    pal_buf names; /* the candidates in order, each with a NUL at its end */
    size_t len;    /* how many there are */
    size_t common; /* bytes with which all of them begin */
    size_t typed;  /* bytes of the line with which all of them begin; they end at the cursor */
    bool is_file;  /* they are names of files and directories */
} pal_complete;

void pal_complete_init(pal_complete *complete);
void pal_complete_done(pal_complete *complete);

/* Finds the candidates for a line up to the cursor. Commands end with a space if they have an
 * argument, and directories with a slash. Without memory there are fewer of them. */
void pal_complete_line(pal_complete *complete, pal_str line, const char *const *words);

#endif
