/* matrix_url.h - writes the URLs of the client-server API. Ids come from strangers, so every one is
 * escaped, and nothing from an event gets into a URL in another way. */
#ifndef PAL_MATRIX_URL_H
#define PAL_MATRIX_URL_H

#include "base/buf.h"
#include "palaver/str.h"

#define PAL_MATRIX_URL_LEN_MAX 8192

/* Writes the homeserver and the path, in which each "{}" is replaced by the next text, escaped. */
void pal_matrix_url_write(
        pal_buf *out, pal_str homeserver, const char *path, const pal_str *texts, size_t texts_len);
/* Adds a parameter, with '?' or '&'. */
void pal_matrix_url_add(pal_buf *out, const char *name, pal_str value);

/* The server and the id of "mxc://server/id". False: it is not such a URL, or not safe to use. */
bool pal_matrix_url_media(pal_str url, pal_str *out_server, pal_str *out_id);

/* Writes the filter of /sync and /messages. `first` asks for state only and one event per room.
 * Events of the user themselves are left out, so that the edits of a long answer do not push the
 * messages of people out of a response. */
void pal_matrix_filter_write(pal_str user, bool first, pal_buf *out);
/* The same for /messages, which takes the part about the timeline. */
void pal_matrix_filter_write_timeline(pal_str user, pal_buf *out);

#endif
