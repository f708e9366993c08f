/* dialect_put.h - functions that write one member of a JSON object. */
#ifndef PAL_DIALECT_PUT_H
#define PAL_DIALECT_PUT_H

#include "base/clock.h"
#include "base/json/json.h"
#include "palaver/id.h"
#include "palaver/message.h"

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

static inline void pal_put_usage(pal_json_writer *writer, const char *name, const pal_usage *usage)
{
    pal_json_name(writer, name);
    pal_json_begin_object(writer);
    pal_put_count(writer, "input_tokens", usage->input);
    pal_put_count(writer, "cache_read_tokens", usage->cache_read);
    pal_put_count(writer, "cache_write_tokens", usage->cache_write);
    pal_put_count(writer, "output_tokens", usage->output);
    pal_put_count(writer, "reasoning_tokens", usage->reasoning);
    pal_json_end_object(writer);
}

#endif
