/* links: launcher/output/{relay,relay_intake,logfile,stream,console,lines} */
/* links: rendezvous/base/{utf8,log,opts,utc,buf,err,mono} */
/* links: launcher/conf/{output,options,words} tests/lib/{timeless,scratch} */
/* The relay as a process of its own, with pipes for workers and consoles: what
 * is on the console when lines are long, unfinished, or many at once? */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/output/lines.h"
#include "launcher/output/relay.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "tests/lib/timeless.h"

#define WORKERS 3

static struct conf conf;
static pid_t pid;
static int ctl;
static int out, err_fd;    /* ends of the consoles that we read */
static int to[WORKERS][2]; /* what workers write to: stdout, stderr */
static char got[4 << 20];  /* of the console that was read last */
static size_t got_len;
static rlim_t descriptors; /* that the relay may have; 0: as we */

/* A named pipe: its reader may go and come back. */
static void make_fifo(const char *name, int ends[2])
{
    ck_assert_int_eq(mkfifo(name, 0600), 0);
    ends[0] = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ends[1] = open(name, O_WRONLY | O_CLOEXEC);
    ck_assert(ends[0] >= 0 && ends[1] >= 0);
}

/* The first `tee` workers have stdout and stderr with prefixes, the others
 * stderr as it is. stderr goes to a FIFO if there is a name for it. */
static void start_on(int tee, const char *fifo)
{
    int pair[2], console[2], console2[2];
    conf.nproc = WORKERS;
    (void)snprintf(conf.role, sizeof(conf.role), "w");
    if (conf.output.prefix[0] == '\0')
        (void)snprintf(conf.output.prefix, sizeof(conf.output.prefix),
                       "${local_rank}:");
    for (int i = 0; i < WORKERS; i++)
        conf.output.tee[i] = i < tee ? 3 : 0;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    ck_assert_int_eq(pipe2(console, O_CLOEXEC), 0);
    if (fifo != NULL)
        make_fifo(fifo, console2);
    else
        ck_assert_int_eq(pipe2(console2, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        (void)dup2(console[1], STDOUT_FILENO);
        (void)dup2(console2[1], STDERR_FILENO);
        for (int fd = 3; fd < 64; fd++)
            if (fd != pair[1])
                (void)close(fd);
        (void)signal(SIGPIPE, SIG_IGN);
        struct rlimit few = {descriptors, descriptors};
        if (descriptors > 0)
            ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        relay_main(pair[1], -1, &conf, NULL);
    }
    ck_assert_int_gt(pid, 0);
    (void)close(pair[1]);
    (void)close(console[1]);
    (void)close(console2[1]);
    ctl = pair[0];
    out = console[0];
    err_fd = console2[0];
}

static void start(bool tee)
{
    start_on(tee ? WORKERS : 0, NULL);
}

static void say(struct relay_msg *w, int fds[2], size_t n)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control = {.room = {0}};
    struct iovec iov = {.iov_base = w,
                        .iov_len = RELAY_MSG_SIZE(strlen(w->text) + 1)};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n > 0) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(n * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
    }
    ck_assert_int_ge(sendmsg(ctl, &m, 0), 0);
}

/* Its log files lie in `folder`, "": it has none. */
static void add_worker_in(const char *folder, int rank, bool both)
{
    static struct relay_msg w;
    int pipes[2][2], fds[2];
    size_t n = 0;
    for (int i = both ? 0 : 1; i < 2; i++) {
        ck_assert_int_eq(pipe2(pipes[i], O_CLOEXEC), 0);
        ck_assert_int_eq(fcntl(pipes[i][0], F_SETFL, O_NONBLOCK), 0);
        to[rank][i] = pipes[i][1];
        fds[n++] = pipes[i][0];
    }
    w = (struct relay_msg){.kind = RELAY_OPEN,
                           .local_rank = rank,
                           .rank = 10 + rank,
                           .round = 1,
                           .piped = both ? 3 : 2};
    (void)snprintf(w.text, sizeof(w.text), "%s", folder);
    say(&w, fds, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(close(fds[i]), 0);
}

static void add_worker(int rank, bool both)
{
    add_worker_in("", rank, both);
}

static void put(int fd, const char *text, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, text + done, len - done);
        ck_assert_int_gt(n, 0);
        done += (size_t)n;
    }
}

