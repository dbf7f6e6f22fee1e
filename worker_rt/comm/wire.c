/*
 * worker_rt/comm/wire: exchanges, and why they ended.
 *
 * Happy path of a collective: begin fixes the head; exchange sends and receives
 * at once until both are done, and checks each head that comes; end says well.
 *
 * Failure modes. A rank that waits, waits for a rank that waits too or has
 * failed. So when a rank fails and shuts its connections, the failure reaches
 * all ranks, one wake-up per hop; but to the next rank it looks as if that one
 * had died. Therefore each peer has a second connection, whose last message
 * says which rank is to blame, and for what (struct wire_blame). It cannot go
 * over the first connection: a message may be cut there at any byte, and what
 * follows the cut would be taken for its data. An end without that message is a
 * death.
 *
 * The blame is sent before anything is shut. When data ends, the blame has
 * mostly come too; it is waited for a little, since two connections may
 * overtake each other.
 *
 * A blocked rank watches the blame connections of all its peers. A peer that
 * gave up ends the wait. A peer that is gone without a message may also have
 * finished the very last collective and ended early: so the work goes on then,
 * and fails when nothing has moved for GONE_US. A cut line shows nothing at
 * all: see is_silent.
 *
 * Ranks that are in different calls find out by the heads of messages. Two such
 * ranks may also wait for a third each, and never read what the other has sent:
 * so a rank that was blocked for wire_look_us looks at messages that it did not
 * ask for, see head_is_stray.
 */
#include "worker_rt/comm/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rendezvous/base/dial.h"
#include "rendezvous/base/mono.h"
#include "worker_rt/rt.h"

#define GONE_US  (50 * MONO_MS)
#define BLAME_US (20 * MONO_MS) /* for a blame to come after the data's end */
/* For which a peer may be silent if this rank is in a hurry. */
#define HURRY_MS 3000
/* How often the kernel is asked at most which peers are silent. */
#define SILENCE_US (100 * MONO_MS)

int64_t wire_look_us = 1 * MONO_S;

_Static_assert(WIRE_PEERS_MAX *COMM_LANES <= COMM_LINKS_MAX, "see meet");

/* -- who is to blame ------------------------------------------------------- */

static const char *kind_name(const struct wire *w)
{
    ddp_assert(w->head.kind < WIRE_KINDS);
    return head_kind_name(w->head.kind);
}

static struct wire_blame blame_for(enum wire_why why, int rank)
{
    return (struct wire_blame){.why = (uint32_t)why, .rank = (uint32_t)rank};
}

/* Behind "rank N". */
static const char *const why_texts[] = {
    [WIRE_DIED] = "died",
    [WIRE_SILENT] = "is silent: its host is down or the network is cut",
    [WIRE_LEFT] = "left early",
    [WIRE_ABORTED] = "aborted it",
    [WIRE_LATE] = "ran out of time",
    [WIRE_DIFFERS] = "found ranks that are in different calls",
    [WIRE_FAILED] = "failed",
};
_Static_assert(sizeof(why_texts) / sizeof(why_texts[0]) == WIRE_WHYS,
               "one for each");

/* Fails with `blame`, which wire_end passes on. */
static int give_up(struct wire *w, struct wire_blame blame, struct ddp_err *err)
{
    ddp_assert(blame.why >= WIRE_DIED && blame.why < WIRE_WHYS);
    w->blame = blame;
    return ddp_err_set(
        err, blame.why == WIRE_DIFFERS ? DDP_E_CONFLICT : DDP_E_PEER,
        "%s: rank %u %s", kind_name(w), blame.rank, why_texts[blame.why]);
}

static bool is_pause(int error)
{
    return error == EAGAIN || error == EINTR;
}

/* An error of a call on a connection that is not about the connection: the
 * buffer cannot be read (device memory taken for the program's, for example),
 * memory ran out, the descriptor was closed by somebody else. */
static bool is_own(int error)
{
    return error == EFAULT || error == EINVAL || error == ENOMEM ||
           error == ENOBUFS || error == EBADF || error == ENOTSOCK ||
           error == EMSGSIZE;
}

/* Fails for a reason that no peer is to blame for. */
static int own_fault(struct wire *w, const char *what, struct ddp_err *err)
{
    w->blame = blame_for(WIRE_FAILED, w->rank);
    return ddp_err_sys(
        err, errno == ENOMEM || errno == ENOBUFS ? DDP_E_NOMEM : DDP_E_IO,
        "%s: cannot %s the data of this rank", kind_name(w), what);
}

