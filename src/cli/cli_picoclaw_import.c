/* cli_picoclaw_import.c - reads a PicoClaw directory into the store.
 *
 * Each session is read twice: once to import it, and after the last commit once more, to compare
 * what the store has with what the files say. A message is known again by a client id made of its
 * content and time, not of its line: PicoClaw's compaction moves lines, and what was imported
 * before must not come twice then, nor be missed.
 *
 * Lines before a meta's `skip` are out of sight there; they come along and go out of sight here
 * too, by a reset between them and the rest. */
#include "cli/cli_picoclaw.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/digest.h"
#include "base/map.h"
#include "base/utf8.h"
#include "dialect/dialect_native.h"

#define LOAD_PAGE 500
#define NAME_SHOWN 120
#define NAMELESS "picoclaw" /* the key of a session that has an empty one */

/* One session of the directory. */
typedef struct source {
    const char *base;
    const char *lines; /* paths; NULL where there is no such file */
    const char *meta;
    const char *legacy;
    uint64_t size;
    uint64_t lines_read; /* by the import: the second reading goes no further */
    bool is_skipped;
} source;

typedef struct walk walk;
typedef pal_status (*walk_message)(walk *w, pal_message *message, uint64_t line);

/* One reading of one session. */
struct walk {
    pal_picoclaw_import *import;
    struct listing *list;
    source *from;
    pal_arena *arena; /* of the session */
    pal_picoclaw_meta meta;
    bool is_check;
    uint64_t line;
    uint64_t counted; /* lines that PicoClaw counts: those that aren't empty */
    uint64_t messages;
    uint64_t hidden; /* of them: those before `skip` */
    int64_t time;    /* of the message before: for those that have none */
    pal_map seen;    /* content -> how often, as a pointer */
    pal_map wanted;  /* second reading: client id -> digest */
    walk_message take;
    pal_arena *message_arena;
};

static void tell(walk *w, uint64_t line, const char *what, const char *detail)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    if (w->is_check)
        return;
    snprintf(text, sizeof text, "%s%.*s", what, (int)(sizeof text / 2), detail);
    w->import->problem(line, text, w->import->user);
}

/* ---- The directory ---- */

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

typedef struct listing listing;
struct listing {
    source *sources;
    size_t len;
    size_t cap;
    uint64_t bytes;
    pal_map by_base; /* base -> its place plus 1, as a pointer */
    pal_map aliases; /* alias -> the key that has it, a pal_str */
};

static source *find_source(pal_picoclaw_import *import, listing *list, pal_str name)
{
    pal_arena *arena = import->cli->arena;
    uintptr_t place = (uintptr_t)pal_map_find(&list->by_base, name);
    if (place)
        return &list->sources[place - 1];
    if (list->len == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 64;
        source *sources = pal_arena_array(arena, cap, sizeof *sources);
        if (!sources)
            return NULL;
        if (list->len)
            memcpy(sources, list->sources, list->len * sizeof *sources);
        list->sources = sources;
        list->cap = cap;
    }
    pal_str base = pal_arena_copy(arena, name);
    if (pal_arena_failure(arena) != PAL_OK ||
            pal_map_set(&list->by_base, base, (void *)(uintptr_t)(list->len + 1)) != PAL_OK)
        return NULL;
    list->sources[list->len] = (source){.base = base.data ? base.data : ""};
    return &list->sources[list->len++];
}

static pal_status add_file(
        pal_picoclaw_import *import, listing *list, const char *dir, const char *name)
{
    struct stat info;
    pal_cli *cli = import->cli;
    size_t len = strlen(name), size = strlen(dir) + len + 2;
    const char *end = ends_with(name, ".meta.json") ? ".meta.json"
            : ends_with(name, ".jsonl")             ? ".jsonl"
            : ends_with(name, ".json")              ? ".json"
                                                    : NULL;
    if (!end)
        return PAL_OK;
    char *path = pal_arena_alloc(cli->arena, size);
    if (!path)
        return pal_cli_no_memory(cli);
    snprintf(path, size, "%s/%s", dir, name);
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return PAL_OK;
    source *from = find_source(import, list, pal_str_make(name, len - strlen(end)));
    if (!from)
        return pal_cli_no_memory(cli);
    if (strcmp(end, ".meta.json") == 0)
        from->meta = path;
    else if (strcmp(end, ".jsonl") == 0)
        from->lines = path;
    else
        from->legacy = path;
    from->size += (uint64_t)info.st_size;
    list->bytes += (uint64_t)info.st_size;
    return PAL_OK;
}

