/*
 * Happy path: a worker opens the pipe, writes one line of JSON, and closes it.
 * A line has a process, the name of a thing (`scope_id`), and until when it
 * will be done, in seconds of the wall clock; below 0, it is done. A time that
 * passes gets that process its signal, and the worker's end is a failure as any
 * other: the round starts again. (PyTorch's agent ends itself as well, with the
 * job.)
 *
 * What comes through the pipe is the word of any process of this user:
 * - A line that is no request, or is longer than a write that is whole
 *   (PIPE_BUF), is dropped; it is said once.
 * - A signal is sent only to a process in the session or group of a worker. A
 *   descriptor of it is taken before its session is looked at, so that the
 *   signal goes to no other process that has its number by then.
 * - More than FILE_TIMERS_MAX at once are dropped; it is said once.
 *
 * The time is kept as a span from when the line was read: a clock that is set
 * meanwhile changes nothing.
 */
#include "launcher/worker/file_timer.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "launcher/proc/pidfd.h"
#include "launcher/proc/procfs.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/signals_name.h"

#define ENABLE        "TORCHELASTIC_ENABLE_FILE_TIMER"
#define FILE_VARIABLE "TORCHELASTIC_TIMER_FILE"

#define FILE_TIMER_MAGIC 0x746d7273u
#define READS_MAX        16  /* in one turn of the loop */
#define SPAN_MAX_S       1e9 /* longer is never */
#define SCOPE_SHOWN      100 /* of its end: it is a path and a line */

struct timer {
    pid_t pid;
    int signo; /* 0: none is sent */
    int64_t due_us;
    uint64_t scope; /* the name's hash */
    char shown[SCOPE_SHOWN + 1];
};

struct file_timer {
    unsigned magic;
    const struct workers *workers;
    int nproc;
    uv_poll_t poll;
    uv_timer_t next;  /* the earliest of all */
    int fd;           /* the reading end */
    int writing_fd;   /* of one without a name, -1: it has one */
    const char *path; /* of the named pipe, NULL: it has no name */
    char line[PIPE_BUF + 1];
    size_t len;
    bool is_cut; /* the beginning of this line is dropped already */
    bool told_nonsense, told_full;
    struct timer timers[FILE_TIMERS_MAX];
    int n;
};

static struct file_timer *file_timer_of(void *data)
{
    struct file_timer *f = data;
    ddp_assert(f->magic == FILE_TIMER_MAGIC);
    return f;
}

/* -- the timers ------------------------------------------------------------ */

static void drop(struct file_timer *f, int i)
{
    ddp_assert(i >= 0 && i < f->n);
    f->timers[i] = f->timers[--f->n];
}

static int find(const struct file_timer *f, const struct timer *like)
{
    for (int i = 0; i < f->n; i++)
        if (f->timers[i].pid == like->pid && f->timers[i].scope == like->scope)
            return i;
    return -1;
}

static int earliest(const struct file_timer *f)
{
    int found = -1;
    for (int i = 0; i < f->n; i++)
        if (found < 0 || f->timers[i].due_us < f->timers[found].due_us)
            found = i;
    return found;
}

/* The local rank of the worker in whose session or, if workers share one,
 * process group the process is; -1: none. */
static int worker_of(const struct file_timer *f, pid_t pid)
{
    pid_t session = getsid(pid), group = getpgid(pid);
    if (session < 0 && errno != ESRCH)
        log_warn("cannot find the session of process %d, so its file timers "
                 "end nothing",
                 (int)pid);
    for (int i = 0; session > 0 && i < f->nproc; i++) {
        pid_t worker = workers_pid(f->workers, i);
        if (worker == session || worker == group)
            return i;
    }
    return -1;
}

static void end_process(const struct file_timer *f, const struct timer *t)
{
    int pidfd = pidfd_of(t->pid);
    int local_rank = worker_of(f, t->pid);
    if (local_rank >= 0) {
        log_warnx("the timer '%s' of the worker with local rank %d has run "
                  "out: sending %s to process %d",
                  t->shown, local_rank, signals_name(t->signo), (int)t->pid);
        /* A sandbox may refuse descriptors of processes. */
        bool sent = pidfd >= 0 && pidfd_signal(pidfd, t->signo);
        bool is_gone = !sent && pidfd >= 0 && errno == ESRCH;
        if (!sent && !is_gone && kill(t->pid, t->signo) != 0 && errno != ESRCH)
            log_warn("cannot send %s", signals_name(t->signo));
    }
    if (pidfd >= 0)
        (void)close(pidfd);
}

