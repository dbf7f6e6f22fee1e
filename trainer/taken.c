#include "trainer/taken.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "trainer/ops/fail.h"

#define NUMBER_ROOM 11 /* of a sample, with its blank */
#define BEGIN_ROOM  64 /* of three numbers of 64 bits */

int taken_open(struct taken *t,
               const char *file,
               int rank,
               int64_t round,
               size_t max,
               struct ddp_error *err)
{
    char path[4200];
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    *t = (struct taken){.fd = -1, .file = file, .rank = rank, .round = round};
    t->room = BEGIN_ROOM + max * NUMBER_ROOM + 1;
    t->line = malloc(t->room);
    if (t->line == NULL)
        return fail_sys(err, DDP_ERR_NOMEM,
                        "no memory for the lines of --samples_taken");
    int n = snprintf(path, sizeof(path), "%s.%d", file, rank);
    if (n > 0 && (size_t)n < sizeof(path))
        t->fd = open(path, flags, 0666);
    else
        errno = ENAMETOOLONG;
    if (t->fd >= 0)
        return 0;
    (void)fail_sys(err, DDP_ERR_IO, "--samples_taken: cannot write %.200s.%d",
                   file, rank);
    taken_free(t);
    return -1;
}

void taken_free(struct taken *t)
{
    if (t->fd >= 0)
        (void)close(t->fd); /* each line was looked at */
    free(t->line);
    t->line = NULL;
    t->fd = -1;
}

int taken_add(struct taken *t,
              int64_t epoch,
              int64_t step,
              const uint32_t *samples,
              size_t n,
              struct ddp_error *err)
{
    if (t->fd < 0)
        return 0;
    /* The room was measured. */
    size_t len = (size_t)snprintf(t->line, t->room, "%lld %lld %lld",
                                  (long long)t->round, (long long)epoch,
                                  (long long)step);
    for (size_t i = 0; i < n; i++)
        len +=
            (size_t)snprintf(t->line + len, t->room - len, " %u", samples[i]);
    t->line[len++] = '\n';
    ssize_t done = write(t->fd, t->line, len);
    if (done == (ssize_t)len)
        return 0;
    if (done >= 0)
        errno = ENOSPC; /* what a short write to a file means */
    return fail_sys(err, DDP_ERR_IO, "--samples_taken: cannot write %.200s.%d",
                    t->file, t->rank);
}
