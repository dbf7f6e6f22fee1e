/* links: launcher/rdzv/{client,resolver,own_server,endpoint,looks,redirect} */
/* links: launcher/rdzv/{farewell_places,caller,reach} tests/lib/hurt */
/* links: launcher/proc/signals SERVER STORE NET PROTO BASE OPTS */
/* libs: -luv -lcjson -ldl */
/*
 * The launcher's way to the rendezvous: it resolves a name, serves if nobody
 * does, connects, and says why if it cannot. The resolver's answers are the
 * test's own; the server is a real one.
 */
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/farewell_page.h"
#include "launcher/rdzv/client.h"
#include "launcher/rdzv/resolver.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/addr.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/suite.h"

/* The workers' store has a port of its own. */
bool conf_shares_port(const struct conf *c)
{
    (void)c;
    return false;
}

static uv_loop_t loop;
static struct conf conf;
static struct rdzv_client *client;
static int ups, downs; /* calls of the handler */
static int worlds;
static char reason[1000];
static int pages, told_to; /* of the guard's */

/* -- names ----------------------------------------------------------------- */

/* What a name server says of "node.test". */
static int answer;   /* 0: 127.0.0.1; else of getaddrinfo(3) */
static int pause_us; /* before it says so */
static volatile int asked;

int getaddrinfo(const char *host,
                const char *port,
                const struct addrinfo *hints,
                struct addrinfo **all)
{
    int (*real)(const char *, const char *, const struct addrinfo *,
                struct addrinfo **);
    void *found = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&real, &found, sizeof(found));
    if (host == NULL || strcmp(host, "node.test") != 0)
        return real(host, port, hints, all);
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    asked++;
    (void)usleep((useconds_t)pause_us);
    errno = ENOMEM;
    return answer == 0 ? real("127.0.0.1", port, hints, all) : answer;
}

/* -- a launcher ------------------------------------------------------------ */

/* What the guard would say, and how often that was written. */
void farewell_page_write(const struct farewell_page *page)
{
    pages++;
    told_to = page->n_places > 0
                  ? addr_port((const struct sockaddr *)&page->places[0])
                  : 0;
}

static void on_connected(void *ctx)
{
    (void)ctx;
    ups++;
}

static void on_msg(void *ctx, const struct msg *m)
{
    (void)ctx;
    worlds += m->kind == MSG_KIND_world;
    if (m->kind == MSG_KIND_refused)
        (void)snprintf(reason, sizeof(reason), "%s", m->refused.text);
}

static void on_disconnected(void *ctx, const char *why)
{
    (void)ctx;
    downs++;
    (void)snprintf(reason, sizeof(reason), "%s", why);
}

static const struct rdzv_client_handler handler = {
    .on_connected = on_connected,
    .on_msg = on_msg,
    .on_disconnected = on_disconnected,
};

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as an agent does, and its server */
    /* libuv's first loop of a process: open_files_room is for it. */
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    memset(&conf, 0, sizeof(conf));
    conf.nnodes_min = conf.nnodes_max = conf.nproc = 1;
    conf.standalone = true;
    conf.is_host = 1;
    conf.read_timeout_us = 60 * MONO_S;
    conf.endpoints[0] = (struct conf_endpoint){.host = "127.0.0.1"};
    conf.endpoints_len = 1;
    answer = pause_us = 0;
}

/* libuv keeps a descriptor in reserve from the first stream of a loop on. */
static int start(void)
{
    static uv_tcp_t first;
    if (uv_loop_init(&loop) != 0 || uv_tcp_init(&loop, &first) != 0)
        return -1;
    uv_close((uv_handle_t *)&first, NULL);
    ups = downs = worlds = pages = told_to = 0;
    client = rdzv_client_new(&loop, &conf, &handler, NULL, -1, false);
    return 0;
}

/* As launcher/loop does when it is told of a child's end. */
static void reap(void)
{
    siginfo_t info = {.si_pid = 0};
    pid_t server = rdzv_client_server(client);
    if (server > 0 &&
        waitid(P_PID, (id_t)server, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == server)
        rdzv_client_server_ended(client);
}

/* Until *what is n, or for `ms`. */
static bool run_until(const int *what, int n, int ms)
{
    int64_t until_us = mono_now_us() + ms * MONO_MS;
    while (*what < n && mono_now_us() < until_us) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        reap();
        (void)usleep(500);
    }
    return *what >= n;
}