static void put_text(int fd, const char *text)
{
    put(fd, text, strlen(text));
}

/* Reads until `want` bytes are there, or nothing comes for 2 s. */
static const char *read_console(int fd, size_t want)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    got_len = 0;
    while (got_len < want && poll(&p, 1, 2000) > 0) {
        ssize_t n = read(fd, got + got_len, sizeof(got) - 1 - got_len);
        if (n <= 0)
            break;
        got_len += (size_t)n;
    }
    got[got_len] = '\0';
    return got;
}

static bool is_quiet(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 3 * RELAY_QUIET_MS) == 0;
}

static void end_worker(int rank)
{
    for (int i = 0; i < 2; i++)
        if (to[rank][i] > 0)
            ck_assert_int_eq(close(to[rank][i]), 0);
}

static void is_ended_by(int exit_code)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), exit_code);
}

static void is_ended(void)
{
    is_ended_by(0);
}

/* It ends by itself when told to; what is left on a console is returned. */
static const char *finish(bool line, int fd)
{
    static struct relay_msg w;
    w = (struct relay_msg){.kind = RELAY_FINISH, .line = line};
    say(&w, NULL, 0);
    (void)read_console(fd, sizeof(got) - 1);
    is_ended();
    return got;
}

/* A worker writes lines until nothing is taken any more. Returns how many bytes
 * were. */
static size_t fill(int fd)
{
    static const char line[] = "a line of a worker that writes a lot\n";
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    size_t taken = 0;
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (poll(&p, 1, 300) > 0) {
        ssize_t n = write(fd, line, sizeof(line) - 1);
        if (n < 0)
            ck_assert_int_eq(errno, EAGAIN);
        taken += n > 0 ? (size_t)n : 0;
    }
    return taken;
}

/* A worker whose lines go to the console alone and is not read any more is read
 * again when a console that was full takes all that waits in one go. */
TEST(test_relay_a_console_that_takes_all_at_once_lets_workers_go_on)
{
    struct pollfd p = {.events = POLLOUT};
    start(false);
    add_worker(0, false);
    p.fd = to[0][1];
    fill(p.fd);
    ck_assert_int_ge(fcntl(err_fd, F_SETPIPE_SZ, 1 << 20), 1 << 20);
    (void)read_console(err_fd, 1); /* a worker that sleeps is woken */
    ck_assert_int_eq(poll(&p, 1, 30000), 1);
    end_worker(0);
    (void)finish(false, err_fd);
}

/* The reader of a full console goes away: workers that wait go on, both of the
 * stream that is next and of the others, and the end waits for nothing. */
TEST_LOOP(test_relay_a_reader_that_goes_lets_workers_go_on, 0, 2)
{
    struct pollfd p = {.events = POLLOUT};
    start(_i == 1);
    for (int i = 0; i < WORKERS; i++) {
        add_worker(i, true);
        fill(to[i][1]);
    }
    ck_assert_int_eq(close(err_fd), 0);
    for (int i = 0; i < WORKERS; i++) {
        p.fd = to[i][1];
        ck_assert_int_eq(poll(&p, 1, 30000), 1);
        end_worker(i);
    }
    (void)finish(false, out);
}

/* ... also if they have ended meanwhile. */
TEST(test_relay_a_reader_that_goes_at_the_end_is_not_waited_for)
{
    static struct relay_msg w = {.kind = RELAY_FINISH};
    int64_t began_us = mono_now_us();
    start(false);
    add_worker(0, false);
    fill(to[0][1]);
    end_worker(0);
    say(&w, NULL, 0);
    (void)usleep(100 * 1000);
    ck_assert_int_eq(close(err_fd), 0);
    is_ended();
    ck_assert_int_lt(mono_now_us() - began_us, RELAY_STUCK_MS * MONO_MS / 2);
}

/* A FIFO gets another reader: it sees whole lines, from the next one on that is
 * written. What was written meanwhile has held nobody up. */
