/*
 * launcher/front/orders: what a front end says to the process that stands for
 * it on a host (launcher/front/proxy), over that one's stdin: first what to
 * start, then orders. Pure.
 *
 *     ddprun-front 1 MARK BEAT_MS GRACE_MS HOW ARGS VARIABLES BYTES
 *     BYTES bytes: the folder, each argument and each variable, with NULs
 *     signal 15
 *     beat
 *     ask
 *
 * Standard input needs no port, no name and no secret: ssh, srun and their like
 * carry it, and its end is the end of the front end.
 */
#ifndef LAUNCHER_FRONT_ORDERS_H
#define LAUNCHER_FRONT_ORDERS_H

#include <stdbool.h>
#include <stddef.h>

#include "rendezvous/base/buf.h"
#include "rendezvous/base/err.h"

#define ORDERS_LINE_MAX  160 /* bytes, the newline included */
#define ORDERS_MARK_LEN  32
#define ORDERS_BYTES_MAX (8u * 1024u * 1024u) /* of what is to be started */
#define ORDERS_WORDS_MAX 100000               /* arguments and variables */
#define ORDERS_TIME_MAX  86400000             /* ms */

enum orders_how {
    ORDERS_PLAIN,
    ORDERS_STEP, /* a scheduler may signal all processes here itself */
};

/* What to start, and how it is held. */
struct orders_start {
    char mark[ORDERS_MARK_LEN + 1]; /* before what the proxy says */
    int beat_ms;  /* no word for so long: the front end is gone; 0: its end is
                     told by the end of stdin only */
    int grace_ms; /* from SIGTERM to SIGKILL when it is gone */
    enum orders_how how;
    int n_args;
    int n_vars;
    size_t bytes;
    const char *folder; /* "": where the proxy was started */
    char *const *args;  /* n_args of them, then NULL */
    char *const *vars;  /* "NAME=value", n_vars of them, then NULL */
};

enum order_kind {
    ORDER_BEAT,
    ORDER_SIGNAL,
    ORDER_ASK,   /* whether it is there: a mark says so */
    ORDER_WRONG, /* not a line of a front end's */
};

/* -- the front end's half -------------------------------------------------- */

/* Appends all of it (n_args, n_vars and bytes are counted here). Errors:
 * DDP_E_USAGE more than the limits above, DDP_E_NOMEM. */
int orders_put_start(struct buf *b,
                     const struct orders_start *s,
                     struct ddp_err *err);
/* `signo` of SIGNAL. False: `b` is full, and unchanged. */
bool orders_put(struct buf *b, enum order_kind kind, int signo);

/* -- the proxy's half ----------------------------------------------------- */

/* Reads the first line, without its newline, which is changed. All fields but
 * the last three are set. DDP_E_PROTO: it is not such a line. */
int orders_read_line(struct orders_start *s, char *line, struct ddp_err *err);

/* Reads s->bytes bytes, which s borrows from then on. `words` has room for
 * n_args + n_vars + 2 pointers. DDP_E_PROTO. */
int orders_read_words(struct orders_start *s,
                      char *data,
                      char **words,
                      struct ddp_err *err);

/* An order, without its newline. */
enum order_kind orders_read(const char *line, int *signo);

#endif
