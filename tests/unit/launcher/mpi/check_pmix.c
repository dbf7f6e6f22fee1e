/* links: launcher/mpi/{mpi,space,kvs,pmix,pmix_server,pmix_frame,pmix_nodes} */
/* links: launcher/mpi/{pmix_far,pmix_folder,mapping,exchange,hwloc_xml} */
/* links: launcher/mpi/channel launcher/proc/procfs launcher/rdzv/resolver */
/* links: tests/lib/{hurt,store_world,scratch} rendezvous/proto/pmi STORE NET */
/* links: PROTO BASE */
/* libs: -luv -lcjson -ldl -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/*
 * PMIx with a library that tests/lib/fake_pmix is made into, in the server's
 * own process: of one node, and of two that meet in a real store.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/mpi/mpi.h"
#include "launcher/mpi/pmix_far.h"
#include "launcher/mpi/pmix_server.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/fault_case.h"
#include "tests/lib/hurt.h"
#include "tests/lib/scratch.h"
#include "tests/lib/store_world.h"
#include "tests/lib/suite.h"

#define WAIT_US (30 * MONO_S)
#define WORKERS 2

static uv_loop_t loop;
static struct world store;

struct pmix_node {
    struct conf conf;
    struct mpi *mpi;
    struct mpi_fds fds[WORKERS];
    int failed; /* a worker's local rank; -1: none */
    int code;
    char why[400];
};

static struct pmix_node nodes[2];

static void on_failed(void *ctx, const struct agent_worker *w)
{
    struct pmix_node *n = ctx;
    ck_assert_int_eq(n->failed, -1);
    n->failed = w->local_rank;
    n->code = w->code;
    (void)snprintf(n->why, sizeof(n->why), "%s", w->text);
}

static const struct mpi_handler handler = {.on_failed = on_failed};

static void new_node(int i, int nproc)
{
    struct pmix_node *n = &nodes[i];
    *n = (struct pmix_node){
        .conf = {.nproc = nproc, .mpi = CONF_MPI_PMIX},
        .fds = {{-1, -1}, {-1, -1}},
    };
    n->mpi = mpi_new(&loop, &n->conf, &handler, n);
}

/* A round whose clients do as `script` says (tests/lib/fake_pmix). */
static int start(int i, int count, const char *script, struct ddp_err *err)
{
    struct pmix_node *n = &nodes[i];
    struct msg_world w = {
        .instance = "0123456789abcdef0123456789abcdef",
        .round = 7,
        .group_rank = i,
        .group_world = count,
        .base_rank = i == 0 ? 0 : nodes[0].conf.nproc,
        .world_size = count == 1 ? n->conf.nproc : 3,
        .master_addr = "127.0.0.1",
        .master_port = store.port,
    };
    n->failed = -1;
    (void)setenv(i == 0 ? "FAKE_PMIX" : "FAKE_PMIX_2", script, 1);
    mpi_round(n->mpi, &w);
    for (int r = 0; r < n->conf.nproc; r++) {
        mpi_close_fds(&n->fds[r]);
        if (mpi_open_worker(n->mpi, r, &n->fds[r], err) != 0)
            return -1;
        mpi_started(n->mpi, r, 1000 + r);
    }
    return 0;
}

/* As the loop of the launcher does: its child is reaped. */
static void turn(void)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    fault_hold(true);
    (void)usleep(500);
    for (int i = 0; i < 2; i++) {
        siginfo_t info = {.si_pid = 0};
        pid_t pid = mpi_helper(nodes[i].mpi, MPI_HELPER_PMIX);
        if (pid > 0 &&
            waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == pid) {
            fault_hold(false);
            mpi_helper_ended(nodes[i].mpi, MPI_HELPER_PMIX);
            fault_hold(true);
        }
    }
    fault_hold(false);
}

