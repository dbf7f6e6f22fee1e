/*
 * launcher/agent/agent: the node agent's brain. Pure, like the server's: an
 * event goes in, actions come out; it knows neither sockets nor processes nor
 * the clock. It does not allocate.
 *
 * What the workers of this node do (agent.work), and what changes it:
 *
 *              world              all exited 0
 *     NONE ------------> RUNNING ----------------> DONE
 *      ^                   |                        |
 *      |                   | a worker failed, stop, | stop
 *      |    all dead       v lease over, a signal   |
 *      +-<- CHECKING <-- STOPPING                   |
 *      +--------------------------------------------+
 *
 * CHECKING is where the node's health is looked at, before it joins for the
 * first time and when a round ended by a failure; one that is not fit goes.
 *
 * Beside it stands the session with the rendezvous (DOWN, CONNECTING, UP):
 * workers run on while it is down. Whatever the server must know is said again
 * after each reconnect (join, then failed, ready, done or leave), so that
 * nothing depends on a message that was under way when a connection broke.
 *
 * Where nothing failed (a node joins, or leaves), workers that look for it are
 * asked to leave at a step of theirs before they get a signal; one that fails
 * while it leaves ends that patience, since its peers may wait for it.
 *
 * Workers run under a lease, which the server's answers renew, and so does a
 * refused connection, since it proves that the old server is gone. When it is
 * over they are killed at once; the guard holds the same lease over the agent
 * (agent_lease_until_us).
 *
 * An agent that was told of the end, or that was told to go by a signal or an
 * operator (drain), exits once no worker is left. Where not every node knows of
 * the end it stays until the server says that all do (`hold`), for
 * reconnect_timeout at most: should the server die meanwhile, it tells the next
 * one.
 */
#ifndef LAUNCHER_AGENT_AGENT_H
#define LAUNCHER_AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/base/rng.h"
#include "rendezvous/core/note.h"
#include "rendezvous/proto/exits.h"
#include "rendezvous/proto/msg.h"

struct agent_conf {
    struct msg_join join; /* all but what it holds (instance to lease_ms) */
    int64_t shutdown_us;  /* between the first signal to workers and KILL */
    uint64_t last_words;  /* signals that end this node's part, bit n-1 for
                             signal n; 0: TERM, INT, HUP and QUIT */
    bool checks;          /* the node's health */
    bool loopback;        /* the rendezvous is where no other machine comes */
    uint64_t seed;        /* for the jitter of reconnects */
};

enum agent_event_kind {
    AGENT_START,
    AGENT_CONNECTED,
    AGENT_DISCONNECTED, /* also: a try to connect failed; refused, text */
    AGENT_MSG,          /* msg */
    AGENT_WORKER_EXIT,  /* worker */
    AGENT_WORKER_HUNG,  /* worker, which lives; silent_us */
    AGENT_CHECKED,      /* fit; text: why it is not. Follows AGENT_CHECK */
    AGENT_SPAWN_FAILED, /* worker: its local rank and why; started */
    AGENT_ASKED,        /* attached: told after each AGENT_ASK */
    AGENT_SIGNAL,       /* signo: the user's, to the launcher */
    AGENT_ORPHANED,     /* the guard is dead */
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
    bool refused;     /* nobody listens there: the old server is gone */
    const char *text; /* why it is disconnected, or the node not fit */
    bool fit;
    struct agent_worker worker;
    int64_t silent_us; /* WORKER_HUNG: it has got nowhere for so long */
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
    char text[512];   /* why, where the agent itself decided */
};

