/*
 * launcher/front/again: a second connection to a proxy whose first one is lost,
 * since a host on the way has died. The front end has a process executed beside
 * the proxy, which hands over its own stdin, stdout and stderr, and waits:
 *
 *     front end -- ssh n1 ~~~ again == proxy -- launcher on n1
 *
 * They meet at an abstract socket whose name is the proxy's mark. Only
 * processes of the same user are heard.
 */
#ifndef LAUNCHER_FRONT_AGAIN_H
#define LAUNCHER_FRONT_AGAIN_H

#include <stdbool.h>

#include "launcher/front/orders.h"
#include "rendezvous/base/mono.h"

/* For so long a proxy waits for one. A try takes less: by then the front end
 * may have seen later than the proxy that the connection before is lost. */
#define AGAIN_HELD_US (30 * MONO_S)
#define AGAIN_TRY_US  (20 * MONO_S)

/* The first line on the stdin of such a process: AGAIN_WORD MARK. */
#define AGAIN_WORD "ddprun-front-again "

/* Whether a first line, without its newline, is one; `mark` is then filled. */
bool again_read_line(const char *line, char mark[ORDERS_MARK_LEN + 1]);

/* The proxy's half: a socket, or -1 (errno). */
int again_listen(const char *mark);

/*
 * Takes the streams of one who came: they replace the descriptors 0, 1 and 2.
 * Returns the connection, which tells it the end when it is closed; -1: nobody
 * came who may. A connection to the one before is to be closed by the caller.
 */
int again_take(int socket);

/* The other half: hands over, and waits for the proxy's end, which is 0; the
 * status of DDP_E_PEER: there is no proxy of that mark. */
int again_hand_over(const char *mark);

#endif
