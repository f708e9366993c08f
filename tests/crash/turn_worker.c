/* turn_worker.c - runs turns with tools until it is killed, and records which turns were
 * acknowledged.
 *
 *   turn_worker STORE MODEL_URL TOOL NOTES ACKS FIRST [settle]
 *
 * One thread per session. Each thread starts turns, numbered from FIRST on; some of them wait in
 * the queue. Some requests are notes, and some are stored in the inbox by the program itself. Each
 * request that is no note has an outbox. The thread writes "N SESSION" to the file ACKS when turn N
 * is admitted or waits, both of which are durable. With `settle`, it runs one more turn in each session after all waiting turns, and
 * exits; it must not be killed then. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "palaver/palaver.h"
#include "turn_work.h"

enum { LEASE_MS = 200, POLL_MS = 5, SETTLE_POLLS = 4000 };

static pal_store *the_store;
static pal_runtime *runtime;
static int acks = -1;
static atomic_int next;
static const pal_str tenant = {0};

static void fail(const char *what, const pal_error *err)
{
    fprintf(stderr, "# turn_worker: %s: %s\n", what, err->message);
    _exit(3);
}

static void pause_a_moment(void)
{
    static const struct timespec moment = {.tv_nsec = POLL_MS * 1000000};

    nanosleep(&moment, NULL);
}

static void acknowledge(int number, int session)
{
    char line[64];
    int len = snprintf(line, sizeof(line), "%d %d\n", number, session);

    if (write(acks, line, (size_t)len) != len)
        _exit(4);
}

/* Stores the request and the place after it in one batch. */
static pal_turn_info store(const pal_turn_request *request, int number, int session)
{
    pal_arena *arena = pal_arena_new(0);
    pal_turn_info info = {.turn = {{0}}};
    char name[16], place[16];
    pal_record record = {.kind = pal_str_of("cursor")};
    pal_inbox_item item;
    pal_op ops[2];
    pal_error err = {0};

    snprintf(name, sizeof(name), "%d", session);
    snprintf(place, sizeof(place), "%d", number);
    record.name = pal_str_of(name);
    record.body = pal_str_of(place);
    if (pal_turn_to_item(request, arena, &item, &info.turn, &err) != PAL_OK)
        fail("item", &err);
    ops[0] = pal_op_inbox_add(tenant, request->session, &item);
    ops[1] = pal_op_record_put(tenant, &record, PAL_RECORD_VERSION_ANY);
    if (pal_store_apply_all(the_store, ops, 2, NULL, &err) != PAL_OK)
        fail("batch", &err);
    acknowledge(number, session);
    if (pal_runtime_wake(runtime, tenant, request->session, &err) != PAL_OK)
        fail("wake", &err);
    pal_arena_free(arena);
    return info;
}

/* Waits for a session in which a dead process ran a turn. */
static pal_turn_info start(int number, int session, pal_turn_lane lane)
{
    pal_arena *arena = pal_arena_new(0);
    char text[TURN_TEXT_MAX], client_id[TURN_TEXT_MAX], deliver[TURN_TEXT_MAX];
    pal_turn_channel channel = {.is_note = turn_is_note(number)};
    pal_message message;
    pal_turn_request request = {.session = turn_session(session),
            .messages = &message,
            .messages_len = 1,
            .lane = lane,
            .channel = &channel};
    pal_turn_info info = {.turn = {{0}}};
    pal_error err = {0};

    snprintf(text, sizeof(text), channel.is_note ? "note %d" : TURN_TEXT, number);
    snprintf(deliver, sizeof(deliver), TURN_DELIVER, number);
    if (!channel.is_note) {
        channel.outbox = pal_str_of(TURN_OUTBOX);
        channel.deliver = pal_str_of(deliver);
    }
    snprintf(client_id, sizeof(client_id), "m%d", number);
    message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of(text));
    message.client_id = pal_str_of(client_id);
    if (turn_is_stored(number)) {
        info = store(&request, number, session);
    } else {
        if (pal_turn_start(runtime, &request, &info, &err) != PAL_OK)
            fail("start", &err);
        acknowledge(number, session);
    }
    pal_arena_free(arena);
    return info;
}

/* A stored request is not in the runtime's memory before it is found in the inbox. A stored note may
 * be recorded together with others, and then no turn has its id. */
