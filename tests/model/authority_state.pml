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
#ifdef LONG
#define L_MAX LONG
#ifndef LONG_BY
#define LONG_BY 1
#endif
#ifndef LONG_TO
#define LONG_TO N
#endif
#else
#define L_MAX L
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
#ifdef LONG
byte short_left[N];   /* ticks left of a short lease in place of the last one */
bool heard_long[N];   /* the last message since `accepted` told of long ones */
#endif

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
#ifdef LONG
bool tells[SERVERS];   /* its messages tell of long leases */
byte know[SERVERS];    /* voters that have answered such a message */
byte longs[SERVERS];   /* nodes that may hold a long one */
#endif

/* -- what only the model knows --------------------------------------------- */

byte members[PIDS];
byte before[PIDS];
byte forced = PID(0, 0); /* the newest round in force */
byte finished;        /* the end is final: the round that it ends, 0: not yet */
byte deaths = DEATHS;
#ifdef TICKS
byte ticks = TICKS;
#endif
#ifdef LEASES_ONLY
byte leased_age[N];
#define UNHEARD(i) leased_age[i]
#else
#define UNHEARD(i) age[AT(promised[i] - 1, i)]
#endif
#ifdef STOPS
bool leaves[N];       /* it is told to go, and has told its server so */
byte stops = STOPS;
#define LEAVER (N - 1) /* all are alike but for node 0 */
#define LEAVES(i) leaves[i]
#else
#define LEAVES(i) false
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

/* Who leaves lives on for a while. */
#ifdef STOPS
#define DEAD_AT(s)                                                             \
    (leaves[LEAVER] && promised[LEAVER] == (s) + 1                             \
     -> standing[s] & ~BIT(LEAVER) : standing[s])
#else
#define DEAD_AT(s) standing[s]
#endif

/* The dead do not decide alone over one that may live. */
#ifdef DEAD_ALONE
#define FOR_LIVING(s, of, set) true
#else
#define FOR_LIVING(s, of, set)                                                 \
    (((of) & (set) & ~DEAD_AT(s)) != 0 || ((of) & ~standing[s]) == 0)
#endif
#define HALF_AT(s, of, set) (HALF(of, set) && FOR_LIVING(s, of, set))
#define MOST_AT(s, of, set) (MOST(of, set) && FOR_LIVING(s, of, set))

/* Half of all that vote for server s. */
#define HALF_OF_ALL(s, set)                                                    \
    (HALF_AT(s, members[round[s]], set) && HALF_AT(s, OLD_VOTERS(s), set) &&   \
     HALF_AT(s, PENDING_VOTERS(s), set))

/* Its go is on the way, and comes before what the server says later. */
#define IS_GOING(i, s)                                                         \
    (HAS(told[s], i) && accepted[i] <= round[s] &&                            \
     !(accepted[i] == round[s] && holds[i]))
