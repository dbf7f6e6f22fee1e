/*
 * Who leads a run, as a model: N nodes that vote and two or three servers, each with
 * a term of its own. A server may be frozen, cut off or dead at any moment, and come
 * back and go on: it is just not scheduled. ddprun-protocol(7), "Who leads", has the
 * rule in words. scripts/model checks it.
 *
 * An exchange of an agent with its server (beat and lease, prepare and promise,
 * pending round and accept) is one step: an answer that is lost helps no server.
 * `go` and the end travel for as long as they like, and so does a farewell, which
 * each server may hear or not.
 *
 * Time is in ticks, of which a lease has L. All ages, and what is left of all
 * leases, stop at L, so that any length of time is seen. With L=1 a lease lives
 * until the next tick, and is granted only on echoes of the same tick.
 *
 * Left out: drift (a margin), voters that are not all members, a launcher that
 * leaves (a voter until its farewell), and two instances of a run, also those that
 * two servers may begin (instances.pml, founding.pml).
 *
 * What holds: no worker starts while one of another round runs, in start(); no
 * later round is in force once the end is final, in try_force(); a server that is
 * elected knows of the newest round that is in force, and takes up no end that is
 * older than that, in try_election().
 *
 *   -DN=3 -DFIRST=7   nodes, and which of them are in the first round
 *   -DL=1             ticks of a lease
 *   -DMADE=2          rounds that each server proposes; -DMADE_FIRST: the first one
 *   -DSERVERS=2       or 3
 *   -DDEATHS=1        agents that die, with a farewell or without
 *   -DENDING          the run may be ended
 * A bound, where all would be too much:
 *   -DCUT             node 0 reaches the first server alone
 * Each of these must be found:
 *   -DSTART_EARLY     workers start with the pending round
 *   -DHALF_TAKES      half is enough to be elected
 *   -DOLD_ECHOES      echoes never grow old
 *   -DONE_ROUND       the voters of the round before are not asked
 *   -DNO_WAIT         leases of older servers are not waited for
 *   -DLEASES_ONLY     ... counted from leases alone
 *   -DMEMBERS_FORGOT  old members that still hold a lease are not waited for
 *   -DDEAD_VOTE       a dead voter counts as a vote
 *   -DWORD_LOST       what a dead voter had accepted is not told
 *   -DSTAYS           a leader stays though a dead voter had promised another one
 *   -DNONE_ELECTS     voters of which nobody lives elect
 *   -DREADY_VOTES     ready counts as accept
 *   -DACCEPT_STOPS    accept counts as ready
 *   -DNEW_FIRST       a taker replaces a round that may be in force
 *   -DPENDING_BEFORE  a replaced proposal counts as the round before
 *   -DOBEYS_OLD       an agent obeys servers that are older than its promise
 *   -DONE_BYE         one bye makes the end final      } with -DENDING
 *   -DEND_FORGOT      a taker forgets an end           }
 *   -DEND_STAYS       an old end beats a newer round   }
 *   -DHELD_ENDS       an agent ends with an end that is not final }
 */
#include "authority_state.pml"

/* -- an agent and its server ----------------------------------------------- */

/* The ticks that server s may grant, to d: what is left of a lease that began with
 * the echo which makes the half full. */
