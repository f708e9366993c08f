/* config_value.c - reads and writes single values. */
#include "config/config_row.h"

#include <inttypes.h>
#include <stdio.h>
#include "base/json/json.h"
#include "base/text.h"

static const struct {
    const char *name;
    int64_t ms;
} units[] = {
        {"w", 7 * 24 * 3600 * 1000ll},
        {"d", 24 * 3600 * 1000ll},
        {"h", 3600 * 1000ll},
        {"m", 60 * 1000ll},
        {"s", 1000},
        {"ms", 1},
};
#define UNITS_LEN (sizeof units / sizeof *units)

/* ---- Durations ---- */

/* The name of the unit is the text up to the next digit. */
static int64_t unit_of(pal_str text, size_t *out_len)
{
    size_t len = 0;
    while (len < text.len && (text.data[len] < '0' || text.data[len] > '9'))
        len++;
    *out_len = len;
    for (size_t i = 0; i < UNITS_LEN; i++) {
        if (pal_str_is(pal_str_make(text.data, len), units[i].name))
            return units[i].ms;
    }
    return 0;
}

/* "90s", "1h30m". */
static bool duration_from_text(pal_str text, int64_t *out_ms)
{
    int64_t total = 0;
    size_t at = 0;
    while (at < text.len) {
        int64_t number = 0;
        size_t start = at, unit_len;
        for (; at < text.len && text.data[at] >= '0' && text.data[at] <= '9'; at++) {
            if (number > INT32_MAX)
                return false;
            number = 10 * number + (text.data[at] - '0');
        }
        int64_t unit = unit_of(pal_str_make(text.data + at, text.len - at), &unit_len);
        if (at == start || unit == 0 || number > (INT64_MAX - total) / unit)
            return false;
        total += number * unit;
        at += unit_len;
    }
    *out_ms = total;
    return text.len > 0;
}

/* Writes the duration in the largest unit that is exact: 90m rather than 1h30m. */
static void duration_write(pal_buf *buf, int64_t ms)
{
    size_t unit = 0;
    while (ms % units[unit].ms != 0)
        unit++;
    if (ms == 0)
        unit = UNITS_LEN - 2;
    /* Up to two days, hours are easier to read: 24h and 48h. */
    if (units[unit].ms == units[1].ms && ms <= 2 * units[1].ms)
        unit = 2;
    pal_buf_append_i64(buf, ms / units[unit].ms);
    pal_buf_append_text(buf, units[unit].name);
}

/* ---- What a row requires ---- */

