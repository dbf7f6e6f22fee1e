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
 * A long lease (LONG) has more ticks. All ages stop at that length then.
 *
 * Left out: drift (a margin), voters that are not all members, and two instances of
 * a run, also those that two servers may begin (instances.pml, founding.pml).
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
 *   -DLONG=2          ticks of a long lease, which the first server gives (of the
 *                     first -DLONG_BY=1) to the nodes below -DLONG_TO
 *   -DSTOPS=1         the last node may be told to go: it says `leave`, stays for a
 *                     while and goes; what was proposed with it is given up
 * Bounds, where all would be too much:
 *   -DCUT             node 0 reaches the first server alone
 *   -DTICKS=1         so much time passes
 *   -DONLY=6          the first server proposes these nodes only
 *   -DAFTER           other servers are called once it has made its rounds
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
 *   -DLONG_UNKNOWN    a long lease, of which half know nothing     } with -DLONG
 *   -DLONG_FORGOT     a taker waits as long as a short one lasts   }
 *   -DLONG_RETRACT    they are told of no more while one is out    }
 *   -DLONG_STAYS      ... and are given on in the next round       }
 *   -DLONG_OUTLIVES   one is kept by who accepts the next round    }
 *   -DLONG_ENTERS     ... or by who enters it without that         }
 *   -DPROPOSE_EARLY   a round is proposed while one is out         }
 *   -DLEAVER_VOTES    who leaves promises another server, with -DSTOPS
 */
#include "authority_state.pml"

/* -- an agent and its server ----------------------------------------------- */

/* The ticks that server s may grant, to d: what is left of a lease of `most` that
 * began with the echo, of one of `who`, which makes the half full. */
