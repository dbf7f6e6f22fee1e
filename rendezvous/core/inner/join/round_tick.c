/*
 * Time. Each state of a run has things that become due, and round_deadline says
 * when the first of them is; the shell then sends a tick. A deadline that a
 * tick does not clear would have the shell spin: what is due in round_tick and
 * what round_deadline names must be the same, state by state.
 */
#include "rendezvous/core/inner/join/round_tick.h"

#include <stdio.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/join/election.h"
#include "rendezvous/core/inner/join/join_place.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/round_end.h"
#include "rendezvous/core/inner/round/inherited.h"
#include "rendezvous/core/inner/round/round_seal.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/strikes.h"

/* Others may go on elsewhere: without the voters this server ends no run that
 * has had a round. Its nodes give up by themselves. */
static void give_up(struct rdzv *r, struct run *run)
{
    if (run->round.number == 0 || run_has_voters(run, r->now_us)) {
        round_end_by_timeout(r, run);
        return;
    }
    run->gather.since_us = r->now_us;
    if (run->head >= 0)
        round_notify_waiting(r, run);
    else
        run_forget(r, run);
}

static void tick_gather(struct rdzv *r, struct run *run)
{
    if (r->now_us >= run_anew_at_us(run)) {
        run_forget(r, run); /* who waits comes again, and begins it */
        return;
    }
    int have = run->count[NODE_WAITING] + run->count[NODE_SPARE];
    int64_t give_up_us = mono_after(run->gather.since_us, run->conf.join_us);
    if (have < run->conf.nodes_min && r->now_us >= give_up_us) {
        give_up(r, run);
        return;
    }
    if (r->now_us >= run->gather.notice_at_us && run->head >= 0)
        round_notify_waiting(r, run);
    round_try_seal(r, run);
}

/* "2", "0 and 2"; their names are not known here. */
static void
list_holes(const struct rdzv *r, const struct run *run, char *text, size_t size)
{
    int left = run->recovery.holes;
    size_t len = 0;
    for (int i = 0; i < run->round.group_world && left > 0; i++) {
        if (round_is_taken(r, run, i))
            continue;
        if (len + 24 > size) {
            (void)snprintf(text + len, size - len, "..."); /* has room */
            return;
        }
        const char *then = left > 2 ? ", " : left == 2 ? " and " : "";
        len += (size_t)snprintf(text + len, size - len, "%d%s", i, then);
        left--;
    }
}

static void tick_holes(struct rdzv *r, struct run *run)
{
    char ranks[80] = "", why[160];
    int holes = run->recovery.holes;
    if (holes == 0 || r->now_us < round_known_at_us(run))
        return;
    list_holes(r, run, ranks, sizeof(ranks));
    (void)snprintf(why, sizeof(why), /* fits */
                   "the node%s of group rank%s %s %s lost while the rendezvous "
                   "was away",
                   holes == 1 ? "" : "s", holes == 1 ? "" : "s", ranks,
                   holes == 1 ? "was" : "were");
    note(r, NOTE_lost, run, "", "%d node%s did not come back", holes,
         holes == 1 ? "" : "s");
    run->recovery.holes = 0;
    round_blame_node(run);
    if (run->state == RUN_ACTIVE)
        round_over(r, run, why, MSG_AT_ONCE);
    else
        round_try_drained(r, run);
}

/* A run that was forgotten, and that nobody comes back to, is no more. */
static void tick_candidate(struct rdzv *r, struct run *run)
{
    if (r->now_us < run->takeover.notice_at_us)
        return;
    if (run->head >= 0)
        election_tell(r, run);
    else
        run_forget(r, run);
}

void round_tick(struct rdzv *r, struct run *run)
{
    struct node *due;
    while ((due = strikes_take_due(r, run)) != NULL)
        join_place(r, run, due);
    switch (run->state) {
    case RUN_ELECTING:
        tick_candidate(r, run);
        return;
    case RUN_PENDING:
        return; /* its voters are waited for */
    case RUN_GATHER:
        tick_gather(r, run);
        return;
    case RUN_ACTIVE:
    case RUN_DRAIN:
        tick_holes(r, run);
        round_try_scale(r, run, "nodes join");
        return;
    case RUN_ENDED:
        run_try_settle(r, run);
        return; /* forgotten by rdzv.c, which owns the run */
    case RUN_FREE:
    case RUN_STATES:
        break;
    }
    DDP_WRONG("run state");
}

/* -- when it is due -------------------------------------------------------- */

static int64_t gather_deadline(const struct rdzv *r, const struct run *run)
{
    int have = run->count[NODE_WAITING] + run->count[NODE_SPARE];
    int64_t at_us = run->head >= 0 ? run->gather.notice_at_us : MONO_NEVER;
    if (have < run->conf.nodes_min)
        at_us = mono_min(at_us,
                         mono_after(run->gather.since_us, run->conf.join_us));
    else if (run->absent > 0 || round_awaits_leave(r, run))
        return at_us;               /* its lease, or its leave, is waited for */
    else if (run->takeover.blocked) /* voters are waited for, or beats */
        return run->takeover.calm_us > r->now_us
                   ? mono_min(at_us, run->takeover.calm_us)
                   : at_us;
    else if (run->recovery.inherited)
        at_us = mono_min(at_us, round_known_at_us(run));
    else
        at_us = mono_min(at_us, run->gather.seal_at_us);
    return at_us;
}

static int64_t active_deadline(const struct run *run)
{
    if (run->recovery.holes > 0)
        return round_known_at_us(run);
    return run->count[NODE_SPARE] > 0 && run_can_grow(run) ? run->scale_next_us
                                                           : MONO_NEVER;
}

static int64_t deadline_of_state(const struct rdzv *r, const struct run *run)
{
    switch (run->state) {
    case RUN_ELECTING:
        return run->takeover.notice_at_us;
    case RUN_PENDING:
        return strikes_deadline(run);
    case RUN_GATHER:
        return mono_min(run_anew_at_us(run), mono_min(gather_deadline(r, run),
                                                      strikes_deadline(run)));
    case RUN_ACTIVE:
    case RUN_DRAIN:
        return mono_min(active_deadline(run), strikes_deadline(run));
    case RUN_ENDED:
        return mono_min(run->end.forget_at_us, run->end.settle_at_us);
    case RUN_FREE:
    case RUN_STATES:
        break;
    }
    DDP_WRONG("run state");
}

/* What is due by count is looked at behind each tick (takeover.c). */
int64_t round_deadline(const struct rdzv *r, const struct run *run)
{
    int64_t at_us = deadline_of_state(r, run);
    return run_is_live(run) ? mono_min(at_us, run->takeover.count_at_us)
                            : at_us;
}
