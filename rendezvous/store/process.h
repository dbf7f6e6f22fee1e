/*
 * store/process: a store in a process of its own. Its connections come from a
 * listener, from a channel over which another process hands them over
 * (net/fd_pass), or from both.
 */
#ifndef RENDEZVOUS_STORE_PROCESS_H
#define RENDEZVOUS_STORE_PROCESS_H

#include "rendezvous/net/helper.h"

struct allow;

/* The body of a helper process: serves until it is killed. `allow`: the peers
 * that may connect, borrowed; NULL: all. Never returns. */
void store_process_main(const struct helper_fds *fds, struct allow *allow)
    __attribute__((noreturn));

#endif
