/* crash_pattern.h - recognizable texts: each one tells its writer and its number, and whether any
 * byte of it changed. */
#ifndef PAL_TESTS_CRASH_PATTERN_H
#define PAL_TESTS_CRASH_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/id.h"
#include "palaver/message.h"

#define PATTERN_TEXT_MAX 24576
#define PATTERN_CLIENT_MAX 48

typedef struct pattern {
    uint32_t writer;
    uint32_t part; /* 0 .. parts - 1; messages of one append share the counter */
    uint32_t parts;
    uint64_t counter;
} pattern;

/* Mixes both numbers into one that looks random. */
uint64_t pattern_hash(uint64_t a, uint64_t b);

/* An id that any process can compute again; it is never the empty id. */
pal_id pattern_id(uint64_t a, uint64_t b);

/* Returns the length. Most texts have 60 to 1,500 bytes, some span several pages. */
size_t pattern_text(const pattern *what, char out_text[PATTERN_TEXT_MAX]);
size_t pattern_client_id(const pattern *what, char out_text[PATTERN_CLIENT_MAX]);

/* Reads a stored message. Returns false if any byte of its text or client id is wrong. */
bool pattern_read(const pal_message *message, pattern *out_what);

/* Room for one message with that text. */
typedef struct pattern_message {
    pal_message message; /* points into this struct, so the struct must not be copied */
    pal_part part;
    char client_id[PATTERN_CLIENT_MAX];
    char text[PATTERN_TEXT_MAX];
} pattern_message;

void pattern_message_init(pattern_message *room, const pattern *what);

#endif