static int by_base(const void *a, const void *b)
{
    return strcmp(((const source *)a)->base, ((const source *)b)->base);
}

static pal_status list_directory(pal_picoclaw_import *import, const char *dir, listing *list)
{
    DIR *open_dir = opendir(dir);
    pal_status status = PAL_OK;
    if (!open_dir) {
        status = errno == ENOENT ? PAL_NOT_FOUND : errno == EACCES ? PAL_DENIED : PAL_IO;
        return pal_error_set(&import->cli->err, status, "can't read the directory '%.160s': %s",
                dir, strerror(errno));
    }
    for (struct dirent *entry; status == PAL_OK && (entry = readdir(open_dir));)
        status = add_file(import, list, dir, entry->d_name);
    closedir(open_dir);
    if (list->len)
        qsort(list->sources, list->len, sizeof *list->sources, by_base);
    for (size_t i = 0; status == PAL_OK && i < list->len; i++) {
        if (pal_map_set(&list->by_base, pal_str_of(list->sources[i].base),
                    (void *)(uintptr_t)(i + 1)) != PAL_OK)
            status = pal_cli_no_memory(import->cli);
    }
    return status;
}

/* ---- Messages ---- */

static pal_status digest_of(
        walk *w, const pal_message *message, bool with_time, uint8_t out_digest[PAL_SHA256_SIZE])
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_buf_format(
            &buf, "%d %lld ", (int)message->role, (long long)(with_time ? message->created_at : 0));
    pal_native_body_write(&buf, message);
    bool failed = buf.failure || pal_sha256(pal_buf_str(&buf), out_digest) != PAL_OK;
    pal_buf_done(&buf);
    return failed ? pal_cli_no_memory(w->import->cli) : PAL_OK;
}

/* The same content at the same time may be said twice: the second has a number. */
static pal_status name_message(walk *w, pal_message *message, pal_arena *arena)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char text[2 * PAL_SHA256_SIZE + 40] = "picoclaw:";
    pal_status status = digest_of(w, message, true, digest);
    if (status != PAL_OK)
        return status;
    pal_str content = pal_arena_copy(w->arena, pal_str_make((char *)digest, sizeof digest));
    uintptr_t times = content.len ? (uintptr_t)pal_map_find(&w->seen, content) + 1 : 0;
    if (!times || pal_map_set(&w->seen, content, (void *)times) != PAL_OK)
        return pal_cli_no_memory(w->import->cli);
    pal_hex(digest, PAL_SHA256_SIZE / 2, text + 9);
    if (times > 1)
        snprintf(text + 9 + PAL_SHA256_SIZE, 24, ":%llu", (unsigned long long)times);
    message->client_id = pal_arena_copy(arena, pal_str_of(text));
    return PAL_OK;
}

/* A store wants calls to have an id and a name; PicoClaw doesn't. */
static void name_calls(pal_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool is_call = parts[i].kind == PAL_PART_TOOL_CALL;
        if ((is_call || parts[i].kind == PAL_PART_TOOL_RESULT) && !parts[i].call_id.len)
            parts[i].call_id = pal_str_of("none");
        if (is_call && !parts[i].name.len)
            parts[i].name = pal_str_of("none");
    }
}

static pal_status take(walk *w, pal_message *message, uint64_t line)
{
    if (pal_picoclaw_is_transient(message))
        return PAL_OK;
    /* Ids are the tenant's: those of a line that we exported may be another session's here. */
    message->id = message->parent_id = (pal_id){{0}};
    message->seq = 0;
    name_calls(message->parts, message->parts_len);
    pal_status status = name_message(w, message, w->message_arena);
    if (!message->created_at)
        message->created_at = w->time;
    w->time = message->created_at;
    w->messages++;
    return status == PAL_OK ? w->take(w, message, line) : status;
}

