/* transfer_picoclaw_import.c - imports a PicoClaw directory into the store.
 *
 * Each session is read twice: once to import it, and again after the last commit, to compare the
 * store with the files. */
#include "transfer/transfer_picoclaw_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/utf8.h"

#define LOAD_PAGE 500

static pal_status import_message(pal_picoclaw_walk *w, pal_message *message, uint64_t line)
{
    return pal_import_message(w->import->import, message, line);
}

/* ---- The second reading ---- */

static pal_status want_message(pal_picoclaw_walk *w, pal_message *message, uint64_t line)
{
    (void)line;
    uint8_t *digest = pal_arena_alloc(w->arena, PAL_SHA256_SIZE);
    pal_str client_id = pal_arena_copy(w->arena, message->client_id);
    if (!digest || !client_id.len || pal_map_set(&w->wanted, client_id, digest) != PAL_OK)
        return pal_no_memory(w->import->err);
    return pal_picoclaw_digest(w, message, false, digest);
}

static pal_status differs(pal_picoclaw_walk *w, const char *how, uint64_t found)
{
    char name[PAL_PICOCLAW_NAME_SHOWN + 1];
    pal_str key = w->meta.key;
    snprintf(name, sizeof name, "%.*s", (int)pal_utf8_cut(key, PAL_PICOCLAW_NAME_SHOWN), key.data);
    return pal_error_set(w->import->err, PAL_CORRUPT,
            "session '%s' differs from its file: %s (%llu of %llu messages)", name,
            how, (unsigned long long)found, (unsigned long long)w->messages);
}

static pal_status compare(pal_picoclaw_walk *w, const pal_message_page *page, uint64_t *found)
{
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < page->len; i++) {
        uint8_t digest[PAL_SHA256_SIZE];
        const pal_message *message = &page->items[i];
        const uint8_t *wanted =
                message->client_id.len ? pal_map_remove(&w->wanted, message->client_id) : NULL;
        if (!wanted)
            continue;
        status = pal_picoclaw_digest(w, message, false, digest);
        if (status == PAL_OK && memcmp(digest, wanted, sizeof digest) != 0)
            return differs(w, "the text of a message differs", *found);
        ++*found;
    }
    return status;
}

/* Messages that the store rejected were reported at that time. */
static pal_status check_session(pal_picoclaw_walk *w)
{
    const pal_picoclaw_import *import = w->import;
    pal_session session;
    pal_message_query load = {.limit = LOAD_PAGE, .hidden = true};
    pal_message_page page = {0};
    uint64_t found = 0;
    char id[PAL_ID_TEXT_SIZE];
    bool is_named = pal_id_is_none(w->from->session);
    pal_id_to_text(w->from->session, id);
    pal_status status = pal_store_find(import->store, import->tenant,
            is_named ? PAL_SESSION_BY_KEY : PAL_SESSION_BY_ID,
            is_named ? w->meta.key : pal_str_of(id), w->arena, &session, import->err);
    if (status == PAL_NOT_FOUND && pal_import_count(w->import->import).failed)
        return PAL_OK;
    do {
        if (status != PAL_OK)
            break;
        pal_arena_reset(w->message_arena);
        status = pal_store_load(import->store, import->tenant, session.id, &load,
                w->message_arena, &page, import->err);
        if (status == PAL_OK && page.len)
            load.after_seq = page.items[page.len - 1].seq;
        if (status == PAL_OK)
            status = compare(w, &page, &found);
    } while (status == PAL_OK && page.has_more);
    if (status == PAL_OK && found < w->messages && !pal_import_count(w->import->import).failed)
        status = differs(w, "messages are missing", found);
    w->import->verified_sessions += status == PAL_OK;
    w->import->verified_messages += found;
    return status;
}

/* ---- All sessions ---- */

static pal_status walk_session(pal_picoclaw_import *import, pal_picoclaw_listing *list,
        pal_picoclaw_source *from, bool is_check)
{
    pal_picoclaw_walk w = {.import = import, .list = list, .from = from, .is_check = is_check};
    bool is_lines = from->lines || from->meta;
    pal_arena *page = is_check ? pal_arena_new(0) : NULL;
    pal_status status;
    w.arena = pal_arena_new(0);
    w.take = is_check ? want_message : import_message;
    w.message_arena = is_check ? page : pal_import_arena(import->import);
    pal_map_init(&w.seen);
    pal_map_init(&w.wanted);
    if (!w.arena || (is_check && !page)) {
        status = pal_no_memory(import->err);
        goto out;
    }
    status = is_lines ? pal_picoclaw_walk_lines(&w) : pal_picoclaw_walk_legacy(&w);
    if (status != PAL_OK)
        goto out;
    if (!is_check)
        from->session = pal_import_session(import->import);
    else if (!from->is_skipped)
        status = check_session(&w);
out:
    pal_map_done(&w.seen);
    pal_map_done(&w.wanted);
    pal_arena_free(w.arena);
    pal_arena_free(page);
    return status;
}

static pal_status walk_all(pal_picoclaw_import *import, pal_picoclaw_listing *list, bool is_check)
{
    pal_status status = PAL_OK;
    uint64_t done = is_check ? list->bytes : 0;
    for (size_t i = 0; status == PAL_OK && i < list->len; i++) {
        status = walk_session(import, list, &list->sources[i], is_check);
        done += list->sources[i].size;
        if (import->on_progress)
            import->on_progress(done, 2 * list->bytes, import->user);
    }
    return status;
}

pal_status pal_picoclaw_dir_check(const char *store_url, const char *dir, pal_error *err)
{
    static const char scheme[] = "jsonl:";
    struct stat ours, theirs;
    size_t len = sizeof scheme - 1;
    if (!store_url || strncmp(store_url, scheme, len) != 0 || stat(store_url + len, &ours) != 0 ||
            stat(dir, &theirs) != 0 || ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino)
        return PAL_OK;
    return pal_error_set(err, PAL_INVALID, "'%.160s' is the directory of the open store", dir);
}

pal_status pal_picoclaw_import_all(pal_picoclaw_import *import, const char *dir)
{
    pal_picoclaw_listing list = {0};
    pal_status status = pal_picoclaw_dir_check(import->store_url, dir, import->err);
    if (status != PAL_OK)
        return status;
    status = pal_picoclaw_list(import, dir, &list);
    if (status != PAL_OK)
        goto out;
    if (list.len == 0) {
        status = pal_error_set(import->err, PAL_NOT_FOUND,
                "'%.160s' has no sessions of PicoClaw", dir);
        goto out;
    }
    status = walk_all(import, &list, false);
    if (status != PAL_OK)
        goto out;
    status = pal_import_end(import->import);
    if (status != PAL_OK)
        goto out;
    status = pal_import_flush(import->import);
    if (status == PAL_OK)
        status = walk_all(import, &list, true);
out:
    pal_map_done(&list.by_base);
    pal_map_done(&list.aliases);
    return status;
}
