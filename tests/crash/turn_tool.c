/* turn_tool.c - an MCP server with a tool, "note", that has an effect: it appends its argument "id"
 * to a file, as a line. Some calls take a moment. The tool "peek" does the same, but declares that
 * it only reads.
 *
 *   turn_tool FILE */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json/json.h"
#include "dialect/dialect_member.h"

enum { MOMENT_US = 4000 };

static const char list[] =
        "{\"tools\":[{\"name\":\"note\",\"inputSchema\":{\"type\":\"object\",\"required\":[\"id\"]}},"
        "{\"name\":\"peek\",\"annotations\":{\"readOnlyHint\":true},"
        "\"inputSchema\":{\"type\":\"object\"}}]}";
static const char hello[] = "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},"
                            "\"serverInfo\":{\"name\":\"note\",\"version\":\"1\"}}";
static const char noted[] = "{\"content\":[{\"type\":\"text\",\"text\":\"noted\"}]}";
static int file = -1;

/* One write(2) to a file opened with O_APPEND: it is complete or absent. */
static void note(pal_json arguments, pal_arena *arena)
{
    struct timespec moment = {.tv_nsec = (long)(rand() % 2) * (rand() % MOMENT_US) * 1000};
    char line[96];
    int len = snprintf(
            line, sizeof(line), "%.*s\n", PAL_STR_ARG(pal_member_string(arguments, "id", arena)));

    if (write(file, line, (size_t)len) != len)
        exit(1);
    nanosleep(&moment, NULL);
}

static void answer(pal_json id, const char *member, const char *value)
{
    printf("{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"%s\":%s}\n", PAL_STR_ARG(pal_json_raw(id)), member,
            value);
    fflush(stdout);
}

static void take(pal_json message, pal_arena *arena)
{
    pal_json id = pal_json_find(message, "id"), method = pal_json_find(message, "method");
    pal_json params = pal_json_find(message, "params");

    if (pal_json_type_of(id) == PAL_JSON_NONE)
        return;
    if (pal_json_string_is(method, "initialize")) {
        answer(id, "result", hello);
    } else if (pal_json_string_is(method, "tools/list")) {
        answer(id, "result", list);
    } else if (pal_json_string_is(method, "tools/call")) {
        note(pal_json_find(params, "arguments"), arena);
        answer(id, "result", noted);
    } else {
        answer(id, "error", "{\"code\":-32601,\"message\":\"Method not found\"}");
    }
}

int main(int argc, char **argv)
{
    char *text = NULL;
    size_t cap = 0;
    ssize_t len;

    if (argc != 2)
        return 2;
    srand((unsigned)getpid());
    file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    while (file >= 0 && (len = getline(&text, &cap, stdin)) > 0) {
        pal_arena *arena = pal_arena_new(0);
        pal_json message;

        if (pal_json_parse(arena, pal_str_make(text, (size_t)len), NULL, &message, NULL) == PAL_OK)
            take(message, arena);
        pal_arena_free(arena);
    }
    free(text);
    return 0;
}
