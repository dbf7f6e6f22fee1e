/*
 * launcher/cluster/whole_step: whether a signal was sent to all processes of a
 * scheduler's step, the workers among them. slurmstepd does so for scancel, a
 * preemption and a notice before the end of the time; workers must not get it a
 * second time from the launcher.
 *
 * The witness is the agent's own copy. killall(1) sends to guard and agent as
 * well, and to no worker, but it is no ancestor of theirs; what signals ddprun
 * alone reaches the guard only.
 */
#ifndef LAUNCHER_CLUSTER_WHOLE_STEP_H
#define LAUNCHER_CLUSTER_WHOLE_STEP_H

#include <stdbool.h>
#include <sys/types.h>

/* How long a scheduler takes to signal all processes of a step on one host, at
 * most. A guess: slurmstepd says nothing of it. */
#define WHOLE_STEP_MS 100

/* The agent's copy of a signal that was taken before the guard told of it. To
 * be zeroed. */
struct whole_step {
    int signo; /* 0: none */
    pid_t sender;
};

/*
 * In the agent, where `signo` is blocked, after its parent, the guard, was sent
 * `signo` by process `sender` (0: of another pid namespace): whether the agent
 * was sent it as well by the same, and that is an ancestor of the guard. Takes
 * the agent's copy. Waits for it for WHOLE_STEP_MS at most.
 */
bool whole_step_got(struct whole_step *w, int signo, pid_t sender);

/* The same before the guard tells of it: whether the scheduler sends `signo` to
 * the whole step just now. Waits as long. */
bool whole_step_comes(struct whole_step *w, int signo);

#endif
