/* runtime_models.c - the models of the endpoints. It makes the complete list on request. If an
 * endpoint has no configured model, it requests the endpoint's first model when a turn needs it,
 * and remembers it. A request that no caller waits for any more continues to its end. So its memory
 * belongs to the runtime. On the loop, except for pal_runtime_models(). */
#include "turn/runtime/runtime_models.h"

#include "base/json/json.h"
#include "base/memory.h"
#include "turn/runtime/runtime_ask.h"
#include "turn/turn.h"

/* ---- The complete list ---- */

typedef struct pal_models_list pal_models_list;

typedef struct list_entry {
    pal_models_list *list;
    pal_str names; /* a JSON array in the list's arena; empty: no response */
} list_entry;

struct pal_models_list {
    pal_ask ask; /* ended once, when all endpoints have responded, if a caller still waits */
    pal_models_list *next;
    pal_runtime *runtime;
    pal_arena *arena;
    list_entry *entries;
    size_t waiting;
    bool is_left; /* no caller waits */
};

static void free_list(pal_models_list *list)
{
    pal_models_list **at = &list->runtime->model_lists;

    while (*at && *at != list)
        at = &(*at)->next;
    if (*at)
        *at = list->next;
    pal_arena_free(list->arena);
    pal_free(list);
}

void pal_models_done(pal_runtime *runtime)
{
    while (runtime->model_lists)
        free_list(runtime->model_lists);
    for (size_t i = 0; i < runtime->providers_len; i++)
        pal_free(runtime->model_questions[i]);
}

static void answered(pal_models_list *list)
{
    if (--list->waiting > 0)
        return;
    if (list->is_left)
        free_list(list);
    else
        pal_ask_end(&list->ask);
}

static void on_models(void *user, pal_str json, const pal_error *err)
{
    list_entry *entry = user;

    if (!err)
        entry->names = pal_arena_copy(entry->list->arena, json);
    answered(entry->list);
}

typedef struct list_start {
    pal_ask ask;
    pal_models_list *list;
} list_start;

static void begin_list(pal_ask *ask)
{
    pal_models_list *list = ((list_start *)ask)->list;
    pal_runtime *runtime = list->runtime;

    list->next = runtime->model_lists;
    runtime->model_lists = list;
    list->waiting = runtime->providers_len + 1;
    for (size_t i = 0; i < runtime->providers_len; i++) {
        list->entries[i].list = list;
        if (pal_provider_models(runtime->providers[i], on_models, &list->entries[i], NULL) !=
                PAL_OK)
            answered(list);
    }
    answered(list);
}

/* Takes the names that have arrived, with each endpoint's default model first. They are copied on
 * the loop, because the list changes there. */
typedef struct names_copy {
    pal_ask ask;
    pal_models_list *list;
    pal_arena *arena;
    pal_served_model *models;
    size_t len;
} names_copy;

static size_t count_names(const pal_models_list *list)
{
    size_t len = 0;

    for (size_t i = 0; i < list->runtime->providers_len; i++) {
        pal_json names;

        len++;
        if (list->entries[i].names.len > 0 &&
                pal_json_parse(list->arena, list->entries[i].names, NULL, &names, NULL) == PAL_OK)
            len += pal_json_count(names);
    }
    return len;
}

static void take_name(names_copy *t, pal_str endpoint, pal_str model)
{
    if (model.len == 0)
        return;
    t->models[t->len++] = (pal_served_model){.endpoint = pal_arena_copy(t->arena, endpoint),
            .model = pal_arena_copy(t->arena, model)};
}

static void take_endpoint(names_copy *t, size_t at)
{
    const pal_models_list *list = t->list;
    pal_str endpoint = pal_provider_name(list->runtime->providers[at]);
    pal_str own = list->runtime->provider_models[at];
    pal_json names, name;

    if (list->entries[at].names.len == 0 ||
            pal_json_parse(list->arena, list->entries[at].names, NULL, &names, NULL) != PAL_OK)
        return;
    take_name(t, endpoint, own);
    for (pal_json_iter each = pal_json_each(names); pal_json_next(&each, NULL, &name);) {
        pal_str text = pal_json_string(name, list->arena);

        if (!pal_str_equal(text, own))
            take_name(t, endpoint, text);
    }
}

static void take_list(pal_ask *ask)
{
    names_copy *t = (names_copy *)ask;
    pal_models_list *list = t->list;

    t->models = pal_arena_array(t->arena, count_names(list) + 1, sizeof(*t->models));
    for (size_t i = 0; t->models && i < list->runtime->providers_len; i++)
        take_endpoint(t, i);
    list->is_left = true;
    if (list->waiting == 0)
        free_list(list);
}

