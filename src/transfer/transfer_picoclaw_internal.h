/* transfer_picoclaw_internal.h - shared by the files of transfer_picoclaw.h, and private to them.
 *
 * transfer_picoclaw_list.c     lists the sessions of the directory
 * transfer_picoclaw_walk.c     reads one session once, message by message
 * transfer_picoclaw_session.c  writes its record and its marks to the store
 * transfer_picoclaw_import.c   imports all sessions, then verifies them
 * transfer_picoclaw_export.c   writes the files of a session */
#ifndef PAL_TRANSFER_PICOCLAW_INTERNAL_H
#define PAL_TRANSFER_PICOCLAW_INTERNAL_H

#include "base/digest.h"
#include "base/map.h"
#include "base/memory.h"
#include "dialect/picoclaw/picoclaw.h"
#include "transfer/transfer_input.h"
#include "transfer/transfer_picoclaw.h"

#define PAL_PICOCLAW_NAME_SHOWN 120 /* bytes of a name that a problem report shows */

/* One session of the directory. */
typedef struct pal_picoclaw_source {
    const char *base;
    const char *lines; /* paths; NULL if there is no such file */
    const char *meta;
    const char *legacy;
    uint64_t size;
    uint64_t lines_read; /* lines that the import read; the second reading stops there */
    bool is_skipped;
    pal_id session; /* the imported session; empty: nothing was imported */
} pal_picoclaw_source;

/* All sessions of the directory. */
typedef struct pal_picoclaw_listing {
    pal_picoclaw_source *sources;
    size_t len;
    size_t cap;
    uint64_t bytes;
    pal_map by_base; /* base -> its index plus 1, as a pointer */
    pal_map aliases; /* alias -> the key of its session, a pal_str */
} pal_picoclaw_listing;

typedef struct pal_picoclaw_walk pal_picoclaw_walk;

/* One reading of one session. */
struct pal_picoclaw_walk {
    pal_picoclaw_import *import;
    pal_picoclaw_listing *list;
    pal_picoclaw_source *from;
    pal_arena *arena; /* freed after the session */
    pal_picoclaw_meta meta;
    bool is_check;
    uint64_t line;
    uint64_t counted; /* lines that PicoClaw counts: those that are not empty */
    uint64_t messages;
    uint64_t hidden; /* how many of them are before `skip` */
    int64_t time;    /* time of the previous message, for messages without a time */
    pal_map seen;    /* content -> number of occurrences, as a pointer */
    pal_map wanted;  /* second reading: client id -> digest */
    /* Called for each message. */
    pal_status (*take)(pal_picoclaw_walk *w, pal_message *message, uint64_t line);
    pal_arena *message_arena;
};

/* PAL_INVALID if the directory belongs to the store: it would be read or replaced while the store
 * writes to it. */
PAL_CHECKED pal_status pal_picoclaw_dir_check(
        const char *store_url, const char *dir, pal_error *err);

/* Fills the listing. The caller releases its maps. */
PAL_CHECKED pal_status pal_picoclaw_list(
        pal_picoclaw_import *import, const char *dir, pal_picoclaw_listing *list);

/* Reads the lines and the meta file of a session, or its older file, and calls `take` for each
 * message. The first reading also creates the session and stores its summary at the end. */
PAL_CHECKED pal_status pal_picoclaw_walk_lines(pal_picoclaw_walk *w);
PAL_CHECKED pal_status pal_picoclaw_walk_legacy(pal_picoclaw_walk *w);

/* Computes a digest of the message's content, with or without its time. */
PAL_CHECKED pal_status pal_picoclaw_digest(pal_picoclaw_walk *w, const pal_message *message,
        bool with_time, uint8_t out_digest[PAL_SHA256_SIZE]);

/* Reports a problem; only in the first reading. */
void pal_picoclaw_tell(pal_picoclaw_walk *w, uint64_t line, const char *what, const char *detail);

/* ---- Writing to the store ---- */

PAL_CHECKED pal_status pal_picoclaw_begin(pal_picoclaw_walk *w);
/* Hides all lines up to `skip`, which have been imported, unless that was done before. */
PAL_CHECKED pal_status pal_picoclaw_hide_skipped(pal_picoclaw_walk *w);
/* Stores the summary as a checkpoint that replaces the skipped messages. */
PAL_CHECKED pal_status pal_picoclaw_keep_summary(pal_picoclaw_walk *w);

#endif
