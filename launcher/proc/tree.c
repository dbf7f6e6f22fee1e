/*
 * Happy path: read the children of each thread of a process from
 * /proc/PID/task/TID/children, theirs below them, prove each one, and signal
 * it; look again until nothing is found. Each look sees the tree as it was: a
 * process may fork behind the look, but what it forks is found by the next one,
 * and a killed process forks no more.
 *
 * The proof (is_below): its parent, its parent's parent and so on up to us are
 * read twice, upwards and downwards, while a pidfd holds the process. Nobody
 * becomes the parent of a process that is older than itself. So a parent that
 * is read before and after something is the same process all that time, and
 * what was read of it in between is true of it.
 *
 * Failure modes:
 *   - A parent dies between two looks: its children come to the nearest
 *     subreaper above it, which is guard or agent, so they stay below.
 *   - A parent dies within a proof: nothing is sent; the next look finds it.
 *   - There are no `children` files (a kernel without CONFIG_PROC_CHILDREN):
 *     the parent of every process in /proc is read instead.
 *   - /proc is not ours or not there, or no descriptor is free: numbers are
 *     asked for whether they are children of ours, which needs neither. All
 *     that there may be (4 million) take a second or two, so mostly only those
 *     that are near are asked for.
 *   - No pidfds: children only, see the header.
 *   - A process does not die (state D): the caller's time limit ends the wait.
 *   - A process is another user's (EPERM): it is not waited for.
 *   - More than FOUND_MAX processes: the rest is found when these are dead.
 */
#include "launcher/proc/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/pidfd.h"
#include "launcher/proc/procfs.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define FOUND_MAX 4096    /* the rest is found when these are dead */
#define DEPTH_MAX 128     /* the rest is proven when those above are dead */
#define PID_END   4194304 /* of any Linux: PID_MAX_LIMIT */
#define NEAR      32768
#define STOP_US   (20 * MONO_MS)
#define LOOKS     3 /* while something runs out, or may not be */

#define LOOK_AGAIN_US 500

struct found {
    pid_t pids[FOUND_MAX];
    int n;
    pid_t root;              /* whose descendants they are */
    bool blind;              /* something could not be looked at */
    bool deep;               /* with /proc, so not our children only */
    bool near;               /* only the root's children are wanted */
    bool spared;             /* there was somebody of a session that is kept */
    int forbidden;           /* how many we may not signal */
    pid_t killed[FOUND_MAX]; /* tree_kill_groups: all so far */
    int n_killed;
};

struct kept {
    const pid_t *pids;
    int n;
    pid_t session; /* all that are in it, too; -1: none */
};

static const struct kept nobody = {.session = -1};