/* The variables of a worker, with a newline behind each; "": none came. */
static const char *variables(int i, int rank)
{
    static char text[20000];
    size_t len = 0;
    int64_t until_us = mono_now_us() + WAIT_US;
    while (mono_now_us() < until_us && nodes[i].failed < 0) {
        turn();
        fault_hold(true);
        bool some = readable(nodes[i].fds[rank].env, 0);
        ssize_t n =
            some ? read(nodes[i].fds[rank].env, text + len, sizeof(text) - len)
                 : 0;
        fault_hold(false);
        len += n > 0 ? (size_t)n : 0;
        if (len < 2 || text[len - 1] != '\0' || text[len - 2] != '\0')
            continue;
        for (size_t k = 0; k < len; k++)
            if (text[k] == '\0')
                text[k] = '\n';
        text[len - 1] = '\0';
        return text;
    }
    return "";
}

static void wait_failed(int i)
{
    int64_t until_us = mono_now_us() + WAIT_US;
    while (nodes[i].failed < 0 && mono_now_us() < until_us)
        turn();
    ck_assert_int_ge(nodes[i].failed, 0);
}

/* All that the fake library was answered, once there are so many lines. */
static const char *answers(int lines)
{
    static char text[1000];
    int64_t until_us = mono_now_us() + WAIT_US;
    int n = 0;
    while (n < lines && mono_now_us() < until_us) {
        turn();
        FILE *f = fopen("answers", "re");
        size_t len = f == NULL ? 0 : fread(text, 1, sizeof(text) - 1, f);
        if (f != NULL)
            ck_assert_int_eq(fclose(f), 0);
        text[len] = '\0';
        n = 0;
        for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
            n++;
    }
    return text;
}

static struct agent_worker end(int i, int rank, int code)
{
    struct agent_worker w = {.local_rank = rank, .code = code, .text = ""};
    mpi_ended(nodes[i].mpi, &w);
    return w;
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    log_init("ddprun");
    scratch_enter();
    (void)setenv("FAKE_PMIX_OUT", "answers", 1);
    new_node(0, 2);
}

/* As the janitor does; what is in them is pmix_folder's to remove. */
static void remove_folders(void)
{
    for (int i = 0; i < 2; i++)
        if (nodes[i].mpi != NULL)
            (void)rmdir(mpi_folder(nodes[i].mpi)); /* "": none */
}

static void teardown(void)
{
    remove_folders();
    scratch_leave();
}

#define BEGIN(i, count, script)                                                \
    do {                                                                       \
        struct ddp_err err_;                                                   \
        ck_assert_int_eq(start(i, count, script, &err_), 0);                   \
    } while (0)

/* Each worker gets its own, and a round has a name of its own. */
TEST(test_pmix_workers_get_their_variables)
{
    BEGIN(0, 1, "");
    const char *v = variables(0, 1);
    ck_assert_ptr_nonnull(strstr(v, "PMIX_RANK=1\n"));
    ck_assert_ptr_nonnull(
        strstr(v, "PMIX_NAMESPACE=ddprun_0123456789abcdef_7\n"));
    ck_assert_ptr_nonnull(strstr(v, "FAKE_RANKS=raw:0,1\n"));
    ck_assert_ptr_nonnull(strstr(variables(0, 0), "PMIX_RANK=0\n"));
    ck_assert_int_gt(mpi_helper(nodes[0].mpi, MPI_HELPER_PMIX), 0);
    ck_assert_int_eq(end(0, 0, 0).code, 0);
    ck_assert_int_eq(end(0, 1, 0).code, 0);
    ck_assert_int_eq(mpi_helper(nodes[0].mpi, MPI_HELPER_PMIX),
                     0); /* it went with them */
    ck_assert_int_eq(nodes[0].failed, -1);
}

