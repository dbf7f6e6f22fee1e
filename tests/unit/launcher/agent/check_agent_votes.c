/* links: tests/lib/{votes_hand,agent_hand} */
/* libs: -lcjson */
/*
 * The agent's vote: what the agent accepts and tells, which server it obeys,
 * and when an end holds. Where it looks for a server: check_agent_search.
 */
#include <check.h>
#include <signal.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/votes_hand.h"

/* -- two steps to a round -------------------------------------------------- */

TEST(test_round_begins_with_go)
{
    obey();
    ck_assert_int_eq(last.beat.seq, 1);
    propose(1, "");
    ck_assert_int_eq(last.accept.round, 1);
    ck_assert_int_eq(last.accept.term.count, 1);
    ck_assert_str_eq(last.accept.term.id, "s");
    go(1, 1);
    ck_assert_str_eq(did, "spawn send:beat ");
    go(1, 1); /* said again */
    ck_assert_str_eq(did, "");
    ck_assert_int_eq(agent.round.world.base_rank, 2);
}

/* A round of one node, or a node that has no vote, needs one step. */
TEST_LOOP(test_world_in_force_begins_at_once, 0, 2)
{
    obey();
    voters(1, 1, false, _i == 0 ? ME : "", "");
    ck_assert_str_eq(did, "");
    place(1, 1, false);
    ck_assert_str_eq(did, "spawn send:beat ");
    pass(50 * MONO_MS);
    disconnected();
    connected();
    ck_assert_str_eq(did, _i == 0 ? "send:join send:vote " : "send:join ");
}

/* Nothing starts by half of it. */
TEST(test_go_without_its_place_starts_nothing)
{
    obey();
    go(1, 1);
    ck_assert_str_eq(did, "");
    place(1, 1, true); /* not accepted */
    ck_assert_str_eq(did, "");
    go(1, 1);
    ck_assert_str_eq(did, "");
    voters(1, 1, true, ALL, "");
    go(2, 1); /* another round's */
    ck_assert_str_eq(did, "");
    go(1, 1); /* in force, but where is this node in it? */
    ck_assert_str_eq(did, "");
    place(1, 1, true);
    go(1, 1);
    ck_assert_str_eq(did, "spawn send:beat ");
}

TEST(test_go_after_the_lease_starts_nothing)
{
    obey();
    propose(1, "");
    now_us += 900 * MONO_MS;
    go(1, 1);
    ck_assert_str_eq(did, "send:ready look "); /* nobody has answered */
    ck_assert_int_eq(last.ready.round, 1);
}

/* Only the newest proposal counts, by term first and by number then. */
TEST(test_newer_proposal_takes_the_place_of_an_older_one)
{
    obey();
    propose(2, "");
    voters(1, 1, true, ALL, ""); /* overtaken */
    ck_assert_str_eq(did, "");
    voters(2, 1, true, ALL, ""); /* said again */
    ck_assert_str_eq(did, "send:accept ");
    propose(3, ALL);
    go(2, 1);
    ck_assert_str_eq(did, "");
    prepare(2, "t");
    voters(4, 1, true, ALL, ""); /* of the older term */
    ck_assert_str_eq(did, "");
    voters(4, 3, true, ALL, ""); /* of one that it did not promise */
    ck_assert_str_eq(did, "");
    voters(3, 2, true, ALL, ALL);
    go(3, 1);
    ck_assert_str_eq(did, "");
    place(3, 2, true);
    ck_assert_str_eq(did, "send:accept ");
    ck_assert_int_eq(last.accept.term.count, 2);
    go(3, 2);
    ck_assert_str_eq(did, "spawn send:beat ");
}

/* A voter of the round before is asked, though it has no place in the new one;
 * its workers run on as long as it has a lease. */
TEST(test_voter_of_the_round_before_accepts)
{
    run_voted();
    voters(2, 1, true, OTHER THIRD, ALL);
    ck_assert_str_eq(did, "send:accept ");
    ck_assert_int_eq(agent.alive, 2);
    disconnected();
    connected();
    ck_assert_str_eq(did, "send:join send:vote send:accept ");
    ck_assert_int_eq(voted.vote.round, 2);
    ck_assert_int_eq(voted.vote.group_rank, -1);
    ck_assert_int_eq(voted.vote.restarts, 5); /* its world never came */
    ck_assert_str_eq(voted.vote.voters, OTHER THIRD);
    ck_assert_str_eq(voted.vote.before, ALL);
    ck_assert_int_eq(joined.join.round, 1);
    ck_assert_int_eq(joined.join.state, MSG_STATE_RUNNING);
}

