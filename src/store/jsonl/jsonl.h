/* jsonl.h - the structures of the backend "jsonl:DIR", for the jsonl*.c files only.
 *
 * The state of the store is a "memory:" engine. The structures here connect that engine to the
 * files. The top of jsonl.c describes the files, and why a crash loses nothing that was
 * acknowledged.
 *
 * Threads: a thread that changes anything holds jsonl_engine.lock for writing. While it reads or
 * writes files, it also holds the lock of the directory. */
#ifndef PAL_JSONL_H
#define PAL_JSONL_H

#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include "base/buf.h"
#include "base/json/json.h"
#include "store/memory/memory_store.h"

#define JSONL_SIDE ".palaver"
#define JSONL_LOG JSONL_SIDE "/log"
#define JSONL_PATH_MAX 1024

/* The effect of the last batch on a file, as long as the batch may be unfinished. The batch's first
 * record for the file describes the file before the batch: `at` bytes with the checksum `sum`. */
typedef struct jsonl_late {
    char *from;    /* path before the batch moved the file, allocated; NULL: it was not moved */
    pal_buf lines; /* the lines that the batch appended */
    uint64_t at, sum;
    bool has_sum;   /* false: the log has an older version without checksums, and `inode` is
                       compared instead */
    ino_t inode;    /* 0: the file did not exist yet */
    int64_t now_ms; /* when the lines were appended */
    char *found;    /* read-only stores: name of the file that contains the lines now; allocated */
    pal_buf text;   /* read-only stores: the contents of the file after the batch is finished */
    bool has_text;
} jsonl_late;

/* The file with the lines of one session. */
typedef struct jsonl_file {
    pal_id id;
    pal_str tenant; /* stored after the struct, like `key` */
    pal_str key;    /* the key in jsonl_engine.files */
    char *path;     /* path without extension, relative to the directory; allocated */
    uint64_t size;  /* number of bytes of the file that have been read or written */
    uint64_t sum;   /* checksum of these bytes */
    uint64_t lines; /* number of lines that are not empty, readable or not */
    uint64_t *bad;  /* numbers of the unreadable lines, from 1 */
    size_t bad_len, bad_cap;
    uint64_t zeros;       /* number of zero bytes that a power cut left in the lines */
    bool is_open_ended;   /* the last line has no newline */
    bool is_logged;       /* the log contains the session's record */
    uint64_t mark_logged; /* the log contains the session's marks up to this number */
    bool is_touched;      /* the current batch changes the file */
    char *moved_from;     /* path of the file until the batch is written; allocated */
    ino_t inode;          /* 0: the file does not exist yet */
    ino_t named_inode;    /* inode of the file whose name is known to be durable */
    jsonl_late *late;        /* allocated; NULL: the last batch is finished or did not change it */
    bool is_unmarked;     /* the session's marks are invalid, but the log does not say so yet */
    bool has_erased;      /* the file must be written again without the erased messages */
    bool is_followed;     /* another process wrote to the file */
    bool is_unreadable;   /* the file has lines, but they cannot be read; `trouble` says why */
    pal_error *trouble;   /* the reason why the file cannot be written, allocated; or NULL */
    size_t append_last;   /* number of the file's last append in the batch, from 1; 0: none */
    ino_t meta_inode;     /* 0: the meta file does not exist yet */
    struct timespec meta_time;
    char *meta; /* text of the meta file when it was last read or written; allocated */
    size_t meta_len;
    struct jsonl_file *next_touched;
} jsonl_file;

/* One record of the log, while the log is read. */
typedef struct jsonl_record {
    pal_json json;
    pal_str tail; /* the bytes after the JSON: lines or a body */
} jsonl_record;

/* Lines that the batch appends. */
typedef struct jsonl_append {
    jsonl_file *file;
    uint64_t at; /* offset in the file */
    uint64_t sum; /* checksum of the file's bytes before `at` */
    size_t from; /* offset in jsonl_batch.lines */
    size_t len;
    uint64_t lines;
    size_t next;      /* number of the next append to the same file, from 1; 0: none */
    bool is_follower; /* another append to the same file comes before this one */
    bool is_begun;    /* a part of the lines may already be in the file */
} jsonl_append;

/* A message that the last batch of the log erases. Its line may still be in the file. */
typedef struct jsonl_erased {
    jsonl_file *file;
    uint64_t seq;
} jsonl_erased;

