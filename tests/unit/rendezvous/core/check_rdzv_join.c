/* links: tests/unit/rendezvous/core/rdzv_hand */
/* libs: -lcjson */
/*
 * Joining: who gets a place, who is refused and why; what is out of order or
 * makes no sense; who is away keeps nobody out.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/core/budget.h"
#include "tests/unit/rendezvous/core/rdzv_hand.h"

/* -- joining --------------------------------------------------------------- */

TEST(test_rdzv_round_is_sealed_when_the_most_are_there)
{
    join(0);
    ck_assert(told(0, "lease") && told(0, "waiting") && !told(0, "world"));
    join(1);
    ck_assert(told(0, "world") && told(1, "world"));
    ck_assert_int_eq(placed[0].group_world, 2);
    ck_assert_int_eq(placed[0].world_size, 2);
    ck_assert_str_eq(placed[0].instance, placed[1].instance);
    ck_assert_int_eq(rdzv_nodes(rdzv), 2);
    ck_assert_int_eq(rdzv_live_runs(rdzv), 1);
}

/* Group rank 0 is told where the members are, before its world, and nobody else
 * is; who came over loopback is known by the server's address, and who gave
 * another address than it came from by both. */
TEST(test_rdzv_members_are_told_to_the_first_alone)
{
    struct msg m;
    limits_of(3, 3);
    msg_set(like.addr, "10.0.0.7");
    join(0);
    m = make_join(1);
    msg_set(m.join.addr, "2001:db8::1");
    say(1, &m);
    m = make_join(2);
    msg_set(m.join.addr, "127.0.0.1");
    say(2, &m);
    ck_assert(told(0, "members") && !told(1, "members") && !told(2, "members"));
    ck_assert(strstr(said, "0:members ") < strstr(said, "0:world "));
    ck_assert_str_eq(members_said, "1: 10.0.0.7 10.0.0.1 2001:db8::1 10.0.0.1 "
                                   "10.0.0.9 10.0.0.1 ");
}

/* As many messages as it takes, each address whole. */
TEST(test_rdzv_members_come_in_pieces)
{
    static const char addr[] = "2001:db8:1111:2222:3333:4444:5555:";
    rdzv_del(rdzv);
    rdzv = rdzv_new(&(struct rdzv_limits){.runs_max = 1,
                                          .nodes_max = 40,
                                          .conns_max = CONNS,
                                          .server = "00000000000000aa"},
                    1);
    limits_of(40, 40);
    for (int i = 0; i < 40; i++) {
        struct msg m = make_join(i);
        (void)snprintf(m.join.addr, sizeof(m.join.addr), "%s%x", addr, i + 16);
        say(i, &m);
    }
    int words = 0;
    for (const char *p = members_said; (p = strstr(p, addr)) != NULL; p++)
        words++;
    ck_assert_int_eq(words, 40);
    ck_assert_int_eq(members_pieces, 2);
}

TEST(test_rdzv_last_call_ends_the_wait_for_more)
{
    limits_of(1, 4);
    like.last_call_ms = 500;
    join(0);
    ck_assert(noted("last_call"));
    now_us += 499 * MONO_MS;
    tick(0);
    ck_assert(!told(0, "world"));
    now_us += MONO_MS;
    tick(0);
    ck_assert(told(0, "world"));
}

/* Fewer nodes than the least during last call: it is called off. */
TEST(test_rdzv_last_call_is_called_off)
{
    limits_of(2, 4);
    like.last_call_ms = 500;
    join(0);
    join(1);
    closed(1, true);
    now_us += 600 * MONO_MS;
    tick(0);
    ck_assert(!told(0, "world"));
    beat_of(0, 1, 0, 0);
    join(2);
    ck_assert(noted("last_call") && !told(0, "world"));
}

