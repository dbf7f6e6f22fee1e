/* links: tests/lib/rt_world */
/* links: worker_rt/{env,proof,fork,death_sign,abi,store_ops} */
/* links: rendezvous/client/store rendezvous/base/{dial,rng} */
/* libs: -luv */
/*
 * libddp's client of the store, against the real server and against servers
 * that misbehave: values arrive, waits end, and every call ends by its
 * deadline.
 */
#include <arpa/inet.h>
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/client/store.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

static uint16_t port;
static pid_t server;
static struct ddp *d;

static struct ddp *client(uint16_t to)
{
    rt_place(0, 2, to, 1);
    struct ddp *c = ddp_init(NULL);
    ck_assert_ptr_nonnull(c);
    return c;
}

static void start(void)
{
    server = rt_store_start(&port);
    d = client(port);
}

static void stop(void)
{
    ddp_free(d);
    rt_kill(server);
}

/* Bytes of any kind and length come back as they were set. */
TEST(test_store_values_come_back)
{
    static const size_t lens[] = {0, 1, 255, 4096, 100001, DDP_STORE_VALUE_MAX};
    uint8_t *in = malloc(DDP_STORE_VALUE_MAX),
            *out = malloc(DDP_STORE_VALUE_MAX);
    struct ddp_error e;
    ck_assert(in != NULL && out != NULL);
    for (size_t i = 0; i < DDP_STORE_VALUE_MAX; i++)
        in[i] = (uint8_t)(i * 7 + i / 255);
    for (size_t k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
        size_t len = 1;
        ck_assert_int_eq(ddp_store_set(d, "key", in, lens[k], 2000, &e), 0);
        ck_assert_int_eq(
            ddp_store_get(d, "key", out, DDP_STORE_VALUE_MAX, &len, 2000, &e),
            0);
        ck_assert_uint_eq(len, lens[k]);
        ck_assert_int_eq(memcmp(in, out, len), 0);
    }
    free(in);
    free(out);
}

/* Counters add up, and read as decimal text. */
TEST(test_store_counters_add_up)
{
    struct ddp_error e;
    int64_t sum;
    char text[32];
    size_t len;
    ck_assert_int_eq(ddp_store_add(d, "n", 5, &sum, 2000, &e), 0);
    ck_assert_int_eq(sum, 5);
    ck_assert_int_eq(ddp_store_add(d, "n", -12, NULL, 2000, &e), 0);
    ck_assert_int_eq(ddp_store_add(d, "n", 0, &sum, 2000, &e), 0);
    ck_assert_int_eq(sum, -7);
    ck_assert_int_eq(ddp_store_get(d, "n", text, sizeof(text), &len, 2000, &e),
                     0);
    ck_assert_uint_eq(len, 2);
    ck_assert_mem_eq(text, "-7", 2);
}

/* A check does not wait. */
TEST(test_store_check_tells_what_is_there)
{
    bool there = true;
    ck_assert_int_eq(ddp_store_check(d, "c", &there, 2000, NULL), 0);
    ck_assert(!there);
    ck_assert_int_eq(ddp_store_set(d, "c", "", 0, 2000, NULL), 0);
    ck_assert_int_eq(ddp_store_check(d, "c", &there, 2000, NULL), 0);
    ck_assert(there);
}

static int set_later(int rank, void *arg)
{
    struct ddp_error e;
    (void)rank;
    (void)arg;
    struct ddp *c = ddp_init(&e);
    (void)usleep(100000);
    RT_OK(ddp_store_set(c, "late", "value", 5, 2000, &e), e);
    ddp_free(c);
    return 0;
}

/* A get waits for the key that another process sets. */
TEST(test_store_get_waits_for_the_key)
{
    char value[8];
    size_t len;
    struct ddp_error e;
    int64_t since_us = mono_now_us();
    pid_t other = rt_rank_start(1, 2, port, 1, set_later, NULL);
    ck_assert_int_eq(
        ddp_store_get(d, "late", value, sizeof(value), &len, 5000, &e), 0);
    ck_assert_int_ge(mono_now_us() - since_us, 90000);
    ck_assert_uint_eq(len, 5);
    ck_assert_mem_eq(value, "value", 5);
    ck_assert_int_eq(rt_wait(other, 2000), 0);
}