/* How a connection ended, from errno: 0 is an end of file. */
static enum wire_why ending(int error)
{
    return error == 0 || error == ECONNRESET || error == EPIPE ? WIRE_DIED
                                                               : WIRE_SILENT;
}

static void mark_gone(struct wire *w, struct wire_peer *p, enum wire_why why)
{
    ddp_assert(p->state == WIRE_HERE);
    p->state = WIRE_GONE;
    p->blame = blame_for(why, p->rank);
    if (w->gone != NULL)
        return;
    w->gone = p;
    w->moved_us = mono_now_us();
}

/* Reads what has come of a peer's blame. One that makes no sense counts as
 * none. */
static void hear(struct wire *w, struct wire_peer *p)
{
    struct wire_blame *said = &p->blame;
    if (p->state != WIRE_HERE)
        return;
    ddp_assert(p->have < sizeof(*said));
    ssize_t n = recv(p->blame_fd, (uint8_t *)said + p->have,
                     sizeof(*said) - p->have, MSG_DONTWAIT);
    if (n < 0 && is_pause(errno))
        return;
    if (n <= 0) {
        mark_gone(w, p, ending(n == 0 ? 0 : errno));
        return;
    }
    p->have += (size_t)n;
    if (p->have < sizeof(*said))
        return;
    if (said->why >= 1 && said->why < WIRE_WHYS &&
        said->rank < (uint32_t)w->world)
        p->state = WIRE_BLAMED;
    else
        mark_gone(w, p, WIRE_DIED);
}

/*
 * The connection to `p` ended, in the way that errno says. Its own blame says
 * best why, then that of any other peer; if there is none, the first peer that
 * was seen gone is to blame.
 */
static int lost(struct wire *w, struct wire_peer *p, struct ddp_err *err)
{
    enum wire_why why = ending(errno);
    int64_t now_us = mono_now_us(), until_us = now_us + BLAME_US;
    struct pollfd pfd = {.fd = p->blame_fd, .events = POLLIN};
    for (hear(w, p); p->state == WIRE_HERE && now_us < until_us; hear(w, p)) {
        (void)poll(&pfd, 1, (int)mono_ms_until(now_us, until_us));
        now_us = mono_now_us();
    }
    if (p->state == WIRE_HERE)
        mark_gone(w, p, why);
    if (p->state == WIRE_BLAMED)
        return give_up(w, p->blame, err);
    for (size_t i = 0; i < w->npeers; i++) {
        hear(w, &w->peers[i]);
        if (w->peers[i].state == WIRE_BLAMED)
            return give_up(w, w->peers[i].blame, err);
    }
    ddp_assert(w->gone != NULL && w->gone->state == WIRE_GONE);
    return give_up(w, w->gone->blame, err);
}

/* -- one exchange ---------------------------------------------------------- */

struct wire_xfer wire_message(const struct wire *w,
                              struct wire_peer *peer,
                              uint32_t step,
                              void *data,
                              size_t len)
{
    ddp_assert(peer != NULL);
    struct wire_xfer x = {
        .peer = peer, .head = w->head, .data = data, .len = len};
    x.head.step |= step;
    x.head.len = len;
    return x;
}

static bool finished(const struct wire_xfer *x)
{
    return x->peer == NULL || x->done == sizeof(x->head) + x->len;
}

/* Fills `iov` with what is left of the head and a piece of the data. */
static size_t pieces(struct iovec iov[2],
                     struct wire_head *head,
                     size_t done,
                     uint8_t *data,
                     size_t room)
{
    size_t n = 0;
    if (done < sizeof(*head))
        iov[n++] = (struct iovec){(uint8_t *)head + done, sizeof(*head) - done};
    if (room > 0)
        iov[n++] = (struct iovec){data, room};
    return n;
}

static size_t data_done(const struct wire_xfer *x)
{
    return x->done < sizeof(x->head) ? 0 : x->done - sizeof(x->head);
}

