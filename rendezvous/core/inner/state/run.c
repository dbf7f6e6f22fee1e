/*
 * How a run ends: run_end tells every node and keeps those that are connected
 * until all of them know (ENDING), so that a server that takes over hears of
 * the end from any of them. After that, or half a second, the end is final and
 * they go. The run is remembered for ten minutes: a straggler gets its result.
 *
 * The end is a vote: it is never final before half of the voters
 * said bye. A node that holds one that is not final does not end with it.
 */
#include "rendezvous/core/inner/state/run.h"

#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/phase.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"

#define REMEMBER_US (600 * MONO_S)
/* A node that says no bye in this time is not waited for. */
#define SETTLE_US (500 * MONO_MS)

/* Behind a lease: so long voters that reach each other take to elect a leader,
 * and to tell of it where they reach a server. */
#define MEET_US (1 * MONO_S)

struct run *run_find(const struct rdzv *r, const char *id)
{
    for (int i = 0; i < r->limits.runs_max; i++) {
        struct run *run = &r->runs[i];
        if (run_is_live(run) && strcmp(run->id, id) == 0)
            return run;
    }
    return NULL;
}

const char *run_program(const struct run *run)
{
    const char *last = strrchr(run->conf.options, '\n');
    return last != NULL ? last + 1 : run->conf.options;
}

int64_t run_anew_at_us(const struct run *run)
{
    if (run->state != RUN_GATHER || run->round.number == 0 ||
        run->authority.rules.strict || run->recovery.holes > 0 ||
        run->absent > 0)
        return MONO_NEVER;
    struct authority_tally t = authority_tally(&run->authority, 0);
    if (t.here > 0 || t.missing == 0)
        return MONO_NEVER;
    return mono_after(run->gather.since_us, run->conf.heartbeat_us + MEET_US);
}

bool run_is_abandoned(const struct run *run, int64_t now_us)
{
    int64_t anew_at_us = run_anew_at_us(run);
    return run->head < 0 && run->recovery.holes == 0 &&
           (anew_at_us == MONO_NEVER || now_us >= anew_at_us);
}

bool run_can_grow(const struct run *run)
{
    return run->state == RUN_ACTIVE && run->recovery.holes == 0 &&
           run->count[NODE_DONE] + run->round.gone_done == 0 &&
           run->round.group_world < run->conf.nodes_max;
}

int run_nodes_here(const struct run *run)
{
    int n = -run->absent;
    for (int s = 0; s < NODE_STATES; s++)
        n += run->count[s];
    return n;
}

/* -- its authority --------------------------------------------------------- */

void run_give_up_missing(struct rdzv *r, struct run *run)
{
    rdzv_touch(r, run);
    run->takeover.leaps = true;
    authority_give_up(&run->authority);
}

void run_begin_line(struct rdzv *r, struct run *run, bool by_count)
{
    int64_t born_us =
        run->state == RUN_ELECTING ? run->takeover.born_us : run->born_us;
    rdzv_touch(r, run);
    run->takeover.ordered = true;
    authority_begin_line(&run->authority, r->now_us - born_us, by_count,
                         r->now_us);
}

/* -- its instance ---------------------------------------------------------- */

void run_tell_instance(const struct run *run,
                       const struct node *n,
                       char field[MSG_INSTANCE_LEN + 1])
{
    if (n->group_rank >= 0)
        msg_set_text(field, MSG_INSTANCE_LEN + 1, run->instance);
    else
        msg_set_name(field, run->instance);
}

/* -- its end --------------------------------------------------------------- */

bool run_end_is_known(const struct run *run)
{
    return authority_tally(&run->authority, 0).end_is_known;
}

void run_end(struct rdzv *r, struct run *run, const struct msg_end *end)
{
    rdzv_touch(r, run);
    authority_abandon(&run->authority, true);
    run->state = RUN_ENDED;
    run->end.msg = *end;
    msg_set(run->end.msg.instance, run->instance);
    run->end.at_us = r->now_us;
    phase_look(r, run);
    msg_set(run->end.msg.spent, run->round.sums);
    run->end.forget_at_us = mono_after(r->now_us, REMEMBER_US);
    note(r, NOTE_ended, run, "", "status %lld%s%s", (long long)end->status,
         end->text[0] != '\0' ? ": " : "", end->text);
    run->end.settle_at_us = mono_after(r->now_us, SETTLE_US);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        node_set_state(r, &r->nodes[i], NODE_ENDED);
        node_cut_lease(r, &r->nodes[i], run->conf.heartbeat_us);
        run_send_end(r, run, &r->nodes[i]);
    }
    run_try_settle(r, run);
}

void run_send_end(struct rdzv *r, struct run *run, struct node *n)
{
    struct msg m = {.kind = MSG_KIND_end, .end = run->end.msg};
    m.end.hold = run->end.settle_at_us != MONO_NEVER;
    run_tell_instance(run, n, m.end.instance);
    if (m.end.hold && n->conn >= 0)
        node_set_state(r, n, NODE_ENDING);
    reply_node(r, n, &m);
}

void run_try_settle(struct rdzv *r, struct run *run)
{
    if (run->state != RUN_ENDED || run->end.settle_at_us == MONO_NEVER)
        return;
    bool known = run_end_is_known(run);
    if (!known && r->now_us >= run->end.settle_at_us) {
        rdzv_touch(r, run); /* others may have gone on without us */
        run->end.settle_at_us = mono_after(r->now_us, SETTLE_US);
    }
    if (!known ||
        (run->count[NODE_ENDING] > 0 && r->now_us < run->end.settle_at_us))
        return;
    run->end.settle_at_us = MONO_NEVER;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        node_clear_bye(r, &r->nodes[i]);
        run_send_end(r, run, &r->nodes[i]);
    }
}

void run_forget(struct rdzv *r, struct run *run)
{
    note(r, NOTE_forgotten, run, "", "%s", "");
    while (run->head >= 0)
        node_remove(r, &r->nodes[run->head]);
    rdzv_touch(r, run);
    run->state = RUN_FREE;
}