static void join(void)
{
    struct msg m = {.kind = MSG_KIND_join};
    m.join = (struct msg_join){.version = MSG_VERSION,
                               .nodes_min = 1,
                               .nodes_max = 1,
                               .nproc = 1,
                               .node_rank = -1,
                               .port = 29500,
                               .join_ms = 60000,
                               .heartbeat_ms = 5000,
                               .reconnect_ms = 60000,
                               .scale_ms = 30000};
    msg_set(m.join.run, "run");
    msg_set(m.join.agent, "0123456789abcdef0123456789abcdef");
    msg_set(m.join.name, "node");
    msg_set(m.join.options, "prog");
    msg_set(m.join.role, "default");
    rdzv_client_complete(client, &m.join);
    rdzv_client_send(client, &m);
}

/* Ends all that there is. */
static int finish(int before)
{
    rdzv_client_finish(client);
    rdzv_client_server_kill(client);
    for (int i = 0; i < 60000; i++) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        if (fault_descriptors() == before)
            return HURT_DONE;
        (void)usleep(500);
    }
    return HURT_LEAK;
}

/* Until the first is one more or the connection is lost, or for 30 s: a busy
 * machine takes 3 to start a server. */
static bool comes(const int *what)
{
    int n = *what + 1, before = downs;
    int64_t until_us = mono_now_us() + 30 * MONO_S;
    while (*what < n && downs == before && mono_now_us() < until_us)
        (void)run_until(what, n, 1);
    return *what == n;
}

/* As an agent does that is told that there is no connection. */
static bool comes_up(void)
{
    bool up = false;
    for (int tries = 0; tries < 5 && !up; tries++) {
        rdzv_client_connect(client, "", 0);
        up = comes(&ups);
    }
    return up;
}

static int run(void *ctx)
{
    (void)ctx;
    if (start() != 0)
        return fault_struck() > 0 ? HURT_TEST : HURT_WRONG;
    int before = fault_descriptors();
    for (int tries = 0; tries < 3; tries++) {
        int lost = downs;
        if (!comes_up())
            return downs > lost ? hurt_told(reason) : HURT_LATE;
        if (rdzv_client_port(client) <= 0)
            return hurt_wrong("no port");
        lost = downs;
        join();
        if (comes(&worlds))
            return finish(before);
        if (downs == lost)
            return HURT_LATE;
    }
    return hurt_told(reason);
}

/* -- the tests ------------------------------------------------------------- */

TEST(test_client_serves_and_connects)
{
    ck_assert_int_eq(run(NULL), HURT_DONE);
    ck_assert_int_eq(ups, 1);
    struct msg_vote said = {.version = MSG_VERSION, .last = 1};
    rdzv_client_record(client, &said);
    ck_assert_int_gt(pages, 0);
    ck_assert_int_eq(told_to, 0); /* its own server dies with it */
    ck_assert_int_eq(downs, 0);
}

CASE("net faults", FAULT_CASE(120), FIXTURE(setup, NULL))

TEST(test_client_connects_or_says_why_whatever_call_fails)
{
    hurt_each("test", 2, run, NULL, "fork bind listen socket getsockname");
}

TEST(test_client_lives_whatever_call_of_its_server_fails)
{
    hurt_each("helper1", 1, run, NULL, "epoll_create1 eventfd accept4");
}

static void name_it(void)
{
    conf.standalone = false;
    conf.endpoints[0] = (struct conf_endpoint){.host = "node.test"};
}

TEST(test_client_connects_by_name_or_says_why_whatever_call_fails)
{
    name_it();
    hurt_each("test", 1, run, NULL, "pthread_create fork socket");
}

/* -- names that do not resolve --------------------------------------------- */

static void connect_fails(const char *why)
{
    int before = downs;
    rdzv_client_connect(client, "", 0);
    ck_assert(run_until(&downs, before + 1, 20000));
    ck_assert_int_eq(ups, 0);
    ck_assert_msg(strstr(reason, why) != NULL, "%s", reason);
}

CASE("net")

TEST_LOOP(test_client_says_why_a_name_does_not_resolve, 0, 4)
{
    static const struct {
        int answer;
        const char *why;
    } cases[] = {
        {EAI_NONAME, "the name 'node.test' does not resolve here (Name or "
                     "service not known)"},
        {EAI_AGAIN, "(Temporary failure in name resolution)"},
        {EAI_MEMORY, "(Memory allocation failure)"},
        {EAI_SYSTEM, "(Cannot allocate memory)"},
    };
    name_it();
    ck_assert_int_eq(start(), 0);
    answer = cases[_i].answer;
    connect_fails(cases[_i].why);
    answer = 0; /* the name server is back */
    ck_assert(comes_up());
    ck_assert_int_eq(finish(fault_descriptors() - 1), HURT_DONE);
}

/* A name server that does not answer: said after 2 s; what it says at last is
 * for the next try, and is not asked for twice. */
TEST(test_client_does_not_wait_for_a_name_server)
{
    name_it();
    ck_assert_int_eq(start(), 0);
    pause_us = 2500 * 1000;
    asked = 0;
    connect_fails("no name server has answered for the name 'node.test' in 2 "
                  "s");
    ck_assert(comes_up());
    ck_assert_int_eq(asked, 1);
    ck_assert_int_eq(finish(fault_descriptors() - 1), HURT_DONE);
}

