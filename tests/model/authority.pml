/*
 * Who may act for a run with failover, as a model: N nodes that vote and two or
 * three servers, each with an epoch of its own. A server may be frozen, cut off or
 * dead at any moment, and come back and go on: it is just not scheduled.
 * ddprun-protocol(7), AUTHORITY, has the rule in words. scripts/model checks it.
 *
 * An exchange of an agent with its server (beat and lease, office and promise,
 * pending round and accept) is one step: an answer that is lost helps no server.
 * `go` and the end travel for as long as they like.
 *
 * Time is in ticks, of which a lease has L. All ages, and what is left of all
 * leases, stop at L, so that any length of time is seen. With L=1 a lease lives
 * until the next tick, and is granted only on echoes of the same tick.
 *
 * Left out: drift (a margin), long leases, voters that are not all members, the
 * two runs that two servers may begin before there is any round.
 *
 * What holds: no worker starts while one of another round runs, in start(); no
 * later round is in force once the end is final, in try_force(); and no server
 * takes up an end that is older than a round in force, in try_office().
 *
 *   -DN=3 -DFIRST=7   nodes, and which of them are in the first round
 *   -DL=1             ticks of a lease
 *   -DMADE=2          rounds that each server proposes; -DMADE_FIRST: the first one
 *   -DSERVERS=2       or 3
 *   -DDEATHS=1        agents that die; -DPROOFS: other servers may learn of it
 *   -DENDING          the run may be ended
 *   -DEXCEPTION       two voters: one dead with the server in office is enough
 *   -DLAST_WORD       two voters: one dead, of which is known what it accepted, is
 *                     enough
 * Each of these must be found:
 *   -DSTART_EARLY     workers start with the pending round
 *   -DHALF_TAKES      half is enough to take office
 *   -DOLD_ECHOES      echoes never grow old
 *   -DONE_ROUND       the voters of the round before are not asked
 *   -DNO_WAIT         leases of older servers are not waited for
 *   -DLEASES_ONLY     ... counted from leases alone
 *   -DMEMBERS_FORGOT  old members that still hold a lease are not waited for
 *   -DDEAD_VOTE       a proof of death counts as a vote
 *   -DDEAD_ALONE      farewells alone decide, with -DLAST_WORD -DENDING
 *   -DLEFT_IS_DEAD    an agent that went elsewhere leaves a farewell behind
 *   -DREADY_VOTES     ready counts as accept
 *   -DACCEPT_STOPS    accept counts as ready
 *   -DNEW_FIRST       a taker replaces a round that may be in force
 *   -DPENDING_BEFORE  a replaced proposal counts as the round before
 *   -DOBEYS_OLD       an agent obeys servers that are older than its promise
 *   -DONE_BYE         one bye makes the end final      } with -DENDING
 *   -DEND_FORGOT      a taker forgets an end           }
 *   -DEND_STAYS       an old end beats a newer round   }
 *   -DHELD_ENDS       an agent ends with an end that is not final }
 *   -DONE_OF_TWO      ... with -DEXCEPTION: half of two make it final at once
 *   -DSILENCE_EXCEPTS the exception without a proof, with -DEXCEPTION
 *   -DWORD_OLD        ... whatever it accepted             } with -DLAST_WORD
 *   -DWORD_ENDED      ... though it knew of the end        } and -DENDING
 */
#ifndef N
#define N 3
#endif
#ifndef FIRST
#define FIRST ((1 << N) - 1)
#endif
#ifndef L
#define L 1
#endif
#ifndef MADE
#define MADE 2
#endif
#ifndef MADE_FIRST
#define MADE_FIRST MADE
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef SERVERS
#define SERVERS 2
#endif

/* A server's state. */
#define ASKS   0
#define OFFICE 1

/* Rounds are numbered in the order of (epoch, round); 0: none. Server s has the
 * epoch s + 1. */
#define PER_EPOCH   (MADE + 1)
#define PID(s, i)   (1 + (s) * PER_EPOCH + (i))
#define EPOCH(pid)  (((pid) + PER_EPOCH - 1) / PER_EPOCH)
#define PIDS        (1 + SERVERS * PER_EPOCH)

/* Sets of nodes are bits. */
#define BIT(i)      (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define COUNT(set)  (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))
#define HALF(of, set) (2 * COUNT((of) & (set)) >= COUNT(of))
#ifdef HALF_TAKES
#define MOST(of, set) HALF(of, set)
#else
#define MOST(of, set) (2 * COUNT((of) & (set)) > COUNT(of))
#endif
#define AT(s, i)    ((s) * N + (i))

