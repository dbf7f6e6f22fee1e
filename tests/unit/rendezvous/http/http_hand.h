/*
 * tests/unit/rendezvous/http/http_hand: a port on loopback whose HTTP
 * connections go to the unit under test, and clients that are plain sockets.
 */
#ifndef HTTP_HAND_H
#define HTTP_HAND_H

#include <check.h>
#include <stdbool.h>
#include <uv.h>

#include "rendezvous/net/conn.h"

extern uv_loop_t loop;
extern int lost; /* connections that ended before they were given away */

/* Opens loop and port. `take` gets each connection that begins with HTTP. */
void http_hand_open(void (*take)(struct conn *c));

/* After the unit was closed. Ends with uv_loop_close() == 0: nothing is left.
 */
void http_hand_close(void);

/* A turn of the loop, a millisecond; and such turns for so long. */
void turn(void);
void run_for(int ms);

/* A client that has sent this, and takes little at a time; closed by the
 * caller. */
int say(const char *bytes);

#endif
