/*
 * tests/sim/story: what the simulator's tests of single cases share: a world
 * without chance in which a message takes a millisecond and a worker that gets
 * SIGTERM ten, daemons that are killed at a given deed, and a failure that
 * prints the trace.
 */
#ifndef STORY_H
#define STORY_H

#include <check.h>

#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

/* Leases of a second, ten to come back in, no spares' places. */
struct sim_conf story_conf(int min, int max, int restarts);

/* A world with a server and so many nodes, which were launched at once. */
struct sim *story_new(const struct sim_conf *conf, int nodes);

void story_until(struct sim *s, int64_t at_ms);

/*
 * Kills the daemon at its deed number `deed` from `from_ms` on, which is now,
 * and starts another one `away_ms` later. False: it had no more to do than that
 * in two seconds.
 */
bool story_kill_at(struct sim *s, int deed, int64_t from_ms, int64_t away_ms);

/* Prints the trace and fails, where `good` is false or an invariant broken. */
void story_check(struct sim *s, bool good, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define STORY_LEN(a) (int)(sizeof(a) / sizeof((a)[0]))

/* A program of such tests. */
#define STORY_SUITE(name, kinds)                                               \
    SUITE(name, name, .tags = (kinds), .limit_s = 120)

#endif
