/*
 * launcher/mpi/pmix_nodes: the maps of nodes and ranks that a PMIx server
 * wants, made of what the nodes of a round tell each other. Pure.
 */
#ifndef LAUNCHER_MPI_PMIX_NODES_H
#define LAUNCHER_MPI_PMIX_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMIX_NODES_HOST_MAX 64

/*
 * What each node tells the others of itself: "RANK=WORKERS=HOST" and a newline.
 * Letters that do not belong in a host's name become '-'. Returns its length.
 */
#define PMIX_NODES_LINE_MAX 128
size_t pmix_nodes_tell(char line[PMIX_NODES_LINE_MAX],
                       int64_t group_rank,
                       int nproc,
                       const char *host);

/* The texts and the array are owned. */
struct pmix_nodes {
    int64_t *first_ranks; /* of each node */
    char *hosts;          /* "a,b": one name for each node, no two alike */
    char *ranks;          /* "0,1;2,3": those of each node */
    char *peers;          /* "2,3": those of this node */
    char host[PMIX_NODES_HOST_MAX + 16]; /* this node's name in `hosts` */
    int64_t base_rank;                   /* this node's first rank */
};

/*
 * Makes the maps of all nodes' lines, in any order. They come from other
 * machines: false if they do not tell of each node once, or not of all ranks of
 * the world; also without memory. If the hosts of several nodes have the same
 * name (containers, or several nodes on one host), the names get "_RANK" at the
 * end.
 */
bool pmix_nodes_read(struct pmix_nodes *n,
                     const char *lines,
                     size_t len,
                     int64_t nodes,
                     int64_t group_rank,
                     int64_t world_size);

/* The node of a rank of the world, one of `nodes`. */
int64_t pmix_nodes_of(const struct pmix_nodes *n, int64_t nodes, int64_t rank);

void pmix_nodes_free(struct pmix_nodes *n);

#endif