static void expire(struct file_timer *f, int i)
{
    const struct timer t = f->timers[i];
    drop(f, i);
    if (t.signo == 0) {
        log_info("the timer '%s' of process %d has run out; it asks for no "
                 "signal",
                 t.shown, (int)t.pid);
        return;
    }
    for (int k = f->n - 1; k >= 0; k--)
        if (f->timers[k].pid == t.pid)
            drop(f, k);
    end_process(f, &t);
}

static void arm(struct file_timer *f);

static void on_next(uv_timer_t *next)
{
    struct file_timer *f = file_timer_of(next->data);
    int64_t now_us = mono_now_us();
    for (int i = earliest(f); i >= 0 && f->timers[i].due_us <= now_us;
         i = earliest(f))
        expire(f, i);
    arm(f);
}

static void arm(struct file_timer *f)
{
    int i = earliest(f);
    if (i < 0) {
        (void)uv_timer_stop(&f->next);
        return;
    }
    int64_t ms = mono_ms_until(mono_now_us(), f->timers[i].due_us);
    uv_update_time(f->next.loop);
    (void)uv_timer_start(&f->next, on_next, (uint64_t)ms, 0);
}

/* -- requests -------------------------------------------------------------- */

static void put(struct file_timer *f, const struct timer *t)
{
    int i = find(f, t);
    if (i < 0 && f->n < FILE_TIMERS_MAX)
        i = f->n++;
    if (i >= 0)
        f->timers[i] = *t;
    else if (!f->told_full)
        log_warnx("more than %d file timers run at once; the others are not "
                  "watched",
                  FILE_TIMERS_MAX);
    f->told_full |= i < 0;
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail */
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool number_in(const cJSON *top, const char *key, double *number)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(top, key);
    *number = cJSON_IsNumber(item) ? item->valuedouble : 0;
    return cJSON_IsNumber(item);
}

static void name_timer(struct timer *t, const char *scope)
{
    size_t len = strlen(scope);
    t->scope = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        t->scope =
            (t->scope ^ (unsigned char)scope[i]) * UINT64_C(1099511628211);
    (void)snprintf(t->shown, sizeof(t->shown), "%s",
                   scope + (len > SCOPE_SHOWN ? len - SCOPE_SHOWN : 0));
}

/* False: it is none. `t->due_us` is -1 if the thing is done. */
static bool read_request(const char *line, struct timer *t)
{
    double pid = 0, until_s = 0, signo = 0;
    cJSON *top = cJSON_Parse(line);
    const cJSON *scope = cJSON_GetObjectItemCaseSensitive(top, "scope_id");
    bool good = number_in(top, "pid", &pid) && pid >= 1 && pid <= INT_MAX &&
                number_in(top, "expiration_time", &until_s) &&
                number_in(top, "signal", &signo) && signo < NSIG &&
                cJSON_IsString(scope);
    if (good) {
        double span_s = until_s - now_s();
        span_s = span_s < 0 ? 0 : span_s > SPAN_MAX_S ? SPAN_MAX_S : span_s;
        *t = (struct timer){
            .pid = (pid_t)pid,
            .signo = signo > 0 ? (int)signo : 0,
            .due_us = until_s < 0 ? -1
                                  : mono_after(mono_now_us(),
                                               (int64_t)(span_s * MONO_S)),
        };
        name_timer(t, scope->valuestring);
    }
    cJSON_Delete(top);
    return good;
}

static void hear_line(struct file_timer *f, const char *line)
{
    struct timer t;
    if (!read_request(line, &t)) {
        if (!f->told_nonsense)
            log_warnx("the file timers' pipe has lines that are no request; "
                      "they are dropped");
        f->told_nonsense = true;
    } else if (t.due_us >= 0) {
        put(f, &t);
    } else if (find(f, &t) >= 0) {
        drop(f, find(f, &t));
    }
}

