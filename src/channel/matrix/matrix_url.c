/* matrix_url.c - URLs of the client-server API, and the filters that they contain. */
#include "base/json/json_put.h"
#include "base/text.h"
#include "channel/matrix/matrix_event.h"
#include "channel/matrix/matrix_url.h"

#define TIMELINE_LEN 100 /* Synapse sends no more, whatever a filter asks for */

static bool is_plain(char c)
{
    char lower = (char)(c | 0x20);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
            c == '.' || c == '~';
}

static void put_escaped(pal_buf *out, pal_str text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (is_plain(text.data[i])) {
            pal_buf_append_char(out, text.data[i]);
        } else {
            char escape[3] = {'%', digits[c >> 4], digits[c & 15]};
            pal_buf_append(out, escape, sizeof escape);
        }
    }
}

void pal_matrix_url_write(
        pal_buf *out, pal_str homeserver, const char *path, const pal_str *texts, size_t texts_len)
{
    size_t next = 0;

    while (homeserver.len && homeserver.data[homeserver.len - 1] == '/')
        homeserver.len--;
    pal_buf_append_str(out, homeserver);
    for (const char *p = path; *p; p++) {
        if (p[0] == '{' && p[1] == '}' && next < texts_len) {
            put_escaped(out, texts[next++]);
            p++;
        } else {
            pal_buf_append_char(out, *p);
        }
    }
}

void pal_matrix_url_add(pal_buf *out, const char *name, pal_str value)
{
    bool is_first = out->len == 0 || !memchr(out->data, '?', out->len);
    pal_buf_append_char(out, is_first ? '?' : '&');
    pal_buf_append_text(out, name);
    pal_buf_append_char(out, '=');
    put_escaped(out, value);
}

/* ---- Media ---- */

static bool has_only(pal_str text, const char *more)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i], lower = (char)(c | 0x20);
        bool is_letter = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
        if (!is_letter && (c == '\0' || !strchr(more, c)))
            return false;
    }
    return text.len > 0 && text.len <= PAL_MATRIX_ID_LEN_MAX;
}

bool pal_matrix_url_media(pal_str url, pal_str *out_server, pal_str *out_id)
{
    if (!pal_text_begins(url, "mxc://"))
        return false;
    url = pal_text_after(url, strlen("mxc://"));
    const char *slash = url.len ? memchr(url.data, '/', url.len) : NULL;
    if (!slash)
        return false;
    *out_server = pal_str_make(url.data, (size_t)(slash - url.data));
    *out_id = pal_text_after(url, out_server->len + 1);
    return has_only(*out_server, ".:-[]") && has_only(*out_id, "_-");
}

/* ---- Filters ---- */

static void put_types(pal_json_writer *json, const char *const *types, size_t len)
{
    pal_json_name(json, "types");
    pal_json_begin_array(json);
    for (size_t i = 0; i < len; i++)
        pal_json_put_text(json, types[i]);
    pal_json_end_array(json);
}

static void put_timeline(pal_json_writer *json, pal_str user, int64_t limit)
{
    static const char *const types[] = {"m.room.message", "m.room.redaction", "m.reaction",
            "m.sticker", "m.room.encrypted", "m.room.encryption", "m.room.member", "m.room.name",
            "m.room.canonical_alias", "m.room.tombstone"};
    pal_json_begin_object(json);
    pal_put_number(json, "limit", limit);
    pal_put_flag(json, "lazy_load_members", true);
    pal_json_name(json, "not_senders");
    pal_json_begin_array(json);
    pal_json_put_str(json, user);
    pal_json_end_array(json);
    put_types(json, types, sizeof types / sizeof *types);
    pal_json_end_object(json);
}

static void put_nothing(pal_json_writer *json, const char *name)
{
    pal_put_raw(json, name, pal_str_of("{\"not_types\":[\"*\"]}"));
}

void pal_matrix_filter_write_timeline(pal_str user, pal_buf *out)
{
    pal_json_writer json = pal_json_writer_make(out);
    put_timeline(&json, user, TIMELINE_LEN);
}

void pal_matrix_filter_write(pal_str user, bool first, pal_buf *out)
{
    static const char *const account[] = {"m.direct", "m.ignored_user_list"};
    static const char *const state[] = {"m.room.create", "m.room.member", "m.room.name",
            "m.room.canonical_alias", "m.room.encryption", "m.room.tombstone"};
    pal_json_writer json = pal_json_writer_make(out);

    pal_json_begin_object(&json);
    put_nothing(&json, "presence");
    pal_json_name(&json, "account_data");
    pal_json_begin_object(&json);
    put_types(&json, account, sizeof account / sizeof *account);
    pal_json_end_object(&json);
    pal_json_name(&json, "room");
    pal_json_begin_object(&json);
    put_nothing(&json, "ephemeral");
    put_nothing(&json, "account_data");
    pal_json_name(&json, "state");
    pal_json_begin_object(&json);
    pal_put_flag(&json, "lazy_load_members", true);
    put_types(&json, state, sizeof state / sizeof *state);
    pal_json_end_object(&json);
    pal_json_name(&json, "timeline");
    put_timeline(&json, user, first ? 1 : TIMELINE_LEN);
    pal_json_end_object(&json);
    pal_json_end_object(&json);
}
