/* links: tests/sim/{sim,story} */
/* libs: -lcjson */
/*
 * What the cores say in each kind of fault, line for line: the traces in
 * tests/sim/traces are the assertions. Each begins where the case does. In this
 * world a message takes one millisecond and a worker that gets SIGTERM ten.
 *
 *     TRACES=write    writes them anew, to be read before they are believed
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/story.h"

#define TRACE_MAX 20000

/* The server has been there for a lease when the nodes are launched: it founds
 * no run sooner, unless all are here. */
#define BEGIN_MS 1000

/* That many milliseconds after the first launch. */
static void until(struct sim *s, int64_t at_ms)
{
    story_until(s, BEGIN_MS + at_ms);
}

static struct sim *begin(const struct sim_conf *conf)
{
    struct sim *s = story_new(conf, 0);
    until(s, 0);
    return s;
}

static struct sim *world(int min, int max, int restarts)
{
    struct sim_conf conf = story_conf(min, max, restarts);
    return begin(&conf);
}

/* The same with a --scale_interval. */
static struct sim *slow_world(int max, int64_t scale_ms)
{
    struct sim_conf conf = story_conf(1, max, 0);
    conf.scale_ms = scale_ms;
    return begin(&conf);
}

/* Two nodes that were launched a second ago, and have run since 604 ms after
 * that, or before. */
static struct sim *two_nodes(int min, int max, int restarts)
{
    struct sim *s = world(min, max, restarts);
    (void)sim_launch(s);
    (void)sim_launch(s);
    until(s, 1000);
    return s;
}

static void read_trace(const char *path, char *text)
{
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s is missing: run this from the root", path);
    size_t len = fread(text, 1, TRACE_MAX - 1, f);
    text[len] = '\0';
    ck_assert_int_eq(fclose(f), 0);
}

static void write_trace(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* Compares what was told since then, and ends the world. */
static void expect(struct sim *s, int from_ms, const char *name)
{
    char path[200];
    char wanted[TRACE_MAX];
    (void)snprintf(path, sizeof(path), "tests/sim/traces/%s.txt", name);
    const char *told = sim_trace(s);
    while (*told != '\0' && strtol(told + 1, NULL, 10) < BEGIN_MS + from_ms)
        told = strchr(told, '\n') + 1;
    if (getenv("TRACES") != NULL)
        write_trace(path, told);
    read_trace(path, wanted);
    ck_assert_str_eq(told, wanted);
    ck_assert_msg(sim_broken(s) == NULL, "%s", sim_broken(s));
    sim_del(s);
}

/* The last call begins with the second of 2..4 nodes; the third comes in it. */
TEST(test_sim_first_round_waits_for_last_call)
{
    struct sim *s = world(2, 4, 3);
    (void)sim_launch(s);
    until(s, 100);
    (void)sim_launch(s);
    until(s, 200);
    (void)sim_launch(s);
    until(s, 1000);
    expect(s, 0, "first_round");
}

TEST(test_sim_worker_failure_restarts_all_and_is_charged)
{
    struct sim *s = two_nodes(2, 2, 3);
    sim_worker_dies(s, 1, 0, 7, 0);
    until(s, 1200);
    ck_assert_int_eq(sim_agent(s, 0)->round.world.restarts, 1);
    ck_assert_int_eq(sim_agent(s, 1)->round.world.restarts, 1);
    expect(s, 1000, "worker_failure");
}

TEST(test_sim_killed_node_is_left_out_at_its_farewell)
{
    struct sim *s = two_nodes(1, 2, 3);
    sim_kill(s, 1);
    until(s, 1200);
    ck_assert_int_eq(sim_agent(s, 0)->round.world.restarts, 0);
    expect(s, 1000, "killed_node");
}

/* One heartbeat_timeout after its last beat, and not earlier. */
TEST(test_sim_silent_node_is_left_out_when_its_lease_is_over)
{
    struct sim *s = two_nodes(1, 2, 3);
    sim_power_off(s, 1);
    until(s, 2500);
    expect(s, 1000, "silent_node");
}

/* The node kills its workers before the server goes on without it. */
TEST(test_sim_cut_node_fences_itself_and_comes_back)
{
    struct sim *s = two_nodes(1, 2, 3);
    sim_cut(s, 1, true, true);
    until(s, 3000);
    sim_heal(s, 1);
    until(s, 6000);
    expect(s, 1000, "cut_node");
}

/* A firewall answers for the server, which lives: that is no reason for the
 * node's workers to run on beside the next round. */
TEST(test_sim_rejected_node_fences_itself)
{
    struct sim *s = two_nodes(1, 2, 3);
    sim_reject(s, 1);
    until(s, 3000);
    ck_assert_int_eq(sim_workers(s, 1), 0);
    sim_heal(s, 1);
    until(s, 6000);
    expect(s, 1000, "rejected_node");
}

/* Its nodes go on by themselves. */
TEST(test_sim_daemon_that_ends_in_order_stops_nobody)
{
    struct sim *s = two_nodes(1, 2, 3);
    sim_server_end(s);
    until(s, 8000);
    ck_assert(!sim_server_is_up(s));
    sim_server_start(s);
    until(s, 12000);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sim_agent(s, i)->round.world.round, 1);
        ck_assert_int_eq(sim_workers(s, i), 2);
    }
    expect(s, 1000, "daemon_ended");
}

