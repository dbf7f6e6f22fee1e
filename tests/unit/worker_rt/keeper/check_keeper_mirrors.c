/* links: tests/lib/{scratch,rt_world,rt_comm,rt_nodes,rt_keeper,rt_pieces} */
/* links: worker_rt/snapshot/{mem_slots,load} */
/* libs: -luv -lcjson -lxxhash -Wl,--wrap=comm_cpu_new */
/*
 * Images in pieces are mirrored on the next node. Nodes are lost, with all that
 * their launchers held; ranks die in the middle of a transfer; images are
 * damaged; the link is slow or breaks; memory is scarce. Whatever is loaded
 * afterwards is compared with what the whole tensors had.
 */
#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_nodes.h"
#include "tests/lib/suite.h"
#include "tests/lib/wrap_comm.h"
#include "worker_rt/comm/cpu.h"
#include "worker_rt/ddp.h"
#include "worker_rt/keeper/keeper.h"

#define SEEDS   24
#define CUT     4 /* the step whose transfer is cut .. */
#define LAST_OF 5 /* .. which begins with this save */

/* -- the communicators of mirrors ------------------------------------------ */

/* Where in a transfer. */
enum point {
    BEFORE_LABEL,
    AFTER_LABEL,
    BEFORE_BODY,
    AFTER_BODY,
    BEFORE_ANSWER, /* the last one */
    AFTER_ANSWER,
    POINTS
};

/* What this rank does there. */
static struct trouble {
    enum {
        SOUND,
        DIES,
        ABORTS,
        FLIPS,
        SLOW,
        MEETS_NOBODY
    } what;
    int side; /* 0: where it sends; 1: where it receives */
    enum point at;
    int transfer; /* the first one in which it does */
    int delay_ms; /* in each piece */
} trouble;

static int made;                /* communicators, with that of the job */
static atomic_int transfers[2]; /* begun, on each side */
static atomic_bool body_came[2];
static const struct comm_ops *sound; /* those of all */

static void nap(int ms)
{
    const struct timespec t = {.tv_sec = ms / 1000,
                               .tv_nsec = ms % 1000 * 1000000L};
    (void)nanosleep(&t, NULL); /* no signal comes */
}

static void
reach(struct ddp_comm *c, const struct comm_call *call, enum point at)
{
    if (trouble.side != c->rank || trouble.at != at ||
        transfers[c->rank] < trouble.transfer)
        return;
    if (trouble.what == DIES)
        (void)raise(SIGKILL);
    if (trouble.what == ABORTS)
        c->ops->abort(c);
    if (trouble.what == FLIPS && transfers[c->rank] == trouble.transfer)
        ((uint8_t *)call->out)[comm_call_len(call) / 2] ^= 1;
    if (trouble.what == SLOW)
        nap(trouble.delay_ms);
}

static int mirror_call(struct ddp_comm *c,
                       const struct comm_call *call,
                       struct ddp_err *err)
{
    bool label = comm_call_len(call) == sizeof(struct slot_label);
    bool body = call->root == 0 && !label;
    atomic_bool *came = &body_came[c->rank];
    if (label)
        transfers[c->rank]++;
    *came = body || (*came && !label);
    enum point at = label ? BEFORE_LABEL : body ? BEFORE_BODY : BEFORE_ANSWER;
    bool counts = call->root == 0 || *came;
    if (counts)
        reach(c, call, at);
    int rc = sound->call(c, call, err);
    if (counts && rc == 0)
        reach(c, call, (enum point)(at + 1));
    return rc;
}

struct ddp_comm *__wrap_comm_cpu_new(const struct comm_place *place,
                                     struct store_client *store,
                                     int64_t deadline_us,
                                     struct ddp_err *err)
{
    static struct comm_ops watched;
    if (made > 0 && trouble.what == MEETS_NOBODY &&
        trouble.side == place->rank) {
        (void)ddp_err_set(err, DDP_E_NOMEM, "no memory for a communicator");
        return NULL;
    }
    struct ddp_comm *c = __real_comm_cpu_new(place, store, deadline_us, err);
    if (made++ == 0 || c == NULL || place->world > 2)
        return c;
    sound = wrap_calls(c, &watched, mirror_call);
    return c;
}

