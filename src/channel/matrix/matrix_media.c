/* matrix_media.c - gets the bytes of pictures and files. The declared type of a file is not
 * believed: its first bytes decide. */
#include "base/memory.h"
#include "base/text.h"
#include "channel/matrix/matrix.h"
#include "channel/matrix/matrix_url.h"

#define FETCH_MS 30000

typedef struct fetching {
    pal_matrix_on_media on_media;
    void *user;
    char *url;        /* mxc */
    bool is_old;      /* the homeserver only has the older path */
    bool is_redirect; /* it named another host, which must not get our token */
} fetching;

static pal_str type_of(pal_str data, pal_str declared)
{
    static const struct {
        const char *start;
        size_t len;
        const char *type;
    } types[] = {
            {"\x89PNG\r\n\x1a\n", 8, "image/png"},
            {"\xff\xd8\xff", 3, "image/jpeg"},
            {"GIF8", 4, "image/gif"},
            {"%PDF-", 5, "application/pdf"},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (pal_text_begins_str(data, pal_str_make(types[i].start, types[i].len)))
            return pal_str_of(types[i].type);
    }
    if (data.len >= 12 && memcmp(data.data, "RIFF", 4) == 0 &&
            memcmp(data.data + 8, "WEBP", 4) == 0)
        return pal_str_of("image/webp");
    /* Something that says it is a picture and is not. */
    return pal_text_begins(declared, "image/") || !declared.len
            ? pal_str_of("application/octet-stream")
            : declared;
}

static void ask(pal_matrix *matrix, fetching *f, pal_str location);

static void on_bytes(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    fetching *f = user;
    bool is_moved = reply->status == PAL_OK && (reply->code == 307 || reply->code == 308);
    bool is_gone = reply->status == PAL_OK && reply->failure.fault == PAL_MATRIX_FAULT_MISSING;

    if (is_moved && !f->is_redirect && pal_text_is_http_url(reply->location)) {
        f->is_redirect = true;
        ask(matrix, f, reply->location);
        return;
    }
    if (is_gone && !f->is_old && strcmp(reply->failure.code, "M_UNRECOGNIZED") == 0) {
        f->is_old = true;
        ask(matrix, f, (pal_str){0});
        return;
    }
    if (reply->status == PAL_OK && !reply->failure.fault)
        f->on_media(matrix, type_of(reply->body, reply->media_type), reply->body, f->user);
    else
        f->on_media(matrix, (pal_str){0}, (pal_str){0}, f->user);
    pal_free(f->url);
    pal_free(f);
}

static void ask(pal_matrix *matrix, fetching *f, pal_str location)
{
    pal_str parts[2] = {{0}, {0}};
    pal_buf url;

    pal_buf_init(&url, PAL_MATRIX_URL_LEN_MAX);
    if (location.len) {
        pal_buf_append_str(&url, location);
    } else {
        (void)pal_matrix_url_media(pal_str_of(f->url), &parts[0], &parts[1]);
        pal_matrix_url_write(&url, matrix->settings->url,
                f->is_old ? "/_matrix/media/v3/download/{}/{}"
                          : "/_matrix/client/v1/media/download/{}/{}",
                parts, 2);
        pal_matrix_url_add(&url, "timeout_ms", pal_str_of("20000"));
    }
    pal_matrix_request request = {.method = "GET", .url = pal_buf_str(&url),
            .bytes_max = PAL_MATRIX_MEDIA_BYTES_MAX, .total_ms = FETCH_MS,
            .no_token = f->is_redirect};
    pal_matrix_call(matrix, &request, on_bytes, f);
    pal_buf_done(&url);
}

void pal_matrix_media_fetch(
        pal_matrix *matrix, pal_str url, pal_matrix_on_media on_media, void *user)
{
    fetching *f = pal_calloc(1, sizeof *f);

    if (f)
        f->url = pal_malloc(url.len + 1);
    if (!f || !f->url) {
        pal_free(f);
        on_media(matrix, (pal_str){0}, (pal_str){0}, user);
        return;
    }
    memcpy(f->url, url.data, url.len);
    f->url[url.len] = '\0';
    f->on_media = on_media;
    f->user = user;
    ask(matrix, f, (pal_str){0});
}
