/*
 * tests/sim/world: inside the simulator: the structs that its files share.
 *   sim.c    the heap of events, counting, the trace, the public listeners
 *   net.c    connections: delays, cuts, resets, what is lost with them
 *   nodes.c  launchers and their workers
 *   watch.c  the server's side, and the invariants
 */
#ifndef WORLD_H
#define WORLD_H

#include <stddef.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/core/rdzv.h"
#include "tests/sim/sim.h"

#define CONNS_MAX       1024
#define CONN_ORDERS     CONNS_MAX /* an operator's, in no network */
#define INSTANCES_MAX   64
#define DEFERRED_MAX    128
#define SIM_CHARGES_MAX 256
#define TICKS_IN_A_ROW  50 /* of one core at one instant */
#define CONNECT_US      (3 * MONO_S)

enum event_kind {
    EV_PUMP,            /* conn, a: direction */
    EV_SYN,             /* conn */
    EV_CONNECT_TIMEOUT, /* conn */
    EV_WORKER_END,      /* node, a: local rank, b: code, c: signal */
    EV_REAPED,          /* the same */
    EV_NODE_TICK,       /* node */
    EV_GUARD,           /* node */
    EV_FAREWELL,        /* node: its tree is dead */
    EV_TCP_TIMEOUT,     /* node */
    EV_SERVER_TICK,
    EV_SERVER_DIES,
};

struct event {
    int64_t at_us;
    uint64_t seq; /* events of one instant keep their order */
    enum event_kind kind;
    int of; /* node or conn */
    uint32_t gen;
    int a, b, c;
};

/* -- the network ----------------------------------------------------------- */

enum dir {
    UP, /* from node to server */
    DOWN
};

enum item_kind {
    ITEM_MSG,
    ITEM_FIN,
    ITEM_RST,
    ITEM_ACCEPTED, /* the connection is there */
    ITEM_REFUSED,
};

struct item {
    struct item *next;
    int64_t at_us;
    enum item_kind kind;
    struct msg msg;
};

struct pipe {
    struct item *head, *tail;
};

struct conn {
    bool used;
    uint32_t gen;
    int node;
    int moves;  /* of that, when it was opened: it comes from there */
    int server; /* the one that took it */
    bool node_open, server_open;
    bool is_up; /* the node was told so */
    struct pipe pipe[2];
};

/* -- nodes ----------------------------------------------------------------- */

struct worker {
    bool alive;
    uint32_t gen;
    int instance;
    int64_t round;
};

struct node_sim {
    bool alive;  /* the agent's process is there */
    bool killed; /* from outside */
    bool orphaned;
    bool agent_frozen, node_frozen;
    bool cut[2];
    bool rejected; /* cut[UP], and somebody else refuses its connections */
    bool off;      /* no power */
    bool stubborn, spawn_fails;
    bool listens, gets_on;
    int lands_at;      /* the server that takes its connections */
    int moves;         /* how often its address has changed ... */
    int moves_told;    /* ... when it sent the last join that was read */
    int drained_epoch; /* of the server that an operator had drain it, 0: none;
                          until that server says that it is gone */
    int end_epoch;     /* of the server that told it of the end */
    int exit_status;
    struct agent agent;
    int conn; /* -1 */
    struct worker workers[SIM_PROCS_MAX];
    uint32_t tick_gen, freeze_gen, cut_gen;
    int64_t tick_at_us;
    int ticks_in_a_row;
    int64_t exempt_until_us; /* woke from a pause, kills first */
    int64_t finish_us;       /* -1 */
    enum agent_work work_seen;
    struct event deferred[DEFERRED_MAX];
    int n_deferred;
    /* What is left to do once its core's step is over. */
    bool spawn_failed, exited, asked;
    int started, attached;
};

/* -- the server and what it sealed ----------------------------------------- */

struct seat {
    bool seen, done;
    int node;
    int base_rank, nproc;
};

