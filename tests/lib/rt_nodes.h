/*
 * tests/lib/rt_nodes: nodes with memory as launchers would give it, and worlds
 * of ranks on them, which save pieces (rt_pieces) and load others. Failures in
 * a rank end it with status 1 (rt_world).
 */
#ifndef RT_NODES_H
#define RT_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/rt_pieces.h"
#include "tests/lib/rt_world.h"
#include "worker_rt/ddp.h"

#define NODES       5
#define NODES_RANKS 6 /* of a world, at most */
#define NODES_WAIT  30000
#define FIRST       4 /* the steps that are saved */
#define LAST        6

/* Fixtures: a scratch folder, and the memory of each node. */
extern int node_memory[NODES];
void nodes_make(void);
void nodes_drop(void);

/* The node of a rank, and its number there; how many ranks a node has, and how
 * many there are. */
int node_of(int rank, int *local);
int ranks_on(int node);
int nodes_ranks(void);

/* Another machine is in its place. */
void nodes_lose(int node);

enum nodes_folders {
    NO_FOLDER,
    ONE_FOLDER, /* of all nodes, s0 */
    OWN_FOLDERS /* one of each node, s0, s1 .. */
};

/* The next world; ranks that are started have a copy. */
extern struct nodes_world {
    int nodes;
    int local;       /* ranks of each, or .. */
    const int *each; /* .. (nodes); NULL: they are alike */
    int first_node;  /* whose memory the first of them has; they are a ring */
    bool no_memory;  /* the workers do without */
    int copies;      /* 0: the default */
    enum nodes_folders where;
    enum pieces_kind kind;
    uint64_t seed;
    int step;        /* what is loaded; -1: nothing */
    const char *why; /* what is said of a newer one; NULL: nothing */
} world;

struct rank {
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
    struct pieces pieces;
    struct ddp_kv kv;
    struct ddp_kept info;
    struct ddp_error e;
};

extern bool rank_loads; /* it is in ddp_keeper_load_pieces */

struct rank *rank_start(int rank);
void rank_stop(struct rank *r);

/* Saves the state after that step, and waits for it. Loads its pieces of the
 * newest one; as ddp_keeper_load_pieces, with r->e. */
void rank_save(struct rank *r, int step);
int rank_load(struct rank *r);

/* All ranks of the world save the steps FIRST to LAST; or load what is to be
 * loaded, compare it, and save another step. */
void world_saves(void);
void world_loads(void);

/* All of them do `fn`. */
void world_runs(rt_rank_fn *fn, void *arg);

#endif
