/* terminal_complete.c - what the Tab key can insert: the commands of a chat at the beginning of a
 * line, and the names of files after '@' and after commands that take a file. */
#include "cli/terminal/terminal_complete.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/memory.h"

#define NAMES_BYTES_MAX ((size_t)64 << 10)
#define PATH_SIZE 4096

static const char *const file_commands[] = {"/attach ", "/export "};

void pal_complete_init(pal_complete *complete)
{
    *complete = (pal_complete){0};
    pal_buf_init(&complete->names, NAMES_BYTES_MAX);
}

void pal_complete_done(pal_complete *complete)
{
    pal_buf_done(&complete->names);
}

/* Adds a candidate that begins with what was typed. */
static void add(pal_complete *complete, const char *name, const char *end)
{
    const char *first;
    size_t common = 0;
    bool is_first = complete->len == 0;
    if (complete->len == PAL_COMPLETE_MAX)
        return;
    size_t at = complete->names.len;
    pal_buf_append_text(&complete->names, name);
    pal_buf_append_text(&complete->names, end);
    pal_buf_append_char(&complete->names, '\0');
    if (complete->names.failure)
        return;
    first = complete->names.data;
    const char *last = complete->names.data + at;
    while (last[common] && first[common] == last[common])
        common++;
    while (common > 0 && ((unsigned char)first[common] & 0xc0) == 0x80)
        common--; /* no part of a character */
    if (is_first || common < complete->common)
        complete->common = common;
    complete->len++;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_directory(const char *directory, const char *name)
{
    char path[PATH_SIZE];
    struct stat info;
    int len = snprintf(path, sizeof path, "%s/%s", directory, name);
    return len > 0 && (size_t)len < sizeof path && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Sets the directory of the path, with the home directory in place of '~'. */
static bool directory_of(pal_str path, char directory[PATH_SIZE])
{
    const char *home = getenv("HOME");
    bool is_home = path.len > 1 && path.data[0] == '~' && path.data[1] == '/' && home;
    size_t len = path.len;
    while (len > 0 && path.data[len - 1] != '/')
        len--;
    int written = is_home ? snprintf(directory, PATH_SIZE, "%s/%.*s", home, (int)(len - 2),
                                    path.data + 2)
                          : snprintf(directory, PATH_SIZE, "%.*s", (int)len, path.data);
    if (written == 0)
        snprintf(directory, PATH_SIZE, ".");
    return written >= 0 && written < PATH_SIZE;
}

static void add_files(pal_complete *complete, pal_str path)
{
    char directory[PATH_SIZE];
    size_t begin = path.len;
    while (begin > 0 && path.data[begin - 1] != '/')
        begin--;
    pal_str typed = pal_str_make(path.data + begin, path.len - begin);
    DIR *open = directory_of(path, directory) ? opendir(directory) : NULL;
    complete->typed = typed.len;
    if (!open)
        return;
    char **names = NULL;
    size_t len = 0;
    for (struct dirent *entry; len < PAL_COMPLETE_MAX && (entry = readdir(open));) {
        bool is_hidden = entry->d_name[0] == '.' && (!typed.len || typed.data[0] != '.');
        if (is_hidden || strncmp(entry->d_name, typed.len ? typed.data : "", typed.len) != 0)
            continue;
        char **more = pal_realloc(names, (len + 1) * sizeof *names);
        char *name = pal_malloc(strlen(entry->d_name) + 1);
        if (more)
            names = more;
        if (!more || !name) {
            pal_free(name);
            break;
        }
        memcpy(name, entry->d_name, strlen(entry->d_name) + 1);
        names[len++] = name;
    }
    closedir(open);
    if (len)
        qsort(names, len, sizeof *names, by_name);
    for (size_t i = 0; i < len; i++) {
        add(complete, names[i], is_directory(directory, names[i]) ? "/" : "");
        pal_free(names[i]);
    }
    pal_free(names);
    complete->is_file = true;
}

static bool takes_file(pal_str line, pal_str *out_path)
{
    for (size_t i = 0; i < sizeof file_commands / sizeof *file_commands; i++) {
        size_t len = strlen(file_commands[i]);
        if (line.len < len || memcmp(line.data, file_commands[i], len) != 0)
            continue;
        *out_path = pal_str_make(line.data + len, line.len - len);
        return true;
    }
    return false;
}

void pal_complete_line(pal_complete *complete, pal_str line, const char *const *words)
{
    pal_str path;
    size_t begin = line.len;
    if (takes_file(line, &path)) {
        add_files(complete, path);
        return;
    }
    while (begin > 0 && line.data[begin - 1] != ' ' && line.data[begin - 1] != '\n')
        begin--;
    if (begin < line.len && line.data[begin] == '@') {
        add_files(complete, pal_str_make(line.data + begin + 1, line.len - begin - 1));
        return;
    }
    complete->typed = line.len;
    for (size_t i = 0; line.len > 0 && words[i]; i++) {
        if (strncmp(words[i], line.data, line.len) == 0)
            add(complete, words[i], "");
    }
}
