/*
 * launcher/rdzv/endpoint: places that a server tells, "ADDR:PORT". What is in
 * the text is not trusted: whoever answered as the rendezvous has said it.
 */
#ifndef LAUNCHER_RDZV_ENDPOINT_H
#define LAUNCHER_RDZV_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#include "launcher/conf/conf.h"

/* Reads `len` bytes: a name or an address, which may be in brackets, and the
 * port behind the last colon. False: it is no such text. */
bool endpoint_read(const char *text, size_t len, struct conf_endpoint *at);

/*
 * The zone of a link-local address (fe80::1%eth0) names an interface of the
 * host that wrote it. In `text`, up to `size` with its end, which may have
 * several addresses, each with a port or none, it becomes that of this host:
 * the zone of `here`, the address of this end of the connection on which the
 * text came. Nothing changes if that has none, or if there is no room.
 */
void endpoint_own_zone(char *text, size_t size, const char *here);

#endif
