/* links: launcher/rdzv/{caller,redirect,looks,reach,farewell_places} */
/* links: launcher/rdzv/{endpoint,own_server,resolver} launcher/proc/signals */
/* links: SERVER STORE NET PROTO BASE OPTS */
/* libs: -luv -lcjson -ldl */
/*
 * What a launcher says to servers that are not the agent's: where the run is
 * (redirect), who leads it (looks), and what its guard will say, and where
 * (farewell_places); and whether it reaches them (reach). The servers are this
 * test's.
 */
#include <arpa/inet.h>
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/rdzv/endpoint.h"
#include "launcher/rdzv/farewell_places.h"
#include "launcher/rdzv/looks.h"
#include "launcher/rdzv/reach.h"
#include "launcher/rdzv/redirect.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/net/listener.h"
#include "rendezvous/proto/frame.h"
#include "tests/lib/suite.h"

#define INSTANCE "0123456789abcdef0123456789abcdef"
#define OLDER    "00000000000000000000000000000001"
#define AGENT    "bbbbbbbbbbbbbbbb0000000000000000"
#define PLACES   3

static uv_loop_t loop;
static struct conf conf;
static struct own_server own;

/* A server at which nothing but the last message is kept. */
static struct stand {
    struct listener *listener;
    int port;
    struct conn *conn;
    int said, ended;
    struct msg last;
} places[PLACES];

static bool is_deaf; /* what connects is closed at once */

/* What the guard would say now. */
static struct farewell_page page;

void farewell_page_write(const struct farewell_page *p)
{
    page = *p;
}

static void on_msg(void *ctx, struct conn *c, const struct msg *m)
{
    struct stand *p = ctx;
    ck_assert_ptr_eq(p->conn, c);
    p->said++;
    p->last = *m;
}

static void on_closed(void *ctx, struct conn *c, const char *why)
{
    (void)why;
    struct stand *p = ctx;
    ck_assert_ptr_eq(p->conn, c);
    p->conn = NULL;
    p->ended++;
}

static const struct conn_handler handler = {.on_msg = on_msg,
                                            .on_closed = on_closed};

static void on_fd(void *ctx, int fd)
{
    struct stand *p = ctx;
    struct ddp_err err;
    if (is_deaf) {
        ck_assert_int_eq(close(fd), 0);
        return;
    }
    ck_assert_ptr_null(p->conn);
    p->conn = conn_accept(&loop, fd, &handler, p, &err);
    ck_assert_ptr_nonnull(p->conn);
}

static const struct listener_handler listener_handler = {.on_fd = on_fd};

static void open_place(struct stand *p)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)p->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ddp_err err;
    int fd;
    ck_assert_int_eq(addr_listen((const struct sockaddr *)&at, &fd, &err), 0);
    p->port = addr_fd_port(fd);
    ck_assert_int_eq(
        listener_open(&p->listener, &loop, fd, &listener_handler, p, &err), 0);
}

/* The listener ends in the loop. */
static void close_place(struct stand *p)
{
    listener_close(p->listener);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
}

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as an agent does, and its helpers */
    memset(&conf, 0, sizeof(conf));
    memset(places, 0, sizeof(places));
    memset(&page, 0, sizeof(page));
    is_deaf = false;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    conf.nnodes_min = conf.nnodes_max = 3;
    conf.standalone = true; /* no spare port is needed here */
    conf.heartbeat_timeout_us = 5 * MONO_S;
    conf.endpoints_len = PLACES;
    (void)snprintf(conf.run_id, sizeof(conf.run_id), "run");
    for (int i = 0; i < PLACES; i++) {
        open_place(&places[i]);
        conf.endpoints[i] =
            (struct conf_endpoint){.host = "127.0.0.1", .port = places[i].port};
    }
    own_server_init(&own, &loop, &conf, -1, false);
}

/* Until *what is n, or for `ms`. */
static bool run_until(const int *what, int n, int ms)
{
    int64_t until_us = mono_now_us() + ms * MONO_MS;
    while (*what < n && mono_now_us() < until_us) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        (void)usleep(500);
    }
    return *what >= n;
}

static struct msg prepare(void)
{
    return (struct msg){.kind = MSG_KIND_prepare,
                        .prepare.term = {5, "feedfeedfeedfeed"}};
}

static struct msg world(int group_rank)
{
    struct msg m = {
        .kind = MSG_KIND_world,
        .world = {.group_rank = group_rank, .instance_ms = 5000},
    };
    msg_set(m.world.instance, INSTANCE);
    return m;
}

/* -- redirect -------------------------------------------------------------- */

static struct redirect redirect; /* large */

