/*
 * A window needs the time of each restart, not their number: a ring of the last
 * ones, the oldest at `head`. Without a window only `used` counts.
 *
 * Nothing is forgotten before the next charge (slide), so that to ask how many
 * count (status pages do, at any time) changes nothing.
 *
 * After the loss of the server both counts come from the nodes
 * (budget_restore). A node can only raise them: one that was away for a while
 * knows less, and a run must not get restarts back by losing its server. The
 * rounds without progress stop one short of the limit, since what ends a run
 * for good is to be seen by this server, not only told.
 */
#include "rendezvous/core/budget.h"

#include "rendezvous/base/err.h"

void budget_init(struct budget *b, int max, int64_t window_us, int crash_loop)
{
    ddp_assert(max >= 0 && window_us >= 0 && crash_loop >= 0);
    *b = (struct budget){
        .max = max, .window_us = window_us, .crash_loop = crash_loop};
    if (window_us > 0 && max > BUDGET_WINDOW_MAX)
        b->max = BUDGET_WINDOW_MAX;
}

/* A node that lies, or one that lives long enough, brings it to the limit. */
static void count_one(int *count)
{
    if (*count < BUDGET_COUNT_MAX)
        (*count)++;
}

static int slot(const struct budget *b, int i)
{
    return (b->head + i) % BUDGET_WINDOW_MAX;
}

int budget_counting(const struct budget *b, int64_t now_us)
{
    if (b->window_us == 0)
        return b->used;
    int past = 0;
    while (past < b->len && now_us - b->at_us[slot(b, past)] >= b->window_us)
        past++;
    return b->len - past;
}

/* Forgets what has left the window. */
static void slide(struct budget *b, int64_t now_us)
{
    int counting = budget_counting(b, now_us);
    b->head = slot(b, b->len - counting);
    b->len = counting;
}

static void add(struct budget *b, int64_t at_us)
{
    ddp_assert(b->len < b->max && b->max <= BUDGET_WINDOW_MAX);
    b->at_us[slot(b, b->len)] = at_us;
    b->len++;
}

bool budget_charge(struct budget *b, int64_t now_us)
{
    if (b->window_us > 0)
        slide(b, now_us);
    if (budget_counting(b, now_us) >= b->max)
        return false;
    if (b->window_us > 0)
        add(b, now_us);
    count_one(&b->used);
    return true;
}

static void add_each(struct budget *b, int n, int64_t at_us)
{
    while (n-- > 0 && b->len < b->max)
        add(b, at_us);
}

void budget_restore(
    struct budget *b, int used, int counting, int64_t at_us, int64_t now_us)
{
    int later = b->used > used ? b->used - used : 0;
    bool more = used > b->used;
    if (more)
        b->used = used < BUDGET_COUNT_MAX ? used : BUDGET_COUNT_MAX;
    if (more && b->window_us == 0 && b->used > b->max)
        b->used = b->max;
    if (b->window_us == 0 ||
        (!more && (later > 1 || counting + later <= b->len)))
        return;
    b->head = b->len = 0;
    add_each(b, counting, at_us);
    add_each(b, later, now_us);
}

void budget_restore_no_progress(struct budget *b, int no_progress)
{
    if (no_progress >= b->crash_loop)
        no_progress = b->crash_loop - 1;
    if (no_progress > b->no_progress)
        b->no_progress = no_progress;
}

bool budget_round_over(struct budget *b, bool failed, bool progressed)
{
    if (!failed || progressed)
        b->no_progress = 0;
    else
        count_one(&b->no_progress);
    return b->crash_loop > 0 && b->no_progress >= b->crash_loop;
}
