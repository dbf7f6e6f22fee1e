/* links: launcher/former launcher/proc/launch_lock rendezvous/base/access */
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
    char run[64];
    (void)snprintf(run, sizeof(run), "former-%d", (int)getpid());
    told_len = 0;
    die_in_round(run, lives[_i].round, lives[_i].held);
    launch_lock_take(run, "host", 1);
    former_tell(NULL);
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

int main(void)
{
    Suite *suite = suite_create("former");
    TCase *t = tcase_create("former");
    tcase_add_loop_test(t, test_former_tells_of_the_dead_as_they_were, 0,
                        (int)(sizeof(lives) / sizeof(*lives)));
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
