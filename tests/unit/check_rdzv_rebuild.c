/* links: tests/unit/rdzv_hand */
/* libs: -lcjson */
/*
 * A server without memory: what it believes, and of whom.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/rdzv_hand.h"

START_TEST(test_rdzv_round_is_rebuilt_and_nobody_is_stopped)
{
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    ck_assert(noted("rebuilt") && noted("back"));
    ck_assert_str_eq(said, "0:lease ");
    ck_assert_int_eq(granted[0].grant_ms, 0); /* too few are here */
    rejoin(1, 1, 5, MSG_STATE_DONE, true);
    ck_assert_str_eq(said, "1:lease 0:lease 1:lease ");
    ck_assert_int_eq(granted[0].grant_ms, 24000);
    ck_assert_int_eq(granted[1].grant_ms, 800); /* it is done */
    done(0, 5);
    ck_assert(told(0, "end") && told(1, "end"));
}
END_TEST

/* The lost place is waited for: 30 s of reconnect_timeout. */
START_TEST(test_rdzv_hole_is_waited_for_before_the_next_round)
{
    limits_of(3, 4);
    world_of_rejoins = 3;
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    rejoin(1, 1, 5, MSG_STATE_RUNNING, true);
    join(2); /* does not make it forget */
    ck_assert(noted("spare"));
    for (int i = 0; i < 59; i++) {
        now_us += HEARTBEAT / 2;
        for (int who = 0; who < 3; who++)
            beat_of(who, i + 1, i, who < 2 ? 5 : 0);
        tick(0);
        ck_assert_str_eq(notes, "");
    }
    now_us += HEARTBEAT / 2;
    tick(0);
    ck_assert(noted("lost") && told(0, "stop"));
    both_ready(5);
    ck_assert(told(0, "world") && told(2, "world"));
    ck_assert_int_eq(last[0].world.round, 6);
}
END_TEST

/* A place that was claimed, lost and claimed again is one hole, not two. */
START_TEST(test_rdzv_hole_is_filled_only_once)
{
    limits_of(1, 4);
    world_of_rejoins = 3;
    rejoin(1, 1, 5, MSG_STATE_READY, true);
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    closed(0, true);
    rejoin(4, 0, 5, MSG_STATE_READY, false);
    ck_assert(noted("stale"));
    ready(1, 5);
    ready(4, 5);
    ck_assert(!told(4, "world"));
    now_us += 100 * MONO_MS;
    rejoin(3, 2, 5, MSG_STATE_RUNNING, true);
    ck_assert(told(3, "stop"));
    ready(3, 5);
    ck_assert(told(4, "world") && told(3, "world"));
}
END_TEST

/* -- a minority ------------------------------------------------------------ */

/* One of two or of four may not go on, two of three may: the others may be at
 * another server. It has no lease, is told of that, and is refused in the end.
 */
START_TEST(test_rdzv_minority_of_a_rebuilt_round_does_not_go_on)
{
    static const int of[] = {2, 4, 3}, come[] = {1, 2, 2};
    int told_of_it = 0;
    bool goes_on = _i == 2;
    limits_of(1, 4);
    world_of_rejoins = of[_i];
    for (int who = 0; who < come[_i]; who++) {
        rejoin(who, who, 5, MSG_STATE_READY, true);
        ready(who, 5);
    }
    for (int i = 1; i < 100 && !told(0, "refused"); i++) {
        now_us += 400 * MONO_MS;
        for (int who = 0; who < come[_i]; who++) {
            beat_of(who, i, i - 1, 5);
            ck_assert_int_eq(granted[who].grant_ms, goes_on ? 800 : 0);
        }
        tick(0);
        if (told(0, "world") && goes_on)
            return;
        ck_assert(!told(0, "world"));
        if (!told(0, "waiting"))
            continue;
        told_of_it++;
        ck_assert_int_eq(last[0].waiting.needed, of[_i] / 2 + 1);
        ck_assert_int_eq(last[0].waiting.back, come[_i]);
    }
    ck_assert(!goes_on && told(0, "refused") && noted("ended"));
    ck_assert_int_eq(last[0].refused.code, DDP_E_LOST);
    ck_assert_int_eq(told_of_it, 1); /* after 3 s, and then each 30 s */
    ck_assert_int_eq(rdzv_nodes(rdzv), 0);
}
END_TEST

