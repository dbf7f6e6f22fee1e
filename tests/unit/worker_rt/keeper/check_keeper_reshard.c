/* links: tests/lib/{scratch,rt_world,rt_comm,rt_nodes,rt_keeper,rt_pieces} */
/* links: worker_rt/snapshot/{mem_slots,load} */
/* libs: -luv -lcjson -lxxhash -Wl,--wrap=sendmsg -Wl,--wrap=comm_cpu_new */
/*
 * What the ranks of one world saved in pieces is loaded by those of another
 * one, which want other pieces: from the memory of nodes, and from folders.
 * Images are lost and damaged in between. Whatever is loaded is compared with
 * what the whole tensors had.
 */
#include <check.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/base/rng.h"
#include "rendezvous/base/stop_page.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_nodes.h"
#include "tests/lib/suite.h"
#include "tests/lib/wrap_comm.h"
#include "worker_rt/comm/cpu.h"
#include "worker_rt/ddp.h"
#include "worker_rt/keeper/keeper.h"
#include "worker_rt/snapshot/mem_slots.h"
#include "worker_rt/snapshot/snapshot.h"

#define SEEDS 24
#define BACK  60 /* bytes from an image end to those of tensor "bytes" */

/* -- bytes over the wire --------------------------------------------------- */

static _Atomic int64_t *sent; /* shared by all ranks: while they load */

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    ssize_t n = __real_sendmsg(fd, msg, flags);
    if (n > 0 && rank_loads)
        (void)atomic_fetch_add(sent, n);
    return n;
}

/* -- the communicators of those that lack something ------------------------ */

/* What this rank does on them. */
static enum {
    SOUND,
    FLIPS, /* of what it is asked for it sends another bit */
    DIES
} nature;
static int made; /* communicators, with that of the job */
static const struct comm_ops *sound;

