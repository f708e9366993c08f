/* jsonl_dir.h - a directory for "jsonl:DIR": its files as a test writes them, the store in it, and
 * the texts that PicoClaw would read there. PicoClaw's rules are simple: lines that are not empty
 * are messages, and the first `skip` of them are hidden. Included by one file of a test program. */
#ifndef PAL_TESTS_JSONL_DIR_H
#define PAL_TESTS_JSONL_DIR_H

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/json/json.h"
#include "palaver/palaver.h"
#include "support/scratch.h"
#include "support/tap.h"

#define S(text) pal_str_of(text)

typedef struct fixture {
    char directory[SCRATCH_PATH_MAX], url[SCRATCH_PATH_MAX + 8];
    pal_store *store;
    pal_arena *arena;
    pal_error err;
} fixture;

static fixture test;

/* ---- Files ---- */

static inline void path_of(const char *name, char out_path[512])
{
    snprintf(out_path, 512, "%s/%s", test.directory, name);
}

static inline void put_bytes(const char *name, const char *data, size_t len, int flags)
{
    char path[512];
    int fd;

    path_of(name, path);
    fd = open(path, O_WRONLY | O_CREAT | flags, 0644);
    CHECK_THAT(fd, >=, 0);
    CHECK_EQ(write(fd, data, len), (ssize_t)len);
    close(fd);
}

static inline void put(const char *name, const char *text)
{
    put_bytes(name, text, strlen(text), O_TRUNC);
}

static inline void add(const char *name, const char *text)
{
    put_bytes(name, text, strlen(text), O_APPEND);
}

static inline pal_str get(const char *name)
{
    char path[512], *data;
    struct stat facts;
    pal_str text = {"", 0};
    int fd;

    path_of(name, path);
    fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &facts) != 0)
        return text;
    data = pal_arena_alloc(test.arena, (size_t)facts.st_size + 1);
    if (data && read(fd, data, (size_t)facts.st_size) == facts.st_size)
        text = pal_str_make(data, (size_t)facts.st_size);
    close(fd);
    return text;
}

static inline bool is_there(const char *name)
{
    char path[512];

    path_of(name, path);
    return access(path, F_OK) == 0;
}

static inline void rename_in(const char *from, const char *to)
{
    char from_path[512], to_path[512];

    path_of(from, from_path);
    path_of(to, to_path);
    CHECK_EQ(rename(from_path, to_path), 0);
}

static inline void unlink_in(const char *name)
{
    char path[512];

    path_of(name, path);
    CHECK_EQ(unlink(path), 0);
}

static inline void put_meta(const char *name, const char *key, const char *rest)
{
    char text[1024];

    snprintf(text, sizeof text,
            "{\n  \"key\": \"%s\",\n  \"summary\": \"\",\n  \"skip\": 0,\n  \"count\": 2,\n"
            "  \"created_at\": \"2026-11-15T18:45:57.959653442Z\",\n"
            "  \"updated_at\": \"2026-11-15T18:45:58.959653442Z\"%s\n}",
            key, rest);
    put(name, text);
}

/* ---- The store ---- */

static inline bool reopen(void)
{
    pal_store_close(test.store);
    test.store = NULL;
    if (CHECK_STATUS(pal_store_open(test.url, NULL, &test.store, &test.err), PAL_OK, &test.err))
        return true;
    printf("# %s\n", test.err.message);
    return false;
}

static inline void begin(void)
{
    pal_store_close(test.store);
    test.store = NULL;
    scratch_clear(test.directory, false);
    pal_arena_reset(test.arena);
}

static inline pal_id by_key(const char *key)
{
    pal_session session = {0};

    CHECK_STATUS(pal_store_find(test.store, S(""), PAL_SESSION_BY_KEY, S(key), test.arena, &session,
                         &test.err),
            PAL_OK, &test.err);
    return session.id;
}

static inline bool say(pal_id id, const char *text)
{
    pal_message message = pal_message_text(test.arena, PAL_ROLE_USER, S(text));

    return pal_store_append(test.store, S(""), id, &message, 1, PAL_SEQ_ANY, &test.err) == PAL_OK;
}

/* The visible texts, each followed by '
 * '. */
static inline const char *texts_of(pal_id id)
{
    pal_message_page messages = {0};
    char *text = pal_arena_alloc(test.arena, 65536);

    if (pal_store_load(test.store, S(""), id, NULL, test.arena, &messages, &test.err) != PAL_OK)
        return test.err.message;
    for (size_t i = 0; i < messages.len; i++)
        snprintf(text + strlen(text), 1000, "%.*s|",
                messages.items[i].parts_len ? (int)messages.items[i].parts[0].text.len : 0,
                messages.items[i].parts_len ? messages.items[i].parts[0].text.data : "");
    return text;
}

static inline bool shows(pal_id id, const char *wanted)
{
    const char *text = texts_of(id);

    if (strcmp(text, wanted) == 0)
        return true;
    printf("# wanted '%s', got '%s'\n", wanted, text);
    return false;
}

/* ---- PicoClaw's rules ---- */

static inline uint64_t meta_number(const char *name, const char *member)
{
    uint64_t number = UINT64_MAX;
    pal_json meta;

    if (pal_json_parse(test.arena, get(name), NULL, &meta, NULL) == PAL_OK)
        pal_json_u64(pal_json_find(meta, member), &number);
    return number;
}

/* The contents of all readable lines that are not skipped. */
static inline const char *picoclaw_reads(const char *base)
{
    char name[256], *text = pal_arena_alloc(test.arena, 65536);
    uint64_t skip, line = 0;
    pal_str lines;

    snprintf(name, sizeof name, "%s.meta.json", base);
    skip = meta_number(name, "skip");
    snprintf(name, sizeof name, "%s.jsonl", base);
    lines = get(name);
    for (size_t at = 0; at < lines.len;) {
        const char *end = memchr(lines.data + at, '\n', lines.len - at);
        size_t len = end ? (size_t)(end - lines.data) - at : lines.len - at;
        pal_json value;

        if (len > 0 && ++line > skip &&
                pal_json_parse(test.arena, pal_str_make(lines.data + at, len), NULL, &value,
                        NULL) == PAL_OK) {
            pal_str content = pal_json_string(pal_json_find(value, "content"), test.arena);

            snprintf(text + strlen(text), 1000, "%.*s|", PAL_STR_ARG(content));
        }
        at += len + 1;
    }
    return text;
}

static inline void dir_make(void)
{
    test.arena = pal_arena_new(0);
    scratch_make(true, test.directory);
    snprintf(test.url, sizeof test.url, "jsonl:%s", test.directory);
}

static inline void dir_done(void)
{
    pal_store_close(test.store);
    scratch_clear(test.directory, true);
    pal_arena_free(test.arena);
}

#endif
