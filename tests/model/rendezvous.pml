/*
 * The rendezvous as a model, small enough that spin sees all of it: N nodes
 * and their agents, one run, a server that may be killed and started again.
 * The names are those of the code: run states and node states of
 * rendezvous/core, work of launcher/agent/agent, messages of messages.def.
 * scripts/model checks it.
 *
 * Each step of the real cores is one atomic step here; connections keep the
 * order of messages and lose what was under way when they break. Time is left
 * out, and what the cores conclude from it is put as an order of events:
 *
 *   - a lease ends at the agent (lease_over), who kills then, before it ends at
 *     the server (gen[i]++): the server counts from later and grants less
 *     (node_grant);
 *   - a server without memory seals no earlier than the leases of nodes that it
 *     has not seen are over (round_known_at_us);
 *   - a lease whose time is over at the server is void wherever it is (gen).
 *
 * Left out: spares beyond nodes_max, last call (but as an event), beats on a
 * link that works, refunds, the weight of failures, the roll of a round,
 * that it is known to be over, and two instances that meet (tests/sim does that,
 * NEWCOMERS=1).
 *
 * What holds: the assertions in seal(), charge() and spawn(). At the end, when
 * nothing can happen any more, settled() must hold: a round runs on every live
 * node, or the run has ended, or too few are left. Faults are bounded, and
 * there are no cycles (checked apart), so that the end is always reached: that
 * is progress.
 *
 *   -DN=2 -DNODES_MIN=1 -DFAULTS=2 -DRESTARTS=1 -DDAEMONS=1
 *   -DFINISHING     workers succeed if nothing happens to them
 *   -DLEAVING       a node may be told to go, by its user
 *   -DORDERS        ... or by an operator (drain), who may end the run, too
 *   -DSEAL_EARLY    the server does not wait for leases   } each must
 *   -DRESET_IS_FIN  a broken connection counts as a FIN   } be found
 *   -DFORGET_ROUND  a server without memory starts anew   }
 *   -DCHARGE_TWICE  each node's failure is charged        }
 *   -DMUTE          a stop is not said again after a break }
 *   -DLEAVE_IS_FIN  a node that leaves counts as gone      }
 *   -DDRAIN_ONCE    a drain is not said again after a break }
 *   -DDRAIN_FORGETS a drained node may come into a round   }
 */
#ifndef N
#define N 2
#endif
#ifndef NODES_MIN
#define NODES_MIN 1
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef DAEMONS
#define DAEMONS 1 /* how often the server is killed, of all faults */
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#define ROUNDS 12
#define INSTS  4

/* Messages; fin and rst are the ends of a connection. */
mtype = { join, failed, ready, done, leave, world, stop, drain, lease, end,
          refused, fin, rst };

/* enum run_state */
#define RUN_GATHER 0
#define RUN_ACTIVE 1
#define RUN_DRAIN  2
#define RUN_ENDED  3
/* enum node_state; NODE_UNKNOWN: the server has no such node */
#define NODE_UNKNOWN  0
#define NODE_WAITING  1
#define NODE_SPARE    2
#define NODE_RUNNING  3
#define NODE_DONE     4
#define NODE_STOPPING 5
#define NODE_STALE    6
#define NODE_ENDING   7
#define NODE_LEAVING  8
#define NODE_DRAINED  9
/* enum agent_work, and what a join says of it (enum msg_state) */
#define AGENT_NONE     0
#define AGENT_RUNNING  1
#define AGENT_STOPPING 2
#define AGENT_DONE     3
#define AGENT_FRESH    4 /* in a join: it holds no round */
/* enum anchor */
#define ANCHOR_NONE  0
#define ANCHOR_READY 1
#define ANCHOR_HELD  2

/* kind, instance, round, what the join says of work, sure; lease: gen */
chan up[N] = [8] of { mtype, byte, byte, byte, bool };
chan down[N] = [8] of { mtype, byte, byte };