/* -- ranks ----------------------------------------------------------------- */

/* What ranks tell the test. */
static struct told {
    _Atomic int64_t mirrored; /* the newest step that was */
    _Atomic int64_t skipped;
    _Atomic int64_t slowest_us; /* save */
    _Atomic int64_t loaded;
    _Atomic int64_t round; /* of what was loaded */
    _Atomic int silent;    /* ranks that know of nothing wrong with mirrors */
    char why[512]; /* of rank 0: see struct ddp_kept; or what is wrong */
} * told;

static void make(void)
{
    nodes_make();
    told = rt_shared(sizeof(*told));
}

/* What this rank sends is there, or came to nothing. */
static void wait_sent(const struct rank *r)
{
    struct ddp_err why;
    for (int i = 0; r->k->mirrors.way != NULL &&
                    mirror_look(r->k->mirrors.way, &why) == MIRROR_BUSY;
         i++) {
        RT_CHECK(i < 2000 * suite_slow());
        nap(5);
    }
}

/* In round 1; each of them is mirrored before the next. */
static void save_all(struct rank *r, int first, int last)
{
    for (int step = first; step <= last; step++) {
        rank_save(r, step);
        wait_sent(r);
    }
}

static void tell(struct rank *r)
{
    const char *why = ddp_keeper_no_mirrors(r->k);
    atomic_store(&told->mirrored, ddp_keeper_mirrored(r->k));
    atomic_store(&told->skipped, ddp_keeper_skipped(r->k));
    if (why[0] == '\0')
        (void)atomic_fetch_add(&told->silent, 1);
    else
        (void)snprintf(told->why, sizeof(told->why), "%s", why); /* fits */
}

static int saves(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    save_all(r, 1, LAST_OF);
    RT_OK(ddp_comm_barrier(r->comm, &r->e), r->e);
    tell(r);
    rank_stop(r);
    return 0;
}

/* Whatever step is loaded, it is right. */
static int loads(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    int rc = rank_load(r);
    if (rc != 0)
        rt_wrong(__FILE__, __LINE__, "load", r->e.text);
    RT_CHECK(pieces_right(&r->pieces, r->info.step));
    if (rank == 0) {
        atomic_store(&told->loaded, r->info.step);
        atomic_store(&told->round, r->info.round);
        memcpy(told->why, r->info.why, sizeof(told->why));
    }
    RT_OK(ddp_comm_barrier(r->comm, &r->e), r->e);
    rank_stop(r);
    return 0;
}

static int64_t load_now(void)
{
    world_runs(loads, NULL);
    return atomic_load(&told->loaded);
}

/* The slot of a part of a node's memory with that step, from `first` on; -1: it
 * is not there. Bytes of it change with `damages`. */
static int
find(int node, int part, int parts, int first, int64_t step, bool damages)
{
    struct mem_slots m;
    struct ddp_err err;
    struct slot_label label;
    int found = -1;
    ck_assert_int_eq(mem_slots_open(&m, node_memory[node], part, parts, &err),
                     0);
    for (int i = first; found < 0 && i < m.count; i++)
        if (mem_slots_read(&m, i, &label) && label.step == step)
            found = i;
    if (found >= 0 && damages)
        mem_slots_image(&m, found)[label.len - 60] ^= 1;
    mem_slots_close(&m);
    return found;
}

static bool has_mirror(int node, int part, int parts, int64_t step)
{
    return find(node, part, parts, SNAPSHOT_SLOTS_OWN, step, false) >= 0;
}

/* -- lost nodes ------------------------------------------------------------ */

/* Alike, and unlike: a rank keeps mirrors of one, of two, of five. */
static const struct shape {
    int nodes, each[NODES];
} shapes[] = {{2, {1, 1}},    {2, {2, 2}},          {2, {3, 3}},
              {3, {1, 1, 1}}, {3, {2, 2, 2}},       {4, {1, 1, 1, 1}},
              {2, {2, 1}},    {5, {1, 1, 1, 1, 1}}, {2, {1, 5}},
              {3, {1, 3, 2}}, {3, {4, 1, 1}},       {4, {2, 1, 2, 1}}};
