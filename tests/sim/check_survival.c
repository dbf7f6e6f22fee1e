/* links: tests/sim/{sim,story} */
/* libs: -lcjson */
/*
 * Which hosts may be lost: the cells of the table in docs/operations.md, "What
 * may die". A row loses hosts, once or several times, and says how many nodes
 * run after each; 0: the rest stops and waits.
 */
#include <check.h>
#include <signal.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/sim/story.h"

#define STEPS 3
#define AFTER 8000 /* ms; a launcher without a server gives up after 10 s */

enum place {
    EMBEDDED, /* node 0 serves */
    EXTERNAL, /* one daemon, on a machine of its own */
    LIST      /* two of these */
};

struct loss {
    bool server; /* the machine that serves, with its node if it has one */
    int others;  /* so many nodes besides */
    bool silent; /* no power; else all processes are killed */
    int run;     /* nodes that run then */
};

static const struct row {
    enum place place;
    int nodes;
    struct loss steps[STEPS];
} rows[] = {
    /* Two nodes, one serves. */
    {EMBEDDED, 2, {{false, 1, false, 1}}},
    {EMBEDDED, 2, {{false, 1, true, 1}}},
    {EMBEDDED, 2, {{true, 0, false, 1}}},
    {EMBEDDED, 2, {{true, 0, true, 0}}},
    /* Three: any one. */
    {EMBEDDED, 3, {{false, 1, false, 2}}},
    {EMBEDDED, 3, {{false, 1, true, 2}}},
    {EMBEDDED, 3, {{true, 0, false, 2}}},
    {EMBEDDED, 3, {{true, 0, true, 2}}},
    /* 3 -> 2 -> 1: the second loss. */
    {EMBEDDED, 3, {{true, 0, true, 2}, {false, 1, true, 1}}},
    {EMBEDDED, 3, {{true, 0, true, 2}, {true, 0, false, 1}}},
    {EMBEDDED, 3, {{true, 0, true, 2}, {true, 0, true, 0}}},
    {EMBEDDED, 3, {{false, 1, true, 2}, {true, 0, true, 0}}},
    /* Several at once: silent, ... */
    {EMBEDDED, 3, {{false, 2, true, 0}}},
    {EMBEDDED, 3, {{true, 1, true, 0}}},
    {EMBEDDED, 4, {{false, 2, true, 2}}},
    {EMBEDDED, 4, {{true, 1, true, 0}}},
    {EMBEDDED, 5, {{true, 1, true, 3}}},
    {EMBEDDED, 5, {{false, 3, true, 0}}},
    {EMBEDDED, 8, {{false, 4, true, 4}}},
    {EMBEDDED, 8, {{true, 2, true, 5}}},
    {EMBEDDED, 8, {{true, 3, true, 0}}},
    /* ... and killed, so that the server hears their last words. */
    {EMBEDDED, 3, {{false, 2, false, 1}}},
    {EMBEDDED, 8, {{false, 7, false, 1}}},
    {EMBEDDED, 3, {{true, 1, false, 1}}},
    {EMBEDDED, 5, {{true, 1, false, 3}}},
    /* One after the other, down to two. */
    {EMBEDDED, 5, {{true, 0, true, 4}, {true, 0, true, 3}, {true, 0, true, 2}}},
    /* The daemon, and half of the nodes. */
    {EXTERNAL, 4, {{true, 0, true, 4}}},
    {EXTERNAL, 4, {{true, 0, false, 4}}},
    {EXTERNAL, 4, {{false, 2, true, 2}}},
    {EXTERNAL, 4, {{false, 3, true, 0}}},
    {EXTERNAL, 4, {{true, 1, true, 3}}},
    {EXTERNAL, 4, {{true, 2, true, 0}}},
    {EXTERNAL, 2, {{true, 0, true, 2}, {false, 1, true, 1}}},
    /* A list: each of its machines, one after the other, then the nodes. */
    {LIST, 4, {{true, 0, true, 4}, {true, 0, true, 4}}},
    {LIST, 2, {{false, 1, true, 1}}},
    {LIST, 3, {{true, 0, true, 3}, {false, 1, true, 2}}},
    {LIST, 3, {{true, 1, true, 2}, {true, 0, true, 2}}},
};

static struct sim *begin(const struct row *row)
{
    struct sim_conf conf = story_conf(1, row->nodes, 3);
    conf.endpoints = row->place == LIST ? 2 : 1;
    conf.endpoint[0] = row->place == EMBEDDED ? 0 : SIM_OUTSIDE;
    conf.endpoint[1] = SIM_OUTSIDE + 1;
    struct sim *s = sim_new(&conf);
    for (int i = 0; i < conf.endpoints && row->place != EMBEDDED; i++)
        sim_start_on(s, SIM_OUTSIDE + i);
    for (int i = 0; i < row->nodes; i++)
        (void)sim_launch(s);
    story_until(s, 3000);
    return s;
}

static int count_running(const struct sim *s)
{
    int n = 0;
    for (int i = 0; i < sim_agents(s); i++)
        n += sim_workers(s, i) > 0 && sim_agent(s, i)->work == AGENT_RUNNING;
    return n;
}

static void lose_node(struct sim *s, int i, bool silent)
{
    if (silent)
        sim_power_off(s, i);
    else
        sim_kill(s, i);
}