/* -- the server's memory --------------------------------------------------- */

byte run_state = RUN_GATHER;
byte run_inst;        /* 0: none yet */
byte run_round;
byte group_world;
byte restarts;
byte holes;
byte gone_done;
byte anchor;
bool rebuilt;
bool charged;
byte node[N];
bool conn[N];         /* false: absent */
bool in_group[N];     /* group_rank >= 0 */
bool taken[N];
bool drained[N];      /* an operator's order, until the node is gone */

/* -- the agents ------------------------------------------------------------ */

byte work[N];
byte a_inst[N];
byte a_round[N];
bool holds[N];
bool sure[N];
bool alive[N];        /* its workers */
bool leased[N];       /* the lease is not over */
bool link_up[N];
bool has_failed[N];
bool leaving[N];
bool dead[N];         /* the launcher is no more */
bool told[N];         /* ... since it was told of the end, or refused */
bool cut[N];

/* -- what only the model knows --------------------------------------------- */

byte gen[N];          /* leases of earlier ones are void */
byte insts;           /* made so far */
byte sealed_round, sealed_inst; /* by any server */
byte group_of[INSTS * ROUNDS];  /* nodes of each round */
byte charges_of[INSTS * ROUNDS]; /* restarts up to it, as its members know */
byte faults = FAULTS;
byte daemons = DAEMONS;
byte k, n;            /* of loops; 0 in between */

#define AT(inst, round) ((inst) * ROUNDS + (round))
#define IN_ROUND(i)                                                            \
    (node[i] == NODE_RUNNING || node[i] == NODE_STOPPING ||                    \
     node[i] == NODE_DONE || node[i] == NODE_LEAVING)

#ifdef DRAIN_FORGETS
#define IS_WANTED(i) true
#else
#define IS_WANTED(i) (!drained[i])
#endif

inline to_node(i, kind, inst, round)
{
    if
    :: conn[i] -> assert(nfull(down[i])); down[i]!kind, inst, round
    :: else
    fi
}

inline to_server(i, kind, what)
{
    if
    :: link_up[i] ->
       assert(nfull(up[i]));
       up[i]!kind, a_inst[i], a_round[i], what, sure[i]
    :: else
    fi
}

/* -- rendezvous/core ------------------------------------------------------- */

inline forget_run()
{
    run_state = RUN_GATHER; run_inst = 0; run_round = 0; group_world = 0;
    restarts = 0; holes = 0; gone_done = 0; anchor = ANCHOR_NONE;
    rebuilt = false; charged = false
}

/* The server closes it, once what it said is out. */
inline drop(i)
{
    if
    :: conn[i] -> assert(nfull(down[i])); down[i]!rst, 0, 0; conn[i] = false
    :: else
    fi
}

inline round_over()
{
    if
    :: run_state == RUN_ACTIVE ->
       run_state = RUN_DRAIN;
       for (k : 0 .. N - 1) {
           if
           :: node[k] == NODE_RUNNING || node[k] == NODE_DONE ->
              node[k] = NODE_STOPPING;
              to_node(k, stop, run_inst, run_round)
           :: else
           fi
       }
       k = 0
    :: else
    fi
}

inline run_end()
{
    run_state = RUN_ENDED; holes = 0;
    for (k : 0 .. N - 1) {
        if
        :: node[k] != NODE_UNKNOWN ->
           node[k] = NODE_ENDING;
           to_node(k, end, 0, 0)
        :: else
        fi
    }
    k = 0
}