TEST_LOOP(test_relay_a_reader_that_comes_back_gets_whole_lines, 0, 2)
{
    char name[] = "/tmp/check_relay.XXXXXX/fifo";
    char *slash = strrchr(name, '/');
    *slash = '\0';
    ck_assert_ptr_nonnull(mkdtemp(name));
    *slash = '/';
    start_on(_i == 1 ? WORKERS : 0, name);
    add_worker(0, true);
    put_text(to[0][1], "one\n");
    ck_assert_str_eq(read_console(err_fd, _i == 1 ? 6 : 4),
                     _i == 1 ? "0:one\n" : "one\n");
    ck_assert_int_eq(close(err_fd), 0);
    for (int i = 0; i < 1000; i++)
        put_text(to[0][1], "a line that is written for nobody, and no more\n");
    put_text(to[0][1], "half a ");
    (void)usleep(300 * 1000);
    err_fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    put_text(to[0][1], "line\n");
    put_text(to[0][1], "two\n");
    ck_assert_str_eq(read_console(err_fd, _i == 1 ? 6 : 4),
                     _i == 1 ? "0:two\n" : "two\n");
    end_worker(0);
    ck_assert_str_eq(finish(false, err_fd), "");
    ck_assert_int_eq(unlink(name), 0);
    *slash = '\0';
    ck_assert_int_eq(rmdir(name), 0);
}

/* After a signal the end does not wait for a console that takes nothing. */
TEST(test_relay_an_end_in_a_hurry_is_soon)
{
    static struct relay_msg w = {.kind = RELAY_FINISH, .hurry = 1};
    start(false);
    add_worker(0, false);
    fill(to[0][1]);
    int64_t began_us = mono_now_us();
    end_worker(0);
    say(&w, NULL, 0);
    is_ended();
    int64_t took_us = mono_now_us() - began_us;
    ck_assert_int_ge(took_us, RELAY_HURRY_MS * MONO_MS);
    ck_assert_int_lt(took_us, RELAY_STUCK_MS * MONO_MS / 2);
}

/* What a stuck stdout did not take at the end is counted to the byte, wherever
 * it was: in the console, in memory, in a part of a line, in the pipe. */
TEST(test_relay_bytes_that_a_stuck_console_did_not_take_are_counted)
{
    static struct relay_msg w = {.kind = RELAY_FINISH, .hurry = 1};
    char want[100];
    size_t written = 0;
    start(false);
    for (int i = 0; i < WORKERS; i++) {
        add_worker(i, true);
        written += fill(to[i][0]);
        end_worker(i);
    }
    say(&w, NULL, 0);
    is_ended();
    (void)read_console(out, sizeof(got) - 1);
    ck_assert_uint_lt(got_len, written);
    (void)snprintf(want, sizeof(want),
                   "ddprun: %zu bytes of output lost: the console did not take "
                   "them in time\n",
                   written - got_len);
    ck_assert_str_eq(read_console(err_fd, sizeof(got) - 1), want);
}

/* Only the first worker has a log file. What is said of what a stuck console
 * did not take, if this worker wrote it, the other one, or both? */
static const struct {
    size_t bare, filed; /* bytes that they write */
    int64_t rotate_size;
    const char *files_have; /* NULL: nothing */
} unseen[] = {
    {0, 900000, 0, "them"},
    {100000, 0, 0, NULL},
    {100000, 900000, 0, "a part of it"},
    {0, 900000, 2048, "them"}, /* many files for each piece that is read */
};
#define UNSEEN (int)(sizeof(unseen) / sizeof(unseen[0]))

/* Until the relay has read all. */
static void put_lines(int fd, size_t len)
{
    static char lines[20000]; /* at once, as they are read */
    int there = 1;
    memset(lines, 'x', sizeof(lines));
    for (size_t end = 39; end < sizeof(lines); end += 40)
        lines[end] = '\n';
    for (size_t done = 0; done < len; done += sizeof(lines))
        put(fd, lines, sizeof(lines));
    for (int i = 0; i < 3000 && there > 0; i++) {
        (void)usleep(10 * 1000);
        ck_assert_int_eq(ioctl(fd, FIONREAD, &there), 0);
    }
    ck_assert_int_eq(there, 0);
}

