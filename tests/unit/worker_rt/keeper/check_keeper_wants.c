/* links: tests/lib/{scratch,rt_world,rt_comm,rt_nodes,rt_keeper,rt_pieces} */
/* libs: -luv -lcjson -lxxhash */
/*
 * What a program may want of the pieces that were saved, and what it is told if
 * they do not fit: a load is of all ranks, so all of them fail.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/rt_keeper.h"
#include "tests/lib/rt_nodes.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

/* -- what is asked for ----------------------------------------------------- */

/* Whole tensors, as in any keeper; some of them do not fit. */
static const struct asked {
    const char *name;
    enum ddp_dtype dtype;
    int dims;
    uint64_t shape[2];
    const char *why; /* NULL: it fits */
} asked[] = {
    {"matrix", DDP_F32, 2, {12, 10}, NULL},
    {"renamed",
     DDP_F32,
     2,
     {12, 10},
     "tensor 'renamed' is not in the snapshot"},
    {"matrix", DDP_I32, 2, {12, 10}, "tensor 'matrix' has another dtype"},
    {"matrix",
     DDP_F32,
     2,
     {12, 9},
     "tensor 'matrix' has another dtype or shape"},
    {"matrix", DDP_F32, 1, {120}, "tensor 'matrix' has another dtype or shape"},
};
#define ASKED ((int)(sizeof(asked) / sizeof(asked[0])))

static int load_whole(int rank, void *arg)
{
    const struct asked *a = arg;
    static float data[120];
    struct ddp_tensor t = {a->name, a->dtype, a->dims, {0}, data};
    struct rank *r = rank_start(rank);
    memcpy(t.shape, a->shape, sizeof(a->shape));
    data[0] = data[119] = 77;
    int rc = ddp_keeper_load(r->k, &t, 1, &r->kv, 1, &r->info, &r->e);
    if (a->why == NULL) {
        struct pieces whole = {.n = 1};
        whole.list[0] = (struct ddp_piece){.local = t, .whole = {12, 10}};
        RT_OK(rc, r->e);
        RT_CHECK(pieces_right(&whole, LAST) && r->info.step == LAST);
    } else {
        RT_CHECK(rc == -1 && r->e.code == DDP_ERR_USAGE);
        RT_CHECK(strstr(r->e.text, a->why) != NULL);
        RT_CHECK(data[0] == 77 && data[119] == 77); /* before any byte */
    }
    rank_stop(r);
    return 0;
}

TEST_LOOP(test_keeper_wants_whole_tensors, 0, ASKED)
{
    struct asked a = asked[_i];
    world =
        (struct nodes_world){.nodes = 2, .local = 2, .kind = PIECES_SHARDED};
    world_saves();
    world_runs(load_whole, &a);
}

/* Where each tensor goes is said as it comes. */
static void *place_matrix(void *ctx, const struct ddp_tensor *t)
{
    return strcmp(t->name, "matrix") == 0 ? ctx : NULL;
}

static int load_into(int rank, void *arg)
{
    (void)arg;
    static float data[120];
    struct rank *r = rank_start(rank);
    struct pieces whole = {.n = 1};
    whole.list[0] = (struct ddp_piece){
        .local = {"matrix", DDP_F32, 2, {12, 10}, data}, .whole = {12, 10}};
    RT_OK(ddp_keeper_load_into(r->k, place_matrix, data, NULL, 0, NULL, &r->e),
          r->e);
    RT_CHECK(pieces_right(&whole, LAST));
    rank_stop(r);
    return 0;
}

TEST(test_keeper_wants_into)
{
    world =
        (struct nodes_world){.nodes = 1, .local = 3, .kind = PIECES_SHARDED};
    world_saves();
    world_runs(load_into, NULL);
}

/* A rank that wants what lies outside the whole, or gives no room: all fail. */
static bool want_wrongly(void *ctx,
                         const struct ddp_tensor *whole,
                         size_t i,
                         struct ddp_piece *want)
{
    if (i > 0 || strcmp(whole->name, "matrix") != 0)
        return false;
    want->offset[0] = 3;
    want->local.data = ctx;
    return true;
}

static int load_wrongly(int rank, void *arg)
{
    static float data[120];
    struct rank *r = rank_start(rank);
    const bool *gives_room = arg;
    int rc;
    if (rank == 1)
        rc = ddp_keeper_load_pieces(r->k, want_wrongly,
                                    *gives_room ? data : NULL, NULL, 0, NULL,
                                    &r->e);
    else
        rc = rank_load(r);
    RT_CHECK(rc == -1 && r->e.code == DDP_ERR_USAGE);
    RT_CHECK(strstr(r->e.text, "tensor 'matrix'") != NULL);
    rank_stop(r);
    return 0;
}

