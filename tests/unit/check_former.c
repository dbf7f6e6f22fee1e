/* links: launcher/former launcher/proc/launch_lock rendezvous/base/access */
/* links: tests/lib/agent_hand */
/* links: BASE PROTO */
/* libs: -luv -lcjson -ldl */
/*
 * What a launch leaves for a later one of its run: the server is told of it as
 * it was, once it is dead.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/agent/agent.h"
#include "launcher/former.h"
#include "launcher/proc/launch_lock.h"
#include "launcher/rdzv/client.h"
#include "tests/lib/suite.h"

/* In place of a connection. */
static struct msg told[4];
static int told_len;

void rdzv_client_send(struct rdzv_client *cl, const struct msg *m)
{
    (void)cl;
    ck_assert_int_lt(told_len, 4);
    told[told_len++] = *m;
}

bool rdzv_client_hosts(const struct rdzv_client *cl)
{
    (void)cl;
    return true;
}

/* A launch in a process of its own: it is dead when this returns. */
static void die_in_round(const char *run, int64_t round, bool held)
{
    static struct agent a;
    pid_t pid = fork();
    if (pid == 0) {
        a.round.world.round = round;
        a.round.world.group_rank = 3;
        msg_set(a.conf.join.agent, "agent-of-old");
        msg_set(a.conf.join.name, "node3");
        msg_set(a.round.world.instance, "abcdef");
        launch_lock_take(run, "host", 1);
        former_leave(&a, NULL, held);
        (void)kill(getpid(), SIGKILL);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static const struct {
    int64_t round;
    bool held;
    bool told_held;
} lives[] = {
    {7, true, true},
    {7, false, false},
    {0, true, false}, /* it had no round to have workers of */
};

START_TEST(test_former_tells_of_the_dead_as_they_were)
{
    static const struct agent newcomer = {.work = AGENT_NONE};
    const struct msg waiting = {.kind = MSG_KIND_waiting};
    char run[64];
    (void)snprintf(run, sizeof(run), "former-%d", (int)getpid());
    told_len = 0;
    die_in_round(run, lives[_i].round, lives[_i].held);
    launch_lock_take(run, "host", 1);
    former_after(&newcomer, NULL, &waiting);
    launch_lock_clear();
    launch_lock_drop();
    ck_assert_int_eq(told_len, 1);
    const struct msg_dead *d = &told[0].dead;
    ck_assert_int_eq(told[0].kind, MSG_KIND_dead);
    ck_assert_str_eq(d->agent, "agent-of-old");
    ck_assert_str_eq(d->name, "node3");
    ck_assert_str_eq(d->instance, "abcdef");
    ck_assert_int_eq(d->round, lives[_i].round);
    ck_assert_int_eq(d->group_rank, 3);
    ck_assert_int_eq(d->held, lives[_i].told_held);
    ck_assert_int_eq(d->hosts, true);
}
END_TEST

/* -- the vote -------------------------------------------------------------- */

static struct agent voter(void)
{
    struct agent a = {.exit = AGENT_STAYS, .known = AGENT_END_UNKNOWN};
    a.vote.state = AGENT_VOTE_PENDING;
    a.vote.accepted.round = 9;
    a.vote.accepted.epoch.count = 4;
    msg_set(a.vote.accepted.epoch.id, "feed");
    msg_set(a.vote.accepted.instance, "abcdef");
    msg_set(a.conf.join.agent, "agent-of-old");
    msg_set(a.conf.join.name, "node3");
    return a;
}

static void vote_in_another_instance(struct agent *a)
{
    msg_set(a->round.world.instance, "fedcba");
    a->round.world.round = 3;
}

/* What makes its vote say nothing: nothing, it has none, it leaves, it knows of
 * the end, it was in two instances. */
static void bind_by(struct agent *a, int how)
{
    if (how == 1)
        a->vote.state = AGENT_VOTE_NONE;
    else if (how == 2)
        a->exit = AGENT_LEAVING;
    else if (how == 3)
        a->known = AGENT_END_HELD;
    else if (how == 4)
        vote_in_another_instance(a);
}

/* Before each message that binds it the vote is left behind. */
START_TEST(test_former_tells_what_the_dead_had_accepted)
{
    static const enum msg_kind kinds[] = {MSG_KIND_promise, MSG_KIND_accept,
                                          MSG_KIND_bye, MSG_KIND_leave,
                                          MSG_KIND_join};
    const int n_kinds = (int)(sizeof(kinds) / sizeof(*kinds));
    char run[64];
    (void)snprintf(run, sizeof(run), "former-%d", (int)getpid());
    told_len = 0;
    pid_t pid = fork();
    if (pid == 0) {
        struct agent a = voter();
        launch_lock_take(run, "host", 1);
        former_before(&a, NULL, MSG_KIND_promise);
        a.vote.accepted.round++;
        bind_by(&a, _i / n_kinds);
        former_before(&a, NULL, kinds[_i % n_kinds]);
        (void)kill(getpid(), SIGKILL);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    launch_lock_take(run, "host", 1);
    struct agent newcomer = {.work = AGENT_NONE};
    struct msg waiting = {.kind = MSG_KIND_waiting};
    newcomer.vote.promised.count = 4;
    former_after(&newcomer, NULL, &waiting);
    launch_lock_clear();
    launch_lock_drop();
    ck_assert_int_eq(told_len, 1);
    const struct msg_dead *d = &told[0].dead;
    ck_assert_int_eq(d->voted, _i < n_kinds ? 10 : 0);
    ck_assert_int_eq(d->voted_epoch, _i < n_kinds ? 4 : 0);
    ck_assert_str_eq(d->voted_epoch_id, _i < n_kinds ? "feed" : "");
    if (_i < n_kinds)
        ck_assert_str_eq(d->instance, "abcdef");
}
END_TEST

/* Told of the end, it may have ended with it. */
START_TEST(test_former_that_heard_of_the_end_has_no_vote)
{
    struct agent a = voter();
    struct msg end = {.kind = MSG_KIND_end};
    struct msg_dead d = {.voted = 0};
    ck_assert(agent_last_word(&a, &d));
    a.known = AGENT_END_FINAL;
    former_after(&a, NULL, &end);
    ck_assert(!agent_last_word(&a, &d));
    ck_assert_int_eq(told_len, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("former");
    TCase *t = tcase_create("former");
    tcase_add_loop_test(t, test_former_tells_of_the_dead_as_they_were, 0,
                        (int)(sizeof(lives) / sizeof(*lives)));
    tcase_add_loop_test(t, test_former_tells_what_the_dead_had_accepted, 0, 25);
    tcase_add_test(t, test_former_that_heard_of_the_end_has_no_vote);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
