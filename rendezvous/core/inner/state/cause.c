/*
 * One failure brings others: peers lose their connections, then time out. The
 * report is to name the first. Nodes report by age, not by clock, and messages
 * may come in any order; failures that are close together are weighed by what
 * they are, others go by their age.
 */
#include "rendezvous/core/inner/state/cause.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/signals_name.h"
#include "rendezvous/core/inner/state/rdzv_state.h"

/* Failures closer than this are weighed. */
#define SAME_TIME_US (200 * MONO_MS)

/*
 * Failures that came about at the same time are weighed, not only timed: a
 * killed process's connections break before its end can be seen, so that a
 * peer which saw that may well have ended first, and says so by status 77
 * (DDP_E_PEER); and nobody ends by these signals as a consequence.
 */
static int weight(const struct msg_failed *f)
{
    if (f->signal == 0)
        return f->code == ddp_code_exit(DDP_E_PEER) ? 0 : 1;
    bool never_a_consequence = f->signal == SIGKILL || f->signal == SIGSEGV ||
                               f->signal == SIGBUS || f->signal == SIGILL ||
                               f->signal == SIGFPE;
    return never_a_consequence ? 2 : 1;
}

/* Whether `f`, of `at_us`, is a better root cause than what is known. */
static bool is_deeper(const struct failure *known,
                      const struct msg_failed *f,
                      int64_t at_us)
{
    int more = weight(f) - weight(&known->what);
    int64_t apart_us = at_us - known->at_us;
    if (apart_us < 0)
        apart_us = -apart_us;
    if (more != 0 && apart_us <= SAME_TIME_US)
        return more > 0;
    return at_us < known->at_us;
}

bool cause_is_consequence(const struct msg_failed *f)
{
    return f->how != MSG_FAILED_HUNG && weight(f) == 0;
}

bool cause_take(struct rdzv *r,
                struct run *run,
                const struct node *n,
                const struct msg_failed *f)
{
    int64_t at_us = r->now_us - f->age_us;
    struct failure *root = &run->report.root;
    bool known = root->round > 0;
    if (known && !is_deeper(root, f, at_us))
        return false;
    bool explains =
        known && cause_is_consequence(&root->what) && !cause_is_consequence(f);
    root->at_us = at_us;
    root->what = *f;
    root->round = run->round.number;
    msg_set(root->node, n->name);
    msg_set(root->agent, n->agent);
    run->report.last = *root;
    return explains;
}

const char *cause_signal(int64_t signo, char text[CAUSE_SIGNAL_MAX])
{
    (void)snprintf(text, /* fits */ CAUSE_SIGNAL_MAX, "signal %d (%s)",
                   (int)signo, signals_name((int)signo));
    return text;
}

void cause_describe(const struct node *n,
                    const struct msg_failed *f,
                    char *why,
                    size_t size)
{
    char by[CAUSE_SIGNAL_MAX];
    if (f->how == MSG_FAILED_HUNG)
        (void)snprintf(why, size, "rank %lld on %s made no progress",
                       (long long)f->rank, n->name);
    else if (f->signal != 0)
        (void)snprintf(why, size, "rank %lld on %s was killed by %s",
                       (long long)f->rank, n->name,
                       cause_signal(f->signal, by));
    else if (cause_is_consequence(f))
        (void)snprintf(why, size,
                       "rank %lld on %s lost a peer (exit code %lld); which "
                       "one, and why, is not known yet",
                       (long long)f->rank, n->name, (long long)f->code);
    else
        (void)snprintf(why, size, "rank %lld on %s ended with exit code %lld",
                       (long long)f->rank, n->name, (long long)f->code);
}
