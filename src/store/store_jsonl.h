/* store_jsonl.h - the structures behind "jsonl:DIR", shared by the store_jsonl*.c files only.
 *
 * The state of the store is a "memory:" engine; here is what joins it to the files. See
 * store_jsonl.c for what lies where and why a crash takes nothing back.
 *
 * Threads: whoever changes anything holds jl_engine.lock for writing and, while files are read or
 * written, the lock of the directory. */
#ifndef PAL_STORE_JSONL_H
#define PAL_STORE_JSONL_H

#include <pthread.h>
#include <sys/stat.h>
#include "base/buf.h"
#include "base/json.h"
#include "store/store_memory.h"

#define JL_SIDE ".palaver"
#define JL_LOG JL_SIDE "/log"
#define JL_PATH_MAX 1024

/* What the last batch did to a file, while it is not known to be finished. The first of its
 * records for the file says what the file was before: `at` bytes with the checksum `sum`. */
typedef struct jl_late {
    char *from;    /* path before the batch moved the file; NULL: it did not; allocated */
    pal_buf lines; /* appended by the batch */
    uint64_t at, sum;
    bool has_sum;   /* false: the log is of an older version, and `inode` has to decide */
    ino_t inode;    /* 0: there was no file yet */
    int64_t now_ms; /* when the lines were appended */
    char *found;    /* read only: name of the file that has the lines now; allocated */
    pal_buf text;   /* read only: what the file will have when the batch is finished */
    bool has_text;
} jl_late;

/* The file of one session's lines. */
typedef struct jl_file {
    pal_id id;
    pal_str tenant; /* behind the struct, as `key` is */
    pal_str key;    /* in jl_engine.files */
    char *path;     /* without its ending, relative to the directory; allocated */
    uint64_t size;  /* bytes that are known here */
    uint64_t sum;   /* checksum of these bytes */
    uint64_t lines; /* that are not empty, whether they can be read or not */
    uint64_t *bad;  /* numbers, from 1, of those that can't */
    size_t bad_len, bad_cap;
    uint64_t zeros;       /* bytes that a power cut left in the lines */
    bool is_open_ended;   /* the last line has no end */
    bool is_logged;       /* the log has the session's record */
    uint64_t mark_logged; /* and its marks up to this number */
    bool is_touched;      /* by the batch */
    char *moved_from;     /* where it is until the batch is written; allocated */
    ino_t inode;          /* 0: there is no file yet */
    ino_t named_inode;    /* the file whose name is known to be durable */
    jl_late *late;        /* allocated; NULL: the last batch is finished or was not about it */
    bool is_unmarked;     /* its marks mean nothing any more, which the log does not say yet */
    bool is_followed;     /* another process wrote to it */
    bool is_unreadable;   /* there are lines, but they can't be had: see `trouble` */
    pal_error *trouble;   /* why it can't be written, or NULL; allocated */
    size_t append_last;   /* of the batch's appends, from 1; 0: none */
    ino_t meta_inode;     /* 0: there is no meta file yet */
    struct timespec meta_time;
    char *meta; /* text of the meta file as it was seen or written last; allocated */
    size_t meta_len;
    struct jl_file *next_touched;
} jl_file;

/* One record of the log, while it is read. */
typedef struct jl_record {
    pal_json json;
    pal_str tail; /* bytes that come with it: lines, a body */
} jl_record;

/* Lines that the batch appends. */
typedef struct jl_append {
    jl_file *file;
    uint64_t at; /* where in the file */
    uint64_t sum; /* checksum of the bytes before */
    size_t from; /* where in jl_batch.lines */
    size_t len;
    uint64_t lines;
    size_t next;      /* of the same file, from 1; 0: none */
    bool is_follower; /* there is one before it of the same file */
    bool is_begun;    /* something of it may be in the file */
} jl_append;