inline seal()
{
    /* Invariant 1: no worker of an earlier round is left; but where a server
     * without memory never heard of it, which makes another instance. */
    for (k : 0 .. N - 1) {
        assert(!alive[k] || (a_inst[k] != run_inst && !rebuilt))
    }
    k = 0;
    if
    :: rebuilt && anchor == ANCHOR_NONE -> run_inst = 0
    :: else
    fi;
    run_round = run_round + 1 + (rebuilt && anchor != ANCHOR_HELD);
    rebuilt = false; holes = 0; gone_done = 0; charged = false;
    if
    :: run_inst == 0 -> insts++; run_inst = insts
    :: else
    fi;
    assert(run_round < ROUNDS && run_inst < INSTS);
    /* Invariant 3: a number is not given twice. */
    assert(run_inst != sealed_inst || run_round > sealed_round);
    sealed_inst = run_inst; sealed_round = run_round;
    run_state = RUN_ACTIVE;
    group_world = 0;
    for (k : 0 .. N - 1) {
        if
        :: node[k] == NODE_WAITING || node[k] == NODE_SPARE ->
           assert(!drained[k]); /* it is told to go, and gets no place */
           node[k] = NODE_RUNNING; in_group[k] = true; group_world++;
           to_node(k, world, run_inst, run_round)
        :: else
        fi
    }
    k = 0;
    assert(group_world >= NODES_MIN && group_world <= N);
    group_of[AT(run_inst, run_round)] = group_world;
    charges_of[AT(run_inst, run_round)] = restarts
}

/* When every node of the round has answered or is lost. */
inline charge()
{
    if
    :: charged && restarts >= RESTARTS -> run_end()
    :: else ->
       if
       :: charged ->
          restarts++;
#ifdef CHARGE_TWICE
          restarts++;
#endif
          /* Invariant 3: once, whoever saw the failure, be it a server that was
           * killed before it could tell. */
          assert(restarts <= charges_of[AT(run_inst, run_round)] + 1)
       :: else
       fi;
       run_state = RUN_GATHER
    fi
}

/* How many are in this state, to n. */
inline count(what)
{
    n = 0;
    for (k : 0 .. N - 1) {
        n = n + (node[k] == what)
    }
    k = 0
}

/* Whether members of rounds that a server before us sealed may run on: their
 * leases end before round_known_at_us. */
inline count_unseen()
{
    n = 0;
    for (k : 0 .. N - 1) {
        n = n + (node[k] == NODE_UNKNOWN && !dead[k] && leased[k] && alive[k])
    }
    k = 0
}

inline try_seal(last_call_over)
{
    n = 0;
    for (k : 0 .. N - 1) {
        n = n + (node[k] != NODE_UNKNOWN && !conn[k]) +
            (node[k] == NODE_DRAINED && in_group[k]) /* awaits_leave */
    }
    k = 0;
    if
    :: run_state != RUN_GATHER || n > 0 -> skip
    :: else ->
       if
       :: rebuilt && (holes > 0 || anchor != ANCHOR_HELD) -> count_unseen()
       :: else -> n = 0
       fi;
       if
       :: n > 0 -> skip
       :: else ->
          for (k : 0 .. N - 1) {
              n = n + (node[k] == NODE_WAITING || node[k] == NODE_SPARE)
          }
          k = 0;
          if
          :: n >= NODES_MIN &&
             (n == N || run_round > 0 || last_call_over) -> seal()
          :: else
          fi
       fi
    fi;
    n = 0
}

/* What the core does at the end of a step where it is due: round_try_drained,
 * round_try_done, round_try_seal. */
inline settle()
{
    count(NODE_DONE);
    if
    :: run_state == RUN_ACTIVE && holes == 0 && n + gone_done >= group_world ->
       run_end()
    :: else
    fi;
    n = 0;
    for (k : 0 .. N - 1) {
        n = n + (node[k] == NODE_LEAVING)
    }
    k = 0;
    if
    :: n == 0 -> count(NODE_STOPPING)
    :: else
    fi;
    if
    :: run_state == RUN_DRAIN && n == 0 && holes == 0 -> charge()
    :: else
    fi;
    try_seal(false);
    n = 0
}

