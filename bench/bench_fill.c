/* bench_fill.c - see bench_fill.h. */
#include "bench_fill.h"
#include "palaver/store_batch.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

const pal_str fill_tenant = {"default", 7};

static pthread_once_t text_once = PTHREAD_ONCE_INIT;
static char text[FILL_TEXT_MAX];

/* Common English words: the cost of a message depends on how it is cut into tokens. */
static void text_make(void)
{
    static const char *const words[] = {"the", "model", "answers", "a", "question", "about",
            "conversation", "and", "keeps", "what", "was", "said", "in", "order", "to", "find",
            "it", "again", "later", "when", "somebody", "asks", "for", "messages", "of", "last",
            "week", "that", "nobody", "remembers"};
    size_t len = 0;

    for (uint64_t i = 0; len < sizeof(text); i++) {
        const char *word = words[fill_hash(i) % (sizeof(words) / sizeof(words[0]))];

        while (*word && len < sizeof(text))
            text[len++] = *word++;
        if (len < sizeof(text))
            text[len++] = ' ';
    }
}

void fill_must(pal_status status, const pal_error *error)
{
    if (status == PAL_OK)
        return;
    fprintf(stderr, "bench-store: %s: %s\n", pal_status_name(status), error->message);
    exit(1);
}

uint64_t fill_hash(uint64_t x)
{
    x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

pal_id fill_session_id(size_t index)
{
    pal_id id;
    uint64_t high = fill_hash(index * 2), low = fill_hash(index * 2 + 1);

    memcpy(id.bytes, &high, 8);
    memcpy(id.bytes + 8, &low, 8);
    id.bytes[0] |= 1;
    return id;
}

static void ops_run(pal_store *store, pal_op *ops, size_t len)
{
    pal_error error = {0};

    fill_must(pal_store_apply(store, ops, len, &error), &error);
    for (size_t i = 0; i < len; i++)
        fill_must(ops[i].status, &ops[i].error);
}

void fill_sessions(pal_store *store, size_t from, size_t count)
{
    static pal_op ops[FILL_MESSAGES];
    static pal_session sessions[FILL_MESSAGES];

    for (size_t done = 0, len; done < count; done += len) {
        len = count - done < FILL_MESSAGES ? count - done : FILL_MESSAGES;
        for (size_t i = 0; i < len; i++) {
            sessions[i] = (pal_session){.tenant = fill_tenant};
            ops[i] = (pal_op){.kind = PAL_OP_CREATE, .tenant = fill_tenant};
            ops[i].session = fill_session_id(from + done + i);
            ops[i].u.create.session = &sessions[i];
        }
        ops_run(store, ops, len);
    }
}

pal_message fill_message(pal_part *part, size_t text_len)
{
    pal_message message = {.role = PAL_ROLE_USER, .parts = part, .parts_len = 1};

    assert(text_len <= FILL_TEXT_MAX);
    pthread_once(&text_once, text_make);
    *part = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_make(text, text_len)};
    return message;
}

void fill_messages(pal_store *store, size_t from, size_t count, size_t each, size_t text_len)
{
    static pal_op ops[FILL_MESSAGES];
    static pal_message messages[FILL_MESSAGES];
    static pal_part part;
    size_t per_commit = FILL_MESSAGES / each;

    for (size_t done = 0, len; done < count; done += len) {
        len = count - done < per_commit ? count - done : per_commit;
        for (size_t i = 0; i < len * each; i++)
            messages[i] = fill_message(&part, text_len);
        for (size_t i = 0; i < len; i++) {
            ops[i] = (pal_op){.kind = PAL_OP_APPEND, .tenant = fill_tenant};
            ops[i].session = fill_session_id(from + done + i);
            ops[i].u.append.messages = messages + i * each;
            ops[i].u.append.messages_len = each;
            ops[i].u.append.expected_seq = PAL_SEQ_ANY;
        }
        ops_run(store, ops, len);
    }
}
