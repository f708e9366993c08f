/* cut_check.c - see cut_check.h. */
#include "cut_check.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/memory.h"
#include "support/disk/disk_state.h"

static const script_texts *texts;
static bool may_repair;
static char url_read[512], url_copy[512];

static bool is_one_of(const char *text, size_t index)
{
    for (size_t i = index; text && i <= index + 1 && i < texts->len; i++)
        if (strcmp(text, texts->texts[i]) == 0)
            return true;
    return false;
}

static bool wrong(const char *what, const char *text, size_t index)
{
    printf("# %s shows\n%s# and not\n%s# nor\n%s", what, text ? text : "nothing\n",
            texts->texts[index], index + 1 < texts->len ? texts->texts[index + 1] : "\n");
    return false;
}

/* A process that may not write. The store may not exist yet, or not be complete. */
static bool reads(const char *url, size_t index)
{
    pal_store_options options = {.read_only = true};
    char *text = store_text_at(url, true);
    bool held = is_one_of(text, index) ||
            (index <= 1 && strncmp(text, "not opened:", 11) == 0) ||
            wrong("a reader", text, index);
    pal_store *store = NULL;
    pal_error err;

    pal_free(text);
    if (pal_store_open(url, &options, &store, &err) == PAL_OK)
        held = (store_findings(store, false) == 0 || may_repair) && held;
    pal_store_close(store);
    return held;
}

/* ---- What was erased ---- */

static bool is_erased[SCRIPT_MESSAGES_MAX + 1], is_erased_gone;

/* Texts of the script begin with 'm', a number and a blank. */
static bool is_known(size_t number, const char *text)
{
    char word[32];

    snprintf(word, sizeof word, ":m%zu ", number);
    return strstr(text, word) != NULL;
}

static int look_into(const char *path, const struct stat *facts, int kind, struct FTW *walk)
{
    char *data = kind == FTW_F ? pal_malloc((size_t)facts->st_size + 1) : NULL, word[32];
    int fd = data ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    (void)walk;
    if (fd >= 0 && read(fd, data, (size_t)facts->st_size) == facts->st_size)
        for (size_t number = 1; number <= SCRIPT_MESSAGES_MAX; number++) {
            int len = snprintf(word, sizeof word, "\"m%zu ", number);

            if (is_erased[number] && memmem(data, (size_t)facts->st_size, word, (size_t)len)) {
                printf("# '%s' has the erased message %zu\n", path, number);
                is_erased_gone = false;
            }
        }
    if (fd >= 0)
        close(fd);
    pal_free(data);
    return 0;
}

/* The files of the store must not contain anything that was erased. */
static bool erased_is_gone(const char *url, const char *text, size_t index)
{
    for (size_t number = 1; number <= SCRIPT_MESSAGES_MAX; number++) {
        is_erased[number] = false;
        if (!is_known(number, text))
            for (size_t i = index + 1; i-- > 0 && !is_erased[number];)
                is_erased[number] = is_known(number, texts->texts[i]);
    }
    is_erased_gone = true;
    nftw(url + strlen("jsonl:"), look_into, 16, FTW_PHYS);
    return is_erased_gone;
}

/* ---- Who may write ---- */

/* The writer keeps what it finds, and can continue. */
static bool writes(const char *what, const char *url, size_t index)
{
    pal_store *store = NULL;
    pal_error err;
    char *text, *again;
    bool held;

    if (pal_store_open(url, NULL, &store, &err) != PAL_OK) {
        printf("# %s: %s\n", what, err.message);
        return false;
    }
    text = store_text(store);
    held = is_one_of(text, index) || wrong(what, text, index);
    held = store_findings(store, true) == 0 && held;
    pal_store_close(store);
    if (text && strncmp(url, "jsonl:", 6) == 0)
        held = erased_is_gone(url, text, index) && held;
    again = store_text_at(url, true);
    if (!again || !text || strcmp(again, text) != 0)
        held = wrong("the next reader", again, index);
    pal_free(again);
    pal_free(text);
    return held;
}

static bool goes_on(const char *url)
{
    pal_session given = {.key = pal_str_of("goes on")};
    pal_arena *arena = pal_arena_new(0);
    pal_store *store = NULL;
    pal_message_page messages = {0};
    pal_message message;
    bool held = false;
    pal_error err;
    pal_id id;

    if (pal_store_open(url, NULL, &store, &err) == PAL_OK &&
            pal_store_create(store, &given, &id, &err) == PAL_OK) {
        message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of("still here"));
        held = pal_store_append(store, pal_str_of(""), id, &message, 1, PAL_SEQ_ANY, &err) ==
                        PAL_OK &&
                pal_store_load(store, pal_str_of(""), id, NULL, arena, &messages, &err) ==
                        PAL_OK &&
                messages.len == 1 && store_findings(store, false) == 0;
    }
    if (!held)
        printf("# it does not go on: %s\n", err.message);
    pal_store_close(store);
    pal_arena_free(arena);
    return held;
}

static bool in_process(bool (*check)(size_t index), size_t index)
{
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        bool held = check(index);

        fflush(stdout);
        _exit(held ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool check_reader(size_t index)
{
    return reads(url_read, index);
}

static bool check_writer(size_t index)
{
    return writes("a writer", url_read, index) && goes_on(url_read);
}

static bool check_copy(size_t index)
{
    return writes("a copy", url_copy, index);
}

bool cut_holds(bool is_jsonl, const char *root, const char *copy, const script_texts *given,
        size_t index, bool is_damaged)
{
    bool held;

    texts = given;
    may_repair = is_damaged;
    script_url(is_jsonl, root, url_read);
    script_url(is_jsonl, copy, url_copy);
    held = in_process(check_reader, index);
    disk_copy(root, copy);
    held = in_process(check_copy, index) && held;
    return in_process(check_writer, index) && held;
}