static pal_models_list *new_list(pal_runtime *runtime)
{
    pal_models_list *list = pal_calloc(1, sizeof(*list));

    if (!list)
        return NULL;
    list->runtime = runtime;
    list->arena = pal_arena_new(0);
    if (list->arena)
        list->entries =
                pal_arena_array(list->arena, runtime->providers_len + 1, sizeof(*list->entries));
    if (list->entries)
        return list;
    pal_arena_free(list->arena);
    pal_free(list);
    return NULL;
}

pal_status pal_runtime_models(pal_runtime *runtime, int64_t timeout_ms, pal_arena *arena,
        pal_served_model **out_models, size_t *out_len, pal_error *err)
{
    pal_models_list *list = new_list(runtime);
    list_start begin = {.ask.run = begin_list, .list = list};
    names_copy t = {.ask.run = take_list, .list = list, .arena = arena};

    if (!list)
        return pal_no_memory(err);
    pal_ask_begin(&list->ask);
    pal_ask_loop(runtime->loop, &begin.ask);
    pal_ask_wait_for(&list->ask, timeout_ms > 0 ? timeout_ms : 0);
    pal_ask_loop(runtime->loop, &t.ask);
    if (!t.models || pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    *out_models = t.models;
    *out_len = t.len;
    return PAL_OK;
}

/* ---- The first model ---- */

/* Continues every turn that waits for this endpoint. */
static void wake(pal_runtime *runtime, size_t endpoint, const char *failure)
{
    pal_turn **at = &runtime->model_waiters;

    while (*at) {
        pal_turn *turn = *at;

        if (turn->settings.endpoint != endpoint) {
            at = &turn->next_waiter;
            continue;
        }
        *at = turn->next_waiter;
        turn->next_waiter = NULL;
        if (failure)
            pal_turn_fail(turn, PAL_PROVIDER, "%s", failure);
        else
            pal_turn_next_step(turn);
        at = &runtime->model_waiters; /* the turn may have changed the list */
    }
}

typedef struct pal_model_question {
    pal_runtime *runtime;
    size_t endpoint;
} model_question;

static pal_str first_name(pal_str json, pal_arena *arena)
{
    pal_json names, name;
    pal_json_iter each;

    if (pal_json_parse(arena, json, NULL, &names, NULL) != PAL_OK)
        return (pal_str){0};
    each = pal_json_each(names);
    if (!pal_json_next(&each, NULL, &name))
        return (pal_str){0};
    return pal_arena_copy(arena, pal_json_string(name, arena)); /* the list is only borrowed */
}

static void on_first_models(void *user, pal_str json, const pal_error *err)
{
    model_question *question = user;
    pal_runtime *runtime = question->runtime;
    size_t endpoint = question->endpoint;
    pal_str first = err ? (pal_str){0} : first_name(json, runtime->arena);
    pal_error failure = {0};

    runtime->model_questions[endpoint] = NULL;
    pal_free(question);
    if (first.len > 0) {
        runtime->provider_models[endpoint] = first;
        wake(runtime, endpoint, NULL);
        return;
    }
    pal_error_set(&failure, PAL_PROVIDER, "no model is configured for endpoint '%.*s': %.180s",
            PAL_STR_ARG(pal_provider_name(runtime->providers[endpoint])),
            err ? err->message : "the endpoint lists no models");
    wake(runtime, endpoint, failure.message);
}

void pal_models_ask(pal_turn *turn)
{
    pal_runtime *runtime = turn->runtime;
    size_t endpoint = turn->settings.endpoint;
    model_question *question;
    pal_error err = {0};

    pal_turn_enter(turn, PAL_TURN_PHASE_MODEL);
    turn->next_waiter = runtime->model_waiters;
    runtime->model_waiters = turn;
    if (runtime->model_questions[endpoint])
        return;
    question = pal_malloc(sizeof(*question));
    if (question) {
        *question = (model_question){runtime, endpoint};
        if (pal_provider_models(runtime->providers[endpoint], on_first_models, question, &err) ==
                PAL_OK) {
            runtime->model_questions[endpoint] = question;
            return;
        }
        pal_free(question);
    }
    wake(runtime, endpoint, question ? err.message : "out of memory");
}

void pal_models_leave(pal_turn *turn)
{
    pal_turn **at = &turn->runtime->model_waiters;

    while (*at && *at != turn)
        at = &(*at)->next_waiter;
    if (*at)
        *at = turn->next_waiter;
    turn->next_waiter = NULL;
}
