/* links: tests/sim/{sim,story} */
/* libs: -lcjson */
/*
 * Any host may die, the endpoint's included: how long it takes until the others
 * run again, that nobody's workers are killed where the lost host had none, and
 * that neither a partition nor a firewall makes two authorities.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/sim/story.h"

#define HEARTBEAT_MS 1000 /* of story_conf */

/* Of `min` to `max` nodes; the server is the one of node 0. */
static struct sim_conf hosts_conf(int min, int max)
{
    struct sim_conf conf = story_conf(min, max, 3);
    conf.endpoints = 1;
    conf.endpoint[0] = 0;
    return conf;
}

static struct sim *hosts_new(const struct sim_conf *conf, int nodes)
{
    struct sim *s = sim_new(conf);
    for (int i = 0; i < conf->endpoints; i++)
        if (conf->endpoint[i] >= SIM_OUTSIDE)
            sim_start_on(s, conf->endpoint[i]);
    for (int i = 0; i < nodes; i++)
        (void)sim_launch(s);
    story_until(s, 3000);
    return s;
}

static int64_t round_of(const struct sim *s, int i)
{
    return sim_agent(s, i)->round.world.round;
}

/* How many nodes run workers of a round that is later than that. */
static int count_running(const struct sim *s, int64_t after)
{
    int n = 0;
    for (int i = 0; i < sim_agents(s); i++)
        n += sim_workers(s, i) > 0 && round_of(s, i) > after &&
             sim_agent(s, i)->work == AGENT_RUNNING;
    return n;
}

/* Milliseconds until so many do. */
static int until_they_run(struct sim *s, int n, int64_t after)
{
    int64_t from_ms = sim_now_us(s) / 1000;
    int64_t at_ms = from_ms;
    while (count_running(s, after) != n && at_ms < from_ms + 60000 &&
           sim_broken(s) == NULL)
        story_until(s, ++at_ms);
    return (int)(at_ms - from_ms);
}

/* ... and they have to, within that. */
static int all_run_within(struct sim *s, int ms, int n, int64_t after)
{
    int took_ms = until_they_run(s, n, after);
    story_check(s, took_ms <= ms, "%d nodes run after %d ms", n, took_ms);
    return took_ms;
}

/* How many instances the nodes that run are in. */
static int count_instances(const struct sim *s)
{
    int n = 0;
    for (int i = 0; i < sim_agents(s); i++) {
        bool seen = sim_workers(s, i) == 0;
        for (int k = 0; k < i && !seen; k++)
            seen = sim_workers(s, k) > 0 &&
                   strcmp(sim_agent(s, k)->round.world.instance,
                          sim_agent(s, i)->round.world.instance) == 0;
        n += !seen;
    }
    return n;
}

/* -- the endpoint's host --------------------------------------------------- */

static const struct {
    int min, nodes;
} sizes[] = {{2, 3}, {2, 4}, {5, 8}, {2, 16}};
#define SIZES STORY_LEN(sizes)

/* Its power fails, and that of each next one that serves, while more than half
 * of the last round are left. */
TEST_LOOP(test_hosts_silent_loss_of_who_serves_is_over_in_time, 0, SIZES)
{
    int n = sizes[_i].nodes;
    struct sim_conf conf = hosts_conf(sizes[_i].min, n);
    struct sim *s = hosts_new(&conf, n);
    int longest_ms = 0;
    for (int left = n - 1; left >= sizes[_i].min && left > 1; left--) {
        int host = sim_tenant(s, sim_serving(s));
        story_check(s, count_running(s, 0) == left + 1 && host >= 0,
                    "%d nodes run", left + 1);
        int64_t round = round_of(s, host);
        sim_power_off(s, host);
        int took_ms = until_they_run(s, left, round);
        story_check(s, took_ms <= HEARTBEAT_MS + 1000,
                    "%d nodes of %d run after %d ms", left, n, took_ms);
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        story_until(s, sim_now_us(s) / 1000 + 5000);
    }
    printf("%d nodes: who serves falls silent, the others run %d ms later at "
           "most\n",
           n, longest_ms);
    sim_del(s);
}

/* -- several at once ------------------------------------------------------- */

static const int many[] = {9, 15, 31, 60};
static const int64_t heartbeats_ms[] = {1000, 2000, 5000};
#define MANY       STORY_LEN(many)
#define HEARTBEATS STORY_LEN(heartbeats_ms)