inline node_gone(i)
{
    if
    :: run_state == RUN_ACTIVE && node[i] == NODE_DONE -> gone_done++
    :: run_state == RUN_ACTIVE && node[i] == NODE_RUNNING ->
       drop(i); node[i] = NODE_UNKNOWN; round_over()
    :: else
    fi;
    drop(i);
    node[i] = NODE_UNKNOWN; in_group[i] = false; conn[i] = false;
    drained[i] = false;
    for (k : 0 .. N - 1) {
        n = n + (node[k] != NODE_UNKNOWN)
    }
    k = 0;
    if
    :: n == 0 && run_state != RUN_ENDED && run_inst == 0 -> forget_run()
    :: else
    fi;
    n = 0;
    settle()
}

/* Members are missing, or it is done with: no place for one more. */
inline join_place(i)
{
    in_group[i] = false;
    count(NODE_DONE);
    if
#ifndef DRAIN_FORGETS
    :: drained[i] -> node[i] = NODE_DRAINED
#endif
    :: IS_WANTED(i) && run_state == RUN_ACTIVE &&
       !(holes == 0 && n + gone_done == 0 && group_world < N) ->
       node[i] = NODE_SPARE
    :: else ->
       node[i] = NODE_WAITING;
       round_over()
    fi;
    n = 0
}

inline run_rebuild(inst, round)
{
    for (k : 0 .. N - 1) { /* demote_all */
        in_group[k] = false;
        taken[k] = false;
        if
        :: node[k] == NODE_WAITING -> node[k] = NODE_SPARE
        :: node[k] == NODE_LEAVING && !drained[k] ->
           drop(k); node[k] = NODE_UNKNOWN
        :: IN_ROUND(k) && !(node[k] == NODE_LEAVING && !drained[k]) ->
           node[k] = NODE_STALE;
           to_node(k, stop, run_inst, run_round)
        :: else
        fi
    }
    k = 0;
    run_inst = inst; run_round = round; rebuilt = true;
    anchor = ANCHOR_NONE; group_world = group_of[AT(inst, round)];
    holes = group_world; gone_done = 0; charged = false;
    run_state = RUN_ACTIVE
}

inline fill_hole(i, what, is_sure)
{
    taken[i] = true; holes--; in_group[i] = true;
    if
    :: is_sure && what == AGENT_NONE && anchor == ANCHOR_NONE ->
       anchor = ANCHOR_READY
    :: is_sure && what != AGENT_NONE -> anchor = ANCHOR_HELD
    :: else
    fi;
    if
    :: run_state == RUN_ACTIVE && is_sure && what == AGENT_RUNNING ->
       node[i] = NODE_RUNNING
    :: run_state == RUN_ACTIVE && is_sure && what == AGENT_DONE ->
       node[i] = NODE_DONE
    :: else ->
       node[i] = NODE_STOPPING;
       to_node(i, stop, run_inst, run_round);
       round_over()
    fi;
    count(NODE_SPARE);
    if
    :: n > 0 && holes == 0 && group_world < N -> round_over()
    :: else
    fi;
    n = 0
}

/* A node that the server knows, on a new connection. */
inline rejoin(i, round)
{
    conn[i] = true;
    to_node(i, lease, gen[i], 0);
#ifndef DRAIN_ONCE
    if
    :: drained[i] && node[i] != NODE_ENDING -> to_node(i, drain, 0, 0)
    :: else
    fi;
#endif
    if
    :: node[i] == NODE_RUNNING && round != run_round ->
       to_node(i, world, run_inst, run_round)
#ifndef MUTE
    :: node[i] == NODE_STOPPING -> to_node(i, stop, run_inst, run_round)
    :: node[i] == NODE_STALE -> to_node(i, stop, run_inst, round)
#endif
    :: node[i] == NODE_ENDING -> to_node(i, end, 0, 0)
    :: else
    fi
}