/* A spawn is refused with a word, once a round. */
TEST(test_pmix_spawn_is_refused_with_a_word)
{
    char said[1000];
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(dup2(fileno(f), STDERR_FILENO), 0);
    BEGIN(0, 1, "c0 c1 s1 s0 f0 f1 l:x");
    (void)answers(1);
    ck_assert_int_eq(end(0, 0, 0).code, 0);
    ck_assert_int_eq(end(0, 1, 0).code, 0);
    rewind(f);
    said[fread(said, 1, sizeof(said) - 1, f)] = '\0';
    ck_assert_int_eq(fclose(f), 0);
    const char *at = strstr(said, "rank 1: MPI_Comm_spawn is refused: ");
    ck_assert_ptr_nonnull(at);
    ck_assert_ptr_null(strstr(at + 10, "MPI_Comm_spawn"));
}

/* What Open MPI's ranks share is in a folder of the launch's own, where the
 * user has not set another one, and goes with the round; through no link. */
TEST(test_pmix_folder_is_emptied_with_the_round)
{
    char line[100];
    const char *folder = mpi_folder(nodes[0].mpi);
    ck_assert_int_eq(setenv("OMPI_MCA_osc_sm_backing_directory", "/x", 1), 0);
    BEGIN(0, 1, "");
    const char *v = variables(0, 1);
    (void)snprintf(line, sizeof(line), "OMPI_MCA_btl_sm_backing_directory=%s\n",
                   folder);
    ck_assert_ptr_nonnull(strstr(v, line));
    ck_assert_ptr_null(strstr(v, "osc_sm_backing"));
    ck_assert_ptr_nonnull(strstr(v, "FAKE_FOLDER=/dev/shm/ddprun-mpi-"));
    ck_assert_int_eq(mkdir("kept", 0700), 0);
    ck_assert_int_eq(mkdir("kept/inside", 0700), 0);
    (void)snprintf(line, sizeof(line), "%s/kept", scratch);
    int dir = open(folder, O_RDONLY | O_DIRECTORY);
    ck_assert_int_ge(dir, 0);
    ck_assert_int_eq(mkdirat(dir, "job", 0700), 0);
    ck_assert_int_eq(symlinkat(line, dir, "job/link"), 0);
    int segment = openat(dir, "job/segment", O_CREAT | O_WRONLY, 0600);
    ck_assert_int_eq(close(segment), 0);
    ck_assert_int_eq(end(0, 0, 9).code, 9);
    ck_assert_int_eq(faccessat(dir, "job/segment", F_OK, 0), 0);
    ck_assert_int_eq(end(0, 1, 9).code, 9);
    ck_assert_int_ne(faccessat(dir, "job", F_OK, 0), 0);
    ck_assert_int_eq(access("kept/inside", F_OK), 0);
    ck_assert_int_eq(access(folder, F_OK), 0);
    ck_assert_int_eq(close(dir), 0);
}

static const struct {
    const char *script;
    const char *why;
} broken[] = {
    {"init=-3", "the PMIx server failed: PMIx_server_init: status -3"},
    {"nspace=-3", "PMIx_server_register_nspace: status -3"},
    {"client=-3", "PMIx_server_register_client: status -3"},
    {"long", "too many variables for a worker"},
    {"version=4.1.2",
     "libpmix.so.2 is 4.1.2; PMIx 5, or 4.2 or later, is needed"},
    {"version=6.0", "libpmix.so.2 is 6.0; PMIx 5, or 4.2 or later, is needed"},
    {"die", "the PMIx server was killed by signal 9 (SIGKILL)"},
};

TEST_EACH(test_pmix_broken_server_fails_the_round, broken)
{
    BEGIN(0, 1, broken[_i].script);
    wait_failed(0);
    ck_assert_int_eq(nodes[0].code, 72);
    ck_assert_msg(strstr(nodes[0].why, broken[_i].why) != NULL, "%s",
                  nodes[0].why);
    BEGIN(0, 1, ""); /* and the next one is whole */
    ck_assert_str_ne(variables(0, 0), "");
}

