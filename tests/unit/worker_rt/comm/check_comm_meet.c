/* links: tests/lib/{rt_world,rt_comm,strangers} worker_rt/store_ops */
/* libs: -luv -pthread */
/*
 * How the ranks of a communicator meet: only those of one instance, round and
 * communicator that have the key of the round, whoever else calls.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/lib/rt_comm.h"
#include "tests/lib/strangers.h"
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
TEST(test_comm_hello_of_another_round_is_refused)
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

#define KEY  "00112233445566778899aabbccddeeff"
#define KEY2 "00112233445566778899aabbccddeefe"

/* One call after the other at rank 0's listener, of one sort. */
static int call_rank_0(int rank, void *arg)
{
    const enum strangers_sort *sort = arg;
    struct ddp_error e;
    RT_CHECK(setenv("DDP_ROUND_KEY", KEY, 1) == 0);
    struct ddp *d = rt_init();
    (void)rank;
    strangers_call(d, KEY_OF_ROUND("1"), *sort);
    RT_OK(ddp_store_set(d, "strangers", "", 0, 10000, &e), e);
    (void)usleep(1000 * DEADLINE_MS); /* those that are silent stay */
    return 0;
}

static int meet_behind(int rank, void *arg)
{
    const enum strangers_sort *sort = arg;
    struct ddp_error e;
    RT_CHECK(setenv("DDP_ROUND_KEY", KEY, 1) == 0);
    struct ddp *d = rt_init();
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
    const char *told = ddp_strangers(d), *why = strangers_why(*sort);
    if (rank == 0 && why != NULL)
        RT_CHECK(strstr(told, why) != NULL && strstr(told, "127.0.0.1:"));
    else
        RT_CHECK(told[0] == '\0');
    ddp_free(d);
    return 0;
}

/* Whoever calls without the key, or says nothing, on more connections than are
 * heard at once: gets nothing, and is counted; the right peer is met. */
TEST_LOOP(test_comm_strangers_do_not_disturb_the_meeting, 0, STRANGERS_SORTS)
{
    static enum strangers_sort sort;
    uint16_t port;
    sort = (enum strangers_sort)_i;
    pid_t store = rt_store_start(&port);
    pid_t a = rt_rank_start(0, 2, port, 1, meet_behind, &sort);
    pid_t s = rt_rank_start(0, 2, port, 1, call_rank_0, &sort);
    pid_t b = rt_rank_start(1, 2, port, 1, meet_behind, &sort);
    ck_assert_int_eq(rt_wait(a, DEADLINE_MS), 0);
    ck_assert_int_eq(rt_wait(b, DEADLINE_MS), 0);
    rt_kill(s);
    rt_kill(store);
}

/* Two ranks, each with its key: which of them fails, and of what. */
static int meet_with(int rank, void *arg)
{
    const char *const *keys = arg;
    struct ddp_error e;
    if (keys[rank] != NULL)
        RT_CHECK(setenv("DDP_ROUND_KEY", keys[rank], 1) == 0);
    struct ddp *d = rt_init();
    struct ddp_comm_opts opts = {.init_timeout_ms = 1500};
    RT_CHECK(ddp_comm_new(d, &opts, &e) == NULL);
    RT_CHECK(rank == 0 ? e.code == DDP_ERR_TIMEOUT : e.code == DDP_ERR_PROTO);
    RT_CHECK(rank == 0 || strstr(e.text, "not put there by a rank of this"));
    ddp_free(d);
    return 0;
}

/* Somebody without the key writes an address into the store: it is not called.
 */
TEST_LOOP(test_comm_address_without_the_key_is_not_called, 0, 2)
{
    static const char *const keys[][2] = {{KEY, KEY2}, {KEY, NULL}};
    rt_world_run(2, meet_with, (void *)(uintptr_t)keys[_i], DEADLINE_MS);
}

/* Listens itself, in rank 0's name: with what rank 0 has signed, or would. */
static int stand_for_rank_0(int rank, void *arg)
{
    struct ddp_error e;
    RT_CHECK(setenv("DDP_ROUND_KEY", KEY, 1) == 0);
    struct ddp *d = rt_init();
    (void)rank;
    (void)arg;
    strangers_answer(d, KEY_OF_ROUND("1"));
    RT_OK(ddp_store_set(d, "answered", "", 0, 10000, &e), e);
    ddp_free(d);
    return 0;
}

static int call_in_vain(int rank, void *arg)
{
    struct ddp_error e;
    (void)rank;
    (void)arg;
    RT_CHECK(setenv("DDP_ROUND_KEY", KEY, 1) == 0);
    struct ddp *d = rt_init();
    struct ddp_comm_opts opts = {.init_timeout_ms = DEADLINE_MS};
    RT_CHECK(ddp_comm_new(d, &opts, &e) == NULL);
    RT_CHECK(e.code == DDP_ERR_PROTO);
    RT_CHECK(strstr(e.text, "to 127.0.0.1:") != NULL);
    RT_CHECK(strstr(e.text, "has not the key of this round") != NULL);
    RT_OK(ddp_store_wait(d, "answered", 10000, &e), e);
    ddp_free(d);
    return 0;
}

/* Another program has the port that a rank had: it hears a hello, and nothing
 * more. */