TEST(test_sim_daemon_that_dies_stops_nobody)
{
    struct sim *s = two_nodes(2, 2, 3);
    sim_server_kill(s);
    until(s, 1500);
    sim_server_start(s);
    until(s, 9000);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sim_agent(s, i)->round.world.round, 1);
        ck_assert_int_eq(sim_workers(s, i), 2);
    }
    expect(s, 1000, "daemon_restart");
}

/* The spare comes back first, and tells the new daemon of the round. */
TEST(test_sim_daemon_restart_is_not_fooled_by_a_spare)
{
    struct sim *s = two_nodes(2, 2, 3);
    (void)sim_launch(s);
    until(s, 1100);
    sim_cut(s, 0, true, true);
    sim_cut(s, 1, true, true);
    sim_server_kill(s);
    sim_server_start(s);
    until(s, 1300);
    sim_heal(s, 0);
    sim_heal(s, 1);
    until(s, 9000);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(sim_workers(s, i), 2);
    expect(s, 1100, "daemon_restart_spare");
}

TEST(test_sim_late_node_makes_the_round_larger)
{
    struct sim *s = two_nodes(1, 3, 3);
    (void)sim_launch(s);
    until(s, 1200);
    expect(s, 1000, "scale_up");
}

TEST(test_sim_spare_takes_the_place_of_a_killed_node)
{
    struct sim *s = two_nodes(2, 2, 3);
    (void)sim_launch(s);
    until(s, 1100);
    sim_kill(s, 0);
    until(s, 1300);
    ck_assert_int_eq(sim_agent(s, 2)->round.world.group_rank, 0);
    expect(s, 1000, "spare");
}

TEST(test_sim_killed_node_of_two_is_waited_for)
{
    struct sim *s = two_nodes(2, 2, 3);
    sim_kill(s, 1);
    until(s, 1500);
    (void)sim_launch(s);
    until(s, 1700);
    expect(s, 1000, "replacement");
}

TEST(test_sim_node_told_to_go_leaves_and_the_others_go_on)
{
    struct sim *s = two_nodes(1, 2, 3);
    sim_signal(s, 1, SIGTERM);
    until(s, 1200);
    ck_assert_int_eq(sim_exit_status(s, 1), 128 + SIGTERM);
    expect(s, 1000, "leave");
}

/* n1's workers look whether they are asked, n0's do not. */
TEST(test_sim_drained_node_leaves_at_a_step)
{
    struct sim *s = two_nodes(1, 2, 3);
    sim_listens(s, 1);
    ck_assert(sim_drain(s, 1, false));
    until(s, 1200);
    ck_assert_int_eq(sim_exit_status(s, 1), 80);
    expect(s, 1000, "drain");
}

/* The order is lost with the connection: it is said again. */
TEST(test_sim_drain_reaches_a_node_that_was_away)
{
    struct sim *s = two_nodes(1, 2, 3);
    sim_cut(s, 1, true, true);
    until(s, 1010);
    ck_assert(sim_drain(s, 1, false));
    until(s, 1020);
    sim_reset(s, 1);
    sim_heal(s, 1);
    until(s, 1300);
    ck_assert_int_eq(sim_exit_status(s, 1), 80);
    expect(s, 1000, "drain_lost");
}

TEST(test_sim_order_ends_the_run_on_all)
{
    struct sim *s = two_nodes(1, 2, 3);
    ck_assert(sim_end(s));
    until(s, 1200);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(sim_exit_status(s, i), 84);
    expect(s, 1000, "ended");
}

TEST(test_sim_interrupt_on_one_node_ends_the_run_on_all)
{
    struct sim *s = two_nodes(1, 2, 3);
    sim_signal(s, 1, SIGINT);
    until(s, 1200);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(sim_exit_status(s, i), 128 + SIGINT);
    expect(s, 1000, "interrupt");
}

TEST(test_sim_spent_budget_ends_all_with_the_root_cause)
{
    struct sim *s = two_nodes(2, 2, 1);
    sim_worker_dies(s, 1, 1, 7, 0);
    until(s, 1200);
    sim_worker_dies(s, 0, 1, 0, SIGSEGV);
    until(s, 1400);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sim_exit_status(s, i), 128 + SIGSEGV);
        ck_assert_int_eq(sim_agent(s, i)->verdict.end.rank, 1);
        ck_assert_str_eq(sim_agent(s, i)->verdict.end.node, "n0");
    }
    expect(s, 1000, "budget_spent");
}

