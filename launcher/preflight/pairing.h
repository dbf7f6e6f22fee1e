/*
 * launcher/preflight/pairing: who meets whom, so that each of n nodes meets the
 * others one at a time: the circle method of round-robin tournaments. Pure.
 *
 * Up to PAIRING_ALL_MAX nodes every pair meets once. Beyond, where all pairs
 * would take too long, each node meets PAIRING_FEW others (one less where n is
 * odd and it sat out): the places around the circle are shuffled by a seed, so
 * that the same nodes and the same seed give the same pairs.
 */
#ifndef LAUNCHER_PREFLIGHT_PAIRING_H
#define LAUNCHER_PREFLIGHT_PAIRING_H

#include <stdint.h>

#define PAIRING_ALL_MAX 32
#define PAIRING_FEW     8

/* Rounds that n nodes need; 0 for one node. */
int pairing_rounds(int n);

/* Fills order[0..n-1]: which node has each place. In order up to
 * PAIRING_ALL_MAX, shuffled by `seed` beyond. */
void pairing_order(int *order, int n, uint64_t seed);

/*
 * Whom the node at `place` meets in `round` (0 <= round < pairing_rounds(n)):
 * the other's place, or -1 where it sits out. Within a round every place is in
 * one pair at most, and no two rounds have the same pair.
 */
int pairing_partner(int n, int round, int place);

#endif