/* It may be to serve there; that is not known, and not taken for a no. */
TEST(test_client_says_that_it_cannot_find_its_own_addresses)
{
    conf.is_host = -1;
    conf.standalone = false;
    conf.endpoints[0] =
        (struct conf_endpoint){.host = "192.0.2.1", .port = 29500};
    conf.read_timeout_us = 200 * MONO_MS;
    ck_assert_int_eq(start(), 0);
    fault_plan("test:getifaddrs:1:EMFILE");
    rdzv_client_connect(client, "", 0);
    ck_assert(run_until(&downs, 1, 20000));
    ck_assert_msg(strstr(reason, "cannot find out whether 192.0.2.1 is an "
                                 "address of this node, which would serve "
                                 "there then: getifaddrs: Too many open "
                                 "files") != NULL,
                  "%s", reason);
    ck_assert_int_eq(fault_struck(), 1);
    fault_end();
    rdzv_client_connect(client, "", 0);
    ck_assert(run_until(&downs, 2, 20000));
    ck_assert_msg(strstr(reason, "getifaddrs") == NULL, "%s", reason);
    ck_assert_int_eq(finish(fault_descriptors()), HURT_DONE);
}

/* libuv's own resolver would end the process here. */
TEST(test_client_says_that_no_thread_can_be_had)
{
    name_it();
    ck_assert_int_eq(start(), 0);
    fault_plan("test:pthread_create:1:EAGAIN");
    connect_fails("cannot start a thread that resolves the name 'node.test'");
    ck_assert_int_eq(fault_struck(), 1);
    fault_end();
    ck_assert(comes_up());
    ck_assert_int_eq(finish(fault_descriptors() - 1), HURT_DONE);
}

/* -- other places than the first endpoint ---------------------------------- */

/* A port on which nobody listens, or at which *fd does. */
static int listen_here(int *fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ddp_err err;
    int listener;
    ck_assert_int_eq(addr_listen((const struct sockaddr *)&at, &listener, &err),
                     0);
    int port = addr_fd_port(listener);
    if (fd != NULL)
        *fd = listener;
    else
        ck_assert_int_eq(close(listener), 0);
    return port;
}

