/*
 * launcher/front/requeue: asks Slurm to run this job again, once this launcher
 * has ended because the job was about to be.
 */
#ifndef LAUNCHER_FRONT_REQUEUE_H
#define LAUNCHER_FRONT_REQUEUE_H

#include <stdint.h>

/*
 * A guard_end (launcher/proc/guard.h). Requeues the job $SLURM_JOB_ID if this
 * is the launcher of its first node, and `status` is that of SIGTERM or of a
 * notice among the `signals` that came. Says what it did, or why it could not.
 * Takes 20 s at most. Slurm then ends all of the job, this process as well.
 */
void requeue_at_end(int status, uint64_t signals);

#endif
