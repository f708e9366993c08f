/* bench_raw.h - two references for the store: plain SQLite on the same tables, and a plain file.
 * Each does the least that could count as the same work. */
#ifndef PAL_BENCH_RAW_H
#define PAL_BENCH_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct raw raw;

/* Opens a copy of a store's file, with the settings of the store. All functions here end the
 * program if they fail. Used by one thread. */
raw *raw_open(const char *path, size_t body_len);
void raw_close(raw *self);

/* Adds `count` rows to the message table in one transaction: `per_session` rows for each session,
 * and one update of its row. The sessions are `handles`, one after the other. */
void raw_append(
        raw *self, const int64_t *handles, size_t handles_len, size_t count, size_t per_session);

/* Copies the bodies of the newest `limit` messages of the session. Returns their bytes. */
size_t raw_tail(raw *self, int64_t handle, int limit);

/* Reads the row numbers of the first `len` sessions, in the order in which they were created. */
void raw_handles(raw *self, int64_t *out_handles, size_t len);

/* Makes one write and one fdatasync. */
int raw_file_open(const char *path);
void raw_file_append(int fd, size_t len);

#endif
