/* links: launcher/front/{hosts,front,child,command,orders,marks,streams} */
/* links: launcher/front/proxy launcher/output/{console,lines} */
/* links: rendezvous/base/{buf,open_files,utc} */
#include "tests/lib/job.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/conf/options.h"
#include "launcher/front/front.h"
#include "launcher/front/proxy.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/conf_line.h"
#include "tests/lib/suite.h"
#include "tests/lib/words.h"

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

static int job_launcher(int argc, char *argv[])
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
    while (strcmp(verb, "await") == 0 && access("go", F_OK) != 0)
        (void)usleep(1000);
    if (strcmp(verb, "exit") == 0 || strcmp(verb, "await") == 0)
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
        if (strcmp(verb, "deaf") != 0 && signo != SIGUSR1 && signo != SIGTSTP) {
            (void)fflush(stdout);
            /* At once: LeakSanitizer, which looks at an exit, may take longer
             * than a launcher that is ended has time. */
            _exit(128 + signo);
        }
    }
}

/* -- the front end --------------------------------------------------------- */

int job_out_fd;
pid_t job_pid;
char job_shown[1 << 20];
size_t job_shown_len;

void job_setup(void)
{
    static const char stand_in[] = "#!/bin/sh\n"
                                   "host=$1\n"
                                   "shift\n"
                                   "case $host in\n"
                                   "slow*) echo $$ >slow.pid;"
                                   " exec sleep 100 ;;\n"
                                   "none*) echo no such host >&2; exit 255 ;;\n"
                                   "flood*) yes a line that nobody wants |"
                                   " head -n 20000 >&2 ;;\n"
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

void job_start(const char *env, const char *line)
{
    int ends[2];
    job_shown_len = 0;
    ck_assert_int_eq(pipe(ends), 0);
    job_pid = fork();
    ck_assert_int_ge(job_pid, 0);
    if (job_pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        log_init("ddprun");
        _exit(be_front(env, line));
    }
    (void)close(ends[1]);
    job_out_fd = ends[0];
}

bool job_reads(const char *text)
{
    int64_t until_us = mono_now_us() + JOB_LIMIT_US * suite_slow();
    while (text == NULL || strstr(job_shown, text) == NULL) {
        struct pollfd p = {.fd = job_out_fd, .events = POLLIN};
        ck_assert_msg(mono_now_us() < until_us, "'%s' does not come:\n%s",
                      text != NULL ? text : "the end", job_shown);
        if (poll(&p, 1, 100) <= 0)
            continue;
        ssize_t n = read(job_out_fd, job_shown + job_shown_len,
                         sizeof(job_shown) - 1 - job_shown_len);
        if (n <= 0)
            return false;
        job_shown_len += (size_t)n;
        job_shown[job_shown_len] = '\0';
    }
    return true;
}

void job_comes(const char *text)
{
    ck_assert_msg(job_reads(text), "no '%s' in:\n%s", text, job_shown);
}

int job_end(void)
{
    int status;
    (void)job_reads(NULL);
    ck_assert_int_eq(waitpid(job_pid, &status, 0), job_pid);
    (void)close(job_out_fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int job_count(const char *text)
{
    int n = 0;
    for (const char *p = job_shown; (p = strstr(p, text)) != NULL; p++)
        n++;
    return n;
}

void job_has_lines(int ranks, int n)
{
    char want[64];
    for (int i = 0; i < 2 * ranks * n; i++) {
        (void)snprintf(want, sizeof(want), "rank %d line %d of std%s\n",
                       i / 2 / n, i / 2 % n, i % 2 == 0 ? "out" : "err");
        ck_assert_msg(job_count(want) == 1, "%s", want);
    }
    ck_assert_int_eq(job_count("no newline "), ranks);
}

int job_role(int argc, char *argv[])
{
    if (argc == 2 && strcmp(argv[1], PROXY_OPTION) == 0) {
        log_init("ddprun");
        return proxy_main();
    }
    return strcmp(argv[0], "ddprun") == 0 ? job_launcher(argc, argv) : -1;
}
