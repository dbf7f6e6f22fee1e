/*
 * Happy path: a child (ssh, srun) is executed for each host, at most AT_ONCE
 * that have not answered yet, and each is told by its stdin what to start. Its
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
 * or is lost: the others would wait for a node that nobody starts. They are
 *   ended, later than a failed job takes to end by itself. If one left in
 * order, workers of the others may still save: they have as long as that may
 * take.
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
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "launcher/front/child.h"
#include "launcher/front/orders.h"
#include "launcher/proc/signals.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"

#define AT_ONCE     32
#define BEAT_US     MONO_S
#define BEATS_MS    20000
#define STARTING_US (3 * MONO_S)
#define ASK_US      (5 * MONO_S)
#define ASKED       2
#define LATE_US     (15 * MONO_S)
#define ON_WAY_US   MONO_S       /* a word, at most */
#define UNREAD_US   (5 * MONO_S) /* to read what a full console held up */
#define GRACE_MS    5000         /* more than the launcher's own */
#define LEFT_US     (5 * MONO_S)
#define RETRY_US    10000
#define FLUSH_US    (10 * MONO_S)
#define REST_US     (20 * MONO_MS)
#define POLLED      3 /* descriptors of a child */

/* Launchers that ended with another status than 0, or were lost. */
struct front_gone {
    int n;
    int status;       /* the job's, if the others are ended for that */
    int64_t since_us; /* when the last one was */
    bool ordered;     /* one of them left: a signal, an operator */
    bool few;         /* the others were ended */
};

struct front {
    struct front_gone gone;
    const struct conf *conf;
    const struct opts *opts;
    int argc;
    char *const *argv;
    char self[4096];
    char mark[RNG_ID_LEN + 1];
    char folder[4096];
    struct console out, err;
    struct console *err_to; /* one of the two */
    int signal_fd;
    sigset_t before;
    struct front_child *child; /* n of them */
    int n;
    struct pollfd *fds; /* room for n * POLLED + 3 */
    int turn;           /* the stream that is read first */
    struct front_reports reports;
    int failed;        /* children of which no proxy said hello */
    int ended[256];    /* launchers, by their exit status */
    int ends;          /* all of them */
    int first;         /* the status of the first of them */
    int64_t done_us;   /* when the first ended with success; 0: none has */
    int64_t moved_us;  /* when output came last, or could not be shown ... */
    uint64_t moved;    /* ... and how much the consoles had taken then */
    int64_t beat_us;   /* when the next beat is due */
    int64_t ending_us; /* since when all are told to end; 0: not */
    int signo;         /* ... by this signal; 0: none */
    bool noticed;      /* ... by a notice: workers are asked before */
    int64_t ask_us;    /* when proxies are asked next */
    bool unreachable;  /* it is ended since hosts could not be reached */
};

__attribute__((format(printf, 2, 3))) static void
say(struct front *f, const char *fmt, ...)
{
    char text[1000];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* a long one is cut */
    va_end(ap);
    (void)console_say(f->err_to, "%s", text);
}

/* -- what hosts are told --------------------------------------------------- */

static bool is_list(const struct front *f)
{
    return f->conf->front.kind == CONF_FRONT_HOSTS;
}

static int put_start(struct front *f, int i, struct ddp_err *err)
{
    static char *const none[] = {NULL};
    extern char **environ;
    struct command args = {.n = 0}, vars = {.n = 0};
    int64_t grace_ms = f->conf->shutdown_timeout_us / MONO_MS + GRACE_MS;
    command_there(&args, f->conf, f->opts, f->argc, f->argv, i);
    if (is_list(f)) /* srun passes all of them on */
        command_variables(&vars, f->conf, f->opts, environ);
    struct orders_start s = {
        .beat_ms = is_list(f) ? BEATS_MS : 0,
        .grace_ms =
            grace_ms < ORDERS_TIME_MAX ? (int)grace_ms : ORDERS_TIME_MAX,
        .step = !is_list(f),
        .folder = is_list(f) ? f->folder : "",
        .args = args.word,
        .vars = vars.word != NULL ? vars.word : none,
    };
    memcpy(s.mark, f->mark, sizeof(s.mark));
    int rc = args.failed || vars.failed
                 ? ddp_err_set(err, DDP_E_NOMEM, "no memory for arguments")
                 : orders_put_start(&f->child[i].orders, &s, err);
    command_free(&args);
    command_free(&vars);
    return rc;
}