/* ---- The first reading ---- */

static pal_status import_message(walk *w, pal_message *message, uint64_t line)
{
    return pal_import_message(w->import->store, message, line);
}

static pal_status session_marks(walk *w, pal_mark **out_marks, size_t *out_len)
{
    pal_cli *cli = w->import->cli;
    return pal_store_marks(cli->store, pal_cli_tenant(cli), pal_import_session(w->import->store),
            w->arena, out_marks, out_len, &cli->err);
}

static pal_status stored_session(walk *w, pal_session *out_session)
{
    pal_cli *cli = w->import->cli;
    char id[PAL_ID_TEXT_SIZE];
    pal_id_to_text(pal_import_session(w->import->store), id);
    return pal_store_find(cli->store, pal_cli_tenant(cli), PAL_FIND_ID, pal_str_of(id), w->arena,
            out_session, &cli->err);
}

/* All lines up to `skip` are in. Takes them out of sight, unless that was done before. */
static pal_status hide_skipped(walk *w)
{
    pal_mark *marks;
    size_t len;
    pal_session session;
    pal_import *store = w->import->store;
    const pal_mark reset = {.kind = PAL_MARK_RESET};
    w->hidden = w->messages;
    pal_status status = w->is_check ? PAL_OK : pal_import_flush(store);
    if (w->is_check || status != PAL_OK || pal_id_is_none(pal_import_session(store)) ||
            !w->messages)
        return status;
    status = session_marks(w, &marks, &len);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        if (marks[i].kind == PAL_MARK_RESET && !marks[i].undone)
            return PAL_OK;
    }
    if (status == PAL_OK)
        status = stored_session(w, &session);
    if (status != PAL_OK)
        return status;
    if (session.last_seq > w->messages) {
        tell(w, 0, "its oldest messages went out of sight there, but are here already: they stay",
                "");
        return PAL_OK;
    }
    return pal_import_mark_anew(store, &reset, 0);
}

/* The summary becomes a checkpoint that stands for what was skipped. */
static pal_status keep_summary(walk *w)
{
    pal_mark *marks;
    size_t len;
    pal_buf body;
    pal_import *store = w->import->store;
    pal_status status = w->meta.summary.len ? pal_import_flush(store) : PAL_OK;
    if (status != PAL_OK || !w->meta.summary.len || pal_id_is_none(pal_import_session(store)))
        return status;
    pal_buf_init(&body, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&body);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "summary");
    pal_json_put_str(&writer, w->meta.summary);
    pal_json_end_object(&writer);
    status = body.failure ? pal_cli_no_memory(w->import->cli) : session_marks(w, &marks, &len);
    while (status == PAL_OK && len > 0 &&
            (marks[len - 1].kind != PAL_MARK_CHECKPOINT || marks[len - 1].undone))
        len--;
    if (status == PAL_OK && (len == 0 || !pal_str_equal(marks[len - 1].body, pal_buf_str(&body)))) {
        pal_mark mark = {.kind = PAL_MARK_CHECKPOINT, .seq = w->hidden, .body = pal_buf_str(&body)};
        status = pal_import_mark_anew(store, &mark, 0);
    }
    pal_buf_done(&body);
    return status;
}

/* ---- Sessions ---- */

/* Whether the alias is the main session's, and this isn't it. */
static bool is_main_of_another(pal_str key, pal_str alias)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char opaque[6 + 2 * PAL_SHA256_SIZE + 1] = "sk_v1_";
    if (!pal_picoclaw_is_main_alias(alias) || pal_str_equal(key, alias) ||
            pal_sha256(alias, digest) != PAL_OK)
        return false;
    pal_hex(digest, sizeof digest, opaque + 6);
    return !pal_str_is(key, opaque);
}

