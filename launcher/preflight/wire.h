/*
 * launcher/preflight/wire: what the two ends of a preflight's connection say.
 * Frames of 16 bytes, in network order: HELLO, with PREFLIGHT_SECRET_MAX bytes
 * behind it; PING, which is answered by one with the answerer's wall clock; and
 * DATA, with PREFLIGHT_DATA_LEN bytes behind it that nobody looks at.
 */
#ifndef LAUNCHER_PREFLIGHT_WIRE_H
#define LAUNCHER_PREFLIGHT_WIRE_H

#include <arpa/inet.h>
#include <endian.h>
#include <stdint.h>

#define PREFLIGHT_HELLO htonl(0x44505031u)
#define PREFLIGHT_PING  htonl(0x44505032u)
#define PREFLIGHT_DATA  htonl(0x44505033u)

#define PREFLIGHT_DATA_LEN (256 << 10)

struct preflight_frame {
    uint32_t op;
    uint32_t zero;
    uint64_t value; /* microseconds since the epoch, in the answer to a PING */
};
_Static_assert(sizeof(struct preflight_frame) == 16, "as on the wire");

#endif
