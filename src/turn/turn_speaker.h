/* turn_speaker.h - how a name and a text are written so that they can't pose as another speaker. */
#ifndef PAL_TURN_SPEAKER_H
#define PAL_TURN_SPEAKER_H

#include "base/buf.h"

/* Writes the name as it stands between '<' and '>'. A character that could end the name or the
 * line, or that can't be seen, becomes U+FFFD: leaving it out could make one name another. */
void pal_speaker_put_name(pal_buf *buf, pal_str name);

/* Writes the text so that none of its lines begins in the first column: every line but the first of
 * a text that comes after a name is indented by two spaces. A line that looks like a speaker's,
 * with "<...>" or "[guest]" in front, gets a '\\' before it. */
void pal_speaker_put_text(pal_buf *buf, pal_str text, bool comes_after_name);

#endif
