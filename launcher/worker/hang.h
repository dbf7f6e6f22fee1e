/*
 * launcher/worker/hang: finds the worker of this node that makes no progress.
 * Pure: samples and time go in, a verdict comes out.
 *
 * A worker makes progress when its sample changes: by a write to
 * $DDP_PROGRESS_FILE (ddp_beat does that), or by output that passes through the
 * launcher. CPU time is none: a rank that is stuck in a collective may spin. A
 * worker that has beaten is held to the second time of --hang_timeout as well,
 * by its beats alone.
 *
 * If one rank is stuck, the others wait for it, and all fall silent within
 * moments. Of those that are silent for too long, the one that took the fewest
 * steps is blamed; among equals, the one that is silent longest.
 *
 * The clock. Silence is measured by a clock that runs only while workers can
 * move (hang_pass):
 *
 *     HANG_RUNS    time counts
 *     HANG_SLOW    a console is full and takes something: a tenth counts
 *     HANG_STANDS  a console is full and takes nothing, or the workers are
 *                  stopped (Ctrl-Z): no time counts
 *
 * The reason: a worker that writes to a full console waits there, and its peers
 * wait for it in their next collective; none of them hangs. A tenth counts so
 * that a worker that hangs beside one that fills a slow console for ever is
 * found, after ten times the limit.
 */
#ifndef LAUNCHER_WORKER_HANG_H
#define LAUNCHER_WORKER_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/conf/conf.h"

/* What can be seen of a worker. Each number is only compared with the one of
 * the last sample. */
struct hang_sample {
    int64_t written; /* when its progress file was written, by any clock */
    int64_t step;    /* the last one that it beat, -1: none */
    int64_t output;  /* bytes */
};

struct hang_worker {
    bool alive;
    bool beats;
    bool anew; /* its time began anew, and it has not moved since */
    struct hang_sample seen;
    int64_t moved_us;  /* when progress of any kind was last seen */
    int64_t beaten_us; /* when a write to its progress file was */
};

/* Whether time counts. A larger one counts less. */
enum hang_pace {
    HANG_RUNS,
    HANG_SLOW,
    HANG_STANDS,
};

struct hang {
    struct hang_limits limits;
    struct hang_worker *workers; /* by local rank, the caller's */
    int n;
    int64_t clock_us; /* time that counted so far */
    bool stood;       /* the clock stands: HANG_STANDS was the last pace */
};

struct hang_verdict {
    int local_rank;
    int64_t silent_us; /* of the time that counts */
    bool beat;         /* it was the time without a beat that was over */
    int64_t step;      /* of its last beat, -1: none */
};

/* No worker is alive. `workers` has room for n and is borrowed for h's life. */
void hang_init(struct hang *h,
               const struct hang_limits *limits,
               struct hang_worker *workers,
               int n);

void hang_started(struct hang *h, int local_rank);
void hang_ended(struct hang *h, int local_rank);

/*
 * `us` of time passed at this pace. When the clock runs again after it stood,
 * every worker has the whole --hang_timeout again, but once only until it
 * moves: a console that takes something at last may serve the others first.
 */
void hang_pass(struct hang *h, int64_t us, enum hang_pace pace);

/* What was seen of a worker just now. Returns whether it has moved. */
bool hang_see(struct hang *h, int local_rank, const struct hang_sample *sample);

/* Whether a worker hangs, and which one is to blame. */
bool hang_find(const struct hang *h, struct hang_verdict *out);

/* Of those that live the one to blame, whether it hangs or not. One does. */
void hang_worst(const struct hang *h, struct hang_verdict *out);

/* The same of a worker that lives, whether it hangs or not. */
void hang_describe(const struct hang *h,
                   int local_rank,
                   struct hang_verdict *out);

/* How long to wait between looks: a fraction of the shortest limit. */
int64_t hang_every_us(const struct hang *h);

#endif
