/* binding.h - the engine for bindings to other languages: a store and a runtime in one handle,
 * with functions that take and return JSON. A binding needs no struct of the other headers.
 *
 * JSON: the formats are those of the HTTP API: messages (docs/messages.md), sessions
 * (docs/sessions.md), turns and events (docs/api.md). Texts are UTF-8 and end with a NUL. A `query`
 * or a `request` may be NULL, which means {}. Unknown members are refused.
 *
 * Results: every function returns a pal_status as an int; 0 is PAL_OK. It sets *out_json to the
 * result, or to {"error": "session 'x' does not exist", "code": "not_found"} if it fails. The
 * caller must release the text with pal_binding_free() in both cases. It is NULL if there is no
 * memory, and if a function has no result. `out_json` may be NULL.
 *
 * Events: pal_binding_start() and pal_binding_watch() queue the events of a turn. pal_binding_fd()
 * is readable while events wait, and pal_binding_next() returns them one by one. So a program waits
 * for events in its own event loop, and no callback runs on another thread. examples/binding.py
 * shows it.
 *
 * Threads: all functions can be called from any thread, but pal_binding_next() and
 * pal_binding_close() by one thread at a time. Functions that read or write the store block; none
 * waits for a model, except pal_binding_cancel(), which waits until the turn has ended. */
#ifndef PALAVER_BINDING_H
#define PALAVER_BINDING_H

#include <stdint.h>
#include "palaver/api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pal_binding pal_binding;

/* Returns the version of the library, for example "0.1.0". */
PAL_API const char *pal_binding_version(void);

/* Releases a text that a function here returned. Accepts NULL. */
PAL_API void pal_binding_free(char *json);

/* Opens a store and starts a runtime on it. `store` is a URL, as for pal_store_open(); NULL: that
 * of the configuration. `config` is the text of a configuration file (docs/configuration.md); NULL:
 * all defaults. Environment variables do not override it, but the variables that it names for
 * secrets are read. All calls see the data of `tenant`; NULL: "default". The caller must release
 * *out_binding with pal_binding_close(). Without a configured provider, this blocks while providers
 * are searched for. Sets *out_json to NULL if it succeeds. */
PAL_API int pal_binding_open(const char *store, const char *config, const char *tenant,
        pal_binding **out_binding, char **out_json);

/* Closes the runtime, as pal_runtime_close() does, and the store. Blocks up to `drain_ms` and for
 * the last writes. Waiting events are dropped. Accepts NULL. */
PAL_API void pal_binding_close(pal_binding *binding, int64_t drain_ms);

/* ---- Sessions and messages ---- */

/* Creates a session from the members in `session`, and returns it. With "or_find": true, it returns
 * the active session with the same key instead, if there is one. */
PAL_API int pal_binding_create(pal_binding *binding, const char *session, char **out_json);

/* Returns a session by its id, key or alias. */
PAL_API int pal_binding_find(pal_binding *binding, const char *session, char **out_json);

/* Lists sessions, the session that was updated last first. Members of `query`: state, project,
 * agent, limit, cursor. Returns {"sessions": [...], "has_more": false, "cursor": null}. */
PAL_API int pal_binding_list(pal_binding *binding, const char *query, char **out_json);

/* Appends one message, or {"messages": [...]}, all or none. Returns {"messages": [{"id", "seq"}]}
 * when they are durable. */
PAL_API int pal_binding_append(
        pal_binding *binding, const char *session, const char *messages, char **out_json);

/* Returns messages in ascending order of seq: {"messages": [...], "has_more": false}. Members of
 * `query`: after, before (both exclusive), limit (PAL_BINDING_MESSAGES_DEFAULT), from_end, hidden.
 */
PAL_API int pal_binding_load(
        pal_binding *binding, const char *session, const char *query, char **out_json);

/* Returns the plan of what a model would receive now, and why (docs/context.md). Members of
 * `request`: those of pal_binding_start(). */
PAL_API int pal_binding_plan(
        pal_binding *binding, const char *session, const char *request, char **out_json);

/* ---- Turns ---- */

/* Starts a turn and queues its events. Members of `request`: message (a text of the user) or
 * messages, lane, provider, model, agent, label, system, parameters, tools, tool_choice,
 * max_output_tokens, max_tool_iterations, all_or_nothing, no_server_tools. Returns the state of the
 * turn when its messages are durable. "watched" is false if no events will come, because the turn
 * of a repeated request has ended or runs in another process. */
PAL_API int pal_binding_start(
        pal_binding *binding, const char *session, const char *request, char **out_json);

/* Queues the events of a turn after the number `after`, as pal_turn_watch_queued() does: to read
 * them again, or to continue after the event "closed". Returns the state of the turn. */
PAL_API int pal_binding_watch(
        pal_binding *binding, const char *turn, uint64_t after, char **out_json);

/* Sends the results of the caller's tools to a paused turn: messages of role tool, as for
 * pal_binding_append(). Returns the state of the turn. Its events continue in the same queue. */
PAL_API int pal_binding_results(
        pal_binding *binding, const char *turn, const char *messages, char **out_json);

/* Stops a turn and waits until its end is durable, as pal_turn_cancel() does. Returns the state of
 * the turn. */
PAL_API int pal_binding_cancel(pal_binding *binding, const char *turn, char **out_json);

/* ---- Events ---- */

/* Returns a file descriptor that is readable while events wait, as pal_runtime_fd() does. */
PAL_API int pal_binding_fd(pal_binding *binding);

/* Takes the next event out of the queue and sets *out_json to it, or to NULL if none waits:
 *
 *   {"id": 3, "event": "text", "turn_id": "...", "session_id": "...", "data": {"text": "Hel"}}
 *
 * `id`, `event` and `data` are those of the API's event streams. The last event of a turn is
 * "ended". The event "closed" means that no more events of the turn will come, although the turn
 * has not ended: more than PAL_DISPATCH_BYTES_MAX bytes were waiting. Its id is that of the event
 * before. Does not block. `out_json` must not be NULL. */
PAL_API int pal_binding_next(pal_binding *binding, char **out_json);

#ifdef __cplusplus
}
#endif
#endif
