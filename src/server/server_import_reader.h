/* server_import_reader.h - one transcript on its way into an import: lines in, sessions out. For
 * the command, which has files, and for the server, which has a body. One thread at a time. */
#ifndef PAL_SERVER_IMPORT_READER_H
#define PAL_SERVER_IMPORT_READER_H

#include "dialect/dialect_transcript.h"
#include "palaver/route.h"
#include "server/server_import.h"

#define PAL_IMPORT_CONVERSATION_RECORD "mistral_conversation" /* turn_conversation.c reads it */

/* A session of the transcript as it will be made. */
typedef struct pal_import_begun {
    pal_session session;
    size_t number;   /* in the transcript, from 1 */
    bool is_native;  /* its id, and its messages', are ours and are kept where they are free */
    bool is_renamed; /* it got another name: its messages' ids become client ids */
} pal_import_begun;

/* Told before it is made; what it says may be changed. */
typedef pal_status (*pal_import_begins)(pal_import_begun *begun, void *user);

typedef struct pal_import_reader {
    /* Filled by the caller; the rest is zero. */
    pal_import *import;
    pal_import_begins begins;
    pal_import_problem problem;
    void *user;
    pal_error *err;
    const pal_route_settings *routes; /* whose session a Matrix room is; NULL: the defaults' */
    /* The reader's own. */
    pal_transcript *transcript;
    size_t sessions; /* begun */
    bool is_renamed; /* the newest */
} pal_import_reader;

PAL_CHECKED pal_status pal_import_reader_open(pal_import_reader *reader, pal_transcript_kind kind);
void pal_import_reader_close(pal_import_reader *reader); /* also one that was not opened */

PAL_CHECKED pal_status pal_import_reader_line(pal_import_reader *reader, pal_str line);
/* A text that is one JSON value, perhaps over many lines: the elements of an array, or the value,
 * are taken as lines. *out_done is false, and nothing was taken, where it is something else. */
PAL_CHECKED pal_status pal_import_reader_value(
        pal_import_reader *reader, pal_str text, bool *out_done);
/* Whether a first line can't be the line of a file of lines: an array, or the start of something
 * longer. */
bool pal_import_starts_value(pal_str line);
/* A whole transcript, lines or one value. */
PAL_CHECKED pal_status pal_import_reader_text(pal_import_reader *reader, pal_str text);
/* The end of it; all of it is on its way. AUTO from pal_import_reader_kind(): nothing was known. */
PAL_CHECKED pal_status pal_import_reader_finish(pal_import_reader *reader);
pal_transcript_kind pal_import_reader_kind(const pal_import_reader *reader);

#endif
