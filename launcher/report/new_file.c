#include "launcher/report/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/rng.h"

#define TRIES 16 /* for a name that nobody has */

int new_file_beside(const char *path, char *name, size_t size)
{
    int fd = -1;
    errno = EEXIST;
    for (int i = 0; i < TRIES && fd < 0 && errno == EEXIST; i++) {
        int len = snprintf(name, size, "%s.%08x", path, (unsigned)rng_seed());
        ddp_assert(len > 0 && (size_t)len < size);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    return fd;
}
