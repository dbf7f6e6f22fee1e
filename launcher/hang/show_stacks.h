/*
 * launcher/hang/show_stacks: an operator's order (ddpctl stacks): the stacks
 * of one worker of this node, while it runs. They go to the server in parts,
 * which hands them on.
 */
#ifndef LAUNCHER_HANG_SHOW_STACKS_H
#define LAUNCHER_HANG_SHOW_STACKS_H

#include <uv.h>

#include "launcher/worker/workers.h"
#include "rendezvous/proto/msg.h"

struct show_stacks;

/* A part is borrowed for the call. */
typedef void (*show_stacks_send)(void *ctx, const struct msg *part);

/* Borrows everything for the life of the process. */
struct show_stacks *show_stacks_new(uv_loop_t *loop,
                                    const struct workers *workers,
                                    int nproc,
                                    show_stacks_send send,
                                    void *ctx);

/* Says why not if it cannot, or if it is busy with another order. `world` is
 * that of the workers. */
void show_stacks_begin(struct show_stacks *s,
                       const struct msg_look *look,
                       const struct msg_world *world);

/* The workers are being stopped, or are dead. */
void show_stacks_stop(struct show_stacks *s);

/* The process that takes the stacks, 0: none. When it has ended, call
 * show_stacks_helper_ended, which reaps it. */
pid_t show_stacks_helper(const struct show_stacks *s);
void show_stacks_helper_ended(struct show_stacks *s);

#endif
