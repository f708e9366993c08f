/* log.c - one line a call, as text or as JSON.
 *
 *   2026-11-15T20:47:48.123Z warn disk is nearly full
 *   {"time":"2026-11-15T20:47:48.123Z","level":"warn","message":"disk is nearly full"}
 *
 * Lines are built on the stack and written under one lock: they come out whole from any thread,
 * and a lack of memory can be logged too. What is longer than MESSAGE_MAX is cut. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include "base/clock.h"
#include "base/utf8.h"

#define MESSAGE_MAX 2048
#define ESCAPE_MAX 6 /* \u00XX */
#define JSON_HEAD "{\"time\":\"%s\",\"level\":\"%s\",\"message\":\""

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *log_file; /* NULL means stderr */
static bool log_as_json;
static atomic_int log_level = PAL_LOG_INFO;

void pal_log_setup(FILE *file, pal_log_level level, int as_json)
{
    pthread_mutex_lock(&log_lock);
    log_file = file;
    log_as_json = as_json != 0;
    atomic_store(&log_level, (int)level);
    pthread_mutex_unlock(&log_lock);
}

/* Writes `message` with control characters as \u00XX and invalid UTF-8 as U+FFFD, so that a line
 * can neither be forged nor reach into a terminal. */
static size_t escape(pal_str message, bool as_json, char *out)
{
    char *p = out;
    while (message.len) {
        uint32_t c;
        size_t len = pal_utf8_decode(message, &c);
        if (c < 0x20 || (c >= 0x7f && c < 0xa0)) {
            p += snprintf(p, ESCAPE_MAX + 1, "\\u%04x", (unsigned)c);
        } else {
            if (as_json && (c == '"' || c == '\\'))
                *p++ = '\\';
            p += pal_utf8_encode(c, p);
        }
        message = pal_str_make(message.data + len, message.len - len);
    }
    return (size_t)(p - out);
}

static void write_line(pal_log_level level, pal_str message)
{
    char line[MESSAGE_MAX * ESCAPE_MAX + 128], now[PAL_TIME_TEXT_SIZE];
    pal_time_to_text(pal_clock_now_ms(), now);

    pthread_mutex_lock(&log_lock);
    const char *name = level_names[level];
    size_t len = (size_t)(log_as_json ? snprintf(line, sizeof line, JSON_HEAD, now, name)
                                      : snprintf(line, sizeof line, "%s %s ", now, name));
    len += escape(message, log_as_json, line + len);
    pal_str tail = pal_str_of(log_as_json ? "\"}\n" : "\n");
    memcpy(line + len, tail.data, tail.len);
    len += tail.len;
    FILE *file = log_file ? log_file : stderr;
    fwrite(line, 1, len, file);
    fflush(file);
    pthread_mutex_unlock(&log_lock);
}

void pal_log(pal_log_level level, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed))
        return;
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (len < 0)
        return;
    size_t kept = (size_t)len < sizeof message ? (size_t)len : sizeof message - 1;
    write_line(level, pal_str_make(message, kept));
}
