/* links: launcher/rdzv/{own_name,resolver} tests/lib/{hurt,scratch} NET */
/* links: PROTO BASE */
/* libs: -luv -lcjson -ldl */
/*
 * The name in --local_addr: one that nobody knows is told, one that is known is
 * not, and if it cannot be looked up that is told, too. The resolver's answers
 * are the test's own.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "launcher/rdzv/own_name.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

static volatile int asked;

int getaddrinfo(const char *host,
                const char *port,
                const struct addrinfo *hints,
                struct addrinfo **all)
{
    (void)port;
    *all = NULL;
    if (hints->ai_flags & AI_NUMERICHOST) /* whether it is an address */
        return strcmp(host, "10.0.0.1") == 0 ? 0 : EAI_NONAME;
    asked++;
    return strcmp(host, "known.test") == 0 ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *all)
{
    ck_assert_ptr_null(all);
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

/* A second thread of this process looks the name up. */
static bool is_looked_up(void)
{
    int threads = 0;
    fault_hold(true);
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        abort();
    while (readdir(tasks) != NULL)
        threads++;
    (void)closedir(tasks); /* only read */
    fault_hold(false);
    return threads > 3; /* ".", "..", and this one */
}

/* Looks the name up, and waits until what there is to tell was told: with each
 * turn that may be delayed by a signal there is another one. */
static int look_up(void *name)
{
    static uv_loop_t loop;
    static uv_timer_t timer; /* a launcher's loop has something to do */
    if (uv_loop_init(&loop) != 0 || uv_timer_init(&loop, &timer) != 0 ||
        uv_timer_start(&timer, on_timer, 60000, 0) != 0)
        return HURT_TEST;
    own_name_check(&loop, name);
    while (is_looked_up())
        (void)usleep(1000);
    for (int i = 0; i < 10; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    return asked > 0 ? HURT_DONE : HURT_TOLD;
}

/* What look_up puts on stderr. */
static void told_of(char *name, char *text, size_t size)
{
    int kept = dup(STDERR_FILENO);
    int fd = open("stderr", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ge(dup2(fd, STDERR_FILENO), 0);
    (void)look_up(name);
    ck_assert_int_ge(dup2(kept, STDERR_FILENO), 0);
    ssize_t n = pread(fd, text, size - 1, 0);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    ck_assert_int_eq(close(fd) | close(kept), 0);
}

static char unknown[] = "unknown.test", known[] = "known.test",
            number[] = "10.0.0.1", empty[] = "";

TEST(test_own_name_that_nobody_knows_is_told)
{
    char text[1000];
    told_of(unknown, text, sizeof(text));
    ck_assert_msg(strstr(text, "--local_addr: the name 'unknown.test' does not "
                               "resolve here") != NULL,
                  "%s", text);
}

TEST_LOOP(test_own_name_that_needs_no_word, 0, 3)
{
    static char *const names[] = {known, number, empty};
    char text[1000];
    told_of(names[_i], text, sizeof(text));
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(asked, _i == 0);
}

CASE("faults", FAULT_CASE(60))

TEST(test_own_name_is_looked_up_or_told_whatever_call_fails)
{
    hurt_each("test", 3, look_up, known, "pthread_create");
}

SUITE("own_name", "own_name", FIXTURE(scratch_enter, scratch_leave))