typedef struct jsonl_engine {
    pal_engine base;
    pal_store_options options;
    pthread_rwlock_t lock;
    pal_engine *memory;
    memory_engine *mem;            /* the same object as `memory` */
    bool is_stale;              /* memory and disk differ: everything must be loaded again */
    char location[JSONL_PATH_MAX]; /* path of the directory, for messages */
    char real_path[PATH_MAX];   /* the same, absolute and without links; empty: unknown */
    int dir_fd;
    int lock_fd;
    int log_fd; /* -1: the log does not exist (read-only) */
    dev_t log_dev;
    ino_t log_inode;
    uint64_t log_len;
    uint64_t log_kept;       /* length of the log when it was last loaded or rewritten */
    char log_tail[64];       /* the frame "done" at the end of the log, which may not be synced */
    size_t log_tail_len;     /* 0: the whole log is synced */
    uint64_t log_gaps;       /* number of damaged places in the log that destroyed records */
    uint64_t log_holes;      /* number of places where a record "done" never reached the disk */
    uint64_t log_lost;       /* number of damaged places that the log had when it was rewritten */
    bool is_late;            /* the last batch of the log may be unfinished */
    bool is_settled;         /* while the log is read: the last batch is recorded as finished */
    bool is_late_erasing;    /* the last batch erases something */
    bool is_log_new;         /* while the log is read: it was rewritten and then not extended */
    bool is_doubtful;        /* a write or sync failed: data that was undone may still be on disk */
    size_t orphans;          /* number of forks whose parent did not exist when they were read */
    pal_error passed_over;   /* the last error of a file or directory that was skipped */
    uint64_t batch;          /* number of the last batch */
    struct timespec scanned; /* modification time of the directory when it was last scanned */
    jsonl_erased *erased;    /* messages that the last batch erases; allocated */
    size_t erased_len, erased_cap;
    jsonl_file *followed;    /* linked by next_touched, while batches of other processes are read */
    pal_map files;           /* jsonl_file by id and tenant */
    pal_map paths;           /* jsonl_file by path */
} jsonl_engine;

/* The data that one apply() writes. */
typedef struct jsonl_batch {
    jsonl_engine *engine;
    pal_arena *arena;
    pal_buf log;
    pal_buf lines;
    size_t last_frame; /* offset of the last frame in `log`; this frame ends the batch */
    jsonl_append *appends;
    size_t appends_len, appends_cap;
    jsonl_file *touched;
    bool is_erasing;
    uint32_t frames;
    bool has_moves;
} jsonl_batch;

#define JSONL_SUM_START 0xcbf29ce484222325u /* checksum of an empty text */
#define JSONL_DONE "{\"is\":\"done\"}"

/* ---- jsonl_line.c ---- */

/* Appends the row's line with its newline. Returns PAL_LIMIT if the line is too long for
 * PicoClaw. */
PAL_CHECKED pal_status pal_jsonl_line_write(
        pal_buf *buf, const pal_row *row, pal_arena *arena, pal_error *err);
/* Parses a line into a row. A message without an id gets an id that is derived from the session,
 * the position and the line. Returns PAL_INVALID if the line is not a message; the caller then
 * skips the line. */
PAL_CHECKED pal_status pal_jsonl_line_read(const pal_store_options *options, pal_str line,
        pal_id session, uint64_t seq, int64_t otherwise_ms, pal_arena *arena, pal_row *out_row,
        pal_error *err);
/* Builds the row that the store would keep for this message. */
PAL_CHECKED pal_status pal_jsonl_row_of(const pal_store_options *options,
        const pal_message *message, pal_arena *arena, pal_row *out_row, pal_error *err);
/* Derives an id from the text. The same text always has the same id. */
PAL_CHECKED pal_status pal_jsonl_id_of(
        const char *kind, pal_str text, pal_id *out_id, pal_error *err);

/* ---- jsonl_file.c ---- */

jsonl_file *pal_jsonl_file_find(jsonl_engine *engine, pal_str tenant, pal_id id);
/* Creates the file object if it does not exist. Returns NULL if memory runs out. */
jsonl_file *pal_jsonl_file_get(jsonl_engine *engine, pal_str tenant, pal_id id);
void pal_jsonl_file_drop(jsonl_engine *engine, jsonl_file *file);
void pal_jsonl_files_clear(jsonl_engine *engine);
PAL_CHECKED pal_status pal_jsonl_file_set_path(
        jsonl_engine *engine, jsonl_file *file, const char *path, pal_error *err);
/* Returns the path that the session's lines must have, according to its present state and key. */
PAL_CHECKED pal_status pal_jsonl_place(jsonl_engine *engine, const memory_session *session,
        const jsonl_file *file, pal_arena *arena, char out_path[JSONL_PATH_MAX], pal_error *err);
