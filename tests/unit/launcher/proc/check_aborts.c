/* links: launcher/proc/aborts rendezvous/base/{err,log,utf8} */
/*
 * What an abort comes to, by errno and by who sent the signal.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/aborts.h"
#include "rendezvous/base/err.h"
#include "tests/lib/suite.h"

/* The wait status of a process that does this. */
static int status_of(void (*what)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        aborts_explain();
        what();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void abort_in_a_shortage(void)
{
    errno = ENOMEM;
    abort();
}

static void abort_otherwise(void)
{
    errno = EINVAL;
    abort();
}

static void fail_an_assertion(void)
{
    errno = ENOMEM;
    ddp_assert(errno == 0);
}

/* Not by itself: from outside, while errno happens to tell of a shortage. */
static void be_sent_it(void)
{
    pid_t target = getpid();
    errno = ENOMEM;
    if (fork() == 0) {
        (void)kill(target, SIGABRT);
        _exit(0);
    }
    (void)sleep(5);
    _exit(0);
}

TEST(test_abort_in_a_shortage_has_a_status)
{
    int status = status_of(abort_in_a_shortage);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), ddp_code_exit(DDP_E_NOMEM));
}

TEST_LOOP(test_abort_is_a_signal_otherwise, 0, 3)
{
    static void (*const what[])(void) = {abort_otherwise, fail_an_assertion,
                                         be_sent_it};
    int status = status_of(what[_i]);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGABRT);
}

SUITE("aborts", "fast")