static struct msg relayed;
static int n_relayed;

static void relay(void *ctx, const struct msg *m)
{
    ck_assert_ptr_eq(ctx, &relayed);
    relayed = *m;
    n_relayed++;
}

static void hear(struct msg m)
{
    redirect_hear(&redirect, &m);
}

static void lead(int which)
{
    struct ddp_err err;
    ck_assert_int_eq(
        redirect_init(&redirect, &loop, &conf, &own, relay, &relayed, &err), 0);
    redirect_connected(&redirect, "10.9.8.7", 4567, which);
    uv_update_time(&loop); /* as in a callback: turns count from here */
    hear(prepare());
    hear(world(MSG_VOTERS_MAX - 1));
}

/* All endpoints but the one that serves, again and again. */
TEST(test_redirect_tells_the_other_endpoints)
{
    lead(1);
    ck_assert(run_until(&places[0].said, 2, 20000));
    ck_assert(run_until(&places[2].said, 2, 20000));
    ck_assert_int_eq(places[1].said, 0);
    const struct msg *m = &places[2].last;
    ck_assert_int_eq(m->kind, MSG_KIND_serves);
    ck_assert_str_eq(m->serves.run, "run");
    ck_assert_str_eq(m->serves.instance, INSTANCE);
    ck_assert_int_eq(m->serves.term.count, 5);
    ck_assert_str_eq(m->serves.term.id, "feedfeedfeedfeed");
    ck_assert_str_eq(m->serves.addr, "10.9.8.7:4567");
    ck_assert_int_ge(m->serves.instance_ms, 5500); /* a turn later */
    ck_assert_int_eq(places[0].ended + places[2].ended, 0);
}

/* An endpoint that comes back is told within about a second. */
TEST(test_redirect_finds_an_endpoint_that_comes_back)
{
    conf.endpoints_len = 1;
    listener_close(places[0].listener);
    (void)run_until(&places[0].said, 1, 20);
    lead(-1);
    (void)run_until(&places[0].said, 1, 200);
    open_place(&places[0]);
    ck_assert(run_until(&places[0].said, 1, 20000));
}

/* The first nodes alone, while they are connected to a leader. */
TEST_LOOP(test_redirect_ends_with_its_reason, 0, 5)
{
    struct msg m = {.kind = MSG_KIND_end};
    conf.endpoints_len = 1;
    lead(-1);
    ck_assert(run_until(&places[0].said, 1, 20000));
    switch (_i) {
    case 0:
        hear(world(MSG_VOTERS_MAX));
        break;
    case 1:
        redirect_disconnected(&redirect);
        break;
    case 2:
        redirect_connected(&redirect, "10.9.8.7", 1, -1); /* no prepare yet */
        hear(world(0));
        break;
    case 3:
        hear(m);
        break;
    default:
        redirect_connected(&redirect, "127.0.0.1", places[0].port, 0);
        hear(prepare());
    }
    ck_assert(run_until(&places[0].ended, 1, 20000));
    int said = places[0].said;
    ck_assert(!run_until(&places[0].said, said + 1, 1300));
}

/* The server that is to give way hears of it from this node. */
TEST_LOOP(test_redirect_passes_on_that_an_older_instance_is_elsewhere, 0, 3)
{
    struct msg m = {.kind = MSG_KIND_serves,
                    .serves = {.term.count = 3, .instance_ms = 9000}};
    char at[40];
    msg_set(m.serves.term.id, "feedfeedfeedfee0");
    msg_set(m.serves.instance, _i == 2 ? INSTANCE : OLDER);
    msg_set(m.serves.addr, _i == 0 ? "10.1.1.1:5" : "");
    conf.endpoints_len = 1;
    n_relayed = 0;
    lead(-1);
    ck_assert(run_until(&places[0].said, 1, 20000));
    conn_send(places[0].conn, &m);
    ck_assert(run_until(&n_relayed, 1, _i == 2 ? 300 : 20000) == (_i < 2));
    if (_i == 2)
        return;
    (void)snprintf(at, sizeof(at), "127.0.0.1:%d", places[0].port);
    ck_assert_int_eq(relayed.kind, MSG_KIND_serves);
    ck_assert_int_eq(relayed.serves.version, MSG_VERSION);
    ck_assert_str_eq(relayed.serves.run, "run");
    ck_assert_str_eq(relayed.serves.instance, OLDER);
    ck_assert_int_eq(relayed.serves.instance_ms, 9000);
    ck_assert_int_eq(relayed.serves.term.count, 3);
    ck_assert_str_eq(relayed.serves.term.id, "feedfeedfeedfee0");
    ck_assert_str_eq(relayed.serves.addr, _i == 0 ? "10.1.1.1:5" : at);
}

