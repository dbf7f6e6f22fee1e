/* links: launcher/mpi/{mpi,space,kvs,mapping,exchange,pmix,pmix_server} */
/* links: launcher/mpi/{pmix_frame,pmix_nodes,pmix_far,pmix_folder,hwloc_xml} */
/* links: launcher/mpi/channel launcher/rdzv/resolver launcher/proc/procfs */
/* links: tests/lib/{hurt,store_world} rendezvous/proto/pmi STORE NET PROTO */
/* links: BASE */
/* libs: -luv -lcjson -ldl -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/*
 * PMI on real sockets: the workers are this test's, which speaks with their
 * ends, of one node or of two that meet in a real store; what a worker's
 * nonsense does to others; and what becomes of it if a system call fails.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/mpi/mpi.h"
#include "launcher/mpi/exchange.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/store_world.h"
#include "tests/lib/suite.h"

#define WAIT_US (30 * MONO_S)
#define INIT    "cmd=init pmi_version=1 pmi_subversion=1\n"
#define INITED  "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
#define OUT     "cmd=barrier_out rc=0 msg=success info=ok\n"
#define NODES   2
#define WORKERS 2

static uv_loop_t loop;

/* A node: one has two workers, the other one. */
struct mpi_node {
    struct conf conf;
    struct mpi *mpi;
    int fds[WORKERS]; /* their ends; -1: closed */
    int failed;       /* a worker's local rank; -1: none */
    int code;
    char why[200];
};

static struct mpi_node nodes[NODES];

static void on_failed(void *ctx, const struct agent_worker *w)
{
    struct mpi_node *n = ctx;
    ck_assert_int_eq(n->failed, -1);
    n->failed = w->local_rank;
    n->code = w->code;
    (void)snprintf(n->why, sizeof(n->why), "%s", w->text);
}

static const struct mpi_handler handler = {.on_failed = on_failed};

static void new_node(int i, int nproc)
{
    struct mpi_node *n = &nodes[i];
    *n = (struct mpi_node){
        .conf = {.nproc = nproc, .mpi = CONF_MPI_PMI1},
        .fds = {-1, -1},
    };
    n->mpi = mpi_new(&loop, &n->conf, &handler, n);
}

/* Its workers of a round; -1: one cannot be had, and `err` says why. */
static int start(int i, int count, int port, int round, struct ddp_err *err)
{
    struct mpi_node *n = &nodes[i];
    struct msg_world w = {
        .instance = "0123456789abcdef0123456789abcdef",
        .round = round,
        .group_rank = i,
        .group_world = count,
        .base_rank = i == 0 ? 0 : nodes[0].conf.nproc,
        .world_size = count == 1 ? n->conf.nproc : 3,
        .master_addr = "127.0.0.1",
        .master_port = port,
    };
    n->failed = -1;
    mpi_round(n->mpi, &w);
    for (int r = 0; r < n->conf.nproc; r++) {
        struct mpi_fds fds;
        if (n->fds[r] >= 0)
            (void)close(n->fds[r]);
        if (mpi_open_worker(n->mpi, r, &fds, err) != 0)
            return -1;
        ck_assert_int_eq(fds.env, -1); /* PMIx only */
        n->fds[r] = fds.pmi;
        mpi_started(n->mpi, r, 1000 + r);
    }
    return 0;
}

/* If nobody reads it any more, hear says so. */
static void say(int i, int rank, const char *text)
{
    fault_hold(true);
    ssize_t n = send(nodes[i].fds[rank], text, strlen(text), MSG_NOSIGNAL);
    (void)n;
    fault_hold(false);
}

static void turn(void)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    fault_hold(true);
    (void)usleep(500);
    fault_hold(false);
}

/* The next line that comes; "": the end. */
static const char *hear(int i, int rank)
{
    static char line[PMI_LINE_MAX + 1];
    size_t len = 0;
    int64_t until_us = mono_now_us() + WAIT_US;
    line[0] = '\0';
    while (mono_now_us() < until_us && nodes[i].failed < 0) {
        fault_hold(true);
        ssize_t n = recv(nodes[i].fds[rank], line + len, 1, MSG_DONTWAIT);
        fault_hold(false);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return "";
        if (n < 0) {
            turn();
            continue;
        }
        line[++len] = '\0';
        if (line[len - 1] == '\n')
            return line;
    }
    return "nothing";
}

