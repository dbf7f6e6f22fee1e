/* links: tests/lib/{rt_keeper,rt_pieces} */
#include "tests/lib/rt_nodes.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rendezvous/base/stop_page.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_keeper.h"

struct nodes_world world;
bool rank_loads;

/* -- nodes ----------------------------------------------------------------- */

int node_memory[NODES];
static char memory_path[NODES][48];

void nodes_make(void)
{
    keeper_place();
    in_round(INSTANCE, 1);
    for (int i = 0; i < NODES; i++) {
        node_memory[i] = memfd_create(MEMFD_SNAPSHOTS, 0);
        ck_assert_int_ge(node_memory[i], 0);
        ck_assert_int_eq(ftruncate(node_memory[i], MEMORY), 0);
        (void)snprintf(memory_path[i], sizeof(memory_path[i]), "/proc/%d/fd/%d",
                       (int)getpid(), node_memory[i]); /* fits */
    }
}

void nodes_drop(void)
{
    for (int i = 0; i < NODES; i++)
        ck_assert_int_eq(close(node_memory[i]), 0);
    keeper_leave();
}

void nodes_lose(int i)
{
    ck_assert_int_eq(ftruncate(node_memory[i], 0), 0);
    ck_assert_int_eq(ftruncate(node_memory[i], MEMORY), 0);
}

/* -- a world --------------------------------------------------------------- */

int ranks_on(int node)
{
    return world.each == NULL ? world.local : world.each[node];
}

int nodes_ranks(void)
{
    int n = 0;
    for (int node = 0; node < world.nodes; node++)
        n += ranks_on(node);
    return n;
}

int node_of(int rank, int *local)
{
    int node = 0;
    for (; rank >= ranks_on(node); node++)
        rank -= ranks_on(node);
    *local = rank;
    return node;
}

static void set_number(const char *name, int value)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", value); /* fits */
    RT_CHECK(setenv(name, text, 1) == 0);
}

struct rank *rank_start(int rank)
{
    static struct rank r;
    char folder[16];
    int local, group = node_of(rank, &local);
    int node = (group + world.first_node) % NODES;
    set_number("LOCAL_RANK", local);
    set_number("LOCAL_WORLD_SIZE", ranks_on(group));
    set_number("GROUP_RANK", group);
    RT_CHECK(setenv("DDP_SNAPSHOT_MEMORY",
                    world.no_memory ? "" : memory_path[node], 1) == 0);
    (void)snprintf(folder, sizeof(folder), "s%d",
                   world.where == OWN_FOLDERS ? node : 0); /* fits */
    const struct ddp_keeper_conf conf = {
        .size = sizeof(conf),
        .folder = world.where == NO_FOLDER ? NULL : folder,
        .keep = 3,
        .copies = world.copies,
        .rank_state_max = 8};
    r.d = rt_init();
    r.comm = rt_join(r.d, 0);
    r.k = ddp_keeper_new(r.d, r.comm, &conf, &r.e);
    RT_OK(r.k == NULL ? -1 : 0, r.e);
    r.kv.key = "step";
    pieces_draw(&r.pieces, world.kind, world.seed, nodes_ranks(), rank);
    return &r;
}

void rank_stop(struct rank *r)
{
    pieces_free(&r->pieces);
    ddp_keeper_free(r->k);
    ddp_comm_free(r->comm);
    ddp_free(r->d);
}

void rank_save(struct rank *r, int step)
{
    pieces_fill(&r->pieces, step);
    ddp_kv_set_i64(&r->kv, "step", step);
    int64_t own = step * 100 + ddp_rank(r->d);
    RT_OK(ddp_keeper_set_rank_state(r->k, &own, sizeof(own), &r->e), r->e);
    RT_OK(ddp_keeper_save_pieces(r->k, step, r->pieces.list, r->pieces.n,
                                 &r->kv, 1, world.where != NO_FOLDER, &r->e),
          r->e);
    RT_OK(ddp_keeper_wait(r->k, &r->e), r->e);
}

static int save_all(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    for (int step = FIRST; step <= LAST; step++)
        rank_save(r, step);
    rank_stop(r);
    return 0;
}

int rank_load(struct rank *r)
{
    pieces_spoil(&r->pieces);
    rank_loads = true;
    int rc = ddp_keeper_load_pieces(r->k, pieces_want, &r->pieces, &r->kv, 1,
                                    &r->info, &r->e);
    rank_loads = false;
    return rc;
}

static void check_loaded(struct rank *r, int step)
{
    int64_t said, own;
    size_t len;
    RT_CHECK(r->info.step == step && r->info.round == 1 && !r->info.foreign);
    RT_CHECK(strcmp(r->info.instance, INSTANCE) == 0);
    RT_CHECK(pieces_right(&r->pieces, step));
    RT_OK(ddp_kv_get_i64(&r->kv, &said, &r->e), r->e);
    RT_CHECK(said == step);
    const void *state = ddp_keeper_rank_state(r->k, 0, &len);
    RT_CHECK(state != NULL && len == sizeof(own));
    memcpy(&own, state, sizeof(own));
    RT_CHECK(own == step * 100);
}

static int load_all(int rank, void *arg)
{
    (void)arg;
    struct rank *r = rank_start(rank);
    int rc = rank_load(r);
    if (world.step < 0) {
        RT_CHECK(rc == -1 && r->e.code == DDP_ERR_CORRUPT &&
                 strstr(r->e.text, world.why) != NULL);
    } else {
        RT_OK(rc, r->e);
        if (world.why == NULL && r->info.why[0] != '\0')
            rt_wrong(__FILE__, __LINE__, "no word of a newer one", r->info.why);
        if (world.why != NULL && strstr(r->info.why, world.why) == NULL)
            rt_wrong(__FILE__, __LINE__, world.why, r->info.why);
        check_loaded(r, world.step);
        rank_save(r, world.step + 10); /* and it goes on from there */
    }
    rank_stop(r);
    return 0;
}

void world_runs(rt_rank_fn *fn, void *arg)
{
    rt_world_run(nodes_ranks(), fn, arg, NODES_WAIT);
}

void world_saves(void)
{
    world_runs(save_all, NULL);
}

void world_loads(void)
{
    world_runs(load_all, NULL);
}
