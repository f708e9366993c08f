/* api_anthropic_record.h - records of Anthropic's requests (api_record.h), and message threads. */
#ifndef PAL_API_ANTHROPIC_RECORD_H
#define PAL_API_ANTHROPIC_RECORD_H

#include "server/api/api_record.h"

/* ---- Records (api_anthropic_record.c) ---- */

/* Makes a record of a request. If the key is empty or that of a thread, the session exists only for
 * its thread and expires. NULL: out of memory. */
pal_api_record *pal_anthropic_record_new(pal_call *call, pal_str key, pal_str body);

/* ---- Threads (api_anthropic_thread.c) ---- */

#define PAL_ANTHROPIC_THREAD_MS (7 * 24 * 60 * 60 * 1000ll) /* a thread is kept this long after
                                                              its last message */

/* A thread up to one of its answers. In the arena. */
typedef struct pal_anthropic_thread {
    pal_str key; /* the key of the session */
    pal_id session;
    uint64_t seq;     /* the seq of the answer */
    pal_str settings; /* {"system":...,"tools":...} of the request that created the thread */
} pal_anthropic_thread;

/* Finds the thread that a request's "thread" continues. PAL_NOT_FOUND: it does not exist. */
PAL_CHECKED pal_status pal_anthropic_thread_find(pal_store *store, pal_str tenant, pal_json request,
        pal_arena *arena, pal_anthropic_thread *out_thread, pal_error *err);
/* Loads the messages of a thread, with the bytes of images and files. */
PAL_CHECKED pal_status pal_anthropic_thread_load(pal_store *store, pal_str tenant,
        const pal_anthropic_thread *thread, pal_arena *arena, pal_message_page *out_messages,
        pal_error *err);
/* Keeps the thread under the id of its newest answer. */
PAL_CHECKED pal_status pal_anthropic_thread_keep(pal_store *store, pal_str tenant, pal_str answer,
        const pal_anthropic_thread *thread, pal_arena *arena, pal_error *err);
/* Returns the settings of a request that creates a thread. In the arena. */
PAL_CHECKED pal_status pal_anthropic_thread_settings(
        pal_json request, pal_arena *arena, pal_str *out_settings, pal_error *err);
/* Writes the request with the whole history of the thread, as if the client had sent it. In the
 * arena. */
PAL_CHECKED pal_status pal_anthropic_thread_expand(pal_json request,
        const pal_anthropic_thread *thread, const pal_message_page *messages, pal_arena *arena,
        pal_str *out_body, pal_error *err);

#endif
