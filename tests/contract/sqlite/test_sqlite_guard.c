/* test_sqlite_guard.c - the SQLite file as a file: private from its creation, never made through a
 * link, and not written to after it was removed; a full disk and a page that can't be read are told
 * apart from damage. */
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/sqlite.h"
#include "support/disk/fault_vfs.h"
#include "support/sqlite_file.h"

static const char *const endings[] = {"", "-wal", "-shm"};

static void name_of(const char *ending, char out_name[600])
{
    snprintf(out_name, 600, "%s%s", path, ending);
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

    CHECK(fine(pal_store_create(store, &session, &id, &err)));
    return id;
}

static pal_status say(pal_id session, const char *text)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of(text)};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};

    return pal_store_append(store, (pal_str){0}, session, &message, 1, PAL_SEQ_ANY, &err);
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
    CHECK_EQ(chmod(path, 0640), 0);
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
    CHECK_EQ(symlink(target, path), 0);
    CHECK_FAILS(pal_store_open(url, NULL, &store, &err), PAL_DENIED, &err, "symbolic link");
    CHECK_THAT(access(target, F_OK), !=, 0);
    CHECK_EQ(unlink(path), 0);
    file_clear();
}

static void a_missing_directory_is_named(void)
{
    char missing[600];

    snprintf(missing, sizeof missing, "sqlite:%s/none/x.db", directory);
    CHECK_FAILS(
            pal_store_open(missing, NULL, &store, &err), PAL_IO, &err, "No such file or directory");
}

/* What was removed or replaced takes no more writes, and says so. */
static void nothing_is_written_after_a_file_is_gone(void)
{
    for (size_t i = 0; i < 3; i++)
        for (int replaced = 0; replaced < 2; replaced++) {
            char name[600];
            FILE *file;
            pal_id id;

            open_store(false);
            id = create();
            CHECK(fine(say(id, "kept")));
            CHECK(fine(pal_store_ready(store, &err)));
            name_of(endings[i], name);
            CHECK_EQ(unlink(name), 0);
            if (replaced && (file = fopen(name, "w")))
                fclose(file);
            CHECK_STATUS(say(id, "lost"), PAL_IO);
            CHECK_CONTAINS(err.message, name);
            CHECK_CONTAINS(err.message, replaced ? "replaced" : "removed");
            CHECK_STATUS(pal_store_ready(store, &err), PAL_IO, &err);
            close_store();
            file_clear();
        }
}

static void a_full_disk_is_told_until_it_has_room(void)
{
    pal_id id;

    open_store(false);
    id = create();
    fault_vfs_arm(FAULT_FULL, 1);
    CHECK_STATUS(say(id, "too much"), PAL_FULL);
    CHECK_CONTAINS(err.message, "the disk is full");
    CHECK_STATUS(pal_store_ready(store, &err), PAL_FULL, &err);
    fault_vfs_clear();
    CHECK(fine(say(id, "fits")));
    CHECK(fine(pal_store_ready(store, &err)));
    close_store();
    file_clear();
}

/* Nobody writes to a store that isn't ready, so it finds out by itself. */
static void a_probe_notices_that_there_is_room_again(void)
{
    pal_id id;

    open_store(false);
    id = create();
    fault_vfs_arm(FAULT_FULL, 1);
    CHECK_STATUS(say(id, "too much"), PAL_FULL);
    fault_vfs_clear();
    CHECK(fine(pal_store_ready(store, &err)));
    CHECK(fine(say(id, "fits")));
    close_store();
    file_clear();
}

static void a_page_that_cannot_be_read_is_no_damage(void)
{
    pal_message_page messages;
    pal_id id;

    open_store(false);
    id = create();
    CHECK(fine(say(id, "hello")));
    close_store();
    open_store(false);
    fault_vfs_arm(FAULT_READ_PAGE, 1);
    CHECK_STATUS(
            pal_store_load(store, (pal_str){0}, id, NULL, arena, &messages, &err), PAL_IO, &err);
    CHECK(fault_vfs_fired());
    fault_vfs_clear();
    CHECK(fine(pal_store_load(store, (pal_str){0}, id, NULL, arena, &messages, &err)));
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
    RUN(nothing_is_written_after_a_file_is_gone);
    RUN(a_full_disk_is_told_until_it_has_room);
    RUN(a_probe_notices_that_there_is_room_again);
    RUN(a_page_that_cannot_be_read_is_no_damage);
    return file_done();
}
