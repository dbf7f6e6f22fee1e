/*
 * Happy path: what to start comes on stdin within START_MS. The proxy goes to
 * the folder. A child sets the variables and executes this program with the
 * arguments. The proxy says hello, and waits for three things at once: orders
 * (stdin), signals and the child's end (signalfd), and time. When the child has
 * ended it says so, with the status, and ends.
 *
 * Failure modes:
 * - The end of stdin, a line that is none of ours, or no word for beat_ms: the
 *   front end is gone. SIGTERM for the launcher, SIGKILL grace_ms later; that
 *   is the guard's end, and with it the end of all (launcher/proc/guard).
 * - The front end lives and reads nothing for now, since its console is full:
 *   what it must hear (hello, the launcher's end) waits until it does.
 * - The proxy is killed: the child's parent-death signal is SIGKILL.
 * - A scheduler signals all processes of a step, so the launcher has the signal
 *   already when the front end's order comes, or gets it just after that: an
 *   order waits for OWN_US for the proxy's own copy, and is dropped if that is
 *   there (`step`). A second signal would kill the workers at once.
 * - The proxy's own copy of a signal is never passed on: who signals it signals
 *   the launcher as well (killall, a scheduler).
 * - Ctrl-Z at the front end: no beat is expected until SIGCONT.
 */
#include "launcher/front/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/cluster/whole_step.h"
#include "launcher/front/marks.h"
#include "launcher/front/orders.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define START_MS 60000
/* Between an order, which comes by srun, and a scheduler's own signal. */
#define OWN_US    (5 * WHOLE_STEP_MS * MONO_MS)
#define RECENT_US (3 * MONO_S)
#define SAY_MS    1000 /* in one write, at most */
#define RETRY_US  10000
#define SIGNALS   65

struct proxy {
    struct orders_start start;
    char *data;   /* of it */
    char **words; /* of it */
    char host[256];
    pid_t child; /* 0: it was reaped, or never started */
    int signal_fd;
    sigset_t before;         /* what was blocked when we were started */
    int64_t heard_us;        /* the last word of the front end */
    bool paused;             /* none is expected */
    bool gone;               /* the front end */
    int64_t kill_us;         /* when the child is killed; MONO_NEVER */
    int64_t own_us[SIGNALS]; /* when such a signal came to us; 0: never */
    int64_t due_us[SIGNALS]; /* when an order is passed on; 0: none */
    char line[ORDERS_LINE_MAX];
    size_t line_len;
};

/* -- what to start --------------------------------------------------------- */

/* Waits until stdin has something, or the time is over. */
static int wait_stdin(int64_t until_us, struct ddp_err *err)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    int rc;
    while ((rc = poll(&p, 1, (int)mono_ms_until(mono_now_us(), until_us))) <
               0 &&
           mono_now_us() < until_us)
        (void)usleep(RETRY_US); /* a signal, or no memory */
    if (rc > 0)
        return 0;
    return ddp_err_set(err, DDP_E_PROTO,
                       "the front end did not say within %d s what to start",
                       START_MS / 1000);
}