/* Removes the session's files. */
PAL_CHECKED pal_status pal_jsonl_file_unlink(
        jsonl_engine *engine, const jsonl_file *file, pal_error *err);
/* Removes the file with the lines that fsck set aside. */
PAL_CHECKED pal_status pal_jsonl_aside_unlink(
        jsonl_engine *engine, const jsonl_file *file, pal_error *err);
/* Adds the lines to the session in memory. */
PAL_CHECKED pal_status pal_jsonl_rows_add(jsonl_engine *engine, memory_session *session,
        jsonl_file *file, pal_str lines, pal_arena *arena, pal_error *err);
/* Reads the whole file. */
PAL_CHECKED pal_status pal_jsonl_rows_load(
        jsonl_engine *engine, memory_session *session, jsonl_file *file, pal_error *err);
/* Rewrites the file with the rows of the session. */
PAL_CHECKED pal_status pal_jsonl_rows_save(
        jsonl_engine *engine, memory_session *session, jsonl_file *file, pal_error *err);
/* Records why the file cannot be used. The session is kept, and calls that use it report the
 * reason. */
PAL_CHECKED pal_status pal_jsonl_file_fault(jsonl_file *file, const pal_error *why, pal_error *err);
/* Returns whether another program has changed the file since it was read, or whether it could not
 * be used then. */
bool pal_jsonl_file_changed(jsonl_engine *engine, const jsonl_file *file);
void pal_jsonl_file_path(const jsonl_file *file, const char *ending, char out_path[JSONL_PATH_MAX]);
/* Returns the path of a session's lines while the file is being moved, is in the trash, or is kept
 * for its forks. */
void pal_jsonl_side_path(pal_str tenant, pal_id id, char out_path[JSONL_PATH_MAX]);
/* Returns the path for lines that are not messages and that fsck sets aside. */
void pal_jsonl_aside_path(const jsonl_file *file, char out_path[JSONL_PATH_MAX]);
/* Removes zero bytes from the beginning of the line. PicoClaw does not sync its lines, so a power
 * cut can replace some of them by zeros, after which our line was appended. The zeros are not part
 * of the line. */
void pal_jsonl_zeros_pass(pal_str *line);
bool pal_jsonl_line_is_blank(pal_str line);

/* ---- jsonl_disk.c ---- */

/* Returns PAL_IO, or PAL_DENIED if permission is missing, with the text of the system's error. */
pal_status pal_jsonl_io(pal_error *err, const char *what, const char *path);
/* Sets an error from errno for a path that cannot be used: PAL_DENIED, PAL_FULL or PAL_IO. The text
 * has the path, the reason and, if known, a remedy. */
pal_status pal_jsonl_refused(jsonl_engine *engine, pal_error *err, const char *path);
/* Writes at the end of the file, which must be `at`. Returns PAL_BUSY if another program has
 * appended in between. */
PAL_CHECKED pal_status pal_jsonl_append_at(
        int fd, pal_str data, uint64_t at, const char *path, pal_error *err);
PAL_CHECKED pal_status pal_jsonl_write_at(
        int fd, pal_str data, uint64_t at, const char *path, pal_error *err);
/* Reads the whole file. Returns PAL_NOT_FOUND without a message if it does not exist. */
PAL_CHECKED pal_status pal_jsonl_read_file(jsonl_engine *engine, const char *path, size_t bytes_max,
        pal_buf *out_text, struct stat *out_stat, pal_error *err);
/* Replaces a file atomically: afterwards the name leads to the old file or to the complete new
 * one. */
PAL_CHECKED pal_status pal_jsonl_replace(
        jsonl_engine *engine, const char *path, pal_str text, pal_error *err);
PAL_CHECKED pal_status pal_jsonl_make_dirs(jsonl_engine *engine, const char *path, pal_error *err);
/* Makes the names in the directory of `path` durable, and the name of that directory. */
PAL_CHECKED pal_status pal_jsonl_sync_dir(jsonl_engine *engine, const char *path, pal_error *err);

/* Fails with PAL_IO if the directory or its log was removed, moved or replaced while the store is
 * open. Other processes replace the log, but never remove it. */
PAL_CHECKED pal_status pal_jsonl_still_there(const jsonl_engine *engine, pal_error *err);
/* Makes the name of the store's directory durable, and the names that it contains from the
 * beginning. */
