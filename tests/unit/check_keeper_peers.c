/* links: tests/lib/scratch tests/lib/rt_world tests/lib/rt_comm */
/* links: worker_rt/snapshot/keeper worker_rt/snapshot/keeper_load */
/* links: worker_rt/snapshot/keeper_prove */
/* links: worker_rt/snapshot/keeper_find worker_rt/snapshot/list */
/* links: worker_rt/snapshot/keeper_ranks worker_rt/snapshot/keeper_share */
/* links: worker_rt/snapshot/keeper_agree worker_rt/snapshot/keeper_places */
/* links: worker_rt/snapshot/keeper_stripes worker_rt/snapshot/shared_file */
/* links: worker_rt/snapshot/device_copy */
/* links: worker_rt/snapshot/mem_slots worker_rt/snapshot/snapshot_dir */
/* links: worker_rt/snapshot/atomic_file worker_rt/snapshot/image */
/* links: worker_rt/snapshot/snapshot worker_rt/snapshot/load */
/* links: worker_rt/snapshot/safetensors */
/* links: rendezvous/base/utf8 */
/* links: worker_rt/sampler */
/* links: rendezvous/base/json rendezvous/base/utf8 rendezvous/base/buf */
/* libs: -luv -lcjson -lxxhash */
/*
 * A rank that lies while all load a snapshot: it offers a step that it does not
 * have, a length that is not so, or sends other bytes. Whatever it does,
 * all ranks end alike, in bounded time, with a snapshot that is whole or with
 * an error that names the liar.
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
#define LIAR     2
#define STEPS    20 /* more than are refused, so it never runs out of lies */

static void make_dir(void)
{
    scratch_enter();
    rt_place(0, 1, 1, 1);
}

/* -- the liar's communicator ----------------------------------------------- */

/* An offer, as it travels: see worker_rt/snapshot/keeper_load. */
enum field {
    HAS,
    MEMORY,
    OWN,
    ROUND,
    STEP,
    LEN,
    FIELDS,
    WHO = FIELDS, /* the digits of the instance behind them */
};
#define OFFER_LEN (FIELDS * sizeof(int64_t) + 8 + 32)

/* What is changed in its offers and in what it sends. */
static const struct lie {
    enum field field;
    int64_t add;
    bool flips; /* a bit of each piece */
    bool ends;  /* with an error; else all go on from the honest ones */
} lies[] = {
    {STEP, 1000, false, true},   /* another step than it has */
    {STEP, -1000, false, false}, /* none at all */
    {ROUND, 5, false, true},     /* of a later round */
    {HAS, 41, false, false},     /* neither yes nor no */
    {LEN, -64, false, true},     /* a short one */
    {LEN, 64, false, true},      /* a long one */
    {LEN, INT64_MAX / 2, false, true},
    {LEN, INT64_MIN, false, false},
    {WHO, 0x1010101010101010, false, false}, /* no digits */
    {MEMORY, 0, true, true},                 /* as offered, but damaged */
};
#define LIES ((int)(sizeof(lies) / sizeof(lies[0])))

static const struct lie *told;
static const struct comm_ops *honest;

/* Says that of each snapshot that it is sent; 0: the truth. */
static int64_t said_state;
static int states_to_come; /* after each round of offers */

/* Says that it failed, and why in words that are no error. */
static bool raves;

/* What it gives to an allgather of `mine`. */
static const void *offered(const void *mine, size_t len)
{
    static int64_t offer[OFFER_LEN / sizeof(int64_t)];
    if (len == sizeof(said_state) && states_to_come-- > 0 && said_state != 0) {
        if (said_state != 1)
            states_to_come = 0; /* what comes then are codes */
        return &said_state;
    }
    if (len != OFFER_LEN)
        return mine;
    states_to_come = 2;
    memcpy(offer, mine, len);
    if (told != NULL && offer[HAS])
        offer[told->field] =
            (int64_t)((uint64_t)offer[told->field] + (uint64_t)told->add);
    return offer;
}

static int rave(struct ddp_comm *c, struct comm_call call, struct ddp_err *err)
{
    static uint8_t nonsense[sizeof(struct ddp_err)];
    memset(nonsense, 0x1b, sizeof(nonsense));
    call.in = call.out = nonsense;
    (void)honest->call(c, &call, err);
    (void)sleep(1); /* all have it then */
    _exit(0);
}

