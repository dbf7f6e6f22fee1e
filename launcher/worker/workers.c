/*
 * Happy path: workers_start gives each worker its error file, its mailbox, its
 * pipes and its environment, forks it, and adds its pidfd to a set that the
 * loop watches. When the pidfd becomes readable the worker is reaped, and
 * on_exit is told how it ended, with what it left behind: its error file, its
 * last lines on stderr.
 * Without pidfds (Linux before 5.3, sandboxes) SIGCHLD tells: workers_ended.
 * That a worker begins to end in failure is told before, where it can be seen
 * (death_watch): on_failed, and on_exit when it is reaped.
 *
 * Failure modes:
 * - A worker cannot be started (no memory, descriptors or processes):
 *   workers_start stops there. Those before it run on; the agent kills them as
 *   it kills any round, so there is one way to end workers, not two.
 * - The child cannot execute the program: it writes its errno to trouble_fd and
 *   exits with 126 or 127. A program may end with 127 as well, so only the
 *   errno makes the failure a permanent one.
 * - A signal comes before the child is a session leader: it goes to the process
 *   instead of the group (signal_worker).
 * - A worker is stopped (SIGSTOP) when it is asked to end: it is continued, or
 *   it could not obey within its grace.
 * - Orphans come to us as a subreaper. waitid(P_ALL) shows the same dead worker
 *   again and again until its own pidfd is handled, so the reaping of orphans
 *   stops at a worker and is done again after it. A worker without a pidfd is
 *   reaped there as well, which finds the ends that no SIGCHLD told of.
 */
#include "launcher/worker/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/oom.h"
#include "launcher/worker/death_watch.h"
#include "launcher/worker/env.h"
#include "launcher/worker/mailbox.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/core/slow.h"

#define WORKERS_MAGIC 0x776f726bu
#define ENDED_MAX     16 /* workers that end in one turn of the loop */

/* The last one that was started in its place. */
struct worker {
    pid_t pid; /* 0: none was yet */
    bool lives;
    int pidfd; /* -1: none, or it does not live */
    int local_rank;
    int64_t started_us;
    enum oom_kill oom; /* the kernel counts it once: of its end, if known */
};

struct workers {
    unsigned magic;
    uv_loop_t *loop;
    const struct conf *conf;
    const struct spawn_origin *origin;
    struct output *output;
    const struct workers_handler *handler;
    void *ctx;
    workers_taker taker; /* NULL: none */
    void *taker_ctx;
    struct errfile errfile;
    struct oom oom;
    uv_poll_t ended;
    int epoll;          /* the set of pidfds, which is watched by `ended` */
    struct worker *all; /* by local rank */
    char (*error_files)[ERRFILE_PATH_MAX];
    struct mailbox *mailboxes; /* by local rank */
    struct mailbox_pages pages;
    struct slow_told *told;     /* by local rank, for a beat */
    struct death_watch *deaths; /* NULL: none yet */
    struct mpi *mpi;            /* NULL: --mpi=none */
    int memory_fd;              /* for their snapshots; -1: none */
    int trouble_fd[2];          /* children that could not exec */
    bool paused;
    bool stopping;  /* workers of this round were asked to go */
    bool pipe_told; /* that no pipe can be made for PyTorch */
    int64_t base_rank;
    int64_t barren; /* see workers_barren */
};

/* An index into the arrays by local rank. */
static int place_of(const struct workers *workers, int local_rank)
{
    ddp_assert(local_rank >= 0 && local_rank < workers->conf->nproc);
    return local_rank;
}

static void *get(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for %zu worker%s", n,
               n == 1 ? "" : "s");
    return p;
}

static void on_mpi_failed(void *ctx, const struct agent_worker *w)
{
    const struct workers *workers = ctx;
    workers->handler->on_failed(workers->ctx, w);
}

static const struct mpi_handler mpi_handler = {.on_failed = on_mpi_failed};

static void on_ended(uv_poll_t *poll, int status, int events);