inline to_grant(s)
{
    d = L;
    do
    :: d > 0 ->
       set_a = 0;
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
    (role[s] == LEADER && !ending[s] &&                                      \
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

/* A beat and its answer: a lease, or else the same prepare again. */
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

/* The vote of agent i, alive or by its farewell: the newest round; that it is in
 * force; an end. */
inline hear_vote(i, s)
{
    if
    :: role[s] == CANDIDATE && accepted[i] > round[s] ->
       round[s] = accepted[i]; in_force[s] = holds[i]
    :: role[s] == CANDIDATE && accepted[i] == round[s] && holds[i] ->
       in_force[s] = true
    :: else
    fi;
    heard_end[s] = (ended[i] > heard_end[s] -> ended[i] : heard_end[s])
}

inline promise_arrives(i, s)
{
    promises[s] = promises[s] | BIT(i);
    age[AT(s, i)] = 0;
    wait[s] = (role[s] == CANDIDATE && out[i] > wait[s] -> out[i] : wait[s]);
    tell_work(i, s);
    hear_vote(i, s)
}

/* More than half of the newest round's voters, and of those before, where that
 * may still be in force. An end that is newer is said again. */
inline try_election(s)
{
    if
    :: role[s] == CANDIDATE && round[s] != 0 &&
       MOST(s, members[round[s]], promises[s]) &&
       MOST(s, OLD_VOTERS(s), promises[s]) ->
       role[s] = LEADER;
#ifdef NO_WAIT
       wait[s] = 0;
#endif
#ifdef END_STAYS
       ending[s] = (heard_end[s] > 0);
#endif
#if !defined(END_STAYS) && !defined(END_FORGOT)
       ending[s] = (heard_end[s] > 0 && heard_end[s] >= TERM(round[s]));
#endif
       assert(round[s] >= forced || TERM(forced) > s + 1);
       assert(!ending[s] || heard_end[s] >= TERM(forced));
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
#define VOTES(s) (accepts[s] | ready[s])
#else
#define VOTES(s) accepts[s]
#endif

inline try_force(s)
{
    find_unstopped(s);
    if
    :: pending[s] != 0 && !ending[s] && set_a == 0 &&
       (in_force[s] || wait[s] == 0) &&
       HALF(s, members[pending[s]], VOTES(s)) &&
       HALF(s, before[pending[s]], VOTES(s)) ->
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

inline try_finish(s)
{
    if
#ifdef ONE_BYE
    :: byes[s] != 0 ->
#else
    :: HALF_OF_ALL(s, byes[s]) ->
#endif
       assert(forced <= round[s]);
       finished = round[s]
    :: else
    fi
}

/* -- death ----------------------------------------------------------------- */

/* What it had promised and accepted stays: its farewell tells that. */
inline die(i, says_farewell)
{
    alive[i] = false; running[i] = 0; lease[i] = 0;
    said[i] = says_farewell
}

/* Server s hears the farewell. Leases of older servers that this voter answered may
 * be out for a lease from then on. */
inline strike(i, s)
{
#ifndef WORD_LOST
    hear_vote(i, s);
#endif
    wait[s] = (role[s] == CANDIDATE -> L : wait[s]);
    dead[s] = dead[s] | BIT(i);
    ready[s] = ready[s] & ~BIT(i);
    if
#ifndef STAYS
    :: promised[i] > s + 1 -> /* it steps down */
       role[s] = FOLLOWER; ending[s] = false; pending[s] = 0
#endif
    :: else -> try_election(s)
    fi
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

/* Node 0 reaches the first server alone. */
#ifdef CUT
#define IS_CUT(i, s) ((i) == 0 && (s) != 0)
#else
#define IS_CUT(i, s) false
#endif
#define REACHES(i, s) (!IS_CUT(i, s) && role[s] != FOLLOWER)

/* -- what happens ---------------------------------------------------------- */

/* Node i at server s. */
proctype pair(byte i; byte s)
{
end_idle:
    do
    /* prepare and promise */
    :: d_step { alive[i] && promised[i] < s + 1 && REACHES(i, s) ->
        promise(i, s); promise_arrives(i, s); try_election(s) }
    /* beat and lease */
    :: d_step { role[s] == LEADER && OBEYS(i, s) && HAS(promises[s], i) ->
        beat(i, s) }
    /* a pending round and its accept */
    :: d_step { pending[s] != 0 && OBEYS(i, s) && HAS(promises[s], i) &&
        accepted[i] < pending[s] && !IS_GOING(i, s) && ended[i] != s + 1 &&
        HAS(members[pending[s]] | before[pending[s]], i) ->
        accept(i, s); accept_arrives(i, s) }
    :: d_step { OBEYS(i, s) && IS_GOING(i, s) && ended[i] == 0 -> go(i, s) }
    :: d_step { role[s] == LEADER && OBEYS(i, s) && HAS(promises[s], i) &&
        running[i] != 0 -> stop(i) }
#ifdef ENDING
    :: d_step { ending[s] && IS_HERE(i, s) && HAS(promises[s], i) &&
        ended[i] != s + 1 ->
        ended[i] = s + 1; running[i] = 0; age[AT(s, i)] = 0 }
    :: d_step { ending[s] && IS_HERE(i, s) && ended[i] == s + 1 &&
        !HAS(byes[s], i) ->
        byes[s] = byes[s] | BIT(i); age[AT(s, i)] = 0; try_finish(s) }
    :: d_step { ending[s] && byes[s] != 0 -> try_finish(s) }
#ifdef HELD_ENDS
    :: d_step { alive[i] && ended[i] != 0 && finished == 0 ->
        finished = accepted[i] }
#endif
#endif
    /* a farewell */
    :: d_step { said[i] && !HAS(dead[s], i) && role[s] != FOLLOWER -> strike(i, s) }
    od
}

#ifdef NEW_FIRST
#define CHOOSES(s) (in_force[s] || pending[s] == 0)
#else
#define CHOOSES(s) in_force[s]
#endif

#define MAY_PROPOSE(s)                                                         \
    (role[s] == LEADER && !ending[s] &&                                      \
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
    :: d_step { pending[s] != 0 -> try_force(s) }
#ifdef ENDING
    :: d_step { s == 0 && role[s] == LEADER && !ending[s] ->
        ending[s] = true; pending[s] = 0 }
#endif
    od
}

active proctype world()
{
    byte i;
    d_step {
        members[PID(0, 0)] = FIRST;
        role[0] = LEADER; round[0] = PID(0, 0); in_force[0] = true;
        promises[0] = (1 << N) - 1; told[0] = FIRST;
        for (i : 0 .. N - 1) {
            alive[i] = true; promised[i] = 1;
            if
            :: HAS(FIRST, i) ->
               accepted[i] = PID(0, 0); holds[i] = true;
               running[i] = PID(0, 0); lease[i] = L;
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
    :: d_step { deaths > 0 && alive[1] -> deaths--; die(1, true) }
    :: d_step { deaths > 0 && alive[1] -> deaths--; die(1, false) }
#if N == 3
    :: d_step { deaths > 0 && alive[2] -> deaths--; die(2, true) }
    :: d_step { deaths > 0 && alive[2] -> deaths--; die(2, false) }
#endif
    od
}
