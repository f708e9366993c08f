/* mcp_internal.h - what the mcp*.c files share. Only for these files. */
#ifndef PAL_MCP_INTERNAL_H
#define PAL_MCP_INTERNAL_H

#include <pthread.h>
#include "mcp/mcp.h"

/* ---- Limits ---- */

#define PAL_MCP_HOST_JOBS_MAX 10000 /* turns that MCP clients wait for */
#define PAL_MCP_HOST_PAGE_MAX 200   /* entries in the response of a tool */
/* Approximate bytes of all texts in the response of a tool. */
#define PAL_MCP_HOST_PAGE_BYTES_MAX ((size_t)64 << 10)
/* Bytes of the text of one message in that response. */
#define PAL_MCP_HOST_TEXT_BYTES_MAX ((size_t)16 << 10)
/* Bytes of a tool call's arguments, a name, a URL or a snippet in that response. */
#define PAL_MCP_HOST_PART_BYTES_MAX ((size_t)4 << 10)
/* Bytes of a text that a client passes to a tool. */
#define PAL_MCP_HOST_INPUT_BYTES_MAX ((size_t)1 << 20)
/* Bytes of a turn's answer; the rest is cut. */
#define PAL_MCP_HOST_ANSWER_BYTES_MAX ((size_t)1 << 20)
/* Bytes of the result of a tool. */
#define PAL_MCP_HOST_RESULT_BYTES_MAX ((size_t)512 << 20)

/* ---- Arguments: one table defines the schema and the checks ---- */

typedef enum pal_mcp_kind {
    PAL_MCP_TEXT = 1,   /* from `min` to `max` bytes */
    PAL_MCP_NUMBER = 2, /* an integer from `min` to `max` */
    PAL_MCP_TIME = 3,   /* a time in RFC 3339 */
} pal_mcp_kind;

/* One argument. A table of arguments ends with a zeroed one. */
typedef struct pal_mcp_field {
    const char *name;
    pal_mcp_kind kind;
    bool is_required;
    uint64_t min, max;
    uint64_t fallback;          /* value of an absent number */
    const char *const *choices; /* allowed values of a text, with NULL at the end; NULL: any
                                   value */
    const char *about;
} pal_mcp_field;

/* PAL_OK, or an error that names the invalid argument and the expected value. */
PAL_CHECKED pal_status pal_mcp_fields_check(
        const pal_mcp_field *fields, pal_json arguments, pal_arena *arena, pal_error *err);
/* Writes a JSON Schema. */
void pal_mcp_fields_put(const pal_mcp_field *fields, pal_json_writer *writer);

/* ---- Tools ---- */

typedef struct pal_mcp_call pal_mcp_call;

typedef struct pal_mcp_tool {
    const char *name;
    const char *title;
    const char *about;
    bool is_read_only;
    bool is_open_world; /* its result depends on more than this store */
    const pal_mcp_field *fields;
    const char *output; /* a JSON Schema */
    /* Writes one object. NULL for the tool that runs a turn. */
    pal_status (*run)(pal_mcp_call *call, pal_error *err);
} pal_mcp_tool;

/* One call of a tool, with checked arguments. */
struct pal_mcp_call {
    pal_mcp_host *host;
    const pal_mcp_peer *peer;
    const pal_rpc_message *message;
    const pal_mcp_tool *tool;
    pal_json arguments;
    pal_arena *arena;
    pal_json_writer *writer;
};

/* All tools, with a zeroed one at the end. */
extern const pal_mcp_tool pal_mcp_tools[];

/* Return the value of an argument, or its default if it is absent. */
pal_str pal_mcp_call_text(const pal_mcp_call *call, const char *name);
uint64_t pal_mcp_call_number(const pal_mcp_call *call, const char *name);
int64_t pal_mcp_call_time(const pal_mcp_call *call, const char *name); /* 0 if absent */
/* Finds the conversation that the argument "conversation" names. */
PAL_CHECKED pal_status pal_mcp_call_session(
        const pal_mcp_call *call, pal_session *out_session, pal_error *err);

/* Writes the members of a conversation. */
void pal_mcp_put_conversation(pal_json_writer *writer, const pal_session *session);

/* mcp_read.c */
pal_status pal_mcp_list_conversations(pal_mcp_call *call, pal_error *err);
pal_status pal_mcp_read_conversation(pal_mcp_call *call, pal_error *err);
pal_status pal_mcp_search_conversations(pal_mcp_call *call, pal_error *err);
/* mcp_write.c */
pal_status pal_mcp_create_conversation(pal_mcp_call *call, pal_error *err);
pal_status pal_mcp_append_message(pal_mcp_call *call, pal_error *err);
pal_status pal_mcp_remember(pal_mcp_call *call, pal_error *err);
pal_status pal_mcp_fork_conversation(pal_mcp_call *call, pal_error *err);

/* mcp_note.c */
pal_status pal_mcp_search_notes(pal_mcp_call *call, pal_error *err);
pal_status pal_mcp_add_note(pal_mcp_call *call, pal_error *err);
pal_status pal_mcp_retract_note(pal_mcp_call *call, pal_error *err);

/* ---- Results ---- */

#define PAL_MCP_SERVER_INFO "{\"name\":\"palaver\",\"version\":\"" PAL_VERSION "\"}"

/* Begins {"jsonrpc":"2.0","id":ID,"result":{ with the members that every result of that era has. */
void pal_mcp_begin_result(pal_json_writer *writer, pal_str id, bool is_new);
void pal_mcp_end_result(pal_json_writer *writer);
/* Writes the result of a tool. If `text` is empty, the object is shown as the text. */
void pal_mcp_put_success(
        pal_json_writer *writer, pal_str id, bool is_new, pal_str object, pal_str text);
void pal_mcp_put_failure(pal_json_writer *writer, pal_str id, bool is_new, pal_str text);

/* ---- The host and its jobs ---- */

struct pal_mcp_host {
    pal_mcp_host_options options;
    pthread_mutex_t lock;
    pthread_cond_t is_idle;
    pal_mcp_job *jobs; /* the running jobs; guarded by the lock, like the next member */
    size_t jobs_len;
};

/* Starts the turn of the call. Everything else is reported by callbacks. */
PAL_CHECKED pal_status pal_mcp_job_start(
        pal_mcp_call *call, const pal_mcp_events *events, void *events_user, pal_error *err);
/* Cancels the request with that id, if it is running. */
void pal_mcp_jobs_cancel(pal_mcp_host *host, pal_str scope, pal_str id);

#endif
