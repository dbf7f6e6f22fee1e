/*
 * launcher/front/front_priv: the state of a front end, and its hosts: what they
 * are told and say, and how they are reached (hosts.c). What follows from that,
 * and from signals and time, is the loop's (front.c).
 */
#ifndef LAUNCHER_FRONT_FRONT_PRIV_H
#define LAUNCHER_FRONT_FRONT_PRIV_H

#include "launcher/conf/conf.h"
#include "launcher/front/child.h"
#include "launcher/front/orders.h"
#include "rendezvous/base/rng.h"

/* Launchers that ended with another status than 0, or were lost. */
struct front_gone {
    int n;
    int status;       /* the job's, if the others are ended for that */
    int64_t since_us; /* when the last one was */
    bool ordered;     /* one of them left: a signal, an operator */
    bool few;         /* the others were ended */
};

struct front {
    struct front_gone gone;
    const struct conf *conf;
    const struct opts *opts;
    int argc;
    char *const *argv;
    char self[4096];
    char mark[RNG_ID_LEN + 1]; /* that proxies have */
    char folder[4096];
    struct console out, err;
    struct console *err_to; /* one of the two */
    int signal_fd;
    sigset_t before;
    struct front_child *child; /* n of them */
    int n;
    struct pollfd *fds; /* room for n * CHILD_FDS + 3 */
    int turn;           /* the stream that is read first */
    struct front_reports reports;
    int failed;        /* children of which no proxy said hello */
    int ended[256];    /* launchers, by their exit status */
    int ends;          /* all of them */
    int first;         /* the status of the first of them */
    int64_t done_us;   /* when the first ended with success; 0: none has */
    int64_t moved_us;  /* when output came last, or could not be shown ... */
    uint64_t moved;    /* ... and how much the consoles had taken then */
    int64_t beat_us;   /* when the next beat is due */
    int64_t ending_us; /* since when all are told to end; 0: not */
    int signo;         /* ... by this signal from outside; 0: none */
    bool noticed;      /* ... by a notice: workers are asked before */
    int64_t ask_us;    /* when proxies are asked next */
    bool unreachable;  /* it is ended since hosts could not be reached */
};

__attribute__((format(printf, 2, 3))) void
front_say(struct front *f, const char *fmt, ...);

/* Whether it is for a list of hosts, with a child for each. */
bool front_is_list(const struct front *f);

/* Makes the children; DDP_E_NOMEM. */
int front_hosts_init(struct front *f, struct ddp_err *err);
void front_hosts_free(struct front *f);

/* Executes what waits to be, as far as it should be now. */
void front_hosts_start(struct front *f);

void front_hosts_tell(struct front_child *k, enum order_kind kind, int signo);
void front_hosts_tell_all(struct front *f, int signo);

/* No child is executed any more, and all launchers are told to end. */
void front_hosts_end(struct front *f, int signo);

/* A child whose host said nothing: the job goes on without it, or is ended. */
void front_hosts_fail(struct front *f);

/* A launcher is gone, with this status. */
void front_hosts_lose(struct front *f, int status);

#endif
