/*
 * core/inner/authority/launchers_priv: for authority.c: how many launchers
 * answer the leader of a strict run, voters or not.
 *
 * A run is strict if it needs more than half of its nodes: two groups of
 * nodes_min cannot exist. Its leader grants leases and puts rounds in force
 * only with nodes_min launchers, besides the voters. A leader by its voters,
 * without launchers, waits: others find it.
 *
 * The terms from one election by count to the next are a line. It is unbroken
 * up to a moment if in each lease before that moment nodes_min launchers
 * answered a leader of the line: who takes over within the line knows that by
 * the leases that its voters hold. Nobody acts in a broken line. So many
 * launchers then begin another one, by count, with the voters or without
 * (takeover.c): each of them counts in that election a lease after it last
 * answered another server.
 *
 * So no two lines are led at once: nodes_min launchers that answered in the one
 * within a lease and nodes_min that elect the other one have a launcher in
 * common, since fewer than 2 * nodes_min live within a lease; that is assumed,
 * and a leader admits no more (join.c).
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

/* One of them has a lease until then: so long the line is not broken. */
void launchers_hold(struct authority *a, int64_t until_us);

/* It is gone. */
void launchers_remove(struct authority *a, struct launcher *l);

/* False if the run is not strict, is over, or had no round yet: its first one
 * takes them all. */
bool launchers_are_needed(const struct authority *a);

/* Until when a lease may be granted that began when enough of them had
 * answered, in an unbroken line; AUTHORITY_NO_ECHO: too few have; MONO_NEVER:
 * they are not needed. */
int64_t launchers_until_us(const struct authority *a);

/* Asserts that the order is one. */
void launchers_check(const struct authority *a);

#endif
