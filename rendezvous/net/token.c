/*
 * Happy path: open, check the open file (not the path, which could change),
 * read, cut white space off the end.
 *
 * Failure modes: each has its own message. All of them are errors at the start
 * of a program: a launcher never goes on without the token that it was given.
 */
#include "rendezvous/net/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Whether it is a credential that systemd provides, systemd.exec(5). If systemd
 * grants access by an ACL, stat(2) shows its mask as rights of the group,
 * though the group has none.
 */
static bool is_credential(const char *path)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    size_t len = folder != NULL ? strlen(folder) : 0;
    return len > 0 && strncmp(path, folder, len) == 0 && path[len] == '/';
}

static int check_file(const char *path, int fd, struct ddp_err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return ddp_err_sys(err, DDP_E_NOINPUT, "cannot read the token file %s",
                           path);
    if (!S_ISREG(st.st_mode))
        return ddp_err_set(err, DDP_E_CONFIG,
                           "the token file %s is not a regular file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return ddp_err_set(err, DDP_E_CONFIG,
                           "the token file %s belongs to user %ld: it must "
                           "belong to this user or to root",
                           path, (long)st.st_uid);
    mode_t forbidden = is_credential(path) ? 037 : 077;
    if ((st.st_mode & forbidden) != 0)
        return ddp_err_set(err, DDP_E_CONFIG,
                           "the token file %s is open to other users (mode "
                           "%04o): run chmod 600 on it",
                           path, (unsigned)(st.st_mode & 07777));
    return 0;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Reads at most `cap` bytes; -1 with errno. */
static ssize_t read_all(int fd, uint8_t *data, size_t cap)
{
    size_t len = 0;
    while (len < cap) {
        ssize_t n = read(fd, data + len, cap - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

int token_read(const char *path,
               uint8_t token[TOKEN_ROOM],
               size_t *len_out,
               struct ddp_err *err)
{
    /* O_NONBLOCK: a FIFO must not make this wait; it is refused below. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return ddp_err_sys(err, DDP_E_NOINPUT, "cannot read the token file %s",
                           path);
    int rc = check_file(path, fd, err);
    ssize_t n = rc == 0 ? read_all(fd, token, TOKEN_ROOM) : 0;
    if (n < 0)
        rc = ddp_err_sys(err, DDP_E_NOINPUT, "cannot read the token file %s",
                         path);
    (void)close(fd); /* read only */
    size_t len = n > 0 ? (size_t)n : 0;
    while (len > 0 && is_space(token[len - 1]))
        len--;
    if (rc == 0 && (len < TOKEN_MIN || len > TOKEN_MAX))
        rc = ddp_err_set(err, DDP_E_CONFIG,
                         "the token in %s is too %s: it must have %u to %u "
                         "bytes (make one with: openssl rand -hex 32)",
                         path, len < TOKEN_MIN ? "short" : "long", TOKEN_MIN,
                         TOKEN_MAX);
    *len_out = len;
    return rc;
}