/* The run has not ended: another server may have the others, and one of them
 * that comes here after all is told nothing of an end. */
START_TEST(test_rdzv_minority_that_was_refused_leaves_no_end)
{
    limits_of(1, 2);
    rejoin(0, 0, 5, MSG_STATE_READY, true);
    pass(31 * MONO_S);
    rejoin(1, 1, 6, MSG_STATE_RUNNING, true);
    ck_assert(noted("rebuilt") && !told(1, "end") && !told(1, "stop"));
}
END_TEST

/* A member that went to another server before enough were here does not count
 * here. */
START_TEST(test_rdzv_member_that_went_before_enough_were_here_is_a_hole)
{
    limits_of(1, 3);
    world_of_rejoins = 3;
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    if (_i == 1) { /* silent */
        now_us += HEARTBEAT + MONO_MS;
        tick(0);
    } else {
        closed(0, false);
    }
    rejoin(1, 1, 5, MSG_STATE_READY, true);
    ck_assert_int_eq(granted[1].grant_ms, 0);
    rejoin(3, 0, 5, MSG_STATE_READY, true);
    ck_assert(!noted("stale"));
    ck_assert_int_eq(granted[1].grant_ms, 800);
}
END_TEST

/* Two servers behind one address, of which each has some of the members. */
START_TEST(test_rdzv_only_one_of_two_servers_goes_on)
{
    struct msg_world was[2];
    int sealed = 0;
    limits_of(1, 3);
    world_of_rejoins = 3;
    for (int server = 0; server < 2; server++) {
        new_server();
        for (int who = server; who < 1 + 2 * server; who++)
            rejoin(who, who, 5, MSG_STATE_READY, true);
        for (int who = server; who < 1 + 2 * server; who++)
            ready(who, 5);
        for (int i = 1; i < 20; i++) {
            now_us += 400 * MONO_MS;
            for (int who = server; who < 1 + 2 * server; who++)
                beat_of(who, i, i - 1, 5);
            tick(0);
            if (!told(server, "world"))
                continue;
            was[sealed++] = last[server].world;
            break;
        }
    }
    ck_assert_int_eq(sealed, 1);
    ck_assert_int_eq(was[0].group_world, 2);
}
END_TEST

/* Members that were ready may have missed one round: its number is left out,
 * and its members' short leases are waited for. */
START_TEST(test_rdzv_round_that_all_may_have_missed_is_reckoned_with)
{
    limits_of(2, 3);
    rejoin(0, 0, 5, MSG_STATE_READY, true);
    rejoin(1, 1, 5, MSG_STATE_READY, true);
    both_ready(5);
    ck_assert(!told(0, "world"));
    for (int i = 0; i < 1; i++) {
        now_us += HEARTBEAT / 2;
        beat_of(0, i + 1, i, 5);
        beat_of(1, i + 1, i, 5);
        tick(0);
        ck_assert(!told(0, "world"));
    }
    now_us += HEARTBEAT / 2;
    tick(0);
    ck_assert(told(0, "world"));
    ck_assert_int_eq(last[0].world.round, 7);
    ck_assert_str_eq(last[0].world.instance,
                     make_rejoin(0, 5, 1, 1).join.instance);
}
END_TEST

/* There was no room for others, so that none can run it: nobody is waited for.
 * But a node that strikes had quarantined may have left its place to another.
 */