TEST(test_pmix_probe_tells_the_version)
{
    struct ddp_err err;
    (void)setenv("FAKE_PMIX", "version=5.0.11", 1);
    ck_assert_int_eq(pmix_server_probe(&err), 0);
    (void)setenv("FAKE_PMIX", "version=4.10.0", 1);
    ck_assert_int_eq(pmix_server_probe(&err), 0);
    (void)setenv("FAKE_PMIX", "version=3.1", 1);
    ck_assert_int_eq(pmix_server_probe(&err), -1);
    ck_assert_int_eq(err.code, DDP_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(err.text, "or 4.2 or later, is needed"));
}

/* The abort is known before the end that follows it is judged. */
TEST_LOOP(test_pmix_abort_is_a_failure, 0, 3)
{
    static const int codes[] = {42, 256, 0};
    char script[32];
    (void)snprintf(script, sizeof(script), "c0 c1 a1:%d", codes[_i]);
    BEGIN(0, 1, script);
    wait_failed(0);
    ck_assert_int_eq(nodes[0].failed, 1);
    ck_assert_int_eq(nodes[0].code, codes[_i] == 42 ? 42 : 1);
    ck_assert_ptr_nonnull(strstr(nodes[0].why, "MPI_Abort was called"));
    ck_assert_int_eq(end(0, 1, 0).code, 0); /* it was told */
}

/* Waits until `script`, whose last word is a lookup, was done. */
static void begin_and_wait(const char *script)
{
    BEGIN(0, 1, script);
    ck_assert_str_eq(answers(1), "lookup -46 \n");
}

TEST(test_pmix_early_end_is_a_failure)
{
    begin_and_wait("c0 c1 f1 l:x");
    ck_assert_int_eq(end(0, 1, 0).code, 0); /* after MPI_Finalize */
    struct agent_worker w = end(0, 0, 0);
    ck_assert_int_eq(w.code, 1);
    ck_assert_ptr_nonnull(strstr(w.text, "without MPI_Finalize"));
}

TEST(test_pmix_end_without_init_is_a_failure)
{
    begin_and_wait("c0 l:x");
    struct agent_worker w = end(0, 1, 0);
    ck_assert_int_eq(w.code, 1);
    ck_assert_ptr_nonnull(strstr(w.text, "without MPI_Init"));
}

/* A worker that is served by either protocol has found the others. */
static const struct {
    enum conf_mpi mpi;
    const char *script;
    const char *told;
} unused[] = {
    {CONF_MPI_PMIX, "l:x",
     "PMIx; a program of MPICH or Intel MPI needs --mpi=pmi1 or auto\n"},
    {CONF_MPI_AUTO, "l:x",
     "PMI-1 or PMIx; an MPI program of another protocol was a world of its own "
     "in each worker\n"},
    {CONF_MPI_PMIX, "c0 c1 f0 f1 l:x", ""},
    {CONF_MPI_AUTO, "c0 c1 f0 f1 l:x", ""},
};

TEST_EACH(test_pmix_unused_is_told, unused)
{
    static const char head[] = "no worker of this node has asked for MPI by ";
    char said[1000];
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(dup2(fileno(f), STDERR_FILENO), 0);
    nodes[0].conf.mpi = unused[_i].mpi;
    remove_folders();
    nodes[0].mpi = mpi_new(&loop, &nodes[0].conf, &handler, &nodes[0]);
    begin_and_wait(unused[_i].script);
    ck_assert_int_eq(end(0, 0, 0).code, 0);
    ck_assert_int_eq(end(0, 1, 0).code, 0);
    rewind(f);
    said[fread(said, 1, sizeof(said) - 1, f)] = '\0';
    ck_assert_int_eq(fclose(f), 0);
    const char *at = strstr(said, head);
    ck_assert_str_eq(at == NULL ? "" : at + sizeof(head) - 1, unused[_i].told);
}

