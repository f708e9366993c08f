/* bench_resolve.c - measures how long it takes to find the session of a message: by its key, by an
 * alias, and by the complete result of routing. A store of 10,000 sessions with five aliases each
 * is compared with a store of ten.
 *
 *   bench-resolve [--quick] [--dir DIRECTORY]
 *
 * Slices of the two stores alternate. Printed are microseconds per call and the median of the
 * slices' ratios. The pages of 10,000 sessions do not fit into the processor's small caches, those
 * of ten do. So ten sessions of the large store are also looked up again and again, which shows the
 * cost of the look-up alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench_fill.h"
#include "bench_pairs.h"
#include "palaver/palaver.h"

enum { FEW = 10, ALIASES = 5 };

#define MAIN_ALIAS "agent:main:main"

typedef struct names {
    char key[32];
    char alias_texts[ALIASES][48];
    pal_str aliases[ALIASES];
    pal_session session;
} names;

typedef struct side {
    pal_store *store;
    size_t sessions;
    size_t asked; /* sessions that are looked up, evenly spread */
    uint64_t dice;
    char path[512];
} side;

typedef void (*one_call)(side *of, pal_arena *arena, const names *n);

static size_t many = 10000;
static int64_t slice_us = 100000;
static size_t rounds = 15;

static void names_make(size_t index, names *out_names)
{
    names *n = out_names;

    memset(n, 0, sizeof(*n));
    snprintf(n->key, sizeof(n->key), "sk_v1_%zu", index);
    snprintf(n->alias_texts[0], sizeof(n->alias_texts[0]), MAIN_ALIAS);
    for (size_t i = 1; i < ALIASES; i++)
        snprintf(n->alias_texts[i], sizeof(n->alias_texts[i]), "agent:main:direct:u%zu-%zu", index,
                i);
    for (size_t i = 0; i < ALIASES; i++)
        n->aliases[i] = pal_str_of(n->alias_texts[i]);
    n->session.tenant = fill_tenant;
    n->session.key = pal_str_of(n->key);
    n->session.aliases = n->aliases;
    n->session.aliases_len = ALIASES;
}

static void by_resolve(side *of, pal_arena *arena, const names *n)
{
    pal_resolve_request resolve = {.session = &n->session, .main_alias = pal_str_of(MAIN_ALIAS)};
    pal_resolve_result resolution;
    pal_error err = {0};

    (void)arena;
    fill_must(pal_store_resolve(of->store, &resolve, &resolution, &err), &err);
}

static void by_alias(side *of, pal_arena *arena, const names *n)
{
    pal_session found;
    pal_error err = {0};

    fill_must(pal_store_find(of->store, fill_tenant, PAL_SESSION_BY_ALIAS, n->aliases[3], arena,
                      &found, &err),
            &err);
}

static void by_key(side *of, pal_arena *arena, const names *n)
{
    pal_session found;
    pal_error err = {0};

    fill_must(pal_store_find(of->store, fill_tenant, PAL_SESSION_BY_KEY, n->session.key, arena,
                      &found, &err),
            &err);
}

/* An empty session searches for a history to adopt, so each session gets a message. */
static void fill(side *of)
{
    pal_error err = {0};

    for (size_t i = 0; i < of->sessions; i++) {
        names n;
        pal_resolve_request resolve = {.session = &n.session, .main_alias = pal_str_of(MAIN_ALIAS)};
        pal_resolve_result resolution;
        pal_part part;
        pal_message message = fill_message(&part, 64);

        names_make(i, &n);
        fill_must(pal_store_resolve(of->store, &resolve, &resolution, &err), &err);
        fill_must(pal_store_append(of->store, fill_tenant, resolution.session, &message, 1,
                          PAL_SEQ_ANY, &err),
                &err);
    }
}

static void side_open(side *of, const char *directory, size_t sessions)
{
    char url[600];
    pal_error err = {0};

    of->sessions = sessions;
    snprintf(of->path, sizeof(of->path), "%s/bench-resolve-%zu.db", directory, sessions);
    unlink(of->path);
    snprintf(url, sizeof(url), "sqlite:%s", of->path);
    fill_must(pal_store_open(url, NULL, &of->store, &err), &err);
    fill(of);
}

static void side_close(side *of)
{
    pal_store_close(of->store);
    unlink(of->path);
}

static double slice(side *of, one_call call, pal_arena *arena)
{
    int64_t start = pal_clock_monotonic_us(), now;
    size_t calls = 0;

    do {
        names n;

        names_make(fill_hash(of->dice++) % of->asked * (of->sessions / of->asked), &n);
        pal_arena_reset(arena);
        call(of, arena, &n);
        calls++;
        now = pal_clock_monotonic_us();
    } while (now - start < slice_us);
    return (double)(now - start) / (double)calls;
}

static void compare(side *large, side *small, size_t asked, const char *what, one_call call)
{
    pal_arena *arena = pal_arena_new(0);
    pairs p = {0};

    if (!arena)
        exit(1);
    large->asked = asked;
    small->asked = FEW;
    for (size_t i = 0; i <= rounds; i++) {
        double ours = slice(large, call, arena);
        pairs_add(&p, ours, slice(small, call, arena));
    }
    pal_arena_free(arena);
    pairs_print(what, &p, "");
}

int main(int argc, char **argv)
{
    const char *directory = ".";
    char title[96];
    side large = {0}, small = {0};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            many = 200;
            slice_us = 2000;
            rounds = 3;
        } else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc) {
            directory = argv[++i];
        } else {
            fprintf(stderr, "usage: bench-resolve [--quick] [--dir DIRECTORY]\n");
            return 2;
        }
    }
    side_open(&large, directory, many);
    side_open(&small, directory, FEW);
    snprintf(title, sizeof(title), "Microseconds a call, among %zu sessions and among %d", many,
            FEW);
    pairs_print_head(title, "many", "few");
    compare(&large, &small, many, "find any by key", by_key);
    compare(&large, &small, many, "find any by alias", by_alias);
    compare(&large, &small, many, "resolve any", by_resolve);
    compare(&large, &small, FEW, "find one of ten by key", by_key);
    compare(&large, &small, FEW, "find one of ten by alias", by_alias);
    compare(&large, &small, FEW, "resolve one of ten", by_resolve);
    side_close(&large);
    side_close(&small);
    return 0;
}
