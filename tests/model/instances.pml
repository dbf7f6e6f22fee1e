/*
 * Two instances of a run, as a model: three nodes and two or three servers,
 * none of which knows anything at first. Servers begin the run where enough
 * newcomers are, also side by side; nodes of the younger instance go over to the
 * older one; servers take either of them over. ddprun-protocol(7), "Where
 * a run begins", has the rule in words. scripts/model checks it.
 *
 * Within an instance the rule is that of authority.pml, without its time: a server
 * acts while half of its voters obey it, and a round is in force when no worker of
 * an older one of that instance runs, as if all leases were over. An exchange of an
 * agent with a server is one step. Whatever is lost, cut off, frozen or dead is
 * just not scheduled.
 *
 * Left out: servers that are told of another instance and are not asked by its
 * nodes (moved, serves: here nodes go wherever they like), ages (the instance that
 * proposed first is the older one), launchers that are started again, a node that
 * was in three instances.
 *
 * What holds, in go() and try_election(): no worker starts while one of another round
 * of its instance runs; where a run needs more than half of the nodes, none while
 * one of another instance runs, before a node has given one of the two up; and no
 * server takes an instance over without knowing of the newest round in force.
 *
 *   -DMIN=1           nodes that a round needs
 *   -DMADE=1          rounds that each server proposes
 *   -DSERVERS=3       or 2; -DFOUNDERS=3: which of them may begin the run, as bits
 *   -DCUT             node 0 reaches the first server alone
 * Each of these must be found:
 *   -DHALF_FOUNDS     a first round is in force once half of its voters accepted }
 *   -DFORGETS         what was accepted elsewhere is not told to one that begins }
 *                     with -DMIN=2
 *   -DLEFT_PROMISES   what was promised in an instance binds no more once it is left
 */
#ifndef MIN
#define MIN 1
#endif
#ifndef MADE
#define MADE 1
#endif
#ifndef FOUNDERS
#define FOUNDERS 3
#endif
#ifndef SERVERS
#define SERVERS 3
#endif
#define N 3

/* Rounds in the order of (term, number); 0: none. Server s has the term s + 1,
 * and the instance that it begins is s + 1, too. */
#define PID(s, i)     (1 + (s) * MADE + (i))
#define PIDS          (1 + SERVERS * MADE)
#define BIT(i)        (1 << (i))
#define HAS(set, i)   (((set) >> (i)) & 1)
#define COUNT(set)    (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))
#define HALF(of, set) (2 * COUNT((of) & (set)) >= COUNT(of))
#define MOST(of, set) (2 * COUNT((of) & (set)) > COUNT(of))

/* -- agents ---------------------------------------------------------------- */

byte promised[N];   /* the term that it obeys, 0: none */
byte accepted[N];   /* the newest round that it accepted */
bool in_hand[N];    /* ... is in force */
byte entered[N];    /* the newest round whose workers it had */
byte running[N];    /* ... that of its workers, 0: none */
byte left[N];       /* the instance that it gave up, 0: none */
byte left_term[N]; /* what it had promised there */

/* -- servers --------------------------------------------------------------- */

byte serves[SERVERS]; /* the instance, 0: none yet */
bool leads[SERVERS];
byte round[SERVERS];  /* the newest that it knows of */
bool in_force[SERVERS];
byte pending[SERVERS];
byte made[SERVERS];
byte here[SERVERS];     /* nodes that obey it, or did */
byte promises[SERVERS]; /* voters of the instance that promised */
byte accepts[SERVERS];

/* -- what only the model knows --------------------------------------------- */

byte inst[PIDS];      /* the instance */
byte members[PIDS];
byte before[PIDS];
byte newest[SERVERS + 1]; /* the newest round in force, of each instance */
byte older;         /* the first instance; any other one is younger */
hidden byte k, c, set_a;

#define INSTANCE(i)                                                            \
    (accepted[i] != 0 -> inst[accepted[i]] : inst[entered[i]])
#define IS_BOUND(i, s)                                                         \
    (left[i] != 0 && left[i] == serves[s] && left_term[i] >= (s) + 1)

/* To a server whose instance it has a part in, or to any that is newer; who has
 * accepted nothing may go anywhere. */
#ifdef LEFT_PROMISES
#define MAY_PROMISE(i, s) (promised[i] < (s) + 1 || accepted[i] == 0)
#else
#define MAY_PROMISE(i, s)                                                      \
    ((promised[i] < (s) + 1 || accepted[i] == 0) && !IS_BOUND(i, s))
