#include "tests/lib/interfaces.h"

#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <string.h>

int interfaces_errno;

int getifaddrs(struct ifaddrs **all)
{
    int (*real)(struct ifaddrs **);
    void *found = dlsym(RTLD_NEXT, "getifaddrs");
    memcpy(&real, &found, sizeof(found));
    if (interfaces_errno == 0)
        return real(all);
    errno = interfaces_errno;
    return -1;
}