static bool is_taken(walk *w, pal_str key, pal_str alias)
{
    pal_cli *cli = w->import->cli;
    pal_session other;
    const pal_str *first = pal_map_find(&w->list->aliases, alias);
    if (first)
        return !pal_str_equal(*first, key);
    return pal_store_find(cli->store, pal_cli_tenant(cli), PAL_FIND_ALIAS, alias, w->arena, &other,
                   NULL) == PAL_OK &&
            !pal_str_equal(other.key, key);
}

/* The first session that has an alias keeps it. */
static pal_status claim_alias(walk *w, pal_str key, pal_str alias)
{
    pal_arena *arena = w->import->cli->arena;
    char name[NAME_SHOWN + 1];
    if (is_taken(w, key, alias)) {
        snprintf(name, sizeof name, "%.*s", (int)pal_utf8_cut(alias, NAME_SHOWN), alias.data);
        tell(w, 0, "an alias leads to another session already, and stays so: ", name);
        return PAL_OK;
    }
    pal_str *holder = pal_arena_alloc(arena, sizeof *holder);
    alias = pal_arena_copy(arena, alias);
    if (!holder || !alias.len)
        return pal_cli_no_memory(w->import->cli);
    *holder = pal_arena_copy(arena, key);
    return pal_map_set(&w->list->aliases, alias, holder) == PAL_OK
            ? PAL_OK
            : pal_cli_no_memory(w->import->cli);
}

static pal_status name_session(walk *w, pal_session *session, pal_arena *arena)
{
    pal_status status = PAL_OK;
    const pal_picoclaw_meta *meta = &w->meta;
    session->key = pal_arena_copy(arena, meta->key);
    session->is_routed = true;
    session->aliases = pal_arena_array(arena, meta->aliases_len + 1, sizeof(pal_str));
    for (size_t i = 0; session->aliases && status == PAL_OK && i < meta->aliases_len; i++) {
        pal_str alias = pal_arena_copy(arena, meta->aliases[i]);
        if (!alias.len || pal_str_equal(alias, session->key))
            continue;
        session->aliases[session->aliases_len++] = alias;
        if (is_main_of_another(session->key, alias))
            session->alias_apart = alias;
        else
            status = claim_alias(w, session->key, alias);
    }
    return status;
}

/* Where it came from, and what we have no field for. */
static pal_str metadata_of(walk *w, pal_arena *arena)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "source");
    pal_json_put_text(&writer, "picoclaw");
    if (w->meta.updated_at.len) {
        pal_json_name(&writer, "updated_at");
        pal_json_put_str(&writer, w->meta.updated_at);
    }
    if (w->meta.extra.len) {
        pal_json_name(&writer, "picoclaw");
        pal_json_put_raw(&writer, w->meta.extra);
    }
    pal_json_end_object(&writer);
    pal_str text = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

static pal_status begin(walk *w)
{
    pal_json scope = {0};
    pal_session session = {0};
    pal_cli *cli = w->import->cli;
    pal_arena *arena = pal_import_arena(w->import->store);
    pal_status status = name_session(w, &session, arena);
    if (w->meta.scope.len && pal_json_parse(arena, w->meta.scope, NULL, &scope, NULL) == PAL_OK &&
            pal_json_type_of(scope) == PAL_JSON_OBJECT) {
        session.scope = pal_arena_copy(arena, w->meta.scope);
        pal_json agent = pal_json_find(scope, "agent_id");
        session.agent = pal_arena_copy(arena, pal_json_string(agent, w->arena));
    }
    session.created_at = w->meta.created_at_ms;
    session.metadata = metadata_of(w, arena);
    if (w->import->project)
        session.project = pal_str_of(w->import->project);
    if (status == PAL_OK && pal_arena_failure(arena) != PAL_OK)
        status = pal_cli_no_memory(cli);
    return status == PAL_OK ? pal_import_begin(w->import->store, &session, false) : status;
}

/* ---- Reading one session ---- */

