/* bench_raw.h - the two yardsticks for the store: plain SQLite on the very same tables, and a plain
 * file. Each does the least that could count as the same work. */
#ifndef PAL_BENCH_RAW_H
#define PAL_BENCH_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct raw raw;

/* Opens a copy of a store's file, with the settings that the store uses. Ends the program when
 * that fails, as does everything here. Used by one thread. */
raw *raw_open(const char *path, size_t body_len);
void raw_close(raw *self);

/* In one transaction: `count` rows into the message table, `per_session` at a time into one
 * session, whose row is updated each time. The sessions are `handles`, in turn. */
void raw_append(
        raw *self, const int64_t *handles, size_t handles_len, size_t count, size_t per_session);

/* Copies the bodies of the newest `limit` messages of the session; returns their bytes. */
size_t raw_tail(raw *self, int64_t handle, int limit);

/* The table's own numbers of the first `len` sessions in the order of their making. */
void raw_handles(raw *self, int64_t *out_handles, size_t len);

/* One write and one fdatasync. */
int raw_file_open(const char *path);
void raw_file_append(int fd, size_t len);

#endif
