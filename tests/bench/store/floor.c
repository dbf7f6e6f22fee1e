/*
 * The floor: a bare epoll server that reads once and writes once for each
 * request of load's rate trials, the same number of bytes as a store would, and
 * keeps nothing. Only for small values. Prints its port.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS  1024
#define FDS     65536
#define GET     3 /* codes of the new family */
#define ADD     4
#define GET_LEN (8 + 64)

static bool greeted[FDS];
static int epoll;
static int listener;

static int take(void)
{
    int on = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    if (fd < 0 || fd >= FDS)
        return -1;
    greeted[fd] = false;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

/* The first request of a connection is the hello and a SET. */
static void answer(int fd)
{
    static const char reply[GET_LEN];
    char bin[1 << 16];
    ssize_t n = read(fd, bin, sizeof(bin));
    size_t len = 1;
    if (n > 0 && greeted[fd] && *bin == GET)
        len = GET_LEN;
    else if (n > 0 && greeted[fd] && *bin == ADD)
        len = 8;
    if (n <= 0 || write(fd, reply, len) < 0)
        (void)close(fd); /* nobody is there */
    else
        greeted[fd] = true;
}

static void serve(void)
{
    struct epoll_event events[EVENTS];
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd != listener)
                answer(events[i].data.fd);
            else if (take() != 0)
                perror("floor: a connection is lost");
        }
    }
}

int main(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    epoll = epoll_create1(0);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
    if (epoll < 0 || listener < 0 ||
        bind(listener, (struct sockaddr *)&sa, sizeof(sa)) != 0 ||
        listen(listener, 4096) != 0 ||
        getsockname(listener, (struct sockaddr *)&sa, &len) != 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e) != 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        perror("floor");
        return EXIT_FAILURE;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    printf("%u\n", (unsigned)ntohs(sa.sin_port));
    (void)fflush(stdout);
    serve();
}