TEST(test_pmix_names_are_published)
{
    BEGIN(0, 1, "F:x S:y p:n= p:n=port l:n u:n l:n u:n");
    ck_assert_str_eq(answers(8), "fence 0 x\nfence 0 y\npublish -47 \n"
                                 "publish 0 \nlookup 0 port\nunpublish 0 \n"
                                 "lookup -46 \nunpublish -46 \n");
}

static void meet(const char *one, const char *other)
{
    world_open(&store, NULL);
    new_node(1, 1);
    BEGIN(0, 2, one);
    BEGIN(1, 2, other);
}

static int count(const char *text, const char *line)
{
    int n = 0;
    for (; (text = strstr(text, line)) != NULL; text++)
        n++;
    return n;
}

/* The servers are forked beside the thread of the store. */
CASE("nodes", .tags = "forked-threads", .limit_s = 60, FIXTURE(setup, teardown))

/* Two nodes, of two workers and of one: each gets the data of both. */
TEST(test_pmix_nodes_fence)
{
    meet("S:here F:one", "S:no F:two");
    ck_assert_ptr_nonnull(strstr(variables(1, 0), "PMIX_RANK=2\n"));
    const char *v = variables(0, 0);
    ck_assert_ptr_nonnull(strstr(v, "FAKE_RANKS=raw:0,1;2\n"));
    ck_assert_ptr_nonnull(strstr(v, "_0,")); /* two nodes of one host */
    const char *got = answers(4);
    ck_assert_msg(count(got, "fence 0 onetwo\n") == 2 ||
                      count(got, "fence 0 twoone\n") == 2,
                  "%s", got);
    ck_assert_int_eq(count(got, "fence 0 here\n"), 1);
    ck_assert_int_eq(count(got, "fence -47 \n"), 1); /* over nodes, not all */
    world_close(&store);
}

/* What a rank of the other node has put, while others wait in a fence. */
TEST(test_pmix_nodes_direct_modex)
{
    meet("F:one m2 m1", "m0 m1 m7");
    const char *got = answers(5);
    ck_assert_msg(count(got, "modex 0 of 2\n") == 1, "%s", got);
    ck_assert_int_eq(count(got, "modex 0 of 1\n"), 1);
    ck_assert_int_eq(count(got, "modex -25 \n"), 1); /* m0: it has none */
    ck_assert_int_eq(count(got, "modex -46 \n"), 2); /* of here, of nowhere */
    world_close(&store);
}

TEST(test_pmix_nodes_names)
{
    meet("F:one p:n=port l:n", "");
    ck_assert_int_eq(count(answers(2), "lookup 0 port\n"), 1);
    world_close(&store);
}

/* A rank of the other node ends with 0 and without MPI_Init. */
TEST(test_pmix_nodes_refuse_a_fence)
{
    meet("c0 c1 F:one", "");
    (void)variables(1, 0);
    ck_assert_int_eq(end(1, 0, 0).code, 0);
    wait_failed(0);
    ck_assert_ptr_nonnull(
        strstr(nodes[0].why, "a rank of another node ended without MPI_Init"));
    ck_assert_int_eq(nodes[1].failed, -1);
    world_close(&store);
}

/* It was of no use to any of them: nobody fails. */
TEST(test_pmix_nodes_without_mpi)
{
    meet("", "");
    (void)variables(1, 0);
    (void)variables(0, 1);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(end(i / 2, i % 2, 0).code, 0);
    for (int i = 0; i < 200; i++)
        turn();
    ck_assert_int_eq(nodes[0].failed, -1);
    ck_assert_int_eq(nodes[1].failed, -1);
    world_close(&store);
}

TEST(test_pmix_lost_store_fails_who_waits)
{
    meet("F:one", "");
    (void)variables(0, 0);
    (void)variables(1, 0);
    world_close(&store);
    wait_failed(0);
    ck_assert_int_eq(nodes[0].code, 72);
    ck_assert_ptr_nonnull(strstr(nodes[0].why, "the store of the round at"));
    ck_assert_int_eq(nodes[1].failed, -1);
}

