/* dialect_anthropic_block.h - reads the blocks of Anthropic's messages, which requests and the
 * transcripts of Claude Code have in common.
 *
 * A block of an unknown type survives as a file that holds nothing but its extra. A block of
 * thinking that is opaque ("redacted_thinking") is reasoning without text whose signature is its
 * data; the type stays in the extra. Pure functions over the caller's memory: any thread may call
 * them. */
#ifndef PAL_DIALECT_ANTHROPIC_BLOCK_H
#define PAL_DIALECT_ANTHROPIC_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include "base/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"

typedef struct pal_block_reader {
    pal_arena *arena;
    pal_error *err;
    /* What was said once can't be refused any more: a wrong block is kept like one of an unknown
     * type, what is no block at all is left out, and only memory can fail. */
    bool is_history;
} pal_block_reader;

/* Reads a message's content: a string, which is one text, or an array of blocks. `name` is what an
 * error calls it. The parts lie in the arena; their views borrow from the parsed text. */
PAL_CHECKED pal_status pal_blocks_read(const pal_block_reader *in, pal_json content,
        const char *name, pal_part **out_parts, size_t *out_len);

#endif
