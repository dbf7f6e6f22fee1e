/* links: launcher/worker/mailbox launcher/proc/procfs */
/* links: worker_rt/{env,proof,fork,abi,death_sign,beat,own_part} */
/* links: rendezvous/client/store */
/* links: rendezvous/base/{dial,err,mono,buf,rng,signals_name} */
/* links: rendezvous/proto/c10d */
/*
 * Both ends of what a launcher and its worker tell each other beside signals:
 * the launcher's files, and libddp that finds them in its environment.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/worker/mailbox.h"
#include "rendezvous/base/stop_page.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"
#include "worker_rt/own_part.h"
#include "worker_rt/rt.h"

static struct mailbox n = MAILBOX_NONE;
static struct mailbox_pages pages = MAILBOX_PAGES_NONE;

static void give(const char *progress, const char *stop)
{
    ck_assert_int_eq(setenv("DDP_PROGRESS_FILE", progress, 1), 0);
    ck_assert_int_eq(setenv("DDP_STOP_FILE", stop, 1), 0);
}

/* A worker with the files of `n`. */
static struct ddp *worker(void)
{
    char progress[MAILBOX_PATH_MAX], stop[MAILBOX_PATH_MAX];
    struct ddp_error err;
    mailbox_path(n.progress_fd, progress);
    mailbox_path(n.stop_fd, stop);
    give(progress, stop);
    struct ddp *d = ddp_init(&err);
    ck_assert_msg(d != NULL, "%s", err.text);
    return d;
}

static void setup(void)
{
    ck_assert_int_eq(mailbox_open_pages(&pages, 1), 0);
    ck_assert_int_eq(mailbox_open(&n, &pages, 0), 0);
    ck_assert(n.progress_fd >= 0 && n.stop_fd >= 0);
}

static void teardown(void)
{
    mailbox_close(&n);
}

TEST(test_mailbox_first_beat_is_progress)
{
    struct ddp *d = worker();
    ck_assert(!mailbox_progressed(&n));
    ddp_beat(d, 1);
    ck_assert(mailbox_progressed(&n));
    ddp_free(d);
    ck_assert_int_eq(mailbox_open(&n, &pages, 0), 0);
    ck_assert(!mailbox_progressed(&n));
}

static pid_t owner_of_life(void)
{
    return (pid_t)(atomic_load(&n.page->life_word) & FUTEX_TID_MASK);
}

/* Libddp asks for it, of itself: a lock in the worker's page that names its
 * main thread, which the kernel marks when that ends (death_watch). */
TEST(test_mailbox_worker_holds_the_lock_that_tells_of_its_death)
{
    ck_assert_int_eq(owner_of_life(), 0);
    struct ddp *d = worker();
    ck_assert_int_eq(owner_of_life(), getpid());
    ddp_free(d);
    ck_assert_int_eq(owner_of_life(), getpid());
}

/* A worker without its file would be taken for one that hangs. */
TEST_LOOP(test_mailbox_without_descriptors_is_an_error, 0, 2)
{
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    mailbox_close(&n);
    /* What `pages` has goes before others are made. */
    int next = _i == 0 ? dup(STDIN_FILENO) : pages.fd;
    ck_assert(_i != 0 || close(next) == 0);
    struct rlimit few = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    errno = 0;
    ck_assert_int_eq(_i == 0 ? mailbox_open(&n, &pages, 0)
                             : mailbox_open_pages(&pages, 1),
                     -1);
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    mailbox_close(&n);
}

/* What one worker puts there the next one finds, and nobody makes it larger. */
TEST(test_mailbox_memory_outlives_workers)
{
    char path[MAILBOX_PATH_MAX], got[4] = "";
    struct stat st;
    n.memory_fd = mailbox_open_memory(3 << 18);
    mailbox_path(n.memory_fd, path);
    ck_assert_int_eq(fstat(n.memory_fd, &st), 0);
    ck_assert_int_eq(st.st_size, SNAPSHOT_SLOTS << 18); /* with mirrors */
    ck_assert_int_eq(st.st_blocks, 0);
    for (int i = 0; i < 2; i++) {
        int fd = open(path, O_RDWR);
        ck_assert_int_ge(fd, 0);
        if (i == 0)
            ck_assert_int_eq(pwrite(fd, "abc", 4, (1 << 20) - 4), 4);
        else
            ck_assert_int_eq(pread(fd, got, 4, (1 << 20) - 4), 4);
        ck_assert_int_ne(ftruncate(fd, 1 << 21), 0);
        ck_assert_int_ne(ftruncate(fd, 0), 0);
        ck_assert_int_eq(close(fd), 0);
    }
    ck_assert_str_eq(got, "abc");
    ck_assert_int_eq(close(n.memory_fd), 0);
    n.memory_fd = -1;
}

