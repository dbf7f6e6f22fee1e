/* links: tests/sim/{sim,story} */
/* libs: -lcjson */
/*
 * Two servers live behind one address, and the one that knew the run is gone:
 * each node is with one of them. Faults besides, by seed. Never do two rounds
 * run, and no round is given twice.
 */
#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "tests/sim/story.h"

#define SEEDS 400

static void do_harm(struct sim *s, struct rng *rng)
{
    int i = (int)rng_below(rng, (uint32_t)sim_agents(s));
    switch (rng_below(rng, 6)) {
    case 0:
        sim_worker_dies(s, i, 0, 7, 0);
        return;
    case 1:
        sim_kill(s, i);
        return;
    case 2:
        sim_reset(s, i);
        return;
    case 3:
        sim_power_off(s, i);
        return;
    case 4:
        sim_freeze_agent(s, i);
        return;
    default:
        sim_signal(s, i, SIGTERM);
        return;
    }
}

/* Returns how many rounds were sealed since there were two. */
static int64_t play(uint64_t seed, int nodes, bool print)
{
    struct rng rng;
    struct sim_conf conf = story_conf(1, nodes, 9);
    conf.seed = seed;
    conf.jitter_us = 2000;
    conf.print = print;
    conf.reconnect_ms = 3000;
    conf.endpoints = 0; /* but one address, behind which both stand */
    rng_init(&rng, seed);
    struct sim *s = story_new(&conf, nodes);
    story_until(s, 3000);
    int64_t before = sim_counted(s, SIM_ROUNDS);
    if (rng_below(&rng, 2) == 0)
        sim_server_end(s);
    story_until(s, 3600);
    sim_server_kill(s);
    sim_server_start(s);
    sim_start_on(s, SIM_OUTSIDE + 1);
    for (int i = 0; i < nodes; i++)
        if (rng_below(&rng, 2) == 0)
            sim_lands_on(s, i, SIM_OUTSIDE + 1);
    int64_t at_ms = 3600;
    for (int faults = (int)rng_below(&rng, 5); faults > 0; faults--) {
        at_ms += rng_below(&rng, 1500);
        story_until(s, at_ms);
        do_harm(s, &rng);
    }
    story_until(s, 30000);
    ck_assert_msg(sim_broken(s) == NULL, "seed %" PRIu64 ", %d nodes: %s", seed,
                  nodes, sim_broken(s));
    int64_t rounds = sim_counted(s, SIM_ROUNDS) - before;
    sim_del(s);
    return rounds;
}

TEST_LOOP(test_sim_of_two_servers_one_goes_on_at_most, 0, 5) /* 2 to 6 nodes */
{
    int64_t rounds = 0;
    if (getenv("SEED") != NULL) {
        (void)play(strtoull(getenv("SEED"), NULL, 10), _i + 2, true);
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        rounds += play(seed, _i + 2, false);
    ck_assert_int_gt(rounds, SEEDS / 4); /* some do */
}

STORY_SUITE("two_servers", "sim")
