/*
 * rendezvous/proto/timing: times that both ends of the protocol rely on
 * without telling each other.
 */
#ifndef RENDEZVOUS_PROTO_TIMING_H
#define RENDEZVOUS_PROTO_TIMING_H

#include "rendezvous/base/mono.h"

/*
 * What a refused connection is worth to an agent, besides a lease: its workers
 * may run on for that long, since the refusal proves that the old server is
 * gone. A new server waits for that long, and a lease, for the members that it
 * has not seen. Longer than the longest pause between two tries to connect, so
 * that each refusal renews it in time.
 */
#define TIMING_REFUSED_US (5 * MONO_S)

#endif