TEST(test_comm_listener_without_the_key_gets_nothing)
{
    uint16_t port;
    pid_t store = rt_store_start(&port);
    pid_t a = rt_rank_start(0, 2, port, 1, stand_for_rank_0, NULL);
    pid_t b = rt_rank_start(1, 2, port, 1, call_in_vain, NULL);
    ck_assert_int_eq(rt_wait(a, DEADLINE_MS), 0);
    ck_assert_int_eq(rt_wait(b, DEADLINE_MS), 0);
    rt_kill(store);
}

static int come_late(int rank, void *arg)
{
    struct ddp_error e;
    struct ddp *d = rt_init();
    (void)arg;
    if (rank == 1)
        (void)usleep(6000 * 1000); /* longer than a hello is waited for */
    struct ddp_comm_opts opts = {.init_timeout_ms = DEADLINE_MS};
    struct ddp_comm *c = ddp_comm_new(d, &opts, &e);
    RT_OK(c == NULL ? -1 : 0, e);
    RT_OK(ddp_comm_barrier(c, &e), e);
    ddp_comm_free(c);
    RT_CHECK(ddp_strangers(d)[0] == '\0');
    ddp_free(d);
    return 0;
}

/* The highest waits for the address of the one that is late, and is no stranger
 * to the lowest meanwhile. */
TEST(test_comm_rank_that_comes_late_is_met_by_all)
{
    rt_world_run(3, come_late, NULL, DEADLINE_MS);
}

/* How a rank is late that is there. */
struct lateness {
    int rank; /* of two; the other one is as ever */
    int ms;
    bool behind; /* the address at which nobody listens */
};

static int be_late(int rank, void *arg)
{
    const struct lateness *l = arg;
    struct ddp_error e;
    RT_CHECK(setenv("DDP_ROUND_KEY", KEY, 1) == 0);
    struct ddp *d = rt_init();
    if (rank == 0)
        strangers_come_late(d, KEY_OF_ROUND("1"), l->behind, l->ms);
    else
        strangers_speak_late(d, KEY_OF_ROUND("1"), l->ms);
    RT_OK(ddp_store_wait(d, "met", DEADLINE_MS, &e), e);
    ddp_free(d);
    return 0;
}

static int meet_the_late(int rank, void *arg)
{
    struct ddp_error e;
    (void)rank;
    (void)arg;
    RT_CHECK(setenv("DDP_ROUND_KEY", KEY, 1) == 0);
    struct ddp *d = rt_init();
    struct ddp_comm_opts opts = {.init_timeout_ms = DEADLINE_MS};
    struct ddp_comm *c = ddp_comm_new(d, &opts, &e);
    RT_OK(c == NULL ? -1 : 0, e);
    RT_CHECK(ddp_strangers(d)[0] == '\0');
    RT_OK(ddp_store_set(d, "met", "", 0, 10000, &e), e);
    ddp_comm_free(c);
    ddp_free(d);
    return 0;
}

/* It has several addresses, and comes to its calls when those who call have
 * tried the others, or it is slow to speak: on a busy machine, or while it asks
 * a slow store. */
TEST_LOOP(test_comm_rank_that_is_late_is_met, 0, 3)
{
    static const struct lateness late[] = {
        {.rank = 0, .ms = 4000, .behind = true},
        {.rank = 0, .ms = 4000},
        {.rank = 1, .ms = 3000}};
    static struct lateness l;
    uint16_t port;
    l = late[_i];
    pid_t store = rt_store_start(&port);
    pid_t a = rt_rank_start(l.rank, 2, port, 1, be_late, &l);
    pid_t b = rt_rank_start(1 - l.rank, 2, port, 1, meet_the_late, &l);
    ck_assert_int_eq(rt_wait(b, DEADLINE_MS), 0);
    ck_assert_int_eq(rt_wait(a, DEADLINE_MS), 0);
    rt_kill(store);
}

static int wait_in_vain(int rank, void *arg)
{
    struct ddp_error e;
    struct ddp *d = rt_init();
    struct ddp_comm_opts opts = {.init_timeout_ms = 1500};
    (void)arg;
    RT_CHECK(ddp_comm_new(d, &opts, &e) == NULL);
    RT_CHECK(e.code == DDP_ERR_TIMEOUT);
    RT_CHECK(strstr(e.text, rank == 3 ? "rank 2" : "ranks 3, 1, 2") != NULL);
    if (rank == 0) /* the way there may be closed: this is what to open */
        RT_CHECK(strstr(e.text, ", which was to call 127.0.0.1:") != NULL);
    return 0;
}

/* A rank that never comes: a time-out that names it. */
TEST(test_comm_missing_rank_is_named)
{
    uint16_t port;
    pid_t store = rt_store_start(&port);
    pid_t a = rt_rank_start(3, 4, port, 1, wait_in_vain, NULL);
    pid_t b = rt_rank_start(0, 4, port, 1, wait_in_vain, NULL);
    ck_assert_int_eq(rt_wait(b, DEADLINE_MS), 0);
    ck_assert_int_eq(rt_wait(a, DEADLINE_MS), 0);
    rt_kill(store);
}

SUITE("comm_meet", "meeting", .limit_s = 60)
