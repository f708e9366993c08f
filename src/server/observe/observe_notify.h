/* observe_notify.h - reports the state of the service to systemd, if systemd requests it. */
#ifndef PAL_OBSERVE_NOTIFY_H
#define PAL_OBSERVE_NOTIFY_H

#include <stdint.h>

/* Sends "READY=1", "STOPPING=1" and so on, as one datagram to $NOTIFY_SOCKET. Does nothing if that
 * is not set. */
void pal_notify(const char *state);
/* Sends "RELOADING=1" with the time, as Type=notify-reload requires. "READY=1" ends the reload. */
void pal_notify_reloading(void);

/* How often systemd requires "WATCHDOG=1", in microseconds; 0: never. */
int64_t pal_notify_watchdog_us(void);

#endif