static int
bad_call(struct ddp_comm *c, const struct comm_call *call, struct ddp_err *err)
{
    size_t len = comm_call_len(call);
    if (nature == DIES)
        _exit(9);
    if (c->rank == call->root && len > sizeof(struct ranges_part))
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

static void make(void)
{
    nodes_make();
    sent = rt_shared(sizeof(*sent));
}

/* -- any world to any other one -------------------------------------------- */

static int ranks_of(struct rng *r, int local)
{
    return 1 + (int)rng_below(r, (uint32_t)(NODES_RANKS / local < NODES
                                                ? NODES_RANKS / local
                                                : NODES));
}

/* From memory: those nodes, in another order, and maybe more. */
TEST_LOOP(test_keeper_reshard_from_memory, 0, SEEDS)
{
    struct rng r;
    rng_init(&r, (uint64_t)_i);
    world = (struct nodes_world){
        .local = 1 + (int)rng_below(&r, 2), .seed = (uint64_t)_i, .step = LAST};
    world.nodes = ranks_of(&r, world.local);
    world_saves();
    int saved = world.nodes, most = NODES_RANKS / world.local;
    while (world.nodes < NODES && world.nodes < most && rng_below(&r, 2) == 0)
        world.nodes++;
    /* The nodes stand in a ring: the first one is another one. */
    if (world.nodes == NODES)
        world.first_node = (int)rng_below(&r, NODES);
    ck_assert_int_le(saved, world.nodes);
    world.seed += 1000;
    world_loads();
}

/* From folders: whatever number of nodes, each with as many ranks as it likes,
 * if they see the folders of all. */
TEST_LOOP(test_keeper_reshard_from_disk, 0, SEEDS)
{
    struct rng r;
    rng_init(&r, (uint64_t)_i);
    world = (struct nodes_world){.local = 1 + (int)rng_below(&r, 3),
                                 .no_memory = rng_below(&r, 2) == 0,
                                 .where = ONE_FOLDER,
                                 .seed = (uint64_t)_i,
                                 .step = LAST};
    world.nodes = ranks_of(&r, world.local);
    world_saves();
    world.no_memory = true;
    world.local = 1 + (int)rng_below(&r, 3);
    world.nodes = ranks_of(&r, world.local);
    world.seed += 1000;
    world_loads();
}

/* Each node has a folder of its own: what is in it comes to the others. */
TEST_LOOP(test_keeper_reshard_from_folders_of_nodes, 0, SEEDS / 2)
{
    struct rng r;
    rng_init(&r, (uint64_t)_i);
    world = (struct nodes_world){.nodes = 2,
                                 .local = 1 + (int)rng_below(&r, 2),
                                 .no_memory = true,
                                 .where = OWN_FOLDERS,
                                 .seed = (uint64_t)_i,
                                 .step = LAST};
    world_saves();
    world.nodes = 2 + (int)rng_below(&r, 2);
    world.local = 1 + (int)rng_below(&r, 2);
    world.seed += 1000;
    world_loads();
}

/* The worker died, and all come back to where they were: no table travels, nor
 * any piece. */
TEST(test_keeper_reshard_of_nothing_sends_nothing)
{
    world = (struct nodes_world){
        .nodes = 2, .local = 2, .kind = PIECES_SHARDED, .step = LAST};
    world_saves();
    world_loads();
    int64_t near = atomic_exchange(sent, 0);
    world.step = LAST + 10;
    world.nodes = 3;
    world_loads();
    int64_t far = atomic_load(sent);
    printf("check_keeper_reshard: %lld bytes, with a node more %lld\n",
           (long long)near, (long long)far);
    ck_assert_int_gt(near, 0);
    ck_assert_int_lt(near, 16000);
    ck_assert_int_gt(far, 2 * near);
}

/* -- from four nodes to three ---------------------------------------------- */

#define ROWS  12
#define COLS  UINT64_C(12000)
#define SHARD (ROWS / 4 * COLS * sizeof(float)) /* bytes, of four ranks */

static float table[ROWS * COLS];

/* A rank's rows of it. */
static struct ddp_piece rows_of(int rank, int of)
{
    uint64_t rows = ROWS / (uint64_t)of;
    return (struct ddp_piece){
        .local = {"table", DDP_F32, 2, {rows, COLS}, table},
        .whole = {ROWS, COLS},
        .offset = {(uint64_t)rank * rows}};
}

static float value_at(const struct ddp_piece *p, uint64_t i, int step)
{
    return (float)(p->offset[0] * COLS + i) + (float)step;
}

static int save_table(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    struct ddp_piece mine = rows_of(rank, 4);
    for (int step = 1; step <= 5; step++) {
        for (uint64_t i = 0; i < SHARD / sizeof(float); i++)
            table[i] = value_at(&mine, i, step);
        RT_OK(
            ddp_keeper_save_pieces(r->k, step, &mine, 1, NULL, 0, false, &r->e),
            r->e);
        RT_OK(ddp_keeper_wait(r->k, &r->e), r->e);
        struct ddp_err why; /* what is whole is mirrored before the next */
        while (r->k->mirrors.way != NULL &&
               mirror_look(r->k->mirrors.way, &why) == MIRROR_BUSY)
            (void)usleep(5000);
    }
    rank_stop(r);
    return 0;
}

static bool want_table(void *ctx,
                       const struct ddp_tensor *whole,
                       size_t i,
                       struct ddp_piece *want)
{
    const int *rank = ctx;
    if (i > 0 || strcmp(whole->name, "table") != 0)
        return false;
    *want = rows_of(*rank, 3);
    return true;
}

static int load_table(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    struct ddp_piece mine = rows_of(rank, 3);
    rank_loads = true;
    RT_OK(ddp_keeper_load_pieces(r->k, want_table, &rank, NULL, 0, &r->info,
                                 &r->e),
          r->e);
    rank_loads = false;
    RT_CHECK(r->info.step == 4);
    for (uint64_t i = 0; i < ROWS / 3 * COLS; i++)
        RT_CHECK(table[i] == value_at(&mine, i, 4));
    rank_stop(r);
    return 0;
}

/* The last node is lost. The first of the others lacks a third of a shard, the
 * second two thirds, the last a whole one: the mirror on the first node has it.
 * No more than that is sent. */
TEST(test_keeper_reshard_sends_what_is_wanted_and_no_more)
{
    world = (struct nodes_world){.nodes = 4, .local = 1};
    world_runs(save_table, NULL);
    nodes_lose(3);
    world.nodes = 3;
    world_runs(load_table, NULL);
    int64_t far = atomic_load(sent);
    printf("check_keeper_reshard: from 4 nodes to 3: %lld bytes, two shards "
           "have %lld\n",
           (long long)far, (long long)(2 * SHARD));
    ck_assert_int_ge(far, 2 * (int64_t)SHARD);
    ck_assert_int_lt(far, 2 * (int64_t)SHARD + 48000);
}

/* -- losses ---------------------------------------------------------------- */

/* A slot of a node's memory that has that step. */
static int
find_slot(struct mem_slots *m, int node, int part, int parts, int step)
{
    struct ddp_err err;
    struct slot_label label;
    ck_assert_int_eq(mem_slots_open(m, node_memory[node], part, parts, &err),
                     0);
    for (int i = 0; i < m->count; i++)
        if (mem_slots_read(m, i, &label) && label.step == step)
            return i;
    ck_abort_msg("step %d is not there", step);
    return -1;
}

static void lose_image(int node, int part, int parts, int step)
{
    struct mem_slots m;
    struct ddp_err err;
    int i = find_slot(&m, node, part, parts, step);
    ck_assert_int_eq(mem_slots_reserve(&m, i, 0, &err), 0);
    mem_slots_close(&m);
}

/* Another bit in the header, or in the middle of the data. */
static void damage_image(int node, int part, int parts, int step, bool header)
{
    struct mem_slots m;
    struct slot_label label;
    int i = find_slot(&m, node, part, parts, step);
    ck_assert(mem_slots_read(&m, i, &label));
    mem_slots_image(&m, i)[header ? 300 : label.len - BACK] ^= 1;
    mem_slots_close(&m);
}

static void damage_shard(int node, int step, int rank, int of, bool header)
{
    char path[128];
    (void)snprintf(path, sizeof(path),
                   "s%d/step-%012d.r1.01234567/shard-%05d-of-%05d.safetensors",
                   node, step, rank + 1, of); /* fits */
    int fd = open(path, O_RDONLY);
    ck_assert_int_ge(fd, 0);
    off_t size = lseek(fd, 0, SEEK_END);
    ck_assert_int_eq(close(fd), 0);
    damage_file(path, header ? 300 : size - BACK);
}

CASE("losses", .limit_s = 60, FIXTURE(make, nodes_drop))

/* One rank did not come so far: all go on from the step before. */
TEST(test_keeper_reshard_goes_back_for_a_lost_image)
{
    world = (struct nodes_world){.nodes = 2,
                                 .local = 2,
                                 .kind = PIECES_SHARDED,
                                 .step = LAST - 1,
                                 .why = "step 6: "};
    world_saves();
    lose_image(1, 0, 2, LAST);
    world_loads();
}

/* What every node has survives the loss of one of them. */
TEST_LOOP(test_keeper_reshard_copies_survive_a_lost_node, 0, 2)
{
    world = (struct nodes_world){
        .nodes = 2, .local = 2, .kind = PIECES_COPIED, .step = LAST};
    world_saves();
    nodes_lose(_i);
    world_loads();
}

/* What only one node has, without mirrors, is lost with it; nothing is made
 * up. */
TEST(test_keeper_reshard_tells_what_is_lost)
{
    world = (struct nodes_world){.nodes = 2,
                                 .local = 1,
                                 .copies = 1,
                                 .kind = PIECES_SHARDED,
                                 .step = -1,
                                 .why = "there is no image of rank 1"};
    world_saves();
    nodes_lose(1);
    world_loads();
}

static const struct damage {
    enum pieces_kind kind;
    enum nodes_folders where;
    bool header, both; /* in memory and on the disk */
    int step;
    const char *why;
    int more; /* nodes, which have nothing */
} damages[] = {
    /* Nobody else has it. */
    {PIECES_SHARDED, NO_FOLDER, false, false, LAST - 1, "wrong checksum", 0},
    {PIECES_SHARDED, NO_FOLDER, true, false, LAST - 1, "header: ", 0},
    {PIECES_SHARDED, NO_FOLDER, false, false, LAST - 1, "of rank 1: ", 1},
    /* The file has it. */
    {PIECES_SHARDED, ONE_FOLDER, false, false, LAST, "memory of rank 1: ", 0},
    {PIECES_SHARDED, ONE_FOLDER, true, false, LAST, "memory of rank 1: ", 0},
    {PIECES_SHARDED, OWN_FOLDERS, false, false, LAST, "memory of rank 1: ", 0},
    {PIECES_SHARDED, ONE_FOLDER, false, true, LAST - 1,
     "memory of rank 1: ", 0},
    {PIECES_SHARDED, ONE_FOLDER, true, true, LAST - 1, "memory of rank 1: ", 0},
    /* The other node has it. */
    {PIECES_COPIED, NO_FOLDER, false, false, LAST, "memory of rank 1: ", 0},
    {PIECES_COPIED, NO_FOLDER, true, false, LAST, "memory of rank 1: ", 0},
    {PIECES_COPIED, NO_FOLDER, false, false, LAST, "memory of rank 1: ", 1},
    {PIECES_COPIED, NO_FOLDER, true, false, LAST, "memory of rank 1: ", 2},
};
#define DAMAGES ((int)(sizeof(damages) / sizeof(damages[0])))

TEST_LOOP(test_keeper_reshard_never_loads_what_is_damaged, 0, DAMAGES)
{
    const struct damage *d = &damages[_i];
    world = (struct nodes_world){.nodes = 2,
                                 .local = 1,
                                 .where = d->where,
                                 .kind = d->kind,
                                 .step = d->step,
                                 .why = d->why};
    world_saves();
    damage_image(1, 0, 1, LAST, d->header);
    world.nodes += d->more;
    if (d->both)
        damage_shard(0, LAST, 1, 2, d->header);
    world_loads();
}

/* -- trouble among those that lack something ------------------------------- */

/* The reader sends another bit, of each image that it holds; those that get
 * them find that. The step before is sent in the same way. */
static int load_from_a_liar(int rank, void *arg)
{
    (void)arg;
    nature = FLIPS;
    struct rank *r = rank_start(rank);
    int rc = rank_load(r);
    RT_CHECK(rc == -1 && r->e.code == DDP_ERR_CORRUPT);
    RT_CHECK(strstr(r->e.text, "step 6 in memory of rank ") != NULL);
    RT_CHECK(strstr(r->e.text, "checksum") != NULL);
    rank_stop(r);
    return 0;
}

CASE("few", .limit_s = 60, FIXTURE(make, nodes_drop))

TEST(test_keeper_reshard_refuses_what_a_few_were_sent)
{
    world =
        (struct nodes_world){.nodes = 2, .local = 1, .kind = PIECES_SHARDED};
    world_saves();
    world.nodes = 4;
    world_runs(load_from_a_liar, NULL);
}

/* One that receives dies: all others are told, those that wait for an image
 * behind it, too. */
static int load_with_a_death_among_few(int rank, void *arg)
{
    (void)arg;
    nature = rank == 2 ? DIES : SOUND;
    struct rank *r = rank_start(rank);
    RT_CHECK(rank_load(r) == -1 && r->e.code == DDP_ERR_PEER);
    RT_CHECK(strstr(r->e.text, "rank 2 died") != NULL);
    rank_stop(r);
    return 0;
}

TEST(test_keeper_reshard_tells_all_of_a_death_among_a_few)
{
    pid_t pids[4];
    world =
        (struct nodes_world){.nodes = 2, .local = 1, .kind = PIECES_SHARDED};
    world_saves();
    world.nodes = 4;
    pid_t store = rt_world_start(4, load_with_a_death_among_few, NULL, pids);
    for (int r = 0; r < 4; r++)
        ck_assert_int_eq(rt_wait(pids[r], 10000), r == 2 ? 9 : 0);
    rt_kill(store);
}

SUITE("keeper_reshard", "worlds", .limit_s = 60, FIXTURE(make, nodes_drop))