/* Its instance gave way: it has no vote in that any more, and could not bring
 * it back alone. */
TEST_LOOP(test_vote_of_an_instance_that_gave_way_is_void, 0, 2)
{
    struct msg m = {.kind = MSG_KIND_voters,
                    .voters = {.round = 4, .term.count = 2}};
    run_voted();
    moved(2, "t", B);
    connected();
    ck_assert_str_eq(did, "send:join send:vote ");
    prepare(2, "t");
    msg_set(m.voters.term.id, "t");
    msg_set(m.voters.instance, _i == 0 ? "another" : "i");
    hear(&m);
    disconnected();
    pass(20 * MONO_MS);
    connected();
    ck_assert_str_eq(did, _i == 0 ? "send:join " : "send:join send:vote ");
}

/* A node that takes part in rounds already accepts before it has a place. */
TEST(test_member_accepts_the_next_round_at_once)
{
    run_voted();
    stop(1);
    both_die(15);
    ck_assert_str_eq(did, "sweep send:ready ");
    propose(2, ALL);
    go(2, 1);
    ck_assert_str_eq(did, "spawn send:beat ");
    ck_assert_int_eq(agent.round.world.round, 2);
}

/* -- what the next server is told ------------------------------------------ */

TEST_LOOP(test_voter_tells_what_it_accepted, 0, 2)
{
    obey();
    pass(50 * MONO_MS);
    propose(1, OTHER);
    lease(1, 800);
    if (_i == 1)
        go(1, 1);
    now_us += 30 * MONO_MS;
    disconnected();
    connected();
    ck_assert_str_eq(did, _i == 0 ? "send:join send:vote send:accept "
                                  : "send:join send:vote ");
    ck_assert_int_eq(joined.join.term.count, 1);
    ck_assert_str_eq(joined.join.term.id, "s");
    ck_assert_int_eq(joined.join.round, _i == 0 ? 0 : 1);
    ck_assert_str_eq(voted.vote.instance, "i");
    ck_assert_int_eq(voted.vote.round, 1);
    ck_assert_int_eq(voted.vote.round_term.count, 1);
    ck_assert_str_eq(voted.vote.round_term.id, "s");
    ck_assert_int_eq(voted.vote.group_rank, 1);
    ck_assert_int_eq(voted.vote.group_world, 3);
    ck_assert_int_eq(voted.vote.restarts, 4);
    ck_assert_str_eq(voted.vote.voters, ALL);
    ck_assert_str_eq(voted.vote.before, _i == 0 ? OTHER : "");
    ck_assert_int_eq(joined.join.answered_ms, 30);
    ck_assert_int_eq(voted.vote.end_term.count, 0);
}

/* Found by the simulator: voters that had been given up came back as spares,
 * were cut off, and elected a leader of the round that they had accepted
 * before. */
TEST_LOOP(test_voter_of_no_later_round_has_no_vote, 0, 3)
{
    run_voted();
    voters(1002, 1, _i == 1, _i == 0 ? ALL : OTHER THIRD, _i == 1 ? ALL : "");
    disconnected();
    voted.vote.round = 0;
    connected();
    ck_assert_int_eq(agent.vote.state != AGENT_VOTE_NONE, _i != 2);
    ck_assert_int_eq(voted.vote.round, _i == 2 ? 0 : 1002);
}

/* Found by the simulator: all connections broke as it came, so that `waiting`
 * told of missing voters as well. */
TEST_LOOP(test_spare_knows_that_it_is_one_while_voters_are_missing, 0, 2)
{
    struct msg m = {
        .kind = MSG_KIND_waiting,
        .waiting = {.what_for = MSG_FOR_A_PLACE, .round = 4, .voters = 3}};
    msg_set(m.waiting.instance, "i");
    if (_i == 0)
        obey();
    else {
        step((struct agent_event){.kind = AGENT_START});
        connected();
        prepare(1, "s");
        disconnected();
        pass(MONO_S);
        connected(); /* this server has not shown that it is the leader */
    }
    hear(&m);
    ck_assert_int_eq(agent.round.evidence,
                     _i == 0 ? AGENT_SPARE : AGENT_NO_ROUND);
}

