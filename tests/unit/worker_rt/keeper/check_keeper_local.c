/* links: tests/lib/{scratch,rt_world,rt_comm,rt_keeper} */
/* libs: -luv -lcjson -lxxhash -Wl,--wrap=sendmsg -Wl,--wrap=comm_cpu_new */
/*
 * After a failure each node loads what its own memory holds. Only what it lacks
 * comes over the network, and only to those that lack it: the bytes that each
 * rank sends are counted.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/base/stop_page.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "tests/lib/wrap_comm.h"
#include "worker_rt/comm/cpu.h"
#include "worker_rt/ddp.h"

#define NODES  3
#define RANKS  4
#define FLOATS 60000
#define STATE  ((int64_t)(FLOATS * sizeof(float)))
#define STEP   5
#define ROOM   (4 * MEMORY)

/* -- bytes over the wire --------------------------------------------------- */

static _Atomic int64_t *sent; /* (RANKS), shared by all */
static int counted = -1;      /* this rank, while it loads */

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    ssize_t n = __real_sendmsg(fd, msg, flags);
    if (n > 0 && counted >= 0)
        (void)atomic_fetch_add(&sent[counted], n);
    return n;
}

/* -- the communicator of those that lack it -------------------------------- */

/* What this rank does on it. */
static enum {
    SOUND,
    FLIPS, /* sends another bit */
    DIES
} nature;
static int made; /* communicators, with that of the job */
static const struct comm_ops *sound;

static int
bad_call(struct ddp_comm *c, const struct comm_call *call, struct ddp_err *err)
{
    size_t len = comm_call_len(call);
    bool broadcasts = call->kind == WIRE_BROADCAST;
    if (broadcasts && nature == DIES)
        _exit(9);
    if (broadcasts && c->rank == call->root && len > 0)
        ((uint8_t *)call->out)[len / 2] ^= 1;
    return sound->call(c, call, err);
}

struct ddp_comm *__wrap_comm_cpu_new(const struct comm_place *place,
                                     struct store_client *store,
                                     int64_t deadline_us,
                                     struct ddp_err *err)
{
    static struct comm_ops bad;
    struct ddp_comm *c = __real_comm_cpu_new(place, store, deadline_us, err);
    if (made++ == 0 || nature == SOUND || c == NULL)
        return c;
    sound = wrap_calls(c, &bad, bad_call);
    return c;
}

/* -- nodes with memory ----------------------------------------------------- */

static int memory[NODES];
static char memory_path[NODES][48];

static void make_nodes(void)
{
    keeper_place();
    in_round(INSTANCE, 1);
    sent = rt_shared(RANKS * sizeof(*sent));
    for (int i = 0; i < NODES; i++) {
        memory[i] = memfd_create(MEMFD_SNAPSHOTS, 0);
        ck_assert_int_ge(memory[i], 0);
        ck_assert_int_eq(ftruncate(memory[i], ROOM), 0);
        (void)snprintf(memory_path[i], sizeof(memory_path[i]), "/proc/%d/fd/%d",
                       (int)getpid(), memory[i]); /* fits */
    }
}

static void drop_nodes(void)
{
    for (int i = 0; i < NODES; i++)
        ck_assert_int_eq(close(memory[i]), 0);
    keeper_leave();
}

/* What becomes of node 1 between the save and the load. */
enum fate {
    WELL,
    EMPTY,   /* another machine is in its place */
    DAMAGED, /* a bit of a tensor */
    DIFFERS  /* it had saved something else under the same label */
};

static const struct local_case {
    int nodes;
    int local; /* ranks of each */
    enum fate fate;
    int copies;  /* how many states are sent in all */
    bool silent; /* the last rank of a node that holds it sends nothing */
} cases[] = {
    {3, 1, WELL, 0, true},    {3, 1, EMPTY, 1, true},  {3, 1, DAMAGED, 1, true},
    {3, 1, DIFFERS, 1, true}, {2, 2, WELL, 0, true},   {2, 2, EMPTY, 2, false},
    {2, 1, WELL, 0, true},    {2, 1, EMPTY, 1, false}, {1, 3, WELL, 0, true},
};
#define CASES ((int)(sizeof(cases) / sizeof(cases[0])))

/* -- ranks ----------------------------------------------------------------- */

static float data[FLOATS];
static struct ddp_tensor tensor = {"data", DDP_F32, 1, {FLOATS}, data};

static void fill(int offset)
{
    for (int i = 0; i < FLOATS; i++)
        data[i] = (float)(i + offset);
}

static void set_number(const char *name, int value)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", value); /* fits */
    RT_CHECK(setenv(name, text, 1) == 0);
}

static struct worker *start(int rank, const struct local_case *c)
{
    set_number("LOCAL_RANK", rank % c->local);
    set_number("LOCAL_WORLD_SIZE", c->local);
    set_number("GROUP_RANK", rank / c->local);
    RT_CHECK(setenv("DDP_SNAPSHOT_MEMORY", memory_path[rank / c->local], 1) ==
             0);
    return worker_start(&in_memory);
}

