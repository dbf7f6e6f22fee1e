/*
 * The ends that a run has because of its rounds: all done, a failure that
 * no restart is left for (or that is the last one of a crash loop), too few
 * nodes for another round. Each fills an `end` message, which is all that the
 * launchers have for their reports, and which is the same for all of them.
 *
 * Whom to blame is known by now: round_end_by_failure tells of the worker that
 * failed first. A node that was lost, and for which none came, is named by
 * round_end_by_timeout, with the exits of its peers as consequences. The texts
 * are cut where they must be; names come first for that reason.
 */
#include "rendezvous/core/inner/round/round_end.h"

#include <signal.h>
#include <stdio.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/cause.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"

/* The bound of messages.def. */
#define AGE_MAX_US (INT64_C(86400000) * MONO_S)

void round_try_done(struct rdzv *r, struct run *run)
{
    if (run->state != RUN_ACTIVE || run->recovery.holes > 0 ||
        run->count[NODE_DONE] + run->round.gone_done < run->round.group_world)
        return;
    struct msg_end end = {
        .status = 0,
        .round = run->round.number,
        .restarts = run->budget.used,
        .rank = -1,
        .local_rank = -1,
    };
    run_end(r, run, &end);
}

/* -- a failure ------------------------------------------------------------- */

static void describe_worker(const struct failure *f, char *text, size_t size)
{
    const struct msg_failed *w = &f->what;
    char how[64], by[CAUSE_SIGNAL_MAX];
    if (w->how == MSG_FAILED_HUNG)
        (void)snprintf(how, sizeof(how), "made no progress");
    else if (w->signal != 0)
        (void)snprintf(how, sizeof(how), /* fits */ "killed by %s",
                       cause_signal(w->signal, by));
    else
        (void)snprintf(how, sizeof(how), "exit code %d", (int)w->code);
    (void)snprintf(text, /* a cut text is still a text */
                   size, "rank %lld on %s failed (%s)", (long long)w->rank,
                   f->node, how);
}

/* "restarts used: 1 of 3", "restarts used in the last 90 s: 2 of 2" */
static void
describe_restarts(const struct rdzv *r, const struct budget *b, char text[120])
{
    if (b->window_us == 0)
        (void)snprintf(text, 120, "restarts used: %d of %d", b->used, b->max);
    else
        (void)snprintf(text, 120, "restarts used in the last %.12g s: %d of %d",
                       (double)b->window_us / (double)MONO_S,
                       budget_counting(b, r->now_us), b->max);
}

/* How the round's workers ended, but for the first failure, if there is
 * one: the report knows that one by its rank. */
static void fill_ends(const struct run *run,
                      const struct msg_failed *root,
                      struct msg_end *end)
{
    struct exits_counts ends = run->report.ends;
    bool ran = root != NULL && root->pid > 0;
    if (ran && root->how == MSG_FAILED_HUNG) /* its launcher ended it */
        exits_uncount(&ends, ends.by_term > 0 ? SIGTERM : SIGKILL);
    else if (ran)
        exits_uncount(&ends, root->signal);
    exits_print_counts(&ends, end->counts);
    msg_set(end->ends, run->report.exits_list);
    msg_set(end->stopped, run->report.stopped_list);
}

/* So old, within the bounds of the message. */
static int64_t age_of(const struct rdzv *r, int64_t at_us)
{
    int64_t age_us = r->now_us - at_us;
    return age_us < 0 ? 0 : mono_min(age_us, AGE_MAX_US);
}

void round_end_by_failure(struct rdzv *r, struct run *run, bool loop)
{
    const struct msg_failed *w = &run->report.root.what;
    struct msg_end end = {
        .status = w->signal != 0 ? 128 + w->signal : w->code,
        .round = run->round.number,
        .restarts = run->budget.used,
        .rank = w->rank,
        .local_rank = w->local_rank,
        .pid = w->pid,
        .code = w->code,
        .signal = w->signal,
        .how = w->how,
        .age_us = age_of(r, run->report.root.at_us),
    };
    const char *apart = run->report.apart;
    char text[200], used[120], why[80] = "";
    char error[2 * sizeof(w->text) + 2];
    fill_ends(run, w, &end);
    describe_worker(&run->report.root, text, sizeof(text));
    describe_restarts(r, &run->budget, used);
    if (loop) {
        end.status = ddp_code_exit(DDP_E_CRASHLOOP);
        end.crash_loop = run->budget.no_progress;
        (void)snprintf(why, /* fits */ sizeof(why),
                       "crash loop, %d round%s in a row without progress; ",
                       run->budget.no_progress,
                       run->budget.no_progress == 1 ? "" : "s");
    }
    (void)snprintf(end.text, /* fits: 200 + 80 + 120 */
                   sizeof(end.text), "%s; %s%s", text, why, used);
    msg_set(end.node, run->report.root.node);
    bool hung = w->how == MSG_FAILED_HUNG;
    const char *first = hung ? w->text : apart; /* it begins with the cause */
    const char *then = hung ? apart : w->text;
    (void)snprintf(error, sizeof(error), "%s%s%s", first, /* fits */
                   first[0] != '\0' && then[0] != '\0' ? "; " : "", then);
    msg_set(end.error, error); /* may be cut */
    msg_set(end.tail, w->tail);
    msg_set(end.trace, w->trace);
    run_end(r, run, &end);
}

/* -- too few nodes --------------------------------------------------------- */

void round_end_by_timeout(struct rdzv *r, struct run *run)
{
    struct msg_end end = {
        .status = ddp_code_exit(DDP_E_TIMEOUT),
        .round = run->round.number,
        .restarts = run->budget.used,
        .rank = -1,
        .local_rank = -1,
    };
    char names[240], lost[160] = "", text[900];
    const char *refused = run->gather.refused;
    round_list_waiting(r, run, names, sizeof(names));
    if (run->report.loss.node[0] != '\0') {
        (void)snprintf(lost, sizeof(lost), "node %s %s; ",
                       run->report.loss.node, run->report.loss.how); /* fits */
        msg_set(end.lost, run->report.loss.node);
        msg_set(end.lost_how, run->report.loss.how);
        end.age_us = age_of(r, run->report.loss.at_us);
        fill_ends(run, NULL, &end);
    }
    (void)snprintf(text, /* fits */
                   sizeof(text),
                   "%stoo few nodes joined in %lld s (%d of %d)%s%s%s%s", lost,
                   (long long)(run->conf.join_us / MONO_S),
                   run->count[NODE_WAITING] + run->count[NODE_SPARE],
                   run->conf.nodes_min, names[0] != '\0' ? ": " : "", names,
                   refused[0] != '\0' ? "; " : "", refused);
    msg_set(end.text, text); /* may be cut */
    run->end.lapsed = run->head < 0;
    run_end(r, run, &end);
}
