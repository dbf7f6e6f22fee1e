/*
 * launcher/rdzv/store_host: the workers' store on this node, which is used if
 * the node gets group rank 0: the listener at MASTER_PORT and the process
 * behind it, with an empty store for each round.
 */
#ifndef LAUNCHER_RDZV_STORE_HOST_H
#define LAUNCHER_RDZV_STORE_HOST_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "launcher/conf/conf.h"
#include "rendezvous/proto/msg.h"

struct allow;

/* The caller's storage; the fields are store_host.c's own. */
struct store_host {
    uint32_t magic;
    const struct conf *conf;
    int fd; /* the listener, -1: none */
    uv_poll_t poll;
    /* If the store is reached at the rendezvous's own port: the two ends by
     * which a server of ours passes its connections on, else -1. */
    int give;
    int take;
    uv_poll_t take_poll;
    int own_take;   /* else the end of a pair of our own, -1: none is needed */
    bool open;      /* a round runs */
    pid_t pid;      /* of the process, 0: none */
    bool early;     /* it is wanted already: connections wait in the channel */
    int64_t fallen; /* the last round in which it ended by itself */
    uv_timer_t again;
    bool used; /* workers that are dead by now may have connected */
    /* The members of a round, told before it begins. */
    struct allow *members;
    int64_t members_round;
    struct allow *allow; /* addresses that may use this round's; NULL: all */
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
 * The round's workers are dead on this node, and it is about to say so. From
 * then on another round may begin elsewhere before this node hears of it, and
 * its workers must not find the old store.
 */
void store_host_end(struct store_host *h);

/* A fresh, empty store for this round: no stale keys. A connection that was
 * made since the last store ended, and is open, is from a worker of this round:
 * its launcher heard of the world earlier. */
void store_host_renew(struct store_host *h, int64_t round);

/* The process has ended by itself: reaps it, and an empty store takes its
 * place. From the second time in a round on only a second later, so that a
 * store that cannot run does not keep the agent busy. */
void store_host_fell(struct store_host *h, int64_t round);

/* What the server said about the addresses of a round's members. */
void store_host_members(struct store_host *h, const struct msg_members *m);

void store_host_kill(struct store_host *h);

/* Whether this round's store is here, and nobody has come to it. */
bool store_host_is_unused(const struct store_host *h);

/* The most nodes that the members' addresses are told of. */
#define STORE_HOST_NODES_MAX 4096

/* Reads conf's store_allow into its store_nets and store_for_nodes. Errors:
 * DDP_E_USAGE, DDP_E_NOMEM. */
int store_host_allow(struct conf *conf, struct ddp_err *err);

#endif
