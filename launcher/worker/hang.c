/*
 * The times of a worker are readings of the clock of hang.h, not of the day, so
 * that a pause needs no correction of each of them. One thing must be corrected
 * all the same: when the clock stood, a worker may be about to move, and has
 * had no time to. Its silence begins anew then (begin_anew), but only once
 * until it moves: a console that stops again and again would else hide a worker
 * that hangs for ever.
 *
 * Beats are never begun anew: a worker that waits for a console does not beat,
 * but the clock stands meanwhile, too.
 */
#include "launcher/worker/hang.h"

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define LOOKS_PER_LIMIT 20
#define LOOK_FASTEST_US (50 * MONO_MS)
#define LOOK_SLOWEST_US (5 * MONO_S)
#define SLOWER          10 /* HANG_SLOW: so many seconds count as one */

void hang_init(struct hang *h,
               const struct hang_limits *limits,
               struct hang_worker *workers,
               int n)
{
    ddp_assert(n >= 1 && limits->beat_us > 0 && limits->idle_us > 0);
    *h = (struct hang){.limits = *limits, .workers = workers, .n = n};
    for (int i = 0; i < n; i++)
        workers[i].alive = false;
}

static struct hang_worker *worker_of(struct hang *h, int local_rank)
{
    ddp_assert(local_rank >= 0 && local_rank < h->n);
    return &h->workers[local_rank];
}

void hang_started(struct hang *h, int local_rank)
{
    *worker_of(h, local_rank) = (struct hang_worker){
        .alive = true,
        .seen = {.step = -1},
        .moved_us = h->clock_us,
        .beaten_us = h->clock_us,
    };
}

void hang_ended(struct hang *h, int local_rank)
{
    worker_of(h, local_rank)->alive = false;
}

void hang_pass(struct hang *h, int64_t us, enum hang_pace pace)
{
    ddp_assert(us >= 0);
    bool stood = h->stood;
    h->stood = pace == HANG_STANDS;
    if (pace == HANG_STANDS)
        return;
    if (stood) {
        for (int i = 0; i < h->n; i++) {
            struct hang_worker *w = &h->workers[i];
            if (!w->anew)
                w->moved_us = h->clock_us;
            w->anew = true;
        }
    }
    h->clock_us += pace == HANG_SLOW ? us / SLOWER : us;
}

bool hang_see(struct hang *h, int local_rank, const struct hang_sample *sample)
{
    struct hang_worker *w = worker_of(h, local_rank);
    const struct hang_sample *old = &w->seen;
    ddp_assert(w->alive && sample->step >= -1);
    bool beaten = sample->written != old->written || sample->step != old->step;
    bool moved = beaten || sample->output != old->output;
    if (beaten)
        w->beaten_us = h->clock_us;
    if (moved) {
        w->moved_us = h->clock_us;
        w->anew = false;
    }
    w->beats |= sample->step >= 0;
    w->seen = *sample;
    return moved;
}

static bool
hangs(const struct hang *h, const struct hang_worker *w, struct hang_verdict *v)
{
    int64_t now_us = h->clock_us;
    ddp_assert(w->moved_us <= now_us && w->beaten_us <= now_us);
    v->step = w->seen.step;
    v->beat = w->beats && now_us >= mono_after(w->beaten_us, h->limits.beat_us);
    v->silent_us = now_us - (v->beat ? w->beaten_us : w->moved_us);
    return v->beat || now_us >= mono_after(w->moved_us, h->limits.idle_us);
}

static bool is_worse(const struct hang_verdict *a, const struct hang_verdict *b)
{
    if (a->step != b->step)
        return a->step < b->step;
    return a->silent_us > b->silent_us;
}

bool hang_find(const struct hang *h, struct hang_verdict *out)
{
    bool found = false;
    for (int i = 0; i < h->n; i++) {
        struct hang_verdict v = {.local_rank = i};
        if (!h->workers[i].alive || !hangs(h, &h->workers[i], &v))
            continue;
        if (!found || is_worse(&v, out))
            *out = v;
        found = true;
    }
    return found;
}

void hang_worst(const struct hang *h, struct hang_verdict *out)
{
    struct hang_verdict v;
    bool found = false;
    for (int i = 0; i < h->n; i++) {
        if (!h->workers[i].alive)
            continue;
        hang_describe(h, i, &v);
        if (!found || is_worse(&v, out))
            *out = v;
        found = true;
    }
    ddp_assert(found);
}

void hang_describe(const struct hang *h,
                   int local_rank,
                   struct hang_verdict *out)
{
    ddp_assert(local_rank >= 0 && local_rank < h->n &&
               h->workers[local_rank].alive);
    *out = (struct hang_verdict){.local_rank = local_rank};
    (void)hangs(h, &h->workers[local_rank], out);
}

int64_t hang_every_us(const struct hang *h)
{
    int64_t us =
        mono_min(h->limits.beat_us, h->limits.idle_us) / LOOKS_PER_LIMIT;
    if (us < LOOK_FASTEST_US)
        return LOOK_FASTEST_US;
    return mono_min(us, LOOK_SLOWEST_US);
}