/* -- agents ---------------------------------------------------------------- */

bool alive[N];
byte promised[N];     /* the highest epoch; that server has its session */
byte accepted[N];     /* the newest round */
bool holds[N];        /* ... had its go: it is in force */
byte running[N];      /* the round of its workers, 0: none */
byte lease[N];        /* ticks left */
byte out[N];          /* ticks for which leases of servers before may be out */
byte ended[N];        /* epoch of the end that it accepted, 0: none */

/* -- servers --------------------------------------------------------------- */

byte office[SERVERS];
byte round[SERVERS];   /* the newest round that it knows of */
bool in_force[SERVERS]; /* ... and that it is in force */
byte pending[SERVERS]; /* its proposal, 0: none */
byte made[SERVERS];    /* proposals so far */
byte promises[SERVERS];
byte accepts[SERVERS];
byte standing[SERVERS]; /* farewells said to it */
byte dead[SERVERS];    /* proven dead to it */
byte ready[SERVERS];   /* runs no worker, and starts none but by its go */
byte told[SERVERS];    /* was told go, and has not answered since */
byte wait[SERVERS];    /* ticks for which leases of older ones may be out */
bool ending[SERVERS];
byte heard_end[SERVERS]; /* the newest that a promiser accepted */
byte byes[SERVERS];
byte age[SERVERS * N]; /* of each node's last echo: its lease is no younger */

/* -- what only the model knows --------------------------------------------- */

byte members[PIDS];
byte before[PIDS];
byte forced = PID(0, 0); /* the newest round in force */
byte finished;        /* the end is final: the round that it ends, 0: not yet */
byte deaths = DEATHS;
#ifdef LEASES_ONLY
byte leased_age[N];
#define UNHEARD(i) leased_age[i]
#else
#define UNHEARD(i) age[AT(promised[i] - 1, i)]
#endif
#ifdef EXCEPTION
byte leased_by[N];    /* the server of its last lease */
#endif
#ifdef LAST_WORD
byte last_word[N];    /* of one that died: the newest round that it accepted */
#endif
/* Only within a d_step: they are no part of the state. */
hidden byte k, d, c;
hidden byte set_a, set_b;

#define IS_HERE(i, s) (alive[i] && promised[i] == (s) + 1 && SERVES(s))
#ifdef OBEYS_OLD
#define OBEYS(i, s)                                                            \
    (alive[i] && HAS(promises[s], i) && promised[i] >= (s) + 1 && SERVES(s))
#else
#define OBEYS(i, s) IS_HERE(i, s)
#endif

/* Votes that stand in for an echo or an accept. */
#ifdef DEAD_VOTE
#define STANDING(s) (standing[s] | dead[s])
#else
#define STANDING(s) standing[s]
#endif
#ifdef ONE_ROUND
#define OLD_VOTERS(s) members[round[s]]
#else
#define OLD_VOTERS(s)                                                          \
    (in_force[s] || !before[round[s]] -> members[round[s]] : before[round[s]])
#endif
#define PENDING_VOTERS(s)                                                      \
    (pending[s] -> members[pending[s]] : members[round[s]])

/* The dead do not decide alone over one that may live. */
#ifdef DEAD_ALONE
#define FOR_LIVING(s, of, set) true
#else
#define FOR_LIVING(s, of, set)                                                 \
    (((of) & (set) & ~standing[s]) != 0 || ((of) & ~standing[s]) == 0)
#endif
#define HALF_AT(s, of, set) (HALF(of, set) && FOR_LIVING(s, of, set))
#define MOST_AT(s, of, set) (MOST(of, set) && FOR_LIVING(s, of, set))

/* Half of all that vote for server s. */
#define HALF_OF_ALL(s, set)                                                    \
    (HALF_AT(s, members[round[s]], set) && HALF_AT(s, OLD_VOTERS(s), set) &&   \
     HALF_AT(s, PENDING_VOTERS(s), set))

/* -- an agent and its server ----------------------------------------------- */

/* The ticks that server s may grant, to d: what is left of the lease that began
 * with the echo which makes the half full. */
