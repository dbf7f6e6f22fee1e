/*
 * launcher/rdzv/own_name: whether the name in --local_addr is known here. The
 * other nodes' workers connect to it, if this node has group rank 0.
 */
#ifndef LAUNCHER_RDZV_OWN_NAME_H
#define LAUNCHER_RDZV_OWN_NAME_H

#include <uv.h>

/*
 * Asks the resolver, and logs a warning if it does not know the name. That is
 * no error: a name may be made known when the launcher is ready, as a pod's is.
 * Nothing waits for the answer. To be called once; does nothing for an address
 * or "".
 */
void own_name_check(uv_loop_t *loop, const char *name);

#endif
