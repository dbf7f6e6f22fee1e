/* links: tests/sim/{sim,schedule} */
/* libs: -lcjson */
/*
 * Many schedules of faults for runs at one daemon, each made from its seed,
 * over the real cores. check_takeover has those of lists and of servers on
 * nodes.
 *
 *     SEED=N        plays that one schedule and prints its trace
 *     SCHEDULES=N   so many instead of a few thousand, from FIRST_SEED on
 *     NEWCOMERS=1   in each of them newcomers found an instance of their own
 *                   while the daemon has no memory of an older one
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "tests/sim/schedule.h"

#define SCHEDULES 4000

/* In every other schedule faults begin when the first round runs, and a round
 * must run again once they have ceased. In the others they begin at once, when
 * nobody has the authority yet: a majority may never meet. */
#define QUIET_US (5 * MONO_S)

/* How often each comes up; what ends a fault is added with the fault. */
static const int weights[ACTS] = {
    [ACT_LAUNCH] = 4,        [ACT_WORKER_DIES] = 8, [ACT_SPAWN_FAILS] = 1,
    [ACT_STUBBORN] = 1,      [ACT_KILL] = 4,        [ACT_ORPHAN] = 1,
    [ACT_POWER_OFF] = 2,     [ACT_CUT] = 5,         [ACT_RESET] = 4,
    [ACT_FREEZE_AGENT] = 3,  [ACT_FREEZE_NODE] = 2, [ACT_SIGTERM] = 2,
    [ACT_SIGINT] = 1,        [ACT_FINISH_NODE] = 3, [ACT_SERVER_KILL] = 5,
    [ACT_SERVER_FREEZE] = 3, [ACT_DRAIN] = 4,       [ACT_END] = 1,
    [ACT_MOVE] = 3,          [ACT_REJECT] = 3,      [ACT_SERVER_END] = 3,
};

/* What happens while two instances of the run meet, about the time at which the
 * members of the older one come back. */
static void add_trouble(struct schedule *p, struct rng *rng, int64_t from_us)
{
    static const enum act acts[] = {
        ACT_WORKER_DIES, ACT_WORKER_DIES, ACT_WORKER_DIES, ACT_FINISH_NODE,
        ACT_FINISH_NODE, ACT_SERVER_KILL, ACT_SERVER_KILL, ACT_RESET,
        ACT_RESET,       ACT_KILL,        ACT_LAUNCH,      ACT_SIGTERM,
        ACT_SIGINT,      ACT_DRAIN,       ACT_END,         ACT_FREEZE_AGENT,
    };
    int n = (int)rng_below(rng, 6);
    for (int i = 0; i < n; i++) {
        enum act act = acts[rng_below(rng, sizeof(acts) / sizeof(acts[0]))];
        uint32_t node = (uint32_t)rng_next(rng);
        uint32_t spread_us = rng_below(rng, 2) == 0 ? 300000 : 3000000;
        int64_t at_us = from_us + rng_below(rng, spread_us);
        schedule_add(p, rng, at_us, act, node);
        if (schedule_end_of(act) != ACTS)
            schedule_add(p, rng, at_us + rng_below(rng, 500000),
                         schedule_end_of(act), node);
    }
}

/* A daemon dies, and one without memory finds newcomers, enough for a round of
 * their own, at its listener before the members have come back. The older
 * instance may have had spares, and be about to be done. */
static void add_newcomers(struct schedule *p, struct rng *rng)
{
    int64_t at_us = MONO_S + rng_below(rng, (uint32_t)FAULTS_US);
    int64_t back_us = at_us + rng_below(rng, 3000000);
    int n = p->conf.nodes_min + (int)rng_below(rng, 3);
    int spares = (int)rng_below(rng, 2);
    p->conf.last_call_ms = rng_below(rng, 200);
    for (int i = 0; i < spares; i++)
        schedule_add(p, rng, at_us - rng_below(rng, (uint32_t)MONO_S),
                     ACT_LAUNCH, 0);
    schedule_add(p, rng, at_us, ACT_SERVER_KILL, 0);
    schedule_add(p, rng, back_us, ACT_SERVER_START, 0);
    if (rng_below(rng, 4) == 0)
        schedule_add(p, rng, back_us - rng_below(rng, 500000), ACT_FINISH_NODE,
                     (uint32_t)rng_next(rng));
    for (int i = 0; i < n; i++)
        schedule_add(p, rng, back_us + rng_below(rng, 100000), ACT_LAUNCH, 0);
    add_trouble(p, rng, back_us);
}