inline join_new(i, inst, round, what, is_sure)
{
    conn[i] = true;
#ifndef FORGET_ROUND
    if
    :: what != AGENT_FRESH &&
       (run_inst == 0 || (rebuilt && round > run_round && inst == run_inst)) ->
       run_rebuild(inst, round)
    :: else
    fi;
#endif
    if
    :: what != AGENT_FRESH && rebuilt &&
       charges_of[AT(inst, round)] > restarts ->
       restarts = charges_of[AT(inst, round)]
    :: else
    fi;
    to_node(i, lease, gen[i], 0);
    if
    :: what != AGENT_FRESH && holes > 0 && round == run_round &&
       !taken[i] -> fill_hole(i, what, is_sure)
    :: what != AGENT_FRESH && !(holes > 0 && round == run_round && !taken[i]) ->
       node[i] = NODE_STALE;
       to_node(i, stop, inst, round)
    :: else -> join_place(i)
    fi
}

/* Who held a round of an instance that is not this run's is refused; of one
 * that has ended it is told the end. */
inline join_step(i, inst, round, what, is_sure)
{
    if
    :: node[i] != NODE_UNKNOWN -> rejoin(i, round)
    :: node[i] == NODE_UNKNOWN && run_state == RUN_ENDED ->
       conn[i] = true; to_node(i, end, 0, 0); drop(i)
    :: node[i] == NODE_UNKNOWN && run_state != RUN_ENDED &&
       what != AGENT_FRESH && run_inst != 0 && inst != run_inst ->
       conn[i] = true; to_node(i, refused, 0, 0); drop(i)
    :: else -> join_new(i, inst, round, what, is_sure)
    fi
}

/* One that came after the round was over may be its consequence, or have come
 * about before: its age tells. */
inline on_failed(i, round)
{
    if
    :: round == run_round && node[i] == NODE_RUNNING ->
       charged = true; round_over()
    :: round == run_round && node[i] == NODE_STOPPING ->
       if
       :: charged = true
       :: skip
       fi
    :: else
    fi
}

/* A beat comes with it, and is answered before the next round is sealed. */
inline on_ready(i, round)
{
    to_node(i, lease, gen[i], 0);
    if
    :: node[i] == NODE_STALE -> join_place(i)
    :: node[i] == NODE_STOPPING && round == run_round ->
       node[i] = NODE_WAITING
    :: node[i] == NODE_RUNNING && round == run_round ->
       node[i] = NODE_WAITING; round_over()
    :: node[i] == NODE_LEAVING && round == run_round -> node_gone(i)
    :: else
    fi
}

/* Its workers may still be there: it is waited for, but where it runs none. */
inline on_leave(i)
{
    if
    :: node[i] == NODE_UNKNOWN || node[i] == NODE_LEAVING ||
       run_state == RUN_ENDED -> skip
    :: else ->
       if
#ifndef LEAVE_IS_FIN
       :: node[i] == NODE_RUNNING || node[i] == NODE_STOPPING ->
          node[i] = NODE_LEAVING; round_over()
       :: node[i] != NODE_RUNNING && node[i] != NODE_STOPPING -> node_gone(i)
#else
       :: node_gone(i)
#endif
       fi
    fi
}

/* command.c, drain() */
inline order_drain(i)
{
    drained[i] = true;
    to_node(i, drain, 0, 0);
    if
    :: node[i] == NODE_WAITING || node[i] == NODE_SPARE ->
       node[i] = NODE_DRAINED
    :: node[i] == NODE_RUNNING || node[i] == NODE_STOPPING ->
       node[i] = NODE_LEAVING; round_over()
    :: else
    fi;
    settle()
}

inline on_done(i, round)
{
    if
    :: node[i] == NODE_RUNNING && round == run_round -> node[i] = NODE_DONE
    :: else
    fi
}

/* A connection that broke: whoever is in no round has nothing to be waited
 * for. */
inline on_closed(i)
{
    conn[i] = false;
    if
#ifdef RESET_IS_FIN
    :: node[i] != NODE_UNKNOWN -> node_gone(i)
#else
    :: node[i] != NODE_UNKNOWN && !IN_ROUND(i) && !in_group[i] &&
       node[i] != NODE_ENDING && !drained[i] -> node_gone(i)
#endif
    :: else
    fi
}