static void list_words(const pal_config_row *row, const char *before, char *out, size_t size)
{
    size_t len = (size_t)snprintf(out, size, "%s", before);
    const char *word;
    for (size_t i = 0; len < size && (word = pal_config_row_word(row, i)); i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s", i ? ", " : "", word);
}

static void range_of_durations(const pal_config_row *row, char *out, size_t size)
{
    pal_buf buf;
    pal_buf_init(&buf, size);
    duration_write(&buf, (int64_t)row->min);
    pal_buf_append_text(&buf, " to ");
    duration_write(&buf, (int64_t)row->max);
    snprintf(out, size, "a duration such as 90s, 15m or 24h, from %.*s",
            PAL_STR_ARG(pal_buf_str(&buf)));
    pal_buf_done(&buf);
}

void pal_config_wants(const pal_config_row *row, char *out_text, size_t size)
{
    switch (row->kind) {
    case PAL_CONFIG_BOOL:
    case PAL_CONFIG_BOOL_OFF:
        snprintf(out_text, size, "true or false");
        break;
    case PAL_CONFIG_TEXT:
    case PAL_CONFIG_URL:
        if (pal_config_row_word(row, 0))
            list_words(row, "one of ", out_text, size);
        else
            snprintf(out_text, size, "a text of at most %" PRIu64 " bytes", row->max);
        break;
    case PAL_CONFIG_HTTP_URL:
        snprintf(out_text, size, "a URL that begins with http:// or https://");
        break;
    case PAL_CONFIG_ADDRESS:
        snprintf(out_text, size, "an address and a port, such as 127.0.0.1:7077 or [::1]:7077");
        break;
    case PAL_CONFIG_VARIABLE:
        snprintf(out_text, size,
                "the name of an environment variable, of capital letters, digits and '_'");
        break;
    case PAL_CONFIG_REFERENCE:
        snprintf(out_text, size,
                "a text of at most %" PRIu64 " bytes, in which ${NAME} is an environment variable",
                row->max);
        break;
    case PAL_CONFIG_COUNT:
    case PAL_CONFIG_COUNT32:
        snprintf(out_text, size, "a whole number from %" PRIu64 " to %" PRIu64, row->min, row->max);
        break;
    case PAL_CONFIG_DURATION:
        range_of_durations(row, out_text, size);
        break;
    case PAL_CONFIG_PRICE:
        snprintf(out_text, size, "a number from 0 to %" PRIu64, row->max);
        break;
    case PAL_CONFIG_WORD:
        list_words(row, "one of ", out_text, size);
        break;
    case PAL_CONFIG_TEXTS:
        if (pal_config_row_word(row, 0))
            list_words(row, "a list of ", out_text, size);
        else
            snprintf(out_text, size, "a list of texts");
        break;
    case PAL_CONFIG_SECTION:
        snprintf(out_text, size, "a section");
        break;
    case PAL_CONFIG_LIST:
        snprintf(out_text, size, "a list");
        break;
    case PAL_CONFIG_MAP:
        snprintf(out_text, size, "a map of names to values");
        break;
    case PAL_CONFIG_OBJECT:
        snprintf(out_text, size, "a map of at most %" PRIu64 " bytes", row->max);
        break;
    }
}

/* ---- Reading ---- */

static bool read_bool(pal_str text, bool is_plain, bool is_inverted, bool *field)
{
    bool is_true = pal_str_is(text, "true");
    if (!is_plain || (!is_true && !pal_str_is(text, "false")))
        return false;
    *field = is_true != is_inverted;
    return true;
}

/* Numbers have the syntax of JSON, so they are the same in every locale. */
static bool read_number(
        pal_str text, bool is_plain, pal_arena *scratch, uint64_t *out_count, double *out_number)
{
    pal_json value;
    if (!is_plain || pal_json_parse(scratch, text, NULL, &value, NULL) != PAL_OK)
        return false;
    return out_count ? pal_json_u64(value, out_count) : pal_json_f64(value, out_number);
}

/* "HOST:PORT", or "[ADDRESS]:PORT" if the address itself contains colons. */
static bool is_address(pal_str text)
{
    const char *colon = text.len ? memrchr(text.data, ':', text.len) : NULL;
    size_t host_len = colon ? (size_t)(colon - text.data) : 0;
    unsigned port = 0;
    size_t digits = text.len - host_len;
    if (host_len == 0 || digits < 2 || digits > 6 || memchr(text.data, ' ', host_len))
        return false;
    for (size_t i = host_len + 1; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        port = 10 * port + (unsigned)(text.data[i] - '0');
    }
    bool is_host = text.data[0] == '[' ? text.data[host_len - 1] == ']' && host_len > 2
                                       : !memchr(text.data, ':', host_len);
    return port <= UINT16_MAX && is_host;
}

static bool text_fits(const pal_config_row *row, pal_str text)
{
    bool has_words = row->words || row->word_at;
    if (has_words ? !pal_config_word_is(row, text) : text.len > row->max)
        return false;
    switch (row->kind) {
    case PAL_CONFIG_HTTP_URL:
        return text.len == 0 || pal_text_is_http_url(text);
    case PAL_CONFIG_ADDRESS:
        return is_address(text);
    case PAL_CONFIG_VARIABLE:
        return text.len == 0 || pal_config_variable_is_name(text);
    case PAL_CONFIG_REFERENCE:
        return pal_config_reference_is_valid(text);
    default:
        return true;
    }
}

static bool word_find(const pal_config_row *row, pal_str text, int *out_place)
{
    const char *word;
    for (size_t i = 0; (word = pal_config_row_word(row, i)); i++) {
        if (pal_str_is(text, word)) {
            *out_place = (int)i + (int)row->min;
            return true;
        }
    }
    return false;
}

bool pal_config_word_is(const pal_config_row *row, pal_str text)
{
    int ignored;
    return !pal_config_row_word(row, 0) || word_find(row, text, &ignored);
}

bool pal_config_value_read(
        const pal_config_row *row, pal_str text, bool is_plain, pal_arena *scratch, void *field)
{
    uint64_t count;
    int64_t ms;
    double number;
    switch (row->kind) {
    case PAL_CONFIG_BOOL:
    case PAL_CONFIG_BOOL_OFF:
        return read_bool(text, is_plain, row->kind == PAL_CONFIG_BOOL_OFF, field);
    case PAL_CONFIG_TEXT:
    case PAL_CONFIG_URL:
    case PAL_CONFIG_HTTP_URL:
    case PAL_CONFIG_ADDRESS:
    case PAL_CONFIG_VARIABLE:
    case PAL_CONFIG_REFERENCE:
        if (!text_fits(row, text))
            return false;
        *(pal_str *)field = text;
        return true;
    case PAL_CONFIG_COUNT:
    case PAL_CONFIG_COUNT32:
        if (!read_number(text, is_plain, scratch, &count, NULL) || count < row->min ||
                count > row->max)
            return false;
        if (row->kind == PAL_CONFIG_COUNT)
            *(uint64_t *)field = count;
        else
            *(uint32_t *)field = (uint32_t)count;
        return true;
    case PAL_CONFIG_DURATION:
        if (!duration_from_text(text, &ms) || ms < (int64_t)row->min || ms > (int64_t)row->max)
            return false;
        *(int64_t *)field = ms;
        return true;
    case PAL_CONFIG_PRICE:
        if (!read_number(text, is_plain, scratch, NULL, &number) || number < 0 ||
                number > (double)row->max)
            return false;
        *(double *)field = number;
        return true;
    case PAL_CONFIG_WORD:
        return word_find(row, text, field);
    default:
        return false;
    }
}

void pal_config_value_clear(const pal_config_row *row, void *field)
{
    if (row->kind == PAL_CONFIG_PRICE)
        *(double *)field = -1;
}

/* ---- Showing ---- */

static void write_texts(pal_json_writer *writer, const pal_str *texts, size_t len)
{
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++)
        pal_json_put_str(writer, texts[i]);
    pal_json_end_array(writer);
}

