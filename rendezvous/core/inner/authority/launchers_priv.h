/*
 * core/inner/authority/launchers_priv: for authority.c: how many launchers
 * answer the leader of a strict run, voters or not.
 *
 * A run is strict if it needs more than half of its nodes: two groups of
 * nodes_min cannot exist. Its leader grants leases and puts rounds in force
 * only with nodes_min launchers, besides the voters. So many launchers may also
 * elect it without those voters, by count (takeover.c). A leader by its voters,
 * without launchers, waits: others find it.
 *
 * The terms from one election by count to the next are a line. A launcher
 * counts at once in the line in which it last answered a server, or if it has
 * never answered any; in another line only a lease after that. So no launcher
 * counts in two lines at once, and leaders of two lines that act at once have
 * 2 * nodes_min launchers: fewer live within a lease, by assumption, and a
 * leader admits no more (join.c).
 *
 * Launchers are kept in the order of their newest answers, so that the answer
 * of which nodes_min are as new or newer is at hand: each answer costs the
 * same, however many nodes there are.
 */
#ifndef RENDEZVOUS_CORE_INNER_AUTHORITY_LAUNCHERS_PRIV_H
#define RENDEZVOUS_CORE_INNER_AUTHORITY_LAUNCHERS_PRIV_H

#include "rendezvous/core/inner/authority/authority.h"

/* It has promised launcher.term, to this server or to another one. */
void launchers_obey(struct authority *a, struct launcher *l);

/* It answers a message that was sent at `sent_us`; nothing if it has not
 * promised the server's term. */
void launchers_answer(struct authority *a,
                      struct launcher *l,
                      int64_t sent_us,
                      int64_t now_us);

/* It is gone. */
void launchers_remove(struct authority *a, struct launcher *l);

/* Enough have promised, have answered. True if the run is not strict, is over,
 * or had no round yet: its first one takes them all. */
bool launchers_have_promised(const struct authority *a);
bool launchers_have_answered(const struct authority *a);

/* Until when a lease may be granted that began when enough of them had
 * answered; MONO_NEVER: as above. */
int64_t launchers_until_us(const struct authority *a);

/* Asserts that the order is one. */
void launchers_check(const struct authority *a);

#endif
