/* links: SERVER CONN rendezvous/net/listener rendezvous/net/fd_pass TLS */
/* links: rendezvous/net/addr rendezvous/proto/frame rendezvous/proto/msg */
/* links: rendezvous/proto/exits rendezvous/http/http rendezvous/base/opts */
/* links: rendezvous/base/json rendezvous/base/utf8 rendezvous/base/err */
/* links: rendezvous/base/log rendezvous/base/buf rendezvous/base/rng */
/* links: rendezvous/base/mono rendezvous/base/utc */
/* libs: -luv -lcjson -ldl */
/*
 * Connections that nodes of another server hold in reserve at this one. The
 * peers are connections of the same loop.
 */
#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/daemon/server.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/conn.h"
#include "tests/lib/suite.h"

#define NODES  2
#define PLACES (NODES + 64) /* connections that server_fit has room for */

static uv_loop_t loop;
static struct server *server;
static struct sockaddr_in at;
static struct tls_key *key;

static struct peer {
    struct conn *conn;
    bool up, waits, ended;
} peers[PLACES + 1];

static void on_up(void *ctx, struct conn *c)
{
    struct peer *p = ctx;
    ck_assert_ptr_eq(p->conn, c);
    p->up = true;
}

static void on_msg(void *ctx, struct conn *c, const struct msg *m)
{
    struct peer *p = ctx;
    (void)c;
    p->waits |= m->kind == MSG_KIND_waiting;
}

static void on_closed(
    void *ctx, struct conn *c, bool orderly, bool refused, const char *why)
{
    (void)c;
    (void)orderly;
    (void)refused;
    (void)why;
    struct peer *p = ctx;
    p->conn = NULL;
    p->ended = true;
}

static void on_bytes(void *ctx, struct conn *c, const uint8_t *data, size_t len)
{
    (void)ctx;
    (void)c;
    (void)data;
    (void)len;
}

static const struct conn_handler handler = {.on_up = on_up,
                                            .on_msg = on_msg,
                                            .on_closed = on_closed,
                                            .on_bytes = on_bytes};

static void begin(bool has_token)
{
    static const char token[] = "0123456789abcdef0123456789abcdef";
    struct server_conf conf = {.limits = {.runs_max = 2, .nodes_max = NODES}};
    struct ddp_err err;
    int fd;
    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_ptr_nonnull(
        freopen("/dev/null", "w", stderr)); /* refused peers */
    memset(peers, 0, sizeof(peers));
    key = NULL;
    if (has_token)
        ck_assert_int_eq(tls_key_make(&key, token, sizeof(token) - 1, &err), 0);
    conf.key = key;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    at = (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(addr_listen((const struct sockaddr *)&at, &fd, &err), 0);
    at.sin_port = htons((uint16_t)addr_fd_port(fd));
    ck_assert_int_eq(server_open(&server, &loop, fd, &conf, &err), 0);
}

static void end(void)
{
    for (int i = 0; i <= PLACES; i++)
        if (peers[i].conn != NULL)
            conn_close(peers[i].conn);
    server_close(server);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    tls_key_free(key);
}

/* For 20 s at most. */
static bool comes(const bool *what)
{
    int64_t until_us = mono_now_us() + 20 * MONO_S;
    while (!*what && mono_now_us() < until_us) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        (void)poll(NULL, 0, 1);
    }
    return *what;
}

static void run_for(int ms)
{
    for (int i = 0; i < ms; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        (void)poll(NULL, 0, 1);
    }
}

/* Is connected. One that is silent says nothing, not even a hello. */
static void come(struct peer *p, bool silent)
{
    struct ddp_err err;
    p->conn = conn_dial(&loop, (const struct sockaddr *)&at, &handler, p, &err);
    ck_assert_ptr_nonnull(p->conn);
    if (silent)
        conn_raw(p->conn, &handler, p);
    else
        conn_secure(p->conn, key);
    ck_assert(comes(&p->up));
}

static void say_reserve(struct peer *p, int version)
{
    struct msg m = {.kind = MSG_KIND_reserve, .reserve.version = version};
    conn_send(p->conn, &m);
}

static void say_join(struct peer *p)
{
    struct msg m = {.kind = MSG_KIND_join};
    m.join = (struct msg_join){.version = MSG_VERSION,
                               .run = "r",
                               .name = "n",
                               .agent = "0123456789abcdef0123456789abcdef",
                               .nodes_min = 2,
                               .nodes_max = 2,
                               .nproc = 1,
                               .join_ms = 60000,
                               .heartbeat_ms = 60000};
    conn_send(p->conn, &m);
}

static void describes(const char *wanted)
{
    char text[100];
    server_describe(server, text, sizeof(text));
    ck_assert_str_eq(text, wanted);
}

/* It is no node until it joins, on the same connection. A node may not say it.
 */
START_TEST(test_reserve_joins)
{
    begin(true);
    come(&peers[0], false);
    say_reserve(&peers[0], MSG_VERSION);
    run_for(50);
    ck_assert(!peers[0].ended);
    describes("0 runs, 0 nodes");
    say_join(&peers[0]);
    ck_assert(comes(&peers[0].waits));
    describes("1 run, 1 node");
    say_reserve(&peers[0], MSG_VERSION);
    ck_assert(comes(&peers[0].ended));
    end();
}
END_TEST

/* Nobody may hold a place for long who has not proved that he has the token, or
 * who speaks another version. */
START_TEST(test_reserve_is_refused)
{
    begin(_i == 0);
    come(&peers[0], false);
    say_reserve(&peers[0], _i == 0 ? MSG_VERSION + 1 : MSG_VERSION);
    ck_assert(comes(&peers[0].ended));
    end();
}
END_TEST

/* All places are taken, by `_i` reserves and by silent ones. A newcomer takes
 * the place of one that has proved nothing, if there is any. */
START_TEST(test_reserve_goes_last)
{
    int reserves = 0, all = 0;
    begin(true);
    for (int i = 0; i < PLACES; i++) {
        come(&peers[i], i >= _i);
        if (i < _i)
            say_reserve(&peers[i], MSG_VERSION);
    }
    run_for(50);
    come(&peers[PLACES], true);
    run_for(50);
    for (int i = 0; i < PLACES; i++) {
        reserves += i < _i && !peers[i].ended;
        all += !peers[i].ended;
    }
    ck_assert_int_eq(all, PLACES - 1);
    ck_assert_int_eq(reserves, _i == PLACES ? PLACES - 1 : _i);
    ck_assert(!peers[PLACES].ended);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("server_reserve");
    TCase *tc = tcase_create("net");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_reserve_joins);
    tcase_add_loop_test(tc, test_reserve_is_refused, 0, 2);
    tcase_add_loop_test(tc, test_reserve_goes_last, 3, 4);
    tcase_add_loop_test(tc, test_reserve_goes_last, PLACES, PLACES + 1);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
