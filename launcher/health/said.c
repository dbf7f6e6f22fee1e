/*
 * Happy path: the helper reads the pipe until SIGCHLD tells of its child's end,
 * then what is in the pipe by now, and writes the end of all that to the memory
 * file each time: if the helper is killed, since the check takes too long, the
 * file says how far it came.
 *
 * Failure modes: the check prints for ever, and costs its own time only, not
 * the agent's; it leaves a process that has the pipe open: there is no wait for
 * the pipe's end; a call fails: that is what was said.
 */
#include "launcher/health/said.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/err.h"
#include "rendezvous/net/helper.h"

#define NOTE_MAX 40 /* "[the end of 18014398509481984 KiB]" */
#define KEPT     (SAID_MAX - NOTE_MAX)

/* -- in the helper --------------------------------------------------------- */

struct said_tail {
    char text[KEPT];
    size_t len;   /* at most KEPT */
    uint64_t all; /* bytes that were printed */
};

static void add(struct said_tail *t, const char *data, size_t n)
{
    t->all += n;
    if (n > KEPT) {
        data += n - KEPT;
        n = KEPT;
    }
    size_t stays = t->len + n > KEPT ? KEPT - n : t->len;
    memmove(t->text, t->text + t->len - stays, stays);
    memcpy(t->text + stays, data, n);
    t->len = stays + n;
}

static size_t trimmed(const char *text, size_t len)
{
    while (len > 0 && (unsigned char)text[len - 1] <= ' ')
        len--; /* bytes of other alphabets are above 0x7f */
    return len;
}

/* Short of memory the file has what it had. */
static void save(const struct said_tail *t, int fd)
{
    char text[SAID_MAX];
    size_t len = t->len;
    memcpy(text, t->text, len);
    if (t->all > KEPT) {
        len = trimmed(text, len);
        len += (size_t)snprintf(text + len, NOTE_MAX, /* fits */
                                " [the end of %llu KiB]",
                                (unsigned long long)(t->all / 1024));
    }
    if (pwrite(fd, text, len, 0) == (ssize_t)len)
        (void)!ftruncate(fd, (off_t)len);
}

__attribute__((noreturn)) static void fail(int fd, const char *what)
{
    (void)dprintf(fd, "cannot start the check: %s: %s\n", what,
                  strerror(errno));
    _exit(ddp_code_exit(DDP_E_NOMEM));
}

/* Whether there was something. */
static bool take(struct said_tail *t, int pipe_fd, int fd)
{
    static char data[65536];
    ssize_t n = read(pipe_fd, data, sizeof(data));
    if (n <= 0)
        return false;
    add(t, data, (size_t)n);
    save(t, fd);
    return true;
}

static void listen_to(int pipe_fd, int signal_fd, int fd)
{
    static struct said_tail tail;
    struct pollfd fds[2] = {{.fd = signal_fd, .events = POLLIN},
                            {.fd = pipe_fd, .events = POLLIN}};
    while (fds[0].revents == 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            (void)usleep(10000); /* no memory: tried again */
        else if (fds[1].revents != 0 && !take(&tail, pipe_fd, fd))
            fds[1].fd = -1; /* closed: not to be woken by it */
    }
    size_t most = (size_t)fcntl(pipe_fd, F_GETPIPE_SZ);
    for (uint64_t end = tail.all + most; tail.all < end;)
        if (!take(&tail, pipe_fd, fd)) /* one that was left may print on */
            break;
    save(&tail, fd);
}

/* As the child has ended. */
__attribute__((noreturn)) static void end_as(int status)
{
    const struct rlimit no_core = {.rlim_cur = 0};
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)signal(WTERMSIG(status), SIG_DFL);
    helper_take_signals(); /* none is blocked then */
    (void)raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

void said_run(int fd, void (*run)(const void *arg), const void *arg)
{
    int ends[2], status = 0;
    sigset_t chld;
    const struct sigaction ends_only = {.sa_handler = SIG_DFL,
                                        .sa_flags = SA_NOCLDSTOP};
    (void)setpgid(0, 0); /* its children are killed with it */
    (void)sigaction(SIGCHLD, &ends_only, NULL);
    (void)sigemptyset(&chld);
    (void)sigaddset(&chld, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &chld, NULL);
    int signal_fd = signalfd(-1, &chld, SFD_CLOEXEC);
    if (signal_fd < 0 || pipe2(ends, O_CLOEXEC) != 0)
        fail(fd, "no descriptors");
    /* Before the fork: in a child libuv closes descriptors that it had in the
     * agent (pthread_atfork(3)), whatever has their numbers by now. */
    if (dup2(ends[1], STDOUT_FILENO) < 0 || dup2(ends[1], STDERR_FILENO) < 0)
        fail(fd, "its output");
    pid_t helper = getpid(), child = fork();
    if (child < 0)
        fail(fd, "fork");
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != helper)
            _exit(128 + SIGKILL);
        helper_take_signals();
        run(arg);
    }
    (void)close(ends[1]); /* its child has it */
    (void)close(STDOUT_FILENO);
    (void)close(STDERR_FILENO);
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    listen_to(ends[0], signal_fd, fd);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    end_as(status);
}

void said_shell(const char *command)
{
    (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    (void)dprintf(STDERR_FILENO, "cannot execute /bin/sh: %s\n",
                  strerror(errno));
    _exit(127);
}

/* -- in the agent ---------------------------------------------------------- */

void said_read(int fd, char text[SAID_MAX + 1])
{
    ssize_t n;
    do
        n = pread(fd, text, SAID_MAX, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        (void)snprintf(text, SAID_MAX + 1, "cannot read its output: %s",
                       strerror(errno));
        return;
    }
    text[n] = '\0';
    text[trimmed(text, strlen(text))] = '\0';
    const char *last = strrchr(text, '\n');
    if (last != NULL)
        memmove(text, last + 1, strlen(last));
}
