#include "launcher/worker/pipe_probe.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"

#define TIMES_US (8 * MONO_S) /* of terminals: tty_update_time() in Linux */

void gauge_init(struct gauge *g, int fd, int64_t memory_us)
{
    struct stat st;
    *g = (struct gauge){
        .fd = fd,
        .pipe = fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode),
        .terminal = isatty(fd) == 1,
        .memory_us = mono_min(memory_us, TIMES_US),
    };
    g->took_us = -g->memory_us;
}

static int64_t ns_of(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000 * MONO_S + t->tv_nsec;
}

/* What is typed on a terminal changes only what is not looked at here. */
static bool has_changed(struct gauge *g)
{
    struct gauge old = *g;
    struct stat st;
    int n = 0;
    if (ioctl(g->fd, g->pipe ? FIONREAD : TIOCOUTQ, &n) == 0)
        g->waiting = n;
    if (fstat(g->fd, &st) == 0) {
        g->read_ns = g->pipe ? ns_of(&st.st_atim) : 0;
        g->written_ns = ns_of(&st.st_mtim);
    }
    return g->waiting != old.waiting || g->read_ns != old.read_ns ||
           g->written_ns != old.written_ns;
}

enum gauge_pace gauge_look(struct gauge *g, int64_t now_us)
{
    struct pollfd p = {.fd = g->fd, .events = POLLOUT};
    bool takes = has_changed(g);
    if (takes)
        g->took_us = now_us;
    if (poll(&p, 1, 0) != 0)
        return GAUGE_FREE;
    if (g->terminal)
        takes = now_us < g->took_us + g->memory_us;
    return takes ? GAUGE_SLOW : GAUGE_NONE;
}