inline to_grant(s)
{
    d = L;
    do
    :: d > 0 ->
       set_a = STANDING(s);
       for (k : 0 .. N - 1) {
           if
#ifdef OLD_ECHOES
           :: HAS(promises[s], k) -> set_a = set_a | BIT(k)
#else
           :: age[AT(s, k)] <= L - d -> set_a = set_a | BIT(k)
#endif
           :: else
           fi
       }
       if
       :: HALF_OF_ALL(s, set_a) -> break
       :: else -> d--
       fi
    :: else -> break
    od
}

/* Whether node i may have a lease. */
#define IS_ELIGIBLE(i, s)                                                      \
    (office[s] == OFFICE && !ending[s] &&                                      \
     (pending[s] -> HAS(members[pending[s]], i) && running[i] == 0            \
                 : (running[i] == 0 ||                                         \
                    (in_force[s] && running[i] == round[s]))))

/* What its beats and answers tell of its workers. A go that is under way is
 * waited for. */
inline tell_work(i, s)
{
    if
    :: running[i] != 0 -> ready[s] = ready[s] & ~BIT(i)
    :: running[i] == 0 && (!HAS(told[s], i) ||
                           (accepted[i] == round[s] && holds[i])) ->
       ready[s] = ready[s] | BIT(i)
    :: else
    fi
}

/* A beat and its answer: a lease, or else the same office again. */
inline beat(i, s)
{
    age[AT(s, i)] = 0;
    tell_work(i, s);
    to_grant(s);
    if
    :: d > 0 && IS_ELIGIBLE(i, s) ->
       lease[i] = (d > lease[i] -> d : lease[i]);
#ifdef LEASES_ONLY
       leased_age[i] = 0;
#endif
#ifdef EXCEPTION
       leased_by[i] = s;
#endif
    :: else
    fi
}

/* It turns to server s and obeys none before it. */
inline promise(i, s)
{
    if
    :: UNHEARD(i) < L && L - UNHEARD(i) > out[i] -> out[i] = L - UNHEARD(i)
    :: else
    fi;
    promised[i] = s + 1;
#ifdef LEASES_ONLY
    leased_age[i] = L
#endif
}

inline promise_arrives(i, s)
{
    promises[s] = promises[s] | BIT(i);
    age[AT(s, i)] = 0;
    wait[s] = (office[s] == ASKS && out[i] > wait[s] -> out[i] : wait[s]);
    tell_work(i, s);
    /* The newest round; that it is in force. */
    if
    :: office[s] == ASKS && accepted[i] > round[s] ->
       round[s] = accepted[i]; in_force[s] = holds[i]
    :: office[s] == ASKS && accepted[i] == round[s] && holds[i] ->
       in_force[s] = true
    :: else
    fi;
    heard_end[s] = (ended[i] > heard_end[s] -> ended[i] : heard_end[s])
}

/* The server in office lived and died with the other of two voters. */
#ifndef EXCEPTION
#define IS_EXCEPTION(i, s) false
#else
#define RUNS_ON(i) (lease[i] > 0 && holds[i] && running[i] == accepted[i])
#ifdef SILENCE_EXCEPTS
#define IS_DEAD(s, i) true
#else
#define IS_DEAD(s, i) HAS(dead[s], i)
#endif
#define IS_EXCEPTION(i, s)                                                     \
    (HAS(promises[s], i) && round[s] == accepted[i] && IS_DEAD(s, 0) &&        \
     members[round[s]] == (BIT(0) | BIT(i)) && leased_by[i] == 0 && RUNS_ON(i))
#endif

/* A dead voter's last word is read by any server, and as often as one likes: the
 * other voter of two, which has one vote, decides. */
#ifndef LAST_WORD
#define IS_LAST(i, s) false
#else
#ifdef WORD_OLD
#define IS_TOLD(s, k) (last_word[k] != 0)
#else
#define IS_TOLD(s, k) (last_word[k] != 0 && last_word[k] <= round[s])
#endif
#define IS_PAIR(s, i, k)                                                       \
    (members[round[s]] == (BIT(i) | BIT(k)) && i != k && !alive[k] &&          \
     IS_TOLD(s, k))
#if N == 3
#define IS_PAIRED(s, i) (IS_PAIR(s, i, 0) || IS_PAIR(s, i, 1) || IS_PAIR(s, i, 2))
#else
#define IS_PAIRED(s, i) (IS_PAIR(s, i, 0) || IS_PAIR(s, i, 1))
#endif
#define IS_LAST(i, s)                                                          \
    (HAS(promises[s], i) && in_force[s] && IS_PAIRED(s, i))