TEST(test_rdzv_too_few_end_by_timeout)
{
    join(0);
    for (int s = 0; s < 60; s++) {
        pass(1000 * MONO_MS - 1);
        now_us++;
        beat_of(0, s + 1, s, 0);
    }
    ck_assert_int_ne(last[0].kind, MSG_KIND_end);
    tick(0);
    ck_assert_int_eq(last[0].kind, MSG_KIND_end);
    ck_assert_int_eq(last[0].end.status, 75);
    ck_assert_ptr_nonnull(strstr(last[0].end.text, "n0"));
}

/* Each is refused by itself. */
TEST_LOOP(test_rdzv_join_that_makes_no_sense_is_refused, 0, 4)
{
    join(0);
    struct msg m = make_join(1);
    switch (_i) {
    case 0: /* before anything else is looked at */
        m.join.version = MSG_VERSION - 1;
        m.join.nodes_max = 9;
        m.join.options[0] = '\0';
        break;
    case 1:
        m.join.nodes_max = 9;
        break;
    case 2:
        m.join.nodes_min = 3;
        break;
    default:
        m.join.window_ms = 90000;
        m.join.max_restarts = BUDGET_WINDOW_MAX + 1;
        break;
    }
    say(1, &m);
    ck_assert(told(1, "refused") && told(1, "drop") && noted("refused"));
    ck_assert_uint_gt(strlen(last[1].refused.text), 20);
    ck_assert(_i != 0 ||
              strstr(last[1].refused.text, "speaks version 1 ") != NULL);
    join(1);
    ck_assert(told(1, "world"));
}

static const struct {
    const char *ours, *theirs; /* join.options */
    const char *why;
} options[] = {
    {"--nnodes=2\ntrain", "--nnodes=2:4\ntrain",
     "this node was started with --nnodes=2:4, run 'r' has 2; start all nodes "
     "with the same options, or give this job another --rdzv_id"},
    {"--nnodes=2\n--max_restarts=3/90s\ntrain",
     "--nnodes=2\n--max_restarts=5\ntrain",
     "this node was started with --max_restarts=5, run 'r' has 3/90s; start "},
    {"--rdzv_conf=heartbeat_timeout=5s\n--mpi=pmi1\nt",
     "--rdzv_conf=heartbeat_timeout=15s\n--mpi=auto\nt",
     "with --rdzv_conf=heartbeat_timeout=15s, run 'r' has "
     "heartbeat_timeout=5s; "},
    {"--crash_loop=1\ntrain", "--crash_loop=10\ntrain",
     "with --crash_loop=10, run 'r' has 1; "},
    {"--nnodes=2\ntrain", "--nnodes=2\neval",
     "this node was started with the program 'eval', run 'r' has 'train'; "
     "start all nodes with the same program, or give this job another "
     "--rdzv_id"},
    {"--nnodes=2\ntrain", "--nnodes=2\ntrain.py",
     "with the program 'train.py', run 'r' has 'train'; "},
    /* of no launcher of ours */
    {"--nnodes=2\ntrain", "", "with the program '', run 'r' has '--nnodes=2"},
    {"", "--nnodes=2\ntrain", "with --nnodes=2, run 'r' has ; start "},
    {"--nnodes=2\ntrain", "--nnodes\n\n\n",
     "--nnodes, run 'r' has --nnodes=2; "},
    {"--nnodes=2\ntrain", "=\n=", "with =, run 'r' has --nnodes=2; start "},
};

/* Somebody else's job never becomes our spare. The first difference is named.
 */
TEST_EACH(test_rdzv_join_that_differs_is_refused_and_told_why, options)
{
    msg_set(like.options, options[_i].ours);
    join(0);
    struct msg m = make_join(1);
    msg_set(m.join.options, options[_i].theirs);
    say(1, &m);
    ck_assert(told(1, "refused") && told(1, "drop") && noted("refused"));
    ck_assert_int_eq(last[1].refused.code, DDP_E_CONFLICT);
    ck_assert_msg(strstr(last[1].refused.text, options[_i].why) != NULL, "%s",
                  last[1].refused.text);
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
    join(1);
    ck_assert(told(1, "world"));
}