/* Half of the voters less one, or so many of all nodes if they are fewer. */
static int minority_of(int n)
{
    int voters = n < MSG_VOTERS_MAX ? n : MSG_VOTERS_MAX;
    return (voters - 1) / 2;
}

/* The host that serves, and with it those that are next in the order, or the
 * last ones, or each other one. */
static void lose_minority(struct sim *s, int n, int which, bool silent)
{
    for (int k = 0; k < minority_of(n); k++) {
        int i = k == 0 || which == 0 ? k : which == 1 ? n - k : 2 * k;
        if (silent)
            sim_power_off(s, i);
        else
            sim_kill(s, i);
    }
}

/* A majority meets within heartbeat_timeout + 1 s whichever hosts are lost with
 * the one that serves, silently or not. */
TEST_LOOP(test_hosts_majority_meets_whichever_hosts_are_lost,
          0,
          MANY *HEARTBEATS)
{
    int n = many[_i / HEARTBEATS];
    int64_t heartbeat_ms = heartbeats_ms[_i % HEARTBEATS];
    int longest_ms = 0;
    for (int k = 0; k < 6; k++) {
        struct sim_conf conf = hosts_conf(2, n);
        conf.heartbeat_ms = heartbeat_ms;
        conf.reconnect_ms = 60000;
        conf.trace = n < 30;
        struct sim *s = hosts_new(&conf, n);
        story_check(s, count_running(s, 0) == n, "%d nodes run", n);
        lose_minority(s, n, k % 3, k < 3);
        int took_ms =
            all_run_within(s, (int)heartbeat_ms + 1000, n - minority_of(n), 1);
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        story_check(s, count_instances(s) == 1, "it is one run");
        sim_del(s);
    }
    printf("%d nodes, heartbeat %d ms: %d are lost at once, the others run %d "
           "ms later at most\n",
           n, (int)heartbeat_ms, minority_of(n), longest_ms);
}

/* The node's own server's answers count, or another one's that took over. */
static bool is_served(const struct sim *s, int i)
{
    const struct agent *a = sim_agent(s, i);
    return a->session.state == AGENT_SESSION_HEARD && !a->session.looking &&
           a->lease_until_us > sim_now_us(s);
}

/* A host is cut off for some time, be it the one that serves or another one: it
 * is back within 2 s of the cable. */
TEST_LOOP(test_hosts_node_that_was_cut_off_is_back_in_time, 0, 12 * HEARTBEATS)
{
    static const int cut_ms[] = {300, 500, 1500, 4000, 20000, 70000};
    int host = _i % 2 == 0 ? 0 : 5;
    int64_t ms = 3000 + cut_ms[_i / 2 % 6];
    struct sim_conf conf = hosts_conf(2, 9);
    conf.heartbeat_ms = heartbeats_ms[_i / 12];
    conf.reconnect_ms = 600000;
    struct sim *s = hosts_new(&conf, 9);
    sim_cut(s, host, true, true);
    story_until(s, ms);
    sim_heal(s, host);
    story_until(s, ms + 2000);
    story_check(s, is_served(s, host), "n%d is back", host);
    (void)all_run_within(s, 2000, 9, 0);
    sim_del(s);
}

/* The leader's host is quarantined, so that it is no voter's, and the
 * endpoint's host is gone: a member whose cable blinks finds the leader
 * nevertheless, where it had its last lease. */
TEST_LOOP(test_hosts_leader_that_is_no_voter_is_found_again, 0, 4)
{
    struct sim_conf conf = hosts_conf(3, 5);
    conf.node_strikes = 1;
    conf.cooldown_ms = 600000;
    conf.reconnect_ms = 600000;
    struct sim *s = hosts_new(&conf, 5);
    sim_power_off(s, 0);
    (void)all_run_within(s, HEARTBEAT_MS + 1000, 4, 1);
    int host = sim_tenant(s, sim_serving(s));
    sim_worker_dies(s, host, 0, 1, 0);
    (void)all_run_within(s, 5000, 3, round_of(s, host));
    story_until(s, sim_now_us(s) / 1000 + 3000);
    story_check(s, sim_workers(s, host) == 0 && sim_serving(s) == host,
                "n%d leads, and has no place", host);
    int other = host == 4 ? 3 : 4;
    sim_cut(s, other, true, true);
    story_until(s, sim_now_us(s) / 1000 + 300 + _i * 400);
    sim_heal(s, other);
    story_until(s, sim_now_us(s) / 1000 + 2000);
    story_check(s, is_served(s, other), "n%d is back", other);
    (void)all_run_within(s, 2000, 3, 1);
    sim_del(s);
}