static pal_status read_whole(walk *w, const char *path, pal_str *out_text)
{
    pal_cli *cli = w->import->cli;
    pal_cli_input input;
    pal_str text;
    pal_status status = pal_cli_input_open(cli, path, &input);
    if (status != PAL_OK)
        return status;
    status = pal_cli_input_all(cli, &input, &text);
    if (status == PAL_OK) {
        *out_text = pal_arena_copy(w->arena, text);
        if (pal_arena_failure(w->arena) != PAL_OK)
            status = pal_cli_no_memory(cli);
    }
    pal_cli_input_close(&input);
    return status;
}

/* A damaged meta costs what only it knew: the key, the summary, what was out of sight. */
static void read_meta(walk *w)
{
    pal_str text;
    pal_error why;
    if (w->from->meta &&
            (read_whole(w, w->from->meta, &text) != PAL_OK ||
                    pal_picoclaw_meta_read(text, w->arena, &w->meta, &why) != PAL_OK)) {
        *w->import->file = w->from->meta;
        tell(w, 0, "the meta file can't be read, the session is imported without it", "");
        w->meta = (pal_picoclaw_meta){0};
    }
    if (!w->meta.key.len)
        w->meta.key = pal_str_of(w->from->base[0] ? w->from->base : NAMELESS);
    w->time = w->meta.created_at_ms;
}

static pal_status read_line(walk *w, const pal_cli_line *line)
{
    pal_message message;
    pal_error why;
    pal_status status = PAL_OK;
    if (w->meta.skip && w->counted == w->meta.skip)
        status = hide_skipped(w);
    w->counted++;
    if (status != PAL_OK)
        return status;
    if (line->too_long) {
        tell(w, w->line, "the line is too long: skipped", "");
        return PAL_OK;
    }
    status = pal_picoclaw_line_read(line->text, w->message_arena, &message, &why);
    if (status == PAL_OK)
        return take(w, &message, w->line);
    if (status == PAL_NO_MEMORY)
        return pal_cli_no_memory(w->import->cli);
    tell(w, w->line, "skipped: ", why.message);
    return PAL_OK;
}

static pal_status read_lines(walk *w)
{
    pal_picoclaw_import *import = w->import;
    pal_cli_input input;
    pal_cli_line line;
    bool has = false;
    *import->file = w->from->lines;
    pal_status status = pal_cli_input_open(import->cli, w->from->lines, &input);
    if (status != PAL_OK)
        return status;
    while (status == PAL_OK && (!w->is_check || w->line < w->from->lines_read)) {
        status = pal_cli_input_line(import->cli, &input, &line, &has);
        if (status != PAL_OK || !has)
            break;
        w->line++;
        if (line.text.len || line.too_long)
            status = read_line(w, &line);
        if (status == PAL_OK && !w->is_check)
            status = pal_import_settle(import->store, line.text.len);
        else
            pal_arena_reset(w->message_arena);
    }
    if (status == PAL_OK && w->meta.skip && w->counted <= w->meta.skip)
        status = hide_skipped(w);
    w->from->lines_read = w->line;
    pal_cli_input_close(&input);
    return status;
}

static pal_status read_legacy(walk *w, pal_picoclaw_legacy *legacy)
{
    pal_status status = PAL_OK;
    *w->import->file = w->from->legacy;
    if (legacy->skipped)
        tell(w, 0, "some of its messages are none: skipped", "");
    for (size_t i = 0; status == PAL_OK && i < legacy->messages_len; i++) {
        w->line++;
        w->message_arena = w->is_check ? w->message_arena : pal_import_arena(w->import->store);
        status = take(w, &legacy->messages[i], w->line);
    }
    /* Its messages lie in this walk's arena, which goes before they would be written. */
    return status == PAL_OK && !w->is_check ? pal_import_flush(w->import->store) : status;
}

