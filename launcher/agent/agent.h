/*
 * launcher/agent/agent: the node agent's brain. It is pure, as the server's is:
 * an event goes in, actions come out. It knows no sockets, no processes and no
 * clock, and it does not allocate.
 *
 * The state has six parts. Each is an enum; a cell of the tables says what an
 * event makes of it, and agent_check asserts which combinations are possible.
 *
 * 1. What the workers of this node do (agent.work):
 *
 *     event \ work   NONE        RUNNING     STOPPING     CHECKING   DONE
 *     world          RUNNING     ignored     ignored      ignored    ignored
 *     stop           ready       STOPPING    (harder)     -          NONE
 *     worker fails   bug         STOPPING    (counted)    bug        bug
 *     last one ends  bug         DONE        NONE         bug        bug
 *     lease is over  -           STOPPING    (SIGKILL)    -          -
 *     checked        -           -           (leaves)     NONE       -
 *
 *    Workers live in RUNNING and STOPPING only. CHECKING looks at the node's
 *    health: before the first join, and after a round that a failure or a loss
 *    ended (there it takes the place of NONE). A node that is not fit leaves;
 *    also out of STOPPING, if SIGKILL does not end a worker.
 *
 * 2. How hard the workers of this round were told to stop (agent.stop): NOT,
 *    AT_STEP (asked to leave at a step of theirs), BY_SIGNAL, KILLED (SIGKILL
 *    at once), KILLED_LATE (SIGKILL when their grace was over: the report says
 *    that they did not stop in time). It only rises within a round, and the
 *    last two never change. NOT in RUNNING and DONE, another one in STOPPING;
 *    in NONE and CHECKING it tells of the last round. If nothing failed (a node
 *    joins or leaves), workers are asked first. If one of them then fails, the
 *    others may wait for it, and get the signal at once.
 *
 *    Between the signal and SIGKILL they have a grace (agent.grace): the long
 *    one (shutdown_us), or the short one (failure_us) if a worker or a node
 *    failed first, since what the others do together cannot end then; or
 *    death_us, if they most likely wait for a worker that is dead. A grace
 *    that has begun is neither extended nor shortened by what comes later, but
 *    for a second signal of the user's.
 *
 * 3. What the node knows of the newest round (agent.round.evidence), which it
 *    tells the next server:
 *
 *     NO_ROUND ----- waiting as a spare ---> SPARE
 *     SPARE, or a member without workers --> SPARE (waiting as a spare)
 *     any ---------- world ----------------> MEMBER_SURE, or MEMBER_LAPSED
 *     MEMBER_SURE -- the lease is over ----> MEMBER_LAPSED
 *
 *    RUNNING means MEMBER_SURE: without a lease no worker runs.
 *
 * 4. The session with the rendezvous (agent.session.state):
 *
 *     event \ state  DOWN        CONNECTING  UP           HEARD
 *     retry is due   CONNECTING  -           -            -
 *     connected      bug         UP          bug          bug
 *     message        bug         (refused)   HEARD        HEARD
 *     disconnected   bug         DOWN        DOWN         DOWN or CONNECTING
 *
 *    UP alone says little: anything may have accepted the connection. Workers
 *    run on while the session is down. Whatever the server must know is said
 *    again after each reconnect (join, then failed, ready, done or leave), so
 *    that nothing depends on a message that was under way when a connection
 *    broke.
 *
 *    Which server the session leads to: launcher/agent/candidates.h. A run can
 *    be served at many places, so that a server that answers is not enough:
 *    once the agent has promised to obey a term, nothing that a server says
 *    counts before its `prepare` of this term, or of a higher one, has come on
 *    this connection (session.obeyed). HEARD then means that it has acted, and
 *    a lease that stays away is worth as much as silence.
 *
 *    While no leader answers, the agent looks at all places beside its session
 *    (session.looking, search.c): it asks each place for the run's leader
 *    (`serves` without an address), and joins a place once it knows enough. To
 *    look is not to join: a server counts as its own those that have joined.
 *
 * 5. The vote (agent.vote.state): the newest round that it accepted. It is told
 * to each server behind the join (`vote`), since the voters are the memory of
 * the run:
 *
 *     event \ state        NONE       PENDING        IN_FORCE
 *     voters, in force     IN_FORCE   IN_FORCE       IN_FORCE
 *     voters, pending      PENDING    PENDING        PENDING       (accept)
 *     go, or its world     -          IN_FORCE       -             (workers)
 *        in force
 *
 *    Only a round of a higher term, or a later one of the same, takes the
 *    place of another. The voters of the round before are asked, too: they
 *    accept a round in which they may have no place. A round that is pending
 *    changes nothing in 1 to 3.
 *
 * 6. Whether and why the agent goes (agent.exit), and what it knows of the
 *    run's end (agent.known). It exits (GONE) once no worker is left; exit and
 *    known can be combined as follows:
 *
 *     exit \ known       UNKNOWN  HELD  FINAL   exit status
 *     STAYS              x        -     -       -
 *     GAVE_UP            x        -     -       its own (refused, unreachable)
 *     ENDED              -        x     x       the run's
 *     LEAVING, DRAINED   x        x     x       128+N, or of DDP_E_DRAINED ...
 *     ORPHANED           x        x     x       137
 *     ORPHANED_LEAVING   x        x     x       137
 *     GONE               x        x     x       any of these
 *
 *    HELD: the server told of the end, and not every node knows of it yet. The
 *    agent stays until the server says that all do (FINAL), for
 *    reconnect_timeout at most: if the server dies meanwhile, the agent tells
 *    the next one. Each place is tried once for that, and no agent ends with an
 * end that is HELD: it drops that (GAVE_UP) if the others went on without it,
 * or if it finds out nothing.
 *
 *    The launcher whose own server is the leader stays for a second at most
 * when it leaves, and all is over here (hands_over): until that server says
 * `go`, or ends. Then no round is proposed that it would leave in doubt by its
 * end.
 *
 * Workers run under a lease, which only the server's answers renew. When the
 * lease is over the workers are killed at once; the guard holds the same lease
 * over the agent (agent_lease_until_us).
 */