static int
read_bytes(char *out, size_t len, int64_t until_us, struct ddp_err *err)
{
    for (size_t have = 0; have < len;) {
        if (wait_stdin(until_us, err) < 0)
            return -1;
        ssize_t n = read(STDIN_FILENO, out + have, len - have);
        if (n == 0)
            return ddp_err_set(err, DDP_E_PEER,
                               "the front end ended before it had said what "
                               "to start");
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return ddp_err_sys(err, DDP_E_IO, "cannot read stdin");
        have += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* A byte at a time: what is behind the line is not ours to buffer. */
static int read_line(char *line, int64_t until_us, struct ddp_err *err)
{
    for (size_t len = 0; len < ORDERS_LINE_MAX; len++) {
        if (read_bytes(line + len, 1, until_us, err) < 0)
            return -1;
        if (line[len] == '\n') {
            line[len] = '\0';
            return 0;
        }
    }
    return ddp_err_set(err, DDP_E_PROTO,
                       "the first line on stdin is no front "
                       "end's: it is too long");
}

static int read_start(struct proxy *p, struct ddp_err *err)
{
    char line[ORDERS_LINE_MAX];
    struct orders_start *s = &p->start;
    int64_t until_us = mono_now_us() + START_MS * MONO_MS;
    if (read_line(line, until_us, err) < 0)
        return -1;
    if (orders_read_line(s, line, err) < 0)
        return -1;
    p->data = malloc(s->bytes);
    p->words = calloc((size_t)(s->n_args + s->n_vars) + 2, sizeof(char *));
    if (p->data == NULL || p->words == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for what to start");
    if (read_bytes(p->data, s->bytes, until_us, err) < 0)
        return -1;
    return orders_read_words(s, p->data, p->words, err);
}

/* -- the child ------------------------------------------------------------- */

/* The value of a variable that the front end sent; NULL: it sent none. */
static const char *sent(const struct proxy *p, const char *name)
{
    size_t len = strlen(name);
    for (char *const *v = p->start.vars; *v != NULL; v++)
        if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
            return *v + len + 1;
    return NULL;
}

/* The programs of an environment come before all others, as when it is
 * activated here. */
static int lead_path(const char *folder)
{
    char *path;
    const char *rest = getenv("PATH");
    if (folder == NULL || folder[0] == '\0')
        return 0;
    if (asprintf(&path, "%s/bin:%s", folder,
                 rest != NULL ? rest : "/usr/local/bin:/usr/bin:/bin") < 0)
        return -1;
    int rc = setenv("PATH", path, 1);
    free(path);
    return rc;
}

static int set_variables(const struct proxy *p)
{
    for (char *const *v = p->start.vars; *v != NULL; v++)
        if (putenv(*v) != 0)
            return -1;
    if (sent(p, "PATH") != NULL)
        return 0;
    return lead_path(sent(p, "CONDA_PREFIX")) < 0
               ? -1
               : lead_path(sent(p, "VIRTUAL_ENV"));
}

/* The child's stdin is empty: ours is the way from the front end. */
static int empty_stdin(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int rc = fd >= 0 ? dup2(fd, STDIN_FILENO) : -1;
    if (fd > STDIN_FILENO)
        (void)close(fd); /* it has its place */
    return rc < 0 ? -1 : 0;
}

__attribute__((noreturn)) static void run_child(const struct proxy *p,
                                                pid_t parent)
{
    int no_input = ddp_code_exit(DDP_E_NOINPUT);
    int no_memory = ddp_code_exit(DDP_E_NOMEM);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(128 + SIGKILL);
    (void)setpgid(0, 0); /* Ctrl-Z stops it and not us */
    if (empty_stdin() < 0)
        fatal(no_input, "cannot read /dev/null");
    if (set_variables(p) < 0)
        fatal(no_memory, "cannot set the variables");
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &p->before, NULL);
    (void)execv("/proc/self/exe", p->start.args);
    fatal(no_memory, "cannot execute ddprun");
}

static int start_child(struct proxy *p)
{
    pid_t self = getpid();
    pid_t pid = fork();
    if (pid == 0)
        run_child(p, self);
    p->child = pid > 0 ? pid : 0;
    if (pid < 0)
        log_warn("cannot start the launcher: fork");
    return pid < 0 ? -1 : 0;
}

/* Before the hello: a host without the folder is one that cannot start. */
static int go_to_folder(const struct proxy *p, struct ddp_err *err)
{
    if (p->start.folder[0] == '\0' || chdir(p->start.folder) == 0)
        return 0;
    return ddp_err_sys(err, DDP_E_NOINPUT,
                       "cannot go to the folder %.300s on %.99s",
                       p->start.folder, p->host);
}

/* All but those that tell of a fault of this process, and that of log_write. A
 * launcher can be told to take most of the others, and a scheduler sends them
 * to all. */
static int take_signals(struct proxy *p, struct ddp_err *err)
{
    static const int left[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL, SIGTRAP,
                               SIGSYS,  SIGABRT, SIGPIPE, SIGURG};
    sigset_t set;
    (void)sigfillset(&set);
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
        (void)sigdelset(&set, left[i]);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigprocmask(SIG_BLOCK, &set, &p->before);
    p->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (p->signal_fd < 0)
        return ddp_err_sys(err, DDP_E_NOMEM, "cannot make a signalfd");
    return 0;
}

/* -- signals --------------------------------------------------------------- */

static void pass_on(struct proxy *p, int signo)
{
    p->due_us[signo] = 0;
    (void)kill(p->child, signo); /* not reaped as yet */
}

static bool is_own_recent(const struct proxy *p, int signo, int64_t now_us)
{
    return p->start.how == ORDERS_STEP && p->own_us[signo] != 0 &&
           now_us - p->own_us[signo] < RECENT_US;
}

static void order(struct proxy *p, int signo)
{
    int64_t now_us = mono_now_us();
    if (signo == SIGTSTP || signo == SIGCONT)
        p->paused = signo == SIGTSTP;
    if (is_own_recent(p, signo, now_us))
        return;
    bool step = p->start.how == ORDERS_STEP;
    if (!step && p->child > 0)
        pass_on(p, signo);
    else if (p->due_us[signo] == 0)
        p->due_us[signo] = now_us + (step ? OWN_US : 0);
}

/* Passes on what waited long enough. Returns when to look next. */
static int64_t pass_due(struct proxy *p, int64_t now_us)
{
    int64_t next_us = MONO_NEVER;
    for (int signo = 1; signo < SIGNALS && p->child > 0; signo++) {
        if (p->due_us[signo] == 0)
            continue;
        if (is_own_recent(p, signo, now_us))
            p->due_us[signo] = 0;
        else if (p->due_us[signo] <= now_us)
            pass_on(p, signo);
        else
            next_us = mono_min(next_us, p->due_us[signo]);
    }
    return next_us;
}

/* -1: the child lives; else its exit status. */
static int reap(struct proxy *p)
{
    int status;
    pid_t pid;
    do
        pid = waitpid(p->child, &status, WNOHANG);
    while (pid < 0 && errno == EINTR);
    if (pid == 0)
        return -1;
    p->child = 0;
    if (pid < 0)
        return ddp_code_exit(DDP_E_BUG);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* -- the front end --------------------------------------------------------- */

static void lose(struct proxy *p, const char *why)
{
    if (p->gone)
        return;
    p->gone = true;
    if (p->child == 0)
        return; /* nothing is left to be ended */
    p->kill_us = mono_now_us() + p->start.grace_ms * MONO_MS;
    log_warnx("the front end is gone (%s): ending the launcher on %s", why,
              p->host);
    if (!is_own_recent(p, SIGTERM, mono_now_us()))
        pass_on(p, SIGTERM);
    (void)kill(p->child, SIGCONT); /* it may be stopped by Ctrl-Z */
}

/* Nobody waits for this one: if it is not taken, other output is there. */
static void say_here(const struct proxy *p)
{
    char text[MARKS_MAX];
    size_t len = marks_write(text, p->start.mark, MARK_HERE, 0, p->host);
    (void)log_write(STDERR_FILENO, text, len, SAY_MS);
}

static void hear_line(struct proxy *p)
{
    int signo;
    p->heard_us = mono_now_us();
    switch (orders_read(p->line, &signo)) {
    case ORDER_BEAT:
        return;
    case ORDER_ASK:
        say_here(p);
        return;
    case ORDER_SIGNAL:
        order(p, signo);
        return;
    case ORDER_WRONG:
        lose(p, "it sent what is no order");
        return;
    }
    DDP_WRONG("kind of an order");
}

static void hear_front(struct proxy *p)
{
    char data[512];
    ssize_t n = read(STDIN_FILENO, data, sizeof(data));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        lose(p, "its connection is closed");
    for (ssize_t i = 0; i < n && !p->gone; i++) {
        p->line[p->line_len] = data[i] == '\n' ? '\0' : data[i];
        p->line_len = data[i] == '\n' ? 0 : p->line_len + 1;
        if (data[i] == '\n')
            hear_line(p);
        else if (p->line_len == sizeof(p->line))
            lose(p, "it sent what is no order");
    }
}

/* -- the loop -------------------------------------------------------------- */

static int64_t silent_us(const struct proxy *p)
{
    if (p->start.beat_ms == 0 || p->paused || p->gone)
        return MONO_NEVER;
    return p->heard_us + p->start.beat_ms * MONO_MS;
}

/* What is due by now. Returns when to look next: at once if the front end was
 * given up here, since the caller may have nothing to wait for then. */
static int64_t look(struct proxy *p)
{
    int64_t now_us = mono_now_us();
    if (now_us >= silent_us(p)) {
        lose(p, "no word came from it");
        return now_us;
    }
    if (now_us >= p->kill_us) {
        (void)kill(p->child, SIGKILL); /* its workers die with it */
        p->kill_us = MONO_NEVER;
    }
    return mono_min(pass_due(p, now_us), mono_min(silent_us(p), p->kill_us));
}

/* Waits for the front end, a signal, or room in `fd` (-1: none), and hears what
 * there is; until `next_us` at most. Returns whether `fd` is ready. */
static bool wait_and_hear(struct proxy *p, int fd, int64_t next_us)
{
    struct pollfd fds[3] = {
        {.fd = p->signal_fd, .events = POLLIN},
        {.fd = p->gone ? -1 : STDIN_FILENO, .events = POLLIN},
        {.fd = fd, .events = POLLOUT}};
    int ms =
        next_us == MONO_NEVER ? -1 : (int)mono_ms_until(mono_now_us(), next_us);
    if (poll(fds, 3, ms) < 0 && errno != EINTR) {
        (void)usleep(RETRY_US); /* no memory: what is readable stays so */
        return false;
    }
    struct signalfd_siginfo info;
    while (read(p->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo < SIGNALS)
            p->own_us[info.ssi_signo] = mono_now_us();
    if (fds[1].revents != 0)
        hear_front(p);
    return fds[2].revents != 0;
}

/* Until all of it is taken, or the front end is gone. */
static void say(struct proxy *p, enum mark_kind kind, int status)
{
    char text[MARKS_MAX];
    size_t len = marks_write(text, p->start.mark, kind, status, p->host);
    for (size_t done = 0; done < len && !p->gone;) {
        if (!wait_and_hear(p, STDERR_FILENO, look(p)))
            continue;
        ssize_t n = log_write(STDERR_FILENO, text + done, len - done, SAY_MS);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return; /* nobody can read it */
        done += n > 0 ? (size_t)n : 0;
    }
}

int proxy_main(void)
{
    static struct proxy p = {.kill_us = MONO_NEVER};
    struct ddp_err err;
    (void)prctl(PR_SET_PDEATHSIG, 0); /* its end comes by stdin */
    (void)gethostname(p.host, sizeof(p.host) - 1);
    if (read_start(&p, &err) < 0 || go_to_folder(&p, &err) < 0 ||
        take_signals(&p, &err) < 0) {
        log_warnx("%s", err.text);
        return ddp_code_exit(err.code);
    }
    p.heard_us = mono_now_us();
    say(&p, MARK_HELLO, 0);
    int status = ddp_code_exit(p.gone ? DDP_E_PEER : DDP_E_NOMEM);
    if (!p.gone && start_child(&p) == 0)
        while ((status = reap(&p)) < 0)
            (void)wait_and_hear(&p, -1, look(&p));
    say(&p, MARK_END, status);
    free(p.data);
    free(p.words);
    return status;
}