/* A daemon would have the run: the leader hears so, until this node was sent
 * there. */
TEST_LOOP(test_redirect_passes_on_what_a_daemon_offers_once, 0, 2)
{
    struct msg m = {.kind = MSG_KIND_serves};
    struct msg back = {.kind = MSG_KIND_serves, .serves.term.count = 5};
    msg_set(m.serves.term.id, "dddddddddddddddd");
    msg_set(m.serves.instance, _i == 1 ? OLDER : INSTANCE);
    conf.endpoints_len = 1;
    n_relayed = 0;
    lead(-1);
    ck_assert(run_until(&places[0].said, 1, 20000));
    conn_send(places[0].conn, &m);
    ck_assert(run_until(&n_relayed, 1, _i == 1 ? 300 : 20000) == (_i == 0));
    if (_i == 1)
        return;
    ck_assert_int_eq(relayed.serves.term.count, 5);
    ck_assert_str_eq(relayed.serves.term.id, "dddddddddddddddd");
    ck_assert_str_eq(relayed.serves.instance, INSTANCE);
    hear(back);
    ck_assert(run_until(&places[0].ended, 1, 20000));
    redirect_connected(&redirect, "10.9.8.7", 4567, -1);
    hear(prepare()); /* the daemon did not stay */
    hear(world(0));
    int said = places[0].said;
    ck_assert(run_until(&places[0].said, said + 1, 20000));
    conn_send(places[0].conn, &m);
    ck_assert(!run_until(&n_relayed, 2, 300));
}

TEST(test_redirect_says_nothing_of_a_server_that_does_not_lead)
{
    struct ddp_err err;
    ck_assert_int_eq(
        redirect_init(&redirect, &loop, &conf, &own, relay, &relayed, &err), 0);
    redirect_connected(&redirect, "10.9.8.7", 4567, -1);
    hear(world(0));
    ck_assert(!run_until(&places[0].said, 1, 300));
}

/* -- farewell_places ------------------------------------------------------- */

static struct farewell_places farewell; /* large */

static struct sockaddr_storage at_port(int port)
{
    struct addr_list list;
    struct ddp_err err;
    ck_assert_int_eq(addr_resolve("127.0.0.1", port, &list, &err), 0);
    return list.at[0];
}

/* The ports of the page's places, 0: none. */
static const char *ports_of_page(void)
{
    static char text[100];
    size_t len = 0;
    text[0] = '\0';
    for (int i = 0; i < page.n_places; i++)
        len += (size_t)snprintf(
            text + len, sizeof(text) - len, "%d ",
            page.places[i].ss_family == AF_UNSPEC
                ? 0
                : addr_port((const struct sockaddr *)&page.places[i]));
    return text;
}

static void hear_of_voters(void)
{
    struct msg v = {.kind = MSG_KIND_voters, .voters.round = 1};
    msg_set(v.voters.ids, "aaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbb cccccccccccccccc "
                          "dddddddddddddddd eeeeeeeeeeeeeeee ");
    msg_set(v.voters.addrs,
            "127.0.0.1:101 127.0.0.1:102 - name:104 127.0.0.1:105 ");
    farewell_places_hear(&farewell, &v);
}

/* First the server, then the endpoint, then the voters but for this one, what
 * is no number, and what is there already. */
TEST(test_farewell_goes_to_the_server_and_to_the_next_places)
{
    struct sockaddr_storage server = at_port(101);
    struct addr_list endpoint = {.n = 1};
    struct msg_vote said = {.version = MSG_VERSION, .last = 1, .term.count = 3};
    endpoint.at[0] = at_port(100);
    conf.endpoints_len = 1;
    msg_set(said.agent, AGENT);
    farewell_places_init(&farewell, &conf);
    farewell_places_endpoint(&farewell, 0, &endpoint);
    farewell_places_record(&farewell, &said);
    farewell_places_connected(&farewell, &server, false);
    hear_of_voters();
    ck_assert_str_eq(ports_of_page(), "101 100 105 ");
    ck_assert_uint_gt(page.len, FRAME_HELLO_LEN);
    farewell_places_connected(&farewell, &server, true);
    ck_assert_str_eq(ports_of_page(), "0 100 101 105 ");
    farewell_places_record(&farewell, &(struct msg_vote){.version = 0});
    ck_assert_uint_eq(page.len, 0);
}

