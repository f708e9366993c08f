/* server_notify.h - tells systemd how the service is, where it asked to be told. */
#ifndef PAL_SERVER_NOTIFY_H
#define PAL_SERVER_NOTIFY_H

#include <stdint.h>

/* "READY=1", "STOPPING=1", ...: one datagram to $NOTIFY_SOCKET; nothing where that isn't set. */
void pal_notify(const char *state);
/* "RELOADING=1" with its time, as Type=notify-reload wants it; "READY=1" ends it. */
void pal_notify_reloading(void);

/* How often systemd wants to hear "WATCHDOG=1", in microseconds; 0: never. */
int64_t pal_notify_watchdog_us(void);

#endif
