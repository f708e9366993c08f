/* api_record.h - records the requests of clients that keep their history themselves, and their
 * answers, into sessions. For every API; recorder.h explains how a history becomes a session.
 *
 * A request names its conversation by a header or a member that its client sends anyway. The key
 * of the session is a label of the client and that name, for example "codex:ID". */
#ifndef PAL_API_RECORD_H
#define PAL_API_RECORD_H

#include "base/json/json.h"
#include "recorder/recorder.h"
#include "server/run/run.h"
#include "server/run/run_forward.h"
#include "server/server.h"
#include "server/server_background.h"

typedef struct pal_api_record pal_api_record;

/* The differences between APIs. */
typedef struct pal_api_record_format {
    /* Reads all messages of a request into the record's arena. */
    pal_status (*read_request)(pal_api_record *record, pal_json request,
            pal_message **out_messages, size_t *out_len, pal_error *err);
    /* Reads the messages of an answer, which is JSON. */
    pal_status (*read_answer)(pal_api_record *record, pal_str answer, pal_message **out_messages,
            size_t *out_len, pal_error *err);
    /* Joins the frames of a complete stream to an answer. NULL: no streams are observed. */
    pal_status (*join)(pal_str stream, pal_arena *arena, pal_str *out_answer, pal_error *err);
    /* Called after request and answer were recorded. May be NULL. */
    pal_status (*recorded)(pal_api_record *record, pal_str answer,
            const pal_recorder_place *place, pal_error *err);
} pal_api_record_format;

/* One request and its answer, with copies of all texts. One thread at a time uses a record. */
struct pal_api_record {
    pal_background_task task;
    const pal_api_record_format *format;
    pal_server *server;
    pal_arena *arena; /* owns all texts */
    pal_str tenant;
    pal_str key;
    pal_str body;
    void *user;        /* the format's data, in the arena */
    bool is_temporary; /* the session has no lasting key; set by the format */
    bool is_side;      /* a side request: these do not continue each other */
    pal_buf answer;    /* the frames of a stream that is observed */
    bool is_stream;    /* `answer` contains frames */
    pal_forward_resume resume; /* sends the last frame of a forwarded stream */
    void *relay;
    pal_run *run; /* the run whose answer is recorded; NULL: a forwarded response */
    const struct pal_api_record_end *end;
};

/* Returns the name that the client gives to its conversation, in the call's arena. Empty: none.
 * `body` is the complete request: a request over a WebSocket may refer to earlier items. */
pal_str pal_api_conversation_name(pal_call *call, pal_str body);
/* Returns the key of the session that records the call, in the call's arena. Empty: the call is not
 * recorded. `body` is the same as above. If the call names no conversation, and the configuration
 * records such calls too, the key is "history:", and is completed when the messages are read. */
pal_str pal_api_record_key(pal_call *call, pal_str body);

/* Makes a record of a request. NULL: out of memory. */
pal_api_record *pal_api_record_new(
        pal_call *call, const pal_api_record_format *format, pal_str key, pal_str body);
void pal_api_record_free(pal_api_record *record); /* accepts NULL */

/* Writes the request and its answer. A failure is logged: the client has its answer, and sends its
 * history again with the next request. Returns the session, or an empty id after a failure. Blocks,
 * so it must run on a worker or in the background. */
pal_id pal_api_record_write(pal_api_record *record, pal_str answer);

/* ---- The end of a run whose answer is recorded ---- */

/* The functions of an API for the end of a successful run. */
typedef struct pal_api_record_end {
    pal_api_record *(*record_of)(pal_run *run); /* NULL: the run is not recorded */
    /* Writes the complete answer. Returns false if a part of it could not be kept in memory. The
     * turn has ended, so nothing changes the answer; without the run's lock. */
    bool (*put_answer)(pal_run *run, pal_json_writer *writer);
    void (*write_last)(pal_run *run); /* writes the last frame of a stream */
} pal_api_record_end;

/* Sends the answer as the response of the call. */
void pal_api_record_send(pal_run *run, const pal_api_record_end *end);
/* Records the answer, and then sends it. On a worker (pal_run_to_worker()). */
void pal_api_record_and_send(pal_run *run, const pal_api_record_end *end);
/* Records the answer in the background, if the run is recorded, and then writes the last frame of
 * the stream. Called in done(). */
void pal_api_record_end_stream(pal_run *run, const pal_api_record_end *end);

/* Records a forwarded response, with the record as `user`. Takes the record. */
extern const pal_forward_observer pal_api_record_observer;

#endif
