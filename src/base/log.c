/* log.c - writes one line per call, as text or as JSON.
 *
 *   2026-11-15T20:47:48.123Z warn disk is nearly full
 *   {"time":"2026-11-15T20:47:48.123Z","level":"warn","message":"disk is nearly full"}
 *
 * Fields follow the message as name=value, in quotes if the value needs them, or as members.
 *
 * Lines are built on the stack and written under one lock. So lines of different threads are never
 * mixed, and a lack of memory can be logged too. A message that is longer than MESSAGE_MAX is
 * cut. */
#include "base/log.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"

#define MESSAGE_MAX 2048
#define FIELD_MAX 128 /* bytes of a field's text; the rest is cut off */
#define FIELD_NAME_MAX 32
#define FIELD_SIZE (FIELD_MAX * ESCAPE_MAX + 64)
#define ESCAPE_MAX 6 /* \u00XX */

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *log_file; /* NULL means stderr */
static atomic_bool log_as_json;
static atomic_int log_level = PAL_LOG_INFO;

void pal_log_setup(FILE *file, pal_log_level level, int as_json)
{
    pthread_mutex_lock(&log_lock);
    log_file = file;
    atomic_store(&log_as_json, as_json != 0);
    atomic_store(&log_level, (int)level);
    pthread_mutex_unlock(&log_lock);
}

/* Writes control characters as \u00XX and invalid UTF-8 as U+FFFD. Otherwise a message could forge
 * a log line or send escape sequences to a terminal. */
static char *put_escaped(char *p, pal_str message, bool as_json)
{
    while (message.len) {
        uint32_t c = (unsigned char)message.data[0];
        size_t len = 1;
        if (c >= 0x80)
            len = pal_utf8_decode(message, &c);
        if (as_json && (c == '"' || c == '\\'))
            *p++ = '\\';
        if (c >= 0x20 && c < 0x7f)
            *p++ = (char)c;
        else if (c < 0xa0)
            p += snprintf(p, ESCAPE_MAX + 1, "\\u%04x", (unsigned)c);
        else
            p += pal_utf8_encode(c, p);
        message = pal_str_make(message.data + len, message.len - len);
    }
    return p;
}

static char *put_number(char *p, int64_t number)
{
    if (number < 0)
        *p++ = '-';
    return p + pal_u64_to_text(number < 0 ? 0 - (uint64_t)number : (uint64_t)number, p);
}

/* A text is quoted if a reader could not see otherwise where it ends. */
static char *put_field(char *p, const pal_log_field *field, bool as_json)
{
    pal_str text = field->text;
    text.len = text.len > FIELD_MAX ? pal_utf8_cut(text, FIELD_MAX) : text.len;
    if (!field->is_number && text.len == 0)
        return p;
    assert(strlen(field->name) <= FIELD_NAME_MAX);
    p = pal_chars_put(pal_chars_put(p, as_json ? ",\"" : " "), field->name);
    p = pal_chars_put(p, as_json ? "\":" : "=");
    if (field->is_number)
        return put_number(p, field->number);
    bool quoted = as_json || memchr(text.data, ' ', text.len) || memchr(text.data, '"', text.len);
    if (quoted)
        *p++ = '"';
    p = put_escaped(p, text, quoted);
    if (quoted)
        *p++ = '"';
    return p;
}

static char *put_head(char *p, pal_log_level level, bool as_json)
{
    p = pal_chars_put(p, as_json ? "{\"time\":\"" : "");
    p += pal_time_to_text(pal_clock_now_ms(), p);
    p = pal_chars_put(p, as_json ? "\",\"level\":\"" : " ");
    p = pal_chars_put(p, level_names[level]);
    return pal_chars_put(p, as_json ? "\",\"message\":\"" : " ");
}

static void write_line(
        pal_log_level level, pal_str message, const pal_log_field *fields, size_t fields_len)
{
    char line[MESSAGE_MAX * ESCAPE_MAX + PAL_LOG_FIELDS_MAX * FIELD_SIZE + 128];
    bool as_json = atomic_load(&log_as_json);
    char *p = put_escaped(put_head(line, level, as_json), message, as_json);
    if (as_json)
        *p++ = '"';
    for (size_t i = 0; i < fields_len && i < PAL_LOG_FIELDS_MAX; i++)
        p = put_field(p, &fields[i], as_json);
    p = pal_chars_put(p, as_json ? "}\n" : "\n");
    pthread_mutex_lock(&log_lock);
    FILE *file = log_file ? log_file : stderr;
    fwrite(line, 1, (size_t)(p - line), file);
    fflush(file);
    pthread_mutex_unlock(&log_lock);
}

static bool is_logged(pal_log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

void pal_log_event(
        pal_log_level level, const char *message, const pal_log_field *fields, size_t fields_len)
{
    if (is_logged(level))
        write_line(level, pal_str_of(message), fields, fields_len);
}

void pal_log(pal_log_level level, const char *format, ...)
{
    if (!is_logged(level))
        return;
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (len < 0)
        return;
    size_t kept = (size_t)len < sizeof message ? (size_t)len : sizeof message - 1;
    write_line(level, pal_str_make(message, kept), NULL, 0);
}
