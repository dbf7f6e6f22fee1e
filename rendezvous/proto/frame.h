/*
 * proto/frame: how bytes become messages and back. A connection of our
 * protocol opens, in both directions, with eight bytes (FRAME_HELLO, the first
 * one >= 0x80, so that it cannot be the start of HTTP or of a c10d request);
 * then each frame is a little-endian u32 length and so many bytes of payload.
 * Pure: no I/O.
 */
#ifndef RENDEZVOUS_PROTO_FRAME_H
#define RENDEZVOUS_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"

#define FRAME_HELLO                                                            \
    "\xDD"                                                                     \
    "ddprun\x01"
#define FRAME_HELLO_LEN 8u
#define FRAME_MAX       (64u * 1024u) /* bytes of payload ... */
#define FRAME_AGENT_MAX (32u * 1024u) /* ... and of what an agent sends */

enum frame_result {
    FRAME_OK,   /* there is one */
    FRAME_MORE, /* not yet: feed more bytes */
    FRAME_BAD,  /* it can never become one: close the connection */
};

/* Looks for the hello at the front of `in` and takes it away. */
enum frame_result frame_take_hello(struct buf *in);

/*
 * Finds the next whole frame at the front of `in`. `*payload` borrows from
 * `in` and stays valid until the caller writes to it; when done with it, the
 * caller drops the frame by frame_drop(in, *len).
 */
enum frame_result
frame_peek(const struct buf *in, const uint8_t **payload, size_t *len);
void frame_drop(struct buf *in, size_t payload_len);

/* The length that the frame at the front announces, impossible ones too; 0 also
 * where that is not there yet. */
size_t frame_announced(const struct buf *in);

/* Appends one frame. 0, or -1: over FRAME_MAX or over the buffer's limit. */
int frame_put(struct buf *out, const void *payload, size_t len);

#endif