PAL_CHECKED pal_status pal_jsonl_sync_store(jsonl_engine *engine, pal_error *err);
/* Returns O_NOFOLLOW for files that only Palaver uses. PicoClaw's files may be links. */
int pal_jsonl_open_flags(const char *path);
/* Builds the path of a tenant's sessions: "" or ".palaver/tenants/NAME/". */
PAL_CHECKED pal_status pal_jsonl_tenant_dir(
        pal_str tenant, const char *under, char out_path[JSONL_PATH_MAX], pal_error *err);
/* Decodes the name of a tenant's directory. Returns false if it is not such a name. */
bool pal_jsonl_tenant_of(const char *name, char *out_tenant, size_t *out_len);

/* ---- jsonl_meta.c ---- */

/* Writes the meta file. Members that only PicoClaw knows are kept. */
PAL_CHECKED pal_status pal_jsonl_meta_save(
        jsonl_engine *engine, memory_session *session, jsonl_file *file, pal_error *err);
/* Writes the body of the checkpoint for a summary that PicoClaw made. */
void pal_jsonl_summary_write(pal_buf *body, pal_str summary);
/* Reads whether Palaver wrote the meta file, and the session's time of update in it. Returns false
 * if there is no readable meta file. */
bool pal_jsonl_meta_look(
        jsonl_engine *engine, const char *path, bool *out_is_ours, int64_t *out_updated_at_ms);
/* Reads the meta file and applies PicoClaw's changes: lines that it skips, and a summary. */
PAL_CHECKED pal_status pal_jsonl_meta_load(
        jsonl_engine *engine, memory_session *session, jsonl_file *file, pal_error *err);

/* ---- jsonl_scan.c ---- */

/* Looks for sessions that PicoClaw created and that the log does not name. */
PAL_CHECKED pal_status pal_jsonl_scan(jsonl_engine *engine, pal_error *err);
/* Imports PicoClaw's older files, one session each, and renames them. */
PAL_CHECKED pal_status pal_jsonl_migrate(jsonl_engine *engine, pal_error *err);

/* ---- jsonl_log.c ---- */

PAL_CHECKED pal_status pal_jsonl_batch_init(jsonl_batch *batch, jsonl_engine *engine);
void pal_jsonl_batch_done(jsonl_batch *batch);
/* Removes all files from the batch's list of touched files. */
void pal_jsonl_batch_untouch(jsonl_batch *batch);
/* Adds one record: the JSON object in `json` and its tail. */
void pal_jsonl_log_put(jsonl_batch *batch, pal_str json, pal_str tail);
/* Sets the number of frames that ends the batch, and the checksum. */
void pal_jsonl_log_finish(jsonl_batch *batch);
/* Continues the checksum `sum` of earlier bytes with `bytes`. */
uint64_t pal_jsonl_sum(uint64_t sum, pal_str bytes);

/* Called for each record of each complete batch. `is_last` says that the record belongs to the last
 * batch. */
typedef pal_status (*jsonl_record_sink)(jsonl_engine *engine, const jsonl_record *record,
        pal_arena *arena, bool is_last, pal_error *err);
/* Reads the records in `text` and returns in *out_len where the last complete batch ends. */
PAL_CHECKED pal_status pal_jsonl_log_each(jsonl_engine *engine, pal_str text,
        jsonl_record_sink sink, size_t *out_len, pal_error *err);

/* ---- jsonl_record.c: the state as records ---- */

void pal_jsonl_put_session(jsonl_batch *batch, memory_session *session);
void pal_jsonl_put_erase_message(jsonl_batch *batch, pal_str tenant, pal_id owner, uint64_t seq);
void pal_jsonl_put_erase(jsonl_batch *batch, pal_str tenant, pal_id id);
void pal_jsonl_put_append(jsonl_batch *batch, const jsonl_append *append, int64_t now_ms);
void pal_jsonl_put_mark(jsonl_batch *batch, const memory_session *session, const pal_mark *mark);
void pal_jsonl_put_unmark(jsonl_batch *batch, const memory_session *session);
void pal_jsonl_put_inbox(
        jsonl_batch *batch, pal_str tenant, pal_id session, const pal_inbox_item *item);
void pal_jsonl_put_inbox_drop(jsonl_batch *batch, pal_str tenant, pal_id session, pal_id item);
void pal_jsonl_put_lease(jsonl_batch *batch, const memory_session *session);
void pal_jsonl_put_ledger(
        jsonl_batch *batch, pal_str tenant, pal_id session, const pal_ledger_row *row);