/* Sends once; `*moved` if anything went. */
static int
send_some(struct wire *w, struct wire_xfer *x, bool *moved, struct ddp_err *err)
{
    struct iovec iov[2];
    size_t at = data_done(x);
    struct msghdr msg = {.msg_iov = iov};
    msg.msg_iovlen = pieces(iov, &x->head, x->done, x->data + at,
                            wire_least(x->len - at, WIRE_CHUNK));
    ssize_t n = sendmsg(x->peer->fd, &msg, MSG_NOSIGNAL);
    if (n < 0 && is_own(errno))
        return own_fault(w, "send", err);
    if (n < 0 && !is_pause(errno))
        return lost(w, x->peer, err);
    if (n > 0) {
        x->done += (size_t)n;
        *moved = true;
    }
    return 0;
}

/* The peer's message belongs to another call than this rank is in, or to
 * another step of it: `own`. */
static int conflict(struct wire *w,
                    const struct wire_peer *peer,
                    const struct wire_head *own,
                    const struct wire_head *got,
                    struct ddp_err *err)
{
    char ours[HEAD_TEXT], theirs[HEAD_TEXT];
    if (got->kind == WIRE_LEAVE)
        return give_up(w, blame_for(WIRE_LEFT, peer->rank), err);
    w->blame = blame_for(w->head.kind == WIRE_LEAVE ? WIRE_LEFT : WIRE_DIFFERS,
                         w->rank);
    head_describe(ours, own);
    head_describe(theirs, got);
    return ddp_err_set(err, DDP_E_CONFLICT,
                       "rank %d and rank %d are in different calls: %s, %s",
                       w->rank, peer->rank, ours, theirs);
}

/* Adds the whole elements that the scratch has; the rest moves to its front. */
static void combine_some(struct wire *w, struct wire_xfer *x)
{
    ddp_assert(x->added <= data_done(x) && x->elem > 0);
    size_t have = data_done(x) - x->added;
    ddp_assert(have <= WIRE_CHUNK);
    size_t n = have / x->elem;
    size_t used = n * x->elem;
    x->combine(x->data + x->added, w->scratch, x->data + x->added, n);
    memmove(w->scratch, w->scratch + used, have - used);
    x->added += used;
}

/* Receives once; `*moved` if anything came. */
static int
recv_some(struct wire *w, struct wire_xfer *x, bool *moved, struct ddp_err *err)
{
    size_t at = data_done(x);
    uint8_t *to = x->data + at;
    size_t room = wire_least(x->len - at, WIRE_CHUNK);
    if (x->combine != NULL) {
        size_t kept = at - x->added; /* part of an element */
        to = w->scratch + kept;
        room = wire_least(room, WIRE_CHUNK - kept);
    }
    struct iovec iov[2];
    struct msghdr msg = {.msg_iov = iov};
    msg.msg_iovlen = pieces(iov, &x->got, x->done, to, room);
    ssize_t n = recvmsg(x->peer->fd, &msg, 0);
    if (n < 0 && is_own(errno))
        return own_fault(w, "receive", err);
    if (n == 0)
        errno = 0;
    if (n == 0 || (n < 0 && !is_pause(errno)))
        return lost(w, x->peer, err);
    if (n < 0)
        return 0;
    bool head_came =
        x->done < sizeof(x->head) && x->done + (size_t)n >= sizeof(x->head);
    x->done += (size_t)n;
    *moved = true;
    if (head_came && !head_fits(&x->got, &x->head))
        return conflict(w, x->peer, &x->head, &x->got, err);
    if (x->combine != NULL)
        combine_some(w, x);
    return 0;
}

/* When a rank that was asked to stop waits no longer for others: they may be
 * cut off, and the launcher waits for this one. */
static int64_t stalled_at_us(const struct wire *w)
{
    int64_t since_us = rt_stop_since_us();
    if (since_us == MONO_NEVER)
        return MONO_NEVER;
    return (since_us > w->moved_us ? since_us : w->moved_us) +
           rt_stop_patience_us();
}

/*
 * Whether the peer's kernel has acknowledged nothing for so long though we
 * sent, or probed its closed window, more than once since. A peer that is
 * merely busy or stopped acknowledges.
 *
 * TCP_USER_TIMEOUT is no substitute: it also ends the connection to a peer that
 * is alive and does not read for that long (zero window; seen on Linux 6.18),
 * and a rank that saves a snapshot, or was paused, does not read. If nothing is
 * under way, keepalive finds a cut line.
 */
