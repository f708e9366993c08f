/* turn.c - a program that runs a turn without a server, and prints the answer as it arrives.
 *
 *   cc turn.c -o turn $(pkg-config --cflags --libs palaver) && ./turn "Hello there"
 *
 * It uses "echo", which is built in and repeats the message. For a real model, use another
 * endpoint. */
#include <palaver/palaver.h>
#include <stdio.h>

/* Called for each event of the turn, on the thread of the runtime. */
static bool show(const pal_event *event, void *user)
{
    (void)user;
    if (event->kind == PAL_EVENT_TEXT)
        printf("%.*s", PAL_STR_ARG(event->text));
    if (event->kind == PAL_EVENT_TOOL_STARTED)
        printf("\n[%.*s]\n", PAL_STR_ARG(event->name));
    if (event->kind == PAL_EVENT_RETRYING)
        printf("\n[retrying: %.*s]\n", PAL_STR_ARG(event->text));
    fflush(stdout);
    return true;
}

static pal_status talk(pal_runtime *runtime, pal_id session, const char *text, pal_error *err)
{
    pal_str tenant = {0}; /* empty: the default tenant */
    pal_arena *arena = pal_arena_new(0);
    pal_turn_info turn;
    pal_str answer;

    if (!arena)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    pal_message said = pal_message_text(arena, PAL_ROLE_USER, pal_str_of(text));
    pal_turn_request request = {.session = session, .messages = &said, .messages_len = 1};

    /* Returns when the message is on disk. Does not wait for the model. */
    pal_status status = pal_turn_start(runtime, &request, &turn, err);
    if (status != PAL_OK)
        goto out;
    status = pal_turn_watch(runtime, tenant, turn.turn, 0, show, NULL, NULL, err);
    if (status != PAL_OK)
        goto out;
    status = pal_turn_wait(runtime, tenant, turn.turn, -1, arena, &turn, &answer, err);
    if (status == PAL_OK)
        printf("\n(%s)\n", pal_turn_state_name(turn.state));
out:
    pal_arena_free(arena);
    return status;
}

int main(int argc, char **argv)
{
    pal_endpoint echo = {.kind = pal_str_of("echo")};
    pal_runtime_options options = {.endpoints = &echo, .endpoints_len = 1};
    pal_runtime *runtime = NULL;
    pal_session session = {0};
    pal_error err = {0};

    pal_status status = pal_store_open("sqlite:talks.db", NULL, &options.store, &err);
    if (status != PAL_OK)
        goto out;
    status = pal_runtime_open(&options, &runtime, &err);
    if (status != PAL_OK)
        goto out;
    status = pal_store_create(options.store, &session, &session.id, &err);
    if (status != PAL_OK)
        goto out;
    status = talk(runtime, session.id, argc > 1 ? argv[1] : "Is anybody there?", &err);
out:
    if (status != PAL_OK)
        fprintf(stderr, "turn: %s\n", err.message);
    pal_runtime_close(runtime, 1000); /* gives a running turn one second to end */
    pal_store_close(options.store);
    return status == PAL_OK ? 0 : 1;
}
