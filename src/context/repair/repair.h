/* repair.h - definitions that the files of the repair share. For repair*.c only.
 *
 * A list of messages is split into units. A unit is a message that is not a tool's, with the
 * results of its calls. Results are attached to their calls, so that everything is in the right
 * order when the units are written. Parts are cleaned on the way in (repair_part.c), calls
 * get ids and results are paired as they arrive (repair.c), and roles are corrected
 * on the way out (repair_out.c). Each message is examined once. Unchanged parts are not
 * copied. */
#ifndef PAL_REPAIR_H
#define PAL_REPAIR_H

#include "base/json/json.h"
#include "base/map.h"
#include "context/context_text.h"
#include "palaver/context.h"

/* Texts that replace content that cannot be sent. context_text.h has others. */
#define PAL_TEXT_RUNNING "[Tool is still running]"
#define PAL_TEXT_FAILED "[The tool failed without output]"
#define PAL_TEXT_MEDIA "Attached media from tool result:"
#define PAL_TEXT_MEDIA_BELOW "[The output is attached below]"
#define PAL_TEXT_SYSTEM "[System message]\n"
#define PAL_TEXT_DONE "Done."

#define PAL_CALL_ID_MISTRAL 9
#define PAL_CALL_ID_OPENAI_CHAT 40
#define PAL_CALL_ID_MAX 64
#define PAL_TOOL_NAME_MAX 64

typedef enum pal_id_charset {
    PAL_ID_ANY = 0,      /* valid UTF-8 without control characters */
    PAL_ID_WORD = 1,     /* letters, digits, '_' and '-' */
    PAL_ID_ALPHANUM = 2, /* letters and digits */
} pal_id_charset;

/* The requirements of a service. */
typedef struct pal_repair_rules {
    const char *name;
    pal_id_charset id_charset;
    size_t id_len_min;
    size_t id_len_max;
    bool unique_ids; /* ids of calls are unique in the whole request, not only in one message */
    bool object_arguments; /* arguments are JSON objects, not texts */
    bool system_leads;     /* system messages are allowed only at the beginning */
    bool user_first;
    bool user_last;           /* the last message is a user's or a tool's */
    bool merge_assistants;    /* assistant messages must not follow each other directly */
    bool bridge_tool_to_user; /* there must be an assistant message between a tool's and a user's */
    bool blank_is_empty;      /* a text of white space is rejected like an empty one */
    bool signed_reasoning;
    bool reasoning_not_last; /* reasoning must not be the last part of a message */
    bool result_media;       /* a tool result can contain images and files */
    bool error_text_only; /* the result of a failed tool must be a text without images and files */
    bool items;           /* items of OpenAI's Responses that were kept are sent */
    bool openai_forms;    /* values that `extra` keeps under "openai" are sent */
    bool drops;           /* PicoClaw: drop instead of repair */
} pal_repair_rules;

/* Kinds of changes to parts. Each gives one line per message, however often it was made. */
typedef enum pal_repair_change {
    PAL_CHANGE_TEXT = 1 << 0,
    PAL_CHANGE_EMPTY = 1 << 1,
    PAL_CHANGE_REASONING = 1 << 2,
    PAL_CHANGE_UNSIGNED = 1 << 3,
    PAL_CHANGE_LAST_REASONING = 1 << 4,
    PAL_CHANGE_IMAGE_TYPE = 1 << 5,
    PAL_CHANGE_IMAGE_SIZE = 1 << 6,
    PAL_CHANGE_NO_DATA = 1 << 7,
    PAL_CHANGE_MEDIA_ROLE = 1 << 8,
    PAL_CHANGE_MEDIA_TYPE = 1 << 9,
    PAL_CHANGE_MEDIA_MOVED = 1 << 10,
    PAL_CHANGE_COMPACTION = 1 << 11,
    PAL_CHANGE_MISPLACED = 1 << 12,
    PAL_CHANGE_FORM = 1 << 13,
    PAL_CHANGE_SYSTEM = 1 << 14,
    PAL_CHANGE_TOOL_ROLE = 1 << 15,
    PAL_CHANGE_SPLIT = 1 << 16,
    PAL_CHANGE_FAILED = 1 << 17,
    PAL_CHANGE_NAME = 1 << 18,
    PAL_CHANGE_ARGUMENTS = 1 << 19,
    PAL_CHANGE_MOVED = 1 << 20,
    PAL_CHANGE_RESULT_ID = 1 << 21,
    PAL_CHANGE_APART = 1 << 22,
} pal_repair_change;

#define PAL_REPAIR_CHANGES 23

typedef struct pal_repair_unit pal_repair_unit;
typedef struct pal_repair_call pal_repair_call;
typedef struct pal_repair_piece pal_repair_piece;

