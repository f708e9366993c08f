/* test_store.c - every promise of store.h, for the backend whose URL is the first argument:
 *
 *   test_store memory:
 *   test_store sqlite: */
#include "contract/contract.h"

#include <stdlib.h>
#include <string.h>

typedef struct chapter {
    const char *name;
    void (*run)(void);
} chapter;

static const chapter chapters[] = {
        {"sessions", contract_sessions},
        {"resolve", contract_resolve},
        {"lists", contract_lists},
        {"messages", contract_messages},
        {"loads", contract_loads},
        {"forks", contract_forks},
        {"model", contract_model},
        {"active marks", contract_active_marks},
        {"search", contract_search},
        {"best", contract_best},
        {"trash", contract_trash},
        {"erasure", contract_erasure},
        {"erase message", contract_erase_message},
        {"turns", contract_turns},
        {"ledger", contract_ledger},
        {"records", contract_records},
        {"blobs", contract_blobs},
        {"batches", contract_batches},
        {"all", contract_all},
        {"tenants", contract_tenants},
        {"twins", contract_twins},
        {"threads", contract_threads},
        {"async", contract_async},
        {"reopen", contract_reopen},
        {"upkeep", contract_upkeep},
};

/* Further arguments name chapters to run alone, unless the long run wants all of them. */
static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc < 3 || getenv("PAL_ALL_CHAPTERS");
}

int main(int argc, char **argv)
{
    if (!contract_begin(argc, argv, false))
        return 1;
    for (size_t i = 0; i < sizeof chapters / sizeof chapters[0]; i++)
        if (is_wanted(chapters[i].name, argc, argv))
            chapters[i].run();
    return contract_end();
}