typedef struct jl_engine {
    pal_engine base;
    pal_store_options options;
    pthread_rwlock_t lock;
    pal_engine *memory;
    mem_engine *mem;            /* the same */
    bool is_stale;              /* what is in memory is not what is on disk: load it again */
    char location[JL_PATH_MAX]; /* of the directory, for messages */
    int dir_fd;
    int lock_fd;
    int log_fd; /* -1: there is none (read only) */
    dev_t log_dev;
    ino_t log_inode;
    uint64_t log_len;
    uint64_t log_kept;       /* its length when it was written anew */
    char log_tail[64];       /* the frame "done" at its end, which may not be synced */
    size_t log_tail_len;     /* 0: everything was */
    uint64_t log_gaps;       /* damaged places in it that took records with them */
    uint64_t log_holes;      /* places where a record "done" never reached the disk */
    uint64_t log_lost;       /* damaged places that it had when it was written anew */
    bool is_late;            /* its last batch is not known to be finished */
    bool is_settled;         /* while it is read: the last batch says that it is */
    bool is_late_erasing;    /* the last batch erases something */
    bool is_log_new;         /* while it is read: the log was written anew and not added to */
    bool is_doubtful;        /* a write or sync has failed: what was undone may still be there */
    size_t orphans;          /* forks whose parent was not there when they were read */
    pal_error passed_over;   /* what could not be looked at last */
    uint64_t batch;          /* number of the last one */
    struct timespec scanned; /* the directory's time of change when it was looked through */
    jl_file *followed;       /* joined by next_touched, while others' batches are read */
    pal_map files;           /* of jl_file, by id and tenant */
    pal_map paths;           /* of jl_file, by path */
} jl_engine;

/* What one apply() writes. */
typedef struct jl_batch {
    jl_engine *engine;
    pal_arena *arena;
    pal_buf log;
    pal_buf lines;
    size_t last_frame; /* where in `log`; it gets the mark that ends the batch */
    jl_append *appends;
    size_t appends_len, appends_cap;
    jl_file *touched;
    bool is_erasing;
    uint32_t frames;
    bool has_moves;
} jl_batch;

#define JL_SUM_START 0xcbf29ce484222325u /* checksum of nothing */
#define JL_DONE "{\"is\":\"done\"}"

/* ---- store_jsonl_line.c ---- */

/* Appends the row's line and its end. PAL_LIMIT where PicoClaw could not read it. */
PAL_CHECKED pal_status pal_jl_line_write(
        pal_buf *buf, const pal_row *row, pal_arena *arena, pal_error *err);
/* The row of a line. A message without an id gets one that depends on session and position only.
 * PAL_INVALID for a line that is none; then it is to be passed over. */
PAL_CHECKED pal_status pal_jl_line_read(const pal_store_options *options, pal_str line,
        pal_id session, uint64_t seq, int64_t otherwise_ms, pal_arena *arena, pal_row *out_row,
        pal_error *err);
/* The row that the store would have for this message. */
PAL_CHECKED pal_status pal_jl_row_of(const pal_store_options *options, const pal_message *message,
        pal_arena *arena, pal_row *out_row, pal_error *err);
/* An id that anyone works out again from the same text. */
PAL_CHECKED pal_status pal_jl_id_of(const char *kind, pal_str text, pal_id *out_id, pal_error *err);

/* ---- store_jsonl_file.c ---- */

jl_file *pal_jl_file_find(jl_engine *engine, pal_str tenant, pal_id id);
/* Makes it where there is none; NULL when there is no memory. */
jl_file *pal_jl_file_get(jl_engine *engine, pal_str tenant, pal_id id);
void pal_jl_file_drop(jl_engine *engine, jl_file *file);
void pal_jl_files_clear(jl_engine *engine);
PAL_CHECKED pal_status pal_jl_file_set_path(
        jl_engine *engine, jl_file *file, const char *path, pal_error *err);
/* Where the session's lines belong, as its state and key are now. */
PAL_CHECKED pal_status pal_jl_place(jl_engine *engine, const mem_session *session,
        const jl_file *file, pal_arena *arena, char out_path[JL_PATH_MAX], pal_error *err);