/* `go` was lost with the connection, and comes by the next one. */
TEST(test_go_comes_by_another_connection)
{
    obey();
    propose(1, "");
    pass(50 * MONO_MS);
    disconnected();
    connected();
    ck_assert_str_eq(did, "send:join send:vote send:accept ");
    go(1, 1); /* the server has not shown its term */
    ck_assert_str_eq(did, "");
    prepare(1, "s");
    ck_assert_str_eq(did, "send:promise ");
    go(1, 1);
    ck_assert_str_eq(did, "spawn send:beat ");
}

/* The next server goes on with the round that was pending, or with another. */
TEST_LOOP(test_next_server_finds_a_pending_round, 0, 2)
{
    obey();
    propose(1, "");
    succeed();
    if (_i == 0) {
        go(1, 1);
        ck_assert_str_eq(did, "spawn send:beat ");
        return;
    }
    voters(2, 2, true, ALL, "");
    place(2, 2, true);
    ck_assert_str_eq(did, "send:accept ");
    go(1, 1); /* of the older round */
    ck_assert_str_eq(did, "");
    go(2, 2);
    ck_assert_str_eq(did, "spawn send:beat ");
}

/* To another term it says no `accept` of an older one. */
TEST(test_accept_is_for_the_term_that_proposed)
{
    obey();
    propose(1, "");
    succeed();
    pass(50 * MONO_MS);
    disconnected();
    connected();
    ck_assert_str_eq(did, "send:join send:vote ");
}

/* -- whom it obeys --------------------------------------------------------- */

TEST(test_server_of_an_older_term_is_not_obeyed)
{
    run_voted();
    succeed();
    ck_assert_str_eq(told, "it is served at " B " from now on");
    disconnected();
    connected();
    prepare(1, "s");
    ck_assert_str_eq(did, "");
    prepare(1, "zz");
    ck_assert_str_eq(did, "");
    int64_t until_us = agent_lease_until_us(&agent);
    lease(0, 5000);
    ck_assert_int_eq(agent_lease_until_us(&agent), until_us);
    stop(1);
    ck_assert_str_eq(did, "");
    end(1);
    ck_assert_str_eq(did, "");
    voters(9, 2, true, ALL, "");
    ck_assert_str_eq(did, "");
    place(9, 2, false);
    ck_assert_str_eq(did, "");
    ck_assert_int_eq(agent.alive, 2);
    prepare(2, "t");
    ck_assert_str_eq(did, "send:promise ");
    lease(0, 5000);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 5000 * MONO_MS);
}

/* For the report: from where to where, and for how long there was no lease. */
TEST(test_takeover_is_kept_for_the_report)
{
    run_voted();
    pass(100 * MONO_MS);
    answer();
    ck_assert_int_eq(agent.takeover.count, 0);
    pass(100 * MONO_MS);
    disconnected();
    unseen(0);
    seen(1, 0, 1);
    pass(50 * MONO_MS);
    connected();
    prepare(2, "t");
    answer();
    ck_assert_int_eq(agent.takeover.count, 1);
    ck_assert_str_eq(agent.takeover.from.target, "");
    ck_assert_str_eq(agent.takeover.to.target, B);
    ck_assert_int_eq(agent.takeover.to.term.count, 2);
    ck_assert_int_eq(agent.takeover.gap_us, 150 * MONO_MS);
}

/* The server lives and gives no lease: what is missing are other nodes. */
TEST(test_fence_says_that_nodes_are_missing)
{
    run_voted();
    for (int i = 0; i < 60 && agent.stop != AGENT_STOP_KILLED; i++) {
        if (agent.session.state == AGENT_SESSION_CONNECTING) {
            connected();
            prepare(1, "s");
        }
        pass(20 * MONO_MS);
    }
    ck_assert_ptr_nonnull(strstr(fenced, "hears of too few nodes"));
}

/* Terms of one count are ordered by the servers' ids. */
TEST(test_terms_of_one_count)
{
    obey();
    prepare(1, "r");
    ck_assert_str_eq(did, "");
    prepare(1, "s");
    ck_assert_str_eq(did, "send:promise ");
    prepare(1, "t");
    ck_assert_str_eq(did, "send:promise send:beat ");
    ck_assert_str_eq(agent.vote.promised.id, "t");
}