static void write_duration(pal_buf *buf, int64_t ms)
{
    pal_buf_append_char(buf, '"');
    duration_write(buf, ms);
    pal_buf_append_char(buf, '"');
}

void pal_config_value_write(const pal_config_row *row, const void *field, pal_buf *buf)
{
    pal_json_writer writer = pal_json_writer_make(buf);
    switch (row->kind) {
    case PAL_CONFIG_BOOL:
    case PAL_CONFIG_BOOL_OFF:
        pal_json_put_bool(&writer, *(const bool *)field != (row->kind == PAL_CONFIG_BOOL_OFF));
        break;
    case PAL_CONFIG_TEXT:
    case PAL_CONFIG_ADDRESS:
    case PAL_CONFIG_VARIABLE:
        pal_json_put_str(&writer, *(const pal_str *)field);
        break;
    case PAL_CONFIG_URL:
    case PAL_CONFIG_HTTP_URL:
        pal_config_url_write(&writer, *(const pal_str *)field);
        break;
    case PAL_CONFIG_REFERENCE:
        pal_config_reference_write(&writer, *(const pal_str *)field);
        break;
    case PAL_CONFIG_COUNT:
        pal_json_put_u64(&writer, *(const uint64_t *)field);
        break;
    case PAL_CONFIG_COUNT32:
        pal_json_put_u64(&writer, *(const uint32_t *)field);
        break;
    case PAL_CONFIG_DURATION:
        write_duration(buf, *(const int64_t *)field);
        break;
    case PAL_CONFIG_PRICE:
        if (*(const double *)field < 0)
            pal_json_put_null(&writer);
        else
            pal_json_put_f64(&writer, *(const double *)field);
        break;
    case PAL_CONFIG_WORD:
        pal_json_put_text(&writer, row->words[*(const int *)field - (int)row->min]);
        break;
    case PAL_CONFIG_TEXTS:
        write_texts(&writer, *(const pal_str *const *)field,
                *(const size_t *)((const char *)field + row->len_offset - row->offset));
        break;
    case PAL_CONFIG_LIST:
        pal_buf_append_text(buf, "[]");
        break;
    case PAL_CONFIG_SECTION:
    case PAL_CONFIG_MAP:
        pal_buf_append_text(buf, "{}");
        break;
    case PAL_CONFIG_OBJECT: {
        pal_str object = *(const pal_str *)field;
        pal_buf_append_str(buf, object.len ? object : pal_str_of("{}"));
        break;
    }
    }
}