#ifndef LAUNCHER_AGENT_AGENT_H
#define LAUNCHER_AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/agent/candidates.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/base/stop_page.h"
#include "rendezvous/core/note.h"
#include "rendezvous/proto/exits.h"
#include "rendezvous/proto/msg.h"

struct agent_conf {
    struct msg_join join; /* all but what it holds (instance to lease_ms) */
    int64_t shutdown_us;  /* between the first signal to workers and KILL */
    int64_t failure_us;   /* the same if a worker or a node failed; what is
                             above shutdown_us counts as that, as in ... */
    int64_t death_us;     /* ... the same if a signal killed a worker, here or
                             on another node, or if one hangs */
    uint64_t last_words;  /* signals that end this node's part, bit n-1 for
                             signal n; 0: TERM, INT, HUP and QUIT */
    uint64_t notices;     /* those of them for which workers are asked first */
    bool checks;          /* the node's health */
    bool loopback;        /* no other machine can reach the rendezvous */
    const char *starter;  /* what starts the other launchers, for people: "the
                             front end"; borrowed; NULL: the user */
    char endpoint[300];   /* " at HOST port N", for people; may be "" */
    int endpoints;        /* how many the list has, up to 16; 0 counts as 1 */
    uint64_t seed;        /* for the jitter of reconnects */
};

enum agent_event_kind {
    AGENT_START,
    AGENT_CONNECTED,
    AGENT_DISCONNECTED,  /* also: a try to connect failed; text */
    AGENT_MSG,           /* msg */
    AGENT_SEEN,          /* place: its server answers a look (msg), or it is
                            not reached (NULL) */
    AGENT_WORKER_EXIT,   /* worker */
    AGENT_WORKER_HUNG,   /* worker, which lives; silent_us */
    AGENT_WORKER_FAILED, /* worker: it has failed by what it said, and may
                            live, or have ended with 0; or it begins to end so.
                            AGENT_WORKER_EXIT follows */
    AGENT_CHECKED,       /* fit; text: why it is not. Follows AGENT_CHECK; or
                            not fit, since SIGKILL does not end a worker */
    AGENT_SPAWN_FAILED,  /* worker: its local rank and why; started */
    AGENT_ASKED,         /* attached: told after each AGENT_ASK */
    AGENT_SIGNAL,        /* signo: the user's, to the launcher */
    AGENT_DRAIN_DUE,     /* this node is to go if the run can spare it; comes
                            again while that is so */
    AGENT_NEWS,          /* a beat has something to say that cannot wait */
    AGENT_GUARD_DIED,
    AGENT_TICK,
};

