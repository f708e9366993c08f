/* config.c - the life of a configuration: it is read from a file, overridden, inspected and freed.
 * All of it is in one arena. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/config_row.h"
#include "palaver/limits.h"

#define READ_SIZE (64u << 10)
#define PREFIX "PALAVER_" /* prefix of environment variables that override keys */

/* ---- Life cycle ---- */

static pal_status fill(pal_config *config, pal_str text, const char *name, pal_error *err)
{
    pal_status status = PAL_OK;
    if (name) {
        config->name = pal_arena_copy(config->arena, pal_str_of(name)).data;
        if (!config->name)
            return pal_no_memory(err);
        status = pal_config_node_parse(config->arena, text, config->name, &config->root, err);
    }
    if (status == PAL_OK && config->root)
        status = pal_config_move(config->root, config->name, config->arena, &config->root,
                &config->warnings, err);
    if (status != PAL_OK)
        return status;
    return pal_config_state_read(
            config->root, name ? name : "defaults", config->arena, &config->state, err);
}

static pal_status make(pal_str text, const char *name, pal_config **out_config, pal_error *err)
{
    pal_status status = PAL_NO_MEMORY;
    pal_arena *arena = pal_arena_new(0);
    pal_config *config = arena ? pal_arena_alloc(arena, sizeof *config) : NULL;
    if (config) {
        config->arena = arena;
        status = fill(config, text, name, err);
    } else {
        pal_no_memory(err);
    }
    if (status == PAL_OK)
        *out_config = config;
    else
        pal_arena_free(arena);
    return status;
}

pal_status pal_config_parse(pal_str text, const char *name, pal_config **out_config, pal_error *err)
{
    return make(text, name && *name ? name : "configuration", out_config, err);
}

static pal_status fail_read(const char *path, int number, pal_error *err)
{
    pal_status status = PAL_IO;
    if (number == ENOENT || number == ENOTDIR)
        status = PAL_NOT_FOUND;
    else if (number == EACCES || number == EPERM)
        status = PAL_DENIED;
    return pal_config_fail(err, status, path, 0, "could not read the file: %s", strerror(number));
}

/* Reads at most one byte over the limit; then the limit rejects the file. */
static pal_status read_file(const char *path, int fd, pal_buf *buf, pal_error *err)
{
    ssize_t got;
    do {
        char *room = pal_buf_reserve(buf, READ_SIZE);
        if (!room)
            return pal_no_memory(err);
        got = read(fd, room, READ_SIZE);
        if (got > 0)
            pal_buf_commit(buf, (size_t)got);
    } while ((got > 0 && buf->len <= PAL_CONFIG_BYTES_MAX) || (got < 0 && errno == EINTR));
    return got < 0 ? fail_read(path, errno, err) : PAL_OK;
}

