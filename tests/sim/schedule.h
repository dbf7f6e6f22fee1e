/*
 * tests/sim/schedule: a schedule of faults, made from a seed: how to make one,
 * and how to play it. Faults happen in the first 37 seconds; then comes quiet,
 * in which all must settle; then the workers succeed, and all must end.
 */
#ifndef SCHEDULE_H
#define SCHEDULE_H

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "tests/sim/sim.h"

#define STEPS_MAX  64
#define FAULTS_US  (25 * MONO_S) /* faults begin in this time */
#define LASTING_US (12 * MONO_S) /* and last so long at most */

enum act {
    ACT_LAUNCH,
    ACT_WORKER_DIES,
    ACT_SPAWN_FAILS,
    ACT_STUBBORN,
    ACT_KILL,
    ACT_ORPHAN,
    ACT_POWER_OFF,
    ACT_CUT,
    ACT_HEAL,
    ACT_RESET,
    ACT_MOVE,
    ACT_FREEZE_AGENT,
    ACT_FREEZE_NODE,
    ACT_THAW,
    ACT_SIGTERM,
    ACT_SIGINT,
    ACT_DRAIN,
    ACT_END,
    ACT_FINISH_NODE,
    ACT_LAUNCH_AGAIN,
    ACT_REJECT,
    /* These are of the first server outside, ... */
    ACT_SERVER_START,
    ACT_SERVER_KILL,
    ACT_SERVER_END,
    ACT_SERVER_FREEZE,
    ACT_SERVER_THAW,
    /* ... these of any machine that has or had one, ... */
    ACT_HOST_START,
    ACT_HOST_KILL,
    ACT_HOST_END, /* in order */
    ACT_HOST_FREEZE,
    ACT_HOST_THAW,
    ACT_HOST_CUT,
    ACT_HOST_HEAL,
    ACT_HOST_BACK, /* all of them */
    ACT_HOST_RELAY,
    ACT_HOST_MIDST, /* killed, frozen or cut off in the midst of something */
    /* ... and these of all. */
    ACT_PARTITION,
    ACT_UNITE,
    ACT_GO_ON,
    ACT_FINISH, /* all workers succeed */
    ACTS
};

struct step {
    int64_t at_us;
    enum act act;
    uint32_t node; /* modulo how many there are then */
    uint32_t how;
};

struct schedule {
    struct sim_conf conf;
    int n_first;      /* nodes that start at once */
    int outside;      /* servers outside that are needed at the end ... */
    bool late;        /* ... and are not there from the beginning */
    int ppm;          /* clocks are fast or slow by so much at most */
    int64_t quiet_us; /* no fault begins before that */
    bool only_safety; /* whether it settles in the end is not looked at */
    bool may_wait;    /* a round need not run in the end, but all must end */
    struct step steps[STEPS_MAX];
    int n_steps;
};

/* Beyond STEPS_MAX nothing is added. */
void schedule_add(struct schedule *p,
                  struct rng *rng,
                  int64_t at_us,
                  enum act act,
                  uint32_t node);

/* What ends that; ACTS: nothing does. */
enum act schedule_end_of(enum act act);

/* Up to ten faults or, of a few kinds only, twenty; each act comes up as often
 * as its weight says, alone or in bunches of the same moment. What ends a fault
 * is added with it. */
void schedule_add_faults(struct schedule *p,
                         struct rng *rng,
                         const int weights[ACTS]);

/* The numbers that all schedules have, for so many nodes. */
void schedule_conf(struct schedule *p, struct rng *rng, int nodes);

/* Owned by the caller. */
struct sim *schedule_play(const struct schedule *p, bool trace);

/* -- many ------------------------------------------------------------------ */

typedef void schedule_make(struct schedule *p, uint64_t seed);

/* Plays the one of that seed; fails the test if it is broken. */
void schedule_one(schedule_make *make, uint64_t seed);

/*
 * Plays `otherwise` schedules, or SCHEDULES of the environment, from FIRST_SEED
 * on; or SEED alone, with its trace. Fails the test at the first one that is
 * broken or, with ALL in the environment, names these all. Prints the sums.
 * True: there were as many as `otherwise`, and `sums` may be judged.
 */
bool schedule_many(schedule_make *make,
                   uint64_t otherwise,
                   int64_t sums[SIM_COUNTS]);

#endif
