/* native.h - the native JSON format of messages, sessions, marks and turns: docs/messages.md,
 * docs/sessions.md and docs/api.md. It can express everything in the structs of the first three,
 * and keeps unknown members.
 *
 * Pure functions that use only the caller's memory: any thread. */
#ifndef PAL_NATIVE_H
#define PAL_NATIVE_H

#include "base/buf.h"
#include "base/json/json.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_object.h"
#include "message/message_check.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/session.h"
#include "palaver/store_marks.h"
#include "palaver/str.h"
#include "palaver/turn.h"

/* Maximum nesting of a message. Much smaller than PAL_JSON_DEPTH_MAX, so that a text that was
 * wrapped on its way in can always be read again. */
#define PAL_MESSAGE_DEPTH_MAX 256

/* Checks whether a message can be stored. This is the only check that a message from a program or
 * from another format needs: pal_message_check(), and each `extra` is a JSON object without members
 * of the native format. */
PAL_CHECKED pal_status pal_native_message_check(const pal_message *message, pal_error *err);

/* Checks only whether the native format can express the message: its form and each `extra`. An
 * `extra` that is not JSON would make the written text invalid. Costs almost nothing if there is no
 * extra. */
PAL_CHECKED pal_status pal_native_message_check_form(const pal_message *message, pal_error *err);

/* Returns true if the body of the message would contain only one part of plain text. Then the store
 * keeps the text itself. */
bool pal_native_is_plain(const pal_message *message);

/* Writes the stored form: the JSON object without id, seq, role, flags, tokens, created_at,
 * client_id, and without the content of images and files. */
void pal_native_body_write(pal_buf *buf, const pal_message *message);

/* Sets parts, parent_id, model, usage and extra, and leaves the other members of *message
 * unchanged. The new values are in the arena and do not point into `body`. PAL_INVALID: the body is
 * damaged. */
PAL_CHECKED pal_status pal_native_body_read(
        pal_str body, pal_arena *arena, pal_message *message, pal_error *err);

/* Each writes one object as a value. A message includes the content of images and files, if the
 * parts have it. */
PAL_CHECKED pal_status pal_native_message_put(
        pal_json_writer *writer, const pal_message *message, pal_error *err);
PAL_CHECKED pal_status pal_native_session_put(
        pal_json_writer *writer, const pal_session *session, pal_error *err);
/* The form in responses and in the output of commands: the native form, preceded by "session_id"
 * and "message_count". */
PAL_CHECKED pal_status pal_native_session_show(
        pal_json_writer *writer, const pal_session *session, pal_error *err);
PAL_CHECKED pal_status pal_native_mark_put(
        pal_json_writer *writer, const pal_mark *mark, pal_error *err);

/* Each reads a parsed value. Texts point into the parsed text or the arena. */
PAL_CHECKED pal_status pal_native_message_read(
        pal_json value, pal_arena *arena, pal_message *out_message, pal_error *err);
PAL_CHECKED pal_status pal_native_session_read(
        pal_json value, pal_arena *arena, pal_session *out_session, pal_error *err);
PAL_CHECKED pal_status pal_native_mark_read(
        pal_json value, pal_arena *arena, pal_mark *out_mark, pal_error *err);

/* The members that pal_native_message_put(), pal_native_put_usage(), pal_native_session_put() and
 * pal_native_mark_put() write, in form 1. */
extern const pal_member_table pal_native_message_table;
extern const pal_member_table pal_native_usage_table;
extern const pal_member_table pal_native_session_table;
extern const pal_member_table pal_native_mark_table;

/* Returns the name of a kind, for example "rewind"; "none" if the kind is unknown. */
const char *pal_native_mark_kind_name(pal_mark_kind kind);

/* Copies the record of a request into the arena. Returns NULL if `sent` is NULL or there is no
 * memory. */
const pal_sent *pal_native_sent_copy(pal_arena *arena, const pal_sent *sent);

/* Writes the counts of a usage as members of the current object. */
void pal_native_put_tokens(pal_json_writer *writer, const pal_usage *usage);
/* Writes the member `name` with the counts of a usage. */
void pal_native_put_usage(pal_json_writer *writer, const char *name, const pal_usage *usage);

/* Writes the members "turn_id" to "seq" of an object: the current state of a turn. */
void pal_native_turn_put(pal_json_writer *writer, const pal_turn_info *info);

/* Writes the object with the data of an event. */
void pal_native_event_put(pal_json_writer *writer, const pal_event *event, pal_id session);

/* Writes a call whose result the caller sends: {"call_id":...,"name":...,"arguments":...}. */
void pal_native_call_put(
        pal_json_writer *writer, pal_str call_id, pal_str name, pal_str arguments);

/* Writes the object of a question. Reads one in the form STORED. */
typedef enum pal_native_form { PAL_NATIVE_SHOWN = 1, PAL_NATIVE_STORED = 2 } pal_native_form;
void pal_native_question_put(
        pal_json_writer *writer, pal_native_form form, const pal_question *question);
PAL_CHECKED pal_status pal_native_question_read(
        pal_json value, pal_arena *arena, pal_question *out_question, pal_error *err);

/* ---- Requests for turns ---- */

#define PAL_NATIVE_ITERATIONS_MAX 1000 /* largest value of max_tool_iterations */

/* The settings of a turn: "lane" to "label". Its record is a pal_turn_request. */
extern const pal_api_object pal_native_turn_settings;

/* Reads these settings, except "tools". PAL_INVALID: a member is wrong. */
PAL_CHECKED pal_status pal_native_turn_settings_read(
        pal_json value, pal_arena *arena, pal_turn_request *request, pal_error *err);

/* Reads a tool that the caller runs: {"type":"function","function":{...}}, or the function itself,
 * which pal_native_tool_function() returns. */
PAL_CHECKED pal_status pal_native_tool_read(
        pal_json value, pal_arena *arena, pal_tool *out_tool, pal_error *err);
pal_json pal_native_tool_function(pal_json value);

/* Reads a binding's request for a turn, except its tenant and session: the settings, with "tools",
 * "agent", and "message" or "messages". Texts point into the parsed text or the arena. PAL_INVALID:
 * a member is unknown or wrong. */
PAL_CHECKED pal_status pal_native_turn_read(
        pal_json value, pal_arena *arena, pal_turn_request *request, pal_error *err);

#endif