/* Nobody listens there, and no other program gets the port. */
static int keep_refusing(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    ck_assert_int_ge(fd, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

/* Each endpoint of a list is tried when it is asked for; the launcher serves at
 * one that is its own, and there alone. */
TEST(test_client_serves_at_the_endpoint_that_is_tried)
{
    int other = -1;
    conf.is_host = -1;
    conf.nnodes_max = 2;
    conf.loopback = true;
    conf.standalone = false;
    conf.endpoints_len = 2;
    for (int i = 0; i < 2; i++)
        conf.endpoints[i].port = listen_here(i == 0 ? &other : NULL);
    memcpy(conf.endpoints[1].host, "127.0.0.1", sizeof("127.0.0.1"));
    ck_assert_int_eq(start(), 0);
    rdzv_client_connect(client, "", 0); /* another program has it */
    ck_assert(comes(&ups));
    ck_assert(!rdzv_client_hosts(client));
    ck_assert_int_eq(rdzv_client_server(client), 0);
    rdzv_client_disconnect(client);
    ck_assert_int_eq(close(other), 0); /* before a server has a copy of it */
    int taken = keep_refusing(conf.endpoints[0].port);
    rdzv_client_connect(client, "", 1);
    ck_assert(comes(&ups));
    ck_assert(rdzv_client_hosts(client));
    ck_assert_int_gt(rdzv_client_server(client), 0);
    ck_assert_int_eq(rdzv_client_port(client), conf.endpoints[1].port);
    rdzv_client_disconnect(client);
    rdzv_client_connect(client, "", 0); /* one server is enough */
    ck_assert(!comes(&ups));
    ck_assert_ptr_nonnull(strstr(reason, "refused"));
    ck_assert_int_eq(close(taken), 0);
    rdzv_client_server_kill(client);
}

/* Connects as an agent does; false: nobody answers. */
static bool connects(void)
{
    rdzv_client_connect(client, "", 0);
    return comes(&ups);
}

/* Where a daemon was this launcher never serves, however long nobody answers
 * there; and another one that is started on that host, which met no server
 * there, does: it may be the one that served. */
TEST(test_client_leaves_the_endpoint_to_the_daemon_that_was_there)
{
    int daemon;
    conf.is_host = -1;
    conf.nnodes_max = 2;
    conf.loopback = true;
    int port = conf.endpoints[0].port = listen_here(&daemon);
    ck_assert_int_eq(start(), 0);
    ck_assert(connects() && !rdzv_client_hosts(client));
    rdzv_client_disconnect(client);
    ck_assert_int_eq(close(daemon), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert(!connects());
        ck_assert_ptr_nonnull(strstr(reason, "refused"));
        ck_assert_int_eq(rdzv_client_server(client), 0);
    }
    daemon = keep_refusing(port);
    ck_assert_int_eq(listen(daemon, 4), 0);
    ck_assert(connects() && !rdzv_client_hosts(client));
    rdzv_client_disconnect(client);
    ck_assert_int_eq(close(daemon), 0);
    client = rdzv_client_new(&loop, &conf, &handler, NULL, -1, false);
    ck_assert(connects() && rdzv_client_hosts(client));
    rdzv_client_server_kill(client);
}

/* Its own server was there, and is dead: it serves there again, at once. */
TEST(test_client_serves_again_where_its_own_server_was)
{
    conf.is_host = -1;
    conf.nnodes_max = 2;
    conf.loopback = true;
    conf.endpoints[0].port = listen_here(NULL);
    ck_assert_int_eq(start(), 0);
    ck_assert(connects() && rdzv_client_hosts(client));
    rdzv_client_disconnect(client);
    rdzv_client_server_kill(client);
    ck_assert_int_eq(rdzv_client_server(client), 0);
    ck_assert(connects() && rdzv_client_hosts(client));
    rdzv_client_server_kill(client);
}

TEST_LOOP(test_client_dials_the_address_that_it_is_told, 0, 4)
{
    static const char *const hosts[] = {"127.0.0.1", "[127.0.0.1]", "localhost",
                                        "node.test"};
    char target[64];
    int fd;
    int port = listen_here(&fd);
    (void)snprintf(target, sizeof(target), "%s:%d", hosts[_i], port);
    conf.is_host = 0;
    ck_assert_int_eq(start(), 0);
    rdzv_client_connect(client, target, 0);
    ck_assert_msg(comes(&ups), "%s: %s", target, reason);
    ck_assert(!rdzv_client_hosts(client));
    ck_assert_int_eq(close(fd), 0);
}

/* Whoever answers as a rendezvous can say that the run has moved. */
TEST(test_client_says_that_an_address_is_none)
{
    static const char *const wrong[] = {"x",     ":1",   "h:0",   "h:99999",
                                        "h:-1",  "h:1x", "h h:1", "[]:1",
                                        "h/x:1", "h:",   "h\n:1", "$(h):1"};
    ck_assert_int_eq(start(), 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int before = downs;
        rdzv_client_connect(client, wrong[i], 0);
        ck_assert(run_until(&downs, before + 1, 20000));
        ck_assert_str_eq(reason, "the address that a server told is none");
    }
    ck_assert_int_eq(rdzv_client_server(client), 0);
}

/* A port whose queue is full: the kernel drops what comes, as a host does that
 * is silent. */
static int silent_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd;
    at.sin_port = htons((uint16_t)listen_here(&fd));
    ck_assert_int_eq(listen(fd, 0), 0);
    for (int i = 0; i < 4; i++) {
        int comer = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        ck_assert_int_ge(comer, 0);
        (void)connect(comer, (const struct sockaddr *)&at, sizeof(at));
    }
    return ntohs(at.sin_port);
}

/* It is given up in the time that it may take. */
TEST(test_client_gives_up_a_silent_host_in_time)
{
    conf.is_host = 0;
    conf.read_timeout_us = 300 * MONO_MS;
    conf.endpoints[0].port = silent_port();
    ck_assert_int_eq(start(), 0);
    int64_t began_us = mono_now_us();
    rdzv_client_connect(client, "", 0);
    ck_assert(run_until(&downs, 1, 20000));
    ck_assert_int_ge(mono_now_us() - began_us, 250 * MONO_MS);
    ck_assert_int_lt(mono_now_us() - began_us, suite_room_us(2 * MONO_S));
    ck_assert_str_eq(reason, "no answer in 0.3 s");
}

/* The agent may do so at any time, and go elsewhere at once. */
TEST(test_client_leaves_a_silent_host_for_another)
{
    int fd;
    char target[64];
    conf.is_host = 0;
    conf.endpoints[0].port = silent_port();
    ck_assert_int_eq(start(), 0);
    rdzv_client_connect(client, "", 0);
    ck_assert(!run_until(&downs, 1, 100));
    rdzv_client_disconnect(client);
    (void)snprintf(target, sizeof(target), "127.0.0.1:%d", listen_here(&fd));
    rdzv_client_connect(client, target, 0);
    ck_assert(comes(&ups));
    ck_assert_int_eq(downs, 0);
    ck_assert_int_eq(close(fd), 0);
}

SUITE("rdzv_client", "net", .limit_s = 120, FIXTURE(setup, NULL))