#endif

/* More than half of the newest round's voters, and of those before, where that
 * may still be in force. An end that is newer is said again. */
inline try_office(i, s)
{
    if
    :: office[s] == ASKS && round[s] != 0 &&
       ((MOST_AT(s, members[round[s]], promises[s]) &&
         MOST_AT(s, OLD_VOTERS(s), promises[s])) || IS_EXCEPTION(i, s) ||
        IS_LAST(i, s)) ->
       office[s] = OFFICE;
#ifdef NO_WAIT
       wait[s] = 0;
#endif
#ifdef END_STAYS
       ending[s] = (heard_end[s] > 0);
#endif
#if !defined(END_STAYS) && !defined(END_FORGOT)
       ending[s] = (heard_end[s] > 0 && heard_end[s] >= EPOCH(round[s]));
#endif
       assert(!ending[s] || heard_end[s] >= EPOCH(forced));
       heard_end[s] = 0
    :: else
    fi
}

/* -- rounds ---------------------------------------------------------------- */

inline propose(s, set)
{
    c = PID(s, made[s] + (s == 0));
    made[s]++;
#ifdef PENDING_BEFORE
    before[c] = (pending[s] -> members[pending[s]] : members[round[s]]);
#else
    before[c] = members[round[s]];
#endif
    members[c] = set;
    pending[s] = c; accepts[s] = 0
}

/* A taker's first one, while the newest may be in force or not: the same again. */
inline propose_same(s)
{
    c = PID(s, made[s] + (s == 0));
    made[s]++;
    members[c] = members[round[s]];
    before[c] = (before[round[s]] -> before[round[s]] : members[round[s]]);
    pending[s] = c; accepts[s] = 0
}

inline start(i, which)
{
    for (k : 0 .. N - 1) {
        assert(k == i || running[k] == 0 || running[k] == which)
    }
    running[i] = which
}

inline accept(i, s)
{
    accepted[i] = pending[s]; holds[i] = false;
    ended[i] = 0;
#ifdef START_EARLY
    if
    :: HAS(members[pending[s]], i) && lease[i] > 0 -> start(i, pending[s])
    :: else
    fi;
#endif
}

inline accept_arrives(i, s)
{
    accepts[s] = accepts[s] | BIT(i);
    age[AT(s, i)] = 0;
#ifdef ACCEPT_STOPS
    ready[s] = ready[s] | BIT(i)
#else
    tell_work(i, s)
#endif
}

/* Nodes that may still run an older round, to set_a. */
inline find_unstopped(s)
{
    set_a = 0;
    for (k : 0 .. N - 1) {
        if
        :: !HAS(ready[s] | dead[s], k) &&
           (age[AT(s, k)] < L ||
            (wait[s] > 0 && HAS(members[round[s]], k))) ->
           set_a = set_a | BIT(k)
        :: else
        fi
    }
#ifdef MEMBERS_FORGOT
    set_a = 0
#endif
}

#ifdef READY_VOTES
#define VOTES(s) (accepts[s] | STANDING(s) | ready[s])
#else
#define VOTES(s) (accepts[s] | STANDING(s))
#endif

inline try_force(s)
{
    find_unstopped(s);
    if
    :: pending[s] != 0 && !ending[s] && set_a == 0 &&
       (in_force[s] || wait[s] == 0) &&
       HALF_AT(s, members[pending[s]], VOTES(s)) &&
       HALF_AT(s, before[pending[s]], VOTES(s)) ->
       /* Of a round that was not this server's choice, no worker starts where
        * one of its members is not here. */
       /* An older one may only be learnt of late. */
       assert(finished == 0 || pending[s] < finished);
       forced = (pending[s] > forced -> pending[s] : forced);
       set_b = (in_force[s] ||
                (members[pending[s]] & ~ready[s]) == 0 -> 1 : 0);
       round[s] = pending[s]; in_force[s] = true; pending[s] = 0;
       if
       :: set_b == 1 ->
          told[s] = members[round[s]];
          ready[s] = ready[s] & ~members[round[s]]
       :: else -> told[s] = 0
       fi
    :: else
    fi
}

/* go, however late it is: by its lease it starts, or not at all. */
inline go(i, s)
{
    accepted[i] = round[s]; holds[i] = true;
    if
    :: lease[i] > 0 -> start(i, accepted[i])
    :: else
    fi
}