TEST_LOOP(test_relay_names_log_files_only_for_what_they_have, 0, UNSEEN)
{
    static struct relay_msg w = {.kind = RELAY_FINISH, .hurry = 1};
    char want[200], file[100], *rest;
    scratch_enter();
    conf.output.files = true;
    conf.output.rotate_size = unseen[_i].rotate_size;
    conf.output.rotate_keep = 500;
    start_on(1, NULL);
    (void)snprintf(file, sizeof(file), "%s/run/attempt_0/0", scratch);
    ck_assert_int_eq(mkdir("run", 0700) + mkdir("run/attempt_0", 0700) +
                         mkdir(file, 0700),
                     0);
    add_worker_in(file, 0, true);
    add_worker(1, true);
    put_lines(to[1][0], unseen[_i].bare);
    put_lines(to[0][0], unseen[_i].filed);
    end_worker(0);
    end_worker(1);
    say(&w, NULL, 0);
    is_ended();
    (void)read_console(err_fd, sizeof(got) - 1);
    ck_assert_int_gt(strtol(got + strlen("ddprun: "), &rest, 10), 1);
    if (unseen[_i].files_have == NULL)
        (void)snprintf(want, sizeof(want),
                       "lost: the console did not take them in time");
    else
        (void)snprintf(want, sizeof(want),
                       "not shown here; the log files in %s/run have %s",
                       scratch, unseen[_i].files_have);
    ck_assert_msg(strncmp(rest, " bytes of output ", 17) == 0 &&
                      strncmp(rest + 17, want, strlen(want)) == 0 &&
                      strcmp(rest + 17 + strlen(want), "\n") == 0,
                  "%s", got);
    scratch_leave();
}

/* One that is behind at Ctrl-C is shown up to there, and not what comes then,
 * which is in the same file. */
TEST(test_relay_shows_no_stderr_after_an_interrupt_of_one_that_is_behind)
{
    static struct relay_msg w = {.kind = RELAY_INTERRUPTED};
    char file[100];
    scratch_enter();
    conf.output.files = true;
    start_on(WORKERS, NULL);
    (void)snprintf(file, sizeof(file), "%s/1", scratch);
    ck_assert_int_eq(mkdir(file, 0700), 0);
    add_worker_in(file, 1, true);
    put_lines(to[1][1], 900000);
    say(&w, NULL, 0);
    put_text(to[1][1], "Traceback\nKeyboardInterrupt\n");
    end_worker(1);
    (void)finish(false, err_fd);
    ck_assert_uint_gt(got_len, 900000);
    ck_assert_ptr_null(strstr(got, "Traceback"));
    ck_assert_ptr_nonnull(strstr(
        got, "x\nddprun: 2 more lines on stderr after Ctrl-C, of 1 other "
             "worker: in the log files\n"));
    ck_assert_ptr_null(strstr(got, "not shown here"));
    scratch_leave();
}

static void write_while_it_takes(int fd, int rank)
{
    char line[40];
    int n = snprintf(line, sizeof(line), "%d says what it always says\n", rank);
    while (write(fd, line, (size_t)n) > 0)
        ;
}

/* Nobody would read a pipe for which it has no descriptor: it says so and ends,
 * for another relay, and shows what it has read. */
TEST(test_relay_without_room_for_a_pipe_ends)
{
    descriptors = 11; /* of which it has seven itself */
    start(false);
    add_worker(0, true);
    put_text(to[0][0], "whole\n");
    ck_assert_str_eq(read_console(out, 6), "whole\n");
    put_text(to[0][0], "a part");
    add_worker(1, true);
    add_worker(2, false);
    is_ended_by(ddp_code_exit(DDP_E_NOMEM));
    ck_assert_str_eq(read_console(out, 6), "a part");
    (void)read_console(err_fd, sizeof(got) - 1);
    ck_assert_ptr_nonnull(
        strstr(got, "ddprun: no file descriptor is free for the output of the "
                    "worker with local rank "));
}

