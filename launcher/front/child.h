/*
 * launcher/front/child: a command that a front end executes: ssh to one host,
 * or srun for all. The proxies behind it get orders by its stdin.
 */
#ifndef LAUNCHER_FRONT_CHILD_H
#define LAUNCHER_FRONT_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/front/command.h"
#include "launcher/front/orders.h"
#include "launcher/front/streams.h"
#include "rendezvous/base/err.h"

#define CHILD_ORDERS_MAX (9u * 1024u * 1024u) /* ORDERS_BYTES_MAX and more */
#define CHILD_FDS        3       /* descriptors of each that are polled */
#define CHILD_LAST_US    1000000 /* its output may come so long after its end */

enum child_state {
    CHILD_WAITS,    /* not executed yet */
    CHILD_STARTING, /* executed; no proxy has said hello */
    CHILD_RUNS,     /* one has */
    CHILD_ENDED,    /* it was reaped, or never executed */
};

struct front_child {
    enum child_state state;
    const char *name;  /* for people: of the host, or "srun". Borrowed */
    pid_t pid;         /* 0 unless STARTING or RUNS */
    int status;        /* of ENDED: an exit status, 128 + N for signal N */
    int64_t since_us;  /* when it was executed; of ENDED: when it ended */
    int hellos, ends;  /* of proxies */
    int64_t asked_us;  /* when they were asked last; 0: never */
    int silent;        /* how often they were asked in vain, in a row */
    int in_fd;         /* to its stdin; -1: closed */
    bool told;         /* what became of it is known, or needs no word */
    struct buf orders; /* that wait to be written there */
    struct front_stream out, err;
    char prefix[280]; /* of what it writes itself before the first hello */
    void *owner;      /* the caller's, for on_mark */
};

/*
 * Raises the limit of open files if it is too low for the children: each host
 * has CHILD_FDS pipes, and poll(2) takes no more entries than the limit says,
 * those of -1 included. Children get the limit as well. DDP_E_NOMEM: it cannot
 * be raised that far.
 */
int front_child_room(int hosts, struct ddp_err *err);

/* Before the first use. Borrows `name`. */
void front_child_init(struct front_child *k, const char *name);

/*
 * Executes `w` in a session of its own, with `mask` blocked. `dies`: it is
 * killed if this process dies. Becomes STARTING; the caller then sets what its
 * streams are to do. Errors: DDP_E_NOMEM (no processes, no descriptors).
 */
int front_child_start(struct front_child *k,
                      const struct command *w,
                      bool dies,
                      const sigset_t *mask,
                      struct console *out,
                      struct console *err_to,
                      uint64_t id,
                      struct ddp_err *err);

/* In place of a start: ENDED, and nothing is to be told of it. */
void front_child_skip(struct front_child *k);

/* Writes orders as far as its stdin takes them. */
void front_child_write(struct front_child *k);

/* Whether it was executed and has not been reaped. */
bool front_child_lives(const struct front_child *k);

/* Kills it and what it started in its process group. */
void front_child_kill(const struct front_child *k);

/* Since `asked_us`. Whatever came counts: the word of its proxy stands behind
 * output that comes slowly. While that is not read, no answer can be seen. */
bool front_child_answered(const struct front_child *k);

/* If it has ended: ENDED. */
void front_child_reap(struct front_child *k, int64_t now_us);

/* ENDED, with all of its output shown (or none came for CHILD_LAST_US: what it
 * left behind may hold its stderr). */
bool front_child_is_over(struct front_child *k, int64_t now_us);

/* Kills it if it lives, and frees all. */
void front_child_free(struct front_child *k);

#endif
