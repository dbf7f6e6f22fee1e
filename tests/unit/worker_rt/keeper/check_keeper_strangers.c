/* links: tests/lib/{scratch,rt_world,rt_comm,rt_nodes,rt_keeper,rt_pieces} */
/* links: tests/lib/strangers */
/* libs: -luv -lcjson -lxxhash -Wl,--wrap=comm_cpu_new */
/*
 * Mirrors go from rank to rank of a round. Strangers call where ranks listen
 * for each other; a rank sends an image that is not its own of this round.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_nodes.h"
#include "tests/lib/strangers.h"
#include "tests/lib/suite.h"
#include "tests/lib/wrap_comm.h"
#include "worker_rt/comm/cpu.h"
#include "worker_rt/ddp.h"
#include "worker_rt/keeper/keeper.h"

#define KEY   "00112233445566778899aabbccddeeff"
#define SAVES 5
#define LIES  5 /* kinds */

static bool crowded; /* strangers come to each meeting for mirrors first .. */
static int lie = -1; /* .. or this rank lies so of what it sends */
static int made;     /* communicators, with that of the job */
static const struct comm_ops *sound;

/* What ranks tell the test. */
static struct told {
    _Atomic int64_t mirrored, skipped, loaded;
    char why[512]; /* why there are no mirrors; "": there are */
} * told;

static void make(void)
{
    nodes_make();
    told = rt_shared(sizeof(*told));
}

/* -- the communicators of mirrors ------------------------------------------ */

static void lie_in(struct slot_label *l)
{
    int64_t *numbers[] = {&l->round, &l->rank, &l->world, &l->step};
    if (lie == LIES - 1)
        l->instance[0] ^= 1; /* of another job */
    else
        *numbers[lie] = -1 - *numbers[lie];
}

static int lying_call(struct ddp_comm *c,
                      const struct comm_call *call,
                      struct ddp_err *err)
{
    if (c->rank == 0 && call->root == 0 &&
        comm_call_len(call) == sizeof(struct slot_label))
        lie_in(call->out);
    return sound->call(c, call, err);
}

/* To the rank that this one is about to meet; each sort once. */
static void send_strangers(struct store_client *store,
                           const struct comm_place *place)
{
    struct ddp *d =
        (struct ddp *)(void *)((char *)store - offsetof(struct ddp, store));
    char key[128];
    (void)snprintf(key, sizeof(key), "ddp/%s/%lld/comm%u/0", place->instance,
                   (long long)place->round, place->id); /* fits */
    for (int sort = 0; sort < STRANGERS_SORTS; sort++)
        strangers_call(d, key, (enum strangers_sort)sort);
}

struct ddp_comm *__wrap_comm_cpu_new(const struct comm_place *place,
                                     struct store_client *store,
                                     int64_t deadline_us,
                                     struct ddp_err *err)
{
    static struct comm_ops lying;
    bool mirrors = made++ > 0 && place->world == 2;
    if (mirrors && crowded && place->rank == 1)
        send_strangers(store, place);
    struct ddp_comm *c = __real_comm_cpu_new(place, store, deadline_us, err);
    if (c == NULL || !mirrors || lie < 0)
        return c;
    sound = wrap_calls(c, &lying, lying_call);
    return c;
}

/* -- ranks ----------------------------------------------------------------- */

/* What this rank sends is there, or came to nothing. */
static void wait_sent(const struct rank *r)
{
    const struct timespec nap = {.tv_nsec = 5000000};
    struct ddp_err why;
    for (int i = 0; r->k->mirrors.way != NULL &&
                    mirror_look(r->k->mirrors.way, &why) == MIRROR_BUSY;
         i++) {
        RT_CHECK(i < 2000 * suite_slow());
        (void)nanosleep(&nap, NULL); /* no signal comes */
    }
}

/* Each step is mirrored before the next. */
static struct rank *save_all(int rank)
{
    RT_CHECK(setenv("DDP_ROUND_KEY", KEY, 1) == 0);
    struct rank *r = rank_start(rank);
    for (int step = 1; step <= SAVES; step++) {
        rank_save(r, step);
        wait_sent(r);
    }
    RT_OK(ddp_comm_barrier(r->comm, &r->e), r->e);
    if (rank == 0) {
        atomic_store(&told->mirrored, ddp_keeper_mirrored(r->k));
        atomic_store(&told->skipped, ddp_keeper_skipped(r->k));
        (void)snprintf(told->why, sizeof(told->why), "%s", /* fits */
                       ddp_keeper_no_mirrors(r->k));
    }
    return r;
}

static int loads(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    RT_OK(rank_load(r), r->e);
    RT_CHECK(pieces_right(&r->pieces, r->info.step));
    if (rank == 0)
        atomic_store(&told->loaded, r->info.step);
    RT_OK(ddp_comm_barrier(r->comm, &r->e), r->e);
    rank_stop(r);
    return 0;
}

static int save_in_a_crowd(int rank, void *arg)
{
    (void)arg;
    crowded = true;
    struct rank *r = save_all(rank);
    RT_CHECK(strstr(ddp_strangers(r->d), "connections to rank") != NULL);
    rank_stop(r);
    return 0;
}

/* Where the ranks listen for each other strangers call, of each sort: they get
 * nothing, all saves are mirrored as ever, and each rank knows of them. */
TEST(test_mirrors_go_on_among_strangers)
{
    world =
        (struct nodes_world){.nodes = 3, .local = 1, .kind = PIECES_SHARDED};
    world_runs(save_in_a_crowd, NULL);
    ck_assert_str_eq(told->why, "");
    ck_assert_int_eq(atomic_load(&told->mirrored), SAVES - 2);
    ck_assert_int_eq(atomic_load(&told->skipped), 0);
    nodes_lose(1);
    world_runs(loads, NULL);
    ck_assert_int_eq(atomic_load(&told->loaded), SAVES - 1);
}

static int save_beside_a_liar(int rank, void *arg)
{
    const int *how = arg;
    lie = rank == 1 ? *how : -1;
    struct rank *r = save_all(rank);
    rank_stop(r);
    return 0;
}

/* A rank sends what is not its own image of this round: of another job, round
 * or rank. The one that gets it keeps nothing of it, and all say so; each rank
 * has its own images, and no step is mixed of two. */
TEST_LOOP(test_mirrors_of_something_else_are_not_kept, 0, LIES)
{
    world =
        (struct nodes_world){.nodes = 3, .local = 1, .kind = PIECES_SHARDED};
    world_runs(save_beside_a_liar, &_i);
    ck_assert_ptr_nonnull(
        strstr(told->why, "what rank 1 sends is no snapshot of its own"));
    ck_assert_int_eq(atomic_load(&told->mirrored), -1);
    world_runs(loads, NULL);
    ck_assert_int_eq(atomic_load(&told->loaded), SAVES);
}

SUITE("keeper_strangers", "strangers", .limit_s = 60, FIXTURE(make, nodes_drop))