static void watch_pidfds(struct workers *workers)
{
    uv_poll_t *poll = &workers->ended;
    workers->epoll = epoll_create1(EPOLL_CLOEXEC);
    int rc = workers->epoll < 0
                 ? uv_translate_sys_error(errno)
                 : uv_poll_init(workers->loop, poll, workers->epoll);
    if (rc != 0)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "cannot watch the workers: %s",
               uv_strerror(rc));
    poll->data = workers;
    (void)uv_poll_start(poll, UV_READABLE, on_ended); /* cannot fail */
    uv_unref((uv_handle_t *)poll); /* keeps no loop running */
}

struct workers *workers_new(uv_loop_t *loop,
                            const struct conf *conf,
                            const struct spawn_origin *origin,
                            struct output *output,
                            const struct workers_handler *handler,
                            void *ctx)
{
    ddp_assert(conf->nproc >= 1);
    struct workers *workers = get(1, sizeof(*workers));
    size_t n = (size_t)conf->nproc;
    struct ddp_err err;
    workers->all = get(n, sizeof(*workers->all));
    workers->error_files = get(n, sizeof(*workers->error_files));
    workers->mailboxes = get(n, sizeof(*workers->mailboxes));
    workers->told = get(n, sizeof(*workers->told));
    workers->memory_fd = -1;
    workers->barren = -1;
    if (conf->snapshot_memory > 0)
        workers->memory_fd = mailbox_open_memory(conf->snapshot_memory);
    for (size_t i = 0; i < n; i++) {
        workers->mailboxes[i] = (struct mailbox)MAILBOX_NONE;
        workers->mailboxes[i].memory_fd = workers->memory_fd;
        workers->all[i] = (struct worker){.local_rank = (int)i, .pidfd = -1};
    }
    workers->magic = WORKERS_MAGIC;
    workers->pages = (struct mailbox_pages)MAILBOX_PAGES_NONE;
    workers->loop = loop;
    workers->conf = conf;
    workers->origin = origin;
    workers->output = output;
    workers->handler = handler;
    workers->ctx = ctx;
    if (pipe2(workers->trouble_fd, O_CLOEXEC | O_NONBLOCK) != 0)
        fatal(ddp_code_exit(DDP_E_NOMEM), "cannot make a pipe for the workers");
    if (errfile_init(&workers->errfile, conf, &err) != 0)
        fatalx(ddp_code_exit(err.code), "%s", err.text);
    watch_pidfds(workers);
    workers->mpi = mpi_new(loop, conf, &mpi_handler, workers);
    return workers;
}

/* -- a worker ends --------------------------------------------------------- */

/* Where PyTorch makes the pipe of launcher/hang/flight; "" for nowhere. */
static void find_pipe(const struct workers *workers,
                      int local_rank,
                      char path[WORKERS_PATH_MAX])
{
    char name[64];
    (void)snprintf(name, sizeof(name), FLIGHT_NAME "%lld.pipe",
                   (long long)(workers->base_rank + local_rank));
    workers_path(workers, local_rank, name, path);
    if (!conf_hang_acts(workers->conf->hang.how) ||
        getenv(FLIGHT_PIPE_VAR) != NULL)
        path[0] = '\0';
}

/* PyTorch throws if it cannot make the pipe: some file systems have none. */
static void check_pipe(struct workers *workers, int local_rank, char **envp)
{
    char path[WORKERS_PATH_MAX];
    find_pipe(workers, local_rank, path);
    if (path[0] == '\0' || envp == NULL)
        return;
    (void)unlink(path); /* of a worker that was killed with its launcher */
    if (mkfifo(path, 0600) == 0) {
        (void)unlink(path); /* just made; PyTorch makes its own */
        return;
    }
    if (!workers->pipe_told)
        log_warn("cannot make a pipe such as %s; PyTorch's flight recorder is "
                 "not asked if a worker hangs",
                 path);
    workers->pipe_told = true;
    worker_env_drop(envp, FLIGHT_PIPE_VAR);
}

int64_t workers_barren(const struct workers *workers)
{
    return workers->barren;
}

