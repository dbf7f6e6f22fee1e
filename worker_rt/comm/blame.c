#include "worker_rt/comm/blame.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "rendezvous/base/dial.h"
#include "rendezvous/base/err.h"

static const char *const texts[] = {
    [WIRE_DIED] = "died",
    [WIRE_SILENT] = "is silent: its host is down or the network is cut",
    [WIRE_LEFT] = "left early",
    [WIRE_ABORTED] = "aborted it",
    [WIRE_LATE] = "ran out of time",
    [WIRE_DIFFERS] = "found ranks that are in different calls",
    [WIRE_FAILED] = "failed",
};
_Static_assert(sizeof(texts) / sizeof(texts[0]) == WIRE_WHYS, "one for each");

const char *blame_text(uint32_t why)
{
    ddp_assert(why >= WIRE_DIED && why < WIRE_WHYS);
    return texts[why];
}

enum wire_why blame_ending(int error)
{
    return error == 0 || error == ECONNRESET || error == EPIPE ? WIRE_DIED
                                                               : WIRE_SILENT;
}

/*
 * TCP_USER_TIMEOUT is no substitute: it also ends the connection to a peer that
 * is alive and does not read for that long (zero window; seen on Linux 6.18),
 * and a rank that saves a snapshot, or was paused, does not read. If nothing is
 * under way, keepalive finds a cut line.
 */
bool blame_is_silent(int fd, int silent_ms)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return false;
    return (info.tcpi_retransmits > 0 || info.tcpi_probes > 1) &&
           info.tcpi_last_ack_recv >= (uint32_t)silent_ms;
}

/* One second, then two probes. Best effort, as dial_tune. */
void blame_hurry(int fd)
{
    const int one = 1, two = 2;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &two, sizeof(two));
}