static int lying_call(struct ddp_comm *c,
                      const struct comm_call *call,
                      struct ddp_err *err)
{
    static const int64_t failed = LIAR;
    struct comm_call lie = *call;
    size_t len = comm_call_len(call);
    bool sends = call->kind == WIRE_BROADCAST && call->root == LIAR;
    if (call->kind == WIRE_ALLGATHER)
        lie.in = offered(call->in, len);
    if (call->kind == WIRE_ALLREDUCE && raves)
        lie.in = &failed; /* the lowest rank that did */
    if (sends && raves && len == sizeof(struct ddp_err))
        return rave(c, lie, err);
    if (sends && told != NULL && told->flips && len > 0)
        ((uint8_t *)call->out)[len / 2] ^= 1;
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
    const struct ddp_keeper_conf conf = {.folder = text, .keep = 2 * STEPS};
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

/* Step 5 on all ranks, later ones on the liar, unless it has none (`arg`). */
static int save_all(int rank, void *arg)
{
    static struct worker w;
    int steps = rank == LIAR && arg == NULL ? STEPS : 1;
    start(&w, rank);
    for (int step = 5; step < 5 + steps; step++) {
        for (int i = 0; i < ELEMS; i++)
            w.data[i] = (float)(step * 7 + i);
        RT_OK(ddp_keeper_save(w.k, step, &w.t, 1, NULL, 0, true, &w.e), w.e);
    }
    RT_OK(ddp_keeper_wait(w.k, &w.e), w.e);
    stop(&w);
    return 0;
}

static int load_with_a_liar(int rank, void *arg)
{
    static struct worker w;
    static struct comm_ops lying;
    struct ddp_kept kept = {.size = 0};
    told = arg;
    start(&w, rank);
    if (rank == LIAR) {
        honest = w.comm->ops;
        lying = *honest;
        lying.call = lying_call;
        w.comm->ops = &lying;
    }
    int rc = ddp_keeper_load(w.k, &w.t, 1, NULL, 0, &kept, &w.e);
    if (rank == LIAR) /* it may believe what it likes */
        w.comm->ops = honest;
    else if (rc != 0)
        RT_CHECK(told->ends && w.e.code == DDP_ERR_PROTO &&
                 strstr(w.e.text, "rank 2") != NULL);
    else
        RT_CHECK(kept.step == 5 && w.data[1] == 36.0f && !told->ends);
    stop(&w);
    return 0;
}

/* 1: it was damaged; then: what makes no sense, that it failed. */
static const int64_t states[] = {1, 7, 2, -1};

/* The honest rank 0 has the snapshot, and the liar refuses all that it is sent.
 */
static int load_for_a_liar(int rank, void *arg)
{
    static struct worker w;
    static struct comm_ops lying;
    const int64_t *state = arg;
    start(&w, rank);
    if (rank == LIAR) {
        said_state = *state;
        honest = w.comm->ops;
        lying = *honest;
        lying.call = lying_call;
        w.comm->ops = &lying;
    }
    int rc = ddp_keeper_load(w.k, &w.t, 1, NULL, 0, NULL, &w.e);
    if (rank == LIAR)
        w.comm->ops = honest;
    else
        RT_CHECK(rc == -1 && w.e.code == DDP_ERR_PROTO &&
                 strstr(w.e.text, "rank 2 ") != NULL);
    stop(&w);
    return 0;
}

/* A code that there is not, and a text that never ends, with an escape in each
 * place. */
static int load_with_nonsense(int rank, void *arg)
{
    static struct worker w;
    static struct comm_ops lying;
    (void)arg;
    start(&w, rank);
    if (rank == LIAR) {
        raves = true;
        honest = w.comm->ops;
        lying = *honest;
        lying.call = lying_call;
        w.comm->ops = &lying;
    }
    int rc = ddp_keeper_load(w.k, &w.t, 1, NULL, 0, NULL, &w.e);
    RT_CHECK(rank == LIAR || (rc == -1 && w.e.code == DDP_ERR_PROTO));
    RT_CHECK(rank == LIAR || strcmp(w.e.text, "rank 2: it failed and does not "
                                              "say why") == 0);
    _exit(0);
}

START_TEST(test_keeper_peer_that_raves_is_named)
{
    pid_t pids[WORLD];
    rt_world_run(WORLD, save_all, NULL, 10000);
    pid_t store = rt_world_start(WORLD, load_with_nonsense, NULL, pids);
    for (int r = 0; r < WORLD; r++)
        ck_assert_int_eq(rt_wait(pids[r], 10000), 0);
    rt_kill(store);
}
END_TEST

/* It is named, and no good snapshot is given up for it. */
START_TEST(test_keeper_peer_that_refuses_all_is_named)
{
    int64_t state = states[_i];
    int none = 0;
    rt_world_run(WORLD, save_all, &none, 10000);
    rt_world_run(WORLD, load_for_a_liar, &state, 10000);
}
END_TEST

START_TEST(test_keeper_peer_that_lies_is_not_believed)
{
    struct lie lie = lies[_i];
    rt_world_run(WORLD, save_all, NULL, 10000);
    rt_world_run(WORLD, load_with_a_liar, &lie, 10000);
}
END_TEST

/* A file whose name was changed to a later step's is not that step. */
START_TEST(test_keeper_renamed_file_is_not_that_step)
{
    static struct worker w;
    rt_world_run(WORLD, save_all, NULL, 10000);
    ck_assert_int_eq(rename("s0/step-000000000005.r1.01234567.safetensors",
                            "s0/step-000000000900.r1.01234567.safetensors"),
                     0);
    start(&w, 0);
    ck_assert_int_eq(ddp_keeper_load(w.k, &w.t, 1, NULL, 0, NULL, &w.e), -1);
    ck_assert_int_eq(w.e.code, DDP_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(w.e.text, "its name says step 900 of round 1"
                                           " of 01234567, but it is step 5"));
    stop(&w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("keeper_peers");
    TCase *t = tcase_create("lies");
    tcase_add_checked_fixture(t, make_dir, scratch_leave);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_keeper_peer_that_lies_is_not_believed, 0, LIES);
    tcase_add_loop_test(t, test_keeper_peer_that_refuses_all_is_named, 0,
                        (int)(sizeof(states) / sizeof(states[0])));
    tcase_add_test(t, test_keeper_peer_that_raves_is_named);
    tcase_add_test(t, test_keeper_renamed_file_is_not_that_step);
    suite_add_tcase(s, t);
    return suite_run(s);
}