/* What is told of a worker's end besides how it ended. */
struct last_words {
    char text[ERRFILE_TEXT_MAX + 1]; /* of its error file, or why it ended */
    char trace[LINES_TAIL_BYTES + 1];
    char tail[LINES_TAIL_BYTES + 1]; /* of its stderr */
};

/* Of a worker that ended with that wait status, or is about to. */
static struct agent_worker describe_end(struct workers *workers,
                                        struct worker *ended,
                                        int wait_status,
                                        struct last_words *last)
{
    int signo = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    int local_rank = ended->local_rank;
    if (signo == SIGKILL && ended->oom == OOM_NOT)
        ended->oom = oom_happened(&workers->oom);
    struct agent_worker w = {
        .local_rank = local_rank,
        .pid = ended->pid,
        .code = signo != 0 ? 0 : WEXITSTATUS(wait_status),
        .signal = signo,
        .oom = ended->oom == OOM_KILLED,
        .progressed = mailbox_progressed(&workers->mailboxes[local_rank]),
        .text = last->text,
        .trace = last->trace,
        .tail = last->tail,
    };
    last->text[0] = last->trace[0] = last->tail[0] = '\0';
    if (w.code != 0 || w.signal != 0) {
        errfile_read(workers->error_files[local_rank], last->text, last->trace,
                     sizeof(last->trace));
        if (!workers->stopping || w.signal != SIGTERM) /* else it obeyed */
            output_tail(workers->output, local_rank, last->tail);
    }
    if (ended->oom == OOM_LIKELY && last->text[0] == '\0')
        (void)snprintf(last->text, /* fits */
                       sizeof(last->text),
                       "likely the kernel killed it: memory ran out on this "
                       "machine (oom_kill in /proc/vmstat)");
    if (workers->conf->preflight && w.code == ddp_code_exit(DDP_E_PREFLIGHT))
        w.permanent = true; /* the check found a fault */
    return w;
}

static void close_mailbox(struct workers *workers, int local_rank)
{
    struct mailbox *m = &workers->mailboxes[local_rank];
    if (workers->deaths != NULL && m->page != NULL)
        death_watch_drop(workers->deaths, m->page);
    mailbox_close(m);
}

static void
tell_exit(struct workers *workers, struct worker *ended, int wait_status)
{
    struct last_words last;
    int local_rank = ended->local_rank;
    struct agent_worker w = describe_end(workers, ended, wait_status, &last);
    /* The least that was told: it only changes once a step is on the disk. */
    int64_t told = mailbox_read_barren(&workers->mailboxes[local_rank]);
    if (told >= 0 && (workers->barren < 0 || told < workers->barren))
        workers->barren = told;
    close_mailbox(workers, local_rank);
    output_worker_ended(workers->output, local_rank);
    /* PyTorch leaves its pipe, and the folder with it. */
    char path[WORKERS_PATH_MAX];
    find_pipe(workers, local_rank, path);
    if (path[0] != '\0')
        (void)unlink(path); /* most have none */
    if (w.code == 126 || w.code == 127)
        spawn_explain(workers->trouble_fd[0], local_rank,
                      workers->conf->exec_path, &w.permanent, last.text,
                      sizeof(last.text));
    mpi_ended(workers->mpi, &w);
    workers->handler->on_exit(workers->ctx, &w);
}

/* Until it is reaped the pid is its own, and nobody else reaps it. */
static bool reap_if_ended(struct workers *workers, struct worker *w)
{
    struct worker ended = *w; /* the next one may be started here */
    int status;
    pid_t pid;
    ddp_assert(w->lives);
    while ((pid = waitpid(w->pid, &status, WNOHANG)) < 0)
        ddp_assert(errno == EINTR);
    if (pid == 0)
        return false;
    w->lives = false;
    w->pidfd = -1;
    if (ended.pidfd >= 0) {
        /* A child of ours that has not executed its program yet has a copy. */
        (void)epoll_ctl(workers->epoll, EPOLL_CTL_DEL, ended.pidfd, NULL);
        (void)close(ended.pidfd); /* now: the next round may need it */
    }
    tell_exit(workers, &ended, status);
    return true;
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
    struct workers *workers = poll->data;
    struct epoll_event evs[ENDED_MAX];
    bool reaped = false;
    (void)status, (void)events;
    ddp_assert(workers->magic == WORKERS_MAGIC);
    int n = epoll_wait(workers->epoll, evs, ENDED_MAX, 0);
    for (int i = 0; i < n; i++) {
        struct worker *w = &workers->all[evs[i].data.u32];
        if (w->lives && reap_if_ended(workers, w))
            reaped = true;
    }
    if (reaped)
        workers->handler->on_uncovered(workers->ctx);
}