static bool is_silent(int fd, int silent_ms)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return false;
    return (info.tcpi_retransmits > 0 || info.tcpi_probes > 1) &&
           info.tcpi_last_ack_recv >= (uint32_t)silent_ms;
}

/* A rank that was asked to stop has little time to find out that a line is cut:
 * keepalive does within HURRY_MS, too, a second, then two probes. Best effort,
 * as dial_tune. */
static void hurry(struct wire *w)
{
    const int one = 1, two = 2;
    if (w->hurried || rt_stop_since_us() == MONO_NEVER)
        return;
    for (size_t i = 0; i < w->npeers; i++) {
        int fd = w->peers[i].fd;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof(one));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &two, sizeof(two));
    }
    w->hurried = true;
}

/* A call of the kernel for each peer: of them there may be many. */
static int check_silence(struct wire *w, int64_t now_us, struct ddp_err *err)
{
    if (now_us - w->asked_us < SILENCE_US)
        return 0;
    w->asked_us = now_us;
    for (size_t i = 0; i < w->npeers; i++) {
        if (w->peers[i].state != WIRE_HERE ||
            !is_silent(w->peers[i].fd, w->hurried ? HURRY_MS : DIAL_SILENT_MS))
            continue;
        errno = ETIMEDOUT;
        return lost(w, &w->peers[i], err);
    }
    return 0;
}

/* Too late, or a peer that is gone or silent. */
static int check_peers(struct wire *w, struct ddp_err *err)
{
    int64_t now_us = mono_now_us();
    hurry(w);
    if (now_us >= w->deadline_us) {
        w->blame = blame_for(w->head.kind == WIRE_LEAVE ? WIRE_LEFT : WIRE_LATE,
                             w->rank);
        return ddp_err_set(err, DDP_E_TIMEOUT, "%s did not finish in time",
                           kind_name(w));
    }
    if (w->gone != NULL && now_us - w->moved_us >= GONE_US)
        return lost(w, w->gone, err);
    return check_silence(w, now_us, err);
}

/* Looks at messages that were not asked for: all but those from `from`. */
static int
check_unread(struct wire *w, const struct wire_peer *from, struct ddp_err *err)
{
    for (size_t i = 0; i < w->npeers; i++) {
        struct wire_head got;
        const struct wire_peer *p = &w->peers[i];
        if (p != from && p->state == WIRE_HERE &&
            recv(p->fd, &got, sizeof(got), MSG_PEEK | MSG_DONTWAIT) ==
                (ssize_t)sizeof(got) &&
            head_is_stray(&got, &w->head))
            return conflict(w, p, &w->head, &got, err);
    }
    return 0;
}

/* What may end a wait, besides the awaited data and the blames of peers. */
static int
check_time(struct wire *w, const struct wire_peer *from, struct ddp_err *err)
{
    if (check_peers(w, err) != 0 || check_unread(w, from, err) != 0)
        return -1;
    if (mono_now_us() < stalled_at_us(w))
        return 0;
    w->blame = blame_for(WIRE_ABORTED, w->rank);
    return ddp_err_set(err, DDP_E_ABORTED,
                       "%s was aborted: this rank was asked to stop, and "
                       "the others did not go on",
                       kind_name(w));
}

static int next_look_ms(const struct wire *w)
{
    int64_t now_us = mono_now_us();
    int64_t then_us = mono_min(w->deadline_us, now_us + wire_look_us);
    if (w->gone != NULL)
        then_us = mono_min(then_us, w->moved_us + GONE_US);
    then_us = mono_min(then_us, stalled_at_us(w));
    return (int)mono_ms_until(now_us, then_us);
}

/* Whether there is something to hear of a peer. */
static struct pollfd blame_of(const struct wire_peer *p)
{
    return (struct pollfd){.fd = p->state == WIRE_HERE ? p->blame_fd : -1,
                           .events = POLLIN};
}

/* Blocks until something may go on. What can still be finished is: blames are
 * read only if nothing else moves. */
