/*
 * launcher/worker/hang: which worker of this node gets nowhere. Pure: samples
 * go in with the time at which they were taken, a verdict comes out.
 *
 * Progress is whatever changes in a sample: a write to $DDP_PROGRESS_FILE
 * (which ddp_beat is), output that passes through the launcher, and CPU time
 * where the user says that it counts (a rank that is stuck in a collective may
 * well spin). A worker that has beaten is held to --beat_timeout as well, by
 * its beats alone.
 *
 * When one rank is stuck the others wait for it, and all fall silent within
 * moments. Hence of those that are silent for too long the one is blamed that
 * took the fewest steps, and among equals the one that is silent longest.
 */
#ifndef LAUNCHER_WORKER_HANG_H
#define LAUNCHER_WORKER_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/conf/conf.h"

/* What can be seen of a worker, each only ever compared with the last one. */
struct hang_sample {
    int64_t written; /* when its progress file was written, by any clock */
    int64_t step;    /* the last one that it beat, -1: none */
    int64_t output;  /* bytes */
    int64_t cpu;     /* time, in any unit */
};

struct hang_worker {
    bool alive;
    bool beats;
    bool anew; /* it was given the whole time again, and has not moved yet */
    struct hang_sample seen;
    int64_t moved_us;  /* when progress of any kind was last seen */
    int64_t beaten_us; /* ... a write to its progress file */
};

struct hang {
    struct hang_limits limits;
    struct hang_worker *workers; /* by local rank, the caller's */
    int n;
    int64_t paused_us; /* since then; MONO_NEVER: not paused */
};

struct hang_verdict {
    int local_rank;
    int64_t silent_us;
    bool beat;    /* it was --beat_timeout that was over */
    int64_t step; /* of its last beat, -1: none */
};

/* Nobody is alive. `workers` has room for n and is borrowed for h's life. */
void hang_init(struct hang *h,
               const struct hang_limits *limits,
               struct hang_worker *workers,
               int n);

/* Whether there is anything to look for at all. */
bool hang_watches(const struct hang *h);

void hang_started(struct hang *h, int local_rank, int64_t now_us);
void hang_ended(struct hang *h, int local_rank);

/*
 * Time in which workers are stopped (Ctrl-Z) counts against none of them. After
 * it all have the whole --hang_timeout again, as by hang_anew.
 */
void hang_pause(struct hang *h, bool paused, int64_t now_us);

/* So much of the time before now counts against nobody. Nothing while paused,
 * when no time goes by. */
void hang_forgive(struct hang *h, int64_t us, int64_t now_us);

/* All have the whole --hang_timeout again, once until they move: a console that
 * takes something at last may serve the others first. */
void hang_anew(struct hang *h, int64_t now_us);

void hang_see(struct hang *h,
              int local_rank,
              const struct hang_sample *sample,
              int64_t now_us);

/* Whether a worker hangs, and which is to blame; false while paused. */
bool hang_find(const struct hang *h, int64_t now_us, struct hang_verdict *out);

/* How long to wait between looks: a fraction of the shortest limit. */
int64_t hang_every_us(const struct hang *h);

#endif
