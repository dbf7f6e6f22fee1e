/*
 * worker_rt/comm/notes: a rank that waits in vain, and circles of ranks.
 *
 * Happy path: a rank that is blocked tells what it waits for, hears nothing
 * that matters, and its send or receive goes on.
 *
 * A circle. A rank in a single send or receive waits for one other rank. It
 * tells that one so, with its own number as the first of a chain. Who waits for
 * one rank itself, and hears that another one waits for it, passes the chain on
 * to the rank that it waits for. A chain that comes back to its first rank is a
 * circle, and nothing but an error ends it.
 *
 * Why this is proof. A note counts as long as what it says has not changed: its
 * sender waits for a send, and all that this rank has sent to it had arrived;
 * or it waits to be received from, and this rank has not done that. Then the
 * sender goes on when this rank does, and not before. This rank is blocked, and
 * so on, up to the rank that began the chain.
 *
 * Numbers of 128 and more begin no chain: a world of that size has no mesh, and
 * the one circle that its ring can have has rank 0 in it.
 *
 * Failure mode: a note does not fit into the kernel's buffer, since its
 * receiver has read none for a long time. Then it is lost, and the rank waits
 * until its time-out, as it does for any peer that does not come.
 */
#include "worker_rt/comm/notes.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define NO_CHAIN UINT32_MAX

static bool is_alone(const struct wire *w)
{
    return w->head.kind == WIRE_SEND || w->head.kind == WIRE_RECV;
}

static bool has(const wire_ranks set, uint32_t rank)
{
    return rank < COMM_MESH_MAX && (set[rank / 64] >> (rank % 64) & 1) != 0;
}

static void add(wire_ranks set, uint32_t rank)
{
    if (rank < COMM_MESH_MAX)
        set[rank / 64] |= UINT64_C(1) << (rank % 64);
}

void notes_take(struct wire_peer *p)
{
    const struct wire_blame *said = &p->blame;
    if (said->why != p->note.why || said->seq != p->note.seq ||
        said->got != p->note.got || said->sent != p->note.sent)
        memset(p->chains, 0, sizeof(p->chains)); /* those of an older call */
    p->note = *said;
    add(p->chains, said->first);
}

/* Few bytes for each call fit, else they are not there: nobody rests on them.
 */
