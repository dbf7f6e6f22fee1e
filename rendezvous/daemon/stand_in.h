/*
 * daemon/stand_in: a launcher that serves in a daemon's place gives the port
 * back when the daemon returns. The two meet at an abstract unix socket that is
 * named by the port, so in one network namespace, and only processes of the
 * same user or root are heard.
 */
#ifndef RENDEZVOUS_DAEMON_STAND_IN_H
#define RENDEZVOUS_DAEMON_STAND_IN_H

#include <stdbool.h>

/* The holder of the port: a descriptor that is readable when somebody asks; -1:
 * nobody can ask. Owned by the caller. */
int stand_in_listen(int port);

/* Whether somebody who may ask does. The connection stays open until this
 * process ends, and its end says that the port is free. */
bool stand_in_is_asked(int fd);

/* The daemon: asks the holder of that port for it, and waits until it has let
 * go of it, `wait_ms` at most. False: nobody holds it who would. */
bool stand_in_ask(int port, int wait_ms);

#endif
