/* embed.c - a program that stores a conversation without a server.
 *
 *   cc embed.c -o embed $(pkg-config --cflags --libs palaver) && ./embed */
#include <palaver/palaver.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    pal_arena *arena = pal_arena_new(0); /* owns everything that is read; freed at the end */
    pal_store *store = NULL;
    pal_session session = {.key = pal_str_of("support:alice")};
    pal_message_query tail = {.from_end = true, .tokens_max = 2000};
    pal_message_page shown = {0};
    pal_error err = {0};
    if (!arena)
        return 1;
    pal_message messages[2] = {
        pal_message_text(arena, PAL_ROLE_USER, pal_str_of("Where is my parcel?")),
        pal_message_text(arena, PAL_ROLE_ASSISTANT, pal_str_of("It comes on Friday.")),
    };

    pal_status status = pal_store_open(argc > 1 ? argv[1] : "sqlite:chats.db", NULL, &store, &err);
    if (status == PAL_OK)
        status = pal_store_create(store, &session, &session.id, &err);
    if (status == PAL_CONFLICT) /* an earlier run created the session */
        status = pal_store_find(
                store, session.tenant, PAL_SESSION_BY_KEY, session.key, arena, &session, &err);
    if (status == PAL_OK) /* returns only after both messages are on disk */
        status = pal_store_append(
                store, session.tenant, session.id, messages, 2, PAL_SEQ_ANY, &err);
    if (status == PAL_OK)
        status = pal_store_load(store, session.tenant, session.id, &tail, arena, &shown, &err);
    for (size_t i = 0; i < shown.len; i++)
        printf("%2d %s: %.*s\n", (int)shown.items[i].seq, pal_role_name(shown.items[i].role),
                PAL_STR_ARG(shown.items[i].parts[0].text));
    if (status != PAL_OK)
        fprintf(stderr, "embed: %s\n", err.message);
    pal_store_close(store);
    pal_arena_free(arena);
    return status == PAL_OK ? 0 : 1;
}