/* -- two launchers on one host --------------------------------------------- */

#define P1 "p11111111aaaaaaaa" /* on the boot 11111111 */
#define P2 "p11111111bbbbbbbb"
#define G1 "g1111111111111111"
#define G2 "g1111111122222222"
#define G3 "g1111111133333333"

static const struct {
    const char *there, *comes; /* join.owns */
    const char *why;           /* the second one is refused; NULL: it is not */
} hosts[] = {
    {P1, P1, "the scheduler gave both the same place"},
    {P1, P2, NULL},
    {P1, "p22222222aaaaaaaa", NULL}, /* a pod that is elsewhere now */
    {"", "", NULL},                  /* people who try */
    {P1, "", NULL},
    {"no hash", "no hash", NULL},
    {"p00000000aaaaaaaa", "p00000000aaaaaaaa", NULL}, /* of no boot */
    {G1, G1, "the workers of both use the same GPU"},
    {G1 " " G2, G3 " " G2, "the same GPU"},
    {G1, G2 " " G3, NULL},
    {G1, "g2222222211111111", NULL},
    {G1, "g111111111111111", NULL},
    {"  " G1 "  ", " ", NULL},
    {P1 " " G1, P2 " " G1, "the same GPU"},
    {G1, "x1111111111111111", NULL},
    {"x1111111111111111", "x1111111111111111", NULL},
};

static struct msg join_from(int who, const char *owns)
{
    struct msg m = make_join(who);
    msg_set(m.join.owns, owns);
    m.join.age_ms = 100;
    return m;
}

TEST_EACH(test_rdzv_second_launcher_on_a_host_is_refused, hosts)
{
    struct msg m = join_from(0, hosts[_i].there);
    say(0, &m);
    m = join_from(1, hosts[_i].comes);
    say(1, &m);
    ck_assert_int_eq(told(1, "refused"), hosts[_i].why != NULL);
    ck_assert_int_eq(told(1, "world"), hosts[_i].why == NULL);
    if (hosts[_i].why == NULL)
        return;
    ck_assert_int_eq(last[1].refused.code, DDP_E_USAGE);
    ck_assert_ptr_nonnull(strstr(last[1].refused.text, hosts[_i].why));
    ck_assert_ptr_nonnull(
        strstr(last[1].refused.text, "another ddprun on this host, n0, and"));
    ck_assert_ptr_nonnull(strstr(last[1].refused.text, "--ntasks-per-node=1"));
}

/* It may be the one that comes back in the place of one that is gone, goes, or
 * is not heard of: and it comes back itself. */
TEST_LOOP(test_rdzv_launcher_in_the_place_of_one_that_is_gone_is_not_refused,
          0,
          6)
{
    struct msg m = join_from(0, P1 " " G1);
    say(0, &m);
    switch (_i) {
    case 0:
        closed(0, true);
        break;
    case 1:
        closed(0, false);
        break;
    case 2:
        leave(0, false);
        break;
    case 3:
        now_us += HEARTBEAT + 1;
        break;
    case 4:
        closed(0, false);
        say(2, &m);
        ck_assert(!told(2, "refused"));
        return;
    default:
        order_drain("r", "n0", true);
        break;
    }
    m = join_from(1, P1 " " G1);
    say(1, &m);
    ck_assert(!told(1, "refused"));
}

/* A launcher may be there in the place of one that was killed, of which nobody
 * knows yet. It comes again until that is lost, or was heard of. */
TEST_LOOP(test_rdzv_launcher_in_a_place_that_may_be_free_is_to_come_again, 0, 2)
{
    struct msg first = join_from(0, P1);
    struct msg second = join_from(1, P1);
    say(0, &first);
    now_us += 100 * MONO_MS;
    for (int i = 0; i < 5; i++) {
        say(1, &second);
        ck_assert(told(1, "drop") && !told(1, "refused"));
        ck_assert_int_eq(rdzv_nodes(rdzv), 1);
        now_us += 100 * MONO_MS;
        second.join.age_ms += 100;
    }
    if (_i == 0)
        now_us += HEARTBEAT;
    else
        beat_of(0, 1, 0, 0);
    say(1, &second);
    ck_assert_int_eq(told(1, "refused"), _i == 1);
    ck_assert_int_eq(told(1, "drop"), _i == 1);
}

