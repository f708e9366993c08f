/* embed.c - a program that stores a conversation without a server.
 *
 *   cc embed.c -o embed $(pkg-config --cflags --libs palaver) && ./embed */
#include <palaver/palaver.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    pal_str tenant = {0}; /* empty: the default tenant */
    pal_str key = pal_str_of("support:alice");
    pal_session session = {.key = key};
    pal_message_query last = {.from_end = true, .tokens_max = 2000};
    pal_message_page page;
    pal_store *store = NULL;
    pal_error err = {0};

    pal_arena *arena = pal_arena_new(0); /* owns everything that is read */
    if (!arena)
        return 1;
    pal_message messages[2] = {
        pal_message_text(arena, PAL_ROLE_USER, pal_str_of("Where is my parcel?")),
        pal_message_text(arena, PAL_ROLE_ASSISTANT, pal_str_of("It comes on Friday.")),
    };

    pal_status status = pal_store_open(argc > 1 ? argv[1] : "sqlite:chats.db", NULL, &store, &err);
    if (status != PAL_OK)
        goto out;
    status = pal_store_create(store, &session, &session.id, &err);
    if (status == PAL_CONFLICT) /* an earlier run created the session */
        status = pal_store_find(store, tenant, PAL_SESSION_BY_KEY, key, arena, &session, &err);
    if (status != PAL_OK)
        goto out;

    /* Returns after both messages are on disk. */
    status = pal_store_append(store, tenant, session.id, messages, 2, PAL_SEQ_ANY, &err);
    if (status != PAL_OK)
        goto out;
    status = pal_store_load(store, tenant, session.id, &last, arena, &page, &err);
    if (status != PAL_OK)
        goto out;
    for (size_t i = 0; i < page.len; i++)
        printf("%2d %s: %.*s\n", (int)page.items[i].seq, pal_role_name(page.items[i].role),
                PAL_STR_ARG(page.items[i].parts[0].text));
out:
    if (status != PAL_OK)
        fprintf(stderr, "embed: %s\n", err.message);
    pal_store_close(store);
    pal_arena_free(arena);
    return status == PAL_OK ? 0 : 1;
}
