/* links: launcher/worker/mailbox launcher/proc/procfs */
/* links: worker_rt/env worker_rt/proof worker_rt/fork worker_rt/abi */
/* links: worker_rt/beat */
/* links: rendezvous/client/store rendezvous/base/dial */
/* links: rendezvous/proto/c10d rendezvous/base/err rendezvous/base/mono */
/* links: rendezvous/base/buf rendezvous/base/rng */
/* links: rendezvous/base/signals_name */
/*
 * Both ends of what a launcher and its worker tell each other beside signals:
 * the launcher's files, and libddp that finds them in its environment.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/worker/mailbox.h"
#include "rendezvous/base/stop_page.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

static struct mailbox n = MAILBOX_NONE;

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
    mailbox_progress_path(&n, progress);
    mailbox_stop_path(&n, stop);
    give(progress, stop);
    struct ddp *d = ddp_init(&err);
    ck_assert_msg(d != NULL, "%s", err.text);
    return d;
}

static void setup(void)
{
    ck_assert_int_eq(mailbox_open(&n), 0);
    ck_assert(n.progress_fd >= 0 && n.stop_fd >= 0);
}

static void teardown(void)
{
    mailbox_close(&n);
}

START_TEST(test_mailbox_first_beat_is_progress)
{
    struct ddp *d = worker();
    ck_assert(!mailbox_progressed(&n));
    ddp_beat(d, 1);
    ck_assert(mailbox_progressed(&n));
    ddp_free(d);
    ck_assert_int_eq(mailbox_open(&n), 0);
    ck_assert(!mailbox_progressed(&n));
}
END_TEST

/* A worker without its file would be taken for one that hangs. */
START_TEST(test_mailbox_without_descriptors_is_an_error)
{
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    mailbox_close(&n);
    int next = dup(STDIN_FILENO);
    ck_assert_int_eq(close(next), 0);
    struct rlimit few = {.rlim_cur = (rlim_t)(next + _i),
                         .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ck_assert_int_eq(mailbox_open(&n), -1);
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    mailbox_close(&n);
}
END_TEST

/* What one worker puts there the next one finds, and nobody makes it larger. */
START_TEST(test_mailbox_memory_outlives_workers)
{
    char path[MAILBOX_PATH_MAX], got[4] = "";
    n.memory_fd = mailbox_open_memory(1 << 20);
    mailbox_memory_path(&n, path);
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
END_TEST

/* As a script would. */
START_TEST(test_mailbox_any_program_may_write_its_progress)
{
    char path[MAILBOX_PATH_MAX];
    mailbox_progress_path(&n, path);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs("epoch 1\n", f), 0);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert(mailbox_progressed(&n));
}
END_TEST

/* A worker that has not looked yet is asked by a signal, but finds the word all
 * the same.
 */
START_TEST(test_mailbox_worker_that_looks_is_asked)
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
END_TEST

START_TEST(test_mailbox_signal_is_a_reason_of_its_own)
{
    struct ddp *d = worker();
    ck_assert_int_eq(ddp_stop_on_signal(d, SIGTERM, NULL), 0);
    ck_assert_int_eq(raise(SIGTERM), 0);
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_SIGNAL);
    ck_assert(mailbox_ask(&n, MSG_SCALE_UP));
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_SCALE_UP);
    ddp_free(d);
}
END_TEST

/* The program has a handler of its own: nothing but the page tells libddp. */
START_TEST(test_mailbox_signal_is_told_whatever_the_handler)
{
    struct ddp *d = worker();
    ck_assert(mailbox_tell(&n, STOP_PAGE_SIGNAL));
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_SIGNAL);
    ddp_free(d);
}
END_TEST

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
START_TEST(test_mailbox_failed_worker_ends_by_sigterm)
{
    int status = end_of_noting_worker(true, _i == 1);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    status = end_of_noting_worker(false, _i == 1);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}
END_TEST

/* It is no request to leave at a step, and other signals are noted. */
START_TEST(test_mailbox_failed_is_no_reason_to_stop)
{
    struct ddp *d = worker();
    ck_assert_int_eq(ddp_stop_on_signal(d, SIGUSR1, NULL), 0);
    ck_assert(mailbox_tell(&n, STOP_PAGE_FAILED));
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_NO);
    ck_assert_int_eq(raise(SIGUSR1), 0);
    ck_assert_int_eq(ddp_should_stop(d), DDP_STOP_SIGNAL);
    ddp_free(d);
}
END_TEST

/* No worker can make another one's mapping fault, nor the launcher's reading.
 */
START_TEST(test_mailbox_stop_file_keeps_its_size)
{
    char path[MAILBOX_PATH_MAX];
    struct stat st;
    mailbox_stop_path(&n, path);
    ck_assert_int_ne(truncate(path, 0), 0);
    ck_assert_int_ne(truncate(path, 100000), 0);
    ck_assert_int_eq(fstat(n.stop_fd, &st), 0);
    ck_assert_int_eq(st.st_size, (off_t)sizeof(struct stop_page));
}
END_TEST

/* In another PID namespace the paths lead nowhere, or to a stranger's file,
 * which is left alone: the worker does without. */
START_TEST(test_mailbox_strangers_file_is_left_alone)
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
END_TEST

/* Without descriptors there are no files, and no harm. */
START_TEST(test_mailbox_none_is_harmless)
{
    struct mailbox none = MAILBOX_NONE;
    char path[MAILBOX_PATH_MAX];
    mailbox_progress_path(&none, path);
    ck_assert_str_eq(path, "");
    mailbox_stop_path(&none, path);
    ck_assert_str_eq(path, "");
    ck_assert(!mailbox_progressed(&none));
    ck_assert(!mailbox_ask(&none, MSG_SCALE_UP));
    mailbox_close(&none);
}
END_TEST

/* ulimit -f counts for memfds, too: as much as it allows, in whole pages. */
START_TEST(test_mailbox_memory_is_no_larger_than_a_file_may_be)
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
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox");
    TCase *t = tcase_create("mailbox");
    tcase_set_tags(t, "fast");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, test_mailbox_without_descriptors_is_an_error, 0, 2);
    tcase_add_test(t, test_mailbox_first_beat_is_progress);
    tcase_add_test(t, test_mailbox_memory_outlives_workers);
    tcase_add_test(t, test_mailbox_memory_is_no_larger_than_a_file_may_be);
    tcase_add_test(t, test_mailbox_any_program_may_write_its_progress);
    tcase_add_loop_test(t, test_mailbox_worker_that_looks_is_asked, 0, 2);
    tcase_add_test(t, test_mailbox_signal_is_a_reason_of_its_own);
    tcase_add_loop_test(t, test_mailbox_failed_worker_ends_by_sigterm, 0, 2);
    tcase_add_test(t, test_mailbox_failed_is_no_reason_to_stop);
    tcase_add_test(t, test_mailbox_signal_is_told_whatever_the_handler);
    tcase_add_test(t, test_mailbox_stop_file_keeps_its_size);
    tcase_add_loop_test(t, test_mailbox_strangers_file_is_left_alone, 0, 2);
    tcase_add_test(t, test_mailbox_none_is_harmless);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