/* Another run may be on the same host. */
TEST(test_rdzv_launcher_of_another_run_is_not_refused)
{
    struct msg m = join_from(0, P1 " " G1);
    say(0, &m);
    m = join_from(1, P1 " " G1);
    msg_set(m.join.run, "other");
    say(1, &m);
    ck_assert(!told(1, "refused"));
}

/* -- refusals -------------------------------------------------------------- */

/* Those that wait for it are told which node was refused and why, in words that
 * are not for that node; again with each notice, until it comes after all. */
TEST(test_rdzv_refusal_is_told_to_those_that_wait)
{
    limits_of(3, 3);
    join(0);
    ck_assert_str_eq(last[0].waiting.refused, "");
    struct msg m = make_join(1);
    msg_set(m.join.options, "--nnodes=4\ntrain");
    say(1, &m);
    ck_assert(told(1, "refused") && !told(0, "waiting"));
    now_us += 500 * MONO_MS;
    tick(0);
    ck_assert(told(0, "waiting"));
    char wanted[200];
    (void)snprintf(wanted, sizeof(wanted),
                   "node %s was refused: it was started with --nnodes=4, run "
                   "'r' has 2; start all nodes with the same options",
                   m.join.name);
    ck_assert_msg(strncmp(last[0].waiting.refused, wanted, strlen(wanted)) == 0,
                  "%s", last[0].waiting.refused);
    /* Many refusals are one notice. */
    for (int i = 2; i < 10; i++) {
        m = make_join(i);
        msg_set(m.join.options, "--nnodes=4\ntrain");
        say(i, &m);
        ck_assert(!told(0, "waiting"));
    }
    join(10);
    ck_assert_ptr_nonnull(strstr(last[10].waiting.refused, " was refused: "));
    struct msg late = make_join(11);
    msg_set(late.join.name, m.join.name);
    say(11, &late);
    ck_assert(told(0, "world"));
}

/* ... and nobody is told of it any more once it has come. */
TEST(test_rdzv_refusal_is_forgotten_when_the_node_comes)
{
    limits_of(3, 3);
    join(0);
    struct msg m = make_join(1);
    msg_set(m.join.options, "--nnodes=4\ntrain");
    say(1, &m);
    pass(500 * MONO_MS);
    ck_assert_str_ne(last[0].waiting.refused, "");
    m = make_join(2);
    struct msg same = make_join(1);
    msg_set(m.join.name, same.join.name);
    say(2, &m);
    ck_assert_str_eq(last[2].waiting.refused, "");
}

TEST(test_rdzv_join_beyond_capacity_is_refused)
{
    limits_of(8, 8);
    for (int i = 0; i < 8; i++)
        join(i);
    ck_assert(told(7, "world"));
    join(8);
    ck_assert(told(8, "refused") && told(8, "drop"));
    ck_assert_int_eq(last[8].refused.code, DDP_E_NOMEM);
}

TEST(test_rdzv_runs_beyond_capacity_are_refused)
{
    for (int i = 0; i < 3; i++) {
        struct msg m = make_join(i);
        (void)snprintf(m.join.run, sizeof(m.join.run), "run%d", i);
        say(i, &m);
    }
    ck_assert(told(2, "refused"));
    closed(0, true); /* a run that nobody is in makes room */
    struct msg m = make_join(3);
    msg_set(m.join.run, "run3");
    say(3, &m);
    ck_assert(told(3, "waiting"));
}

/* -- out of order ---------------------------------------------------------- */

