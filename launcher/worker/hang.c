#include "launcher/worker/hang.h"

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"

#define LOOKS_PER_LIMIT 20
#define LOOK_FASTEST_US (50 * MONO_MS)
#define LOOK_SLOWEST_US (5 * MONO_S)

void hang_init(struct hang *h,
               const struct hang_limits *limits,
               struct hang_worker *workers,
               int n)
{
    *h = (struct hang){
        .limits = *limits,
        .workers = workers,
        .n = n,
        .paused_us = MONO_NEVER,
    };
    for (int i = 0; i < n; i++)
        workers[i].alive = false;
}

bool hang_watches(const struct hang *h)
{
    return h->limits.beat_us != MONO_NEVER || h->limits.idle_us != MONO_NEVER;
}

/* While paused the clock stands: hang_pause adds the pause at its end. */
static int64_t clock_of(const struct hang *h, int64_t now_us)
{
    return h->paused_us != MONO_NEVER ? h->paused_us : now_us;
}

void hang_started(struct hang *h, int local_rank, int64_t now_us)
{
    ddp_assert(local_rank >= 0 && local_rank < h->n);
    now_us = clock_of(h, now_us);
    h->workers[local_rank] = (struct hang_worker){
        .alive = true,
        .seen = {.step = -1},
        .moved_us = now_us,
        .beaten_us = now_us,
    };
}

void hang_ended(struct hang *h, int local_rank)
{
    ddp_assert(local_rank >= 0 && local_rank < h->n);
    h->workers[local_rank].alive = false;
}

void hang_forgive(struct hang *h, int64_t us, int64_t now_us)
{
    if (h->paused_us != MONO_NEVER)
        return; /* no time goes by */
    for (int i = 0; i < h->n; i++) {
        struct hang_worker *w = &h->workers[i];
        w->moved_us = mono_min(w->moved_us + us, now_us);
        w->beaten_us = mono_min(w->beaten_us + us, now_us);
    }
}

void hang_anew(struct hang *h, int64_t now_us)
{
    now_us = clock_of(h, now_us);
    for (int i = 0; i < h->n; i++) {
        struct hang_worker *w = &h->workers[i];
        if (!w->anew)
            w->moved_us = now_us;
        w->anew = true;
    }
}

void hang_pause(struct hang *h, bool paused, int64_t now_us)
{
    if (paused == (h->paused_us != MONO_NEVER))
        return;
    if (paused) {
        h->paused_us = now_us;
        return;
    }
    int64_t lost_us = now_us - h->paused_us;
    h->paused_us = MONO_NEVER;
    hang_forgive(h, lost_us, now_us);
    hang_anew(h, now_us);
}

void hang_see(struct hang *h,
              int local_rank,
              const struct hang_sample *sample,
              int64_t now_us)
{
    ddp_assert(local_rank >= 0 && local_rank < h->n);
    struct hang_worker *w = &h->workers[local_rank];
    const struct hang_sample *old = &w->seen;
    now_us = clock_of(h, now_us);
    bool beaten = sample->written != old->written || sample->step != old->step;
    bool moved = beaten || sample->output != old->output ||
                 (h->limits.cpu_counts && sample->cpu != old->cpu);
    if (beaten)
        w->beaten_us = now_us;
    if (moved) {
        w->moved_us = now_us;
        w->anew = false;
    }
    w->beats |= sample->step >= 0;
    w->seen = *sample;
}

static bool hangs(const struct hang *h,
                  const struct hang_worker *w,
                  int64_t now_us,
                  struct hang_verdict *v)
{
    v->step = w->seen.step;
    v->beat = w->beats && now_us >= mono_after(w->beaten_us, h->limits.beat_us);
    v->silent_us = now_us - (v->beat ? w->beaten_us : w->moved_us);
    return w->alive &&
           (v->beat || now_us >= mono_after(w->moved_us, h->limits.idle_us));
}

static bool is_worse(const struct hang_verdict *a, const struct hang_verdict *b)
{
    if (a->step != b->step)
        return a->step < b->step;
    return a->silent_us > b->silent_us;
}

bool hang_find(const struct hang *h, int64_t now_us, struct hang_verdict *out)
{
    bool found = false;
    if (h->paused_us != MONO_NEVER)
        return false;
    for (int i = 0; i < h->n; i++) {
        struct hang_verdict v = {.local_rank = i};
        if (!hangs(h, &h->workers[i], now_us, &v))
            continue;
        if (!found || is_worse(&v, out))
            *out = v;
        found = true;
    }
    return found;
}

int64_t hang_every_us(const struct hang *h)
{
    int64_t us =
        mono_min(h->limits.beat_us, h->limits.idle_us) / LOOKS_PER_LIMIT;
    if (us < LOOK_FASTEST_US)
        return LOOK_FASTEST_US;
    return mono_min(us, LOOK_SLOWEST_US);
}