static void expect(int i, int rank, const char *text, const char *want)
{
    say(i, rank, text);
    ck_assert_str_eq(hear(i, rank), want);
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    log_init("ddprun");
    new_node(0, 2);
}

/* -- one node -------------------------------------------------------------- */

TEST(test_mpi_each_round_has_its_own_keys)
{
    struct ddp_err err;
    for (int round = 1; round <= 2; round++) {
        ck_assert_int_eq(start(0, 1, 0, round, &err), 0);
        expect(0, 0, INIT, INITED);
        expect(0, 1, INIT, INITED);
        expect(0, 1, "cmd=get key=a\n",
               "cmd=get_result rc=-1 msg=no_such_key info=no_such_key "
               "value=unknown\n");
        expect(0, 0, "cmd=put key=a value=1\n",
               "cmd=put_result rc=0 msg=success info=ok\n");
        say(0, 0, "cmd=barrier_in\n");
        expect(0, 1, "cmd=barrier_in\n", OUT);
        ck_assert_str_eq(hear(0, 0), OUT);
        expect(0, 1, "cmd=get key=a\n",
               "cmd=get_result rc=0 msg=success info=ok value=1\n");
    }
}

/* What one worker says that is none of PMI is its own matter, as long as it has
 * not called MPI_Init. */
static const char *const junk[] = {
    "hello\n",
    "cmd=get key=a\n",
    "\0\n",
    "mcmd=spawn\ntotspawns=x\n",
    "cmd=init pmi_version=999999999999999999\n",
};

