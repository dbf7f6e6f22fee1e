/*
 * Happy path: the flight recorders are asked; /proc is read before a debugger
 * changes what it shows; then come the stacks, the recorders' answers and the
 * other nodes' words. The rank that /proc makes the odd one is looked at first.
 *
 * Failure modes: each of these units copes with its own. This process may be
 * killed at any time: the finding by /proc alone counts until the last one is
 * complete. A file system that does not answer (NFS) holds children of this
 * process, which are given up: the stacks are in memory then.
 */
#include "launcher/hang/hang_evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "launcher/hang/rank_look.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/helper.h"

#define COPY_BYTES (1024 * 1024) /* at once */

const struct hang_finding *
hang_evidence_last(const struct hang_findings *findings)
{
    int n = findings != NULL ? atomic_load(&findings->n) : 0;
    return n > 0 ? &findings->list[n - 1] : NULL;
}

static int place_of(const struct rank_look *looks, int n, int64_t rank)
{
    for (int i = 0; i < n; i++)
        if (looks[i].rank == rank)
            return i;
    DDP_WRONG("rank of this node");
}

static bool does_one(const struct rank_look *looks, int n, enum rank_doing what)
{
    for (int i = 0; i < n; i++)
        if (looks[i].doing == what)
            return true;
    return false;
}

/* The odd rank is blamed if this node has it or tells of any, else the rank
 * whose stacks were taken first. Returns whether another node has the odd one.
 */
static bool conclude(const struct hang_evidence *e,
                     const struct rank_look *looks,
                     int n,
                     bool over)
{
    struct hang_findings *findings = e->findings;
    const struct stacks_of *own = &e->stacks;
    int at = atomic_load(&findings->n);
    int odd = odd_rank_find(looks, n);
    int blamed = place_of(looks, n, own->looks[own->first].rank);
    if ((e->tells || !over) && odd != ODD_RANK_NONE)
        blamed = odd;
    for (int i = 0; i < own->n; i++)
        if (odd != ODD_RANK_NONE && own->looks[i].rank == looks[odd].rank)
            blamed = odd;
    findings->list[at].rank = looks[blamed].rank;
    findings->list[at].over = over;
    findings->list[at].collective = does_one(looks, n, RANK_IN_COLLECTIVE);
    odd_rank_tell(looks, n, odd, blamed, findings->list[at].text);
    atomic_store(&findings->n, at + 1);
    return odd != ODD_RANK_NONE && odd != blamed;
}

/* The kernel's word for a thread that cannot move says more. */
static void add_flight(int flight_fd, struct stacks_of *own)
{
    for (int i = 0; i < own->n; i++)
        if (own->looks[i].doing > RANK_AWAY &&
            flight_is_away(flight_fd, own->looks[i].rank))
            own->looks[i].doing = RANK_AWAY;
}

static bool they_work(const struct hang_evidence *e)
{
    enum pauses_look look = PAUSES_WORKS;
    if (!e->moves)
        look = rank_look_work(e->pids, e->n);
    return look == PAUSES_WORKS || look == PAUSES_TRACED;
}

void hang_evidence_answer(const struct hang_evidence *e)
{
    if (they_work(e))
        rank_meet_work(&e->meet);
}

/* Returns 0, or errno. */
static int copy_to(const char *path, int from)
{
    off_t at = 0;
    ssize_t n;
    int why = 0;
    int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (to < 0)
        return errno;
    do
        n = sendfile(to, from, &at, COPY_BYTES);
    while (n > 0 || (n < 0 && errno == EINTR));
    if (n < 0)
        why = errno;
    if (close(to) != 0 && why == 0)
        why = errno;
    return why;
}

static void save_stacks(int from, const struct hang_evidence *e)
{
    if (e->path[0] == '\0')
        return;
    pid_t child = fork();
    if (child < 0)
        atomic_store(&e->findings->saved, errno);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        atomic_store(&e->findings->saved, copy_to(e->path, from));
        _exit(0);
    }
    helper_wait(&child, mono_after(mono_now_us(), HANG_EVIDENCE_SAVE_US));
}

void hang_evidence_take(int stacks_fd, int flight_fd, struct hang_evidence *e)
{
    struct stacks_of *own = &e->stacks;
    int count;
    bool works, over;
    ddp_assert(own->n >= 1 && own->first < own->n);
    if (e->learned && they_work(e)) {
        rank_meet_work(&e->meet);
        atomic_store(&e->findings->look, PAUSES_WORKS);
        return;
    }
    int64_t asked_us = mono_now_us();
    pid_t asker = flight_ask(flight_fd, e->flight);
    rank_look_all(own->pids, own->looks, own->n);
    (void)conclude(e, own->looks, own->n, e->over);
    int odd = odd_rank_find(own->looks, own->n);
    if (odd != ODD_RANK_NONE)
        own->first = odd;
    if (e->over)
        rank_meet_over(&e->meet);
    rank_meet_tell(&e->meet, own->looks, own->n, false);
    stacks_write(stacks_fd, own);
    save_stacks(stacks_fd, e); /* before another node's word ends this round */
    flight_wait(asker, asked_us);
    add_flight(flight_fd, own);
    rank_meet_tell(&e->meet, own->looks, own->n, true);
    const struct rank_meet_limits limits = {
        .first_us = mono_after(mono_now_us(), e->others_us),
        .whole_us = mono_after(mono_now_us() > own->until_us ? mono_now_us()
                                                             : own->until_us,
                               e->others_us)};
    struct rank_look *all = rank_meet_gather(&e->meet, own->looks, own->n,
                                             &limits, &count, &works, &over);
    /* What a node looked at twice may have begun to compute between the looks.
     */
    if (works ||
        (e->learned && all != NULL && does_one(all, count, RANK_COMPUTES)))
        atomic_store(&e->findings->look, PAUSES_WORKS);
    if (all == NULL)
        return; /* the first finding counts */
    bool is_elsewhere = conclude(e, all, count, e->over || over);
    free(all);
    if (is_elsewhere) /* that node tells, which ends this process */
        (void)usleep(HANG_EVIDENCE_HOLD_US);
}
