/* links: launcher/worker/gate */
/*
 * The gate of fresh children: who waits, who is woken, and that one which
 * stands still holds up nobody.
 */
#include <check.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/worker/gate.h"
#include "tests/lib/suite.h"

#define CHILDREN 5

static struct gate *gate;
static int ends[2];
static pid_t children[CHILDREN];

static void setup(void)
{
    gate = gate_new();
    ck_assert_ptr_nonnull(gate);
    ck_assert_int_eq(pipe(ends), 0);
}

/* Each says so when it stands before the gate, and when it is through. */
static void start(struct gate *g)
{
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] != 0)
            continue;
        ssize_t n = write(ends[1], "<", 1);
        gate_pass(g);
        n += write(ends[1], ">", 1);
        _exit(n == 2 ? 0 : 1);
    }
}

/* How many more of these come; waits `wait_ms` for the first and each other. */
static int count(char what, int most, int wait_ms)
{
    struct pollfd p = {.fd = ends[0], .events = POLLIN};
    int n = 0;
    char c;
    while (n < most && poll(&p, 1, wait_ms) == 1 && read(ends[0], &c, 1) == 1) {
        ck_assert_int_eq(c, what);
        n++;
    }
    return n;
}

static void end(int from)
{
    for (int i = from; i < CHILDREN; i++) {
        int status = -1;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }
}

START_TEST(test_gate_that_is_closed_lets_none_through)
{
    gate_close(gate);
    start(gate);
    ck_assert_int_eq(count('<', CHILDREN, 30000), CHILDREN);
    ck_assert_int_eq(count('>', CHILDREN, 200), 0);
    gate_open(gate);
    ck_assert_int_eq(count('>', CHILDREN, 30000), CHILDREN);
    end(0);
}
END_TEST

START_TEST(test_gate_begins_open)
{
    start(_i == 0 ? gate : NULL);
    end(0);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}
END_TEST

START_TEST(test_gate_is_closed_again_for_the_next_round)
{
    for (int round = 0; round < 3; round++) {
        gate_close(gate);
        start(gate);
        ck_assert_int_eq(count('<', CHILDREN, 30000), CHILDREN);
        gate_open(gate);
        ck_assert_int_eq(count('>', CHILDREN, 30000), CHILDREN);
        end(0);
    }
}
END_TEST

START_TEST(test_gate_one_that_stands_still_holds_up_none)
{
    gate_close(gate);
    start(gate);
    ck_assert_int_eq(count('<', CHILDREN, 30000), CHILDREN);
    ck_assert_int_eq(kill(children[0], SIGSTOP), 0);
    ck_assert_int_eq(waitpid(children[0], NULL, WUNTRACED), children[0]);
    gate_open(gate);
    ck_assert_int_eq(count('>', CHILDREN - 1, 30000), CHILDREN - 1);
    end(1);
    ck_assert_int_eq(kill(children[0], SIGCONT), 0);
    ck_assert_int_eq(count('>', 1, 30000), 1);
    ck_assert_int_eq(waitpid(children[0], NULL, 0), children[0]);
}
END_TEST

START_TEST(test_gate_one_that_waits_can_be_killed)
{
    int status = 0;
    gate_close(gate);
    start(gate);
    ck_assert_int_eq(count('<', CHILDREN, 30000), CHILDREN);
    for (int i = 0; i < CHILDREN; i++) {
        ck_assert_int_eq(kill(children[i], i == 0 ? SIGKILL : SIGUSR1), 0);
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert(WIFSIGNALED(status));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gate");
    TCase *t = tcase_create("gate");
    tcase_set_tags(t, "fast");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, test_gate_that_is_closed_lets_none_through);
    tcase_add_loop_test(t, test_gate_begins_open, 0, 2);
    tcase_add_test(t, test_gate_is_closed_again_for_the_next_round);
    tcase_add_test(t, test_gate_one_that_stands_still_holds_up_none);
    tcase_add_test(t, test_gate_one_that_waits_can_be_killed);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