START_TEST(
    test_rdzv_round_that_none_but_these_can_have_missed_is_not_waited_for)
{
    like.node_strikes = _i;
    like.cooldown_ms = 10000;
    rejoin(0, 0, 5, MSG_STATE_READY, true);
    rejoin(1, 1, 5, MSG_STATE_READY, true);
    both_ready(5);
    ck_assert(told(0, "world") == (_i == 0));
    if (_i == 0)
        ck_assert_int_eq(last[0].world.round, 7);
}
END_TEST

/* Found by reading traces: a node was lost, and the others waited for another
 * one, when the daemon died. The next one waited for the lost one's lease,
 * which was a long one, though it was known that none of its workers was left.
 */
START_TEST(test_rdzv_round_that_was_over_is_not_waited_for_long)
{
    run_two(2, 2);
    struct msg_world w = last[0].world;
    closed(1, true);
    ready(0, 1);
    ck_assert(told(0, "waiting"));
    ck_assert_int_eq(last[0].waiting.over, 1);
    ck_assert_int_eq(last[0].waiting.round, 1);
    ck_assert_int_eq(last[0].waiting.rest, 1);
    ck_assert_str_eq(last[0].waiting.instance, w.instance);
    new_server();
    struct msg m = holds(0, &w, MSG_STATE_READY);
    m.join.over = _i != 0;
    m.join.rest = _i != 0;
    m.join.sure = _i != 2; /* any number of rounds may have been sealed */
    say(0, &m);
    ready(0, 1);
    join(3);
    int64_t began_us = now_us;
    for (int i = 1; !told(0, "world") && i < 100; i++) {
        now_us += HEARTBEAT / 2;
        beat_of(0, i, i - 1, 1);
        beat_of(3, i, i - 1, 0);
        tick(0);
        if (_i == 0 && told(0, "refused"))
            return; /* one of two */
    }
    ck_assert(told(0, "world") && told(3, "world"));
    ck_assert_int_eq((now_us - began_us) / MONO_S, _i == 1 ? 1 : 30);
    ck_assert_int_eq(last[0].world.round, 3);
}
END_TEST

/* Who waits for a first round is told of none. */
START_TEST(test_rdzv_no_round_is_over_before_the_first)
{
    join(0);
    ck_assert_int_eq(last[0].waiting.over, 0);
}
END_TEST

/* The server died while it sealed round 2, which one of two nodes had heard of:
 * whichever comes first, its roll tells that the other one is missing, and not
 * somebody else. */
START_TEST(test_rdzv_roll_tells_that_nobody_else_is_missing)
{
    run_two(2, 2);
    struct msg old = holds(1, &last[1].world, MSG_STATE_READY);
    fail_round(1, false);
    struct msg heard = holds(0, &last[0].world, MSG_STATE_RUNNING);
    ck_assert_int_eq(heard.join.round, 2);
    new_server();
    if (_i == 2) /* another node, for all that the server knows */
        msg_set(old.join.agent, "another");
    say(0, _i == 0 ? &old : &heard);
    if (_i == 0)
        ready(0, 1);
    say(1, _i == 0 ? &heard : &old);
    int at = _i == 0; /* where the one is that heard */
    if (_i != 0)
        ready(1, 1);
    now_us += 20 * MONO_MS;
    tick(0);
    ck_assert(told(at, "stop") == (_i != 2));
    if (_i == 2)
        return;
    ready(at, 2);
    ck_assert(told(0, "world") && told(1, "world"));
    ck_assert_int_eq(last[0].world.round, 3);
    ck_assert_int_eq(last[0].world.roll, heard.join.roll);
}
END_TEST

/* Members whose lease was over may have missed any number: after the longest
 * lease another instance begins. */
