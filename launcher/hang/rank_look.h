/*
 * launcher/hang/rank_look: what the main thread of each worker of this node
 * does, as /proc shows it; a stack, if one can be taken, makes that more exact.
 */
#ifndef LAUNCHER_HANG_RANK_LOOK_H
#define LAUNCHER_HANG_RANK_LOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/hang/odd_rank.h"
#include "launcher/hang/pauses.h"
#include "launcher/hang/stack_place.h"

/* What /proc shows of a worker at one moment. */
struct rank_sample {
    char state;        /* of its main thread, proc(5); '?': not seen */
    int64_t cpu_ticks; /* of all its threads */
    bool sleeps;       /* it waits in nanosleep(2) or clock_nanosleep(2) */
};

#define RANK_LOOK_APART_MS 250 /* between the two samples */

/* Pure: what a worker does by two samples. `spins`: it may wait by polling. */
enum rank_doing rank_look_judge(const struct rank_sample *before,
                                const struct rank_sample *after,
                                bool spins);

/*
 * Fills in `doing` of the workers with these pids, of at most RANK_LOOKS_MAX.
 * Waits for RANK_LOOK_APART_MS, once. To be called before a
 * debugger stops one.
 */
void rank_look_all(const pid_t *pids, struct rank_look *looks, int n);

/* Pure: what its stack adds. */
void rank_look_place(struct rank_look *look, const struct stack_place *place);

/* -- whether silent workers are at work ------------------------------------ */

/* What more it shows of a worker at one moment. */
struct rank_work {
    char state;             /* of its main thread, proc(5); '?': not seen */
    int64_t cpu_ticks;      /* of all its threads */
    int64_t faults;         /* pages that came without a disk */
    int64_t bytes;          /* read and written */
    int64_t children_ticks; /* CPU time of the processes of its group and
                               session that live, the worker left out */
    bool child_runs;        /* one of these uses a CPU, or waits for one */
    bool spins;             /* it may wait by polling */
};

#define RANK_WORK_APART_MS 1000 /* between the two samples */

/*
 * Pure: what two samples of each worker show. A worker computes if it uses a
 * fifth of a CPU, or could run both times and got none; one that may wait by
 * polling only if it also touches new memory, which a loop that waits does not.
 */
enum pauses_look rank_look_judge_work(const struct rank_work *before,
                                      const struct rank_work *after,
                                      int n);

/* Looks at workers, however many, for RANK_WORK_APART_MS. Workers that cannot
 * be seen are taken to work. */
enum pauses_look rank_look_work(const pid_t *pids, int n);

#endif
