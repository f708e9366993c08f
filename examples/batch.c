/* batch.c - a program that writes several things in one durable commit.
 *
 *   cc batch.c -o batch $(pkg-config --cflags --libs palaver) && ./batch
 *
 * Each operation succeeds or fails alone, unless it is joined to the one before it. Here the record
 * of a finished task is written only if the answer was appended. */
#include <palaver/palaver.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    pal_arena *arena = pal_arena_new(0); /* owns the parts of the messages */
    pal_store *store = NULL;
    pal_error err = {0};
    if (!arena)
        return 1;
    pal_session session = {.id = pal_id_new(), .title = pal_str_of("Parcel")};
    pal_message messages[2] = {
        pal_message_text(arena, PAL_ROLE_USER, pal_str_of("Where is my parcel?")),
        pal_message_text(arena, PAL_ROLE_ASSISTANT, pal_str_of("It comes on Friday.")),
    };
    pal_record task = {
        .kind = pal_str_of("task"),
        .name = pal_str_of("parcel"),
        .body = pal_str_of("{\"state\":\"answered\"}"),
    };
    pal_op ops[3] = {
        pal_op_create(&session),
        pal_op_append(session.tenant, session.id, messages, 2, 0),
        pal_op_record_put(session.tenant, &task, PAL_RECORD_VERSION_ANY),
    };
    ops[2].with_previous = true;

    pal_status status = pal_store_open(argc > 1 ? argv[1] : "sqlite:chats.db", NULL, &store, &err);
    if (status == PAL_OK) /* returns after all three operations are on disk */
        status = pal_store_apply(store, ops, 3, &err);
    for (size_t i = 0; i < 3 && status == PAL_OK; i++)
        printf("operation %zu: %s %s\n", i + 1, pal_status_name(ops[i].status),
                ops[i].error.message);
    if (status != PAL_OK)
        fprintf(stderr, "batch: %s\n", err.message);
    pal_store_close(store);
    pal_arena_free(arena);
    return status == PAL_OK ? 0 : 1;
}