START_TEST(test_rdzv_round_that_nobody_is_sure_of_ends_its_instance)
{
    rejoin(0, 0, 5, MSG_STATE_READY, false);
    rejoin(1, 1, 5, MSG_STATE_READY, false);
    both_ready(5);
    for (int i = 0; i < 59; i++) {
        now_us += HEARTBEAT / 2;
        beat_of(0, i + 1, i, 5);
        beat_of(1, i + 1, i, 5);
        tick(0);
        ck_assert(!told(0, "world"));
    }
    now_us += HEARTBEAT / 2;
    tick(0);
    ck_assert(told(0, "world"));
    ck_assert_str_ne(last[0].world.instance,
                     make_rejoin(0, 5, 1, 1).join.instance);
    rejoin(9, 3, 9, MSG_STATE_RUNNING, true);
    ck_assert(told(9, "refused"));
}
END_TEST

/* One that knows a later round is believed. */
START_TEST(test_rdzv_later_round_replaces_the_one_rebuilt)
{
    rejoin(0, 0, 5, MSG_STATE_READY, true);
    rejoin(1, 1, 6, MSG_STATE_RUNNING, true);
    ck_assert(noted("rebuilt") && told(0, "stop") && !told(1, "stop"));
    ready(0, 5);
    ck_assert(noted("spare"));
    ck_assert_int_eq(last[0].waiting.round, 6);
}
END_TEST

/* How workers of the earlier round ended is no part of the later one's end. */
START_TEST(test_rdzv_later_round_begins_without_the_ends_of_the_earlier)
{
    like.max_restarts = 0;
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    struct msg m = {.kind = MSG_KIND_ready,
                    .ready = {.round = 5, .by_code = 1, .ends = "0=3 "}};
    say(0, &m);
    rejoin(1, 1, 6, MSG_STATE_RUNNING, true);
    ck_assert(noted("rebuilt"));
    m = make_rejoin(2, 6, MSG_STATE_RUNNING, true);
    m.join.group_rank = 0;
    say(2, &m);
    failed(1, 6, 9, 0);
    ready(1, 6);
    ready(2, 6);
    ck_assert(told(1, "end"));
    ck_assert_int_eq(last[1].end.by_code, 0);
    ck_assert_str_eq(last[1].end.ends, "");
}
END_TEST

START_TEST(test_rdzv_spare_alone_does_not_make_a_server_forget)
{
    rejoin(2, 2, 5, MSG_STATE_NONE, false);
    ck_assert(noted("rebuilt") && noted("spare"));
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    rejoin(1, 1, 5, MSG_STATE_RUNNING, true);
    ck_assert_str_eq(said, "1:lease 2:lease 0:lease 1:lease ");
}
END_TEST

START_TEST(test_rdzv_newcomer_alone_does_not_make_a_server_forget)
{
    limits_of(1, 3);
    join(2);
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    ck_assert(told(2, "waiting"));
    ck_assert_int_eq(last[2].waiting.spare, 1);
    rejoin(1, 1, 5, MSG_STATE_RUNNING, true);
    ck_assert(told(0, "stop")); /* all are there: the round grows */
}
END_TEST

/* Found by fuzzing: the server that took a round over knows nothing of it that
 * it could tell a member again; it told a world of 0 workers. */
START_TEST(test_rdzv_member_that_forgot_a_rebuilt_round_ends_it)
{
    rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    rejoin(1, 1, 5, MSG_STATE_RUNNING, true);
    rejoin(2, 1, 0, MSG_STATE_NONE, true);
    ck_assert(!told(2, "world"));
    ck_assert(told(0, "stop") && told(2, "stop"));
    ready(0, 5);
    ready(2, 5);
    ck_assert_int_eq(last[2].world.round, 6);
    ck_assert_int_gt(last[2].world.world_size, 0);
}
END_TEST

/* Found by fuzzing: with the highest number of messages.def believed, the next
 * round's number was one that every agent refuses. */
START_TEST(test_rdzv_round_number_without_a_next_one_is_not_believed)
{
    rejoin(0, 0, 1000000000, MSG_STATE_RUNNING, true);
    ck_assert(!noted("rebuilt"));
    ck_assert(told(0, "stop"));
    ready(0, 1000000000);
    join(1);
    ck_assert_int_eq(last[0].world.round, 1);
}
END_TEST

