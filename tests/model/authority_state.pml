/*
 * Part of authority.pml, which says what the switches mean: the state of agents and
 * servers, and which votes are half of all and more.
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
#define CANDIDATE 0
#define LEADER    1
#define FOLLOWER  2 /* it knows of a higher term */

/* Rounds are numbered in the order of (term, round); 0: none. Server s has the term
 * s + 1. */
#define PER_TERM    (MADE + 1)
#define PID(s, i)   (1 + (s) * PER_TERM + (i))
#define TERM(pid)   (((pid) + PER_TERM - 1) / PER_TERM)
#define PIDS        (1 + SERVERS * PER_TERM)

/* Sets of nodes are bits. */
#define BIT(i)      (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define COUNT(set)  (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))
#define AT(s, i)    ((s) * N + (i))

/* Voters that are not dead at server s. Half of none is none, and a set without
 * living voters elects nobody. */
#ifdef DEAD_VOTE
#define LIVING(s, of) (of)
#define VOTING(s, set) ((set) | dead[s])
#else
#define LIVING(s, of) ((of) & ~dead[s])
#define VOTING(s, set) (set)
#endif
#define HALF(s, of, set)                                                       \
    (2 * COUNT(LIVING(s, of) & VOTING(s, set)) >= COUNT(LIVING(s, of)))
#ifdef HALF_TAKES
#define MOST(s, of, set) HALF(s, of, set)
#else
#define IS_MOST(s, of, set)                                                    \
    (2 * COUNT(LIVING(s, of) & VOTING(s, set)) > COUNT(LIVING(s, of)))
#ifdef NONE_ELECTS
#define MOST(s, of, set) (IS_MOST(s, of, set) || LIVING(s, of) == 0)
#else
#define MOST(s, of, set) IS_MOST(s, of, set)
#endif
#endif

/* -- agents ---------------------------------------------------------------- */

bool alive[N];
byte promised[N];     /* the highest term; that server has its session */
byte accepted[N];     /* the newest round */
bool holds[N];        /* ... had its go: it is in force */
byte running[N];      /* the round of its workers, 0: none */
byte lease[N];        /* ticks left */
byte out[N];          /* ticks for which leases of servers before may be out */
byte ended[N];        /* term of the end that it accepted, 0: none */
bool said[N];         /* it is dead, and its farewell was said */

/* -- servers --------------------------------------------------------------- */

byte role[SERVERS];
byte round[SERVERS];   /* the newest round that it knows of */
bool in_force[SERVERS]; /* ... and that it is in force */
byte pending[SERVERS]; /* its proposal, 0: none */
byte made[SERVERS];    /* proposals so far */
byte promises[SERVERS];
byte accepts[SERVERS];
byte dead[SERVERS];  /* whose farewell it has heard */
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
/* Only within a d_step: they are no part of the state. */
hidden byte k, d, c;
hidden byte set_a, set_b;

#define IS_HERE(i, s) (alive[i] && promised[i] == (s) + 1)
#ifdef OBEYS_OLD
#define OBEYS(i, s)                                                            \
    (alive[i] && HAS(promises[s], i) && promised[i] >= (s) + 1)
#else
#define OBEYS(i, s) IS_HERE(i, s)
#endif

#ifdef ONE_ROUND
#define OLD_VOTERS(s) members[round[s]]
#else
#define OLD_VOTERS(s)                                                          \
    (in_force[s] || !before[round[s]] -> members[round[s]] : before[round[s]])
#endif

/* Half of all that vote for server s. */
#define HALF_OF_ALL(s, set)                                                    \
    (HALF(s, members[round[s]], set) && HALF(s, OLD_VOTERS(s), set))

/* Its go is on the way, and comes before what the server says later. */
#define IS_GOING(i, s)                                                         \
    (HAS(told[s], i) && accepted[i] <= round[s] &&                            \
     !(accepted[i] == round[s] && holds[i]))
