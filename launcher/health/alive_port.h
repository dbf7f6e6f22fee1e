/*
 * launcher/health/alive_port: a TCP port on which the launcher of this node
 * answers any HTTP request: a probe (Kubernetes' livenessProbe with httpGet)
 * learns that the launcher is alive. TORCHELASTIC_HEALTH_CHECK_PORT names the
 * port, as for PyTorch's agent, whose own server is not public.
 */
#ifndef LAUNCHER_HEALTH_ALIVE_PORT_H
#define LAUNCHER_HEALTH_ALIVE_PORT_H

#include <stdbool.h>
#include <uv.h>

#define ALIVE_PORT_CONNS 16 /* at once */

/* Serves it for the life of the loop. False: no port is named, or it cannot be
 * had, which is said; the launcher goes on without. Ends the process if memory
 * runs out. */
bool alive_port_open(uv_loop_t *loop);

#endif