TEST_LOOP(test_pmix_lost_store_fails_who_asks_later, 0, 3)
{
    static const char *const asks[] = {"w F:two", "w m0", "w l:x"};
    meet("", asks[_i]);
    (void)variables(0, 0);
    (void)variables(1, 0);
    world_close(&store);
    for (int64_t until_us = mono_now_us() + 2 * MONO_S;
         mono_now_us() < until_us;)
        turn();
    ck_assert_int_eq(nodes[1].failed, -1);
    ck_assert_int_eq(mkdir("go", 0700), 0);
    wait_failed(1);
    ck_assert_ptr_nonnull(strstr(nodes[1].why, "the store of the round at"));
}

/* Nodes could take the two in different orders. */
TEST(test_pmix_nodes_refuse_fences_at_a_time)
{
    meet("F:one F:two", "");
    wait_failed(0);
    ck_assert_ptr_nonnull(
        strstr(nodes[0].why, "a PMIx fence of all ranks began while"));
    world_close(&store);
}

CASE("server")

/* Another node asks without end, and the store takes no answer: what is kept
 * for it is bounded, also by answers without data. */
TEST(test_pmix_answers_that_nobody_takes_are_bounded)
{
    static const struct pmix_far_handler nobody;
    static struct pmix_far far;
    static char data[1 << 20];
    struct msg_world w = {.group_world = 2, .world_size = 2};
    struct pmix_frame held = {.kind = PMIX_HELD,
                              .number = 1,
                              .rank = 1,
                              .data = data,
                              .len = sizeof(data)};
    int64_t first_ranks[] = {0, 1};
    const struct pmix_nodes maps = {.first_ranks = first_ranks};
    struct ddp_err err;
    size_t before;
    (void)snprintf(w.master_addr, sizeof(w.master_addr), "127.0.0.1");
    w.master_port = 1;
    ck_assert_int_eq(pmix_far_init(&far, &loop, &nobody, NULL, &err), 0);
    pmix_far_open(&far, &w, "", 0);
    pmix_far_begin(&far, &maps);
    do {
        before = exchange_queued(&far.mail);
        pmix_far_frame(&far, &held);
    } while (exchange_queued(&far.mail) > before &&
             before < 2 * PMIX_FAR_QUEUED_MAX);
    ck_assert_uint_gt(before, PMIX_FAR_QUEUED_MAX - sizeof(data));
    ck_assert_uint_le(before, PMIX_FAR_QUEUED_MAX + PMIX_FAR_NONES_MAX + 4096);
    pmix_far_close(&far);
    ck_assert_uint_eq(exchange_queued(&far.mail), 0);
}

/* -- faults ---------------------------------------------------------------- */

/* libuv ends a process by it, and atexit(3) is not for that. */
static void on_abort(int signo)
{
    (void)signo;
    remove_folders(); /* rmdir(2) only */
}

/* The variables of two workers, while each call of the launcher fails. */
static int run(void *ctx)
{
    struct ddp_err err;
    (void)ctx;
    (void)atexit(remove_folders);
    (void)signal(SIGABRT, on_abort);
    fault_hold(true);
    log_init("ddprun");
    if (uv_loop_init(&loop) != 0)
        abort();
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    fault_hold(false);
    new_node(0, 2);
    if (start(0, 1, "", &err) != 0)
        return hurt_told(err.text);
    for (int rank = 0; rank < 2; rank++)
        if (variables(0, rank)[0] == '\0')
            return nodes[0].failed >= 0 ? hurt_told(nodes[0].why) : HURT_LATE;
    return HURT_DONE;
}

CASE("faults", FAULT_CASE(60))

TEST(test_pmix_faults_are_told)
{
    hurt_each("test", 6, run, NULL, "socketpair epoll_ctl pipe2 fork");
}

SUITE("pmix", "server", .limit_s = 60, FIXTURE(setup, teardown))