/* The longest list leaves room for voters. */
TEST(test_farewell_goes_to_every_endpoint)
{
    static struct addr_list all[CONF_ENDPOINTS_MAX];
    conf.endpoints_len = CONF_ENDPOINTS_MAX;
    farewell_places_init(&farewell, &conf);
    for (int i = 0; i < CONF_ENDPOINTS_MAX; i++) {
        all[i] = (struct addr_list){.n = 1, .at[0] = at_port(200 + i)};
        farewell_places_endpoint(&farewell, i, &all[i]);
    }
    hear_of_voters();
    ck_assert_int_eq(page.n_places, 1 + CONF_ENDPOINTS_MAX + 3);
    ck_assert_ptr_nonnull(strstr(ports_of_page(), "215 101 102 "));
}

/* -- looks ----------------------------------------------------------------- */

static struct looks looks; /* large */

static struct {
    int answers[CANDIDATES_MAX], failures[CANDIDATES_MAX];
    struct msg last;
} saw;

static void on_seen(void *ctx, int place, const struct msg *answer)
{
    ck_assert_ptr_eq(ctx, &saw);
    if (answer == NULL) {
        saw.failures[place]++;
        return;
    }
    saw.answers[place]++;
    saw.last = *answer;
}

static void look_around(void)
{
    struct msg m = {
        .kind = MSG_KIND_serves,
        .serves = {.version = MSG_VERSION, .voter = "0123456789abcdef"}};
    char target[40];
    msg_set(m.serves.run, "run");
    (void)snprintf(target, sizeof(target), "127.0.0.1:%d", places[1].port);
    looks_ask(&looks, 0, "", 0, false, &m);
    looks_ask(&looks, 1, target, 0, false, &m);
    looks_ask(&looks, 2, "no address", 0, false, &m);
}

static void begin_looks(void)
{
    memset(&saw, 0, sizeof(saw));
    looks_init(&looks, &loop, &conf, &own, on_seen, &saw);
    look_around();
}

static void answer_look(struct stand *p, int64_t term)
{
    struct msg m = {.kind = MSG_KIND_serves, .serves.term.count = term};
    msg_set(m.serves.term.id, "feedfeedfeedfeed");
    conn_send(p->conn, &m);
}

/* All at once, each on a connection that stays; what is answered comes with the
 * place. */
TEST(test_looks_ask_all_places)
{
    begin_looks();
    for (int i = 0; i < 2; i++) {
        ck_assert(run_until(&places[i].said, 1, 20000));
        ck_assert_int_eq(places[i].last.kind, MSG_KIND_serves);
        ck_assert_str_eq(places[i].last.serves.run, "run");
        ck_assert_str_eq(places[i].last.serves.addr, "");
    }
    answer_look(&places[1], 7);
    ck_assert(run_until(&saw.answers[1], 1, 20000));
    ck_assert_int_eq(saw.last.serves.term.count, 7);
    look_around();
    ck_assert(run_until(&places[0].said, 2, 20000));
    ck_assert(run_until(&places[1].said, 2, 20000));
    ck_assert_int_eq(saw.answers[0] + saw.failures[0] + saw.failures[1], 0);
    looks_end(&looks);
    for (int i = 0; i < 2; i++)
        ck_assert(run_until(&places[i].ended, 1, 20000));
    ck_assert_int_eq(saw.failures[0] + saw.failures[1], 0);
}

/* Where nobody listens that is told; the next look finds who listens by then.
 */
TEST(test_looks_tell_that_a_place_is_not_reached)
{
    close_place(&places[0]);
    begin_looks();
    ck_assert(run_until(&saw.failures[0], 1, 20000));
    open_place(&places[0]);
    look_around();
    ck_assert(run_until(&places[0].said, 1, 20000));
    conn_close(places[0].conn);
    places[0].conn = NULL;
    ck_assert(run_until(&saw.failures[0], 2, 20000));
    looks_end(&looks);
}

/* -- reach ----------------------------------------------------------------- */

static struct reach reach; /* large */

static struct {
    int times;
    char text[REACH_TEXT_MAX];
} unreached;

static void on_unreached(void *ctx, const char *text)
{
    ck_assert_ptr_eq(ctx, &unreached);
    unreached.times++;
    msg_set(unreached.text, text);
}

static void round_begins(int64_t round)
{
    struct msg v = {.kind = MSG_KIND_voters, .voters.round = round};
    struct msg g = {.kind = MSG_KIND_go, .go.round = round};
    (void)snprintf(v.voters.addrs, sizeof(v.voters.addrs),
                   "127.0.0.1:%d - 127.0.0.1:%d 127.0.0.1:%d ", places[0].port,
                   places[1].port, places[2].port);
    reach_hear(&reach, &v);
    reach_hear(&reach, &g);
}