static void hear_lines(struct file_timer *f)
{
    char *end;
    while ((end = memchr(f->line, '\n', f->len)) != NULL) {
        size_t taken = (size_t)(end - f->line) + 1;
        *end = '\0';
        if (!f->is_cut)
            hear_line(f, f->line);
        f->is_cut = false;
        f->len -= taken;
        memmove(f->line, f->line + taken, f->len);
    }
    if (f->len == sizeof(f->line)) { /* too long */
        f->len = 0;
        f->is_cut = true;
    }
}

/* False: nothing is there. */
static bool read_some(struct file_timer *f)
{
    ssize_t n = read(f->fd, f->line + f->len, sizeof(f->line) - f->len);
    if (n <= 0)
        return false;
    f->len += (size_t)n;
    hear_lines(f);
    return true;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct file_timer *f = file_timer_of(poll->data);
    (void)events;
    for (int i = 0; status == 0 && i < READS_MAX; i++)
        if (!read_some(f))
            break;
    arm(f);
}

void file_timer_round(struct file_timer *f)
{
    char old[PIPE_BUF];
    if (f == NULL)
        return;
    /* Those who wrote it are dead; the pipe holds 1 MiB at most. */
    for (int i = 0; i < 256 && read(f->fd, old, sizeof(old)) > 0; i++)
        ;
    f->len = 0;
    f->is_cut = false;
    f->n = 0;
    arm(f);
}

/* -- the pipe -------------------------------------------------------------- */

/* Opened for writing as well, so that it never ends. An old pipe may be that of
 * a launch that was killed. */
static int open_named(struct file_timer *f)
{
    struct stat st;
    if (lstat(f->path, &st) == 0 && S_ISFIFO(st.st_mode))
        (void)unlink(f->path); /* else mkfifo says why */
    if (mkfifo(f->path, 0600) != 0)
        return -1;
    f->fd = open(f->path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    return f->fd < 0 ? -1 : 0;
}

/* Its writing end stays open for the same reason. */
static int open_unnamed(struct file_timer *f)
{
    char path[48];
    int fds[2];
    errno = ENOENT; /* there is no /proc */
    pid_t self = procfs_self();
    if (self == 0 || pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0)
        return -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)self, fds[1]);
    f->writing_fd = fds[1];
    f->fd = fds[0];
    return setenv(FILE_VARIABLE, path, 1);
}

/* What was made of it. */
static void undo(struct file_timer *f)
{
    if (f->path == NULL)
        (void)unsetenv(FILE_VARIABLE);
    else if (f->fd >= 0)
        (void)unlink(f->path);
    if (f->fd >= 0)
        (void)close(f->fd); /* never used */
    if (f->writing_fd >= 0)
        (void)close(f->writing_fd);
    free(f);
}

static int open_pipe(struct file_timer *f, uv_loop_t *loop)
{
    int rc = f->path != NULL ? open_named(f) : open_unnamed(f);
    rc = rc != 0 ? uv_translate_sys_error(errno)
                 : uv_poll_init(loop, &f->poll, f->fd);
    if (rc != 0)
        return rc;
    (void)uv_timer_init(loop, &f->next); /* cannot fail */
    f->poll.data = f->next.data = f;
    return uv_poll_start(&f->poll, UV_READABLE, on_readable);
}

struct file_timer *
file_timer_new(uv_loop_t *loop, const struct workers *workers, int nproc)
{
    const char *wanted = getenv(ENABLE);
    if (wanted == NULL || strcmp(wanted, "1") != 0)
        return NULL;
    struct file_timer *f = calloc(1, sizeof(*f));
    if (f == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for file timers");
    f->magic = FILE_TIMER_MAGIC;
    f->workers = workers;
    f->nproc = nproc;
    f->path = getenv(FILE_VARIABLE);
    f->fd = f->writing_fd = -1;
    int rc = open_pipe(f, loop);
    if (rc == 0)
        return f;
    errno = -rc;
    log_warn("cannot make the pipe of file timers%s%s (" ENABLE "), so the "
             "first timer of a program will fail",
             f->path != NULL ? " at " : "", f->path != NULL ? f->path : "");
    undo(f);
    return NULL;
}

void file_timer_end(const struct file_timer *f)
{
    if (f != NULL && f->path != NULL)
        (void)unlink(f->path); /* somebody may have done it */
}
