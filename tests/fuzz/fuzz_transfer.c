/* fuzz_transfer.c - any bytes as an export of another system: nothing crashes, what was imported is
 * sound and can be exported in every form, and a second import adds nothing. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "palaver/palaver.h"
#include "transfer/transfer_export.h"
#include "transfer/transfer_import_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX ((size_t)1 << 30)
#define REQUIRE(condition) require((condition), #condition, __LINE__)

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_transfer.c:%d: %s\n", line, text);
    abort();
}

static pal_status keep_names(pal_import_begun *begun, void *user)
{
    (void)begun;
    (void)user;
    return PAL_OK;
}

static void on_problem(uint64_t line, const char *text, void *user)
{
    (void)line;
    (void)user;
    REQUIRE(text && *text);
}

/* Imports the text. Returns false if it was refused as a whole. */
static bool import(pal_store *store, pal_str text, pal_transcript_kind kind, pal_import_counts *out)
{
    pal_error err = {PAL_OK, ""};
    pal_import *to = pal_import_new(store, pal_str_of("default"), on_problem, NULL, &err);
    pal_import_reader reader = {
            .import = to, .begins = keep_names, .problem = on_problem, .err = &err};
    REQUIRE(to != NULL);
    pal_status status = pal_import_reader_open(&reader, kind);
    if (status == PAL_OK)
        status = pal_import_reader_text(&reader, text);
    if (status == PAL_OK)
        status = pal_import_reader_finish(&reader);
    if (status == PAL_OK)
        status = pal_import_flush(to);
    REQUIRE(status == PAL_OK || err.message[0]);
    *out = pal_import_count(to);
    pal_import_reader_close(&reader);
    pal_import_free(to);
    return status == PAL_OK;
}

static void export_session(pal_store *store, const pal_session *session, pal_export_form form)
{
    pal_export export = {.store = store,
            .tenant = pal_str_of("default"),
            .form = form,
            .with_blobs = true,
            .cwd = pal_str_of("/")};
    pal_error err = {PAL_OK, ""};
    bool more = true;
    pal_buf out;
    pal_buf_init(&out, TEXT_MAX);
    REQUIRE(pal_export_begin(&export, session, &out, &err) == PAL_OK);
    while (more)
        REQUIRE(pal_export_page(&export, &out, &more, &err) == PAL_OK);
    pal_export_end(&export);
    REQUIRE(!out.failure);
    pal_buf_done(&out);
}

static void export_all(pal_store *store)
{
    pal_session_query query = {.tenant = pal_str_of("default"), .limit = PAL_SESSION_PAGE_MAX};
    pal_session_page page;
    pal_error err = {PAL_OK, ""};
    pal_arena *arena = pal_arena_new(0);
    REQUIRE(arena && pal_store_list(store, &query, arena, &page, &err) == PAL_OK);
    for (size_t i = 0; i < page.sessions_len; i++) {
        for (pal_export_form form = PAL_EXPORT_NATIVE; form <= PAL_EXPORT_HTML; form++)
            export_session(store, &page.sessions[i], form);
    }
    pal_arena_free(arena);
}

static void try_as(pal_str text, pal_transcript_kind kind)
{
    pal_import_counts first, second;
    uint64_t findings = 0;
    pal_error err = {PAL_OK, ""};
    pal_store *store = NULL;
    REQUIRE(pal_store_open("memory:", NULL, &store, &err) == PAL_OK);
    bool is_done = import(store, text, kind, &first);
    if (first.messages) {
        REQUIRE(pal_store_check(store, false, NULL, NULL, NULL, &findings, &err) == PAL_OK);
        REQUIRE(findings == 0);
        export_all(store);
    }
    if (is_done && first.sessions) {
        REQUIRE(import(store, text, kind, &second));
        REQUIRE(second.sessions == 0 && second.messages == 0);
    }
    pal_store_close(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const pal_transcript_kind kinds[] = {PAL_TRANSCRIPT_CHATGPT, PAL_TRANSCRIPT_CLAUDE_AI,
            PAL_TRANSCRIPT_OPEN_WEBUI, PAL_TRANSCRIPT_LIBRECHAT};
    pal_str text = pal_str_make((const char *)data, size);
    try_as(text, PAL_TRANSCRIPT_AUTO);
    try_as(text, kinds[size % (sizeof kinds / sizeof *kinds)]);
    return 0;
}
