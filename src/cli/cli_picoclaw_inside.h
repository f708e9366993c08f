/* cli_picoclaw_inside.h - what the files of the import from PicoClaw share. Only for them.
 *
 * cli_picoclaw_list.c     the directory: which sessions it has
 * cli_picoclaw_walk.c     one reading of one session, message by message
 * cli_picoclaw_session.c  its record and its marks, in the store
 * cli_picoclaw_import.c   all of them, twice */
#ifndef PAL_CLI_PICOCLAW_INSIDE_H
#define PAL_CLI_PICOCLAW_INSIDE_H

#include "base/digest.h"
#include "base/map.h"
#include "cli/cli_picoclaw.h"

#define PAL_PICOCLAW_NAME_SHOWN 120 /* bytes of a name that a problem shows */

/* One session of the directory. */
typedef struct pal_picoclaw_source {
    const char *base;
    const char *lines; /* paths; NULL where there is no such file */
    const char *meta;
    const char *legacy;
    uint64_t size;
    uint64_t lines_read; /* by the import: the second reading goes no further */
    bool is_skipped;
    pal_id session; /* that it was imported to; none: nothing of it was */
} pal_picoclaw_source;

/* All of them. */
typedef struct pal_picoclaw_listing {
    pal_picoclaw_source *sources;
    size_t len;
    size_t cap;
    uint64_t bytes;
    pal_map by_base; /* base -> its place plus 1, as a pointer */
    pal_map aliases; /* alias -> the key that has it, a pal_str */
} pal_picoclaw_listing;

typedef struct pal_picoclaw_walk pal_picoclaw_walk;

/* One reading of one session. */
struct pal_picoclaw_walk {
    pal_picoclaw_import *import;
    pal_picoclaw_listing *list;
    pal_picoclaw_source *from;
    pal_arena *arena; /* of the session */
    pal_picoclaw_meta meta;
    bool is_check;
    uint64_t line;
    uint64_t counted; /* lines that PicoClaw counts: those that aren't empty */
    uint64_t messages;
    uint64_t hidden; /* of them: those before `skip` */
    int64_t time;    /* of the message before: for those that have none */
    pal_map seen;    /* content -> how often, as a pointer */
    pal_map wanted;  /* second reading: client id -> digest */
    /* What becomes of each message. */
    pal_status (*take)(pal_picoclaw_walk *w, pal_message *message, uint64_t line);
    pal_arena *message_arena;
};

/* Fills the listing, whose maps are the caller's to release. */
PAL_CHECKED pal_status pal_picoclaw_list(
        pal_picoclaw_import *import, const char *dir, pal_picoclaw_listing *list);

/* Reads a session's lines and meta file, or its older file, and hands each message to `take`. The
 * first reading also begins the session, and ends it with its summary. */
PAL_CHECKED pal_status pal_picoclaw_walk_lines(pal_picoclaw_walk *w);
PAL_CHECKED pal_status pal_picoclaw_walk_legacy(pal_picoclaw_walk *w);

/* Of what a message says, with its time or without. */
PAL_CHECKED pal_status pal_picoclaw_digest(pal_picoclaw_walk *w, const pal_message *message,
        bool with_time, uint8_t out_digest[PAL_SHA256_SIZE]);

/* Tells a problem, on the first reading only. */
void pal_picoclaw_tell(pal_picoclaw_walk *w, uint64_t line, const char *what, const char *detail);

/* ---- In the store ---- */

PAL_CHECKED pal_status pal_picoclaw_begin(pal_picoclaw_walk *w);
/* All lines up to `skip` are in. Takes them out of sight, unless that was done before. */
PAL_CHECKED pal_status pal_picoclaw_hide_skipped(pal_picoclaw_walk *w);
/* The summary becomes a checkpoint that stands for what was skipped. */
PAL_CHECKED pal_status pal_picoclaw_keep_summary(pal_picoclaw_walk *w);

#endif