static struct worker *find_worker(const struct workers *workers, pid_t pid)
{
    for (int i = 0; i < workers->conf->nproc; i++)
        if (workers->all[i].lives && workers->all[i].pid == pid)
            return &workers->all[i];
    return NULL;
}

/* It has failed; its end is told when it is reaped. */
static void on_ending(void *ctx, pid_t pid, int wait_status)
{
    struct workers *workers = ctx;
    struct worker *w = find_worker(workers, pid);
    struct last_words last;
    if (w == NULL)
        return;
    struct agent_worker ends = describe_end(workers, w, wait_status, &last);
    workers->handler->on_failed(workers->ctx, &ends);
}

void workers_ended(struct workers *workers, pid_t pid)
{
    struct worker *w = find_worker(workers, pid);
    if (w != NULL && w->pidfd < 0)
        (void)reap_if_ended(workers, w); /* a hint: it may live */
}

/* -- starting -------------------------------------------------------------- */

static int watch_worker(struct workers *workers,
                        int local_rank,
                        pid_t pid,
                        int pidfd,
                        struct ddp_err *err)
{
    struct worker *w = &workers->all[local_rank];
    struct epoll_event ev = {.events = EPOLLIN,
                             .data.u32 = (uint32_t)local_rank};
    ddp_assert(pid > 0 && !w->lives);
    if (pidfd >= 0 &&
        epoll_ctl(workers->epoll, EPOLL_CTL_ADD, pidfd, &ev) != 0) {
        ddp_err_sys(err, DDP_E_NOMEM,
                    "cannot watch the worker with local rank %d", local_rank);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        (void)close(pidfd);
        return -1;
    }
    w->pid = pid;
    w->lives = true;
    w->oom = OOM_NOT;
    w->pidfd = pidfd;
    w->started_us = mono_now_us();
    workers->handler->on_start(workers->ctx, local_rank, pid);
    return 0;
}

/* A process for the worker: a standby's, else a new one. */
static int take_or_spawn(struct workers *workers,
                         struct spawn_request *req,
                         pid_t *pid,
                         int *pidfd,
                         struct ddp_err *err)
{
    if (req->envp == NULL || req->argv == NULL)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "no memory for the worker with local rank %d",
                           req->local_rank);
    if (workers->taker != NULL && workers->mpi == NULL &&
        workers->taker(workers->taker_ctx, req, pid, pidfd))
        return 0;
    return spawn_worker(req, pid, pidfd, err);
}

/*
 * Ranks of Open MPI that wait call sched_yield(2), which gives way within a
 * session only (sched(7), "The autogroup feature"); mpirun's share its own.
 * Those of MPICH do not, and are faster each with the share of the CPUs that
 * a session of its own has.
 */
static bool shares_session(const struct conf *conf)
{
    return conf->oversubscribed &&
           (conf->mpi == CONF_MPI_PMIX || conf->mpi == CONF_MPI_AUTO);
}

