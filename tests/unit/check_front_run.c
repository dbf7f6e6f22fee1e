/* links: launcher/front/front launcher/front/child launcher/front/command */
/* links: launcher/front/orders launcher/front/marks launcher/front/streams */
/* links: launcher/front/proxy launcher/output/console launcher/output/lines */
/* links: tests/lib/conf_line tests/lib/words */
/* links: rendezvous/base/buf rendezvous/base/open_files rendezvous/base/utc */
/* libs: -lcjson -ldl */
/*
 * A front end with proxies and launchers, all on this machine: --launch_with is
 * a script that executes what it is given. This program is all three: its
 * main() becomes a proxy or a launcher by its arguments, as ddprun does. Hosts
 * are names; what a host does stands in its name.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/conf/options.h"
#include "launcher/front/front.h"
#include "launcher/front/proxy.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/conf_line.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/words.h"

#define LIMIT_US (20 * MONO_S)

/* -- the launcher on a host ------------------------------------------------ */

static volatile sig_atomic_t got;

static void on_signal(int signo)
{
    got = signo;
}

/* On stdout, and in a file: stdout may lead to nobody. */
static void note(int rank, int signo)
{
    FILE *f = fopen("signals", "a");
    (void)signal(SIGPIPE, SIG_IGN);
    if (f != NULL) {
        fprintf(f, "rank %d got %d\n", rank, signo);
        (void)fclose(f);
    }
    printf("rank %d got %d\n", rank, signo);
}

/*
 * "ddprun ... VERB [NUMBER]", where VERB is
 *   exit N      ends with N
 *   exit0 N     the first host ends with 0, the others with N
 *   hold        says that it is there, waits for a signal, and ends with 128+N
 *   part N      the second host ends with N, the others hold
 *   deaf        the same, but signals do not end it
 *   lines N     N lines on both streams
 *   where       the folder, the variables A and B, and what stdin has
 */
static int be_launcher(int argc, char *argv[])
{
    const char *verb = "";
    int n = 0, rank = 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' && verb[0] == '\0')
            verb = argv[i];
        else if (argv[i][0] != '-')
            n = atoi(argv[i]);
        (void)sscanf(argv[i], "--node_rank=%d", &rank);
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(verb, "exit") == 0)
        return n;
    if (strcmp(verb, "exit0") == 0)
        return rank == 0 ? 0 : n;
    if (strcmp(verb, "where") == 0) {
        char folder[300] = "", byte;
        const char *a = getenv("A"), *b = getenv("B");
        printf("rank %d folder %s A %s B %s stdin %zd\n", rank,
               getcwd(folder, sizeof(folder)) != NULL ? folder : "none",
               a != NULL ? a : "none", b != NULL ? b : "none",
               read(STDIN_FILENO, &byte, 1));
        return 0;
    }
    if (strcmp(verb, "lines") == 0) {
        for (int i = 0; i < n; i++) {
            printf("rank %d line %d of stdout\n", rank, i);
            fprintf(stderr, "rank %d line %d of stderr\n", rank, i);
        }
        fprintf(stderr, "no newline %d", rank);
        return 0;
    }
    if (strcmp(verb, "part") == 0 && rank == 1)
        return n;
    for (int signo = 1; signo < 32; signo++)
        if (signo != SIGCHLD && signo != SIGCONT)
            (void)signal(signo, on_signal);
    printf("rank %d holds %d\n", rank, (int)getpid());
    for (;;) {
        int signo;
        while ((signo = got) == 0)
            (void)usleep(1000);
        got = 0;
        note(rank, signo);
        if (strcmp(verb, "deaf") != 0 && signo != SIGUSR1 && signo != SIGTSTP)
            return 128 + signo;
    }
}

/* -- the front end --------------------------------------------------------- */

static int out_fd; /* both streams of the front end */
static pid_t front;
static char shown[1 << 20];
static size_t shown_len;

/* Executes what stands behind the host; what a host does first is in its name:
 * "slow" never does, "none" fails, "chatty" says something of its own, "gone"
 * has not this folder, "cut" is lost after a second. */
