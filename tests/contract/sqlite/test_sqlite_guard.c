/* test_sqlite_guard.c - the SQLite file as a file: it is private from its creation, it is never
 * created through a symbolic link, and nothing is written to it after it was removed. A full disk
 * and an unreadable page are reported differently from damage. */
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/sqlite.h"
#include "support/disk/fault_vfs.h"
#include "support/sqlite_file.h"

static const char *const endings[] = {"", "-wal", "-shm"};

static void name_of(const char *ending, char out_name[600])
{
    snprintf(out_name, 600, "%s%s", test.path, ending);
}

static unsigned mode_of(const char *ending)
{
    struct stat info;
    char name[600];

    name_of(ending, name);
    return stat(name, &info) == 0 ? info.st_mode & 0777 : 0;
}

static pal_id create(void)
{
    pal_session session = {0};
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

static pal_status say(pal_id session, const char *text)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of(text)};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};

    return pal_store_append(test.store, (pal_str){0}, session, &message, 1, PAL_SEQ_ANY, &test.err);
}

static void a_new_file_is_private(void)
{
    mode_t before = umask(0);

    open_store(false);
    create();
    for (size_t i = 0; i < 3; i++)
        CHECK_EQ(mode_of(endings[i]), 0600);
    close_store();
    file_clear();
    umask(before);
}

static void an_existing_file_keeps_its_mode(void)
{
    open_store(false);
    close_store();
    CHECK_EQ(chmod(test.path, 0640), 0);
    open_store(false);
    create();
    CHECK_EQ(mode_of(""), 0640);
    close_store();
    file_clear();
}

static void a_link_to_nothing_is_refused(void)
{
    char target[600];

    name_of(".elsewhere", target);
    CHECK_EQ(symlink(target, test.path), 0);
    CHECK_FAILS(pal_store_open(test.url, NULL, &test.store, &test.err), PAL_DENIED, &test.err,
            "symbolic link");
    CHECK_THAT(access(target, F_OK), !=, 0);
    CHECK_EQ(unlink(test.path), 0);
    file_clear();
}

static void a_missing_directory_is_named(void)
{
    char missing[600];

    snprintf(missing, sizeof missing, "sqlite:%s/none/x.db", test.directory);
    CHECK_FAILS(pal_store_open(missing, NULL, &test.store, &test.err), PAL_IO, &test.err,
            "No such file or directory");
}

/* A removed or replaced file accepts no more writes, and the error says so. */
static void nothing_is_written_after_the_file_was_removed(void)
{
    for (size_t i = 0; i < 3; i++)
        for (int replaced = 0; replaced < 2; replaced++) {
            char name[600];
            FILE *file;
            pal_id id;

            open_store(false);
            id = create();
            OK(say(id, "kept"));
            OK(pal_store_ready(test.store, &test.err));
            name_of(endings[i], name);
            CHECK_EQ(unlink(name), 0);
            if (replaced && (file = fopen(name, "w")))
                fclose(file);
            CHECK_STATUS(say(id, "lost"), PAL_IO);
            CHECK_CONTAINS(test.err.message, name);
            CHECK_CONTAINS(test.err.message, replaced ? "replaced" : "removed");
            CHECK_STATUS(pal_store_ready(test.store, &test.err), PAL_IO, &test.err);
            close_store();
            file_clear();
        }
}

static void a_full_disk_is_reported_until_it_has_room(void)
{
    pal_id id;

    open_store(false);
    id = create();
    fault_vfs_arm(FAULT_FULL, 1);
    CHECK_STATUS(say(id, "too much"), PAL_FULL);
    CHECK_CONTAINS(test.err.message, "the disk is full");
    CHECK_STATUS(pal_store_ready(test.store, &test.err), PAL_FULL, &test.err);
    fault_vfs_clear();
    OK(say(id, "fits"));
    OK(pal_store_ready(test.store, &test.err));
    close_store();
    file_clear();
}

/* No call writes to a store that is not ready, so the store notices by itself. */
static void a_probe_notices_that_there_is_room_again(void)
{
    pal_id id;

    open_store(false);
    id = create();
    fault_vfs_arm(FAULT_FULL, 1);
    CHECK_STATUS(say(id, "too much"), PAL_FULL);
    fault_vfs_clear();
    OK(pal_store_ready(test.store, &test.err));
    OK(say(id, "fits"));
    close_store();
    file_clear();
}

static void an_unreadable_page_is_not_reported_as_damage(void)
{
    pal_message_page messages;
    pal_id id;

    open_store(false);
    id = create();
    OK(say(id, "hello"));
    close_store();
    open_store(false);
    fault_vfs_arm(FAULT_READ_PAGE, 1);
    CHECK_STATUS(
            pal_store_load(test.store, (pal_str){0}, id, NULL, test.arena, &messages, &test.err),
            PAL_IO, &test.err);
    CHECK(fault_vfs_fired());
    fault_vfs_clear();
    OK(pal_store_load(test.store, (pal_str){0}, id, NULL, test.arena, &messages, &test.err));
    CHECK_EQ(messages.len, 1);
    close_store();
    file_clear();
}

int main(void)
{
    fault_vfs_install();
    file_begin();
    RUN(a_new_file_is_private);
    RUN(an_existing_file_keeps_its_mode);
    RUN(a_link_to_nothing_is_refused);
    RUN(a_missing_directory_is_named);
    RUN(nothing_is_written_after_the_file_was_removed);
    RUN(a_full_disk_is_reported_until_it_has_room);
    RUN(a_probe_notices_that_there_is_room_again);
    RUN(an_unreadable_page_is_not_reported_as_damage);
    return file_done();
}