/* As a script would. */
TEST(test_mailbox_any_program_may_write_its_progress)
{
    char path[MAILBOX_PATH_MAX];
    mailbox_path(n.progress_fd, path);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs("epoch 1\n", f), 0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert(mailbox_progressed(&n));
}

static int64_t mirrored(void)
{
    int64_t step;
    return mailbox_read_mirrored(&n, &step) ? step : -2;
}

/* The step and what is on two nodes are told beside each other; a script knows
 * of the first alone. */
TEST(test_mailbox_worker_tells_what_is_on_two_nodes)
{
    int64_t written, step;
    struct ddp *d = worker();
    ck_assert_int_eq(mirrored(), -2);
    rt_tell_mirrored(d, -1);
    ck_assert_int_eq(mirrored(), -1);
    rt_tell_mirrored(d, INT64_MAX);
    ck_assert_int_eq(mirrored(), INT64_MAX);
    mailbox_read(&n, &written, &step);
    ck_assert_int_eq(step, -1);
    ddp_beat(d, 120);
    rt_tell_mirrored(d, 118);
    mailbox_read(&n, &written, &step);
    ck_assert_int_eq(step, 120);
    ck_assert_int_eq(mirrored(), 118);
    ddp_free(d);
    ck_assert_int_eq(mailbox_open(&n, &pages, 0), 0);
    ck_assert_int_eq(mirrored(), -2);
    mailbox_close(&n);
    ck_assert_int_eq(mirrored(), -2);
}

static int64_t own_part(int64_t *noise_us)
{
    int64_t mean_us;
    return mailbox_read_own(&n, &mean_us, noise_us) ? mean_us : -1;
}

/* Once enough steps have been measured; beside the rest. */
TEST(test_mailbox_worker_tells_its_own_part)
{
    int64_t written, step, noise_us;
    struct ddp *d = worker();
    for (int i = 0; i < OWN_PART_STEPS; i++) {
        ddp_beat(d, i);
        ck_assert_int_eq(own_part(&noise_us), -1);
        ck_assert_int_eq(usleep(10000), 0);
    }
    atomic_store(&d->beat_due, 0); /* it may write again */
    ddp_beat(d, OWN_PART_STEPS);
    rt_tell_mirrored(d, 7);
    int64_t mean_us = own_part(&noise_us);
    ck_assert_int_ge(mean_us, 10000);
    ck_assert_int_le(mean_us, suite_room_us(15000));
    ck_assert_int_ge(noise_us, 0);
    mailbox_read(&n, &written, &step);
    ck_assert_int_eq(step, OWN_PART_STEPS);
    ck_assert_int_eq(mirrored(), 7);
    ddp_free(d);
    ck_assert_int_eq(mailbox_open(&n, &pages, 0), 0);
    ck_assert_int_eq(own_part(&noise_us), -1);
}

/* Both lines have to be there. */
TEST_LOOP(test_mailbox_half_of_an_own_part_is_not_read, 0, 6)
{
    static const char *const odd[][2] = {
        {"own 5\n", "breadth 5\n"},
        {"own 5 \n", "noise 5\n"},
        {"own -5\n", "noise 5\n"},
        {"own 5\n", "noise -5\n"},
        {"own 5\n", ""},
        {"own 1000000000001\n", "noise 5\n"},
    };
    int64_t noise_us;
    for (int k = 0; k < 2; k++)
        ck_assert_int_eq(pwrite(n.progress_fd, odd[_i][k], strlen(odd[_i][k]),
                                k == 0 ? PROGRESS_OWN_AT : PROGRESS_NOISE_AT),
                         (ssize_t)strlen(odd[_i][k]));
    ck_assert_int_eq(own_part(&noise_us), -1);
}

/* Before there is progress, and that is none. */
TEST(test_mailbox_worker_tells_of_launches_in_vain)
{
    int64_t written, step;
    struct ddp *d = worker();
    ck_assert_int_eq(mailbox_read_barren(&n), -1);
    rt_tell_barren(d, -1);
    ck_assert_int_eq(mailbox_read_barren(&n), -1);
    rt_tell_barren(d, 3);
    ck_assert_int_eq(mailbox_read_barren(&n), 3);
    mailbox_read(&n, &written, &step);
    ck_assert(!mailbox_progressed(&n) && written == 0 && step == -1);
    ddp_beat(d, 12);
    rt_tell_barren(d, 0);
    ck_assert_int_eq(mailbox_read_barren(&n), 0);
    mailbox_read(&n, &written, &step);
    ck_assert(mailbox_progressed(&n) && written != 0 && step == 12);
    ddp_free(d);
}

