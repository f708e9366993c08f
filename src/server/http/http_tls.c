/* http_tls.c - the certificate of the server, and how it is replaced while the server runs.
 *
 * libmicrohttpd uses the certificate that it was started with. After the files were reloaded, a new
 * connection gets the new credentials before its handshake. Each connection keeps its credentials
 * until it is closed, so a renewal does not disturb open connections.
 *
 * Threads: any. The listener's `tls` is guarded by the listener's lock. Credentials never change
 * once they are created. */
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "server/http/http_internal.h"

struct pal_tls {
    atomic_uint refs;
    gnutls_certificate_credentials_t credentials;
};

/* ---- The files ---- */

static pal_status read_file(const char *key, pal_str path, pal_buf *out, pal_error *err)
{
    ssize_t len = -1;
    char *at;
    int fd = open(path.data, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pal_error_set(err, errno == ENOENT ? PAL_NOT_FOUND : PAL_DENIED,
                "%s: could not open '%.*s': %s", key, PAL_STR_ARG(path), strerror(errno));
    while ((at = pal_buf_reserve(out, 4096)) && (len = read(fd, at, 4096)) > 0)
        pal_buf_commit(out, (size_t)len);
    int error = errno;
    close(fd);
    if (out->failure)
        return pal_error_set(err, out->failure, "%s: '%.*s' is too large", key, PAL_STR_ARG(path));
    if (len < 0)
        return pal_error_set(err, PAL_IO, "%s: could not read '%.*s': %s", key, PAL_STR_ARG(path),
                strerror(error));
    pal_buf_append_char(out, 0);
    return out->failure ? pal_error_set(err, out->failure, "%s: out of memory", key) : PAL_OK;
}

pal_status pal_tls_read(
        const pal_config_server *config, pal_buf *certificate, pal_buf *key, pal_error *err)
{
    if (config->tls_certificate.len == 0 || config->tls_key.len == 0)
        return pal_error_set(err, PAL_INVALID,
                "server.tls_certificate and server.tls_key must be set together");
    pal_status status =
            read_file("server.tls_certificate", config->tls_certificate, certificate, err);
    return status ? status : read_file("server.tls_key", config->tls_key, key, err);
}

pal_status pal_tls_refuse(const pal_config_server *config, pal_error *err)
{
    return pal_error_set(err, PAL_INVALID,
            "could not start TLS: '%.*s' and '%.*s' must be a PEM certificate and its key",
            PAL_STR_ARG(config->tls_certificate), PAL_STR_ARG(config->tls_key));
}

/* ---- Credentials ---- */

static pal_tls *tls_new(pal_str certificate, pal_str key)
{
    /* Both end with a NUL, which is not part of the PEM text. */
    gnutls_datum_t certificate_datum = {
            (unsigned char *)(uintptr_t)certificate.data, (unsigned)certificate.len - 1};
    gnutls_datum_t key_datum = {(unsigned char *)(uintptr_t)key.data, (unsigned)key.len - 1};
    pal_tls *tls = pal_calloc(1, sizeof *tls);
    if (!tls)
        return NULL;
    atomic_init(&tls->refs, 1);
    if (gnutls_certificate_allocate_credentials(&tls->credentials) != GNUTLS_E_SUCCESS) {
        pal_free(tls);
        return NULL;
    }
    if (gnutls_certificate_set_x509_key_mem(
                tls->credentials, &certificate_datum, &key_datum, GNUTLS_X509_FMT_PEM) >= 0)
        return tls;
    pal_tls_unref(tls);
    return NULL;
}

void pal_tls_unref(pal_tls *tls)
{
    if (!tls || atomic_fetch_sub(&tls->refs, 1) != 1)
        return;
    gnutls_certificate_free_credentials(tls->credentials);
    pal_free(tls);
}

pal_status pal_tls_reload(pal_listener *listener, const pal_config_server *config, pal_error *err)
{
    pal_buf certificate, key;
    pal_tls *tls = NULL;
    pal_buf_init(&certificate, PAL_SERVER_TLS_FILE_BYTES_MAX);
    pal_buf_init(&key, PAL_SERVER_TLS_FILE_BYTES_MAX);
    pal_status status = pal_tls_read(config, &certificate, &key, err);
    if (status)
        goto out;
    tls = tls_new(pal_buf_str(&certificate), pal_buf_str(&key));
    if (!tls) {
        status = pal_tls_refuse(config, err);
        goto out;
    }
    pthread_mutex_lock(&listener->lock);
    pal_tls *before = listener->tls;
    listener->tls = tls;
    pthread_mutex_unlock(&listener->lock);
    pal_tls_unref(before);
out:
    pal_buf_done(&certificate);
    pal_buf_done(&key);
    return status;
}

pal_tls *pal_tls_use(pal_listener *listener, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (!info || !info->tls_session)
        return NULL;
    pthread_mutex_lock(&listener->lock);
    pal_tls *tls = listener->tls;
    if (tls)
        atomic_fetch_add(&tls->refs, 1);
    pthread_mutex_unlock(&listener->lock);
    if (tls)
        (void)gnutls_credentials_set(info->tls_session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    return tls;
}
