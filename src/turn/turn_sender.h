/* turn_sender.h - the senders of messages, if several people write in one session. */
#ifndef PAL_TURN_SENDER_H
#define PAL_TURN_SENDER_H

#include "base/buf.h"
#include "palaver/turn.h"

/* Shows the model who speaks. The text of a user message with a sender begins with "<sender> ",
 * unless it is from a chat of two people. Its other lines are indented, so that none of them can
 * pose as a speaker. Changes the list in place, with texts in the arena. Call it once for each
 * message, before it is recorded. After PAL_NO_MEMORY some messages have no speaker and must not be
 * sent. */
PAL_CHECKED pal_status pal_sender_show(pal_message *messages, size_t len, pal_arena *arena);

/* Returns true if two waiting requests can be merged: every message has a sender, all messages are
 * direct or none is, the settings and the budget's owner are equal, and neither request expects a
 * seq. The label is not compared. Notes can always be merged. */
bool pal_sender_can_merge(
        const pal_turn_request *first, const pal_turn_request *second, pal_arena *scratch);

/* Marks messages as continuing the previous one, as a merge does. Returns false if they cannot have
 * been merged. */
bool pal_sender_mark(pal_message *messages, size_t len, pal_arena *arena);

/* Returns one list of both requests' messages, in the arena. The messages of the second request are
 * marked as continuing the previous one, unless they are notes. NULL if there is no memory. */
pal_message *pal_sender_merge(const pal_turn_request *first, const pal_turn_request *second,
        pal_arena *arena, size_t *out_len);

/* Joins each marked message with the previous one, with their texts on separate lines. Returns how
 * many messages are left. The list is changed in place; the data that it points to is not. */
size_t pal_sender_join(pal_message *messages, size_t len, pal_arena *arena);

/* ---- turn_speaker.c ---- */

/* Writes a name for the place between '<' and '>'. Invisible characters, and characters that could
 * end the name or the line, become U+FFFD. Leaving them out could turn one name into another. */
void pal_speaker_put_name(pal_buf *buf, pal_str name);

/* Writes the text so that none of its lines begins in the first column. Every line is indented by
 * two spaces, except the first one of a text that comes after a name. A line that looks like a
 * speaker's, with "<...>" or "[guest]" in front, gets a '\\' before it. */
void pal_speaker_put_text(pal_buf *buf, pal_str text, bool comes_after_name);

#endif
