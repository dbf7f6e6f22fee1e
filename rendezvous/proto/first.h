/*
 * proto/first: one port, many protocols: the first byte of a connection tells
 * which. A connection is read as one of our protocol first, and looked at only
 * if it turns out to be none, so that ours pay nothing. With a token two bytes
 * are looked at: the first one on the wire, and the first one inside TLS.
 */
#ifndef RENDEZVOUS_PROTO_FIRST_H
#define RENDEZVOUS_PROTO_FIRST_H

#include <stdint.h>

enum first {
    FIRST_OURS,  /* FRAME_HELLO's first byte, 0xDD */
    FIRST_TLS,   /* a handshake record, 0x16: RFC 8446, 5.1 */
    FIRST_HTTP,  /* a method, 'A' to 'Z': RFC 9110, 9.1 */
    FIRST_C10D,  /* an operation of the store, 0 to 0x15: proto/c10d */
    FIRST_OTHER, /* no protocol that we know */
};

static inline enum first first_of(uint8_t byte)
{
    if (byte == 0xDD)
        return FIRST_OURS;
    if (byte == 0x16)
        return FIRST_TLS;
    if (byte >= 'A' && byte <= 'Z')
        return FIRST_HTTP;
    return byte < 0x16 ? FIRST_C10D : FIRST_OTHER;
}

#endif