#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

/* Of the five steps the fourth is on two nodes when the fifth is not: whichever
 * node goes, one step is lost. */
TEST_LOOP(test_mirrors_of_a_lost_node_are_loaded, 0, SHAPES)
{
    const struct shape *s = &shapes[_i];
    for (int lost = 0; lost < s->nodes; lost++) {
        world = (struct nodes_world){
            .nodes = s->nodes, .each = s->each, .kind = PIECES_SHARDED};
        world_runs(saves, NULL);
        ck_assert_int_eq(atomic_load(&told->mirrored), LAST_OF - 2);
        ck_assert_int_eq(atomic_load(&told->skipped), 0);
        ck_assert_int_eq(atomic_load(&told->silent),
                         nodes_ranks() * (lost + 1));
        nodes_lose(lost);
        ck_assert_int_eq(load_now(), LAST_OF - 1);
        ck_assert_ptr_nonnull(strstr(told->why, "step 5: "));
        for (int i = 0; i < s->nodes; i++)
            nodes_lose(i);
    }
}

/* A node with one neighbour less: the ranks that are left load all of it. So
 * does one rank that has the mirrors of two. */
TEST(test_mirrors_of_a_lost_node_are_loaded_by_fewer)
{
    world =
        (struct nodes_world){.nodes = 3, .local = 2, .kind = PIECES_SHARDED};
    world_runs(saves, NULL);
    nodes_lose(2);
    world.nodes = 2;
    ck_assert_int_eq(load_now(), LAST_OF - 1);
}

TEST(test_mirrors_of_a_larger_node_are_loaded_by_one_rank)
{
    static const int each[] = {1, 2};
    world =
        (struct nodes_world){.nodes = 2, .each = each, .kind = PIECES_SHARDED};
    world_runs(saves, NULL);
    nodes_lose(1);
    world.nodes = 1;
    ck_assert_int_eq(load_now(), LAST_OF - 1);
}

/* Two nodes side by side are too many; what is left is no step. */
TEST(test_mirrors_are_lost_with_the_node_that_has_them)
{
    world =
        (struct nodes_world){.nodes = 3, .local = 1, .kind = PIECES_SHARDED};
    world_runs(saves, NULL);
    nodes_lose(1);
    nodes_lose(2);
    world.step = -1;
    world.why = "rank 1";
    world_loads();
}

static int64_t draw(struct rng *r, int64_t below)
{
    return (int64_t)rng_below(r, (uint32_t)below);
}

/* Saves at a pace of its own, and ends at any moment. */
static int saves_at_random(int rank, void *arg)
{
    struct rng rng;
    const int *seed = arg;
    rng_init(&rng, (uint64_t)*seed);
    int last = 3 + (int)draw(&rng, 12);
    if (draw(&rng, 2) == 0)
        trouble = (struct trouble){.what = SLOW,
                                   .side = 1,
                                   .at = BEFORE_BODY,
                                   .delay_ms = (int)draw(&rng, 20)};
    struct rank *r = rank_start(rank);
    for (int step = 1; step <= last; step++) {
        rank_save(r, step);
        nap((int)draw(&rng, 10));
    }
    RT_OK(ddp_comm_barrier(r->comm, &r->e), r->e);
    tell(r);
    rank_stop(r);
    return 0;
}

/* What is said to be on two nodes is, whatever the pieces are. */
TEST_LOOP(test_mirrors_that_are_promised_are_there, 0, SEEDS)
{
    struct rng rng;
    int seed = _i;
    rng_init(&rng, (uint64_t)_i + 1000);
    const struct shape *s = &shapes[draw(&rng, SHAPES)];
    world =
        (struct nodes_world){.nodes = s->nodes,
                             .each = s->each,
                             .kind = _i % 3 == 0 ? PIECES_SHARDED : PIECES_ANY,
                             .seed = (uint64_t)_i};
    world_runs(saves_at_random, &seed);
    int64_t promised = atomic_load(&told->mirrored);
    ck_assert_int_eq(atomic_load(&told->silent), nodes_ranks());
    if (promised < 0)
        return; /* it was too slow to promise anything */
    nodes_lose((int)draw(&rng, s->nodes));
    ck_assert_int_ge(load_now(), promised);
}

