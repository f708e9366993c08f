/* cmd_chat_attach.c - files that go with the next message: texts as text, images and PDFs as they
 * are. The bytes decide what a file is, because names can be wrong. */
#include "cli/chat/cmd_chat.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/utf8.h"

#define FENCE_LEN_MIN 3

typedef struct file_type {
    const char *bytes; /* how the file begins */
    size_t len;
    const char *media_type;
} file_type;

static const file_type types[] = {
        {"\x89PNG\r\n\x1a\n", 8, "image/png"},
        {"\xff\xd8\xff", 3, "image/jpeg"},
        {"GIF8", 4, "image/gif"},
        {"%PDF-", 5, "application/pdf"},
};

/* Returns the media type, or NULL if the file is none of the known types. */
static const char *type_of(pal_str data)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (data.len >= types[i].len && memcmp(data.data, types[i].bytes, types[i].len) == 0)
            return types[i].media_type;
    }
    bool is_webp = data.len >= 12 && memcmp(data.data, "RIFF", 4) == 0 &&
            memcmp(data.data + 8, "WEBP", 4) == 0;
    return is_webp ? "image/webp" : NULL;
}

/* Returns a length for the fences that the text itself does not contain. */
static int fence_len(pal_str text)
{
    int longest = 0, run = 0;
    for (size_t i = 0; i < text.len; i++) {
        run = text.data[i] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest < FENCE_LEN_MIN ? FENCE_LEN_MIN : longest + 1;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static pal_status make_text(pal_chat *chat, const char *path, pal_str data, pal_part *part)
{
    pal_buf text;
    char fence[64];
    int len = fence_len(data);
    if ((size_t)len >= sizeof fence || memchr(data.data, '\0', data.len) ||
            !pal_utf8_is_valid(data))
        return pal_error_set(&chat->cli->err, PAL_INVALID,
                "'%.160s' is not a text, an image or a PDF", path);
    memset(fence, '`', (size_t)len);
    fence[len] = '\0';
    pal_buf_init(&text, PAL_CLI_INPUT_MAX);
    pal_buf_format(&text, "%s:\n%s\n%.*s", name_of(path), fence, PAL_STR_ARG(data));
    if (data.len && data.data[data.len - 1] != '\n')
        pal_buf_append_char(&text, '\n');
    pal_buf_append_text(&text, fence);
    part->kind = PAL_PART_TEXT;
    part->text = pal_arena_copy(chat->attached_arena, pal_buf_str(&text));
    pal_status status = text.failure ? pal_cli_no_memory(chat->cli) : PAL_OK;
    pal_buf_done(&text);
    return status;
}

static pal_status make_part(pal_chat *chat, const char *path, pal_str data, pal_part *part)
{
    const char *type = type_of(data);
    *part = (pal_part){0};
    if (!type)
        return make_text(chat, path, data, part);
    part->kind = strncmp(type, "image/", 6) == 0 ? PAL_PART_IMAGE : PAL_PART_FILE;
    part->media_type = pal_str_of(type);
    part->data = pal_arena_copy(chat->attached_arena, data);
    if (part->kind == PAL_PART_FILE)
        part->name = pal_arena_copy(chat->attached_arena, pal_str_of(name_of(path)));
    return pal_arena_failure(chat->attached_arena) ? pal_cli_no_memory(chat->cli) : PAL_OK;
}

/* "~/a" is a name of the shell, which a chat does not have. */
static const char *expand(pal_chat *chat, const char *path)
{
    const char *home = getenv("HOME");
    if (strncmp(path, "~/", 2) != 0 || !home)
        return path;
    size_t size = strlen(home) + strlen(path);
    char *expanded = pal_arena_alloc(chat->attached_arena, size);
    if (!expanded)
        return path;
    snprintf(expanded, size, "%s%s", home, path + 1);
    return expanded;
}

pal_status pal_chat_attach(pal_chat *chat, const char *path)
{
    pal_cli *cli = chat->cli;
    pal_cli_input input;
    pal_str data;
    char size[PAL_CLI_SIZE_SIZE];
    struct stat info;
    if (chat->attached_len == PAL_CHAT_ATTACHED_MAX)
        return pal_error_set(&cli->err, PAL_LIMIT, "a message can have %d files",
                PAL_CHAT_ATTACHED_MAX);
    if (!chat->attached_arena && !(chat->attached_arena = pal_arena_new(0)))
        return pal_cli_no_memory(cli);
    path = expand(chat, path);
    if (strcmp(path, "-") == 0)
        return pal_error_set(&cli->err, PAL_INVALID, "'-' is not a file");
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return pal_error_set(&cli->err, PAL_INVALID, "'%.160s' is not a file", path);
    if (stat(path, &info) == 0 && info.st_size > PAL_BLOB_BYTES_MAX)
        return pal_error_set(&cli->err, PAL_LIMIT, "'%.160s' has more than %u MiB", path,
                PAL_BLOB_BYTES_MAX >> 20);
    pal_status status = pal_cli_input_open(cli, path, &input);
    if (status != PAL_OK)
        return status;
    status = pal_cli_input_all(cli, &input, &data);
    if (status == PAL_OK)
        status = make_part(chat, path, data, &chat->attached[chat->attached_len]);
    if (status == PAL_OK) {
        chat->attached_len++;
        pal_cli_size(data.len, size);
        if (chat->terminal) {
            pal_buf_append_text(&cli->out, "Attached ");
            pal_cli_clean(&cli->out, pal_str_of(path), false);
            pal_buf_format(&cli->out, ", %s.\n", size);
        }
    }
    pal_cli_input_close(&input);
    return status;
}

/* Returns whether the word, without its '@', names a file. A word that does not is only text. */
static bool is_file(pal_chat *chat, const char *path)
{
    struct stat info;
    return *path && stat(expand(chat, path), &info) == 0 && S_ISREG(info.st_mode);
}

pal_status pal_chat_attach_mentioned(pal_chat *chat, pal_str text)
{
    pal_status status = PAL_OK;
    if (!chat->attached_arena && !(chat->attached_arena = pal_arena_new(0)))
        return pal_cli_no_memory(chat->cli);
    for (size_t at = 0; status == PAL_OK && at < text.len; at++) {
        bool at_word = at == 0 || text.data[at - 1] == ' ' || text.data[at - 1] == '\n';
        size_t end = at + 1;
        if (!at_word || text.data[at] != '@')
            continue;
        while (end < text.len && text.data[end] != ' ' && text.data[end] != '\n')
            end++;
        if (end == at + 1)
            continue;
        pal_str path = pal_arena_copy(
                chat->attached_arena, pal_str_make(text.data + at + 1, end - at - 1));
        if (!path.data)
            return pal_cli_no_memory(chat->cli);
        if (is_file(chat, path.data))
            status = pal_chat_attach(chat, path.data);
        at = end;
    }
    return status;
}

pal_status pal_chat_take_attached(pal_chat *chat, pal_str text, pal_message *out_message)
{
    *out_message = pal_message_text(chat->arena, PAL_ROLE_USER, text);
    if (out_message->role == PAL_ROLE_NONE)
        return pal_cli_no_memory(chat->cli);
    if (chat->attached_len == 0)
        return PAL_OK;
    pal_part *parts = pal_arena_array(chat->arena, chat->attached_len + 1, sizeof *parts);
    if (!parts)
        return pal_cli_no_memory(chat->cli);
    parts[0] = out_message->parts[0];
    memcpy(parts + 1, chat->attached, chat->attached_len * sizeof *parts);
    out_message->parts = parts;
    out_message->parts_len = chat->attached_len + 1;
    return PAL_OK;
}

void pal_chat_drop_attached(pal_chat *chat)
{
    chat->attached_len = 0;
    if (chat->attached_arena)
        pal_arena_reset(chat->attached_arena);
}