/* An older file that was migrated already has its lines beside it, under the name of its key. */
static pal_status open_legacy(walk *w, pal_picoclaw_legacy *legacy, bool *out_use)
{
    const listing *list = w->list;
    pal_str text;
    pal_error why;
    *out_use = false;
    *w->import->file = w->from->legacy;
    pal_status status = read_whole(w, w->from->legacy, &text);
    if (status != PAL_OK)
        return status;
    if (pal_picoclaw_legacy_read(text, w->arena, legacy, &why) != PAL_OK) {
        tell(w, 0, "skipped: ", why.message);
        return PAL_OK;
    }
    w->meta = (pal_picoclaw_meta){.key = legacy->key.len ? legacy->key : pal_str_of(w->from->base),
            .summary = legacy->summary,
            .created_at_ms = legacy->created_at_ms,
            .updated_at_ms = legacy->updated_at_ms};
    w->time = legacy->created_at_ms;
    pal_str base = pal_picoclaw_base(w->meta.key, w->arena);
    uintptr_t place = (uintptr_t)pal_map_find(&list->by_base, base);
    *out_use = !place || !list->sources[place - 1].lines;
    if (!*out_use)
        tell(w, 0, "skipped: its session has been migrated, its lines are there", "");
    return PAL_OK;
}

/* A file that can't be read costs its session, and nothing else. */
static bool can_read(walk *w, const char *path)
{
    if (!path || access(path, R_OK) == 0)
        return true;
    *w->import->file = path;
    w->from->is_skipped = true;
    tell(w, 0, "skipped: can't be read: ", strerror(errno));
    return false;
}

static pal_status walk_lines(walk *w)
{
    if (!can_read(w, w->from->lines) || !can_read(w, w->from->meta))
        return PAL_OK;
    read_meta(w);
    *w->import->file = w->from->lines ? w->from->lines : w->from->meta;
    pal_status status = w->is_check ? PAL_OK : begin(w);
    if (status == PAL_OK && w->from->lines)
        status = read_lines(w);
    return status == PAL_OK && !w->is_check ? keep_summary(w) : status;
}

static pal_status walk_legacy(walk *w)
{
    pal_picoclaw_legacy legacy;
    bool use;
    if (!can_read(w, w->from->legacy))
        return PAL_OK;
    pal_status status = open_legacy(w, &legacy, &use);
    w->from->is_skipped = !use;
    if (status != PAL_OK || !use)
        return status;
    if (!w->is_check)
        status = begin(w);
    if (status == PAL_OK)
        status = read_legacy(w, &legacy);
    return status == PAL_OK && !w->is_check ? keep_summary(w) : status;
}

/* ---- The second reading ---- */

static pal_status want_message(walk *w, pal_message *message, uint64_t line)
{
    (void)line;
    uint8_t *digest = pal_arena_alloc(w->arena, PAL_SHA256_SIZE);
    pal_str client_id = pal_arena_copy(w->arena, message->client_id);
    if (!digest || !client_id.len || pal_map_set(&w->wanted, client_id, digest) != PAL_OK)
        return pal_cli_no_memory(w->import->cli);
    return digest_of(w, message, false, digest);
}

static pal_status differs(walk *w, const char *how, uint64_t found)
{
    char name[NAME_SHOWN + 1];
    pal_str key = w->meta.key;
    snprintf(name, sizeof name, "%.*s", (int)pal_utf8_cut(key, NAME_SHOWN), key.data);
    return pal_error_set(&w->import->cli->err, PAL_CORRUPT,
            "session '%s' is not the same here as in its file: %s (%llu of %llu messages)", name,
            how, (unsigned long long)found, (unsigned long long)w->messages);
}

static pal_status compare(walk *w, const pal_messages *page, uint64_t *found)
{
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < page->len; i++) {
        uint8_t digest[PAL_SHA256_SIZE];
        const pal_message *message = &page->items[i];
        const uint8_t *wanted =
                message->client_id.len ? pal_map_remove(&w->wanted, message->client_id) : NULL;
        if (!wanted)
            continue;
        status = digest_of(w, message, false, digest);
        if (status == PAL_OK && memcmp(digest, wanted, sizeof digest) != 0)
            return differs(w, "a message has another text", *found);
        ++*found;
    }
    return status;
}

