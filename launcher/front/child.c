#include "launcher/front/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/open_files.h"

#define FILES 32 /* descriptors for all but the pipes to children */

void front_child_init(struct front_child *k, const char *name)
{
    *k = (struct front_child){.name = name, .in_fd = -1};
    k->out.fd = k->err.fd = -1;
    buf_init(&k->orders, CHILD_ORDERS_MAX);
}

/* -- the start ------------------------------------------------------------- */

/* Read ends are even, write ends odd: of stdin, stdout and stderr. */
enum {
    IN_READ,
    IN_WRITE,
    OUT_READ,
    OUT_WRITE,
    ERR_READ,
    ERR_WRITE,
    ENDS
};

static void close_ends(const int ends[ENDS])
{
    for (int i = 0; i < ENDS; i++)
        if (ends[i] >= 0)
            (void)close(ends[i]); /* of nobody yet */
}

static int make_pipes(int ends[ENDS], struct ddp_err *err)
{
    static const int ours[] = {IN_WRITE, OUT_READ, ERR_READ};
    bool made = true;
    for (int i = 0; i < ENDS; i++)
        ends[i] = -1;
    for (int i = 0; i < ENDS && made; i += 2)
        made = pipe2(&ends[i], O_CLOEXEC) == 0;
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]) && made; i++)
        made = fcntl(ends[ours[i]], F_SETFL, O_NONBLOCK) == 0;
    if (made)
        return 0;
    ddp_err_sys(err, DDP_E_NOMEM, "cannot make the pipes (ulimit -n)");
    close_ends(ends);
    return -1;
}

/* What a job asks for each of its tasks, which srun takes from there: the step
 * has one task a node, a launcher, to which all of the node belongs. */
static void forget_tasks(void)
{
    static const char *const each[] = {
        "SLURM_GPUS_PER_TASK",
        "SLURM_TRES_PER_TASK",
        "SLURM_NTASKS_PER_GPU",
        "SRUN_CPUS_PER_TASK",
    };
    for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
        (void)unsetenv(each[i]);
}

__attribute__((noreturn)) static void execute(const struct command *w,
                                              const int ends[ENDS],
                                              bool dies,
                                              const sigset_t *mask,
                                              pid_t parent)
{
    if (dies)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dies && getppid() != parent)
        _exit(128 + SIGKILL);
    (void)setsid(); /* Ctrl-C is for the front end, which tells the hosts */
    if (dup2(ends[IN_READ], STDIN_FILENO) < 0 ||
        dup2(ends[OUT_WRITE], STDOUT_FILENO) < 0 ||
        dup2(ends[ERR_WRITE], STDERR_FILENO) < 0)
        _exit(ddp_code_exit(DDP_E_NOMEM));
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    forget_tasks();
    (void)execvp(w->word[0], w->word);
    fatal(ddp_code_exit(errno == ENOENT ? DDP_E_NOTFOUND : DDP_E_NOTEXEC),
          "cannot execute %.200s", w->word[0]);
}

int front_child_start(struct front_child *k,
                      const struct command *w,
                      bool dies,
                      const sigset_t *mask,
                      struct console *out,
                      struct console *err_to,
                      uint64_t id,
                      struct ddp_err *err)
{
    int ends[ENDS];
    int64_t now_us = mono_now_us();
    ddp_assert(k->state == CHILD_WAITS && w->n > 0);
    if (w->failed)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a command line");
    if (make_pipes(ends, err) < 0)
        return -1;
    pid_t self = getpid();
    k->pid = fork();
    if (k->pid == 0)
        execute(w, ends, dies, mask, self);
    if (k->pid < 0) {
        k->pid = 0;
        ddp_err_sys(err, DDP_E_NOMEM, "cannot start a process (ulimit -u)");
        close_ends(ends);
        return -1;
    }
    (void)close(ends[IN_READ]); /* the child's, all three */
    (void)close(ends[OUT_WRITE]);
    (void)close(ends[ERR_WRITE]);
    k->in_fd = ends[IN_WRITE];
    front_stream_open(&k->out, ends[OUT_READ], id, out, now_us);
    front_stream_open(&k->err, ends[ERR_READ], id + 1, err_to, now_us);
    k->state = CHILD_STARTING;
    k->since_us = now_us;
    return 0;
}

void front_child_skip(struct front_child *k)
{
    ddp_assert(k->state == CHILD_WAITS);
    k->state = CHILD_ENDED;
    k->told = true;
}

int front_child_room(int hosts, struct ddp_err *err)
{
    struct rlimit limit = {.rlim_cur = 0};
    int need = hosts * CHILD_FDS + FILES;
    ddp_assert(hosts > 0);
    (void)getrlimit(RLIMIT_NOFILE, &limit); /* 0: unknown */
    if (limit.rlim_cur >= (rlim_t)need)
        return 0;
    int most = open_files_raise();
    if (most >= need)
        return 0;
    return ddp_err_set(
        err, DDP_E_NOMEM,
        "cannot start on %d host%s: that needs %d open " /* messages: ok */
        "files, and the limit is %d (ulimit -Hn)",
        hosts, hosts == 1 ? "" : "s", need, most);
}

/* -- its life -------------------------------------------------------------- */

bool front_child_lives(const struct front_child *k)
{
    return k->state == CHILD_STARTING || k->state == CHILD_RUNS;
}

static void close_in(struct front_child *k)
{
    if (k->in_fd >= 0)
        (void)close(k->in_fd); /* what was not read is lost anyway */
    k->in_fd = -1;
}

void front_child_write(struct front_child *k)
{
    while (k->in_fd >= 0 && buf_len(&k->orders) > 0) {
        ssize_t n = write(k->in_fd, buf_head(&k->orders), buf_len(&k->orders));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0 && errno != EPIPE)
            log_warn("cannot tell %.200s what to do", k->name);
        if (n <= 0)
            close_in(k); /* it reads no more; its end will be seen */
        else
            buf_take(&k->orders, (size_t)n);
    }
}

void front_child_kill(const struct front_child *k)
{
    if (!front_child_lives(k))
        return;
    ddp_assert(k->pid > 1);
    if (kill(-k->pid, SIGKILL) != 0) /* before its setsid */
        (void)kill(k->pid, SIGKILL);
}

bool front_child_answered(const struct front_child *k)
{
    return k->out.last_us > k->asked_us ||
           front_stream_quiet_us(&k->err) > k->asked_us;
}

void front_child_reap(struct front_child *k, int64_t now_us)
{
    int status;
    if (!front_child_lives(k) || waitpid(k->pid, &status, WNOHANG) != k->pid)
        return;
    k->status =
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    k->state = CHILD_ENDED;
    k->pid = 0;
    k->since_us = now_us;
    close_in(k);
}

bool front_child_is_over(struct front_child *k, int64_t now_us)
{
    if (k->state != CHILD_ENDED)
        return false;
    struct front_stream *const streams[] = {&k->out, &k->err};
    for (int i = 0; i < 2; i++) {
        struct front_stream *s = streams[i];
        int64_t quiet_us = front_stream_quiet_us(s);
        int64_t last_us = quiet_us > k->since_us ? quiet_us : k->since_us;
        if (s->fd >= 0 && front_stream_wants(s) &&
            now_us >= last_us + CHILD_LAST_US) /* else its end is told */
            front_stream_close(s);
    }
    return k->out.fd < 0 && k->err.fd < 0;
}

void front_child_free(struct front_child *k)
{
    front_child_kill(k);
    close_in(k);
    front_stream_close(&k->out);
    front_stream_close(&k->err);
    buf_free(&k->orders);
}