/* Removes the session's files. */
PAL_CHECKED pal_status pal_jl_file_unlink(
        jl_engine *engine, const jl_file *file, pal_error *err);
/* Removes the lines that were set aside. */
PAL_CHECKED pal_status pal_jl_aside_unlink(
        jl_engine *engine, const jl_file *file, pal_error *err);
/* Gives the lines to the session in memory. */
PAL_CHECKED pal_status pal_jl_rows_add(jl_engine *engine, mem_session *session, jl_file *file,
        pal_str lines, pal_arena *arena, pal_error *err);
/* Reads the file from the beginning. */
PAL_CHECKED pal_status pal_jl_rows_load(
        jl_engine *engine, mem_session *session, jl_file *file, pal_error *err);
/* Writes the file anew with the rows that the session has. */
PAL_CHECKED pal_status pal_jl_rows_save(
        jl_engine *engine, mem_session *session, jl_file *file, pal_error *err);
/* Notes why the file can't be used; the session stays, and says so when it is. */
PAL_CHECKED pal_status pal_jl_file_fault(jl_file *file, const pal_error *why, pal_error *err);
/* Whether somebody else has changed the file since, or it could not be used then. */
bool pal_jl_file_changed(jl_engine *engine, const jl_file *file);
void pal_jl_file_path(const jl_file *file, const char *ending, char out_path[JL_PATH_MAX]);
/* Where a session's lines are while it is on its way, in the trash or kept for its forks. */
void pal_jl_side_path(pal_str tenant, pal_id id, char out_path[JL_PATH_MAX]);
/* Where its lines are that are not messages, once they were set aside. */
void pal_jl_aside_path(const jl_file *file, char out_path[JL_PATH_MAX]);
/* PicoClaw doesn't sync its lines: a power cut may have left zeros in the place of some that ours
 * were appended to. They are not part of the line. */
void pal_jl_zeros_pass(pal_str *line);
bool pal_jl_line_is_blank(pal_str line);

/* ---- store_jsonl_disk.c ---- */

/* PAL_IO, with what the system says. */
pal_status pal_jl_io(pal_error *err, const char *what, const char *path);
/* The same of something that is not as it should be, with where it is and what to do. */
pal_status pal_jl_refused(jl_engine *engine, pal_error *err, const char *path);
/* Writes at the end, which must be `at`: PAL_BUSY where somebody else was faster. */
PAL_CHECKED pal_status pal_jl_append_at(
        int fd, pal_str data, uint64_t at, const char *path, pal_error *err);
PAL_CHECKED pal_status pal_jl_write_at(
        int fd, pal_str data, uint64_t at, const char *path, pal_error *err);
/* The whole file. PAL_NOT_FOUND where there is none, without a message. */
PAL_CHECKED pal_status pal_jl_read_file(jl_engine *engine, const char *path, size_t bytes_max,
        pal_buf *out_text, struct stat *out_stat, pal_error *err);
/* Puts a file in the place of another, whole or not at all. */
PAL_CHECKED pal_status pal_jl_replace(
        jl_engine *engine, const char *path, pal_str text, pal_error *err);
PAL_CHECKED pal_status pal_jl_make_dirs(jl_engine *engine, const char *path, pal_error *err);
/* Makes the names in the directory of `path` durable, and that directory's own name. */
PAL_CHECKED pal_status pal_jl_sync_dir(jl_engine *engine, const char *path, pal_error *err);
/* The same for the names of the store's directory and of what is in it from the start. */
PAL_CHECKED pal_status pal_jl_sync_store(jl_engine *engine, pal_error *err);
/* O_NOFOLLOW for what is ours alone; PicoClaw's files may be links. */
int pal_jl_open_flags(const char *path);
/* The directory of a tenant's sessions: "" or ".palaver/tenants/NAME/". */
PAL_CHECKED pal_status pal_jl_tenant_dir(
        pal_str tenant, const char *under, char out_path[JL_PATH_MAX], pal_error *err);