/* -- copies ---------------------------------------------------------------- */

/* What two nodes have anyway is not sent: nobody even meets. */
static int saves_copies(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    for (int step = 1; step <= LAST_OF; step++) {
        rank_save(r, step);
        RT_CHECK(ddp_keeper_mirrored(r->k) == (step > 1 ? step - 1 : -1));
    }
    RT_CHECK(made == 1 && r->k->mirrors.way == NULL);
    RT_CHECK(ddp_keeper_no_mirrors(r->k)[0] == '\0');
    rank_stop(r);
    return 0;
}

CASE("copies", .limit_s = 60, FIXTURE(make, nodes_drop))

TEST_LOOP(test_mirrors_of_copies_are_not_sent, 0, 2)
{
    world = (struct nodes_world){.nodes = 2, .local = 2, .kind = PIECES_COPIED};
    world_runs(saves_copies, NULL);
    nodes_lose(_i);
    ck_assert_int_eq(load_now(), LAST_OF);
}

/* One node, or the program wants one copy: no mirrors, and nothing is wrong. */
static int saves_without(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    for (int step = 1; step <= LAST_OF; step++)
        rank_save(r, step);
    RT_CHECK(made == 1 && ddp_keeper_mirrored(r->k) == -1);
    RT_CHECK(ddp_keeper_no_mirrors(r->k)[0] == '\0');
    rank_stop(r);
    return 0;
}

TEST_LOOP(test_mirrors_are_not_made_where_they_make_no_sense, 0, 2)
{
    world = (struct nodes_world){
        .nodes = 1 + _i, .local = 2, .copies = _i, .kind = PIECES_SHARDED};
    world_runs(saves_without, NULL);
    ck_assert_int_eq(load_now(), LAST_OF);
}

/* -- transfers that are cut ------------------------------------------------ */

/* Rank `dies` does so on that side. */
struct cut {
    int dies;
    int side;
    enum point at;
};

static int saves_and_dies(int rank, void *arg)
{
    const struct cut *c = arg;
    if (rank == c->dies)
        trouble = (struct trouble){
            .what = DIES, .side = c->side, .at = c->at, .transfer = CUT};
    struct rank *r = rank_start(rank);
    save_all(r, 1, LAST_OF - 1);
    rank_save(r, LAST_OF);
    nap(rank == c->dies ? 10000 : 300 * suite_slow());
    rank_stop(r); /* the others do not get further either */
    return 0;
}

CASE("trouble", .limit_s = 60, FIXTURE(make, nodes_drop))

/* The sender dies, and its node is lost; or the receiver dies, and the sender's
 * node is lost. The mirror before is whole, or the new one, never neither. */
TEST_LOOP(test_mirrors_outlive_a_transfer_that_is_cut, 0, 2 * POINTS)
{
    pid_t pids[2];
    struct cut c = {.side = _i / POINTS, .at = (enum point)(_i % POINTS)};
    if (c.side == 1 && c.at == BEFORE_LABEL)
        return; /* there it always is, between two transfers */
    c.dies = c.side == 0 ? 1 : 0; /* rank 1 sends to rank 0 */
    world =
        (struct nodes_world){.nodes = 2, .local = 1, .kind = PIECES_SHARDED};
    pid_t store = rt_world_start(2, saves_and_dies, &c, pids);
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(rt_wait(pids[r], NODES_WAIT),
                         r == c.dies ? 128 + SIGKILL : 0);
    rt_kill(store);
    ck_assert(has_mirror(0, 0, 1, CUT - 1));
    nodes_lose(1);
    int64_t step = load_now();
    bool sent = c.at >= AFTER_BODY; /* the rest is the receiver's */
    if (c.side == 1)
        ck_assert_int_eq(step, c.at >= BEFORE_ANSWER ? CUT : CUT - 1);
    else if (sent)
        ck_assert(step == CUT || step == CUT - 1);
    else
        ck_assert_int_eq(step, CUT - 1);
}