/* -- two servers, one after the other, at one address ---------------------- */

/* Nodes 0 and 1 go to another server, as where an address moves to a standby's
 * host; this one has none of them left after `us`. */
static struct msg_world they_go(int min, int64_t us)
{
    run_two(min, 2);
    struct msg_world w = last[0].world;
    pass(us);
    return w;
}

static void comes_back(int who, const struct msg_world *w, int64_t round)
{
    struct msg m = holds(who, w, MSG_STATE_RUNNING);
    m.join.group_rank = who;
    m.join.round = round;
    say(10 + who, &m);
}

/* Found by reading: when they come back and know a later round, it was another
 * one that sealed it, whatever this one made of their silence. It had their
 * workers stopped, or told them that the run had ended for want of nodes. So it
 * is where this one had sealed none itself. */
START_TEST(test_rdzv_members_that_another_server_kept_go_on)
{
    struct msg_world w = they_go(1, 0);
    if (_i >= 2) {
        new_server();
        comes_back(0, &w, 1);
        comes_back(1, &w, 1);
    }
    pass(_i % 2 == 0 ? 5 * MONO_S : 200 * MONO_S);
    ck_assert_int_eq(rdzv_nodes(rdzv), 0);
    for (int i = 0; i < 2; i++) {
        comes_back(i, &w, 3);
        ck_assert_str_eq(said,
                         i == 0 ? "10:lease " : "11:lease 10:lease 11:lease ");
        ck_assert_int_eq(rdzv_live_runs(rdzv), 1);
    }
    done(10, 3);
    done(11, 3);
    ck_assert(told(10, "end") && told(11, "end"));
    ck_assert_int_eq(last[10].end.status, 0);
    closed(11, true);
    comes_back(1, &w, 3); /* of which it is told now */
    ck_assert(told(11, "end"));
    ck_assert_int_eq(last[11].end.status, 0);
}
END_TEST

/* A round that we know proves nothing, whatever is said of its lease: found by
 * the simulator (SEED=20261799 then), where such a join had been under way for
 * so long that the node was lost meanwhile. */
START_TEST(test_rdzv_members_of_the_round_that_we_know_stop)
{
    struct msg_world w = they_go(1, _i == 0 ? 5 * MONO_S : 200 * MONO_S);
    comes_back(0, &w, 1);
    ck_assert(told(10, _i == 0 ? "stop" : "end"));
}
END_TEST

/* Nor does one member, as long as another one is here. */
START_TEST(test_rdzv_member_does_not_outdate_what_others_are_in)
{
    run_two(1, 2);
    struct msg_world w = last[1].world;
    closed(1, true);
    ready(0, 1);
    ck_assert_int_eq(last[0].world.round, 2);
    comes_back(1, &w, 1);
    ck_assert(told(11, "stop"));
    struct msg m = holds(3, &w, MSG_STATE_RUNNING);
    m.join.round = 7;
    say(13, &m);
    ck_assert(told(13, "stop") && !told(0, "stop"));
}
END_TEST

/* With long leases they are known still. A later round than ours was told of by
 * this server to nobody: it was told its older one again, which it ignored, and
 * nothing that it said of its own one counted. */
START_TEST(test_rdzv_known_member_of_a_later_round_outdates_all)
{
    run_two(2, 2);
    struct msg_world w = last[0].world;
    beat_of(0, 1, 0, 1);
    beat_of(1, 1, 0, 1);
    beat_of(0, 2, 1, 1);
    pass(5 * MONO_S);
    ck_assert_int_eq(rdzv_nodes(rdzv), 2);
    comes_back(0, &w, 3);
    ck_assert(noted("rebuilt") && !told(10, "world") && !told(10, "stop"));
    comes_back(1, &w, 3);
    ck_assert_str_eq(said, "11:lease 10:lease 11:lease ");
    done(10, 3);
    done(11, 3);
    ck_assert_int_eq(last[10].end.status, 0);
    ck_assert(told(10, "end") && told(11, "end"));
}
END_TEST

