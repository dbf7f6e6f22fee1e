#include "worker_rt/snapshot/ranges.h"

#include <stdio.h>
#include <string.h>

#include "worker_rt/rt.h"

/* -- what is asked for ----------------------------------------------------- */

int ranges_count(const struct image_range *ranges,
                 size_t n,
                 uint64_t *bytes,
                 struct ddp_err *err)
{
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const struct image_range *r = &ranges[i];
        bool rises = i == 0 || r->tensor > ranges[i - 1].tensor;
        if (!rises || r->begin >= r->end ||
            r->end - r->begin > (uint64_t)INT64_MAX - *bytes)
            return ddp_err_set(err, DDP_E_PROTO,
                               "another rank asks for bytes %llu to %llu of "
                               "tensor %llu, which makes no sense",
                               (unsigned long long)r->begin,
                               (unsigned long long)r->end,
                               (unsigned long long)r->tensor);
        *bytes += r->end - r->begin;
    }
    return 0;
}

int ranges_check(const struct image_range *ranges,
                 size_t n,
                 const struct safetensors *header,
                 struct ddp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct image_range *r = &ranges[i];
        if (r->tensor < header->ntensors &&
            r->end <= header->tensors[r->tensor].end -
                          header->tensors[r->tensor].begin)
            continue;
        return ddp_err_set(err, DDP_E_PROTO,
                           "another rank asks for bytes up to %llu of tensor "
                           "%llu, which are not there",
                           (unsigned long long)r->end,
                           (unsigned long long)r->tensor);
    }
    return 0;
}

/* -- the answer ------------------------------------------------------------ */

static void sum_up(const struct ranges_part *p, size_t n, uint64_t sum[2])
{
    const size_t begin = offsetof(struct ranges_part, why);
    XXH128_hash_t h = XXH3_128bits_withSeed(
        (const uint8_t *)p + begin, sizeof(*p) - begin + n, (uint64_t)p->whole);
    sum[0] = h.high64;
    sum[1] = h.low64;
}

void ranges_seal(struct ranges_part *p, size_t n, const struct ddp_err *why)
{
    p->whole = why == NULL;
    memset(p->why, 0, sizeof(p->why));
    if (why != NULL)
        (void)snprintf(p->why, sizeof(p->why), "%.231s", why->text);
    sum_up(p, n, p->sum);
}

int ranges_open(const struct ranges_part *p, size_t n, struct ddp_err *err)
{
    uint64_t sum[2];
    char why[sizeof(p->why)];
    sum_up(p, n, sum);
    if (memcmp(sum, p->sum, sizeof(sum)) != 0)
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "what was sent of it has a wrong checksum");
    if (p->whole == 1)
        return 0;
    memcpy(why, p->why, sizeof(why));
    rt_make_line(why, sizeof(why));
    return ddp_err_set(err, DDP_E_CORRUPT, "%s", why);
}
