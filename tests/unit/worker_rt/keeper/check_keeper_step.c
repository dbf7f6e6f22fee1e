/* links: tests/lib/{rt_world,rt_comm} RT */
/* libs: -luv -lcjson -lxxhash */
/*
 * What a worker's death costs a job whose ranks train in step: at most the step
 * that some of them had just taken. Ranks of one node take steps together and
 * save each to the launcher's memory; one of them is killed at a random moment.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/snapshot_memory.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

#define WORLD 3
#define KILLS 60
#define ELEMS 21000 /* so that sealing takes as long as a step */
#define PART  (ELEMS / WORLD)

/* What the ranks tell the test. */
static struct told {
    _Atomic int64_t taken; /* the newest step that some rank has taken */
    _Atomic int64_t begun; /* from which this round went on; -1: not yet */
} * told;

enum mode {
    PLAIN,
    VIRTUAL, /* LOCAL_RANK is 0 in all ranks */
    MODES
};

struct state {
    int64_t steps[ELEMS]; /* all of them the step's number */
    struct ddp_tensor tensors[WORLD];
    struct ddp_keeper *keeper;
};

static void note(_Atomic int64_t *most, int64_t step)
{
    int64_t old = atomic_load(most);
    while (old < step && !atomic_compare_exchange_weak(most, &old, step))
        ;
}

/* Goes on from what is there; the step. */
static int64_t resume(struct state *s, struct ddp_error *e)
{
    if (ddp_keeper_load(s->keeper, s->tensors, WORLD, NULL, 0, NULL, e) != 0) {
        RT_CHECK(e->code == DDP_ERR_NOINPUT);
        return 0;
    }
    for (int i = 1; i < ELEMS; i++)
        RT_CHECK(s->steps[i] == s->steps[0]);
    return s->steps[0];
}

/* As --virtual_local_rank shows each worker one GPU, which is number 0. */
static void be_virtual(int rank)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", rank); /* fits */
    RT_CHECK(setenv("DDP_LOCAL_RANK", text, 1) == 0);
    RT_CHECK(setenv("LOCAL_RANK", "0", 1) == 0);
}

/* Steps without end, as ddptrain takes them: gradients, settle, their sum, the
 * optimizer's turn, a save. */
static int train(int rank, void *arg)
{
    static struct state s;
    const enum mode *mode = arg;
    const struct ddp_keeper_conf conf = {.size = sizeof(conf), .later = true};
    static const char *const names[WORLD] = {"a", "b", "c"};
    struct ddp_error e;
    if (*mode == VIRTUAL)
        be_virtual(rank);
    for (int i = 0; i < WORLD; i++)
        s.tensors[i] = (struct ddp_tensor){
            names[i], DDP_I64, 1, {PART}, s.steps + i * PART};
    struct ddp *d = rt_init();
    struct ddp_comm *comm = rt_join(d, 0);
    s.keeper = ddp_keeper_new(d, comm, &conf, &e);
    RT_OK(s.keeper == NULL ? -1 : 0, e);
    int64_t step = resume(&s, &e);
    if (rank == 0)
        atomic_store(&told->begun, step);
    for (;;) {
        ddp_keeper_settle(s.keeper);
        if (ddp_comm_barrier(comm, &e) != 0) {
            RT_CHECK(e.code == DDP_ERR_PEER);
            return 0;
        }
        step++;
        for (int i = 0; i < ELEMS; i++)
            s.steps[i] = step;
        note(&told->taken, step);
        if (ddp_keeper_save(s.keeper, step, s.tensors, WORLD, NULL, 0, false,
                            &e) != 0) {
            RT_CHECK(e.code == DDP_ERR_PEER);
            return 0;
        }
    }
}

/* A round that goes on, and ends with the death of one rank. */
static void one_round(int64_t round, enum mode mode, struct rng *r)
{
    uint16_t port;
    pid_t store = rt_store_start(&port), pids[WORLD];
    atomic_store(&told->begun, -1);
    for (int i = 0; i < WORLD; i++)
        pids[i] = rt_rank_start(i, WORLD, port, round, train, &mode);
    while (atomic_load(&told->begun) < 0)
        (void)usleep(200);
    /* Every other round gets somewhere, however slow the machine is. */
    while (round % 2 == 0 &&
           atomic_load(&told->taken) < atomic_load(&told->begun) + 4)
        (void)usleep(200);
    (void)usleep((useconds_t)rng_below(r, 15000));
    uint32_t victim = rng_below(r, WORLD);
    rt_kill(pids[victim]);
    for (uint32_t i = 0; i < WORLD; i++)
        if (i != victim)
            ck_assert_int_eq(rt_wait(pids[i], 10000), 0);
    rt_kill(store);
}

TEST_LOOP(test_keeper_death_repeats_one_step_at_most, 0, MODES)
{
    struct rng r;
    int64_t repeated = 0;
    rng_init(&r, 5);
    told = rt_shared(sizeof(*told));
    ck_assert_int_eq(snapshot_memory_give(1 << 20), 0);
    int kills = _i == PLAIN ? KILLS : KILLS / 3;
    for (int64_t round = 1; round <= kills; round++) {
        int64_t before = atomic_load(&told->taken);
        one_round(round, (enum mode)_i, &r);
        int64_t lost = before - atomic_load(&told->begun);
        ck_assert_msg(lost == 0 || lost == 1,
                      "step %d was taken, round %d went on from %d",
                      (int)before, (int)round, (int)(before - lost));
        repeated += lost;
    }
    int64_t taken = atomic_load(&told->taken);
    printf("check_keeper_step: %d kills in %d steps, %d of them done twice\n",
           kills, (int)taken, (int)repeated);
    ck_assert_int_gt(taken, kills);
}

SUITE("keeper_step", "kills", .limit_s = 60)
