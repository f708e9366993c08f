/* bench_store_postgres.c - see bench_store_postgres.h.
 *
 * The raw side has a schema that a store has created, so the tables and indexes are the same. It
 * commits as many messages at once as the store's group commit did, in one round trip. */
#include "bench_store_postgres.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_fill.h"
#include "bench_pairs.h"
#include "bench_raw_postgres.h"
#include "bench_slice.h"
#include "palaver/palaver.h"

#define CALLERS_MAX 64
#define TAIL 50
#define TEXT_LEN 624

typedef struct setup {
    const char *url;
    size_t rounds;
    int64_t slice_us;
} setup;

static pal_store *store_open(const setup *given, const char *schema)
{
    pal_store *store = NULL;
    pal_error error = {0};
    char url[1000];

    snprintf(url, sizeof(url), "%s%cschema=%s", given->url, strchr(given->url, '?') ? '&' : '?',
            schema);
    fill_must(pal_store_open(url, NULL, &store, &error), &error);
    return store;
}

static void fill_schema(const setup *given, const char *schema)
{
    pal_store *store = store_open(given, schema);

    fill_sessions(store, 0, CALLERS_MAX);
    fill_messages(store, 0, CALLERS_MAX, TAIL + 10, TEXT_LEN);
    pal_store_close(store);
}

/* ---- Appends ---- */

static void append_ours(worker *w)
{
    static atomic_uint_fast64_t next;
    char client[64];
    pal_part part;
    pal_message message = fill_message(&part, TEXT_LEN);
    pal_error error = {0};

    snprintf(client, sizeof(client), "caller-%llu", (unsigned long long)next++);
    message.client_id = pal_str_of(client);
    fill_must(pal_store_append(w->store, fill_tenant, fill_session_id(w->session), &message, 1,
                      PAL_SEQ_ANY, &error),
            &error);
}

static void append_raw(worker *w)
{
    w->units = w->batch;
    raw_postgres_append(w->raw, CALLERS_MAX, w->batch);
}

static void appends_at(
        const setup *given, size_t callers, pal_store *store, raw_postgres *reference)
{
    static worker ours[CALLERS_MAX], theirs;
    static pairs p;
    size_t batch = 1;
    char what[80];

    p = (pairs){0};
    workers_init(ours, callers, append_ours);
    workers_init(&theirs, 1, append_raw);
    for (size_t i = 0; i < callers; i++)
        ours[i].store = store;
    theirs.raw = reference;
    for (size_t i = 0; i <= given->rounds; i++) {
        pal_store_stats before = slice_stats(store), after;
        double rate = slice(ours, callers, given->slice_us);

        after = slice_stats(store);
        batch = theirs.batch = slice_batch(&before, &after);
        pairs_add(&p, rate, slice(&theirs, 1, given->slice_us));
    }
    snprintf(what, sizeof(what), "callers: %zu / raw unnest, %zu a commit", callers, batch);
    pairs_print(what, &p, ">= 0.8");
}

/* ---- Tails ---- */

static void tail_ours(worker *w)
{
    pal_message_query load = {.limit = TAIL, .from_end = true};
    pal_message_page messages;
    pal_error error = {0};

    pal_arena_reset(w->arena);
    fill_must(pal_store_load(w->store, fill_tenant, fill_session_id(w->session), &load, w->arena,
                      &messages, &error),
            &error);
}

static void tail_raw(worker *w)
{
    raw_postgres_tail(w->raw, w->session, TAIL);
}

static void bench_tail(const setup *given, pal_store *store, raw_postgres *reference)
{
    static worker ours, theirs;
    static pairs p;

    p = (pairs){0};
    workers_init(&ours, 1, tail_ours);
    workers_init(&theirs, 1, tail_raw);
    ours.store = store;
    ours.arena = pal_arena_new(0);
    theirs.raw = reference;
    for (size_t i = 0; i <= given->rounds; i++) {
        double time_us = 1e6 / slice(&ours, 1, given->slice_us);

        pairs_add(&p, time_us, 1e6 / slice(&theirs, 1, given->slice_us));
    }
    pal_arena_free(ours.arena);
    pairs_print_head("The newest 50 messages, microseconds: less is better", "palaver", "raw");
    pairs_print("load / the bare statement", &p, "<= 1.2");
}

/* ---- A long session ---- */

static void compare_sessions(
        const setup *given, pal_store *store, const char *what, void (*once)(worker *w))
{
    static worker shorter, longer;
    static pairs p;

    p = (pairs){0};
    workers_init(&shorter, 1, once);
    workers_init(&longer, 1, once);
    shorter.session = CALLERS_MAX;
    longer.session = CALLERS_MAX + 1;
    shorter.store = longer.store = store;
    shorter.arena = longer.arena = pal_arena_new(0);
    for (size_t i = 0; i <= given->rounds; i++) {
        double in_short = 1e6 / slice(&shorter, 1, given->slice_us);

        pairs_add(&p, 1e6 / slice(&longer, 1, given->slice_us), in_short);
    }
    pal_arena_free(shorter.arena);
    pairs_print(what, &p, "<= 1.3");
}

static void bench_long_session(const setup *given, pal_store *store, size_t messages)
{
    char title[100];

    fill_sessions(store, CALLERS_MAX, 2);
    fill_messages(store, CALLERS_MAX, 1, 1000, 100);
    for (size_t done = 0; done < messages; done += FILL_MESSAGES)
        fill_messages(store, CALLERS_MAX + 1, 1, FILL_MESSAGES, 100);
    snprintf(title, sizeof(title), "A session of %zu messages, microseconds: less is better",
            messages);
    pairs_print_head(title, "long", "of 1,000");
    compare_sessions(given, store, "load the newest 50", tail_ours);
    compare_sessions(given, store, "append one, durably", append_ours);
}

int bench_store_postgres(
        const char *url, size_t rounds, int64_t slice_us, size_t long_session)
{
    setup given = {.url = url, .rounds = rounds, .slice_us = slice_us};
    raw_postgres *reference;
    pal_store *store;

    printf("palaver's store in PostgreSQL next to plain statements; medians of %zu alternating"
           " slices of %d ms\n",
            rounds, (int)(slice_us / 1000));
    fill_schema(&given, "bench_ours");
    fill_schema(&given, "bench_raw");
    store = store_open(&given, "bench_ours");
    reference = raw_postgres_open(url, "bench_raw", TEXT_LEN);
    pairs_print_head("Durable appends of 624 bytes with client ids, messages a second: more is"
                     " better",
            "palaver", "raw");
    appends_at(&given, 1, store, reference);
    appends_at(&given, 8, store, reference);
    appends_at(&given, 64, store, reference);
    bench_tail(&given, store, reference);
    bench_long_session(&given, store, long_session);
    pal_store_close(store);
    raw_postgres_exec(reference, "DROP SCHEMA bench_ours, bench_raw CASCADE");
    raw_postgres_close(reference);
    return 0;
}
