/* test_turn_kills.c - kills a process that runs turns with tools at random moments, on one store.
 *
 *   test_turn_kills TURN_WORKER TURN_TOOL
 *
 * After each kill, every acknowledged message is in the log or the inbox of its session, once, and
 * in the order in which the messages were sent. The log is valid, except for calls of the killed
 * turn, which the next turn completes. No tool ran twice.
 *
 * Every few kills, a process runs undisturbed until every session has run the turns of its inbox
 * and one more turn. Then every message is in the log, every call has a result, and every turn has
 * an answer, or a failure with its reason.
 *
 * Each request that is no note has one record in the outbox when its turn has ended, and none before
 * that. The message that the record names exists.
 *
 * Environment: TURN_KILLS (20), CRASH_SEED. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "palaver/palaver.h"
#include "support/model_server.h"
#include "support/scratch.h"
#include "support/tap.h"
#include "turn_work.h"

enum { TURNS_MAX = 1 << 20, CALLS_MAX = 16, KILLS_PER_SETTLE = 5, START_TIMEOUT_MS = 30000 };

extern char **environ;

static model_server server;
static const char *worker_program, *tool_program;
static char directory[SCRATCH_PATH_MAX];
static char store_path[SCRATCH_PATH_MAX + 32], notes_path[SCRATCH_PATH_MAX + 32];
static char acks_path[SCRATCH_PATH_MAX + 32];
static FILE *acks;
static int8_t session_of[TURNS_MAX]; /* session of each acknowledged turn, from 1 */
static int turns_len;                /* the largest acknowledged number plus one */
static int first_number;             /* the first number of the last worker */
static int acknowledged, interrupted;
static uint64_t random_counter, random_seed;

static uint64_t chance(uint64_t below)
{
    return pattern_hash(random_seed, random_counter++) % below;
}

static void sleep_us(uint64_t us)
{
    struct timespec wait = {.tv_sec = (time_t)(us / 1000000)};

    wait.tv_nsec = (long)(us % 1000000) * 1000;
    nanosleep(&wait, NULL);
}

/* ---- The worker ---- */

static bool start_worker(bool settles, pid_t *out_pid)
{
    char url[64], first[16];
    char *argv[] = {(char *)worker_program, store_path, url, (char *)tool_program, notes_path,
            acks_path, first, settles ? (char *)"settle" : NULL, NULL};

    snprintf(url, sizeof(url), "http://127.0.0.1:%d/v1", server.port);
    /* Skips numbers that a dead worker took but never reported. */
    first_number = (turns_len > first_number ? turns_len : first_number) + 2 * TURN_SESSIONS;
    snprintf(first, sizeof(first), "%d", first_number);
    return posix_spawn(out_pid, worker_program, NULL, NULL, argv, environ) == 0;
}

/* Returns the number of new acknowledgements. */
static int read_acks(void)
{
    int number, session, count = 0;

    clearerr(acks);
    while (fscanf(acks, "%d %d\n", &number, &session) == 2 && number < TURNS_MAX) {
        session_of[number] = (int8_t)(session + 1);
        if (number >= turns_len)
            turns_len = number + 1;
        count++;
    }
    acknowledged += count;
    return count;
}

static bool run_and_kill(void)
{
    pid_t pid;
    int status, ms = 0;
    bool at_once = chance(5) == 0; /* while it opens, and while it continues old turns */

    if (!start_worker(false, &pid))
        return false;
    while (!at_once && read_acks() == 0 && ms++ < START_TIMEOUT_MS)
        sleep_us(1000);
    sleep_us(chance(at_once ? 60000 : 120000));
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    read_acks();
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    printf("# a worker ended with status %#x\n", (unsigned)status);
    return false;
}

static bool run_and_settle(void)
{
    pid_t pid;
    int status;

    if (!start_worker(true, &pid))
        return false;
    waitpid(pid, &status, 0);
    read_acks();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    printf("# the sessions don't go on: status %#x\n", (unsigned)status);
    return false;
}

/* ---- What must hold ---- */

static bool wrong(const char *what, int session, uint64_t number)
{
    printf("# session %d, %" PRIu64 ": %s\n", session, number, what);
    return false;
}

/* Each id occurs at most once in the notes. */
static bool check_notes(void)
{
    static uint8_t seen[TURNS_MAX];
    FILE *file = fopen(notes_path, "r");
    int number, call;
    bool held = true;

    memset(seen, 0, sizeof(seen));
    while (file && held && fscanf(file, "%d.%d\n", &number, &call) == 2 && number < TURNS_MAX) {
        if (seen[number] & 1 << call)
            held = wrong("a tool ran twice", 0, (uint64_t)number);
        seen[number] |= (uint8_t)(1 << call);
    }
    if (file)
        fclose(file);
    return held;
}

static int number_of(pal_str client_id)
{
    char text[32] = "";

    if (client_id.len > 1 && client_id.len < sizeof(text))
        memcpy(text, client_id.data + 1, client_id.len - 1);
    return atoi(text);
}