static void lose(struct sim *s, const struct loss *l)
{
    int machine = sim_serving(s);
    int tenant = machine < SIM_OUTSIDE ? sim_tenant(s, machine) : -1;
    if (l->server && tenant >= 0)
        lose_node(s, tenant, l->silent);
    else if (l->server && l->silent)
        sim_cut_machine(s, machine, true, true);
    else if (l->server)
        sim_kill_on(s, machine);
    int left = l->others;
    for (int i = sim_agents(s) - 1; i >= 0 && left > 0; i--)
        if (i != tenant && sim_is_alive(s, i)) {
            lose_node(s, i, l->silent);
            left--;
        }
}

TEST_EACH(test_survival_of_each_loss_is_as_the_manual_says, rows)
{
    const struct row *row = &rows[_i];
    struct sim *s = begin(row);
    story_check(s, count_running(s) == row->nodes, "row %d: all run", _i);
    for (int k = 0; k < STEPS; k++) {
        const struct loss *l = &row->steps[k];
        if (!l->server && l->others == 0)
            break;
        lose(s, l);
        story_until(s, sim_now_us(s) / MONO_MS + AFTER);
        story_check(s, count_running(s) == l->run,
                    "row %d, loss %d: %d nodes run, not %d", _i, k + 1,
                    count_running(s), l->run);
    }
    sim_del(s);
}

/*
 * More nodes than voters: a part of them falls silent at once, neighbours by
 * their group ranks (a rack), or all of them voters. Half of the 31 votes have
 * to be left, so 16: whichever 15 nodes are lost, the others go on.
 */
static const struct part {
    int nodes;
    int from, lost; /* the first group rank, and how many */
    bool voters;    /* none is lost but these */
    bool goes_on;
} parts[] = {
    {33, 0, 16, false, true},  {33, 8, 16, false, true},
    {33, 16, 16, false, true}, {33, 17, 16, false, true},
    {40, 0, 16, false, true},  {40, 24, 16, false, true},
    {62, 0, 30, false, true},  {62, 31, 30, false, true},
    {62, 0, 15, true, true},   {62, 0, 16, true, false},
    {32, 0, 15, true, true},
};

/* By its group rank in the first round. */
static int node_of_rank(const struct sim *s, int group_rank)
{
    for (int i = 0; i < sim_agents(s); i++)
        if (sim_agent(s, i)->round.world.group_rank == group_rank)
            return i;
    ck_abort_msg("no node has group rank %d", group_rank);
    return -1;
}

/* As the node itself was told. */
static bool is_voter(const struct sim *s, int i)
{
    return sim_agent(s, i)->vote.state == AGENT_VOTE_IN_FORCE;
}

TEST_EACH(test_survival_of_a_part_hangs_on_its_votes, parts)
{
    const struct part *part = &parts[_i];
    const struct row row = {.place = LIST, .nodes = part->nodes};
    struct sim *s = begin(&row);
    story_check(s, count_running(s) == part->nodes, "part %d: all run", _i);
    int voters = 0, lost = 0;
    for (int i = 0; i < part->nodes; i++)
        voters += is_voter(s, i);
    story_check(s, voters == 31, "part %d: %d voters", _i, voters);
    for (int rank = part->from; lost < part->lost; rank++) {
        int i = node_of_rank(s, rank);
        if (part->voters && !is_voter(s, i))
            continue;
        sim_power_off(s, i);
        lost++;
    }
    story_until(s, 3000 + AFTER);
    int run = part->goes_on ? part->nodes - part->lost : 0;
    story_check(s, count_running(s) == run, "part %d: %d nodes run, not %d", _i,
                count_running(s), run);
    sim_del(s);
}

/* One node is killed, and the other falls silent at once: nobody of the round
 * is left. The silent one may have been sent on elsewhere, by an operator. So
 * the first one, launched again, is given no place in that instance: it begins
 * another one. */
TEST(test_survival_of_none_of_the_round_begins_another_instance)
{
    static const struct row row = {.place = LIST, .nodes = 2};
    struct sim *s = begin(&row);
    lose_node(s, 0, false);
    lose_node(s, 1, true);
    story_until(s, 3100);
    int again = sim_launch_again(s, 0);
    ck_assert_int_ge(again, 0);
    story_until(s, 3100 + AFTER);
    const char *instance = sim_agent(s, again)->round.world.instance;
    bool other =
        !msg_same_instance(instance, sim_agent(s, 1)->round.world.instance);
    story_check(s, sim_workers(s, again) > 0 && other, "another instance runs");
    sim_del(s);
}

/* Of two nodes one fell silent; Ctrl-C on the other one. Its vote stands, since
 * it leaves, but it lives, and knows of the end: that takes a second. */
TEST(test_survival_of_a_silent_node_does_not_delay_a_users_end)
{
    static const struct row row = {.place = LIST, .nodes = 2};
    struct sim *s = begin(&row);
    lose_node(s, 1, true);
    story_until(s, 3100);
    sim_signal(s, 0, SIGINT);
    story_until(s, 4100);
    story_check(s, !sim_is_alive(s, 0) && sim_exit_status(s, 0) == 128 + SIGINT,
                "the launcher has ended");
    sim_del(s);
}

STORY_SUITE("survival", "fast sim")
