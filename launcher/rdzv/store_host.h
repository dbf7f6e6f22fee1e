/*
 * launcher/rdzv/store_host: the workers' store on this node, for when it gets
 * group rank 0: the listener at MASTER_PORT and the process behind it, an empty
 * one for each round.
 */
#ifndef LAUNCHER_RDZV_STORE_HOST_H
#define LAUNCHER_RDZV_STORE_HOST_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "launcher/conf/conf.h"
#include "rendezvous/proto/msg.h"

struct allow;

/* The caller's storage; the fields are the room's own. */
struct store_host {
    uint32_t magic;
    const struct conf *conf;
    int fd; /* the listener, -1: none */
    uv_poll_t poll;
    /* Where the store is reached at the rendezvous's own port: the two ends by
     * which a server of ours hands its connections over, else -1. */
    int give;
    int take;
    uv_poll_t take_poll;
    int own_take;   /* else the end of a pair of our own, -1: none is needed */
    bool open;      /* a round runs */
    pid_t pid;      /* of the process, 0: none */
    bool early;     /* it is wanted already: somebody waits in the channel */
    int64_t fallen; /* the last round in which it ended by itself */
    uv_timer_t again;
    bool used; /* workers that are dead by now may have connected */
    /* The members of a round, told before it begins. */
    struct allow *members;
    int64_t members_round;
    struct allow *allow; /* who may use this round's; NULL: everybody */
    int64_t allow_round;
};

/*
 * Listens for the workers before the node joins, so that the port that it tells
 * the others is its own; returns that port. Borrows conf for its life. Errors:
 * -1, DDP_E_CONFIG, DDP_E_NOMEM.
 */
int store_host_open(struct store_host *h,
                    uv_loop_t *loop,
                    const struct conf *conf,
                    struct ddp_err *err);

/*
 * The round's workers are dead on this node, and it is about to say so: from
 * then on another round may begin elsewhere before we hear of it, and whoever
 * connects must not find the old store.
 */
void store_host_end(struct store_host *h);

/* A fresh, empty store for this round: no stale keys. Who has connected since
 * the last one ended and lives is a worker of this one: its launcher heard of
 * the world before we did. */
void store_host_renew(struct store_host *h, int64_t round);

/* The process has ended by itself, and is to be reaped: an empty one takes its
 * place. From the second time in a round on only a second later, lest one that
 * cannot run keeps us busy. */
void store_host_fell(struct store_host *h, int64_t round);

/* What the server said about the members of a round. */
void store_host_members(struct store_host *h, const struct msg_members *m);

void store_host_kill(struct store_host *h);

/* The most nodes that the members' addresses are told of. */
#define STORE_HOST_NODES_MAX 4096

/* Reads conf's store_allow into its store_nets and store_for_nodes. Errors:
 * DDP_E_USAGE, DDP_E_NOMEM. */
int store_host_allow(struct conf *conf, struct ddp_err *err);

#endif
