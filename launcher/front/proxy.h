/*
 * launcher/front/proxy: the process on a host between the front end and the
 * launcher there, whose parent it is:
 *
 *     front end -- ssh or srun ~~~ proxy -- launcher (guard, agent, workers)
 *
 * Its stdin is the way from the front end (launcher/front/orders), its stdout
 * and stderr are the launcher's. It starts the launcher, passes signals on,
 * says when the launcher has ended, and ends with the launcher's status. If the
 * front end goes away, the launcher gets SIGTERM, and later SIGKILL.
 */
#ifndef LAUNCHER_FRONT_PROXY_H
#define LAUNCHER_FRONT_PROXY_H

/* The only argument of a proxy. */
#define PROXY_OPTION "--front_end_proxy"

/* The main function of the process; returns its exit status. */
int proxy_main(void);

#endif
