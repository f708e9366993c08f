/* transfer_export_agent.h - the forms of an export that other programs continue, or people read.
 * For transfer_export.c only. */
#ifndef PAL_TRANSFER_EXPORT_AGENT_H
#define PAL_TRANSFER_EXPORT_AGENT_H

#include "palaver/message.h"
#include "transfer/transfer_export.h"

/* Writes what comes before the messages. A failure of `out` or of the arena is permanent. */
void pal_export_agent_begin(pal_export *export, const pal_session *session, pal_buf *out);
PAL_CHECKED pal_status pal_export_agent_message(
        pal_export *export, const pal_message *message, pal_buf *out, pal_error *err);

/* ---- HTML (transfer_export_html.c) ---- */

void pal_export_html_begin(const pal_session *session, pal_buf *out);
void pal_export_html_message(const pal_message *message, pal_buf *out);
void pal_export_html_end(pal_buf *out);

#endif