/* Until the tries of that round are over. */
static void await_tries(void)
{
    int64_t until_us = mono_now_us() + 20 * MONO_S;
    while (reach.open > 0 && mono_now_us() < until_us)
        (void)uv_run(&loop, UV_RUN_ONCE);
    ck_assert_int_eq(reach.open, 0);
}

/* Nothing is said where a server may be; what is not reached is named once, and
 * again if that changes. */
TEST(test_reach_names_what_it_does_not_reach)
{
    char name[40];
    memset(&unreached, 0, sizeof(unreached));
    is_deaf = true;
    reach_init(&reach, &loop, &own, on_unreached, &unreached);
    round_begins(1);
    ck_assert_int_gt(reach.open, 0);
    await_tries();
    ck_assert_int_eq(unreached.times, 0);
    close_place(&places[1]);
    for (int i = 2; i < 4; i++) {
        round_begins(i);
        round_begins(i); /* known */
        await_tries();
        ck_assert_int_eq(unreached.times, 1);
    }
    (void)snprintf(name, sizeof(name), "127.0.0.1:%d (", places[1].port);
    ck_assert_ptr_nonnull(strstr(unreached.text, name));
    ck_assert_ptr_null(strstr(unreached.text, "), 127"));
    close_place(&places[2]);
    round_begins(4);
    await_tries();
    ck_assert_int_eq(unreached.times, 2);
    ck_assert_ptr_nonnull(strstr(unreached.text, "), 127.0.0.1:"));
    for (int i = 0; i < PLACES; i++)
        ck_assert_int_eq(places[i].said, 0);
}

/* -- what a server tells --------------------------------------------------- */

static const struct {
    const char *text;
    const char *host; /* NULL: it is no address */
    int port;
} addresses[] = {
    {"10.0.0.1:29500", "10.0.0.1", 29500},
    {"node-1.a_b:1", "node-1.a_b", 1},
    {"fd00::1:65535", "fd00::1", 65535},
    {"[fe80::1%eth0]:7", "fe80::1%eth0", 7},
    {"", NULL, 0},
    {"-", NULL, 0},
    {":7", NULL, 0},
    {"[]:7", NULL, 0},
    {"h", NULL, 0},
    {"h:", NULL, 0},
    {"h:0", NULL, 0},
    {"h:65536", NULL, 0},
    {"h:123456", NULL, 0},
    {"h:7x", NULL, 0},
    {"h :7", NULL, 0},
    {"h;x:7", NULL, 0},
};

TEST_EACH(test_endpoint_is_read_or_refused, addresses)
{
    struct conf_endpoint at;
    const char *text = addresses[_i].text;
    bool read = endpoint_read(text, strlen(text), &at);
    ck_assert_msg(read == (addresses[_i].host != NULL), "%s", text);
    if (!read)
        return;
    ck_assert_str_eq(at.host, addresses[_i].host);
    ck_assert_int_eq(at.port, addresses[_i].port);
}

static const struct {
    const char *text, *here, *own;
} zones[] = {
    {"fe80::1%eth0", "fe80::2%lan0", "fe80::1%lan0"},
    {"fe80::1%eth0:7", "fe80::2%3", "fe80::1%3:7"},
    {"[fe80::1%a]:7 - [fe80::3%bb]:8 ", "fe80::2%lan0",
     "[fe80::1%lan0]:7 - [fe80::3%lan0]:8 "},
    {"fe80::1%eth0", "10.0.0.1", "fe80::1%eth0"},
    {"10.0.0.2:7", "fe80::2%lan0", "10.0.0.2:7"},
    {"fe80::1%e0", "fe80::2%an-interface-with-a-name-for-which-is-no-room",
     "fe80::1%e0"},
};

TEST_EACH(test_endpoint_zone_becomes_that_of_this_host, zones)
{
    char text[48];
    (void)snprintf(text, sizeof(text), "%s", zones[_i].text);
    endpoint_own_zone(text, sizeof(text), zones[_i].here);
    ck_assert_str_eq(text, zones[_i].own);
}

TEST(test_endpoint_has_a_longest_name)
{
    struct conf_endpoint at;
    char text[300];
    memset(text, 'a', sizeof(text));
    memcpy(text + 255, ":7", 2);
    ck_assert(endpoint_read(text, 257, &at));
    ck_assert_uint_eq(strlen(at.host), 255);
    memcpy(text + 255, "a:7", 3);
    ck_assert(!endpoint_read(text, 258, &at));
}

SUITE("callers", "net", .limit_s = 60, FIXTURE(setup, NULL))
