/*
 * net/farewell_frame: the farewell as bytes that a process can send which has
 * neither the token nor a library: the hello of our protocol and one frame, in
 * plain text also where everything else travels in TLS. With a token the
 * message proves itself.
 */
#ifndef RENDEZVOUS_NET_FAREWELL_FRAME_H
#define RENDEZVOUS_NET_FAREWELL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/net/tls.h"
#include "rendezvous/proto/msg.h"

/* Writes hello and frame into `out`; `key` NULL: without a proof. Returns the
 * length; 0: it is more than `cap`, or OpenSSL fails. */
size_t farewell_frame(const struct msg_vote *f,
                      const struct tls_key *key,
                      uint8_t *out,
                      size_t cap);

/* Whether who made it had the token of `key`, or the second one. */
bool farewell_is_genuine(const struct msg_vote *f, const struct tls_key *key);

#endif
