#include "rendezvous/base/open_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rendezvous/base/err.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* on every machine; older headers have no name */
#endif

#define FILES_MAX (1 << 20)

int open_files_raise(void)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) != 0)
        return 1024;
    rlim_t hard = lim.rlim_max == RLIM_INFINITY ? FILES_MAX : lim.rlim_max;
    if (lim.rlim_cur < hard) {
        lim.rlim_cur = hard;
        if (setrlimit(RLIMIT_NOFILE, &lim) != 0)
            (void)getrlimit(RLIMIT_NOFILE, &lim); /* as it was, then */
    }
    return lim.rlim_cur > FILES_MAX ? FILES_MAX : (int)lim.rlim_cur;
}

int open_files_room(int n)
{
    int ends[OPEN_FILES_OF_A_LOOP / 2][2];
    int pairs = 0, rc = 0;
    ddp_assert(n > 0 && n <= OPEN_FILES_OF_A_LOOP);
    while (rc == 0 && 2 * pairs < n) {
        rc = pipe2(ends[pairs], O_CLOEXEC);
        pairs += rc == 0;
    }
    int saved = errno;
    for (int i = 0; i < 2 * pairs; i++)
        (void)close(ends[i / 2][i % 2]); /* nothing was written */
    errno = saved;
    return rc;
}

/* Without /proc: all that the limit allows. One that was opened under a higher
 * limit stays. */
static void close_each(unsigned first, unsigned last)
{
    struct rlimit lim;
    rlim_t end = FILES_MAX;
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < end)
        end = lim.rlim_cur;
    for (unsigned fd = first; fd <= last && fd < end; fd++)
        (void)close((int)fd); /* EBADF for most */
}

/* Numbers that were closed are not shown again: /proc lists them in order. */
static bool close_listed(unsigned first, unsigned last)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *e;
    if (dir == NULL)
        return false;
    while ((e = readdir(dir)) != NULL) {
        char *end;
        unsigned long fd = strtoul(e->d_name, &end, 10);
        if (end != e->d_name && fd >= first && fd <= last &&
            (int)fd != dirfd(dir))
            (void)close((int)fd); /* what this process does not use */
    }
    (void)closedir(dir); /* only read */
    return true;
}

/* close_range: Linux 5.9. */
void open_files_close(unsigned first, unsigned last)
{
    if (syscall(SYS_close_range, first, last, 0) != 0 &&
        !close_listed(first, last))
        close_each(first, last);
}