/* Found by the simulator (SEED=1028559 then): two servers, one after the other,
 * had sealed a round of which the same member never heard, with one number. */
START_TEST(test_rdzv_number_of_each_server_since_is_left_out)
{
    for (int who = 0; who < 2; who++) {
        struct msg m = make_rejoin(who, 5, MSG_STATE_READY, true);
        m.join.joins = who == 0 ? 1 : 3;
        say(who, &m);
    }
    both_ready(5);
    ck_assert_int_eq(last[0].world.round, 9);
}
END_TEST

/* Members whose lease was over, of a server that died before it could count
 * them as lost: no round can have gone on without them. */
START_TEST(test_rdzv_server_that_died_soon_gave_nobody_up)
{
    struct rdzv_before before = {.acted_us = now_us - 100 * MONO_S};
    msg_set(before.server, _i == 2 ? "fedc" : "abcd");
    rdzv_name(rdzv, "0123456789abcdef0123", now_us, &before);
    for (int who = 0; who < 2; who++) {
        struct msg m = make_rejoin(who, 5, MSG_STATE_READY, false);
        msg_set(m.join.server, "abcd");
        m.join.granted_ms = 100 * 1000 + (_i == 1 ? 1000 : 900);
        say(who, &m);
    }
    both_ready(5);
    ck_assert_str_eq(granted_by[0], "0123456789abcdef");
    ck_assert(told(0, "world") == (_i == 0));
}
END_TEST

int main(void)
{
    const struct hand_test tests[] = {
        {test_rdzv_round_is_rebuilt_and_nobody_is_stopped, 1},
        {test_rdzv_hole_is_waited_for_before_the_next_round, 1},
        {test_rdzv_hole_is_filled_only_once, 1},
        {test_rdzv_minority_of_a_rebuilt_round_does_not_go_on, 3},
        {test_rdzv_minority_that_was_refused_leaves_no_end, 1},
        {test_rdzv_member_that_went_before_enough_were_here_is_a_hole, 2},
        {test_rdzv_only_one_of_two_servers_goes_on, 1},
        {test_rdzv_server_that_died_soon_gave_nobody_up, 3},
        {test_rdzv_number_of_each_server_since_is_left_out, 1},
        {test_rdzv_round_that_all_may_have_missed_is_reckoned_with, 1},
        {test_rdzv_round_that_nobody_is_sure_of_ends_its_instance, 1},
        {test_rdzv_later_round_replaces_the_one_rebuilt, 1},
        {test_rdzv_later_round_begins_without_the_ends_of_the_earlier, 1},
        {test_rdzv_spare_alone_does_not_make_a_server_forget, 1},
        {test_rdzv_newcomer_alone_does_not_make_a_server_forget, 1},
        {test_rdzv_member_that_forgot_a_rebuilt_round_ends_it, 1},
        {test_rdzv_round_number_without_a_next_one_is_not_believed, 1},
        {test_rdzv_round_that_none_but_these_can_have_missed_is_not_waited_for,
         2},
        {test_rdzv_members_that_another_server_kept_go_on, 4},
        {test_rdzv_members_of_the_round_that_we_know_stop, 2},
        {test_rdzv_member_does_not_outdate_what_others_are_in, 1},
        {test_rdzv_known_member_of_a_later_round_outdates_all, 1},
        {test_rdzv_round_that_was_over_is_not_waited_for_long, 3},
        {test_rdzv_no_round_is_over_before_the_first, 1},
        {test_rdzv_roll_tells_that_nobody_else_is_missing, 3},
    };
    return hand_main("rdzv_rebuild", tests, HAND_LEN(tests));
}