/* Found by losing hosts, when a round without a spare had longer leases: the
 * next server waited for these. The host is lost, or cut off for 3 s. */
TEST_LOOP(test_hosts_silent_loss_is_over_in_time_also_if_the_spare_came_late,
          0,
          2)
{
    struct sim_conf conf = hosts_conf(3, 3);
    struct sim *s = hosts_new(&conf, 3);
    story_until(s, 6000);
    int spare = sim_launch(s);
    story_until(s, 8000);
    story_check(s, count_running(s, 0) == 3 && sim_workers(s, spare) == 0,
                "three run, and one waits");
    int host = sim_tenant(s, sim_serving(s));
    if (_i == 0)
        sim_power_off(s, host);
    else
        sim_cut(s, host, true, true);
    (void)all_run_within(s, HEARTBEAT_MS + 1000, 3, 1);
    story_until(s, 11000);
    if (_i == 1)
        sim_heal(s, host);
    story_until(s, 20000);
    story_check(s, count_running(s, 1) == 3, "three go on");
    sim_del(s);
}

/* All its processes are killed. */
TEST_LOOP(test_hosts_death_of_who_serves_is_over_at_once, 0, SIZES)
{
    int n = sizes[_i].nodes;
    struct sim_conf conf = hosts_conf(sizes[_i].min, n);
    struct sim *s = hosts_new(&conf, n);
    int longest_ms = 0;
    for (int left = n - 1; left >= sizes[_i].min && left > 1; left--) {
        int host = sim_tenant(s, sim_serving(s));
        int64_t round = round_of(s, host);
        sim_kill(s, host);
        int took_ms = all_run_within(s, 200, left, round);
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        story_until(s, sim_now_us(s) / 1000 + 5000);
    }
    printf("%d nodes: who serves is killed, the others run %d ms later at "
           "most\n",
           n, longest_ms);
    sim_del(s);
}

/* Its user ends it by SIGTERM, and each next one that serves, down to one node:
 * the round after it is not left in doubt, at whatever time its workers and
 * those of the others end. */
TEST_LOOP(test_hosts_leave_of_who_serves_is_over_at_once, 0, 40)
{
    static const int nodes[] = {2, 3, 4, 8};
    int n = nodes[_i % 4], longest_ms = 0;
    struct sim_conf conf = hosts_conf(1, n);
    conf.seed = 1 + (uint64_t)_i;
    conf.jitter_us = _i < 4 ? 0 : 3 * MONO_MS;
    struct sim *s = hosts_new(&conf, n);
    for (int left = n - 1; left >= 1; left--) {
        int host = sim_tenant(s, sim_serving(s));
        int64_t round = round_of(s, host);
        sim_signal(s, host, SIGTERM);
        int took_ms = all_run_within(s, _i < 4 ? 50 : 500, left, round);
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
        story_until(s, sim_now_us(s) / 1000 + 3000);
        story_check(s, sim_exit_status(s, host) == 128 + SIGTERM, "it left");
        story_check(s, count_running(s, round) == left, "they go on");
    }
    if (_i < 4)
        printf("%d nodes: who serves leaves, the others run %d ms later at "
               "most\n",
               n, longest_ms);
    sim_del(s);
}

/* The other one of two stops its workers for longer than that launcher waits,
 * which is dead by then. */
TEST(test_hosts_leave_of_one_of_two_waits_for_no_slow_worker)
{
    struct sim_conf conf = hosts_conf(1, 2);
    conf.grace_ms = 3000;
    struct sim *s = hosts_new(&conf, 2);
    sim_stubborn(s, 1);
    sim_signal(s, 0, SIGTERM);
    story_until(s, 4500);
    story_check(s, sim_exit_status(s, 0) == 128 + SIGTERM, "it left");
    (void)all_run_within(s, 3000, 1, 1);
    sim_del(s);
}