static bool is_in(const pid_t *pids, int n, pid_t pid)
{
    for (int i = 0; i < n; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

/* After a failure to read what belongs to a process: whether it may live. Other
 * reasons are its end, and that it is another user's (hidepid), which the root
 * is not. */
static bool is_blind(const struct found *f, pid_t pid)
{
    return pid == f->root || errno == EMFILE || errno == ENFILE ||
           errno == ENOMEM || errno == EINTR || errno == EIO;
}

static void add(struct found *f, pid_t pid, const struct kept *kept)
{
    if (pid <= 0 || f->n >= FOUND_MAX || is_in(kept->pids, kept->n, pid))
        return;
    if (kept->session >= 0 && getsid(pid) == kept->session)
        f->spared = true;
    else
        f->pids[f->n++] = pid;
}

/* -- our own children, by waitid(2) ---------------------------------------- */

enum child {
    CHILD_NOT,
    CHILD_LIVES,
    CHILD_DEAD
};

/* What it says stays true until we reap. */
static enum child ask_child(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    int how = WEXITED | WNOHANG | WNOWAIT;
    while (waitid(P_PID, (id_t)pid, &info, how) != 0)
        if (errno != EINTR)
            return CHILD_NOT;
    return info.si_pid == 0 ? CHILD_LIVES : CHILD_DEAD;
}

static bool has_children(void)
{
    siginfo_t info;
    int how = WEXITED | WNOHANG | WNOWAIT;
    return waitid(P_ALL, 0, &info, how) == 0 || errno != ECHILD;
}

/* getpgid is the cheaper question. */
static void scan_range(struct found *f,
                       const struct kept *kept,
                       pid_t from,
                       pid_t end,
                       int64_t until_us)
{
    for (pid_t pid = from; pid < end && !f->blind; pid++) {
        if ((getpgid(pid) > 0 || errno != ESRCH) &&
            ask_child(pid) != CHILD_NOT && !is_in(f->pids, f->n, pid))
            add(f, pid, kept);
        f->blind = pid % 65536 == 0 && mono_now_us() >= until_us;
    }
}

static void begin_scan(struct found *f)
{
    f->n = 0;
    f->blind = f->deep = f->spared = false;
}

/* The number that was given last; 0: no process can be had. */
static pid_t newest_pid(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    if (pid < 0)
        return 0;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return pid;
}

/* Most have a number not far behind ours, or not far before the newest one. */
static void scan_near(struct found *f, const struct kept *kept)
{
    begin_scan(f);
    if (!has_children())
        return;
    pid_t newest = newest_pid(), own = getpid();
    pid_t from = newest > NEAR + 2 ? newest - NEAR : 2;
    scan_range(f, kept, own + 1, own + NEAR, MONO_NEVER);
    if (newest > 0)
        scan_range(f, kept, from, newest, MONO_NEVER);
}

/* -- looking, by /proc ----------------------------------------------------- */

/* proc(5): the children of one thread, each followed by a blank. A number is
 * taken when its blank was read: a part of it would be another's pid. */
static void add_children_of(struct found *f,
                            pid_t parent,
                            const char *path,
                            const struct kept *kept)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    f->blind |= fd < 0 && is_blind(f, parent);
    if (fd < 0)
        return; /* it is gone already */
    char text[4096];
    pid_t pid = 0;
    ssize_t n;
    while ((n = read(fd, text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
                continue;
            }
            add(f, pid, kept);
            pid = 0;
        }
    f->blind |= n < 0 && is_blind(f, parent);
    (void)close(fd); /* read only */
}

static void add_descendants(struct found *f, pid_t pid, const struct kept *kept)
{
    char dir[64];
    (void)snprintf(dir, sizeof(dir), "/proc/%d/task", (int)pid); /* fits */
    DIR *d = opendir(dir);
    f->blind |= d == NULL && is_blind(f, pid);
    if (d == NULL)
        return;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char path[400];
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s/children", dir, e->d_name);
        add_children_of(f, pid, path, kept);
    }
    (void)closedir(d);
}

static bool lists_children(const struct found *f)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children",
                   (int)getpid()); /* fits */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)close(fd); /* only to see whether it is there */
    return fd >= 0 || is_blind(f, 0);
}

/* Once through /proc: whose parent is root or was found. */
static void add_by_parents(struct found *f, pid_t root, const struct kept *kept)
{
    DIR *d = opendir("/proc");
    f->blind |= d == NULL;
    if (d == NULL)
        return;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        struct procfs_process p;
        char *end;
        long pid = strtol(e->d_name, &end, 10);
        if (*end != '\0' || pid <= 1 || is_in(f->pids, f->n, (pid_t)pid))
            continue;
        errno = 0;
        if (!procfs_read((pid_t)pid, &p))
            f->blind |= is_blind(f, (pid_t)pid);
        else if (p.parent == root || is_in(f->pids, f->n, p.parent))
            add(f, (pid_t)pid, kept);
    }
    (void)closedir(d);
}

static void look(struct found *f, pid_t root, const struct kept *kept)
{
    f->n = 0;
    f->blind = false;
    f->deep = true;
    if (lists_children(f)) {
        add_descendants(f, root, kept);
        for (int i = 0; !f->near && i < f->n; i++)
            add_descendants(f, f->pids[i], kept);
        return;
    }
    int before;
    do { /* a child may have a smaller number than its parent */
        before = f->n;
        add_by_parents(f, root, kept);
    } while (f->n > before);
}

/* All below `root`, but not what is below those who are kept. A shortage may be
 * over at the next look, which is cheap beside a scan. */
static void find_below(struct found *f, pid_t root, const struct kept *kept)
{
    ddp_assert(root > 0 && kept->n >= 0);
    f->root = root;
    f->blind = true;
    for (int i = 0; f->blind && i < LOOKS; i++) {
        if (i > 0)
            (void)usleep(LOOK_AGAIN_US);
        f->n = 0;
        f->spared = false;
        if (procfs_is_ours())
            look(f, root, kept);
    }
}

static void find(struct found *f, const struct kept *kept)
{
    find_below(f, getpid(), kept);
    if (f->blind)
        scan_near(f, kept);
}

/* After a find that found none: what it may have missed, where a number may be
 * anything or /proc hides processes from us (hidepid). */
static void
find_rest(struct found *f, const struct kept *kept, int64_t until_us)
{
    if (!f->deep || (kept->n == 0 && !f->spared && has_children())) {
        begin_scan(f);
        if (has_children())
            scan_range(f, kept, 2, PID_END, until_us);
    }
}

/* -- signalling ------------------------------------------------------------ */

static pid_t parent_of(pid_t pid)
{
    struct procfs_process p;
    return procfs_read(pid, &p) ? p.parent : 0;
}