static void tell(struct wire *w, const struct wire_peer *p, uint32_t first)
{
    const struct wire_blame note = {
        .why = w->head.kind == WIRE_RECV   ? WIRE_WAITS_ALONE
               : w->head.kind == WIRE_SEND ? WIRE_WAITS_TO_SEND
                                           : WIRE_WAITS,
        .rank = (uint32_t)w->rank,
        .seq = w->head.seq,
        .got = p->got,
        .sent = p->sent,
        .first = first};
    (void)send(p->blame_fd, &note, sizeof(note), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void notes_give(struct wire *w, const struct notes_asked *asked)
{
    uint32_t first = is_alone(w) ? (uint32_t)w->rank : NO_CHAIN;
    bool sends = w->head.kind == WIRE_SEND;
    bool between = is_alone(w) || w->head.kind == WIRE_GROUP;
    for (size_t i = 0; between && !w->noted && i < w->npeers; i++)
        if (asked->silent[i] || (sends && asked->events[i] != 0))
            tell(w, &w->peers[i], first);
    w->noted = true;
}

/* -- what follows ---------------------------------------------------------- */

static void differs(struct wire *w)
{
    w->blame =
        (struct wire_blame){.why = WIRE_DIFFERS, .rank = (uint32_t)w->rank};
}

static int in_vain(struct wire *w, int peer, struct ddp_err *err)
{
    char ours[HEAD_TEXT];
    head_describe(ours, &w->head);
    return ddp_err_set(err, DDP_E_CONFLICT,
                       "rank %d and rank %d are in different calls: %s, "
                       "and a receive of what rank %d should send",
                       w->rank, peer, ours, w->rank);
}

static int in_circle(struct wire *w, int to, int from, struct ddp_err *err)
{
    char ours[HEAD_TEXT];
    head_describe(ours, &w->head);
    return ddp_err_set(err, DDP_E_CONFLICT,
                       "ranks wait for each other in a circle: rank %d in %s "
                       "for rank %d, that one for another, up to rank %d, "
                       "which waits for rank %d: put sends and receives into "
                       "groups",
                       w->rank, ours, to, from, w->rank);
}

/* The one that this rank waits for, if there is just one. */
static const struct wire_peer *awaited(const struct wire *w,
                                       const struct notes_asked *asked)
{
    size_t i = 0;
    while (i < w->npeers && asked->events[i] == 0)
        i++;
    return is_alone(w) && i < w->npeers ? &w->peers[i] : NULL;
}

/* Two that wait for each other are found by blame_waits_in_vain, or one of them
 * is about to go on. */
static int
pass_on(struct wire *w, const struct wire_peer *to, struct ddp_err *err)
{
    for (size_t i = 0; i < w->npeers; i++) {
        const struct wire_peer *p = &w->peers[i];
        if (p == to || !blame_holds(&p->note, p->sent, p->got))
            continue;
        if (has(p->chains, (uint32_t)w->rank))
            return in_circle(w, to->rank, p->rank, err);
        for (uint32_t first = 0; first < COMM_MESH_MAX; first++) {
            if (!has(p->chains, first) || has(w->passed, first))
                continue;
            tell(w, to, first);
            add(w->passed, first);
        }
    }
    return 0;
}

int notes_check(struct wire *w,
                const struct notes_asked *asked,
                struct ddp_err *err)
{
    const struct wire_peer *to = awaited(w, asked);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->npeers; i++) {
        const struct wire_peer *p = &w->peers[i];
        if (blame_waits_in_vain(&p->note, &w->head, p->sent, p->got,
                                (asked->events[i] & POLLIN) != 0))
            rc = in_vain(w, p->rank, err);
    }
    if (rc == 0 && to != NULL && w->noted)
        rc = pass_on(w, to, err);
    if (rc != 0)
        differs(w);
    return rc;
}

/* -- sends that nobody has received ---------------------------------------- */

/* Weights by which no sends of different pairs of ranks cancel out, unless by a
 * chance of one in 2^64 (the mixer of splitmix64). */
static uint64_t weight_of(int from, int to)
{
    uint64_t z = ((uint64_t)(uint32_t)from << 32) + (uint32_t)to + 1;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t notes_open_sends(const struct wire *w)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < w->npeers; i++) {
        const struct wire_peer *p = &w->peers[i];
        sum += p->sent * weight_of(w->rank, p->rank);
        sum -= p->got * weight_of(p->rank, w->rank);
    }
    return sum;
}

bool notes_peek(const struct wire_peer *p, struct wire_head *got)
{
    return p->state == WIRE_HERE &&
           recv(p->fd, got, sizeof(*got), MSG_PEEK | MSG_DONTWAIT) ==
               (ssize_t)sizeof(*got);
}

int notes_left_over(struct wire *w, struct ddp_err *err)
{
    differs(w);
    for (size_t i = 0; i < w->npeers; i++) {
        struct wire_head got;
        char text[HEAD_TEXT];
        if (!notes_peek(&w->peers[i], &got) || got.kind != WIRE_SEND)
            continue;
        head_describe(text, &got);
        return ddp_err_set(err, DDP_E_CONFLICT,
                           "%s number %u: %s, of rank %d to rank %d before it, "
                           "was not received",
                           head_kind_name(w->head.kind), w->head.seq, text,
                           w->peers[i].rank, w->rank);
    }
    return ddp_err_set(err, DDP_E_CONFLICT,
                       "%s number %u: a send between two ranks before it was "
                       "not received",
                       head_kind_name(w->head.kind), w->head.seq);
}
