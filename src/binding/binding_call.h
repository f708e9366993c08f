/* binding_call.h - what the functions of a binding share: reading JSON, and returning it. */
#ifndef PAL_BINDING_CALL_H
#define PAL_BINDING_CALL_H

#include "base/json/json.h"
#include "palaver/binding.h"
#include "palaver/store.h"
#include "palaver/turn.h"

struct pal_binding {
    pal_str tenant; /* in `arena` */
    pal_arena *arena;
    pal_models *models;
    pal_store *store;
    pal_runtime *runtime;
    char *event; /* the event that pal_binding_next() is about to return */
    bool is_closing;
};

/* One call: the memory of its input, and its result. */
typedef struct pal_binding_call {
    pal_binding *binding;
    pal_arena *arena;
    pal_buf buf;
    pal_json_writer writer;
    pal_error err;
} pal_binding_call;

void pal_binding_begin(pal_binding_call *call, pal_binding *binding);

/* Sets *out_json to what was written, or to the error if `status` is not PAL_OK, and releases the
 * memory of the call. Returns the status, or that of a result that did not fit. */
int pal_binding_end(pal_binding_call *call, pal_status status, char **out_json);

/* Parses an object. NULL gives an empty one. */
PAL_CHECKED pal_status pal_binding_parse(
        pal_binding_call *call, const char *json, pal_json *out_value);

PAL_CHECKED pal_status pal_binding_session(
        pal_binding_call *call, const char *name, pal_session *out_session);

/* Reads {"messages": [...]}, an array, or one message. */
PAL_CHECKED pal_status pal_binding_messages(
        pal_binding_call *call, const char *json, pal_message **out_messages, size_t *out_len);

#endif
