/* json_put.h - functions that write one member of a JSON object. */
#ifndef PAL_JSON_PUT_H
#define PAL_JSON_PUT_H

#include "base/clock.h"
#include "base/json/json.h"
#include "palaver/id.h"

static inline void pal_put_id(pal_json_writer *writer, const char *name, pal_id id)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_id_to_text(id, text);
    pal_json_name(writer, name);
    pal_json_put_text(writer, text);
}

static inline void pal_put_count(pal_json_writer *writer, const char *name, uint64_t count)
{
    pal_json_name(writer, name);
    pal_json_put_u64(writer, count);
}

static inline void pal_put_number(pal_json_writer *writer, const char *name, int64_t number)
{
    pal_json_name(writer, name);
    pal_json_put_i64(writer, number);
}

static inline void pal_put_f64(pal_json_writer *writer, const char *name, double number)
{
    pal_json_name(writer, name);
    pal_json_put_f64(writer, number);
}

static inline void pal_put_flag(pal_json_writer *writer, const char *name, bool flag)
{
    pal_json_name(writer, name);
    pal_json_put_bool(writer, flag);
}

static inline void pal_put_str(pal_json_writer *writer, const char *name, pal_str text)
{
    pal_json_name(writer, name);
    pal_json_put_str(writer, text);
}

/* Writes JSON text that is known to be valid. */
static inline void pal_put_raw(pal_json_writer *writer, const char *name, pal_str json)
{
    pal_json_name(writer, name);
    pal_json_put_raw(writer, json);
}

static inline void pal_put_null(pal_json_writer *writer, const char *name)
{
    pal_json_name(writer, name);
    pal_json_put_null(writer);
}

/* Writes nothing if the text is empty. */
static inline void pal_put_str_if(pal_json_writer *writer, const char *name, pal_str text)
{
    if (text.len)
        pal_put_str(writer, name, text);
}

/* Writes null if the text is empty. */
static inline void pal_put_str_or_null(pal_json_writer *writer, const char *name, pal_str text)
{
    pal_json_name(writer, name);
    if (text.len)
        pal_json_put_str(writer, text);
    else
        pal_json_put_null(writer);
}

static inline void pal_put_text(pal_json_writer *writer, const char *name, const char *text)
{
    pal_json_name(writer, name);
    pal_json_put_text(writer, text);
}

/* Writes milliseconds since 1970 as RFC 3339. */
static inline void pal_put_time(pal_json_writer *writer, const char *name, int64_t ms)
{
    char text[PAL_TIME_TEXT_SIZE];
    pal_json_name(writer, name);
    pal_json_put_str(writer, pal_str_make(text, pal_time_to_text(ms, text)));
}

#endif