inline server_hears(i)
{
    if
    :: up[i]?join(x_inst, x_round, x_what, x_sure) ->
       join_step(i, x_inst, x_round, x_what, x_sure)
    :: up[i]?failed(x_inst, x_round, _, _) -> on_failed(i, x_round)
    :: up[i]?ready(x_inst, x_round, _, _) -> on_ready(i, x_round)
    :: up[i]?done(x_inst, x_round, _, _) -> on_done(i, x_round)
    :: up[i]?leave(_, _, _, _) -> on_leave(i)
    :: up[i]?fin(_, _, _, _) ->
       conn[i] = false;
       if
       :: node[i] != NODE_UNKNOWN -> node_gone(i)
       :: else
       fi
    :: up[i]?rst(_, _, _, _) -> on_closed(i)
    fi;
    x_inst = 0; x_round = 0; x_what = 0; x_sure = false;
    settle()
}

/* -- launcher/agent/agent -------------------------------------------------------- */

inline exit_agent(i)
{
    assert(!alive[i]);
    dead[i] = true; work[i] = AGENT_NONE; leased[i] = false; holds[i] = false;
    sure[i] = false; has_failed[i] = false; leaving[i] = false; a_inst[i] = 0; a_round[i] = 0
}

/* All of it is dead: so says the end of its connection. */
inline farewell(i)
{
    exit_agent(i);
    if
    :: link_up[i] -> assert(nfull(up[i])); up[i]!fin, 0, 0, 0, false
    :: else
    fi;
    link_up[i] = false
}

/* By a signal or a drain: once no worker is left. */
inline go(i)
{
    leaving[i] = true;
    to_server(i, leave, 0);
    if
    :: !alive[i] -> farewell(i)
    :: else -> work[i] = AGENT_STOPPING
    fi
}

/* What it says on each new connection. */
inline on_link_up(i)
{
    do
    :: nempty(up[i]) -> up[i]?_, _, _, _, _
    :: nempty(down[i]) -> down[i]?_, _, _
    :: empty(up[i]) && empty(down[i]) -> break
    od;
    link_up[i] = true;
    if
    :: !holds[i] -> to_server(i, join, AGENT_FRESH)
    :: else ->
       to_server(i, join, work[i]);
       if
       :: leaving[i] -> to_server(i, leave, 0)
       :: else
       fi;
       if
       :: has_failed[i] -> to_server(i, failed, 0)
       :: else
       fi;
       if
       :: work[i] == AGENT_NONE -> to_server(i, ready, 0)
       :: work[i] == AGENT_DONE -> to_server(i, done, 0)
       :: else
       fi
    fi
}

inline all_dead(i)
{
    alive[i] = false;
    work[i] = AGENT_NONE;
    to_server(i, ready, 0);
    if
    :: leaving[i] -> farewell(i)
    :: else
    fi
}

inline spawn(i)
{
    /* Invariant 1, seen from the nodes; invariant 3: numbers grow. */
    for (k : 0 .. N - 1) {
        assert(!alive[k] || a_inst[k] != a_inst[i] || a_round[k] == a_round[i])
    }
    k = 0;
    assert(a_inst[i] == sealed_inst && a_round[i] == sealed_round);
    alive[i] = true; work[i] = AGENT_RUNNING
}

inline on_world(i, inst, round)
{
    if
    :: work[i] != AGENT_NONE ||
       (holds[i] && a_inst[i] == inst && round <= a_round[i]) -> skip
    :: else ->
       a_inst[i] = inst; a_round[i] = round; holds[i] = true;
       has_failed[i] = false; sure[i] = leased[i];
       if
       :: leased[i] -> spawn(i)
       :: else -> to_server(i, ready, 0)
       fi
    fi
}

