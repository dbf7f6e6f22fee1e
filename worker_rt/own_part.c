#include "worker_rt/own_part.h"

#define CUT 4 /* of the shortest and of the longest */

_Static_assert(OWN_PART_STEPS > 2 * CUT && OWN_PART_KEPT >= OWN_PART_STEPS,
               "some are left");

struct own_part *own_part_here(void)
{
    static _Thread_local struct own_part here;
    return &here;
}

void own_part_step(struct own_part *o, int64_t step, int64_t now_us)
{
    bool begun = o->began_us != 0;
    if (begun && step == o->step)
        return;
    if (!begun || step < o->step) {
        o->n = 0;
    } else {
        int64_t us = now_us - o->began_us - o->waited_us;
        o->parts_us[o->n++ % OWN_PART_KEPT] =
            us > 0 ? us / (step - o->step) : 0;
    }
    o->step = step;
    o->began_us = now_us;
    o->waited_us = 0;
}

static void sort(int64_t *x, int n)
{
    for (int i = 1; i < n; i++) {
        int64_t us = x[i];
        int at = i;
        for (; at > 0 && x[at - 1] > us; at--)
            x[at] = x[at - 1];
        x[at] = us;
    }
}

/* The part that was added so many before the last. */
static int64_t part_before(const struct own_part *o, int64_t n)
{
    return o->parts_us[(o->n - 1 - n) % OWN_PART_KEPT];
}

/* The standard deviation of normal noise, by the median of what neighbours
 * differ by, which is 0.95 of that. */
static int64_t noise_of(const struct own_part *o)
{
    int64_t x[OWN_PART_KEPT];
    int n = (o->n < OWN_PART_KEPT ? (int)o->n : OWN_PART_KEPT) - 1;
    for (int i = 0; i < n; i++) {
        int64_t us = part_before(o, i) - part_before(o, i + 1);
        x[i] = us < 0 ? -us : us;
    }
    sort(x, n);
    return x[n / 2] * 21 / 20;
}

bool own_part_usual(const struct own_part *o,
                    int64_t *mean_us,
                    int64_t *noise_us)
{
    int64_t x[OWN_PART_STEPS], sum = 0;
    if (o->n < OWN_PART_STEPS)
        return false;
    for (int i = 0; i < OWN_PART_STEPS; i++)
        x[i] = part_before(o, i);
    sort(x, OWN_PART_STEPS);
    for (int i = CUT; i < OWN_PART_STEPS - CUT; i++)
        sum += x[i];
    *mean_us = sum / (OWN_PART_STEPS - 2 * CUT);
    *noise_us = noise_of(o);
    return true;
}
