/*
 * Happy path: guard_split forks the janitor, and that the agent, which returns;
 * the parent stays in watch, where it waits for three things at once:
 *
 *   - a signal of the user's or SIGCHLD (signalfd): passed on to the agent;
 *   - a message of the agent's (socketpair): that its lease ends earlier;
 *   - the end of the lease (timerfd): then the agent should have killed its
 *     workers itself, and the guard does it if it has not.
 *
 * When the agent has ended the janitor kills and removes what is left. Its end
 * gives us the dead agent. The guard then does the same (janitor_clear). Then
 * farewell is said for this node (farewell_page), by the janitor, or by the
 * guard if the janitor could not: the server may count this node's workers as
 * dead from then on.
 *
 * Failure modes:
 *   - The agent is killed, or ends by a fault of its own: the same end, with
 *     another exit status and a sentence.
 *   - The agent is frozen: its workers are killed LATE_US after the lease. The
 *     agent may wake just then and start the next round's: see fence.
 *   - The same, and its workers cannot be found (/proc is not ours) or are
 *     another user's: the agent is killed. The cgroup, if there is one, kills
 *     another user's processes as well.
 *   - Something cannot be killed at the end (state D, another user's): no
 *     farewell is said, so that the server waits until the lease is over.
 *   - The guard is killed: the agent sees its end of the socketpair closed.
 *   - Both are killed at once: the janitor ends what is left, and says that.
 *   - The janitor is killed: the agent becomes our child, and we end what is
 *     left.
 *   - Poll has no memory: tried again, RETRY_US later.
 *   - There is no timerfd: poll's own time-out does, but for a machine that
 *     sleeps.
 */
#include "launcher/proc/guard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launcher/proc/farewell_page.h"
#include "launcher/proc/janitor.h"
#include "launcher/proc/procfs.h"
#include "launcher/proc/signals.h"
#include "launcher/proc/tree.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/tls.h"

#define SWEEP_US (5 * MONO_S)
#define LATE_US  (20 * MONO_MS)  /* what an agent that is not frozen may take */
#define FENCE_US (200 * MONO_MS) /* a guard may be frozen, too */
#define LATE_BLIND_US                                                          \
    (200 * MONO_MS) /* the same, if the agent has to be killed for it */
#define INHERITED_MAX 1024
#define LOOK_US                                                                \
    (200 * MONO_MS) /* between two looks at children that are not ours */
#define BLIND_US (20 * MONO_MS) /* that one of them may take */
#define START_US (2 * MONO_S)   /* the same, before there is an agent */
#define RETRY_US 10000          /* if poll has no memory */

/* What the guard passes on besides what it is told; SIGCHLD tells it of the
 * agent's end. */
#define ALWAYS                                                                 \
    (SIGNALS_BIT(SIGUSR1) | SIGNALS_BIT(SIGUSR2) | SIGNALS_BIT(SIGTSTP) |      \
     SIGNALS_BIT(SIGWINCH))

/* Not to be passed on: they cannot be caught, or are the guard's own. */
#define NEVER_TAKEN                                                            \
    (SIGNALS_BIT(SIGKILL) | SIGNALS_BIT(SIGSTOP) | SIGNALS_BIT(SIGCHLD))

struct guard {
    pid_t janitor;
    guard_end end;    /* NULL: none */
    uint64_t signals; /* that were passed on */
    int agent_fd;
    int signal_fd;
    int timer_fd;      /* -1: there is none */
    int64_t fenced_us; /* the lease over which workers were killed */
    pid_t inherited[INHERITED_MAX]; /* children that are none of the launch's */
    int n_inherited;
    int64_t look_us; /* when they are looked at next */
};

/* A page that guard, janitor and agent share. Agent and janitor write, the
 * guard reads, but for `fencing`: the other way round. */
struct shared {
    atomic_bool fencing;
    _Atomic int64_t lease_until_us; /* until when the workers may run */
    struct janitor_told told;
};
static struct shared *shared;

/* Nobody but the guard reaps the agent, so the number stays the agent's. */
static pid_t agent_pid(void)
{
    return atomic_load(&shared->told.agent);
}

/* Signals that were ignored at the start stay ignored (nohup). But with SIGCHLD
 * ignored, the kernel would not tell of the agent's end. */
static void block_signals(uint64_t signals, sigset_t *set)
{
    for (int signo = 1; signo <= 64; signo++)
        if ((SIGNALS_IGNORED & ~signals & SIGNALS_BIT(signo)) != 0)
            (void)signal(signo, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGCHLD);
    for (int signo = 1; signo <= 64; signo++) {
        struct sigaction sa;
        if ((signals & SIGNALS_BIT(signo)) != 0 &&
            sigaction(signo, NULL, &sa) == 0 && sa.sa_handler != SIG_IGN)
            (void)sigaddset(set, signo);
    }
    (void)sigprocmask(SIG_BLOCK, set, NULL);
}

