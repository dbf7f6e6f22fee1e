/*
 * core/inner/authority/voters: inside the rendezvous core: the sets of voters
 * of rounds, as values. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_AUTHORITY_VOTERS_H
#define RENDEZVOUS_CORE_INNER_AUTHORITY_VOTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/proto/msg.h"

/* The voters of a round, by the first digits of their agents' ids. */
struct voters {
    int n;
    char id[MSG_VOTERS_MAX][MSG_VOTER_LEN + 1];
};

/* As in messages: each id followed by a blank. False, and `v` is empty: there
 * is an id that none can be, one twice, or there are too many. */
bool voters_parse(struct voters *v, const char *text);
#define VOTERS_TEXT_SIZE (MSG_VOTERS_MAX * (MSG_VOTER_LEN + 1) + 1)
void voters_print(const struct voters *v, char text[VOTERS_TEXT_SIZE]);

/* Whether an agent of that id can vote. */
bool voters_may_add(const char *agent);

/* Where the agent's vote is in `v`, -1: it has none. */
int voters_find(const struct voters *v, const char *agent);

/* One more; there must be room. */
void voters_add(struct voters *v, const char *agent);

#endif