/* How a worker ended. */
struct agent_worker {
    int local_rank;
    int64_t pid;
    int code;          /* exit code, 0 if a signal ended it */
    int signal;        /* 0 if it exited */
    bool permanent;    /* starting it again is useless */
    bool oom;          /* the kernel killed it, since memory ran out */
    bool progressed;   /* it had got somewhere (DDP_PROGRESS_FILE) */
    const char *text;  /* from its error file, may be NULL */
    const char *trace; /* the traceback in that, may be NULL */
    const char *tail;  /* its last lines on stderr, may be NULL */
};

struct agent_event {
    enum agent_event_kind kind;
    int64_t now_us;
    const struct msg *msg;
    int place;
    const char *text; /* why it is disconnected, or the node not fit */
    bool own;         /* CONNECTED: to this launcher's own server */
    bool fit;
    struct agent_worker worker;
    int64_t silent_us; /* WORKER_HUNG: since its last progress */
    int started;       /* SPAWN_FAILED: how many workers run nevertheless */
    int attached;      /* ASKED: how many look whether they are asked to stop */
    int signo;
};

/* What the launcher ends with. */
struct agent_verdict {
    int status;
    bool ended; /* the server told of the end: `end` is valid */
    struct msg_end end;
    int64_t heard_us; /* when it did */
    char text[512];   /* why, if the agent itself decided */
};

enum agent_action_kind {
    AGENT_CONNECT,   /* target, which: the next event about it is CONNECTED or
                        DISCONNECTED */
    AGENT_LOOK,      /* place, target, which, anew, msg: says that to the server
                        there, on a connection beside the session, which stays
                        open; SEEN follows. Also told again and again */
    AGENT_LOOK_OVER, /* ends all of these connections */
    AGENT_DISCONNECT, /* no event for it. Also ends a try to connect */
    AGENT_RECORD,     /* msg, a farewell: what the guard says for this node once
                         all of it is dead; of version 0: nothing */
    AGENT_SEND,       /* msg */
    AGENT_SPAWN,      /* world: start join.nproc workers */
    AGENT_KILL,       /* signo to all workers that live, who are told `why`
                         first; NOT: it is passed on, and asks nothing */
    AGENT_ASK,        /* graceful: asks those that look for it to leave at a
                         step, and sends SIGTERM to the others */
    AGENT_CHECK,      /* look whether this node is fit for work */
    AGENT_SWEEP,      /* end whatever else the dead workers left behind: at
                         once or, if `gentle`, with a moment to go */
    AGENT_NOTE,       /* note */
    AGENT_EXIT,       /* verdict; the last action */
};

struct agent_action {
    enum agent_action_kind kind;
    const char *target; /* "ADDR:PORT", of a voter; "": an endpoint ... */
    int which;          /* ... of the list, counted from 0 */
    int place;          /* LOOK: a small number that SEEN tells again ... */
    bool anew;          /* ... and that on a new connection */
    const struct msg *msg;
    const struct msg_world *world;
    enum msg_graceful graceful;
    int signo;
    enum stop_page_why why;
    bool gentle;
    const struct note *note;
    const struct agent_verdict *verdict;
};

/* Emit is called for each action in order; it must not call back. */
struct agent_actions {
    void (*emit)(void *ctx, const struct agent_action *action);
    void *ctx;
};

enum agent_work {
    AGENT_NONE,
    AGENT_RUNNING,
    AGENT_STOPPING,
    AGENT_CHECKING,
    AGENT_DONE
};

enum agent_stop {
    AGENT_STOP_NOT,
    AGENT_STOP_AT_STEP,
    AGENT_STOP_BY_SIGNAL,
    AGENT_STOP_KILLED,     /* at once: a second signal, the lease is over ... */
    AGENT_STOP_KILLED_LATE /* when their grace was over */
};