inline to_grant(s, most, who)
{
    d = most;
    do
    :: d > 0 ->
       set_a = STANDING(s);
       for (k : 0 .. N - 1) {
           if
#ifdef OLD_ECHOES
           :: HAS(promises[s], k) -> set_a = set_a | BIT(k)
#else
           :: HAS(who, k) && age[AT(s, k)] <= most - d ->
              set_a = set_a | BIT(k)
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

#ifdef LONG
#ifdef LONG_UNKNOWN
#define KNOWING(s) ((1 << N) - 1)
#else
#define KNOWING(s) know[s]
#endif
#define MAY_BE_LONG(i, s)                                                      \
    (tells[s] && (s) < LONG_BY && (i) < LONG_TO && in_force[s] &&              \
     pending[s] == 0 && running[i] == round[s])

/* The newest grant counts, be it shorter. What tells of long leases may be this
 * answer: who knows of them by it is known with the next beat. */
inline grant(i, s, long)
{
    if
    :: long -> to_grant(s, L_MAX, KNOWING(s))
    :: else -> d = 0
    fi;
    if
    :: d > 0 -> longs[s] = longs[s] | BIT(i)
    :: else ->
       to_grant(s, L, (1 << N) - 1);
       longs[s] = (d > 0 && IS_ELIGIBLE(i, s) -> longs[s] & ~BIT(i) : longs[s])
    fi;
    if
    :: d > 0 && !IS_GOING(i, s) -> /* else that comes first */
       heard_long[i] = tells[s];
       know[s] = (tells[s] -> know[s] | BIT(i) : know[s])
    :: else
    fi
}

/* Into another round nothing of a long lease is taken, nor that there is one. */
inline leave_long(i, keeps)
{
    if
    :: !keeps && short_left[i] < lease[i] -> lease[i] = short_left[i]
    :: else
    fi;
    heard_long[i] = false
}
#endif

/* A beat and its answer: a lease, or else the same office again. */
inline beat(i, s, long)
{
    age[AT(s, i)] = 0;
    tell_work(i, s);
#ifdef LONG
    grant(i, s, long);
#else
    to_grant(s, L, (1 << N) - 1);
#endif
    if
    :: d > 0 && IS_ELIGIBLE(i, s) ->
#ifdef LONG
       lease[i] = d;
       short_left[i] = (d < L -> d : L);
#else
       lease[i] = (d > lease[i] -> d : lease[i]);
#endif
#ifdef LEASES_ONLY
       leased_age[i] = 0;
#endif
#ifdef EXCEPTION
       leased_by[i] = s;
#endif
    :: else
    fi
}

#if defined(LONG) && !defined(LONG_FORGOT)
#define LONGEST(i) (heard_long[i] -> L_MAX : L)
#else
#define LONGEST(i) L
#endif

/* It turns to server s and obeys none before it. */
inline promise(i, s)
{
    if
    :: UNHEARD(i) < LONGEST(i) && LONGEST(i) - UNHEARD(i) > out[i] ->
       out[i] = LONGEST(i) - UNHEARD(i)
    :: else
    fi;
    promised[i] = s + 1;
#ifdef LEASES_ONLY
    leased_age[i] = L_MAX
#endif
}

inline promise_arrives(i, s)
{
    promises[s] = promises[s] | BIT(i);
    age[AT(s, i)] = 0;
    wait[s] = (office[s] == ASKS && out[i] > wait[s] -> out[i] : wait[s]);
    tell_work(i, s);
#ifdef LONG
    tells[s] = tells[s] || (office[s] == ASKS && heard_long[i]);
#endif
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
#ifdef LONG
       longs[s] = (tells[s] -> members[round[s]] : 0);
#endif
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
#ifdef LONG_OUTLIVES
    leave_long(i, true);
#endif
#if defined(LONG) && !defined(LONG_OUTLIVES)
    leave_long(i, false);
#endif
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

#ifdef LONG
#define OLDEST(s, k) (HAS(longs[s], k) -> L_MAX : L)
#else
#define OLDEST(s, k) L
#endif

/* Nodes that may still run an older round, to set_a. */
inline find_unstopped(s)
{
    set_a = 0;
    for (k : 0 .. N - 1) {
        if
        :: !HAS(ready[s] | dead[s], k) &&
           (age[AT(s, k)] < OLDEST(s, k) ||
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
#if defined(LONG) && !defined(LONG_STAYS)
       tells[s] = false; know[s] = 0; longs[s] = 0;
#endif
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
#if defined(LONG) && !defined(LONG_ENTERS)
    if
    :: accepted[i] != round[s] -> leave_long(i, false)
    :: else
    fi;
#endif
    accepted[i] = round[s]; holds[i] = true;
    if
    :: lease[i] > 0 && !LEAVES(i) -> start(i, accepted[i])
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
#ifdef LONG
    short_left[i] = 0; heard_long[i] = false;
#endif
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
#ifdef STOPS
    leaves[i] = false;
#endif
    promised[i] = 0
}

#ifdef STOPS
/* Its `leave` counts as a farewell of one that stays for a while. */
inline leave(i, is_heard)
{
    leaves[i] = true; stops--;
    c = promised[i] - 1;
    if
    :: is_heard && HAS(promises[c], i) -> standing[c] = standing[c] | BIT(i)
    :: else
    fi
}
#endif

inline tick()
{
    for (k : 0 .. N - 1) {
        lease[k] = lease[k] - (lease[k] > 0);
#ifdef LONG
        short_left[k] = short_left[k] - (short_left[k] > 0);
#endif
        if
        :: lease[k] == 0 -> running[k] = 0
        :: else
        fi;
#ifdef LEASES_ONLY
        leased_age[k] = leased_age[k] + (leased_age[k] < L_MAX);
#endif
        out[k] = out[k] - (out[k] > 0)
    }
    for (c : 0 .. SERVERS - 1) {
        wait[c] = wait[c] - (wait[c] > 0)
    }
    for (c : 0 .. SERVERS * N - 1) {
        age[c] = age[c] + (age[c] < L_MAX)
    };
    c = 0
}

/* Node 0 reaches the first server alone. */
#ifdef CUT
#define IS_CUT(i, s) ((i) == 0 && (s) != 0)
#else
#define IS_CUT(i, s) false
#endif
#ifdef AFTER
#define IS_EARLY(s) ((s) != 0 && (made[0] < MADE_FIRST || pending[0] != 0))
#else
#define IS_EARLY(s) false
#endif
#ifdef LEAVER_VOTES
#define IS_BOUND(i) false
#else
#define IS_BOUND(i) LEAVES(i)
#endif
#define REACHES(i, s) (!IS_CUT(i, s) && !IS_EARLY(s) && !IS_BOUND(i))

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
    :: d_step { alive[i] && promised[i] < s + 1 && REACHES(i, s) ->
        promise(i, s); promise_arrives(i, s); try_office(i, s) }
    /* beat and lease */
    :: d_step { office[s] == OFFICE && OBEYS(i, s) && HAS(promises[s], i) ->
        beat(i, s, false) }
#ifdef LONG
    :: d_step { office[s] == OFFICE && OBEYS(i, s) && HAS(promises[s], i) &&
        MAY_BE_LONG(i, s) ->
        beat(i, s, true) }
    /* ready; an answer would shorten a long lease */
    :: d_step { office[s] == OFFICE && OBEYS(i, s) && HAS(promises[s], i) &&
        running[i] == 0 && !HAS(ready[s], i) ->
        age[AT(s, i)] = 0; tell_work(i, s) }
#endif
    /* a pending round and its accept */
    :: d_step { pending[s] != 0 && OBEYS(i, s) && HAS(promises[s], i) &&
        accepted[i] < pending[s] && !IS_GOING(i, s) && ended[i] != s + 1 &&
        !LEAVES(i) &&
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

/* Who accepts a round forgets that long leases may be out. */
#if defined(LONG) && !defined(PROPOSE_EARLY)
#define IF_ALL_STOPPED(s)                                                      \
    find_unstopped(s); if :: set_a == 0 && (in_force[s] || wait[s] == 0) ->
#define FI ; :: else fi
#else
#define IF_ALL_STOPPED(s)
#define FI
#endif

#ifdef ONLY
#define MAY_BE(s, set) ((s) != 0 || set == ONLY)
#else
#define MAY_BE(s, set) true
#endif

#ifdef NEW_FIRST
#define CHOOSES(s) (in_force[s] || pending[s] == 0)
#else
#define CHOOSES(s) in_force[s]
#endif

#define MAY_PROPOSE(s)                                                         \
    (office[s] == OFFICE && SERVES(s) && !ending[s] &&                         \
     made[s] < ((s) == 0 -> MADE_FIRST : MADE))
#define WITH(set)                                                              \
    d_step { MAY_PROPOSE(s) && CHOOSES(s) && (set & ~ready[s]) == 0 &&         \
        MAY_BE(s, set) ->                                                      \
        IF_ALL_STOPPED(s) propose(s, set) FI }

#ifdef LONG
#define IS_SURE(s)                                                             \
    (office[s] == OFFICE && SERVES(s) && in_force[s] && pending[s] == 0 &&     \
     !ending[s])
#ifdef LONG_RETRACT
#define MAY_RETRACT(s) true
#else
#define MAY_RETRACT(s) (longs[s] == 0)
#endif
#endif

/* Server s. */
proctype server(byte s)
{
end_idle:
    do
#ifndef NEW_FIRST
    :: d_step { MAY_PROPOSE(s) && !in_force[s] && pending[s] == 0 ->
        IF_ALL_STOPPED(s) propose_same(s) FI }
#endif
#ifdef LONG
    :: d_step { IS_SURE(s) && s < LONG_BY && !tells[s] -> tells[s] = true }
    :: d_step { IS_SURE(s) && tells[s] && MAY_RETRACT(s) ->
        tells[s] = false; know[s] = 0 }
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
#ifdef STOPS
    :: d_step { pending[s] != 0 && SERVES(s) && leaves[LEAVER] &&
        HAS(members[pending[s]], LEAVER) -> /* without it */
        pending[s] = 0; accepts[s] = 0 }
#endif
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
               running[i] = PID(0, 0); lease[i] = L;
#ifdef LONG
               short_left[i] = L;
#endif
            :: else -> ready[0] = ready[0] | BIT(i)
            fi
        }
        for (c : 0 .. SERVERS * N - 1) {
            age[c] = (c < N -> 0 : L_MAX)
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
#ifdef TICKS
    :: d_step { ticks > 0 -> ticks--; tick() }
#else
    :: d_step { tick() }
#endif
#ifdef STOPS
    :: d_step { stops > 0 && alive[LEAVER] -> leave(LEAVER, true) }
    :: d_step { stops > 0 && alive[LEAVER] -> leave(LEAVER, false) }
    :: d_step { leaves[LEAVER] && running[LEAVER] == 0 -> die(LEAVER, true) }
    :: d_step { leaves[LEAVER] && running[LEAVER] == 0 -> die(LEAVER, false) }
#endif
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
