/*
 * Happy path: the states of a run are looked at after each step of the server
 * (phase_look), and a note says what it does. All workers of a round run when
 * each node of it has said that it holds it: an agent says so when it has
 * started them. As long as a round runs on nothing is told.
 *
 * Failure modes:
 *   - A round ends and the next one is sealed in one step: round_over,
 *     round_try_drained and the seal look, too, so that none is missed.
 *   - The cause of an end comes to light later, and is older: the next look
 *     tells the older sign.
 *   - The server is a new one: each member brings the sums that the server
 *     before had counted up to their round. If a member had to stop, the round
 *     was well only up to the last answer of that server.
 */
#include "rendezvous/core/inner/state/phase.h"

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"

/* -- what is told ---------------------------------------------------------- */

static enum round_end end_by_node(const struct run *run)
{
    if (run->report.loss.node[0] != '\0')
        return ROUND_LOST;
    return run->round.graceful == MSG_SCALE_DOWN ? ROUND_LEFT : ROUND_STOPPED;
}

/* Of a round that is being stopped, or was. */
static enum round_end end_by_blame(const struct run *run)
{
    switch (run->round.blame) {
    case BLAME_WORKER:
        return run->report.root.what.how == MSG_FAILED_HUNG ? ROUND_HUNG
                                                            : ROUND_FAILED;
    case BLAME_NODE:
    case BLAME_BOTH:
        return end_by_node(run);
    case BLAME_NONE:
        break;
    }
    return run->round.graceful == MSG_SCALE_UP ? ROUND_GREW : ROUND_STOPPED;
}

static enum round_end end_of(const struct run *run)
{
    if (run->state == RUN_DRAIN || run->state == RUN_GATHER)
        return end_by_blame(run);
    if (run->state == RUN_ENDED)
        return run->end.msg.status == 0 ? ROUND_DONE : ROUND_STOPPED;
    return ROUND_OPEN;
}

static bool all_workers_run(const struct run *run)
{
    return run->recovery.inherited || run->round.ran ||
           run->round.confirmed >= run->round.group_world;
}

static enum run_phase phase_of(const struct run *run)
{
    switch (run->state) {
    case RUN_ELECTING:
    case RUN_GATHER:
        return PHASE_WAITS;
    case RUN_PENDING:
    case RUN_DRAIN:
        return PHASE_STARTS;
    case RUN_ACTIVE:
        return all_workers_run(run) ? PHASE_RUNS : PHASE_STARTS;
    case RUN_ENDED:
        return PHASE_OVER;
    case RUN_FREE:
    case RUN_STATES:
        break;
    }
    DDP_WRONG("run state");
}

/* The sums have changed: the members of a round that runs are told with their
 * next leases. */
static void take_sums(struct rdzv *r, struct run *run, const char *sums)
{
    msg_set(run->round.sums, sums);
    if (run->state != RUN_ACTIVE)
        return;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        r->nodes[i].owed_sums = node_in_round(&r->nodes[i]);
}

/* `n` has its kind and what belongs to that. */
static void tell(struct rdzv *r, struct run *run, struct note *n)
{
    char sums[NOTE_SUMS_MAX + 1] = "";
    n->sums = sums;
    note_about(r, run, n);
    if (sums[0] != '\0')
        take_sums(r, run, sums);
}

static void tell_phase(struct rdzv *r,
                       struct run *run,
                       bool anew,
                       const char *told,
                       int64_t told_us)
{
    enum run_phase phase = phase_of(run);
    const struct note_phase p = {
        .phase = phase,
        .anew = anew,
        .sealed = run->state == RUN_ACTIVE,
        .term = run->authority.round_term.count,
        .sealed_us = run->round.sealed_us,
        .nodes = run->round.group_world,
        .world_size = run->round.world_size,
        .sign_us = run->round.sign_us,
        .end = end_of(run),
        .why = phase == PHASE_OVER ? run->end.msg.text : "",
        .told = told,
        .told_us = told_us,
    };
    struct note n = {.kind = NOTE_phase, .node = "", .text = "", .phase = &p};
    tell(r, run, &n);
    run->told_phase = phase;
    run->told_round = run->round.number;
}

void phase_tell_steps(struct rdzv *r,
                      struct run *run,
                      const struct node *of,
                      const struct note_steps *steps)
{
    struct note n = {
        .kind = NOTE_steps, .node = of->name, .text = "", .steps = steps};
    tell(r, run, &n);
}

/* -- signs ----------------------------------------------------------------- */

static void take_sign(struct run *run, int64_t at_us)
{
    int64_t *sign_us = &run->round.sign_us;
    if (*sign_us == 0 || at_us < *sign_us)
        *sign_us = at_us;
}

/* Of the round that runs or ran last. A member of an inherited round that never
 * came was last known to be there when the server before us answered. */
static void look_for_signs(struct run *run)
{
    bool missed = run->state == RUN_DRAIN && run->recovery.inherited &&
                  run->round.blame == BLAME_NODE &&
                  run->round.confirmed < run->round.group_world;
    if (run->report.root.round > 0 &&
        run->report.root.round == run->round.number)
        take_sign(run, run->report.root.at_us);
    if (missed && run->recovery.heard_us > 0)
        take_sign(run, run->recovery.heard_us);
}

void phase_lost(struct run *run, const struct node *n)
{
    if (n->state == NODE_RUNNING || n->state == NODE_STOPPING)
        take_sign(run, n->heard_us);
}

int64_t phase_detect_us(const struct rdzv *r, const struct run *run)
{
    int64_t sign_us = run->round.sign_us;
    bool amiss = run->round.ran && run->round.blame != BLAME_NONE &&
                 sign_us > 0 && sign_us < r->now_us;
    return amiss ? r->now_us - sign_us : 0;
}

/* -- when it is told ------------------------------------------------------- */

void phase_begin(struct rdzv *r, struct run *run)
{
    tell_phase(r, run, true, "", 0);
}

void phase_look(struct rdzv *r, struct run *run)
{
    if (run->state == RUN_FREE)
        return;
    enum run_phase phase = phase_of(run);
    int64_t sign_us = run->round.sign_us;
    look_for_signs(run);
    run->round.ran |= phase == PHASE_RUNS;
    if (phase == PHASE_RUNS && run->told_phase == phase &&
        run->told_round == run->round.number && !run->recovery.inherited &&
        run->round.sign_us == sign_us)
        return; /* it runs on: so it is with nearly all beats */
    tell_phase(r, run, false, "", 0);
}

void phase_restore(struct rdzv *r, struct run *run, const struct msg_join *j)
{
    int64_t answered_us = run->authority.earlier_us; /* by the server before */
    if (j->state == MSG_STATE_NONE || j->round != run->round.number ||
        j->group_rank < 0)
        return; /* a spare, or late: no member of this round */
    if (j->state != MSG_STATE_RUNNING && j->state != MSG_STATE_DONE)
        take_sign(run, answered_us);
    if (answered_us > run->recovery.heard_us)
        run->recovery.heard_us = answered_us;
    tell_phase(r, run, false, j->spent, r->now_us - j->recent_ms * MONO_MS);
}