inline stop(i)
{
    running[i] = 0
}

/* -- the end --------------------------------------------------------------- */

/* Of two voters the one that has not heard of it may go on if the other is proven
 * dead: not once it can hold no lease. */
#if defined(EXCEPTION) && !defined(ONE_OF_TWO)
#define MAY_RUN_ON(s, i)                                                       \
    (!HAS(byes[s] | dead[s], i) && (age[AT(s, i)] < L || wait[s] > 0))
#define IS_AWAITED(s) (MAY_RUN_ON(s, 0) || MAY_RUN_ON(s, 1))
#else
#define IS_AWAITED(s) false
#endif

inline try_finish(s)
{
    if
#ifdef ONE_BYE
    :: byes[s] != 0 ->
#else
    :: HALF_OF_ALL(s, byes[s] | STANDING(s)) && !IS_AWAITED(s) ->
#endif
       assert(forced <= round[s]);
       finished = round[s]
    :: else
    fi
}

/* -- death ----------------------------------------------------------------- */

/* The farewell goes to the server on whose connection it was. */
inline die(i, says_farewell)
{
    alive[i] = false; running[i] = 0; lease[i] = 0;
#ifdef EXCEPTION
    for (c : 0 .. SERVERS - 1) {
        dead[c] = dead[c] | BIT(i)
    }
#endif
#ifdef LAST_WORD
#ifdef WORD_ENDED
    last_word[i] = accepted[i];
#else
    last_word[i] = (ended[i] != 0 -> 0 : accepted[i]);
#endif
#endif
    accepted[i] = 0; holds[i] = false; ended[i] = 0; out[i] = 0;
    if
    :: says_farewell ->
       c = promised[i] - 1;
       dead[c] = dead[c] | BIT(i);
       if
       :: HAS(promises[c], i) -> standing[c] = standing[c] | BIT(i)
       :: else
       fi;
#ifdef LEFT_IS_DEAD
       for (c : 0 .. SERVERS - 1) {
           if
           :: HAS(promises[c], i) -> standing[c] = standing[c] | BIT(i)
           :: else
           fi
       }
#endif
    :: else
    fi;
    promised[i] = 0
}

inline tick()
{
    for (k : 0 .. N - 1) {
        lease[k] = lease[k] - (lease[k] > 0);
        if
        :: lease[k] == 0 -> running[k] = 0
        :: else
        fi;
#ifdef LEASES_ONLY
        leased_age[k] = leased_age[k] + (leased_age[k] < L);
#endif
        out[k] = out[k] - (out[k] > 0)
    }
    for (c : 0 .. SERVERS - 1) {
        wait[c] = wait[c] - (wait[c] > 0)
    }
    for (c : 0 .. SERVERS * N - 1) {
        age[c] = age[c] + (age[c] < L)
    };
    c = 0
}

/* Its go is on the way, and comes before what the server says later. */
#define IS_GOING(i, s)                                                         \
    (HAS(told[s], i) && accepted[i] <= round[s] &&                            \
     !(accepted[i] == round[s] && holds[i]))
#ifdef EXCEPTION
#define SERVES(s) ((s) != 0 || alive[0]) /* server 0 is on node 0 */
#else
#define SERVES(s) true
#endif

/* -- what happens ---------------------------------------------------------- */