static int start_one(struct workers *workers,
                     const struct msg_world *world,
                     int local_rank,
                     struct ddp_err *err)
{
    char *error_file = workers->error_files[local_rank];
    char folder[ERRFILE_PATH_MAX];
    struct output_fds ends;
    errfile_prepare(&workers->errfile, world->restarts, local_rank, error_file,
                    folder);
    if (output_open(workers->output, world, local_rank, folder, &ends, err) !=
        0)
        return -1;
    struct mailbox *mailbox = &workers->mailboxes[local_rank];
    if (mailbox_open(mailbox, &workers->pages, local_rank) != 0) {
        (void)ddp_err_sys(err, DDP_E_NOMEM,
                          "cannot make the progress file of the worker with "
                          "local rank %d",
                          local_rank);
        output_close(&ends);
        return -1;
    }
    struct mpi_fds mpi;
    if (mpi_open_worker(workers->mpi, local_rank, &mpi, err) != 0) {
        output_close(&ends);
        return -1;
    }
    char **envp = worker_env_make(workers->conf, world, local_rank, error_file,
                                  mailbox, mpi.pmi);
    check_pipe(workers, local_rank, envp);
    struct worker_places places;
    worker_places_fill(&places, world, local_rank);
    char **argv = worker_args_make(workers->conf->argv, &places);
    bool bound = workers->conf->numa_binding != TOPOLOGY_NONE;
    struct spawn_request req = {
        .path = workers->conf->exec_path,
        .argv = argv,
        .envp = envp,
        .origin = workers->origin,
        .cpus = bound ? &workers->conf->seats[local_rank].cpus : NULL,
        .report_fd = workers->trouble_fd[1],
        .out_fd = ends.out,
        .err_fd = ends.err,
        .keep_fd = mpi.pmi,
        .env_fd = mpi.env,
        .shares_session = shares_session(workers->conf),
        .local_rank = local_rank,
        .may_read = world->base_rank + local_rank == 0,
        .watched = workers->conf->hang.how != CONF_HANG_OFF,
    };
    pid_t pid = 0;
    int pidfd = -1;
    int rc = take_or_spawn(workers, &req, &pid, &pidfd, err);
    output_close(&ends);
    mpi_close_fds(&mpi);
    free(envp);
    free(argv);
    if (rc != 0 || watch_worker(workers, local_rank, pid, pidfd, err) != 0)
        return -1;
    mpi_started(workers->mpi, local_rank, pid);
    return 0;
}

/* Says what ran out, and which limit to raise. */
static void advise(const struct workers *workers, struct ddp_err *err)
{
    int n = workers->conf->nproc;
    if (err->sys_errno == EMFILE || err->sys_errno == ENFILE)
        ddp_err_wrap(err,
                     "not enough file descriptors are allowed for the %d "
                     "worker%s of this node (raise the limit: ulimit -n)",
                     n, n == 1 ? "" : "s");
    else if (err->sys_errno == EAGAIN)
        ddp_err_wrap(err,
                     "not enough processes are allowed for the %d worker%s of "
                     "this node (raise the limit: ulimit -u, or a container's "
                     "pids.max)",
                     n, n == 1 ? "" : "s");
}

void workers_set_taker(struct workers *workers, workers_taker taker, void *ctx)
{
    workers->taker = taker;
    workers->taker_ctx = ctx;
}

static int start_all(struct workers *workers,
                     const struct msg_world *world,
                     int *started,
                     struct ddp_err *err)
{
    for (*started = 0; *started < workers->conf->nproc; ++*started) {
        ddp_assert(!workers->all[*started].lives);
        if (start_one(workers, world, *started, err) == 0)
            continue;
        close_mailbox(workers, *started);
        output_worker_ended(workers->output, *started);
        advise(workers, err);
        return -1;
    }
    return 0;
}

void workers_prepare(struct workers *workers)
{
    if (workers->oom.machine.path[0] == '\0')
        oom_init(&workers->oom);
}

int workers_start(struct workers *workers,
                  const struct msg_world *world,
                  int *started,
                  struct ddp_err *err)
{
    spawn_forget(workers->trouble_fd[0]);
    workers->stopping = false;
    workers->base_rank = world->base_rank;
    mpi_round(workers->mpi, world);
    workers_prepare(workers);
    *started = 0;
    if (mailbox_open_pages(&workers->pages, workers->conf->nproc) != 0) {
        (void)ddp_err_sys(err, DDP_E_NOMEM,
                          "cannot make the pages by which the workers are "
                          "asked to stop");
        advise(workers, err);
        return -1;
    }
    if (start_all(workers, world, started, err) != 0)
        return -1;
    if (workers->paused)
        workers_pause(workers, true);
    return 0;
}