/* Of a process that is held by a pidfd; see the head of this file. */
static bool is_below(pid_t pid, pid_t root)
{
    pid_t chain[DEPTH_MAX];
    int n = 0;
    for (pid_t p = pid; p != root; p = parent_of(p)) {
        if (p <= 1 || n == DEPTH_MAX)
            return false;
        chain[n++] = p;
    }
    for (pid_t above = root; n > 0; above = chain[n])
        if (parent_of(chain[--n]) != above)
            return false;
    return true;
}

static bool signal_proven(struct found *f, pid_t pid, pid_t root, int signo)
{
    errno = 0;
    int fd = pidfd_works() ? pidfd_of(pid) : -1;
    bool sent = fd >= 0 && is_below(pid, root) && pidfd_signal(fd, signo);
    f->blind |= !sent && is_blind(f, pid);
    f->forbidden += !sent && errno == EPERM;
    if (fd >= 0)
        (void)close(fd); /* the signal is sent */
    return sent;
}

/* Of a process whose number cannot be another's meanwhile. */
static bool signal_held(struct found *f, pid_t pid, int signo)
{
    bool sent = kill(pid, signo) == 0;
    f->forbidden += !sent && errno == EPERM;
    return sent;
}

/* False: it is gone by itself, or its parent has to be so first. */
static bool signal_one(struct found *f, pid_t pid, int signo)
{
    ddp_assert(pid > 1);
    enum child child = ask_child(pid);
    if (child == CHILD_NOT)
        return f->deep && signal_proven(f, pid, getpid(), signo);
    return child == CHILD_LIVES && signal_held(f, pid, signo);
}

/* Returns how many there were to reap. */
static int reap(const struct found *f)
{
    int n = 0;
    for (int i = 0; i < f->n; i++) /* ECHILD: not ours yet */
        n += waitpid(f->pids[i], NULL, WNOHANG) == f->pids[i];
    return n;
}

/* A scan is dear: those that it found are waited for before the next one. */
static void reap_all(const struct found *f, int64_t until_us)
{
    int left = f->n - f->forbidden;
    while ((left -= reap(f)) > 0 && !f->deep && mono_now_us() < until_us)
        (void)usleep(200);
}

static void kill_all(struct found *f)
{
    f->forbidden = 0;
    for (int i = 0; i < f->n; i++)
        (void)signal_one(f, f->pids[i], SIGKILL);
}

int tree_kill(
    const pid_t *keep, int n_keep, pid_t session, bool all, int64_t until_us)
{
    static struct found f; /* large, and there is one thread */
    const struct kept kept = {.pids = keep, .n = n_keep, .session = session};
    for (int in_vain = 0;;) {
        find(&f, &kept);
        if (f.n == 0 && all)
            find_rest(&f, &kept, until_us);
        kill_all(&f);
        in_vain = f.n > 0 && f.forbidden == f.n ? in_vain + 1 : 0;
        reap_all(&f, until_us);
        if (f.n == 0 && !f.blind)
            return 0;
        if (in_vain == LOOKS || mono_now_us() >= until_us)
            return f.n > 0 ? f.n : 1;
        (void)usleep(200);
    }
}

static int count_children(const struct found *f)
{
    int n = 0;
    for (int i = 0; i < f->n; i++)
        n += ask_child(f->pids[i]) == CHILD_LIVES;
    return n;
}

int tree_ask(const pid_t *keep, int n_keep, pid_t session, bool anew)
{
    static struct found f; /* large, and there is one thread */
    static pid_t asked[FOUND_MAX];
    static int n_asked;
    const struct kept kept = {.pids = keep, .n = n_keep, .session = session};
    if (anew)
        f.n = n_asked = 0;
    else if (f.n > 0 && !f.deep && count_children(&f) > 0)
        return count_children(&f); /* a scan is dear */
    do /* what a dead one leaves comes to us with its death */
        find(&f, &kept);
    while (reap(&f) > 0);
    for (int i = 0; i < f.n; i++) {
        if (is_in(asked, n_asked, f.pids[i]) ||
            !signal_one(&f, f.pids[i], SIGTERM))
            continue;
        (void)signal_one(&f, f.pids[i], SIGCONT);
        if (n_asked < FOUND_MAX)
            asked[n_asked++] = f.pids[i];
    }
    return f.n == 0 && f.blind ? 1 : f.n;
}