#endif
#define OBEYS(i, s) (promised[i] == (s) + 1)
/* A leader counts an agent that holds a round of the instance; a
 * candidate asks what it has accepted. */
#define VOTES(i, s)                                                            \
    (leads[s] -> (INSTANCE(i) == serves[s] || inst[entered[i]] == serves[s])  \
               : (accepted[i] != 0 && inst[accepted[i]] == serves[s]))

/* -- a node comes ---------------------------------------------------------- */

inline learn(i, s)
{
    if
    :: !leads[s] && accepted[i] > round[s] ->
       round[s] = accepted[i]; in_force[s] = in_hand[i]
    :: !leads[s] && accepted[i] == round[s] && in_hand[i] ->
       in_force[s] = true
    :: else
    fi
}

/* It is elected with the promise that makes most of the voters. */
inline try_election(s)
{
    if
    :: !leads[s] && round[s] != 0 &&
       MOST(members[round[s]], promises[s]) &&
       (in_force[s] || before[round[s]] == 0 ||
        MOST(before[round[s]], promises[s])) ->
       leads[s] = true;
       assert(round[s] >= newest[serves[s]])
    :: else
    fi
}

inline promise(i, s)
{
    promised[i] = s + 1;
    here[s] = here[s] | BIT(i);
    if
    :: serves[s] != 0 && VOTES(i, s) -> promises[s] = promises[s] | BIT(i)
    :: else
    fi;
    try_election(s)
}

/* A server that knows of no round of the run becomes one that may take over what
 * the node tells of. */
inline tell_round(i, s)
{
    serves[s] = inst[accepted[i]]; leads[s] = false;
    here[s] = 0
}

/* It is a newcomer in the older instance. */
inline leave(i)
{
    left[i] = INSTANCE(i); left_term[i] = promised[i];
    accepted[i] = 0; in_hand[i] = false
}

#define IS_OLDER(s)     (serves[s] == older && leads[s])
#define IS_NEWCOMER(i)  (INSTANCE(i) == 0)
#ifdef FORGETS
#define TELLS(i)        false
#else
#define TELLS(i)        (accepted[i] != 0)
#endif

/* -- its workers ------------------------------------------------------------ */

inline find_obeying(s)
{
    set_a = 0;
    for (k : 0 .. N - 1) {
        if
        :: OBEYS(k, s) && VOTES(k, s) -> set_a = set_a | BIT(k)
        :: else
        fi
    }
}

/* Half of its voters obey it: set_a is not 0. */
inline may_act(s)
{
    find_obeying(s);
    if
    :: !HALF(members[round[s]], set_a) -> set_a = 0
    :: else
    fi
}

#define IS_LEFT(x) (left[0] == (x) || left[1] == (x) || left[2] == (x))

inline go(i, which)
{
    for (k : 0 .. N - 1) {
        assert(running[k] == 0 || running[k] == which ||
               (inst[running[k]] != inst[which] &&
                (2 * MIN <= N || IS_LEFT(inst[running[k]]) ||
                 IS_LEFT(inst[which]))))
    }
    running[i] = which; entered[i] = which; in_hand[i] = true
}

/* Node i and server s. */
proctype pair(byte i; byte s)
{
end_idle:
    do
    /* join, voted; prepare and promise */
    :: d_step { serves[s] == 0 && pending[s] == 0 && MAY_PROMISE(i, s) &&
        !OBEYS(i, s) ->
        if
        :: TELLS(i) -> tell_round(i, s); learn(i, s)
        :: else
        fi;
        promise(i, s) }
    :: d_step { serves[s] != 0 && MAY_PROMISE(i, s) && !OBEYS(i, s) &&
        (IS_NEWCOMER(i) || INSTANCE(i) == serves[s] ||
         (accepted[i] == 0 && IS_OLDER(s))) ->
        if
        :: INSTANCE(i) == serves[s] -> learn(i, s)
        :: else
        fi;
        promise(i, s) }
    :: d_step { serves[s] != 0 && IS_OLDER(s) && !OBEYS(i, s) &&
        accepted[i] != 0 && inst[accepted[i]] != serves[s] && left[i] == 0 ->
        leave(i); promise(i, s) }
    /* a pending round and its accept */
    :: d_step { pending[s] != 0 && OBEYS(i, s) && accepted[i] < pending[s] &&
        HAS(members[pending[s]] | before[pending[s]], i) ->
        accepted[i] = pending[s]; in_hand[i] = false;
        accepts[s] = accepts[s] | BIT(i); promises[s] = promises[s] | BIT(i) }
    :: d_step { leads[s] && in_force[s] && round[s] != 0 && OBEYS(i, s) &&
        accepted[i] == round[s] && running[i] == 0 && entered[i] != round[s] &&
        HAS(members[round[s]], i) ->
        may_act(s);
        if
        :: set_a != 0 -> go(i, round[s])
        :: else
        fi }
    od
}