/* `ready` says the round that was stopped, be it one that is unknown here. */
inline on_stop(i, round)
{
    if
    :: work[i] == AGENT_NONE ->
       assert(nfull(up[i]));
       up[i]!ready, a_inst[i], round, 0, sure[i]
    :: work[i] != AGENT_NONE && round == a_round[i] && !leaving[i] ->
       if
       :: work[i] == AGENT_DONE -> all_dead(i)
       :: else -> work[i] = AGENT_STOPPING
       fi
    :: else
    fi
}

inline agent_hears(i)
{
    if
    :: down[i]?lease(x_inst, _) ->
       if
       :: x_inst == gen[i] -> leased[i] = true
       :: else
       fi
    :: down[i]?world(x_inst, x_round) -> on_world(i, x_inst, x_round)
    :: down[i]?stop(x_inst, x_round) -> on_stop(i, x_round)
    :: down[i]?drain(_, _) ->
       if
       :: leaving[i] -> skip
       :: else -> go(i)
       fi
    :: down[i]?end(_, _) ->
       alive[i] = false; told[i] = true; exit_agent(i);
       link_up[i] = false; assert(nfull(up[i])); up[i]!fin, 0, 0, 0, false
    :: down[i]?refused(_, _) ->
       alive[i] = false; told[i] = true; exit_agent(i);
       link_up[i] = false; assert(nfull(up[i])); up[i]!fin, 0, 0, 0, false
    :: down[i]?rst(_, _) -> link_up[i] = false
    fi;
    x_inst = 0; x_round = 0
}

/* Fences: what runs is killed in the same moment. */
inline lease_over(i)
{
    leased[i] = false; sure[i] = false;
    if
    :: alive[i] -> all_dead(i)
    :: else
    fi
}

/* Half-sent messages are lost, the server hears of it. */
inline reset(i)
{
    do
    :: nempty(up[i]) -> up[i]?_, _, _, _, _
    :: nempty(down[i]) -> down[i]?_, _, _
    :: empty(up[i]) && empty(down[i]) -> break
    od;
    link_up[i] = false;
    up[i]!rst, 0, 0, 0, false
}

inline kill_daemon()
{
    forget_run();
    for (k : 0 .. N - 1) {
        node[k] = NODE_UNKNOWN; conn[k] = false; in_group[k] = false;
        taken[k] = false; link_up[k] = false; drained[k] = false;
        do
        :: nempty(up[k]) -> up[k]?_, _, _, _, _
        :: nempty(down[k]) -> down[k]?_, _, _
        :: empty(up[k]) && empty(down[k]) -> break
        od
    }
    k = 0
}

/* When nothing can happen any more: invariant 4. */
inline settled()
{
    n = 0;
    for (k : 0 .. N - 1) {
        n = n + !dead[k]
    }
    k = 0;
    for (k : 0 .. N - 1) {
        assert(dead[k] || !drained[k]) /* it has gone */
    }
    k = 0;
    if
    :: n < NODES_MIN || run_state == RUN_ENDED -> skip
    :: else ->
       for (k : 0 .. N - 1) {
           assert(dead[k] || (alive[k] && a_inst[k] == sealed_inst &&
                              a_round[k] == sealed_round) ||
                  work[k] == AGENT_DONE || node[k] == NODE_SPARE)
       }
       k = 0;
       assert(run_state == RUN_ACTIVE && holes == 0)
    fi;
    n = 0
}

/* -- what happens ---------------------------------------------------------- */

#ifdef SEAL_EARLY
#define LEASE_IS_OVER(i) true
#else
#define LEASE_IS_OVER(i) (!leased[i])
#endif
#if N == 2
#define OVER_NODES(f) (f(0) + f(1))
#else
#define OVER_NODES(f) (f(0) + f(1) + f(2))
#endif
#define IS_WAITING(i) (node[i] == NODE_WAITING || node[i] == NODE_SPARE)
#define IS_ABSENT(i)  (node[i] != NODE_UNKNOWN && !conn[i])
#define IS_UNSEEN(i)  (node[i] == NODE_UNKNOWN && leased[i] && alive[i])
#define CAN_SEAL                                                               \
    (run_state == RUN_GATHER && OVER_NODES(IS_ABSENT) == 0 &&                  \
     OVER_NODES(IS_WAITING) >= NODES_MIN)

