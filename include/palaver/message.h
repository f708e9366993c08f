/* message.h - what is said: messages made of parts. Plain data; every view is borrowed from
 * whoever made it. */
#ifndef PALAVER_MESSAGE_H
#define PALAVER_MESSAGE_H

#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pal_role {
    PAL_ROLE_NONE = 0,
    PAL_ROLE_SYSTEM = 1,
    PAL_ROLE_USER = 2,
    PAL_ROLE_ASSISTANT = 3,
    PAL_ROLE_TOOL = 4,
} pal_role;

typedef enum pal_part_kind {
    PAL_PART_NONE = 0,
    PAL_PART_TEXT = 1,
    PAL_PART_REASONING = 2,
    PAL_PART_TOOL_CALL = 3,
    PAL_PART_TOOL_RESULT = 4,
    PAL_PART_IMAGE = 5,
    PAL_PART_FILE = 6,
    PAL_PART_COMPACTION = 7,
} pal_part_kind;

/* Bits of pal_message.flags. */
typedef enum pal_message_flag {
    PAL_FLAG_SUMMARY = 1 << 0,   /* stands for messages before it */
    PAL_FLAG_PRUNED = 1 << 1,    /* kept as it came; a context goes by PAL_MARK_PRUNE */
    PAL_FLAG_SYNTHETIC = 1 << 2, /* made by a program, not said by its role */
    PAL_FLAG_PINNED = 1 << 3,    /* is in every plan; pal_window_plan() sets it by PAL_MARK_PIN */
    PAL_FLAG_ERROR = 1 << 4,     /* tells why there is no answer, or no whole one */
} pal_message_flag;

typedef struct pal_part pal_part;
struct pal_part {
    pal_part_kind kind;
    pal_str text;       /* text, reasoning, compaction: the text; tool_result: a plain output */
    pal_str call_id;    /* tool_call, tool_result: joins the two */
    pal_str name;       /* tool_call: the tool; tool_result: the same, if known; file: its name */
    pal_str arguments;  /* tool_call: exactly as the model wrote them, valid JSON or not */
    pal_str signature;  /* reasoning: opaque, replayed byte for byte */
    pal_str family;     /* reasoning: the model family that made it, the only one to see it again */
    pal_str media_type; /* image, file */
    pal_str url;        /* image, file: where it is, when it is not kept here */
    pal_str blob;       /* image, file: "sha256:" + 64 hex digits, when it is kept here;
                           tool_result: the whole output, where `text` is only some of it */
    pal_str data;       /* the bytes, on append only: they become the blob */
    pal_part *parts;    /* tool_result: its output where that is more than plain text */
    size_t parts_len;
    bool is_error;   /* tool_result: the tool failed */
    pal_str extra;   /* unknown members, as JSON: {"a":1}; empty when there are none */
    uint64_t bytes;  /* image, file: how many its blob has, for a plan; 0: not looked up. It is no
                        part of the stored form */
    uint32_t number; /* that it was appended with, from 1, where others of its message may be out of
                        sight; 0: as it stands. No part of the stored form either */
};

/* Tokens of one model call as its provider reported them. */
typedef struct pal_usage {
    uint64_t input;       /* not cached */
    uint64_t cache_read;  /* input that came from the provider's cache */
    uint64_t cache_write; /* input that the provider put into its cache */
    uint64_t output;      /* with reasoning */
    uint64_t reasoning;   /* of the output */
} pal_usage;

/* What the model was sent to get an answer: enough to learn how the provider counts, and to tell
 * how much of the next request is the same. pal_plan_sent() makes it. */
typedef struct pal_sent {
    uint64_t tokens;        /* as counted, tools included */
    uint64_t items;         /* of the plan, as far as they were sent */
    uint64_t first_seq;     /* the oldest message of the tail */
    const uint16_t *hashes; /* of the items up to pal_sent_place(items, i), one for each place */
    size_t hashes_len;
} pal_sent;

/* The places have an order: each of the first PAL_SENT_ITEMS_EACH items, then steps of an eighth;
 * the last one is `items`. 0 if there is no place of that number. */
PAL_API uint64_t pal_sent_place(uint64_t items, size_t number);

typedef struct pal_message {
    pal_id id;    /* none: the store makes one */
    uint64_t seq; /* position in the session, from 1; the store gives it */
    pal_role role;
    pal_part *parts;
    size_t parts_len;
    pal_id parent_id;   /* the sender's; kept, and nothing is made of it */
    int64_t created_at; /* milliseconds since 1970; 0: the store's clock */
    pal_str model;      /* who answered */
    bool has_usage;
    pal_usage usage;
    uint32_t flags;    /* pal_message_flag */
    uint32_t tokens;   /* 0: the store counts or estimates */
    pal_str client_id; /* the sender's own id: the same one again is the same message */
    pal_str extra;     /* unknown members, as JSON: {"a":1}; empty when there are none */
    pal_id turn_id;    /* the turn that recorded it; none: it was appended by other means */
    const pal_sent *sent; /* of an answer: what the model was sent for it; NULL: not known */
} pal_message;

PAL_API const char *pal_role_name(pal_role role);  /* "user"; "none" for anything unknown */
PAL_API pal_role pal_role_from_name(pal_str name); /* PAL_ROLE_NONE where there is none */
PAL_API const char *pal_part_kind_name(pal_part_kind kind);  /* "tool_call" */
PAL_API pal_part_kind pal_part_kind_from_name(pal_str name); /* or PAL_PART_NONE */

/* Writes the native JSON form, docs/messages.md, into the arena. Invalid UTF-8 in texts becomes
 * U+FFFD; everything else survives pal_message_from_json() unchanged. */
PAL_API PAL_CHECKED pal_status pal_message_to_json(
        const pal_message *message, pal_arena *arena, pal_str *out_json, pal_error *err);

/* Reads the native JSON form. Everything lies in the arena; members that we do not know are kept
 * in `extra`, byte for byte. */
PAL_API PAL_CHECKED pal_status pal_message_from_json(
        pal_str json, pal_arena *arena, pal_message *out_message, pal_error *err);

/* A message of one text part that lies in the arena; the text itself is borrowed. Role NONE on
 * failure of the arena. */
PAL_API pal_message pal_message_text(pal_arena *arena, pal_role role, pal_str text);

#ifdef __cplusplus
}
#endif
#endif
