/*
 * launcher/mpi/pmix_far: what a node's launcher does with those of the other
 * nodes for its PMIx server, through the round's store: they meet, fence,
 * publish names, and post to each other what ranks have put.
 */
#ifndef LAUNCHER_MPI_PMIX_FAR_H
#define LAUNCHER_MPI_PMIX_FAR_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "launcher/mpi/exchange.h"
#include "launcher/mpi/pmix_frame.h"
#include "launcher/mpi/pmix_nodes.h"
#include "rendezvous/proto/msg.h"

/* None of these is called during a call of this unit's functions, but for
 * on_frame, and on_broken in pmix_far_frame. All that is handed over is
 * borrowed for the call. */
struct pmix_far_handler {
    /* The lines of all nodes. */
    void (*on_met)(void *ctx, const char *lines, size_t len);
    /* For this node's server: ANSWER or WANTED. */
    void (*on_frame)(void *ctx, const struct pmix_frame *f);
    /* What was asked for will not come, and someone waits for it. */
    void (*on_broken)(void *ctx, const char *why);
};

#define PMIX_FAR_WANTS_MAX  65536 /* of the other nodes, at a time */
#define PMIX_FAR_QUEUED_MAX ((size_t)64 << 20) /* bytes of answers to them */
#define PMIX_FAR_NONES_MAX                                                     \
    ((size_t)4 << 20) /* more, for answers without data */

/* The caller's storage, for the life of the process. */
struct pmix_far {
    uint32_t magic;
    const struct pmix_far_handler *handler;
    void *ctx;
    /* A connection does nothing else while it waits, so there are several. */
    struct exchange fences;
    struct exchange box;  /* what others post to this node */
    struct exchange mail; /* what is posted; opened when something is */
    const struct pmix_nodes *maps; /* NULL: they have not met */
    char host[256];
    int port;
    int64_t nodes;
    int64_t group_rank;
    int64_t round;
    int64_t world_size;
    int64_t brought; /* fences */
    bool fence_open;
    int64_t ticket;    /* of that one */
    int asks;          /* of this node, that were not answered */
    int wants;         /* of others, for which the server looks */
    char cut_off[300]; /* why others cannot be reached; "": they can */
};

/* Borrows all. Errors: DDP_E_NOMEM. */
int pmix_far_init(struct pmix_far *f,
                  uv_loop_t *loop,
                  const struct pmix_far_handler *handler,
                  void *ctx,
                  struct ddp_err *err);

/* A new round on several nodes, with its store; brings this node's line. */
void pmix_far_open(struct pmix_far *f,
                   const struct msg_world *w,
                   const char *line,
                   size_t len);

/* The server is started. Borrows `maps` until the round is over. */
void pmix_far_begin(struct pmix_far *f, const struct pmix_nodes *maps);

/* The round is over. */
void pmix_far_close(struct pmix_far *f);

/* FENCE, PUBLISH, LOOKUP, UNPUBLISH, MODEX or HELD of the server. */
void pmix_far_frame(struct pmix_far *f, const struct pmix_frame *frame);

/* This node will never bring its part of the first fence. */
void pmix_far_refuse(struct pmix_far *f);

#endif
