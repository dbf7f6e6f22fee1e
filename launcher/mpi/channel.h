/*
 * launcher/mpi/channel: moves bytes between a socket that does not wait and
 * buffers: a worker's PMI (mpi), the PMIx server's (pmix).
 */
#ifndef LAUNCHER_MPI_CHANNEL_H
#define LAUNCHER_MPI_CHANNEL_H

#include "rendezvous/base/buf.h"

/* Takes off `out` what the socket takes. Returns 0, or errno. */
int channel_send(int fd, struct buf *out);

/* Appends to `in` what has come, at most `room` bytes. Returns 0; EAGAIN:
 * nothing has; EPIPE: it is the end; or another errno. */
int channel_read(int fd, struct buf *in, size_t room);

#endif