static int pick_nodes(struct rng *rng)
{
    static const int sizes[] = {1, 2, 2, 2, 3, 3, 3, 5, 5, 8};
    if (rng_below(rng, 150) == 0)
        return 64;
    if (rng_below(rng, 40) == 0)
        return 16;
    return sizes[rng_below(rng, 10)];
}

static void make_schedule(struct schedule *p, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    *p = (struct schedule){.outside = 1};
    int n = pick_nodes(&rng);
    int min =
        rng_below(&rng, 2) == 0 ? n : 1 + (int)rng_below(&rng, (uint32_t)n);
    int max = rng_below(&rng, 2) == 0 ? n : n + (int)rng_below(&rng, 3);
    schedule_conf(p, &rng, n);
    p->conf.endpoints = 1;
    p->conf.endpoint[0] = SIM_OUTSIDE;
    p->conf.nodes_min = min;
    p->conf.nodes_max = max < min ? min : max;
    /* None, shorter, the same, or longer, which counts as the same. */
    p->conf.failure_ms = p->conf.grace_ms * (int64_t)(seed % 4) / 2;
    if (rng_below(&rng, 3) == 0)
        p->conf.window_ms = 1000 + rng_below(&rng, 20000);
    if (rng_below(&rng, 4) == 0)
        p->conf.crash_loop = 1 + (int)rng_below(&rng, 3);
    if (rng_below(&rng, 3) == 0) {
        p->conf.node_strikes = 1 + (int)rng_below(&rng, 2);
        p->conf.cooldown_ms = 1 + rng_below(&rng, 20000);
    }
    if (rng_below(&rng, 2) == 0)
        p->conf.scale_ms = rng_below(&rng, 6000);
    p->only_safety = seed % 2 == 1;
    p->quiet_us = p->only_safety ? 0 : QUIET_US;
    p->late = p->only_safety && rng_below(&rng, 2) == 0;
    if (p->late)
        schedule_add(p, &rng, rng_below(&rng, 5000000), ACT_SERVER_START, 0);
    for (int i = 0; i < n; i++)
        schedule_add(p, &rng, rng_below(&rng, 500000), ACT_LAUNCH, 0);
    if (n > STEPS_MAX / 2) /* they do not all fit: the others start at 0 */
        p->n_steps = STEPS_MAX / 2;
    bool newcomers = rng_below(&rng, 8) == 0 || getenv("NEWCOMERS") != NULL;
    if (n <= 8 && newcomers)
        add_newcomers(p, &rng);
    if (!newcomers || rng_below(&rng, 2) == 0)
        schedule_add_faults(p, &rng, weights);
}

/* -- tests ----------------------------------------------------------------- */

/* The invariants hold in each of many schedules, and each kind of fault and of
 * end came up. */
TEST(test_sim_schedules_of_faults_keep_the_invariants)
{
    int64_t sums[SIM_COUNTS];
    if (!schedule_many(make_schedule, SCHEDULES, sums))
        return;
    for (int c = 0; c <= SIM_END_ORPHANED; c++)
        ck_assert_msg(sums[c] > 0, "never: %s",
                      sim_count_meaning((enum sim_count)c));
}

/* How many of some hundred schedules end with invariant 1 broken. */
static int count_broken(bool ignore_leases, bool false_farewell)
{
    int broken = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct schedule p;
        make_schedule(&p, seed);
        p.conf.ignore_leases = ignore_leases;
        p.conf.false_farewell = false_farewell;
        struct sim *s = schedule_play(&p, false);
        broken += sim_broken(s) != NULL &&
                  strstr(sim_broken(s), "invariant 1") != NULL;
        sim_del(s);
    }
    return broken;
}

CASE("broken on purpose", .tags = "sim", .limit_s = 120)

/* Where agents take no notice of their leases, workers of two rounds run at
 * once; the simulator sees that. */
TEST(test_sim_agents_that_ignore_leases_break_invariant_1)
{
    ck_assert_int_gt(count_broken(true, false), 0);
}

/* The same where a broken connection counts as a farewell. */
TEST(test_sim_a_reset_taken_for_a_fin_breaks_invariant_1)
{
    ck_assert_int_gt(count_broken(false, true), 0);
}

SUITE("sim", "many schedules", .tags = "sim", .limit_s = SUITE_ENDLESS)
