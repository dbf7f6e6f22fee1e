/* clang-format off */
/* links: launcher/output launcher/relay launcher/stream launcher/console launcher/logfile launcher/lines */
/* links: launcher/conf_output launcher/options rendezvous/base/opts */
/* links: rendezvous/daemon/helper rendezvous/net/tls rendezvous/net/record rendezvous/net/openssl */
/* links: rendezvous/base/buf rendezvous/base/err rendezvous/base/log rendezvous/base/mono */
/* libs: -ldl */
/* clang-format on */
/*
 * The agent's side of the output, with a relay of its own: the test is agent
 * and worker.
 */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/output.h"

static struct conf conf;
static struct output *o;
static struct output_ends ends;
static volatile pid_t relay;
static volatile sig_atomic_t alarms;

static void start(void)
{
    struct msg_world world = {.round = 1, .world_size = 1};
    struct ddp_err err;
    conf.nproc = 1;
    conf.hang.idle_us = INT64_MAX;
    o = output_new(&conf);
    ck_assert_int_eq(output_open(o, &world, 0, "", &ends, &err), 0);
    ck_assert_int_ge(ends.err, 0);
    relay = output_pid(o);
}

static void put(const char *text)
{
    ck_assert_int_eq(write(ends.err, text, strlen(text)),
                     (ssize_t)strlen(text));
}

static void stop(void)
{
    output_close(&ends);
    output_worker_ended(o, 0);
    output_finish(o, false, -1);
}

static void on_alarm(int signo)
{
    (void)signo;
    if (++alarms == 2)
        (void)kill(relay, SIGCONT);
}

/* Other workers die while the agent waits for the last words of one. */
START_TEST(test_output_tail_is_heard_through_signals)
{
    char tail[LINES_TAIL_BYTES + 1];
    struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval each = {.it_value.tv_usec = 20000,
                             .it_interval.tv_usec = 20000};
    start();
    put("last words\n");
    ck_assert_int_eq(kill(relay, SIGSTOP), 0);
    ck_assert_int_eq(sigaction(SIGALRM, &sa, NULL), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &each, NULL), 0);
    output_tail(o, 0, tail);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
    ck_assert_int_ge(alarms, 2);
    ck_assert_str_eq(tail, "last words\n");
    stop();
}
END_TEST

/* A relay that is stuck is waited for once, and asked again when the answer
 * that came too late is there. */
START_TEST(test_output_tail_of_a_stuck_relay_is_empty_until_it_answers)
{
    char tail[LINES_TAIL_BYTES + 1] = "";
    start();
    put("last words\n");
    ck_assert_int_eq(kill(relay, SIGSTOP), 0);
    output_tail(o, 0, tail);
    ck_assert_str_eq(tail, "");
    ck_assert_int_eq(kill(relay, SIGCONT), 0);
    for (int i = 0; i < 100 && tail[0] == '\0'; i++) {
        (void)usleep(10000);
        output_tail(o, 0, tail);
    }
    ck_assert_str_eq(tail, "last words\n");
    stop();
}
END_TEST

/* The relay is killed while a worker writes: another one goes on where it was,
 * and none of what it had not read is lost. */
START_TEST(test_output_of_a_killed_relay_is_taken_over)
{
    char tail[LINES_TAIL_BYTES + 1] = "";
    start();
    ck_assert_int_eq(kill(relay, SIGSTOP), 0);
    put("written meanwhile\n");
    ck_assert_int_eq(kill(relay, SIGKILL), 0);
    ck_assert_int_eq(waitpid(relay, NULL, 0), relay);
    output_restart(o);
    ck_assert_int_ne(output_pid(o), relay);
    output_tail(o, 0, tail);
    ck_assert_str_eq(tail, "written meanwhile\n");
    stop();
}
END_TEST

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    Suite *suite = suite_create("output");
    TCase *tc = tcase_create("net");
    tcase_add_test(tc, test_output_tail_is_heard_through_signals);
    tcase_add_test(tc,
                   test_output_tail_of_a_stuck_relay_is_empty_until_it_answers);
    tcase_add_test(tc, test_output_of_a_killed_relay_is_taken_over);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