/* What stands there is a worker's: any bytes. */
TEST_LOOP(test_mailbox_what_is_not_said_of_mirrors_is_not_read, 0, 8)
{
    static const char *const odd[] = {
        "mirrored",
        "mirrored \n",
        "mirrored -2\n",
        "mirrored 1 2\n",
        "mirrored 99999999999999999999\n",
        "reflected 1\n",
        "                 118\n",
        "mirrored 118                      ",
    };
    ck_assert_int_eq(
        pwrite(n.progress_fd, odd[_i], strlen(odd[_i]), PROGRESS_MIRRORED_AT),
        (ssize_t)strlen(odd[_i]));
    ck_assert_int_eq(mirrored(), -2);
}

/* A worker that has not looked yet is asked by a signal, but finds the word all
 * the same.
 */
TEST_LOOP(test_mailbox_worker_that_looks_is_asked, 0, 2)
{
    enum ddp_stop wanted = _i == 0 ? DDP_STOP_SCALE_UP : DDP_STOP_SCALE_DOWN;
    struct ddp *d = worker();
    ck_assert(!mailbox_ask(&n, MSG_AT_ONCE));
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_NO);
    ck_assert(mailbox_ask(&n, _i == 0 ? MSG_SCALE_UP : MSG_SCALE_DOWN));
    ck_assert_int_eq(ddp_should_stop(d), wanted);
    ck_assert_int_eq(ddp_should_stop(d), wanted);
    ddp_free(d);
}

TEST(test_mailbox_signal_is_a_reason_of_its_own)
{
    struct ddp *d = worker();
    ck_assert_int_eq(ddp_stop_on_signal(d, SIGTERM, NULL), 0);
    ck_assert_int_eq(raise(SIGTERM), 0);
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_SIGNAL);
    ck_assert(mailbox_ask(&n, MSG_SCALE_UP));
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_SCALE_UP);
    ddp_free(d);
}

/* The program has a handler of its own: nothing but the page tells libddp. */
TEST(test_mailbox_signal_is_told_whatever_the_handler)
{
    struct ddp *d = worker();
    ck_assert(mailbox_tell(&n, STOP_PAGE_SIGNAL));
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_SIGNAL);
    ddp_free(d);
}

/* How a child ends that notes SIGTERM, was asked to leave at a step, and gets
 * that signal; with `frees`, after its handle is gone. */
static int end_of_noting_worker(bool failed, bool frees)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct ddp *d = worker();
        ck_assert_int_eq(ddp_stop_on_signal(d, SIGTERM, NULL), 0);
        (void)mailbox_ask(&n, MSG_SCALE_UP); /* it has not looked yet */
        if (failed)
            (void)mailbox_tell(&n, STOP_PAGE_FAILED);
        if (frees)
            ddp_free(d);
        ck_assert_int_eq(raise(SIGTERM), 0);
        _exit(3);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

/* A rank died: there is no step at which all could leave. */
TEST_LOOP(test_mailbox_failed_worker_ends_by_sigterm, 0, 2)
{
    int status = end_of_noting_worker(true, _i == 1);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    status = end_of_noting_worker(false, _i == 1);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

/* It is no request to leave at a step, and other signals are noted. */
TEST(test_mailbox_failed_is_no_reason_to_stop)
{
    struct ddp *d = worker();
    ck_assert_int_eq(ddp_stop_on_signal(d, SIGUSR1, NULL), 0);
    ck_assert(mailbox_tell(&n, STOP_PAGE_FAILED));
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_NO);
    ck_assert_int_eq(raise(SIGUSR1), 0);
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_SIGNAL);
    ddp_free(d);
}

/* No worker can make another one's mapping fault, nor the launcher's reading.
 */
TEST(test_mailbox_stop_file_keeps_its_size)
{
    char path[MAILBOX_PATH_MAX];
    struct stat st;
    mailbox_path(n.stop_fd, path);
    ck_assert_int_ne(truncate(path, 0), 0);
    ck_assert_int_ne(truncate(path, 100000), 0);
    ck_assert_int_eq(fstat(n.stop_fd, &st), 0);
    ck_assert_int_eq(st.st_size, sysconf(_SC_PAGESIZE));
}

/* A worker of a node with two, as the launcher starts it. */
static struct ddp *worker_of_two(int local_rank, bool alone_on_gpu)
{
    static const char *const names[] = {"RANK", "DDP_LOCAL_RANK", "LOCAL_RANK"};
    char text[2] = {(char)('0' + local_rank), '\0'};
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(
            setenv(names[i], i == 2 && alone_on_gpu ? "0" : text, 1), 0);
    ck_assert_int_eq(setenv("WORLD_SIZE", "2", 1), 0);
    ck_assert_int_eq(setenv("LOCAL_WORLD_SIZE", "2", 1), 0);
    ck_assert_int_eq(setenv("GROUP_RANK", "0", 1), 0);
    ck_assert_int_eq(setenv("MASTER_ADDR", "127.0.0.1", 1), 0);
    ck_assert_int_eq(setenv("MASTER_PORT", "29500", 1), 0);
    return worker();
}