static int wait_io(struct wire *w,
                   const struct wire_xfer *out,
                   const struct wire_xfer *in,
                   struct ddp_err *err)
{
    struct pollfd pfd[3 + WIRE_PEERS_MAX];
    struct pollfd *blames = pfd + 3;
    const struct wire_peer *to = finished(out) ? NULL : out->peer;
    const struct wire_peer *from = finished(in) ? NULL : in->peer;
    pfd[0] = (struct pollfd){.fd = w->abort_fd, .events = POLLIN};
    pfd[1] = (struct pollfd){.fd = to != NULL ? to->fd : -1, .events = POLLOUT};
    pfd[2] =
        (struct pollfd){.fd = from != NULL ? from->fd : -1, .events = POLLIN};
    for (size_t i = 0; i < w->npeers; i++)
        blames[i] = blame_of(&w->peers[i]);
    int n = poll(pfd, 3 + w->npeers, next_look_ms(w));
    if (n < 0 && !is_pause(errno))
        return ddp_err_sys(err, DDP_E_NOMEM, "cannot wait for the other ranks");
    if (n <= 0 || mono_now_us() >= w->deadline_us)
        return check_time(w, from, err);
    if (pfd[1].revents != 0 || pfd[2].revents != 0)
        return 0;
    for (size_t i = 0; i < w->npeers; i++) {
        if (blames[i].revents != 0)
            hear(w, &w->peers[i]);
        if (w->peers[i].state == WIRE_BLAMED)
            return give_up(w, w->peers[i].blame, err);
    }
    return 0;
}

static int check_abort(struct wire *w, struct ddp_err *err)
{
    if (!atomic_load(&w->aborted))
        return 0;
    w->blame = blame_for(WIRE_ABORTED, w->rank);
    return ddp_err_set(err, DDP_E_ABORTED, "%s was aborted", kind_name(w));
}

/* No stall is looked for: what is waited for may move where we see nothing. */
int wire_watch(struct wire *w, struct ddp_err *err)
{
    struct pollfd pfd[WIRE_PEERS_MAX];
    if (check_abort(w, err) != 0)
        return -1;
    for (size_t i = 0; i < w->npeers; i++)
        pfd[i] = blame_of(&w->peers[i]);
    int n = poll(pfd, w->npeers, 0);
    for (size_t i = 0; i < w->npeers; i++) {
        if (n < 0 || pfd[i].revents != 0)
            hear(w, &w->peers[i]);
        if (w->peers[i].state == WIRE_BLAMED)
            return give_up(w, w->peers[i].blame, err);
    }
    return check_peers(w, err);
}

int wire_exchange(struct wire *w,
                  struct wire_xfer *out,
                  struct wire_xfer *in,
                  struct ddp_err *err)
{
    for (;;) {
        bool moved = false;
        if (check_abort(w, err) != 0)
            return -1;
        if (!finished(out) && send_some(w, out, &moved, err) != 0)
            return -1;
        if (!finished(in) && recv_some(w, in, &moved, err) != 0)
            return -1;
        if (moved && (w->gone != NULL || rt_stop_since_us() != MONO_NEVER))
            w->moved_us = mono_now_us();
        if (finished(out) && finished(in))
            return 0;
        if (!moved && wait_io(w, out, in, err) != 0)
            return -1;
    }
}

/* -- beginning and end of a collective ------------------------------------- */

/* With the head that is there. */
static int begin(struct wire *w, int64_t timeout_us, struct ddp_err *err)
{
    ddp_assert(w->head.kind >= WIRE_ALLREDUCE && w->head.kind < WIRE_KINDS);
    w->blame =
        blame_for(WIRE_FAILED, w->rank); /* unless something better comes */
    w->moved_us = mono_now_us();
    w->deadline_us = mono_after(w->moved_us, timeout_us);
    if (check_abort(w, err) != 0)
        return -1;
    /* A peer that left during the last collective cannot take part now. */
    return w->gone == NULL ? 0 : lost(w, wire_peer(w, w->gone->rank), err);
}

static int is_broken(const struct wire *w, struct ddp_err *err)
{
    if (w->broken && err != NULL)
        *err = w->why;
    return w->broken ? -1 : 0;
}

int wire_begin(struct wire *w,
               const struct comm_call *call,
               int64_t timeout_us,
               struct ddp_err *err)
{
    if (is_broken(w, err) != 0)
        return -1;
    w->head = (struct wire_head){.seq = ++w->seq,
                                 .kind = (uint16_t)call->kind,
                                 .dtype = (uint8_t)call->dtype,
                                 .op = (uint8_t)call->op,
                                 .root = (uint32_t)call->root};
    return begin(w, timeout_us, err);
}