/* It comes back under its name while the others run, or wait for it. */
TEST_LOOP(test_hosts_killed_host_that_comes_back_has_its_place, 0, 2)
{
    int min = _i == 0 ? 2 : 3;
    struct sim_conf conf = hosts_conf(min, 3);
    struct sim *s = hosts_new(&conf, 3);
    sim_kill(s, 0);
    story_until(s, 4000);
    story_check(s, sim_launch_again(s, 0) == 3, "it is launched again");
    int took_ms = all_run_within(s, 5000, 3, 1);
    printf("%d..3 nodes: who served is back, all run after %d ms\n", min,
           took_ms);
    sim_del(s);
}

/* -- a list ---------------------------------------------------------------- */

/* The first of two servers outside is lost, or ends in order, which has no
 * workers: none of any node is killed, and nobody starts anew. */
TEST_LOOP(test_hosts_loss_of_a_host_without_workers_stops_none, 0, 3)
{
    struct sim_conf conf = hosts_conf(2, 3);
    conf.endpoints = 2;
    conf.endpoint[0] = SIM_OUTSIDE;
    conf.endpoint[1] = SIM_OUTSIDE + 1;
    struct sim *s = hosts_new(&conf, 3);
    if (_i == 0)
        sim_cut_machine(s, SIM_OUTSIDE, true, true);
    else if (_i == 1)
        sim_kill_on(s, SIM_OUTSIDE);
    else
        sim_end_on(s, SIM_OUTSIDE);
    for (int at_ms = 3000; at_ms < 20000; at_ms += 10) {
        story_until(s, at_ms);
        for (int i = 0; i < 3; i++)
            story_check(s, sim_workers(s, i) == 2 && round_of(s, i) == 1,
                        "n%d runs on", i);
    }
    story_check(s, sim_serving(s) != SIM_OUTSIDE, "another one serves");
    sim_finish(s, 0);
    story_until(s, 30000);
    for (int i = 0; i < 3; i++)
        story_check(s, sim_exit_status(s, i) == 0, "n%d ends with 0", i);
    sim_del(s);
}

/* The first server of a list is down when the run begins. If it needs so many
 * nodes that no other run can have as many, it begins at the next one; else it
 * waits for the first. A node that asks at the first one later finds it. */
TEST_LOOP(test_hosts_run_begins_where_two_cannot, 0, 2)
{
    bool waits = _i == 1;
    struct sim_conf conf = hosts_conf(waits ? 1 : 2, waits ? 2 : 3);
    conf.endpoints = 2;
    conf.endpoint[0] = SIM_OUTSIDE;
    conf.endpoint[1] = SIM_OUTSIDE + 1;
    struct sim *s = sim_new(&conf);
    sim_start_on(s, SIM_OUTSIDE + 1);
    (void)sim_launch(s);
    (void)sim_launch(s);
    story_until(s, 8000);
    story_check(s, count_running(s, 0) == (waits ? 0 : 2), "two run or wait");
    sim_start_on(s, SIM_OUTSIDE);
    story_until(s, 10000);
    if (!waits)
        (void)sim_launch(s);
    (void)all_run_within(s, 6000, waits ? 2 : 3, 0);
    story_check(s, count_instances(s) == 1, "it is one run");
    sim_del(s);
}

/* The first server comes when nodes wait at the next one already, and others
 * come to the first: they meet. */
TEST(test_hosts_nodes_that_wait_at_two_addresses_meet)
{
    struct sim_conf conf = hosts_conf(3, 4);
    conf.endpoints = 3;
    conf.endpoint[0] = SIM_OUTSIDE;
    conf.endpoint[1] = SIM_OUTSIDE + 1;
    conf.endpoint[2] = SIM_OUTSIDE + 2;
    struct sim *s = sim_new(&conf);
    sim_start_on(s, SIM_OUTSIDE + 2);
    (void)sim_launch(s);
    story_until(s, 2000);
    sim_start_on(s, SIM_OUTSIDE + 1);
    (void)sim_launch(s);
    story_until(s, 4000);
    sim_start_on(s, SIM_OUTSIDE);
    (void)sim_launch(s);
    (void)all_run_within(s, 5000, 3, 0);
    story_check(s, count_instances(s) == 1 && sim_serving(s) == SIM_OUTSIDE,
                "at the first one");
    sim_del(s);
}

/* -- an operator ----------------------------------------------------------- */

/* Two of three lose their power at once: the third one waits, until an operator
 * says that they are dead; a node that comes after that is a newcomer. */
