/*
 * launcher/preflight/pairing: which nodes are measured with each other in which
 * round, so that no node is in two measurements at once: the circle method of
 * round-robin tournaments. Pure.
 *
 * Up to PAIRING_ALL_MAX nodes every pair meets once. With more nodes all pairs
 * would take too long, and each node meets PAIRING_FEW others (one less if n is
 * odd and the node sits out a round). The places around the circle are then
 * shuffled by a seed, so that the same nodes and seed give the same pairs.
 */
#ifndef LAUNCHER_PREFLIGHT_PAIRING_H
#define LAUNCHER_PREFLIGHT_PAIRING_H

#include <stdint.h>

#define PAIRING_ALL_MAX 32
#define PAIRING_FEW     8

/* Rounds that n nodes need; 0 for one node. */
int pairing_rounds(int n);

/* Fills order[0..n-1] with the node of each place: in order up to
 * PAIRING_ALL_MAX nodes, shuffled by `seed` if there are more. */
void pairing_order(int *order, int n, uint64_t seed);

/*
 * The place of the partner of `place` in `round` (0 <= round <
 * pairing_rounds(n)), or -1 if it sits out. Within a round every place is in
 * one pair at most, and no two rounds have the same pair.
 */
int pairing_partner(int n, int round, int place);

#endif