/* Results follow their calls in order. A killed process can leave open calls only at the end; they
 * get results when the next turn begins. */
typedef struct open_calls {
    pal_str ids[CALLS_MAX];
    size_t len, at;
} open_calls;

static bool check_result(const pal_message *message, open_calls *open, int session)
{
    const pal_part *part = &message->parts[0];

    if (message->parts_len != 1 || part->kind != PAL_PART_TOOL_RESULT || open->at == open->len ||
            !pal_str_equal(open->ids[open->at++], part->call_id))
        return wrong("a result of no call", session, message->seq);
    interrupted += part->is_error;
    return true;
}

static bool check_message(const pal_message *message, open_calls *open, int session)
{
    if (message->role == PAL_ROLE_TOOL)
        return check_result(message, open, session);
    if (open->at < open->len)
        return wrong("a call without a result", session, message->seq);
    open->at = open->len = 0;
    for (size_t i = 0; i < message->parts_len && open->len < CALLS_MAX; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_CALL)
            open->ids[open->len++] = message->parts[i].call_id;
    return true;
}

/* All workers send the messages of a session one after the other, with growing numbers. */
static bool check_said(const pal_message *message, int session, uint8_t *found, int *newest)
{
    int number = number_of(message->client_id);

    if (number <= *newest)
        return wrong("said too late", session, (uint64_t)number);
    *newest = number;
    found[number]++;
    return true;
}

/* Each admitted turn has an answer, or a failure with its reason. */
static bool check_answered(const pal_message_page *list, int session)
{
    for (size_t i = 0; i < list->len; i++) {
        const pal_message *newest = NULL;
        bool is_note = turn_is_note(number_of(list->items[i].client_id));

        if (list->items[i].role != PAL_ROLE_USER)
            continue;
        if (is_note != pal_id_is_none(list->items[i].turn_id))
            return wrong("a note has a turn, or a request has none", session, list->items[i].seq);
        if (is_note)
            continue;
        for (size_t k = i + 1; k < list->len; k++)
            if (pal_id_equal(list->items[k].turn_id, list->items[i].turn_id))
                newest = &list->items[k];
        if (!newest || newest->role != PAL_ROLE_ASSISTANT)
            return wrong("admitted, and never answered", session, list->items[i].seq);
    }
    return true;
}

static bool check_log(pal_store *store, int session, bool is_settled, uint8_t *found)
{
    int newest = -1;
    pal_arena *arena = pal_arena_new(0);
    pal_message_page list = {0};
    pal_error err = {0};
    open_calls open = {.len = 0};
    bool held = pal_store_load(store, pal_str_of(""), turn_session(session), NULL, arena, &list,
                        &err) == PAL_OK;

    interrupted = session == 0 ? 0 : interrupted;
    for (size_t i = 0; held && i < list.len; i++) {
        if (list.items[i].seq != i + 1)
            held = wrong("a gap", session, i + 1);
        if (held && list.items[i].role == PAL_ROLE_USER)
            held = check_said(&list.items[i], session, found, &newest);
        held = held && check_message(&list.items[i], &open, session);
    }
    if (held && is_settled && open.at < open.len)
        held = wrong("a call without a result at the end", session, list.len);
    if (held && is_settled)
        held = check_answered(&list, session);
    pal_arena_free(arena);
    return held;
}

static bool add_inbox(pal_store *store, int session, uint8_t *found)
{
    pal_arena *arena = pal_arena_new(0);
    pal_inbox_item *items;
    size_t len = 0;
    pal_error err = {0};
    bool held = pal_store_inbox_list(store, pal_str_of(""), turn_session(session), arena, &items,
                        &len, &err) == PAL_OK;

    for (size_t i = 0; held && i < len; i++)
        if (!pal_str_is(items[i].delivery, "owed")) /* its message is in the log */
            found[number_of(items[i].client_id)]++;
    pal_arena_free(arena);
    return held;
}

/* ---- The outbox ---- */

/* Reads the number of the request from the JSON that its record and its items contain. */
static int delivered_number(pal_str body)
{
    static const char start[] = "\"deliver\":{\"n\":";
    const char *at = memmem(body.data, body.len, start, sizeof(start) - 1);

    return at ? atoi(at + sizeof(start) - 1) : -1;
}

static bool check_record(
        pal_store *store, const pal_record *record, pal_arena *arena, uint8_t *delivered)
{
    int number = delivered_number(record->body);
    const char *at = memmem(record->body.data, record->body.len, "\"message\":\"", 11);
    pal_message message;
    pal_id id, session;

    if (number < 0 || number >= TURNS_MAX || turn_is_note(number))
        return wrong("a record of no request", 0, (uint64_t)(int64_t)number);
    if (delivered[number]++)
        return wrong("delivered twice", 0, (uint64_t)number);
    if (!at || !pal_id_from_text(pal_str_make(at + 11, PAL_ID_TEXT_SIZE - 1), &id) ||
            pal_store_message(store, pal_str_of(""), id, arena, &message, &session, NULL) != PAL_OK)
        return wrong("the answer in the record does not exist", 0, (uint64_t)number);
    return true;
}

