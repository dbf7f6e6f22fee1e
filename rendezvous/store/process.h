/*
 * store/process: a store in a process of its own whose connections come
 * from a listener, from a channel by which another process hands them over
 * (net/fd_pass), or from both.
 */
#ifndef RENDEZVOUS_STORE_PROCESS_H
#define RENDEZVOUS_STORE_PROCESS_H

#include "rendezvous/net/helper.h"

struct allow;

/* A helper_main's rest: serves until it is killed. `allow`: who may connect,
 * NULL is everybody; borrowed. Never returns. */
void store_process_main(const struct helper_fds *fds, struct allow *allow)
    __attribute__((noreturn));

#endif
