/*
 * Happy path: a child (ssh, srun) is executed for each host (hosts.c). Its
 * proxy says hello, later that its launcher has ended, and with what status.
 * When all children have ended, so does this process.
 *
 * Failure modes:
 * - A host does not answer within launch_timeout, or its child ends before that
 *   (no such host, no such program): it is named. If fewer than MIN hosts are
 *   left, all others are ended.
 * - A host is lost later: the job may go on without it, which is a matter of
 *   the launchers. It is said, once.
 * - Fewer than MIN launchers are left, since one has failed, could not begin,
 *   or is lost: the others would wait for a node that nobody starts. They are
 *   ended, later than a failed job takes to end by itself. If one left in
 *   order, workers of the others may still save: they have as long as that may
 *   take.
 * - A signal: each proxy is told. Where none has answered, a signal that ends
 *   the job kills the child STARTING_US later, a second one at once.
 * - Some launchers have ended, and a host is silent (it is dead, or its cable
 *   is cut): proxies are asked whether they live, and a child of which none
 *   answers ASKED times is killed.
 * - This process is killed or frozen, or a connection is lost: the proxies see
 *   the end of stdin, or (over ssh) no word for BEATS_MS, and end all.
 * - The console takes nothing: streams are not read, and beats go on. No host
 *   is given up for what may lie in a stream that is not read.
 * - The job succeeds without some hosts: they are not started any more, nor
 *   waited for; launchers that are silent and do not end are ended.
 */
#include "launcher/front/front.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "launcher/front/front_priv.h"
#include "launcher/proc/signals.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define BEAT_US     MONO_S
#define STARTING_US (3 * MONO_S)
#define ASK_US      (5 * MONO_S)
#define ASKED       2
#define LATE_US     (15 * MONO_S)
#define ON_WAY_US   MONO_S       /* a word, at most */
#define UNREAD_US   (5 * MONO_S) /* to read what a full console held up */
#define LEFT_US     (5 * MONO_S)
#define RETRY_US    10000
#define FLUSH_US    (10 * MONO_S)
#define REST_US     (20 * MONO_MS)

/* -- the end of a child ---------------------------------------------------- */

static void tell_end(struct front *f, const struct front_child *k)
{
    char name[64];
    if (!front_is_list(f) || f->ending_us != 0)
        return;
    command_name(f->conf, name);
    if (k->hellos == 0)
        front_say(f, "cannot start on %s: %s ended with status %d%s", k->name,
                  name, k->status,
                  k->status == 127 ? " (is ddprun there under the same path?)"
                                   : "");
    if (k->hellos <= k->ends)
        return;
    front_say(
        f,
        "the connection to %s is lost (%s ended with status %d): its launcher "
        "ends",
        k->name, name, k->status);
    front_hosts_lose(f, ddp_code_exit(DDP_E_PEER));
}

/* Its last marks may still be in its pipe. */
static void look_at_end(struct front *f, struct front_child *k, int64_t now_us)
{
    bool over = front_child_is_over(k, now_us);
    if (!over || k->told)
        return;
    k->told = true;
    tell_end(f, k);
    if (k->hellos == 0)
        front_hosts_fail(f);
}

static void
look_at_start(struct front *f, struct front_child *k, int64_t now_us)
{
    if (k->state != CHILD_STARTING || k->told || !front_is_list(f) ||
        f->ending_us != 0 || now_us < k->since_us + f->conf->front.timeout_us ||
        now_us < k->err.full_us + UNREAD_US)
        return;
    front_say(f, "cannot start on %s: no answer within %.12g s", k->name,
              (double)f->conf->front.timeout_us / (double)MONO_S);
    k->told = true;
    front_child_kill(k);
    front_hosts_fail(f);
}

/* When a child that was told to end is killed. */
static int64_t kill_at_us(const struct front *f, const struct front_child *k)
{
    if (f->ending_us == 0)
        return MONO_NEVER;
    if (k->state == CHILD_STARTING)
        return f->ending_us + STARTING_US;
    int times = f->noticed ? 2 : 1; /* the first one is for the step */
    return f->ending_us + times * f->conf->shutdown_timeout_us + LATE_US;
}

