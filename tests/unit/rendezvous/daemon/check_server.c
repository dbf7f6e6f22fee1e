/* links: SERVER CONN TLS rendezvous/net/{listener,fd_pass,addr} */
/* links: rendezvous/proto/{frame,msg,term,exits} rendezvous/http/http */
/* links: rendezvous/base/{opts,json,utf8,err,log,buf,rng,mono,utc} */
/* libs: -luv -lcjson -ldl */
/*
 * The server's shell on loopback, with peers that are plain sockets. Every test
 * ends with the server closed and uv_loop_close() == 0.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/daemon/server.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/fd_pass.h"
#include "rendezvous/proto/frame.h"
#include "rendezvous/proto/msg.h"
#include "tests/lib/suite.h"

#define NODES  2
#define PLACES (NODES + 64) /* connections that server_fit has room for */

static uv_loop_t loop;
static struct server *server;
static struct sockaddr_in at;
static int idle; /* calls of on_idle */

static void on_idle(void *ctx)
{
    (void)ctx;
    idle++;
}

static int listen_here(void)
{
    struct ddp_err err;
    int fd;
    at = (struct sockaddr_in){.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(addr_listen((const struct sockaddr *)&at, &fd, &err), 0);
    at.sin_port = htons((uint16_t)addr_fd_port(fd));
    return fd;
}

static void setup(void)
{
    struct ddp_err err;
    struct server_conf conf = {.limits = {.runs_max = 2, .nodes_max = NODES},
                               .on_idle = on_idle};
    ck_assert_ptr_nonnull(
        freopen("/dev/null", "w", stderr)); /* refused peers */
    idle = 0;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(server_open(&server, &loop, listen_here(), &conf, &err),
                     0);
}

static void teardown(void)
{
    if (server != NULL)
        server_close(server);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void run_for(int ms)
{
    for (int i = 0; i < ms; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        (void)poll(NULL, 0, 1);
    }
}

/* -- a peer ---------------------------------------------------------------- */

static struct buf out;

static void put_hello(void)
{
    buf_init(&out, 65536);
    ck_assert_int_eq(buf_put(&out, FRAME_HELLO, FRAME_HELLO_LEN), 0);
}

static void put_msg(const struct msg *m)
{
    char json[MSG_JSON_MAX];
    int len = msg_encode(m, json, sizeof(json));
    ck_assert_int_gt(len, 0);
    ck_assert_int_eq(frame_put(&out, json, (size_t)len), 0);
}

static void put_join(int version, char agent)
{
    struct msg m = {.kind = MSG_KIND_join};
    m.join = (struct msg_join){
        .version = version,
        .run = "r",
        .name = "n",
        .nodes_min = 2,
        .nodes_max = 2,
        .nproc = 1,
        .join_ms = 60000,
        .heartbeat_ms = 60000,
    };
    memset(m.join.agent, agent, 32);
    put_msg(&m);
}

static void put_beats(int n)
{
    struct msg m = {.kind = MSG_KIND_beat, .beat.heard = -1};
    for (int i = 0; i < n; i++) {
        m.beat.seq = i + 1;
        put_msg(&m);
    }
}

static int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

/* A connection on which all that was put is said at once. */
static int say(void)
{
    int fd = dial();
    ck_assert_int_eq(write(fd, buf_head(&out), buf_len(&out)),
                     (ssize_t)buf_len(&out));
    buf_free(&out);
    return fd;
}

/* The launcher of put_join is dead, and so its guard says. */
static void say_farewell(const char *run, char agent, int64_t term)
{
    struct msg m = {.kind = MSG_KIND_vote,
                    .vote = {.version = MSG_VERSION,
                             .last = 1,
                             .group_rank = -1,
                             .term.count = term}};
    msg_set(m.vote.run, run);
    memset(m.vote.agent, agent, 32);
    put_hello();
    put_msg(&m);
    int fd = say();
    run_for(50);
    ck_assert_int_eq(close(fd), 0);
}

/* Whether its connection is still served, after it read what came. */
static bool is_open(int fd)
{
    char all[4096];
    ssize_t n;
    do
        n = recv(fd, all, sizeof(all), MSG_DONTWAIT);
    while (n > 0);
    return n < 0 && errno == EAGAIN;
}

/* -- tests ----------------------------------------------------------------- */

/* What lies behind a refused message in the same packet is nobody's: the
 * connection's place may be another's by then. */
TEST_LOOP(test_server_messages_behind_a_refusal_are_dropped, 0, 3)
{
    put_hello();
    if (_i == 0)
        put_join(9, '1'); /* another version */
    if (_i == 1) {
        put_join(MSG_VERSION, '1');
        put_join(MSG_VERSION, '1'); /* twice */
    }
    put_beats(50);
    int fd = say();
    run_for(50);
    ck_assert(!is_open(fd));
    ck_assert_int_eq(close(fd), 0);
    /* No place was lost or given back twice. */
    int all[PLACES + 3];
    int open = 0;
    for (int i = 0; i < PLACES + 3; i++) {
        all[i] = dial();
        run_for(1);
    }
    run_for(20);
    for (int i = 0; i < PLACES + 3; i++) {
        open += is_open(all[i]);
        ck_assert_int_eq(close(all[i]), 0);
    }
    ck_assert_int_eq(open, PLACES);
}

/* Strangers have taken every place: the oldest goes for a node that comes, at
 * once; and none of them goes before what it says has been read. */
TEST(test_server_full_of_pending_lets_a_node_in)
{
    int all[PLACES];
    for (int i = 0; i < PLACES; i++) {
        all[i] = dial();
        run_for(1);
    }
    put_hello();
    put_join(MSG_VERSION, '2');
    int node = say();
    run_for(50);
    ck_assert(is_open(node));
    ck_assert(!is_open(all[0]));
    ck_assert(is_open(all[1]));
    for (int i = 0; i < PLACES; i++)
        ck_assert_int_eq(close(all[i]), 0);
    ck_assert_int_eq(close(node), 0);
}

/* Two nodes between floods, all of them there before the loop turns. */
TEST(test_server_reads_whom_it_has_accepted_before_it_makes_room)
{
    enum {
        FLOOD = 3 * PLACES
    };
    int all[FLOOD];
    int nodes[NODES];
    for (int i = 0; i < FLOOD / 4; i++)
        all[i] = dial();
    for (int i = 0; i < NODES; i++) {
        put_hello();
        put_join(MSG_VERSION, (char)('1' + i));
        nodes[i] = say();
    }
    for (int i = FLOOD / 4; i < FLOOD; i++)
        all[i] = dial();
    run_for(50);
    for (int i = 0; i < NODES; i++) {
        ck_assert(is_open(nodes[i]));
        ck_assert_int_eq(close(nodes[i]), 0);
    }
    for (int i = 0; i < FLOOD; i++)
        ck_assert_int_eq(close(all[i]), 0);
}

/* Strangers who dial faster than they can be accepted do not keep the loop from
 * the nodes: a turn takes some of them, and answers a beat. */
TEST(test_server_answers_a_beat_between_pending)
{
    enum {
        PENDING = 400
    };
    static int all[PENDING];
    int left = 0;
    put_hello();
    put_join(MSG_VERSION, '1');
    int node = say();
    run_for(20);
    ck_assert(is_open(node));
    for (int i = 0; i < PENDING; i++)
        all[i] = dial();
    buf_init(&out, 1000);
    put_beats(1);
    ck_assert_int_eq(write(node, buf_head(&out), buf_len(&out)),
                     (ssize_t)buf_len(&out));
    buf_free(&out);
    char answer[100];
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_int_gt(recv(node, answer, sizeof(answer), MSG_DONTWAIT), 0);
    for (int i = 0; i < PENDING; i++) /* those beyond PLACES are dropped */
        left += is_open(all[i]);
    ck_assert_int_eq(left, PENDING);
    run_for(50);
    for (int i = left = 0; i < PENDING; i++) {
        left += is_open(all[i]);
        ck_assert_int_eq(close(all[i]), 0);
    }
    ck_assert_int_eq(left, PLACES - 1); /* all were seen to in the end */
    ck_assert_int_eq(close(node), 0);
}

/* The longest join that there can be is read; a pending connection that
 * announces more than that gets no memory for it, and who has joined may say
 * more. */
TEST(test_server_reads_no_more_of_a_pending_than_a_join)
{
    static const uint8_t longer[] = {0x01, 0x20, 0, 0}; /* 8193 */
    static char blanks[20000];
    struct msg m = {.kind = MSG_KIND_join};
    m.join = (struct msg_join){.version = MSG_VERSION,
                               .nodes_min = 2,
                               .nodes_max = 2,
                               .nproc = 4096,
                               .max_restarts = 1000000,
                               .scale_ms = INT64_C(86400000000),
                               .join_ms = INT64_C(86400000000),
                               .last_call_ms = INT64_C(86400000000),
                               .heartbeat_ms = 3600000,
                               .reconnect_ms = INT64_C(86400000000),
                               .lease_ms = INT64_C(86400000000),
                               .recent_ms = INT64_C(86400000000),
                               .restarts = 1000000,
                               .group_rank = -1,
                               .answered_ms = -1,
                               .port = 65535};
    memset(m.join.run, 1, sizeof(m.join.run) - 1);       /* six bytes each */
    memset(m.join.agent, 'a', sizeof(m.join.agent) - 1); /* else refused */
    memset(m.join.name, 1, sizeof(m.join.name) - 1);
    memset(m.join.options, 'a', sizeof(m.join.options) - 1);
    memset(m.join.options + 352, 1, 128); /* the program */
    memset(m.join.role, 1, sizeof(m.join.role) - 1);
    memset(m.join.addr, 1, sizeof(m.join.addr) - 1);
    memset(m.join.instance, 1, sizeof(m.join.instance) - 1);
    put_hello();
    put_msg(&m);
    ck_assert_uint_lt(buf_len(&out), 6000); /* room for what is to come */
    int node = say();
    put_hello();
    ck_assert_int_eq(buf_put(&out, longer, sizeof(longer)), 0);
    int pending = say();
    run_for(20);
    ck_assert(is_open(node));
    ck_assert(!is_open(pending));
    memset(blanks, ' ', sizeof(blanks));
    memcpy(blanks, "{\"kind\":\"beat\",\"seq\":1,\"heard\":-1", 33);
    blanks[sizeof(blanks) - 1] = '}';
    buf_init(&out, 65536);
    ck_assert_int_eq(frame_put(&out, blanks, sizeof(blanks)), 0);
    ck_assert_int_eq(write(node, buf_head(&out), buf_len(&out)),
                     (ssize_t)buf_len(&out));
    buf_free(&out);
    run_for(20);
    ck_assert(is_open(node));
    ck_assert_int_eq(close(node), 0);
    ck_assert_int_eq(close(pending), 0);
}

static void order_end_of(const char *run)
{
    struct msg m = {.kind = MSG_KIND_order,
                    .order = {.version = MSG_VERSION, .verb = MSG_ORDER_END}};
    msg_set(m.order.run, run);
    put_hello();
    put_msg(&m);
    int fd = say();
    run_for(50);
    ck_assert_int_eq(close(fd), 0);
}

/* A node that came and goes again, in order: its run may be served elsewhere
 * now, and those that look for it come here. When a run has ended here (_i ==
 * 1) nobody does. */
TEST_LOOP(test_server_whose_last_node_left_stays_until_a_run_has_ended, 0, 2)
{
    put_hello();
    put_join(MSG_VERSION, '1');
    int fd = say();
    run_for(50);
    ck_assert(is_open(fd));
    ck_assert_int_eq(idle, 0);
    if (_i == 1)
        order_end_of("r");
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    run_for(50);
    say_farewell("r", '1', 0);
    ck_assert((idle > 0) == (_i == 1));
    ck_assert_int_eq(close(fd), 0);
}

/* Nor does it end when those are gone that told it where else a run is served.
 * When a run has ended here (_i == 1), none of them is waited for: who told may
 * have no cable any more. */
TEST_LOOP(test_server_that_is_told_of_a_run_elsewhere_stays, 0, 2)
{
    struct msg m = {.kind = MSG_KIND_serves,
                    .serves = {.version = MSG_VERSION,
                               .run = "other",
                               .instance = "0123456789abcdef0123456789abcdef",
                               .term.count = 7,
                               .term.id = "0123456789abcdef",
                               .addr = "10.0.0.1:29500"}};
    put_hello();
    put_msg(&m);
    int teller = say();
    put_hello();
    put_join(MSG_VERSION, '1');
    int fd = say();
    run_for(50);
    if (_i == 1)
        order_end_of("r");
    say_farewell("r", '1', 0);
    ck_assert(is_open(teller));
    ck_assert((idle > 0) == (_i == 1));
    ck_assert_int_eq(close(teller), 0);
    run_for(50);
    ck_assert((idle > 0) == (_i == 1));
    ck_assert_int_eq(close(fd), 0);
}

/* Nodes, pending connections and messages under way do not keep it from
 * closing. */
TEST(test_server_closes_with_everything_open)
{
    int fds[4];
    for (int i = 0; i < 4; i++) {
        put_hello();
        if (i < 2)
            put_join(MSG_VERSION, (char)('1' + i));
        put_beats(i == 3 ? 1 : 0);
        fds[i] = say();
        run_for(5);
    }
    server_close(server);
    server = NULL;
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(close(fds[i]), 0);
}

/* All that came on a connection until it was closed, as text. */
static void read_all(int fd, char *all, size_t size)
{
    size_t len = 0;
    ssize_t n;
    while ((n = recv(fd, all + len, size - 1 - len, MSG_DONTWAIT)) > 0)
        len += (size_t)n;
    for (size_t i = 0; i < len; i++)
        if (all[i] == '\0')
            all[i] = ' ';
    all[len] = '\0';
}

/* An order is answered and ends its connection; who may not give any is told
 * so. What lies behind it is nobody's. */
TEST_LOOP(test_server_orders_are_answered_or_refused, 0, 2)
{
    static const char *const answers[] = {"there is no run 'x' here",
                                          "takes no orders (--orders=none)"};
    struct server_conf conf = {.limits = {.runs_max = 2, .nodes_max = NODES},
                               .orders = _i == 0 ? SERVER_ORDERS_DEFAULT
                                                 : SERVER_ORDERS_NONE};
    struct msg m = {.kind = MSG_KIND_order,
                    .order = {.version = MSG_VERSION, .verb = MSG_ORDER_END}};
    struct ddp_err err;
    char all[4096];
    server_close(server);
    ck_assert_int_eq(server_open(&server, &loop, listen_here(), &conf, &err),
                     0);
    msg_set(m.order.run, "x");
    put_hello();
    put_msg(&m);
    put_msg(&m);
    put_beats(3);
    int fd = say();
    run_for(50);
    read_all(fd, all, sizeof(all));
    ck_assert_ptr_nonnull(strstr(all + FRAME_HELLO_LEN, answers[_i]));
    ck_assert_ptr_null(strstr(strstr(all, answers[_i]) + 1, answers[_i]));
    ck_assert(!is_open(fd));
    ck_assert_int_eq(close(fd), 0);
}

static void put_question(void)
{
    struct msg m = {.kind = MSG_KIND_serves,
                    .serves = {.version = MSG_VERSION, .run = "x"}};
    put_msg(&m);
}

/* Who may give orders is known of the first message of a connection: an order
 * behind a question was once carried out for anybody. */
TEST_LOOP(test_server_order_behind_a_question_is_none, 0, 2)
{
    struct server_conf conf = {.limits = {.runs_max = 2, .nodes_max = NODES},
                               .orders = _i == 0 ? SERVER_ORDERS_DEFAULT
                                                 : SERVER_ORDERS_NONE};
    struct msg m = {.kind = MSG_KIND_order,
                    .order = {.version = MSG_VERSION, .verb = MSG_ORDER_END}};
    struct ddp_err err;
    char all[4096];
    server_close(server);
    ck_assert_int_eq(server_open(&server, &loop, listen_here(), &conf, &err),
                     0);
    msg_set(m.order.run, "x");
    put_hello();
    put_question();
    put_msg(&m);
    int fd = say();
    run_for(50);
    read_all(fd, all, sizeof(all));
    ck_assert_ptr_nonnull(strstr(all + FRAME_HELLO_LEN, "serves"));
    ck_assert_ptr_null(strstr(all, "there is no run"));
    ck_assert(!is_open(fd));
    ck_assert_int_eq(close(fd), 0);
}

/* Nor does a question make a node of its peer: as those that said nothing it
 * gives way, the one first that has not asked for longest. */
TEST(test_server_full_of_questions_lets_a_node_in)
{
    int all[PLACES];
    for (int i = 0; i < PLACES; i++) {
        put_hello();
        put_question();
        all[i] = say();
        run_for(1);
    }
    run_for(1100);
    put_hello();
    put_join(MSG_VERSION, '2');
    int node = say();
    run_for(50);
    ck_assert(is_open(node));
    ck_assert(!is_open(all[0]));
    ck_assert(is_open(all[1]));
    for (int i = 0; i < PLACES; i++)
        ck_assert_int_eq(close(all[i]), 0);
    ck_assert_int_eq(close(node), 0);
}

/* The connection that was handed over is this one, with what it said. */
static void must_be_handed_over(int chan, int client, const char *said)
{
    struct sockaddr_in far, near;
    socklen_t far_len = sizeof(far), near_len = sizeof(near);
    uint8_t data[FD_PASS_BYTES_MAX];
    size_t len;
    int fd;
    ck_assert_int_eq(fd_pass_take(chan, &fd, data, &len), 1);
    ck_assert_int_eq(getpeername(fd, (struct sockaddr *)&far, &far_len), 0);
    ck_assert_int_eq(getsockname(client, (struct sockaddr *)&near, &near_len),
                     0);
    ck_assert_int_eq(far.sin_port, near.sin_port);
    ck_assert_uint_eq(len, strlen(said));
    ck_assert_int_eq(memcmp(data, said, len), 0);
    ck_assert(is_open(client));
    ck_assert_int_eq(close(fd), 0);
}

CASE("limits", .tags = "setrlimit", FIXTURE(setup, teardown))

/* A peer that speaks the store's protocol is handed over at once; one that is
 * silent may be PyTorch, and is handed over instead of closed when a node wants
 * its place. */
TEST(test_server_hands_over_who_may_want_the_store)
{
    enum {
        ALL = 158 /* see check_server_fit */
    };
    struct server_conf conf = {.limits = {.runs_max = 2, .nodes_max = NODES}};
    struct rlimit files = {.rlim_cur = 400, .rlim_max = 400};
    struct ddp_err err;
    int silent[ALL], take;
    server_close(server);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    ck_assert_int_eq(fd_pass_pair(&conf.store_chan, &take, &err), 0);
    ck_assert_int_eq(server_open(&server, &loop, listen_here(), &conf, &err),
                     0);
    buf_init(&out, 10);
    ck_assert_int_eq(buf_put(&out, "\x0a\x01\x02", 3), 0);
    int speaks = say();
    run_for(20);
    must_be_handed_over(take, speaks, "\x0a\x01\x02");
    for (int i = 0; i < ALL; i++)
        silent[i] = dial();
    run_for(150);
    put_hello();
    put_join(MSG_VERSION, '1');
    int node = say();
    run_for(20);
    ck_assert(is_open(node));
    must_be_handed_over(take, silent[0], "");
    for (int i = 0; i < ALL; i++)
        ck_assert_int_eq(close(silent[i]), 0);
    ck_assert_int_eq(close(node), 0);
    ck_assert_int_eq(close(speaks), 0);
    ck_assert_int_eq(close(take), 0);
}

/* A node that is promised a place may find no descriptor left: pending ones
 * that have said nothing go, and those that wait in the kernel's queue come in.
 */
TEST(test_server_without_descriptors_lets_pending_go)
{
    enum {
        PENDING = 20,
        LEFT = 4
    };
    int all[PENDING], open = 0;
    char hello[100];
    ssize_t n = -1;
    for (int i = 0; i < PENDING; i++)
        all[i] = dial();
    put_hello();
    put_join(MSG_VERSION, '1');
    int node = say();
    int next = dup(node); /* the lowest that is free */
    ck_assert_int_eq(close(next), 0);
    struct rlimit files = {.rlim_cur = (rlim_t)(next + LEFT), .rlim_max = 4096};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    /* Some go at a time, and then the listener rests for 100 ms. */
    for (int i = 0; i < 50 && n <= 0; i++) {
        run_for(100);
        n = recv(node, hello, sizeof(hello), MSG_DONTWAIT);
    }
    ck_assert_int_gt(n, 0);
    for (int i = 0; i < PENDING; i++) {
        open += is_open(all[i]);
        ck_assert_int_eq(close(all[i]), 0);
    }
    ck_assert_int_lt(open, LEFT);
    ck_assert_int_eq(close(node), 0);
}

/* Too few descriptors are an error that says how many it takes. */
TEST(test_server_with_few_descriptors_says_so)
{
    struct ddp_err err;
    struct server *other;
    struct server_conf conf = {.limits = {.runs_max = 1, .nodes_max = 1}};
    struct rlimit few = {.rlim_cur = 20, .rlim_max = 20};
    int fd = listen_here();
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ck_assert_int_eq(server_open(&other, &loop, fd, &conf, &err), -1);
    ck_assert_int_eq(err.code, DDP_E_NOMEM);
    ck_assert_ptr_nonnull(strstr(err.text, "the limit of open files is 20"));
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1); /* it was taken over */
}

SUITE("server", "net", FIXTURE(setup, teardown))
