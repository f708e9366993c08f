/* process.h - a name for this process by which others on the same machine can see that it died. */
#ifndef PAL_BASE_PROCESS_H
#define PAL_BASE_PROCESS_H

#include "palaver/palaver.h"

enum { PAL_PROCESS_NAME_SIZE = 64 };

/* Writes the name of this process: "PID@MACHINE.NAMESPACE.START", or "PID" alone if the rest is not
 * known. */
void pal_process_name(char out_name[static PAL_PROCESS_NAME_SIZE]);

/* True if the named process ran on this machine, since it was started, in the same namespace of
 * process ids, and is gone. False if it lives, or if that can't be known here. `name` may continue
 * after a colon. */
bool pal_process_is_dead(pal_str name);
/* True if the named process runs on this machine, in the same namespace of process ids. False if it
 * is gone, or if that can't be known here. */
bool pal_process_is_alive(pal_str name);

#endif