static void look_at_late(struct front *f, struct front_child *k, int64_t now_us)
{
    if (!front_child_lives(k) || now_us < kill_at_us(f, k))
        return;
    if (k->state == CHILD_RUNS)
        front_say(f, "%s does not end: giving it up", k->name);
    front_child_kill(k);
}

/* When the others are ended if too few are left. */
static int64_t few_at_us(const struct front *f)
{
    const struct conf *c = f->conf;
    int64_t grace_us =
        f->gone.ordered ? c->shutdown_timeout_us
                        : mono_min(c->failure_grace_us, c->shutdown_timeout_us);
    return f->gone.since_us + grace_us + LEFT_US;
}

/* Too few launchers are left, and do not end by themselves. */
static void look_at_gone(struct front *f, int64_t now_us)
{
    int left = f->conf->front.nodes - f->failed - f->gone.n;
    if (f->gone.n == 0 || f->ended[0] > 0 || f->ending_us != 0 ||
        left >= f->conf->nnodes_min || now_us < few_at_us(f))
        return;
    f->gone.few = true;
    front_say(
        f,
        "%d launcher%s ended without success, so at most %d %s left, and the "
        "job needs %d: ending it",
        f->gone.n, f->gone.n == 1 ? "" : "s", left, left == 1 ? "is" : "are",
        f->conf->nnodes_min);
    front_hosts_end(f, SIGTERM);
}

/* -- after a success ------------------------------------------------------- */

static int count_answered(const struct front *f)
{
    int n = 0;
    for (int i = 0; i < f->n; i++)
        n += f->child[i].hellos > 0;
    return n;
}

/* Those that the job needed have answered before it succeeded, but their words
 * may not be read yet. */
static void leave_out(struct front *f, struct front_child *k, int64_t now_us)
{
    if (k->state == CHILD_WAITS)
        front_child_skip(k);
    if (k->state != CHILD_STARTING || k->told ||
        now_us < f->done_us + ON_WAY_US ||
        now_us < k->err.full_us + UNREAD_US ||
        count_answered(f) < f->conf->nnodes_min)
        return;
    front_say(
        f, "giving up %s, which has not answered: the job succeeded without it",
        k->name);
    k->told = true;
    front_child_kill(k);
}

/* Launchers that have not ended, those of lost hosts left out. */
static int count_launchers(const struct front *f)
{
    int n = 0;
    for (int i = 0; i < f->n; i++)
        if (front_child_lives(&f->child[i]))
            n += f->child[i].hellos - f->child[i].ends;
    return n;
}

static void look_at_done(struct front *f, int64_t now_us)
{
    /* Output that waits for a console, here or there, is not cut off. */
    uint64_t moved = f->out.gone + f->err_to->gone;
    if (moved != f->moved || console_waiting(&f->out) > 0 ||
        console_waiting(f->err_to) > 0)
        f->moved_us = now_us;
    f->moved = moved;
    if (f->done_us == 0 || f->ending_us != 0)
        return;
    for (int i = 0; i < f->n && front_is_list(f); i++)
        leave_out(f, &f->child[i], now_us);
    int n = count_launchers(f);
    int64_t since_us = f->moved_us > f->done_us ? f->moved_us : f->done_us;
    if (n == 0 || now_us < since_us + f->conf->shutdown_timeout_us + LEFT_US)
        return;
    front_say(f, "the job succeeded, and %d launcher%s not end: ending %s", n,
              n == 1 ? " does" : "s do", n == 1 ? "it" : "them");
    front_hosts_end(f, SIGTERM);
}

/* -- time ------------------------------------------------------------------ */

static void beat(struct front *f, int64_t now_us)
{
    if (!front_is_list(f) || now_us < f->beat_us)
        return;
    f->beat_us = now_us + BEAT_US;
    for (int i = 0; i < f->n; i++)
        if (buf_len(&f->child[i].orders) == 0)
            front_hosts_tell(&f->child[i], ORDER_BEAT, 0);
}