TEST_LOOP(test_hosts_operator_gives_up_two_of_three, 0, 3)
{
    struct sim_conf conf = hosts_conf(1, 3);
    struct sim *s = hosts_new(&conf, 3);
    int left = _i; /* the server is at node 0, or that is lost */
    sim_power_off(s, (left + 1) % 3);
    sim_power_off(s, (left + 2) % 3);
    story_until(s, 8000);
    story_check(s, count_running(s, 0) == 0, "the third one waits");
    int64_t tried_ms = 8000;
    while (!sim_go_on(s) && tried_ms < 20000)
        story_until(s, tried_ms += 100);
    int took_ms = until_they_run(s, 1, 1);
    story_check(s, took_ms <= 2 * HEARTBEAT_MS, "it runs after %d ms", took_ms);
    story_check(s, !sim_go_on(s), "nothing is to be given up any more");
    int64_t alone = round_of(s, left);
    /* One that is new asks at the endpoint. */
    int back = sim_launch_again(s, left == 0 ? 1 : 0);
    took_ms = until_they_run(s, 2, alone);
    story_check(s, took_ms <= 20000 && sim_workers(s, back) > 0,
                "both run after %d ms", took_ms);
    sim_del(s);
}

/* -- no two authorities ---------------------------------------------------- */

/* The side of who serves has two of five: it fences, the other one goes on;
 * united, all five run. */
TEST(test_hosts_partition_leaves_one_authority)
{
    struct sim_conf conf = hosts_conf(2, 5);
    struct sim *s = hosts_new(&conf, 5);
    sim_partition(s, 0x3, true, true);
    (void)all_run_within(s, HEARTBEAT_MS + 1000, 3, 1);
    story_check(s, sim_workers(s, 0) + sim_workers(s, 1) == 0,
                "the others do not");
    story_until(s, 8000);
    sim_unite(s);
    (void)all_run_within(s, 5000, 5, 2);
    sim_del(s);
}

/* A firewall resets all that one node sends: it believes that nobody listens.
 * Its workers are dead before the others run without them. */
TEST(test_hosts_rejected_node_fences_itself)
{
    struct sim_conf conf = hosts_conf(2, 3);
    struct sim *s = hosts_new(&conf, 3);
    sim_reject(s, 2);
    (void)all_run_within(s, HEARTBEAT_MS + 1000, 2, 1);
    story_check(s, sim_workers(s, 2) == 0, "the third one does not");
    sim_heal(s, 2);
    (void)all_run_within(s, 5000, 3, 2);
    sim_del(s);
}

/* Two servers behind one address: nodes come to either, and one round runs. */
TEST_LOOP(test_hosts_two_servers_behind_one_address_are_one_authority, 0, 8)
{
    struct sim_conf conf = hosts_conf(3, 4);
    conf.endpoints = 0;
    conf.behind = 2;
    conf.jitter_us = 500;
    conf.seed = (uint64_t)_i + 1;
    struct sim *s = sim_new(&conf);
    sim_start_on(s, SIM_OUTSIDE);
    sim_start_on(s, SIM_OUTSIDE + 1);
    for (int i = 0; i < 4; i++)
        (void)sim_launch(s);
    story_until(s, 3000);
    for (int k = 0; k < 5; k++) {
        sim_relay_dies(s, SIM_OUTSIDE + k % 2, k % 3);
        story_until(s, 8000 + k * 5000);
    }
    story_until(s, 60000);
    int running = count_running(s, 0);
    story_check(s, running == 4 || running == 3, "%d nodes run", running);
    sim_del(s);
}

/* Clocks of which some are fast and some slow by 3 % cost no lease. */
TEST_LOOP(test_hosts_clocks_that_drift_cost_no_lease, 0, 2)
{
    struct sim_conf conf = hosts_conf(2, 3);
    struct sim *s = sim_new(&conf);
    sim_drifts(s, 0, _i == 0 ? 30000 : -30000);
    sim_drifts(s, 1, _i == 0 ? -30000 : 30000);
    for (int i = 0; i < 3; i++)
        (void)sim_launch(s);
    story_until(s, 120000);
    story_check(s, sim_counted(s, SIM_ROUNDS) == 1 && count_running(s, 0) == 3,
                "all run in the first round");
    sim_del(s);
}

STORY_SUITE("hosts", "fast sim")
