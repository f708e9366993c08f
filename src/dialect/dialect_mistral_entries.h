/* dialect_mistral_entries.h - the entries of Mistral's Conversations: what a conversation is told
 * ("inputs"), as far as it can be made of our messages. Pure functions over the caller's memory:
 * any thread may call them. */
#ifndef PAL_DIALECT_MISTRAL_ENTRIES_H
#define PAL_DIALECT_MISTRAL_ENTRIES_H

#include "base/json.h"
#include "palaver/error.h"
#include "palaver/message.h"

/* Writes the entries of one message, none to many, into the array being written: what is said as
 * message.input or message.output, calls as function.call, results as function.result. Reasoning
 * and system messages give none: the latter are a conversation's instructions. */
void pal_mistral_entries_put(pal_json_writer *writer, const pal_message *message);

/* The texts of the system messages at the start, a blank line between them. */
void pal_mistral_instructions(pal_buf *out, const pal_message *messages, size_t messages_len);

#endif
