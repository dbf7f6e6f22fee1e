/*
 * proto/exits: how the workers of a round ended that did not succeed, told in
 * little room, since the report names them one by one.
 *
 * On one node (struct exits) these are runs of local ranks that ended alike,
 * ascending. In `ready` they are a text, a blank behind each run; a number
 * below 0 is a signal, any other one an exit code:
 *
 *     0-6=-15 7=77
 *
 * In `end` each node's runs stand behind the rank of its first worker and its
 * name, ascending by rank:
 *
 *     @0 node-a 0-3=-15 @4 node-b 0=77
 *
 * What has no room is left out, the highest ranks first; the counts beside it
 * (by_term and so on) tell how many there were. Pure. What a peer says is
 * parsed, and said to others in our own words only.
 */
#ifndef RENDEZVOUS_PROTO_EXITS_H
#define RENDEZVOUS_PROTO_EXITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXITS_RUNS      48
#define EXITS_TEXT_MAX  720  /* ready.ends of messages.def */
#define EXITS_LIST_MAX  2000 /* end.ends and end.stopped */
#define EXITS_LOCAL_MAX 4095 /* the largest local rank; join.nproc */

struct exits_run {
    int16_t first, last; /* local ranks */
    int16_t how;         /* exit code, or a negative signal */
};

/* All 0: nobody ended badly. */
struct exits {
    int n;
    struct exits_run runs[EXITS_RUNS + 1]; /* one is free between two calls */
};

/* Adds a worker; each is added once, in any order. */
void exits_add(struct exits *e, int local_rank, int how);

void exits_print(const struct exits *e, char text[EXITS_TEXT_MAX + 1]);

/* Takes from `text` the runs that are as exits_print writes them, up to the
 * first that is not. */
void exits_parse(struct exits *e, const char *text);

/* Those of `e` that ended by `how`, or (`not_so`) all others. */
void exits_filter(const struct exits *e,
                  int how,
                  bool not_so,
                  struct exits *out);

/*
 * Puts a node's runs into a list at their place; nothing where there are none.
 * A name is cut at 64 bytes, and what would break the list in it becomes '?'.
 */
void exits_merge(char list[EXITS_LIST_MAX + 1],
                 int64_t base_rank,
                 const char *name,
                 const struct exits *e);

/* A run of workers of one node, as it stands in a list. */
struct exits_found {
    int64_t base_rank; /* of its node */
    char node[65];
    struct exits_run run;
};

/*
 * Reads the next run of a list: `*at` is the list first, and what is left of it
 * then. False at the end, or where it is no such list. `f` keeps the node from
 * one call to the next: the same one, all 0 first.
 */
bool exits_next(const char **at, struct exits_found *f);

#endif
