/*
 * tests/sim/world: inside the simulator: the structs that its files share.
 *   sim.c     the heap of events, counting, the trace, the public listeners
 *   machine.c machines: clocks, and who reaches whom
 *   net.c     connections: delays, what waits in them, resets
 *   dial.c    how a node finds a server: endpoints, addresses, the handshake
 *   nodes.c   launchers and their workers
 *   beside.c  connections that launchers have beside their agents'
 *   faults.c  what can be done to these
 *   server.c  servers, each on a machine
 *   watch.c   the invariants
 *   rounds.c  ... of rounds
 *   settle.c  ... once nothing goes wrong any more
 */
#ifndef WORLD_H
#define WORLD_H

#include <stddef.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/core/rdzv.h"
#include "tests/sim/sim.h"

#define CONNS_MAX       8192
#define CONN_ORDERS     CONNS_MAX /* an operator's, in no network */
#define INSTANCES_MAX   64
#define DEFERRED_MAX    128
#define SIM_CHARGES_MAX 256
#define LINES_MAX       64
#define TICKS_IN_A_ROW  50 /* of one core at one instant */
#define CONNECT_US      (3 * MONO_S)
#define KILL_US         (3 * MONO_MS) /* SIGKILL works within so long */
#define OUTSIDE         SIM_OUTSIDE
#define OUTSIDE_MAX     SIM_OUTSIDE_MAX
#define MACHINES_MAX    (OUTSIDE + OUTSIDE_MAX)
#define SERVE_PORT      30000 /* + machine: where its launcher would serve */

enum event_kind {
    EV_PUMP,            /* conn, a: direction */
    EV_SYN,             /* conn */
    EV_CONNECT_TIMEOUT, /* conn */
    EV_WORKER_DYING,    /* node, a: local rank, b: code, c: signal */
    EV_WORKER_END,      /* the same */
    EV_REAPED,          /* the same */
    EV_NODE_TICK,       /* node */
    EV_GUARD,           /* node */
    EV_FAREWELL,        /* node: its tree is dead */
    EV_SERVES,          /* node: its server tells the endpoint where it is */
    EV_TCP_TIMEOUT,     /* conn, a: how often it had been stuck */
    EV_SERVER_TICK,     /* server */
    EV_SERVER_DIES,     /* server */
};

struct event {
    int64_t at_us;
    uint64_t seq; /* events of one instant keep their order */
    enum event_kind kind;
    int of; /* node, conn or server */
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
    int moves;      /* of that, when it was opened: it comes from there */
    int server;     /* -1: nobody has the address that it was sent to */
    bool is_beside; /* it is not the agent's session */
    bool node_open, server_open;
    bool is_up;    /* the node was told so */
    bool dead_end; /* the server's machine lost its power meanwhile */
    int stuck;     /* how often something began to hold it up */
    struct pipe pipe[2];
};

/* -- machines -------------------------------------------------------------- */

/* Machine i has node i, unless that is another one's successor. From OUTSIDE
 * on they have servers only. */
struct machine {
    bool cut[2];  /* UP: nothing that it sends arrives, DOWN: it gets nothing */
    bool rejects; /* its firewall answers whatever passes it by a reset */
    int side;     /* of a partition: 0 or 1 */
    int ppm;      /* by how much its clock is fast */
    int moves;    /* how often its address has changed */
    int tenant;   /* the last launcher that was started on it, -1: none */
};

/* -- nodes ----------------------------------------------------------------- */

struct worker {
    bool alive;
    bool dying; /* its memory is being taken down */
    uint32_t gen;
    int instance;
    int64_t round; /* which of sim.rounds */
};

/* See beside.c. */
#define FAREWELLS  4 /* a server's place, and three more */
#define BESIDE_MAX (FAREWELLS + SIM_ENDPOINTS_MAX)
struct beside {
    bool is_used;
    int conn, to;
    uint32_t gen;
    struct msg hello;
};

/* A connection on which it looks for a leader. */
struct look {
    bool is_used;
    char voter[MSG_VOTER_LEN + 1];
    int conn;
    uint32_t gen;
    int64_t dialled_us;
};