/* False where the name of a tenant's directory says nothing. */
bool pal_jl_tenant_of(const char *name, char *out_tenant, size_t *out_len);

/* ---- store_jsonl_meta.c ---- */

/* Writes the meta file; what PicoClaw alone knows in it stays. */
PAL_CHECKED pal_status pal_jl_meta_save(
        jl_engine *engine, mem_session *session, jl_file *file, pal_error *err);
/* The body of a checkpoint that PicoClaw has as its summary. */
void pal_jl_summary_write(pal_buf *body, pal_str summary);
/* Notes which meta file it is that was read or written last. */
void pal_jl_meta_note(jl_engine *engine, jl_file *file);
/* Whether the meta file is one that Palaver wrote, and when the session was changed by it.
 * False where there is none that can be read. */
bool pal_jl_meta_look(
        jl_engine *engine, const char *path, bool *out_is_ours, int64_t *out_updated_at_ms);
/* Reads it and takes over what PicoClaw has done: lines that it skips, a summary. */
PAL_CHECKED pal_status pal_jl_meta_load(
        jl_engine *engine, mem_session *session, jl_file *file, pal_error *err);

/* ---- store_jsonl_scan.c ---- */

/* Looks for sessions that nobody told us of. */
PAL_CHECKED pal_status pal_jl_scan(jl_engine *engine, pal_error *err);
/* Takes over PicoClaw's older files, one session each, and renames them. */
PAL_CHECKED pal_status pal_jl_migrate(jl_engine *engine, pal_error *err);

/* ---- store_jsonl_log.c ---- */

PAL_CHECKED pal_status pal_jl_batch_init(jl_batch *batch, jl_engine *engine);
void pal_jl_batch_done(jl_batch *batch);
/* Its files are no longer part of it. */
void pal_jl_batch_untouch(jl_batch *batch);
/* One record: the JSON object that was written to `json`, and its tail. */
void pal_jl_log_put(jl_batch *batch, pal_str json, pal_str tail);
/* Sets the mark that ends the batch, and its checksum. */
void pal_jl_log_finish(jl_batch *batch);
/* The checksum of more bytes behind those that have the checksum `sum`. */
uint64_t pal_jl_sum(uint64_t sum, pal_str bytes);

/* Called for each record of each complete batch. `is_last` says that it is of the last one. */
typedef pal_status (*jl_record_sink)(
        jl_engine *engine, const jl_record *record, pal_arena *arena, bool is_last, pal_error *err);
/* Reads records from `text` and moves *in_out_len on, behind the last complete batch. */
PAL_CHECKED pal_status pal_jl_log_each(
        jl_engine *engine, pal_str text, jl_record_sink sink, size_t *out_len, pal_error *err);

/* ---- store_jsonl_record.c: the state as records ---- */

void pal_jl_put_session(jl_batch *batch, mem_session *session);
void pal_jl_put_erase(jl_batch *batch, pal_str tenant, pal_id id);
void pal_jl_put_append(jl_batch *batch, const jl_append *append, int64_t now_ms);
void pal_jl_put_mark(jl_batch *batch, const mem_session *session, const pal_mark *mark);
void pal_jl_put_unmark(jl_batch *batch, const mem_session *session);
void pal_jl_put_inbox(
        jl_batch *batch, pal_str tenant, pal_id session, const pal_inbox_item *item);
void pal_jl_put_inbox_drop(jl_batch *batch, pal_str tenant, pal_id session, pal_id item);
void pal_jl_put_lease(jl_batch *batch, const mem_session *session);
void pal_jl_put_ledger(jl_batch *batch, pal_str tenant, pal_id session, const pal_ledger_row *row);
void pal_jl_put_record(jl_batch *batch, pal_str tenant, const pal_record *record);
void pal_jl_put_record_drop(jl_batch *batch, pal_str tenant, pal_str kind, pal_str name);
void pal_jl_put_blob(jl_batch *batch, pal_str tenant, const mem_blob *blob);
void pal_jl_put_done(jl_batch *batch);
/* Everything that there is, as after a long history. */
void pal_jl_put_all(jl_batch *batch);