TEST_LOOP(test_keeper_wants_pieces_outside_are_refused, 0, 2)
{
    bool gives_room = _i == 1;
    world =
        (struct nodes_world){.nodes = 2, .local = 1, .kind = PIECES_SHARDED};
    world_saves();
    world_runs(load_wrongly, &gives_room);
}

/* -- beginnings and ends --------------------------------------------------- */

static int load_nothing(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    RT_CHECK(rank_load(r) == -1 && r->e.code == DDP_ERR_NOINPUT);
    rank_save(r, LAST);
    rank_stop(r);
    return 0;
}

TEST(test_keeper_wants_of_nothing_is_a_fresh_start)
{
    world = (struct nodes_world){.nodes = 2, .local = 2, .where = ONE_FOLDER};
    world_runs(load_nothing, NULL);
}

/* Files of whole states, as keepers without pieces write them. */
static int save_whole(int rank, void *arg)
{
    (void)arg;
    struct worker *w = worker_start(&(struct ddp_keeper_conf){.folder = "s0"});
    RT_CHECK(rank == 0 && worker_save(w, LAST, true) == 0);
    RT_OK(ddp_keeper_wait(w->k, &w->e), w->e);
    worker_stop(w);
    return 0;
}

static int load_of_whole(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    static float big[ELEMS];
    static int64_t small[SMALL];
    struct ddp_tensor t[2] = {{"big", DDP_F32, 2, {ELEMS / 2, 2}, big},
                              {"small", DDP_I64, 1, {SMALL}, small}};
    RT_OK(ddp_keeper_load(r->k, t, 2, &r->kv, 1, &r->info, &r->e), r->e);
    RT_CHECK(r->info.step == LAST && !r->info.memory);
    for (int i = 0; i < ELEMS; i++)
        RT_CHECK((int)big[i] == LAST * 7 + i);
    RT_CHECK(small[SMALL - 1] == LAST * 1000 + SMALL - 1);
    rank_stop(r);
    return 0;
}

TEST_LOOP(test_keeper_wants_files_of_whole_states, 0, 2)
{
    with_memory(false);
    rt_world_run(1, save_whole, NULL, NODES_WAIT);
    world = (struct nodes_world){
        .nodes = 2, .local = 2, .where = _i == 0 ? ONE_FOLDER : OWN_FOLDERS};
    world_runs(load_of_whole, NULL);
}

/* Another run goes on from the folder; what it saves itself comes first then,
 * whatever its step. */
static int load_in_another_run(int rank, void *arg)
{
    const int *step = arg;
    RT_CHECK(setenv("DDP_INSTANCE", ANOTHER, 1) == 0);
    struct rank *r = rank_start(rank);
    RT_OK(rank_load(r), r->e);
    RT_CHECK(pieces_right(&r->pieces, *step) && r->info.step == *step);
    RT_CHECK(r->info.foreign == (*step == LAST) && !r->info.memory);
    rank_save(r, 1);
    rank_stop(r);
    return 0;
}

TEST(test_keeper_wants_what_another_run_left)
{
    int step = LAST;
    world = (struct nodes_world){
        .nodes = 2, .local = 2, .no_memory = true, .where = ONE_FOLDER};
    world_saves();
    world.nodes = 1;
    world_runs(load_in_another_run, &step);
    world.nodes = 3;
    step = 1;
    world_runs(load_in_another_run, &step);
}

/* A rank that dies while the others load: they fail, and soon. */
static bool
die(void *ctx, const struct ddp_tensor *whole, size_t i, struct ddp_piece *want)
{
    (void)ctx;
    (void)whole;
    (void)i;
    (void)want;
    _exit(9);
}

static int load_with_a_death(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    int rc = rank == 1
                 ? ddp_keeper_load_pieces(r->k, die, NULL, NULL, 0, NULL, &r->e)
                 : rank_load(r);
    RT_CHECK(rc == -1 && r->e.code == DDP_ERR_PEER);
    rank_stop(r);
    return 0;
}

TEST(test_keeper_wants_tells_all_of_a_death)
{
    pid_t pids[3];
    world =
        (struct nodes_world){.nodes = 3, .local = 1, .kind = PIECES_SHARDED};
    world_saves();
    pid_t store = rt_world_start(3, load_with_a_death, NULL, pids);
    for (int r = 0; r < 3; r++)
        ck_assert_int_eq(rt_wait(pids[r], 10000), r == 1 ? 9 : 0);
    rt_kill(store);
}

SUITE("keeper_wants", "wants", .limit_s = 60, FIXTURE(nodes_make, nodes_drop))