static void ask_child(struct front *f, struct front_child *k, int64_t now_us)
{
    if (k->state != CHILD_RUNS)
        return;
    k->silent = front_child_answered(k) ? 0 : k->silent + 1;
    k->asked_us = now_us;
    if (k->silent < ASKED) {
        front_hosts_tell(k, ORDER_ASK, 0);
        return;
    }
    front_say(f, "%s does not answer any more: giving it up", k->name);
    front_child_kill(k);
}

static void ask(struct front *f, int64_t now_us)
{
    if (f->ends == 0 || now_us < f->ask_us)
        return;
    f->ask_us = now_us + ASK_US;
    for (int i = 0; i < f->n; i++)
        ask_child(f, &f->child[i], now_us);
}

static void look(struct front *f)
{
    int64_t now_us = mono_now_us();
    beat(f, now_us);
    ask(f, now_us);
    look_at_gone(f, now_us);
    look_at_done(f, now_us);
    for (int i = 0; i < f->n; i++) {
        struct front_child *k = &f->child[i];
        front_child_reap(k, now_us);
        front_stream_look(&k->out, now_us);
        front_stream_look(&k->err, now_us);
        look_at_start(f, k, now_us);
        look_at_late(f, k, now_us);
        look_at_end(f, k, now_us);
    }
}

/* -- signals --------------------------------------------------------------- */

/* Ctrl-Z: the hosts stop first, then this process, until it is continued. */
static void pause_all(struct front *f)
{
    sigset_t stop;
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTSTP);
    front_hosts_tell_all(f, SIGTSTP);
    (void)raise(SIGTSTP); /* which is blocked as yet */
    (void)sigprocmask(SIG_UNBLOCK, &stop, NULL);
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    front_hosts_tell_all(f, SIGCONT);
}

static void pass_on(struct front *f, int signo)
{
    bool again = f->ending_us != 0;
    if ((f->conf->signals & SIGNALS_BIT(signo)) == 0 &&
        (SIGNALS_USUAL & SIGNALS_BIT(signo)) == 0) {
        front_hosts_tell_all(f, signo);
        return;
    }
    front_hosts_end(f, signo);
    f->signo = again ? f->signo : signo;
    for (int i = 0; i < f->n && again; i++)
        if (f->child[i].state == CHILD_STARTING)
            front_child_kill(&f->child[i]);
}