/* -- damage ---------------------------------------------------------------- */

/* The newest is not mirrored yet; the one before is: its mirror is loaded if
 * the image itself is damaged, and nothing else is given up for that. */
TEST_LOOP(test_mirrors_replace_a_damaged_image, 0, 2)
{
    world =
        (struct nodes_world){.nodes = 2, .local = 1, .kind = PIECES_SHARDED};
    world_runs(saves, NULL);
    ck_assert_int_ge(find(1, 0, 1, 0, LAST_OF, true), 0);
    ck_assert_int_lt(find(1, 0, 1, 0, LAST_OF - 1, true), SNAPSHOT_SLOTS_OWN);
    if (_i == 1) /* that of rank 1 lies on node 0 */
        ck_assert_int_ge(find(0, 0, 1, SNAPSHOT_SLOTS_OWN, LAST_OF - 1, true),
                         0);
    ck_assert_int_eq(load_now(), LAST_OF - 1 - _i);
    ck_assert_ptr_nonnull(strstr(told->why, "step 5 in memory of rank 1: "));
}

/* A bit that changes on the way: no label, and the next one is sent. */
static int saves_and_flips(int rank, void *arg)
{
    const struct trouble *t = arg;
    if (rank == 1)
        trouble = *t;
    struct rank *r = rank_start(rank);
    save_all(r, 1, 3);
    RT_CHECK(ddp_keeper_mirrored(r->k) == 1);
    save_all(r, 4, 4);
    RT_CHECK(ddp_keeper_mirrored(r->k) == 1);
    rank_save(r, 5);
    RT_CHECK(ddp_keeper_mirrored(r->k) == 3);
    RT_CHECK(ddp_keeper_no_mirrors(r->k)[0] == '\0');
    RT_OK(ddp_comm_barrier(r->comm, &r->e), r->e);
    rank_stop(r);
    return 0;
}

TEST(test_mirrors_that_came_damaged_are_not_kept)
{
    struct trouble t = {
        .what = FLIPS, .side = 1, .at = AFTER_BODY, .transfer = 2};
    world =
        (struct nodes_world){.nodes = 2, .local = 1, .kind = PIECES_SHARDED};
    world_runs(saves_and_flips, &t);
    ck_assert(!has_mirror(1, 0, 1, 2));
    nodes_lose(0);
    ck_assert_int_ge(load_now(), 3);
}

/* -- the end of mirrors ---------------------------------------------------- */

/* A connection breaks in the third transfer: the next save ends all of it. */
static int saves_after_a_break(int rank, void *arg)
{
    const struct trouble *t = arg;
    if (rank == 1)
        trouble = *t;
    struct rank *r = rank_start(rank);
    save_all(r, 1, 8);
    RT_CHECK(ddp_keeper_mirrored(r->k) == -1);
    RT_CHECK(ddp_keeper_skipped(r->k) == 0 && r->k->mirrors.way == NULL);
    RT_CHECK(ddp_keeper_no_memory(r->k)[0] == '\0');
    RT_OK(ddp_comm_barrier(r->comm, &r->e), r->e);
    tell(r);
    rank_stop(r);
    return 0;
}

TEST_LOOP(test_mirrors_that_break_do_not_stop_saves, 0, 4)
{
    struct trouble t = {.what = ABORTS,
                        .side = _i / 2,
                        .at = _i % 2 == 0 ? BEFORE_LABEL : BEFORE_BODY,
                        .transfer = 3};
    world =
        (struct nodes_world){.nodes = 3, .local = 1, .kind = PIECES_SHARDED};
    world_runs(saves_after_a_break, &t);
    ck_assert_int_eq(atomic_load(&told->silent), 0);
    ck_assert_ptr_nonnull(strstr(told->why, "aborted"));
    for (int node = 0; node < 3; node++) /* nor do they take memory any more */
        for (int step = 1; step <= 8; step++)
            ck_assert(!has_mirror(node, 0, 1, step));
    ck_assert_int_eq(load_now(), 8);
}