/* A node, and what the server does about it. */
active [N] proctype agent()
{
    byte i = _pid;
    byte x_inst, x_round, x_what;
    bool x_sure;
end_idle:
    do
    /* messages */
    :: atomic { nempty(up[i]) && !cut[i] -> server_hears(i) }
    :: atomic { nempty(down[i]) && !cut[i] && link_up[i] && !dead[i] ->
        agent_hears(i) }
    /* a try to connect succeeds */
    :: atomic { !dead[i] && !link_up[i] && !cut[i] -> on_link_up(i) }
    /* the last worker has stopped */
    :: atomic { work[i] == AGENT_STOPPING -> all_dead(i) }
#ifdef FINISHING
    /* all workers exited 0 */
    :: atomic { work[i] == AGENT_RUNNING ->
        alive[i] = false; work[i] = AGENT_DONE; to_server(i, done, 0) }
#endif
    /* no answer comes to its beats */
    :: atomic { leased[i] && (cut[i] || !link_up[i]) -> lease_over(i) }
    :: atomic { cut[i] && link_up[i] && !dead[i] -> reset(i) }
    /* no beat comes: the lease is over there as well */
    :: atomic { node[i] != NODE_UNKNOWN && LEASE_IS_OVER(i) &&
        (cut[i] || dead[i] || !conn[i]) -> gen[i]++; node_gone(i) }
    /* faults, and the end of one */
    :: atomic { faults > 0 && work[i] == AGENT_RUNNING -> /* a worker fails */
        faults--; has_failed[i] = true; work[i] = AGENT_STOPPING;
        to_server(i, failed, 0) }
    :: atomic { faults > 0 && !dead[i] && link_up[i] && !cut[i] ->
        faults--; reset(i) }
    :: atomic { faults > 0 && !dead[i] && link_up[i] && !cut[i] ->
        faults--; cut[i] = true }
    :: atomic { cut[i] && !dead[i] -> cut[i] = false }
    :: atomic { faults > 0 && !dead[i] && !cut[i] -> /* killed: then a FIN */
        faults--; alive[i] = false;
        if
        :: link_up[i] -> assert(nfull(up[i])); up[i]!fin, 0, 0, 0, false
        :: else
        fi;
        exit_agent(i); link_up[i] = false }
#ifdef LEAVING
    :: atomic { faults > 0 && !dead[i] && !leaving[i] -> faults--; go(i) }
#endif
#ifdef ORDERS
    :: atomic { faults > 0 && node[i] != NODE_UNKNOWN && !drained[i] &&
        node[i] != NODE_LEAVING && run_state != RUN_ENDED ->
        faults--; order_drain(i) }
#endif
    :: atomic { faults > 0 && !dead[i] -> /* nothing is heard of it again */
        faults--; alive[i] = false; exit_agent(i); link_up[i] = false;
        cut[i] = true }
    od
}

/* The server's clock, and its end. */
active proctype server()
{
end_idle:
    do
    :: atomic { CAN_SEAL && run_round == 0 -> try_seal(true) } /* last call */
    :: atomic { rebuilt && holes > 0 && OVER_NODES(IS_UNSEEN) == 0 ->
        holes = 0; round_over(); settle() }
    :: atomic { rebuilt && CAN_SEAL && OVER_NODES(IS_UNSEEN) == 0 ->
        try_seal(false) }
    :: atomic { faults > 0 && daemons > 0 ->
        faults--; daemons--; kill_daemon() }
#ifdef ORDERS
    :: atomic { faults > 0 && run_inst != 0 && run_state != RUN_ENDED ->
        faults--; run_end() }
#endif
    :: atomic { timeout -> settled(); break }
    od
}
