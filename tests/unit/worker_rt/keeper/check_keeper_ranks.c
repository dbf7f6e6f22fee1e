/* links: tests/lib/{scratch,rt_world,rt_comm,rt_keeper} worker_rt/sampler */
/* libs: -luv -lcjson -lxxhash */
/*
 * The keeper of several ranks: what one of them saved comes back on all, from
 * whichever has it, and on as many ranks as there are then.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

/* -- peers ----------------------------------------------------------------- */

/* This rank is a node of its own. */
static void alone_on_node(int rank)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", rank); /* fits */
    RT_CHECK(setenv("LOCAL_RANK", "0", 1) == 0);
    RT_CHECK(setenv("LOCAL_WORLD_SIZE", "1", 1) == 0);
    RT_CHECK(setenv("GROUP_RANK", text, 1) == 0);
}

static struct worker *start_node(int rank, bool shared)
{
    char folder[16] = "s";
    alone_on_node(rank);
    if (!shared)
        (void)snprintf(folder, sizeof(folder), "s%d", rank); /* fits */
    struct ddp_keeper_conf conf = {.folder = folder};
    return worker_start(&conf);
}

/* One node whose workers all have LOCAL_RANK 0, as --virtual_local_rank makes
 * them. Told who is who, each has its part of the memory; else one of them has
 * the first part, and the others say that it is taken. */
static int share_memory(int rank, void *arg)
{
    const bool *told = arg;
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", rank); /* fits */
    RT_CHECK(setenv("LOCAL_RANK", "0", 1) == 0);
    RT_CHECK(!*told || setenv("DDP_LOCAL_RANK", text, 1) == 0);
    struct ddp_error e;
    struct worker *w = worker_start(&in_memory);
    int64_t taken = strcmp(ddp_keeper_no_memory(w->k),
                           "another process of this node uses it: is "
                           "LOCAL_RANK the same in two workers?") == 0;
    RT_CHECK(taken || *ddp_keeper_no_memory(w->k) == '\0');
    RT_OK(ddp_comm_allreduce(w->comm, &taken, 1, DDP_I64, &e), e);
    RT_CHECK(taken == (*told ? 0 : 2));
    worker_stop(w);
    return 0;
}

TEST_LOOP(test_keeper_memory_has_one_writer, 0, 2)
{
    bool told = _i == 1;
    with_memory(true);
    rt_world_run(3, share_memory, &told, 10000);
}

/* Four nodes, one folder: one of them writes. */
static int share_folder(int rank, void *arg)
{
    (void)arg;
    struct worker *w = start_node(rank, true);
    RT_CHECK(worker_load(w) == -1 && w->e.code == DDP_ERR_NOINPUT);
    for (int step = 1; step <= 5; step++)
        RT_OK(worker_save(w, step, true), w->e);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    RT_CHECK(ddp_keeper_saved(w->k) == 5);
    RT_OK(ddp_comm_barrier(w->comm, &w->e), w->e);
    RT_CHECK(worker_load(w) == 5 && w->info.rank == 0);
    worker_stop(w);
    return 0;
}

TEST(test_keeper_shared_folder_has_one_writer)
{
    rt_world_run(4, share_folder, NULL, 10000);
    ck_assert_int_eq(system("test $(ls s/step-*5.r*/ | wc -l) = 1"), 0);
    ck_assert_int_eq(count_snapshots("s"), 2 + 1);
}

/* Each node its own folder: ranks 0 and 1 lose the newest file, then rank 2
 * loses all. */
static int own_folders(int rank, void *arg)
{
    const int *part = arg;
    struct worker *w = start_node(rank, false);
    if (*part == 0) {
        for (int step = 1; step <= 6; step++)
            RT_OK(worker_save(w, step, true), w->e);
        RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
        RT_CHECK(ddp_keeper_saved(w->k) == 6);
    } else {
        RT_CHECK(worker_load(w) == (*part == 1 ? 6 : 5));
        RT_CHECK(w->info.rank == (*part == 1 ? 2 : 0));
    }
    worker_stop(w);
    return 0;
}

