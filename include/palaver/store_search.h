/* store_search.h - finds messages by their words. The rules at the top of store.h apply. */
#ifndef PALAVER_STORE_SEARCH_H
#define PALAVER_STORE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/message.h"
#include "palaver/store.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a search is ranked. A ranked search finds messages with any of the words, in any of their
 * English forms; "a phrase" must occur. The best hits come first. */
enum {
    PAL_RANK_NEVER,     /* all words must occur; the newest messages come first */
    PAL_RANK_ALWAYS,
    PAL_RANK_QUESTIONS, /* ranked, unless the text contains "a phrase" or word* */
};

typedef struct pal_search_query {
    pal_str tenant;
    pal_id session;      /* the session to search; empty: all active sessions of the tenant */
    pal_str text;        /* words that must all occur, unless the search is ranked; "a phrase" in
                            quotes; word* matches longer words too */
    pal_role role;       /* PAL_ROLE_NONE: any */
    uint64_t after_seq;  /* only messages with a larger seq; requires a session */
    uint64_t before_seq; /* only messages with a smaller seq; requires a session; 0: up to the
                            newest */
    int64_t from;        /* earliest created_at, in milliseconds since 1970; 0: any */
    int64_t to;          /* messages created at this time or later are left out; 0: none */
    uint32_t limit;      /* hits on a page, up to PAL_SEARCH_HITS_MAX; 0: 20 */
    pal_str cursor;      /* the `cursor` of the previous page; empty: the first page */
    uint32_t wait_ms;    /* how long the search adds to an incomplete index, and then again walks
                            through messages that are not in it; 0: as long as it takes */
    uint64_t hidden;     /* not 0: find hidden messages too */
    uint64_t rank;       /* PAL_RANK_NEVER, PAL_RANK_ALWAYS or PAL_RANK_QUESTIONS */
    uint64_t neighbors;  /* if the search is ranked, show this many messages before and after each
                            hit, up to PAL_SEARCH_NEIGHBORS_MAX */
    pal_str sender;      /* only messages whose member "sender" is this; empty: any */
    PAL_RESERVED(3);
} pal_search_query;

/* A matching word or phrase in a snippet, in characters. */
typedef struct pal_search_match {
    uint32_t start;
    uint32_t len;
    PAL_RESERVED(4);
} pal_search_match;

/* A message before or after a hit. */
typedef struct pal_search_neighbor {
    uint64_t seq;
    pal_id message;
    pal_role role;
    int64_t created_at;
    pal_str text; /* the beginning of its text; white space becomes single spaces */
    PAL_RESERVED(4);
} pal_search_neighbor;

/* Members that only the hits of a ranked search have. */
typedef struct pal_search_rank {
    double score; /* comparable only within one search */
    const pal_search_neighbor *neighbors; /* messages that the session shows, ascending by seq,
                                             without the hit itself */
    size_t neighbors_len;
    PAL_RESERVED(4);
} pal_search_rank;

typedef struct pal_search_hit {
    pal_id session; /* the searched session, even if the message was appended to one of its
                       parents */
    uint64_t seq;
    pal_id message;
    pal_role role;
    int64_t created_at;
    pal_str snippet; /* some words around the first match */
    const pal_search_match *matches; /* in the snippet, ascending; PAL_SEARCH_MATCHES_MAX at most */
    size_t matches_len;
    const pal_search_rank *rank; /* NULL if the search is not ranked */
    PAL_RESERVED(1);
} pal_search_hit;

typedef struct pal_search_page {
    pal_search_hit *items; /* the newest first; ranked: the best first */
    size_t len;
    pal_str cursor; /* where the next page begins; empty on the last page */
    bool partial;   /* `wait_ms` ended the page: older messages were not searched. The next page
                       continues there; a ranked search must be repeated. */
    PAL_RESERVED(4);
} pal_search_page;

/* Finds messages by their texts, tool outputs and tool arguments, in any script. Only messages that
 * the session shows are found: its own and those that it shares with its parents, but no hidden
 * messages, and no message with a hidden part, unless the query says so. The search covers
 * everything that was acknowledged before the call, although the index is built after the appends.
 * Only `wait_ms` ends it early.
 *
 * A ranked search sorts by BM25: rare words weigh more than frequent ones, and a message scores a
 * little more if its neighbors score too. In a long history, the messages that may be the best are
 * chosen by their rarest words, so frequent words alone find recent messages. The pages are cut
 * from one ranking; if messages are appended in between, a hit can appear twice or not at all.
 *
 *   PAL_INVALID  the text contains no word, the cursor is not valid, a seq is given without a
 *                session, or neighbors with PAL_RANK_NEVER
 *   PAL_LIMIT    the text has too many words, or `limit` is too large */
PAL_API PAL_CHECKED pal_status pal_store_search(pal_store *store, const pal_search_query *search,
        pal_arena *arena, pal_search_page *out_hits, pal_error *err);

/* Adds messages to the search index that are not in it yet, so that the next search does not have
 * to. Call it in idle moments. It adds at most `parts_max` parts of about a thousand messages, each
 * in a separate commit. *out_more (may be NULL) is set to true if there may be more to add. */
PAL_API PAL_CHECKED pal_status pal_store_index(
        pal_store *store, uint32_t parts_max, bool *out_more, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