/* A rank cannot meet that to which it sends, or from which it receives: nobody
 * waits for it until the deadline, and there are no mirrors. */
TEST_LOOP(test_mirrors_that_cannot_begin_do_not_stop_saves, 0, 2)
{
    struct trouble t = {.what = MEETS_NOBODY, .side = _i};
    world =
        (struct nodes_world){.nodes = 3, .local = 1, .kind = PIECES_SHARDED};
    world_runs(saves_after_a_break, &t);
    ck_assert_int_eq(atomic_load(&told->silent), 0);
    ck_assert_str_ne(told->why, "");
    ck_assert_int_eq(load_now(), 8);
}

/* -- too little memory ----------------------------------------------------- */

static uint64_t image_len_of(int node)
{
    struct mem_slots m;
    struct ddp_err err;
    struct slot_label label = {.len = 0};
    ck_assert_int_eq(mem_slots_open(&m, node_memory[node], 0, 1, &err), 0);
    for (int i = 0; i < SNAPSHOT_SLOTS_OWN; i++)
        (void)mem_slots_read(&m, i, &label);
    mem_slots_close(&m);
    return label.len;
}

static void give(int node, uint64_t allowed)
{
    ck_assert_int_eq(ftruncate(node_memory[node], 0), 0);
    ck_assert_int_eq(
        ftruncate(node_memory[node], (off_t)snapshot_slots_length(allowed)), 0);
}

