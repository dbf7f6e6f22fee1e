/*
 * launcher/proc/janitor: the process between guard and agent. It waits for the
 * agent's end, and kills and removes what the launch leaves behind.
 *
 *     ddprun (guard) -- ddp-janitor -- ddprun (agent) -- workers
 *
 * It is a child subreaper: when the agent is dead, all that the agent or a
 * worker has started is the janitor's, however far down, in whatever session.
 * It does this whether the guard lives or not, so that nothing is left if both
 * are killed at the same moment. The guard does the same after it, in case the
 * janitor was killed. So one of the three is enough.
 *
 * People kill by name. No part of "ddprun" is in the janitor's, and none of the
 * user's words are in its command line: `pkill ddprun`, `killall ddprun` and
 * `pkill -f train.py` spare it. It takes no signal but SIGKILL and SIGSTOP.
 */
#ifndef LAUNCHER_PROC_JANITOR_H
#define LAUNCHER_PROC_JANITOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define JANITOR_NAME       "ddp-janitor"
#define JANITOR_FOLDER_MAX 4000

/* The folders that go at the end. */
enum janitor_folder {
    JANITOR_TEMPORARY, /* if it is empty: what somebody wrote there stays */
    JANITOR_MPI,       /* with all that is in it */
    JANITOR_FOLDERS
};

/* Before janitor_split; `argv` is main's. The janitor overwrites its copy of
 * these words. Without this call its command line is the launcher's. */
void janitor_words(int argc, char **argv);

/* Before janitor_split: memory that guard, janitor and agent share. 0, or -1
 * with errno. */
int janitor_share(void);

/* fork(2). If there can be no agent then, says so and ends with the status of
 * DDP_E_NOMEM. */
pid_t janitor_fork(void);

/* What the janitor tells the guard, in memory that they share. */
struct janitor_told {
    atomic_int agent;  /* its pid; 0: not yet */
    atomic_int status; /* as waitpid gives it; -1: the agent is not dead yet */
    atomic_bool said;  /* the farewell: the guard need not */
};

/*
 * In a fresh child of the guard's. Forks, and returns in the agent. This
 * process, the janitor, closes `agent_fd`, and ends when all is done. It does
 * not reap the agent: the guard does, if it is a child subreaper.
 */
void janitor_split(struct janitor_told *told, int agent_fd);

/* In the agent: a folder that goes at the end if it is there still. One path
 * for each kind, the last one counts; one that is longer than
 * JANITOR_FOLDER_MAX is not remembered. "": none. */
void janitor_folder(enum janitor_folder which, const char *path);

/*
 * When the agent is dead: kills everything below this process but what
 * tree_kill spares, whose arguments these are, and what is in the launch's
 * cgroup; removes that and the folders. Returns how many processes live still.
 */
int janitor_clear(
    const pid_t *keep, int n_keep, pid_t session, bool all, int64_t until_us);

/* A child subreaper from now on (Linux 3.4 and later; a sandbox may refuse it,
 * which is said). Not inherited by fork. */
void janitor_adopt(void);

#endif
