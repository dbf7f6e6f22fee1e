/*
 * http/groups: the nodes of a large run, counted by their group ranks, and by
 * name the nodes that are not well. Nodes are added one by one, also over some
 * time, and written at the end.
 */
#ifndef RENDEZVOUS_HTTP_GROUPS_H
#define RENDEZVOUS_HTTP_GROUPS_H

#include "rendezvous/base/json.h"
#include "rendezvous/core/status.h"

#define GROUPS_MAX        100
#define GROUPS_UNWELL_MAX 64 /* listed of a run */

/* Of the nodes first to first + size - 1. */
struct groups_one {
    int nodes, ranks;
    int count[STATUS_NODE_STATES];
};

struct groups {
    int size;
    struct groups_one at[GROUPS_MAX + 1]; /* the last one: without a place */
    int unwell;
    int unwell_node[GROUPS_UNWELL_MAX]; /* the first of them */
    struct status_progress progress;
};

/* For group ranks below group_world. A group has so many that all fit, in round
 * numbers; ranks above that count to the last group. */
void groups_init(struct groups *g, int group_world);

/* A node of the run, as it is now; once each. */
void groups_add(struct groups *g,
                const struct rdzv *r,
                int node,
                int64_t now_us);

/*
 * The members "nodes_list", "unwell", "groups" and "group_size" of an object
 * that is open: nodes by name are as they are now, and those that have gone
 * meanwhile are left out; the groups are as they were counted.
 *   "groups":[{"first":0,"nodes":100,"ranks":800,"running":99,"absent":1},...]
 * "first" is -1 for nodes without a place.
 */
void groups_write(const struct groups *g,
                  struct json *j,
                  const struct rdzv *r,
                  int run,
                  int64_t now_us);

#endif