enum agent_action_kind {
    AGENT_CONNECT,    /* the next event about it is CONNECTED or DISCONNECTED */
    AGENT_DISCONNECT, /* by a reset: a FIN would say that all here is dead;
                         no event for it */
    AGENT_SEND,       /* msg */
    AGENT_SPAWN,      /* world: start join.nproc workers */
    AGENT_KILL,       /* signo to all workers that live */
    AGENT_ASK,        /* graceful: asks those that look for it to leave at a
                         step, and sends SIGTERM to the others */
    AGENT_CHECK,      /* look whether this node is fit for work */
    AGENT_SWEEP,      /* end whatever else the dead workers left behind: at
                         once or, where `gentle`, with a moment to go */
    AGENT_NOTE,       /* note */
    AGENT_EXIT,       /* verdict; the last action */
};

struct agent_action {
    enum agent_action_kind kind;
    const struct msg *msg;
    const struct msg_world *world;
    enum msg_graceful graceful;
    int signo;
    bool gentle;
    const struct note *note;
    const struct agent_verdict *verdict;
};

/* Emit is called for each action in order; it must not call back. */
struct agent_actions {
    void (*emit)(void *ctx, const struct agent_action *action);
    void *ctx;
};

enum agent_session {
    AGENT_SESSION_DOWN,
    AGENT_SESSION_CONNECTING,
    AGENT_SESSION_UP
};
enum agent_work {
    AGENT_NONE,
    AGENT_RUNNING,
    AGENT_STOPPING,
    AGENT_CHECKING,
    AGENT_DONE
};

#define AGENT_BEATS 64 /* answers to older beats than so many are ignored */

/* The caller's storage; the fields are the core's own. */
struct agent {
    struct agent_conf conf;
    enum agent_session session;
    enum agent_work work;
    bool holds; /* `world` is a round that this node was in, or ... */
    bool spare; /* ... that runs without it, as the server said */
    bool over;  /* and none of its workers is left anywhere */
    bool sure;  /* the lease was never over since that round began */
    struct msg_world world;
    int64_t world_at_us;          /* when the server told of it */
    int64_t quarantined_until_us; /* its node's cool-down, as the server said */
    int alive;                    /* workers */
    int succeeded;
    bool progressed;       /* some worker of the round in `world` did */
    struct msg_ready ends; /* of that round: how workers ended (by_...) */
    struct exits ended;    /* ... and which of them */
    bool rough;            /* its round ended by a failure or a loss */
    bool asked;            /* STOPPING: no signal was sent yet */
    bool has_failed;       /* `failed` is of the round in `world` */
    struct msg_failed failed;
    int64_t failed_at_us;
    bool going;             /* exits once no worker is left */
    bool leaving;           /* by a signal of the user's, or a drain ... */
    struct msg_leave leave; /* ... that it tells the server of */
    bool orphaned;          /* goes since its guard is dead */
    bool held;              /* told of the end, which not all know of yet */
    bool killed;            /* SIGKILL was sent */
    bool exited;
    struct agent_verdict verdict;

    int64_t kill_at_us;     /* end of the grace */
    int64_t farewell_at_us; /* end of waiting for the server's final END */
    int64_t lease_until_us; /* 0: none granted */
    int64_t answered_us;    /* when the server last answered a beat */
    int64_t heard_seq;      /* of the last lease, -1: none yet */
    int64_t beat_at_us;
    int64_t beat_seq;
    int64_t beat_sent_us[AGENT_BEATS];

    bool heard;             /* the server has answered on this connection ... */
    int64_t heard_since_us; /* ... for the first time then */
    bool was_up;            /* ... on any connection, ever */
    int64_t tried_at_us;    /* when the last try to connect began */
    int64_t down_since_us;
    int64_t retry_at_us;
    int64_t pause_us; /* before the next try */
    int64_t complain_at_us;
    char down_text[256];
    struct rng rng;
};

void agent_init(struct agent *a, const struct agent_conf *conf);
void agent_step(struct agent *a,
                const struct agent_event *ev,
                const struct agent_actions *out);
int64_t agent_deadline(const struct agent *a);

/* Until when the workers may run if nothing more is heard; MONO_NEVER while
 * there are none. A guard kills them then, should the agent be frozen. */
int64_t agent_lease_until_us(const struct agent *a);

#endif