static bool read_outbox(pal_store *store, uint8_t *delivered)
{
    pal_arena *arena = pal_arena_new(0);
    pal_record_query query = {.kind = pal_str_of(PAL_OUTBOX_KIND), .limit = 1000};
    pal_record_page page = {.has_more = true};
    pal_error err = {0};
    bool held = true;

    while (held && page.has_more) {
        held = pal_store_record_list(store, &query, arena, &page, &err) == PAL_OK;
        for (size_t i = 0; held && i < page.len; i++)
            held = check_record(store, &page.items[i], arena, delivered);
        if (page.len > 0)
            query.after = page.items[page.len - 1].name;
    }
    pal_arena_free(arena);
    return held;
}

/* A request that waits or is being answered has no record yet. */
static bool check_unfinished(pal_store *store, int session, const uint8_t *delivered)
{
    pal_arena *arena = pal_arena_new(0);
    pal_inbox_item *items;
    size_t len = 0;
    pal_error err = {0};
    bool held = pal_store_inbox_list(store, pal_str_of(""), turn_session(session), arena, &items,
                        &len, &err) == PAL_OK;

    for (size_t i = 0; held && i < len; i++) {
        int number = delivered_number(items[i].body);

        if (number >= 0 && number < TURNS_MAX && delivered[number])
            held = wrong("delivered before its end", session, (uint64_t)number);
    }
    pal_arena_free(arena);
    return held;
}

static bool check_outbox(pal_store *store, bool is_settled)
{
    static uint8_t delivered[TURNS_MAX];
    bool held;

    memset(delivered, 0, sizeof(delivered));
    held = read_outbox(store, delivered);
    for (int i = 0; held && i < TURN_SESSIONS; i++)
        held = check_unfinished(store, i, delivered);
    for (int i = 0; held && is_settled && i < turns_len; i++)
        if (session_of[i] && !turn_is_note(i) && !delivered[i])
            held = wrong("never delivered", session_of[i] - 1, (uint64_t)i);
    return held;
}

static bool check_all(bool is_settled)
{
    static uint8_t found[TURNS_MAX];
    pal_store *store = NULL;
    pal_error err = {0};
    bool held = pal_store_open(store_path, NULL, &store, &err) == PAL_OK;

    memset(found, 0, sizeof(found));
    for (int i = 0; held && i < TURN_SESSIONS; i++) {
        held = check_log(store, i, is_settled, found);
        if (!is_settled)
            held = held && add_inbox(store, i, found);
    }
    for (int i = 0; held && i < turns_len; i++) {
        if (session_of[i] && found[i] == 0)
            held = wrong("what was acknowledged is lost", session_of[i] - 1, (uint64_t)i);
        if (found[i] > 1)
            held = wrong("something was said twice", session_of[i] - 1, (uint64_t)i);
    }
    held = held && check_outbox(store, is_settled);
    pal_store_close(store);
    return held && check_notes();
}

static bool prepare(void)
{
    pal_store *store = NULL;
    pal_error err = {0};
    bool held = pal_store_open(store_path, NULL, &store, &err) == PAL_OK;

    for (int i = 0; held && i < TURN_SESSIONS; i++) {
        pal_session session = {.id = turn_session(i)};

        held = pal_store_create(store, &session, &session.id, &err) == PAL_OK;
    }
    pal_store_close(store);
    acks = fopen(acks_path, "w+");
    return held && acks;
}

static void killed_turns_lose_nothing(void)
{
    const char *asked = getenv("TURN_KILLS");
    int kills = asked && atoi(asked) > 0 ? atoi(asked) : 20;
    bool held = CHECK(prepare());

    for (int i = 1; held && i <= kills; i++) {
        held = CHECK(run_and_kill()) && CHECK(check_all(false));
        if (held && (i % KILLS_PER_SETTLE == 0 || i == kills))
            held = CHECK(run_and_settle()) && CHECK(check_all(true));
        if (!held)
            printf("# after %d kills\n", i);
    }
    printf("# %d kills, %d turns acknowledged, %d calls interrupted\n", kills, acknowledged,
            interrupted);
}

int main(int argc, char **argv)
{
    const char *seed = getenv("CRASH_SEED");

    if (argc != 3)
        return 2;
    worker_program = argv[1];
    tool_program = argv[2];
    random_seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    printf("# CRASH_SEED=%" PRIu64 "\n", random_seed);
    scratch_make(false, directory);
    snprintf(store_path, sizeof(store_path), "%s/turns.db", directory);
    snprintf(notes_path, sizeof(notes_path), "%s/notes", directory);
    snprintf(acks_path, sizeof(acks_path), "%s/acks", directory);
    model_server_start(&server);
    RUN(killed_turns_lose_nothing);
    model_server_stop(&server);
    if (!tap_failures)
        scratch_clear(directory, true);
    else
        printf("# the store is left in %s\n", directory);
    if (acks)
        fclose(acks);
    return tap_done();
}