enum agent_grace {
    AGENT_GRACE_LONG,  /* shutdown_us */
    AGENT_GRACE_SHORT, /* failure_us */
    AGENT_GRACE_DEATH  /* death_us */
};

enum agent_evidence {
    AGENT_NO_ROUND,
    AGENT_SPARE,         /* the round runs without this node */
    AGENT_MEMBER_SURE,   /* in it; the lease was never over since it began */
    AGENT_MEMBER_LAPSED, /* in it; the lease was over, another may have begun */
};

/* How the round in hand went, for this node. */
enum agent_outcome {
    AGENT_WENT_WELL, /* so far */
    AGENT_DISTURBED, /* a failure or a loss on another node ended it */
    AGENT_FAILED,    /* a worker of this node failed: `failed` */
};

enum agent_session_state {
    AGENT_SESSION_DOWN,
    AGENT_SESSION_CONNECTING,
    AGENT_SESSION_UP,
    AGENT_SESSION_HEARD, /* and a server has answered on this connection */
};

enum agent_exit {
    AGENT_STAYS,
    AGENT_GAVE_UP,          /* refused, or the rendezvous stays away */
    AGENT_ENDED,            /* the server told of the end */
    AGENT_LEAVING,          /* by a signal of the user's: leave.signal */
    AGENT_DRAINED,          /* by an operator, or since it is not fit */
    AGENT_ORPHANED,         /* its guard is dead */
    AGENT_ORPHANED_LEAVING, /* ... and it was leaving or drained */
    AGENT_GONE,             /* AGENT_EXIT was emitted */
};

enum agent_known {
    AGENT_END_UNKNOWN,
    AGENT_END_HELD,
    AGENT_END_FINAL
};

enum agent_vote_state {
    AGENT_VOTE_NONE,    /* it has accepted no round */
    AGENT_VOTE_PENDING, /* that round is not known to be in force */
    AGENT_VOTE_IN_FORCE,
};

#define AGENT_BEATS_PER_LEASE 10 /* so many in a heartbeat_timeout */
#define AGENT_BEATS           64 /* answers to beats older than that are ignored */

/* The newest round that the server told of; all of it is of that round. */
struct agent_round {
    enum agent_evidence evidence;
    enum agent_outcome outcome;
    struct msg_world world;   /* NO_ROUND: all 0; SPARE: what waiting told */
    int64_t told_at_us;       /* when the server told of it */
    bool progressed;          /* some worker of it did */
    struct exits_counts ends; /* how many workers ended badly */
    struct exits ended;       /* ... and which of them */
    struct msg_failed failed; /* FAILED only */
    int64_t failed_at_us;
};

#define AGENT_VOTERS_TEXT_MAX (MSG_VOTERS_MAX * (MSG_VOTER_LEN + 1))

/* A round, and who has a say in it. */
struct agent_ballot {
    int64_t round;                          /* 0: none */
    struct term term;                       /* in which it was proposed */
    char instance[RNG_ID_LEN + 1];          /* its run's; "": not told */
    int64_t group_world;                    /* its nodes; 0: not told */
    int64_t restarts;                       /* charged before it */
    char voters[AGENT_VOTERS_TEXT_MAX + 1]; /* as in msg_voters.ids */
    char before[AGENT_VOTERS_TEXT_MAX + 1]; /* of the last round in force, while
                                               this one is not */
};

/* What the agent owes to the authority over its run. */
struct agent_vote {
    struct term promised; /* it obeys none that is lower; count 0: it has
                                    promised nobody yet */
    char promised_in[RNG_ID_LEN + 1]; /* the instance of that server; "": it had
                                         no round */
    /* The instance that it gave up for an older one, and the highest term that
     * it promised there; "": none. */
    char left[RNG_ID_LEN + 1];
    struct term left_term;
    enum agent_vote_state state;
    struct agent_ballot accepted; /* not NONE */
    struct msg_world world;       /* its place in that; round 0: none */
    int64_t world_at_us;          /* when that came */
    struct term ended;            /* of the server that told of the end */
    int64_t echoed_us; /* when the last message came that may count as heard by
                          it at a server; MONO_NEVER: none did */
};

