/* links: tests/lib/{scratch,rt_world,rt_comm,rt_nodes,rt_keeper,rt_pieces} */
/* libs: -luv -lcjson -lxxhash -Wl,--wrap=comm_cpu_new */
/*
 * A rank that says what is not so while all load pieces: other images than it
 * has, other headers, other bytes; on the communicators of a few, too, that it
 * wants other bytes than it meets the others for. Whatever it says, the others
 * end in bounded time, with the right bytes or with an error.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/rng.h"
#include "tests/lib/rt_nodes.h"
#include "tests/lib/suite.h"
#include "tests/lib/wrap_comm.h"
#include "worker_rt/comm/cpu.h"

#define LIAR  1
#define WORLD 3
#define SEEDS 80

static const struct comm_ops *honest;
static struct rng lies;

/* A bit, or a number of 64 bits, as all that travels is made of such. */
static void change(uint8_t *data, size_t len)
{
    static const int64_t numbers[] = {0, 1, -1, 7, 1000, INT64_MAX, INT64_MIN};
    if (len < sizeof(numbers[0]) || rng_below(&lies, 2) == 0) {
        data[rng_below(&lies, (uint32_t)len)] ^=
            (uint8_t)(1 << rng_below(&lies, 8));
        return;
    }
    size_t at = rng_below(&lies, (uint32_t)(len / 8)) * (size_t)8;
    memcpy(data + at, &numbers[rng_below(&lies, 7)], sizeof(numbers[0]));
}

static int lying_call(struct ddp_comm *c,
                      const struct comm_call *call,
                      struct ddp_err *err)
{
    struct comm_call lie = *call;
    size_t len = comm_call_len(call);
    bool sends = call->kind != WIRE_BROADCAST || call->root == c->rank;
    if (len == 0 || !sends || rng_below(&lies, 4) != 0)
        return honest->call(c, call, err);
    uint8_t *said = malloc(len);
    RT_CHECK(said != NULL);
    memcpy(said, call->in, len);
    change(said, len);
    lie.in = said;
    if (call->kind == WIRE_BROADCAST)
        lie.out = said;
    int rc = honest->call(c, &lie, err);
    free(said);
    return rc;
}

static bool lies_to_few; /* this rank does, and to nobody else */

static void lie_on(struct ddp_comm *c)
{
    static struct comm_ops lying;
    honest = wrap_calls(c, &lying, lying_call);
}

struct ddp_comm *__wrap_comm_cpu_new(const struct comm_place *place,
                                     struct store_client *store,
                                     int64_t deadline_us,
                                     struct ddp_err *err)
{
    struct ddp_comm *c = __real_comm_cpu_new(place, store, deadline_us, err);
    if (c != NULL && lies_to_few)
        lie_on(c);
    return c;
}

static int load_with_a_liar(int rank, void *arg)
{
    const uint64_t *seed = arg;
    struct rank *r = rank_start(rank);
    if (rank == LIAR) {
        rng_init(&lies, *seed);
        lies_to_few = *seed % 2 == 1;
        if (!lies_to_few)
            lie_on(r->comm);
    }
    int rc = rank_load(r);
    if (rank == LIAR) /* it may believe what it likes */
        _exit(0);
    if (rc == 0)
        RT_CHECK(pieces_right(&r->pieces, r->info.step));
    else
        RT_CHECK(r->e.text[0] != '\0');
    _exit(0);
}

/* A node more has nothing, so that headers and images travel. */
TEST_LOOP(test_keeper_liars_are_not_believed, 0, SEEDS)
{
    uint64_t seed = (uint64_t)_i;
    pid_t pids[WORLD];
    world = (struct nodes_world){
        .nodes = 2, .local = 1, .kind = PIECES_ANY, .seed = seed};
    world_saves();
    world.nodes = WORLD;
    world.seed += 1000;
    pid_t store = rt_world_start(WORLD, load_with_a_liar, &seed, pids);
    for (int r = 0; r < WORLD; r++)
        ck_assert_int_eq(rt_wait(pids[r], 20000), 0);
    rt_kill(store);
}

SUITE("keeper_liars", "lies", .limit_s = 60, FIXTURE(nodes_make, nodes_drop))