/* A deadline ends a wait; the next call works, and takes no late reply. */
TEST(test_store_time_out_leaves_a_working_client)
{
    struct ddp_error e;
    int64_t sum, since_us = mono_now_us();
    ck_assert_int_eq(ddp_store_wait(d, "never", 150, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(e.text, "never"));
    ck_assert_int_ge(mono_now_us() - since_us, 140000);
    ck_assert_int_lt(mono_now_us() - since_us, suite_room_us(1500000));
    ck_assert_int_eq(ddp_store_set(d, "never", "", 0, 2000, &e), 0);
    ck_assert_int_eq(ddp_store_add(d, "n", 3, &sum, 2000, &e), 0);
    ck_assert_int_eq(sum, 3);
    ck_assert_int_eq(ddp_store_wait(d, "never", 2000, &e), 0);
}

/* Too long a key or value, too small a buffer: told, and nothing broken. */
TEST(test_store_limits_are_told)
{
    static char key[DDP_STORE_KEY_MAX + 2];
    struct ddp_error e;
    char small[2];
    size_t len;
    memset(key, 'k', DDP_STORE_KEY_MAX + 1);
    ck_assert_int_eq(ddp_store_set(d, key, "", 0, 2000, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
    key[DDP_STORE_KEY_MAX] = '\0';
    ck_assert_int_eq(ddp_store_set(d, key, "abc", 3, 2000, &e), 0);
    ck_assert_int_eq(
        ddp_store_set(d, "v", key, DDP_STORE_VALUE_MAX + 1, 2000, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
    ck_assert_int_eq(ddp_store_get(d, key, small, 2, &len, 2000, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
    ck_assert_uint_eq(len, 3);
    ck_assert_int_eq(ddp_store_get(d, key, key, 3, &len, 2000, &e), 0);
}

/* A counter whose value is no number: the server closes, the client says so
 * and connects again. */
TEST(test_store_lost_connection_is_told_and_made_again)
{
    struct ddp_error e;
    bool there;
    ck_assert_int_eq(ddp_store_set(d, "text", "abc", 3, 2000, &e), 0);
    ck_assert_int_eq(ddp_store_add(d, "text", 1, NULL, 2000, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_LOST);
    ck_assert_int_eq(ddp_store_check(d, "text", &there, 2000, &e), 0);
    ck_assert(there);
}

static void *kill_soon(void *arg)
{
    (void)usleep(100000);
    (void)kill(*(pid_t *)arg, SIGKILL);
    return NULL;
}

/* A store that dies ends a wait at once. */
TEST(test_store_death_ends_a_wait)
{
    struct ddp_error e;
    pthread_t t;
    ck_assert_int_eq(pthread_create(&t, NULL, kill_soon, &server), 0);
    ck_assert_int_eq(ddp_store_wait(d, "never", 5000, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_LOST);
    ck_assert_int_eq(pthread_join(t, NULL), 0);
    siginfo_t info; /* its listener may end later than its connections */
    ck_assert_int_eq(waitid(P_PID, (id_t)server, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(ddp_store_wait(d, "never", 200, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_UNREACHABLE);
}

/* What a preflight uses: texts with an end, and a flag that ends a wait. */
TEST(test_store_client_of_a_probe)
{
    static volatile sig_atomic_t told;
    struct dial_stop stop = {.told = &told};
    struct store_client c;
    struct ddp_err e;
    char *text = NULL;
    bool there = true;
    store_client_init(&c, "127.0.0.1", port);
    c.stop = &stop;
    told = 0;
    int64_t until_us = mono_now_us() + 30 * MONO_S;
    ck_assert_int_eq(store_client_check(&c, "text", &there, until_us, &e), 0);
    ck_assert(!there);
    ck_assert_int_eq(store_client_set(&c, "text", "a b", 3, until_us, &e), 0);
    ck_assert_int_eq(store_client_text(&c, "text", &text, until_us, &e), 0);
    ck_assert_str_eq(text, "a b");
    free(text);
    told = 1;
    ck_assert_int_eq(store_client_wait(&c, "never", until_us, &e), -1);
    ck_assert_int_eq(e.code, DDP_E_ABORTED);
    ck_assert_int_eq(c.fd, -1);
    ck_assert_int_eq(store_client_ready(&c, until_us, &e), -1);
    ck_assert_int_eq(e.code, DDP_E_ABORTED);
    store_client_free(&c);
}

static int meet(int rank, void *arg)
{
    (void)arg;
    struct ddp *c = client(port);
    usleep((unsigned)rank * 20000);
    int rc = ddp_store_barrier(c, "all", 4, 3000, NULL);
    ddp_free(c);
    return rc;
}

/* Nobody passes before the last has come; who waits in vain is told. */
TEST(test_store_barrier_lets_all_go_together)
{
    struct ddp_error e;
    pid_t pid[3];
    for (int i = 0; i < 3; i++)
        pid[i] = rt_rank_start(i, 5, port, 1, meet, NULL);
    usleep(150000);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(waitpid(pid[i], NULL, WNOHANG), 0);
    RT_OK(ddp_store_barrier(d, "all", 4, 2000, &e), e);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(rt_wait(pid[i], 4000), 0);
    RT_OK(ddp_store_barrier(d, "all", 4, 2000, &e), e);
    ck_assert_int_eq(ddp_store_barrier(d, "alone", 2, 50, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(e.text, "BARRIER alone"));
    RT_OK(ddp_store_barrier(d, "alone", 2, 2000, &e), e);
}

/* -- other servers --------------------------------------------------------- */

static int listen_on(uint16_t *to, uint16_t fixed)
{
    struct sockaddr_in sin = {.sin_family = AF_INET,
                              .sin_port = htons(fixed),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sin);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sin, len), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
    *to = ntohs(sin.sin_port);
    return fd;
}

CASE("others", .limit_s = 60)

/* Nobody listens: tried until the deadline, and the text says where. */
TEST(test_store_unreachable_says_where_and_how_long)
{
    struct ddp_error e;
    uint16_t to;
    int fd = listen_on(&to, 0); /* bound, but nobody listens */
    struct ddp *c = client(to);
    int64_t since_us = mono_now_us();
    ck_assert_int_eq(ddp_store_set(c, "k", "", 0, 300, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_UNREACHABLE);
    ck_assert_ptr_nonnull(strstr(e.text, "127.0.0.1"));
    ck_assert_ptr_nonnull(strstr(e.text, "refused"));
    ck_assert_int_lt(mono_now_us() - since_us, suite_room_us(1000000));
    ddp_free(c);
    ck_assert_int_eq(close(fd), 0);
}

static void *listen_soon(void *arg)
{
    (void)usleep(200000);
    (void)listen(*(int *)arg, 8);
    return NULL;
}

/* A server that comes up later is found. */
TEST(test_store_that_comes_up_later_is_found)
{
    struct ddp_error e;
    uint16_t to;
    pthread_t t;
    int fd = listen_on(&to, 0);
    struct ddp *c = client(to);
    ck_assert_int_eq(pthread_create(&t, NULL, listen_soon, &fd), 0);
    ck_assert_int_eq(ddp_store_set(c, "k", "", 0, 5000, &e), 0);
    ck_assert_int_eq(pthread_join(t, NULL), 0);
    ddp_free(c);
    ck_assert_int_eq(close(fd), 0);
}

static const struct {
    const char *reply;
    size_t len;
    int code; /* of a get that waits first */
} servers[] = {
    {"", 0, DDP_ERR_LOST},
    {"\7", 1, DDP_ERR_PROTO},
    {"\1", 1, DDP_ERR_PROTO},
    {"\0\xff\xff\xff\xff\xff\xff\xff\xff", 9, DDP_ERR_PROTO},
    {"\0\0\0\0\1\0\0\0\0", 9, DDP_ERR_PROTO},
    {"\0\5\0\0\0\0\0\0\0abc", 12, DDP_ERR_LOST},
};

/* Takes the connection and the first request off it. */
static void *take(void *arg)
{
    int fd = accept(*(int *)arg, NULL, NULL);
    char request[4096];
    (void)usleep(20000);
    (void)!recv(fd, request, sizeof(request), 0); /* whatever it is */
    return (void *)(intptr_t)fd;
}

/* Nonsense, huge lengths, half replies: an error, no memory spent. */
TEST_EACH(test_store_broken_server_is_an_error, servers)
{
    struct ddp_error e;
    uint16_t to;
    pthread_t t;
    void *conn;
    char value[16];
    size_t len;
    int fd = listen_on(&to, 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    struct ddp *c = client(to);
    ck_assert_int_eq(pthread_create(&t, NULL, take, &fd), 0);
    ck_assert_int_eq(ddp_store_set(c, "first", "", 0, 2000, &e), 0);
    ck_assert_int_eq(pthread_join(t, &conn), 0);
    int peer = (int)(intptr_t)conn;
    ck_assert_int_eq(
        send(peer, servers[_i].reply, servers[_i].len, MSG_NOSIGNAL),
        (ssize_t)servers[_i].len);
    ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
    ck_assert_int_eq(
        ddp_store_get(c, "k", value, sizeof(value), &len, 2000, &e), -1);
    ck_assert_msg(e.code == servers[_i].code, "%d: %s", e.code, e.text);
    ck_assert_int_eq(close(peer), 0);
    ck_assert_int_eq(close(fd), 0);
    ddp_free(c);
}

/* A server that accepts and says nothing: the deadline holds. */
TEST(test_store_silent_server_times_out)
{
    struct ddp_error e;
    uint16_t to;
    int64_t since_us = mono_now_us();
    int fd = listen_on(&to, 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    struct ddp *c = client(to);
    ck_assert_int_eq(ddp_store_add(c, "k", 1, NULL, 150, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_TIMEOUT);
    ck_assert_int_lt(mono_now_us() - since_us, suite_room_us(1500000));
    ddp_free(c);
    ck_assert_int_eq(close(fd), 0);
}

SUITE("rt_store", "server", .limit_s = 60, FIXTURE(start, stop))