/* -- ending ---------------------------------------------------------------- */

/* In the instant after fork it is not a session leader yet; then the signal
 * goes to the process itself. */
static void signal_worker(const struct worker *w, int signo)
{
    if (w->lives && kill(-w->pid, signo) != 0)
        (void)kill(w->pid, signo);
}

static void signal_workers(const struct workers *workers, int signo)
{
    for (int i = 0; i < workers->conf->nproc; i++)
        signal_worker(&workers->all[i], signo);
}

int workers_ask(struct workers *workers,
                enum msg_graceful graceful,
                int64_t sent_us)
{
    int looking = 0;
    workers->stopping = true;
    for (int i = 0; i < workers->conf->nproc; i++) {
        const struct worker *w = &workers->all[i];
        if (!w->lives)
            continue;
        if (mailbox_ask(&workers->mailboxes[i], graceful)) {
            looking++;
        } else {
            if (w->started_us >= sent_us)
                signal_worker(w, SIGTERM);
            signal_worker(w, SIGCONT);
        }
    }
    return looking;
}

void workers_tell(const struct workers *workers, enum stop_page_why why)
{
    for (int i = 0; i < workers->conf->nproc; i++)
        if (workers->all[i].lives)
            (void)mailbox_tell(&workers->mailboxes[i], why); /* or it has the
                                                                signal alone */
}

bool workers_exits(int signo)
{
    return signo != SIGUSR1 && signo != SIGUSR2 && signo != SIGWINCH;
}

void workers_kill(struct workers *workers, int signo, int64_t sent_us)
{
    ddp_assert(signo > 0 && signo < NSIG);
    workers->stopping |= workers_exits(signo) && signo != SIGKILL;
    for (int i = 0; i < workers->conf->nproc; i++)
        if (workers->all[i].started_us >= sent_us)
            signal_worker(&workers->all[i], signo);
    if (workers_exits(signo) && signo != SIGKILL)
        signal_workers(workers, SIGCONT);
}

void workers_pause(struct workers *workers, bool paused)
{
    workers->paused = paused;
    signal_workers(workers, paused ? SIGSTOP : SIGCONT);
}

pid_t workers_mpi_helper(const struct workers *workers, enum mpi_helper which)
{
    return mpi_helper(workers->mpi, which);
}

void workers_mpi_helper_ended(struct workers *workers, enum mpi_helper which)
{
    mpi_helper_ended(workers->mpi, which);
}

pid_t workers_reap_orphans(struct workers *workers, const pid_t *others, int n)
{
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        int how = WEXITED | WNOHANG | WNOWAIT;
        int rc;
        while ((rc = waitid(P_ALL, 0, &info, how)) != 0 && errno == EINTR)
            ;
        if (rc != 0 || info.si_pid == 0)
            return 0;
        struct worker *w = find_worker(workers, info.si_pid);
        /* The kernel would show the same dead worker again and again: its
         * pidfd's event comes, and then we are called once more. */
        if (w != NULL && w->pidfd >= 0)
            return 0;
        if (w != NULL) {
            (void)reap_if_ended(workers, w); /* it has ended */
            return info.si_pid; /* its end may have started another helper */
        }
        for (int i = 0; i < n; i++)
            if (others[i] == info.si_pid)
                return info.si_pid;
        (void)waitpid(info.si_pid, NULL, WNOHANG);
    }
}

const char *workers_folder(const struct workers *workers)
{
    return errfile_folder(&workers->errfile);
}

const char *workers_temporary(const struct workers *workers)
{
    return errfile_temporary(&workers->errfile);
}

const char *workers_mpi_folder(const struct workers *workers)
{
    return mpi_folder(workers->mpi);
}

/* -- looking at them ------------------------------------------------------- */

