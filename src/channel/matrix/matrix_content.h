/* matrix_content.h - writes the contents of events that we send. Every message has m.mentions, so
 * that a text which a model wrote cannot notify anybody by itself. */
#ifndef PAL_MATRIX_CONTENT_H
#define PAL_MATRIX_CONTENT_H

#include "base/buf.h"
#include "palaver/str.h"

typedef enum pal_matrix_message_type {
    PAL_MATRIX_TEXT = 0,
    PAL_MATRIX_NOTICE,
    PAL_MATRIX_IMAGE,
    PAL_MATRIX_FILE,
    PAL_MATRIX_AUDIO,
    PAL_MATRIX_VIDEO,
} pal_matrix_message_type;

typedef struct pal_matrix_message {
    pal_matrix_message_type type;
    pal_str text; /* the body; media: the file's name */
    pal_str html; /* may be empty */
    pal_str marker;
    pal_str edits;    /* the event whose text this message replaces; may be empty */
    pal_str thread;   /* the root of the thread; may be empty */
    pal_str reply_to; /* may be empty */
    bool is_fallback; /* in a thread: reply_to is its newest event, and no reply */
    const pal_str *mentions; /* users */
    size_t mentions_len;
    /* Media. */
    pal_str url;
    pal_str media_type;
    uint64_t bytes;
    uint32_t width, height; /* 0: not known */
} pal_matrix_message;

/* Writes the content of an m.room.message. */
void pal_matrix_content_message(const pal_matrix_message *message, pal_buf *out);
/* Writes the content of an m.reaction. */
void pal_matrix_content_reaction(pal_str target, pal_str key, pal_str marker, pal_buf *out);
/* Writes the content of an m.room.redaction. `reason` may be empty. */
void pal_matrix_content_redaction(pal_str reason, pal_str marker, pal_buf *out);

#endif
