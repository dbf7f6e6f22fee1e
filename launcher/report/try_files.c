#include "launcher/report/try_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/report/new_file.h"
#include "rendezvous/base/access.h"

static bool try_open(const char *path, int how)
{
    how |= O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = open(path, how, 0666);
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    return fd >= 0;
}

/* A pipe, a device or a folder; errno says why not. To open a FIFO without a
 * reader is an error that means nothing yet. */
static bool try_special(const char *path, const struct stat *st)
{
    errno = EISDIR;
    return !S_ISDIR(st->st_mode) &&
           access_at(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

static bool try_events(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return try_special(path, &st);
    return try_open(path, O_APPEND);
}

/* A plain file is replaced by another (launcher/report/json). */
static bool try_report(const char *path)
{
    struct stat st, link;
    char temp[sizeof(((struct conf_output *)0)->report) + NEW_FILE_MORE];
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return try_special(path, &st);
    if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode))
        return try_open(path, 0);
    int fd = new_file_beside(path, temp, sizeof(temp));
    if (fd < 0)
        return false;
    (void)close(fd);    /* nothing was written */
    (void)unlink(temp); /* gone or not: the report comes by another name */
    return true;
}

int try_files(const struct conf_output *c, struct ddp_err *err)
{
    if (c->report[0] != '\0' && !try_report(c->report))
        return ddp_err_sys(err, DDP_E_CONFIG,
                           "--report=%.300s cannot be written", c->report);
    if (c->events[0] != '\0' && !try_events(c->events))
        return ddp_err_sys(err, DDP_E_CONFIG,
                           "--events=%.300s cannot be written", c->events);
    return 0;
}
