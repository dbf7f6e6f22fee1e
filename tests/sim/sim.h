/*
 * tests/sim: the real cores of server and agents in a world that is made up:
 * a virtual clock, a seeded network, workers that live and die as told. The
 * same configuration gives the same run, event for event.
 *
 * The network keeps the order of messages on a connection and loses none, as
 * TCP does, until the connection breaks; what was under way then is gone. A
 * node that is cut off has its messages held back, and its connections break
 * after a while. How a connection ends says nothing; farewell is said once all
 * of a node is dead.
 *
 * After each step of a core the invariants of ddprun-protocol(7) are checked.
 * The first one that does not hold stands in sim_broken().
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/agent/agent.h"

#define SIM_AGENTS_MAX    128
#define SIM_PROCS_MAX     4
#define SIM_ENDPOINTS_MAX 4

/* Machines that have servers and no nodes. Machine i < SIM_OUTSIDE is where
 * node i was launched. */
#define SIM_OUTSIDE     SIM_AGENTS_MAX
#define SIM_OUTSIDE_MAX 4

struct sim_conf {
    uint64_t seed;
    int nodes_min, nodes_max;
    int nproc; /* 0: each node its own number */
    int max_restarts;
    int64_t window_ms; /* of these; 0: none */
    int crash_loop;
    int node_strikes;
    int64_t cooldown_ms;
    int64_t scale_ms;
    int64_t heartbeat_ms, reconnect_ms, join_ms, last_call_ms, grace_ms;
    int64_t failure_ms; /* the grace after a failure */
    int64_t delay_us;   /* of a message, at least */
    int64_t jitter_us;  /* and at most so much more; 0: nothing is random */
    int endpoints;      /* how many there are; 0: one, the first outside */
    int endpoint[SIM_ENDPOINTS_MAX]; /* ... on which machines */
    int behind;          /* of no list: so many servers outside stand behind the
                            endpoint, a connection comes to any of them; 0: 1 */
    bool kills_unproven; /* of a launcher that is killed nobody is left to say
                            farewell */
    bool trace;          /* keep the lines of sim_trace */
    bool print;          /* and print them as they come */
    /* What is broken on purpose, to show that it is noticed. */
    bool ignore_leases;  /* agents believe that each lease lasts for a day */
    bool false_farewell; /* a reset counts as a farewell */
};

/* What happened, for the sums at the end. */
enum sim_count {
#define SIM_COUNT(name, meaning) SIM_##name,
#include "tests/sim/counts.def"
#undef SIM_COUNT
    SIM_COUNTS
};
const char *sim_count_meaning(enum sim_count c);

struct sim;

struct sim *sim_new(const struct sim_conf *conf);
void sim_del(struct sim *s);

int64_t sim_now_us(const struct sim *s);
int sim_agents(const struct sim *s);
void sim_run_until(struct sim *s, int64_t at_us);

/* NULL, or what went wrong first. */
const char *sim_broken(const struct sim *s);
const char *sim_trace(const struct sim *s);
int64_t sim_counted(const struct sim *s, enum sim_count c);

/* -- what can be done to a node -------------------------------------------- */

/* A user starts ddprun on one more node; returns its number. */
int sim_launch(struct sim *s);

/* Whether so few launchers of a strict run lived within the last lease that one
 * more may be started: ddprun-protocol(7) assumes it. */
bool sim_may_launch(const struct sim *s);

/* The same on the machine of a node that was killed or had no power, under its
 * name; -1: something of it is still there. */
int sim_launch_again(struct sim *s, int i);

void sim_worker_dies(struct sim *s, int i, int local, int code, int signo);
void sim_spawn_fails(struct sim *s, int i); /* the next one */
void sim_stubborn(struct sim *s, int i);    /* its workers ignore SIGTERM */
void sim_listens(struct sim *s, int i);     /* they look for notices */
void sim_gets_on(struct sim *s, int i);     /* and make progress */
void sim_kill(struct sim *s, int i); /* the launcher; then comes its farewell */
void sim_orphan(struct sim *s, int i);    /* its guard */
void sim_power_off(struct sim *s, int i); /* nothing is heard of it again */
void sim_cut(struct sim *s, int i, bool up, bool down);
void sim_heal(struct sim *s, int i);
void sim_reset(struct sim *s, int i);        /* its connection breaks */
void sim_move(struct sim *s, int i);         /* it has another address */
void sim_freeze_agent(struct sim *s, int i); /* SIGSTOP; its workers run on */
void sim_freeze_node(struct sim *s, int i);  /* a virtual machine is paused */
void sim_thaw(struct sim *s, int i);
void sim_signal(struct sim *s, int i, int signo); /* to the launcher */

