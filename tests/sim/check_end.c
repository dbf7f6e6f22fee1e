/* links: tests/sim/{sim,story} */
/* libs: -lcjson */
/*
 * The end of a run, with the daemon killed at every point of it: at each
 * message that it would read or send from the first worker's exit on, and
 * started again a little later or much later. Not by chance: all of them.
 */
#include <check.h>

#include "tests/sim/story.h"

#define BEGIN_MS 1000

static const int nodes[] = {1, 2, 3, 5};
static const int away_ms[] = {1, 150, 3000};
#define CASES (STORY_LEN(nodes) * STORY_LEN(away_ms))

static struct sim *world(int n, int spares, int restarts)
{
    struct sim_conf conf = story_conf(n, n, restarts);
    conf.nproc = 1;
    struct sim *s = story_new(&conf, n + spares);
    story_until(s, BEGIN_MS);
    return s;
}

#define LOST 72

/*
 * All launchers end with the status, after one round. If the end was final, and
 * the daemon died before all were told so, those that were have gone: what they
 * knew nobody can be asked, and the others end as lost. Of the `n` voters at
 * least half know of it then.
 */
static void check_exits(struct sim *s, int n, int deed, int away, int status)
{
    story_until(s, 200000);
    if (sim_broken(s) == NULL)
        sim_check_over(s);
    bool good = sim_counted(s, SIM_ROUNDS) == 1;
    int told = 0;
    for (int i = 0; i < sim_agents(s); i++) {
        told += sim_exit_status(s, i) == status;
        good &=
            sim_exit_status(s, i) == status || sim_exit_status(s, i) == LOST;
    }
    good &= told == sim_agents(s) || 2 * told >= n;
    story_check(s, good, "deed %d, away %d ms, status %d, %d rounds", deed,
                away, status, (int)sim_counted(s, SIM_ROUNDS));
}

/* All workers succeed: so does every launcher, and no worker runs twice. */
TEST_LOOP(test_sim_success_survives_the_daemon_at_every_point, 0, CASES)
{
    int n = nodes[_i / STORY_LEN(away_ms)];
    int away = away_ms[_i % STORY_LEN(away_ms)];
    int deed = 1;
    for (bool more = true; more; deed++) {
        struct sim *s = world(n, n > 2, 3);
        sim_finish(s, 0);
        more = story_kill_at(s, deed, BEGIN_MS, away);
        check_exits(s, n, deed, away, 0);
        sim_del(s);
    }
    ck_assert_int_gt(deed, 3 * n);
}

/* A worker fails and no restart is left: every launcher ends with its status,
 * and no round follows. */
TEST_LOOP(test_sim_failure_survives_the_daemon_at_every_point, 0, CASES)
{
    int n = nodes[_i / STORY_LEN(away_ms)];
    int away = away_ms[_i % STORY_LEN(away_ms)];
    int deed = 1;
    for (bool more = true; more; deed++) {
        struct sim *s = world(n, n > 2, 0);
        sim_worker_dies(s, n - 1, 0, 7, 0);
        more = story_kill_at(s, deed, BEGIN_MS, away);
        check_exits(s, n, deed, away, 7);
        sim_del(s);
    }
    ck_assert_int_gt(deed, 3 * n);
}

STORY_SUITE("end", "sim")
