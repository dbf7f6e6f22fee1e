/*
 * core/budget: how many restarts a run may still use. Pure: the caller says
 * what time it is.
 *
 * Without a window, `max` restarts use the budget up for good. With a window
 * the budget is used up while `max` restarts lie within the window, and comes
 * back as restarts leave the window; the count of restarts then goes on beyond
 * `max`.
 *
 * Beside it there is the crash loop (off by default): the last K rounds all
 * failed before any worker made progress.
 *
 * Both counts are told to the nodes and, by them, to the next server. They stop
 * at BUDGET_COUNT_MAX, which is the most that those messages can say.
 */
#ifndef RENDEZVOUS_CORE_BUDGET_H
#define RENDEZVOUS_CORE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_WINDOW_MAX 64 /* the most restarts of a budget with a window */
#define BUDGET_COUNT_MAX  1000000 /* messages.def: restarts, no_progress */

struct budget {
    int max;
    int64_t window_us; /* 0: there is none */
    int crash_loop;    /* K; 0: off */

    int used;        /* since the run began, or BUDGET_COUNT_MAX */
    int no_progress; /* rounds in a row that failed without progress, or that */
    /* With a window: when the newest restarts were charged, a ring. */
    int head, len; /* 0 <= len <= max <= BUDGET_WINDOW_MAX */
    int64_t at_us[BUDGET_WINDOW_MAX];
};

/* `max` is cut to BUDGET_WINDOW_MAX if there is a window. */
void budget_init(struct budget *b, int max, int64_t window_us, int crash_loop);

/* Uses one restart. False: none is left, and nothing has changed. */
bool budget_charge(struct budget *b, int64_t now_us);

/* How many of those charged count against the budget now. */
int budget_counting(const struct budget *b, int64_t now_us);

/*
 * What is known of the budget that a server before us kept: `used` restarts
 * since the run began, of which `counting` were within the window at `at_us`;
 * when they were charged is not known: at `at_us` at the latest, so from then
 * they count. If one more was charged than whoever tells knows of, that one
 * counts from now on; whoever knows of fewer is not believed.
 */
void budget_restore(
    struct budget *b, int used, int counting, int64_t at_us, int64_t now_us);

/*
 * The same of the rounds in a row that failed without progress. That alone
 * ends no run: the next one that fails may.
 */
void budget_restore_no_progress(struct budget *b, int no_progress);

/*
 * A round is over. Returns true if it was the last one of a crash loop.
 * `failed`: by the failure of a worker; `progressed`: some worker of it had
 * made progress.
 */
bool budget_round_over(struct budget *b, bool failed, bool progressed);

#endif
