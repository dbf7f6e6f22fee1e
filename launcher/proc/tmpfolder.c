#include "launcher/proc/tmpfolder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rendezvous/base/err.h"

bool tmpfolder_make(char *path, size_t size)
{
    const char *root = getenv("TMPDIR");
    if (root == NULL || root[0] != '/')
        root = "/tmp";
    int n = snprintf(path, size, "%s/ddprun_XXXXXX", root);
    errno = ENAMETOOLONG;
    if (n >= 0 && (size_t)n < size && mkdtemp(path) != NULL) {
        ddp_assert(path[0] == '/');
        return true;
    }
    int saved = errno;
    (void)snprintf(path, size, "%s", root); /* to be told of */
    errno = saved;
    return false;
}

void tmpfolder_remove(const char *path)
{
    (void)rmdir(path); /* what somebody wrote stays */
}