TEST_LOOP(test_rdzv_anything_before_join_closes_the_connection,
          0,
          MSG_KIND_COUNT)
{
    struct msg m = {.kind = (enum msg_kind)_i};
    if (m.kind == MSG_KIND_join || msg_is_from(m.kind, MSG_CTL))
        return;
    say(3, &m);
    ck_assert_str_eq(said, "3:drop ");
}

TEST_LOOP(test_rdzv_what_only_a_server_says_closes_the_connection,
          0,
          MSG_KIND_COUNT)
{
    struct msg m = {.kind = (enum msg_kind)_i};
    if (msg_is_from(m.kind, MSG_AGENT) && m.kind != MSG_KIND_join &&
        m.kind != MSG_KIND_answered) /* its number is 0: a server's */
        return;
    run_two(2, 2);
    say(0, &m);
    ck_assert(told(0, "drop"));
    ck_assert_int_eq(rdzv_nodes(rdzv), 2); /* its lease runs */
}

/* Found by reading: a bye in a run that goes on was taken for a farewell, so
 * that the next round was sealed while workers of that node might run. */
TEST(test_rdzv_bye_before_the_end_closes_the_connection)
{
    run_two(1, 2);
    bye(1);
    ck_assert_str_eq(said, "1:drop ");
    ck_assert(noted("refused") && noted("absent"));
    ck_assert_int_eq(rdzv_nodes(rdzv), 2);
}

/* A node that breaks the rules is as one whose connection broke: where it had
 * no place yet, nobody waits for it. */
TEST(test_rdzv_newcomer_that_talks_nonsense_is_gone)
{
    struct msg m = {.kind = MSG_KIND_world};
    limits_of(2, 3);
    join(0);
    join(1);
    say(1, &m);
    ck_assert(told(1, "drop") && noted("left"));
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
    join(2);
    join(3);
    ck_assert(told(0, "world"));
}

TEST(test_rdzv_end_of_an_unknown_connection_is_nothing)
{
    closed(5, false);
    ck_assert_str_eq(said, "");
}

/* -- nonsense -------------------------------------------------------------- */

/* Whatever one says of its round: no assertion, at most a refusal. */
TEST_LOOP(test_rdzv_hostile_claims_are_survived, 0, 5)
{
    static const int64_t values[] = {-1, 0, 1, 2, 3, 7, 8, 99999, 1000000};
    int n = (int)(sizeof(values) / sizeof(values[0]));
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            for (int c = 0; c < n; c++) {
                new_server();
                struct msg m = make_rejoin(0, values[c] < 0 ? 0 : values[c],
                                           (enum msg_state)(_i % 5));
                m.join.group_rank = values[a];
                m.join.restarts = values[b] < 0 ? 0 : values[b];
                m.join.lease_ms = 86400000000;
                say(0, &m);
                say(1, &m); /* the same agent again */
                m = make_rejoin(1, 1000000000, (enum msg_state)(_i % 5));
                say(2, &m);
                ready(2, 3);
                done(2, 1000000000);
                failed(2, 1000000000, 1, 86400000000000);
                leave(1, false);
                closed(2, true);
                pass(100 * MONO_S);
            }
}

/* -- who is not there keeps nobody out ------------------------------------- */

/* A run of one node, which breaks off. */
static void haunt(int conn, const char *run)
{
    struct msg m = make_join(conn);
    m.join.nodes_min = m.join.nodes_max = 1;
    msg_set(m.join.run, run);
    say(conn, &m);
    ck_assert(told(conn, "world"));
    closed(conn, false);
    ck_assert(noted("absent"));
    now_us += 5 * MONO_S;
}

/* Runs of which everybody is away fill the server: one of them gives way to one
 * that comes. */