struct instance {
    char id[RNG_ID_LEN + 1];
    int64_t round; /* the last one sealed */
    int seal_epoch;
    int restarts, group_world, world_size;
    char master_addr[65];
    int64_t over_us[SIM_CHARGES_MAX]; /* of the rounds that were charged */
    struct seat seats[SIM_AGENTS_MAX];
    int end_status; /* -1: it has not ended */
    int end_epoch;
};

struct sim {
    struct sim_conf conf;
    struct rng rng;
    int64_t now_us;
    uint64_t seq;
    struct event *heap;
    size_t n_heap, cap_heap;
    char broken[512];
    char *trace;
    size_t trace_len, trace_cap;
    int64_t count[SIM_COUNTS];

    struct rdzv *rdzv; /* the one in hand; see sim_use */
    int in_hand;
    struct {
        struct rdzv *rdzv;
        uint32_t gen;
        int64_t tick_us;
    } other; /* a second one, which lives beside it */
    bool server_frozen, server_ending;
    int kill_in;       /* deeds; 0: not */
    bool server_dying; /* it does nothing more, and is killed in this instant */
    int64_t frozen_at_us;
    uint32_t server_gen;
    int epoch;                 /* how often a server was started */
    struct rdzv_before before; /* the server that runs, or ran last */
    int64_t server_tick_us;
    int server_ticks_in_a_row;
    int64_t over_us; /* when the last round was over */
    int sealed;      /* by the step that runs: instance, or -1 */
    bool answered;   /* the order of the step that runs */
    struct instance *instances;
    int n_instances;

    struct conn *conns;
    struct item *free_items;
    uint32_t sampled;

    struct node_sim *nodes;
    int n_nodes;
    int64_t finish_us; /* -1: workers go on */
};

/* -- sim.c ----------------------------------------------------------------- */

void sim_push(struct sim *s, struct event ev); /* at_us is absolute */
uint32_t sim_rnd(struct sim *s, uint32_t below);
bool sim_random(const struct sim *s);
void sim_tell(struct sim *s, const char *who, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void sim_tell_note(struct sim *s, const char *who, const struct note *n);
void sim_break(struct sim *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* -- net.c ----------------------------------------------------------------- */

int64_t net_delay_us(struct sim *s);
void net_addr(int node, int moves, char text[32]);
void net_connect(struct sim *s, int node);
void net_syn(struct sim *s, int conn);
void net_connect_timeout(struct sim *s, int conn);
void net_send(struct sim *s,
              int conn,
              enum dir dir,
              enum item_kind kind,
              const struct msg *m);
void net_pump(struct sim *s, int conn, enum dir dir);
void net_pump_node(struct sim *s, int node); /* after it thawed or healed */
void net_pump_server(struct sim *s);
void net_node_closes(struct sim *s, int node, enum item_kind how);
void net_server_closes(struct sim *s, int conn, enum item_kind how);
void net_server_dies(struct sim *s);
void net_break(struct sim *s, int node, bool timed_out);
void net_reject(struct sim *s, int node);
void net_free(struct sim *s);

/* -- nodes.c --------------------------------------------------------------- */

void node_step(struct sim *s, int i, struct agent_event *ev);
void node_event(struct sim *s, const struct event *ev);
bool node_is_frozen(const struct node_sim *n);
bool node_defer(struct sim *s, const struct event *ev);
void node_tree_dies(struct sim *s, int i);

/* -- watch.c --------------------------------------------------------------- */

/* Takes that server in hand, 0 or 1. */
void sim_use(struct sim *s, int server);
void server_step(struct sim *s, struct rdzv_event *ev);
void server_tick(struct sim *s, int64_t lag_us);
void watch_world(struct sim *s, int node, const struct msg_world *w);
void watch_end(struct sim *s, int node, const struct msg_end *e);
int watch_spawn(struct sim *s, int node, const struct msg_world *w);
void watch_done(struct sim *s, int node);
void watch_exit(struct sim *s, int node, const struct agent_verdict *v);

#endif
