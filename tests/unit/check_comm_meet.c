/* links: tests/lib/rt_world tests/lib/rt_comm worker_rt/store_ops */
/* libs: -luv -pthread */
/*
 * How the ranks of a communicator meet: only those of one instance, round and
 * communicator, whoever else calls.
 */
#include <arpa/inet.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/lib/rt_comm.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

#define DEADLINE_MS 20000 /* on a busy machine */

#define KEY_OF_ROUND(n) "ddp/0123456789abcdef0123456789abcdef/" n "/comm0/0"

/* Publishes as rank 0 of round 1 the address that rank 0 of round 2 has. */
static int in_round(int rank, void *arg)
{
    const int64_t *round = arg;
    struct ddp_error e;
    struct ddp *d = rt_init();
    struct ddp_comm_opts opts = {.init_timeout_ms = 2500};
    static const char from[] = KEY_OF_ROUND("1"), to[] = KEY_OF_ROUND("2");
    char addr[128];
    size_t len;
    if (rank == 0) /* its time begins when the other one is there */
        RT_OK(ddp_store_wait(d, "here", 10000, &e), e);
    else
        RT_OK(ddp_store_set(d, "here", "", 0, 10000, &e), e);
    if (rank == 1 && *round == 2) {
        /* What a broken store could do: the wrong round's address. */
        RT_OK(ddp_store_get(d, from, addr, sizeof(addr), &len, 2000, &e), e);
        RT_OK(ddp_store_set(d, to, addr, len, 2000, &e), e);
    }
    struct ddp_comm *c = ddp_comm_new(d, &opts, &e);
    RT_CHECK(c == NULL);
    if (rank == 0)
        RT_CHECK(e.code == DDP_ERR_TIMEOUT && strstr(e.text, "rank 1"));
    else
        RT_CHECK(e.code == DDP_ERR_PROTO && strstr(e.text, "another round"));
    ddp_free(d);
    return 0;
}

/* A hello of another round is refused, and the meeting goes on without it. */
START_TEST(test_comm_hello_of_another_round_is_refused)
{
    static int64_t one = 1, other = 2;
    uint16_t port;
    pid_t store = rt_store_start(&port);
    pid_t a = rt_rank_start(0, 2, port, one, in_round, &one);
    pid_t b = rt_rank_start(1, 2, port, other, in_round, &other);
    ck_assert_int_eq(rt_wait(a, DEADLINE_MS), 0);
    ck_assert_int_eq(rt_wait(b, DEADLINE_MS), 0);
    rt_kill(store);
}
END_TEST

/* Connects to rank 0's listener and talks nonsense, or nothing. */
static int stranger(int rank, void *arg)
{
    static const char key[] = KEY_OF_ROUND("1");
    struct ddp_error e;
    struct ddp *d = rt_init();
    char addr[64], noise[4096];
    size_t len;
    (void)rank;
    (void)arg;
    RT_OK(ddp_store_get(d, key, addr, sizeof(addr) - 1, &len, 10000, &e), e);
    addr[len] = '\0';
    struct sockaddr_in sin = {.sin_family = AF_INET};
    char *space = strchr(addr, ' ');
    RT_CHECK(space != NULL);
    *space = '\0';
    sin.sin_port = htons((uint16_t)strtoul(space + 1, NULL, 10));
    RT_CHECK(inet_pton(AF_INET, addr, &sin.sin_addr) == 1);
    memset(noise, 'G', sizeof(noise));
    for (int i = 0; i < 72; i++) { /* 18 stay and say nothing */
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        RT_CHECK(connect(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0);
        if (i % 3 != 0)
            (void)send(fd, noise, i % 3 == 1 ? 10 : 4096, MSG_NOSIGNAL);
        if (i % 4 == 0)
            (void)close(fd); /* the others stay open, and silent */
    }
    RT_OK(ddp_store_set(d, "strangers", "", 0, 10000, &e), e);
    (void)usleep(1000 * DEADLINE_MS);
    return 0;
}

static int meet_behind(int rank, void *arg)
{
    struct ddp_error e;
    struct ddp *d = rt_init();
    (void)arg;
    if (rank == 1)
        RT_OK(ddp_store_wait(d, "strangers", 10000, &e), e);
    struct ddp_comm_opts opts = {.init_timeout_ms = DEADLINE_MS};
    struct ddp_comm *c = ddp_comm_new(d, &opts, &e);
    RT_OK(c == NULL ? -1 : 0, e);
    RT_OK(ddp_comm_barrier(c, &e), e);
    ddp_comm_free(c);
    struct rusage used;
    RT_CHECK(getrusage(RUSAGE_SELF, &used) == 0);
    RT_CHECK(used.ru_utime.tv_sec + used.ru_stime.tv_sec == 0); /* it slept */
    return 0;
}

/* Nonsense, half a hello, silence on more connections than are heard at once:
 * the right peer is met all the same. */
START_TEST(test_comm_strangers_do_not_disturb_the_meeting)
{
    uint16_t port;
    pid_t store = rt_store_start(&port);
    pid_t a = rt_rank_start(0, 2, port, 1, meet_behind, NULL);
    pid_t s = rt_rank_start(0, 2, port, 1, stranger, NULL);
    pid_t b = rt_rank_start(1, 2, port, 1, meet_behind, NULL);
    ck_assert_int_eq(rt_wait(a, DEADLINE_MS), 0);
    ck_assert_int_eq(rt_wait(b, DEADLINE_MS), 0);
    rt_kill(s);
    rt_kill(store);
}
END_TEST

static int wait_in_vain(int rank, void *arg)
{
    struct ddp_error e;
    struct ddp *d = rt_init();
    struct ddp_comm_opts opts = {.init_timeout_ms = 1500};
    (void)arg;
    RT_CHECK(ddp_comm_new(d, &opts, &e) == NULL);
    RT_CHECK(e.code == DDP_ERR_TIMEOUT);
    RT_CHECK(strstr(e.text, rank == 3 ? "rank 2" : "ranks 3, 1, 2") != NULL);
    return 0;
}

/* A rank that never comes: a time-out that names it. */
START_TEST(test_comm_missing_rank_is_named)
{
    uint16_t port;
    pid_t store = rt_store_start(&port);
    pid_t a = rt_rank_start(3, 4, port, 1, wait_in_vain, NULL);
    pid_t b = rt_rank_start(0, 4, port, 1, wait_in_vain, NULL);
    ck_assert_int_eq(rt_wait(b, DEADLINE_MS), 0);
    ck_assert_int_eq(rt_wait(a, DEADLINE_MS), 0);
    rt_kill(store);
}
END_TEST

static Suite *comm_meet_suite(void)
{
    Suite *s = suite_create("comm_meet");
    TCase *t = tcase_create("meeting");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_comm_hello_of_another_round_is_refused);
    tcase_add_test(t, test_comm_strangers_do_not_disturb_the_meeting);
    tcase_add_test(t, test_comm_missing_rank_is_named);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return suite_run(comm_meet_suite());
}
