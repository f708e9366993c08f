/* turn_speaker.h - writes a name and a text so that they cannot pose as another speaker. */
#ifndef PAL_TURN_SPEAKER_H
#define PAL_TURN_SPEAKER_H

#include "base/buf.h"

/* Writes a name for the place between '<' and '>'. Invisible characters, and characters that could
 * end the name or the line, become U+FFFD. Leaving them out could turn one name into another. */
void pal_speaker_put_name(pal_buf *buf, pal_str name);

/* Writes the text so that none of its lines begins in the first column. Every line is indented by
 * two spaces, except the first one of a text that comes after a name. A line that looks like a
 * speaker's, with "<...>" or "[guest]" in front, gets a '\\' before it. */
void pal_speaker_put_text(pal_buf *buf, pal_str text, bool comes_after_name);

#endif
