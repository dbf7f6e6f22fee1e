/* links: tests/sim/{sim,story} */
/* libs: -lcjson */
/*
 * How long it takes until a round runs again after a failure, with the daemon
 * killed at every point of what follows: at each message that it would read or
 * send. No node is lost; so nobody is waited for who does not come.
 */
#include <check.h>
#include <stdio.h>

#include "tests/sim/story.h"

#define BEGIN_MS 1000
#define AWAY_MS  150

/* A lease, if the daemon died while a round was proposed: it may be in force.
 * And an agent's pauses before it tries again, its workers' end, messages. */
#define BOUND_MS 1300

static const struct {
    int nodes, spares;
} cases[] = {{2, 0}, {3, 0}, {5, 0}, {2, 1}, {3, 2}};
#define CASES STORY_LEN(cases)

/* All nodes of the smallest round that there may be run another one than the
 * first. */
static bool runs_again(const struct sim *s, int n)
{
    int running = 0;
    for (int i = 0; i < sim_agents(s); i++)
        running += sim_workers(s, i) > 0 &&
                   sim_agent(s, i)->work == AGENT_RUNNING &&
                   sim_agent(s, i)->round.world.round > 1;
    return running == n;
}

static int64_t until_it_runs_ms(struct sim *s, int n)
{
    int64_t from_ms = sim_now_us(s) / 1000;
    int64_t at_ms = from_ms;
    while (!runs_again(s, n) && at_ms < from_ms + 60000)
        story_until(s, ++at_ms);
    return at_ms - from_ms;
}

TEST_LOOP(test_sim_round_runs_soon_though_the_daemon_dies_at_any_point,
          0,
          CASES)
{
    int n = cases[_i].nodes;
    int deed = 1;
    int64_t longest_ms = 0;
    for (bool more = true; more; deed++) {
        struct sim_conf conf = story_conf(n, n, 3);
        struct sim *s = story_new(&conf, n + cases[_i].spares);
        story_until(s, BEGIN_MS);
        sim_worker_dies(s, n - 1, 0, 7, 0);
        more = story_kill_at(s, deed, BEGIN_MS, AWAY_MS);
        int64_t took_ms = until_it_runs_ms(s, n);
        story_check(s, took_ms <= BOUND_MS, "deed %d: a round runs after %d ms",
                    deed, (int)took_ms);
        if (took_ms > longest_ms)
            longest_ms = took_ms;
        sim_del(s);
    }
    printf("%d nodes, %d spares: the daemon killed at %d points; a round runs "
           "%d ms after the next one began at most\n",
           n, cases[_i].spares, deed - 2, (int)longest_ms);
    ck_assert_int_gt(deed, 3 * n);
}

STORY_SUITE("seal", "sim")
