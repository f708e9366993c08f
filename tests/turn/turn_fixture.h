/* turn_fixture.h - shared by the tests of turns: a store in memory, a runtime with a scripted
 * model, and short functions that send messages and check results. One test runs at a time. */
#ifndef TURN_FIXTURE_H
#define TURN_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json/json.h"
#include "palaver/turn.h"
#include "support/tap.h"
#ifdef TEST_DATA
#include "support/vectors.h"
#endif

#define S(text) pal_str_of(text)
#define WAIT_MS 60000 /* a longer wait means that something hangs */

typedef struct fixture {
    pal_store *store;
    pal_runtime *runtime;
    pal_arena *arena; /* emptied when a test ends */
    pal_error err;
    char script_path[64]; /* the answers of the scripted model; "" if a test has none */
} fixture;

static fixture test;

static inline void add_text(char *to, size_t size, const char *text)
{
    size_t len = strlen(to);

    snprintf(to + len, size - len, "%s", text);
}

static inline void write_script(const char *text)
{
    FILE *file;

    snprintf(test.script_path, sizeof(test.script_path), "/tmp/palaver-turn-%ld.jsonl",
            (long)getpid());
    file = fopen(test.script_path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static inline void open_store(void)
{
    if (!test.arena)
        test.arena = pal_arena_new(0);
    OK(pal_store_open("memory:", NULL, &test.store, &test.err));
}

/* Keeps the endpoints of the options, if there are any. */
static inline void open_runtime(const char *script, pal_runtime_options options)
{
    pal_endpoint endpoint = {.kind = S("script"), .model = S("scripted")};

    options.store = test.store;
    if (options.endpoints_len == 0) {
        options.endpoints = &endpoint;
        options.endpoints_len = 1;
    }
    if (script) {
        write_script(script);
        endpoint.path = S(test.script_path);
    } else {
        endpoint.kind = endpoint.model = S("echo");
    }
    OK(pal_runtime_open(&options, &test.runtime, &test.err));
}

/* Opens a new store, and a runtime whose model gives the answers of the script; NULL: the model is
 * "echo". */
static inline void begin(const char *script)
{
    pal_runtime_options options = {.max_tool_iterations = 3};

    open_store();
    open_runtime(script, options);
}

static inline void end(void)
{
    pal_runtime_close(test.runtime, 0);
    pal_store_close(test.store);
    pal_arena_reset(test.arena);
    if (test.script_path[0])
        unlink(test.script_path);
    test.script_path[0] = '\0';
}

static inline pal_id new_session(void)
{
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &(pal_session){0}, &id, &test.err));
    return id;
}

static inline pal_turn_request said(pal_id session, const char *text)
{
    pal_message *message = pal_arena_alloc(test.arena, sizeof(*message));

    *message = pal_message_text(test.arena, PAL_ROLE_USER, S(text));
    return (pal_turn_request){.session = session, .messages = message, .messages_len = 1};
}

static inline pal_turn_state wait_for(pal_id turn, pal_turn_info *out_info, pal_str *out_text)
{
    pal_turn_info info = {0};
    pal_str text = {0};

    OK(pal_turn_wait(test.runtime, S(""), turn, WAIT_MS, test.arena, &info, &text, &test.err));
    if (out_info)
        *out_info = info;
    if (out_text)
        *out_text = text;
    return info.state;
}

static inline pal_message_page all_of(pal_id session)
{
    pal_message_page list = {0};

    OK(pal_store_load(test.store, S(""), session, NULL, test.arena, &list, &test.err));
    return list;
}

static inline pal_str part_text(const pal_message *message, size_t part)
{
    return part < message->parts_len ? message->parts[part].text : (pal_str){0};
}

/* ---- Events ---- */

typedef struct heard {
    char kinds[4096];
    char text[4096];
    uint64_t numbers;
    bool in_order;
    bool gone;
} heard;

static inline bool hear(const pal_event *event, void *user)
{
    heard *h = user;
    size_t len = strlen(h->text);

    h->in_order = h->in_order && event->number == h->numbers + 1;
    h->numbers = event->number;
    add_text(h->kinds, sizeof(h->kinds), pal_event_kind_name(event->kind));
    add_text(h->kinds, sizeof(h->kinds), " ");
    if (event->kind == PAL_EVENT_TEXT && len + event->text.len < sizeof(h->text))
        memcpy(h->text + len, event->text.data, event->text.len);
    return true;
}

static inline void gone(void *user)
{
    ((heard *)user)->gone = true;
}

static inline pal_message result_of(const char *call_id, const char *text)
{
    pal_part *part = pal_arena_alloc(test.arena, sizeof(*part));

    *part = (pal_part){.kind = PAL_PART_TOOL_RESULT, .call_id = S(call_id), .text = S(text)};
    return (pal_message){.role = PAL_ROLE_TOOL, .parts = part, .parts_len = 1};
}

#endif
