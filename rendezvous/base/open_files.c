#include "rendezvous/base/open_files.h"

#include <sys/resource.h>

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