/* What the store would not take was told when it was refused. */
static pal_status check_session(walk *w)
{
    pal_cli *cli = w->import->cli;
    pal_session session;
    pal_load load = {.limit = LOAD_PAGE, .hidden = true};
    pal_messages page = {0};
    uint64_t found = 0;
    pal_status status = pal_store_find(cli->store, pal_cli_tenant(cli), PAL_FIND_KEY, w->meta.key,
            w->arena, &session, &cli->err);
    if (status == PAL_NOT_FOUND && pal_import_count(w->import->store).failed)
        return PAL_OK;
    do {
        if (status != PAL_OK)
            break;
        pal_arena_reset(w->message_arena);
        status = pal_store_load(cli->store, pal_cli_tenant(cli), session.id, &load,
                w->message_arena, &page, &cli->err);
        if (status == PAL_OK && page.len)
            load.after_seq = page.items[page.len - 1].seq;
        if (status == PAL_OK)
            status = compare(w, &page, &found);
    } while (status == PAL_OK && page.has_more);
    if (status == PAL_OK && found < w->messages && !pal_import_count(w->import->store).failed)
        status = differs(w, "messages are missing", found);
    w->import->verified_sessions += status == PAL_OK;
    w->import->verified_messages += found;
    return status;
}

/* ---- All of them ---- */

static pal_status walk_session(
        pal_picoclaw_import *import, listing *list, source *from, bool is_check)
{
    walk w = {.import = import, .list = list, .from = from, .is_check = is_check};
    bool is_lines = from->lines || from->meta;
    pal_arena *page = is_check ? pal_arena_new(0) : NULL;
    pal_status status = PAL_OK;
    w.arena = pal_arena_new(0);
    w.take = is_check ? want_message : import_message;
    w.message_arena = is_check ? page : pal_import_arena(import->store);
    pal_map_init(&w.seen);
    pal_map_init(&w.wanted);
    if (!w.arena || (is_check && !page))
        status = pal_cli_no_memory(import->cli);
    if (status == PAL_OK)
        status = is_lines ? walk_lines(&w) : walk_legacy(&w);
    if (status == PAL_OK && is_check && !from->is_skipped)
        status = check_session(&w);
    pal_map_done(&w.seen);
    pal_map_done(&w.wanted);
    pal_arena_free(w.arena);
    pal_arena_free(page);
    return status;
}

static pal_status walk_all(pal_picoclaw_import *import, listing *list, bool is_check)
{
    pal_status status = PAL_OK;
    uint64_t done = is_check ? list->bytes : 0;
    for (size_t i = 0; status == PAL_OK && i < list->len; i++) {
        status = walk_session(import, list, &list->sources[i], is_check);
        done += list->sources[i].size;
        pal_cli_progress_set(import->progress, done, 2 * list->bytes);
    }
    return status;
}

pal_status pal_cli_picoclaw_check(pal_cli *cli, const char *dir)
{
    static const char scheme[] = "jsonl:";
    struct stat ours, theirs;
    size_t len = sizeof scheme - 1;
    if (strncmp(cli->store_url, scheme, len) != 0 || stat(cli->store_url + len, &ours) != 0 ||
            stat(dir, &theirs) != 0 || ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino)
        return PAL_OK;
    return pal_error_set(&cli->err, PAL_INVALID, "'%.160s' is the store itself", dir);
}

pal_status pal_cli_picoclaw_import(pal_picoclaw_import *import, const char *dir)
{
    listing list = {0};
    pal_status status = pal_cli_picoclaw_check(import->cli, dir);
    if (status == PAL_OK)
        status = list_directory(import, dir, &list);
    if (status == PAL_OK && list.len == 0)
        status = pal_error_set(&import->cli->err, PAL_NOT_FOUND,
                "there are no sessions of PicoClaw's in '%.160s'", dir);
    if (status == PAL_OK)
        status = walk_all(import, &list, false);
    if (status == PAL_OK)
        status = pal_import_flush(import->store);
    if (status == PAL_OK)
        status = walk_all(import, &list, true);
    pal_map_done(&list.by_base);
    pal_map_done(&list.aliases);
    return status;
}
