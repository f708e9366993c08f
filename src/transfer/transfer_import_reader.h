/* transfer_import_reader.h - reads one transcript into an import, from lines to sessions. Used by
 * the command, which has files, and by the server, which has a body. One thread at a time. */
#ifndef PAL_TRANSFER_IMPORT_READER_H
#define PAL_TRANSFER_IMPORT_READER_H

#include "dialect/transcript/transcript.h"
#include "palaver/route.h"
#include "transfer/transfer_import.h"

#define PAL_IMPORT_CONVERSATION_RECORD "mistral_conversation" /* read by turn_conversation.c */

/* A session of the transcript that is about to be created. */
typedef struct pal_import_begun {
    pal_session session;
    size_t number;   /* number in the transcript, from 1 */
    bool is_native;  /* its id and those of its messages are Palaver's and are kept if they are
                        free */
    bool is_renamed; /* it got another name: the ids of its messages become client ids */
} pal_import_begun;

/* Called before the session is created. It may change the session. */
typedef pal_status (*pal_import_begins)(pal_import_begun *begun, void *user);

typedef struct pal_import_reader {
    /* Set by the caller; all other members must be zero. */
    pal_import *import;
    pal_import_begins begins;
    pal_import_problem problem;
    void *user;
    pal_error *err;
    const pal_route_settings *routes; /* routing settings for Matrix rooms; NULL: the defaults */
    /* Private members. */
    pal_transcript *transcript;
    size_t sessions; /* number of sessions that have begun */
    bool is_renamed; /* the newest session was renamed */
    const pal_transcript_facts *facts; /* the session of the current line; NULL: none */
    int64_t untimed_at; /* the time that was assigned to it; 0: it had a time */
} pal_import_reader;

PAL_CHECKED pal_status pal_import_reader_open(pal_import_reader *reader, pal_transcript_kind kind);
void pal_import_reader_close(pal_import_reader *reader); /* accepts a reader that was not opened */

PAL_CHECKED pal_status pal_import_reader_line(pal_import_reader *reader, pal_str line);
/* Imports a text that is one JSON value, possibly on many lines. The elements of an array, or the
 * value itself, are used as lines. If the text is something else, *out_done is false and nothing
 * was imported. */
PAL_CHECKED pal_status pal_import_reader_value(
        pal_import_reader *reader, pal_str text, bool *out_done);
/* Whether a first line cannot belong to a file of JSON lines: it is an array, or the beginning of a
 * longer value. */
bool pal_import_starts_value(pal_str line);
/* Imports a complete transcript: lines or one JSON value. */
PAL_CHECKED pal_status pal_import_reader_text(pal_import_reader *reader, pal_str text);
/* Ends the transcript. Everything is in the batch or committed. If pal_import_reader_kind() returns
 * AUTO, no line was recognized. */
PAL_CHECKED pal_status pal_import_reader_finish(pal_import_reader *reader);
pal_transcript_kind pal_import_reader_kind(const pal_import_reader *reader);

#endif