/* The survivor's worker fails first; its peer's loss comes to light later. */
TEST(test_sim_failure_that_a_loss_caused_is_not_charged)
{
    struct sim *s = two_nodes(1, 2, 0);
    sim_power_off(s, 1);
    until(s, 1100);
    sim_worker_dies(s, 0, 0, 1, 0);
    until(s, 2500);
    ck_assert_int_eq(sim_agent(s, 0)->round.world.restarts, 0);
    expect(s, 1000, "refund");
}

TEST(test_sim_run_ends_when_the_last_node_is_done)
{
    struct sim *s = two_nodes(2, 2, 3);
    sim_finish_node(s, 1);
    until(s, 1100);
    sim_finish_node(s, 0);
    until(s, 1400);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(sim_exit_status(s, i), 0);
    expect(s, 1000, "done");
}

/* What a node did stays done when its launcher is lost after it. */
TEST(test_sim_done_node_may_be_lost)
{
    struct sim *s = two_nodes(2, 2, 3);
    sim_finish_node(s, 1);
    until(s, 1100);
    sim_kill(s, 1);
    until(s, 1200);
    sim_finish_node(s, 0);
    until(s, 1400);
    ck_assert_int_eq(sim_exit_status(s, 0), 0);
    expect(s, 1000, "done_and_lost");
}

/* A stopped server stops no worker, though its silence is longer than
 * heartbeat_timeout. */
TEST(test_sim_silent_server_stops_no_job)
{
    struct sim *s = two_nodes(2, 2, 3);
    until(s, 2000);
    sim_server_freeze(s);
    until(s, 6000);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(sim_workers(s, i), 2);
    sim_server_thaw(s);
    until(s, 9000);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sim_agent(s, i)->round.world.round, 1);
        ck_assert_int_eq(sim_workers(s, i), 2);
    }
    expect(s, 1000, "silent_server");
}

/* The first late one at once, the two after it together. */
TEST(test_sim_late_nodes_are_taken_together)
{
    struct sim *s = slow_world(5, 2000);
    (void)sim_launch(s);
    until(s, 1000);
    (void)sim_launch(s);
    until(s, 1500);
    (void)sim_launch(s);
    until(s, 2000);
    (void)sim_launch(s);
    until(s, 3500);
    ck_assert_int_eq(sim_agent(s, 0)->round.world.group_world, 4);
    expect(s, 1000, "scale_together");
}

/* Workers of n0 look whether they are asked, those of n1 do not. */
TEST(test_sim_workers_are_asked_before_a_node_is_added)
{
    struct sim *s = two_nodes(1, 3, 0);
    sim_listens(s, 0);
    (void)sim_launch(s);
    until(s, 1200);
    expect(s, 1000, "scale_asked");
}

/* They look, but never leave: SIGTERM after the grace, SIGKILL after another.
 */
TEST(test_sim_workers_that_do_not_leave_are_told_then_killed)
{
    struct sim *s = two_nodes(1, 3, 0);
    sim_listens(s, 0);
    sim_stubborn(s, 0);
    (void)sim_launch(s);
    until(s, 3500);
    expect(s, 1000, "scale_stubborn");
}

/* ... but for a short time only if the other node's failed. */
TEST(test_sim_workers_that_ignore_sigterm_hold_up_a_restart_shortly)
{
    struct sim *s = two_nodes(2, 2, 3);
    sim_stubborn(s, 0);
    sim_worker_dies(s, 1, 0, 7, 0);
    until(s, 1500);
    expect(s, 1000, "failure_stubborn");
}

/* Its workers got the notice before its launcher did: no restart is charged,
 * though none is left. */
TEST(test_sim_node_that_is_preempted_is_not_charged)
{
    struct sim *s = two_nodes(1, 2, 0);
    sim_worker_dies(s, 1, 0, 0, SIGTERM);
    until(s, 1004);
    sim_signal(s, 1, SIGTERM);
    until(s, 1200);
    ck_assert_int_eq(sim_agent(s, 0)->round.world.restarts, 0);
    ck_assert_int_eq(sim_workers(s, 0), 2);
    ck_assert_int_eq(sim_exit_status(s, 1), 128 + SIGTERM);
    expect(s, 1000, "preempted");
}

TEST(test_sim_too_few_nodes_end_by_timeout_and_say_who_came)
{
    struct sim *s = world(2, 2, 3);
    (void)sim_launch(s);
    until(s, 31000);
    ck_assert_int_eq(sim_exit_status(s, 0), 75);
    expect(s, 0, "too_few");
}

STORY_SUITE("traces", "fast sim")
