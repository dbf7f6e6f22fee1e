/* links: tests/lib/{scratch,rt_world,rt_comm,rt_nodes,rt_keeper,rt_pieces} */
/* libs: -luv -lcjson -lxxhash */
/*
 * Round after round, ranks that save pieces are killed at any moment, those of
 * the next round load what is left and go on with other pieces. The job never
 * loses more than one saved step, as long as the nodes are there; and if one is
 * lost, it goes on from what is on the disk.
 */
#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_nodes.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

#define ROUNDS    30
#define DISK_EACH 3 /* steps */
#define SLOW_MS   20000

/* What ranks tell the test; shared. */
static struct told {
    _Atomic int64_t loaded;   /* -1: not yet */
    _Atomic int64_t returned; /* the last step whose save has returned, and was
                               * not skipped for mirrors .. */
    _Atomic int64_t before;   /* .. and the one before it */
    _Atomic int64_t written;  /* the last that this rank wrote to the disk */
} * told;

/* -- a rank ---------------------------------------------------------------- */

static int64_t load_some(struct rank *r)
{
    int rc = rank_load(r);
    if (rc != 0) {
        if (r->e.code != DDP_ERR_NOINPUT)
            rt_wrong(__FILE__, __LINE__, "a load", r->e.text);
        return 0;
    }
    int64_t said, own = r->info.step;
    size_t len;
    RT_CHECK(pieces_right(&r->pieces, own));
    RT_OK(ddp_kv_get_i64(&r->kv, &said, &r->e), r->e);
    const void *state = ddp_keeper_rank_state(r->k, ddp_rank(r->d), &len);
    RT_CHECK(said == own && len == sizeof(own));
    RT_CHECK(memcmp(state, &own, sizeof(own)) == 0);
    return own;
}

/* Until it is killed, or sees that others are. */
static int work(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    struct rng rng;
    int64_t step = load_some(r), skipped = 0;
    told[rank].before = told[rank].returned = step;
    told[rank].loaded = step;
    rng_init(&rng, world.seed * NODES_RANKS + (uint64_t)rank);
    for (step++;; step++) {
        pieces_fill(&r->pieces, step);
        ddp_kv_set_i64(&r->kv, "step", step);
        RT_OK(ddp_keeper_set_rank_state(r->k, &step, sizeof(step), &r->e),
              r->e);
        if (ddp_keeper_save_pieces(r->k, step, r->pieces.list, r->pieces.n,
                                   &r->kv, 1, step % DISK_EACH == 0,
                                   &r->e) != 0)
            break;
        if (ddp_keeper_skipped(r->k) == skipped) {
            told[rank].before = told[rank].returned;
            told[rank].returned = step;
        }
        skipped = ddp_keeper_skipped(r->k);
        told[rank].written = ddp_keeper_saved(r->k);
        (void)usleep(rng_below(&rng, 3000));
    }
    RT_CHECK(r->e.code == DDP_ERR_PEER);
    (void)pause();
    return 1;
}

/* -- the test -------------------------------------------------------------- */

static int64_t least_before(int ranks)
{
    int64_t least = told[0].before;
    for (int r = 1; r < ranks; r++)
        least = told[r].before < least ? told[r].before : least;
    return least;
}

static int64_t least_written(int ranks)
{
    int64_t least = told[0].written;
    for (int r = 1; r < ranks; r++)
        least = told[r].written < least ? told[r].written : least;
    return least;
}

static void wait_loaded(int ranks)
{
    for (int r = 0; r < ranks; r++)
        for (int ms = 0; told[r].loaded < 0; ms++) {
            ck_assert_int_lt(ms, SLOW_MS * suite_slow());
            (void)usleep(1000);
        }
}

/* All of them, some a little before the others. */
static void kill_all(struct rng *r, const pid_t *pids, int ranks)
{
    (void)usleep(rng_below(r, 60000));
    int first = (int)rng_below(r, (uint32_t)ranks);
    ck_assert_int_eq(kill(pids[first], SIGKILL), 0);
    (void)usleep(rng_below(r, 10000));
    for (int i = 0; i < ranks; i++)
        rt_kill(pids[i]);
}

/* The step that the round began with. */
static int64_t play_round(struct rng *r, int round)
{
    pid_t pids[NODES_RANKS];
    uint16_t port;
    int ranks = world.nodes * world.local;
    pid_t store = rt_store_start(&port);
    for (int i = 0; i < ranks; i++) {
        told[i].loaded = told[i].written = -1;
        pids[i] = rt_rank_start(i, ranks, port, round, work, NULL);
    }
    wait_loaded(ranks);
    kill_all(r, pids, ranks);
    rt_kill(store);
    for (int i = 1; i < ranks; i++)
        ck_assert_int_eq(told[i].loaded, told[0].loaded);
    return told[0].loaded;
}

TEST_LOOP(test_keeper_rounds_lose_one_step_at_most, 0, 2)
{
    struct rng r;
    int64_t least = 0, on_disk = 0, first = 0;
    rng_init(&r, (uint64_t)_i);
    told = rt_shared(NODES_RANKS * sizeof(*told));
    world = (struct nodes_world){.nodes = 2, .local = 2, .where = ONE_FOLDER};
    for (int round = 1; round <= ROUNDS; round++) {
        world.seed = (uint64_t)(_i * ROUNDS + round);
        int64_t step = play_round(&r, round);
        ck_assert_int_ge(step, least);
        first = step;
        least = least_before(4);
        on_disk = least_written(4) > on_disk ? least_written(4) : on_disk;
        if (on_disk > 0 && rng_below(&r, 5) == 0) {
            nodes_lose((int)rng_below(&r, 2));
            least = on_disk;
        }
    }
    printf("check_keeper_rounds: %lld steps over %d kills\n", (long long)first,
           ROUNDS);
    ck_assert_int_gt(first, ROUNDS);
}

SUITE("keeper_rounds", "kills", .limit_s = 120, FIXTURE(nodes_make, nodes_drop))
