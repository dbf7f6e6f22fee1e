/*
 * What PMI-1 costs the clients and the kernel alone: starts COUNT processes of
 * PROGRAM, each in a session of its own and with PMI_FD, as ddprun does, and
 * answers client.c without a key space. It takes its words in any order, and
 * each of them to be one whole line.
 *
 * usage: floor COUNT PROGRAM ARGUMENT
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX   1024
#define EVENTS_MAX 1024 /* as libuv takes at a time */

static void must(int is_well, const char *what)
{
    if (!is_well) {
        perror(what);
        exit(1);
    }
}

static void set_number(const char *name, int number)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", number);
    must(setenv(name, text, 1) == 0, "setenv");
}

/* Our end of its socket. */
static int start(char *const argv[], int rank)
{
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0,
         "socketpair");
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        (void)setsid();
        set_number("PMI_RANK", rank);
        set_number("PMI_FD", dup(pair[1])); /* which exec leaves open */
        (void)execv(argv[0], argv);
        _exit(127);
    }
    (void)close(pair[1]); /* its own */
    return pair[0];
}

static void say(int fd, const char *line)
{
    size_t len = strlen(line);
    must(send(fd, line, len, MSG_NOSIGNAL) == (ssize_t)len, "send");
}

/* Returns whether it has come to the barrier. */
static int answer(int fd, const char *line)
{
    static char value[LINE_MAX];
    if (value[0] == '\0')
        (void)snprintf(value, sizeof(value),
                       "cmd=get_result rc=0 value=%0200d\n", 1);
    if (strncmp(line, "cmd=barrier_in", 14) == 0)
        return 1;
    if (strncmp(line, "cmd=put", 7) == 0)
        say(fd, "cmd=put_result rc=0\n");
    else if (strncmp(line, "cmd=get", 7) == 0)
        say(fd, value);
    else if (strncmp(line, "cmd=init", 8) == 0)
        say(fd, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    else
        say(fd, "cmd=finalize_ack\n");
    return 0;
}

static void serve(int epoll, const int *fds, int count)
{
    static struct epoll_event events[EVENTS_MAX];
    char line[LINE_MAX + 1];
    int left = count, waiting = 0;
    while (left > 0) {
        int n = epoll_wait(epoll, events, EVENTS_MAX, -1);
        must(n >= 0 || errno == EINTR, "epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            ssize_t len = recv(fd, line, LINE_MAX, MSG_DONTWAIT);
            if (len <= 0) { /* it has ended */
                must(close(fd) == 0, "close");
                left--;
                continue;
            }
            line[len] = '\0';
            waiting += answer(fd, line);
        }
        for (int i = 0; waiting == count && i < count; i++)
            say(fds[i], "cmd=barrier_out rc=0\n");
        waiting = waiting == count ? 0 : waiting;
    }
}

int main(int argc, char *argv[])
{
    int count = argc == 4 ? atoi(argv[1]) : 0, status, failed = 0;
    struct rlimit files;
    if (count < 1)
        return 2;
    must(getrlimit(RLIMIT_NOFILE, &files) == 0, "getrlimit");
    files.rlim_cur = files.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &files) == 0, "setrlimit");
    int *fds = calloc((size_t)count, sizeof(*fds));
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    must(fds != NULL && epoll >= 0, "epoll_create1");
    set_number("PMI_SIZE", count);
    for (int i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        event.data.fd = fds[i] = start(argv + 2, i);
        must(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event) == 0, "epoll_ctl");
    }
    serve(epoll, fds, count);
    while (wait(&status) > 0)
        failed |= status != 0;
    free(fds);
    return failed;
}