struct node_sim {
    bool alive;    /* the agent's process is there */
    bool killed;   /* from outside */
    bool unproven; /* ... so that nobody is left to say farewell */
    bool orphaned;
    int64_t born_us, died_us;
    bool agent_frozen, node_frozen;
    int machine;
    bool off; /* no power */
    bool stubborn, spawn_fails;
    bool listens, gets_on;
    int lands_on; /* the server behind the endpoint that it comes to; 0: any */
    int moves_told;   /* its machine's moves when it sent the last join that was
                         read */
    int drained_life; /* of the server that an operator had drain it, 0: none;
                         until that server says that it is gone */
    int farewell_lives[FAREWELLS]; /* of those that know that all of it is dead
                                    */
    int n_farewells;
    struct msg_vote recorded; /* for its guard; version 0: nothing */
    int exit_status;
    struct agent agent;
    int conn; /* -1 */
    struct worker workers[SIM_PROCS_MAX];
    struct beside beside[BESIDE_MAX];
    struct look looks[CANDIDATES_MAX];
    int server;                     /* where its session is or was; -1: none */
    int next_places[FAREWELLS - 1]; /* where else the run may be served; -1 */
    /* As in launcher/rdzv/redirect.h. */
    char offers[MSG_VOTER_LEN + 1], had[MSG_VOTER_LEN + 1];
    uint32_t tick_gen, freeze_gen;
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

/* -- servers and what they sealed ------------------------------------------ */

/* Server i is the one on machine i. */
struct server_sim {
    struct rdzv *rdzv; /* NULL: none runs there */
    int life;          /* the how manieth server that was started at all */
    bool frozen;
    bool of_frozen; /* ... since the launcher that is to start it is */
    int midst_in;   /* deeds until that happens; 0: it does not */
    enum sim_midst midst;
    bool dying; /* it does nothing more, and is killed in this instant */
    int64_t frozen_at_us;
    uint32_t tick_gen;
    int64_t tick_at_us;
    int ticks_in_a_row;
    char id[MSG_VOTER_LEN + 1];
    struct term term;    /* that it asked for */
    int64_t lease_at_us; /* when it granted the last one */
    bool acts;           /* ... and has */
    bool waits;          /* for a majority, as it said */
};

struct seat {
    bool seen, done;
    int node;
    int base_rank, nproc;
};

/* Proposed, and perhaps in force. */
struct round_sim {
    int instance;
    struct term term;
    int64_t round;
    int group_world, world_size, restarts;
    char master_addr[65];
    bool in_force;
    bool accepted[SIM_AGENTS_MAX];
    int seen; /* of the places */
    struct seat *seats;
    int n_voters, voters[MSG_VOTERS_MAX]; /* nodes */
};

/* The terms from one election by count to the next. A later line that nobody of
 * the last round is in knows nothing of that, nor of an end. */
struct line {
    int64_t number;
    int final_status; /* of an end that a server said to be final; -1: none */
};

struct instance {
    char id[RNG_ID_LEN + 1];
    int64_t round; /* the last one sealed */
    int restarts, group_world, world_size;
    char master_addr[65];
    int64_t over_us[SIM_CHARGES_MAX]; /* of the rounds that were charged */
    struct seat seats[SIM_AGENTS_MAX];
    int said_life; /* of the last server that said its end */
    int n_lines;   /* in which rounds or ends of it came into force */
    struct line lines[LINES_MAX];
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