static void lose_newest(void)
{
    ck_assert_int_eq(system("rm -r s[01]/step-000000000006.r1.01234567"), 0);
}

TEST(test_keeper_newest_of_any_peer_is_taken)
{
    for (int part = 0; part < 3; part++) {
        if (part == 1)
            lose_newest();
        if (part == 2) /* that machine comes back with an empty disk */
            ck_assert_int_eq(system("rm -r s2"), 0);
        rt_world_run(3, own_folders, &part, 10000);
    }
}

/* The newest is damaged on its node: all take the next one and say why. */
static int damaged_peer(int rank, void *arg)
{
    (void)arg;
    struct worker *w = start_node(rank, false);
    RT_CHECK(worker_load(w) == 5);
    RT_CHECK(strstr(w->info.why, "/step-000000000006.r1.01234567/shard-00003-"
                                 "of-00003.safetensors of rank 2: ") != NULL);
    worker_stop(w);
    return 0;
}

TEST(test_keeper_damaged_peer_is_passed_over)
{
    int part = 0;
    rt_world_run(3, own_folders, &part, 10000);
    lose_newest();
    damage_file("s2/step-000000000006.r1.01234567/"
                "shard-00003-of-00003.safetensors",
                9000);
    rt_world_run(3, damaged_peer, NULL, 10000);
}

/* -- another number of ranks ----------------------------------------------- */

#define SAMPLES 1200
#define BATCH   4

/* How often each sample was taken; and how many steps a world takes. */
struct epoch {
    _Atomic int seen[SAMPLES];
    int steps; /* 0: to the end */
};

static int train_part(int rank, void *arg)
{
    struct epoch *ep = arg;
    uint32_t index[BATCH];
    struct worker *w = start_node(rank, false);
    struct ddp_sampler_conf conf = {.samples = SAMPLES,
                                    .rank = rank,
                                    .world = ddp_world(w->d),
                                    .seed = 3,
                                    .shuffle = true};
    struct ddp_sampler *s = ddp_sampler_new(&conf, &w->e);
    RT_CHECK(s != NULL);
    int64_t at = worker_load(w);
    RT_OK(ddp_sampler_seek(s, 0, at < 0 ? 0 : at, &w->e), w->e);
    for (int step = 0; ep->steps == 0 || step < ep->steps; step++) {
        size_t n = ddp_sampler_next(s, index, BATCH);
        if (n == 0)
            break;
        for (size_t i = 0; i < n; i++)
            (void)atomic_fetch_add(&ep->seen[index[i]], 1);
        /* The place in the epoch is the state, in samples. */
        RT_OK(worker_save(w, ddp_sampler_position(s), true), w->e);
    }
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    ddp_sampler_free(s);
    worker_stop(w);
    return 0;
}

/* 4, 2, 3 and 4 ranks, one after the other: no sample is lost, none is taken
 * twice. New ranks have empty disks. */
TEST(test_keeper_reshards_without_losing_a_sample)
{
    static const int worlds[] = {4, 2, 3, 4};
    static const int steps[] = {11, 17, 23, 0};
    struct epoch *ep = rt_shared(sizeof(*ep));
    int64_t taken = 0;
    for (int i = 0; i < 4; i++) {
        ep->steps = steps[i];
        rt_world_run(worlds[i], train_part, ep, 10000);
        taken += (int64_t)worlds[i] * steps[i] * BATCH;
    }
    ck_assert_int_eq((SAMPLES - taken) % 4, 0); /* so nothing is filled up */
    for (int i = 0; i < SAMPLES; i++)
        ck_assert_int_eq(atomic_load(&ep->seen[i]), 1);
}

SUITE("keeper_ranks",
      "peers",
      .limit_s = 60,
      FIXTURE(keeper_place, keeper_leave))