pal_status pal_config_load(const char *path, pal_config **out_config, pal_error *err)
{
    pal_buf buf;
    if (!path)
        return make(pal_str_make(NULL, 0), NULL, out_config, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_read(path, errno, err);
    pal_buf_init(&buf, PAL_CONFIG_BYTES_MAX + 2 * READ_SIZE);
    pal_status status = read_file(path, fd, &buf, err);
    if (status == PAL_OK)
        status = make(pal_buf_str(&buf), path, out_config, err);
    pal_buf_done(&buf);
    close(fd);
    return status;
}

void pal_config_free(pal_config *config)
{
    if (config)
        pal_arena_free(config->arena);
}

const pal_config_values *pal_config_get(const pal_config *config)
{
    return &config->state.values;
}

const char *pal_config_path(const pal_config *config)
{
    return config->name;
}

bool pal_config_warning_at(
        const pal_config *config, size_t index, pal_str *out_text, uint32_t *out_line)
{
    const pal_config_warning *warning = config->warnings;
    while (warning && index-- > 0)
        warning = warning->next;
    if (!warning)
        return false;
    *out_text = warning->text;
    *out_line = warning->line;
    return true;
}

/* ---- Overriding values ---- */

const char *pal_config_source_name(pal_config_source source)
{
    static const char *const names[] = {"default", "file", "environment", "flag"};
    return (size_t)source < sizeof names / sizeof *names ? names[source] : "unknown";
}

/* `name` is the name of the key in error messages. */
static pal_status override(pal_config *config, const char *key, const char *name, pal_str value,
        pal_config_source source, pal_error *err)
{
    size_t base;
    char wants[160];
    const pal_config_row *row = pal_config_row_find(key, &base);
    if (!row || !pal_config_row_is_scalar(row))
        return pal_config_fail(err, PAL_INVALID, name, 0,
                "is not a single key of the configuration");
    pal_config_override *entry = pal_arena_alloc(config->arena, sizeof *entry);
    pal_str text = pal_arena_copy(config->arena, value);
    if (!entry || !text.data)
        return pal_no_memory(err);
    char *field = (char *)&config->state + base + row->offset;
    pal_config_wants(row, wants, sizeof wants);
    if (memchr(text.data, '\0', text.len) || !pal_utf8_is_valid(text) ||
            !pal_config_value_read(row, text, true, config->arena, field))
        return pal_arena_failure(config->arena)
                ? pal_no_memory(err)
                : pal_config_fail(err, PAL_INVALID, name, 0, "must be %s", wants);
    *entry = (pal_config_override){row, source, config->overrides};
    config->overrides = entry;
    return PAL_OK;
}

pal_status pal_config_set(pal_config *config, const char *key, pal_str value,
        pal_config_source source, pal_error *err)
{
    pal_status status = override(config, key, key, value, source, err);
    pal_config_state_refresh(config->root, &config->state);
    return status;
}

/* Returns whether the name of a variable begins with the name of a section:
 * PALAVER_SERVER_ANYTHING. */
static bool is_of_section(pal_str name)
{
    pal_config_key key;
    for (size_t i = 0; pal_config_key_at(i, &key); i++) {
        const char *rest = key.environment[0] ? key.environment + strlen(PREFIX) : "";
        size_t len = strcspn(rest, "_") + 1;
        if (strchr(key.path, '.') && name.len > len && memcmp(name.data, rest, len) == 0)
            return true;
    }
    return false;
}

/* A variable without a key is a mistake if its name is similar to a key or begins with a
 * section. Any other name that begins with PALAVER_ belongs to another program. */
static pal_status check_variable(const char *variable, pal_error *err)
{
    pal_str name = pal_str_of(variable + strlen(PREFIX));
    pal_nearest nearest;
    pal_config_key key;
    char best[sizeof key.environment] = "";
    name.len = strcspn(name.data, "=");
    nearest = pal_nearest_make(name);
    for (size_t i = 0; pal_config_key_at(i, &key); i++) {
        pal_str known = pal_str_of(key.environment[0] ? key.environment + strlen(PREFIX) : "");
        if (pal_str_equal(name, known))
            return PAL_OK;
        if (known.len && pal_nearest_try(&nearest, known))
            snprintf(best, sizeof best, "%s", key.environment);
    }
    if (pal_str_is(name, "CONFIG") || (!best[0] && !is_of_section(name)))
        return PAL_OK;
    return pal_error_set(err, PAL_INVALID, "unknown environment variable '" PREFIX "%.*s'%s%s%s",
            PAL_EXCERPT(name, 100), best[0] ? "; did you mean '" : "", best, best[0] ? "'?" : "");
}

typedef struct environment_reader {
    pal_config *config;
    pal_error *err;
} environment_reader;

static pal_status read_variable(const char *path, const char *name, void *user)
{
    const environment_reader *reader = user;
    const char *value = getenv(name);
    if (!value || !*value)
        return PAL_OK;
    return override(reader->config, path, name, pal_str_of(value), PAL_CONFIG_ENVIRONMENT,
            reader->err);
}

pal_status pal_config_read_environment(pal_config *config, pal_error *err)
{
    environment_reader reader = {config, err};
    pal_status status = PAL_OK;
    size_t len = 0; /* usually 0: then no key has to be looked up */
    for (char **each = environ; each && *each; each++)
        len += strncmp(*each, PREFIX, strlen(PREFIX)) == 0;
    if (len > 0)
        status = pal_config_variables_each(read_variable, &reader);
    for (char **each = environ; status == PAL_OK && len > 0 && *each; each++) {
        if (strncmp(*each, PREFIX, strlen(PREFIX)) == 0)
            status = check_variable(*each, err);
    }
    pal_config_state_refresh(config->root, &config->state);
    return status;
}

/* ---- Where a value comes from ---- */

pal_config_source pal_config_row_source(
        const pal_config *config, const pal_config_row *row, const pal_config_node *node)
{
    for (const pal_config_override *o = config->overrides; o; o = o->next) {
        if (o->row == row)
            return o->source;
    }
    return pal_config_node_is_null(node) ? PAL_CONFIG_DEFAULT : PAL_CONFIG_FILE;
}

pal_config_source pal_config_source_of(const pal_config *config, const char *key)
{
    size_t base;
    const pal_config_row *row = pal_config_row_find(key, &base);
    const pal_config_node *node = config->root;
    if (!row)
        return PAL_CONFIG_DEFAULT;
    while (node && *key) {
        char name[PAL_CONFIG_KEY_SIZE];
        size_t len = strcspn(key, ".");
        snprintf(name, sizeof name, "%.*s", (int)len, key);
        node = pal_config_node_find(node, name);
        key += len + (key[len] == '.');
    }
    return pal_config_row_source(config, row, node);
}
