/* oauth_file.c - the file with the login of one MCP server: its tokens and the registered client,
 * as one JSON object. Only the owner can read it.
 *
 * It is a file and not a record of the store, because stores are exported, copied and shared by
 * machines, and a token belongs to none of these.
 *
 * The file is written under another name, synced, and renamed. So a crash leaves the old file or
 * the new one, and at worst a file with the ending ".tmp", which the next write replaces. If a
 * crash comes between the response of the authorization server and the rename, the newest tokens
 * are lost: then a person must log in again, and nothing else is affected.
 *
 * These functions block: the loop calls them on a worker. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "tool/oauth/oauth_internal.h"

#define PATH_LEN_MAX 4096

pal_oauth_login pal_oauth_login_copy(const pal_oauth_login *login, pal_arena *arena)
{
    pal_oauth_login copy = *login;
    pal_str *texts[] = {&copy.url, &copy.resource, &copy.issuer, &copy.token_endpoint,
            &copy.client_id, &copy.client_secret, &copy.redirect_uri, &copy.scope,
            &copy.access_token, &copy.refresh_token, &copy.proof_key};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = pal_arena_copy(arena, *texts[i]);
    return copy;
}

/* ---- Reading ---- */

pal_status pal_oauth_file_load(
        const char *path, pal_arena *arena, pal_str *out_text, pal_error *err)
{
    pal_buf text;
    char bytes[4096];
    ssize_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pal_error_set(err, errno == ENOENT ? PAL_NOT_FOUND : PAL_IO,
                "could not open '%s': %s", path, strerror(errno));
    pal_buf_init(&text, PAL_OAUTH_FILE_BYTES_MAX);
    while ((len = read(fd, bytes, sizeof bytes)) > 0)
        pal_buf_append(&text, bytes, (size_t)len);
    int problem = errno;
    close(fd);
    pal_status status = PAL_OK;
    if (len < 0)
        status = pal_error_set(err, PAL_IO, "could not read '%s': %s", path, strerror(problem));
    else if (text.failure)
        status = pal_error_set(err, text.failure, "'%s' is too long", path);
    else
        *out_text = pal_arena_copy(arena, pal_buf_str(&text));
    explicit_bzero(bytes, sizeof bytes);
    pal_buf_done(&text);
    return status;
}

static pal_str text_of(pal_json json, const char *name, pal_arena *arena)
{
    return pal_json_string(pal_json_find(json, name), arena);
}

pal_status pal_oauth_file_read(
        const char *path, pal_arena *arena, pal_oauth_login *out_login, pal_error *err)
{
    pal_str text;
    pal_json json;
    pal_oauth_login login = {0};
    pal_status status = pal_oauth_file_load(path, arena, &text, err);
    if (status != PAL_OK)
        return status;
    if (pal_json_parse(arena, text, NULL, &json, NULL) != PAL_OK ||
            !pal_oauth_method_read(text_of(json, "method", arena), &login.method))
        return pal_error_set(err, PAL_CORRUPT, "'%s' is not a login; log in again", path);
    login.url = text_of(json, "url", arena);
    login.resource = text_of(json, "resource", arena);
    login.issuer = text_of(json, "issuer", arena);
    login.token_endpoint = text_of(json, "token_endpoint", arena);
    login.client_id = text_of(json, "client_id", arena);
    login.client_secret = text_of(json, "client_secret", arena);
    login.redirect_uri = text_of(json, "redirect_uri", arena);
    login.scope = text_of(json, "scope", arena);
    login.access_token = text_of(json, "access_token", arena);
    login.refresh_token = text_of(json, "refresh_token", arena);
    login.proof_key = text_of(json, "proof_key", arena);
    (void)pal_json_bool(pal_json_find(json, "is_registered"), &login.is_registered);
    (void)pal_json_i64(pal_json_find(json, "expires_ms"), &login.expires_ms);
    *out_login = login;
    return pal_arena_failure(arena) ? pal_no_memory(err) : PAL_OK;
}

/* ---- Writing ---- */

static void put_login(const pal_oauth_login *login, pal_buf *out)
{
    pal_json_writer json = pal_json_writer_make(out);
    pal_json_begin_object(&json);
    pal_put_str(&json, "url", login->url);
    pal_put_str(&json, "resource", login->resource);
    pal_put_str(&json, "issuer", login->issuer);
    pal_put_str(&json, "token_endpoint", login->token_endpoint);
    pal_put_str(&json, "client_id", login->client_id);
    pal_put_str_if(&json, "client_secret", login->client_secret);
    pal_put_text(&json, "method", pal_oauth_method_name(login->method));
    pal_put_str_if(&json, "redirect_uri", login->redirect_uri);
    pal_put_flag(&json, "is_registered", login->is_registered);
    pal_put_str_if(&json, "scope", login->scope);
    pal_put_str(&json, "access_token", login->access_token);
    pal_put_str_if(&json, "refresh_token", login->refresh_token);
    pal_put_number(&json, "expires_ms", login->expires_ms);
    pal_put_str_if(&json, "proof_key", login->proof_key);
    pal_json_end_object(&json);
    pal_buf_append_text(out, "\n");
}

/* Creates the directories of the path, for the owner only. */
static void make_directories(const char *path)
{
    char part[PATH_LEN_MAX];
    size_t len = strlen(path);
    if (len >= sizeof part)
        return;
    memcpy(part, path, len + 1);
    for (size_t i = 1; i < len; i++) {
        if (part[i] != '/')
            continue;
        part[i] = '\0';
        (void)mkdir(part, 0700);
        part[i] = '/';
    }
}

static bool write_all(int fd, pal_str text)
{
    while (text.len) {
        ssize_t len = write(fd, text.data, text.len);
        if (len < 0 && errno != EINTR)
            return false;
        text = pal_text_after(text, len > 0 ? (size_t)len : 0);
    }
    return fsync(fd) == 0;
}

/* Makes the rename durable. */
static void sync_directory(const char *path)
{
    char directory[PATH_LEN_MAX];
    snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash)
        *slash = '\0';
    int fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!fsync(fd);
    close(fd);
}

static bool replace_file(const char *path, pal_str text)
{
    char other[PATH_LEN_MAX];
    if ((size_t)snprintf(other, sizeof other, "%s.tmp", path) >= sizeof other) {
        errno = ENAMETOOLONG;
        return false;
    }
    make_directories(path);
    (void)unlink(other); /* a leftover of a crash could have other permissions */
    int fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool is_written = write_all(fd, text);
    int problem = errno;
    close(fd);
    if (is_written && rename(other, path) == 0) {
        sync_directory(path);
        return true;
    }
    if (!is_written)
        errno = problem;
    return false;
}

pal_status pal_oauth_file_write(const char *path, const pal_oauth_login *login, pal_error *err)
{
    pal_buf text;
    pal_status status = PAL_OK;
    pal_buf_init(&text, PAL_OAUTH_FILE_BYTES_MAX);
    put_login(login, &text);
    if (text.failure)
        status = pal_error_set(err, text.failure, "the login does not fit into '%s'", path);
    else if (!replace_file(path, pal_buf_str(&text)))
        status = pal_error_set(err, PAL_IO, "could not write '%s': %s", path, strerror(errno));
    if (text.data)
        explicit_bzero(text.data, text.len);
    pal_buf_done(&text);
    return status;
}
