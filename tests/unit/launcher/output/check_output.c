/* links: launcher/output/{output,relay,relay_intake,stream,console,logfile} */
/* links: launcher/output/lines launcher/conf/{output,options,words} */
/* links: rendezvous/base/{opts,utc,open_files,buf,err,log,mono,utf8} */
/* links: rendezvous/net/helper TLS launcher/proc/pidfd */
/* libs: -ldl */
/*
 * The agent's side of the output, with a relay of its own: the test is agent
 * and worker.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/output/output.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

static struct conf conf;
static struct output *o;
static struct output_fds ends;
static const struct output_hurry patient = {.fd = -1};
static volatile pid_t relay;
static volatile sig_atomic_t alarms;

static void start_in(const char *folder)
{
    struct msg_world world = {.round = 1, .world_size = 1};
    struct ddp_err err;
    conf.nproc = 1;
    o = output_new(&conf);
    ck_assert_int_eq(output_open(o, &world, 0, folder, &ends, &err), 0);
    ck_assert_int_ge(ends.err, 0);
    relay = output_pid(o);
}

static void start(void)
{
    start_in("");
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
    output_finish(o, false, &patient);
}

static void on_alarm(int signo)
{
    (void)signo;
    if (++alarms == 2)
        (void)kill(relay, SIGCONT);
}

/* The relay stands still until the second of some signals. */
static void stop_relay_for_two_signals(void)
{
    struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval each = {.it_value.tv_usec = 5000,
                             .it_interval.tv_usec = 5000};
    alarms = 0;
    ck_assert_int_eq(sigaction(SIGALRM, &sa, NULL), 0);
    ck_assert_int_eq(kill(relay, SIGSTOP), 0);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &each, NULL), 0);
}

/* On a busy machine the relay may take longer than it is waited for, now and
 * then: it is asked until it answers. */
static void ask_until_it_answers(char tail[LINES_TAIL_BYTES + 1],
                                 void (*ask)(char *tail))
{
    int64_t until_us = mono_now_us() + 20 * MONO_S;
    tail[0] = '\0';
    ask(tail);
    while (tail[0] == '\0' && mono_now_us() < until_us) {
        (void)usleep(10000);
        ask(tail);
    }
}

static void ask_tail(char *tail)
{
    output_tail(o, 0, tail);
}

static void ask_among_signals(char *tail)
{
    stop_relay_for_two_signals();
    output_tail(o, 0, tail);
    while (alarms < 2)
        (void)pause();
    ck_assert_int_eq(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
}

/* Other workers die while the agent waits for the last words of one. */
TEST(test_output_tail_is_heard_through_signals)
{
    char tail[LINES_TAIL_BYTES + 1];
    start();
    put("last words\n");
    ask_until_it_answers(tail, ask_among_signals);
    ck_assert_str_eq(tail, "last words\n");
    stop();
}

/* A relay that is stuck is waited for once, and asked again when the answer
 * that came too late is there. */
TEST(test_output_tail_of_a_stuck_relay_is_empty_until_it_answers)
{
    char tail[LINES_TAIL_BYTES + 1] = "";
    start();
    put("last words\n");
    ck_assert_int_eq(kill(relay, SIGSTOP), 0);
    output_tail(o, 0, tail);
    ck_assert_str_eq(tail, "");
    ck_assert_int_eq(kill(relay, SIGCONT), 0);
    ask_until_it_answers(tail, ask_tail);
    ck_assert_str_eq(tail, "last words\n");
    stop();
}

static bool takes_all_away(int fd)
{
    char byte;
    while (recv(fd, &byte, 1, MSG_DONTWAIT) == 1)
        if (byte == '!')
            return true;
    return false;
}

/* The relay stands still: not every message ends the waiting for it. */
TEST(test_output_end_is_hurried_by_what_asks_for_it_only)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair),
                     0);
    const struct output_hurry h = {.fd = pair[0], .asks = takes_all_away};
    start();
    output_close(&ends);
    output_worker_ended(o, 0);
    ck_assert_int_eq(kill(relay, SIGSTOP), 0);
    ck_assert_int_eq(send(pair[1], "?", 1, 0), 1);
    pid_t later = fork();
    if (later == 0) {
        (void)usleep(300 * 1000);
        _exit(send(pair[1], "!", 1, 0) == 1 ? 0 : 1);
    }
    int64_t began_us = mono_now_us();
    output_finish(o, false, &h);
    ck_assert_int_ge(mono_now_us() - began_us, 250 * MONO_MS);
    ck_assert_int_eq(waitpid(later, NULL, 0), later);
}