TEST(test_rdzv_run_of_which_all_are_away_gives_way)
{
    like.heartbeat_ms = 60000;
    haunt(0, "x");
    now_us++;
    haunt(1, "y");
    join(2);
    ck_assert(told(2, "waiting") && noted("forgotten"));
    join(3);
    ck_assert(told(2, "world") && told(3, "world"));
    ck_assert_int_eq(rdzv_live_runs(rdzv), 2);
    struct msg m = make_join(5);
    msg_set(m.join.run, "z");
    say(5, &m);
    ck_assert(told(5, "waiting") && noted("forgotten"));
    m = make_join(6); /* who is there is not sent away */
    msg_set(m.join.run, "other");
    say(6, &m);
    ck_assert(told(6, "refused") && told(6, "drop"));
}

/* Found by reading: on a full server a newcomer took the place of a run whose
 * connections had just broken, all at once, as when a switch restarts; when its
 * nodes were back, there was no room for them. They have time for that. */
TEST_LOOP(test_rdzv_run_that_is_away_for_a_moment_keeps_its_place, 0, 2)
{
    like.heartbeat_ms = 60000;
    struct msg m = make_join(5);
    msg_set(m.join.run, "y");
    say(2, &m);
    msg_set(m.join.run, "z");
    run_two(2, 2);
    closed(0, false);
    now_us += 3 * MONO_S;
    closed(1, false);
    now_us += 5 * MONO_S - 1;
    say(5, &m);
    ck_assert(told(5, "refused") && !noted("forgotten"));
    if (_i == 0) {
        struct msg back = holds(0, &placed[0], MSG_STATE_RUNNING);
        say(6, &back);
        ck_assert(told(6, "prepare") && noted("back"));
        now_us += 1;
        say(7, &m);
        ck_assert(told(7, "refused"));
    } else {
        now_us += 1;
        say(7, &m);
        ck_assert(told(7, "waiting") && noted("forgotten"));
    }
}

/* The same of nodes. Those of the newcomer's own run are not forgotten. */
TEST(test_rdzv_nodes_that_are_away_give_way)
{
    like.heartbeat_ms = 60000;
    limits_of(8, 8);
    msg_set(like.run, "x");
    for (int i = 0; i < 8; i++)
        join(i);
    ck_assert(told(7, "world"));
    for (int i = 0; i < 8; i++)
        closed(i, false);
    now_us += 5 * MONO_S;
    ck_assert_int_eq(rdzv_nodes(rdzv), 8);
    join(8);
    ck_assert(told(8, "refused"));
    msg_set(like.run, "r");
    join(9);
    ck_assert(told(9, "waiting"));
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
}

/* No server grants a longer lease than the run allows: none is believed. */
TEST(test_rdzv_lease_that_cannot_be_is_cut)
{
    limits_of(2, 2);
    for (int i = 0; i < 2; i++) {
        struct msg m = make_rejoin(i, 3, MSG_STATE_RUNNING);
        m.join.lease_ms = INT64_C(86400000000);
        rejoin_voted(i, &m, "01");
    }
    ck_assert_int_eq(granted[0].grant_ms, 800);
    closed(0, false);
    closed(1, false);
    pass(2 * HEARTBEAT - 10 * MONO_MS);
    ck_assert_int_eq(rdzv_nodes(rdzv), 2);
    pass(20 * MONO_MS);
    ck_assert_int_eq(rdzv_nodes(rdzv), 0);
}

/* Two nodes are needed and run, a third one is a spare: with a fourth one there
 * could be two groups of two. It is told so, and let in once one is gone. */
TEST(test_rdzv_launcher_that_could_make_a_second_group_is_put_off)
{
    run_two(2, 2);
    join(2);
    join(3);
    ck_assert(told(3, "refused") && told(3, "drop") && !noted("refused"));
    ck_assert_int_eq(last[3].refused.code, DDP_E_UNREACHABLE);
    ck_assert_ptr_nonnull(strstr(last[3].refused.text, "at most 3 launchers"));
    closed(0, false); /* it may be alive until its lease is over */
    join(3);
    ck_assert(told(3, "refused"));
    pass(HEARTBEAT);
    join(3);
    ck_assert(!told(3, "refused") && told(3, "lease"));
}

HAND_SUITE("rdzv_join")