/* All wait for a console that is read little by little: each gets its share. */
TEST(test_relay_a_slow_console_is_shared_by_all)
{
    size_t lines[WORKERS] = {0};
    struct pollfd p = {.events = POLLIN};
    start(false);
    p.fd = err_fd;
    for (int i = 0; i < WORKERS; i++) {
        add_worker(i, false);
        ck_assert_int_eq(fcntl(to[i][1], F_SETFL, O_NONBLOCK), 0);
    }
    for (int k = 0; k < 800; k++) {
        for (int i = 0; i < WORKERS; i++)
            write_while_it_takes(to[i][1], i);
        ck_assert_int_eq(poll(&p, 1, 30000), 1);
        got_len = (size_t)read(err_fd, got, 4096);
        for (size_t at = 0; k >= 200 && at + 1 < got_len; at++)
            if (got[at] >= '0' && got[at] < '0' + WORKERS && got[at + 1] == ' ')
                lines[got[at] - '0']++;
    }
    size_t all = lines[0] + lines[1] + lines[2];
    for (int i = 0; i < WORKERS; i++) {
        end_worker(i);
        ck_assert_msg(lines[i] * WORKERS * 3 > all * 2, "%zu of %zu of rank %d",
                      lines[i], all, i);
    }
    (void)finish(false, err_fd);
}

/* Only when it is whole does a line come, and then behind its prefix. */
TEST(test_relay_lines_wait_for_their_end)
{
    start(true);
    add_worker(0, true);
    add_worker(1, true);
    put_text(to[0][0], "one ");
    put_text(to[1][0], "other\n");
    ck_assert_str_eq(read_console(out, 8), "1:other\n");
    ck_assert(is_quiet(out));
    put_text(to[0][0], "line\nrest");
    ck_assert_str_eq(read_console(out, 11), "0:one line\n");
    end_worker(0);
    end_worker(1);
    ck_assert_str_eq(finish(false, out), "0:rest\n");
}

/* What is passed on as it is comes when it is quiet; who writes next begins a
 * line, and the bar goes on in its own. */
TEST(test_relay_unfinished_is_shown)
{
    start(false);
    add_worker(0, false);
    add_worker(1, false);
    put_text(to[0][1], "\r10 %");
    ck_assert_str_eq(read_console(err_fd, 5), "\r10 %");
    put_text(to[0][1], "\r20 %");
    ck_assert_str_eq(read_console(err_fd, 5), "\r20 %");
    put_text(to[1][1], "warning\n");
    ck_assert_str_eq(read_console(err_fd, 9), "\nwarning\n");
    put_text(to[0][1], "\r30 %\ndone");
    ck_assert_str_eq(read_console(err_fd, 6), "\r30 %\n");
    end_worker(0);
    end_worker(1);
    ck_assert_str_eq(finish(true, err_fd), "done\n"); /* more will be said */
}

static int unread(int fd)
{
    int n = 0;
    ck_assert_int_eq(ioctl(fd, FIONREAD, &n), 0);
    return n;
}

/* Whether the relay waits in the kernel: what it had read is worked off. */
static bool is_asleep(void)
{
    char path[32];
    char stat[256] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(stat, sizeof(stat), f));
    (void)fclose(f);
    const char *name_end = strrchr(stat, ')');
    ck_assert_ptr_nonnull(name_end);
    return strncmp(name_end, ") S", 3) == 0;
}

/* It does not run when the part of a line gets old: what came meanwhile, its
 * end, is read before the part is shown without it. */
TEST(test_relay_that_slept_reads_the_end_of_a_line_first)
{
    bool held = false;
    start(false);
    add_worker(0, false);
    add_worker(1, false);
    for (int i = 0; i < 20 && !held; i++) {
        put_text(to[0][1], "half");
        while (unread(to[0][1]) > 0 || !is_asleep())
            (void)usleep(1000);
        ck_assert_int_eq(kill(pid, SIGSTOP), 0);
        (void)usleep(5000);
        held = unread(err_fd) == 0; /* else we were too slow */
        if (held)
            break;
        ck_assert_int_eq(kill(pid, SIGCONT), 0);
        put_text(to[0][1], "\n");
        (void)read_console(err_fd, 5);
    }
    ck_assert(held);
    put_text(to[1][1], "other\n");
    put_text(to[0][1], " line\n");
    (void)usleep(2 * RELAY_QUIET_MS * 1000);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    ck_assert_str_eq(read_console(err_fd, 16), "other\nhalf line\n");
    end_worker(0);
    end_worker(1);
    ck_assert_str_eq(finish(false, err_fd), "");
}