/* The session with the rendezvous: one connection after the other. */
struct agent_session {
    enum agent_session_state state;
    bool obeyed; /* UP and HEARD: the server has shown its term */
    bool own;    /* UP and HEARD: the server ends with this launcher */
    int64_t heard_since_us; /* first answer on the last connection that got one;
                               MONO_NEVER: no server has ever answered */
    int64_t sought_us;      /* the first try; MONO_NEVER: there was none */
    int64_t down_since_us;  /* unless HEARD */
    int64_t tried_us;       /* when the last try to connect began */
    int64_t retry_at_us;    /* DOWN only */
    int64_t pause_us;       /* before the next try but one */
    int64_t complain_at_us;
    int64_t
        vain_told_us; /* of a useless answer; MONO_NEVER: since HEARD none */
    bool told; /* DOWN and CONNECTING: down_text is what came of a connection
                  on which no server had answered */
    char down_text[256];
    char served[CANDIDATES_ADDR_MAX + 1]; /* the last place that served */

    /* The search for a leader: see search.c. */
    bool looking;
    bool looks; /* connections for that may be open */
    enum candidates_stage stage;
    int look_turn;     /* how often it looked around, or at one of the places */
    int64_t search_us; /* when that began */
    int64_t judge_at_us; /* looking only */

    int64_t answered_us; /* when the server last answered a beat, or the
                            connection or the server's term began */
    int64_t spoke_us;    /* when it last said anything */
    int64_t heard_seq;   /* of the last lease on this connection, -1: none */
    int64_t beat_at_us;  /* UP and HEARD only */
    int64_t beat_seq;
    int64_t beat_sent_us[AGENT_BEATS];
};

/* A server that has granted this node a lease. */
struct agent_place {
    struct term term;
    int64_t at_us;                        /* when the last one came */
    char target[CANDIDATES_ADDR_MAX + 1]; /* "ADDR:PORT"; "": an endpoint ... */
    int which;                            /* ... of the list */
};

/* Another server took the run over, and this node has its lease from that. */
struct agent_takeover {
    int count; /* so often; 0: the others are not set */
    struct agent_place from, to;
    int64_t
        gap_us; /* from the last lease of the one to the first of the other */
};

/* The caller's storage; the fields are the core's own. */
struct agent {
    struct agent_conf conf;

    enum agent_work work;
    enum agent_stop stop;
    enum agent_grace grace; /* of the last signal; LONG before the first */
    int alive;              /* workers */
    int succeeded;
    int64_t kill_at_us;     /* end of the grace; STOPPING only */
    int64_t lease_until_us; /* 0: none granted */

    struct agent_round round;
    int64_t quarantined_until_us; /* its node's, as the server said */

    struct agent_session session;
    struct candidates candidates;
    struct agent_vote vote;
    struct agent_place leased;
    struct agent_takeover takeover; /* the last one */

    enum agent_exit exit;
    enum agent_known known;
    struct msg_leave leave; /* LEAVING and DRAINED: what the server is told */
    bool hands_over;        /* ... and the last of that was said: what is left
                               is to wait for the word of our own server */
    int64_t farewell_at_us; /* end of waiting for the server's last word */
    struct agent_verdict verdict;
    struct msg_vote recorded; /* by the last AGENT_RECORD */

    struct rng rng;
};

void agent_init(struct agent *a, const struct agent_conf *conf);
void agent_step(struct agent *a,
                const struct agent_event *ev,
                const struct agent_actions *out);
int64_t agent_deadline(const struct agent *a);

/* Asserts that the fields are a possible combination (the tables above).
 * agent_step ends with it; tests call it, too. */
void agent_check(const struct agent *a);

/* It goes by a signal, was drained, or is not fit. */
bool agent_is_leaving(const struct agent *a);
/* It was in the round of `round.world`; false for a spare of that. */
bool agent_is_member(const struct agent *a);
/* ... and its lease was never over since that round began. */
bool agent_is_sure(const struct agent *a);

/* It has promised to obey a server; before that it heeds any. */
bool agent_has_promised(const struct agent *a);
/* What the server of this connection says counts. */
bool agent_obeys(const struct agent *a);

/* Until when the workers may run if nothing more is heard; MONO_NEVER while
 * there are none. A guard kills them then, should the agent be frozen. */
int64_t agent_lease_until_us(const struct agent *a);

#endif