static void setup(void)
{
    static const char stand_in[] = "#!/bin/sh\n"
                                   "host=$1\n"
                                   "shift\n"
                                   "case $host in\n"
                                   "slow*) exec sleep 100 ;;\n"
                                   "none*) echo no such host >&2; exit 255 ;;\n"
                                   "chatty*) echo a banner >&2 ;;\n"
                                   "gone*) rmdir \"$PWD\"; cd / ;;\n"
                                   "cut*) (sleep 1; kill -9 $$) & ;;\n"
                                   "esac\n"
                                   "unset A B\n"
                                   "exec \"$@\"\n";
    conf_line_setup();
    int fd = open("stand-in", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    ck_assert_int_eq(write(fd, stand_in, sizeof(stand_in) - 1),
                     sizeof(stand_in) - 1);
    ck_assert_int_eq(close(fd), 0);
    /* What a dead proxy leaves behind comes to us. */
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

static int be_front(const char *env, const char *line)
{
    static struct conf c;
    struct opts o;
    struct ddp_err err = {.text = ""};
    conf_line_env(env);
    (void)setenv("PATH", "bin:/bin:/usr/bin", 1);
    words_line("ddprun", line);
    if (opts_parse(&o, &options_table, words_argc, words_argv, &err) < 0 ||
        conf_init(&c, &o, words_argv + o.rest, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 99;
    }
    int status = front_run(&c, &o, words_argc, words_argv);
    conf_free(&c);
    return status;
}

static void start(const char *env, const char *line)
{
    int ends[2];
    shown_len = 0;
    ck_assert_int_eq(pipe(ends), 0);
    front = fork();
    ck_assert_int_ge(front, 0);
    if (front == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        log_init("ddprun");
        _exit(be_front(env, line));
    }
    (void)close(ends[1]);
    out_fd = ends[0];
}

/* Reads until the text is there (true), or no writer is left (false). */
static bool reads(const char *text)
{
    int64_t until_us = mono_now_us() + LIMIT_US * suite_slow();
    while (text == NULL || strstr(shown, text) == NULL) {
        struct pollfd p = {.fd = out_fd, .events = POLLIN};
        ck_assert_msg(mono_now_us() < until_us, "'%s' does not come:\n%s",
                      text != NULL ? text : "the end", shown);
        if (poll(&p, 1, 100) <= 0)
            continue;
        ssize_t n =
            read(out_fd, shown + shown_len, sizeof(shown) - 1 - shown_len);
        if (n <= 0)
            return false;
        shown_len += (size_t)n;
        shown[shown_len] = '\0';
    }
    return true;
}

static void comes(const char *text)
{
    ck_assert_msg(reads(text), "no '%s' in:\n%s", text, shown);
}

/* The front end's exit status, once all of its output has come: nobody holds
 * the pipe any more, so all launchers and proxies are dead. */
static int end(void)
{
    int status;
    (void)reads(NULL);
    ck_assert_int_eq(waitpid(front, &status, 0), front);
    (void)close(out_fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int count(const char *text)
{
    int n = 0;
    for (const char *p = shown; (p = strstr(p, text)) != NULL; p++)
        n++;
    return n;
}

#define WITH "--launch_with=./stand-in "

/* -- the job's status ------------------------------------------------------ */

static const struct {
    const char *line;
    int status;
} ends[] = {
    {"--hosts=a,b,c exit 0", 0},
    {"--hosts=a,b,c exit 7", 7},
    {"--hosts=a exit 255", 255},    /* ssh's own status for a lost connection */
    {"--hosts=a,b,c exit0 143", 0}, /* the others left */
};

START_TEST(test_front_ends_with_the_status_of_the_launchers)
{
    char line[200];
    (void)snprintf(line, sizeof(line), WITH "%s", ends[_i].line);
    start("", line);
    ck_assert_int_eq(end(), ends[_i].status);
    ck_assert_msg(count("ddprun: ") == 1, "%s", shown); /* that it starts */
    ck_assert_ptr_null(strchr(shown, '\001'));
}
END_TEST

/* -- output ---------------------------------------------------------------- */

START_TEST(test_front_shows_all_lines_once_and_whole)
{
    char want[64];
    start("", WITH "--hosts=chatty1,b,c lines 500");
    ck_assert_int_eq(end(), 0);
    for (int rank = 0; rank < 3; rank++)
        for (int i = 0; i < 500; i++) {
            (void)snprintf(want, sizeof(want), "rank %d line %d of stdout\n",
                           rank, i);
            ck_assert_int_eq(count(want), 1);
            (void)snprintf(want, sizeof(want), "rank %d line %d of stderr\n",
                           rank, i);
            ck_assert_int_eq(count(want), 1);
        }
    ck_assert_int_eq(count("no newline "), 3);
    ck_assert_int_eq(count("chatty1: a banner\n"), 1);
    ck_assert_ptr_null(strchr(shown, '\001'));
}
END_TEST

/* -- what a host gets ------------------------------------------------------ */

START_TEST(test_front_passes_on_folder_and_variables)
{
    char want[200];
    start("A=1 B=2", WITH "--hosts=a,b --export=A where");
    ck_assert_int_eq(end(), 0);
    for (int rank = 0; rank < 2; rank++) {
        (void)snprintf(want, sizeof(want),
                       "rank %d folder %s A 1 B none stdin 0\n", rank, scratch);
        ck_assert_msg(count(want) == 1, "%s", shown);
    }
}
END_TEST

/* -- signals --------------------------------------------------------------- */

static const int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

START_TEST(test_front_passes_signals_on)
{
    char want[32];
    start("", WITH "--hosts=a,b,c hold");
    for (int rank = 0; rank < 3; rank++) {
        (void)snprintf(want, sizeof(want), "rank %d holds", rank);
        comes(want);
    }
    ck_assert_int_eq(kill(front, SIGUSR1), 0);
    for (int rank = 0; rank < 3; rank++) {
        (void)snprintf(want, sizeof(want), "rank %d got %d\n", rank, SIGUSR1);
        comes(want);
    }
    ck_assert_int_eq(kill(front, passed[_i]), 0);
    ck_assert_int_eq(end(), 128 + passed[_i]);
    (void)snprintf(want, sizeof(want), " got %d\n", passed[_i]);
    ck_assert_msg(count(want) == 3, "%s", shown);
    ck_assert_int_eq(count(" got "), 6);
}
END_TEST

/* A host that has not answered is not waited for. */
START_TEST(test_front_ends_soon_while_a_host_is_silent)
{
    int64_t began_us = mono_now_us();
    start("", WITH "--hosts=a,slow hold");
    comes("rank 0 holds");
    ck_assert_int_eq(kill(front, SIGTERM), 0);
    ck_assert_int_eq(end(), 128 + SIGTERM);
    ck_assert_int_lt(mono_now_us() - began_us, 10 * MONO_S * suite_slow());
}
END_TEST

/* -- hosts that cannot be reached ------------------------------------------ */

static const struct {
    const char *line;
    int status;
    const char *want;
} lost[] = {
    {"--hosts=a,none1,c hold", 69,
     "cannot start on none1: stand-in ended with status 255"},
    {"--hosts=a,none1,c hold", 69,
     "at most 2 hosts can be reached, and the job needs 3: ending it"},
    {"--hosts=a,none1,c hold", 69, "none1: no such host\n"},
    {"--hosts=a,slow --launch_timeout=1 hold", 69,
     "cannot start on slow: no answer within 1 s"},
    {"--hosts=none1,none2 --nnodes=1 hold", 69,
     "at most 0 hosts can be reached, and the job needs 1"},
    /* fewer will do */
    {"--hosts=a,none1,c --nnodes=2:3 exit 3", 3,
     "cannot start on none1: stand-in ended with status 255"},
};

START_TEST(test_front_names_a_host_that_cannot_be_reached)
{
    char line[200];
    (void)snprintf(line, sizeof(line), WITH "%s", lost[_i].line);
    start("", line);
    ck_assert_int_eq(end(), lost[_i].status);
    ck_assert_msg(count(lost[_i].want) == 1, "%s", shown);
}
END_TEST

START_TEST(test_front_without_the_command_says_so)
{
    start("", "--launch_with=./nothing --hosts=a exit 0");
    ck_assert_int_eq(end(), 69);
    ck_assert_int_eq(count("a: ddprun: cannot execute ./nothing"), 1);
    ck_assert_int_eq(count("ended with status 127 (is ddprun there"), 1);
}
END_TEST

START_TEST(test_front_names_a_host_without_the_folder)
{
    ck_assert_int_eq(mkdir("folder", 0755), 0);
    ck_assert_int_eq(chdir("folder"), 0);
    start("", "--launch_with=../stand-in --hosts=gone1 exit 0");
    ck_assert_int_eq(chdir(".."), 0);
    ck_assert_int_eq(end(), 69);
    ck_assert_msg(count("/folder on ") == 1, "%s", shown);
    ck_assert_msg(count("cannot start on gone1: stand-in ended with status "
                        "66") == 1,
                  "%s", shown);
}
END_TEST

/* -- launchers that fail alone --------------------------------------------- */

static const struct {
    const char *line;
    int status;
    const char *want;
} few[] = {
    {"--hosts=a,b,c part 66", 66,
     "1 launcher ended without success, so at most 2 are left, and the job "
     "needs 3: ending it"},
    {"--hosts=a,cut1,c hold", 77,
     "1 launcher ended without success, so at most 2 are left"},
    {"--hosts=a,b,none1 --nnodes=2:3 part 127", 127, "so at most 1 is left"},
    {"--hosts=a,b,c part 143", 143, "so at most 2 are left"},
};

/* The others would wait for a node that nobody starts. Only if one left in
 * order may their workers still save, and have the long grace. */
START_TEST(test_front_ends_a_job_of_which_too_few_launchers_are_left)
{
    char line[200];
    bool ordered = few[_i].status == 143;
    (void)snprintf(line, sizeof(line),
                   WITH "--failure_grace=0.5 --shutdown_timeout=%s %s",
                   ordered ? "2" : "600", few[_i].line);
    int64_t began_us = mono_now_us();
    start("", line);
    ck_assert_int_eq(end(), few[_i].status);
    if (ordered)
        ck_assert_int_ge(mono_now_us() - began_us, 7 * MONO_S);
    ck_assert_msg(count(few[_i].want) == 1, "%s", shown);
}
END_TEST

/* Fewer will do. */
START_TEST(test_front_leaves_a_job_alone_that_can_go_on)
{
    start("", WITH "--hosts=a,b,c --nnodes=2:3 --shutdown_timeout=1 part 66");
    comes("rank 0 holds");
    comes("rank 2 holds");
    (void)sleep(8);
    ck_assert_int_eq(kill(front, SIGTERM), 0);
    ck_assert_int_eq(end(), 128 + SIGTERM);
    ck_assert_msg(count("left") == 0, "%s", shown);
}
END_TEST

/* -- srun ------------------------------------------------------------------ */

#define SCRIPT                                                                 \
    "SLURM_JOB_ID=17 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST=n[1-2] "

/* In place of srun: its first options are given, the rest is executed. */
static void make_srun(const char *body)
{
    FILE *f = fopen("bin/srun", "we");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "#!/bin/sh\n%s\n", body);
    ck_assert_int_eq(fchmod(fileno(f), 0755), 0);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(test_front_of_a_script_ends_as_srun_does_if_nothing_was_started)
{
    make_srun("echo 'srun: error: no' >&2; exit 3");
    start(SCRIPT, "exit 0");
    ck_assert_int_eq(end(), 3);
    ck_assert_int_eq(count("srun: error: no\n"), 1);
    ck_assert_int_eq(count("ddprun: Slurm job 17: starting on its 2 nodes"), 1);
    (void)unlink("bin/srun");
}
END_TEST

/* The status is the launchers' own, whatever srun makes of a lost node. */
START_TEST(test_front_of_a_script_ends_as_its_launchers_do)
{
    make_srun("while [ \"${1#--}\" != \"$1\" ]; do shift; done\n"
              "\"$@\"; exit 9");
    start(SCRIPT, "exit 5");
    ck_assert_int_eq(end(), 5);
    start(SCRIPT, "exit 0");
    ck_assert_int_eq(end(), 0);
    (void)unlink("bin/srun");
}
END_TEST

/* srun gives the limits of its caller to all tasks: they must be the user's. */
START_TEST(test_front_leaves_the_limits_of_its_children_alone)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 123;
    ck_assert(limit.rlim_max > limit.rlim_cur);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    make_srun("echo limit $(ulimit -n); exit 3");
    start(SCRIPT, "exit 0");
    ck_assert_int_eq(end(), 3);
    ck_assert_msg(count("limit 123\n") == 1, "%s", shown);
    (void)unlink("bin/srun");
}
END_TEST

/* -- a dead front end ------------------------------------------------------ */

/* Until the launchers whose "holds PID" was shown are gone. */
static void are_gone(void)
{
    int64_t until_us = mono_now_us() + LIMIT_US * suite_slow();
    for (const char *p = shown; (p = strstr(p, " holds ")) != NULL; p++) {
        pid_t pid = (pid_t)atoi(p + 7);
        ck_assert_int_gt(pid, 1);
        while (kill(pid, 0) == 0) {
            ck_assert_msg(mono_now_us() < until_us, "%d is left", (int)pid);
            (void)waitpid(-1, NULL, WNOHANG); /* it may come to us */
            (void)usleep(10 * 1000);
        }
    }
}

static int count_noted(const char *line)
{
    char text[100];
    int n = 0;
    FILE *f = fopen("signals", "r");
    while (f != NULL && fgets(text, sizeof(text), f) != NULL)
        n += strstr(text, line) != NULL;
    if (f != NULL)
        (void)fclose(f);
    return n;
}

/* All launchers get SIGTERM, and nothing is left. */
START_TEST(test_front_that_is_killed_leaves_nothing)
{
    start("", WITH "--hosts=a,b hold");
    comes("rank 0 holds");
    comes("rank 1 holds");
    (void)unlink("signals");
    ck_assert_int_eq(kill(front, SIGKILL), 0);
    ck_assert_int_eq(end(), 128 + SIGKILL);
    are_gone();
    ck_assert_int_eq(count_noted(" got 15\n"), 2);
}
END_TEST

/* A launcher that does not end is killed when its grace is over. */
START_TEST(test_front_that_is_killed_leaves_no_deaf_launcher)
{
    start("", WITH "--hosts=a --shutdown_timeout=0 deaf");
    comes("rank 0 holds");
    (void)unlink("signals");
    int64_t began_us = mono_now_us();
    ck_assert_int_eq(kill(front, SIGKILL), 0);
    ck_assert_int_eq(end(), 128 + SIGKILL);
    are_gone();
    ck_assert_int_eq(count_noted(" got 15\n"), 1);
    ck_assert_int_ge(mono_now_us() - began_us, 4 * MONO_S);
    ck_assert_int_lt(mono_now_us() - began_us, 10 * MONO_S * suite_slow());
}
END_TEST

/* -- a proxy alone --------------------------------------------------------- */

static int in_fd;

#define MARK "0123456789abcdef0123456789abcdef"

static void start_proxy(const char *text, size_t len)
{
    int in[2], ends_of[2];
    shown_len = 0;
    shown[0] = '\0';
    ck_assert_int_eq(pipe(in), 0);
    ck_assert_int_eq(pipe(ends_of), 0);
    front = fork();
    if (front == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(ends_of[1], STDOUT_FILENO);
        (void)dup2(ends_of[1], STDERR_FILENO);
        (void)close(in[0]);
        (void)close(in[1]);
        (void)close(ends_of[0]);
        (void)close(ends_of[1]);
        log_init("ddprun");
        _exit(proxy_main());
    }
    (void)close(in[0]);
    (void)close(ends_of[1]);
    in_fd = in[1];
    out_fd = ends_of[0];
    ck_assert_int_eq(write(in_fd, text, len), (ssize_t)len);
}

/* So many ms without a word, and whether it is a task of a scheduler's step. */
static void hold_by_proxy(int beat_ms, int step)
{
    char text[200];
    static const char body[] = "\0ddprun\0hold";
    int len = snprintf(text, sizeof(text),
                       "ddprun-front 1 " MARK " %d 5000 %d 2 0 %zu\n", beat_ms,
                       step, sizeof(body));
    memcpy(text + len, body, sizeof(body));
    start_proxy(text, (size_t)len + sizeof(body));
    comes(" holds ");
}

START_TEST(test_proxy_says_what_it_does)
{
    hold_by_proxy(0, 0);
    comes("\001" MARK " hello ");
    ck_assert_int_eq(write(in_fd, "signal 15\n", 10), 10);
    ck_assert_int_eq(end(), 143);
    ck_assert_int_eq(count("\001" MARK " end 143 "), 1);
    (void)close(in_fd);
}
END_TEST

START_TEST(test_proxy_without_beats_ends_its_launcher)
{
    hold_by_proxy(500, 0);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(write(in_fd, "beat\n", 5), 5);
        (void)usleep(100 * 1000);
    }
    ck_assert_int_eq(count("front end is gone"), 0);
    ck_assert_int_eq(end(), 143);
    ck_assert_int_eq(count("the front end is gone (no word came from it)"), 1);
    (void)close(in_fd);
}
END_TEST

START_TEST(test_proxy_that_is_paused_expects_no_beats)
{
    hold_by_proxy(300, 0);
    ck_assert_int_eq(write(in_fd, "signal 20\n", 10), 10);
    comes(" got 20");
    (void)usleep(900 * 1000);
    ck_assert_int_eq(write(in_fd, "signal 18\n", 10), 10);
    ck_assert_int_eq(write(in_fd, "signal 10\n", 10), 10);
    comes(" got 10");
    ck_assert_int_eq(count("front end is gone"), 0);
    ck_assert_int_eq(end(), 143);
    ck_assert_int_eq(count("the front end is gone (no word came from it)"), 1);
    (void)close(in_fd);
}
END_TEST

START_TEST(test_proxy_ends_its_launcher_at_a_line_that_is_no_order)
{
    hold_by_proxy(0, 0);
    ck_assert_int_eq(write(in_fd, "sing 15\n", 8), 8);
    ck_assert_int_eq(end(), 143);
    ck_assert_int_eq(count("gone (it sent what is no order)"), 1);
    (void)close(in_fd);
}
END_TEST

/* In a step, where a scheduler signals all: the launcher has it already. */
START_TEST(test_proxy_drops_an_order_that_the_scheduler_gave_as_well)
{
    for (int first = 0; first < 2; first++) {
        hold_by_proxy(0, 1);
        if (first == 0)
            ck_assert_int_eq(kill(front, SIGUSR1), 0);
        ck_assert_int_eq(write(in_fd, "signal 10\n", 10), 10);
        if (first == 1)
            ck_assert_int_eq(kill(front, SIGUSR1), 0);
        (void)usleep(800 * 1000);
        ck_assert_int_eq(write(in_fd, "signal 15\n", 10), 10);
        ck_assert_int_eq(end(), 143);
        ck_assert_int_eq(count(" got 10\n"), 0);
        (void)close(in_fd);
    }
    hold_by_proxy(0, 1);
    ck_assert_int_eq(write(in_fd, "signal 10\n", 10), 10);
    comes(" got 10\n");
    (void)close(in_fd);
    ck_assert_int_eq(end(), 143);
}
END_TEST

START_TEST(test_proxy_that_is_killed_takes_its_launcher_along)
{
    hold_by_proxy(0, 0);
    ck_assert_int_eq(kill(front, SIGKILL), 0);
    ck_assert_int_eq(end(), 128 + SIGKILL);
    ck_assert_int_eq(count(" got "), 0);
    (void)close(in_fd);
}
END_TEST

static const struct {
    const char *text;
    int status;
} starts[] = {
    {"", 77},
    {"ddprun-front 1 ", 77},
    {"SSH-2.0-OpenSSH\n", 76},
    {"ddprun-front 1 " MARK " 0 0 0 1 0 3\nab", 77},
    {"ddprun-front 1 " MARK " 0 0 0 1 0 3\nabc", 76},
    {"01234567890123456789012345678901234567890123456789012345678901234567890"
     "12345678901234567890123456789012345678901234567890123456789012345678901"
     "2345678901234567890123456789",
     76},
};

START_TEST(test_proxy_starts_nothing_for_what_is_no_front_end)
{
    start_proxy(starts[_i].text, strlen(starts[_i].text));
    (void)close(in_fd);
    ck_assert_int_eq(end(), starts[_i].status);
    ck_assert_msg(count("ddprun: ") == 1, "%s", shown);
}
END_TEST

static void run_suite(Suite *s)
{
    TCase *t = tcase_create("front");
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, setup, scratch_leave);
    tcase_add_loop_test(t, test_front_ends_with_the_status_of_the_launchers, 0,
                        (int)(sizeof(ends) / sizeof(ends[0])));
    tcase_add_test(t, test_front_shows_all_lines_once_and_whole);
    tcase_add_test(t, test_front_passes_on_folder_and_variables);
    tcase_add_loop_test(t, test_front_passes_signals_on, 0,
                        (int)(sizeof(passed) / sizeof(passed[0])));
    tcase_add_test(t, test_front_ends_soon_while_a_host_is_silent);
    tcase_add_loop_test(t, test_front_names_a_host_that_cannot_be_reached, 0,
                        (int)(sizeof(lost) / sizeof(lost[0])));
    tcase_add_test(t, test_front_without_the_command_says_so);
    tcase_add_test(t, test_front_names_a_host_without_the_folder);
    tcase_add_loop_test(
        t, test_front_ends_a_job_of_which_too_few_launchers_are_left, 0,
        (int)(sizeof(few) / sizeof(few[0])));
    tcase_add_test(t, test_front_leaves_a_job_alone_that_can_go_on);
    tcase_add_test(
        t, test_front_of_a_script_ends_as_srun_does_if_nothing_was_started);
    tcase_add_test(t, test_front_of_a_script_ends_as_its_launchers_do);
    tcase_add_test(t, test_front_leaves_the_limits_of_its_children_alone);
    tcase_add_test(t, test_front_that_is_killed_leaves_nothing);
    tcase_add_test(t, test_front_that_is_killed_leaves_no_deaf_launcher);
    suite_add_tcase(s, t);
    t = tcase_create("proxy");
    tcase_set_timeout(t, 30);
    tcase_add_unchecked_fixture(t, setup, scratch_leave);
    tcase_add_test(t, test_proxy_says_what_it_does);
    tcase_add_test(t, test_proxy_without_beats_ends_its_launcher);
    tcase_add_test(t, test_proxy_that_is_paused_expects_no_beats);
    tcase_add_test(t, test_proxy_ends_its_launcher_at_a_line_that_is_no_order);
    tcase_add_test(t,
                   test_proxy_drops_an_order_that_the_scheduler_gave_as_well);
    tcase_add_test(t, test_proxy_that_is_killed_takes_its_launcher_along);
    tcase_add_loop_test(t, test_proxy_starts_nothing_for_what_is_no_front_end,
                        0, (int)(sizeof(starts) / sizeof(starts[0])));
    suite_add_tcase(s, t);
}

int main(int argc, char *argv[])
{
    if (argc == 2 && strcmp(argv[1], PROXY_OPTION) == 0) {
        log_init("ddprun");
        return proxy_main();
    }
    if (strcmp(argv[0], "ddprun") == 0)
        return be_launcher(argc, argv);
    Suite *s = suite_create("front_run");
    run_suite(s);
    return suite_run(s);
}