/* Tee'd, a bar's last state is a line now and then, as torchrun does it. */
TEST(test_relay_returns_are_lines_when_teed)
{
    start(true);
    add_worker(0, true);
    put_text(to[0][1], "\r10 %\r20 %\r30 %");
    ck_assert_str_eq(read_console(err_fd, 14), "0:\r10 %\r20 %\n");
    end_worker(0);
    ck_assert_str_eq(finish(false, err_fd), "0:30 %\n");
}

/* A line of 3 MB comes in one piece, whatever others write meanwhile, though
 * the console holds less; then comes what the others wrote. */
TEST(test_relay_a_long_line_is_not_torn)
{
    static char text[3 << 20];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\n';
    start(true);
    add_worker(0, true);
    add_worker(1, true);
    pid_t writer = fork();
    if (writer == 0) {
        put(to[0][0], text, sizeof(text));
        _exit(0);
    }
    for (int i = 0; i < 1000; i++)
        put_text(to[1][0], "short\n");
    size_t want = sizeof(text) + 2 + 1000 * 8;
    (void)read_console(out, want);
    ck_assert_uint_eq(got_len, want);
    const char *at = strstr(got, "0:xxx");
    ck_assert_ptr_nonnull(at);
    ck_assert_mem_eq(at + 2, text, sizeof(text));
    size_t rest = lines_count(got, got_len);
    ck_assert_uint_eq(rest, 1001);
    ck_assert_int_eq(waitpid(writer, NULL, 0), writer);
    end_worker(0);
    end_worker(1);
    ck_assert_str_eq(finish(false, out), "");
}

/* Each byte a line of its own, and a prefix of 200. */
TEST(test_relay_prefixes_may_be_larger_than_lines)
{
    static char text[8192];
    memset(text, '\n', sizeof(text));
    memset(conf.output.prefix, 'p', 200);
    start(true);
    add_worker(0, true);
    put(to[0][0], text, sizeof(text));
    end_worker(0);
    (void)finish(false, out);
    ck_assert_uint_eq(got_len, sizeof(text) * 201);
}

/* --log_timestamps: each line has one time, behind its prefix, whether it came
 * whole or in pieces, and however many are read at once. */
TEST(test_relay_times_stand_before_each_line)
{
    static char text[20000];
    conf.output.timestamps = true;
    start(true);
    add_worker(0, true);
    put_text(to[0][0], "front ");
    (void)usleep(2 * RELAY_QUIET_MS * 1000);
    put_text(to[0][0], "and back\n\nrest");
    ck_assert_str_eq(timeless(memcpy(text, read_console(out, 70), 71)),
                     "0:TIME front and back\n0:TIME \n");
    end_worker(0);
    ck_assert_str_eq(timeless(memcpy(text, finish(false, out), 33)),
                     "0:TIME rest\n");
    conf.output.timestamps = true;
    start(false);
    add_worker(1, true);
    memset(text, '\n', sizeof(text));
    put(to[1][0], text, sizeof(text));
    end_worker(1);
    (void)finish(false, out);
    ck_assert_uint_eq(lines_count(got, got_len), sizeof(text));
    ck_assert_uint_eq(got_len, sizeof(text) * 26);
}

/* The last twenty lines, with what was written a moment ago. */
TEST(test_relay_tail_has_the_last_word)
{
    static struct relay_msg w;
    char tail[LINES_TAIL_BYTES + 1];
    start(false);
    add_worker(2, false);
    w = (struct relay_msg){.kind = RELAY_TAIL, .local_rank = 2};
    say(&w, NULL, 0);
    ck_assert_int_eq(recv(ctl, tail, sizeof(tail), 0), 1); /* nothing yet */
    ck_assert_int_eq(tail[0], '\0');
    for (int i = 0; i < 30; i++)
        put_text(to[2][1], "line\n");
    put_text(to[2][1], "last");
    say(&w, NULL, 0);
    ssize_t n = recv(ctl, tail, sizeof(tail), 0);
    ck_assert_int_eq(n, 19 * 5 + 4);
    ck_assert_mem_eq(tail + n - 9, "line\nlast", 9);
    end_worker(2);
    (void)finish(false, err_fd);
    ck_assert_uint_eq(got_len, 30 * 5 + 4);
}

SUITE("relay", "net", .limit_s = 60)