struct pal_repair_call {
    pal_repair_unit *unit;
    pal_repair_call *next; /* next call in the unit */
    size_t index;          /* index in the unit */
    pal_str stored_id;
    pal_str sent_id;
    pal_str sent_name;
    pal_str stored_name; /* the next two members distinguish this call from others with the same
                            id */
    pal_str stored_arguments;
    /* Calls with the same stored id in one unit form a chain; these two belong to its first
     * call. */
    pal_repair_call *chain_last;
    pal_repair_call *chain_open; /* the first call without a result */
    pal_repair_call *chain_next;
    const pal_part *result;    /* NULL: there was none */
    const pal_message *source; /* message of the result */
};

/* A stored message in a unit. Merged messages are several pieces of one unit. */
struct pal_repair_piece {
    const pal_message *source;
    pal_role role;
    const pal_part *parts;
    size_t parts_len;
    pal_part *own; /* `parts`, if they were copied and can be changed */
    pal_repair_piece *next;
};

struct pal_repair_unit {
    pal_role role;
    pal_repair_piece *first;
    pal_repair_piece *last;
    pal_repair_call *calls;
    pal_repair_call *calls_last;
    size_t calls_len;
    size_t results_len;
    size_t result_index; /* index of the call that was answered last */
    pal_part *media;     /* images and files from the results; in the arena */
    size_t media_len;
    size_t media_cap;
    pal_repair_unit *next;
};

typedef struct pal_repair_work {
    const pal_context_input *input;
    const pal_repair_rules *rules;
    pal_arena *arena;   /* owns the results */
    pal_arena *scratch; /* for everything else; the failures of both arenas are checked at the
                           end */
    pal_status failure; /* failure of a map */

    pal_repair_unit *units;
    pal_repair_unit *units_last;
    bool has_turn; /* there is a unit that is not a system message */

    pal_map calls;   /* stored id -> the first call of the newest chain */
    pal_map ids;     /* sent id -> its unit */
    pal_map pending; /* stored id -> itself */

    pal_message *messages; /* in the scratch arena until the end */
    size_t messages_len;
    size_t messages_cap;
    pal_repair *lines;
    size_t lines_len;
    size_t lines_cap;
} pal_repair_work;

/* ---- repair.c ---- */

/* Adds one line about a change. Ids in the text are shortened. */
void pal_repair_line(pal_repair_work *work, uint64_t seq, const char *format, ...) PAL_PRINTF(3, 4);
/* Adds a line for each bit of pal_repair_change. */
void pal_repair_line_changes(pal_repair_work *work, uint64_t seq, unsigned changes);
/* Returns any id in a form that can be shown in a line. */
const char *pal_repair_label(pal_repair_work *work, pal_str id);
/* Like pal_map_set(), but keeps the failure. */
void pal_repair_map(pal_repair_work *work, pal_map *map, pal_str key, void *value);

/* ---- repair_part.c ---- */

/* Returns the text as valid UTF-8 without U+0000; the text itself if it is already valid. */
pal_str pal_repair_text(pal_repair_work *work, pal_str text, unsigned *changes);
/* Sets the parts of a piece: those of its source that are not results, cleaned. The role of the
 * piece must be final. */
void pal_repair_clean(pal_repair_work *work, pal_repair_piece *piece, unsigned *changes);
/* Cleans a result. Its images and files go to the unit if the service requires that. Returns the
 * part itself if nothing changed. */
const pal_part *pal_repair_clean_result(
        pal_repair_work *work, const pal_part *result, pal_repair_unit *unit, unsigned *changes);
/* Returns the values that OpenAI's formats kept of a part or message; PAL_JSON_NONE if there are
 * none. */
pal_json pal_repair_kept(pal_repair_work *work, pal_str extra);

/* ---- repair_call.c ---- */

/* Returns the id under which a call is sent: unique if it must be, and in the form that the service
 * requires. */
pal_str pal_repair_call_id(pal_repair_work *work, const pal_repair_call *call, uint64_t seq);
/* Corrects the name and the arguments of a call. Returns true if *part changed. */
bool pal_repair_call_form(pal_repair_work *work, pal_part *part, unsigned *changes);
pal_str pal_repair_tool_name(pal_repair_work *work, pal_str name, unsigned *changes);

/* ---- repair_out.c ---- */

void pal_repair_put(pal_repair_work *work, const pal_message *message);
/* Writes all units, with messages around them that the roles require. */
void pal_repair_put_units(pal_repair_work *work);

/* ---- repair_picoclaw.c ---- */

void pal_repair_picoclaw(pal_repair_work *work, const pal_message *messages, size_t messages_len);

#endif