int wire_attend(struct wire *w, int64_t timeout_us, struct ddp_err *err)
{
    if (is_broken(w, err) != 0)
        return -1;
    w->head = (struct wire_head){.seq = w->seq, .kind = WIRE_WAIT};
    return begin(w, timeout_us, err);
}

int wire_end(struct wire *w, int rc, const struct ddp_err *err)
{
    if (rc == 0 || w->broken)
        return rc;
    ddp_assert(err->code != DDP_E_OK);
    w->broken = true;
    w->why = *err;
    /* A few bytes on an unused connection always fit; a peer that is gone is
     * not there to miss them. */
    for (size_t i = 0; i < w->npeers; i++)
        (void)send(w->peers[i].blame_fd, &w->blame, sizeof(w->blame),
                   MSG_NOSIGNAL | MSG_DONTWAIT);
    for (size_t i = 0; i < w->npeers; i++) {
        (void)shutdown(w->peers[i].blame_fd, SHUT_WR);
        (void)shutdown(w->peers[i].fd, SHUT_RDWR);
    }
    return rc;
}

void wire_abort(struct wire *w)
{
    atomic_store(&w->aborted, true);
    /* Stays readable, since it is never read. Cannot fail below 2^64 - 1. */
    (void)eventfd_write(w->abort_fd, 1);
}

/* -- open and close -------------------------------------------------------- */

void wire_init(struct wire *w, int rank, int world)
{
    *w = (struct wire){.rank = rank, .world = world, .abort_fd = -1};
}

struct wire_peer *wire_peer(struct wire *w, int rank)
{
    for (size_t i = 0; i < w->npeers; i++)
        if (w->peers[i].rank == rank)
            return &w->peers[i];
    return NULL;
}

struct wire_peer *wire_add(struct wire *w, int rank)
{
    struct wire_peer *p = wire_peer(w, rank);
    if (p != NULL)
        return p;
    ddp_assert(w->npeers < WIRE_PEERS_MAX);
    p = &w->peers[w->npeers++];
    *p = (struct wire_peer){.rank = rank, .fd = -1, .blame_fd = -1};
    return p;
}

static int meet(struct wire *w,
                const struct comm_place *place,
                struct store_client *store,
                int64_t deadline_us,
                struct ddp_err *err)
{
    struct comm_link links[COMM_LINKS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < w->npeers; i++) {
        links[n++] = (struct comm_link){w->peers[i].rank, COMM_DATA, -1};
        links[n++] = (struct comm_link){w->peers[i].rank, COMM_BLAME, -1};
    }
    int rc = comm_meet(place, store, links, n, deadline_us, err);
    for (size_t i = 0; i < w->npeers; i++) {
        w->peers[i].fd = links[COMM_LANES * i].fd;
        w->peers[i].blame_fd = links[COMM_LANES * i + 1].fd;
    }
    return rc;
}

int wire_open(struct wire *w,
              const struct comm_place *place,
              struct store_client *store,
              int64_t deadline_us,
              struct ddp_err *err)
{
    ddp_assert(w->scratch == NULL && w->abort_fd < 0); /* once */
    w->scratch = malloc(WIRE_CHUNK);
    w->abort_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->scratch == NULL || w->abort_fd < 0)
        return ddp_err_sys(err, DDP_E_NOMEM, "no memory for a communicator");
    if (w->npeers == 0)
        return 0;
    fork_watch(&w->forks[COMM_DATA], &w->peers[0].fd, w->npeers,
               sizeof(w->peers[0]));
    fork_watch(&w->forks[COMM_BLAME], &w->peers[0].blame_fd, w->npeers,
               sizeof(w->peers[0]));
    return meet(w, place, store, deadline_us, err);
}

/* Nothing is under way on any connection, or it is not wanted any more. */
void wire_close(struct wire *w)
{
    fork_forget(&w->forks[COMM_DATA]);
    fork_forget(&w->forks[COMM_BLAME]);
    for (size_t i = 0; i < w->npeers; i++) {
        if (w->peers[i].fd >= 0)
            (void)close(w->peers[i].fd);
        if (w->peers[i].blame_fd >= 0)
            (void)close(w->peers[i].blame_fd);
    }
    if (w->abort_fd >= 0)
        (void)close(w->abort_fd);
    free(w->scratch);
}