static int save_all(int rank, void *arg)
{
    const struct local_case *c = arg;
    struct worker *w = start(rank, c);
    bool differs = c->fate == DIFFERS && rank / c->local == 1;
    fill(differs ? 77 : 0);
    RT_OK(ddp_keeper_save(w->k, STEP, &tensor, 1, NULL, 0, false, &w->e), w->e);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    worker_stop(w);
    return 0;
}

static int load_all(int rank, void *arg)
{
    const struct local_case *c = arg;
    struct worker *w = start(rank, c);
    fill(1000);
    counted = rank;
    RT_OK(ddp_keeper_load(w->k, &tensor, 1, NULL, 0, &w->info, &w->e), w->e);
    counted = -1;
    RT_CHECK(w->info.step == STEP && w->info.memory && w->info.rank == 0);
    RT_CHECK((w->info.why[0] != '\0') == (c->fate == DAMAGED));
    for (int i = 0; i < FLOATS; i++)
        RT_CHECK(data[i] == (float)i);
    /* And the ranks go on: their communicators are counted alike. */
    struct ddp_comm *next = rt_join(w->d, 0);
    RT_OK(ddp_comm_barrier(next, &w->e), w->e);
    ddp_comm_free(next);
    worker_stop(w);
    return 0;
}

/* All that the load sent; small messages aside it is whole states. */
TEST_LOOP(test_keeper_load_sends_what_a_node_lacks_only, 0, CASES)
{
    struct local_case c = cases[_i];
    int world = c.nodes * c.local;
    rt_world_run(world, save_all, &c, 20000);
    if (c.fate == EMPTY) {
        ck_assert_int_eq(ftruncate(memory[1], 0), 0);
        ck_assert_int_eq(ftruncate(memory[1], ROOM), 0);
    }
    if (c.fate == DAMAGED)
        damage_file(memory_path[1], 4096 + 100000);
    rt_world_run(world, load_all, &c, 20000);
    int64_t all = 0;
    for (int r = 0; r < world; r++) {
        printf("check_keeper_local: case %d, rank %d sent %lld bytes\n", _i, r,
               (long long)sent[r]);
        all += sent[r];
    }
    ck_assert_int_ge(all, c.copies * STATE);
    ck_assert_int_lt(all, c.copies * STATE + STATE / 8);
    if (c.silent)
        ck_assert_int_lt(sent[world - 1], STATE / 10);
}

/* -- trouble among the few ------------------------------------------------- */

static const struct local_case one_lacks = {3, 1, EMPTY, 1, true};

/* The reader sends another bit: the one that receives it finds that, and all
 * take the snapshot of the next rank that has it. */
static int load_from_next(int rank, void *arg)
{
    (void)arg;
    nature = rank == 0 ? FLIPS : SOUND;
    struct worker *w = start(rank, &one_lacks);
    RT_OK(ddp_keeper_load(w->k, &tensor, 1, NULL, 0, &w->info, &w->e), w->e);
    RT_CHECK(w->info.step == STEP && w->info.rank == 2);
    RT_CHECK(strstr(w->info.why, "step 5 in memory of rank 0: ") != NULL);
    for (int i = 0; i < FLOATS; i++)
        RT_CHECK(data[i] == (float)i);
    worker_stop(w);
    return 0;
}

/* The one that receives it dies: all others are told who. */
static int load_with_a_death(int rank, void *arg)
{
    (void)arg;
    nature = rank == 1 ? DIES : SOUND;
    struct worker *w = start(rank, &one_lacks);
    RT_CHECK(ddp_keeper_load(w->k, &tensor, 1, NULL, 0, NULL, &w->e) == -1);
    RT_CHECK(w->e.code == DDP_ERR_PEER &&
             strstr(w->e.text, "rank 1 died") != NULL);
    worker_stop(w);
    return 0;
}

static void lose_node_1(void)
{
    struct local_case c = one_lacks;
    rt_world_run(3, save_all, &c, 20000);
    ck_assert_int_eq(ftruncate(memory[1], 0), 0);
    ck_assert_int_eq(ftruncate(memory[1], ROOM), 0);
}

TEST(test_keeper_load_refuses_what_a_few_were_sent)
{
    lose_node_1();
    rt_world_run(3, load_from_next, NULL, 20000);
}

TEST(test_keeper_load_tells_all_of_a_death_among_a_few)
{
    pid_t pids[3];
    lose_node_1();
    pid_t store = rt_world_start(3, load_with_a_death, NULL, pids);
    for (int r = 0; r < 3; r++)
        ck_assert_int_eq(rt_wait(pids[r], 10000), r == 1 ? 9 : 0);
    rt_kill(store);
}

SUITE("keeper_local", "all", .limit_s = 60, FIXTURE(make_nodes, drop_nodes))