/* It keeps the lease that the older server gave. */
TEST(test_promise_leaves_the_lease)
{
    run_voted();
    int64_t until_us = agent_lease_until_us(&agent);
    prepare(2, "t");
    ck_assert_int_eq(agent_lease_until_us(&agent), until_us);
    ck_assert_int_eq(agent.alive, 2);
}

/* A server that knows nothing of the run may be full, or somebody else's. */
TEST(test_refusal_without_authority_is_no_answer)
{
    run_voted();
    server_is_killed();
    connected();
    seen(2, 0, 1);
    refuse();
    ck_assert_str_eq(did, "disconnect connect:" C " ");
    ck_assert(!exited);
    connected();
    seen(1, 0, 2); /* more may go there, but not this node */
    pass(300 * MONO_MS);
    ck_assert_ptr_null(strstr(did, "connect"));
    prepare(2, "t");
    struct msg m = {.kind = MSG_KIND_refused,
                    .refused = {.code = DDP_E_CONFLICT}};
    hear(&m);
    ck_assert_ptr_nonnull(
        strstr(did, "kill:15 ")); /* of the leader it counts */
}

/* It has voted for the server that it told of its leave. */
TEST(test_node_that_leaves_has_no_other_vote)
{
    run_voted();
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, "send:leave kill:15 ");
    prepare(2, "s"); /* the same server */
    ck_assert_str_eq(did, "send:promise send:beat ");
    voters(2, 2, true, ALL, "");
    ck_assert_str_eq(did, "");
    disconnected();
    connected();
    ck_assert_str_eq(did, "send:join send:leave ");
    prepare(3, "t");
    ck_assert_str_eq(did, "");
    ck_assert_int_eq(agent.vote.promised.count, 2);
}

/* -- the end --------------------------------------------------------------- */

static void hold_the_end(void)
{
    run_voted();
    both_die(0);
    end_held(0);
    ck_assert_str_eq(did, "send:bye ");
    server_is_killed();
}

/* The next server is told of it, with the term in which it was said, and
 * says it again. */
TEST(test_next_server_hears_of_the_end)
{
    hold_the_end();
    connected();
    ck_assert_str_eq(did, "send:join send:vote ");
    ck_assert_int_eq(joined.join.ended, 1);
    ck_assert_int_eq(voted.vote.end_term.count, 1);
    ck_assert_str_eq(voted.vote.end_term.id, "s");
    end(0); /* a server without the authority says nothing that counts */
    ck_assert(!exited);
    prepare(2, "t");
    ck_assert_str_eq(did, "send:promise send:beat ");
    end_held(0);
    ck_assert_str_eq(did, "send:bye ");
    end(0);
    ck_assert_str_eq(did, "send:bye exit:0 ");
}

/* Tries each place, and twice a heartbeat, and exits. Returns how often it
 * tried. */
static int find_nobody(void)
{
    int64_t from_us = now_us;
    int tries = 0;
    while (!exited && now_us < from_us + 20 * MONO_S) {
        if (agent.session.state == AGENT_SESSION_CONNECTING) {
            tries++;
            disconnected();
        }
        pass(MONO_MS);
    }
    ck_assert(exited);
    ck_assert_int_ge(now_us - from_us, 1900 * MONO_MS);
    ck_assert_int_le(now_us - from_us, 2200 * MONO_MS);
    return tries;
}

/* The others may have gone on: that end is not certain, and not what this node
 * ends with. Its workers have succeeded all the same. */
TEST(test_success_that_is_held_is_no_end_of_the_run)
{
    hold_the_end();
    ck_assert_int_ge(find_nobody(), 3);
    ck_assert_int_eq(verdict.status, 0);
    ck_assert(!verdict.ended);
    ck_assert_ptr_nonnull(strstr(verdict.text, "nothing is known of the"));
}

TEST(test_end_that_is_held_has_a_status_of_its_own)
{
    run_voted();
    end_held(130);
    both_die(SIGTERM);
    ck_assert(!exited);
    server_is_killed();
    ck_assert_int_ge(find_nobody(), 3);
    ck_assert_int_eq(verdict.status, 72);
    ck_assert(!verdict.ended);
    ck_assert_ptr_nonnull(strstr(verdict.text, "status 130"));
    ck_assert_ptr_nonnull(strstr(verdict.text, "that was not final"));
}