static void wait_end(int number, pal_id turn)
{
    pal_turn_info info = {.turn = {{0}}};
    pal_error err = {0};

    while (info.state != PAL_TURN_DONE) {
        pal_status status = pal_turn_find(runtime, tenant, turn, &info, &err);

        if (status == PAL_NOT_FOUND && turn_is_note(number))
            return;
        if (status != PAL_OK)
            fail("wait", &err);
        if (info.state == PAL_TURN_FAILED || info.state == PAL_TURN_CANCELED) {
            snprintf(err.message, sizeof(err.message), "%s: %.200s",
                    pal_turn_state_name(info.state), info.reason);
            fail("a turn", &err);
        }
        if (info.state != PAL_TURN_DONE)
            pause_a_moment();
    }
}

static void *run_session(void *user)
{
    int session = (int)(intptr_t)user;

    for (;;) {
        int number = atomic_fetch_add(&next, 2);
        pal_turn_info first = start(number, session, PAL_TURN_LANE_QUEUE);
        pal_turn_info second = start(number + 1, session, PAL_TURN_LANE_QUEUE);

        wait_end(number, first.turn);
        wait_end(number + 1, second.turn);
    }
    return NULL;
}

static bool is_inbox_empty(int session)
{
    pal_arena *arena = pal_arena_new(0);
    pal_inbox_item *items;
    size_t len = 0;
    pal_error err = {0};

    if (pal_store_inbox_list(the_store, tenant, turn_session(session), arena, &items, &len, &err))
        fail("inbox", &err);
    pal_arena_free(arena);
    return len == 0;
}

static void wait_inbox(int session)
{
    int polls = 0;
    pal_error err = {0};

    while (!is_inbox_empty(session)) {
        if (polls++ == SETTLE_POLLS) {
            snprintf(err.message, sizeof(err.message), "session %d is never taken up", session);
            fail("inbox", &err);
        }
        pause_a_moment();
    }
}

static void settle(int session)
{
    int number = atomic_fetch_add(&next, 1);

    wait_end(number, start(number, session, PAL_TURN_LANE_QUEUE).turn);
    wait_inbox(session);
}

static void wait_tools(void)
{
    pal_error err = {0};
    size_t len = 0;

    while (len == 0) {
        pal_arena *arena = pal_arena_new(0);
        pal_tool *tools;

        if (pal_runtime_tools(runtime, arena, &tools, &len, &err) != PAL_OK)
            fail("tools", &err);
        pal_arena_free(arena);
        if (len == 0)
            pause_a_moment();
    }
}

static void open_all(char **argv)
{
    pal_str command[] = {pal_str_of(argv[3]), pal_str_of(argv[4])};
    pal_tool_server server = {.name = pal_str_of("fx"), .command = command, .command_len = 2};
    static const pal_permission_rule all = {
            .tool = {"*", 1}, .permission = PAL_PERMISSION_ALLOW};
    pal_endpoint endpoint = {
            .kind = pal_str_of("openai"), .url = pal_str_of(argv[2]), .model = pal_str_of("m")};
    pal_runtime_options options = {.endpoints = &endpoint,
            .endpoints_len = 1,
            .tool_servers = &server,
            .tool_servers_len = 1,
            .permissions = &all,
            .permissions_len = 1,
            .lease_ms = LEASE_MS,
            .builtin_tools_off = true};
    pal_error err = {0};

    acks = open(argv[5], O_WRONLY | O_APPEND | O_CLOEXEC);
    next = atoi(argv[6]);
    if (pal_store_open(argv[1], NULL, &the_store, &err) != PAL_OK)
        fail("store", &err);
    options.store = the_store;
    if (pal_runtime_open(&options, &runtime, &err) != PAL_OK)
        fail("runtime", &err);
}

int main(int argc, char **argv)
{
    pthread_t threads[TURN_SESSIONS];

    if (argc < 7)
        return 2;
    setenv("no_proxy", "*", 1);
    setenv("NO_PROXY", "*", 1);
    open_all(argv);
    wait_tools();
    if (argc == 8) {
        for (int i = 0; i < TURN_SESSIONS; i++)
            settle(i);
        pal_runtime_close(runtime, 1000);
        pal_store_close(the_store);
        return 0;
    }
    for (int i = 0; i < TURN_SESSIONS; i++)
        pthread_create(&threads[i], NULL, run_session, (void *)(intptr_t)i);
    for (int i = 0; i < TURN_SESSIONS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
