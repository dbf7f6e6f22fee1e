/*
 * The life of a round, from its end: round_over stops its workers everywhere,
 * round_try_drained waits until none can run any more, charges the budget, and
 * gathers the next one.
 *
 * The decision what to charge is left until then: a worker that fails often
 * does so because a peer's host is gone, and that is known only later. See enum
 * round_blame in run.h.
 */
#include "rendezvous/core/inner/round/round.h"

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/phase.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round_end.h"
#include "rendezvous/core/inner/round/round_seal.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/strikes.h"

#define NOTICE_FIRST_US (3 * MONO_S)
/* A round that lasted so long is no part of a crash loop. */
#define PROGRESS_US (60 * MONO_S)

void round_gather(struct rdzv *r, struct run *run)
{
    run->state = RUN_GATHER;
    run->gather = (struct run_gather){
        .since_us = r->now_us,
        .seal_at_us = MONO_NEVER,
        .notice_at_us = mono_after(r->now_us, NOTICE_FIRST_US),
    };
}

/* -- the end of a round ---------------------------------------------------- */

bool round_worker_failed(const struct run *run)
{
    return run->round.blame == BLAME_WORKER || run->round.blame == BLAME_BOTH;
}

void round_blame_worker(struct run *run)
{
    ddp_assert(run->report.root.round == run->round.number);
    run->round.blame =
        run->round.blame == BLAME_NODE ? BLAME_BOTH : BLAME_WORKER;
}

void round_blame_node(struct run *run)
{
    ddp_assert(run->state == RUN_ACTIVE || run->state == RUN_DRAIN);
    run->round.blame = round_worker_failed(run) ? BLAME_BOTH : BLAME_NODE;
}

void round_try_scale(struct rdzv *r, struct run *run, const char *why)
{
    if (run->count[NODE_SPARE] == 0 || !run_can_grow(run) ||
        r->now_us < run->scale_next_us)
        return;
    run->scale_next_us = mono_after(r->now_us, run->conf.scale_us);
    round_over(r, run, why, MSG_SCALE_UP);
}

/* A node that leaves stops its workers by itself, as slowly as the others,
 * unless all are hurried. */
static void stop_all(struct rdzv *r, const struct run *run, const char *why)
{
    int64_t detect_us = phase_detect_us(r, run);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (n->state == NODE_STOPPING ||
            (n->state == NODE_LEAVING && run->round.graceful == MSG_AT_ONCE))
            reply_stop(r, n, run->round.number, why, run->round.graceful,
                       detect_us);
    }
}

void round_tell_why(struct rdzv *r, struct run *run, const char *why)
{
    note(r, NOTE_round_over, run, "", "%s", why);
    stop_all(r, run, why);
}

void round_hurry(struct rdzv *r, struct run *run, const char *why)
{
    if (run->state != RUN_DRAIN || run->round.graceful == MSG_AT_ONCE)
        return;
    run->round.graceful = MSG_AT_ONCE;
    stop_all(r, run, why);
}

void round_over(struct rdzv *r,
                struct run *run,
                const char *why,
                enum msg_graceful graceful)
{
    if (run->state != RUN_ACTIVE)
        return;
    phase_look(r, run); /* it may have begun to run in this step */
    run->state = RUN_DRAIN;
    run->round.over_us = r->now_us;
    run->round.graceful = graceful;
    run->round.progressed |= r->now_us - run->round.sealed_us >= PROGRESS_US;
    note(r, NOTE_round_over, run, "", "%s", why);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        if (n->state == NODE_RUNNING || n->state == NODE_DONE)
            node_set_state(r, n, NODE_STOPPING);
    }
    stop_all(r, run, why);
    round_try_drained(r, run);
}

/*
 * The round's failure is charged now, when every node of the round has
 * answered or is known to be lost: a loss that came to light meanwhile is what
 * the failure was a consequence of. False if it ends the run.
 */
static bool charge(struct rdzv *r, struct run *run, bool *loop)
{
    bool counts = run->round.blame == BLAME_WORKER;
    if (run->round.blame == BLAME_BOTH)
        note(r, NOTE_refund, run, run->report.root.node,
             "a node was lost or left");
    *loop = budget_round_over(&run->budget, counts, run->round.progressed);
    if (!counts) {
        strikes_charge(r, run, false);
        return true;
    }
    if (run->report.root.what.how == MSG_FAILED_FOR_GOOD || *loop ||
        !budget_charge(&run->budget, r->now_us))
        return false;
    strikes_charge(r, run, true);
    r->charged++;
    return true;
}

void round_try_drained(struct rdzv *r, struct run *run)
{
    if (run->state != RUN_DRAIN || run->count[NODE_STOPPING] > 0 ||
        run->count[NODE_LEAVING] > 0 || run->recovery.holes > 0)
        return;
    bool loop;
    phase_look(r, run);
    if (!charge(r, run, &loop)) {
        round_end_by_failure(r, run, loop);
        return;
    }
    strikes_quarantine(r, run);
    round_gather(r, run);
    round_try_seal(r, run);
    if (run->state == RUN_GATHER && run->count[NODE_WAITING] > 0)
        round_notify_waiting(r, run); /* that others are needed */
}