/* The relay is killed while a worker writes: another one goes on where it was,
 * and none of what it had not read is lost. */
TEST(test_output_of_a_killed_relay_is_taken_over)
{
    int status;
    char tail[LINES_TAIL_BYTES + 1];
    start();
    ck_assert_int_eq(kill(relay, SIGSTOP), 0);
    put("written meanwhile\n");
    ck_assert_int_eq(kill(relay, SIGKILL), 0);
    ck_assert_int_eq(waitpid(relay, &status, 0), relay);
    output_restart(o, status);
    ck_assert_int_ne(output_pid(o), relay);
    ask_until_it_answers(tail, ask_tail);
    ck_assert_str_eq(tail, "written meanwhile\n");
    stop();
}

/* All is written at the end, even where no descriptor is left by which the
 * agent could watch the relay do it. */
TEST(test_output_is_written_to_its_end_without_descriptors)
{
    char folder[] = "/tmp/check_output.XXXXXX", path[64], text[64] = "";
    struct rlimit few, before;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    conf.output.redirects[0] = CONF_STDERR;
    start_in(folder);
    stop_relay_for_two_signals();
    put("last words\n");
    output_close(&ends);
    output_worker_ended(o, 0);
    int next = dup(STDOUT_FILENO);
    ck_assert_int_eq(close(next), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)next;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ck_assert_int_lt(dup(STDOUT_FILENO), 0);
    output_finish(o, false, &patient);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    (void)snprintf(path, sizeof(path), "%s/stderr.log", folder);
    FILE *f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_str_eq(text, "last words\n");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* Workers of 200 attempts say a word each and die, while the next ones start:
 * all that a copy of an attempt's lines has is of that attempt. */
TEST(test_output_of_an_attempt_is_filtered_into_its_own_file)
{
    enum {
        ATTEMPTS = 200
    };
    char root[] = "/tmp/check_output.XXXXXX", path[128], text[64], want[64];
    struct msg_world world = {.world_size = 2};
    struct output_fds each[2];
    struct ddp_err err;
    conf.nproc = 2;
    conf.output.redirects[0] = conf.output.redirects[1] = CONF_STDOUT;
    conf.output.filters[0].text[0] = strdup("out");
    conf.output.filters[0].len = 1;
    ck_assert_ptr_nonnull(mkdtemp(root));
    o = output_new(&conf);
    for (int i = 0; i < ATTEMPTS; i++) {
        world.round = i + 1;
        (void)snprintf(path, sizeof(path), "%s/%d", root, i);
        ck_assert_int_eq(mkdir(path, 0777), 0);
        for (int rank = 0; rank < 2; rank++) {
            (void)snprintf(path, sizeof(path), "%s/%d/%d", root, i, rank);
            ck_assert_int_eq(mkdir(path, 0777), 0);
            ck_assert_int_eq(
                output_open(o, &world, rank, path, &each[rank], &err), 0);
        }
        int len = snprintf(text, sizeof(text), "out %d", i); /* no newline */
        ck_assert_int_eq(write(each[1].out, text, (size_t)len), len);
        output_close(&each[0]);
        output_close(&each[1]);
    }
    output_finish(o, false, &patient);
    for (int i = 0; i < ATTEMPTS; i++) {
        (void)snprintf(path, sizeof(path), "%s/%d/filtered_stdout.log", root,
                       i);
        (void)snprintf(want, sizeof(want), "out %d\n", i);
        FILE *f = fopen(path, "re");
        ck_assert_ptr_nonnull(f);
        memset(text, 0, sizeof(text));
        ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, f), 0);
        (void)fclose(f);
        ck_assert_str_eq(text, want);
    }
    (void)snprintf(path, sizeof(path), "rm -rf %s", root);
    ck_assert_int_eq(system(path), 0);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    return SUITE_RUN("output", "net", .limit_s = 60);
}