static uint64_t taken(int node)
{
    struct stat st;
    ck_assert_int_eq(fstat(node_memory[node], &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* Node 1 has room for three images, but for no mirrors beside them, of a rank
 * or of two: all ranks say what is missing there and how much it takes, and all
 * else goes on within what the node may take. With so much there are mirrors.
 */
TEST_LOOP(test_mirrors_without_room_say_how_much_it_takes, 0, 2)
{
    unsigned long long mib;
    const int each[] = {1 + _i, 1};
    world =
        (struct nodes_world){.nodes = 2, .each = each, .kind = PIECES_SHARDED};
    world_runs(saves, NULL);
    uint64_t allowed = 3 * mem_slots_need(image_len_of(1)) + 4096;
    give(1, allowed);
    world_runs(saves, NULL);
    ck_assert_int_eq(atomic_load(&told->mirrored), -1);
    ck_assert_int_eq(atomic_load(&told->silent),
                     nodes_ranks()); /* of the first world */
    const char *at = strstr(told->why, "--snapshot_memory=");
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(sscanf(at, "--snapshot_memory=%lluM", &mib), 1);
    ck_assert_uint_le(taken(1), allowed);
    ck_assert_int_eq(load_now(), LAST_OF);
    give(1, mib << 20);
    world_runs(saves, NULL);
    ck_assert_int_eq(atomic_load(&told->mirrored), LAST_OF - 2);
    ck_assert_uint_le(taken(1), mib << 20);
}

/* -- a slow link ----------------------------------------------------------- */

/* A transfer takes as long as ten steps: the sender rests as long as it sent.
 */
static int saves_over_a_slow_link(int rank, void *arg)
{
    (void)arg;
    trouble = (struct trouble){
        .what = SLOW, .side = 1, .at = BEFORE_BODY, .delay_ms = 100};
    struct rank *r = rank_start(rank);
    rank_save(r, 1);
    rank_save(r, 2); /* they meet */
    int64_t slowest_us = 0;
    for (int step = 3; step <= 40; step++) {
        int64_t began_us = mono_now_us();
        rank_save(r, step);
        int64_t took_us = mono_now_us() - began_us;
        slowest_us = took_us > slowest_us ? took_us : slowest_us;
        nap(20);
    }
    RT_OK(ddp_comm_barrier(r->comm, &r->e), r->e);
    tell(r);
    if (rank == 0)
        atomic_store(&told->slowest_us, slowest_us);
    rank_stop(r);
    return 0;
}

/* No save waits for it: some are skipped, the same on all ranks. */
TEST(test_mirrors_over_a_slow_link_block_no_save)
{
    world =
        (struct nodes_world){.nodes = 2, .local = 1, .kind = PIECES_SHARDED};
    world_runs(saves_over_a_slow_link, NULL);
    int64_t promised = atomic_load(&told->mirrored);
    printf("check_keeper_mirrors: %lld of 40 saves skipped, the slowest took "
           "%.1f ms, step %lld is mirrored\n",
           (long long)atomic_load(&told->skipped),
           (double)atomic_load(&told->slowest_us) / 1000, (long long)promised);
    ck_assert_int_gt(atomic_load(&told->skipped), 0);
    ck_assert_int_lt(atomic_load(&told->skipped), 38);
    ck_assert_int_lt(atomic_load(&told->slowest_us), 150000 * suite_slow());
    ck_assert_int_gt(promised, 10);
    nodes_lose(0);
    ck_assert_int_ge(load_now(), promised);
}

/* Nothing comes through. A save to the disk is not skipped all the same. */
static int saves_to_disk(int rank, void *arg)
{
    (void)arg;
    trouble = (struct trouble){.what = SLOW,
                               .side = 1,
                               .at = BEFORE_BODY,
                               .transfer = 2,
                               .delay_ms = 3000};
    struct rank *r = rank_start(rank);
    save_all(r, 1, 2);
    for (int step = 3; step <= 9; step++)
        rank_save(r, step);
    RT_CHECK(ddp_keeper_saved(r->k) == 9 && ddp_keeper_skipped(r->k) == 0);
    rank_stop(r);
    return 0;
}

TEST(test_mirrors_over_a_slow_link_skip_no_file)
{
    world = (struct nodes_world){
        .nodes = 2, .local = 1, .where = ONE_FOLDER, .kind = PIECES_SHARDED};
    world_runs(saves_to_disk, NULL);
    ck_assert_int_eq(load_now(), 9);
}

/* -- rounds ---------------------------------------------------------------- */

static void run_round(rt_rank_fn *fn, int round)
{
    pid_t pids[NODES_RANKS];
    uint16_t port;
    int n = nodes_ranks();
    pid_t store = rt_store_start(&port);
    for (int i = 0; i < n; i++)
        pids[i] = rt_rank_start(i, n, port, round, fn, NULL);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(rt_wait(pids[i], NODES_WAIT), 0);
    rt_kill(store);
}

/* Loads what is left, and saves more; nothing of it reaches another node. */
static int goes_on(int rank, void *arg)
{
    (void)arg;
    trouble = (struct trouble){
        .what = SLOW, .side = 1, .at = BEFORE_LABEL, .delay_ms = 3000};
    struct rank *r = rank_start(rank);
    RT_OK(rank_load(r), r->e);
    RT_CHECK(r->info.step == LAST_OF - 1);
    for (int step = LAST_OF; step < LAST_OF + 6; step++)
        rank_save(r, step);
    RT_CHECK(ddp_keeper_mirrored(r->k) == -1);
    RT_CHECK(ddp_keeper_skipped(r->k) > 0);
    rank_stop(r);
    return 0;
}

CASE("lost")

/* A node is lost again and again before its new worker's images are mirrored:
 * what the others have of the step before stays until then. */
TEST(test_mirrors_are_kept_until_there_are_others)
{
    world =
        (struct nodes_world){.nodes = 2, .local = 2, .kind = PIECES_SHARDED};
    run_round(saves, 1);
    for (int round = 2; round < 5; round++) {
        nodes_lose(1);
        run_round(goes_on, round);
    }
    nodes_lose(1);
    run_round(saves, 5); /* from the beginning, and mirrored */
    nodes_lose(1);
    run_round(loads, 6);
    ck_assert_int_eq(atomic_load(&told->loaded), LAST_OF - 1);
    ck_assert_int_eq(atomic_load(&told->round), 5);
}

SUITE("keeper_mirrors", "lost", .limit_s = 60, FIXTURE(make, nodes_drop))