void pal_jsonl_put_record(jsonl_batch *batch, pal_str tenant, const pal_record *record);
void pal_jsonl_put_record_drop(jsonl_batch *batch, pal_str tenant, pal_str kind, pal_str name);
void pal_jsonl_put_blob(jsonl_batch *batch, pal_str tenant, const memory_blob *blob);
void pal_jsonl_put_done(jsonl_batch *batch);
/* Writes the complete state as records, to replace a long log. */
void pal_jsonl_put_all(jsonl_batch *batch);

/* ---- jsonl_state.c: records into the state ---- */

/* Applies a record. `is_last`: it belongs to the last batch, whose writer may have died before it
 * was finished. */
PAL_CHECKED pal_status pal_jsonl_state_apply(jsonl_engine *engine, const jsonl_record *record,
        pal_arena *arena, bool is_last, pal_error *err);
uint64_t pal_jsonl_record_u64(const jsonl_record *record, const char *name);
/* Return the session that the record is about, and its tenant. The tenant is empty in logs of older
 * versions, whose ids were unique over all tenants. */
pal_id pal_jsonl_record_session(const jsonl_record *record, pal_arena *arena);
pal_str pal_jsonl_record_tenant(const jsonl_record *record, pal_arena *arena);
/* Removes all marks of the session, because they refer to messages that have been replaced. */
void pal_jsonl_state_unmark(memory_session *session);
/* Adds a mark without any check. */
PAL_CHECKED pal_status pal_jsonl_state_mark(
        memory_session *session, const pal_mark *mark, pal_error *err);
/* Creates the session or replaces its record. Handle 0: the next free handle. */
PAL_CHECKED pal_status pal_jsonl_state_session(jsonl_engine *engine, const pal_session *record,
        uint64_t handle, uint64_t fork_mark, memory_session **out_session, pal_error *err);
/* Finds a session; with an empty `tenant`, among all tenants. */
memory_session *pal_jsonl_session(jsonl_engine *engine, pal_str tenant, pal_id id);

/* ---- jsonl_recover.c ---- */

/* Records what an unfinished batch did to the file. `from` is the path before the batch, or NULL if
 * the file was not moved. */
PAL_CHECKED pal_status pal_jsonl_late_note(
        jsonl_file *file, const jsonl_record *record, const char *from, pal_error *err);
void pal_jsonl_late_free(jsonl_file *file);
/* Completes the last batch: writes its lines and moves its files. A read-only store changes nothing
 * on disk; each file object remembers where its lines are. */
PAL_CHECKED pal_status pal_jsonl_settle(jsonl_engine *engine, pal_error *err);

/* ---- jsonl_load.c ---- */

/* Reads the complete state from the disk. */
PAL_CHECKED pal_status pal_jsonl_load(jsonl_engine *engine, pal_error *err);
/* Reads changes that other programs have made. The caller holds the directory's lock. */
PAL_CHECKED pal_status pal_jsonl_catch_up(jsonl_engine *engine, pal_error *err);
/* Returns whether other programs have changed anything. It is cheap. */
bool pal_jsonl_is_behind(jsonl_engine *engine);
/* Rewrites the log with the present state only. */
PAL_CHECKED pal_status pal_jsonl_compact(jsonl_engine *engine, pal_error *err);

/* ---- jsonl_check.c ---- */

/* Reports damage. */
void pal_jsonl_check(jsonl_engine *engine, pal_store_on_finding sink,
        pal_store_on_progress progress, void *user);
/* Repairs damage if possible, and reports it. The caller holds the directory's lock. */
PAL_CHECKED pal_status pal_jsonl_repair(
        jsonl_engine *engine, pal_store_on_finding sink, void *user, pal_error *err);

/* ---- jsonl_gather.c ---- */

/* Runs one operation in memory and collects the data that must be written for it. */
void pal_jsonl_apply_one(jsonl_batch *batch, pal_work *work);
/* The same for operations that are applied all or none. */
void pal_jsonl_apply_all(jsonl_batch *batch, pal_work *works, size_t works_len);

/* ---- jsonl_commit.c ---- */

/* Writes the batch. On failure memory is stale. Nothing of the batch is then on disk, unless the
 * log contains all of it; in that case the next process that reads the log finishes the batch. */
PAL_CHECKED pal_status pal_jsonl_commit(
        jsonl_batch *batch, const pal_work *works, size_t works_len, pal_error *err);
/* Moves each file from `moved_from` to its path. The files are linked by next_touched. */
PAL_CHECKED pal_status pal_jsonl_make_moves(
        jsonl_engine *engine, jsonl_file *files, pal_error *err);
/* Finishes the last batch: removes erased data and appends "done" to the log. */
PAL_CHECKED pal_status pal_jsonl_finish(jsonl_engine *engine, bool is_erasing, pal_error *err);

#endif
