/*
 * Happy path: read the children of each thread of a process from
 * /proc/PID/task/TID/children, theirs below them, and signal what was found;
 * look again until nothing is found. Each look sees the tree as it was: a
 * process may fork behind the look, but what it forks is found by the next one,
 * and a killed process forks no more.
 *
 * Failure modes:
 *   - A parent dies between two looks: its children come to the nearest
 *     subreaper above it, which is guard or agent, so they stay below.
 *   - Out of descriptors (blind): something may be there that was not seen, so
 *     nothing is called gone then.
 *   - A process does not die (state D): the caller's time limit ends the wait.
 *   - More than FOUND_MAX processes: the rest is found when these are dead.
 */
#include "launcher/proc/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define FOUND_MAX 4096 /* the rest is found when these are dead */

struct found {
    pid_t pids[FOUND_MAX];
    int n;
    bool blind; /* something could not be looked at */
};

static bool is_kept(pid_t pid, const pid_t *keep, int n_keep)
{
    for (int i = 0; i < n_keep; i++)
        if (keep[i] == pid)
            return true;
    return false;
}

/* After a failure to open what belongs to a process: any other reason is its
 * end. */
static bool is_blind(void)
{
    return errno == EMFILE || errno == ENFILE;
}

/* 0, 1 and negative numbers would mean a group, init, or everybody. ESRCH: it
 * is gone by itself. */
static bool signal_one(pid_t pid, int signo)
{
    ddp_assert(pid > 1);
    return kill(pid, signo) == 0;
}

static void add(struct found *f, pid_t pid, const pid_t *keep, int n_keep)
{
    if (pid > 0 && f->n < FOUND_MAX && !is_kept(pid, keep, n_keep))
        f->pids[f->n++] = pid;
}

/* proc(5): the children of one thread, each followed by a blank. A number is
 * taken when its blank was read: a part of it would be another's pid. */
static void add_children_of(struct found *f,
                            const char *path,
                            const pid_t *keep,
                            int n_keep)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    f->blind |= fd < 0 && is_blind();
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
            add(f, pid, keep, n_keep);
            pid = 0;
        }
    (void)close(fd); /* read only */
}

static void
add_descendants(struct found *f, pid_t pid, const pid_t *keep, int n_keep)
{
    char dir[64];
    (void)snprintf(dir, sizeof(dir), "/proc/%d/task", (int)pid); /* fits */
    DIR *d = opendir(dir);
    f->blind |= d == NULL && is_blind();
    if (d == NULL)
        return;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char path[400];
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s/children", dir, e->d_name);
        add_children_of(f, path, keep, n_keep);
    }
    (void)closedir(d);
}

/* All below `root`, but not what is below those who are kept. */
static void find(struct found *f, pid_t root, const pid_t *keep, int n_keep)
{
    ddp_assert(root > 0 && n_keep >= 0);
    f->n = 0;
    f->blind = false;
    add_descendants(f, root, keep, n_keep);
    for (int i = 0; i < f->n; i++)
        add_descendants(f, f->pids[i], keep, n_keep);
}

/* Returns how many there were to reap. */
static int reap(const struct found *f)
{
    int n = 0;
    for (int i = 0; i < f->n; i++) /* ECHILD: not ours yet */
        n += waitpid(f->pids[i], NULL, WNOHANG) == f->pids[i];
    return n;
}

int tree_kill(const pid_t *keep, int n_keep, int64_t until_us)
{
    static struct found f; /* large, and there is one thread */
    for (;;) {
        find(&f, getpid(), keep, n_keep);
        for (int i = 0; i < f.n; i++)
            (void)signal_one(f.pids[i], SIGKILL);
        (void)reap(&f);
        if (f.n == 0 && !f.blind)
            return 0;
        if (mono_now_us() >= until_us)
            return f.n > 0 ? f.n : 1;
        struct timespec pause = {.tv_nsec = 200 * 1000};
        (void)nanosleep(&pause, NULL);
    }
}

int tree_signal(const pid_t *keep, int n_keep, int signo)
{
    static struct found f; /* large, and there is one thread */
    do /* what a dead one leaves comes to us with its death */
        find(&f, getpid(), keep, n_keep);
    while (reap(&f) > 0);
    for (int i = 0; i < f.n; i++)
        (void)signal_one(f.pids[i], signo);
    return f.n == 0 && f.blind ? 1 : f.n;
}

/* Whether it lives in another session than `session`, by proc(5), whose second
 * field is a name that may hold anything, blanks and brackets too. */
static bool lives_elsewhere(pid_t pid, pid_t session)
{
    char path[64];
    char text[512];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid); /* fits */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false; /* it is gone already */
    ssize_t n = read(fd, text, sizeof(text) - 1);
    (void)close(fd); /* read only */
    text[n > 0 ? n : 0] = '\0';
    const char *rest = strrchr(text, ')');
    char state;
    int own;
    if (rest == NULL || sscanf(rest, ") %c %*d %*d %d", &state, &own) != 2)
        return false;
    return state != 'Z' && state != 'X' && own != session;
}

int tree_kill_sessions(pid_t root, int64_t until_us)
{
    static struct found f; /* large, and there is one thread */
    ddp_assert(root > 1 && root != getpid());
    pid_t session = getsid(root);
    for (int killed = 0;;) {
        find(&f, root, NULL, 0);
        int alive = 0;
        for (int i = 0; i < f.n; i++)
            if (lives_elsewhere(f.pids[i], session) &&
                signal_one(f.pids[i], SIGKILL))
                alive++;
        killed = alive > killed ? alive : killed;
        if (alive == 0 || mono_now_us() >= until_us)
            return killed;
        struct timespec pause = {.tv_nsec = 200 * 1000};
        (void)nanosleep(&pause, NULL);
    }
}