int tree_children(pid_t *pids, int n, int max, int64_t until_us)
{
    static struct found f; /* large, and there is one thread */
    int now = 0;
    ddp_assert(n >= 0 && n <= max);
    if (!has_children())
        return 0;
    f.near = true;
    find_below(&f, getpid(), &nobody);
    if (f.blind)
        scan_near(&f, &nobody);
    if (!f.deep)
        scan_range(&f, &nobody, 2, PID_END, until_us);
    for (int i = 0; i < n; i++) /* perhaps it was not reached in time */
        if (!is_in(f.pids, f.n, pids[i]))
            add(&f, pids[i], &nobody);
    for (int i = 0; i < f.n && now < max; i++)
        if (ask_child(f.pids[i]) != CHILD_NOT)
            pids[now++] = f.pids[i];
    return now;
}

/* -- in place of a frozen agent -------------------------------------------- */

/* Without pidfds. A process that is stopped reaps nobody, so its children keep
 * their numbers. False: it may run. *thaw: it is to be continued. */
static bool hold(pid_t root, bool *thaw)
{
    struct procfs_process p;
    int64_t until_us = mono_now_us() + STOP_US;
    *thaw = false;
    while (procfs_read(root, &p) && strchr("TtZX", p.state) == NULL) {
        if (*thaw && (p.state == 'D' || mono_now_us() >= until_us))
            return p.state == 'D'; /* it goes no further than that */
        *thaw |= kill(root, SIGSTOP) == 0;
        (void)usleep(200);
    }
    return procfs_read(root, &p);
}

enum elsewhere {
    ELSEWHERE_NOT,       /* dead, or none of those that are meant */
    ELSEWHERE_KILLED,    /* it may take a moment, or more in state D */
    ELSEWHERE_REFUSED,   /* it lives on, or its parent was not proven */
    ELSEWHERE_FORBIDDEN, /* it is another user's */
    ELSEWHERE_KINDS
};

static enum elsewhere
kill_elsewhere(struct found *f, pid_t pid, pid_t root, pid_t group, bool held)
{
    struct procfs_process p;
    errno = 0;
    if (!procfs_read(pid, &p)) {
        bool hidden = errno == EPERM; /* hidepid=1 */
        f->blind |= !hidden && errno != ENOENT && errno != ESRCH;
        return hidden ? ELSEWHERE_FORBIDDEN : ELSEWHERE_NOT;
    }
    if (p.state == 'Z' || p.state == 'X' || p.group == group ||
        (held && p.parent != root)) /* comes to root when its parent is dead */
        return ELSEWHERE_NOT;
    int before = f->forbidden;
    bool sent = held ? signal_held(f, pid, SIGKILL)
                     : signal_proven(f, pid, root, SIGKILL);
    if (sent)
        return ELSEWHERE_KILLED;
    return f->forbidden > before ? ELSEWHERE_FORBIDDEN : ELSEWHERE_REFUSED;
}

/* One look at all of them: how many there are of each kind. */
static void kill_found(
    struct found *f, pid_t root, pid_t group, bool held, int n[ELSEWHERE_KINDS])
{
    find_below(f, root, &nobody);
    for (int i = 0; i < f->n; i++) {
        enum elsewhere e = kill_elsewhere(f, f->pids[i], root, group, held);
        n[e]++;
        if (e == ELSEWHERE_KILLED && f->n_killed < FOUND_MAX &&
            !is_in(f->killed, f->n_killed, f->pids[i]))
            f->killed[f->n_killed++] = f->pids[i];
    }
}

/* See tree_kill_groups. */
static int kill_groups(pid_t root, bool held, int64_t until_us)
{
    static struct found f; /* large, and there is one thread */
    pid_t group = getpgid(root);
    f.n_killed = f.forbidden = 0;
    for (int in_vain = 0;;) {
        int n[ELSEWHERE_KINDS] = {0};
        kill_found(&f, root, group, held, n);
        bool over = mono_now_us() >= until_us;
        bool quiet = n[ELSEWHERE_KILLED] + n[ELSEWHERE_REFUSED] == 0;
        bool unsure = f.blind || n[ELSEWHERE_FORBIDDEN] > 0;
        if (!unsure && (quiet || (over && n[ELSEWHERE_REFUSED] == 0)))
            return f.n_killed;
        if (over || (quiet && ++in_vain == LOOKS))
            return n[ELSEWHERE_FORBIDDEN] > 0 ? TREE_FORBIDDEN : TREE_NOT_FOUND;
        (void)usleep(200);
    }
}

int tree_kill_groups(pid_t root, int64_t until_us)
{
    bool held = !pidfd_works(), thaw = false;
    ddp_assert(root > 1 && root != getpid());
    if (!procfs_is_ours())
        return TREE_NOT_FOUND;
    int killed = held && !hold(root, &thaw) ? TREE_NOT_FOUND
                                            : kill_groups(root, held, until_us);
    if (thaw)
        (void)kill(root, SIGCONT);
    return killed;
}
