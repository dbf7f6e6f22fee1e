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

#endif