/* All are told in one file, each in its page, also if LOCAL_RANK is virtual. */
TEST_LOOP(test_mailbox_each_worker_has_a_page, 0, 2)
{
    struct mailbox other = MAILBOX_NONE;
    mailbox_close(&n);
    ck_assert_int_eq(mailbox_open_pages(&pages, 2), 0);
    ck_assert_int_eq(mailbox_open(&n, &pages, 0), 0);
    ck_assert_int_eq(mailbox_open(&other, &pages, 1), 0);
    struct ddp *first = worker_of_two(0, _i == 1);
    struct ddp *second = worker_of_two(1, _i == 1);
    ck_assert_int_eq(ddp_should_stop(first), DDP_STOP_NO);
    ck_assert(!mailbox_ask(&other, MSG_SCALE_UP)); /* it has not looked yet */
    ck_assert(mailbox_ask(&n, MSG_SCALE_DOWN));
    ck_assert_int_eq(ddp_should_stop(first), DDP_STOP_SCALE_DOWN);
    ck_assert_int_eq(ddp_should_stop(second), DDP_STOP_SCALE_UP);
    ddp_free(first);
    ddp_free(second);
    mailbox_close(&other);
}

/* What one of the last round has said is not the next one's word. */
TEST(test_mailbox_round_has_pages_of_its_own)
{
    struct ddp *d = worker();
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_NO);
    ck_assert(mailbox_ask(&n, MSG_SCALE_UP));
    mailbox_close(&n);
    ck_assert_int_eq(mailbox_open_pages(&pages, 1), 0);
    ck_assert_int_eq(mailbox_open(&n, &pages, 0), 0);
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_SCALE_UP);
    ck_assert(!mailbox_ask(&n, MSG_AT_ONCE));
    ddp_free(d);
    d = worker();
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_NO);
    ddp_free(d);
}

/* In another PID namespace the paths lead nowhere, or to a stranger's file,
 * which is left alone: the worker does without. */
TEST_LOOP(test_mailbox_strangers_file_is_left_alone, 0, 2)
{
    char name[] = "/tmp/ddp_mailbox.XXXXXX";
    char path[MAILBOX_PATH_MAX];
    struct stat st;
    int fd = mkstemp(name);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(unlink(name), 0);
    ck_assert_int_eq(ftruncate(fd, sizeof(struct stop_page)), 0);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    give(_i == 0 ? path : "/proc/999999999/fd/3",
         _i == 0 ? path : "/proc/999999999/fd/4");
    struct ddp *d = ddp_init(NULL);
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_NO);
    ddp_beat(d, 12345);
    ddp_free(d);
    char bytes[sizeof(struct stop_page)];
    ck_assert_int_eq(pread(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        ck_assert_int_eq(bytes[i], 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(st.st_size, (off_t)sizeof(struct stop_page));
    ck_assert_int_eq(close(fd), 0);
}

/* Without descriptors there are no files, and no harm. */
TEST(test_mailbox_none_is_harmless)
{
    struct mailbox none = MAILBOX_NONE;
    char path[MAILBOX_PATH_MAX];
    mailbox_path(none.progress_fd, path);
    ck_assert_str_eq(path, "");
    mailbox_path(none.stop_fd, path);
    ck_assert_str_eq(path, "");
    ck_assert(!mailbox_progressed(&none));
    ck_assert(!mailbox_ask(&none, MSG_SCALE_UP));
    mailbox_close(&none);
}

/* ulimit -f counts for memfds, too: as much as it allows, in whole pages. */
TEST(test_mailbox_memory_is_no_larger_than_a_file_may_be)
{
    struct rlimit few;
    struct stat st;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &few), 0);
    few.rlim_cur = 100000;
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
    int fd = mailbox_open_memory(1 << 30);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_gt(st.st_size, 0);
    ck_assert_int_eq(st.st_size, 100000 - 100000 % sysconf(_SC_PAGESIZE));
    ck_assert_int_eq(close(fd), 0);
    few.rlim_cur = 100;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
    ck_assert_int_eq(mailbox_open_memory(1 << 30), -1);
    few.rlim_cur = few.rlim_max; /* what counts coverage writes files, too */
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
}

SUITE("mailbox", "mailbox", .tags = "fast", FIXTURE(setup, teardown))