static void hear_signals(struct front *f)
{
    struct signalfd_siginfo info;
    while (read(f->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            continue; /* look() asks each child */
        if (info.ssi_signo == SIGTSTP)
            pause_all(f);
        else
            pass_on(f, (int)info.ssi_signo);
    }
}

/* Signals that were ignored at the start stay ignored (nohup). */
static int take_signals(struct front *f, struct ddp_err *err)
{
    sigset_t set;
    uint64_t taken = f->conf->signals | SIGNALS_USUAL | SIGNALS_BIT(SIGUSR1) |
                     SIGNALS_BIT(SIGUSR2) | SIGNALS_BIT(SIGTSTP);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    for (int signo = 1; signo <= 64; signo++) {
        struct sigaction sa;
        if ((taken & SIGNALS_BIT(signo)) != 0 &&
            sigaction(signo, NULL, &sa) == 0 && sa.sa_handler != SIG_IGN)
            (void)sigaddset(&set, signo);
    }
    (void)sigprocmask(SIG_BLOCK, &set, &f->before);
    f->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (f->signal_fd >= 0)
        return 0;
    return ddp_err_sys(err, DDP_E_NOMEM, "cannot make a signalfd");
}

/* -- the loop -------------------------------------------------------------- */

static int add_console(struct front *f, const struct console *c, int n)
{
    bool waits = console_waiting(c) > 0 && c->pollable && !console_rests(c);
    f->fds[n] = (struct pollfd){.fd = waits ? c->fd : -1, .events = POLLOUT};
    return n + 1;
}

static int add_child(struct front *f, const struct front_child *k, int n)
{
    const struct front_stream *out = &k->out, *err = &k->err;
    f->fds[n] = (struct pollfd){.fd = buf_len(&k->orders) > 0 ? k->in_fd : -1,
                                .events = POLLOUT};
    f->fds[n + 1] = (struct pollfd){
        .fd = front_stream_wants(out) ? out->fd : -1, .events = POLLIN};
    f->fds[n + 2] = (struct pollfd){
        .fd = front_stream_wants(err) ? err->fd : -1, .events = POLLIN};
    return n + CHILD_FDS;
}

static int fill_fds(struct front *f)
{
    int n = 0;
    f->fds[n++] = (struct pollfd){.fd = f->signal_fd, .events = POLLIN};
    n = add_console(f, &f->out, n);
    n = add_console(f, f->err_to, n);
    for (int i = 0; i < f->n; i++)
        n = add_child(f, &f->child[i], n);
    return n;
}

/* ms until something is due: a tick is enough for all but unfinished lines. */
static int patience_ms(const struct front *f)
{
    bool soon = console_waiting(&f->out) + console_waiting(f->err_to) > 0;
    for (int i = 0; i < f->n; i++) {
        const struct front_child *k = &f->child[i];
        soon |= buf_len(&k->out.held) + buf_len(&k->err.held) > 0;
        soon |= k->state == CHILD_ENDED && (k->out.fd >= 0 || k->err.fd >= 0);
    }
    return (int)((soon ? REST_US : BEAT_US / 4) / MONO_MS);
}

/* Each time another stream is the first, since the console may take no more
 * than that one. */
static void hear_children(struct front *f)
{
    int64_t now_us = mono_now_us();
    int streams = 2 * f->n;
    for (int i = 0; i < f->n; i++) {
        const struct pollfd *p = &f->fds[3 + i * CHILD_FDS];
        if (p->fd >= 0 && p->revents != 0)
            front_child_write(&f->child[i]);
    }
    f->turn = (f->turn + 1) % streams;
    for (int i = 0; i < streams; i++) {
        int at = (f->turn + i) % streams;
        struct front_child *k = &f->child[at / 2];
        const struct pollfd *p = &f->fds[3 + at / 2 * CHILD_FDS + 1 + at % 2];
        if (p->fd >= 0 && p->revents != 0)
            (void)front_stream_read(at % 2 == 0 ? &k->out : &k->err, now_us);
    }
}

static bool is_over(const struct front *f)
{
    for (int i = 0; i < f->n; i++) {
        const struct front_child *k = &f->child[i];
        if (k->state != CHILD_ENDED || k->out.fd >= 0 || k->err.fd >= 0)
            return false;
    }
    return true;
}

static void flush(struct front *f)
{
    console_revive(&f->out);
    console_revive(f->err_to);
    console_flush(&f->out);
    console_flush(f->err_to);
}

static void run(struct front *f)
{
    while (!is_over(f)) {
        front_hosts_start(f);
        flush(f);
        int n = fill_fds(f);
        if (poll(f->fds, (nfds_t)n, patience_ms(f)) < 0 && errno != EINTR)
            (void)usleep(RETRY_US); /* no memory: what is readable stays so */
        else
            hear_children(f);
        hear_signals(f);
        look(f);
    }
}

/* What the console has not taken yet. */
static void drain(struct front *f)
{
    int64_t until_us = mono_now_us() + FLUSH_US;
    flush(f);
    while (console_waiting(&f->out) + console_waiting(f->err_to) > 0 &&
           mono_now_us() < until_us) {
        (void)usleep((useconds_t)REST_US);
        flush(f);
    }
}

/* -- the status ------------------------------------------------------------ */

/* A launcher ends with 0 only if the run succeeded; one that left alone, or was
 * unfit, has a status of its own. */
static int status_of(const struct front *f)
{
    int most = f->first;
    if (f->ended[0] > 0)
        return 0;
    if (f->unreachable)
        return ddp_code_exit(DDP_E_UNREACHABLE);
    if (f->gone.few)
        return f->gone.status;
    for (int i = 0; i < 256; i++)
        if (f->ended[i] > f->ended[most])
            most = i;
    if (f->ends > 0)
        return most;
    if (f->signo > 0)
        return 128 + f->signo;
    if (!front_is_list(f) && f->child[0].status != 0)
        return f->child[0].status;
    return ddp_code_exit(DDP_E_PEER);
}

/* -- all of it ------------------------------------------------------------- */

static int find_self(struct front *f, struct ddp_err *err)
{
    ssize_t n = readlink("/proc/self/exe", f->self, sizeof(f->self) - 1);
    if (n <= 0 || (size_t)n == sizeof(f->self) - 1)
        return ddp_err_sys(err, DDP_E_CONFIG,
                           "cannot find the path of this program by "
                           "/proc/self/exe");
    f->self[n] = '\0';
    if (getcwd(f->folder, sizeof(f->folder)) == NULL)
        return ddp_err_sys(err, DDP_E_NOINPUT, "cannot find this folder");
    return 0;
}

static int init(struct front *f,
                const struct conf *c,
                const struct opts *o,
                int argc,
                char *const argv[],
                struct ddp_err *err)
{
    *f = (struct front){.conf = c, .opts = o, .argc = argc, .argv = argv};
    rng_id(f->mark);
    if (find_self(f, err) < 0 || front_hosts_init(f, err) < 0)
        return -1;
    f->fds = calloc((size_t)f->n * CHILD_FDS + 3, sizeof(*f->fds));
    if (f->fds == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the hosts");
    return 0;
}

static void tell_start(struct front *f)
{
    char name[64];
    const struct conf *c = f->conf;
    if (!front_is_list(f)) {
        front_say(f, "%s: starting on its %d node%s with srun", c->cluster_job,
                  c->front.nodes, c->front.nodes == 1 ? "" : "s");
        return;
    }
    command_name(f->conf, name);
    if (c->front.in_job)
        front_say(f, "%s: starting on its %d host%s with %s", c->cluster_job,
                  f->n, f->n == 1 ? "" : "s", name);
    else
        front_say(f, "starting on %d host%s with %s", f->n,
                  f->n == 1 ? "" : "s", name);
}

int front_run(const struct conf *c,
              const struct opts *o,
              int argc,
              char *const argv[])
{
    static struct front f;
    struct ddp_err err;
    bool is_list = c->front.kind == CONF_FRONT_HOSTS; /* srun keeps limits */
    _Static_assert(RNG_ID_LEN == ORDERS_MARK_LEN, "a mark is such an id");
    if (init(&f, c, o, argc, argv, &err) < 0 ||
        (is_list && front_child_room(f.n, &err) < 0) ||
        take_signals(&f, &err) < 0) {
        log_warnx("%s", err.text);
        return ddp_code_exit(err.code);
    }
    console_open(&f.out, STDOUT_FILENO, false);
    console_open(&f.err, STDERR_FILENO, false);
    f.err_to = console_same(STDOUT_FILENO, STDERR_FILENO) ? &f.out : &f.err;
    f.out.timed = f.err.timed = c->output.timestamps;
    tell_start(&f);
    run(&f);
    if (f.reports.repeated > 0)
        front_say(&f, "%d other launcher%s reported the same",
                  f.reports.repeated, f.reports.repeated == 1 ? "" : "s");
    drain(&f);
    int status = status_of(&f);
    front_hosts_free(&f);
    free(f.fds);
    return status;
}

int front_dry_run(const struct conf *c,
                  const struct opts *o,
                  int argc,
                  char *const argv[])
{
    static struct front f;
    static char here[16384], there[16384];
    struct ddp_err err;
    if (init(&f, c, o, argc, argv, &err) < 0) {
        log_warnx("%s", err.text);
        return ddp_code_exit(err.code);
    }
    for (int i = 0; i < f.n; i++) {
        struct command a = {.n = 0}, b = {.n = 0};
        command_here(&a, c, i, f.self);
        command_there(&b, c, o, argc, argv, i);
        command_text(&a, here, sizeof(here));
        command_text(&b, there, sizeof(there));
        printf("%s: %s\n    there: %s\n", f.child[i].name, here, there);
        command_free(&a);
        command_free(&b);
    }
    front_hosts_free(&f);
    free(f.fds);
    return fflush(stdout) == 0 ? 0 : ddp_code_exit(DDP_E_IO);
}
