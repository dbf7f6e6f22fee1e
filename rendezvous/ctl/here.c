/* A mark may have been left by a dead server: who does not answer is none. */
#include "rendezvous/ctl/here.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/base/dial.h"
#include "rendezvous/net/server_mark.h"

bool ctl_here_answers(int port, int64_t deadline_us)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = dial_addr((const struct sockaddr *)&at, deadline_us, NULL);
    if (fd < 0)
        return false;
    (void)close(fd); /* nothing was said */
    return true;
}

struct here {
    int *ports;
    int n;
    int64_t deadline_us;
};

/* Everybody may put a file of any name there. */
static bool is_ours(int port)
{
    char path[SERVER_MARK_PATH_SIZE];
    struct stat st;
    server_mark_path(path, port);
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid();
}

static void see(void *ctx, int port)
{
    struct here *f = ctx;
    if (f->n < CTL_HERE_MAX && is_ours(port) &&
        ctl_here_answers(port, f->deadline_us))
        f->ports[f->n++] = port;
}

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int ctl_here_ports(int ports[CTL_HERE_MAX], int64_t deadline_us)
{
    struct here f = {.ports = ports, .deadline_us = deadline_us};
    server_mark_each(see, &f);
    qsort(ports, (size_t)f.n, sizeof(ports[0]), compare);
    return f.n;
}
