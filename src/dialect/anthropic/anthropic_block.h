/* anthropic_block.h - reads the blocks of Anthropic's messages, for requests and for the
 * transcripts of Claude Code.
 *
 * A block of an unknown type becomes a file part that has only an extra. An opaque block of
 * thinking ("redacted_thinking") becomes reasoning without text whose signature is the block's
 * data; the type stays in the extra. Pure functions that use only the caller's memory: any
 * thread. */
#ifndef PAL_ANTHROPIC_BLOCK_H
#define PAL_ANTHROPIC_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include "base/json/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"

typedef struct pal_block_reader {
    pal_arena *arena;
    pal_error *err;
    /* Accept everything, because the messages were sent already: a wrong block is kept like one of
     * an unknown type, a value that is not a block is left out, and only a lack of memory is an
     * error. */
    bool is_history;
} pal_block_reader;

/* Reads the content of a message: a string, which is one text, or an array of blocks. `name` names
 * the content in errors. The parts are in the arena; their texts can point into the parsed text. */
PAL_CHECKED pal_status pal_blocks_read(const pal_block_reader *in, pal_json content,
        const char *name, pal_part **out_parts, size_t *out_len);

#endif
