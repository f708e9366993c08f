/* message.h - messages, which are made of parts. Plain data: a struct does not own the memory that
 * it points to. Messages that a function of this library returns point into the arena that was
 * passed to it. The functions here can be called from any thread. */
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

/* Why a model stopped writing an answer. */
typedef enum pal_finish {
    PAL_FINISH_NONE = 0,       /* not known */
    PAL_FINISH_STOP = 1,       /* the answer is complete */
    PAL_FINISH_LENGTH = 2,     /* the output limit cut the answer off */
    PAL_FINISH_TOOL_CALLS = 3, /* the answer calls tools */
    PAL_FINISH_FILTERED = 4,   /* the content filter of the service cut the answer off */
} pal_finish;

/* Bits of pal_message.flags. */
typedef enum pal_message_flag {
    PAL_MESSAGE_FLAG_SUMMARY = 1 << 0, /* a summary that replaces the messages before it */
    /* Stored as received, without effect: contexts are pruned by PAL_MARK_PRUNE. */
    PAL_MESSAGE_FLAG_PRUNED = 1 << 1,
    PAL_MESSAGE_FLAG_SYNTHETIC = 1 << 2, /* created by a program, not written by its role */
    /* Part of every plan; set by pal_window_plan() for PAL_MARK_PIN. */
    PAL_MESSAGE_FLAG_PINNED = 1 << 3,
    /* Explains why there is no answer, or only an incomplete one. */
    PAL_MESSAGE_FLAG_ERROR = 1 << 4,
    /* Its contents were erased; see pal_store_erase_message(). */
    PAL_MESSAGE_FLAG_ERASED = 1 << 5,
} pal_message_flag;

typedef struct pal_part pal_part;
/* A part of a message. The comments name the kinds of parts that use a member. */
struct pal_part {
    pal_part_kind kind;
    pal_str text;    /* text, reasoning, compaction: the text; tool_result: the output, if it is
                        plain text */
    pal_str call_id; /* tool_call, tool_result: connects a result to its call */
    pal_str name; /* tool_call: the tool; tool_result: the tool, if known; file: the file's name */
    pal_str arguments;  /* tool_call: the arguments exactly as the model wrote them, valid JSON or
                           not */
    pal_str signature;  /* reasoning: an opaque value that is sent back unchanged */
    pal_str family;     /* reasoning: the model family that produced it; it is sent only to models
                           of that family */
    pal_str media_type; /* image, file: for example "image/png" */
    pal_str url;        /* image, file: the address, if the content is not stored */
    pal_str blob;       /* image, file: the name of the stored content, "sha256:" and 64 hex digits;
                           tool_result: the complete output, if `text` is only part of it */
    pal_str data;       /* the content, for appending only: the store turns it into a blob */
    pal_part *parts;    /* tool_result: the output, if it is more than plain text */
    size_t parts_len;
    bool is_error;   /* tool_result: the tool failed */
    pal_str extra;   /* unknown members as a JSON object, for example {"a":1}; empty if there are
                        none */
    uint64_t bytes;  /* image, file: size of the blob, for a plan; 0: not looked up. Not stored */
    uint32_t number; /* the number that the part was appended with, counted from 1, if other parts
                        of its message may be hidden; 0: its position is its number. Not stored */
    PAL_RESERVED(3);
};

/* The tokens of one model call, as the service reported them. */
typedef struct pal_usage {
    uint64_t input;       /* input that was neither read from nor written to a cache */
    uint64_t cache_read;  /* input that came from the service's cache */
    uint64_t cache_write; /* input that the service wrote to its cache */
    uint64_t output;      /* output, including reasoning */
    uint64_t reasoning;   /* the part of the output that is reasoning */
    PAL_RESERVED(2);
} pal_usage;

/* A record of the request that led to an answer. Later plans learn from it how the service counts,
 * and how much of the next request is equal. pal_plan_sent() makes it. */
typedef struct pal_sent {
    uint64_t tokens;        /* tokens of the request as counted, including tools */
    uint64_t items;         /* number of items of the plan that were sent */
    uint64_t first_seq;     /* seq of the oldest message in the tail */
    const uint16_t *hashes; /* the hash i covers the first pal_sent_place(items, i) items */
    size_t hashes_len;
    PAL_RESERVED(2);
} pal_sent;

/* Returns how many items the hash with this number covers; numbers are counted from 0. The first
 * PAL_SENT_ITEMS_EACH items have a hash each; each later hash covers an eighth more; the last
 * one covers all. 0 if there is no such hash. */
PAL_API uint64_t pal_sent_place(uint64_t items, size_t number);
/* Writes all places of a request with `items` items, in ascending order. Returns their number.
 * `out_places` must have room for PAL_SENT_HASHES_MAX. */
PAL_API size_t pal_sent_places(uint64_t items, uint64_t *out_places);

typedef struct pal_message {
    pal_id id;    /* empty: the store assigns one */
    uint64_t seq; /* position in the session, counted from 1; assigned by the store */
    pal_role role;
    pal_part *parts;
    size_t parts_len;
    pal_id parent_id;   /* set by the sender; stored, but not used */
    int64_t created_at; /* milliseconds since 1970; 0: the time of the append */
    pal_str model;      /* the model that answered */
    bool has_usage;
    pal_usage usage;
    uint32_t flags;    /* bits of pal_message_flag */
    uint32_t tokens;   /* 0: the store counts or estimates them */
    pal_str client_id; /* the sender's id of the message; a message with the same client id is
                          stored only once */
    pal_str extra;     /* unknown members as a JSON object, for example {"a":1}; empty if there are
                          none */
    pal_id turn_id; /* the turn that recorded the message; empty: it was appended without a turn */
    const pal_sent *sent; /* answers only: the request for it; NULL: unknown */
    PAL_RESERVED(3);
} pal_message;

/* Names of roles and kinds of parts, for example "user" and "tool_call". An unknown value gives
 * "none", and an unknown name PAL_ROLE_NONE or PAL_PART_NONE. */
PAL_API const char *pal_role_name(pal_role role);
PAL_API pal_role pal_role_from_name(pal_str name);
PAL_API const char *pal_part_kind_name(pal_part_kind kind);
PAL_API pal_part_kind pal_part_kind_from_name(pal_str name);

/* Writes a message in the native JSON format (docs/messages.md) into the arena. Invalid UTF-8 in
 * texts becomes U+FFFD. pal_message_from_json() restores everything else unchanged. */
PAL_API PAL_CHECKED pal_status pal_message_to_json(
        const pal_message *message, pal_arena *arena, pal_str *out_json, pal_error *err);

/* Reads a message in the native JSON format into the arena. Unknown members are kept in `extra`,
 * byte for byte. PAL_INVALID: `err` says what is wrong. */
PAL_API PAL_CHECKED pal_status pal_message_from_json(
        pal_str json, pal_arena *arena, pal_message *out_message, pal_error *err);

/* Makes a message of one text part. The part is in the arena; the text is not copied. If the arena
 * has no memory, the role of the result is PAL_ROLE_NONE. */
PAL_API pal_message pal_message_text(pal_arena *arena, pal_role role, pal_str text);

#ifdef __cplusplus
}
#endif
#endif