pid_t workers_pid(const struct workers *workers, int local_rank)
{
    const struct worker *w = &workers->all[place_of(workers, local_rank)];
    return w->lives ? w->pid : 0;
}

int workers_last_pids(const struct workers *workers, pid_t *pids, int max)
{
    ddp_assert(max >= 0);
    int n = workers->conf->nproc < max ? workers->conf->nproc : max;
    for (int i = 0; i < n; i++)
        pids[i] = workers->all[i].pid;
    return n;
}

bool workers_look(const struct workers *workers,
                  int local_rank,
                  struct hang_sample *out)
{
    if (workers_pid(workers, local_rank) == 0)
        return false;
    *out = (struct hang_sample){
        .output = output_bytes(workers->output, local_rank),
    };
    mailbox_read(&workers->mailboxes[local_rank], &out->written, &out->step);
    return true;
}

/* How long its own part of a step takes; all 0: it tells nothing. */
static struct slow_told look_at_own(const struct workers *workers, int i)
{
    struct slow_told t = {.local_rank = i};
    if (workers_pid(workers, i) == 0 ||
        !mailbox_read_own(&workers->mailboxes[i], &t.most_us, &t.noise_us))
        t.most_us = 0;
    return t;
}

static void tell_own_parts(const struct workers *workers, struct msg_beat *beat)
{
    int slowest = 0, n = workers->conf->nproc;
    for (int i = 0; i < n; i++) {
        workers->told[i] = look_at_own(workers, i);
        if (workers->told[i].most_us > workers->told[slowest].most_us)
            slowest = i;
    }
    beat->own = workers->told[slowest].most_us;
    beat->own_rank = slowest;
    beat->own_noise = workers->told[slowest].noise_us;
    beat->own_rest = slow_median_us(workers->told, n);
}

void workers_tell_steps(struct workers *workers, struct msg_beat *beat)
{
    int64_t written, step, most = 0;
    for (int i = 0; i < workers->conf->nproc; i++) {
        if (workers_pid(workers, i) == 0)
            continue;
        struct stop_page *page = workers->mailboxes[i].page;
        if (workers->deaths == NULL)
            workers->deaths =
                death_watch_new(workers->loop, on_ending, workers);
        if (workers->deaths != NULL && page != NULL)
            death_watch_look(workers->deaths, workers->all[i].pid, page);
        mailbox_take_mirrored(&workers->mailboxes[i], beat);
        mailbox_read(&workers->mailboxes[i], &written, &step);
        if (step < 0 || step >= MAILBOX_STEPS_MAX)
            continue;
        if (beat->steps == 0 || step + 1 < beat->steps) {
            beat->steps = step + 1;
            beat->slow = i;
        }
        most = step + 1 > most ? step + 1 : most;
    }
    beat->ahead = most - beat->steps;
    if (beat->steps > 0)
        tell_own_parts(workers, beat);
}

void workers_path(const struct workers *workers,
                  int local_rank,
                  const char *name,
                  char path[WORKERS_PATH_MAX])
{
    const char *beside = workers->error_files[place_of(workers, local_rank)];
    size_t len = strlen(beside), tail = strlen(ERRFILE_NAME);
    path[0] = '\0';
    if (len < tail || len - tail + strlen(name) >= WORKERS_PATH_MAX)
        return;
    memcpy(path, beside, len - tail);
    memcpy(path + len - tail, name, strlen(name) + 1);
}

void workers_progress_path(const struct workers *workers,
                           int local_rank,
                           char path[MAILBOX_PATH_MAX])
{
    mailbox_path(workers->mailboxes[place_of(workers, local_rank)].progress_fd,
                 path);
}

void workers_pass_on(const struct workers *workers,
                     int local_rank,
                     pid_t pid,
                     int code)
{
    if (local_rank >= 0 && local_rank < workers->conf->nproc &&
        workers->all[local_rank].pid == pid)
        errfile_pass_on(workers->error_files[local_rank], code);
}

void workers_clean(struct workers *workers)
{
    errfile_clean(&workers->errfile);
}