/* An operator's orders, carried out at once; false: refused, or the server is
 * not there. */
bool sim_drain(struct sim *s, int i, bool force);
bool sim_end(struct sim *s);

/* An operator looks whether all launchers that live are at one server, and
 * whether another one that has the run answers; if not, tells that server to go
 * on without the others: they are dead. False: they are not there, or it was
 * refused. */
bool sim_go_on(struct sim *s);

/* From now on workers that live or are started exit 0 after so long. */
void sim_finish(struct sim *s, int64_t after_us);
void sim_finish_node(struct sim *s, int i);

/* -- machines -------------------------------------------------------------- */

/* Its clock is fast by so many microseconds in a second. Before all else. */
void sim_drifts(struct sim *s, int machine, int ppm);

/* As sim_cut and sim_heal, of any machine. */
void sim_cut_machine(struct sim *s, int machine, bool up, bool down);
void sim_heal_machine(struct sim *s, int machine);

/* A firewall answers by a reset what a machine sends, and what is sent to it:
 * the nodes believe that nobody listens. sim_heal_machine ends it. */
void sim_reject(struct sim *s, int machine);

/* Machines i with bit i of `side_1` set, those outside from bit 48 on, do not
 * hear the others (from_0), or are not heard by them (from_1), until
 * sim_unite. */
void sim_partition(struct sim *s, uint64_t side_1, bool from_0, bool from_1);
void sim_unite(struct sim *s);

/* What stands between a server and all its nodes is killed: 0: both ends of
 * each connection get a reset, 1: the nodes do, 2: the server does, and the
 * other end when it sends next. */
void sim_relay_dies(struct sim *s, int machine, int how);

int sim_machine(const struct sim *s, int i);      /* on which node i is */
int sim_tenant(const struct sim *s, int machine); /* the last node there, -1 */
int sim_serving(const struct sim *s); /* where most nodes are served */

/* -- any server ------------------------------------------------------------ */

/* One that is outside; the others begin when they are needed. */
void sim_start_on(struct sim *s, int machine);
void sim_kill_on(struct sim *s, int machine);
/* As by SIGTERM: its connections end with a FIN. */
void sim_end_on(struct sim *s, int machine);
/* Without a list: the server behind the endpoint to which the connections of
 * that node come from now on. */
void sim_lands_on(struct sim *s, int i, int machine);
void sim_freeze_on(struct sim *s, int machine);

/* That happens to it in the midst of what it does: at its n-th message from
 * now, read or sent; 0: it does not. A killed one has not sent that any more;
 * one that is cut off has, but it does not arrive. */
enum sim_midst {
    SIM_MIDST_KILL,
    SIM_MIDST_FREEZE,
    SIM_MIDST_CUT
};
void sim_in_midst(struct sim *s, int machine, enum sim_midst what, int n);
void sim_thaw_on(struct sim *s, int machine);

/* -- the first one outside ------------------------------------------------- */

void sim_server_start(struct sim *s);
void sim_server_kill(struct sim *s);

void sim_server_end(struct sim *s);

/* Kills it at its n-th deed from now, n > 0, instead of that: a message that it
 * would read, or one that it would send. False from _was_killed: it has not
 * come to that yet. */
void sim_server_kill_at(struct sim *s, int n);
bool sim_server_was_killed(const struct sim *s);
void sim_server_freeze(struct sim *s);
void sim_server_thaw(struct sim *s);

/* -- looking --------------------------------------------------------------- */

bool sim_is_alive(const struct sim *s, int i);  /* its launcher runs */
bool sim_is_whole(const struct sim *s, int i);  /* ... and nothing hinders it */
bool sim_is_killed(const struct sim *s, int i); /* from outside */
const struct agent *sim_agent(const struct sim *s, int i);
int sim_workers(const struct sim *s, int i);     /* that live */
int sim_exit_status(const struct sim *s, int i); /* -1: still there */
bool sim_server_is_up(const struct sim *s);

/*
 * The bound within which, once nothing goes wrong any more, a round runs or
 * the run has ended: a lease and the wait for members that an inherited round
 * misses (reconnect + 5 s), a silent link, the longest pause and a time-out
 * before each reconnect, the grace for workers, last call, and slack for
 * messages.
 */
int64_t sim_settle_us(const struct sim *s);

/* Checks that it is so: every live node is in the round that was sealed last,
 * or is a spare, or there are too few. */
void sim_check_settled(struct sim *s);

/* Checks that every launcher is gone, and no worker is left. */
void sim_check_over(struct sim *s);

#endif