TEST_LOOP(test_mpi_junk_hurts_its_own_worker,
          0,
          2 * sizeof(junk) / sizeof(*junk))
{
    struct ddp_err err;
    bool inited = _i % 2 == 1;
    ck_assert_int_eq(start(0, 1, 0, 1, &err), 0);
    if (inited)
        expect(0, 0, INIT, INITED);
    if (junk[_i / 2][0] == '\0')
        ck_assert_int_eq(send(nodes[0].fds[0], "\0\n", 2, 0), 2);
    else
        say(0, 0, inited && _i / 2 == 1 ? INIT : junk[_i / 2]);
    const char *end = hear(0, 0);
    ck_assert(nodes[0].failed == (inited ? 0 : -1));
    ck_assert_str_eq(end, inited ? "nothing" : "");
    nodes[0].failed = -1;
    expect(0, 1, INIT, INITED);
    expect(0, 1, "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
}

/* Half a line, or one without an end, keeps nobody else waiting. */
TEST(test_mpi_half_a_line_waits)
{
    static char much[3 * PMI_LINE_MAX + 1];
    struct ddp_err err;
    ck_assert_int_eq(start(0, 1, 0, 1, &err), 0);
    say(0, 0, "cmd=init pmi_ver");
    expect(0, 1, INIT, INITED);
    expect(0, 0, "sion=1\n", INITED);
    memset(much, 'x', sizeof(much) - 1);
    say(0, 0, much);
    ck_assert_str_eq(hear(0, 0), "nothing");
    ck_assert_int_eq(nodes[0].failed, 0);
    ck_assert_int_eq(nodes[0].code, ddp_code_exit(DDP_E_PROTO));
    nodes[0].failed = -1;
    expect(0, 1, "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
}

/* One that asks without end, and reads no answer, waits for itself; when it
 * reads, each of its questions has one. */
TEST(test_mpi_flood_waits_for_itself)
{
    static const char ask[] = "cmd=get_maxes\n";
    struct ddp_err err;
    ck_assert_int_eq(start(0, 1, 0, 1, &err), 0);
    expect(0, 0, INIT, INITED);
    expect(0, 1, INIT, INITED);
    size_t asked = 0, left = 0;
    int quiet = 0;
    while (quiet < 100) { /* until nothing is taken any more */
        size_t len = sizeof(ask) - 1;
        ssize_t n = send(nodes[0].fds[0], ask + left, len - left,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        left = n > 0 ? (left + (size_t)n) % len : left;
        asked += n > 0 && left == 0;
        quiet = n > 0 ? 0 : quiet + 1;
        if (n < 0)
            turn();
    }
    ck_assert_uint_gt(asked, 100);
    expect(0, 1, "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
    for (size_t i = 0; i < asked; i++)
        ck_assert_str_eq(
            hear(0, 0),
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=4096\n");
    ck_assert_int_eq(nodes[0].failed, -1);
}

/* A worker that is killed with an answer unread is not at fault, and an abort
 * behind its question counts. */
TEST_LOOP(test_mpi_answer_not_read_is_no_fault, 0, 2)
{
    struct ddp_err err;
    struct mpi_node *n = &nodes[0];
    char byte;
    ck_assert_int_eq(start(0, 1, 0, 1, &err), 0);
    expect(0, 0, INIT, INITED);
    say(0, 0, "cmd=get_maxes\n");
    while (recv(n->fds[0], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
        turn();
    if (_i == 1)
        say(0, 0, "cmd=abort exitcode=42\n");
    (void)close(n->fds[0]);
    n->fds[0] = -1;
    for (int i = 0; i < 20; i++)
        turn();
    ck_assert_int_eq(n->failed, _i == 1 ? 0 : -1);
    ck_assert(_i == 0 || n->code == 42);
}

/* What a worker said last counts before its end, and before the ends of those
 * that died of it. */
TEST_LOOP(test_mpi_abort_comes_before_the_end, 0, 2)
{
    struct ddp_err err;
    struct agent_worker w = {.local_rank = _i, .pid = 1000, .code = 1};
    ck_assert_int_eq(start(0, 1, 0, 1, &err), 0);
    expect(0, 1, INIT, INITED);
    say(0, 1, "cmd=abort exitcode=42\n");
    mpi_ended(nodes[0].mpi, &w);
    ck_assert_int_eq(nodes[0].failed, 1);
    ck_assert_int_eq(nodes[0].code, 42);
    ck_assert_str_eq(nodes[0].why, "MPI_Abort was called with code 42");
    ck_assert_int_eq(w.code, 1);
}

/* An end with 0 is a failure if others count on the worker. */
TEST_LOOP(test_mpi_early_end_is_a_failure, 0, 3)
{
    struct ddp_err err;
    struct agent_worker w = {.local_rank = 0, .pid = 1000};
    ck_assert_int_eq(start(0, 1, 0, 1, &err), 0);
    if (_i > 0)
        expect(0, 0, INIT, INITED);
    if (_i > 1)
        say(0, 0, "cmd=finalize\n");
    mpi_ended(nodes[0].mpi, &w);
    ck_assert_int_eq(w.code, _i == 1 ? 1 : 0);
    ck_assert(_i != 1 || strstr(w.text, "without MPI_Finalize") != NULL);
    ck_assert_int_eq(nodes[0].failed, -1);
}

/* Ends the workers of a node with 0, but the last one with this code. */
static void end_all(int i, int code)
{
    const struct mpi_node *n = &nodes[i];
    for (int r = 0; r < n->conf.nproc; r++) {
        struct agent_worker w = {.local_rank = r, .pid = 1000 + r};
        w.code = r == n->conf.nproc - 1 ? code : 0;
        mpi_ended(n->mpi, &w);
    }
}

/* What an MPI program would need is said once if no worker has called MPI_Init,
 * and there would have been other ranks. */
static const struct {
    int nproc;
    int count;        /* nodes: this one has rank 0 */
    const char *says; /* worker 0 */
    int code;         /* of the last one */
    bool told;
} unused[] = {
    {2, 1, "", 0, true},         {2, 2, "", 0, true},
    {1, 2, "", 0, true},         {1, 1, "", 0, false},
    {2, 1, "", 1, false},        {2, 1, INIT "cmd=finalize\n", 0, false},
    {2, 1, "hello\n", 0, false}, /* which is said already */
};

TEST_EACH(test_mpi_unused_is_told_once, unused)
{
    static const char want[] =
        "ddprun: no worker of this node has asked for MPI by PMI-1; an Open "
        "MPI program needs --mpi=pmix or auto, and libpmix on the node\n";
    char said[1000];
    struct ddp_err err;
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(dup2(fileno(f), STDERR_FILENO), 0);
    new_node(0, unused[_i].nproc);
    for (int round = 1; round <= 2; round++) {
        ck_assert_int_eq(start(0, unused[_i].count, 1, round, &err), 0);
        say(0, 0, unused[_i].says);
        end_all(0, unused[_i].code);
    }
    rewind(f);
    said[fread(said, 1, sizeof(said) - 1, f)] = '\0';
    ck_assert_int_eq(fclose(f), 0);
    char *at = strstr(said, "ddprun: no worker");
    ck_assert_str_eq(at == NULL ? "" : at, unused[_i].told ? want : "");
}

/* The node with rank 0 says it for all. */
TEST(test_mpi_unused_is_told_by_one_node)
{
    struct ddp_err err;
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(dup2(fileno(f), STDERR_FILENO), 0);
    new_node(1, 1);
    ck_assert_int_eq(start(1, 2, 1, 1, &err), 0);
    end_all(1, 0);
    ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
    ck_assert_int_eq(ftell(f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* All wait for the one that looks, and those of the next round need not. */
TEST(test_mpi_topology_is_looked_at_once)
{
    static const char ask[] = "cmd=get key=PMI_hwloc_xmlfile\n";
    char first[PMI_LINE_MAX], text[100];
    struct ddp_err err;
    siginfo_t info;
    struct mpi *m = nodes[0].mpi;
    ck_assert_int_eq(start(0, 1, 0, 1, &err), 0);
    for (int rank = 0; rank < 2; rank++) {
        expect(0, rank, INIT, INITED);
        say(0, rank, ask);
    }
    for (int i = 0; i < 20; i++)
        turn();
    ck_assert_int_gt(mpi_helper(m, MPI_HELPER_HWLOC), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)mpi_helper(m, MPI_HELPER_HWLOC), &info,
                            WEXITED | WNOWAIT),
                     0);
    mpi_helper_ended(m, MPI_HELPER_HWLOC);
    (void)snprintf(first, sizeof(first), "%s", hear(0, 0));
    ck_assert_str_eq(hear(0, 1), first);
    char *path = strstr(first, "value=");
    ck_assert_ptr_nonnull(path);
    path[strlen(path) - 1] = '\0';
    int fd = open(path + 6, O_RDONLY);
    ck_assert_int_eq(read(fd, text, sizeof(text)), strlen("<topology/>"));
    path[strlen(path)] = '\n';
    ck_assert_int_eq(start(0, 1, 0, 2, &err), 0);
    expect(0, 1, INIT, INITED);
    expect(0, 1, ask, first);
    ck_assert_int_eq(mpi_helper(m, MPI_HELPER_HWLOC), 0);
}

TEST(test_mpi_none_does_nothing)
{
    struct conf conf = {.nproc = 1, .mpi = CONF_MPI_NONE};
    struct agent_worker w = {.local_rank = 0};
    struct msg_world world = {.group_world = 1};
    struct mpi_fds fds = {.pmi = 7, .env = 7};
    ck_assert_ptr_null(mpi_new(&loop, &conf, &handler, NULL));
    mpi_round(NULL, &world);
    ck_assert_int_eq(mpi_open_worker(NULL, 0, &fds, NULL), 0);
    ck_assert(fds.pmi == -1 && fds.env == -1);
    for (int which = 0; which < MPI_HELPERS; which++)
        ck_assert_int_eq(mpi_helper(NULL, (enum mpi_helper)which), 0);
    mpi_started(NULL, 0, 7);
    mpi_ended(NULL, &w);
    ck_assert_int_eq(w.code, 0);
}

/* -- two nodes, of two and of one worker ----------------------------------- */

static struct world store;

static void two_nodes(void)
{
    struct ddp_err err;
    world_open(&store, NULL);
    new_node(1, 1);
    ck_assert_int_eq(start(0, 2, store.port, 1, &err), 0);
    ck_assert_int_eq(start(1, 2, store.port, 1, &err), 0);
    for (int i = 0; i < 3; i++)
        expect(i / 2, i % 2, INIT, INITED);
}

TEST(test_mpi_nodes_share_what_they_put)
{
    char line[PMI_LINE_MAX], want[PMI_LINE_MAX], value[PMI_VALUE_MAX];
    two_nodes();
    expect(1, 0, "cmd=get key=PMI_process_mapping\n",
           "cmd=get_result rc=0 msg=success info=ok "
           "value=(vector,(0,1,2),(1,1,1))\n");
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    for (int i = 0; i < 100; i++) {
        (void)snprintf(line, sizeof(line), "cmd=put key=%d value=%s\n", i,
                       value);
        expect(0, 1, line, "cmd=put_result rc=0 msg=success info=ok\n");
    }
    say(0, 0, "cmd=barrier_in\n");
    say(0, 1, "cmd=barrier_in\n");
    expect(1, 0, "cmd=barrier_in\n", OUT);
    ck_assert_str_eq(hear(0, 0), OUT);
    ck_assert_str_eq(hear(0, 1), OUT);
    (void)snprintf(want, sizeof(want),
                   "cmd=get_result rc=0 msg=success info=ok value=%s\n", value);
    expect(1, 0, "cmd=get key=99\n", want);
    world_close(&store);
}

/* A node may have told the store of a round what it has before the others came
 * to the next one, whose store may be the same process. */
TEST(test_mpi_rounds_share_nothing)
{
    struct ddp_err err;
    world_open(&store, NULL);
    new_node(1, 1);
    ck_assert_int_eq(start(1, 2, store.port, 1, &err), 0);
    for (int i = 0; i < 50; i++)
        turn();
    ck_assert_int_eq(start(0, 2, store.port, 2, &err), 0);
    ck_assert_int_eq(start(1, 2, store.port, 2, &err), 0);
    expect(0, 0, INIT, INITED);
    expect(0, 0, "cmd=get key=PMI_process_mapping\n",
           "cmd=get_result rc=0 msg=success info=ok "
           "value=(vector,(0,1,2),(1,1,1))\n");
    world_close(&store);
}

TEST(test_mpi_nodes_share_names)
{
    two_nodes();
    expect(1, 0, "cmd=lookup_name service=s\n",
           "cmd=lookup_result rc=-1 msg=no_such_name info=no_such_name "
           "port=unknown\n");
    expect(0, 1, "cmd=publish_name service=s port=p\n",
           "cmd=publish_result rc=0 msg=success info=ok\n");
    expect(1, 0, "cmd=lookup_name service=s\n",
           "cmd=lookup_result rc=0 msg=success info=ok port=p\n");
    expect(1, 0, "cmd=unpublish_name service=s\n",
           "cmd=unpublish_result rc=0 msg=success info=ok\n");
    expect(0, 0, "cmd=unpublish_name service=s\n",
           "cmd=unpublish_result rc=-1 msg=no_such_name info=no_such_name\n");
    world_close(&store);
}

/* Without the store the one that waits for the other nodes has failed, and is
 * told so only after a moment, in which the round may end. */
TEST(test_mpi_lost_store_fails_who_waits)
{
    two_nodes();
    say(1, 0, "cmd=barrier_in\n");
    for (int i = 0; i < 100; i++)
        turn();
    world_close(&store);
    int64_t began_us = mono_now_us();
    ck_assert_str_eq(hear(1, 0), "nothing");
    ck_assert_int_eq(nodes[1].failed, 0);
    ck_assert_int_eq(nodes[1].code, ddp_code_exit(DDP_E_LOST));
    ck_assert(strstr(nodes[1].why, "the store of the round") != NULL);
    ck_assert_int_ge(mono_now_us() - began_us,
                     (EXCHANGE_LOST_MS - 500) * MONO_MS);
    ck_assert_int_eq(nodes[0].failed, -1);
}

static void on_gathered(void *ctx, const char *data, size_t len)
{
    (void)ctx, (void)data, (void)len;
    ck_abort_msg("the other node has brought nothing");
}

static void on_lost(void *ctx, const char *why)
{
    char *said = ctx;
    (void)snprintf(said, 300, "%s", why);
}

/* A node that does not take part is missed at the first gathering. */
TEST(test_mpi_of_one_node_only_is_told)
{
    static const struct exchange_handler waits = {.on_gathered = on_gathered,
                                                  .on_lost = on_lost};
    static struct exchange x;
    char said[300] = "";
    struct ddp_err err;
    world_open(&store, NULL);
    ck_assert_int_eq(exchange_init(&x, &loop, &waits, said, &err), 0);
    x.first_ms = 200;
    exchange_open(&x, "127.0.0.1", store.port, 2, 1);
    exchange_gather(&x, "nodes", "0=2\n", 4);
    int64_t until_us = mono_now_us() + WAIT_US;
    while (said[0] == '\0' && mono_now_us() < until_us)
        turn();
    ck_assert(strstr(said, "is --mpi the same on all of them?") != NULL);
    world_close(&store);
}

/* Listens, and takes no more connections: whoever dials waits. */
static int full_listener(int *port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sin);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sin, len), 0);
    ck_assert_int_eq(listen(fd, 0), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
    for (int i = 0; i < 4; i++) { /* they end with the process */
        int to = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(to, (struct sockaddr *)&sin, len);
    }
    *port = ntohs(sin.sin_port);
    return fd;
}

/* An address that does not answer is not waited for: the next one has its turn,
 * and in the end it is told. */
TEST(test_mpi_silent_address_is_left)
{
    static const struct exchange_handler waits = {.on_gathered = on_gathered,
                                                  .on_lost = on_lost};
    static struct exchange x;
    char said[300] = "";
    struct ddp_err err;
    int port;
    int fd = full_listener(&port);
    ck_assert_int_eq(exchange_init(&x, &loop, &waits, said, &err), 0);
    x.first_ms = 300;
    x.dial_ms = 20;
    exchange_open(&x, "127.0.0.1", port, 2, 1);
    int64_t until_us = mono_now_us() + WAIT_US;
    while (said[0] == '\0' && mono_now_us() < until_us)
        turn();
    ck_assert(strstr(said, "it does not answer") != NULL);
    ck_assert_int_ge(x.next_addr, 2);
    (void)close(fd);
}

/* Nobody listens yet: it is tried again. */
TEST(test_mpi_waits_for_the_store)
{
    struct ddp_err err;
    world_open(&store, NULL);
    uint16_t port = store.port;
    world_close(&store);
    new_node(1, 1);
    ck_assert_int_eq(start(0, 2, port, 1, &err), 0);
    for (int i = 0; i < 100; i++)
        turn();
    ck_assert_int_eq(nodes[0].failed, -1);
    expect(0, 0, INIT, INITED); /* and meanwhile it is served */
}

/* -- faults ---------------------------------------------------------------- */

/* Two workers and a barrier, while each call of the launcher fails. */
static int run(void *ctx)
{
    struct ddp_err err;
    (void)ctx;
    fault_hold(true);
    log_init("ddprun");
    if (uv_loop_init(&loop) != 0)
        abort();
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    fault_hold(false);
    new_node(0, 2);
    if (start(0, 1, 0, 1, &err) != 0)
        return hurt_told(err.text);
    for (int rank = 0; rank < 2; rank++) {
        say(0, rank, INIT);
        if (strcmp(hear(0, rank), INITED) != 0)
            return HURT_TOLD; /* its socket is closed, and stderr says why */
    }
    say(0, 0, "cmd=barrier_in\n");
    say(0, 1, "cmd=barrier_in\n");
    for (int rank = 0; rank < 2; rank++)
        if (strcmp(hear(0, rank), OUT) != 0)
            return nodes[0].failed >= 0 ? hurt_told(nodes[0].why) : HURT_LATE;
    return HURT_DONE;
}

CASE("faults", FAULT_CASE(60))

TEST(test_mpi_faults_are_told)
{
    hurt_each("test", 4, run, NULL, "socketpair epoll_ctl");
}

SUITE("mpi", "sockets", .limit_s = 60, FIXTURE(setup, NULL))
