/*
 * launcher/mpi/mapping: PMI_process_mapping, the value by which an MPI library
 * learns which ranks are on one node: "(vector,(0,2,4),(2,1,3))" is two nodes
 * of four ranks each, from node 0, and then one node of three, node 2.
 */
#ifndef LAUNCHER_MPI_MAPPING_H
#define LAUNCHER_MPI_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPPING_KEY "PMI_process_mapping"

/* MPICH before 4.1 reads a whole answer of at most 1024 bytes. */
#define MAPPING_MAX 900

/*
 * What each node tells the others of itself, for mapping_read: "RANK=WORKERS"
 * and a newline. Returns its length.
 */
#define MAPPING_LINE_MAX 48
size_t mapping_tell(char line[MAPPING_LINE_MAX], int64_t group_rank, int nproc);

/*
 * Makes the mapping of all nodes' lines, in any order. They come from other
 * machines: false if they do not tell of each node once, or not of all ranks of
 * the world; also without memory. `out` is "" if it would be too long: the MPI
 * library then compares host names.
 */
bool mapping_read(const char *lines,
                  size_t len,
                  int64_t nodes,
                  int64_t world_size,
                  char out[MAPPING_MAX]);

/* Takes a whole number from 0 to `max`, and the byte behind it, off the front
 * of a text that ends at `end`. */
bool mapping_take_number(
    const char **at, const char *end, char behind, int64_t max, int64_t *out);

#endif
