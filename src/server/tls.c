#include "server/tls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PEM_BYTES_MAX = 1024 * 1024, PATH_BYTES_MAX = 4096 };

struct tls_pair {
    gnutls_certificate_credentials_t credentials;
    uint32_t users; /* connections, and one more while it is the latest; under the mutex */
};

struct tls {
    pthread_mutex_t mutex;
    struct tls_pair *latest;
};

/* ---- files ---- */

/* Nobody shall find a key in memory that was given back. NULL does nothing. */
static void forget(void *text, size_t len)
{
    if (text != NULL)
        explicit_bzero(text, len);
    free(text);
}

static enum error_code cannot_read(const char *path, const char *why, struct err *err)
{
    return err_set(err, ERR_BAD_REQUEST, "cannot read %s: %s", path, why);
}

/* Reads a file of at most PEM_BYTES_MAX. To be given to forget(). */
static enum error_code read_pem(struct str name, gnutls_datum_t *ret, struct err *err)
{
    char path[PATH_BYTES_MAX];
    char why[128] = "";
    size_t len = 0;
    ssize_t got = 1;
    if (name.len >= sizeof path || memchr(str_start(name), '\0', name.len) != NULL)
        return err_set(err, ERR_BAD_REQUEST, "the path of a certificate or key is too long");
    memcpy(path, name.at, name.len);
    path[name.len] = '\0';
    /* A pipe or a device in its place must not keep the server waiting. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return cannot_read(path, strerror_r(errno, why, sizeof why) == 0 ? why : "", err);
    char *text = malloc(PEM_BYTES_MAX + 1);
    while (text != NULL && got > 0 && len <= PEM_BYTES_MAX) {
        got = read(fd, text + len, PEM_BYTES_MAX + 1 - len);
        len += got > 0 ? (size_t)got : 0;
    }
    int error = errno;
    (void)close(fd);
    enum error_code code = ERR_OK;
    if (text == NULL)
        code = err_set(err, ERR_NO_MEMORY, "out of memory while reading %s", path);
    else if (got < 0)
        code = cannot_read(path, strerror_r(error, why, sizeof why) == 0 ? why : "", err);
    else if (len == 0 || len > PEM_BYTES_MAX)
        code = cannot_read(path, len == 0 ? "the file is empty" : "the file is too large", err);
    if (code != ERR_OK)
        forget(text, len);
    if (code == ERR_OK)
        *ret = (gnutls_datum_t){(unsigned char *)text, (unsigned)len};
    return code;
}

enum error_code tls_read(struct str certificate, struct str key, struct tls_pair **ret,
                         struct err *err)
{
    gnutls_datum_t certificates = {0};
    gnutls_datum_t secret = {0};
    struct tls_pair *pair = calloc(1, sizeof *pair);
    enum error_code code = pair == NULL ? err_set(err, ERR_NO_MEMORY, "out of memory")
                                        : read_pem(certificate, &certificates, err);
    if (code == ERR_OK)
        code = read_pem(key, &secret, err);
    if (code == ERR_OK && gnutls_certificate_allocate_credentials(&pair->credentials) < 0)
        code = err_set(err, ERR_NO_MEMORY, "out of memory");
    if (code == ERR_OK) {
        int result = gnutls_certificate_set_x509_key_mem2(pair->credentials, &certificates, &secret,
                                                          GNUTLS_X509_FMT_PEM, NULL, 0);
        if (result < 0)
            code = err_set(err, ERR_BAD_REQUEST,
                           "the certificate %.*s and the key %.*s cannot be used: %s",
                           STR_ARG(certificate), STR_ARG(key), gnutls_strerror(result));
    }
    forget(certificates.data, certificates.size);
    forget(secret.data, secret.size);
    if (code != ERR_OK)
        tls_drop(pair);
    else
        *ret = pair;
    return code;
}

void tls_drop(struct tls_pair *pair)
{
    if (pair == NULL)
        return;
    assert(pair->users == 0);
    if (pair->credentials != NULL)
        gnutls_certificate_free_credentials(pair->credentials);
    free(pair);
}

/* ---- the latest ---- */

enum error_code tls_open(struct str certificate, struct str key, struct tls **ret, struct err *err)
{
    struct tls *tls = calloc(1, sizeof *tls);
    struct tls_pair *pair = NULL;
    enum error_code code = tls == NULL ? err_set(err, ERR_NO_MEMORY, "out of memory")
                                       : tls_read(certificate, key, &pair, err);
    if (code != ERR_OK) {
        free(tls);
        return code;
    }
    (void)pthread_mutex_init(&tls->mutex, NULL);
    tls_use(tls, pair);
    *ret = tls;
    return ERR_OK;
}

/* One less has it. */
static void let_go(struct tls *tls, struct tls_pair *pair)
{
    (void)pthread_mutex_lock(&tls->mutex);
    bool last = --pair->users == 0;
    (void)pthread_mutex_unlock(&tls->mutex);
    if (last)
        tls_drop(pair);
}

void tls_use(struct tls *tls, struct tls_pair *pair)
{
    (void)pthread_mutex_lock(&tls->mutex);
    struct tls_pair *before = tls->latest;
    tls->latest = pair;
    pair->users++;
    (void)pthread_mutex_unlock(&tls->mutex);
    if (before != NULL)
        let_go(tls, before);
}

void tls_close(struct tls *tls)
{
    if (tls == NULL)
        return;
    assert(tls->latest->users == 1);
    let_go(tls, tls->latest);
    (void)pthread_mutex_destroy(&tls->mutex);
    free(tls);
}

/* ---- connections ---- */

struct tls_pair *tls_attach(struct tls *tls, struct MHD_Connection *http)
{
    const union MHD_ConnectionInfo *info =
        tls == NULL ? NULL : MHD_get_connection_info(http, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info == NULL || info->tls_session == NULL)
        return NULL;
    (void)pthread_mutex_lock(&tls->mutex);
    struct tls_pair *pair = tls->latest;
    pair->users++;
    (void)pthread_mutex_unlock(&tls->mutex);
    /* It takes the place of libmicrohttpd's own, which has no certificate: before the handshake. */
    (void)gnutls_credentials_set(info->tls_session, GNUTLS_CRD_CERTIFICATE, pair->credentials);
    return pair;
}

void tls_detach(struct tls *tls, struct tls_pair *pair)
{
    if (pair != NULL)
        let_go(tls, pair);
}

/* For a connection that has no pair, since there was no memory for it: it cannot be served. */
static int no_certificate(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                          const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                          gnutls_pcert_st **ret_certificate, unsigned int *ret_count,
                          gnutls_privkey_t *ret_key)
{
    (void)session, (void)authorities, (void)count, (void)algorithms, (void)algorithm_count;
    (void)ret_certificate, (void)ret_key;
    *ret_count = 0;
    return -1;
}

struct MHD_OptionItem tls_option(void)
{
    union {
        gnutls_certificate_retrieve_function2 *from;
        void *to;
    } view = {.from = no_certificate};
    return (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, view.to};
}