enum heard {
    HEARD_MSG,
    HEARD_NOTHING,
    HEARD_END /* its end is closed; SIGCHLD tells the rest */
};

static enum heard hear_agent(const struct guard *g)
{
    struct guard_msg msg;
    ssize_t n = recv(g->agent_fd, &msg, sizeof(msg), MSG_DONTWAIT);
    if (n == (ssize_t)sizeof(msg))
        return HEARD_MSG; /* the lease is looked at in any case */
    return n < 0 && errno == EAGAIN ? HEARD_NOTHING : HEARD_END;
}

static void
tell_agent(const struct guard *g, uint32_t kind, int signo, pid_t sender)
{
    struct guard_msg msg = {.kind = kind, .signo = signo, .sender = sender};
    /* A full socket means a dozen signals that were not taken up yet. */
    (void)send(g->agent_fd, &msg, sizeof(msg), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool is_alive(pid_t child)
{
    siginfo_t info = {.si_pid = 0};
    int how = WEXITED | WNOHANG | WNOWAIT;
    while (waitid(P_PID, (id_t)child, &info, how) != 0)
        if (errno != EINTR)
            return false;
    return info.si_pid == 0;
}

/*
 * A program that started children and then became us by execve(2) leaves them
 * to us: they are not the launch's. What they leave comes to us as well, and
 * the kernel does not say so: if a child of theirs dies, they are told of it,
 * and we get its children. So they are looked at again and again.
 * Orphans of the launch come to agent or janitor as long as either lives, so
 * all other children that the guard has until then are strangers.
 */
static void note_inherited(struct guard *g)
{
    pid_t pids[INHERITED_MAX + 1];
    int64_t now_us = mono_now_us();
    memcpy(pids, g->inherited, (size_t)g->n_inherited * sizeof(pids[0]));
    int n = tree_children(pids, g->n_inherited, INHERITED_MAX + 1,
                          now_us + BLIND_US);
    g->look_us = now_us + LOOK_US;
    if (!is_alive(g->janitor) && !is_alive(agent_pid()))
        return; /* orphans of the launch may be among them */
    g->n_inherited = 0;
    for (int i = 0; i < n && g->n_inherited < INHERITED_MAX; i++)
        if (pids[i] != g->janitor && pids[i] != agent_pid())
            g->inherited[g->n_inherited++] = pids[i];
}

/* When the janitor has ended, with the status `own`: the agent's status, -1: it
 * lives, or is ours to reap. A janitor that has no agent to tell of could not
 * start it; or it was killed, and this process is no child subreaper. */
static int status_from_janitor(int own)
{
    int status = atomic_load(&shared->told.status);
    pid_t agent = agent_pid();
    pid_t ours = agent > 0 ? waitpid(agent, &status, WNOHANG) : -1;
    return ours >= 0 || status >= 0 ? status : own;
}

/* The agent's status once it is dead, else -1; others are reaped. */
static int reap(struct guard *g)
{
    int status;
    pid_t pid;
    bool others = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0 ||
           (pid < 0 && errno == EINTR)) {
        if (pid == g->janitor)
            status = status_from_janitor(status);
        if (pid > 0 && (pid == agent_pid() || pid == g->janitor) && status >= 0)
            return status;
        others |= pid > 0 && pid != g->janitor;
    }
    if (others)
        note_inherited(g);
    return -1;
}

/*
 * Ctrl-Z. The workers stop first. Then this process does what SIGTSTP does
 * without us: it stops until it is continued, except in an orphaned process
 * group: the kernel ignores SIGTSTP there, since nobody could continue it.
 */
static void pause_launch(const struct guard *g)
{
    sigset_t stop;
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTSTP);
    tell_agent(g, GUARD_PAUSE, 0, 0);
    (void)raise(SIGTSTP); /* which is blocked as yet */
    (void)sigprocmask(SIG_UNBLOCK, &stop, NULL);
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    tell_agent(g, GUARD_RESUME, 0, 0);
}

