/* links: tests/sim/sim tests/sim/net tests/sim/nodes tests/sim/watch */
/* links: launcher/agent launcher/agent_link launcher/agent_work */
/* links: rendezvous/core/rdzv rendezvous/core/join */
/* links: rendezvous/core/room rendezvous/core/source */
/* links: rendezvous/core/round rendezvous/core/node rendezvous/core/ranks */
/* links: rendezvous/core/note rendezvous/proto/msg rendezvous/base/err */
/* links: rendezvous/proto/ends */
/* links: rendezvous/base/mono rendezvous/base/rng */
/* links: rendezvous/core/budget rendezvous/core/order */
/* links: rendezvous/core/strikes */
/* libs: -lcjson */
/*
 * The end of a run, with the daemon killed at every point of it: at each
 * message that it would read or send from the first worker's exit on, and
 * started again a little later or much later. Not by chance: all of them.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/sim/sim.h"

#define BEGIN_US  (1000 * MONO_MS)
#define DEEDS_MAX 2000

static const int nodes[] = {1, 2, 3, 5};
static const int away_ms[] = {1, 150, 3000};
#define LEN(a) ((int)(sizeof(a) / sizeof((a)[0])))

static struct sim *world(int n, int spares, int restarts)
{
    struct sim_conf conf = {
        .seed = 1,
        .nodes_min = n,
        .nodes_max = n,
        .nproc = 1,
        .max_restarts = restarts,
        .heartbeat_ms = 1000,
        .reconnect_ms = 10000,
        .join_ms = 30000,
        .last_call_ms = 500,
        .grace_ms = 1000,
        .delay_us = 1000,
        .trace = true,
    };
    struct sim *s = sim_new(&conf);
    sim_server_start(s);
    for (int i = 0; i < n + spares; i++)
        (void)sim_launch(s);
    sim_run_until(s, BEGIN_US);
    return s;
}

/* Kills the daemon at its deed number `deed` and starts another one. False: it
 * had no more to do than that. */
static bool kill_at(struct sim *s, int deed, int away)
{
    int64_t at_us = BEGIN_US;
    sim_server_kill_at(s, deed);
    while (!sim_server_was_killed(s)) {
        at_us += MONO_MS;
        if (at_us > BEGIN_US + 2 * MONO_S)
            return false;
        sim_run_until(s, at_us);
    }
    sim_run_until(s, at_us + away * MONO_MS);
    sim_server_start(s);
    return true;
}

/* All launchers end with the status, after one round. */
static void check_ends(struct sim *s, int deed, int away, int status)
{
    sim_run_until(s, 200 * MONO_S);
    if (sim_broken(s) == NULL)
        sim_check_over(s);
    bool good = sim_broken(s) == NULL && sim_counted(s, SIM_ROUNDS) == 1;
    for (int i = 0; i < sim_agents(s); i++)
        good &= sim_exit_status(s, i) == status;
    if (good)
        return;
    printf("%s", sim_trace(s));
    (void)fflush(stdout); /* a failed check leaves without it */
    ck_abort_msg("deed %d, away %d ms: %s, %d rounds", deed, away,
                 sim_broken(s) != NULL ? sim_broken(s) : "another status",
                 (int)sim_counted(s, SIM_ROUNDS));
}

/* All workers succeed: so does every launcher, and no worker runs twice. */
START_TEST(test_sim_success_survives_the_daemon_at_every_point)
{
    int n = nodes[_i / LEN(away_ms)];
    int away = away_ms[_i % LEN(away_ms)];
    int deed = 1;
    for (bool more = true; more; deed++) {
        struct sim *s = world(n, n > 2, 3);
        sim_finish(s, 0);
        more = kill_at(s, deed, away);
        check_ends(s, deed, away, 0);
        sim_del(s);
    }
    ck_assert_int_gt(deed, 3 * n);
}
END_TEST

/* A worker fails and no restart is left: every launcher ends with its status,
 * and no round follows. */
START_TEST(test_sim_failure_survives_the_daemon_at_every_point)
{
    int n = nodes[_i / LEN(away_ms)];
    int away = away_ms[_i % LEN(away_ms)];
    int deed = 1;
    for (bool more = true; more; deed++) {
        struct sim *s = world(n, n > 2, 0);
        sim_worker_dies(s, n - 1, 0, 7, 0);
        more = kill_at(s, deed, away);
        check_ends(s, deed, away, 7);
        sim_del(s);
    }
    ck_assert_int_gt(deed, 3 * n);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("end");
    TCase *tcase = tcase_create("end");
    tcase_set_timeout(tcase, 120);
    tcase_set_tags(tcase, "sim");
    tcase_add_loop_test(tcase,
                        test_sim_success_survives_the_daemon_at_every_point, 0,
                        LEN(nodes) * LEN(away_ms));
    tcase_add_loop_test(tcase,
                        test_sim_failure_survives_the_daemon_at_every_point, 0,
                        LEN(nodes) * LEN(away_ms));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
