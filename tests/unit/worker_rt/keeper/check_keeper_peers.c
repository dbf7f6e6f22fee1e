/* links: tests/lib/{scratch,rt_world,rt_comm} RT */
/* libs: -luv -lcjson -lxxhash */
/*
 * A rank that makes no sense while all load a snapshot, and a file that is not
 * what its name says: it is named, and not believed. What a rank can say that
 * is not so: check_keeper_liars.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"
#include "worker_rt/comm/comm.h"
#include "worker_rt/ddp.h"

#define INSTANCE "0123456789abcdef0123456789abcdef"
#define ELEMS    3000
#define WORLD    3
#define RAVER    2

static void make_dir(void)
{
    scratch_enter();
    rt_place(0, 1, 1, 1);
}

/* -- the communicator of one that raves
 * ----------------------------------------------- */

static const struct comm_ops *honest;

/* Says that it failed, and why in words that are no error. */
static int rave(struct ddp_comm *c, struct comm_call call, struct ddp_err *err)
{
    static uint8_t nonsense[sizeof(struct ddp_err)];
    memset(nonsense, 0x1b, sizeof(nonsense));
    call.in = call.out = nonsense;
    (void)honest->call(c, &call, err);
    (void)sleep(1); /* all have it then */
    _exit(0);
}

static int raving_call(struct ddp_comm *c,
                       const struct comm_call *call,
                       struct ddp_err *err)
{
    static const int64_t failed = RAVER;
    struct comm_call lie = *call;
    if (call->kind == WIRE_ALLREDUCE)
        lie.in = &failed; /* the lowest rank that did */
    if (call->kind == WIRE_BROADCAST && call->root == RAVER &&
        comm_call_len(call) == sizeof(struct ddp_err))
        return rave(c, lie, err);
    return honest->call(c, &lie, err);
}

/* -- a rank ---------------------------------------------------------------- */

struct worker {
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
    float data[ELEMS];
    struct ddp_tensor t;
    struct ddp_error e;
};

static void start(struct worker *w, int rank)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", rank); /* fits */
    RT_CHECK(setenv("LOCAL_RANK", "0", 1) == 0);
    RT_CHECK(setenv("LOCAL_WORLD_SIZE", "1", 1) == 0);
    RT_CHECK(setenv("GROUP_RANK", text, 1) == 0);
    RT_CHECK(setenv("DDP_INSTANCE", INSTANCE, 1) == 0);
    (void)snprintf(text, sizeof(text), "s%d", rank); /* fits */
    const struct ddp_keeper_conf conf = {.folder = text};
    w->t = (struct ddp_tensor){"data", DDP_F32, 1, {ELEMS}, w->data};
    w->d = rt_init();
    w->comm = rt_join(w->d, 0);
    w->k = ddp_keeper_new(w->d, w->comm, &conf, &w->e);
    RT_OK(w->k == NULL ? -1 : 0, w->e);
}

static void stop(struct worker *w)
{
    ddp_keeper_free(w->k);
    ddp_comm_free(w->comm);
    ddp_free(w->d);
}

/* Step 5 on all ranks. */
static int save_all(int rank, void *arg)
{
    static struct worker w;
    (void)arg;
    start(&w, rank);
    for (int i = 0; i < ELEMS; i++)
        w.data[i] = (float)i;
    RT_OK(ddp_keeper_save(w.k, 5, &w.t, 1, NULL, 0, true, &w.e), w.e);
    RT_OK(ddp_keeper_wait(w.k, &w.e), w.e);
    stop(&w);
    return 0;
}

/* A code that there is not, and a text that never ends, with an escape in each
 * place. */
static int load_with_nonsense(int rank, void *arg)
{
    static struct worker w;
    static struct comm_ops raving;
    (void)arg;
    start(&w, rank);
    if (rank == RAVER) {
        honest = w.comm->ops;
        raving = *honest;
        raving.call = raving_call;
        w.comm->ops = &raving;
    }
    int rc = ddp_keeper_load(w.k, &w.t, 1, NULL, 0, NULL, &w.e);
    RT_CHECK(rank == RAVER || (rc == -1 && w.e.code == DDP_ERR_PROTO));
    RT_CHECK(rank == RAVER || strcmp(w.e.text, "rank 2: it failed and does not "
                                               "say why") == 0);
    _exit(0);
}

TEST(test_keeper_peer_that_raves_is_named)
{
    pid_t pids[WORLD];
    rt_world_run(WORLD, save_all, NULL, 10000);
    pid_t store = rt_world_start(WORLD, load_with_nonsense, NULL, pids);
    for (int r = 0; r < WORLD; r++)
        ck_assert_int_eq(rt_wait(pids[r], 10000), 0);
    rt_kill(store);
}

/* A file whose name was changed to a later step's is not that step. */
TEST(test_keeper_renamed_file_is_not_that_step)
{
    static struct worker w;
    rt_world_run(WORLD, save_all, NULL, 10000);
    ck_assert_int_eq(rename("s0/step-000000000005.r1.01234567",
                            "s0/step-000000000900.r1.01234567"),
                     0);
    start(&w, 0);
    ck_assert_int_eq(ddp_keeper_load(w.k, &w.t, 1, NULL, 0, NULL, &w.e), -1);
    ck_assert_int_eq(w.e.code, DDP_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(w.e.text,
                                 "it is offered as save 1 of step 900, round 1 "
                                 "of 01234567, but it is save 1 of step 5"));
    stop(&w);
}

SUITE("keeper_peers",
      "nonsense",
      .limit_s = 60,
      FIXTURE(make_dir, scratch_leave))
