/*
 * core/status: what the rendezvous core knows, as plain structs, to be shown.
 * Only reads; called by the shell between two steps. Texts are borrowed from
 * the core until the next step; they come from peers: escape them.
 */
#ifndef RENDEZVOUS_CORE_STATUS_H
#define RENDEZVOUS_CORE_STATUS_H

#include "rendezvous/core/rdzv.h"

enum status_run_state {
    STATUS_GATHER, /* nodes come together for a round */
    STATUS_ACTIVE, /* a round runs */
    STATUS_DRAIN,  /* its workers are being stopped */
    STATUS_ENDED,
    STATUS_RUN_STATES
};

enum status_node_state {
    STATUS_WAITING,     /* for the next round */
    STATUS_SPARE,       /* for a place */
    STATUS_QUARANTINED, /* a spare of last resort, while its cool-down runs */
    STATUS_RUNNING,     /* in the round */
    STATUS_DONE,        /* in it, its workers have all exited 0 */
    STATUS_STOPPING,    /* its workers are being stopped */
    STATUS_LEAVING,     /* it goes: alone, or since its run has ended */
    STATUS_ABSENT,      /* its connection broke; its lease runs */
    STATUS_NODE_STATES
};

const char *status_run_word(enum status_run_state state);   /* "gather" */
const char *status_node_word(enum status_node_state state); /* "waiting" */

/* Sums over all runs. Those that count up do so since rdzv_new. */
struct status_total {
    int runs[STATUS_RUN_STATES];
    int nodes[STATUS_NODE_STATES];
    int64_t joins, rejoins, refusals, rounds, inherited, failures, restarts,
        refunds, lost, ended, orders, takeovers;
};

struct status_failure {
    bool known;
    int64_t round;
    const char *node;
    const struct msg_failed *what;
    int64_t age_us;
};

/* Who has the authority over a run. */
struct status_authority {
    bool leads;   /* this server is the leader */
    bool may_act; /* and half of the voters vouch for it */
    int64_t term; /* 0: this server has none */
    int voters;   /* of the newest round that is known; 0: none yet */
    int here;     /* of these, that are connected or whose vote stands */
    int answer;   /* of these, that answered within heartbeat_timeout */
};

struct status_run {
    const char *id, *instance, *prog;
    enum status_run_state state;
    int64_t round; /* 0: none yet */
    int nodes_min, nodes_max;
    int nodes; /* of the round while one runs, else those that are there for
                  the next one; without spares */
    int spares, absent;
    int world_size;          /* 0: not known, as master_addr "" */
    const char *master_addr; /* of the last round that was sealed */
    int master_port;
    int restarts, max_restarts, restarts_counting;
    int64_t window_us; /* of the budget; 0: none */
    int64_t uptime_us; /* up to its end */
    int64_t round_uptime_us;
    struct status_authority authority;
    int have;        /* STATUS_GATHER: nodes there are for the next round ... */
    int64_t left_us; /* ... and until that is sealed or given up */
    struct status_failure last;
    const struct msg_end *end; /* STATUS_ENDED, else NULL */
    int64_t end_age_us;
    struct {
        const char *node; /* that tells of ranks that stand still; "": none */
        const char *text; /* what it tells */
        int64_t age_us;
    } stands;
    int group_world; /* nodes of the last round that was sealed */
    int listed;      /* nodes that status_nodes gives */
};

struct status_node {
    const char *name, *agent, *addr, *role;
    enum status_node_state state;
    int group_rank, base_rank; /* -1: it is in no round */
    int nproc;
    int strikes; /* in a row (--node_strikes) */
    bool votes;
    int serve_port; /* where its launcher would serve; 0: nowhere */
    bool connected, hosts;
    bool failed_first; /* in this round: one of its workers, before others */
    int64_t step;      /* the least one of its workers; -1: not known */
    int64_t lease_us, uptime_us;
};

/* Steps of the round that runs, as its workers' progress files have them. */
#define STATUS_SLOWEST_MAX  8
#define STATUS_LAGGARDS_MAX 8
struct status_progress {
    bool known;
    int64_t least, most;
    int64_t micro;    /* the least one grows by so many millionths a second */
    bool keeps;       /* workers on several nodes keep steps in memory .. */
    int64_t mirrored; /* .. and this is the newest one that is known to be on
                         two nodes; -1: none is */
    int n_slow;       /* the slowest rank of each of the slowest nodes */
    struct status_slow {
        int64_t rank, step; /* rank -1: not known */
        int node;           /* as status_nodes has it */
    } slow[STATUS_SLOWEST_MAX];
    int n_laggards; /* ranks that are slower than the others, the slowest one of
                       a node */
    struct status_laggard {
        int64_t rank; /* -1: not known */
        int local_rank, node;
        int permille; /* its own part of a step takes so much longer */
        int64_t part_us;
        int64_t since_us; /* on the server's clock */
    } laggards[STATUS_LAGGARDS_MAX];
};

void status_total(const struct rdzv *r, struct status_total *out);

/* Fills `order`, room for runs_max, with the runs, by id; returns how many. */
int status_runs(const struct rdzv *r, int *order);
bool status_has_run(const struct rdzv *r, int run); /* it is not forgotten */
void status_run(const struct rdzv *r,
                int run,
                int64_t now_us,
                struct status_run *out);

/* The progress of all nodes of the run. status_progress_add looks at one node
 * only and adds its progress to `out`, which is all 0 before the first node. */
void status_progress(const struct rdzv *r,
                     int run,
                     struct status_progress *out);
void status_progress_add(const struct rdzv *r,
                         int node,
                         struct status_progress *out);

/* The same of a run's nodes, room for as many as it has (listed): by group
 * rank, then spares, then nodes that wait, these by name as people sort them.
 */
int status_nodes(const struct rdzv *r, int run, int *order);
/* For many nodes: a node keeps its place in a table of so many as long as it is
 * here, and that is what status_nodes gives. At a place is a node of that run;
 * -1: there is none. */
int status_places(const struct rdzv *r);
int status_place_run(const struct rdzv *r, int node);
const char *status_node_name(const struct rdzv *r, int node);
void status_node(const struct rdzv *r,
                 int node,
                 int64_t now_us,
                 struct status_node *out);

/* The limits that rdzv_new was given. */
const struct rdzv_limits *status_limits(const struct rdzv *r);

#endif
