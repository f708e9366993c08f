/* test_store.c - every promise of store.h, for the backend whose URL is the first argument:
 *
 *   test_store memory:
 *   test_store sqlite: */
#include "contract/contract.h"

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
        {"trash", contract_trash},
        {"erasure", contract_erasure},
        {"turns", contract_turns},
        {"ledger", contract_ledger},
        {"records", contract_records},
        {"blobs", contract_blobs},
        {"batches", contract_batches},
        {"tenants", contract_tenants},
        {"twins", contract_twins},
        {"threads", contract_threads},
        {"async", contract_async},
        {"reopen", contract_reopen},
        {"upkeep", contract_upkeep},
};

int main(int argc, char **argv)
{
    if (!contract_begin(argc, argv, false))
        return 1;
    /* A second argument names one chapter to run alone. */
    for (size_t i = 0; i < sizeof chapters / sizeof chapters[0]; i++)
        if (argc < 3 || strcmp(argv[2], chapters[i].name) == 0)
            chapters[i].run();
    return contract_end();
}
