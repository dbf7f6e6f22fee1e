/*
 * worker_rt/sampler: an epoch is a permutation; rank r of W takes what stands
 * at start + r, start + r + W, ... of it, where `start` is the position that
 * the epoch was entered at. Behind the last sample it wraps around.
 *
 * The permutation is part of what a snapshot means (its position points into
 * it), so the generator below never changes.
 */
#include <stdlib.h>

#include "worker_rt/abi.h"
#include "worker_rt/rt.h"

struct ddp_sampler {
    struct ddp_sampler_conf conf;
    int64_t epoch;
    uint64_t start; /* where the epoch was entered */
    uint64_t taken; /* by this rank since */
    uint64_t share; /* of this rank, from `start` on */
    uint32_t *order;
};

/* Evenly in [0, below), without the modulo's bias. */
static uint32_t even(struct rng *r, uint32_t below)
{
    ddp_assert(below > 0);
    uint64_t limit = UINT64_MAX - UINT64_MAX % below;
    uint64_t n;
    do
        n = rng_next(r);
    while (n >= limit);
    return (uint32_t)(n % below);
}

static void shuffle(struct ddp_sampler *s)
{
    uint32_t n = (uint32_t)s->conf.samples;
    for (uint32_t i = 0; i < n; i++)
        s->order[i] = i;
    if (!s->conf.shuffle)
        return;
    /* The seed passes through the generator before the epoch joins it, so that
     * (seed 1, epoch 2) and (seed 2, epoch 1) have nothing in common. */
    struct rng r;
    rng_init(&r, s->conf.seed);
    rng_init(&r, rng_next(&r) ^ (uint64_t)s->epoch);
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = even(&r, i + 1);
        uint32_t kept = s->order[i];
        s->order[i] = s->order[j];
        s->order[j] = kept;
    }
}

static void enter(struct ddp_sampler *s, int64_t epoch, uint64_t start)
{
    uint64_t world = (uint64_t)s->conf.world;
    uint64_t left = start < s->conf.samples ? s->conf.samples - start : 0;
    if (epoch != s->epoch) {
        s->epoch = epoch;
        shuffle(s);
    }
    s->start = start;
    s->taken = 0;
    s->share = s->conf.drop_last ? left / world : (left + world - 1) / world;
}

struct ddp_sampler *ddp_sampler_new(const struct ddp_sampler_conf *given,
                                    struct ddp_error *err)
{
    struct ddp_err why;
    struct ddp_sampler_conf full;
    const struct ddp_sampler_conf *conf = &full;
    if (abi_take(&full, sizeof(full), given, ABI_SAMPLER_CONF_MIN, &why) != 0) {
        (void)rt_fail(err, &why);
        return NULL;
    }
    if (conf->samples < 1 || conf->samples > UINT32_MAX || conf->world < 1 ||
        conf->rank < 0 || conf->rank >= conf->world) {
        (void)ddp_err_set(&why, DDP_E_USAGE,
                          "a sampler needs 1 to 4294967295 samples and a rank "
                          "below the world size: samples is %llu, rank is %d, "
                          "world is %d",
                          (unsigned long long)conf->samples, conf->rank,
                          conf->world);
        (void)rt_fail(err, &why);
        return NULL;
    }
    struct ddp_sampler *s = calloc(1, sizeof(*s));
    uint32_t *order = calloc((size_t)conf->samples, sizeof(*order));
    if (s == NULL || order == NULL) {
        free(s);
        free(order);
        (void)ddp_err_set(
            &why, DDP_E_NOMEM, "no memory for the order of %llu sample%s",
            (unsigned long long)conf->samples, conf->samples == 1 ? "" : "s");
        (void)rt_fail(err, &why);
        return NULL;
    }
    s->conf = *conf;
    s->order = order;
    s->epoch = -1;
    enter(s, 0, 0);
    return s;
}

void ddp_sampler_free(struct ddp_sampler *s)
{
    if (s == NULL)
        return;
    free(s->order);
    free(s);
}

int ddp_sampler_seek(struct ddp_sampler *s,
                     int64_t epoch,
                     int64_t position,
                     struct ddp_error *err)
{
    if (epoch >= 0 && position >= 0) {
        enter(s, epoch, (uint64_t)position);
        return 0;
    }
    struct ddp_err why;
    (void)ddp_err_set(&why, DDP_E_USAGE,
                      "position %lld of epoch %lld: neither may be negative",
                      (long long)position, (long long)epoch);
    return rt_fail(err, &why);
}

size_t ddp_sampler_next(struct ddp_sampler *s, uint32_t *indices, size_t max)
{
    uint64_t world = (uint64_t)s->conf.world;
    uint64_t at = s->start + s->taken * world + (uint64_t)s->conf.rank;
    size_t n = 0;
    ddp_assert(s->taken <= s->share);
    for (; n < max && s->taken < s->share; n++) {
        indices[n] = s->order[at % s->conf.samples];
        at += world;
        s->taken++;
    }
    return n;
}

int64_t ddp_sampler_epoch(const struct ddp_sampler *s)
{
    return s->epoch;
}

int64_t ddp_sampler_position(const struct ddp_sampler *s)
{
    return (int64_t)(s->start + s->taken * (uint64_t)s->conf.world);
}

uint64_t ddp_sampler_left(const struct ddp_sampler *s)
{
    return s->share - s->taken;
}