/* ... also if the workers take longer than the server is waited for. */
TEST(test_end_that_is_held_waits_for_the_workers_only)
{
    run_voted();
    end_held(130);
    agent.farewell_at_us = now_us;
    both_die(SIGTERM);
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 72);
}

/* A server that says it again and again, and cannot make it final, is waited
 * for as long as one that is silent. */
TEST(test_end_that_is_held_again_is_not_waited_for_anew)
{
    int64_t from_us = now_us;
    run_voted();
    end_held(130);
    both_die(SIGTERM);
    while (!exited && now_us < from_us + 60 * MONO_S) {
        if (agent.session.state == AGENT_SESSION_CONNECTING) {
            connected();
            prepare(1, "s");
            end_held(130);
        }
        pass(MONO_MS);
    }
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 72);
    ck_assert_int_le(now_us - from_us, 21 * MONO_S);
}

/* The others went on: no launcher ends well for a run that may fail yet. */
TEST_LOOP(test_end_is_void_if_the_others_went_on, 0, 2)
{
    hold_the_end();
    connected();
    prepare(2, "t");
    if (_i == 0) {
        voters(2, 2, true, OTHER THIRD, ALL);
        ck_assert_str_eq(did, "send:accept exit:72 ");
    } else { /* by a server that knows nothing of it, and is the leader */
        refuse();
        ck_assert_str_eq(did, "exit:72 ");
    }
    ck_assert(!verdict.ended);
    ck_assert_ptr_nonnull(strstr(verdict.text, "the other nodes went on"));
}

/* -- its own server -------------------------------------------------------- */

/* The leader is this launcher's own, and a round runs. */
static void run_own(void)
{
    step((struct agent_event){.kind = AGENT_START});
    step((struct agent_event){.kind = AGENT_CONNECTED, .own = true});
    prepare(1, "s");
    answer();
    propose(1, "");
    go(1, 1);
    ck_assert_str_eq(did, "spawn send:beat ");
}

static void leave_own(void)
{
    run_own();
    signal_comes(SIGTERM);
    both_die(SIGTERM);
    ck_assert_ptr_nonnull(strstr(did, "send:ready "));
    ck_assert(!exited);
}

/* The server would end with it: it stays until that says `go`. */
TEST(test_launcher_that_serves_goes_when_it_may)
{
    leave_own();
    pass(300 * MONO_MS);
    ck_assert(!exited);
    answer();
    ck_assert_str_eq(did, "");
    go(2, 1);
    ck_assert(exited);
    ck_assert_ptr_null(strstr(did, "send:ready"));
    ck_assert_int_eq(verdict.status, 128 + SIGTERM);
}

/* That server may be gone, or not be able to say so. */
TEST_LOOP(test_launcher_that_serves_goes_without_a_word, 0, 3)
{
    leave_own();
    if (_i == 0) {
        disconnected();
    } else if (_i == 1) {
        step((struct agent_event){.kind = AGENT_GUARD_DIED});
    } else {
        int64_t from_us = now_us;
        while (!exited && now_us < from_us + 1500 * MONO_MS)
            pass(10 * MONO_MS);
        ck_assert_int_ge(now_us - from_us, 990 * MONO_MS);
    }
    ck_assert(exited);
    ck_assert_ptr_null(strstr(did, "connect"));
    ck_assert_int_eq(verdict.status, 128 + (_i == 1 ? SIGKILL : SIGTERM));
}

/* A drain, and no worker is left. */
TEST(test_drained_launcher_that_serves_waits_too)
{
    const struct msg m = {
        .kind = MSG_KIND_stop, .stop.drain = 1, .stop.text = "drained"};
    run_own();
    stop(1);
    both_die(SIGTERM);
    hear(&m);
    ck_assert_str_eq(did, "send:leave send:ready ");
    ck_assert(!exited);
    go(1, 1);
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, ddp_code_exit(DDP_E_DRAINED));
}

/* Another's server goes on without it. */
TEST(test_launcher_that_does_not_serve_goes_at_once)
{
    run_voted();
    signal_comes(SIGTERM);
    both_die(SIGTERM);
    ck_assert(exited);
}

AGENT_SUITE("agent_votes")