static void tell(struct front_child *k, enum order_kind kind, int signo)
{
    if (!front_child_lives(k))
        return;
    (void)orders_put(&k->orders, kind, signo); /* full: it has not started */
    front_child_write(k);
}

static void tell_all(struct front *f, int signo)
{
    for (int i = 0; i < f->n; i++)
        tell(&f->child[i], ORDER_SIGNAL, signo);
}

/* No child is executed any more, and all launchers are told to end. */
static void end_all(struct front *f, int signo)
{
    if (f->ending_us == 0) {
        f->ending_us = mono_now_us();
        f->noticed = (f->conf->notices & SIGNALS_BIT(signo)) != 0;
    }
    for (int i = 0; i < f->n; i++)
        if (f->child[i].state == CHILD_WAITS)
            front_child_skip(&f->child[i]);
    tell_all(f, signo);
}

/* Another launcher is gone. */
static void lose(struct front *f, int status)
{
    f->gone.status = f->gone.n++ == 0 ? status : f->gone.status;
    f->gone.since_us = mono_now_us();
    f->gone.ordered |= status > 128 || status == ddp_code_exit(DDP_E_DRAINED);
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

/* -- what hosts say -------------------------------------------------------- */

static void on_mark(void *ctx, const struct mark *m)
{
    struct front_child *k = ctx;
    struct front *f = k->owner;
    if (m->kind == MARK_HELLO) {
        k->hellos++;
        k->err.prefix = "";
        if (k->state == CHILD_STARTING)
            k->state = CHILD_RUNS;
    } else if (m->kind == MARK_END) {
        k->ends++;
        f->first = f->ends++ == 0 ? m->status : f->first;
        f->ended[m->status]++;
        if (m->status != 0)
            lose(f, m->status);
        else if (f->done_us == 0)
            f->done_us = mono_now_us();
        f->ask_us = mono_now_us() + ASK_US; /* now most are about to end */
    }
}

/* -- the start ------------------------------------------------------------- */

/* Too few hosts are left for the job. */
static void fail_child(struct front *f)
{
    int left = f->conf->front.nodes - ++f->failed;
    if (f->ending_us != 0 || (!is_list(f) && f->n == 1) ||
        (is_list(f) && left >= f->conf->nnodes_min))
        return;
    f->unreachable = true;
    if (!is_list(f))
        say(f, "the step of a component did not start: ending the job");
    else
        say(f,
            "at most %d host%s can be reached, and the job needs %d: ending it",
            left, left == 1 ? "" : "s", f->conf->nnodes_min);
    end_all(f, SIGTERM);
}

static int start_child(struct front *f, int i, struct ddp_err *err)
{
    struct command here = {.n = 0};
    struct front_child *k = &f->child[i];
    if (put_start(f, i, err) < 0)
        return -1;
    command_here(&here, f->conf, i, f->self);
    int rc = front_child_start(k, &here, is_list(f), &f->before, &f->out,
                               f->err_to, 2 * (uint64_t)i + 1, err);
    command_free(&here);
    if (rc < 0)
        return -1;
    k->err.mark = f->mark;
    k->err.on_mark = on_mark;
    k->err.ctx = k;
    k->err.reports = is_list(f) ? &f->reports : NULL;
    k->err.prefix = is_list(f) ? k->prefix : "";
    front_child_write(k);
    return 0;
}

static void start_some(struct front *f)
{
    int starting = 0;
    struct ddp_err err;
    for (int i = 0; i < f->n; i++)
        starting += f->child[i].state == CHILD_STARTING;
    for (int i = 0; i < f->n && starting < AT_ONCE; i++) {
        struct front_child *k = &f->child[i];
        if (k->state != CHILD_WAITS)
            continue;
        starting++;
        if (start_child(f, i, &err) == 0)
            continue;
        say(f, "cannot start on %s: %s", k->name, err.text);
        front_child_skip(k);
        fail_child(f);
    }
}

/* -- the end of a child ---------------------------------------------------- */

static void tell_end(struct front *f, const struct front_child *k)
{
    char name[64];
    if (!is_list(f) || f->ending_us != 0)
        return;
    command_name(f->conf, name);
    if (k->hellos == 0)
        say(f, "cannot start on %s: %s ended with status %d%s", k->name, name,
            k->status,
            k->status == 127 ? " (is ddprun there under the same path?)" : "");
    if (k->hellos <= k->ends)
        return;
    say(f,
        "the connection to %s is lost (%s ended with status %d): its launcher "
        "ends",
        k->name, name, k->status);
    lose(f, ddp_code_exit(DDP_E_PEER));
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
        fail_child(f);
}

static void
look_at_start(struct front *f, struct front_child *k, int64_t now_us)
{
    if (k->state != CHILD_STARTING || k->told || !is_list(f) ||
        f->ending_us != 0 || now_us < k->since_us + f->conf->front.timeout_us ||
        now_us < k->err.full_us + UNREAD_US)
        return;
    say(f, "cannot start on %s: no answer within %.12g s", k->name,
        (double)f->conf->front.timeout_us / (double)MONO_S);
    k->told = true;
    front_child_kill(k, SIGKILL);
    fail_child(f);
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
        say(f, "%s does not end: giving it up", k->name);
    front_child_kill(k, SIGKILL);
}

/* Too few launchers are left, and do not end by themselves. */
static void look_at_gone(struct front *f, int64_t now_us)
{
    int left = f->conf->front.nodes - f->failed - f->gone.n;
    if (f->gone.n == 0 || f->ended[0] > 0 || f->ending_us != 0 ||
        left >= f->conf->nnodes_min || now_us < few_at_us(f))
        return;
    f->gone.few = true;
    say(f,
        "%d launcher%s ended without success, so at most %d %s left, and the "
        "job needs %d: ending it",
        f->gone.n, f->gone.n == 1 ? "" : "s", left, left == 1 ? "is" : "are",
        f->conf->nnodes_min);
    end_all(f, SIGTERM);
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
    say(f, "giving up %s, which has not answered: the job succeeded without it",
        k->name);
    k->told = true;
    front_child_kill(k, SIGKILL);
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

/* Output that waits for a console, here or there, is not cut off. */
static void watch_output(struct front *f, int64_t now_us)
{
    uint64_t moved = f->out.gone + f->err_to->gone;
    if (moved != f->moved || console_waiting(&f->out) > 0 ||
        console_waiting(f->err_to) > 0)
        f->moved_us = now_us;
    f->moved = moved;
}

static void look_at_done(struct front *f, int64_t now_us)
{
    watch_output(f, now_us);
    if (f->done_us == 0 || f->ending_us != 0)
        return;
    for (int i = 0; i < f->n && is_list(f); i++)
        leave_out(f, &f->child[i], now_us);
    int n = count_launchers(f);
    int64_t since_us = f->moved_us > f->done_us ? f->moved_us : f->done_us;
    if (n == 0 || now_us < since_us + f->conf->shutdown_timeout_us + LEFT_US)
        return;
    say(f, "the job succeeded, and %d launcher%s not end: ending %s", n,
        n == 1 ? " does" : "s do", n == 1 ? "it" : "them");
    end_all(f, SIGTERM);
}

/* -- time ------------------------------------------------------------------ */

static void beat(struct front *f, int64_t now_us)
{
    if (!is_list(f) || now_us < f->beat_us)
        return;
    f->beat_us = now_us + BEAT_US;
    for (int i = 0; i < f->n; i++)
        if (buf_len(&f->child[i].orders) == 0)
            tell(&f->child[i], ORDER_BEAT, 0);
}

static void ask_child(struct front *f, struct front_child *k, int64_t now_us)
{
    if (k->state != CHILD_RUNS)
        return;
    k->silent = front_child_answered(k) ? 0 : k->silent + 1;
    k->asked_us = now_us;
    if (k->silent < ASKED) {
        tell(k, ORDER_ASK, 0);
        return;
    }
    say(f, "%s does not answer any more: giving it up", k->name);
    front_child_kill(k, SIGKILL);
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
        (void)front_child_reap(k, now_us);
        (void)front_stream_look(&k->out, now_us);
        (void)front_stream_look(&k->err, now_us);
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
    tell_all(f, SIGTSTP);
    (void)raise(SIGTSTP); /* which is blocked as yet */
    (void)sigprocmask(SIG_UNBLOCK, &stop, NULL);
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    tell_all(f, SIGCONT);
}

static void pass_on(struct front *f, int signo)
{
    bool again = f->ending_us != 0;
    if ((f->conf->signals & SIGNALS_BIT(signo)) == 0 &&
        (SIGNALS_USUAL & SIGNALS_BIT(signo)) == 0) {
        tell_all(f, signo);
        return;
    }
    end_all(f, signo);
    f->signo = again ? f->signo : signo;
    for (int i = 0; i < f->n && again; i++)
        if (f->child[i].state == CHILD_STARTING)
            front_child_kill(&f->child[i], SIGKILL);
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

static int fill_fds(struct front *f)
{
    int n = 0;
    f->fds[n++] = (struct pollfd){.fd = f->signal_fd, .events = POLLIN};
    n = add_console(f, &f->out, n);
    n = add_console(f, f->err_to, n);
    for (int i = 0; i < f->n; i++) {
        const struct front_child *k = &f->child[i];
        bool writes = buf_len(&k->orders) > 0;
        f->fds[n++] =
            (struct pollfd){.fd = writes ? k->in_fd : -1, .events = POLLOUT};
        f->fds[n++] =
            (struct pollfd){.fd = front_stream_wants(&k->out) ? k->out.fd : -1,
                            .events = POLLIN};
        f->fds[n++] =
            (struct pollfd){.fd = front_stream_wants(&k->err) ? k->err.fd : -1,
                            .events = POLLIN};
    }
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
        const struct pollfd *p = &f->fds[3 + i * POLLED];
        if (p->fd >= 0 && p->revents != 0)
            front_child_write(&f->child[i]);
    }
    f->turn = (f->turn + 1) % streams;
    for (int i = 0; i < streams; i++) {
        int at = (f->turn + i) % streams;
        struct front_child *k = &f->child[at / 2];
        const struct pollfd *p = &f->fds[3 + at / 2 * POLLED + 1 + at % 2];
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
        if (f->ending_us == 0 && f->done_us == 0)
            start_some(f);
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
    if (!is_list(f) && f->child[0].status != 0)
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

static int make_children(struct front *f, struct ddp_err *err)
{
    int steps = f->conf->front.components > 0 ? f->conf->front.components : 1;
    f->n = is_list(f) ? f->conf->front.nodes : steps;
    f->child = calloc((size_t)f->n, sizeof(*f->child));
    f->fds = calloc((size_t)f->n * POLLED + 3, sizeof(*f->fds));
    if (f->child == NULL || f->fds == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the hosts");
    for (int i = 0; i < f->n; i++) {
        struct front_child *k = &f->child[i];
        front_child_init(k, is_list(f) ? f->conf->front.hosts.host[i].name
                                       : "srun");
        k->owner = f;
        (void)snprintf(k->prefix, sizeof(k->prefix), "%s: ", k->name);
    }
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
    return find_self(f, err) < 0 || make_children(f, err) < 0 ? -1 : 0;
}

static void tell_start(struct front *f)
{
    char name[64];
    const struct conf *c = f->conf;
    if (!is_list(f)) {
        say(f, "%s: starting on its %d node%s with srun", c->cluster_job,
            c->front.nodes, c->front.nodes == 1 ? "" : "s");
        return;
    }
    command_name(f->conf, name);
    if (c->front.in_job)
        say(f, "%s: starting on its %d host%s with %s", c->cluster_job, f->n,
            f->n == 1 ? "" : "s", name);
    else
        say(f, "starting on %d host%s with %s", f->n, f->n == 1 ? "" : "s",
            name);
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
    if ((is_list && front_child_room(c->front.nodes, &err) < 0) ||
        init(&f, c, o, argc, argv, &err) < 0 || take_signals(&f, &err) < 0) {
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
        say(&f, "%d other launcher%s reported the same", f.reports.repeated,
            f.reports.repeated == 1 ? "" : "s");
    drain(&f);
    int status = status_of(&f);
    for (int i = 0; i < f.n; i++)
        front_child_free(&f.child[i]);
    free(f.child);
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
    free(f.child);
    free(f.fds);
    return fflush(stdout) == 0 ? 0 : ddp_code_exit(DDP_E_IO);
}
