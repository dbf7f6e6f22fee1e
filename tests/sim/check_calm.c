/* links: tests/sim/{sim,story} */
/* libs: -lcjson */
/*
 * Calm: what an outage of cables costs, in rounds. However long all cables are
 * dead, it is one round: who serves grants to the members that come back before
 * it begins another one, and waits for the others of them as long as a lease.
 * If some cables are dead the others go on without these nodes and take them in
 * again: that is two faults. In all there are no more rounds than faults, and
 * one (nodes that went to two places, and were told only after that wait where
 * the leader is).
 *
 *     SEED=N        plays that one and prints its trace
 *     SCHEDULES=N   so many, from FIRST_SEED on
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "tests/sim/story.h"

#define SCHEDULES   300
#define OUTAGES_MAX 6
#define SETTLE_MS   9000 /* a lease, a time-out of a dial, and the next one */

struct outage {
    int64_t ms;
    bool all;
};

struct plan {
    struct sim_conf conf;
    int nodes, outside;
    int n;
    struct outage outages[OUTAGES_MAX];
};

static void draw(struct plan *p, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    int nodes = 3 + (int)rng_below(&rng, 7); /* one of two may go on alone */
    *p = (struct plan){.conf = story_conf(1, nodes, 3),
                       .nodes = nodes,
                       .outside = (int)rng_below(&rng, 3),
                       .n = 1 + (int)rng_below(&rng, OUTAGES_MAX)};
    p->conf.seed = seed;
    p->conf.reconnect_ms = p->conf.join_ms = 600000; /* nobody gives up */
    p->conf.jitter_us = 1 + rng_below(&rng, 3000);
    p->conf.endpoints = p->outside > 0 ? p->outside : 1;
    p->conf.endpoint[0] = 0;
    for (int i = 0; i < p->outside; i++)
        p->conf.endpoint[i] = SIM_OUTSIDE + i;
    for (int i = 0; i < p->n; i++)
        p->outages[i] = (struct outage){.ms = 100 + rng_below(&rng, 8000),
                                        .all = rng_below(&rng, 3) > 0};
}

static bool cut_one(struct sim *s, int machine, bool all, struct rng *rng)
{
    bool dead = all || rng_below(rng, 3) == 0;
    if (dead)
        sim_cut_machine(s, machine, true, true);
    return dead;
}

/* Of all machines, or of every third one at random. Returns how many faults
 * that is: one, or that of those that are cut off and the return of each. */
static int cut(struct sim *s, const struct plan *p, bool all, struct rng *rng)
{
    int n = 1;
    for (int i = 0; i < p->nodes; i++)
        n += cut_one(s, sim_machine(s, i), all, rng);
    for (int i = 0; i < p->outside; i++)
        n += cut_one(s, SIM_OUTSIDE + i, all, rng);
    return all ? 1 : n;
}

static void heal(struct sim *s, const struct plan *p)
{
    for (int i = 0; i < p->nodes; i++)
        sim_heal_machine(s, sim_machine(s, i));
    for (int i = 0; i < p->outside; i++)
        sim_heal_machine(s, SIM_OUTSIDE + i);
}

static int count_running(const struct sim *s)
{
    int n = 0;
    for (int i = 0; i < sim_agents(s); i++)
        n += sim_workers(s, i) > 0 && sim_agent(s, i)->work == AGENT_RUNNING;
    return n;
}

/* How many rounds it took more than it should: one at most. */
static int play(uint64_t seed, bool trace)
{
    int extra = 0;
    struct plan p;
    struct rng rng;
    draw(&p, seed);
    rng_init(&rng, seed + 1);
    p.conf.print = trace;
    struct sim *s = sim_new(&p.conf);
    for (int i = 0; i < p.outside; i++)
        sim_start_on(s, SIM_OUTSIDE + i);
    for (int i = 0; i < p.nodes; i++)
        (void)sim_launch(s);
    int64_t at_ms = 3000;
    story_until(s, at_ms);
    story_check(s, count_running(s) == p.nodes, "seed %d: all run", (int)seed);
    int faults = 0;
    int64_t before = sim_counted(s, SIM_ROUNDS);
    for (int i = 0; i < p.n; i++) {
        const struct outage *o = &p.outages[i];
        faults += cut(s, &p, o->all, &rng);
        story_until(s, at_ms += o->ms);
        heal(s, &p);
        story_until(s, at_ms += SETTLE_MS);
        int64_t rounds = sim_counted(s, SIM_ROUNDS) - before;
        story_check(s, count_running(s) == p.nodes,
                    "seed %d, outage %d: all run again", (int)seed, i);
        if (rounds > faults + 1)
            extra = (int)rounds - faults - 1;
        story_check(s, extra <= (trace ? 0 : 1),
                    "seed %d, outage %d of %s cables for %d ms: %d rounds so "
                    "far, %d faults",
                    (int)seed, i, o->all ? "all" : "some", (int)o->ms,
                    (int)rounds, faults);
    }
    sim_del(s);
    return extra;
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

/* In one schedule of a hundred it may be one more: a launcher that had promised
 * a term to a server which was never elected comes to the leader, which begins
 * anew then, though nobody else has led (takeover.c, outbid). */
TEST(test_calm_outages_cost_a_round_each)
{
    if (getenv("SEED") != NULL) {
        (void)play(env_number("SEED", 1), true);
        return;
    }
    uint64_t first = env_number("FIRST_SEED", 1);
    uint64_t n = env_number("SCHEDULES", SCHEDULES);
    int extra = 0;
    for (uint64_t i = 0; i < n; i++)
        extra += play(first + i, false);
    printf("%d schedules, a round too many in %d\n", (int)n, extra);
    ck_assert_int_le(extra, (int)n / 100);
}

/* The cables of the others were never dead: they wait for the lost node's
 * lease, and for nothing else. */
TEST_LOOP(test_calm_does_not_wait_for_who_is_lost, 0, 2)
{
    struct sim_conf conf = story_conf(1, 3, 3);
    conf.endpoint[0] = 0;
    struct sim *s = sim_new(&conf);
    for (int i = 0; i < 3; i++)
        (void)sim_launch(s);
    story_until(s, 3000);
    int64_t before = sim_counted(s, SIM_ROUNDS);
    sim_cut_machine(s, sim_machine(s, 1 + _i), true, true);
    story_until(s, 3000 + 1000 + 50);
    story_check(s, sim_counted(s, SIM_ROUNDS) == before + 1,
                "node %d is lost: %d rounds after its lease", 1 + _i,
                (int)(sim_counted(s, SIM_ROUNDS) - before));
    story_check(s, count_running(s) == 2, "node %d is lost: %d run", 1 + _i,
                count_running(s));
    sim_del(s);
}

STORY_SUITE("calm", "sim")