static int hear_signals(struct guard *g)
{
    struct signalfd_siginfo info;
    if (read(g->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return -1;
    if (info.ssi_signo == SIGCHLD)
        return reap(g);
    g->signals |= SIGNALS_BIT(info.ssi_signo);
    if (info.ssi_signo == SIGTSTP)
        pause_launch(g);
    else
        tell_agent(g, GUARD_SIGNAL, (int)info.ssi_signo, (pid_t)info.ssi_pid);
    return -1;
}

/* -- the lease over the agent ---------------------------------------------- */

/* When to kill the workers of a lease in the agent's stead; MONO_NEVER: there
 * are none. */
static int64_t fence_at_us(const struct guard *g, int64_t until_us)
{
    return until_us == g->fenced_us ? MONO_NEVER
                                    : mono_after(until_us, LATE_US);
}

/* Whether there are strangers among our children, of whom more may come. A look
 * is dear if /proc is not ours; then a death of one of them must do. */
static bool looks(const struct guard *g)
{
    return g->n_inherited > 0 && procfs_is_ours();
}

/* Sets the timer to the end of the lease, and returns what poll may take until
 * then in ms, -1: for ever. poll's own time-out stands still while the machine
 * sleeps, and the workers are to be dead as soon as it wakes. */
static int arm_timer(const struct guard *g)
{
    int64_t at_us = fence_at_us(g, atomic_load(&shared->lease_until_us));
    struct itimerspec at = {.it_value.tv_sec = 0};
    if (at_us != MONO_NEVER) {
        at.it_value.tv_sec = (time_t)(at_us / MONO_S);
        at.it_value.tv_nsec = (long)(at_us % MONO_S) * 1000 + 1;
    }
    if (g->timer_fd >= 0)
        (void)timerfd_settime(g->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    if (looks(g))
        at_us = mono_min(at_us, g->look_us);
    return at_us == MONO_NEVER ? -1 : (int)mono_ms_until(mono_now_us(), at_us);
}

static void tell_why(int why)
{
    if (why == TREE_FORBIDDEN)
        log_warnx("the agent (pid %d) is frozen and its lease is over; a "
                  "process of its workers is another user's, and ddprun may "
                  "not kill it (EPERM): killing the agent",
                  (int)agent_pid());
    else
        log_warnx("the agent (pid %d) is frozen and its lease is over; its "
                  "workers cannot be found or killed (/proc is not of this "
                  "pid namespace, or no file descriptor is free): killing the "
                  "agent, and them with it",
                  (int)agent_pid());
}

/* Its death kills its workers (parent-death signal), but for another user's,
 * and what they started comes to us. One that is only late is given a moment.
 */
static void kill_agent(int64_t until_us, int why)
{
    int64_t late_us = mono_now_us() + LATE_BLIND_US;
    struct timespec pause = {.tv_nsec = 1000 * 1000};
    while (atomic_load(&shared->lease_until_us) == until_us) {
        if (mono_now_us() >= late_us) {
            tell_why(why);
            (void)kill(agent_pid(), SIGKILL);
            return;
        }
        (void)nanosleep(&pause, NULL);
    }
}

static void kill_workers(int64_t until_us)
{
    int killed = tree_kill_groups(agent_pid(), mono_now_us() + SWEEP_US);
    if (killed < 0)
        kill_agent(until_us, killed);
    if (killed > 0)
        log_warnx("the agent (pid %d) is frozen and its lease is over: killed "
                  "%d process%s of its workers, since another round may start "
                  "without this node",
                  (int)agent_pid(), killed, killed == 1 ? "" : "es");
}

/*
 * If both were frozen the agent may be awake again, and about to start the
 * workers of another round, which must not be hit. The agent first takes the
 * lease back, then looks at `fencing` (guard_wait); the guard first sets
 * `fencing`, then looks at the lease. So one of them sees the other.
 */
static void fence(struct guard *g)
{
    int64_t until_us = atomic_load(&shared->lease_until_us);
    if (mono_now_us() < fence_at_us(g, until_us))
        return;
    ddp_assert(until_us != g->fenced_us && until_us != MONO_NEVER);
    atomic_store(&shared->fencing, true);
    if (atomic_load(&shared->lease_until_us) == until_us) {
        g->fenced_us = until_us;
        kill_workers(until_us);
    }
    atomic_store(&shared->fencing, false);
}

static int watch(struct guard *g)
{
    struct pollfd fds[3] = {{.fd = g->signal_fd, .events = POLLIN},
                            {.fd = g->agent_fd, .events = POLLIN},
                            {.fd = g->timer_fd, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 3, arm_timer(g)) < 0 && errno != EINTR)
            (void)usleep(RETRY_US); /* what is readable stays so */
        fence(g);
        if (looks(g) && mono_now_us() >= g->look_us)
            note_inherited(g);
        if (fds[1].revents != 0 && hear_agent(g) == HEARD_END)
            fds[1].fd = -1; /* not to be woken by it while the agent goes */
        int status = fds[0].revents != 0 ? hear_signals(g) : -1;
        if (status >= 0)
            return status;
    }
}

/* What a process does to itself; ddp_assert aborts. */
static bool is_fault(int signo)
{
    return signo == SIGABRT || signo == SIGSEGV || signo == SIGBUS ||
           signo == SIGILL || signo == SIGFPE;
}

__attribute__((noreturn)) static void guard_main(struct guard *g)
{
    /* In the background of a terminal (stty tostop) our lines would stop us,
     * and nobody would end what is left. */
    (void)signal(SIGTTOU, SIG_IGN);
    ddp_assert(g->janitor > 1 && g->agent_fd >= 0 && g->signal_fd >= 0);
    int status = watch(g);
    ddp_assert(WIFEXITED(status) || WIFSIGNALED(status));
    /* Nothing of the launch is in the session that the user started us in. */
    int left = janitor_clear(g->inherited, g->n_inherited, getsid(0), true,
                             mono_now_us() + SWEEP_US);
    if (left > 0)
        log_warnx("cannot kill %d process%s of this run; ps shows why (state "
                  "D: it waits in the kernel; another user: only that user and "
                  "root may kill it)",
                  left, left == 1 ? "" : "es");
    const char *killed =
        left > 0 ? "" : "; every process that it had started was killed";
    if (left == 0 && !atomic_load(&shared->told.said))
        farewell_page_say();
    if (WIFEXITED(status) && g->end != NULL)
        g->end(WEXITSTATUS(status), g->signals);
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    if (is_fault(WTERMSIG(status))) {
        log_warnx("the agent (pid %d) was killed by signal %d (%s), which is "
                  "a bug of ddprun: please report it%s",
                  (int)agent_pid(), WTERMSIG(status),
                  signals_name(WTERMSIG(status)), killed);
        _exit(ddp_code_exit(DDP_E_BUG));
    }
    log_warnx("the agent (pid %d) was killed by signal %d (%s)%s",
              (int)agent_pid(), WTERMSIG(status),
              signals_name(WTERMSIG(status)), killed);
    _exit(128 + SIGKILL);
}

int guard_split(uint64_t signals, guard_end end)
{
    int pair[2];
    sigset_t taken;
    static struct guard g = {.fenced_us = MONO_NEVER};
    ddp_assert(shared == NULL); /* called once */
    g.end = end;
    ddp_assert((signals & NEVER_TAKEN) == 0);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || janitor_share() != 0 ||
        farewell_page_share() != 0)
        fatal(ddp_code_exit(DDP_E_NOMEM), "cannot share memory with the agent");
    atomic_init(&shared->lease_until_us, MONO_NEVER);
    atomic_init(&shared->told.status, -1);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        fatal(ddp_code_exit(DDP_E_NOMEM), "cannot make a socket for the agent");
    janitor_adopt();
    block_signals(signals | ALWAYS, &taken);
    g.signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (g.signal_fd < 0)
        fatal(ddp_code_exit(DDP_E_NOMEM),
              "cannot make a signalfd for the user's signals");
    g.n_inherited =
        tree_children(g.inherited, 0, INHERITED_MAX, mono_now_us() + START_US);
    g.janitor = janitor_fork();
    g.agent_fd = pair[0];
    if (g.janitor > 0) {
        (void)close(pair[1]);
        tls_forget(); /* the agent has made the farewell */
        g.timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
        guard_main(&g);
    }
    (void)close(pair[0]);
    (void)close(g.signal_fd);
    janitor_split(&shared->told, pair[1]);
    (void)setsid(); /* not in the terminal's foreground group: one Ctrl-C is
                       one, and it comes from the guard */
    (void)sigemptyset(&taken);
    (void)sigaddset(&taken, SIGCHLD); /* the others stay blocked */
    (void)sigprocmask(SIG_UNBLOCK, &taken, NULL);
    janitor_adopt();
    return pair[1];
}

void guard_lease(int guard_fd, int64_t until_us)
{
    ddp_assert(shared != NULL && until_us >= 0);
    int64_t before_us = atomic_exchange(&shared->lease_until_us, until_us);
    struct guard_msg msg = {.kind = GUARD_LEASE};
    /* A full socket means that the guard is about to look anyway. */
    if (until_us < before_us)
        (void)send(guard_fd, &msg, sizeof(msg), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void guard_wait(void)
{
    struct timespec pause = {.tv_nsec = 100 * 1000};
    int64_t until_us = mono_now_us() + FENCE_US;
    ddp_assert(shared != NULL);
    while (atomic_load(&shared->fencing) && mono_now_us() < until_us)
        (void)nanosleep(&pause, NULL);
}
