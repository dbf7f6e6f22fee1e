/*
 * Happy path: janitor_split forks the agent, takes a name of its own, and waits
 * for the agent's death without reaping it (WNOWAIT). By then the agent's
 * orphans are ours, and janitor_clear kills them. If it is certain that none is
 * left we say farewell for the node: the guard may be dead, or about to die.
 * Our own end tells the guard, and gives the dead agent to it, a child
 * subreaper as well: the agent's number is nobody else's until the guard has
 * reaped it.
 *
 * Failure modes:
 *   - Guard and agent are killed at once: the same. init is our parent then.
 *   - It is not certain, since /proc is not ours or we adopt nobody: the guard
 *     says farewell, if it finds nothing either.
 *   - The guard is killed alone: the agent sees it, ends all, and we after it.
 *   - We are killed: the agent becomes the guard's child, which it ends itself.
 *     If all three are killed, the workers' parent-death signal ends them; what
 *     they started in sessions of their own stays.
 *   - We are killed by name before we have another one: the agent has not
 *     started anything yet, and the guard is killed with us or ends it.
 *   - Without a /proc of ours a search through all numbers takes a second or
 *     two. The guard does it, only if it has children yet; we, if it is dead.
 */
#include "launcher/proc/janitor.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/cgroup.h"
#include "launcher/proc/farewell_page.h"
#include "launcher/proc/procfs.h"
#include "launcher/proc/tree.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/tls.h"

#define CLEAR_US (5 * MONO_S)
#define FTW_FDS  16

_Static_assert(sizeof(JANITOR_NAME) <= 16, "the kernel would cut it");

/* A path is read when the agent is dead. The agent may have died while it wrote
 * the path, so `len` says that the path is whole. */
struct folder {
    atomic_size_t len; /* 0: none */
    char path[JANITOR_FOLDER_MAX + 1];
};
static struct folder *folders; /* JANITOR_FOLDERS, shared; NULL: none */

static struct {
    char *at;
    size_t len;
} words;

/* The kernel puts them one behind the other; a program that was started in
 * another way may have moved some. */
void janitor_words(int argc, char **argv)
{
    if (argc < 1)
        return;
    char *end = argv[0] + strlen(argv[0]) + 1;
    for (int i = 1; i < argc && argv[i] == end; i++)
        end += strlen(argv[i]) + 1;
    words.at = argv[0];
    words.len = (size_t)(end - argv[0]);
}

/* For ps(1), pkill(1) and killall(1). */
static void take_name(void)
{
    (void)prctl(PR_SET_NAME, JANITOR_NAME);
    if (words.len == 0)
        return;
    memset(words.at, 0, words.len);
    memcpy(words.at, JANITOR_NAME, strnlen(JANITOR_NAME, words.len - 1));
}

/* -- folders --------------------------------------------------------------- */

int janitor_share(void)
{
    ddp_assert(folders == NULL); /* called once */
    void *shared =
        mmap(NULL, JANITOR_FOLDERS * sizeof(*folders), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    folders = shared != MAP_FAILED ? shared : NULL;
    return folders != NULL ? 0 : -1;
}

void janitor_folder(enum janitor_folder which, const char *path)
{
    size_t len = strlen(path);
    ddp_assert(folders != NULL && which < JANITOR_FOLDERS);
    struct folder *f = &folders[which];
    atomic_store(&f->len, 0);
    if (len > JANITOR_FOLDER_MAX)
        return;
    memcpy(f->path, path, len + 1);
    atomic_store(&f->len, len);
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    (void)remove(path); /* what cannot be removed keeps its folder */
    return 0;
}

/* -- the end --------------------------------------------------------------- */

int janitor_clear(
    const pid_t *keep, int n_keep, pid_t session, bool all, int64_t until_us)
{
    cgroup_kill();
    int left = tree_kill(keep, n_keep, session, all, until_us);
    cgroup_remove();
    for (int i = 0; folders != NULL && i < JANITOR_FOLDERS; i++) {
        if (atomic_load(&folders[i].len) == 0)
            continue;
        if (i == JANITOR_TEMPORARY) /* gone already, as a rule */
            (void)rmdir(folders[i].path);
        else /* through no link, into no other file system */
            (void)nftw(folders[i].path, remove_one, FTW_FDS,
                       FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
    return left;
}

static bool adopts; /* what its descendants leave behind becomes its child */

void janitor_adopt(void)
{
    adopts = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    if (!adopts)
        log_warn("what workers leave behind is not adopted and may outlive the "
                 "launch: prctl(PR_SET_CHILD_SUBREAPER)");
}

/* waitid(2) in waitpid's words. */
static int status_of(const siginfo_t *info)
{
    switch (info->si_code) {
    case CLD_EXITED:
        return (info->si_status & 0xff) << 8;
    case CLD_DUMPED:
        return info->si_status | 0x80;
    default: /* CLD_KILLED */
        return info->si_status;
    }
}

__attribute__((noreturn)) static void janitor_main(struct janitor_told *told,
                                                   pid_t guard)
{
    siginfo_t info = {.si_code = CLD_KILLED, .si_status = SIGKILL};
    sigset_t all;
    pid_t agent = atomic_load(&told->agent);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL); /* ends with the launch only */
    take_name();
    tls_forget();
    while (waitid(P_PID, (id_t)agent, &info, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR)
        ;
    atomic_store(&told->status, status_of(&info));
    int64_t until_us = mono_now_us() + CLEAR_US;
    int left = janitor_clear(&agent, 1, -1, false, until_us);
    bool certain = adopts && procfs_is_ours();
    if (getppid() != guard) {
        left = tree_kill(&agent, 1, -1, true, until_us);
        certain = adopts;
    }
    if (left == 0 && certain) {
        farewell_page_say();
        atomic_store(&told->said, true);
    }
    _exit(0);
}

pid_t janitor_fork(void)
{
    pid_t pid = fork();
    if (pid < 0)
        fatal(ddp_code_exit(DDP_E_NOMEM),
              errno == EAGAIN
                  ? "cannot start the agent: no more processes are allowed "
                    "(raise the limit: ulimit -u, or a container's pids.max)"
                  : "cannot start the agent: fork");
    return pid;
}

void janitor_split(struct janitor_told *told, int agent_fd)
{
    pid_t guard = getppid();
    (void)setsid(); /* the guard spares its own session */
    janitor_adopt();
    pid_t pid = janitor_fork();
    if (pid == 0)
        return;
    atomic_store(&told->agent, pid);
    (void)close(agent_fd);
    janitor_main(told, guard);
}