/* ---- store_jsonl_state.c: records into the state ---- */

/* `is_last`: of the last batch, whose writer may have died before it was finished. */
PAL_CHECKED pal_status pal_jl_state_apply(
        jl_engine *engine, const jl_record *record, pal_arena *arena, bool is_last, pal_error *err);
uint64_t pal_jl_record_u64(const jl_record *record, const char *name);
/* The session that it is about, and its tenant; empty in logs of older versions, whose ids were
 * unique over all tenants. */
pal_id pal_jl_record_session(const jl_record *record, pal_arena *arena);
pal_str pal_jl_record_tenant(const jl_record *record, pal_arena *arena);
/* All of them go: the messages that they speak of are others now. */
void pal_jl_state_unmark(mem_session *session);
/* Adds a mark as it is. */
PAL_CHECKED pal_status pal_jl_state_mark(
        mem_session *session, const pal_mark *mark, pal_error *err);
/* Makes the session or gives it another record. Handle 0: the next one. */
PAL_CHECKED pal_status pal_jl_state_session(jl_engine *engine, const pal_session *record,
        uint64_t handle, uint64_t fork_mark, mem_session **out_session, pal_error *err);
/* Of any tenant where that is empty. */
mem_session *pal_jl_session(jl_engine *engine, pal_str tenant, pal_id id);

/* ---- store_jsonl_recover.c ---- */

/* Notes what an unfinished batch did to the file, which was at `from` before (NULL: it stays). */
PAL_CHECKED pal_status pal_jl_late_note(
        jl_file *file, const jl_record *record, const char *from, pal_error *err);
void pal_jl_late_free(jl_file *file);
/* Brings lines and files to where the last batch wants them. A store that is open for reading only
 * is not changed: its files know where their lines are. */
PAL_CHECKED pal_status pal_jl_settle(jl_engine *engine, pal_error *err);

/* ---- store_jsonl_load.c ---- */

/* Reads everything anew. */
PAL_CHECKED pal_status pal_jl_load(jl_engine *engine, pal_error *err);
/* Reads what others have written since. The directory's lock is held. */
PAL_CHECKED pal_status pal_jl_catch_up(jl_engine *engine, pal_error *err);
/* Whether there is anything to catch up with; cheap. */
bool pal_jl_is_behind(jl_engine *engine);
/* Writes the log anew, without what is past. */
PAL_CHECKED pal_status pal_jl_compact(jl_engine *engine, pal_error *err);

/* ---- store_jsonl_check.c ---- */

/* Reports what is wrong. */
void pal_jl_check(jl_engine *engine, pal_finding_sink sink, pal_progress progress, void *user);
/* Mends what can be, and reports it. The directory's lock is held. */
PAL_CHECKED pal_status pal_jl_repair(
        jl_engine *engine, pal_finding_sink sink, void *user, pal_error *err);

/* ---- store_jsonl_gather.c ---- */

/* Does one operation in memory and gathers what is to be written for it. */
void pal_jl_apply_one(jl_batch *batch, pal_work *work);

/* ---- store_jsonl_commit.c ---- */

/* Writes it. On failure memory is stale, and nothing of the batch is on disk unless the log had it
 * all: then it is finished by whoever reads it next. */
PAL_CHECKED pal_status pal_jl_commit(
        jl_batch *batch, const pal_work *works, size_t works_len, pal_error *err);
/* Moves the files from `moved_from` to where they belong; they are joined by next_touched. */
PAL_CHECKED pal_status pal_jl_make_moves(jl_engine *engine, jl_file *files, pal_error *err);
/* Ends what the last batch began: removes what it erased, and says in the log that it is done. */
PAL_CHECKED pal_status pal_jl_finish(jl_engine *engine, bool is_erasing, pal_error *err);

#endif