/* Node i at server s. */
proctype pair(byte i; byte s)
{
end_idle:
    do
    /* office and promise */
    :: d_step { alive[i] && promised[i] < s + 1 ->
        promise(i, s); promise_arrives(i, s); try_office(i, s) }
    /* beat and lease */
    :: d_step { office[s] == OFFICE && OBEYS(i, s) && HAS(promises[s], i) ->
        beat(i, s) }
    /* a pending round and its accept */
    :: d_step { pending[s] != 0 && OBEYS(i, s) && HAS(promises[s], i) &&
        accepted[i] < pending[s] && !IS_GOING(i, s) && ended[i] != s + 1 &&
        HAS(members[pending[s]] | before[pending[s]], i) ->
        accept(i, s); accept_arrives(i, s) }
    :: d_step { OBEYS(i, s) && IS_GOING(i, s) && ended[i] == 0 -> go(i, s) }
    :: d_step { office[s] == OFFICE && OBEYS(i, s) && HAS(promises[s], i) &&
        running[i] != 0 -> stop(i) }
#ifdef ENDING
    :: d_step { ending[s] && IS_HERE(i, s) && HAS(promises[s], i) &&
        ended[i] != s + 1 ->
        ended[i] = s + 1; running[i] = 0; age[AT(s, i)] = 0 }
    :: d_step { ending[s] && IS_HERE(i, s) && ended[i] == s + 1 &&
        !HAS(byes[s], i) ->
        byes[s] = byes[s] | BIT(i); age[AT(s, i)] = 0; try_finish(s) }
    :: d_step { ending[s] && SERVES(s) && byes[s] != 0 -> try_finish(s) }
#ifdef HELD_ENDS
    :: d_step { alive[i] && ended[i] != 0 && finished == 0 ->
        finished = accepted[i] }
#endif
#endif
#ifdef PROOFS
    :: d_step { !alive[i] && !HAS(dead[s], i) -> dead[s] = dead[s] | BIT(i) }
#endif
#ifdef EXCEPTION
    :: d_step { IS_HERE(i, s) && office[s] == ASKS && IS_EXCEPTION(i, s) ->
        try_office(i, s) }
#endif
#ifdef LAST_WORD
    :: d_step { IS_HERE(i, s) && office[s] == ASKS && IS_LAST(i, s) ->
        try_office(i, s) }
#endif
    od
}

#ifdef NEW_FIRST
#define CHOOSES(s) (in_force[s] || pending[s] == 0)
#else
#define CHOOSES(s) in_force[s]
#endif

#define MAY_PROPOSE(s)                                                         \
    (office[s] == OFFICE && SERVES(s) && !ending[s] &&                         \
     made[s] < ((s) == 0 -> MADE_FIRST : MADE))
#define WITH(set)                                                              \
    d_step { MAY_PROPOSE(s) && CHOOSES(s) && (set & ~ready[s]) == 0 ->         \
        propose(s, set) }

/* Server s. */
proctype server(byte s)
{
end_idle:
    do
#ifndef NEW_FIRST
    :: d_step { MAY_PROPOSE(s) && !in_force[s] && pending[s] == 0 ->
        propose_same(s) }
#endif
    :: WITH(1)
    :: WITH(2)
    :: WITH(3)
#if N == 3
    :: WITH(4)
    :: WITH(5)
    :: WITH(6)
    :: WITH(7)
#endif
    :: d_step { pending[s] != 0 && SERVES(s) -> try_force(s) }
#ifdef ENDING
    :: d_step { s == 0 && SERVES(s) && !ending[s] ->
        ending[s] = true; pending[s] = 0 }
#endif
    od
}

active proctype world()
{
    byte i;
    d_step {
        members[PID(0, 0)] = FIRST;
        office[0] = OFFICE; round[0] = PID(0, 0); in_force[0] = true;
        promises[0] = (1 << N) - 1; told[0] = FIRST;
        for (i : 0 .. N - 1) {
            alive[i] = true; promised[i] = 1;
            if
            :: HAS(FIRST, i) ->
               accepted[i] = PID(0, 0); holds[i] = true;
               running[i] = PID(0, 0); lease[i] = L
            :: else -> ready[0] = ready[0] | BIT(i)
            fi
        }
        for (c : 0 .. SERVERS * N - 1) {
            age[c] = (c < N -> 0 : L)
        }
        i = 0
    }
    atomic {
        run server(0); run server(1);
        run pair(0, 0); run pair(0, 1); run pair(1, 0); run pair(1, 1);
#if N == 3
        run pair(2, 0); run pair(2, 1);
#endif
#if SERVERS == 3
        run server(2);
        run pair(0, 2); run pair(1, 2);
#if N == 3
        run pair(2, 2);
#endif
#endif
    }
end_idle:
    do
    :: d_step { tick() }
    :: d_step { deaths > 0 && alive[0] -> deaths--; die(0, true) }
    :: d_step { deaths > 0 && alive[0] -> deaths--; die(0, false) }
#ifndef EXCEPTION
    :: d_step { deaths > 0 && alive[1] -> deaths--; die(1, true) }
    :: d_step { deaths > 0 && alive[1] -> deaths--; die(1, false) }
#if N == 3
    :: d_step { deaths > 0 && alive[2] -> deaths--; die(2, true) }
    :: d_step { deaths > 0 && alive[2] -> deaths--; die(2, false) }
#endif
#endif
    od
}
