#include "launcher/front/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"

#define WRITE_MS 1000

int pump_open(struct pump *p, int to)
{
    int ends[2];
    *p = (struct pump){.from = -1, .write = -1, .to = to};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    p->from = ends[0];
    p->write = ends[1];
    return fcntl(p->from, F_SETFL, O_NONBLOCK) < 0 ? -1 : 0;
}

int pump_in_child(const struct pump *p)
{
    return dup2(p->write, p->to) < 0 ? -1 : 0;
}

void pump_started(struct pump *p)
{
    if (p->write >= 0)
        (void)close(p->write); /* the launcher's */
    p->write = -1;
}

bool pump_read(struct pump *p)
{
    ddp_assert(p->len == 0 && p->from >= 0);
    ssize_t n = read(p->from, p->held, sizeof(p->held));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n > 0)
        p->len = (size_t)n;
    else
        pump_close(p);
    return n > 0;
}

bool pump_write(struct pump *p, bool drop)
{
    ssize_t n =
        drop ? (ssize_t)p->len : log_write(p->to, p->held, p->len, WRITE_MS);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    p->len -= (size_t)n;
    memmove(p->held, p->held + n, p->len);
    return true;
}

bool pump_has_more(const struct pump *p)
{
    struct pollfd fd = {.fd = p->from, .events = POLLIN};
    return poll(&fd, 1, 0) == 1 && (fd.revents & POLLIN) != 0;
}

void pump_close(struct pump *p)
{
    pump_started(p);
    if (p->from >= 0)
        (void)close(p->from); /* only read */
    p->from = -1;
}