    struct machine machines[MACHINES_MAX];
    bool wall[2]; /* nothing that side 0, 1 sends arrives at the other one */
    struct server_sim servers[MACHINES_MAX];
    int lives;       /* how many servers were started */
    int acting;      /* the server whose step runs */
    int64_t over_us; /* when the last round was over */
    bool answered;   /* the order of the step that runs */
    struct instance *instances;
    int n_instances;
    struct round_sim *rounds;
    int n_rounds;
    struct round_sim told; /* the last voters that were */

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

/* -- machine.c ------------------------------------------------------------- */

/* What its clock shows, and when it will show that at the earliest. */
int64_t clock_of(const struct sim *s, int machine, int64_t at_us);
int64_t clock_when(const struct sim *s, int machine, int64_t shown_us);

/* Whether what one sends gets to the other. */
bool machine_reaches(const struct sim *s, int from, int to);
/* ... or is answered by a reset on its way. */
bool machine_is_rejected(const struct sim *s, int from, int to);

/* -- net.c ----------------------------------------------------------------- */

int64_t net_delay_us(struct sim *s);
void net_addr(int machine, int moves, char text[32]);
void net_send(struct sim *s,
              int conn,
              enum dir dir,
              enum item_kind kind,
              const struct msg *m);
void net_pump(struct sim *s, int conn, enum dir dir);
void net_pump_node(struct sim *s, int node); /* after it thawed */
void net_pump_server(struct sim *s, int server);
void net_pump_all(struct sim *s);       /* after something healed */
void net_await_timeouts(struct sim *s); /* after something was cut */
void net_timeout(struct sim *s, int conn, int stuck);
void net_node_closes(struct sim *s, int node, enum item_kind how);
void net_conn_closes(struct sim *s,
                     int conn,
                     enum item_kind how); /* a node's */
void net_server_closes(struct sim *s, int conn, enum item_kind how);
void net_server_dies(struct sim *s, int server, enum item_kind how);
void net_server_off(struct sim *s, int server);
void net_break(struct sim *s, int conn);
void net_break_node(struct sim *s, int node);
void net_break_server(struct sim *s, int server);
void net_reject(struct sim *s, int machine);
void net_refuse(struct sim *s, int conn);             /* by a firewall */
void net_lose(struct sim *s, int conn, enum dir dir); /* what is under way */
void net_free(struct sim *s);

/* -- dial.c ---------------------------------------------------------------- */

void dial_connect(struct sim *s, int node, const struct agent_action *a);
int dial_beside(struct sim *s, int node, int machine); /* the connection */
int dial_look(struct sim *s, int node, const struct agent_action *a);
int dial_machine(const struct sim *s, const char *target); /* -1: none */
void dial_syn(struct sim *s, int conn);
void dial_timeout(struct sim *s, int conn);

/* -- nodes.c --------------------------------------------------------------- */

void node_dies(const struct sim *s, struct node_sim *n); /* its launcher does */

void node_step(struct sim *s, int i, struct agent_event *ev);
void node_event(struct sim *s, const struct event *ev);
bool node_is_frozen(const struct node_sim *n);
bool node_defer(struct sim *s, const struct event *ev);
void node_tree_dies(struct sim *s, int i);
void node_schedule_tick(struct sim *s, int i);
/* It fails by itself: at once, or its launcher knows of it before it is gone.
 */
void node_worker_fails(struct sim *s, int i, int local, int code, int signo);
void node_end_worker(
    struct sim *s, int i, int local, int64_t after_us, int code, int signo);
bool node_serves(const struct sim *s, int i); /* a server there may be its */
/* A server on that machine ends with this launcher. */
bool node_is_at_its_own(const struct sim *s, int i, int server);

/* -- beside.c -------------------------------------------------------------- */

void beside_connected(struct sim *s, int conn);
void beside_hear(struct sim *s, int conn, const struct msg *m);
void beside_farewell(struct sim *s, int node);
void beside_voters(struct sim *s, int node, const struct msg_voters *v);
void beside_moved(struct sim *s, int node, const struct msg_serves *m);
void beside_tick(struct sim *s, int node);
void beside_ask(struct sim *s, int node, const struct agent_action *a);
void beside_ask_no_more(struct sim *s, int node);
void beside_lost(struct sim *s, int conn); /* it was refused, or has ended */

/* -- server.c -------------------------------------------------------------- */

bool server_is_up(const struct sim *s, int server);
bool server_is_frozen(const struct sim *s, int server);
void server_step(struct sim *s, int server, struct rdzv_event *ev);
void server_event(struct sim *s, const struct event *ev);
int server_life(const struct sim *s); /* of that which most nodes are at */
void server_try_end(struct sim *s, int server);
void server_start(struct sim *s, int server);
void server_kill(struct sim *s, int server);
void server_power_off(struct sim *s, int server);
void server_freeze(struct sim *s, int server);
void server_thaw(struct sim *s, int server);

/* -- watch.c --------------------------------------------------------------- */

void watch_world(struct sim *s, int node, const struct msg_world *w);
void watch_end(struct sim *s, const struct msg_end *e);
void watch_refused(struct sim *s, int node, const struct msg_refused *m);
int watch_instance(struct sim *s, const char *id);
struct line *watch_line(struct sim *s, struct instance *in, int64_t term);
void watch_done(struct sim *s, int node);
void watch_exit(struct sim *s, int node, const struct agent_verdict *v);

/* -- rounds.c -------------------------------------------------------------- */

void round_voters(struct sim *s, const struct msg_voters *v);
void round_world(struct sim *s,
                 int node,
                 int instance,
                 const struct msg_world *w);
void round_go(struct sim *s, int node, const struct msg_go *g);
void round_accept(struct sim *s, int node, const struct msg_accept *m);
void round_prepare(struct sim *s, const struct msg_prepare *o);
void round_lease(struct sim *s, const struct msg_lease *l);
void round_waiting(struct sim *s, const struct msg_waiting *w);
int round_spawn(struct sim *s, int node, const struct msg_world *w);
/* Of the voters of each round that is in force or may come into it, more than
 * half are there. */
bool round_has_majority(struct sim *s);
void round_free(struct sim *s);

#endif