/* Workers end for whatever reason; else their leases are renewed. */
proctype workers(byte i)
{
end_idle:
    do
    :: d_step { running[i] != 0 -> running[i] = 0 }
    od
}

/* -- a server -------------------------------------------------------------- */

inline begin(s)
{
    serves[s] = s + 1;
    older = (older == 0 -> s + 1 : older)
}

/* Nodes that have no workers, of which the server knows. */
inline propose(s, set)
{
    if
    :: serves[s] == 0 -> begin(s)
    :: else
    fi;
    c = PID(s, made[s]);
    made[s]++;
    inst[c] = serves[s]; members[c] = set;
    /* Who takes over may know of the first proposal alone. */
    before[c] = (round[s] != 0 || c == PID(s, 0)
                 -> members[round[s]] : members[PID(s, 0)]);
    pending[s] = c; accepts[s] = 0
}

/* A taker's first one, while the newest may be in force or not. */
inline propose_same(s)
{
    c = PID(s, made[s]);
    made[s]++;
    inst[c] = serves[s]; members[c] = members[round[s]];
    before[c] = (before[round[s]] -> before[round[s]] : members[round[s]]);
    pending[s] = c; accepts[s] = 0
}

#ifdef HALF_FOUNDS
#define ALL_FOUND(s) true
#else
#define ALL_FOUND(s)                                                           \
    (round[s] != 0 || (members[pending[s]] & ~accepts[s]) == 0)
#endif

inline try_force(s)
{
    set_a = 0; /* nodes with workers of older rounds */
    for (k : 0 .. N - 1) {
        if
        :: running[k] != 0 && inst[running[k]] == serves[s] ->
           set_a = set_a | BIT(k)
        :: else
        fi
    }
    if
    :: set_a == 0 && HALF(members[pending[s]], accepts[s]) &&
       HALF(before[pending[s]], accepts[s]) && ALL_FOUND(s) ->
       round[s] = pending[s]; in_force[s] = true; pending[s] = 0;
       newest[serves[s]] = (round[s] > newest[serves[s]]
                            -> round[s] : newest[serves[s]])
    :: else
    fi
}

#define RUNS(i)  (running[i] != 0)
#define RUNNING  (RUNS(0) | RUNS(1) << 1 | RUNS(2) << 2)
#define MAY_BEGIN(s) (serves[s] != 0 || HAS(FOUNDERS, s))
#define WITH(set)                                                              \
    d_step { leads[s] && pending[s] == 0 && made[s] < MADE && MAY_BEGIN(s) && \
        (in_force[s] || round[s] == 0) && COUNT(set) >= MIN &&                 \
        (set & ~here[s]) == 0 && (set & RUNNING) == 0 -> propose(s, set) }

proctype server(byte s)
{
end_idle:
    do
    :: d_step { leads[s] && pending[s] == 0 && made[s] < MADE &&
        round[s] != 0 && !in_force[s] -> propose_same(s) }
    :: WITH(1)
    :: WITH(2)
    :: WITH(3)
    :: WITH(4)
    :: WITH(5)
    :: WITH(6)
    :: WITH(7)
    :: d_step { pending[s] != 0 -> try_force(s) }
    /* a member is gone */
    :: d_step { pending[s] != 0 && made[s] < MADE ->
        pending[s] = 0; accepts[s] = 0 }
    od
}

init
{
    d_step {
        for (k : 0 .. SERVERS - 1) {
            leads[k] = true
        }
        k = 0
    }
    atomic {
        run server(0); run server(1);
        run workers(0); run workers(1); run workers(2);
        run pair(0, 0); run pair(1, 0); run pair(2, 0);
        run pair(1, 1); run pair(2, 1);
#if SERVERS == 3
        run server(2);
        run pair(1, 2); run pair(2, 2);
#endif
#ifndef CUT
        run pair(0, 1);
#if SERVERS == 3
        run pair(0, 2)
#endif
#endif
    }
}
